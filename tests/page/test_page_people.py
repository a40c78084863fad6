"""People at the live page: what they are asked, by mouse and by keyboard, with a key and without."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.daemon.process import daemon, run
from tests.page.page_agents import HTML
from tests.page.page_rig import api, config, shown, start


def asked(page: Page, words: str):
    return page.get_by_role("article").filter(has_text=words)


def test_a_tool_call_is_approved_and_the_run_goes_on(browser: Browser, url: str) -> None:
    """The request shows what would be sent; approved there by name, it is sent, and the log says who it was."""
    with shown(browser, url) as seen:
        page = seen.page
        start(url, "send anna", "letter-1")
        card = asked(page, "letter-1")
        expect(card.get_by_role("heading")).to_have_text("clerk wants to use send")
        expect(card.locator("pre")).to_contain_text('"to": "anna"')
        page.get_by_label("Signed as").fill("Berta")
        card.get_by_role("button", name="Approve").click()
        expect(page.locator("#approvals-said")).to_contain_text("Approved: send (letter-1")
        expect(card).to_be_hidden()
        ended = api(url, "/api/runs/letter-1?wait=20")
        assert (ended["state"], ended["answer"]) == ("completed", "done: sent to anna")
        page.goto(f"{url}/#run=letter-1")
        expect(page.locator("#timeline")).to_contain_text("approved by Berta")


def test_a_call_is_denied_with_a_note(browser: Browser, url: str) -> None:
    """The note is what the model is told."""
    with shown(browser, f"{url}/#approvals") as seen:
        start(url, "send eve", "letter-2")
        card = asked(seen.page, "letter-2")
        card.get_by_label("Note").fill("not to her")
        card.get_by_role("button", name="Deny").click()
        expect(card).to_be_hidden()
        assert "not to her" in api(url, "/api/runs/letter-2?wait=20")["answer"]


@pytest.mark.parametrize("task", ["ask", "free"])
def test_a_question_is_answered(browser: Browser, url: str, task: str) -> None:
    """A question with options is answered by one of them, one without in words, on the run's own view as well."""
    name = f"question-{task}"
    start(url, task, name)
    with shown(browser, f"{url}/#run={name}") as seen:
        card = seen.page.locator("#run-approvals article")
        if task == "ask":
            expect(card.get_by_role("heading")).to_have_text("clerk asks: Which river?")
            card.get_by_role("button", name="Otra").click()
        else:
            card.get_by_label("Your answer").fill("Otra")
            card.get_by_role("button", name="Answer", exact=True).click()
        expect(seen.page.locator("#timeline li").last).to_contain_text("Ended: completed")
        assert api(url, f"/api/runs/{name}")["answer"] == "done: Otra"


def test_the_keyboard_is_enough(browser: Browser, url: str) -> None:
    """From the top of the page Tab leads to a request and Enter approves it; the place of the keyboard stays there."""
    start(url, "send carl", "letter-3")
    with shown(browser, url) as seen:
        page = seen.page
        expect(asked(page, "letter-3")).to_be_visible()
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to what is shown")).to_be_focused()
        page.keyboard.press("Enter")
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.textContent") == "Approve":
                break
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"
        page.keyboard.press("Enter")
        expect(page.locator("#approvals-said")).to_contain_text("letter-3")
        assert page.evaluate("document.activeElement.closest('#approvals') !== null")
        assert api(url, "/api/runs/letter-3?wait=20")["state"] == "completed"


def test_what_a_model_says_is_text(browser: Browser, url: str) -> None:
    """Markup in a run's task, in its answer and in a tool's arguments is shown as it is, and does nothing."""
    start(url, "html please", "markup-1")
    start(url, f"send {HTML}", "markup-2")
    with shown(browser, f"{url}/#run=markup-1") as seen:
        page = seen.page
        expect(page.locator("#timeline")).to_contain_text("onerror")
        expect(page.locator("#timeline")).to_contain_text('<b id="inserted">bold</b>')
        page.goto(f"{url}/#approvals")
        expect(asked(page, "markup-2").locator("pre")).to_contain_text("<script>")
        assert page.locator("#inserted, main img, main script").count() == 0
        assert page.evaluate("window.broken") is None
        asked(page, "markup-2").get_by_role("button", name="Deny").click()


def test_it_asks_for_a_key_where_one_is_needed(browser: Browser, tmp_path: Path) -> None:
    """The page loads without a key and asks for one; a wrong one is asked for again; it is kept in the tab alone."""
    made = run("keys", "add", "acme", "--json", "--data-dir", "data", cwd=tmp_path, url="http://127.0.0.1:9")
    key = next(word for word in made.stdout.replace('"', " ").split() if word.startswith("hr"))
    with daemon(tmp_path, config()) as (_, url), shown(browser, url) as seen:
        page = seen.page
        seen.expect("401")
        dialog = page.get_by_role("dialog")
        expect(dialog.get_by_role("heading")).to_have_text("This daemon asks for a key")
        expect(page.locator("#daemon")).to_be_empty()
        field = dialog.get_by_label("Key", exact=True)
        expect(field).to_be_focused()
        field.fill("wrong")
        page.keyboard.press("Enter")
        expect(dialog).to_contain_text("unknown, revoked or expired")
        field.fill(key)
        page.keyboard.press("Enter")
        expect(page.locator("#connection")).to_contain_text("live")
        start(url, "send anna", "keyed", key)
        asked(page, "keyed").get_by_role("button", name="Approve").click()
        expect(page.locator("#approvals-said")).to_contain_text("keyed")
        assert key not in page.url
        assert page.evaluate("Object.keys(localStorage).length") == 0
        assert page.context.cookies() == []
        page.reload()
        expect(page.locator("#connection")).to_contain_text("live")
        expect(dialog).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_light_and_dark_and_readable(browser: Browser, url: str, scheme: str) -> None:
    """The ground follows what the reader prefers, and every text that is seen has the contrast that AA asks for."""
    with shown(browser, url, color_scheme=scheme, reduced_motion="reduce") as seen:
        expect(seen.page.locator("#connection")).to_contain_text("live")
        ground, poor = seen.page.evaluate(CONTRAST)
        assert (sum(ground) > 384) == (scheme == "light")
        assert poor == []


def test_a_narrow_screen_needs_no_sideways_scrolling(browser: Browser, url: str) -> None:
    """On a screen of 360 pixels only tables scroll sideways, in a frame of their own."""
    with shown(browser, url) as seen:
        seen.page.set_viewport_size({"width": 360, "height": 740})
        expect(seen.page.locator("#connection")).to_contain_text("live")
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 360


CONTRAST = """() => {
  const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
  const linear = (one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const groundOf = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const color = numbers(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((one) => one.nodeType === 3 && one.data.trim());
    if (!own || !node.checkVisibility()) continue;
    const style = getComputedStyle(node);
    const [a, b] = [light(numbers(style.color)), light(groundOf(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push(`${node.tagName} ${node.textContent.slice(0, 40)} ${ratio.toFixed(2)}`);
  }
  return [numbers(getComputedStyle(document.body).backgroundColor).slice(0, 3), poor];
}"""
