"""A process that works at one run and is killed at a given point, again and again from one warm parent.

It reads a JSON line per life from its standard input: the folder, the scenario, and the number of the point at which
the life ends by SIGKILL (0: none). A life takes up whatever the folder's store holds, begins the run where there is
none, and ends when the run has. The answer is a line with the exit status and, if the life ended well, its points.

Points lie on each side of every append, of every model call, and of every effect of a tool.
"""

import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import trio

from agents.amounts import Limits
from agents.budget import Scope
from agents.context import ToolContext
from agents.messages import Message, ModelReply, ModelRequest
from agents.port import Flow, ModelPort, Priority, Receipt
from agents.scripted import ScriptedModel, ask, ask_all, in_turn, say
from agents.spec import AgentSpec
from agents.tools import Tool
from orchestrator.catalogue import Catalogue, Target
from orchestrator.runs.service import RunService
from orchestrator.store.base import Batch, SessionView, Store
from orchestrator.store.sqlite import open_sqlite
from orchestrator.views.runs import AgentChoice, RunRequest

RUN = "r"


class Points:
    """Counts the points of a life, and ends it at one of them."""

    def __init__(self, last: int) -> None:
        self.passed = 0
        self._last = last

    def __call__(self) -> None:
        self.passed += 1
        if self.passed == self._last:
            os.kill(os.getpid(), signal.SIGKILL)


class DeadlyStore:
    """A store with a point on each side of whatever makes events durable."""

    def __init__(self, store: Store, point: Points) -> None:
        self._store = store
        self._point = point

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def take(self, session: str, holder: str, *, tenant: str = "", batch: Batch | None = None) -> SessionView:
        self._point()
        view = await self._store.take(session, holder, tenant=tenant, batch=batch)
        self._point()
        return view

    async def append(self, batch: Batch, generation: int) -> int:
        self._point()
        last = await self._store.append(batch, generation)
        self._point()
        return last

    async def append_external(self, session: str, key: str, records: Sequence[bytes]) -> int:
        self._point()
        last = await self._store.append_external(session, key, records)
        self._point()
        return last


class DeadlyModel:
    """A scripted model with a point on each side of its answer; each request leaves a line with its key."""

    def __init__(self, folder: Path, point: Points, script: Callable[[tuple[Message, ...]], Any]) -> None:
        self._model = ScriptedModel(script)
        self._folder = folder
        self._point = point

    async def call(
        self,
        request: ModelRequest,
        *,
        deadline: float = float("inf"),
        priority: Priority | None = None,
        receipt: Receipt | None = None,
    ) -> ModelReply:
        assert receipt is not None
        self._point()
        write_line(self._folder / "calls", receipt.key)
        reply = await self._model.call(request, deadline=deadline)
        self._point()
        return reply

    def port(self, flow: Flow, priority: Priority) -> ModelPort:
        return self

    def ended(self, flow: Flow) -> None:
        pass


def write_line(path: Path, line: str) -> None:
    """One line, there for whoever looks after this process was killed."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, line.encode() + b"\n")
    os.close(fd)


def tools_of(folder: Path, point: Points) -> tuple[Any, ...]:
    """Tools whose effects are lines of files: one that must not be repeated, one that may, one that only reads."""

    async def post(text: str, context: ToolContext) -> str:
        """Send a letter."""
        point()
        write_line(folder / "posted", context.key)
        point()
        return f"sent {text}"

    async def put(text: str, context: ToolContext) -> str:
        """Put a thing in its place."""
        point()
        write_line(folder / "put", context.key)
        point()
        return f"put {text}"

    def look(place: str) -> str:
        """Look at a place."""
        point()
        return f"{place} looks fine"

    return Tool(post), Tool(put, idempotent=True), Tool(look, read_only=True)


SCENARIOS: dict[str, tuple[Callable[[tuple[Message, ...]], Any], Limits]] = {
    "letters": (
        in_turn(
            ask_all(("post", {"text": "a"}), ("put", {"text": "b"}), ("look", {"place": "c"}), ("post", {"text": "d"})),
            ask("post", {"text": "e"}),
            say("all is done"),
        ),
        Limits(rounds=5, tokens=200_000),
    ),
    "few_tools": (
        in_turn(
            ask_all(("post", {"text": "a"}), ("post", {"text": "b"}), ("post", {"text": "c"})),
            say("not reached"),
        ),
        Limits(tool_calls=2),
    ),
    "few_rounds": (in_turn(ask("put", {"text": "a"})), Limits(rounds=2)),
    "timeout": (in_turn(ask("post", {"text": "a"}), say("all is done")), Limits(timeout=60.0)),
}


async def live(folder: Path, scenario: str, point: Points, later: float) -> None:
    """One life, to the end of the run. The wall clock is `later` seconds ahead."""
    script, limits = SCENARIOS[scenario]
    agent = AgentSpec(name="clerk", model="m", tools=tools_of(folder, point), limits=limits)
    catalogue = Catalogue(models={"m": [Target("b", "m")]}, agents={"clerk": agent})
    async with open_sqlite(folder / "store.db") as store, trio.open_nursery() as nursery:
        runs = RunService(
            nursery,
            models=DeadlyModel(folder, point, script),
            catalogue=lambda: catalogue,
            store=DeadlyStore(store, point),  # type: ignore[arg-type]
            parent=lambda tenant: Scope("tenant"),
            wall=lambda: time.time() + later,
        )
        await runs.recover()
        await runs.resume_rest()
        if await store.run(RUN) is None:
            await runs.start(RunRequest(task="Do it.", who=AgentChoice(agent="clerk"), run=RUN))
        await runs.wait(RUN)
        nursery.cancel_scope.cancel()


def one_life(order: dict[str, Any]) -> None:
    """In a process of its own: lives, and leaves a count of its points."""
    point = Points(order["kill_at"])
    trio.run(live, Path(order["folder"]), order["scenario"], point, order.get("later", 0.0))
    (Path(order["folder"]) / "points").write_text(str(point.passed))


def main() -> None:
    """Forks a life per line. Nothing here has a thread, so a fork is whole."""
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                one_life(order)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        print(json.dumps({"status": os.waitstatus_to_exitcode(status)}), flush=True)


if __name__ == "__main__":
    main()
