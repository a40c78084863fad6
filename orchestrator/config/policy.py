"""What the file says of backends and tenants, as the policy of their owners. Nothing is made or read here.

What is not said follows from the kind of backend. A local engine gets exactly its slots, a bound on tokens in flight
and room kept free, so that the queue stays where it can be ordered; anything else finds its concurrency by trying.
"""

from collections.abc import Callable, Mapping

from msgspec import Struct, structs

from agents.errors import InvalidLimits
from agents.port import Priority
from orchestrator.backend_choice import engine_room
from orchestrator.backends.local.config import LocalConfig
from orchestrator.config.backend_tables import (
    AnthropicTable,
    BackendTable,
    EndpointKeys,
    LocalTable,
    RemoteTable,
)
from orchestrator.config.problems import Problem, show_path, words_of
from orchestrator.config.schema import Config, TenantTable
from orchestrator.owner_config import EndpointLimits
from orchestrator.policy.breaker import BreakerConfig
from orchestrator.policy.concurrency import ConcurrencyConfig
from orchestrator.policy.config import DispatchConfig, TenantConfig
from orchestrator.policy.headroom import HeadroomConfig
from orchestrator.policy.limits import InFlightSpec, LimitSpec


class EndpointRules(Struct, frozen=True):
    """Everything that is configured of one endpoint's policy."""

    limits: tuple[LimitSpec, ...]
    in_flight: InFlightSpec | None
    concurrency: ConcurrencyConfig
    breaker: BreakerConfig
    headroom: HeadroomConfig | None


class BackendPolicy(Struct, frozen=True):
    """The policy of one backend's owner, and by endpoint what may change of it while it is in use."""

    dispatch: DispatchConfig
    endpoints: Mapping[str, EndpointLimits]


def policy_of(config: Config, backend: str) -> BackendPolicy:
    """The policy of one backend, without making adapters.

    Raises `InvalidLimits`, with the field's path in the file, for what makes no sense together.
    """
    limits = {
        name: EndpointLimits(rules.limits, rules.in_flight, rules.concurrency)
        for name, rules in rules_of(config, backend).items()
    }
    return BackendPolicy(dispatch_of(config, backend), limits)


def dispatch_of(config: Config, backend: str) -> DispatchConfig:
    """The policy of one backend. Every tenant may use every backend, and has its limits at each."""
    table = config.backends[backend]
    return DispatchConfig(
        fair=table.fair,
        tenants={name: _tenant(tenant) for name, tenant in config.tenants.items()},
        weights=table.token_weights,
        retry=table.retry,
        admission=config.daemon.admission,
        default_max_tokens=table.default_max_tokens,
        sticky_seconds=table.sticky_seconds,
    )


def rules_of(config: Config, backend: str) -> dict[str, EndpointRules]:
    """The endpoints of a backend by name; an only one that has no table of its own has the backend's name."""
    table = config.backends[backend]
    if not (isinstance(table, RemoteTable) and table.endpoints):
        return {backend: _rules(table, None, ("backends", backend))}
    return {
        name: _rules(table, endpoint, ("backends", backend, "endpoints", name))
        for name, endpoint in table.endpoints.items()
    }


def merged(backend: EndpointKeys, endpoint: EndpointKeys) -> EndpointKeys:
    """What holds for an endpoint: key by key what it says itself, and otherwise what the backend says.

    Raises `InvalidLimits` where both give the same limit under different keys.
    """
    said = ((name, getattr(endpoint, name), getattr(backend, name)) for name in EndpointKeys.__struct_fields__)
    return EndpointKeys(**{name: default if own is None else own for name, own, default in said})


def check_policies(config: Config, note: Callable[[Problem], object]) -> None:
    """Notes what is wrong with the policies of backends that are right by themselves."""
    for backend in config.backends:
        try:
            policy_of(config, backend)
        except InvalidLimits as error:
            note(Problem(error.field, words_of(error)))


def _rules(table: BackendTable, endpoint: EndpointKeys | None, path: tuple[str, ...]) -> EndpointRules:
    try:
        keys: EndpointKeys = table if endpoint is None else merged(table, endpoint)
        engine = table.engine if isinstance(table, LocalTable) else None
        return EndpointRules(
            limits=keys.specs(as_anthropic=isinstance(table, AnthropicTable)),
            in_flight=_in_flight(keys.in_flight, engine),
            concurrency=_concurrency(keys.concurrency, engine),
            breaker=keys.breaker or BreakerConfig(),
            headroom=_headroom(keys.headroom, engine),
        )
    except InvalidLimits as error:
        message = words_of(error)
        raise InvalidLimits(f"{show_path(path)}.{error.field}", message) from None


def _in_flight(given: InFlightSpec | None, engine: LocalConfig | None) -> InFlightSpec | None:
    if engine is None or given is None:
        return given if engine is None else engine_room(engine.kv_tokens)
    room = engine_room(engine.kv_tokens)
    return InFlightSpec(
        calls=given.calls,
        tokens=room.tokens if given.tokens is None else given.tokens,
        first_token=room.first_token if given.first_token is None else given.first_token,
    )


def _concurrency(given: int | ConcurrencyConfig | None, engine: LocalConfig | None) -> ConcurrencyConfig:
    config = given if isinstance(given, ConcurrencyConfig) else ConcurrencyConfig(fixed=given)
    if engine is None:
        return config
    if isinstance(given, ConcurrencyConfig) and config.fixed is None:
        most = min(config.at_most, engine.slots)
        return structs.replace(config, at_most=most, initial=min(config.initial, most))
    return ConcurrencyConfig(fixed=min(config.fixed or engine.slots, engine.slots))


def _headroom(given: bool | HeadroomConfig | None, engine: LocalConfig | None) -> HeadroomConfig | None:
    if isinstance(given, HeadroomConfig):
        return given
    wanted = engine is not None if given is None else given
    return HeadroomConfig() if wanted else None


def _tenant(table: TenantTable) -> TenantConfig:
    return TenantConfig(
        weight=table.weight,
        limits=table.specs(),
        in_flight=table.in_flight,
        highest_priority=Priority[table.highest_priority.upper()],
    )
