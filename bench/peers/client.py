"""A plain asyncio client in a process of its own: `python -m bench.peers.client`.

It reads a `Plan` as a line of JSON, says `ready`, begins at the next line, and says a `Told`. It knows nothing of
Headrace: it posts chat completions and looks at status, `retry-after` and usage, as any script does.
"""

import asyncio
import contextlib
import random
import ssl
import sys
import time
from collections.abc import Mapping
from typing import Any, Final

import httpx2
import msgspec

from bench.peers.bucket import Bucket
from bench.peers.work import Answered, Item, Plan, Told

MODEL: Final = "simulated"

_HEADERS: Final = {"authorization": "Bearer sk-bench"}

_REPEATED: Final = frozenset({408, 409, 429})
"""What is tried again, with whatever is 500 or more: the rule of OpenAI's SDK."""


class _Bounds:
    """How one process holds itself back."""

    def __init__(self, plan: Plan) -> None:
        paced = plan.manner == "bucket"
        self._requests = Bucket(plan.rpm * plan.share / 60, plan.burst) if paced else None
        self._tokens = Bucket(plan.tpm * plan.share / 60, plan.burst) if paced else None
        self._connections = plan.connections
        self._open: dict[str, asyncio.Semaphore] = {}

    def open(self, job: str) -> contextlib.AbstractAsyncContextManager[object]:
        """A place among the calls of a job."""
        if self._connections is None:
            return contextlib.nullcontext()
        return self._open.setdefault(job, asyncio.Semaphore(self._connections))

    async def take(self, amount: float) -> None:
        if self._requests is not None and self._tokens is not None:
            await self._tokens.take(amount)
            await self._requests.take(1)

    def correct(self, difference: float) -> None:
        if self._tokens is not None:
            self._tokens.correct(difference)


class _Connections:
    """A connection for each open call, made when it is needed and used again.

    One client for all would look through every connection at every change, and a job of hundreds would come late.
    """

    def __init__(self) -> None:
        self._free: list[httpx2.AsyncClient] = []
        self._all: list[httpx2.AsyncClient] = []
        self._context = ssl.create_default_context()

    async def post(self, url: str, body: object, headers: Mapping[str, str]) -> httpx2.Response:
        """Raises `httpx2.TransportError`."""
        if self._free:
            http = self._free.pop()
        else:
            http = httpx2.AsyncClient(verify=self._context, timeout=None, headers=_HEADERS, trust_env=False)
            self._all.append(http)
        try:
            return await http.post(url, json=body, headers=headers)
        finally:
            self._free.append(http)

    async def aclose(self) -> None:
        for http in self._all:
            await http.aclose()


class _Work:
    """One plan, under way."""

    def __init__(self, plan: Plan, connections: _Connections) -> None:
        self._plan = plan
        self._connections = connections
        self._bounds = _Bounds(plan)
        self._rng = random.Random(f"{plan.seed}/client")
        self._began = time.monotonic()
        self.told = Told()

    async def run(self) -> None:
        """Every call; returns when all have ended or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._plan.within), asyncio.TaskGroup() as group:
                for item in self._plan.items:
                    group.create_task(self._one(item))

    async def _one(self, item: Item) -> None:
        async with self._bounds.open(item.job):
            tried = 0
            while (pause := await self._attempt(item, tried)) is not None:
                tried += 1
                await asyncio.sleep(pause)

    async def _attempt(self, item: Item, tried: int) -> float | None:
        """One request; the seconds until the next one for the same item, None if there is to be none."""
        await self._bounds.take(item.estimate)
        body = {
            "model": MODEL,
            "messages": [{"role": "user", "content": item.prompt}],
            "max_tokens": item.max_tokens,
        }
        try:
            response = await self._connections.post(
                f"{self._plan.url}/chat/completions", body, self._plan.headers.get(item.job, {})
            )
        except httpx2.TransportError:
            self.told.errors += 1
            return self._pause(None, tried)
        if response.status_code == 200:
            tokens = _tokens(response.json())
            self._bounds.correct(tokens - item.estimate)
            self.told.answered.append(Answered(item.job, round(time.monotonic() - self._began, 4), tokens))
            return None
        self._bounds.correct(-item.estimate)
        if response.status_code == 429:
            self.told.refused += 1
        else:
            self.told.errors += 1
        if response.status_code not in _REPEATED and response.status_code < 500:
            self.told.given_up += 1
            return None
        return self._pause(response.headers, tried)

    def _pause(self, headers: httpx2.Headers | None, tried: int) -> float:
        backoff = min(self._plan.backoff * 2 ** min(tried, 20), self._plan.longest)
        return asked_for(headers) + self._rng.uniform(0, backoff)


def asked_for(headers: httpx2.Headers | None) -> float:
    """The pause that a server asks for: the exact one, if it says it; 0 if it asks for none."""
    for name, part in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        with contextlib.suppress(ValueError):
            if headers is not None and name in headers:
                return max(0.0, float(headers[name]) / part)
    return 0.0


def _tokens(answer: Any) -> int:
    return int(answer["usage"]["total_tokens"])


async def work(plan: Plan) -> Told:
    """Does all of it."""
    connections = _Connections()
    doing = _Work(plan, connections)
    await doing.run()
    await connections.aclose()
    return doing.told


def main() -> None:
    """The process."""
    plan = msgspec.json.decode(sys.stdin.buffer.readline(), type=Plan)
    print("ready", flush=True)
    if sys.stdin.buffer.readline():
        told = asyncio.run(work(plan))
        sys.stdout.write(msgspec.json.encode(told).decode() + "\n")


if __name__ == "__main__":
    main()
