"""How the simulated provider behaves, as data: its speed, the length of its answers, its limits, its faults.

Everything has a default that behaves like a small, healthy, unlimited API. Nonsense raises `InvalidLimits`, which
names the field. Amounts are in tokens or requests, durations in seconds, rates in tokens per second; instants (the
`start` and `end` of a fault) are on the provider's own clock.
"""

import math
from typing import Literal

from msgspec import Struct

from agents.errors import InvalidLimits
from orchestrator.policy.feedback import LimitKind

Algorithm = Literal["fixed_window", "sliding_window", "token_bucket"]
Counted = Literal["at_admission", "reconciled", "as_produced"]
FaultKind = Literal[
    "refuse",
    "silence",
    "status",
    "slow_headers",
    "heartbeats",
    "stall",
    "truncate",
    "error_event",
    "duplicate_usage",
    "no_usage",
]


def _positive(field: str, value: float | None, *, zero: bool = False, infinite: bool = False) -> None:
    """Refuses NaN, negative, and (unless allowed) zero and infinite values. None is "not set" and passes."""
    if value is None:
        return
    low = value >= 0 if zero else value > 0
    if not low or (math.isinf(value) and not infinite):
        raise InvalidLimits(field, f"{value} is not a {'non-negative' if zero else 'positive'} number")


