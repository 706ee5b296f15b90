"""Certificates for segments of the rows, e.g. regions: for each of them, and for all together.

Given which segment each row belongs to, the rows of a segment are independent draws from it, and
the samples of different segments are independent of each other.

**One threshold for all** (:func:`certify_common`). "Precision >= 0.9 in each region" is one
constraint per region, each on its own rows. The proof for several constraints
(:mod:`setpoint.certificates.simultaneous`) does not ask which rows a constraint counts: tests at
all thresholds share a part of the error, and the way from the planned start has all that is left,
for each segment. At one fixed threshold the claim "the floor holds in every segment" is tested with
the whole error in each of them: it is false only if some segment misses the floor, and that one
passes with a probability of at most alpha (an intersection-union test). The set of certified
thresholds meets the floor in all segments together.

**One threshold per segment** (:func:`certify_each`). Each segment has a certificate of its own,
with the whole error: *individually*, each statement is wrong with a probability of at most alpha.
That *all* statements hold at once needs more: with G independent segments, each is tested with the
error 1 - (1 - alpha)^(1/G), a little more than alpha / G, and no statement is wrong with a
probability of at least 1 - alpha.

Holm's method, which tests the remaining segments with more error once one has passed, is valid for
thresholds that were fixed beforehand (:func:`holm`), where a true statement cannot be an error any
more. It is not valid for thresholds that are chosen on the same rows: a segment whose chosen
threshold passed may still have been certified falsely, so that its error is not free again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setpoint._internal.validation import check_fraction, check_groups
from setpoint.certificates.certificate import Certificate
from setpoint.certificates.certify import Method, certify_best, certify_threshold
from setpoint.certificates.rates import least_trials
from setpoint.certificates.sequence import Rows, TalliedRows, worst_p_value
from setpoint.certificates.threshold_set import NO_THRESHOLDS
from setpoint.errors import SetpointError
from setpoint.goals.goal import Constraint, Goal
from setpoint.goals.tallies import Tally

Floats = NDArray[np.floating]
Pair = tuple[Rows, Rows]  # planning and certification rows


def in_each(goal: Goal, segments: Iterable[Any]) -> Goal:
    """Return the goal with each constraint once per segment."""
    return Goal(
        goal.objective,
        tuple(
            Constraint(c.metric.within(segment_tally(segment)), c.level)
            for segment in segments
            for c in goal.constraints
        ),
    )


def segment_tally(segment: Any) -> Tally:
    """Return the tally of a segment's rows."""
    return Tally(segment="segment", value=str(segment))


def segment_rows(
    positive: NDArray[np.bool_], scores: Floats, segments: ArrayLike, planning: NDArray[np.bool_]
) -> dict[Any, Pair]:
    """Return the planning and certification rows of each segment, in the order of their names.

    ``planning`` says which rows plan; they must be drawn regardless of labels and scores.
    """
    names = check_groups(segments, np.shape(scores))
    assert names is not None
    found = {}
    for name in np.unique(names).tolist():
        own = names == name
        found[name] = (
            Rows.of(positive, scores, own & planning),
            Rows.of(positive, scores, own & ~planning),
        )
    return found


# --- too small ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TooSmall:
    """A segment in which no result could certify a constraint, and what it would take.

    Attributes
    ----------
    segment : object
        The segment.
    constraint : Constraint
        The constraint.
    population : str
        The rows of which the metric is a fraction, e.g. "positives" for recall; for precision, of
        which the alarms are at most all rows.
    rows, needed : int
        How many there are, and how many are needed at least, all of them right.
    """

    segment: Any
    constraint: Constraint
    population: str
    rows: int
    needed: int

    def __str__(self) -> str:
        metric = self.constraint.metric
        level = f"{metric} {self.constraint.relation} {self.constraint.level:g}"
        return (
            f"{self.segment} has {self.rows:,} {self.population}; at least {self.needed:,} are "
            f"needed to certify '{level}', even if all of them are right."
        )


def too_small(segment: Any, rows: Rows, goal: Goal, error: float) -> TooSmall | None:
    """Return why a segment is too small for a goal, or None if it is not.

    A precision floor needs true alarms, hence positives; npv needs negatives.
    """
    P, N = rows.totals
    for constraint in goal.constraints:
        needed = least_trials(constraint, error)
        population, there = {
            "positives": ("positives", P),
            "alarms": ("positives", P),
            "negatives": ("negatives", N),
            "cases without an alarm": ("negatives", N),
        }.get(str(constraint.metric.population), ("rows", P + N))
        if needed is not None and there < needed:
            return TooSmall(segment, constraint, population, int(there), needed)
    return None


# --- one threshold for all ------------------------------------------------------------------------


