"""Decisions among several classes: one weight for each class, ``argmax(weight * probability)``.

With two classes this is a threshold. With K classes, the weights with the best value of a goal are
searched coordinate by coordinate. Let all weights but that of class k be fixed. A row i whose best
other class has ``m_i = max_{j != k} w_j p_ij`` is decided for k exactly if ``w_k > m_i / p_ik``: as
w_k grows, each row changes its class once. One sort of these ratios therefore gives the counts of
all classes at every value of w_k, and the best value is exact. This is repeated over the classes
until no single weight improves the goal, from several starts.

Each step is exact, but the result is an optimum only along the coordinates. For three classes and
few rows, comparison with all decision rules of this kind shows how often it is the best of all
(docs, "Several labels and classes").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from setpoint._internal.listing import aligned
from setpoint._internal.validation import check_whole, listed
from setpoint.errors import SetpointError
from setpoint.goals.goal import TOLERANCE
from setpoint.goals.metrics import format_number
from setpoint.thresholds.class_goals import ClassGoal, Counts, Floats, parse_term

_PROGRESS = 1e-12  # a smaller gain is rounding
_SAME = 1e-10  # relative difference of weights up to which rows change together


@dataclass(frozen=True, eq=False)
class ClassWeights:
    """Weights of classes for the decision ``argmax(weights * probabilities)``, and its counts.

    Attributes
    ----------
    classes : tuple
        The labels, in the order of the columns of probabilities.
    weights : ndarray of shape (K,)
        Their weights, whose product is 1.
    counts : Counts
        TP and FP of each class against all others, and its number of rows.
    goal : ClassGoal
        The goal that the weights were chosen or evaluated for.
    on : str
        The name of the data in messages.
    """

    classes: tuple[Any, ...]
    weights: Floats
    counts: Counts
    goal: ClassGoal
    on: str = "the data given"

    def predict(self, proba: ArrayLike) -> NDArray[Any]:
        """Return the class of each row; of equal products, the first."""
        logarithms = _check_proba(proba, len(self.classes))
        return np.asarray(self.classes)[_decide(logarithms, np.log(self.weights))]

    def evaluate(
        self,
        y: ArrayLike,
        proba: ArrayLike,
        *,
        sample_weight: ArrayLike | None = None,
        on: str = "the test rows",
    ) -> ClassWeights:
        """Return the same weights with their counts on other rows."""
        rows = _Rows.of(y, proba, self.classes, sample_weight)
        return replace(self, counts=rows.counts(np.log(self.weights)), on=on)

    def value(self, name: str) -> float:
        """Return a metric, e.g. ``"accuracy"``, ``"macro f1"`` or ``"recall[class=2]"``."""
        return float(parse_term(name, self.classes).values(self.counts)[0])

    @property
    def objective(self) -> float:
        """The goal's objective."""
        return float(self.goal.objective.values(self.counts)[0])

    @property
    def violation(self) -> float:
        """The sum of the shortfalls of the goal's constraints; 0 if all are met."""
        return float(self.goal.violation(self.counts))

    @property
    def feasible(self) -> bool:
        """Whether every constraint is met."""
        return self.violation == 0.0

    @property
    def message(self) -> str:
        """A summary in one or two sentences, which names what is missed."""
        reached = f"On {self.on} {self.goal.objective} is {self.objective:.3f}"
        head = f"{reached} (goal: '{self.goal}')."
        if not self.goal.constraints:
            return head
        missed = []
        for term, c in self.goal.constraints:
            labels = [self.classes[int(k)] for k in np.flatnonzero(self.counts.P)]
            of_each = labels if term.scope == "each" else [None]
            for label, value in zip(of_each, term.values(self.counts), strict=True):
                if not c.metric.sign * (c.level - float(value)) <= TOLERANCE:
                    name = f"{term}[class={label}]" if term.scope == "each" else str(term)
                    level = format_number(c.level)
                    missed.append(f"{name} is {float(value):.3f} instead of {c.relation} {level}")
        if not missed:
            return f"{head} All constraints are met there."
        return f"{head} Not met: {'; '.join(missed)}."

    def __str__(self) -> str:
        rows = [["class", "weight", "rows", "decided", "precision", "recall", "f1"]]
        for k, label in enumerate(self.classes):
            values = [
                float(self.counts.value(parse_term(f"macro {name}", ()).metric, k))
                for name in ("precision", "recall", "f1")
            ]
            decided = self.counts.tp[k] + self.counts.fp[k]
            numbers = [format_number(self.counts.P[k]), format_number(decided)]
            shown = ["–" if np.isnan(v) else f"{v:.3f}" for v in values]
            rows.append([str(label), f"{self.weights[k]:.4g}", *numbers, *shown])
        accuracy = f"accuracy {self.value('accuracy'):.3f}, macro f1 {self.value('macro f1'):.3f}"
        return "\n".join([self.message, *aligned(rows, left=()), accuracy])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "goal": str(self.goal), "classes": [str(label) for label in self.classes],
            "weights": self.weights.tolist(), "tp": self.counts.tp.tolist(),
            "fp": self.counts.fp.tolist(), "rows": self.counts.P.tolist(),
            "objective": self.objective, "violation": self.violation, "feasible": self.feasible,
            "on": self.on, "message": self.message,
        }  # fmt: skip


