"""The runs that tool calls of a run elsewhere have started: they are driven here, like those of every other run."""

import trio
from msgspec.structs import replace

from agents.errors import HeadraceError
from agents.origin import RunLeft
from agents.spawner import Child, ChildRequest, Spawner, Spent
from orchestrator.pools.errors import UnknownChild
from orchestrator.views.workers import ChildAnswer, ChildStep


class RemoteChildren:
    """The children of one run. Whoever drives their parent next joins them."""

    def __init__(self, spawner: Spawner | None) -> None:
        self._spawner = spawner
        self._children: dict[str, Child] = {}
        self._starts: dict[str, trio.Lock] = {}

    async def start(self, request: ChildRequest) -> ChildAnswer:
        """The child of this id, new or joined."""
        async with self._starts.setdefault(request.run, trio.Lock()):
            child = self._children.get(request.run)
            if child is None:
                if self._spawner is None:
                    return ChildAnswer(refused="whoever runs this starts no runs for others")
                try:
                    child = self._children[request.run] = await self._spawner.start(request)
                except HeadraceError as error:
                    return ChildAnswer(refused=error.message)
            return ChildAnswer(spent=child.spent())

    async def step(self, asked: ChildStep) -> ChildAnswer:
        """Does with it what is asked, and says where it stands. Raises `UnknownChild`."""
        child = self._children.get(asked.child)
        if child is None:
            raise UnknownChild(f"no run {asked.child} was started here")
        if asked.what == "leave":
            await self._leave(asked.child)
            return ChildAnswer(spent=child.spent(), left=f"run {asked.child} was left open")
        if asked.what == "cancel":
            await child.cancel()
        answer = ChildAnswer()
        with trio.move_on_after(asked.seconds):
            answer = await self._end_of(asked.child, child)
        return replace(answer, spent=child.spent())

    def spent(self, run: str) -> Spent:
        """What the child has come to so far."""
        child = self._children.get(run)
        return Spent() if child is None else child.spent()

    async def leave_all(self) -> None:
        """Lets go of all of them, and leaves them open."""
        async with trio.open_nursery() as nursery:
            for run in tuple(self._children):
                nursery.start_soon(self._leave, run)

    async def _leave(self, run: str) -> None:
        child = self._children.get(run)
        if child is not None:
            await child.leave()
            self._forget(run, child)

    async def _end_of(self, run: str, child: Child) -> ChildAnswer:
        try:
            return ChildAnswer(result=await child.wait())
        except RunLeft as left:
            self._forget(run, child)
            return ChildAnswer(left=left.message)
        except HeadraceError as error:
            self._forget(run, child)
            return ChildAnswer(refused=error.message)

    def _forget(self, run: str, child: Child) -> None:
        if self._children.get(run) is child:
            del self._children[run]
