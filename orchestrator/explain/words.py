"""Explanations in plain sentences: pure. Whoever reads them wants to know what to do, at three in the morning."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from orchestrator.explain.ahead import OTHERS
from orchestrator.views.explain import Ahead, CallExplanation, RunExplanation, WaitShare

BRIEF: Final = 0.05
"""Waits up to so many seconds are none."""

OBSTACLES: Final = {
    "fair_order": "others went first",
    "retry": "it waited to be tried again after a failure",
    "calls in flight": "as many calls were in flight as may be",
    "tokens in flight": "as many tokens were in flight as may be",
    "calls without a first token": "as many calls waited for their first token as may",
    "breaker": "the endpoint was broken, and single probes tried it",
    "retry-after": "the provider had said when to come again",
    "headroom": "the engine keeps room free for tenants below their share",
    "its own endpoint": "it waited for the endpoint that served its run before, whose cache may hold it",
    "another endpoint": "it waited for an endpoint that had not failed it",
}

RULES: Final = {
    "priority": "a more urgent priority goes first",
    "minimum_share": "a less urgent priority has a small part for itself",
    "own_limit": "tenant {tenant} was at its own limit, so others went",
    "fair_tenants": "tenants share by weight",
    "fair_jobs": "jobs of a tenant share by weight",
    "run_order": "within a job the run goes first that has had least",
    "arrival": "within a run, and without one, calls go in the order in which they came",
}

HELP: Final = {
    "calls in flight": "raise the backend's concurrency if it can take more, or add an endpoint",
    "tokens in flight": "raise the engine's tokens in flight if it has the memory, or add an endpoint",
    "breaker": "mend the endpoint, or give the model a second backend",
    "retry-after": "the provider asks for less: lower the limits to what it gives, or ask it for more",
    "retry": "look at what the provider fails with (headrace top, the page, upstream_errors_total)",
}


HELP_FIRST: Final = {
    "priority": "ask for a more urgent priority, or give the backend more room",
    "minimum_share": "lower the least urgent priority's minimum share, or give the backend more room",
    "own_limit": "raise the limit of tenant {tenant}",
    "fair_tenants": "raise the weight of tenant {tenant}, or give the backend more room",
    "fair_jobs": "raise the weight of its job, or give the backend more room",
    "run_order": "run fewer at a time, or give the backend more room",
    "arrival": "run fewer at a time, or give the backend more room",
}
"""What helps where others went first, by the rule by which most did."""


def seconds(value: float) -> str:
    """A span as people say it."""
    if value < 10:
        return f"{value:.1f} s"
    if value < 120:
        return f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def call_words(
    call: CallExplanation, *, weights: Callable[[str], float], amounts: Mapping[str, str]
) -> tuple[str, ...]:
    """What happened to a call, why, and what would help."""
    said = [_standing(call)]
    if call.waited > BRIEF:
        said.append(f"It waited {seconds(call.waited)}: {_reasons(call.waits, amounts)}.")
        said += ahead_words(call.ahead, call.tenant, weights)
        said += help_words(call.waits, call.ahead, call.tenant)
    else:
        said.append("It did not wait.")
    return tuple(said)


def run_words(run: RunExplanation, *, weights: Callable[[str], float], amounts: Mapping[str, str]) -> tuple[str, ...]:
    """Where a run's time went, why, and what would help."""
    ended = f" ({run.reason})" if run.reason else ""
    said = [f"Run {run.run} of tenant {run.tenant} is {run.state}{ended}, {seconds(run.seconds)} after it was made."]
    if run.message:
        said.append(f"What is said of it: {run.message.rstrip('.')}.")
    parts = (
        ("in queue", run.queue),
        ("with the model", run.model),
        ("in tools", run.tools),
        ("waiting for people", run.people),
        ("otherwise", run.other),
    )
    spent = [f"{seconds(value)} {where}" for where, value in parts if value > BRIEF]
    if spent:
        said.append(f"Its time: {', '.join(spent)}.")
    if run.by_tool:
        tools = [f"{one.held_by} {seconds(one.seconds)}" for one in run.by_tool]
        said.append(f"In tools: {', '.join(tools)}.")
    if run.running:
        said.append(
            f"Still at work: {', '.join(run.running)}. If it hangs, look at what it talks to; its timeout ends the"
            f" call, `headrace cancel {run.run}` the run."
        )
    if run.queue > BRIEF and run.waits:
        said.append(f"In queue: {_reasons(run.waits, amounts)}.")
        said += ahead_words(run.ahead, run.tenant, weights)
        said += help_words(run.waits, run.ahead, run.tenant)
    return tuple(said)