def choose_class_weights(
    y: ArrayLike,
    proba: ArrayLike,
    goal: str | ClassGoal,
    *,
    classes: Sequence[Any] | None = None,
    sample_weight: ArrayLike | None = None,
    starts: int = 10,
    random_state: Any = 0,
    on: str = "the data given",
) -> ClassWeights:
    """Find weights of classes for a goal, for decisions ``argmax(weights * probabilities)``.

    Every step finds the best value of one weight exactly. The result cannot be improved by changing
    one weight alone; that no other weights are better is not guaranteed, and more ``starts`` make
    it more likely.

    Parameters
    ----------
    y : array-like of shape (n,)
        The class of each row.
    proba : array-like of shape (n, K)
        Probabilities, or other scores >= 0, of each class.
    goal : str
        E.g. ``"max accuracy s.t. recall >= 0.9 for each class"``, ``"max macro f1"`` or
        ``"max recall[class=2] s.t. precision[class=2] >= 0.5"``.
    classes : sequence, optional
        The labels of the columns, e.g. ``classifier.classes_``; by default those of y, sorted.
    sample_weight : array-like of shape (n,), optional
        Weights >= 0 of the rows.
    starts : int
        How many weights to start from: equal ones, those that even out the classes' frequencies,
        and random ones.
    random_state : int, RandomState or None
        Seed of the random starts.
    on : str
        The name of the data in messages.

    Returns
    -------
    ClassWeights
        The best weights found: the least violation first, then the objective.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from setpoint import choose_class_weights
    >>> X, y = load_iris(return_X_y=True)
    >>> proba = LogisticRegression(C=0.01, max_iter=1000).fit(X, y).predict_proba(X)
    >>> found = choose_class_weights(y, proba, "max accuracy s.t. recall >= 0.85 for each class")
    >>> found.feasible, found.predict(proba[:2]).tolist()
    (True, [0, 0])
    """
    labels = (
        tuple(np.unique(np.asarray(y)).tolist())
        if classes is None
        else tuple(np.asarray(classes).tolist())
    )
    parsed = ClassGoal.parse(goal, labels)
    rows = _Rows.of(y, proba, labels, sample_weight)
    check_whole(starts, "starts")
    best, best_rank = np.zeros(len(labels)), (-np.inf, -np.inf)
    for start in _starts(rows, starts, random_state):
        found, rank = _ascend(rows, parsed, start)
        if _is_better(rank, best_rank):
            best, best_rank = found, rank
    # The weights that are returned are those whose counts are given, also after rounding.
    weights = np.exp(best - best.mean())
    return ClassWeights(labels, weights, rows.counts(np.log(weights)), parsed, on)


