"""One worker process, as far as the pool knows it. Pure."""

from collections import deque
from collections.abc import Iterable

from orchestrator.views.workers import News, WorkerView


class Seat:
    """`room` is how many more runs it could take, `runs` those it has a claim to. `heard` is when it was last heard of.

    `turn` counts its polls: only the latest is answered with anything to do. `polling` says that one is open.
    `told_soon` says that it was told that the daemon is ending. `instance` is the process that has the name; `cut` says
    that its latest poll broke off before it was answered.
    """

    __slots__ = (
        "_last",
        "_news",
        "cut",
        "heard",
        "instance",
        "name",
        "polling",
        "room",
        "runs",
        "told_soon",
        "turn",
    )

    def __init__(self, name: str, heard_news: int, instance: str = "") -> None:
        self.name = name
        self.instance = instance
        self.cut = False
        self.room = 0
        self.runs: set[str] = set()
        self.heard = 0.0
        self.turn = 0
        self.polling = False
        self.told_soon = False
        self._last = heard_news  # a daemon that has just begun counts on from what the worker has heard
        self._news: deque[tuple[int, News]] = deque()

    @property
    def load(self) -> float:
        """Which part of what it could drive it drives."""
        return len(self.runs) / max(1, len(self.runs) + self.room)

    def tell(self, news: News) -> None:
        """Something came into the log of one of its runs."""
        self._last += 1
        self._news.append((self._last, news))

    def acted_on(self, heard: int) -> None:
        """It has acted on all news up to this number."""
        while self._news and self._news[0][0] <= heard:
            self._news.popleft()

    def news(self) -> tuple[tuple[News, ...], int]:
        """What it has not acted on about runs that are still its own, and the number of the last of them."""
        return tuple(news for _, news in self._news if news.run in self.runs), self._last

    def forget(self, runs: Iterable[str]) -> None:
        """These are not its own any more."""
        self.runs.difference_update(runs)

    def view(self, now: float) -> WorkerView:
        return WorkerView(worker=self.name, runs=len(self.runs), room=self.room, quiet=max(0.0, now - self.heard))
