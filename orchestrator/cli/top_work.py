"""The live board's section of work: what people are asked, tools, budgets, jobs, runs; a pure function.

The most alarming comes first, so that a small screen keeps it: requests that wait for people, tools that have run for
long, budgets near their end; then jobs with their progress, then runs, the newest first.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from rich.text import Text

from orchestrator.cli.top_cells import Glyphs, bar, clip, few, fit, name_of, percent, span
from orchestrator.views.approvals import ApprovalView
from orchestrator.views.jobs import LIVE_PHASES, JobView
from orchestrator.views.queue import BudgetView, QueueView
from orchestrator.views.runs import LimitUse, RunView

LONG_TOOL: Final = 30.0
"""Seconds after which a tool at work is worth a line."""

NEAR: Final = 0.8
"""A budget from this part of it on is worth a line."""

FEW: Final = 3
"""Lines of each kind, where there is more than one kind."""

BAR: Final = 16


class Work(Struct, frozen=True):
    """What a daemon says of its work beside the queue. `live` counts the runs, of which `runs` are a few."""

    runs: tuple[RunView, ...] = ()
    live: int = 0
    jobs: tuple[JobView, ...] = ()
    approvals: tuple[ApprovalView, ...] = ()
    now: float = 0.0


def work_lines(view: QueueView, work: Work, width: int, most: int | None, glyphs: Glyphs) -> list[Text]:
    """All of it, in at most `most` lines; None is no bound."""
    kinds = [
        _approvals(view, work),
        _tools(view),
        _budgets(view, glyphs),
        _jobs(work, glyphs),
        _runs(work, glyphs),
    ]
    kinds = [kind for kind in kinds if kind]
    if most is not None and sum(len(kind) for kind in kinds) > most:
        kinds = _fitted(kinds, most)
    return [clip(line, width, glyphs) for kind in kinds for line in kind]


def _fitted(kinds: Sequence[list[Text]], most: int) -> list[list[Text]]:
    """A few of each kind while there is room, in their order; the last gets what is left."""
    fitted: list[list[Text]] = []
    for index, kind in enumerate(kinds):
        last = index == len(kinds) - 1
        room = most if last else min(most, FEW)
        shown = kind[:room]
        if len(kind) > room > 0:
            shown = [*kind[: room - 1], Text(f" and {len(kind) - room + 1:,} more of these", "dim")]
        fitted.append(shown)
        most -= len(shown)
    return fitted


def _approvals(view: QueueView, work: Work) -> list[Text]:
    lines = []
    for asked in work.approvals:
        what = f"may {name_of(asked.tool)} run?" if asked.kind == "approval" else name_of(asked.question)
        age = span(max(0.0, work.now - asked.asked))
        line = Text.assemble((" asks people ", "bold yellow"), f"{what}  for {age}  run {name_of(asked.run)}")
        line.append(f"  headrace {'approve' if asked.kind == 'approval' else 'answer'} {name_of(asked.id)}", "dim")
        lines.append(line)
    if not lines and view.approvals:
        lines.append(Text(f" {view.approvals:,} requests wait for people, for {span(view.oldest_approval)}", "yellow"))
    return lines


def _tools(view: QueueView) -> list[Text]:
    return [
        Text.assemble(
            (f" tool {name_of(tool.tool)} ", "bold red"),
            f"at work for {span(tool.longest)} in run {name_of(tool.run)}, {tool.running:,} of it",
        )
        for tool in view.tools
        if tool.longest >= LONG_TOOL
    ]


def _budgets(view: QueueView, glyphs: Glyphs) -> list[Text]:
    return [_budget(budget, glyphs) for budget in view.budgets if _part(budget) >= NEAR]


def _part(budget: BudgetView) -> float:
    return (budget.used + budget.reserved) / budget.allowed if budget.allowed else 1.0


def _budget(budget: BudgetView, glyphs: Glyphs) -> Text:
    part = _part(budget)
    unit = "$" if budget.amount == "dollars" else ""
    line = Text(f" budget of {name_of(budget.tenant)} ", "bold red" if part >= 1 else "bold yellow")
    line.append_text(
        bar(budget.used / (budget.allowed or 1.0), BAR, glyphs, others=budget.reserved / (budget.allowed or 1))
    )
    line.append(f" {percent(part)} of {unit}{few(budget.allowed)} {budget.amount} per {budget.period}")
    if budget.resets_in is not None:
        line.append(f", anew in {span(budget.resets_in)}", "dim")
    return line


def _jobs(work: Work, glyphs: Glyphs) -> list[Text]:
    lines = []
    for job in work.jobs:
        if job.phase not in LIVE_PHASES:
            continue
        over = job.done + job.failed + job.cancelled
        part = over / job.received if job.received else 0.0
        line = Text.assemble((f" job {name_of(job.name)} ", "bold"), bar(part, BAR, glyphs, style="green"))
        whole = f"{job.received:,}" if job.complete else f"{job.received:,}+"
        line.append(f" {over:,} of {whole}, {job.live:,} live")
        if job.failed:
            line.append(f", {job.failed:,} failed", "red")
        line.append(f"  {name_of(job.tenant)}  {name_of(job.job)}", "dim")
        lines.append(line)
    return lines


def _runs(work: Work, glyphs: Glyphs) -> list[Text]:
    if not work.runs:
        return []
    names = min(max(len(name_of(run.run)) for run in work.runs), 24)
    lines = [Text(f" runs: the {len(work.runs):,} newest of {work.live:,} live", "bold")]
    for run in work.runs:
        line = Text.assemble(" ", fit(Text(name_of(run.run)), names, glyphs), "  ")
        line.append_text(fit(Text(str(run.state), _style(run)), 16, glyphs))
        line.append_text(fit(Text(span(max(0.0, work.now - run.created))), 7, glyphs, right=True))
        fullest = max(run.limits, key=_used, default=None)
        if fullest is not None:
            line.append("  ")
            line.append_text(bar(_used(fullest), BAR // 2, glyphs, style="yellow" if _used(fullest) > NEAR else "cyan"))
            line.append(
                f" {percent(_used(fullest)):>4} {'dollars' if fullest.limit == 'micro_dollars' else fullest.limit}"
            )
        why = run.waits_for or run.message
        if why:
            line.append(f"  waits for {name_of(why)}" if run.waits_for else f"  {name_of(why)}", "yellow")
        line.append(f"  {name_of(run.agent)}  {name_of(run.tenant)}", "dim")
        lines.append(line)
    return lines


def _used(use: LimitUse) -> float:
    return use.used / use.allowed if use.allowed else 1.0


def _style(run: RunView) -> str:
    return "yellow" if run.state in ("waiting_approval", "waiting_input") else ""
