"""Everything that a queue can say, in the page: from one that is made up, in place of the daemon's own."""

import time

import msgspec
from msgspec.structs import replace
from playwright.sync_api import Browser, Page, Route, expect

from agents.lifecycle import State
from agents.messages import Usage
from orchestrator.views.queue import BudgetView, CutView, PoolView, QueueView, SilentWorker, ToolWorkView, WaitView
from orchestrator.views.runs import LimitUse, RunPage, RunView
from tests.board.busy import BUSY, many
from tests.page.page_rig import shown


def bad_night() -> QueueView:
    """The board's bad night, with the reasons and the expected ends of waits, and all else that there is to say."""
    openai, local = BUSY.backends
    key_a, key_b, key_c = openai.endpoints
    first, second, *others = openai.tenants
    wait = WaitView(priority="standard", queued=412, held_by="total_tokens/min", oldest=94, next_in=3.2, last_in=310)
    unknown = WaitView(priority="standard", queued=92, held_by="fair_order", oldest=41)
    return replace(
        BUSY,
        now=time.time(),
        backends=(
            replace(
                openai,
                held_by="total_tokens/min",
                held_until=3.2,
                endpoints=(
                    replace(
                        key_a, last_cuts=(CutView(ago=43, before=32, after=16), CutView(ago=90, before=40, after=32))
                    ),
                    key_b,
                    replace(key_c, failing_with="unavailable: 503"),
                ),
                tenants=(replace(first, waits=(wait,)), replace(second, waits=(unknown,)), *others),
                hidden_tenants=7,
            ),
            local,
        ),
        pool=PoolView(workers=2, runs=9, waiting=3, silent=(SilentWorker(worker="w-2", quiet=25),), problem=""),
        approvals=2,
        oldest_approval=421,
        budgets=(
            BudgetView(
                tenant="trial", period="day", amount="dollars", used=5, reserved=0.2, allowed=5, resets_in=7_200
            ),
            BudgetView(tenant="research", period="month", amount="tokens", used=910, reserved=30, allowed=1_000),
            BudgetView(tenant="support-desk", period="day", amount="tokens", used=20, reserved=980, allowed=1_000),
            BudgetView(tenant="nightly", period="total", amount="tokens", used=10, reserved=0, allowed=1_000),
        ),
        tools=(ToolWorkView(tool="fetch", running=3, longest=412, run="run-9"),),
    )


def give(page: Page, queue: QueueView) -> None:
    """The page sees this queue."""
    body = b"data: " + msgspec.json.encode(queue) + b"\n\n"

    def answer(route: Route) -> None:
        route.fulfill(body=body, content_type="text/event-stream")

    page.route("**/api/queue/events*", answer)
    page.reload()


def cells(page: Page, table: str, row: str) -> list[str]:
    found = page.locator(f"#{table}-table tbody tr").filter(has_text=row).first
    return [text.strip() for text in found.locator("th, td").all_inner_texts()]


def test_a_bad_night_is_told_in_one_look(browser: Browser, url: str) -> None:
    """What is wrong stands on top, the worst first, each with its reason and with what can be done."""
    with shown(browser, url) as seen:
        give(seen.page, bad_night())
        notes = seen.page.locator("#attention-list li")
        expect(notes.first).to_contain_text("Problem")
        expect(notes.first).to_contain_text("trial: the budget of this day is used up.")
        expect(notes.first).to_contain_text("It begins anew in 2 h 00 min. Its calls and runs are refused.")
        told = " | ".join(notes.all_inner_texts())
        for words in (
            "openai: endpoint key-c is closed off.",
            "It fails with unavailable: 503. It is tried again in 12 s.",
            "openai: the provider has closed total_tokens/min of key-b.",
            "openai: key-a takes fewer calls at one time.",
            "43 s ago its concurrency was cut from 32 to 16",
            "openai: nightly has 12,345 of 12,856 waiting calls.",
            "openai: a call of nightly has waited for 1 h 05 min.",
            "So have calls of 1 other tenant for over a minute.",
            "research: the budget of this month runs out.",
            "910 used and 30 reserved for what is under way, of 1,000 tokens.",
            "support-desk: the budget of this day is reserved, nearly all of it.",
            "Tool fetch has been at work for 6 min 52 s.",
            "Worker w-2 is silent.",
            "2 requests wait for people.",
            "openai: 12,856 calls wait, of 4 tenants.",
        ):
            assert words in told, words
        assert "nightly: the budget" not in told
        assert seen.page.title().endswith(") Headrace")


