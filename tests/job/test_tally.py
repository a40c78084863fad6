"""The tally's sums, and the share of service that it counts while all tenants wait."""

import pytest

from agents.messages import Usage
from agents.port import Flow, Priority
from orchestrator.tally import Tally
from orchestrator.transitions import Transition, TransitionKind


def feed(tally: Tally, flow: Flow, *kinds: TransitionKind, outcome: str = "ok", usage: Usage | None = None) -> None:
    for kind in kinds:
        tally(
            Transition(
                kind=kind,
                at=0.0,
                backend="b",
                flow=flow,
                priority=Priority.STANDARD,
                outcome=outcome,
                waited=1.5 if kind == "finished" else 0.0,
                usage=usage if kind in ("attempt_failed", "finished") else None,
            )
        )


def test_sums_follow_calls_to_their_end() -> None:
    """Calls, failures, retries, tokens and waits are summed per tenant; nothing is left open at the end."""
    tally = Tally()
    used = Usage(10, output=5)
    feed(tally, Flow("a", "j", "1"), "queued", "started", "first_token", "finished", usage=used)
    feed(tally, Flow("a", "j", "2"), "queued", "started", "attempt_failed", "retrying", outcome="throttled")
    assert (tally.waiting, tally.in_flight) == (1, 0)
    feed(tally, Flow("a", "j", "2"), "started")
    assert (tally.waiting, tally.in_flight) == (0, 1)
    feed(tally, Flow("a", "j", "2"), "finished", usage=used)
    feed(tally, Flow("b", "j", "3"), "finished", outcome="too_large")
    feed(tally, Flow("b", "j", "4"), "queued", "finished", outcome="queue_timeout")
    assert (tally.waiting, tally.in_flight) == (0, 0)
    a, b = tally.tenants["a"], tally.tenants["b"]
    assert (a.calls, a.failed, a.retries, a.usage) == (2, 0, 1, Usage(20, output=10))
    assert (a.mean_wait, a.longest_wait) == (1.5, 1.5)
    assert (b.calls, b.failed) == (0, 2)
    assert tally.usage == Usage(20, output=10)


def test_shares_count_only_while_all_wait() -> None:
    """A call counts for the shares if every watched tenant had a call waiting when it was dispatched."""
    tally = Tally(["a", "b"])
    one, two, three = Flow("a", "", "1"), Flow("a", "", "2"), Flow("b", "", "3")
    used = Usage(10, output=10)  # 10 + 2 * 10 units of service
    feed(tally, one, "queued", "started")  # b does not wait
    feed(tally, two, "queued")
    feed(tally, three, "queued")
    feed(tally, one, "finished", usage=used)
    assert tally.contended_share == {}
    feed(tally, two, "started")  # both wait
    feed(tally, three, "started")  # only b waits
    feed(tally, two, "finished", usage=used)
    feed(tally, three, "finished", usage=used)
    assert tally.tenants["a"].contended_service == pytest.approx(30)
    assert tally.contended_share == {"a": 1.0, "b": 0.0}
