"""Exact thresholds for several labels, and their operating point.

A row may have any number of labels, and each label has its own scores and its own threshold. What
is optimised for each label alone, or on average over the labels (macro), separates: one sweep for
each label. A metric of the summed counts (micro) is optimised over all thresholds at once
(:mod:`setpoint.thresholds.micro`).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setpoint._internal.listing import aligned
from setpoint._internal.validation import listed
from setpoint.errors import InfeasibleGoalWarning, SetpointError
from setpoint.goals.goal import TOLERANCE, Goal
from setpoint.goals.metrics import Metric, format_number, metric
from setpoint.thresholds.checks import check_scores
from setpoint.thresholds.choose import best_point, evaluate_threshold
from setpoint.thresholds.label_goals import Average, LabelGoals
from setpoint.thresholds.micro import LabelCuts, best_quotient, best_total
from setpoint.thresholds.operating_point import OperatingPoint, jsonable
from setpoint.thresholds.sweep import Floats

_MOST_ROWS = 40  # labels in the table of a printed point


@dataclass(frozen=True)
class MultilabelPoint:
    """The thresholds of several labels, and their counts and metrics on one data set.

    A label without positives, or without negatives, is left out of macro averages and of
    ``feasible``: its goal cannot be evaluated. ``print`` shows a table.

    Attributes
    ----------
    names : tuple of str
        The labels.
    points : tuple of OperatingPoint
        Threshold, counts and metrics of each label.
    goals : LabelGoals
        The goal of each label, the average, and constraints on the summed counts.
    on : str
        The name of the data in messages.
    """

    names: tuple[str, ...]
    points: tuple[OperatingPoint, ...]
    goals: LabelGoals
    on: str = "the data given"

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """The threshold of each label; ``score > threshold`` is positive."""
        return np.array([point.threshold for point in self.points])

    def __getitem__(self, name: str) -> OperatingPoint:
        if name not in self.names:
            raise KeyError(f"there is no label {name!r}; the labels are {listed(self.names)}")
        return self.points[self.names.index(name)]

    @cached_property
    def left_out(self) -> tuple[str, ...]:
        """Labels without positives or without negatives."""
        return tuple(
            name for name, point in zip(self.names, self.points, strict=True) if _one_class(point)
        )

    @cached_property
    def failing(self) -> tuple[str, ...]:
        """Labels that do not meet their goal."""
        return tuple(
            name
            for name, point in zip(self.names, self.points, strict=True)
            if not _one_class(point) and not point.feasible
        )

    def macro(self, name: str) -> float:
        """Return the mean of a metric over the labels that have both classes."""
        values = [p.value(name) for p in self.points if not _one_class(p)]
        return float(np.mean(values)) if values else float("nan")

    def micro(self, name: str) -> float:
        """Return a metric of the counts summed over all labels."""
        of_goal = {m.name: m for goal in (*self.goals.goals, self.goals.of_sums)
                   for m in goal.metrics}  # fmt: skip
        return self._of_sums(of_goal.get(name) or metric(name))

    def _of_sums(self, which: Metric) -> float:
        with np.errstate(all="ignore"):
            return float(which.value(*self.sums))

    @cached_property
    def sums(self) -> tuple[np.float64, ...]:
        """TP, FP, P and N, summed over all labels."""
        return tuple(np.sum([point.counts for point in self.points], axis=0))

    @property
    def objective(self) -> float:
        """The average of the objective; NaN without an average."""
        which = self.goals.objective
        if self.goals.average is None or which is None:
            return float("nan")
        return self._of_sums(which) if self.goals.average == "micro" else self.macro(which.name)

    @property
    def feasible(self) -> bool:
        """Whether every label, and the sums of all, meet their constraints."""
        return not self.failing and not self.missed_sums

    @property
    def missed_sums(self) -> list[str]:
        """What constraints on the summed counts are missed, as texts."""
        with np.errstate(all="ignore"):
            return [
                f"micro {c.metric} is {self._of_sums(c.metric):.3f} instead of {c.relation} "
                f"{format_number(c.level)}"
                for c in self.goals.on_sums
                if not c.shortfall(*self.sums) <= TOLERANCE
            ]

    @property
    def message(self) -> str:
        """A summary in a few sentences, which names the labels that fail."""
        which, average = self.goals.objective, self.goals.average
        sentences = []
        if which is not None and average is not None:
            count = len(self.points) - (len(self.left_out) if average == "macro" else 0)
            sentences.append(
                f"On {self.on} {average} {which} of {count} labels is {self.objective:.3f} "
                f"(goal: '{self.goals}')."
            )
        missed = [*self.missed_sums]
        if self.failing:
            missed.append(
                f"{len(self.failing)} of {len(self.points)} labels do not meet their goals: "
                f"{listed(self.failing)}"
            )
        if missed:
            text = "; ".join(missed)
            sentences.append(f"{text[0].upper()}{text[1:]}.")
        elif any(point.goal.constraints for point in self.points) or self.goals.on_sums:
            sentences.append(f"All constraints are met on {self.on}.")
        if self.left_out:
            sentences.append(f"Left out, as only one class occurs: {listed(self.left_out)}.")
        return " ".join(sentences) or f"Thresholds of {len(self.points)} labels on {self.on}."

    @property
    def _metric_names(self) -> list[str]:
        names = ["precision", "recall", "f1"]
        names += [m.name for point in self.points for m in point.goal.metrics]
        return list(dict.fromkeys([*names, *(c.metric.name for c in self.goals.on_sums)]))

    def __str__(self) -> str:
        names = self._metric_names
        rows = [["label", "threshold", "positives", "alarms", *names, "met"]]
        shown = list(zip(self.names, self.points, strict=True))[:_MOST_ROWS]
        for name, point in shown:
            met = "–" if _one_class(point) else "yes" if point.feasible else "no"
            counts = format_number(point.tp + point.fn), format_number(point.tp + point.fp)
            values = [_number(point.value(each)) for each in names]
            rows.append([name, f"{point.threshold:.6g}", *counts, *values, met])
        tp, fp, P, _ = map(float, self.sums)
        sums = format_number(P), format_number(tp + fp)
        rows.append(["micro", "", *sums, *(_number(self.micro(each)) for each in names), ""])
        rows.append(["macro", "", "", "", *(_number(self.macro(each)) for each in names), ""])
        lines = aligned(rows)
        if len(self.names) > _MOST_ROWS:
            lines.insert(-2, f"... ({len(self.names)} labels)")
        return "\n".join([self.message, *lines])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; numbers that are not finite become None."""
        names = self._metric_names
        return {
            "goal": str(self.goals), "average": self.goals.average,
            "objective": jsonable(self.objective), "feasible": self.feasible,
            "failing": list(self.failing), "left_out": list(self.left_out),
            "micro": {name: jsonable(self.micro(name)) for name in names},
            "macro": {name: jsonable(self.macro(name)) for name in names},
            "labels": {
                name: point.to_dict() for name, point in zip(self.names, self.points, strict=True)
            },
            "on": self.on, "message": self.message,
        }  # fmt: skip


