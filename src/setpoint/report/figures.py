"""Figures for papers and slides, drawn with matplotlib."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from setpoint._internal.files import AtomicFile
from setpoint._internal.imports import need
from setpoint._internal.provenance import picture_metadata
from setpoint.certificates.certificate import Certificate
from setpoint.errors import SetpointError
from setpoint.goals.goal import Goal
from setpoint.report.band_content import BandReport
from setpoint.report.content import Report
from setpoint.report.data import Histogram, ReportData, Steps, drawn_bounds
from setpoint.thresholds.operating_point import OperatingPoint, check_scores, evaluate_threshold

# The page's colours, which colour-blind readers can tell apart (after Okabe and Ito).
MODEL, BASELINE, _BOUND, _POSITIVES, _FAINT, _MARK = (
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
    "svg.hashsalt": "setpoint",  # the same names in every run
    "text.parse_math": False,  # a label may contain dollar signs
}


def save_figures(
    report: Report | BandReport, folder: str | Path, formats: Iterable[str] = ("png", "svg")
) -> list[Path]:
    """Write precision-recall curve, scores and training history, and return the files.

    Of a review band only the scores are drawn.

    Parameters
    ----------
    report : Report or BandReport
        What to draw.
    folder : path
        Created if needed.
    formats : iterable of {"png", "svg", "pdf"}
        Each figure is written in each of them.
    """
    if isinstance(formats, str):
        formats = (formats,)
    formats = tuple(formats)
    for name in formats:
        if name not in _FORMATS:
            raise SetpointError(f"format {name!r} is not one of {', '.join(_FORMATS)}.")
    need("matplotlib", "report", "a figure")
    from matplotlib import style

    with style.context(["default", _SETTINGS]):
        if isinstance(report, BandReport):
            band = (report.low, report.high)
            drawn = {"scores": _scores(report, Histogram.of(report.rows, list(band)), *band)}
        else:
            data = ReportData(report)
            scores = _scores(report, data.histogram, report.threshold)
            drawn = {"precision-recall": _curves(data), "scores": scores}
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
    """Return a figure that pyplot does not manage."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


class Curve(NamedTuple):
    """A precision-recall curve (``steps``, unless None) and operating points, in one colour.

    Each of the ``points`` has its marker and its label; ``label`` is that of the line.
    """

    steps: Steps | None
    color: str
    line: str = "-"
    label: str | None = None
    points: tuple[tuple[OperatingPoint, str, str], ...] = ()


def draw_precision_recall(
    ax: Any, goal: Goal, curves: Iterable[Curve], certificate: Certificate | None = None
) -> None:
    """Draw precision over recall: the goal's levels, curves, and a certificate's bounds.

    Where the goal is not met, the area is shaded. A line leads from the certificate's operating
    point to each of its bounds.
    """
    for constraint in goal.constraints:
        if constraint.each:  # not a level of all rows together
            continue
        draw = {
            "precision": (ax.axhline, ax.axhspan),
            "recall": (ax.axvline, ax.axvspan),
        }.get(constraint.metric.name)
        if draw is not None:
            line, span = draw
            line(constraint.level, color=_FAINT, linestyle=":", label=f"required: {constraint}")
            span(0, constraint.level, color=_POSITIVES, alpha=0.06, linewidth=0)
    for curve in curves:
        if curve.steps is not None:
            ax.plot(*curve.steps.curve(), curve.line, color=curve.color, label=curve.label)
        for point, marker, label in curve.points:
            at = point.recall, point.precision
            ax.plot(*at, marker, color=curve.color, markersize=8, mec="white", label=label)
    for bound in drawn_bounds(certificate):
        assert certificate is not None
        assert bound.bound is not None
        x, y = certificate.operating_point.recall, certificate.operating_point.precision
        ends = ([x, x], [y, bound.bound])
        if bound.metric.name == "recall":
            ends = ([x, bound.bound], [y, y])
        label = str(bound).split(" (")[0]
        ax.plot(*ends, color=_BOUND, linewidth=3, solid_capstyle="butt", label=label)
    if certificate is not None:
        point = certificate.operating_point
        ax.plot(point.recall, point.precision, "o", color=_BOUND, label=f"on {point.on}")
    ax.set(xlabel="recall: fraction caught", ylabel="precision: fraction real")
    ax.set(xlim=(0, 1.02), ylim=(0, 1.03))


