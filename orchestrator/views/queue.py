"""The queue as a client sees it: what `/api/queue` answers, and what the live board shows.

Times are seconds, ratios from 0 to 1, amounts tokens.
"""

from msgspec import Struct


class LimitView(Struct, frozen=True, kw_only=True):
    """One limit as configured: `used` is the part of `amount` per `per` seconds that is used or held. A `per` of 0 is a
    cap on what is in flight.

    `others` is the part that is not ours to use: what others with the same key are believed to use, and what the
    provider has taken away. `opens_in` is until when the provider has
    closed the limit, None if it has not.
    """

    name: str
    amount: float
    per: float
    used: float
    others: float = 0.0
    opens_in: float | None = None


class CutView(Struct, frozen=True, kw_only=True):
    """How an endpoint's concurrency was last cut: seconds `ago`, from how many calls in flight to how many."""

    ago: float
    before: int
    after: int


class EndpointView(Struct, frozen=True, kw_only=True):
    """One endpoint. `breaker` is closed, open or half_open; `opens_in` is when a broken or gated endpoint is tried
    again, None if it takes calls, 0 while it is tried; `cuts` counts how often its concurrency was cut, `last_cuts`
    are the latest of them, the newest first. `failing_with` says what a broken endpoint last failed with.
    """

    name: str
    in_flight: int
    concurrency_limit: int
    cuts: int
    breaker: str
    opens_in: float | None
    limits: tuple[LimitView, ...]
    last_cuts: tuple[CutView, ...] = ()
    failing_with: str = ""


class WaitView(Struct, frozen=True, kw_only=True):
    """What one tenant's queued calls of one priority wait for.

    `held_by` is what holds the next of them: a limit, `fair_order` (others go first), `retry`. `oldest` is how long the
    longest has waited. At the present pace the next one goes in `next_in` seconds and the last in `last_in`; None
    where nobody can know, as while an endpoint is broken.
    """

    priority: str
    queued: int
    held_by: str
    oldest: float
    next_in: float | None = None
    last_in: float | None = None


class TenantView(Struct, frozen=True, kw_only=True):
    """One tenant at one backend. `queued` counts its calls that wait, by priority name.

    `calls_per_minute` were answered in the last minute, `failed_per_minute` were not; `tokens_per_minute` were used by
    both, `share` is the tenant's part of the backend's weighted service in that minute, `mean_wait` that of the calls
    sent in it. `oldest_wait` is how long its longest waiting call has waited; `held_by` is what holds its next call: a
    limit, `fair_order` (others go first), or nothing, if none waits.
    """

    tenant: str
    weight: float
    queued: dict[str, int]
    in_flight: int
    calls_per_minute: float
    tokens_per_minute: float
    share: float
    mean_wait: float
    oldest_wait: float
    held_by: str
    limits: tuple[LimitView, ...]
    failed_per_minute: float = 0.0
    waits: tuple[WaitView, ...] = ()


class BackendView(Struct, frozen=True, kw_only=True):
    """One backend. `inbox` calls are on their way in, `retrying` wait for their next attempt outside the queue.

    `tenants` are those with calls now or in the last minute, the busiest first; `hidden_tenants` more are left out.
    `held_by` is what holds the call that would go next, empty where nothing does; `held_until` in how many seconds it
    is looked at again at the latest, None where only an answer can free what it waits for.
    """

    name: str
    inbox: int
    queued: int
    in_flight: int
    retrying: int
    endpoints: tuple[EndpointView, ...]
    tenants: tuple[TenantView, ...]
    hidden_tenants: int = 0
    held_by: str = ""
    held_until: float | None = None


class SilentWorker(Struct, frozen=True, kw_only=True):
    """A worker that has not said that it is alive for `quiet` seconds, though it should have."""

    worker: str
    quiet: float


class PoolView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The worker processes that drive runs: how many there are, what they drive, how many more they could drive.

    `waiting` runs want a worker. `silent` are the longest silent, a few at most. `problem` says why no run gets one.
    """

    workers: int = 0
    runs: int = 0
    room: int = 0
    waiting: int = 0
    silent: tuple[SilentWorker, ...] = ()
    problem: str = ""


class BudgetView(Struct, frozen=True, kw_only=True):
    """What one tenant has used of one budget: `used`, and `reserved` for what is under way, of `allowed`.

    `period` is `day`, `month` or `total`; `amount` is `tokens` or `dollars`, in which the figures are. `resets_in` is
    in seconds, None for a budget that does not.
    """

    tenant: str
    period: str
    amount: str
    used: float
    reserved: float
    allowed: float
    resets_in: float | None = None


class ToolWorkView(Struct, frozen=True, kw_only=True):
    """One tool at work: how many of its calls run now, and for how many seconds the longest has."""

    tool: str
    running: int
    longest: float
    run: str


class QueueView(Struct, frozen=True, kw_only=True):
    """Everything at one moment. `runs` counts runs by state, `jobs` live jobs; `draining` says that it is ending.
    `pool` is there where worker processes drive runs. `approvals` people have not answered, the oldest of them for
    `oldest_approval` seconds. `budgets` are those of tenants, the fullest first; `tools` those at work, the longest
    first; a thousand of each at most. Tools are work of all tenants, and are shown to operators only.
    """

    now: float
    uptime: float
    version: str
    draining: bool
    backends: tuple[BackendView, ...]
    runs: dict[str, int]
    jobs: int
    pool: PoolView | None = None
    approvals: int = 0
    oldest_approval: float = 0.0
    budgets: tuple[BudgetView, ...] = ()
    tools: tuple[ToolWorkView, ...] = ()


class ToolServerView(Struct, frozen=True, kw_only=True):
    """An MCP server. `next_try` is in seconds from now, where it waits to be started again; `problem` says why."""

    name: str
    state: str
    tools: tuple[str, ...]
    starts: int
    problem: str
    next_try: float | None


class ModelFacts(Struct, frozen=True, kw_only=True):
    """A model: its backends, the first choice first, and the most tokens of an answer.

    Prices are in micro-dollars per million tokens, None where they are not known.
    """

    backends: tuple[str, ...]
    max_output: int
    input_price: int | None = None
    output_price: int | None = None


class AgentFacts(Struct, frozen=True, kw_only=True):
    """An agent: its model, the most tokens of an answer, None for the model's, and how much it is told and can do."""

    model: str
    max_tokens: int | None
    system_bytes: int
    tools: int


class CapabilitiesView(Struct, frozen=True, kw_only=True):
    """What this daemon can do and knows by name, without tools' code or prompts."""

    version: str
    survives_restart: bool
    cancels: bool
    streams: bool
    models: tuple[str, ...]
    default_model: str
    agents: tuple[str, ...]
    tenants: tuple[str, ...]
    tool_servers: tuple[ToolServerView, ...] = ()
    model_facts: dict[str, ModelFacts] = {}
    agent_facts: dict[str, AgentFacts] = {}