def choose_thresholds(
    Y: ArrayLike,
    scores: ArrayLike,
    goal: Any,
    *,
    average: Average = "macro",
    sample_weight: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    on: str = "the data given",
) -> MultilabelPoint:
    """Find the exact thresholds of several labels for a goal.

    Parameters
    ----------
    Y : array-like of shape (n, L)
        Indicators: 1 where a row has a label, and 0 where it does not.
    scores : array-like of shape (n, L)
        A score for each row and label, larger meaning more likely.
    goal : str, Goal, list or mapping
        One goal for all labels, or one for each: a list, or a mapping from their names. Constraints
        hold for each label. A text may name the average, as in ``"max micro f1"``, and a constraint
        that begins with ``micro`` holds for the summed counts, of which the objective then is:
        ``"max recall s.t. micro alarm_rate <= 0.01"``.
    average : {"macro", "micro", None}
        What is optimised. ``"macro"``: the mean of the objective over the labels, which each label
        optimises by itself. ``"micro"``: the objective of the summed counts, over all thresholds at
        once. None: each label its own objective, which may differ.
    sample_weight : array-like of shape (n,), optional
        Weights >= 0 of the counts.
    names : sequence of str, optional
        Names of the labels; by default the columns of a data frame, or ``"0"``, ``"1"``, ...
    on : str
        The name of the data in messages.

    Returns
    -------
    MultilabelPoint
        The best thresholds. A label that cannot meet its constraints has the threshold with the
        least violation, and ``feasible`` is False. A label without positives has the threshold
        +inf, one without negatives -inf; both are left out of the macro average, with a warning.

    Examples
    --------
    >>> from setpoint import choose_thresholds
    >>> Y = [[1, 0], [0, 1], [1, 0], [0, 0]]
    >>> scores = [[0.9, 0.2], [0.4, 0.6], [0.7, 0.1], [0.3, 0.8]]
    >>> point = choose_thresholds(Y, scores, "max micro f1", names=["spam", "urgent"])
    >>> point.thresholds, round(point.micro("f1"), 3)
    (array([0.55, 0.4 ]), 0.857)
    """
    data = LabelMatrix.of(Y, scores, sample_weight, names)
    found = best_points(data, LabelGoals.of(goal, data.names, average), on)
    warn_of_one_class(found, stacklevel=3)
    return found