def _standing(call: CallExplanation) -> str:
    whose = f"tenant {call.tenant}" + (f", job {call.job}" if call.job else "")
    what = (
        f"Call {call.call} ({whose}, {call.priority}) to {call.model or 'its model'} at {call.backend or 'no backend'}"
    )
    if call.state == "queued":
        return f"{what} waits."
    tries = f", in {call.attempts} attempts" if call.attempts > 1 else ""
    if call.state == "sent":
        return f"{what} is being answered{tries}."
    return f"{what} ended {'well' if call.state == 'ok' else f'as {call.state}'}{tries}."


def _reasons(waits: Sequence[WaitShare], amounts: Mapping[str, str]) -> str:
    shown = [part for part in waits if part.seconds > BRIEF] or list(waits)
    if not shown:
        return "nothing says why"
    said = [f"{seconds(part.seconds)} {_because(part.held_by, amounts)}" for part in shown]
    return ", ".join(said)


def _because(held_by: str, amounts: Mapping[str, str]) -> str:
    known = OBSTACLES.get(held_by)
    if known is not None:
        return f"because {known}"
    if held_by.startswith("tenant "):
        return f"because its tenant's own limit {held_by.removeprefix('tenant ')} was used up"
    amount = amounts.get(held_by, "")
    return f"because the limit {held_by}{f' ({amount})' if amount else ''} was used up"


def ahead_words(ahead: Sequence[Ahead], tenant: str, weights: Callable[[str], float]) -> Iterable[str]:
    """Who went first, one sentence for each rule."""
    total = sum(one.calls for one in ahead)
    if not total:
        return
    yield f"Meanwhile {_calls(total)} went out at its backend:"
    rules = dict.fromkeys(one.rule for one in ahead)
    for rule in rules:
        groups = [one for one in ahead if one.rule == rule]
        whose = ", ".join(_group(one, weights) for one in groups)
        yield f"  {_calls(sum(one.calls for one in groups))}, because {RULES[rule].format(tenant=tenant)}: {whose}."
    if "fair_tenants" in rules:
        yield f"  Tenant {tenant} has weight {weights(tenant):g}."


def _group(one: Ahead, weights: Callable[[str], float]) -> str:
    known = one.rule == "fair_tenants" and one.tenant not in (OTHERS, "others")
    weight = f", weight {weights(one.tenant):g}" if known else ""
    job = f", job {one.job}" if one.job else ""
    return f"{one.calls:,} of {one.tenant} ({one.priority}{job}{weight}; {one.tokens:,} tokens)"


def _calls(count: int) -> str:
    return f"{count:,} call" if count == 1 else f"{count:,} calls"


def help_words(waits: Sequence[WaitShare], ahead: Sequence[Ahead], tenant: str) -> Iterable[str]:
    """What would shorten what it waited for most."""
    if not waits:
        return
    most = max(waits, key=lambda part: part.seconds).held_by
    if most == "fair_order":
        rules = Counter[str]()
        for one in ahead:
            rules[one.rule] += one.calls
        if rules:
            yield f"To shorten it: {HELP_FIRST[rules.most_common(1)[0][0]].format(tenant=tenant)}."
    elif most.startswith("tenant "):
        yield f"To shorten it: raise that limit of tenant {tenant}."
    elif most in HELP:
        yield f"To shorten it: {HELP[most].format(tenant=tenant)}."
    elif most not in OBSTACLES:
        yield (
            "To shorten it: ask the provider for more of that limit, add a key or a backend,"
            f" or give tenant {tenant} more weight."
        )
