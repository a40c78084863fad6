"""A model of one GPU that serves with continuous batching, phase by phase: pure, and fixed.

It is fitted to the profile that comes with the artifact of Sheng et al., "Fairness in Serving Large Language Models"
(OSDI 2024): Llama-2-7b on an A10G, served by S-LoRA. A decode step makes one token for every sequence of the batch, and
takes `base + per_sequence * batch + per_kv_token * tokens in the KV cache`. New sequences are let in when nothing runs
or once `admit_every` decode steps have been made since the last ones; their input is prefilled in one go, at most
`prefill_tokens` of it, and only while the most that the KV cache will ever have to hold, if every sequence runs to its
end, stays below `kv_tokens`. The prefill makes each one's first token. Worst error of a decode step against the
profile: 9.7 %.

It is not tuned. Policies are compared on it, so nothing about it may be chosen to make one of them look good.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from msgspec import Struct


class EngineSpec(Struct, frozen=True, kw_only=True):
    """Sizes in tokens, times in seconds."""

    kv_tokens: int = 10_000
    prefill_tokens: int = 3_072
    admit_every: int = 10
    per_prefill_token: float = 1.08 * 0.214e-3
    base: float = 1.08 * 16.3e-3
    per_sequence: float = 1.08 * 0.245e-3
    per_kv_token: float = 1.08 * 2.02e-6


A10G: Final = EngineSpec()


class Job(Struct, eq=False, kw_only=True):
    """One request in the engine: `input` tokens in, `output` tokens out, of which `made` are there."""

    client: str
    input: int
    output: int
    made: int = 0

    @property
    def held(self) -> int:
        """Tokens that it has in the KV cache."""
        return self.input + self.made

    @property
    def left(self) -> int:
        """Tokens that it will still make."""
        return self.output - self.made


class Queue(Protocol):
    """Who waits for the engine, in the order of some policy."""

    def peek(self) -> Job | None:
        """Who goes next; None if nobody waits."""
        ...

    def take(self, job: Job) -> None:
        """This one, the next, is let in."""
        ...

    def made(self, job: Job) -> None:
        """It has one more token."""
        ...

    def ended(self, job: Job) -> None:
        """It has its last token."""
        ...


class Phase(Struct, frozen=True):
    """What the engine does next, and how long that takes: the prefill of `admitted`, or, without any, a decode step."""

    seconds: float
    admitted: Sequence[Job] = ()


class Engine:
    """The batch. Ask for the next `phase`, let its time pass, and then `finish` it."""

    def __init__(self, queue: Queue, spec: EngineSpec = A10G) -> None:
        self.spec = spec
        self.batch: list[Job] = []
        self._queue = queue
        self._steps = spec.admit_every

    def phase(self) -> Phase | None:
        """What to do now; None while there is nothing to do."""
        if not self.batch or self._steps >= self.spec.admit_every:
            admitted = self._admit()
            if admitted:
                self._steps = 0
                tokens = sum(job.input for job in admitted)
                return Phase(self.spec.per_prefill_token * tokens, admitted)
        if not self.batch:
            return None
        spec, batch = self.spec, self.batch
        held = sum([job.input + job.made for job in batch])
        return Phase(spec.base + spec.per_sequence * len(batch) + spec.per_kv_token * held)

    def finish(self, phase: Phase) -> Sequence[Job]:
        """The phase is over: everybody in it has one more token. Answers them all; those without any left are out."""
        if phase.admitted:
            self.batch.extend(phase.admitted)
            served = phase.admitted
        else:
            self._steps += 1
            served = tuple(self.batch)
        over = False
        for job in served:
            job.made += 1
            self._queue.made(job)
            over = over or job.made >= job.output
        if over:
            for job in served:
                if job.made >= job.output:
                    self._queue.ended(job)
            self.batch = [job for job in self.batch if job.made < job.output]
        return served

    def give_up(self, job: Job) -> None:
        """Nobody wants the rest of it: it goes at once, or with the token that is being made."""
        job.output = min(job.output, job.made + 1)

    def _admit(self) -> list[Job]:
        admitted: list[Job] = []
        tokens = 0
        while (job := self._queue.peek()) is not None:
            if admitted and tokens + job.input > self.spec.prefill_tokens:
                break
            if peak_tokens((*self.batch, *admitted, job)) >= self.spec.kv_tokens:
                break
            self._queue.take(job)
            admitted.append(job)
            tokens += job.input
        return admitted

    def __repr__(self) -> str:
        return f"<Engine batch of {len(self.batch)}>"


def peak_tokens(jobs: Iterable[Job]) -> int:
    """The most tokens that the KV cache will hold if these run to their ends and nobody else comes.

    It is reached just before some sequence ends. With those that end last first, the k-th ends when k are left, each of
    which has grown by what the k-th had left.
    """
    held = peak = 0
    for count, (left, has) in enumerate(sorted([(job.left, job.held) for job in jobs], reverse=True), 1):
        held += has
        peak = max(peak, left * count + held)
    return peak
