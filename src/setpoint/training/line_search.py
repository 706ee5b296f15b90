"""Exact line search on the counts of a linear model.

Along w + tau * u the decision on row i, (w + tau * u).x_i > t, changes at one tau at most, so one
sort of these gives the counts on every interval between them, and with it the best tau for any
goal. This is the threshold sweep in any direction of the weights; no gradient and no surrogate.
At the end of a training such searches improve the best linear models of a bundle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from setpoint.goals.goal import Goal
from setpoint.thresholds.choose import best_point, choose_threshold
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.thresholds.sweep import sort_keys
from setpoint.thresholds.tallied import TalliedRows
from setpoint.training.bundle import LinearBundle
from setpoint.training.ordinary import FEW_ROWS
from setpoint.training.problem import Problem

Floats = NDArray[np.float64]
_NEAR_ROWS = 4096  # only the decisions nearest to the threshold are expected to change,
_BETWEEN_LOOKS = 40  # for so many rounds
_WINDOW = 400  # changes of decisions on a line that are considered: those nearest to the start
_OF_A_KIND = 2, 5, 8  # directions of a round along axes, random ones, and between near rows
_DIRECTIONS = 1 + sum(_OF_A_KIND)
_MOMENT_ROWS, _PAIR_ROWS = 1000, 200  # near rows that determine directions
_FEW_FEATURES = 20
_MOST_FEATURES = 1500  # beyond, the inverse of the second moments takes too long
_MOST_GROWTH = 1e3  # of the largest weight, in one polishing
_ROUNDS_OF_A_TRY = 10
_PERTURBATIONS = (0.1, 2.0)  # relative to the weights


def best_steps(
    margins: Floats,
    directions: Floats,
    positive: NDArray[np.bool_],
    weight: Floats,
    goal: Goal,
    fixed: tuple[Any, Any, Any, Any] = (0.0, 0.0, 0.0, 0.0),
    window: int = _WINDOW,
) -> tuple[Floats, Floats]:
    """Return for each direction the best step and its sort keys.

    Parameters
    ----------
    margins : ndarray of shape (n,)
        Scores above the threshold.
    directions : ndarray of shape (m, n)
        How the scores change with a unit step in each of m directions.
    positive, weight : ndarray of shape (n,)
        Labels and weights; weights of shape (tallies, n) for a goal of several tallies.
    goal : Goal
        What to improve.
    fixed : tuple of float
        TP, FP, P and N of further rows, whose decisions are taken as fixed. With several tallies,
        arrays.
    window : int
        How many changes of decisions to consider, the nearest ones: steps end at the next.

    Returns
    -------
    steps : ndarray of shape (m,)
        The middle of the best interval.
    ranks : ndarray of shape (m, 4)
        Its sort keys: -violation, gain, TP and -FP.
    """
    m, n = directions.shape
    alarm = margins > 0
    P, N = (
        weight[..., own].sum(axis=-1) + total
        for own, total in ((positive, fixed[2]), (~positive, fixed[3]))
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        change = -margins / directions
    change[directions == 0] = np.inf
    # A margin of 0 becomes positive in one direction only.
    change[(change == 0) & (directions < 0)] = -np.nextafter(0, 1)
    rows = np.broadcast_to(np.arange(n), (m, n))
    end = np.full(m, np.inf)
    if n > window:
        rows = np.argpartition(np.abs(change), window, axis=1)[:, : window + 1]
        change = np.take_along_axis(change, rows, axis=1)
        end = np.abs(change[:, window])
        rows, change = rows[:, :window], change[:, :window]
    order = np.argsort(change, axis=1)
    rows = np.take_along_axis(rows, order, axis=1)
    change = np.take_along_axis(change, order, axis=1)
    # Each change flips one decision; counts are those of the start plus the flips up to there.
    flips = np.where(alarm, -weight, weight)[..., rows]
    here = (change < 0).sum(axis=1)  # the interval that contains no step
    side = np.where(np.arange(change.shape[1] + 1) < here[:, None], -1.0, 1.0)
    of_positive = positive[rows]
    tp, fp = (
        _over_cuts(start) + side * _from(here, np.where(own, flips, 0.0))
        for start, own in (
            (weight[..., alarm & positive].sum(axis=-1) + fixed[0], of_positive),
            (weight[..., alarm & ~positive].sum(axis=-1) + fixed[1], ~of_positive),
        )
    )
    edges = np.concatenate([-end[:, None], change, end[:, None]], axis=1)
    best = edges[:, 1:] > edges[:, :-1]  # there is no tau between equal changes
    ranks = np.empty((m, 4))
    for i, key in enumerate(_keys(_snapped(tp, P), _snapped(fp, N), P, N, goal)):
        key = np.where(best, key, -np.inf)
        ranks[:, i] = key.max(axis=1)
        best &= key == ranks[:, i : i + 1]
    places = best.argmax(axis=1)
    steps = [_middle(*edges[k, place : place + 2]) for k, place in enumerate(places)]
    return np.array(steps), ranks


def _from(here: NDArray[np.intp], flips: Floats) -> Floats:
    """Return the sums of flips up to each interval, less those up to the interval ``here``."""
    zero = np.zeros((*flips.shape[:-1], 1))
    total = np.concatenate([zero, np.cumsum(flips, axis=-1)], axis=-1)
    here = np.broadcast_to(here[:, None], zero.shape)
    return np.asarray(total - np.take_along_axis(total, here, axis=-1))


def _over_cuts(totals: Any) -> Any:
    """Return numbers of tallies in a shape that fits counts (tallies, directions, cuts)."""
    return totals[:, None, None] if np.ndim(totals) else totals


def _snapped(counts: Floats, total: Any) -> Floats:
    """Undo the rounding of sums of weights at 0 and the total, where metrics are special cases."""
    total = _over_cuts(total)
    counts = np.where(counts < 1e-12 * total, 0.0, counts)
    return np.where(counts > (1 - 1e-12) * total, total, counts)


def _keys(tp: Any, fp: Any, P: Any, N: Any, goal: Goal) -> tuple[Any, ...]:
    with np.errstate(all="ignore"):
        return sort_keys(goal, tp, fp, P, N)


def _middle(low: float, high: float) -> float:
    if np.isfinite(low) and np.isfinite(high):
        return low / 2 + high / 2
    if np.isfinite(low):
        return low + max(1.0, abs(low))
    return high - max(1.0, abs(high)) if np.isfinite(high) else 0.0


def polish(
    w: Floats,
    X: Floats,
    positive: NDArray[np.bool_],
    weight: Floats,
    goal: Goal,
    rng: np.random.Generator,
    rounds: int,
) -> Floats:
    """Return weights that are at least as good: the best of some directions, again and again.

    Weights and threshold move together. Of equally good steps one is drawn at random. Steps that
    neither gain nor lose are taken too: they lead along a plateau.
    """
    P, N = (weight[..., own].sum(axis=-1) for own in (positive, ~positive))

    def reached(margins: Floats) -> tuple[float, ...]:
        alarm = margins > 0
        tp, fp = (weight[..., alarm & own].sum(axis=-1) for own in (positive, ~positive))
        return tuple(map(float, _keys(tp, fp, P, N, goal)))

    threshold = _point(X @ w, positive, weight, goal).threshold
    rows, theta = np.column_stack([X, -np.ones(len(X))]), np.append(w, threshold)
    margins = rows @ theta
    best, largest = reached(margins), _MOST_GROWTH * float(np.abs(theta).max())
    draw = _Directions(rows, positive, rng)
    for i in range(rounds):
        if i % _BETWEEN_LOOKS == 0:
            near = _smallest(np.abs(margins), np.arange(len(margins)), _NEAR_ROWS)
            near_rows, fixed = rows[near], _others(near, margins, positive, weight)
            draw.look(margins)
        U = draw()
        steps, ranks = best_steps(
            margins[near], U @ near_rows.T, positive[near], weight[..., near], goal, fixed
        )
        k = max(rng.permutation(len(steps)), key=lambda k: tuple(ranks[k]))
        further = theta + steps[k] * U[k]
        # Steps without a bound would make weights of any size, for nothing but their direction.
        if tuple(ranks[k]) < best or not np.abs(further).max() <= largest:
            continue
        # Other rows may change too, and rounding can separate changes that coincide: only what is
        # really reached counts.
        new_margins = rows @ further
        if (rank := reached(new_margins)) >= best:
            theta, margins, best = further, new_margins, rank
    return theta[:-1] if rounds else w


def _others(
    near: NDArray[np.intp], margins: Floats, positive: NDArray[np.bool_], weight: Floats
) -> tuple[Any, Any, Any, Any]:
    """Return TP, FP, P and N of all rows but the near ones."""
    others = weight.copy()
    others[..., near] = 0.0
    alarm = margins > 0
    groups = (alarm & positive, alarm & ~positive, positive, ~positive)
    tp, fp, P, N = (others[..., group].sum(axis=-1) for group in groups)
    return tp, fp, P, N


def _point(
    scores: Floats, positive: NDArray[np.bool_], weight: Floats, goal: Goal
) -> OperatingPoint:
    """Return the operating point at the exact threshold."""
    if weight.ndim == 1:
        return choose_threshold(positive, scores, goal, sample_weight=weight)
    rows = TalliedRows(positive, lambda some: weight[:, some], len(weight))
    return best_point(positive, scores, None, goal, goal, "the training rows", rows)


class _Directions:
    """Directions to search: axes, random ones, and two kinds that follow the near rows.

    With x+ and x- near the threshold, x+ - x- is turned by the inverse of the near rows' second
    moments: the step that raises one row over another and moves the other rows least. With many
    features other directions rarely help. With few, a random direction is made orthogonal to some
    near rows: their decisions stay, and others can change.
    """

    def __init__(self, rows: Floats, positive: NDArray[np.bool_], rng: np.random.Generator) -> None:
        self._rows, self._rng = rows, rng
        # A column without spread is left alone: its weight has no effect on these rows.
        spread = np.append(rows[:, :-1].std(axis=0), 1.0)
        size = np.abs(rows).mean(axis=0)
        self._scale = np.where(spread > 1e-9 * (size + 1e-300), 1 / (size + 1e-12), 0.0)
        self._classes = np.flatnonzero(positive), np.flatnonzero(~positive)

    def look(self, margins: Floats) -> None:
        """Find the rows near the threshold."""
        n, d = self._rows.shape
        distance = np.abs(margins)
        near = _smallest(distance, np.arange(n), max(_MOMENT_ROWS, 2 * d))
        rows, distance_of = self._rows[near], distance[near]
        share = np.exp(-distance_of / (np.median(distance_of) + 1e-300))
        share /= share.sum()
        if d > _MOST_FEATURES:
            moment = share @ rows**2
            self._turn = np.diag(1 / (moment + 1e-3 * moment.mean() + 1e-12))
        else:
            moments = (rows * share[:, None]).T @ rows
            moments[np.diag_indices(d)] += 1e-3 * np.trace(moments) / d + 1e-12
            self._turn = np.linalg.inv(moments)
        self._pairs = [_smallest(distance, own, _PAIR_ROWS) for own in self._classes]
        self._nearest = _smallest(distance, np.arange(n), 4 * d)

    def __call__(self) -> Floats:
        """Return some directions as rows."""
        rng, d = self._rng, self._rows.shape[1]
        axes, random, turned = _OF_A_KIND
        U = np.zeros((_DIRECTIONS, d))
        U[0, -1] = 1.0  # the threshold's
        chosen = rng.integers(d, size=axes)
        U[1 + np.arange(axes), chosen] = self._scale[chosen]
        U[1 + axes : 1 + axes + random] = rng.normal(size=(random, d)) * self._scale
        if d <= _FEW_FEATURES:
            for u in U[2 + axes : 1 + axes + random]:
                held = rng.permutation(self._nearest)[: rng.integers(1, d)]
                Q = np.linalg.qr(self._rows[held].T)[0]
                u -= Q @ (Q.T @ u)
        up, down = (self._means(own, turned) for own in self._pairs)
        raised, lowered = rng.random((2, turned, 1)) < 0.7
        U[-turned:] = (raised * up - lowered * down) @ self._turn
        return U

    def _means(self, near: NDArray[np.intp], count: int) -> Floats:
        """Return the means of one to three random rows."""
        drawn = self._rows[self._rng.choice(near, (count, 3))]
        used = np.arange(3) < self._rng.integers(1, 4, size=(count, 1))
        share = used / used.sum(axis=1, keepdims=True)
        return np.asarray(np.einsum("ij,ijk->ik", share, drawn))


def _smallest(distance: Floats, rows: NDArray[np.intp], count: int) -> NDArray[np.intp]:
    """Return the rows of these with the smallest distances."""
    if len(rows) <= count:
        return rows
    return rows[np.argpartition(distance[rows], count)[:count]]


def explore(
    w: Floats,
    X: Floats,
    positive: NDArray[np.bool_],
    weight: Floats,
    goal: Goal,
    rng: np.random.Generator,
    rounds: int,
) -> Floats:
    """Return weights that are at least as good, by perturbing the best ones and polishing again.

    Line searches end where no single direction gains. A perturbation, small or large, leads to
    another such end; the best one is kept and perturbed again until the rounds are used up.
    """

    def rank_of(w: Floats) -> tuple[float, ...]:
        return _point(X @ w, positive, weight, goal).sort_key

    best, length = rank_of(w), float(np.linalg.norm(w))
    for _ in range(rounds // _ROUNDS_OF_A_TRY):
        size = np.exp(rng.uniform(*np.log(_PERTURBATIONS))) * length / len(w) ** 0.5
        new = w + size * rng.normal(size=len(w))
        new = polish(new, X, positive, weight, goal, rng, _ROUNDS_OF_A_TRY)
        new *= length / max(float(np.linalg.norm(new)), 1e-300)  # only its direction matters
        if (rank := rank_of(new)) >= best:
            w, best = new, rank
    return w


_ROUNDS_EACH, _MOST_ROUNDS = 20, 1000
_MOST_NUMBERS = 2**26  # of the rows, of which searches need two copies in double precision


def rounds_for(problem: Problem, effort: int) -> int:
    """Return the number of rounds that effort and memory allow; 0 if too few to begin with."""
    if problem.X.numel() > _MOST_NUMBERS:
        return 0
    rounds = effort // (min(len(problem.X), _NEAR_ROWS) * _DIRECTIONS)  # of so many decisions
    return 0 if rounds < 2 * _ROUNDS_EACH else min(rounds, _MOST_ROUNDS)


def search_lines(
    problem: Problem,
    bundle: LinearBundle,
    points: Sequence[OperatingPoint],
    alive: Sequence[int],
    effort: int,
    seed: int,
) -> None:
    """Improve the best models in place.

    Parameters
    ----------
    problem : Problem
        The training rows.
    bundle : LinearBundle
        The models.
    points : sequence of OperatingPoint
        Of each model.
    alive : sequence of int
        The models that have not diverged.
    effort : int
        How many changed decisions may be considered.
    seed : int
        Of the directions.
    """
    n, rounds = len(problem.X), rounds_for(problem, effort)
    models = min(len(alive), rounds // (2 * _ROUNDS_EACH))
    X = problem.X.double().cpu().numpy()
    weight = problem.sample_weight.double()
    if problem.factors is not None:
        weight = problem.factors.double().T * weight
    labels = problem.positive.cpu().numpy(), weight.cpu().numpy()
    ranks = [p.sort_key for p in points]
    rng = np.random.default_rng(seed)
    for k in sorted(alive, key=ranks.__getitem__, reverse=True)[:models]:
        found = polish(_in_double(bundle, k), X, *labels, problem.goal, rng, _ROUNDS_EACH)
        ranks[k] = _take_over(problem, bundle, k, found)
    best = max(alive, key=ranks.__getitem__)
    search = explore if n <= FEW_ROWS else polish  # with many rows a polishing hardly ends
    left = rounds - models * _ROUNDS_EACH
    found = search(_in_double(bundle, best), X, *labels, problem.goal, rng, left)
    _take_over(problem, bundle, best, found)


def _in_double(bundle: LinearBundle, k: int) -> NDArray[np.float64]:
    return np.asarray(bundle.matrix[k].double().cpu().numpy())


def _take_over(
    problem: Problem, bundle: LinearBundle, k: int, found: NDArray[np.float64]
) -> tuple[float, ...]:
    """Set model k to these weights if they are as good when rounded; return its sort key."""
    matrix = bundle.matrix
    rounded = torch.from_numpy(found).to(matrix)
    scores = [problem.X @ w.to(problem.X) for w in (matrix[k], rounded)]
    old, *others = (problem.point_of(z).sort_key for z in scores if z.isfinite().all())
    new = others[0] if others else old
    if others and new >= old:
        matrix[k] = rounded
    return max(old, new)
