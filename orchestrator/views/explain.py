"""Why a call, or a run, took as long as it did: what `/api/calls/{call}/explanation` answers.

Times are seconds since the epoch, durations seconds, amounts tokens.
"""

from msgspec import Struct


class WaitShare(Struct, frozen=True, kw_only=True):
    """A part of a wait: for what (a limit, `fair_order`, `retry`, a tenant's own limit), and for how long."""

    held_by: str
    seconds: float


class Ahead(Struct, frozen=True, kw_only=True):
    """Calls that were sent to the same backend while one waited, whose they were, and by which rule they went first.

    `rule` is `priority`, `minimum_share`, `own_limit`, `fair_tenants`, `fair_jobs`, `run_order` or `arrival`;
    `orchestrator.explain.ahead` says what they mean. `tokens` are input and output as reported, or as held where
    nothing was.
    """

    rule: str
    tenant: str
    priority: str
    job: str = ""
    calls: int
    tokens: int


class CallExplanation(Struct, frozen=True, kw_only=True):
    """One call: what it is, where it stands, why it waited, who went first. `words` says it all in plain sentences.

    `state` is `queued`, `sent` or an outcome. `waited` is the time in queue and between attempts so far.
    """

    call: str
    tenant: str
    job: str
    run: str
    priority: str
    backend: str
    endpoint: str
    model: str
    state: str
    arrived: float
    sent: float | None
    ended: float | None
    waited: float
    attempts: int
    waits: tuple[WaitShare, ...]
    ahead: tuple[Ahead, ...]
    words: tuple[str, ...]


class RunExplanation(Struct, frozen=True, kw_only=True):
    """One run: where its time went, and in `message` what is said of its end, or of what is in its way.

    `queue`, `model`, `tools`, `people` and `other` add up to `seconds`. `calls` are the calls that waited longest, the
    longest first, a few at most; `ahead` is what went before the first of them. `by_tool` has the seconds of each tool,
    the longest first (they may overlap), `running` names the tools that are still at work.
    """

    run: str
    tenant: str
    job: str
    state: str
    reason: str
    seconds: float
    queue: float
    model: float
    tools: float
    people: float
    other: float
    waits: tuple[WaitShare, ...]
    ahead: tuple[Ahead, ...]
    calls: tuple[CallExplanation, ...]
    words: tuple[str, ...]
    message: str = ""
    by_tool: tuple[WaitShare, ...] = ()
    running: tuple[str, ...] = ()


class SlowCalls(Struct, frozen=True, kw_only=True):
    """Calls of the last `seconds` that waited longest, the longest first."""

    seconds: float
    calls: tuple[CallExplanation, ...]
