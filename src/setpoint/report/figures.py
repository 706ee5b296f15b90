"""Figures for papers and slides, drawn with matplotlib."""

from __future__ import annotations

import math
import textwrap
import warnings
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
from setpoint.report.bands import BandReport
from setpoint.report.breakdown import MOST_DRAWN, ByPeriod, BySegment, by_period, by_segment
from setpoint.report.breakdown_drawings import bars_of, time_ticks
from setpoint.report.content import Report
from setpoint.report.data import Histogram, ReportData, Steps, drawn_bounds
from setpoint.report.wording import in_words, metric_label, shortened
from setpoint.thresholds.checks import check_scores
from setpoint.thresholds.choose import evaluate_threshold
from setpoint.thresholds.operating_point import OperatingPoint

# The page's colours, which colour-blind readers can tell apart (after Okabe and Ito).
MODEL, BASELINE, CURRENT, _BOUND, _POSITIVES, _FAINT, _MARK = (
    "#0072b2", "#a5407a", "#8a6400", "#00845f", "#d55e00", "#56606b", "#1b1f24",
)  # fmt: skip
_MOST = 4  # figures by segment, and by period; the command line knows their names
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
    """Write the report's figures, and return the files.

    These are the precision-recall curve, the scores, the training history, and the results by
    segment and by period where the goal is about these.

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
            by_column = [(s, name) for s in by_segment(report) for name in s.metrics][:_MOST]
            drawn |= {_numbered("segments", i): _segments(*s) for i, s in enumerate(by_column, 1)}
            budgets = by_period(report)[:_MOST]
            drawn |= {_numbered("periods", i): _periods(p) for i, p in enumerate(budgets, 1)}
        return [
            _write(figure, Path(folder) / f"{name}.{kind}")
            for name, figure in drawn.items()
            for kind in formats
        ]


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


def _write(figure: Any, path: Path) -> Path:
    """Save a figure in one step."""
    kind = path.suffix[1:]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with AtomicFile(path) as file, warnings.catch_warnings():
            # A label may have characters that the font lacks; boxes are drawn for these.
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
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
        if baseline is not report.current
    )
    current = tuple(
        (point, "h", baseline.name)
        for baseline, point in report.baselines
        if baseline is report.current
    )
    curves = [
        Curve(data.baseline_steps, BASELINE, "--", points=others),
        Curve(data.current_steps, CURRENT, "-.", points=current),
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
    history = report.history
    assert history is not None
    iterations = history.column("iteration")
    drawn = [(history.objective, report.goal.objective.name, {"color": MODEL})]
    if any(history.violation):  # it is no news that nothing is missed
        drawn.append((history.violation, "shortfall", {"color": _POSITIVES, "linestyle": "--"}))
    figure = _figure(6, 2.1 * len(drawn))
    axes = figure.subplots(len(drawn), sharex=True, squeeze=False)[:, 0]
    above = axes[0]
    axes[-1].set_xlabel("iteration")
    for ax, (values, name, style) in zip(axes, drawn, strict=True):
        ax.plot(iterations, values, **style)
        ax.set_ylabel(name)
        for record, value in zip(history, values, strict=True):
            if record.iteration == history.best_iteration and math.isfinite(value):
                ax.plot(record.iteration, value, "D", color=_MARK)
    above.set_title("Training; the diamond marks the iteration that was kept", fontsize="medium")
    return figure


def _segments(results: BySegment, name: str) -> Any:
    """Draw a metric in each segment, with its 95 % interval and the required level."""
    rows = results.measured(name)[:MOST_DRAWN]
    figure = _figure(6, 1.4 + 0.28 * len(rows))
    ax = figure.subplots()
    for place, (_, found) in enumerate(rows):
        if found.low is not None and found.high is not None:
            ax.plot([found.low, found.high], [place, place], color=_FAINT, linewidth=2.5, zorder=1)
        level = [found.constraint.level] * 2
        ax.plot(level, [place - 0.5, place + 0.5], color=_FAINT, linestyle=":", linewidth=1.5)
        color, mark = (_BOUND, "o") if found.met else (_POSITIVES, "D")
        ax.plot(found.value, place, mark, color=color, zorder=2)
    ax.set_yticks(range(len(rows)), [shortened(segment, 30) for segment, _ in rows])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    which = results.metrics[name]
    if which.is_bounded:
        ax.set_xlim(*which.bounds)
    ax.set_xlabel(metric_label(which))
    shown = f"{len(rows)} worst segments" if len(rows) < len(results.judged) else "Segments"
    ax.set_title(
        f"{shown} of {in_words(results.column)}; diamonds miss the level (dotted)",
        fontsize="medium", wrap=True,
    )  # fmt: skip
    return figure


def _periods(periods: ByPeriod) -> Any:
    """Draw the alarms of each period, with the real ones and the budget."""
    bars, figure = bars_of(periods), _figure(7, 3.4)
    ax = figure.subplots()
    width = bars.each * (0.8 if len(bars.at) < 100 else 1.0)
    ax.bar(bars.at, bars.alarms, width, color=MODEL, label="false alarms")
    ax.bar(bars.at, bars.real, width, color=_POSITIVES, label="real alarms")
    ax.axhline(periods.level, color=_MARK, linestyle=":", label="allowed")
    if bars.over.any():
        ax.plot(bars.at[bars.over], bars.alarms[bars.over] + 0.02 * bars.alarms.max(), "v",
                color=_MARK, markersize=4, label="more than allowed")  # fmt: skip
    ax.set_xticks(*time_ticks(periods))
    ax.set(xlabel="" if periods.dated else periods.period, ylabel=f"alarms per {periods.period}")
    figure.legend(loc="outside lower center", ncols=4)
    return figure
