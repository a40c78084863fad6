"""The simulated provider in a process of its own, and what it saw: `python -m bench.peers.provider LIMITS`.

`headrace simulate` with short windows, and with a second port that tells whoever connects what the provider counted.
"""

import sys
from functools import partial

import msgspec
import trio
from msgspec import Struct

from bench.peers.work import Limits
from orchestrator.backends.simulated.provider import SimProvider
from orchestrator.backends.simulated.server import serve_simulated


class Counts(Struct, frozen=True):
    """What the provider saw. `throttled` are the 429s that it answered, by the limit that was exhausted; tokens are
    those that it worked, for whomever and whatever became of the answer.
    """

    arrived: int
    completed: int
    aborted: int
    throttled: dict[str, int]
    tokens: int


def counts_of(provider: SimProvider) -> Counts:
    """Its counters now."""
    seen = provider.statistics()
    refused = {reason: number for reason, number in seen.refused.items() if reason not in ("invalid", "key")}
    tokens = round(seen.input_tokens.total + seen.output_tokens.total)
    return Counts(seen.arrived, seen.completed, seen.aborted, refused, tokens)


async def serve(limits: Limits, port: int) -> None:
    """Serves until cancelled, and prints both addresses once it listens."""
    provider = SimProvider(limits.provider())

    async def tell(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.send_all(msgspec.json.encode(counts_of(provider)))

    async with trio.open_nursery() as nursery:
        url = await nursery.start(partial(serve_simulated, provider, port=port))
        told = await nursery.start(partial(trio.serve_tcp, tell, 0, host="127.0.0.1"))
        print(f"serves {url} and counts at {told[0].socket.getsockname()[1]} .", flush=True)


async def ask(port: int) -> Counts:
    """What the provider whose second port this is has counted."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        return msgspec.json.decode(b"".join([part async for part in stream]), type=Counts)


def main() -> None:
    """The process."""
    trio.run(serve, msgspec.json.decode(sys.argv[1], type=Limits), int(sys.argv[2]) if sys.argv[2:] else 0)


if __name__ == "__main__":
    main()
