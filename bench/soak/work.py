"""The load of a soak: agents kept at a number, and HTTP clients that ask, stream, and sometimes leave."""

import itertools
import random
from typing import Final

import httpx2
import msgspec
import trio
from msgspec import Struct, field

from orchestrator.client.client import Client
from orchestrator.client.errors import ClientError
from orchestrator.views.runs import AgentChoice, RunRequest

LEAVES: Final = 0.02
STARTING: Final = 16
"""Starts of runs that are under way at a time."""
LIVE: Final = ("pending", "running")


class Call(Struct, frozen=True):
    """One answered call of an HTTP client: when it began, on trio's clock, and how long it took."""

    at: float
    seconds: float


class Tally(Struct):
    """What the load came to. `broken` says what should not have been; `refused` counts answers of 429 and 503."""

    answered: list[Call] = field(default_factory=list)
    refused: int = 0
    left: int = 0
    started: int = 0
    live: list[int] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


class Agents:
    """Keeps so many runs live."""

    def __init__(self, client: Client, tally: Tally, number: int) -> None:
        self._client = client
        self._tally = tally
        self._number = number
        self._ids = itertools.count(1)

    async def keep(self) -> None:
        """Until cancelled. What was started and not answered is known by its id."""
        while True:
            live = await self.live()
            self._tally.live.append(live)
            async with trio.open_nursery() as nursery:
                room = trio.CapacityLimiter(STARTING)
                for _ in range(self._number - live):
                    await room.acquire_on_behalf_of(token := object())
                    nursery.start_soon(self._start, room, token)
            await trio.sleep(1.0)

    async def live(self) -> int:
        """How many there are."""
        return (await self._client.runs(observed=LIVE, tenant="agents", size=1)).total

    async def _start(self, room: trio.CapacityLimiter, token: object) -> None:
        run = f"soak-{next(self._ids)}"
        try:
            with trio.CancelScope(shield=True):  # what is started is counted
                await self._client.start_run(
                    RunRequest(task="Look at it.", who=AgentChoice(agent="worker"), run=run, tenant="agents")
                )
                self._tally.started += 1
        except ClientError as error:
            self._tally.broken.append(f"run {run} was not started: {error.message}")
        finally:
            room.release_on_behalf_of(token)


class People:
    """HTTP clients in OpenAI's dialect."""

    def __init__(self, url: str, tally: Tally, *, seed: int = 0) -> None:
        self._url = url
        self._tally = tally
        self._random = random.Random(seed)

    async def one(self, http: httpx2.AsyncClient, number: int, until: float) -> None:
        """One client: call after call until then, every other client a streaming one."""
        while trio.current_time() < until:
            patience = self._random.uniform(0.05, 0.4) if self._random.random() < LEAVES else 120.0
            with trio.move_on_after(patience) as leaving:
                await self._call(http, stream=number % 2 == 0)
            self._tally.left += leaving.cancelled_caught
            if leaving.cancelled_caught and patience == 120.0:
                self._tally.broken.append(f"client {number} had no answer within {patience:g} s")

    async def _call(self, http: httpx2.AsyncClient, *, stream: bool) -> None:
        began = trio.current_time()
        body = {"model": "m", "stream": stream, "max_tokens": 32, "messages": [{"role": "user", "content": "Say it."}]}
        headers = {"content-type": "application/json", "x-headrace-tenant": "people"}
        try:
            async with http.stream(
                "POST", f"{self._url}/v1/chat/completions", content=msgspec.json.encode(body), headers=headers
            ) as answer:
                whole = await answer.aread()
        except httpx2.HTTPError as error:
            self._tally.broken.append(f"a client's connection broke: {type(error).__name__}: {error}")
            return
        if answer.status_code in (429, 503):
            self._tally.refused += 1
            await trio.sleep(min(float(answer.headers.get("retry-after", "1")), 5.0))
        elif answer.status_code != 200:
            self._tally.broken.append(f"a client was answered {answer.status_code}: {whole[:200].decode()}")
        elif stream and not whole.rstrip().endswith(b"data: [DONE]"):
            # a stream that broke off after its first token tells so in it
            if b'"error"' not in whole:
                self._tally.broken.append(f"a stream ended without a word: {whole[-200:].decode()}")
        else:
            self._tally.answered.append(Call(began, trio.current_time() - began))
