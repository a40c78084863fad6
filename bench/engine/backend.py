"""The engine as a backend of an owner: the same model, which takes what the owner sends in the order of its sending."""

import trio

from agents.messages import Delta, Message, ModelReply, ModelRequest, Usage
from bench.engine.model import A10G, Engine, EngineSpec, Job, Phase
from bench.engine.policies import Fcfs
from bench.recorded import Recorded
from orchestrator.backends.base import Capabilities, Connection, Progress


class _Live(Job, kw_only=True):
    """A request in the engine, with whom to tell of it. `told` counts the tokens that were."""

    progress: Progress
    over: trio.Event
    told: int = 0


class EngineBackend:
    """One engine. Run `work` beside the owner; it never ends by itself.

    Tokens are told `every` so many, as by a server that streams in chunks, the first and the last at once.
    """

    name = "engine"

    def __init__(self, spec: EngineSpec = A10G, *, every: int = 4) -> None:
        self._waiting = Fcfs()
        self._engine = Engine(self._waiting, spec)
        self._every = every
        self._wake = trio.Event()

    def capabilities(self) -> Capabilities:
        return Capabilities("engine")

    def connect(self) -> Connection:
        return _Connection(self)

    async def work(self) -> None:
        """Serves whatever was sent, for ever."""
        while True:
            phase = self._engine.phase()
            if phase is None:
                self._wake = trio.Event()
                await self._wake.wait()
            else:
                await trio.sleep(phase.seconds)
                await self._finish(phase)

    async def serve(self, request: Recorded, progress: Progress) -> None:
        """Returns with the request's last token. Cancelled, it takes the request out of the engine."""
        job = _Live(client="", input=request.given, output=request.length, progress=progress, over=trio.Event())
        self._waiting.push(job, trio.current_time())
        self._wake.set()
        try:
            await job.over.wait()
        finally:
            self._engine.give_up(job)

    async def _finish(self, phase: Phase) -> None:
        for job in self._engine.finish(phase):
            assert isinstance(job, _Live)
            over = job.made >= job.output
            if job.made == 1 or over or job.made - job.told >= self._every:
                await job.progress.deltas((Delta(tokens=job.made - job.told),))
                job.told = job.made
            if over:
                job.over.set()

    def __repr__(self) -> str:
        return f"<EngineBackend {self._engine!r}>"


class _Connection:
    __slots__ = ("_backend",)

    def __init__(self, backend: EngineBackend) -> None:
        self._backend = backend

    async def send(self, request: ModelRequest, progress: Progress) -> ModelReply:
        assert isinstance(request, Recorded), "only recorded calls are played"
        progress.connected()
        progress.written()
        progress.headers(())
        await self._backend.serve(request, progress)
        usage = Usage(request.given, None, None, request.length)
        return ModelReply(Message("assistant"), "stop", usage, request.model)

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()
