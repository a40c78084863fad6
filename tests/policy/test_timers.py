"""Things that become due, against a plain list of them."""

import math

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.policy.timers import SWEEP_FROM, Timers


class Thing:
    def __init__(self, at: float) -> None:
        self.at = at
        self.alive = True


def timers() -> Timers[Thing]:
    return Timers(lambda thing: thing.alive)


def test_things_come_due_in_the_order_of_their_times() -> None:
    """Earliest first, equal times in the order in which they were added, each once."""
    queue = timers()
    things = [Thing(at) for at in (3.0, 1.0, 2.0, 1.0)]
    for thing in things:
        queue.add(thing.at, thing)
    assert queue.next() == 1.0
    assert list(queue.due(2.0)) == [things[1], things[3], things[2]]
    assert list(queue.due(2.0)) == []
    assert queue.next() == 3.0
    assert len(queue) == 1


def test_an_empty_queue_is_never_due() -> None:
    """There is no next time, so nobody is woken for it."""
    queue = timers()
    assert queue.next() == math.inf
    assert list(queue.due(math.inf)) == []


def test_a_forgotten_thing_never_comes_due() -> None:
    """Its entry may still be waited for, but nothing comes of it."""
    queue = timers()
    thing = Thing(1.0)
    queue.add(1.0, thing)
    thing.alive = False
    queue.forget()
    assert len(queue) == 0
    assert list(queue.due(1.0)) == []
    assert queue.next() == math.inf


def test_forgotten_things_do_not_pile_up() -> None:
    """However many are forgotten long before their time, the queue holds about as many as still matter."""
    queue = timers()
    kept = [Thing(10.0 + n) for n in range(100)]
    for thing in kept:
        queue.add(thing.at, thing)
    for n in range(10_000):
        gone = Thing(1e9 + n)
        queue.add(gone.at, gone)
        gone.alive = False
        queue.forget()
    assert len(queue) == 100
    assert len(queue._heap) <= 2 * (100 + SWEEP_FROM)
    assert list(queue.due(1e8)) == kept


def test_what_is_forgotten_while_others_come_due_harms_nobody() -> None:
    """A sweep in the middle of a round neither loses a thing nor brings it twice."""
    queue = timers()
    doomed = [Thing(2.0) for _ in range(4 * SWEEP_FROM)]
    things = [Thing(1.0) for _ in range(10)]
    for thing in [*doomed, *things]:
        queue.add(thing.at, thing)
    seen = []
    for thing in queue.due(1.0):
        seen.append(thing)
        for gone in doomed:
            if gone.alive:
                gone.alive = False
                queue.forget()
    assert seen == things
    assert list(queue.due(math.inf)) == []


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 50)),
            st.tuples(st.just("forget"), st.integers(0, 300)),
            st.tuples(st.just("wait"), st.integers(0, 10)),
        ),
        max_size=300,
    )
)
def test_it_behaves_like_a_sorted_list(steps: list[tuple[str, int]]) -> None:
    """Whatever is added and forgotten in between, exactly what is due and matters comes out, in order."""
    queue = timers()
    model: list[Thing] = []
    now = 0.0
    for what, value in steps:
        if what == "add":
            model.append(Thing(now + value))
            queue.add(now + value, model[-1])
        elif what == "forget" and value < len(model):
            model.pop(value).alive = False
            queue.forget()
        elif what == "wait":
            now += value
            expected = sorted((thing for thing in model if thing.at <= now), key=lambda thing: thing.at)
            assert list(queue.due(now)) == expected
            model = [thing for thing in model if thing.at > now]
        assert len(queue) == len(model)
        assert queue.next() <= min((thing.at for thing in model), default=math.inf)