Rank = tuple[float, float]  # -violation and gain


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows by the index of their class, with logarithms of probabilities, and weights."""

    codes: NDArray[np.intp]
    logarithms: Floats
    weights: Floats

    @classmethod
    def of(
        cls, y: ArrayLike, proba: ArrayLike, classes: tuple[Any, ...], sample_weight: Any
    ) -> _Rows:
        labels = np.asarray(y)
        if len(classes) < 2 or len(set(classes)) < len(classes):
            raise SetpointError(
                f"classes must be at least two different labels, not {listed(classes)}."
            )
        logarithms = _check_proba(proba, len(classes))
        if labels.shape != (len(logarithms),):
            raise SetpointError(
                f"y must hold one class per row, shape {(len(logarithms),)}, but has the shape "
                f"{labels.shape}."
            )
        matches = np.stack([np.broadcast_to(labels == c, labels.shape) for c in classes])
        if not matches.any(axis=0).all():
            unknown = dict.fromkeys(labels[~matches.any(axis=0)].tolist())
            raise SetpointError(f"y holds {listed(unknown)}; the classes are {listed(classes)}.")
        weights = np.ones(len(labels))
        if sample_weight is not None:
            weights = np.asarray(sample_weight, dtype=np.float64)
            if weights.shape != labels.shape:
                raise SetpointError(
                    f"sample_weight has the shape {weights.shape}, the labels {labels.shape}."
                )
            if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
                raise SetpointError("sample_weight must be finite, not negative, and not all zero.")
        counted = weights > 0
        return cls(matches.argmax(axis=0)[counted], logarithms[counted], weights[counted])

    @property
    def totals(self) -> Floats:
        """The weight of each class."""
        return _sums(self.codes, self.weights, self.logarithms.shape[1])

    def counts(self, offsets: Floats) -> Counts:
        """Return the counts of a decision."""
        decided = _decide(self.logarithms, offsets)
        size = self.logarithms.shape[1]
        right = decided == self.codes
        tp = _sums(decided[right], self.weights[right], size)
        fp = _sums(decided[~right], self.weights[~right], size)
        return Counts(tp, fp, self.totals)

    def along(self, offsets: Floats, k: int) -> tuple[Floats, Counts]:
        """Return the offsets of class k at which decisions differ, and the counts at each."""
        with np.errstate(invalid="ignore"):
            others = self.logarithms + offsets
            others[:, k] = -np.inf
            second = others.argmax(axis=1)
            # Above this offset a row is decided for k: never if it is impossible, always if all
            # others are.
            change = others.max(axis=1) - self.logarithms[:, k]
        change[np.isneginf(self.logarithms[:, k])] = np.inf
        order = np.argsort(change, kind="stable")
        change = change[order]
        with np.errstate(invalid="ignore"):  # between infinite ones
            apart = np.diff(change) > _SAME
        ends = np.flatnonzero(np.append(apart, True)) + 1
        ends = ends[np.isfinite(change[ends - 1])]
        always = int(np.count_nonzero(np.isneginf(change)))
        sizes = np.append(always, ends)  # how many rows are decided for k
        codes, second, weights = self.codes[order], second[order], self.weights[order]
        classes = np.arange(self.logarithms.shape[1])[:, None]
        own, right = codes == classes, (second == codes) & (second == classes)
        wrong = (second == classes) & (second != codes)

        def before(flags: NDArray[np.bool_]) -> Floats:
            sums = np.cumsum(np.where(flags, weights, 0.0), axis=1)
            return np.concatenate([np.zeros((len(sums), 1)), sums], axis=1)

        of_right, of_wrong, of_own = before(right), before(wrong), before(own)
        tp, fp = of_right[:, -1:] - of_right[:, sizes], of_wrong[:, -1:] - of_wrong[:, sizes]
        tp[k] = of_own[k, sizes]
        fp[k] = of_own[:, sizes].sum(axis=0) - tp[k]
        finite = change[ends - 1]
        if not len(finite):
            return offsets[[k]], Counts(tp, fp, self.totals)
        starts = np.append(always, ends[:-1])  # of the rows that change together
        middle = finite[:-1] / 2 + change[starts[1:]] / 2
        values = np.concatenate([[change[always] - 1], middle, [finite[-1] + 1]])
        return values, Counts(tp, fp, self.totals)


def _ascend(rows: _Rows, goal: ClassGoal, start: Floats) -> tuple[Floats, Rank]:
    """Improve one weight after another, each to its best value, until none improves."""
    offsets, rank = start, _rank(goal, rows.counts(start))
    since = 0
    k = 0
    while since < len(start):
        values, counts = rows.along(offsets, k)
        found = _best(goal, counts, values, float(offsets[k]))
        tried = offsets.copy()
        tried[k] = values[found]
        # Rounding may separate rows that the sort did not: only what is counted again is taken.
        new = _rank(goal, rows.counts(tried))
        since += 1
        if _is_better(new, rank):
            offsets, rank, since = tried, new, 1
        k = (k + 1) % len(start)
    return offsets, rank


def _best(goal: ClassGoal, counts: Counts, values: Floats, present: float) -> int:
    """Return the best value of a weight; of several, the one nearest to the present weight."""
    violation = np.broadcast_to(goal.violation(counts), values.shape)
    found = np.flatnonzero(violation == np.nanmin(violation))
    gain = np.broadcast_to(goal.gain(counts), values.shape)[found]
    found = found[gain >= np.nanmax(gain) - _PROGRESS]
    return int(found[np.argmin(np.abs(values[found] - present))])


def _rank(goal: ClassGoal, counts: Counts) -> Rank:
    return -float(goal.violation(counts)), float(goal.gain(counts))


def _is_better(new: Rank, old: Rank) -> bool:
    if abs(new[0] - old[0]) > _PROGRESS:
        return new[0] > old[0]
    return new[1] > old[1] + _PROGRESS


def _starts(rows: _Rows, count: int, random_state: Any) -> list[Floats]:
    """Return logarithms of weights to start from.

    Random ones give each class the weight at which it wins a row drawn at random, so that they are
    at the scale of the probabilities.
    """
    logarithms = rows.logarithms
    size = logarithms.shape[1]
    rng = check_random_state(random_state)
    prior = -np.log(np.maximum(rows.totals / rows.totals.sum(), 1e-12))
    found = [np.zeros(size), prior - prior.mean()]
    lead = logarithms.max(axis=1)
    for _ in range(count - 2):
        drawn = rng.randint(len(lead), size=size)
        needed = lead[drawn] - logarithms[drawn, np.arange(size)]
        found.append(np.where(np.isfinite(needed), needed, 0.0) + rng.normal(0, 0.1, size))
    return found[:count]


def _decide(logarithms: Floats, offsets: Floats) -> NDArray[np.intp]:
    return np.asarray((logarithms + offsets).argmax(axis=1))


def _sums(codes: NDArray[np.intp], weights: Floats, size: int) -> Floats:
    """Return the weight of each class."""
    return np.bincount(codes, weights, size).astype(np.float64)


def _check_proba(proba: ArrayLike, size: int) -> Floats:
    """Return the logarithms of probabilities; raise SetpointError if they are not valid."""
    found = np.asarray(proba, dtype=np.float64)
    if found.ndim != 2 or found.shape[1] != size:
        raise SetpointError(
            f"proba must have a column for each of {size} classes, but has the shape "
            f"{found.shape}; name the columns' labels with classes=classifier.classes_."
        )
    if not len(found):
        raise SetpointError("there are no rows.")
    if not np.isfinite(found).all() or (found < 0).any() or not found.any(axis=1).all():
        raise SetpointError(
            "proba must be finite and not negative, and positive for at least one class in each "
            "row; apply softmax to the scores of a decision function."
        )
    with np.errstate(divide="ignore"):
        return np.log(found)