def certify_common(
    segments: Mapping[Any, Pair],
    goal: Goal,
    confidence: float,
    *,
    on: str = "the certification rows",
    method: Method = "simultaneous",
) -> Certificate:
    """Certify one threshold at which each constraint holds in each segment.

    Parameters
    ----------
    segments : mapping of (Rows, Rows)
        The planning and certification rows of each segment.
    goal : Goal
        The goal; its constraints are required in each segment, its objective is that of all rows.
    confidence : float
        Of all attempts, at most a fraction 1 - confidence ends with a threshold in the certified
        set at which some segment misses a constraint.
    """
    check_fraction(confidence, "confidence")
    _check_segments(segments, goal)
    planning, testing = (
        TalliedRows(
            _joined([pair[part] for pair in segments.values()]),
            {segment_tally(name): pair[part] for name, pair in segments.items()},
        )
        for part in (0, 1)
    )
    each = in_each(goal, segments)
    return certify_best(planning, testing, each, confidence, on=on, method=method)


def _joined(parts: list[Rows]) -> Rows:
    """Return the rows of all segments together."""
    scores = [np.concatenate([rows[i].sorted for rows in parts]) for i in (0, 1)]
    positive = np.repeat([True, False], [len(own) for own in scores])
    return Rows.of(positive, np.concatenate(scores))


# --- one threshold per segment --------------------------------------------------------------------


@dataclass(frozen=True)
class SegmentCertificates:
    """The certificates of segments, each with its own threshold.

    Attributes
    ----------
    individual : dict of Certificate
        One per segment; each is wrong with a probability of at most 1 - confidence.
    joint : dict of Certificate
        One per segment; with the stated confidence none of them is wrong.
    refused : dict of TooSmall
        Segments with too few rows for an individual certificate, and how many are needed.
    confidence : float
        The confidence of each individual certificate, and of all joint ones together.
    """

    individual: dict[Any, Certificate]
    joint: dict[Any, Certificate]
    refused: dict[Any, TooSmall]
    confidence: float

    @property
    def individually_certified(self) -> tuple[Any, ...]:
        """The segments whose own certificate passed."""
        return tuple(name for name, c in self.individual.items() if c.certified)

    @property
    def jointly_certified(self) -> tuple[Any, ...]:
        """The segments whose guarantees hold all at once, with the stated confidence."""
        return tuple(name for name, c in self.joint.items() if c.certified)

    def threshold(self, segment: Any) -> float | None:
        """Return the threshold of a segment: the joint one, else its own; None if not certified."""
        for found in (self.joint, self.individual):
            if segment in found and found[segment].certified:
                return found[segment].threshold
        return None

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
                    "why not": str(self.refused.get(name, own.refusal or "")) or None,
                }
            )
        return table

    def __str__(self) -> str:
        percent = f"{100 * self.confidence:g} %"
        every, joint = len(self.individual), self.jointly_certified
        lines = [
            f"{len(self.individually_certified)} of {every} segments are certified at {percent} "
            f"confidence each, and {len(joint)} jointly, that is, all of them at once.",
        ]
        for row in self.rows():
            if row["certified"]:
                also = "also jointly" if row["certified jointly"] else "not jointly"
                lines.append(f"  {row['segment']}: threshold {row['threshold']:.6g}; {also}")
            else:
                lines.append(f"  {row['segment']}: not certified: {row['why not']}")
        return "\n".join(lines)


def joint_error(error: float, segments: int) -> float:
    """Return the error of each of several independent segments that together have an error."""
    return -math.expm1(math.log1p(-error) / segments)


def certify_each(
    segments: Mapping[Any, Pair],
    goal: Goal,
    confidence: float,
    *,
    on: str = "the certification rows",
    method: Method = "simultaneous",
    thresholds: Mapping[Any, float] | None = None,
) -> SegmentCertificates:
    """Certify one threshold per segment, individually and jointly.

    Parameters
    ----------
    segments : mapping of (Rows, Rows)
        The planning and certification rows of each segment.
    goal : Goal
        The goal of each segment.
    confidence : float
        The confidence of each individual certificate, and of all joint ones together.
    thresholds : mapping of float, optional
        Thresholds that were fixed without using the certification rows; Holm's method then decides
        which are certified jointly.
    """
    error = 1 - check_fraction(confidence, "confidence")
    _check_segments(segments, goal)
    smaller = 1 - joint_error(error, len(segments))
    individual: dict[Any, Certificate] = {}
    joint: dict[Any, Certificate] = {}
    refused = {}
    for name, (planning, testing) in segments.items():
        where = f"{on} of {name}"
        if thresholds is None:
            for found, level in ((individual, confidence), (joint, smaller)):
                found[name] = certify_best(planning, testing, goal, level, on=where, method=method)
        else:
            fixed = certify_threshold(testing, goal, thresholds[name], confidence, on=where)
            individual[name] = joint[name] = fixed
        small = too_small(name, testing, goal, error)
        if small is not None and not individual[name].certified:
            refused[name] = small
    if thresholds is not None:
        joint = _holm_certificates(segments, goal, thresholds, error, joint)
    return SegmentCertificates(individual, joint, refused, confidence)


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


def _check_segments(segments: Mapping[Any, Pair], goal: Goal) -> None:
    if not segments:
        raise SetpointError("there are no segments; give the rows of at least one.")
    if not goal.constraints:
        raise SetpointError(
            f"'{goal}' has no constraint that could hold in each segment; add one after 's.t.'."
        )
