"""The page's pictures as files, for papers and slides. They need matplotlib."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from setpoint._internal.files import AtomicFile
from setpoint._internal.imports import need
from setpoint._internal.provenance import picture_metadata
from setpoint.errors import SetpointError
from setpoint.report.content import Report
from setpoint.report.data import Contents

# Told apart by the colour-blind as well (after Okabe and Ito), as on the page.
_MODEL, _BASELINE, _BOUND, _POSITIVES, _FAINT, _MARK = (
    "#0072b2", "#a5407a", "#00845f", "#d55e00", "#56606b", "#1b1f24",
)  # fmt: skip
_FORMATS = ("png", "svg", "pdf")
_SETTINGS: dict[str, Any] = {
    "font.size": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.hashsalt": "setpoint",  # names in an SVG do not change from run to run
    "text.parse_math": False,  # a label may hold dollar signs
}


def save_figures(
    report: Report, folder: str | Path, formats: Iterable[str] = ("png", "svg")
) -> list[Path]:
    """Write precision-recall curve, scores and training history, and return the files.

    Parameters
    ----------
    report : Report
        What to draw.
    folder : path
        Made if it is not there.
    formats : iterable of {"png", "svg", "pdf"}
        One file of each for every picture.
    """
    if isinstance(formats, str):
        formats = (formats,)
    formats = tuple(formats)
    for name in formats:
        if name not in _FORMATS:
            raise SetpointError(f"format {name!r} is not one of {', '.join(_FORMATS)}.")
    need("matplotlib", "report", "a figure")
    from matplotlib import style

    contents = Contents(report)
    with style.context(["default", _SETTINGS]):
        drawn = {"precision-recall": _curve(contents), "scores": _scores(contents)}
        if report.history is not None and len(report.history):
            drawn["history"] = _history(report)
        return [
            _write(figure, Path(folder) / f"{name}.{kind}")
            for name, figure in drawn.items()
            for kind in formats
        ]


def _write(figure: Any, path: Path) -> Path:
    """Save a figure in one step."""
    kind = path.suffix[1:]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with AtomicFile(path) as file:
            figure.savefig(file, format=kind, dpi=160, metadata=picture_metadata(kind))
    except OSError as error:
        raise SetpointError(
            f"the picture cannot be written to {path}: {error.strerror or error}."
        ) from error
    return path


def _figure(width: float, height: float) -> Any:
    """Return a figure that pyplot knows nothing of."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _curve(contents: Contents) -> Any:
    report, figure = contents.report, _figure(6, 5.4)
    ax = figure.subplots()
    for constraint in report.goal.constraints:
        line = {"precision": ax.axhline, "recall": ax.axvline}.get(constraint.metric.name)
        if line is not None:
            line(constraint.level, color=_FAINT, linestyle=":", label=f"asked: {constraint}")
    if contents.baseline_steps is not None:
        steps = contents.baseline_steps
        some = steps.tp + steps.fp > 0
        ax.plot(steps.recall[some], steps.precision[some], "--", color=_BASELINE)
    for rival, point in report.rivals:
        mark = "^" if rival is report.tuned else "s"
        ax.plot(point.recall, point.precision, mark, color=_BASELINE, label=rival.name)
    steps = contents.steps
    some = steps.tp + steps.fp > 0
    ax.plot(steps.recall[some], steps.precision[some], color=_MODEL, label="every threshold")
    if report.certificate is not None:
        _bounds(ax, report)
    at = report.point
    ax.plot(at.recall, at.precision, "D", color=_MARK, markersize=8, label="the chosen one")
    ax.set(xlabel="recall: share caught", ylabel="precision: share real")
    ax.set(xlim=(0, 1.02), ylim=(0, 1.03), title="\n".join(textwrap.wrap(report.title, 60)))
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def _bounds(ax: Any, report: Report) -> None:
    assert report.certificate is not None
    point, drawn = report.certificate.operating_point, False
    for bound in report.certificate.bounds:
        if bound.bound is None or bound.kind != "exact" or math.isnan(point.recall):
            continue
        ends = {
            "precision": ([point.recall] * 2, [point.precision, bound.bound]),
            "recall": ([point.recall, bound.bound], [point.precision] * 2),
        }.get(bound.metric.name)
        if ends is not None:
            text = None if drawn else "certifying rows, down to the bound"
            ax.plot(*ends, color=_BOUND, linewidth=3, solid_capstyle="butt", label=text)
            drawn = True


def _scores(contents: Contents) -> Any:
    report, found, figure = contents.report, contents.histogram, _figure(6, 4)
    above, below = figure.subplots(2, sharex=True)
    halves = (
        (above, found.positives, report.many, _POSITIVES),
        (below, found.negatives, "other cases", _MODEL),
    )
    for ax, shares, name, color in halves:
        ax.stairs(shares, found.edges, fill=True, color=color)
        ax.axvline(report.threshold, color=_MARK)
        ax.set_title(name, fontsize="medium")
        ax.set_ylabel("share of its class")
    below.set_xlabel("score (alarms are right of the line)")
    return figure


def _history(report: Report) -> Any:
    history, figure = report.history, _figure(6, 4.2)
    assert history is not None
    iterations = history.column("iteration")
    above, below = figure.subplots(2, sharex=True)
    above.plot(iterations, history.objective, color=_MODEL)
    above.set_ylabel(report.goal.objective.name)
    below.plot(iterations, history.violation, "--", color=_POSITIVES)
    below.set(xlabel="iteration", ylabel="goal missed by")
    for ax, values in ((above, history.objective), (below, history.violation)):
        for record, value in zip(history, values, strict=True):
            if record.iteration == history.best_iteration and math.isfinite(value):
                ax.plot(record.iteration, value, "D", color=_MARK)
    above.set_title("Training; the diamond was kept", fontsize="medium")
    return figure
