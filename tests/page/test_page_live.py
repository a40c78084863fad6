"""The live page in a real browser: what it shows, and that it goes on showing it."""

from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.daemon.process import daemon
from tests.page.page_rig import api, config, seed, shown, start


def test_it_loads_and_complains_of_nothing(browser: Browser, url: str) -> None:
    """The page says that it is live, of which version, and that nothing needs a look; the console is empty."""
    with shown(browser, url) as seen:
        expect(seen.page.locator("#connection")).to_contain_text("live")
        expect(seen.page.locator("#daemon")).to_contain_text("version")
        expect(seen.page.get_by_role("heading", name="sim")).to_be_visible()
        expect(seen.page.locator("#backends")).to_contain_text("requests/min")


def test_a_new_run_comes_by_itself(browser: Browser, url: str) -> None:
    """A run that is started while the page is open appears with its end, in rows that stay the same elements."""
    with shown(browser, url) as seen:
        start(url, "hello", "by-itself-1")
        first = seen.page.get_by_role("row").filter(has_text="by-itself-1")
        expect(first).to_contain_text("completed")
        first.get_by_role("link").focus()
        first.evaluate("row => { row.marked = 1; }")
        start(url, "hello", "by-itself-2")
        expect(seen.page.get_by_role("row").filter(has_text="by-itself-2")).to_contain_text("completed")
        assert first.evaluate("row => row.marked === 1 && row.contains(document.activeElement)")


def test_ten_thousand_runs_are_paged(browser: Browser, tmp_path: Path) -> None:
    """Of 10,000 runs fifty are shown at a time; older ones, newer ones and a tenant's are asked for."""
    seed(tmp_path / "data", 10_000)
    with daemon(tmp_path, config()) as (_, url), shown(browser, url) as seen:
        page = seen.page
        rows = page.locator("#runs-table tbody tr")
        place = page.locator("#runs-place")
        expect(place).to_have_text("1 to 50 of 10,000")
        expect(rows).to_have_count(50)
        expect(rows.first).to_contain_text("old-09999")
        page.get_by_role("button", name="Older").click()
        expect(place).to_have_text("51 to 100 of 10,000")
        expect(rows.first).to_contain_text("old-09949")
        page.get_by_role("button", name="Newer").click()
        expect(rows.first).to_contain_text("old-09999")
        page.get_by_label("Tenant", exact=True).fill("tenant-3")
        page.get_by_role("button", name="Show").click()
        expect(place).to_have_text("1 to 50 of 1,429")
        expect(rows.filter(has_text="tenant-3")).to_have_count(50)
        page.get_by_label("State").select_option("open")
        expect(page.locator("#runs-none")).to_be_visible()


def test_a_timeline_grows_with_what_the_model_says(browser: Browser, tmp_path: Path) -> None:
    """While an answer comes its words are shown as they come; when it is whole it stands in the timeline."""
    with daemon(tmp_path, config(speed=2.0)) as (_, url), shown(browser, f"{url}/#runs") as seen:
        page = seen.page
        start(url, "long please", "speaker")
        page.get_by_role("link", name="speaker").click()
        expect(page.get_by_role("heading", name="Run speaker")).to_be_focused()
        saying = page.locator("#saying-text")
        expect(saying).to_contain_text("word")
        before = len(saying.inner_text())
        page.wait_for_function("size => document.getElementById('saying-text').textContent.length > size", arg=before)
        line = page.locator("#timeline li")
        expect(line.first).to_contain_text("Created for agent clerk")
        expect(line.last).to_contain_text("Ended: completed")
        expect(line.filter(has_text="the model answered")).to_contain_text("word199")
        expect(saying).to_be_hidden()
        page.get_by_role("link", name="Back to everything").click()
        expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_focused()


def test_it_survives_a_restart_of_the_daemon(browser: Browser, tmp_path: Path) -> None:
    """While there is no daemon the page says so and how old it is; it goes on with the next one, timeline included,
    without being loaded again."""
    with daemon(tmp_path, config()) as (first, url):
        start(url, "send anna", "waits")
        with shown(browser, f"{url}/#run=waits") as seen:
            page = seen.page
            page.evaluate("window.same = true")
            seen.expect("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_CONNECTION_RESET")
            seen.expect("ERR_SOCKET_NOT_CONNECTED", "503", "ERR_EMPTY_RESPONSE")
            expect(page.locator("#timeline li").last).to_contain_text("Waits for nothing but")
            lines = page.locator("#timeline li").count()
            first.kill()
            expect(page.locator("#connection")).to_contain_text("not connected")
            expect(page.locator("#age")).to_contain_text("old")
            with daemon(tmp_path, config(), "--port", url.rpartition(":")[2]):
                expect(page.locator("#connection")).to_contain_text("live")
                (asked,) = api(url, "/api/approvals")["approvals"]
                approve = {"decision": "approved", "digest": asked["digest"]}
                api(url, f"/api/approvals/{asked['id']}/decide", approve)
                expect(page.locator("#timeline li").last).to_contain_text("Ended: completed")
                texts = page.locator("#timeline li").all_inner_texts()
                assert sum("Created for agent" in text for text in texts) == 1
                assert len(texts) > lines
                assert page.evaluate("window.same")


def test_a_hidden_page_lets_go_of_its_streams(browser: Browser, url: str) -> None:
    """A tab that nobody looks at holds no connection, of which a browser has few; it goes on when it is looked at."""
    hide = """yes => {
      Object.defineProperty(document, "visibilityState", { value: yes ? "hidden" : "visible", configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    with shown(browser, url) as seen:
        connection = seen.page.locator("#connection")
        expect(connection).to_contain_text("live")
        seen.page.evaluate(hide, True)
        expect(connection).to_contain_text("paused while nobody looks")
        expect(seen.page.locator("#age")).to_contain_text("old")
        seen.page.evaluate(hide, False)
        expect(connection).to_contain_text("live")
        expect(seen.page.locator("#age")).to_be_empty()
