"""Goals of decisions among several classes, of which each row has exactly one.

    max accuracy s.t. recall >= 0.9 for each class
    max macro f1
    max recall[class=2] s.t. precision[class=2] >= 0.5, accuracy >= 0.8

A metric of one class counts that class against all others. ``accuracy`` alone is the fraction of
rows whose class is right; ``macro`` is the mean over the classes. A constraint without a class
holds for each class.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.validation import did_you_mean, listed
from setpoint.errors import GoalError
from setpoint.goals.goal import TOLERANCE, Constraint, Goal
from setpoint.goals.language import parse_constraint
from setpoint.goals.metrics import (
    ACCURACY,
    BALANCED_ACCURACY,
    RECALL,
    Metric,
    format_number,
    metric,
)
from setpoint.thresholds.label_goals import check_counts_rows

Floats = NDArray[np.float64]
Scope = Literal["all", "macro", "each", "one"]

_SUCH_THAT = re.compile(
    r"\bs\.\s*t\.|\bs\.t\b|\bst\b|\bsubject\s+to\b|\bsuch\s+that\b", re.IGNORECASE
)
_SEPARATOR = re.compile(r",\s*and\b|,(?![^(\[]*[)\]])|\band\b", re.IGNORECASE)
_FOR_EACH = re.compile(r"\s*\bfor\s+(?:each|every)\s+class\b\s*$", re.IGNORECASE)
_OF_CLASS = re.compile(r"\[\s*class\s*=\s*([^\]]+?)\s*\]", re.IGNORECASE)
_AVERAGED = re.compile(r"\b(macro|micro)[\s_]+", re.IGNORECASE)
_EXAMPLE = "write e.g. 'max macro f1' or 'max recall[class=2] s.t. precision >= 0.5 for each class'"


@dataclass(frozen=True)
class Counts:
    """The counts of each class against all others, also at many decision rules at once.

    Attributes
    ----------
    tp, fp : ndarray of shape (K, ...)
        True and false positives of each class.
    P : ndarray of shape (K,)
        The rows of each class, by weight.
    """

    tp: Floats
    fp: Floats
    P: Floats

    @property
    def total(self) -> float:
        """The weight of all rows."""
        return float(self.P.sum())

    def value(self, which: Metric, index: int) -> Any:
        """Return a metric of one class against all others."""
        P = float(self.P[index])
        with np.errstate(all="ignore"):
            return which.value(self.tp[index], self.fp[index], P, self.total - P)


@dataclass(frozen=True)
class Term:
    """A metric of all classes (accuracy), of their mean, of each, or of one."""

    metric: Metric
    scope: Scope
    index: int = -1
    label: Any = None

    def values(self, counts: Counts) -> list[Any]:
        """Return one value, or those of each class that occurs."""
        if self.scope == "all":
            return [counts.tp.sum(axis=0) / counts.total]
        if self.scope == "one":
            return [counts.value(self.metric, self.index)]
        each = [counts.value(self.metric, int(k)) for k in np.flatnonzero(counts.P)]
        return each if self.scope == "each" else [sum(each) / len(each)]

    def __str__(self) -> str:
        if self.scope == "one":
            return f"{self.metric}[class={self.label}]"
        return f"macro {self.metric}" if self.scope == "macro" else str(self.metric)


@dataclass(frozen=True)
class ClassGoal:
    """An objective and constraints on the counts of several classes."""

    objective: Term
    constraints: tuple[tuple[Term, Constraint], ...] = ()

    @classmethod
    def parse(cls, text: str | ClassGoal, classes: Sequence[Any]) -> ClassGoal:
        """Parse a goal; ``classes`` are the labels that it may name."""
        if isinstance(text, ClassGoal):
            return text
        if not isinstance(text, str):
            raise GoalError(f"a goal is a text, not {type(text).__name__}; {_EXAMPLE}.")
        head, *tail = _SUCH_THAT.split(text)
        if len(tail) > 1:
            raise GoalError(f"{text!r} contains 's.t.' twice; separate constraints by commas.")
        scope, rest = _scoped(head, classes)
        stated = Goal.parse(rest)
        if stated.constraints:  # of precision@200
            raise GoalError(
                f"{head.strip()!r}: goals of several classes have no '@'; write the number of "
                "alarms as a constraint, e.g. 'max macro recall s.t. alarm_rate <= 0.1 for each "
                "class'."
            )
        check_counts_rows(stated, "classes")
        objective = _term(stated.objective, *scope, constrained=False)
        constraints: list[tuple[Term, Constraint]] = []
        for part in _SEPARATOR.split(tail[0]) if tail else ():
            scope, rest = _scoped(part, classes)
            found = parse_constraint(rest)
            check_counts_rows(Goal(objective.metric, (found,)), "classes")
            term = _term(found.metric, *scope, constrained=True)
            if any(other == term for other, _ in constraints):
                raise GoalError(f"{term} is constrained twice; keep one level.")
            constraints.append((term, found))
        return cls(objective, tuple(constraints))

    def __str__(self) -> str:
        head = f"{self.objective.metric.direction} {self.objective}"
        parts = [
            f"{term} {c.relation} {format_number(c.level)}"
            + (" for each class" if term.scope == "each" else "")
            for term, c in self.constraints
        ]
        return f"{head} s.t. {', '.join(parts)}" if parts else head

    def gain(self, counts: Counts) -> Any:
        """Return the objective, negated where lower is better."""
        return self.objective.metric.sign * self.objective.values(counts)[0]

    def violation(self, counts: Counts) -> Any:
        """Return the sum of the positive shortfalls over constraints and classes."""
        total: Any = 0.0 * counts.tp[0]
        for term, constraint in self.constraints:
            for value in term.values(counts):
                shortfall = constraint.metric.sign * (constraint.level - value)
                total = total + shortfall * (shortfall > TOLERANCE)
        return total


def _scoped(text: str, classes: Sequence[Any]) -> tuple[tuple[Scope | None, int, Any, bool], str]:
    """Return the scope that a part of a goal names, and the part without it."""
    rest, each = _FOR_EACH.subn("", text.strip())
    if found := _OF_CLASS.search(rest):
        name = found[1].strip("'\"")
        spelled = [str(label) for label in classes]
        if name not in spelled:
            raise GoalError(
                f"{text.strip()!r}: there is no class {name!r}; the classes are "
                f"{listed(classes)}.{did_you_mean(name, spelled)}"
            )
        index = spelled.index(name)
        return ("one", index, classes[index], bool(each)), _OF_CLASS.sub("", rest)
    if found := _AVERAGED.search(rest):
        if found[1].lower() == "micro":
            raise GoalError(
                f"{text.strip()!r}: where each row has one class, micro averages equal accuracy; "
                "write 'accuracy', or 'macro' for the mean over the classes."
            )
        return ("macro", -1, None, bool(each)), _AVERAGED.sub("", rest)
    return (None, -1, None, bool(each)), rest


def _term(
    which: Metric, scope: Scope | None, index: int, label: Any, each: bool, constrained: bool
) -> Term:
    """Return the term of a metric; a scope that is not named follows from the metric."""
    if each and (not constrained or scope is not None):
        raise GoalError(f"'{which} for each class' is a constraint; {_EXAMPLE}.")
    if scope is not None:
        return Term(which, scope, index, label)
    if which == ACCURACY and not each:
        return Term(which, "all")
    if which == BALANCED_ACCURACY and not each:  # its meaning for several classes
        return Term(RECALL, "macro")
    if constrained:
        return Term(which, "each")
    raise GoalError(
        f"'{which.direction} {which}' must say of which class: 'macro {which}' is the mean over "
        f"the classes, '{which}[class=2]' that of one; {_EXAMPLE}."
    )


def parse_term(text: str, classes: Sequence[Any]) -> Term:
    """Return the term of a text, e.g. ``"macro f1"``, ``"recall[class=2]"`` or ``"accuracy"``."""
    (scope, index, label, each), rest = _scoped(text, classes)
    which = metric(rest)
    check_counts_rows(Goal(which), "classes")
    return _term(which, scope, index, label, each, constrained=False)
