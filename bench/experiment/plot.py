"""An experiment's differences as a picture: what is measured, how sure that is, and the margins it is judged by."""

from pathlib import Path
from typing import Any

from bench.experiment.analyse import Comparison, Report
from bench.experiment.spec import SpecError

_COLOURS = {"better": "#2a7f3f", "worse": "#b3261e", "equivalent": "#1f6f8b"}
_GREY = "#777777"


def plot(report: Report, path: Path) -> None:
    """Writes the picture, in the format that the file's ending names. `SpecError` where that cannot be done."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SpecError("--plot needs matplotlib: pip install 'headrace[plot]'") from None
    measures = list(dict.fromkeys(each.measure for each in report.comparisons))
    height = 1.2 + 0.35 * len(report.comparisons) + 0.5 * len(measures)
    figure = Figure(figsize=(7.5, height), layout="constrained")
    panels = figure.subplots(len(measures), 1, squeeze=False)[:, 0]
    for panel, measure in zip(panels, measures, strict=True):
        _panel(panel, [each for each in report.comparisons if each.measure == measure])
    figure.suptitle(f"{report.name}: against {report.baseline}")
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:
        raise SpecError(f"{path} cannot be written: {error}") from None


def _panel(panel: Any, comparisons: list[Comparison]) -> None:
    scale = 100 if comparisons[0].relative else 1
    for row, each in enumerate(comparisons):
        finding = each.finding
        if finding.difference is None or finding.low is None or finding.high is None:
            continue
        colour = _COLOURS.get(finding.verdict, _GREY)
        panel.plot([finding.low * scale, finding.high * scale], [row, row], color=colour, linewidth=2)
        panel.plot([finding.difference * scale], [row], "o", color=colour)
        panel.annotate(
            finding.verdict if finding.verdict != "untold" else "",
            (finding.high * scale, row),
            textcoords="offset points",
            xytext=(6, -3),
            fontsize=8,
            color=colour,
        )
    margin = comparisons[0].margin
    if margin is not None:
        panel.axvspan(-margin * scale, margin * scale, color="#dddddd", zorder=0)
    panel.axvline(0, color=_GREY, linewidth=0.8)
    panel.set_yticks(range(len(comparisons)), [each.arm for each in comparisons])
    panel.set_ylim(len(comparisons) - 0.5, -0.5)
    panel.margins(x=0.2)
    unit = ", % of the baseline's mean" if comparisons[0].relative else ""
    panel.set_xlabel(f"{comparisons[0].measure}{unit}: {comparisons[0].better} is better")
