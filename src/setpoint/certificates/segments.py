"""Certificates of one threshold per segment, e.g. region: each by itself, and all together.

Given which segment each row belongs to, the rows of a segment are independent draws from it, and
the samples of different segments are independent of each other. Each segment has a certificate of
its own, with the whole error: *individually*, each statement is wrong with a probability of at most
alpha. That *all* statements hold at once needs more: with G independent segments, each is tested
with the error 1 - (1 - alpha)^(1/G), a little more than alpha / G, and no statement is wrong with a
probability of at least 1 - alpha.

Holm's method, which tests the remaining segments with more error once one has passed, is valid for
thresholds that were fixed beforehand (:func:`holm`), where a true statement cannot be an error any
more. It is not valid for thresholds that are chosen on the same rows: a segment whose chosen
threshold passed may still have been certified falsely, so that its error is not free again.

One threshold for all segments is certified by :func:`setpoint.certify`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setpoint._internal.validation import check_fraction, did_you_mean, listed
from setpoint.certificates.certificate import Certificate
from setpoint.certificates.certify import certify_best, certify_threshold, planning_draw
from setpoint.certificates.rates import shortage
from setpoint.certificates.sequence import Rows, worst_p_value
from setpoint.certificates.threshold_set import NO_THRESHOLDS
from setpoint.errors import GoalError, SetpointError
from setpoint.goals.columns import segment_texts
from setpoint.goals.goal import Constraint, Goal, check_for_new_rows
from setpoint.thresholds.by_segment import segment_column
from setpoint.thresholds.checks import check_rows

Pair = tuple[Rows, Rows]  # planning and certification rows


@dataclass(frozen=True)
class SegmentCertificates:
    """The certificates of segments, each with its own threshold.

    Attributes
    ----------
    column : str
        The column of segments.
    individual : dict of Certificate
        One per segment; each is wrong with a probability of at most 1 - confidence.
    joint : dict of Certificate
        One per segment; with the stated confidence none of them is wrong.
    too_small : dict of str
        Segments with too few rows for any certificate, and how many they need.
    confidence : float
        The confidence of each individual certificate, and of all joint ones together.
    """

    column: str
    individual: dict[str, Certificate]
    joint: dict[str, Certificate]
    too_small: dict[str, str]
    confidence: float

    @property
    def individually_certified(self) -> tuple[str, ...]:
        """The segments whose own certificate passed."""
        return tuple(name for name, c in self.individual.items() if c.certified)

    @property
    def jointly_certified(self) -> tuple[str, ...]:
        """The segments whose guarantees hold all at once, with the stated confidence."""
        return tuple(name for name, c in self.joint.items() if c.certified)

    @property
    def thresholds(self) -> dict[str, float]:
        """The thresholds of the segments that are jointly certified."""
        return {name: self.joint[name].threshold for name in self.jointly_certified}

    def rows(self) -> list[dict[str, Any]]:
        """Return a table with one row per segment, for reports."""
        table = []
        for name, own in self.individual.items():
            joint, counts = self.joint[name], own.operating_point.counts
            table.append(
                {
                    "segment": name,
                    "positives": int(counts[2]),
                    "negatives": int(counts[3]),
                    "certified": own.certified,
                    "threshold": own.threshold if own.certified else None,
                    "objective": own.operating_point.objective if own.certified else None,
                    "certified jointly": joint.certified,
                    "joint threshold": joint.threshold if joint.certified else None,
                    "why not": self.too_small.get(name) or own.refusal or None,
                }
            )
        return table

    def __str__(self) -> str:
        percent = f"{100 * self.confidence:g} %"
        every, joint = len(self.individual), self.jointly_certified
        lines = [
            f"Certified at {percent} confidence: {len(self.individually_certified)} of {every} "
            f"segments, each by itself, and {len(joint)} of {every} all at once.",
        ]
        for row in self.rows():
            if row["certified"]:
                also = "not together with the others"
                if row["certified jointly"]:
                    also = f"together with the others {row['joint threshold']:.6g}"
                own = f"threshold by itself {row['threshold']:.6g}"
                lines.append(f"  {row['segment']}: {own}, {also}")
            else:
                lines.append(f"  {row['segment']}: not certified: {row['why not']}")
        return "\n".join(lines)


def certify_by_segment(
    y: ArrayLike,
    scores: ArrayLike,
    goal: str | Goal,
    *,
    segments: Mapping[str, ArrayLike],
    thresholds: Mapping[Any, float] | None = None,
    confidence: float = 0.9,
    pos_label: Any = None,
    on: str = "the certification rows",
) -> SegmentCertificates:
    """Certify one threshold for each segment: each segment by itself, and all together.

    The rows must be independent draws on which the classifier was not trained, and the segments
    must not have been formed by looking at them.

    Parameters
    ----------
    y, scores : array-like of shape (n,)
        Labels, and scores that are larger for likely positives.
    goal : str or Goal
        All its constraints are 'for each' of one column, e.g.
        ``"max recall s.t. precision >= 0.9 for each region"``.
    segments : mapping of str to array-like of shape (n,)
        That column: ``{"region": ...}``.
    thresholds : mapping of float, optional
        The threshold of each segment, fixed without using these rows. Holm's method then decides
        which segments are certified jointly. By default, the best threshold that can be certified
        is chosen in each segment.
    confidence : float
        The confidence of each individual certificate, and of all joint ones together.
    pos_label : optional
        As for :func:`setpoint.certify`.
    on : str
        The name of these rows in messages.

    Examples
    --------
    >>> import numpy as np
    >>> from setpoint import certify_by_segment
    >>> rng = np.random.default_rng(0)
    >>> y = rng.random(4000) < 0.3
    >>> scores = rng.normal(size=4000) + 2.5 * y
    >>> found = certify_by_segment(
    ...     y, scores, "max recall s.t. precision >= 0.8 for each region",
    ...     segments={"region": np.where(rng.random(4000) < 0.1, "north", "south")},
    ... )
    >>> found.jointly_certified
    ('north', 'south')
    """
    goal = Goal.parse(goal)
    check_for_new_rows(goal)
    check_fraction(confidence, "confidence")
    column = segment_column(goal)
    if goal.amounts:
        raise GoalError(
            f"'{goal}' names amounts, which certificates of a threshold for each segment do not "
            "support; use an objective such as recall, or setpoint.certify, which certifies one "
            "threshold for all segments."
        )
    if others := [c for c in goal.constraints if not c.each]:
        raise GoalError(
            f"'{others[0]}' is about all rows, and thresholds of each segment are certified one "
            f"by one; write '{others[0]} for each {column}', or use setpoint.certify, which "
            "certifies one threshold for all segments."
        )
    own = Goal(goal.objective, tuple(Constraint(c.metric, c.level) for c in goal.constraints))
    positive, checked, _, columns = check_rows(
        y, scores, goal, None, None, segments, None, pos_label
    )
    planning = planning_draw(checked)
    codes = columns.segments[column]
    rows = {}
    for code, name in enumerate(codes.values):
        mine = codes.codes == code
        rows[str(name)] = (
            Rows.of(positive, checked, mine & planning),
            Rows.of(positive, checked, mine if thresholds is not None else mine & ~planning),
        )
    if thresholds is not None:  # segments are texts: 1 is "1"
        thresholds = {
            str(segment_texts(column, [name], 1)[0]): value for name, value in thresholds.items()
        }
        if unknown := [name for name in thresholds if name not in rows]:
            raise SetpointError(
                f"there is a threshold of {column}={unknown[0]}, and no row of that segment; there "
                f"are {listed(list(rows), 4)}.{did_you_mean(unknown[0], list(rows))}"
            )
    return _certify_each(column, rows, own, confidence, thresholds, on)


def _certify_each(
    column: str,
    segments: Mapping[str, Pair],
    goal: Goal,
    confidence: float,
    thresholds: Mapping[Any, float] | None,
    on: str,
) -> SegmentCertificates:
    """Certify the thresholds of segments, given their planning and certification rows."""
    error = 1 - confidence
    smaller = 1 - joint_error(error, len(segments))
    individual: dict[str, Certificate] = {}
    joint: dict[str, Certificate] = {}
    too_small = {}
    for name, (planning, testing) in segments.items():
        where = f"{on} of {name}"
        if thresholds is None:
            for found, level in ((individual, confidence), (joint, smaller)):
                found[name] = certify_best(planning, testing, goal, level, on=where)
        else:
            if name not in thresholds:
                raise SetpointError(
                    f"there is no threshold of {column}={name}; give one of each segment."
                )
            fixed = certify_threshold(testing, goal, thresholds[name], confidence, on=where)
            individual[name] = joint[name] = fixed
        missing = [s for c in goal.constraints if (s := shortage(c, *testing.totals, error))]
        if missing and not individual[name].certified:
            too_small[name] = f"{missing[0]}, even if all of them are right"
    if thresholds is not None:
        joint = _holm_certificates(segments, goal, thresholds, error, joint)
    return SegmentCertificates(column, individual, joint, too_small, confidence)


def _holm_certificates(
    segments: Mapping[Any, Pair],
    goal: Goal,
    thresholds: Mapping[Any, float],
    error: float,
    fixed: dict[Any, Certificate],
) -> dict[Any, Certificate]:
    p_values = []
    for name, (_, testing) in segments.items():
        tp, fp = testing.counts(np.array([float(thresholds[name])]))
        p_values.append(float(worst_p_value(goal, tp, fp, *testing.totals)[0]))
    passed = holm(p_values, error)
    # Those that did not pass all exceed the error that Holm's method had for the next one.
    level = 1 - error / max(1, int((~passed).sum()))
    refused: dict[str, Any] = {
        "certified": False,
        "confidence": level,
        "certified_thresholds": NO_THRESHOLDS,
    }
    return {
        name: own if ok else replace(own, **refused)
        for (name, own), ok in zip(fixed.items(), passed.tolist(), strict=True)
    }


def joint_error(error: float, segments: int) -> float:
    """Return the error of each of several independent segments that together have an error."""
    return -math.expm1(math.log1p(-error) / segments)


def holm(p_values: ArrayLike, error: float) -> NDArray[np.bool_]:
    """Return which hypotheses are rejected so that no true one is, but with this probability.

    The hypotheses must be fixed beforehand. The smallest of n p-values passes at error / n, the
    next one at error / (n - 1), and so on until one fails (Holm, 1979).

    Examples
    --------
    >>> holm([0.04, 0.3, 0.02], 0.1)
    array([ True, False,  True])
    """
    values = np.asarray(p_values, dtype=float)
    order = np.argsort(values, kind="stable")
    passes = values[order] <= error / np.arange(len(values), 0, -1)
    rejected = np.zeros(len(values), dtype=bool)
    rejected[order[: len(values) if passes.all() else int(np.argmin(passes))]] = True
    return rejected
