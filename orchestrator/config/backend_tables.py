"""`[backends.NAME]` as it is written in the file.

What is said of a backend holds for each of its endpoints, limits too: two endpoints under `rpm = 60` send 120 requests
a minute. An endpoint's own table says what is different for it.
"""

import re
from typing import Annotated, Any, ClassVar, Final, Literal
from urllib.parse import urlsplit

from msgspec import Meta, Struct, field

from agents.errors import InvalidLimits
from orchestrator.attempt import Clocks
from orchestrator.backends.local.config import LocalConfig
from orchestrator.backends.openai.config import NativeDialect
from orchestrator.backends.simulated.config import SimConfig, SimLimit
from orchestrator.config.limit_tables import LimitKeys
from orchestrator.config.named import check_named
from orchestrator.config.numbers import Count, NotNegative, Positive
from orchestrator.policy.breaker import BreakerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.estimate import ServiceWeights
from orchestrator.policy.fair_config import FairConfig
from orchestrator.policy.headroom import HeadroomConfig
from orchestrator.policy.retry import RetryConfig

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

NO_KEYS: Final = (
    "keys do not belong in this file; name the environment variable that holds it with api_key_env, "
    "or a file with api_key_file"
)


class EndpointKeys(LimitKeys, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an endpoint allows. None is not said.

    A whole number as `concurrency` is fixed, a table bounds the search for it. `headroom` is for engines that cannot
    order their queue: true or a table keeps room free, false does not.
    """

    concurrency: Count | ConcurrencyConfig | None = None
    breaker: BreakerConfig | None = None
    headroom: bool | HeadroomConfig | None = None


class BackendKeys(EndpointKeys, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What all kinds of backend have: see `policy.config.DispatchConfig` and `attempt.Clocks`.

    `token_weights` are the service that tokens are worth; a local backend's `weights` is a file.
    """

    clocks: Clocks = field(default_factory=Clocks)
    retry: RetryConfig = field(default_factory=RetryConfig)
    fair: FairConfig = field(default_factory=FairConfig)
    token_weights: ServiceWeights = field(default_factory=ServiceWeights)
    default_max_tokens: Count = 4096
    sticky_seconds: NotNegative = 2.0


class AddressKeys(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a model server is, and what goes with every request. None is not said.

    Paths are relative to the file's folder.
    """

    base_url: str | None = None
    api_key_env: str | None = None
    api_key_file: str | None = None
    models: dict[str, str] | None = None
    headers: dict[str, str] | None = None
    max_line_bytes: Count | None = None
    keepalive_seconds: NotNegative | None = None
    grace_seconds: NotNegative | None = None
    ca_file: str | None = None

    def __post_init__(self) -> None:
        if self.api_key_env is not None and self.api_key_file is not None:
            raise InvalidLimits("api_key_file", "give it or api_key_env, not both")
        if self.api_key_env is not None and not _VARIABLE.fullmatch(self.api_key_env):
            # not quoted: it may well be the key
            raise InvalidLimits("api_key_env", "must be the name of an environment variable, not the key itself")
        if self.base_url is not None:
            _check_url(self.base_url)

    def given(self) -> dict[str, Any]:
        """What was said."""
        return {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not None}


class ServerKeys(AddressKeys, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The address of an OpenAI-compatible server and how it wants to be asked: see `backends.openai.OpenAIConfig`.

    None is not said. Paths are relative to the file's folder.
    """

    null_content: Literal["empty", "keep"] | None = None
    include_usage: bool | None = None
    max_tokens: Count | None = None
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    reasoning_field: str | None = None
    reports_cached: bool | None = None
    max_document_bytes: Count | None = None
    dialects: tuple[NativeDialect, ...] | None = None


class AnthropicKeys(AddressKeys, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The address of Anthropic's API and how it wants to be asked: see `backends.anthropic_config.AnthropicConfig`."""

    version: str | None = None
    beta: tuple[str, ...] | None = None


class EndpointTable(EndpointKeys, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[backends.NAME.endpoints.KEY]`: one key or replica."""

    REFUSED: ClassVar = {"api_key": NO_KEYS}

    server: Annotated[ServerKeys, Meta(extra={"flat": ()})] = ServerKeys()


class OpenAITable(BackendKeys, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="openai"):
    """Any server that speaks OpenAI's dialects: one endpoint, or several under `endpoints`."""

    REFUSED: ClassVar = {"api_key": NO_KEYS}

    server: Annotated[ServerKeys, Meta(extra={"flat": ()})] = ServerKeys()
    endpoints: dict[str, EndpointTable] = field(default_factory=dict)


class AnthropicEndpointTable(EndpointKeys, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[backends.NAME.endpoints.KEY]` of an Anthropic backend: one key."""

    REFUSED: ClassVar = {"api_key": NO_KEYS}

    server: Annotated[AnthropicKeys, Meta(extra={"flat": ()})] = AnthropicKeys()


class AnthropicTable(
    BackendKeys, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="anthropic"
):
    """Anthropic's API: one endpoint, or several under `endpoints`.

    `default_max_tokens` is also what bounds an answer whose request does not. Its limit of input tokens does not count
    what is read from the cache (`cached_free` of a limit), and its limit of output tokens counts them `as_produced`.
    """

    REFUSED: ClassVar = {"api_key": NO_KEYS}

    server: Annotated[AnthropicKeys, Meta(extra={"flat": ()})] = AnthropicKeys()
    endpoints: dict[str, AnthropicEndpointTable] = field(default_factory=dict)


class LocalTable(BackendKeys, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="local"):
    """A llama.cpp server of our own: see `backends.local_config.LocalConfig`."""

    engine: Annotated[LocalConfig, Meta(extra={"flat": ("name",)})] = LocalConfig()


class SimulatedTable(
    BackendKeys, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="simulated"
):
    """The simulated provider in this process: see `backends.sim_config.SimConfig`.

    It enforces the very limits that the owner is told, unless `enforces` says others. `speed` is how many times faster
    than `latency` it is. A reload changes what the owner keeps to, not what the provider enforces.

    `script` is `package.module:name`, found from the file's folder as well: a function from the messages so far to the
    answer, in place of filler.
    """

    provider: Annotated[SimConfig, Meta(extra={"flat": ("limits", "api_keys")})] = SimConfig()
    enforces: tuple[SimLimit, ...] | None = None
    speed: Positive = 1.0
    script: str | None = None

    def __post_init__(self) -> None:
        if self.script is not None:
            check_named(self.script, "script")


RemoteTable = OpenAITable | AnthropicTable
"""What is somewhere else, at an address, and may have several endpoints."""

BackendTable = OpenAITable | AnthropicTable | LocalTable | SimulatedTable


def _check_url(text: str) -> None:
    """The address is shown in logs and differences, so it is checked before anything shows it."""
    try:
        url = urlsplit(text)
        usable = url.scheme in ("http", "https") and bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        raise InvalidLimits("base_url", "must look like https://host/v1") from None
    if url.username is not None or url.password is not None or url.query or url.fragment:
        raise InvalidLimits("base_url", "takes no user, password, query or fragment; use api_key_env")
    if not usable:
        raise InvalidLimits("base_url", "must look like https://host/v1")
