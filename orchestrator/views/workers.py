"""What worker processes and the daemon say to each other.

A worker process drives runs elsewhere: the same loop, with its ports over HTTP. The daemon stays the one owner of
everything that is shared: it holds each session's lease, appends to the log, reserves in the budgets above a run in the
same move in which it appends what announces an effect, and makes the model calls. A worker has a **claim** to each run
it drives, and appends under that; the daemon gives a run to one claim at a time, and takes nothing from an older one.

A worker that was not heard of for `lease_seconds` is gone, and its runs are given to others. It stops by itself before
that. A daemon that has just begun gives nothing away for as long, so that workers of the one before it can say what
they hold, and go on with it.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct

from agents.amounts import NOTHING, UNLIMITED, Amounts, Limits
from agents.budget import Exhausted
from agents.messages import Message, ModelReply, ModelRequest, Usage
from agents.money import Price
from agents.result import RunResult
from agents.spawner import ChildRequest, Spent

LONGEST_HOLD = 20.0
"""Seconds for which a request that has nothing to say yet is kept waiting, at most."""

Claim = Annotated[str, Meta(min_length=1, max_length=64)]
WorkerName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class Holding(Struct, frozen=True, kw_only=True):
    """A run that a worker drives."""

    run: str
    claim: Claim


class PollRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A worker is alive, drives `holding`, and could drive `room` more. It waits `seconds` for something to do.

    `heard` says up to which news it has acted. A worker that `ends` takes nothing new. `instance` tells one process
    from another that was given the same name.
    """

    worker: WorkerName
    instance: Annotated[str, Meta(max_length=64)] = ""
    room: Annotated[int, Meta(ge=0, le=100_000)]
    holding: tuple[Holding, ...] = ()
    heard: int = 0
    seconds: Annotated[float, Meta(ge=0, le=LONGEST_HOLD)] = LONGEST_HOLD
    ends: bool = False


class News(Struct, frozen=True, kw_only=True):
    """What came into a run's log from outside: a hint to act on it before the next append meets it."""

    run: str
    events: tuple[Raw, ...]


class PollAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`take` are runs given to the worker, `leave` those it drives without a claim that counts, to be dropped at once.

    `leave_soon` says that the daemon is ending: each run is to be left when it has no call under way. `tools` is the
    digest of the tools' tables. `news` are numbered by `heard`.
    """

    lease_seconds: float
    tools: str
    take: tuple[Holding, ...] = ()
    leave: tuple[str, ...] = ()
    news: tuple[News, ...] = ()
    heard: int = 0
    leave_soon: bool = False


class ToolTables(Struct, frozen=True, kw_only=True):
    """`[tools.NAME]` of the daemon's configuration, as the file has them. No secret is in them: keys are named there by
    a variable or a file, which the worker's machine must have as well.
    """

    digest: str
    tools: dict[str, dict[str, Any]]


class AgentMaterial(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An agent without its tools, which are `tools`, by name: see `agents.spec.AgentSpec`."""

    name: str
    model: str
    system: str = ""
    tools: tuple[str, ...] = ()
    limits: Limits = UNLIMITED
    demonstration: tuple[Message, ...] = ()
    max_tokens: int | None = None
    output_floor: int = 16
    temperature: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    tool_choice: str | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    on_tool_error: Literal["observe", "stop"] = "observe"
    tool_concurrency: int = 8
    extra: dict[str, Any] = {}
    compact_at: int | None = None
    compact_keep: int = 12


class ScopeView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A budget above a run, with what all others have in it: what the run itself has is left out. `elapsed` is seconds
    since its first running, None before that.
    """

    name: str
    limits: Limits
    used: Amounts = NOTHING
    reserved: Amounts = NOTHING
    unknown: Amounts = NOTHING
    elapsed: float | None = None


class RunMaterial(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All that a worker needs to drive a run.

    `records` are its session's events from the first on, `number` is the last of them; `generation` is that of the
    session's lease. `above` are the budgets above it, the outermost first.
    """

    agent: AgentMaterial
    generation: int
    number: int
    records: tuple[Raw, ...]
    priority: int
    above: tuple[ScopeView, ...] = ()
    price: Price | None = None


class ClaimRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For what needs the claim alone."""

    claim: Claim


class AppendRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`events` for the run's log, behind number `after`; the same `batch` again changes nothing."""

    claim: Claim
    batch: Annotated[str, Meta(min_length=1, max_length=128)]
    after: int
    events: Annotated[tuple[Raw, ...], Meta(min_length=1)]


class AppendAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`appended`; or nothing was, because of `newcomers`, which came first, or because a budget has `no_room` for what
    the events announce: spent (`exhausted`), or only held by others at the moment. `above` is how the budgets stand.
    """

    outcome: Literal["appended", "newcomers", "no_room"]
    above: tuple[ScopeView, ...] = ()
    newcomers: tuple[Raw, ...] = ()
    exhausted: Exhausted | None = None


class RoomRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The run waits for a settlement: answered when `need` is no longer held up by others, or after `seconds`."""

    claim: Claim
    need: Amounts
    seconds: Annotated[float, Meta(ge=0, le=LONGEST_HOLD)] = LONGEST_HOLD


class RoomAnswer(Struct, frozen=True, kw_only=True):
    """How the budgets stand."""

    above: tuple[ScopeView, ...]


class WorkerCallRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model call that `model_requested` of this `key` (`run/step/attempt`) has announced and reserved for.

    The same key again joins the call that is under way, or is answered with its outcome. `deadline` is in seconds from
    now.
    """

    claim: Claim
    key: str
    request: ModelRequest
    deadline: float | None = None
    priority: int | None = None
    seconds: Annotated[float, Meta(ge=0, le=LONGEST_HOLD)] = LONGEST_HOLD


class CallFailure(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An `agents.errors.ModelError`: its kind and what it knows."""

    kind: str
    message: str
    status: int | None = None
    code: str | None = None
    usage: Usage | None = None
    partial: str = ""
    retry_after: float | None = None
    worked: bool = True


class WorkerCallAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reply, or why there is none; with neither the call is still under way, and is to be asked for again.

    `sent` says whether a provider may have worked on it, None where nobody knows.
    """

    reply: ModelReply | None = None
    failure: CallFailure | None = None
    sent: bool | None = None


class CallLeave(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The caller of this call has left; answered with what is known of it then."""

    claim: Claim
    key: str


class LateRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What came of an abandoned call: evidence, taken without a claim."""

    event: Raw


class LeftRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The worker drives the run no longer, and it has not ended: it waits for people (`parked`), or was left.

    Without a `message` it is given to a worker again a second later. A `message` says what stands in the way (a tool
    that cannot be made there): people are shown it, and the run is given to a worker again after a while.
    """

    claim: Claim
    parked: bool = False
    message: str = ""


class ChildStart(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run for a tool call of the run; see `agents.spawner`. The same again joins what there is."""

    claim: Claim
    child: ChildRequest


class ChildStep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to do with a child that was started: wait for its end for `seconds`, take it away, or let go of it.

    A daemon that has begun since knows of none: 404, `unknown_child`. Starting it again joins what there is.
    """

    claim: Claim
    child: str
    what: Literal["wait", "cancel", "leave"]
    seconds: Annotated[float, Meta(ge=0, le=LONGEST_HOLD)] = LONGEST_HOLD


class ChildAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a child stands. `result` is None while it has not ended.

    `left` says that it was left open, and `refused` why there can be none.
    """

    spent: Spent = Spent()
    result: RunResult | None = None
    left: str = ""
    refused: str = ""


class WorkerView(Struct, frozen=True, kw_only=True):
    """A worker process as an operator sees it. `quiet` is seconds since it was last heard of."""

    worker: str
    runs: int
    room: int
    quiet: float


class WorkerList(Struct, frozen=True, kw_only=True):
    """All workers that are known, and how many runs wait for one."""

    workers: tuple[WorkerView, ...]
    waiting: int


class Done(Struct, frozen=True):
    """Nothing more is to be said."""
