"""Text for people: nothing drives the terminal, tables fit, and events read as what happened."""

import io
import time
import unicodedata

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.table import Table

from agents.amounts import UNLIMITED, Limits
from agents.events import (
    BudgetGranted,
    CancelRequested,
    Compacted,
    Event,
    MessageAdded,
    ModelFailed,
    ModelReplied,
    ModelRequested,
    RunCreated,
    RunEnded,
    RunResumed,
    RunStarted,
    ToolFinished,
    ToolRefused,
    ToolStarted,
    encode,
)
from agents.lifecycle import State, StopReason
from agents.messages import Message, ModelReply, ToolCall, Usage
from orchestrator.cli.amounts import limits_of
from orchestrator.cli.job_report import job_facts, job_row_table
from orchestrator.cli.ps import hindrances, runs_table
from orchestrator.cli.render import age, brief, cells, clean, clean_json, columns, tokens
from orchestrator.cli.run_end import detail_table, end_words, next_words, used_words
from orchestrator.cli.run_events import EventWords
from orchestrator.views.runs import RunView
from tests.client.fake_daemon import job_view, run_detail
from tests.strangers.evil import EVIL


def drives_nothing(text: str) -> bool:
    return not any(unicodedata.category(c) == "Cc" or "\u202a" <= c <= "\u202e" for c in text if c not in "\n\t")


def printed(table: Table, width: int) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, markup=False, highlight=False).print(table)
    return out.getvalue().splitlines()


@given(st.text())
def test_no_text_drives_the_terminal(text: str) -> None:
    """Whatever a model says, no control character is left but line breaks and tabs, and plain text is untouched."""
    assert drives_nothing(clean(text))
    assert "\n" not in brief(text)
    assert drives_nothing(brief(text))
    if text.isprintable():
        assert clean(text) == text


@given(st.recursive(st.text() | st.integers(-9, 9), lambda some: st.lists(some) | st.dictionaries(st.text(), some)))
def test_json_for_a_terminal_is_the_same_json(value: object) -> None:
    """Escaped for a terminal it drives nothing, and whoever pastes it elsewhere has the very same value."""
    shown = clean_json(msgspec.json.encode(value))
    assert drives_nothing(shown.decode())
    assert msgspec.json.decode(shown) == value


def test_what_was_hidden_is_shown() -> None:
    """Control characters are shown as what they are, so that nobody overlooks them."""
    assert clean("a\x1b[2Jb\x9bc\u202e") == "a\\x1b[2Jb\\x9bc\\u202e"


def test_a_table_takes_nothing_for_markup() -> None:
    """Names with brackets and control characters come out as they were written, on one line."""
    table = columns("name", "other")
    table.add_row(*cells("[red]x[/red]", f"a\nb{EVIL}"))
    lines = printed(table, 200)
    assert len(lines) == 2
    assert lines[1].startswith("[red]x[/red]  a b\\x1b]0;owned")
    assert drives_nothing(lines[1])


def test_wide_rows_fit_a_hundred_columns() -> None:
    """The longest names, states and numbers stay on one line of 100 columns, ids whole."""
    run = run_detail(
        run="letters-3fa2b1.1234567",
        agent="a-very-long-agent-name-of-somebody",
        tenant="some-department",
        job="letters-of-the-year-3fa2b1",
        state=State.STOPPED,
        reason=StopReason.TOKEN_BUDGET_EXCEEDED,
        rounds=123,
        usage=Usage(input=123_456_789, output=1),
    )
    lines = printed(runs_table([run], 1e6), 100)
    assert len(lines) == 2
    assert all(len(line) <= 100 for line in lines)
    assert "letters-3fa2b1.1234567 " in lines[1]
    assert "stopped (token_budget_exceeded)" in lines[1]
    job = job_view("interrupted", job="letters-of-the-year-3fa2b1", name="x" * 64, tenant="y" * 64, done=1_234_567)
    lines = printed(job_row_table((job,), 1e6), 100)
    assert len(lines) == 2
    assert all(len(line) <= 100 for line in lines)
    assert "letters-of-the-year-3fa2b1 " in lines[1]


