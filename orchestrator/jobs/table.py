"""What a job's result lines come to, kept up to date line by line. Pure state, two bytes per item.

The last line of an ordinal counts, so a counter goes down where a later line supersedes an earlier one. After a crash
the same attempts and lines, read again in the same order, give the same table.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from agents.amounts import NOTHING, Amounts
from agents.lifecycle import StopReason
from agents.messages import Usage
from orchestrator.jobs.job import ERRORS_KEPT
from orchestrator.jobs.record import JobLine, JobSummary

_NONE: Final = 0
_DONE: Final = 1
_MOST_REASONS: Final = 255
_OTHER: Final = "other"


class ResultTable:
    """The last result of each ordinal, and the sums. `only_failed` is what the present attempt was begun with."""

    def __init__(self) -> None:
        self._codes = bytearray(1)
        self._ended = bytearray(1)
        self.only_failed = False
        self._counts = [0, 0]
        self._names = ["", "done"]
        self._by_name: dict[str, int] = {}
        self._errors: dict[int, str] = {}
        # Plain numbers, since a retry adds up a million lines while somebody waits.
        self._usage: list[int | None] = [None] * len(Usage.__struct_fields__)
        self._micro_dollars: int | None = 0
        self._spent = [0] * len(Amounts.__struct_fields__)
        self._unknown = NOTHING
        self._failed_again = 0
        self.stages: set[str] = set()

    @property
    def done(self) -> int:
        """Ordinals whose last line says `done`."""
        return self._counts[_DONE]

    @property
    def failed(self) -> int:
        """Ordinals whose last line says `failed`."""
        return sum(self._counts[_DONE + 1 :])

    @property
    def failed_again(self) -> int:
        """Those of them that ended in the present attempt."""
        return self._failed_again

    @property
    def an_error(self) -> str:
        """What is known of some item that failed."""
        return next(reversed(self._errors.values()), "")

    def is_over(self, ordinal: int) -> bool:
        """Whether the present attempt has nothing to do with this one: it is done, or came to an end in it."""
        if ordinal >= len(self._codes):
            return self.only_failed
        return self._codes[ordinal] == _DONE or self._ended[ordinal] == 1

    def open(self, items: int) -> int:
        """How many of `items` there are the present attempt has to do with and that are not over."""
        known = min(items, len(self._codes) - 1)
        done = int.from_bytes(self._codes[1 : known + 1].translate(_marks(bytes([_DONE]))))
        over = (done | int.from_bytes(self._ended[1 : known + 1])).bit_count()
        return known - over + (0 if self.only_failed else items - known)

    def begun(self, items: int, most: int) -> Iterator[int]:
        """The ordinals, of `items` there are, of which a run may be known though nothing is said of its end here.

        Items are taken in their order, at most `most` of them ahead of the first whose end is not kept. So they are
        among the first that are not over.
        """
        ordinals = (ordinal for ordinal in range(1, items + 1) if not self.is_over(ordinal))
        return islice(ordinals, most)

    def begin(self, *, granted: bool, only_failed: bool = False) -> None:
        """Another attempt begins; with `granted` nothing of the job's budget is spent.

        With `only_failed` it has nothing to do with ordinals that have no line, or were cancelled.
        """
        self.only_failed = only_failed
        left_out = bytes({_NONE, self._by_name.get(StopReason.CANCELLED.value, _NONE)}) if only_failed else b""
        self._ended = bytearray(self._codes.translate(_marks(left_out)))
        self._failed_again = 0
        self.stages = set()
        if granted:
            self._spent = [0] * len(Amounts.__struct_fields__)
            self._unknown = NOTHING

    def add(self, line: JobLine, unknown: Amounts = NOTHING) -> None:
        """Takes in the next line, and what its run may have used besides."""
        ordinal = line.ordinal
        if ordinal >= len(self._codes):
            more = bytes(ordinal - len(self._codes) + 1)
            self._codes.extend(more)
            self._ended.extend(b"\1" * len(more) if self.only_failed else more)
        before = self._codes[ordinal]
        self._failed_again -= self._ended[ordinal] == 1 and before not in (_NONE, _DONE)
        self._ended[ordinal] = 1
        if before != _NONE:
            self._counts[before] -= 1
            self._errors.pop(ordinal, None)
        code = _DONE if line.state == "done" else self._code(line.reason)
        self._codes[ordinal] = code
        self._counts[code] += 1
        self._failed_again += code != _DONE
        if code != _DONE and len(self._errors) < ERRORS_KEPT and line.reason != StopReason.CANCELLED.value:
            self._errors[ordinal] = f"{line.origin}: {line.error or line.reason}"
        self._pay(line)
        if unknown != NOTHING:
            self._unknown += unknown

    def pay_stage(self, stage: str, usage: Usage, micro_dollars: int | None) -> None:
        """A stage of the attempt beside the work at items has cost so much; `stages` are those that have been paid."""
        self.stages.add(stage)
        self._add(usage, micro_dollars)

    def summary(self) -> JobSummary:
        """Everything but the ordinals, at this moment."""
        failures = {name: count for name, count in zip(self._names[2:], self._counts[2:], strict=True) if count}
        return JobSummary(
            done=self.done,
            failed=self.failed,
            usage=Usage(*self._usage),
            micro_dollars=self._micro_dollars,
            failures=failures,
            errors=tuple(self._errors.values()),
            spent=Amounts(*self._spent),
            unknown=self._unknown,
        )

    def _code(self, reason: str) -> int:
        code = self._by_name.get(reason)
        if code is not None:
            return code
        if len(self._names) >= _MOST_REASONS and reason != _OTHER:
            return self._code(_OTHER)
        self._names.append(reason)
        self._counts.append(0)
        self._by_name[reason] = len(self._names) - 1
        return self._by_name[reason]

    def _pay(self, line: JobLine) -> None:
        cost = line.micro_dollars
        tokens = self._add(line.usage, cost)
        for i, amount in enumerate((line.rounds, line.tool_calls, tokens, cost or 0)):
            self._spent[i] += amount

    def _add(self, usage: Usage, cost: int | None) -> int:
        sums, tokens = self._usage, 0
        for i, amount in enumerate((usage.input, usage.cached, usage.cache_write, usage.output)):
            if amount is not None:
                sums[i] = amount + (sums[i] or 0)
                tokens += amount
        self._micro_dollars = None if cost is None or self._micro_dollars is None else self._micro_dollars + cost
        return tokens

    def __repr__(self) -> str:
        return f"<ResultTable {self.done} done, {self.failed} failed>"


def _marks(codes: bytes) -> bytes:
    """For `translate`: 1 for each of these codes, 0 for every other."""
    return bytes(code in codes for code in range(256))