def plot_certificate(
    certificate: Certificate,
    y: ArrayLike,
    scores: ArrayLike,
    *,
    pos_label: Any = None,
    ax: Any = None,
) -> Any:
    """Draw the precision-recall curve of rows with a certificate's threshold, goal and bounds.

    Parameters
    ----------
    certificate : Certificate
        For these scores.
    y, scores : array-like of shape (n,)
        Labels and scores of rows that the model has not seen.
    pos_label : optional
        The label of the positive class; by default that of the certificate.
    ax : matplotlib axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib axes
    """
    if ax is None:
        need("matplotlib", "report", "a figure")
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(6, 4.5), layout="constrained")[1]
    label = certificate.pos_label if pos_label is None else pos_label
    positive, checked, _ = check_scores(y, scores, None, label)
    here = evaluate_threshold(positive, checked, certificate.threshold, certificate.goal)
    points = ((here, "D", "the threshold on these rows"),)
    curve = Curve(Steps.of(positive, checked), MODEL, label="every threshold, on the rows given",
                  points=points)  # fmt: skip
    draw_precision_recall(ax, certificate.goal, [curve], certificate)
    ax.set_title(textwrap.fill(certificate.message, 70), fontsize="medium", loc="left")
    ax.legend(loc="lower left", frameon=False)
    return ax


def _curves(data: ReportData) -> Any:
    report, figure = data.report, _figure(6, 5.4)
    ax = figure.subplots()
    others = tuple(
        (point, "^" if baseline is report.tuned else "s", baseline.name)
        for baseline, point in report.baselines
    )
    curves = [
        Curve(data.baseline_steps, BASELINE, "--", points=others),
        Curve(data.steps, MODEL, label="every threshold"),
        Curve(None, _MARK, points=((report.point, "D", "chosen threshold"),)),
    ]
    draw_precision_recall(ax, report.goal, curves, report.certificate)
    ax.set_title(textwrap.fill(report.title, 60))
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def _scores(report: Report | BandReport, found: Histogram, *thresholds: float) -> Any:
    figure = _figure(6, 4)
    above, below = figure.subplots(2, sharex=True)
    halves = (
        (above, found.positives, report.plural, _POSITIVES),
        (below, found.negatives, "other cases", MODEL),
    )
    for ax, fractions, name, color in halves:
        ax.stairs(fractions, found.edges, fill=True, color=color)
        for threshold in filter(math.isfinite, thresholds):
            ax.axvline(threshold, color=_MARK)
        ax.set_title(name, fontsize="medium")
        ax.set_ylabel("fraction of its class")
    between = "; between both lines cases are reviewed" if len(thresholds) > 1 else ""
    line = "last line" if between else "line"
    below.set_xlabel(f"score (alarms are to the right of the {line}{between})")
    return figure


def _history(report: Report) -> Any:
    history, figure = report.history, _figure(6, 4.2)
    assert history is not None
    iterations = history.column("iteration")
    above, below = figure.subplots(2, sharex=True)
    above.plot(iterations, history.objective, color=MODEL)
    above.set_ylabel(report.goal.objective.name)
    below.plot(iterations, history.violation, "--", color=_POSITIVES)
    below.set(xlabel="iteration", ylabel="shortfall")
    for ax, values in ((above, history.objective), (below, history.violation)):
        for record, value in zip(history, values, strict=True):
            if record.iteration == history.best_iteration and math.isfinite(value):
                ax.plot(record.iteration, value, "D", color=_MARK)
    above.set_title("Training; the diamond marks the iteration that was kept", fontsize="medium")
    return figure
