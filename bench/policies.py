"""The policies that benches hold side by side, all through the unmodified owner but for the one that has none.

A policy is what becomes of a call's flow and of the owner's configuration. Limits, pacing, estimates and retries are
the same for all of them, so that only the order of calls differs; `no-policy` has none of it.

| name | order |
|---|---|
| `headrace` | the default: priority, then tenants and jobs fairly by tokens, then runs by least attained service |
| `fifo` | by arrival, whoever and however urgent it is |
| `round-robin` | tenants take turns, a call each; `round-robin-runs`: runs do |
| `vtc` | tenants by tokens as in the VTC paper: no credit, no jobs, all input at one price; `vtc-runs`: runs |
| `las` | the run that has had the least goes first, without any bound |
| `no-policy` | none: calls go out as they come, and again after a 429 |

Known limits: what was configured for single tenants (weights, limits) has no effect where tenants are merged or split.
`vtc` charges predicted output at dispatch, as the owner always does, where the paper's first form charges by token.
"""

import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import trio
from msgspec import Struct
from msgspec.structs import replace

from agents.errors import ModelError
from agents.messages import ModelReply
from agents.port import Call, Flow, Priority
from bench.direct import Direct
from bench.play import MakeCall, submit
from orchestrator.owner import Endpoint, Owner, OwnerConfig
from orchestrator.policy.config import DispatchConfig
from orchestrator.policy.estimate import ServiceWeights
from orchestrator.policy.fair_config import FairConfig
from orchestrator.policy.fair_report import TenantShare
from orchestrator.transitions import Hook


class CallWeights(ServiceWeights, frozen=True):
    """A call is worth one, whatever its size."""

    w_in: float = 0.0
    w_cached: float = 0.0
    w_out: float = 0.0

    def cost(self, input: float, cached: float, output: float) -> float:
        return 1.0


def _same(flow: Flow) -> Flow:
    return flow


def _tenant(flow: Flow) -> Flow:
    return Flow(flow.tenant, "", flow.run)


def _one(flow: Flow) -> Flow:
    """Everybody's calls in one line; runs stay apart."""
    return Flow("all", "", _path(flow) if flow.run else "")


def _one_by_run(flow: Flow) -> Flow:
    """The same, and calls without a run are their job's."""
    return Flow("all", "", _path(flow))


def _path(flow: Flow) -> str:
    return f"{flow.tenant}/{flow.job}/{flow.run}"


def _by_run(flow: Flow) -> Flow:
    return Flow(_path(flow), "", flow.run)


class Policy(Struct, frozen=True, kw_only=True):
    """One way to order calls. `flow` is where a call is put, `fair` and `weights` what the owner is told; None leaves
    what was configured. `urgency` says that priorities count; `direct` that nobody stands before the provider.
    """

    name: str
    flow: Callable[[Flow], Flow] = _same
    fair: FairConfig | None = None
    weights: ServiceWeights | None = None
    urgency: bool = True
    direct: bool = False

    def config(self, config: OwnerConfig) -> OwnerConfig:
        """The owner's configuration under this policy."""
        if self.fair is None and self.weights is None:
            return config
        old = config.dispatch
        fair, weights = self.fair or old.fair, self.weights or old.weights
        changed: DispatchConfig = replace(old, fair=fair, weights=weights)
        return replace(config, dispatch=changed)

    def endpoint(self, endpoint: Endpoint) -> Endpoint:
        """An endpoint under this policy: what keeps room for others is a part of the default's order."""
        return endpoint if self.fair is None else replace(endpoint, headroom=None)

    def call(self, call: Call) -> Call:
        """The same call, put where this policy wants it."""
        call.flow = self.flow(call.flow)
        if not self.urgency:
            call.priority = Priority.STANDARD
        return call


_FIFO: Final = FairConfig(order="fifo", credit_calls=0.0)
_VTC: Final = ServiceWeights(w_in=1.0, w_cached=1.0, w_out=2.0)

POLICIES: Final[Mapping[str, Policy]] = {
    policy.name: policy
    for policy in (
        Policy(name="headrace"),
        Policy(name="fifo", flow=_one, fair=_FIFO, urgency=False),
        Policy(name="round-robin", flow=_tenant, fair=_FIFO, weights=CallWeights(), urgency=False),
        Policy(name="round-robin-runs", flow=_by_run, fair=_FIFO, weights=CallWeights(), urgency=False),
        Policy(name="vtc", flow=_tenant, fair=_FIFO, weights=_VTC, urgency=False),
        Policy(name="vtc-runs", flow=_by_run, fair=_FIFO, weights=_VTC, urgency=False),
        Policy(name="las", flow=_one_by_run, fair=FairConfig(order="las", credit_calls=0.0), urgency=False),
        Policy(name="no-policy", direct=True),
    )
}


def policy_named(name: str) -> Policy:
    """Raises `ValueError` with the names there are."""
    try:
        return POLICIES[name]
    except KeyError:
        raise ValueError(f"there is no policy {name!r}; there are {', '.join(POLICIES)}") from None


class Served(Struct, frozen=True):
    """What calls are made through while a policy is in force. `owner` is None where nobody stands in between."""

    call: MakeCall
    owner: Owner | None

    def shares(self) -> dict[str, TenantShare]:
        """Every tenant's standing with the owner, by the name that the policy gave it."""
        return {} if self.owner is None else self.owner.policy.fair.tenants()


@asynccontextmanager
async def served(
    policy: Policy,
    config: OwnerConfig,
    endpoints: Sequence[Endpoint],
    *,
    hooks: Sequence[Hook] = (),
    seed: int = 0,
) -> AsyncIterator[Served]:
    """Serves calls under a policy for as long as the block lasts; whatever is open at its end is broken off."""
    if policy.direct:
        direct = Direct(config.name, endpoints, hooks=hooks, retry=config.dispatch.retry, seed=seed)
        yield Served(direct.call, None)
        return
    owner = Owner(
        policy.config(config),
        [policy.endpoint(endpoint) for endpoint in endpoints],
        hooks=hooks,
        rng=random.Random(f"{seed}/owner"),
    )

    async def make(call: Call) -> ModelReply | ModelError:
        return await submit(owner, policy.call(call))

    async with trio.open_nursery() as nursery:
        await nursery.start(owner.run)
        yield Served(make, owner)
        nursery.cancel_scope.cancel()