def _probability(field: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise InvalidLimits(field, f"{value} is not between 0 and 1")


def _range(field: str, value: tuple[float, float]) -> None:
    low, high = value
    _positive(field, low, zero=True)
    _positive(field, high, zero=True)
    if high < low:
        raise InvalidLimits(field, f"{low} to {high} is not a range")


class SimLimit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One limit as the provider enforces it: `amount` of `kind` per `per` seconds.

    `counted` says what is counted and when: `at_admission` (input + max_tokens at arrival, kept whatever happens),
    `reconciled` (the same, reserved, and set to what was used at the end, at the place in time of the admission) or
    `as_produced` (input at admission, output as it is produced; a full window admits nobody).
    `window` adds enforcement over shorter windows in proportion, as some providers do (1 to 10 s of a minute's limit).
    `counts_refused` also counts the calls that the provider itself refused by a limit. `free_cached` leaves out input
    that was read from the prefix cache, as Anthropic's input limit does.
    """

    kind: LimitKind
    amount: float
    per: float = 60.0
    algorithm: Algorithm = "sliding_window"
    counted: Counted = "reconciled"
    window: float | None = None
    counts_refused: bool = False
    free_cached: bool = False

    def __post_init__(self) -> None:
        _positive(f"limits.{self.kind}.amount", self.amount)
        _positive(f"limits.{self.kind}.per", self.per)
        _positive(f"limits.{self.kind}.window", self.window)
        if self.window is not None and self.window >= self.per:
            raise InvalidLimits(f"limits.{self.kind}.window", f"{self.window} is not shorter than {self.per} s")


class FaultRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One scripted or random fault. It fires where all its conditions hold.

    Conditions: `start <= now < end`; the call's number (from 1, in order of arrival) is in `nth`, or `nth` is empty;
    and chance, by `probability`. What the other fields mean depends on the fault:

    - `refuse`: the connection is refused. Over a socket: inside a window without other conditions nobody listens;
      otherwise the connection of that number is reset as soon as it is accepted. In-process each send connects.
    - `silence`: the request is read and never answered; after `seconds` (0: never) the connection closes.
    - `status`: an error answer of `status` and structured `code`, without rate-limit headers.
    - `slow_headers`: response headers come `seconds` later.
    - `heartbeats`: a comment (to Anthropic's clients a `ping`) every `seconds` while no token comes.
    - `stall`: nothing for `seconds` after `after_tokens` tokens.
    - `truncate`: the stream ends after `after_tokens` tokens without saying so; `reset` ends it with a TCP reset.
    - `error_event`: an error object with `status` and `code` inside the stream of status 200, after `after_tokens`.
    - `duplicate_usage`: the event that reports usage comes twice. `no_usage`: it is not reported.
    """

    fault: FaultKind
    probability: float = 1.0
    nth: tuple[int, ...] = ()
    start: float = -math.inf
    end: float = math.inf
    seconds: float = 0.0
    after_tokens: int = 0
    status: int = 500
    code: str | None = None
    reset: bool = False

    def __post_init__(self) -> None:
        _probability("faults.probability", self.probability)
        _positive("faults.seconds", self.seconds, zero=True)
        _positive("faults.after_tokens", self.after_tokens, zero=True)
        if not self.start < self.end:
            raise InvalidLimits("faults.start", f"{self.start} is not before the end, {self.end}")
        if not 400 <= self.status <= 599:
            raise InvalidLimits("faults.status", f"{self.status} is not an error status (400 to 599)")
        if any(n < 1 for n in self.nth):
            raise InvalidLimits("faults.nth", "calls are numbered from 1")
        if self.fault == "heartbeats" and self.seconds == 0:
            raise InvalidLimits("faults.seconds", "heartbeats need an interval above 0")


class SimLatency(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How fast the provider is. `spread` is the sigma of a log-normal factor on each call's delay and rate.

    First token after `first_token` plus uncached input at `input_rate`. Output at `output_rate` per call, and at
    `engine_rate` over all calls together. Tokens leave in chunks of `chunk_tokens` (the first one alone).
    `arrival` is the range of the time from the client's write to the provider's counting of the call, `headers`
    that from there to the response headers: a client never knows just when it was counted.
    """

    first_token: float = 0.25
    input_rate: float = 8000.0
    output_rate: float = 60.0
    engine_rate: float = math.inf
    spread: float = 0.2
    chunk_tokens: int = 4
    arrival: tuple[float, float] = (0.0, 0.0)
    headers: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        _positive("latency.first_token", self.first_token, zero=True)
        _positive("latency.input_rate", self.input_rate, infinite=True)
        _positive("latency.output_rate", self.output_rate, infinite=True)
        _positive("latency.engine_rate", self.engine_rate, infinite=True)
        _positive("latency.spread", self.spread, zero=True)
        _positive("latency.chunk_tokens", self.chunk_tokens)
        _range("latency.arrival", self.arrival)
        _range("latency.headers", self.headers)


class SimLength(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long answers are: log-normal around the median `tokens` with sigma `spread`, bounded by `max_tokens`.

    `default_max` stands in for a request without `max_tokens`. `context` bounds input + output (400 beyond it).
    """

    tokens: float = 100.0
    spread: float = 0.5
    default_max: int = 1024
    context: int | None = None

    def __post_init__(self) -> None:
        _positive("length.tokens", self.tokens)
        _positive("length.spread", self.spread, zero=True)
        _positive("length.default_max", self.default_max)
        _positive("length.context", self.context)


class SimConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole provider. Two providers with the same configuration and requests give the same answers.

    `instant`: no delays, one checkpoint and a fixed answer, for benchmarks. `exact_tokens`: a token is exactly 4
    bytes; otherwise the provider's own tokenizer counts, and clients' estimates are honestly imprecise.
    `tool_calls`: the probability that a request with tools is answered by a tool call; at most `tool_rounds` times
    after one user message, then with text that contains the results. `parallel_tools`: how many tools such an
    answer calls, unless the request forbids more than one. `prefix_cache`: how many message prefixes the cache holds
    (0: none), their tokens are reported as cached. `models`: the names served; empty serves any.
    `api_keys`: over HTTP, one of them is asked for unless there is none.
    """

    seed: int = 0
    models: tuple[str, ...] = ()
    instant: bool = False
    exact_tokens: bool = False
    tool_calls: float = 1.0
    tool_rounds: int = 1
    parallel_tools: int = 1
    prefix_cache: int = 0
    latency: SimLatency = SimLatency()
    length: SimLength = SimLength()
    limits: tuple[SimLimit, ...] = ()
    max_concurrency: int | None = None
    faults: tuple[FaultRule, ...] = ()
    api_keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _probability("tool_calls", self.tool_calls)
        _positive("tool_rounds", self.tool_rounds)
        _positive("parallel_tools", self.parallel_tools)
        _positive("prefix_cache", self.prefix_cache, zero=True)
        _positive("max_concurrency", self.max_concurrency)
