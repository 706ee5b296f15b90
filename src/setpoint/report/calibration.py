"""How often cases of similar scores are positive, with exact intervals, and its picture.

Groups are formed by the rank of the score: the label of a case does not decide in which group it
is, so that the binomial interval of each group holds. They are finest among the highest scores,
where decisions are made: four groups hold as many cases as there are positives, each further one
twice as many as the one before.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from scipy.stats import binom

from setpoint.goals.goal import format_metric
from setpoint.goals.metrics import format_threshold
from setpoint.report.content import Report, Rows
from setpoint.report.data import Histogram
from setpoint.report.drawings import Frame, error_bar, marker, ticks
from setpoint.report.fractions import interval

_FEWEST = 10  # cases in a group
_GROUPS = 4  # that hold as many cases as there are positives
_ALPHA = 0.01  # of more groups off the line than chance explains


class Group(NamedTuple):
    """Cases of similar scores.

    Attributes
    ----------
    least, most, median : float
        Of the scores.
    cases, positives : int
        How many there are.
    predicted : float
        The mean of the model's probabilities; NaN if it has none.
    """

    least: float
    most: float
    median: float
    cases: int
    positives: int
    predicted: float = math.nan

    @property
    def rate(self) -> float:
        """The observed fraction of positives."""
        return self.positives / self.cases

    @property
    def interval(self) -> tuple[float, float]:
        """Its exact 95 % interval (Clopper and Pearson)."""
        return interval(self.positives, self.cases)

    @property
    def agrees(self) -> bool:
        """Whether the interval contains the predicted probability."""
        low, high = self.interval
        return low <= self.predicted <= high


@dataclass(frozen=True)
class Calibration:
    """Groups of cases of similar scores, the highest scores first."""

    groups: tuple[Group, ...]

    @classmethod
    def of(cls, rows: Rows) -> Calibration:
        """Return the groups of rows; equal scores are in the same group."""
        scores = rows.scores.astype(np.float64)
        order = np.argsort(-scores, kind="stable")
        ranked, y = scores[order], rows.y[order]
        predicted = None if rows.probability is None else rows.probability[order]
        ends = _ends(ranked, int(rows.y.sum()))
        groups = []
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            own = ranked[start:end]
            mean = math.nan if predicted is None else float(np.mean(predicted[start:end]))
            groups.append(
                Group(
                    float(own[-1]), float(own[0]), float(own[len(own) // 2]), end - start,
                    int(y[start:end].sum()), mean,
                )
            )  # fmt: skip
        return cls(tuple(groups))

    @property
    def has_probabilities(self) -> bool:
        """Whether observed fractions can be compared with predicted probabilities."""
        return not math.isnan(self.groups[0].predicted)


def _ends(ranked: NDArray[np.float64], positives: int) -> list[int]:
    """Return where groups of falling scores end."""
    n, ends = len(ranked), list[int]()
    size, start = max(_FEWEST, math.ceil(positives / _GROUPS)), 0
    while start < n:
        end = min(start + size, n)
        # Equal scores stay together, and a small rest joins the last group.
        end = int(np.searchsorted(-ranked, -ranked[end - 1], side="right"))
        if n - end < size / 2:
            end = n
        ends.append(end)
        size *= 2 if len(ends) >= _GROUPS else 1
        start = end
    return ends


def calibration_section(report: Report, histogram: Histogram) -> dict[str, Any]:
    """Return the content of the section."""
    found = Calibration.of(report.rows)
    rows = []
    for group in found.groups:
        low, high = group.interval
        between = f"{format_metric(low)} to {format_metric(high)}"
        row = [_range(group), f"{group.cases:,}", f"{group.positives:,}"]
        row += [format_metric(group.rate), between]
        rows.append([*row, format_metric(group.predicted)] if found.has_probabilities else row)
    result = ""
    if found.has_probabilities:
        apart = sum(not group.agrees for group in found.groups)
        chance = float(binom.sf(apart - 1, len(rows), 0.05))
        result = (
            f"The mean predicted probability lies inside the interval in {len(rows) - apart} of "
            f"{len(rows)} groups. About one in twenty lies outside by chance"
            + ("." if chance > _ALPHA else "; this is more: do not rely on these probabilities.")
        )
    head = ["scores", "cases", report.plural, "observed", "95 % interval"]
    return {
        "picture": draw_calibration(found, report, histogram),
        "probabilities": found.has_probabilities,
        "result": result,
        "head": [*head, *(["predicted"] * found.has_probabilities)],
        "rows": rows,
    }


def draw_calibration(found: Calibration, report: Report, histogram: Histogram) -> Markup:
    """Draw the observed fraction of each group over its score or predicted probability."""
    groups = found.groups
    highest = max(high for group in groups for high in (group.interval[1], group.rate))
    if found.has_probabilities:
        highest = max(highest, *(group.predicted for group in groups))
        x, label = (0.0, min(1.0, 1.05 * highest)), "predicted probability"
    else:
        x, label = (float(histogram.edges[0]), float(histogram.edges[-1])), "score"
    y = (0.0, min(1.0, 1.05 * highest))
    frame = Frame(height=300, x=x, y=y, left=52)
    parts = [frame.axes(ticks(*x), ticks(*y), label, f"fraction of {report.plural}")]
    if found.has_probabilities:
        parts.append(frame.line(x, x, "floor"))
    else:
        at = frame.across(report.threshold)
        parts.append(f'<path class="cut chosen" d="M{at:.1f} {frame.top}V{frame.bottom:.1f}"/>')
    for group in groups:
        place = group.predicted if found.has_probabilities else group.median
        if not math.isfinite(place):
            continue
        low, high = group.interval
        at = frame.across(place)
        parts.append(error_bar(frame.up(low), frame.up(high), at, upright=True))
        parts.append(marker("dot", at, frame.up(group.rate), "observed"))
    described = (
        f"The observed fraction of {report.plural} in {len(groups)} groups of similar scores, with "
        f"exact 95 % intervals, over the {label}. The table lists the numbers."
    )
    return frame.picture("calibration-picture", described, *parts)


def _range(group: Group) -> str:
    """Write the range of a group's scores."""
    low, high = (format_threshold(float(f"{x:.4g}")) for x in (group.least, group.most))
    return low if low == high else f"{low} to {high}"