def best_points(data: LabelMatrix, goals: LabelGoals, on: str) -> MultilabelPoint:
    """Return the best thresholds of checked labels and scores."""
    one_class = all(map(_has_one_class, data.columns))
    if (goals.average == "micro" or goals.on_sums) and not one_class:
        points = _micro_points(data, goals, on)
    else:
        points = [
            _point_of_one_class(rows, own, on)
            if _has_one_class(rows)
            else best_point(*rows, own, own, on)
            for rows, own in zip(data.columns, goals.goals, strict=True)
        ]
    return MultilabelPoint(data.names, tuple(points), goals, on)


def evaluate_thresholds(
    Y: ArrayLike,
    scores: ArrayLike,
    thresholds: ArrayLike,
    goal: Any,
    *,
    average: Average = "macro",
    sample_weight: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    on: str = "the data given",
) -> MultilabelPoint:
    """Return the operating point of several labels at given thresholds.

    Parameters are those of :func:`choose_thresholds`; ``thresholds`` has one number per label.
    """
    data = LabelMatrix.of(Y, scores, sample_weight, names)
    goals = LabelGoals.of(goal, data.names, average)
    given = np.asarray(thresholds, dtype=np.float64)
    if given.shape != (len(data.names),):
        raise SetpointError(
            f"thresholds must hold one number for each of {len(data.names)} labels; its shape is "
            f"{given.shape}."
        )
    points = tuple(
        evaluate_threshold(positive, own, float(t), goal_of, sample_weight=weights, on=on)
        for (positive, own, weights), t, goal_of in zip(
            data.columns, given, goals.goals, strict=True
        )
    )
    return MultilabelPoint(data.names, points, goals, on)


def _micro_points(data: LabelMatrix, goals: LabelGoals, on: str) -> list[OperatingPoint]:
    """Return the best points for a metric of the summed counts."""
    cuts = [LabelCuts.of(*rows, own) for rows, own in zip(data.columns, goals.goals, strict=True)]
    if goals.on_sums:
        best = best_total(cuts, goals.of_sums, weighted=data.weighted)
    else:
        best = best_quotient(cuts, goals.goals[0].objective)
    return [
        OperatingPoint(
            label.threshold(cut),
            tp := float(label.tp[cut]),
            fp := float(label.fp[cut]),
            label.P - tp,
            label.N - fp,
            own,
            on,
        )
        for label, cut, own in zip(cuts, best.cuts, goals.goals, strict=True)
    ]


Column = tuple[NDArray[np.bool_], Floats, Floats | None]


