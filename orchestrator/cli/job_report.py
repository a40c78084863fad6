"""A daemon's job in words: how it ended, a row in a list, everything about one."""

import sys
import time
from collections.abc import Callable

import msgspec
from rich.table import Table
from rich.text import Text

from agents.lifecycle import StopReason
from orchestrator.cli.exits import DONE, SOME_FAILED, complain
from orchestrator.cli.job_progress import stage_words
from orchestrator.cli.progress import duration, short
from orchestrator.cli.render import age, brief, cells, clean, columns, facts, money, print_table, print_text, tokens
from orchestrator.cli.signals import SignalEnd
from orchestrator.jobs.debating import speakers
from orchestrator.views.jobs import LIVE_PHASES, JobView
from orchestrator.views.runs import AgentChoice


def report_job(
    view: JobView, *, ending: SignalEnd, json: bool, quiet: bool, results_on_stdout: bool, broken: str = ""
) -> int:
    """Tells how a job ended and returns the exit code. `broken` says why its results could not be written."""
    code, message = verdict(view, ending, broken)
    if message:
        complain(clean(message))
    if not ending.received:
        for error in view.errors:
            complain(f"failed: {clean(error)}")
        more = view.failed - len(view.errors) - view.failures.get(StopReason.CANCELLED.value, 0)
        if more > 0:
            complain(f"failed: {more:,} more; the results have them all")
        cut_off = view.failures.get(StopReason.OUTPUT_LIMIT.value, 0)
        if cut_off:
            where = "--max-tokens" if view.agent == "plain" else f"max_tokens of agent {view.agent}"
            complain(f"{cut_off:,} {'answer was' if cut_off == 1 else 'answers were'} cut off; raise {clean(where)}")
    # Results own stdout when they go there.
    if view.answer and not (json or results_on_stdout):
        print_text(view.answer)
    if json:
        data = msgspec.json.encode(msgspec.structs.asdict(view) | {"exit_code": code})
        print(data.decode(), file=sys.stderr if results_on_stdout else sys.stdout, flush=True)
    elif not quiet:
        print_table(_end_table(view, results_on_stdout=results_on_stdout), stderr=results_on_stdout)
    return code


def verdict(view: JobView, ending: SignalEnd, broken: str) -> tuple[int, str]:
    """The exit code of a job that was followed to its end, and the one message that explains it."""
    counts = f"{view.done:,} done, {view.failed:,} failed"
    if broken:
        return SOME_FAILED, f"{broken}; the job was cancelled: {counts}; headrace job results {view.job} has them all"
    if ending.received:
        again = f"; headrace job retry {view.job} goes on with it"
        return ending.exit_code, f"interrupted: {counts}, {view.cancelled:,} cancelled{again}"
    if view.phase == "interrupted":
        return SOME_FAILED, f"the daemon ended before the job did: {counts}; {_go_on(view)}"
    if view.phase == "cancelled":
        return SOME_FAILED, f"the job was cancelled: {counts}{f' ({view.message})' if view.message else ''}"
    if view.phase in LIVE_PHASES:
        return SOME_FAILED, f"job {view.job} is {view.phase} still: {counts}"
    enough = not view.failed or view.gather.policy != "settle"
    return (DONE if view.phase == "done" and enough else SOME_FAILED), view.message


def job_row_table(jobs: tuple[JobView, ...], now: float) -> Table:
    """A row for each job."""
    names = ("job", "name", "tenant", "phase", "age", "done", "failed", "of", "tokens")
    table = columns(*names, right=("age", "done", "failed", "of", "tokens"), whole=("job", "phase", "age"))
    for view in jobs:
        total = view.usage.total
        table.add_row(
            *cells(
                view.job,
                view.name,
                view.tenant,
                view.phase,
                age(now - view.created),
                f"{view.done:,}",
                f"{view.failed:,}",
                "" if view.debate is not None else f"{view.received:,}{'' if view.complete else '+'}",
                "" if total is None else short(total),
            )
        )
    return table


def job_facts(view: JobView, now: float) -> Table:
    """Everything about one job."""
    table = facts()

    def fact(name: str, value: str) -> None:
        if value:
            table.add_row(name, Text(clean(value)))

    fact("job", view.job)
    fact("name", view.name)
    fact("phase", view.phase)
    fact("stage", (stage_words(view) or view.stage) if view.phase in LIVE_PHASES else "")
    fact("gather", _gather(view))
    fact("message", view.message)
    fact(
        "next",
        _go_on(view) if view.phase not in (*LIVE_PHASES, "done") or (view.failed and view.debate is None) else "",
    )
    fact("agent", view.agent)
    fact("model", view.model or "the default")
    fact("tenant", f"{view.tenant}, weight {view.weight:g} among its jobs, {view.priority}")
    fact(
        "created", f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(view.created))}, {age(now - view.created)} ago"
    )
    fact("took" if view.ended is not None else "so far", duration((view.ended or now) - view.created))
    if view.debate is not None:
        fact("debate", f"{', '.join(speakers(view.debate, AgentChoice()))}; at most {view.debate.most_rounds:,} rounds")
        fact("transcript", f"headrace job results {view.job} --transcript")
    fact(
        "inputs",
        "" if view.debate is not None else f"{view.received:,}{'' if view.complete else ' so far, more may come'}",
    )
    fact("live", f"{view.live:,} of {view.workers:,} workers" if view.phase in LIVE_PHASES else "")
    _counts(fact, view)
    fact("results", f"{view.result_bytes:,} bytes")
    for error in view.errors:
        fact("error", error)
    fact("answer", view.answer)
    return table


def _gather(view: JobView) -> str:
    gather = view.gather
    count = "" if gather.count is None else f", {gather.count:,} items"
    seconds = "" if gather.seconds is None else f", {duration(gather.seconds)}"
    return "" if gather.policy == "settle" else f"{gather.policy}{count}{seconds}"


def _end_table(view: JobView, *, results_on_stdout: bool) -> Table:
    table = facts()

    def fact(name: str, value: str) -> None:
        if value:
            table.add_row(name, Text(clean(value)))

    fact("job", view.job)
    if results_on_stdout:
        fact("answer", brief(view.answer))
    _counts(fact, view)
    seconds = (view.ended or time.time()) - view.created
    rate = (view.done + view.failed) / seconds if seconds > 0 else 0.0
    fact("time", f"{duration(seconds)}, {rate:,.1f} items/s")
    return table


def _counts(fact: Callable[[str, str], None], view: JobView) -> None:
    fact("done", f"{view.done:,}")
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(view.failures.items()))
    fact("failed", f"{view.failed:,}{f' (ended as: {reasons})' if reasons else ''}" if view.failed else "")
    fact("cancelled", f"{view.cancelled:,}" if view.cancelled else "")
    left = view.received - view.done - view.failed - view.cancelled - view.live
    fact("not begun", f"{left:,}" if left > 0 else "")
    fact("tokens", tokens(view.usage))
    fact("cost", "" if view.micro_dollars is None or view.usage.total is None else money(view.micro_dollars))


def _go_on(view: JobView) -> str:
    what = "runs what is missing" if view.debate is None else "goes on with the debate"
    return f"headrace job retry {view.job} {what}"