def test_what_is_in_the_way_of_runs_is_said_once() -> None:
    """However many wait for the same thing; why a run ended is not in the way of anything."""
    waits = [run_detail(reason=None, message="no worker is connected")] * 1_200
    other, fine = run_detail(reason=None, message="there is\nno agent a"), run_detail(reason=None)
    ended = run_detail(message="no more", reason=StopReason.CANCELLED)
    assert hindrances([*waits, other, fine, ended]) == [
        "1,200 runs: no worker is connected",
        "1 run: there is no agent a",
    ]


@pytest.mark.parametrize(
    ("seconds", "expected"), [(-3, "0s"), (59.9, "59s"), (60, "1m"), (3700, "1h1m"), (90_000, "1d1h")]
)
def test_ages_are_short(seconds: float, expected: str) -> None:
    """An age is its largest units."""
    assert age(seconds) == expected


def test_unknown_usage_is_not_zero() -> None:
    """What the provider did not report is called unknown."""
    assert tokens(Usage()) == "unknown"
    assert tokens(Usage(input=1_000, cached=200)) == "1,200 in (200 cached), unknown out"


CALL = ToolCall("c", "search", '{"query": "the mill"}')
EVENTS: list[tuple[Event, str, bool]] = [
    (
        RunCreated(run="r", agent="a", model="", messages=(), limits=UNLIMITED),
        "created: agent a, model the default",
        False,
    ),
    (RunStarted(run="r"), "started", False),
    (
        ModelRequested(run="r", step=1, attempt=2, reserved_tokens=1, reserved_micro_dollars=0),
        "step 1: asks the model, attempt 2",
        False,
    ),
    (
        ModelReplied(
            run="r",
            step=1,
            attempt=1,
            reply=ModelReply(Message("assistant", "looking", (CALL,)), "tool_calls", Usage(input=9, output=3)),
        ),
        "step 1: 9 in, 3 out; asks for search; says: looking",
        True,
    ),
    (
        ToolStarted(run="r", step=1, index=0, call="c", name="search", key="k"),
        'step 1: search {"query": "the mill"}',
        True,
    ),
    (
        ToolFinished(run="r", step=1, index=0, call="c", name="search", outcome="ok", content="a\nb"),
        "step 1: search -> ok: a b",
        True,
    ),
    (
        ToolRefused(run="r", step=1, index=1, call="d", name="rm", outcome="refused_budget", content="no"),
        "step 1: rm not run (refused_budget): no",
        True,
    ),
    (
        ModelFailed(run="r", step=2, attempt=1, kind="overloaded", message="full"),
        "step 2: the model call failed: overloaded: full",
        True,
    ),
    (RunResumed(run="r", generation=2), "taken up again where it was left", True),
    (MessageAdded(run="r", content="only\nlong ones"), "told: only long ones", True),
    (
        BudgetGranted(run="r", limits=Limits(rounds=10, micro_dollars=500_000)),
        "granted: rounds=10, dollars=0.5",
        True,
    ),
    (
        ModelRequested(run="r", step=2, attempt=2, reserved_tokens=1, reserved_micro_dollars=0, purpose="compact"),
        "step 2, to shorten the transcript: asks the model, attempt 2",
        False,
    ),
    (
        ModelReplied(
            run="r",
            step=2,
            attempt=2,
            reply=ModelReply(Message("assistant", "so far"), "stop", Usage(input=9, output=3)),
            purpose="compact",
        ),
        "step 2, to shorten the transcript: 9 in, 3 out; says: so far",
        False,
    ),
    (
        Compacted(run="r", summary="so far", messages=1_200),
        "a summary stands for 1,200 messages from here on: so far",
        True,
    ),
    (CancelRequested(run="r", source="user", reason="cancelled"), "user asked for its end (cancelled)", True),
    (
        RunEnded(run="r", reason=StopReason.MAX_ROUNDS, state=State.STOPPED, message="3 rounds"),
        "ended: stopped, max_rounds: 3 rounds",
        False,
    ),
]


def test_each_event_has_its_words() -> None:
    """Every event is one line; a watcher sees tools, failures and the end being asked for, and not the answer."""
    words = EventWords()
    assert [words.line(encode(event)) for event, _, _ in EVENTS] == [line for _, line, _ in EVENTS]
    words = EventWords()
    assert [bool(words.passing(event)) for event, _, _ in EVENTS] == [passing for _, _, passing in EVENTS]
    answer = ModelReplied(run="r", step=1, attempt=1, reply=ModelReply(Message("assistant", "42"), "stop"))
    assert words.passing(answer) == ""


