"""Budgets per day: bounds on the share of future days with more alarms than a budget allows.

Days (or hours, weeks, months) are independent draws from one population of days; rows of one day
may depend on each other in any way. With a budget of k alarms, let t_d be the lowest threshold at
which day d keeps to it: its (k + 1)-th highest score, or -inf if it has at most k rows. Day d is
over budget at a threshold t exactly if t_d > t, also with tied scores, because
``score > threshold`` raises an alarm. The t_d of D days are D independent draws, and the share of
future days over budget is P(t_d > t). It falls as t rises.

- *A threshold given beforehand*: the number of past days over budget is binomial, and the share has
  the exact upper bound of Clopper and Pearson.
- *The lowest threshold certified for a share*: with the threshold at the j-th largest t_d, the
  share of future days over budget is, or with ties is at most, a draw from Beta(j, D + 1 - j) (a
  distribution-free tolerance limit; Wilks, 1941). The largest j for which it exceeds the allowed
  share with a probability of at most alpha gives the threshold. Every higher threshold is certified
  with it. This needs no plan and no split.
- *No past day over budget*: the threshold is at least the largest t_d, so j = 1, and the bound is
  1 - alpha^(1/D).
- *A threshold chosen in another way on the same days*: a bound that holds at all thresholds at
  once. Certain ranks j divide the error, and a threshold has the bound of the next such rank below
  it (:func:`setpoint.certificates.bounds.fpr_bound_everywhere`). Calibrating all ranks together
  (Berk and Jones, 1979) would lower it by no more than a tenth.

All of it needs exchangeable days. A trend in volume or scores, or a season that the past days do
not cover, breaks the guarantee. Weekdays and weekends do not, if both occur among future days as
often as among past ones; the statement is then about a day drawn at random, not about next Monday.
Days that depend on each other (a wave of fraud over a week) count as fewer days.

Metrics of single days other than counts of alarms, e.g. "recall at least 0.8 on 95 % of days", are
not offered: whether a day meets them depends on the labels of few rows, and they are undefined on
days without positives. The mean number of alarms per day is the mean of D draws from
[0, most alarms of a day], if such a number is known (:mod:`setpoint.certificates.means`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setpoint._internal.validation import check_fraction, check_whole
from setpoint.certificates.bounds import fpr_bound_everywhere
from setpoint.certificates.rates import at_most, upper_bound
from setpoint.errors import SetpointError

Floats = NDArray[np.floating]


def day_thresholds(
    scores: ArrayLike, days: ArrayLike, budget: int, total: int | None = None
) -> Floats:
    """Return the lowest threshold at which each day has at most ``budget`` alarms.

    Parameters
    ----------
    scores : array-like of shape (n,)
        The scores of all rows, labelled or not.
    days : array-like of int, shape (n,)
        The day of each row, as codes 0, 1, ....
    budget : int
        The most alarms per day, k.
    total : int, optional
        The number of days. A day without rows counts, as a day without alarms, only if it is listed
        in this way, that is, if its code is below ``total``. By default there are as many days as
        the largest code says.

    Returns
    -------
    ndarray of shape (total,)
        The (k + 1)-th highest score of each day, or -inf if it has at most k rows.

    Examples
    --------
    >>> day_thresholds([0.9, 0.5, 0.7, 0.2], [0, 0, 0, 1], budget=2)
    array([ 0.5, -inf])
    """
    budget = check_whole(budget, "the budget", least=0)
    scores, days = np.asarray(scores, dtype=np.float64), np.asarray(days)
    if scores.ndim != 1 or scores.shape != days.shape:
        raise SetpointError(
            "scores and days must hold one entry per row; their shapes are "
            f"{scores.shape} and {days.shape}."
        )
    if np.isnan(scores).any():
        raise SetpointError(f"scores is NaN in row {int(np.flatnonzero(np.isnan(scores))[0])}.")
    if len(days) and (not np.issubdtype(days.dtype, np.integer) or days.min() < 0):
        raise SetpointError("days must be codes 0, 1, ...; period_codes makes them from times.")
    least = int(days.max()) + 1 if len(days) else 0
    total = least if total is None else check_whole(total, "total", least=max(least, 1))
    rows_of = np.bincount(days, minlength=total) if len(days) else np.zeros(total, dtype=np.int64)
    found = np.full(total, -np.inf)
    many = rows_of > budget
    if many.any():
        order = np.lexsort((scores, days))
        ends = np.cumsum(rows_of)  # one past the highest score of each day
        found[many] = scores[order][ends[many] - budget - 1]
    return found


def certified_budget_threshold(
    day_thresholds: ArrayLike, share: float, confidence: float
) -> float | None:
    """Return the lowest threshold certified to keep to the budget on a share of future days.

    With a probability of at least ``confidence``, a share of at least ``share`` of future days is
    within the budget at this threshold, and at every higher one. None if there are too few days
    (:func:`days_needed`).

    Parameters
    ----------
    day_thresholds : array-like of shape (D,)
        The lowest threshold at which each past day keeps to the budget.
    share : float
        The share of days to be within the budget, e.g. 0.95.
    confidence : float
        Of all attempts, at most a fraction 1 - confidence ends with a false threshold.
    """
    found = _checked_days(day_thresholds)
    over = most_days_over(len(found), share, confidence)
    return None if over is None else float(np.sort(found)[::-1][over])


def most_days_over(days: int, share: float, confidence: float) -> int | None:
    """Return how many of the past days may be over budget at a certified threshold.

    It is the largest number with P(Binomial(days, 1 - share) <= number) <= 1 - confidence; None if
    even 0 is too many.

    Examples
    --------
    >>> most_days_over(90, 0.95, 0.9)
    1
    """
    days = check_whole(days, "days", least=0)
    share = check_fraction(share, "share")
    error = 1 - check_fraction(confidence, "confidence")
    passes = np.flatnonzero(at_most(np.arange(days + 1), days, 1 - share) <= error)
    return int(passes[-1]) if len(passes) and passes[-1] < days else None


def share_bound(
    day_thresholds: ArrayLike, threshold: float, confidence: float, chosen: bool
) -> float:
    """Return an upper bound on the share of future days over budget at a threshold.

    Parameters
    ----------
    day_thresholds : array-like of shape (D,)
        The lowest threshold at which each past day keeps to the budget.
    threshold : float
        The threshold.
    confidence : float
        The confidence of the bound.
    chosen : bool
        Whether the threshold was chosen by looking at these days. The bound then holds at all
        thresholds at once; otherwise it is Clopper and Pearson's. The share for which
        :func:`certified_budget_threshold` was asked holds at its threshold, and at any higher one.
        For a threshold at which no past day is allowed to be over budget, see
        :func:`every_day_bound`.
    """
    found = _checked_days(day_thresholds)
    confidence = check_fraction(confidence, "confidence")
    D, over = len(found), int((found > threshold).sum())
    if D == 0 or over == D:
        return 1.0
    bound = fpr_bound_everywhere if chosen else upper_bound
    return bound(over, D, confidence)


def every_day_bound(days: int, confidence: float) -> float:
    """Return an upper bound on the share of future days over budget if no past day may be.

    It holds at the lowest threshold at which all past days keep to the budget, and at higher ones.

    Examples
    --------
    >>> round(every_day_bound(90, 0.9), 4)
    0.0253
    """
    days = check_whole(days, "days", least=1)
    return float(-math.expm1(math.log(1 - check_fraction(confidence, "confidence")) / days))


def days_needed(share: float, confidence: float) -> int:
    """Return the least number of days with which any threshold can be certified.

    None of them may then be over budget: it is the least D with share^D <= 1 - confidence.

    Examples
    --------
    >>> days_needed(0.95, 0.9)
    45
    """
    share = check_fraction(share, "share")
    error = 1 - check_fraction(confidence, "confidence")
    days = max(1, math.ceil(math.log(error) / math.log(share) - 1e-9))
    while most_days_over(days, share, confidence) is None:  # rounding
        days += 1
    return days


def _checked_days(day_thresholds: ArrayLike) -> Floats:
    found = np.asarray(day_thresholds, dtype=np.float64)
    if found.ndim != 1 or np.isnan(found).any():
        raise SetpointError("day_thresholds must hold one number per day, without NaN.")
    return found
