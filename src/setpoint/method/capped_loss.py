"""The exact penalty with its lifted variables eliminated: a loss with a cap.

For fixed scores and fixed multipliers of the metric constraints, F(theta, s, t, lambda) is a sum
over samples, and concave in each s_i, so the best s_i is 0 or 1. With it, sample i contributes

    min( lambda * |t - a_i|_wrong + gamma * softplus(-v_i),    price_i + gamma * softplus(v_i) )

where v_i is the logit relative to the threshold, signed so that v_i > 0 is a correct decision, a_i
its sigmoid and |t - a_i|_wrong the distance to t = 1/2 if v_i < 0, else 0. The left branch *keeps*
the sample; the right one *gives it up* and pays its price, the value for the goal of one more true
positive or one fewer false positive. docs/theory.md has the proof.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

from setpoint.goals.goal import Goal
from setpoint.goals.metrics import Metric

Columns = NDArray[np.float64]


def prices(
    goal: Goal, tp: Columns, fp: Columns, P: Any, N: Any, multipliers: Columns
) -> tuple[Columns, Columns]:
    """Return the price of a true positive and of a false positive, the higher one 1.

    They are the derivatives, in TP and FP, of the Lagrangian

        gain(TP, FP) - sum_j multipliers[j] * cleared_j(TP, FP)

    in which the gain and each constraint are first scaled to a largest derivative of 1. For F1
    without constraints they are Dinkelbach's weights, 2 - F and F. A negative price, which only a
    goal that is not monotone can have, is replaced by zero, so that no sample is pushed to its
    wrong side.

    For a goal of several tallies see :func:`tallied_prices`.

    Parameters
    ----------
    tp, fp : ndarray of shape (k,)
        Counts of k models.
    multipliers : ndarray of shape (number of constraints, k)
    """
    if not goal.is_plain:
        return tallied_prices(goal, tp, fp, P, N, multipliers)
    objective = goal.objective
    at = (tp, fp, P, N)
    with np.errstate(all="ignore"):
        worth, cost = unit_prices(
            objective.sign * objective.d_tp(*at), -objective.sign * objective.d_fp(*at)
        )
        for constraint, multiplier in zip(goal.constraints, multipliers, strict=True):
            d_tp, d_fp = constraint.cleared_slopes(*at)
            more_worth, more_cost = unit_prices(-d_tp, d_fp)
            worth = worth + multiplier * more_worth
            cost = cost + multiplier * more_cost
    zero = np.zeros(len(tp))  # one entry per model, also where derivatives are constant
    worth, cost = np.maximum(worth, zero), np.maximum(cost, zero)
    higher = np.maximum(np.maximum(worth, cost), 1e-12)
    return worth / higher, cost / higher


def tallied_prices(
    goal: Goal, tp: Columns, fp: Columns, P: Columns, N: Columns, multipliers: Columns
) -> tuple[Columns, Columns]:
    """Return what a count is worth in each tally: for positives, and as a cost for negatives.

    A row that counts f_j in tally j has the price  sum_j f_j price_j,  its own: a payment of 900
    is worth more than one of 9. The gain and each constraint are scaled so that the mean price of
    the positives or of the negatives that they concern, the higher one, is 1; and so is their sum,
    for all rows.

    Parameters
    ----------
    tp, fp : ndarray of shape (tallies, k)
        Counts of k models.
    P, N : ndarray of shape (tallies,)
        Totals of the classes.
    multipliers : ndarray of shape (number of constraints, k)

    Returns
    -------
    worth, cost : ndarray of shape (tallies, k)
    """
    worth, cost = np.zeros((2, *np.shape(tp)))
    counted = [goal.tallies.index(tally.rows) for tally in goal.tallies]
    # What a positive, or a negative, counts in a tally on average, among the rows of the tally.
    means = [np.divide(total, total[counted], where=total[counted] > 0, out=np.zeros(len(total)))
             for total in (P, N)]  # fmt: skip

    def add(which: Metric, slopes: tuple[Any, Any], multiplier: Any) -> None:
        places = [goal.tallies.index(tally) for tally in which.tallies]
        ups = [
            np.where(np.isfinite(slope), slope, 0.0).reshape(len(places), -1) * np.ones(tp.shape[1])
            for slope in slopes
        ]
        sizes = [np.abs(mean[places] @ up) for mean, up in zip(means, ups, strict=True)]
        unit = multiplier / np.maximum(np.maximum(*sizes), 1e-300)
        for total, up in zip((worth, cost), ups, strict=True):
            total[places] += unit * up

    with np.errstate(all="ignore"):
        objective = goal.objective
        at = goal.counts_of(objective, tp, fp, P, N)
        gain = objective.sign * objective.d_tp(*at), -objective.sign * objective.d_fp(*at)
        add(objective, gain, 1.0)
        for constraint, multiplier in zip(goal.constraints, multipliers, strict=True):
            own = goal.counts_of(constraint.metric, tp, fp, P, N)
            d_tp, d_fp = constraint.cleared_slopes(*own)
            add(constraint.metric, (-d_tp, d_fp), multiplier)
    mean_worth, mean_cost = P @ worth / P[0], N @ cost / N[0]
    higher = np.maximum(np.maximum(np.abs(mean_worth), np.abs(mean_cost)), 1e-12)
    return worth / higher, cost / higher


def unit_prices(worth: Any, cost: Any) -> tuple[Any, Any]:
    """Scale both so that the larger absolute value is 1; values that are not finite become 0."""
    worth, cost = (np.where(np.isfinite(price), price, 0.0) for price in (worth, cost))
    largest = np.maximum(np.maximum(np.abs(worth), np.abs(cost)), 1e-300)
    return worth / largest, cost / largest


def capped_loss(margin: Tensor, price: Tensor | float, lam: float, gamma: Tensor | float) -> Tensor:
    """Return the contributions of samples with these margins v and prices."""
    keep = lam * (0.5 - margin.sigmoid()).relu() + gamma * softplus(-margin)
    give_up = price + gamma * softplus(margin)
    return keep.minimum(give_up)


def capped_slope(
    margin: Tensor, price: Tensor | float, lam: float, gamma: Tensor | float
) -> Tensor:
    """Return the derivative of :func:`capped_loss` in the margin, where it has one.

    At v = 0 it is the derivative from the right; where both branches are equal, that of giving up.
    """
    # Factors 0 and 1 select: torch.where costs ten times a product.
    a = margin.sigmoid()
    wrong = (0.5 - a).relu_()
    is_wrong = wrong.sign()
    # softplus(-v) - softplus(v) = -v: comparing both branches needs no softplus
    wrong.mul_(lam)
    wrong = wrong.sub_(margin, alpha=gamma) if isinstance(gamma, float) else wrong - margin * gamma
    keeps = wrong.lt_(price)
    pull = is_wrong.mul_(keeps).mul_(a).mul_(1 - a)
    return a.sub_(keeps).mul_(gamma).sub_(pull, alpha=lam)
