"""The global optimum of small linear problems, by mixed-integer programming.

With the weights in a box, |w_j| <= 1, and one binary u_i per row, the program is

    max  numerator(TP, FP) - q * denominator(TP, FP)      TP = sum_P u_i,  FP = sum_N u_i
    s.t. cleared_j(TP, FP) <= 0                           the goal's constraints, linear in counts
         w.x_i + b >= eps - M_i (1 - u_i)   for positives: only true positives are counted
         w.x_i + b <= M_i u_i               for negatives: all false positives are counted

which is the paper's inequality form with its indicator written as big-M rows; a goal that is not
monotone needs both rows for every sample. For a quotient as objective, Dinkelbach's iteration sets
q to the best value so far until no solution is better. HiGHS solves the programs.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp
from scipy.sparse import csr_array, diags_array, hstack
from sklearn.linear_model import LogisticRegression

from setpoint.errors import SetpointError
from setpoint.goals.goal import Goal, check_plain
from setpoint.thresholds.checks import check_classes, check_scores
from setpoint.thresholds.choose import choose_threshold
from setpoint.thresholds.operating_point import OperatingPoint

_MARGIN = 2e-5  # eps: HiGHS allows violations of about 1e-6 times M
_INFEASIBLE = 2  # scipy's status of an infeasible program
_LARGEST = 1500  # rows times columns


@dataclass(frozen=True)
class ExactSolution:
    """The best linear model, or the best one found in time, with a proven bound.

    Attributes
    ----------
    coef : ndarray of shape (d,)
        Weights; ``X @ coef > operating_point.threshold`` decides.
    operating_point : OperatingPoint
        The operating point on the given data.
    bound : float
        No linear model has a better objective, except those that separate rows by less than 0.00002
        of a feature's largest deviation. Infinite if there is no bound, or if it is proven that no
        model meets the constraints.
    proven : bool
        Whether the objective equals the bound or, for an infeasible operating point, whether it is
        proven that no model is feasible. That point need not have the least violation.
    seconds : float
        Time taken.
    """

    coef: NDArray[np.float64]
    operating_point: OperatingPoint
    bound: float
    proven: bool
    seconds: float


def solve_exactly(
    X: ArrayLike,
    y: ArrayLike,
    goal: str | Goal,
    *,
    pos_label: Any = None,
    time_limit: float = 60.0,
    force: bool = False,
) -> ExactSolution:
    """Find the best linear classifier for a goal, and prove that it is the best.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Features, on similar scales.
    y : array-like of shape (n,)
        Labels: booleans, 0/1 or -1/1; any two values if ``pos_label`` names the positive one.
    goal : str or Goal
        All metrics must be quotients of linear functions of the counts, as all built-in ones but
        gmean and mcc are.
    pos_label : optional
        The label of the positive class.
    time_limit : float
        Seconds. After that, the best model so far is returned with ``proven=False`` and the best
        bound so far.
    force : bool
        Try problems of more than 1,500 entries, which may take arbitrarily long, and features with
        outliers, about which little can be proven.

    Examples
    --------
    >>> import numpy as np
    >>> from setpoint.method.referee import solve_exactly
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])
    >>> best = solve_exactly(X, [0, 1, 0, 1, 1], "max f1")
    >>> round(best.operating_point.f1, 3), best.proven
    (0.857, True)
    """
    goal = Goal.parse(goal)
    check_plain(goal, "an exact solution", "compare with SetpointClassifier, which trains for it")
    given: Any = time_limit
    if not (isinstance(given, Real) and float(given) >= 0):
        raise SetpointError(f"time_limit must be a number of seconds, not {given!r}.")
    try:
        X = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise SetpointError("X must hold numbers.") from None
    if X.ndim != 2 or X.shape[1] == 0:
        raise SetpointError(f"X must have rows of at least one feature; its shape is {X.shape}.")
    if not np.isfinite(X).all():
        raise SetpointError("X must be finite.")
    if np.shape(y) != (len(X),):
        raise SetpointError(f"y must hold one label per row of X, {len(X)}, not {np.shape(y)}.")
    positive, _, _ = check_scores(y, np.zeros(len(X)), None, pos_label)
    check_classes(bool(positive.any()), not positive.all(), weighted=False)
    deviation = np.abs(X - np.median(X, axis=0))
    usual = np.nan_to_num([np.median(d[d > 0]) if d.any() else 0.0 for d in deviation.T])
    beyond = deviation.max(axis=0) - 1000 * usual
    if (beyond > 0).any() and not force:
        raise SetpointError(
            f"feature {int(beyond.argmax())} has an outlier, next to which other differences are "
            "too small for a proof; clip it, or pass force=True."
        )
    if X.size > _LARGEST and not force:
        raise SetpointError(
            f"{len(X)} rows of {X.shape[1]} features are too many for an exact solution in "
            f"minutes; rows times features must be at most {_LARGEST}. Take a sample of the rows, "
            "or pass force=True and a time_limit."
        )
    for metric in goal.metrics:
        if metric.fraction is None:
            raise SetpointError(
                f"'{metric}' is not a quotient of linear functions of the counts, which an exact "
                "solution needs."
            )
    return _Referee(X, positive, goal, time_limit).solve()


class _Referee:
    def __init__(
        self, X: NDArray[np.float64], positive: NDArray[np.bool_], goal: Goal, time_limit: float
    ) -> None:
        self.goal, self.positive = goal, positive
        self.P, self.N = float(positive.sum()), float((~positive).sum())
        # In these coordinates the box |w_j| <= 1 fits every feature, and the big M are small.
        scale = np.abs(X - X.mean(axis=0)).max(axis=0)
        self.scale = np.where(scale > 0, scale, 1.0)
        self.X = (X - X.mean(axis=0)) / self.scale
        self.original = X
        self.start = time.perf_counter()
        self.end = self.start + time_limit
        assert goal.objective.fraction is not None
        sign = goal.objective.sign
        self.top = sign * np.asarray(goal.objective.fraction.numerator(self.P, self.N), float)
        self.bottom = np.asarray(goal.objective.fraction.denominator(self.P, self.N), float)
        self.rows = self._rows()

    def solve(self) -> ExactSolution:
        """Improve on logistic regression until no better model is found or the time is up."""
        coef = self._logistic()
        point = choose_threshold(self.positive, self.original @ coef, self.goal)
        possible = self._feasible_counts()
        while True:
            weights = self._improvement(point)
            result = self._maximise(weights, point.feasible)
            if result is None:
                break
            if result.get("mip_dual_bound") is not None:
                possible &= self._values(weights) <= weights[0] - result.mip_dual_bound + 1e-6
            elif result.status == _INFEASIBLE:
                possible &= False
            if result.x is None:
                break
            found = result.x[: self.X.shape[1]] / self.scale
            there = choose_threshold(self.positive, self.original @ found, self.goal)
            if not there.rank > point.rank:
                break
            coef, point = found, there
        tp, fp = self._grid()
        gains = self.goal.gain(tp[possible], fp[possible], self.P, self.N)
        reached = self.goal.objective.sign * point.objective if point.feasible else -np.inf
        bound = float(max(gains.max(initial=-np.inf), reached))
        proven = not bound > reached + 1e-9
        sign, seconds = self.goal.objective.sign, time.perf_counter() - self.start
        return ExactSolution(coef, point, sign * bound, proven, seconds)

    def _logistic(self) -> NDArray[np.float64]:
        regression = LogisticRegression(C=10.0).fit(self.X, self.positive)
        return np.asarray(regression.coef_[0] / self.scale)

    def _improvement(self, point: OperatingPoint) -> NDArray[np.float64]:
        """Return numerator - q * denominator, q the objective so far: > 0 for better counts."""
        q = self.goal.objective.sign * point.objective if point.feasible else 0.0
        return np.asarray(self.top - q * self.bottom)

    def _maximise(self, weights: NDArray[np.float64], known: bool) -> OptimizeResult | None:
        """Maximise a linear function of the counts; return None if the time is up.

        If a solution of value 0 is ``known``, worse ones are excluded.
        """
        n, d = self.X.shape
        per_row = np.where(self.positive, weights[1], weights[2])
        in_counts = np.concatenate([np.zeros(d + 1), per_row])
        rows = self.rows
        if known:
            rows = [*rows, LinearConstraint(in_counts[None], -weights[0] - 1e-7, np.inf)]
        R = self._largest_bias()
        low = np.concatenate([-np.ones(d), [-R], np.zeros(n)])
        high = np.concatenate([np.ones(d), [R], np.ones(n)])
        left = self.end - time.perf_counter()
        if left <= 0:
            return None
        with _without_highs_output():
            return milp(
                -in_counts,
                constraints=rows,
                integrality=np.concatenate([np.zeros(d + 1), np.ones(n)]),
                bounds=Bounds(low, high),
                options={"time_limit": left, "mip_rel_gap": 0.0},
            )

    def _largest_bias(self) -> float:
        return float(np.abs(self.X).sum(axis=1).max())

    def _rows(self) -> list[LinearConstraint]:
        n, d = self.X.shape
        M = np.abs(self.X).sum(axis=1) + self._largest_bias() + _MARGIN
        tie = csr_array(hstack([csr_array(np.column_stack([self.X, np.ones(n)])), -diags_array(M)]))
        both = not self.goal.is_monotone
        low = np.where(self.positive | both, _MARGIN - M, -np.inf)
        high = np.where(~self.positive | both, 0.0, np.inf)
        rows = [LinearConstraint(tie, low, high)]
        for constraint in self.goal.constraints:
            at = (self.P, self.N)
            d_tp, d_fp = constraint.cleared_slopes(0.0, 0.0, *at)
            per_row = np.where(self.positive, d_tp, d_fp)
            in_counts = np.concatenate([np.zeros(d + 1), per_row])[None]
            slack = 1e-9 * max(abs(per_row).max(), 1e-300)
            rows.append(
                LinearConstraint(in_counts, -np.inf, slack - constraint.cleared(0.0, 0.0, *at))
            )
        return rows

    # --- all pairs of counts: a grid of P + 1 by N + 1 ----------------------------------------

    def _grid(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        tp, fp = np.meshgrid(np.arange(self.P + 1), np.arange(self.N + 1))
        return tp.ravel(), fp.ravel()

    def _values(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        tp, fp = self._grid()
        return np.asarray(weights[0] + weights[1] * tp + weights[2] * fp)

    def _feasible_counts(self) -> NDArray[np.bool_]:
        return np.asarray(self.goal.violation(*self._grid(), self.P, self.N) == 0)


@contextmanager
def _without_highs_output() -> Iterator[None]:
    """Suppress stray lines of HiGHS on standard output; other output is printed afterwards."""
    try:
        stdout = os.dup(1)
    except OSError:  # standard output is closed
        yield
        return
    with tempfile.TemporaryFile() as held, open(stdout, "wb") as terminal:
        _flush()
        try:
            os.dup2(held.fileno(), 1)
            yield
        finally:
            _flush()
            os.dup2(stdout, 1)
            held.seek(0)
            terminal.writelines(line for line in held if not line.startswith(b"Highs"))


def _flush() -> None:
    """Flush the buffers of Python and of the C library to the present file descriptor 1."""
    if sys.stdout is not None:
        sys.stdout.flush()
    with suppress(OSError, TypeError, AttributeError):  # no C library by this name on Windows
        ctypes.CDLL(None).fflush(None)