def test_each_wait_has_its_reason_and_its_expected_end(browser: Browser, url: str) -> None:
    """Waits stand by priority and tenant; where nobody can know an end there is a dash."""
    with shown(browser, url) as seen:
        give(seen.page, bad_night())
        expect(seen.page.locator("#waits-table tbody tr").first).to_be_visible()
        assert cells(seen.page, "waits", "research") == [
            "standard",
            "research",
            "openai",
            "412",
            "limit total_tokens/min",
            "1 min 34 s",
            "3.2 s",
            "5 min 10 s",
        ]
        support = cells(seen.page, "waits", "support-desk")
        assert support[4:] == ["fair order: others go first", "41 s", "-", "-"]
        assert cells(seen.page, "waits", "trial")[4] == "its tenant's own limit requests/min"
        priorities = seen.page.locator("#waits-table tbody th").all_inner_texts()
        assert priorities == sorted(priorities, reverse=True)


def test_limits_cuts_and_breakers_are_told_in_words(browser: Browser, url: str) -> None:
    """How full a limit is, what others use, until when it is closed, how concurrency was cut, what an endpoint fails
    with: all in text, beside the bars."""
    with shown(browser, url) as seen:
        give(seen.page, bad_night())
        openai = seen.page.locator("#backends article").first
        expect(openai).to_contain_text("held by limit total_tokens/min, looked at again in 3.2 s at the latest")
        for words in (
            "91 %, 6 % by others",
            "closed for 12 s",
            "32 to 16, 43 s ago; 40 to 32, 1 min 30 s ago (2 in all)",
        ):
            expect(openai).to_contain_text(words)
        expect(openai).to_contain_text("closed off: fails with unavailable: 503, tried again in 12 s")
        assert cells(seen.page, "budgets", "trial")[1:] == [
            "this day",
            "dollars",
            "100 % ($5.00, $0.20 reserved)",
            "$5.00",
            "2 h 00 min",
        ]
        assert cells(seen.page, "tools", "fetch") == ["fetch", "3", "6 min 52 s", "run-9"]
        expect(seen.page.locator("#tenants-hidden")).to_contain_text("7 more")


def test_a_queue_that_is_paced_is_no_problem_and_one_that_stands_is(browser: Browser, url: str) -> None:
    """Nothing in flight is well where the next call goes in a moment; where it goes in minutes it is told."""
    first = replace(BUSY.backends[1], in_flight=0, held_by="requests/min")
    with shown(browser, url) as seen:
        notes = seen.page.locator("#attention-list")
        give(seen.page, replace(BUSY, backends=(replace(first, held_until=0.4),)))
        expect(notes).to_contain_text("Nothing needs a look.")
        expect(notes).to_contain_text("local: 9 calls wait, of 1 tenant.")
        give(seen.page, replace(BUSY, backends=(replace(first, held_until=90.0),)))
        expect(notes).to_contain_text("local: nothing goes out.")
        expect(notes).to_contain_text("held by limit requests/min. It is looked at again in 1 min 30 s.")


def test_a_thousand_tenants_are_shown(browser: Browser, url: str) -> None:
    """A crowd is no reason to stand still: the rows are there within a second."""
    with shown(browser, url) as seen:
        give(seen.page, many(1_000))
        expect(seen.page.locator("#tenants-table tbody tr")).to_have_count(1_000)
        expect(seen.page.locator("#waits-table tbody tr")).to_have_count(200)


def test_a_run_has_its_state_its_limits_and_what_it_waits_for(browser: Browser, url: str) -> None:
    """The fullest of its limits is shown in the list, and all of them where the run is looked at."""
    limits = (LimitUse(limit="rounds", used=2, allowed=8), LimitUse(limit="micro_dollars", used=47_000, allowed=50_000))
    view = RunView(
        run="run-9",
        agent="clerk",
        model="small",
        tenant="acme",
        job="",
        priority="standard",
        state=State.WAITING_MODEL,
        observed="running",
        reason=None,
        created=time.time() - 75,
        started=time.time() - 75,
        ended=None,
        rounds=2,
        tool_calls=0,
        usage=Usage(input=900, output=100),
        micro_dollars=47_000,
        message="",
        limits=limits,
        waits_for="fair_order",
    )
    page_of_runs = RunPage(runs=(view,), next="", total=1, states={})
    with shown(browser, url) as seen:
        seen.page.route(
            "**/api/runs?*",
            lambda route: route.fulfill(body=msgspec.json.encode(page_of_runs), content_type="application/json"),
        )
        seen.page.reload()
        expect(seen.page.locator("#runs-place")).to_have_text("1 to 1 of 1")
        row = cells(seen.page, "runs", "run-9")
        assert row[:6] == ["run-9", "▸ waits for the model", "fair order: others go first", "clerk", "acme", "-"]
        assert row[7:] == ["1,000", "$0.0470", "cost: $0.0470 of $0.0500"]
