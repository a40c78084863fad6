"""Which backend an embedded job uses, from the few things a person says of it.

The rest of an endpoint follows from the kind: a local server gets exactly its slots and a bound on tokens in flight,
so that the queue stays where it can be ordered; an API's concurrency is found by trying; the simulated provider
enforces the very limits that the owner was told, so a 429 there is the owner's mistake.
"""

from collections.abc import Iterable
from typing import Literal
from urllib.parse import urlsplit

import trio
from msgspec import Struct, structs

from agents.errors import HeadraceError, InvalidLimits
from orchestrator.backends.anthropic.config import ANTHROPIC_KEY, ANTHROPIC_URL
from orchestrator.backends.base import Backend
from orchestrator.backends.local.backend import LocalBackend
from orchestrator.backends.openai.backend import OpenAIBackend, OpenAIConfig
from orchestrator.backends.simulated.backend import (
    SimConfig,
    SimLatency,
    SimLength,
    SimLimit,
    SimProvider,
    SimulatedBackend,
)
from orchestrator.backends.simulated.script import Script
from orchestrator.owner import Endpoint
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.headroom import HeadroomConfig
from orchestrator.policy.limits import InFlightSpec, LimitSpec
from orchestrator.policy.limitspec import Counted

BackendKind = Literal["simulated", "local", "openai"]

OPENAI_URL = "https://api.openai.com/v1"
OPENAI_KEY = "OPENAI_API_KEY"

_USUAL_KEYS = {OPENAI_URL: OPENAI_KEY, ANTHROPIC_URL: ANTHROPIC_KEY, f"{ANTHROPIC_URL}/v1": ANTHROPIC_KEY}

REACH_SECONDS = 5.0

KV_FILL = 1.35
"""Tokens in flight per token of KV cache: input and predicted output, of which not all is there at one time."""

FIRST_TOKENS = 4
"""Calls without a first token at one time: prefill is what a local engine is slowest to give back."""


class BackendError(HeadraceError):
    """The backend cannot be used at all: it was not reached, or it could not be started."""


class BackendChoice(Struct, frozen=True, kw_only=True):
    """A backend as named on a command line. Raises `InvalidLimits` for what makes no sense.

    `rpm` and `tpm` are requests and tokens (input and output) per minute, `counted` says how the provider counts the
    tokens (see `policy.limitspec`), `concurrency` is calls in flight.
    `speed` is how many times faster than a usual API the simulated backend is, `answer_tokens` its answers' median.
    """

    kind: BackendKind
    base_url: str = ""
    model: str = ""
    api_key_env: str | None = None
    rpm: float | None = None
    tpm: float | None = None
    counted: Counted = "reconciled"
    concurrency: int | None = None
    speed: float = 50.0
    answer_tokens: float = 60.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind == "openai" and not self.model:
            raise InvalidLimits("--model", "the openai backend needs the model's name")
        if not self.speed > 0:
            raise InvalidLimits("--speed", f"must be above 0, not {self.speed:g}")
        if self.kind != "openai" and (self.base_url or self.api_key_env):
            raise InvalidLimits("--base-url, --api-key-env", f"the {self.kind} backend has none")

    @property
    def url(self) -> str:
        return self.base_url or OPENAI_URL

    @property
    def model_name(self) -> str:
        return self.model or self.kind


def make_backend(choice: BackendChoice, script: Script | None = None) -> Backend:
    """The adapter. A `script` is what the simulated one says, and means nothing to others.

    Raises `InvalidLimits` for an address or a key that cannot be used.
    """
    if choice.kind == "local":
        return LocalBackend()
    if choice.kind == "simulated":
        return SimulatedBackend("simulated", SimProvider(simulated_config(choice), script=script))
    key_env = choice.api_key_env or usual_key(choice.url)
    try:
        return OpenAIBackend(OpenAIConfig(name="openai", base_url=choice.url, api_key_env=key_env))
    except InvalidLimits as error:
        option = "--" + error.field.rpartition(".")[2].replace("_", "-")
        raise InvalidLimits(option, error.message.removeprefix(f"{error.field}: ")) from None


