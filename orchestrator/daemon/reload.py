"""A reload: what changed in the configuration, whether it can change while the daemon runs, and all of it or nothing.

Everything that could fail is done before anything is changed: the new file is decoded, its tools are imported, its
limits are checked by every owner. What is left then neither fails nor waits.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from agents.errors import HeadraceError
from orchestrator.catalogue import Catalogue
from orchestrator.config.build import policy_of
from orchestrator.config.difference import Change, difference
from orchestrator.config.schema import Config
from orchestrator.daemon.owners import Owners


class ReloadRefused(HeadraceError):
    """The new configuration asks for what only a restart can do. Nothing has changed."""


class Reload(Struct, frozen=True):
    """A change that is ready: `apply` puts the owners' part of it in force."""

    config: Config
    catalogue: Catalogue
    changes: Sequence[Change]
    apply: Callable[[], None]


def prepare_reload(current: Config, fresh: Config, owners: Owners, known: Callable[[Config], Catalogue]) -> Reload:
    """Makes ready what leads from `current` to `fresh`; `known` makes its catalogue.

    Raises `ConfigError` or `InvalidLimits` for a configuration that is wrong, `ReloadRefused` for a part of it that
    cannot change while the daemon runs.
    """
    found = difference(current, fresh)
    if found.restart:
        changes = "; ".join(str(change) for change in found.restart)
        raise ReloadRefused(f"only a restart can change this: {changes}")
    catalogue = known(fresh)
    steps = []
    for name, owner in owners.by_name.items():
        policy = policy_of(fresh, name)
        steps.append(owner.prepare(policy.dispatch, policy.endpoints))

    def apply() -> None:
        for step in steps:
            step()

    return Reload(fresh, catalogue, found.live, apply)
