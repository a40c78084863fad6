"""The waits of a replay as a picture: for each policy the share of calls that waited longer than so long."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.replay.report import PolicyReport


class NoPlot(Exception):
    """The picture cannot be drawn; the message says why."""


def plot(done: Sequence[Sequence[PolicyReport]], path: Path) -> None:
    """Draws the p50, p90 and p99 waits of each priority and policy, one row of panels per trace. Raises `NoPlot`."""
    if path.suffix not in (".png", ".svg", ".pdf"):
        raise NoPlot(f"{path}: a picture's name ends in .png, .svg or .pdf")
    figure_type = _figure()
    figure = figure_type(figsize=(10, 4 * len(done)), layout="constrained")
    panels = figure.subplots(len(done), 2, squeeze=False)
    for (left, right), reports in zip(panels, done, strict=True):
        _waits(left, reports)
        _use(right, reports)
    try:
        figure.savefig(path, metadata=_NO_DATE.get(path.suffix, {}))
    except OSError as error:
        raise NoPlot(f"{path}: cannot be written: {error.strerror or error}") from None


# the same replay draws the same bytes
_NO_DATE: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def _figure() -> Any:
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise NoPlot("a picture needs matplotlib: pip install 'headrace[plot]'") from None
    matplotlib.rcParams["svg.hashsalt"] = "headrace"
    return Figure


def _waits(panel: Any, reports: Sequence[PolicyReport]) -> None:
    """Bars up to p50, p90 and p99, the largest tenants side by side."""
    names = [group.name for group in reports[0].tenants[:5]]
    width = 0.8 / len(reports)
    for place, one in enumerate(reports):
        groups = {group.name: group for group in one.tenants}
        at = [index + (place - (len(reports) - 1) / 2) * width for index in range(len(names))]
        colour = f"C{place}"
        for share, shade in (("p99", 0.3), ("p90", 0.6), ("p50", 1.0)):
            heights = [getattr(groups[name], share) if name in groups else 0.0 for name in names]
            label = one.policy if share == "p50" else None
            panel.bar(at, heights, width, color=colour, alpha=shade, label=label)
    panel.set_xticks(range(len(names)), names, rotation=20, ha="right")
    panel.set_ylabel("seconds in queue: p50, p90, p99")
    panel.set_title(f"{reports[0].trace}: waits of the largest tenants")
    panel.legend(fontsize="small")


def _use(panel: Any, reports: Sequence[PolicyReport]) -> None:
    """The calls answered in time, and the 429s, of each policy."""
    names = [one.policy for one in reports]
    rows = list(range(len(reports)))
    panel.barh([row + 0.2 for row in rows], [one.in_time for one in reports], 0.4, label="answered in time")
    panel.barh([row - 0.2 for row in rows], [one.refused_429 for one in reports], 0.4, label="429s caused")
    panel.set_yticks(rows, names)
    panel.invert_yaxis()
    panel.set_xlabel("calls")
    panel.set_title("answers and refusals")
    panel.legend(fontsize="small")
