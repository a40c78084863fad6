"""The provider that answers as recorded: lengths, times, limits, and what it says of them."""

from collections.abc import Sequence

import pytest
import trio

from agents.errors import Throttled
from agents.messages import Delta, Usage
from bench.recorded import BYTES_PER_TOKEN, RecordedBackend, Speed, recorded
from orchestrator.backends.simulated.config import SimLimit
from orchestrator.policy.feedback import Reading


class Seen:
    """Writes down an attempt's progress."""

    def __init__(self) -> None:
        self.readings: list[Sequence[Reading]] = []
        self.tokens: list[tuple[float, int]] = []
        self.began = trio.current_time()

    def connected(self) -> None:
        pass

    def written(self) -> None:
        pass

    def headers(self, readings: Sequence[Reading]) -> None:
        self.readings.append(readings)

    def alive(self) -> None:
        pass

    def usage(self, usage: Usage) -> None:
        pass

    async def deltas(self, deltas: Sequence[Delta]) -> None:
        self.tokens += [(trio.current_time() - self.began, delta.tokens) for delta in deltas]


async def test_an_answer_has_the_recorded_length_and_takes_the_providers_time(autojump_clock: None) -> None:
    """Uncached input and output take their time, tokens come in pieces, and usage is what was recorded."""
    backend = RecordedBackend(speed=Speed(first_token=0.5, input_rate=100.0, output_rate=10.0, steps=3))
    seen = Seen()
    reply = await backend.connect().send(recorded(150, 30, cached=50), seen)
    assert reply.usage == Usage(100, 50, None, 30)
    assert [at for at, _ in seen.tokens] == pytest.approx([1.5, 3.0, 4.5])
    assert [tokens for _, tokens in seen.tokens] == [10, 10, 10]


@pytest.mark.parametrize("length", [0, 1, 2, 7])
async def test_short_answers_bring_all_their_tokens(autojump_clock: None, length: int) -> None:
    """No token is lost or made up where an answer has fewer tokens than pieces."""
    backend, seen = RecordedBackend(), Seen()
    reply = await backend.connect().send(recorded(10, length), seen)
    assert sum(tokens for _, tokens in seen.tokens) == length
    assert reply.usage.output == length


async def test_a_recorded_duration_is_kept(autojump_clock: None) -> None:
    """A call that says how long it took takes just that."""
    began = trio.current_time()
    await RecordedBackend().connect().send(recorded(500, 70, seconds=12.5), Seen())
    assert trio.current_time() - began == pytest.approx(12.5)


async def test_limits_refuse_and_say_which_and_how_long(autojump_clock: None) -> None:
    """A call over a limit is a 429 that names the limit and a wait, and counts; its headers tell what is left."""
    backend = RecordedBackend([SimLimit(kind="requests", amount=2)])
    seen = Seen()
    for _ in range(2):
        await backend.connect().send(recorded(10, 5), seen)
    with pytest.raises(Throttled) as caught:
        await backend.connect().send(recorded(10, 5), seen)
    assert caught.value.exhausted == {"requests"}
    assert caught.value.retry_after is not None
    assert 0.0 < caught.value.retry_after <= 60.0
    assert (backend.admitted, backend.refused) == (2, 1)
    assert [reading.remaining for (reading,) in seen.readings] == [1.0, 0.0, 0.0]
    await trio.sleep(caught.value.retry_after)
    await backend.connect().send(recorded(10, 5), seen)
    assert backend.utilisation(0.0, 60.0) == {"requests": 1.0}


async def test_a_call_that_is_cut_short_leaves_no_trace_in_flight(autojump_clock: None) -> None:
    """A cancelled answer frees its place at once, and counts what was produced."""
    limit = SimLimit(kind="total_tokens", amount=1000)
    backend = RecordedBackend([limit], concurrency=1, speed=Speed(first_token=1.0, output_rate=10.0, steps=5))
    with trio.move_on_after(2.0):
        await backend.connect().send(recorded(100, 50, max_tokens=500), Seen())
    assert backend.enforcer.in_flight == 0
    assert backend.utilisation(0.0, 60.0)["total_tokens"] == pytest.approx((100 + 10) / 1000, abs=0.011)
    await backend.connect().send(recorded(100, 50), Seen())
    assert (backend.peak, backend.refused) == (1, 0)


def test_a_request_has_a_size_for_the_estimates_and_a_bound_for_the_limits() -> None:
    """Bytes follow the tokens and the noise; the bound is never under the answer, nor the cache over the input."""
    request = recorded(100, 40, cached=300, max_tokens=20, noise=1.5)
    assert request.input_bytes() == round(100 * BYTES_PER_TOKEN * 1.5)
    assert (request.max_tokens, request.cached) == (40, 100)
    assert recorded(100, 40, max_tokens=256).max_tokens == 256
    assert recorded(0, 1).input_bytes() == 1
