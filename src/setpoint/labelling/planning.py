"""Plans for labelling, from labelled rows of another time or from a guess.

Nothing here affects validity: a plan is a function of rows that are not in the pool, so it may be
as wrong as it likes. A bad one costs labels, or ends without a certificate.

The rows of a plan are summarised as *strata*: intervals of scores with their share of the rows and
the chance that one of their rows is positive. For a design, the expected wealth of the recall test
and its standard deviation are sums over strata, and so is the expected number of labels.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from setpoint.certificates.rates import at_least
from setpoint.labelling.top_down import Floats

STRATA = 60
POWER = 0.8  # the chance to be certified that a plan aims for
_PROMISING = 0.001  # the expected p-value of a start, as a fraction of alpha
_WORTH = 0.3  # the expected p-value at the lowest cut worth testing
_RATES = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)
_BETS = (0.45, 0.55, 0.65, 0.8, 0.9, 0.97)  # as fractions of the largest valid one
_TRUSTED = 100  # positives, from which a guess might come
_OVERSHOOT = 1.2  # of the wealth when it is reached, and of its fluctuations


class Guess(NamedTuple):
    """What is believed of the pool before any of its labels is known.

    Attributes
    ----------
    scores : ndarray
        Scores of rows that are not in the pool, in descending order.
    chances : ndarray
        The probability that each is positive, or its label.
    labelled : bool
        Whether the chances are labels.
    """

    scores: Floats
    chances: Floats
    labelled: bool

    @classmethod
    def of(cls, scores: Floats, chances: Floats, labelled: bool) -> Guess:
        """Sort the rows."""
        order = np.argsort(-scores, kind="stable")
        return cls(scores[order], chances[order].astype(float), labelled)

    def strata(self) -> Strata:
        """Summarise the rows."""
        n = len(self.scores)
        total = float(self.chances.sum())
        cumulative = np.cumsum(self.chances)
        by_positives = np.searchsorted(cumulative, np.linspace(0, total, STRATA + 1)[1:-1])
        by_rows = np.geomspace(1, n, STRATA // 2).astype(int) - 1
        last = np.unique(np.minimum(np.concatenate([by_positives, by_rows, [n - 1]]), n - 1))
        edges = self.scores[last]
        ends = np.unique(np.searchsorted(-self.scores, -edges, side="right"))  # whole ties
        rows = np.diff(ends, prepend=0)
        found = np.diff(np.append(0, cumulative[ends - 1]), prepend=0.0)[1:]
        if self.labelled:  # a stratum without positives is not known to have none
            found = np.where(found > 0, found, np.minimum(0.5, rows * total / n))
        below = np.append(self.scores[ends[:-1]], -np.inf)
        edges = _between(self.scores[ends - 1], below)
        # A guess is trusted as if it came from as many positives.
        size = float(n) if self.labelled else _TRUSTED * n / max(total, 1e-9)
        return Strata(edges, rows / n, np.clip(found / rows, 0.0, 1.0), size)


class Strata(NamedTuple):
    """Intervals of scores, from the highest.

    Attributes
    ----------
    edges : ndarray
        A threshold below each interval.
    shares : ndarray
        The fraction of the rows in each.
    chances : ndarray
        The chance that a row of each is positive.
    size : float
        The number of labelled rows behind the chances.
    """

    edges: Floats
    shares: Floats
    chances: Floats
    size: float


def _between(high: Floats, low: Floats) -> Floats:
    """Return thresholds between two scores each."""
    with np.errstate(invalid="ignore"):
        middle = high / 2 + low / 2
    return np.where((low <= middle) & (middle < high), middle, low)


# --- precision alone ------------------------------------------------------------------------------


class TopDownPlan(NamedTuple):
    """A plan for precision from the top.

    Attributes
    ----------
    start : float
        The threshold from which the way down begins.
    planned : int
        The expected number of alarms at the lowest threshold that is likely to pass.
    rows : int
        The number of rows of the pool to use, drawn at random.
    """

    start: float
    planned: int
    rows: int


def plan_top_down(
    guess: Guess, level: float, alpha: float, rows: int, most: int
) -> TopDownPlan | None:
    """Return where to start, or None if the guess has no alarm that is likely to be real.

    If the lowest threshold worth testing would have more than ``most`` alarms in the pool, a
    random part of the pool is used: its rows are independent draws as well.
    """
    n = len(guess.scores)
    sizes = np.flatnonzero(np.append(guess.scores[1:] != guess.scores[:-1], True)) + 1
    tp = np.cumsum(guess.chances)[sizes - 1]
    if len(sizes) == 0 or not (tp > 0).any():
        return None
    more = rows / n

    def expected(used: float) -> Floats:
        return at_least(used * tp, used * sizes, level)

    p = expected(more)
    worth = np.flatnonzero(p <= _WORTH)
    lowest = int(worth[-1]) if len(worth) else int(p.argmin())
    if more * sizes[lowest] > most:
        more = most / sizes[lowest]
        p = expected(more)
    good = np.flatnonzero(p <= _PROMISING * alpha)
    first = int(good[0]) if len(good) else int(p.argmin())
    below = guess.scores[sizes[first]] if sizes[first] < n else -np.inf
    start = _between(guess.scores[sizes[first] - 1 : sizes[first]], np.array([below]))[0]
    planned = max(1, round(more * int(sizes[max(lowest, first)])))
    start = max(float(start), -sys.float_info.max)  # JSON has no infinity
    return TopDownPlan(start, planned, max(1, min(rows, round(more * n))))


# --- recall, alone or with precision --------------------------------------------------------------


@dataclass(frozen=True)
class SamplePlan:
    """A design: with which probability a row is selected, and how to bet.

    Attributes
    ----------
    threshold : float
        The threshold that the design is best for.
    above : float
        The probability above the threshold.
    scale, least : float
        Below, it is ``scale * sqrt(chance)``, but at least ``least`` and at most 1.
    bets : tuple of float
        The values of lambda.
    most, labels : float
        The expected number of selected rows, and of labels until the threshold is certified.
    chance : float
        The expected chance that the threshold is certified.
    below_rows, misses_left : float
        The expected number of rows at or below the threshold, and of further misses that the floor
        on recall allows; see ``limits.py``.
    """

    threshold: float
    above: float
    scale: float
    least: float
    bets: tuple[float, ...]
    most: float
    labels: float
    chance: float
    below_rows: float
    misses_left: float

    def probabilities(self, scores: Floats, strata: Strata) -> Floats:
        """Return the probability with which each row is selected."""
        inside = np.searchsorted(-strata.edges, -scores, side="right")
        # A score above an edge is in that edge's interval.
        inside = np.minimum(inside, len(strata.edges) - 1)
        pi = np.clip(self.scale * np.sqrt(strata.chances[inside]), self.least, 1.0)
        return np.where(scores > self.threshold, self.above, pi)


def plan_sample(
    strata: Strata,
    recall: float,
    precision: float | None,
    alpha: float,
    rows: int,
    budget: float | None,
    aim: float | None = None,
) -> SamplePlan | None:
    """Return the cheapest design that is likely to certify some threshold.

    Parameters
    ----------
    strata : Strata
        What is believed of the pool.
    recall : float
        The floor on recall.
    precision : float, optional
        The floor on precision.
    alpha : float
        The probability of a false certificate.
    rows : int
        The number of rows of the pool.
    budget : float, optional
        The largest expected number of labels. If that is not enough, the design with the best
        chance is returned.
    aim : float, optional
        The recall to plan for, if precision has no floor. By default, with a budget the least that
        is likely to pass, and otherwise a third of the way from the floor to 1.
    """
    found = strata.shares * strata.chances
    above, true = np.cumsum(strata.shares), np.cumsum(found)
    total = true[-1]
    if total <= 0:
        return None
    reached = true / total
    thresholds = np.flatnonzero((reached > recall) & (above < 1))
    if precision is not None:
        thresholds = thresholds[true[thresholds] / above[thresholds] > precision]
    elif budget is None or aim is not None:
        wanted = recall + (1 - recall) / 3 if aim is None else aim
        thresholds = thresholds[np.argsort(abs(reached[thresholds] - wanted), kind="stable")[:1]]
    best: tuple[tuple[float, float], SamplePlan] | None = None
    for j in thresholds:
        design = _best_design(strata, int(j), recall, precision, alpha, rows, budget)
        if design is None:
            continue
        enough = design.chance >= POWER - 1e-9
        cost = design.labels if precision is not None or budget is None else float(above[j])
        key = (0.0 if enough else 1.0, cost if enough else -design.chance)
        if best is None or key < best[0]:
            best = key, design
    return None if best is None else best[1]


def _best_design(
    strata: Strata,
    j: int,
    recall: float,
    precision: float | None,
    alpha: float,
    rows: int,
    budget: float | None,
) -> SamplePlan | None:
    """Return the best design for the threshold below stratum j."""
    share, chance = strata.shares[j + 1 :], strata.chances[j + 1 :]
    top = float(strata.shares[: j + 1].sum())
    true = float((strata.shares * strata.chances)[: j + 1].sum())
    base = max(float(np.sqrt(chance).max()), 1e-12)
    rates = np.array(_RATES)
    least = np.unique(np.concatenate([rates, rates / 5, rates / 25]))
    # Axes: probability above, largest probability below, least probability, bet.
    a = rates[:, None, None, None]
    scale = (rates / base)[None, :, None, None]
    low = least[None, None, :, None]
    bet = np.array(_BETS) * low / recall
    pi = np.clip(scale[..., None] * np.sqrt(chance), low[..., None], 1.0)
    sampled = rows * (pi * share).sum(axis=-1)
    labels = rows * a * top + sampled
    win = np.log1p(bet * (1 - recall) / a)
    lose = np.log1p(-np.minimum(bet[..., None] * recall / pi, 1 - 1e-12))
    weight = share * chance
    mean = rows * (a * true * win + (weight * pi * lose).sum(axis=-1))
    variance = rows * (a * true * win**2 + (weight * pi * lose**2).sum(axis=-1))
    # The guess is a sample, too.
    of_guess = rows**2 / strata.size * (true * (a * win) ** 2 + (weight * (pi * lose) ** 2).sum(-1))
    z = (mean + np.log(alpha)) / np.sqrt(variance + of_guess)
    if precision is not None:
        level, k = true / top, rows * top * rates
        spread = k * level * (1 - level) * (1 + k / (strata.size * top)) + 1e-9
        # Half an alarm for the steps of the binomial test.
        margin = k * (level - precision) - 0.5
        margin -= -ndtri(alpha) * np.sqrt(k * precision * (1 - precision))
        z = np.minimum(z, (margin / np.sqrt(spread))[:, None, None, None])
    labels = np.broadcast_to(labels, z.shape)
    # Labelling ends when the wealth is reached, on average after this part of the pool.
    part = np.clip(_OVERSHOOT * -np.log(alpha) / np.maximum(mean, 1e-9), 0, 1)
    expected = np.broadcast_to(rows * a * top * (1.0 if precision is not None else part), z.shape)
    expected = expected + sampled * part
    allowed = np.broadcast_to(a >= low, z.shape)  # bets are limited by the least probability of all
    if budget is not None:
        allowed = allowed & (labels <= budget)
    if not allowed.any():
        return None
    wanted = float(ndtri(POWER))
    enough = allowed & (z >= wanted)
    if enough.any():
        at = np.unravel_index(np.argmin(np.where(enough, expected, np.inf)), z.shape)
    else:
        at = np.unravel_index(np.argmax(np.where(allowed, z, -np.inf)), z.shape)
    bets = (float(np.broadcast_to(bet, z.shape)[at]),)
    below = rows * float(share.sum())
    return SamplePlan(
        float(strata.edges[j]),
        float(np.broadcast_to(a, z.shape)[at]),
        float(np.broadcast_to(scale, z.shape)[at]),
        float(np.broadcast_to(low, z.shape)[at]),
        bets,
        float(labels[at]),
        float(expected[at]),
        float(_normal(z[at])),
        below,
        rows * (true / recall - float((strata.shares * strata.chances).sum())),
    )


def _normal(z: float) -> float:
    return 0.5 * math.erfc(-z / math.sqrt(2))
