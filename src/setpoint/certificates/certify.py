"""Certify a threshold, given or chosen here, from labels and scores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from setpoint._internal.validation import check_fraction, check_number
from setpoint.certificates.bounds import (
    bounds_of,
    has_informative_bound,
    is_sharper_everywhere,
)
from setpoint.certificates.certificate import Certificate, Choice, sample_groups
from setpoint.certificates.nested import best_nested_threshold, is_nested
from setpoint.certificates.rates import rate_of
from setpoint.certificates.sequence import STEPS, Rows, plan, try_in_order, worst_p_value
from setpoint.errors import SetpointError
from setpoint.goals.goal import Goal
from setpoint.thresholds.operating_point import OperatingPoint, check_scores

Method = Literal["sequence", "split"]
Floats = NDArray[np.floating]
PLANNING = 0.3


def certify(
    y: ArrayLike,
    scores: ArrayLike,
    goal: str | Goal,
    threshold: float | None = None,
    confidence: float = 0.9,
    *,
    method: Method = "sequence",
    planning: float = PLANNING,
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    pos_label: Any = None,
    random_state: Any = 0,
    on: str = "the certification rows",
) -> Certificate:
    """Certify that a threshold of a classifier's scores meets a goal on new data.

    The rows must be independent draws on which the classifier was not trained.

    Parameters
    ----------
    y, scores : array-like of shape (n,)
        Labels, and scores that are larger for likely positives.
    goal : str or Goal
        The goal to certify, e.g. ``"max recall s.t. precision >= 0.9"``.
    threshold : float, optional
        A threshold that was fixed without using these rows. By default, the one with the best
        objective among those whose constraints can be certified is chosen here.
    confidence : float
        Of all attempts to certify, successful or not, at most a fraction 1 - confidence ends in a
        false certificate.
    method : {"sequence", "split"}
        How to choose a threshold if precision is constrained. Planning rows order many thresholds
        to test (``"sequence"``) or choose one (``"split"``); all other rows are certification
        rows. Goals that constrain only recall (fnr), or only fpr (specificity, alarm_rate), need
        no plan: all rows are certification rows.
    planning : float
        The fraction of planning rows.
    sample_weight : array-like of shape (n,), optional
        Weights of 0 and 1, or all equal: exact bounds count rows.
    groups : array-like of shape (n,), optional
        Rows that belong together, e.g. those of one patient, are not independent draws: one row of
        each group is used, and the guarantee is for one case of each new group.
    pos_label : optional
        The label of the positive class.
    random_state : int, RandomState or None
        Seed of the split. Trying several and keeping the best invalidates the guarantee.
    on : str
        The name of these rows in messages.

    Examples
    --------
    >>> import numpy as np
    >>> from setpoint import certify
    >>> rng = np.random.default_rng(0)
    >>> y = rng.random(2000) < 0.3
    >>> scores = rng.normal(size=2000) + 2.5 * y
    >>> certify(y, scores, "max recall s.t. precision >= 0.9", threshold=2.0).certified
    True
    """
    goal = Goal.parse(goal)
    check_fraction(confidence, "confidence")
    seed = int(check_random_state(random_state).randint(2**31 - 1))
    details = {"one_per_group": groups is not None, "pos_label": pos_label}
    if groups is not None and sample_weight is not None and np.shape(sample_weight) == np.shape(y):
        # A row that does not count must not be drawn for its group.
        counts = np.asarray(sample_weight) != 0
        y, scores, groups, sample_weight = (
            np.asarray(column)[counts] for column in (y, scores, groups, sample_weight)
        )
    y, scores, sample_weight = sample_groups(groups, seed, y, scores, sample_weight)
    rows = _check_rows(y, scores, sample_weight, pos_label)
    if threshold is not None:
        fixed = check_number(threshold, "threshold")
        given = certify_threshold(Rows.of(*rows), goal, fixed, confidence, on=on)
        return replace(given, **details)
    if method not in ("sequence", "split"):
        raise SetpointError(f"method is 'sequence' or 'split', not {method!r}.")
    planning = check_fraction(planning, "planning")
    if is_nested(goal):  # no plan is needed
        every = Rows.of(*rows)
        return replace(certify_best(every, every, goal, confidence, on=on), **details)
    plans = _draw_rows(len(rows[1]), planning, seed)
    steps = STEPS if method == "sequence" else 1
    split = Rows.of(*rows, plans), Rows.of(*rows, ~plans)
    return replace(certify_best(*split, goal, confidence, on=on, steps=steps), **details)


def certify_threshold(
    rows: Rows, goal: Goal, threshold: float, confidence: float, *, on: str
) -> Certificate:
    """Certify a threshold that was fixed without using these rows."""
    only, positives = np.array([float(threshold)]), rows.positive.total
    return _issue(rows, goal, only, confidence, "beforehand", on, positives)


def certify_best(
    planning: Rows, testing: Rows, goal: Goal, confidence: float, *, on: str, steps: int = STEPS
) -> Certificate:
    """Choose the best threshold that can be certified on the rows in ``testing``.

    If the goal needs a plan, the rows in ``planning`` determine which thresholds are tested.
    """
    alpha = 1 - confidence
    if is_nested(goal):
        only = np.array([best_nested_threshold(testing, goal, alpha)])
        positives = testing.positive.total
        return _issue(testing, goal, only, confidence, "any", on, positives)
    thresholds = plan(planning, goal, sum(testing.totals), alpha, steps)
    positives = planning.positive.total + testing.positive.total
    everywhere = _prefers_everywhere(planning, testing, goal, thresholds, confidence)
    return _issue(testing, goal, thresholds, confidence, "planned", on, positives, everywhere)


def _prefers_everywhere(
    planning: Rows, testing: Rows, goal: Goal, thresholds: Floats, confidence: float
) -> bool:
    """Return which bound of the objective is likely to be sharper, by the planning rows alone."""
    rate = rate_of(goal.objective)
    if rate is None:
        return False
    successes, trials = rate.draws(*planning.counts(thresholds), *planning.totals)
    if not trials.all():
        return True
    _, there = rate.draws(*testing.counts(thresholds[:1]), *testing.totals)
    expected = float((successes / trials)[3 * len(thresholds) // 4])  # most tests end near there
    return is_sharper_everywhere(
        goal.objective, confidence, len(thresholds), expected, int(there[0])
    )


def _issue(
    rows: Rows,
    goal: Goal,
    thresholds: Floats,
    confidence: float,
    choice: Choice,
    on: str,
    positives: float,
    everywhere: bool = True,
) -> Certificate:
    """Test the thresholds in order; certify the best that passed, or refuse the closest one.

    ``positives`` is the number of labelled positives, including those of the planning rows.
    """
    P, N = rows.totals
    tp, fp = rows.counts(thresholds)
    best, more = 0, None
    if goal.constraints:
        values, passed = try_in_order(rows, goal, thresholds, 1 - confidence)
        certified = passed > 0
        if certified:
            with np.errstate(all="ignore"):
                gain = np.nan_to_num(goal.gain(tp[:passed], fp[:passed], P, N), nan=-np.inf)
            best = int(np.argmax(gain))
        else:
            best = int(np.argmin(values))
            times = min(
                _growth_needed(goal, a, b, P, N, 1 - confidence)
                for a, b in zip(tp, fp, strict=True)
            )
            if np.isfinite(times) and P > 0:
                more = max(1, int(np.ceil((times - 1) * positives)))
    point = OperatingPoint(
        float(thresholds[best]), float(tp[best]), float(fp[best]), P - float(tp[best]),
        N - float(fp[best]), goal, on,
    )  # fmt: skip
    if not goal.constraints:
        certified = has_informative_bound(goal.objective, point, confidence)
    tested = None if choice == "any" else len(thresholds)
    bounds = bounds_of(point, confidence, tested, certified, everywhere)
    return Certificate(
        goal, point.threshold, confidence, certified, point, bounds, choice, tested, more
    )


def _draw_rows(n: int, fraction: float, seed: int) -> NDArray[np.bool_]:
    """Draw rows at random regardless of class, so that the others remain independent draws."""
    # The second number makes the stream differ from that of data drawn with the same seed.
    rng = np.random.default_rng([seed, 20_211])
    return np.asarray(rng.integers(0, 2**16, n, dtype=np.uint16) < fraction * 2**16)


def _growth_needed(goal: Goal, tp: float, fp: float, P: float, N: float, alpha: float) -> float:
    """Return how many times as many rows, at the same rates, would pass; inf if none would."""

    def passes(times: float) -> bool:
        return bool(worst_p_value(goal, times * tp, times * fp, times * P, times * N) <= alpha)

    if not passes(1e6):
        return float("inf")
    low, high = 1.0, 1e6
    while high / low > 1.01:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def _check_rows(
    y: ArrayLike, scores: ArrayLike, sample_weight: ArrayLike | None, pos_label: Any
) -> tuple[NDArray[np.bool_], Floats]:
    """Return which rows are positive, and their scores; weights must be equal or zero."""
    positive, checked, weights = check_scores(y, scores, sample_weight, pos_label)
    if weights is not None and len(weights) and (weights != weights[0]).any():
        raise SetpointError(
            "sample_weight has different weights; exact bounds count independent rows. Leave the "
            "weights out, and give the rows as they were drawn."
        )
    return positive, checked