def test_a_summary_takes_no_tool_calls_from_the_step_before_it() -> None:
    """A tool that is started again behind a shortened transcript still has the arguments its model gave it."""
    words = EventWords()
    reply = ModelReply(Message("assistant", "", (CALL,)), "tool_calls")
    words.words(ModelReplied(run="r", step=1, attempt=1, reply=reply))
    summary = ModelReply(Message("assistant", "so far"), "stop")
    words.words(ModelReplied(run="r", step=2, attempt=1, reply=summary, purpose="compact"))
    started = ToolStarted(run="r", step=1, index=0, call="c", name="search", key="k")
    assert words.words(started) == 'step 1: search {"query": "the mill"}'


def test_an_event_says_when_it_was() -> None:
    """Today by its time, any other day with its date; what bears no time, or an unreadable one, says nothing."""
    now = time.mktime((2026, 3, 4, 12, 0, 0, 0, 0, -1))
    words = EventWords()
    assert words.moment(encode(RunStarted(run="r", at=now - 61.5)), now) == "11:58:58"
    assert words.moment(encode(RunStarted(run="r", at=now - 86_400)), now) == "2026-03-03 12:00:00"
    assert words.moment(b'{"type":"dreamt","at":%d}' % now, now) == "12:00:00"
    assert [words.moment(data, now) for data in (encode(RunStarted(run="r")), b'{"at":"noon"}')] == ["", ""]


def test_an_event_of_a_newer_daemon_is_named() -> None:
    """An event that this version does not know is a line with its type, not an error."""
    assert EventWords().line(b'{"type": "dreamt", "run": "r"}') == "dreamt (not known to this version)"


def test_a_stopped_run_names_the_option_that_helps() -> None:
    """Limit, sentence and option go together, and a completed run needs no advice."""
    stopped = run_detail(
        state=State.STOPPED,
        reason=StopReason.MAX_ROUNDS,
        message="run allows 3 rounds: 3 spent, 1 needed",
        limit="rounds",
        next="raise_limit",
    )
    assert end_words(stopped) == "run r stopped (max_rounds): run allows 3 rounds: 3 spent, 1 needed"
    assert next_words(stopped) == "raise --max-rounds and start it again"
    cut = run_detail(state=State.STOPPED, reason=StopReason.OUTPUT_LIMIT, next="raise_limit")
    assert next_words(cut) == "raise --max-tokens and start it again"
    assert next_words(run_detail()) == ""
    assert used_words(run_detail(micro_dollars=1_500, tool_calls=2)) == (
        "1 round, 2 tool calls, 10 in, 5 out, 1.0 s, $0.0015"
    )


@pytest.mark.parametrize(
    ("limit", "allowed", "grant"),
    [
        ("rounds", 3.0, "rounds=6"),
        ("tool_calls", 0.0, "tool-calls=1"),
        ("micro_dollars", 250_000.0, "dollars=0.5"),
        ("timeout", 90.0, "timeout=180"),
    ],
)
def test_a_limit_of_its_own_names_the_way_on(limit: str, allowed: float, grant: str) -> None:
    """A run of a session that its own limit stopped can go on, and the command is whole, and is taken as it stands."""
    stopped = run_detail(
        state=State.STOPPED,
        reason=StopReason.MAX_ROUNDS,
        session="rivers",
        scope="run",
        limit=limit,
        allowed=allowed,
        next="raise_limit",
    )
    assert next_words(stopped).endswith(
        f", or go on where it stopped: headrace run --session rivers --continue --grant {grant}"
    )
    assert limits_of("--grant", [grant]) != Limits()
    assert "--session" not in next_words(msgspec.structs.replace(stopped, scope="tenant web"))


def test_everything_about_one_is_shown_clean() -> None:
    """No field of a run or a job reaches the terminal with its control characters."""
    fields = dict.fromkeys(("run", "session", "agent", "model", "tenant", "job", "message", "scope", "limit"), EVIL)
    assert all(map(drives_nothing, printed(detail_table(run_detail(**fields, unknown_effects=(EVIL,)), 9.0), 100)))
    job = job_view("failed", **dict.fromkeys(("job", "name", "tenant", "agent", "model", "message"), EVIL))
    assert all(map(drives_nothing, printed(job_facts(job, 9.0), 100)))
    assert isinstance(run_detail(), RunView)
