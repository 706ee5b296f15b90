"""The exact threshold for a goal, and the operating point at a given one.

``score > threshold`` is a positive decision, everywhere. The threshold for a goal is found by one
sort of the scores: every distinct cut is considered, and equal scores are never separated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setpoint.errors import SetpointError
from setpoint.goals.columns import GoalColumns
from setpoint.goals.goal import Goal
from setpoint.thresholds.caution import Cautious, row_weights_of
from setpoint.thresholds.checks import check_classes, check_rows
from setpoint.thresholds.narrowing import MANY, best_cut_of_many
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.thresholds.sweep import (
    ClassScores,
    Floats,
    Ranking,
    best_cut,
    members,
    threshold_below,
)
from setpoint.thresholds.tallied import TalliedRows, best_tallied_cut


def choose_threshold(
    y: ArrayLike,
    scores: ArrayLike,
    goal: str | Goal,
    *,
    sample_weight: ArrayLike | None = None,
    amounts: Mapping[str, ArrayLike] | None = None,
    segments: Mapping[str, ArrayLike] | None = None,
    times: ArrayLike | None = None,
    pos_label: Any = None,
    on: str = "the data given",
) -> OperatingPoint:
    """Find the exact threshold for a goal on the scores of any classifier.

    Parameters
    ----------
    y : array-like of shape (n,)
        Labels: booleans, 0/1 or -1/1; any values if ``pos_label`` names the positive ones.
    scores : array-like of shape (n,)
        One number per sample, larger meaning more likely positive.
    goal : str or Goal
        E.g. ``"max recall s.t. precision >= 0.9"``.
    sample_weight : array-like of shape (n,), optional
        Weights >= 0 of the counts.
    amounts : mapping of str to array-like of shape (n,), optional
        The amounts that the goal names, numbers >= 0: ``{"amount": ...}`` for
        ``"min cost(fp=5, fn=amount)"``.
    segments : mapping of str to array-like of shape (n,), optional
        The columns of segments that it names: ``{"region": ...}`` for
        ``"max recall s.t. precision >= 0.9 for each region"``.
    times : array-like of shape (n,), optional
        The time of each row, for ``"max recall s.t. alarms <= 200 per day"``: dates, or numbers of
        days.
    pos_label : optional
        The label of the positive class, or a list of labels that count as positive; all others are
        negative.
    on : str
        The name of the data in messages.

    Returns
    -------
    OperatingPoint
        The best feasible cut. If there is none, the cut with the least violation, and among these
        the one with the best objective, with ``feasible=False``. Ties are broken by more true
        positives, then by fewer false positives.

    Examples
    --------
    >>> from setpoint import choose_threshold
    >>> point = choose_threshold(
    ...     [0, 0, 1, 0, 1, 1], [0.1, 0.2, 0.3, 0.5, 0.7, 0.9], "max recall s.t. precision >= 0.9"
    ... )
    >>> point.threshold, point.tp, point.fp
    (0.6, 2.0, 0.0)
    """
    goal = Goal.parse(goal)
    positive, scores, weights, columns = check_rows(
        y, scores, goal, sample_weight, amounts, segments, times, pos_label
    )
    check_classes(bool(positive.any()), not positive.all(), weighted=weights is not None)
    columns.check_values(goal)
    return best_point_of(positive, scores, weights, columns, goal, on)


def best_point_of(
    positive: NDArray[np.bool_],
    scores: Floats,
    weights: Floats | None,
    columns: GoalColumns,
    goal: Goal,
    on: str,
    caution: float = 0.0,
) -> OperatingPoint:
    """Return the operating point at the best cut of validated rows, with the goal's columns.

    ``caution`` is as in :class:`Cautious`.
    """
    goal = columns.bind(goal, positive)
    rows = None if goal.is_plain else TalliedRows.of(positive, weights, columns, goal)
    if not caution or not goal.constraints:
        return best_point(positive, scores, weights, goal, goal, on, rows)
    factors = None if rows is None else columns.factors(goal.tallies).T
    weight = np.ones(len(positive)) if weights is None else weights
    ranking = Cautious(goal, caution, row_weights_of(positive, weight, factors))
    point = best_point(positive, scores, weights, ranking, goal, on, rows)
    return replace(point, ranking=ranking)


def best_point(
    positive: NDArray[np.bool_],
    scores: Floats,
    weights: Floats | None,
    ranking: Ranking,
    goal: Goal,
    on: str,
    tallied: TalliedRows | None = None,
) -> OperatingPoint:
    """Return the operating point at the best cut of validated scores, by any ranking of cuts.

    ``tallied`` are the same rows in the goal's tallies, if there are several.
    """
    if tallied is not None:
        cut = best_tallied_cut(tallied, scores, ranking)
        threshold = threshold_below(cut.lowest_positive, np.sort(scores))
        return OperatingPoint.of_counts(threshold, cut.tp, cut.fp, *tallied.totals(), goal, on)
    if weights is None and len(scores) > MANY and ranking.is_monotone:
        classes = members(scores, positive), members(scores, ~positive)
        if (found := best_cut_of_many(*classes, ranking)) is not None:
            cut, *around = found
            threshold = threshold_below(cut.lowest_positive, *around)
            fn, tn = (len(c) - x for c, x in zip(classes, (cut.tp, cut.fp), strict=True))
            return OperatingPoint(threshold, cut.tp, cut.fp, fn, tn, goal, on)
    positives = ClassScores(scores, weights, positive)
    negatives = ClassScores(scores, weights, ~positive)
    cut = best_cut(positives, negatives, ranking)
    threshold = threshold_below(cut.lowest_positive, positives.sorted, negatives.sorted)
    fn, tn = positives.total - cut.tp, negatives.total - cut.fp
    return OperatingPoint(threshold, cut.tp, cut.fp, fn, tn, goal, on)


def evaluate_threshold(
    y: ArrayLike,
    scores: ArrayLike,
    threshold: float,
    goal: str | Goal,
    *,
    sample_weight: ArrayLike | None = None,
    amounts: Mapping[str, ArrayLike] | None = None,
    segments: Mapping[str, ArrayLike] | None = None,
    times: ArrayLike | None = None,
    pos_label: Any = None,
    on: str = "the data given",
) -> OperatingPoint:
    """Return the operating point at a given threshold; parameters as in choose_threshold.

    One class is enough: in a batch of negatives the false alarms are counted, and metrics that
    need positives are NaN.
    """
    goal = Goal.parse(goal)
    positive, scores, weights, columns = check_rows(
        y, scores, goal, sample_weight, amounts, segments, times, pos_label
    )
    if np.isnan(threshold):
        raise SetpointError("the threshold is NaN.")
    # numpy would round a Python float to the precision of the scores before comparing.
    alarm = scores.astype(np.float64, copy=False) > float(threshold)
    return point_at(positive, alarm, weights, columns, goal, float(threshold), on)


def point_at(
    positive: NDArray[np.bool_],
    alarm: NDArray[np.bool_],
    weights: Floats | None,
    columns: GoalColumns,
    goal: Goal,
    threshold: float,
    on: str,
) -> OperatingPoint:
    """Return the operating point of decisions on validated rows."""
    weights = None if weights is None else weights.astype(np.float64, copy=False)
    goal = columns.bind(goal, positive)
    if not goal.is_plain:
        rows = TalliedRows.of(positive, weights, columns, goal)
        return OperatingPoint.of_counts(threshold, *rows.counts(alarm), *rows.totals(), goal, on)
    w = np.ones(len(positive)) if weights is None else weights
    tp, fp = float(w[alarm & positive].sum()), float(w[alarm & ~positive].sum())
    fn, tn = float(w[~alarm & positive].sum()), float(w[~alarm & ~positive].sum())
    return OperatingPoint(threshold, tp, fp, fn, tn, goal, on)