@dataclass(frozen=True)
class LabelMatrix:
    """Checked indicators and scores: a column of both for each label, with the rows' weights."""

    names: tuple[str, ...]
    columns: tuple[Column, ...]

    @classmethod
    def of(
        cls, Y: Any, scores: Any, sample_weight: Any, names: Sequence[str] | None
    ) -> LabelMatrix:
        """Check the arguments of :func:`choose_thresholds`."""
        labels = check_names(names, Y)
        indicators = check_indicators(Y)
        found = np.asarray(scores)
        if found.shape != indicators.shape:
            raise SetpointError(
                f"scores must have a column for each label, shape {indicators.shape}, but have the "
                f"shape {found.shape}; of a list of predict_proba, stack the columns of 1: "
                "np.stack([p[:, 1] for p in proba], axis=1)."
            )
        if labels is None:
            labels = tuple(map(str, range(indicators.shape[1])))
        if len(labels) != indicators.shape[1]:
            raise SetpointError(f"there are {len(labels)} names for {indicators.shape[1]} labels.")
        columns = []
        for name, y, own in zip(labels, indicators.T, found.T, strict=True):
            try:
                columns.append(check_scores(y, np.ascontiguousarray(own), sample_weight, None))
            except SetpointError as error:
                raise SetpointError(f"label {name!r}: {error}") from error
        if not len(columns[0][1]):
            raise SetpointError("sample_weight is zero in all rows.")
        return cls(labels, tuple(columns))

    @property
    def weighted(self) -> bool:
        """Whether some rows count more than others."""
        weights = self.columns[0][2]
        return weights is not None and bool((weights != 1).any())


def check_names(names: Sequence[str] | None, Y: Any) -> tuple[str, ...] | None:
    """Return the names of the labels as texts: those given, or a data frame's columns."""
    found = getattr(Y, "columns", None) if names is None else names
    if found is None:
        return None
    texts = tuple(map(str, found))
    if len(set(texts)) < len(texts):
        twice = [name for name in dict.fromkeys(texts) if texts.count(name) > 1]
        raise SetpointError(f"several labels are called {listed(twice)}; names must differ.")
    return texts


def check_indicators(Y: Any) -> NDArray[np.bool_]:
    """Return a label matrix as booleans; raise SetpointError if it is not one."""
    found = Y.toarray() if hasattr(Y, "toarray") else np.asarray(Y)
    if found.ndim != 2 or 0 in found.shape:
        raise SetpointError(
            f"Y must be a matrix with a row for each sample and a column for each label; its shape "
            f"is {found.shape}. sklearn.preprocessing.MultiLabelBinarizer makes one from lists."
        )
    positive = np.asarray(found == 1)
    known = positive | np.asarray(found == 0)
    if not known.all():
        row, column = map(int, np.argwhere(~known)[0])
        wrong = found[row : row + 1, column].tolist()[0]  # a Python number
        wrong = int(wrong) if isinstance(wrong, float) and wrong.is_integer() else wrong
        raise SetpointError(
            f"Y must hold 0 and 1 (or booleans), but Y[{row}, {column}] is {wrong!r}."
        )
    return positive


def _has_one_class(rows: Column) -> bool:
    return bool(rows[0].all() or not rows[0].any())


def _point_of_one_class(rows: Column, goal: Goal, on: str) -> OperatingPoint:
    """Return the point of a label with one class: never predicted without positives."""
    positive, scores, weights = rows
    count = float(len(scores) if weights is None else weights.sum())
    if positive.any():
        return OperatingPoint(-np.inf, count, 0.0, 0.0, 0.0, goal, on)
    return OperatingPoint(np.inf, 0.0, 0.0, 0.0, count, goal, on)


def _one_class(point: OperatingPoint) -> bool:
    return point.tp + point.fn == 0 or point.fp + point.tn == 0


def warn_of_one_class(point: MultilabelPoint, stacklevel: int) -> None:
    """Warn of labels without positives or without negatives."""
    if point.left_out:
        warnings.warn(
            f"only one class occurs for {len(point.left_out)} of {len(point.names)} labels: "
            f"{listed(point.left_out)}. A label without positives is never predicted (threshold "
            "+inf), one without negatives always (-inf); both are left out of macro averages.",
            InfeasibleGoalWarning,
            stacklevel=stacklevel,
        )


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}"
