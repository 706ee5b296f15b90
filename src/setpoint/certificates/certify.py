"""Certificates from labels and scores."""

from __future__ import annotations

from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setpoint.certificates.certificate import Certificate, Choice, bounds_of, is_known
from setpoint.certificates.nested import best_nested_threshold, is_nested
from setpoint.certificates.sequence import STEPS, Rows, plan, try_in_order, worst_p_value
from setpoint.errors import SetpointError
from setpoint.goals import Goal
from setpoint.operating_point import OperatingPoint, check_scores

Method = Literal["sequence", "split"]
Floats = NDArray[np.floating]
Labelled = tuple[NDArray[np.bool_], NDArray[np.floating]]
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
    pos_label: Any = None,
    random_state: int = 0,
    on: str = "the certifying data",
) -> Certificate:
    """Say what a threshold of a classifier's scores promises on new data.

    The rows must be independent draws that the classifier was not trained on.

    Parameters
    ----------
    y, scores : array-like of shape (n,)
        Labels, and scores that are larger for likely positives.
    goal : str or Goal
        What to promise, e.g. ``"max recall s.t. precision >= 0.9"``.
    threshold : float, optional
        A threshold that was fixed before these rows were looked at. None: it is chosen here, as
        the one with the best objective among those whose constraints can be certified.
    confidence : float
        How often a certificate of this kind holds, at least.
    method : {"sequence", "split"}
        How a threshold is chosen where precision is constrained. A share of the rows plans; the
        rest test either many thresholds in the planned order, or the one that the planning rows
        like best. Goals that constrain only recall (fnr), or only fpr (specificity, alarm_rate),
        need no plan: all rows test.
    planning : float
        That share.
    sample_weight : array-like of shape (n,), optional
        Only weights of 0 and 1 (or all equal): exact bounds count rows.
    pos_label : optional
        The label of the positive class.
    random_state : int
        Seed of the split. To try several and to keep the best breaks the promise.
    on : str
        What to call these rows in messages.

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
    check_confidence(confidence)
    rows = _rows(y, scores, sample_weight, pos_label)
    if threshold is not None:
        return certify_threshold(Rows.of(*rows), goal, threshold, confidence, on=on)
    if method not in ("sequence", "split"):
        raise SetpointError(f"method is 'sequence' or 'split', not {method!r}.")
    if not 0 < planning < 1:
        raise SetpointError(f"planning must be a share between 0 and 1, not {planning}.")
    if is_nested(goal):  # all rows can test
        everything = Rows.of(*rows)
        return certify_best(everything, everything, goal, confidence, on=on)
    plans = _drawn(len(rows[1]), planning, random_state)
    steps = STEPS if method == "sequence" else 1
    parts = Rows.of(*rows, plans), Rows.of(*rows, ~plans)
    return certify_best(*parts, goal, confidence, on=on, steps=steps)


def certify_threshold(
    rows: Rows, goal: Goal, threshold: float, confidence: float, *, on: str
) -> Certificate:
    """Return the certificate of a threshold that was fixed beforehand."""
    if np.isnan(threshold):
        raise SetpointError("the threshold is NaN.")
    only, positives = np.array([float(threshold)]), rows.positive.total
    return _issue(rows, goal, only, confidence, "beforehand", on, positives)


def certify_best(
    planning: Rows, testing: Rows, goal: Goal, confidence: float, *, on: str, steps: int = STEPS
) -> Certificate:
    """Choose the best threshold that can be certified on rows that test.

    Other rows plan what to test, where a plan is needed.
    """
    alpha = 1 - confidence
    if is_nested(goal):
        threshold, _ = best_nested_threshold(testing, goal, alpha)
        only, positives = np.array([threshold]), testing.positive.total
        return _issue(testing, goal, only, confidence, "any", on, positives)
    thresholds = plan(planning, goal, sum(testing.totals), alpha, steps)
    positives = planning.positive.total + testing.positive.total
    return _issue(testing, goal, thresholds, confidence, "planned", on, positives)


def _issue(
    rows: Rows,
    goal: Goal,
    thresholds: Floats,
    confidence: float,
    choice: Choice,
    on: str,
    positives: float,
) -> Certificate:
    """Test the thresholds in their order and return the best that passed, or the nearest to it.

    ``positives`` is the number of all that were labelled for it, those that plan included.
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
                _factor(goal, a, b, P, N, 1 - confidence) for a, b in zip(tp, fp, strict=True)
            )
            if np.isfinite(times) and P > 0:
                more = max(1, int(np.ceil((times - 1) * positives)))
    point = OperatingPoint(
        float(thresholds[best]), float(tp[best]), float(fp[best]), P - float(tp[best]),
        N - float(fp[best]), goal, on,
    )  # fmt: skip
    if not goal.constraints:
        certified = is_known(goal.objective, point)
    tested = None if choice == "any" else len(thresholds)
    bounds = bounds_of(point, confidence, tested, certified)
    return Certificate(
        goal, point.threshold, confidence, certified, point, bounds, choice, tested, more
    )


def _drawn(n: int, share: float, seed: int) -> NDArray[np.bool_]:
    """Draw rows by chance alone, not by class, so that the others stay independent draws.

    Of very many rows, runs of 64 are drawn: those that follow each other are parted faster.
    """
    run = 64 if n >= 100_000 else 1
    # A stream of its own: someone may have drawn the data themselves with the same seed.
    drawn = np.random.default_rng([seed, 20_211]).random(-(-n // run)) < share
    return np.repeat(drawn, run)[:n]


def _factor(goal: Goal, tp: float, fp: float, P: float, N: float, alpha: float) -> float:
    """Return how many times as many rows with the same rates would pass; inf if none would."""

    def passes(times: float) -> bool:
        return bool(worst_p_value(goal, times * tp, times * fp, times * P, times * N) <= alpha)

    if not passes(1e6):
        return float("inf")
    low, high = 1.0, 1e6
    while high / low > 1.01:
        middle = float(np.sqrt(low * high))
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high


def _rows(
    y: ArrayLike, scores: ArrayLike, sample_weight: ArrayLike | None, pos_label: Any
) -> Labelled:
    positive, own, weights = check_scores(y, scores, sample_weight, pos_label)
    if weights is not None and len(weights) and (weights != weights[0]).any():
        raise SetpointError(
            "sample_weight has different weights; exact bounds count independent rows. Leave the "
            "weights out, or give the rows that were drawn as they were drawn."
        )
    return positive, own


def check_confidence(confidence: Any) -> None:
    """Refuse what is no confidence."""
    if not isinstance(confidence, Real) or not 0 < float(confidence) < 1:
        raise SetpointError(f"confidence must lie between 0 and 1, not {confidence!r}.")
