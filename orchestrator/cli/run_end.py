"""How a run ended, in words: what stopped it, what it used, what helps; and all of one run for `show`."""

import time
from collections.abc import Mapping
from typing import Final

from rich.table import Table
from rich.text import Text

from agents.events import NextStep
from agents.lifecycle import State
from agents.messages import Message
from orchestrator.cli.amounts import limit_word
from orchestrator.cli.exits import complain, say
from orchestrator.cli.progress import duration
from orchestrator.cli.render import age, brief, clean, facts, many, money, tokens
from orchestrator.cli.request_words import how_to_answer, what_is_asked
from orchestrator.views.runs import RunDetail, RunView

_OPTIONS: Final = {
    "rounds": "--max-rounds",
    "tool_calls": "--max-tool-calls",
    "tokens": "--max-tokens-total",
    "micro_dollars": "--dollars",
    "timeout": "--timeout",
}

_HELP: Final[Mapping[NextStep, str]] = {
    "retry": "starting it again may help",
    "human": "somebody has to look at it",
    "none": "",
}


def end_words(detail: RunDetail) -> str:
    """One sentence on a run that did not complete: state, reason, and what stopped it."""
    why = f": {brief(detail.message, 400)}" if detail.message else ""
    return f"run {detail.run} {state_words(detail)}{why}"


def next_words(detail: RunDetail) -> str:
    """What helps, empty where nothing does."""
    if detail.next == "raise_limit":
        option = _OPTIONS.get(detail.limit, "--max-tokens" if detail.reason == "output_limit" else "")
        return f"raise {option or 'the limit'} and start it again{_go_on(detail)}"
    return _HELP.get(detail.next, "")


def _go_on(detail: RunDetail) -> str:
    """How a session goes on whose run was stopped by a limit of its own."""
    if not detail.session or detail.scope != "run" or detail.limit not in _OPTIONS or detail.allowed is None:
        return ""
    more = limit_word(detail.limit, 2 * detail.allowed or 1)
    return f", or go on where it stopped: headrace run --session {detail.session} --continue --grant {more}"


def used_words(run: RunView) -> str:
    """Rounds, tool calls, tokens, time and money, on one line."""
    parts = [many(run.rounds, "round")]
    if run.tool_calls:
        parts.append(many(run.tool_calls, "tool call"))
    if run.rounds or run.usage.total:
        parts.append(tokens(run.usage))
    if run.started is not None and run.ended is not None:
        parts.append(duration(run.ended - run.started))
    if run.micro_dollars is not None:
        parts.append(money(run.micro_dollars))
    return ", ".join(parts)


def tell_end(detail: RunDetail, *, quiet: bool) -> None:
    """What it used; and for a run that did not complete, why, its last words and what helps."""
    if detail.state is not State.COMPLETED:
        if detail.partial:
            say(f"its last words: {clean(detail.partial)}")
        complain(end_words(detail))
        help = next_words(detail)
        if help:
            complain(help)
    if not quiet:
        say(f"  {used_words(detail)}")


def detail_table(detail: RunDetail, now: float) -> Table:
    """Everything about one run but its words."""
    table = facts()

    def fact(name: str, value: str) -> None:
        if value:
            table.add_row(name, Text(clean(value)))

    fact("run", detail.run)
    fact("session", detail.session if detail.session != detail.run else "")
    fact("state", state_words(detail))
    fact("message", detail.message)
    fact("next", next_words(detail) if detail.reason is not None else "")
    fact("agent", detail.agent)
    fact("model", detail.model or "the default")
    fact("tenant", detail.tenant)
    fact("job", detail.job)
    fact("priority", detail.priority)
    fact("created", _when(detail.created, now))
    fact("started", "" if detail.started is None else _when(detail.started, now))
    fact("ended", "" if detail.ended is None else _when(detail.ended, now))
    fact("at rest", "" if detail.quiescent is None else _when(detail.quiescent, now))
    if detail.started is not None:
        fact("took" if detail.ended is not None else "so far", duration((detail.ended or now) - detail.started))
    fact("rounds", f"{detail.rounds:,}")
    fact("tool calls", f"{detail.tool_calls:,}")
    fact("tokens", tokens(detail.usage))
    if detail.unknown_tokens:
        fact("unknown", f"{detail.unknown_tokens:,} tokens may have been spent beyond that")
    fact("cost", money(detail.micro_dollars))
    if detail.limit:
        spent = "" if detail.observed_amount is None else f", {detail.observed_amount:,.15g} spent"
        fact("limit", f"{detail.limit} of {detail.scope}: {detail.allowed or 0:,.15g} allowed{spent}")
    for view in detail.approvals:
        fact("needs approval" if view.kind == "approval" else "asks", what_is_asked(view, 400))
        fact("to answer", how_to_answer(view.id, question=view.kind == "input"))
    for key in detail.unknown_effects:
        fact("needs a look", f"{key} was cut off, its effect is unknown; look before repeating it")
    if not detail.at_rest:
        fact("needs a look", "work that it abandoned may still be going on")
    for late in detail.late:
        fact("needs a look", f"{late.id} {late.tool} came to an end after all ({late.outcome}): {brief(late.content)}")
    fact("events", f"{detail.events:,}")
    return table


def transcript(detail: RunDetail) -> list[str]:
    """What was said, a block for each message."""
    return [_block(message) for message in detail.messages]


def _block(message: Message) -> str:
    lines = [f"[{message.role}]"]
    if message.reasoning:
        lines.append(f"(thinks) {message.reasoning}")
    if message.content:
        lines.append(message.content)
    lines += [f"-> {call.name} {call.arguments}" for call in message.tool_calls]
    return "\n".join(lines)


def state_words(run: RunView) -> str:
    """`waiting_model`, `completed`, `stopped (max_rounds)`: the reason where it adds something."""
    if run.reason is None or run.state is State.COMPLETED:
        return str(run.state)
    return f"{run.state} ({run.reason})" if str(run.reason) != str(run.state) else str(run.state)


def _when(moment: float, now: float) -> str:
    text = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))
    return f"{text}, {age(now - moment)} ago"
