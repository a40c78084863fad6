"""The rounds of a debate in the place of a job's inputs: the next one is there when the one before has been kept."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self

import msgspec
import trio

from agents.debate import Debate
from agents.debate_words import question
from agents.result import RunResult
from orchestrator.jobs.debating import content_of, folded, round_line, speakers
from orchestrator.jobs.files import storage_error
from orchestrator.jobs.inputs import Item, Unreadable
from orchestrator.jobs.record import JobLine, JobRecord
from orchestrator.jobs.results import ResultView
from orchestrator.jobs.template import Template
from orchestrator.views.runs import AgentChoice

QUESTION: Final = Template("{text}")
"""The prompt of a round."""


class Rounds:
    """An iterator of rounds, for one worker. `debate` is how it stands behind `lines`; the rest is `InputTail`'s."""

    problem: Final = ""

    def __init__(self, record: JobRecord, lines: Sequence[JobLine]) -> None:
        assert record.request.debate is not None
        self.taken = 0
        self.debate: Debate = folded(record.request.debate, record.request.who, lines, record.attempt)
        self._speakers = speakers(record.request.debate, record.request.who)
        self._subject = record.request.prompt
        self._before = len(lines)
        self._open = False

    def __repr__(self) -> str:
        return f"<Rounds {len(self.debate.turns)}, {self.debate.stop or 'going on'}>"

    @property
    def at_end(self) -> bool:
        """Whether the debate is over."""
        return self.debate.stop is not None

    @property
    def speaker(self) -> AgentChoice:
        """Whose round it is."""
        return self._speakers[self.debate.next_speaker]

    def ordinal(self, position: int) -> int:
        """The number of the round that was taken as this one."""
        return self._before + position

    def digest(self, position: int) -> str:
        """None: a round has no line in the inputs."""
        return ""

    def forget(self, position: int) -> None:
        """Nothing is kept of a round but the debate."""

    def line(self, item: Item, result: RunResult) -> JobLine:
        """The line of the round that is open."""
        return round_line(self.debate, item, result)

    def kept(self, line: JobLine) -> None:
        """The round has been said."""
        self.debate = self.debate.after(content_of(self.debate, line))
        self._open = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item | Unreadable:
        await trio.lowlevel.checkpoint()
        if self.at_end or self._open:
            raise StopAsyncIteration
        self._open = True
        self.taken += 1
        return Item(self.taken, self.debate.next_speaker, {"text": question(self.debate, self._subject)})


async def read_rounds(record: JobRecord, results: ResultView, limiter: trio.CapacityLimiter) -> Rounds:
    """The rounds behind those whose lines are kept. Raises `JobStorageError`."""
    return Rounds(record, await trio.to_thread.run_sync(_lines, results.path, results.size, limiter=limiter))


def _lines(path: Path, size: int) -> list[JobLine]:
    try:
        with path.open("rb") as file:
            data = file.read(size)
    except OSError as error:
        raise storage_error(path, "cannot be read", error) from error
    decoder = msgspec.json.Decoder(JobLine)
    return [decoder.decode(line) for line in data.splitlines()]
