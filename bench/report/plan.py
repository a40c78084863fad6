"""What a report runs: every benchmark with its settings, whole or quick, and how its JSON becomes a section."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from bench.durable import DurableReport
from bench.experiment.calibrate import Calibration
from bench.fairness.measure import Row as FairnessRow
from bench.gateway import Cell
from bench.load import LoadReport
from bench.peers.report import PeersReport
from bench.pool import PoolResult
from bench.replay.report import PolicyReport
from bench.replay.targets import Reached
from bench.report import costs, order, rest
from bench.report.parts import Section
from bench.sessions.report import Report as SessionsReport
from bench.whatif.report import WhatIf

TRACES: Final = "{traces}"
LEDGER: Final = "{ledger}"
"""Stand in arguments for what the reader names."""


class Bench(Struct, frozen=True, kw_only=True):
    """One benchmark. `arguments` are those of `headrace-bench` before `--json`, `quick` the same in seconds.

    `files` are the traces that it cannot do without, `shape` is what its JSON is decoded into for `section`.
    """

    name: str
    title: str
    about: str
    arguments: Sequence[str]
    quick: Sequence[str]
    shape: Any
    section: Callable[[Any], Section]
    files: Sequence[str] = ()

    def read(self, result: bytes | msgspec.Raw) -> Section:
        """The section of a result. Raises `msgspec.MsgspecError` where it has another shape."""
        return self.section(msgspec.json.decode(result, type=self.shape))

    def needs(self, stand_in: str) -> bool:
        """Whether its arguments have that in them."""
        return any(stand_in in argument for argument in self.arguments)


def command(arguments: Sequence[str], given: Mapping[str, str]) -> list[str]:
    """Arguments with what was given in the place of what stands for it."""
    filled = []
    for argument in arguments:
        for stand_in, value in given.items():
            argument = argument.replace(stand_in, value)
        filled.append(argument)
    return filled


_AZURE: Final = "azure2023_conv.csv.gz"
_REPLAY: Final = ("replay", f"{TRACES}/{_AZURE}", "--tpm", "400000", "--tenants", "5")
_VTC: Final = "vtc_real.csv"
_SESSIONS: Final = "claudecode_kvct_full.csv.gz"


def _policies(*names: str) -> tuple[str, ...]:
    return tuple(part for name in names for part in ("--policy", name))


BENCHES: Final = (
    Bench(
        name="load",
        title="The owner path",
        about="What a call costs on its way through the owner, against a bare memory-channel round trip.",
        arguments=("load",),
        quick=("load", "--calls", "2000", "--repeats", "3"),
        shape=LoadReport,
        section=costs.load,
    ),
    Bench(
        name="fairness",
        title="Fairness",
        about="How evenly clients are served on a model of one engine: the VTC paper's workloads and measure.",
        arguments=("fairness", "--trace", f"{TRACES}/{_VTC}"),
        quick=(
            *("fairness", "--trace", f"{TRACES}/{_VTC}", "--replicates", "1"),
            *_policies("fcfs", "vtc", "headrace", "headrace-within-50"),
        ),
        shape=list[FairnessRow],
        section=order.fairness,
        files=(_VTC,),
    ),
    Bench(
        name="limits",
        title="Use of limits",
        about="How much of a provider's limit is used while more is asked for, and how many 429s that takes.",
        arguments=("limits",),
        quick=("limits",),
        shape=list[Reached],
        section=order.limits,
    ),
    Bench(
        name="replay",
        title="A recorded trace",
        about="Recorded calls under each policy, through the owner's own code in virtual time.",
        arguments=(*_REPLAY, *_policies("headrace", "fifo", "vtc", "no-policy")),
        quick=(*_REPLAY, "--span", "600"),
        shape=list[PolicyReport],
        section=order.replay,
        files=(_AZURE,),
    ),
    Bench(
        name="agents",
        title="Agent sessions",
        about="Recorded sessions of coding agents that share one limited provider, each policy against arrival order.",
        arguments=("agents", "--trace", f"{TRACES}/{_SESSIONS}"),
        quick=(
            *("agents", "--trace", f"{TRACES}/{_SESSIONS}", "--load", "1.3"),
            *("--sessions", "60", "--workloads", "1", *_policies("fifo", "headrace")),
        ),
        shape=SessionsReport,
        section=order.agents,
        files=(_SESSIONS,),
    ),
    Bench(
        name="what-if",
        title="Replay against its record",
        about="How near the replay of a daemon's own calls comes to what was recorded, nothing changed.",
        arguments=("what-if", LEDGER),
        quick=("what-if", LEDGER),
        shape=list[WhatIf],
        section=rest.what_if,
    ),
    Bench(
        name="peers",
        title="Beside plain clients",
        about="Two jobs at one provider's limits, over HTTP in real time: plain asyncio clients and the gateway.",
        arguments=("peers",),
        quick=("peers", "--quick"),
        shape=PeersReport,
        section=rest.peers,
    ),
    Bench(
        name="pool",
        title="Worker processes",
        about="What it costs that worker processes drive runs, against the daemon that drives them itself.",
        arguments=("pool",),
        quick=("pool", "--runs", "60", "--repeats", "1"),
        shape=list[PoolResult],
        section=costs.pool,
    ),
    Bench(
        name="durable",
        title="Runs that survive",
        about="Durable appends against one sync each, agents over a store on disk, resuming runs after a kill.",
        arguments=("durable",),
        quick=("durable", "--quick"),
        shape=DurableReport,
        section=costs.durable,
    ),
    Bench(
        name="gateway",
        title="The gateway over HTTP",
        about="Requests a second and latency through the daemon, against its upstream directly, on loopback.",
        arguments=("gateway",),
        quick=("gateway", "--seconds", "0.5"),
        shape=list[Cell],
        section=costs.gateway,
    ),
    Bench(
        name="experiment",
        title="Verdicts of experiments",
        about="How often a verdict is wrong where nothing differs, and how often it finds what there is.",
        arguments=("experiment", "--calibrate"),
        quick=("experiment", "--calibrate", "--experiments", "50"),
        shape=Calibration,
        section=rest.experiment,
    ),
)
