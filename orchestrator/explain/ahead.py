"""Whose calls went before one that waited, and by which rule: pure.

A backend's order is priority, tenant, job, run, arrival (`policy.fairness`). So whoever went first differs from the
call in one of these, and the first in which it differs is the rule:

| rule            | who went first                                                         |
|-----------------|------------------------------------------------------------------------|
| `priority`      | calls of a more urgent priority                                        |
| `minimum_share` | calls of a less urgent one, which has a small part for itself          |
| `own_limit`     | other tenants, while the call's own tenant was at a limit of its own   |
| `fair_tenants`  | other tenants of the same priority, by weight                          |
| `fair_jobs`     | other jobs of the same tenant, by weight                               |
| `run_order`     | other runs of the same job: those that have had less                   |
| `arrival`       | calls of the same run, or of none                                      |

Known limit: calls that were in flight already when the call arrived held room as well, and are not among those.
"""

from collections.abc import Callable, Sequence
from typing import Final

from agents.port import Priority
from orchestrator.store.ledger_port import CallRow, WentRow
from orchestrator.views.explain import Ahead

MOST: Final = 12
"""Groups that are named; the rest are added up by rule."""

OTHERS: Final = "other tenants"
"""Stands for tenants that whoever asks does not see."""

NAMES: Final = {int(priority): priority.name.lower() for priority in Priority}


def ahead_of(
    row: CallRow, went: Sequence[WentRow], *, own_limit: bool, sees: Callable[[str], bool]
) -> tuple[Ahead, ...]:
    """The groups that went first, most calls first. `own_limit`: its tenant was stopped for most of the wait."""
    sums: dict[tuple[str, str, str, str], tuple[int, int]] = {}
    for group in went:
        visible = sees(group.tenant)
        key = (
            _rule(row, group, own_limit=own_limit),
            group.tenant if visible else OTHERS,
            NAMES.get(group.priority, str(group.priority)),
            group.job if visible else "",
        )
        calls, tokens = sums.get(key, (0, 0))
        sums[key] = calls + group.calls, tokens + group.tokens
    order = sorted(sums, key=lambda key: (-sums[key][0], key))
    named = [_ahead(key, *sums[key]) for key in order[:MOST]]
    return (*named, *_rest([_ahead(key, *sums[key]) for key in order[MOST:]]))


def _rule(row: CallRow, group: WentRow, *, own_limit: bool) -> str:
    if group.priority != row.priority:
        return "priority" if group.priority < row.priority else "minimum_share"
    if group.tenant != row.tenant:
        return "own_limit" if own_limit else "fair_tenants"
    if group.job != row.job:
        return "fair_jobs"
    return "arrival" if group.own or not row.run else "run_order"


def _ahead(key: tuple[str, str, str, str], calls: int, tokens: int) -> Ahead:
    rule, tenant, priority, job = key
    return Ahead(rule=rule, tenant=tenant, priority=priority, job=job, calls=calls, tokens=tokens)


def _rest(left: Sequence[Ahead]) -> tuple[Ahead, ...]:
    """What is left, one for each rule and priority."""
    sums: dict[tuple[str, str], tuple[int, int]] = {}
    for one in left:
        calls, tokens = sums.get((one.rule, one.priority), (0, 0))
        sums[one.rule, one.priority] = calls + one.calls, tokens + one.tokens
    return tuple(_ahead((rule, "others", priority, ""), *sum_) for (rule, priority), sum_ in sorted(sums.items()))
