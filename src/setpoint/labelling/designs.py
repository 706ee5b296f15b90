"""Designs: which rows of a pool to label, in which order, and what their labels certify.

A design is fixed before the first label. It holds the rows that may be asked for, in the order in
which they are asked, and a test. Answers may come in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from setpoint.certificates.threshold_set import NO_THRESHOLDS, ThresholdSet
from setpoint.labelling.designed_sample import (
    JointTest,
    RecallTest,
    is_out_of_reach,
    is_unlikely,
    jointly_certified,
    lowest_alarm,
    passes_recall,
    precision_p_value,
)
from setpoint.labelling.top_down import (
    UNKNOWN,
    Answers,
    Floats,
    Indices,
    TopDownTest,
    certified_sizes,
    is_hopeless,
)
from setpoint.thresholds.sweep import threshold_below


class Outcome(NamedTuple):
    """What the answers so far certify.

    Attributes
    ----------
    certified : ThresholdSet
        All certified thresholds.
    thresholds : tuple of float
        Those among which the best is chosen, in descending order.
    is_open : bool
        Whether further labels may certify more.
    """

    certified: ThresholdSet
    thresholds: tuple[float, ...]
    is_open: bool


@dataclass(frozen=True, eq=False)
class TopDownDesign:
    """Label from the highest score down, for a floor on precision.

    Attributes
    ----------
    test : TopDownTest
        The test.
    rows : ndarray of int
        Rows of the pool in descending order of their scores.
    scores : ndarray
        Their scores.
    chances : ndarray or None
        A guess of the probability that each is positive, which helps to decide when to stop.
    """

    test: TopDownTest
    rows: Indices
    scores: Floats
    chances: Floats | None = None

    @property
    def asking_order(self) -> Indices:
        """The positions of the rows in the order in which they are asked."""
        return np.arange(len(self.rows))

    def outcome(self, answers: Answers) -> Outcome:
        """Return what the answers to the rows certify."""
        sizes = certified_sizes(self.test, self.scores, answers)
        high = self.scores[sizes - 1]
        low = np.append(self.scores, -np.inf)[sizes]
        thresholds = [threshold_below(score, self.scores[::-1]) for score in high]
        start = self.test.start
        if start is not None:
            for i in np.flatnonzero((low <= start) & (start < high)):  # one cut at most
                high[i], thresholds[i] = np.nextafter(start, np.inf), min(thresholds[i], start)
        lowest = int(sizes[-1]) if len(sizes) else 0
        return Outcome(
            ThresholdSet.of(low[::-1], high[::-1]),
            tuple(thresholds),
            not is_hopeless(self.test, self.scores, answers, lowest, self.chances),
        )

    def counts(self, threshold: float, answers: Answers) -> tuple[float, float, float, float]:
        """Return estimates of TP, FP, P and N in the pool; P is a guess, or that of the labels."""
        above = self.scores > threshold
        tp = float(np.count_nonzero(answers[above] == 1))
        fp = float(np.count_nonzero(above)) - tp
        found = np.where(answers == UNKNOWN, 0.0, answers)
        if self.chances is not None:
            found = np.where(answers == UNKNOWN, self.chances, found)
        P = max(float(found.sum()), tp)
        return tp, fp, P, max(len(self.rows) - P, fp)


@dataclass(frozen=True, eq=False)
class SampleDesign:
    """Label a random sample with unequal probabilities, for a floor on recall, or on both.

    Attributes
    ----------
    test : RecallTest or JointTest
        The test.
    rows : ndarray of int
        The selected rows in the order, fixed beforehand, in which the wealth is computed.
    scores, chances : ndarray
        Their scores, and the probabilities with which they were selected.
    pool : ndarray
        The scores of all rows from which they were selected, in ascending order.
    aim : float
        The threshold that the design is best for.
    to_the_end : bool
        Whether to go on when ``aim`` is certified: a higher threshold may follow.
    guess : ndarray or None
        A guess of the probability that each selected row is positive, which helps to decide when
        to stop.
    """

    test: RecallTest | JointTest
    rows: Indices
    scores: Floats
    chances: Floats
    pool: Floats
    aim: float
    to_the_end: bool = False
    guess: Floats | None = None

    @property
    def asking_order(self) -> Indices:
        """The positions of the rows in the order in which they are asked.

        For a floor on precision all selected rows above the threshold are needed; they come first.
        """
        if isinstance(self.test, JointTest):
            return np.argsort(self.scores <= min(self.test.thresholds), kind="stable")
        return np.arange(len(self.rows))

    def outcome(self, answers: Answers) -> Outcome:
        """Return what the answers to the rows certify."""
        data = self.scores, self.chances, answers
        complete = not (answers == UNKNOWN).any()
        if isinstance(self.test, JointTest):
            passed = jointly_certified(self.test, *data)
            done = complete or len(passed) == len(self.test.thresholds)
            done = done or is_out_of_reach(self.test, *data)
            if not passed:
                done = done or self._is_unlikely(self.test.recall, self.test.thresholds[0], answers)
            descending = tuple(sorted(passed, reverse=True))
            return Outcome(ThresholdSet.of_points(passed), descending, not done)
        lowest = lowest_alarm(self.test, *data)
        done = complete or is_out_of_reach(self.test, *data)
        if not self.to_the_end:
            done = done or passes_recall(self.test, self.aim, *data)
        if lowest is None:
            done = done or self._is_unlikely(self.test, -np.inf, answers)
            return Outcome(NO_THRESHOLDS, (), not done)
        highest = threshold_below(lowest, self.pool)
        certified = ThresholdSet(((-np.inf, float(lowest)),))
        return Outcome(certified, (highest, *self._lower_cuts(highest)), not done)

    def shortfall(self, answers: Answers) -> str:
        """Return which floor the answers do not show, as a sentence."""
        if isinstance(self.test, JointTest):
            first, level = self.test.thresholds[0], self.test.precision
            above = self.scores > first
            at_best = np.where(answers == UNKNOWN, np.int8(1), answers)
            if precision_p_value(level, first, self.scores, at_best) > self.test.recall.alpha:
                known = answers[above][answers[above] != UNKNOWN]
                return (
                    f"{int(known.sum()):,} of the {len(known):,} labelled rows above the "
                    f"planned threshold are positive, too few for precision >= {level:g}."
                )
        return "the selected rows hold too many positives below the threshold, or too few above."

    def _is_unlikely(self, test: RecallTest, threshold: float, answers: Answers) -> bool:
        if self.guess is None:
            return False
        return is_unlikely(test, threshold, self.scores, self.chances, answers, self.guess)

    def _lower_cuts(self, threshold: float, most: int = 100) -> list[float]:
        """Return some thresholds below a certified one, which are certified as well."""
        below = np.unique(self.pool[(self.pool <= threshold) & (self.pool > -np.inf)])[::-1]
        picked = (
            below[np.unique(np.linspace(0, len(below) - 1, most).astype(int))]
            if len(below)
            else below
        )
        return [t for s in picked if (t := threshold_below(s, self.pool)) < threshold]

    def counts(self, threshold: float, answers: Answers) -> tuple[float, float, float, float]:
        """Return estimates of TP, FP, P and N in the pool, from the answers."""
        alarms = float(len(self.pool) - np.searchsorted(self.pool, threshold, side="right"))
        known = answers != UNKNOWN
        # Rows count by the inverse of the probability that they were selected and answered.
        above = self.scores > threshold
        totals = []
        for side, size in ((above, alarms), (~above, len(self.pool) - alarms)):
            weights = 1 / self.chances[known & side]
            total = float(weights.sum())
            found = float(weights[answers[known & side] == 1].sum())
            totals.append(size * found / total if total else 0.0)
        tp, misses = totals
        P = tp + misses
        return tp, alarms - tp, P, max(len(self.pool) - P, alarms - tp)


def to_fields(design: TopDownDesign | SampleDesign, pool: Floats) -> dict[str, Any]:
    """Return a design as plain values for JSON; the scores of the pool are not part of it."""
    test = design.test
    if isinstance(test, TopDownTest):
        whole = len(design.rows) == len(pool)
        return {
            "kind": "top-down", "level": test.level, "alpha": test.alpha, "start": test.start,
            "planned": test.planned,
            "rows": None if whole else np.sort(design.rows).tolist(),
        }  # fmt: skip
    assert isinstance(design, SampleDesign)
    recall = test.recall if isinstance(test, JointTest) else test
    return {
        "kind": "sample", "recall": recall.level, "alpha": recall.alpha, "bets": list(recall.bets),
        "precision": test.precision if isinstance(test, JointTest) else None,
        "thresholds": list(test.thresholds) if isinstance(test, JointTest) else None,
        "rows": design.rows.tolist(), "chances": design.chances.tolist(), "aim": design.aim,
        "to_the_end": design.to_the_end,
    }  # fmt: skip


def from_fields(
    fields: dict[str, Any], pool: Floats, used: Indices, chances: Floats | None
) -> TopDownDesign | SampleDesign:
    """Return a design from its plain values.

    Parameters
    ----------
    fields : dict
        The result of :func:`to_fields`.
    pool : ndarray
        The scores of the pool.
    used : ndarray of int
        The rows of the pool that were not set aside for planning.
    chances : ndarray or None
        A guess of the probability that each row of the pool is positive.
    """
    if fields["kind"] == "top-down":
        start = fields["start"]
        test = TopDownTest(
            float(fields["level"]), float(fields["alpha"]),
            None if start is None else float(start), int(fields["planned"]),
        )  # fmt: skip
        rows = None if fields["rows"] is None else np.array(fields["rows"], dtype=np.intp)
        return top_down_design(test, pool, rows, chances)
    recall = RecallTest(
        float(fields["recall"]), float(fields["alpha"]), tuple(map(float, fields["bets"]))
    )
    both: RecallTest | JointTest = recall
    if fields["precision"] is not None:
        both = JointTest(
            float(fields["precision"]), recall, tuple(map(float, fields["thresholds"]))
        )
    rows = np.array(fields["rows"], dtype=np.intp)
    chosen = np.array(fields["chances"], dtype=float)
    if max(recall.bets) * recall.level > chosen.min(initial=1.0) * (1 + 1e-9):
        raise ValueError("a bet exceeds what the selection probabilities allow")
    return SampleDesign(
        both, rows, pool[rows], chosen, np.sort(pool[used]),
        float(fields["aim"]), bool(fields["to_the_end"]),
        None if chances is None else chances[rows],
    )  # fmt: skip


def top_down_design(
    test: TopDownTest, pool: Floats, rows: Indices | None, chances: Floats | None
) -> TopDownDesign:
    """Return the design that labels the given rows, or all, from the highest score down."""
    rows = np.arange(len(pool)) if rows is None else np.sort(rows)
    order = rows[np.argsort(-pool[rows], kind="stable")]
    return TopDownDesign(test, order, pool[order], None if chances is None else chances[order])
