"""The files for Prometheus and Grafana that come with the package.

They are kept in `grafana/` at the root of the source tree. A wheel has them beside this module; where the source tree
itself is what is imported, they are taken from there.
"""

from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
SOURCE: Final = ROOT / "grafana"
RUNBOOK: Final = "runbook.md"
SHIPPED: Final = (
    "README.md",
    "alerts.yml",
    "dashboards",
    "prometheus.yml",
    "provisioning",
    "rules.yml",
)
"""What is shipped of `grafana/`; tests and tools stay behind. pyproject.toml lists the same."""


def shipped() -> Mapping[str, str]:
    """The text of each file, by its path with `/` between folders."""
    packed = files("orchestrator.dashboards") / "files"
    if packed.is_dir():
        return dict(_texts(packed, ""))
    found = {path: text for name in SHIPPED for path, text in _texts(SOURCE / name, name)}
    return {**found, RUNBOOK: (ROOT / "docs" / RUNBOOK).read_text(encoding="utf-8")}


def _texts(place: Traversable, path: str) -> Iterator[tuple[str, str]]:
    if place.is_file():
        yield path, place.read_text(encoding="utf-8")
        return
    for child in sorted(place.iterdir(), key=lambda one: one.name):
        yield from _texts(child, f"{path}/{child.name}" if path else child.name)