def make_endpoint(choice: BackendChoice, backend: Backend) -> Endpoint:
    """The backend with the limits that hold for it."""
    fixed = choice.concurrency
    in_flight: InFlightSpec | None = None
    headroom: HeadroomConfig | None = None
    if isinstance(backend, LocalBackend):
        fixed = min(fixed or backend.slots, backend.slots)
        headroom = HeadroomConfig()
        in_flight = engine_room(backend.kv_tokens)
    return Endpoint(
        name=backend.name,
        backend=backend,
        limits=tuple(_limits(choice)),
        in_flight=in_flight,
        concurrency=ConcurrencyConfig(fixed=fixed),
        headroom=headroom,
    )


def simulated_config(choice: BackendChoice) -> SimConfig:
    """The simulated provider under the same limits."""
    return SimConfig(
        seed=choice.seed,
        latency=structs.replace(faster(SimLatency(), choice.speed), chunk_tokens=16),
        length=SimLength(tokens=choice.answer_tokens, spread=0.3),
        limits=enforced(_limits(choice)),
    )


def usual_key(url: str) -> str | None:
    """The environment variable that holds the key for an address, where there is a usual one."""
    return _USUAL_KEYS.get(url.rstrip("/"))


def engine_room(kv_tokens: int) -> InFlightSpec:
    """What may be in flight at an engine with a KV cache of that many tokens, so that little waits inside it."""
    return InFlightSpec(tokens=KV_FILL * kv_tokens, first_token=FIRST_TOKENS)


def faster(latency: SimLatency, speed: float) -> SimLatency:
    """The same provider, `speed` times faster for a single call."""
    return structs.replace(
        latency,
        first_token=latency.first_token / speed,
        input_rate=latency.input_rate * speed,
        output_rate=latency.output_rate * speed,
    )


def enforced(limits: Iterable[LimitSpec]) -> tuple[SimLimit, ...]:
    """The limits of an owner as the simulated provider enforces them."""
    return tuple(
        SimLimit(kind=limit.kind, amount=limit.amount, per=limit.per, counted=limit.counted) for limit in limits
    )


async def check_reachable(choice: BackendChoice) -> None:
    """Opens one TCP connection to an API's address and closes it: free, and says at once what is wrong.

    Raises `BackendError`.
    """
    if choice.kind != "openai":
        return
    parts = urlsplit(choice.url)
    host = parts.hostname or ""
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise InvalidLimits("--base-url", f"{choice.url} has no usable port") from None
    try:
        with trio.fail_after(REACH_SECONDS):
            stream = await trio.open_tcp_stream(host, port)
            await stream.aclose()
    except trio.TooSlowError:
        raise BackendError(f"{choice.url}: no connection to {host}:{port} within {REACH_SECONDS:g} s") from None
    except OSError as error:
        raise BackendError(f"{choice.url}: cannot connect to {host}:{port}: {_reason(error)}") from None


def _limits(choice: BackendChoice) -> list[LimitSpec]:
    limits = []
    if choice.rpm is not None:
        limits.append(LimitSpec("requests", choice.rpm))
    if choice.tpm is not None:
        limits.append(LimitSpec("total_tokens", choice.tpm, counted=choice.counted))
    return limits


def _reason(error: OSError) -> str:
    """Why no address answered; trio hangs the attempts on the error, one as its cause, several as a group."""
    causes: list[BaseException] = [error.__cause__] if error.__cause__ is not None else []
    if causes and isinstance(causes[0], BaseExceptionGroup):
        causes = list(causes[0].exceptions)
    words = {_words(cause): None for cause in causes or [error] if isinstance(cause, OSError)}
    return ", ".join(words) or str(error)


def _words(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return (error.strerror or str(error)).lower()
