"""Goals: an objective and its constraints.

    max recall s.t. precision >= 0.9
    max f1
    min cost(fp=5, fn=amount) s.t. recall >= 0.8
    max recall s.t. precision >= 0.9 for each region, alarms <= 200 per day

:mod:`setpoint.goals.language` has the grammar. FPOR, FROP and OFOS are the paper's three goals.

A goal that speaks of each segment or period is *bound* to the rows at hand, which says what
segments and periods there are (:meth:`setpoint.goals.columns.GoalColumns.bind`); only then can it
be evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from setpoint.errors import GoalError
from setpoint.goals.budgets import (
    Per,
    alarms_in_words,
    alarms_per,
    for_periods,
    is_count,
    is_precision_at,
)
from setpoint.goals.linear_fraction import Counts
from setpoint.goals.metrics import ALARM_RATE, ALARMS, Metric, format_number, metric
from setpoint.goals.money import is_money
from setpoint.goals.tallies import PLAIN, Tally, quoted_name

# The values of each column of segments ("region") and kind of period ("per day") in some rows.
Found = Mapping[str, tuple[str, ...]]

# A constraint counts as met within this rounding error of weighted sums.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class Constraint:
    """A constraint on a metric: ``metric >= level``, or ``<=`` where lower is better.

    Attributes
    ----------
    metric : Metric or str
        The metric.
    level : float
        The level that it must reach.
    each : str
        A column of segments, in each of which the constraint must hold; "" for none.
    per : Per or None
        The periods in each of which the constraint must hold.
    """

    metric: Metric
    level: float
    each: str = ""
    per: Per | None = None

    def __post_init__(self) -> None:
        if isinstance(self.metric, str):
            object.__setattr__(self, "metric", metric(self.metric))
        low, high = self.metric.bounds
        level = float(self.level)
        object.__setattr__(self, "level", level)
        if not low <= level <= high:
            percent = (
                f" Did you mean {format_number(level)}%?" if 1 < level <= 100 and high == 1 else ""
            )
            raise GoalError(
                f"'{self}': the level must lie between {format_number(low)} and "
                f"{format_number(high)}, the values that {self.metric} can take.{percent}"
            )
        if self.per is not None and (self.metric != ALARMS or self.each):
            raise GoalError(
                f"'{self}': only the number of alarms can be limited per {self.per.period}, e.g. "
                f"'alarms <= 200 per {self.per.period}'. For rates in each {self.per.period}, "
                "make it a column and write 'for each'."
            )
        if self.each and self.metric.tallies[0].value:
            raise GoalError(f"'{self}' names a segment and 'for each'; keep one of them.")

    def __str__(self) -> str:
        text = f"{self.metric} {self.relation} {format_number(self.level)}"
        if self.per is not None:
            text += f" {self.per}"
        return f"{text} for each {quoted_name(self.each)}" if self.each else text

    @property
    def relation(self) -> str:
        """``>=`` where higher is better, ``<=`` where lower is better."""
        return ">=" if self.metric.direction == "max" else "<="

    @property
    def is_bound(self) -> bool:
        """Whether it names the rows that it is about, so that it can be evaluated."""
        return not self.each and self.per is None

    def bind(self, found: Found) -> tuple[Constraint, ...]:
        """Return the constraints for the segments and periods that were found in rows."""
        if self.each:
            tallies = [Tally(segment=self.each, value=value) for value in found[self.each]]
            return tuple(Constraint(self.metric.within(tally), self.level) for tally in tallies)
        if self.per is not None:
            periods = found[f"per {self.per.period}"]
            return (Constraint(alarms_per(self.per, periods), self.level),)
        return (self,)

    @property
    def size(self) -> float:
        """What shortfalls are relative to: 1, or the level for a metric without bounds."""
        return 1.0 if self.metric.is_bounded else max(abs(self.level), 1e-6)

    # The counts below are those of the metric's own tallies, see Goal.counts_of.

    def shortfall(self, tp: Counts, fp: Counts, P: float, N: float) -> Any:
        """Return the distance of the metric from its level; <= 0 where the constraint is met.

        That of a metric without bounds, such as a cost, is relative to the level.
        """
        missed = self.metric.sign * (self.level - self.metric.value(tp, fp, P, N))
        return missed if self.metric.is_bounded else missed / self.size

    def cleared(self, tp: Counts, fp: Counts, P: float, N: float) -> Any:
        """Return the shortfall times the metric's denominator, which is linear in the counts.

        It has the sign of :meth:`shortfall`. For ``precision >= alpha`` it is
        ``alpha*FP - (1-alpha)*TP``, the paper's phi_con. For a metric that is not a quotient of
        linear functions it is the shortfall times P.
        """
        if self.metric.fraction is None:
            return _total(P) * self.shortfall(tp, fp, P, N)
        top, bottom = self.metric.fraction.parts(tp, fp, P, N)
        return self.metric.sign * (self.level * bottom - top)

    def cleared_slopes(self, tp: Counts, fp: Counts, P: float, N: float) -> tuple[Any, Any]:
        """Return the derivatives of :meth:`cleared` in TP and in FP, by tally if it has several."""
        which = self.metric
        if which.fraction is None:
            at = (tp, fp, P, N)
            scale = -which.sign * _total(P) / self.size
            return scale * which.d_tp(*at), scale * which.d_fp(*at)
        top, bottom = which.fraction.numerator(P, N), which.fraction.denominator(P, N)
        d_tp, d_fp = (self._cleared_slope(bottom[i], top[i]) for i in (1, 2))
        return d_tp, d_fp

    def _cleared_slope(self, bottom: Any, top: Any) -> Any:
        if isinstance(top, tuple):
            return np.array([
                self.metric.sign * (self.level * b - t) for b, t in zip(bottom, top, strict=True)
            ])  # fmt: skip
        return self.metric.sign * (self.level * bottom - top)


def _total(P: Any) -> Any:
    """Return the positives of all tallies together."""
    return P if np.ndim(P) == 0 else P.sum()


@dataclass(frozen=True)
class Goal:
    """An objective metric and any number of constraints.

    Parameters
    ----------
    objective : Metric or str
        The metric to optimise.
    constraints : iterable of Constraint or str
        Levels that metrics must reach.
    stated : Goal or None
        The goal as it was stated, if this one is bound to the segments and periods of some rows.
    found : tuple of (str, tuple of str)
        These segments and periods.

    Examples
    --------
    >>> from setpoint import Goal
    >>> goal = Goal.parse("max recall s.t. precision >= 0.9")
    >>> str(goal)
    'max recall s.t. precision >= 0.9'
    >>> goal.is_monotone
    True
    """

    objective: Metric
    constraints: tuple[Constraint, ...] = ()
    stated: Goal | None = field(default=None, repr=False)
    found: tuple[tuple[str, tuple[str, ...]], ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        from setpoint.goals.language import parse_constraint

        if isinstance(self.objective, str):
            object.__setattr__(self, "objective", metric(self.objective))
        constraints = tuple(
            parse_constraint(c) if isinstance(c, str) else c for c in self.constraints
        )
        object.__setattr__(self, "constraints", constraints)
        seen: set[tuple[str, str, Per | None]] = set()
        for constraint in self.constraints:
            name = constraint.metric.name
            subject = (name, constraint.each, constraint.per)
            if subject in seen:
                per = "" if constraint.per is None else f" {constraint.per}"
                raise GoalError(
                    f"'{constraint}': {name}{per} is constrained twice; keep one level."
                )
            seen.add(subject)

    @classmethod
    def parse(cls, text: str | Goal) -> Goal:
        """Parse a goal, e.g. ``"max recall s.t. precision >= 0.9"``; a Goal is returned as is."""
        from setpoint.goals.language import parse_goal

        return text if isinstance(text, Goal) else parse_goal(text)

    def __str__(self) -> str:
        if self.stated is not None:
            return str(self.stated)
        head = f"{self.objective.direction} {self.objective}"
        if not self.constraints:
            return head
        return f"{head} s.t. {', '.join(map(str, self.constraints))}"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The objective, then the constrained metrics."""
        return (self.objective, *(c.metric for c in self.constraints))

    @property
    def is_monotone(self) -> bool:
        """Whether every metric is monotone, so that the inequality form is exact."""
        return all(m.monotone for m in self.metrics)

    def scorer(self, pos_label: Any = None) -> Any:
        """Return a scorer for scikit-learn: ``cross_val_score(clf, X, y, scoring=goal.scorer())``.

        It scores the decisions of any classifier with ``predict``, as they are: no threshold is
        changed. If they meet the constraints, the score is the objective, negated where lower is
        better, as by ``neg_log_loss``. If not, it is lower than any that meet them, the lower, the
        further the constraints are missed: the worst possible objective, less the sum of the
        shortfalls (for an objective without bounds, such as a cost, times its worst value). Without
        any alarm, precision as an objective has the worst value, 0.

        Parameters
        ----------
        pos_label : optional
            The positive label, or a list of labels that count as positive. May be left out for the
            labels 0 and 1, -1 and 1, or booleans.

        Notes
        -----
        With metadata routing, ``goal.scorer().set_score_request(sample_weight=True)`` weights the
        counts; ``amounts``, ``segments`` and ``times``, which the goal may name, are requested in
        the same way.

        A cross-validation averages the scores of folds, so a fold that misses a constraint lowers
        the mean. A threshold that just meets a floor misses it on about half of all new rows: give
        classifiers a somewhat higher floor, or ``confidence=``, than the goal that scores them.

        Examples
        --------
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.model_selection import GridSearchCV
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from setpoint import Goal
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> goal = Goal.parse("max recall s.t. precision >= 0.9")
        >>> tree = DecisionTreeClassifier(random_state=0)
        >>> grid = GridSearchCV(tree, {"max_depth": [1, 3, 5]}, scoring=goal.scorer())
        >>> grid.fit(X, y).best_params_
        {'max_depth': 3}
        """
        from sklearn.metrics import make_scorer

        from setpoint.goals.scorer import GoalScore

        return make_scorer(GoalScore(self, pos_label), response_method="predict")

    # --- what is counted --------------------------------------------------------------------

    @property
    def amounts(self) -> tuple[str, ...]:
        """The names of the amounts that rows count with."""
        return tuple(dict.fromkeys(t.amount for m in self.metrics for t in m.tallies if t.amount))

    @property
    def segments(self) -> tuple[str, ...]:
        """The columns of segments that it names."""
        named = [t.segment for m in self.metrics for t in m.tallies]
        named += [c.each for c in self.constraints]
        if self.stated is not None:
            named += self.stated.segments
        return tuple(dict.fromkeys(filter(None, named)))

    @property
    def periods(self) -> tuple[str, ...]:
        """The kinds of periods that it names."""
        stated = self if self.stated is None else self.stated
        return tuple(dict.fromkeys(c.per.period for c in stated.constraints if c.per is not None))

    @property
    def is_bound(self) -> bool:
        """Whether it can be evaluated: it does not speak of each segment or period."""
        return all(c.is_bound for c in self.constraints)

    def bind(self, found: Found) -> Goal:
        """Return the goal for the segments and periods that were found in rows."""
        names = [*self.segments, *(f"per {period}" for period in self.periods)]
        if self.stated is not None or (self.is_bound and not self.periods):
            return self
        constraints = tuple(bound for c in self.constraints for bound in c.bind(found))
        objective = for_periods(self.objective, found)
        known = tuple((name, found[name]) for name in names if name in found)
        return Goal(objective, constraints, self, known)

    @cached_property
    def tallies(self) -> tuple[Tally, ...]:
        """The ways in which rows are counted: all alike first."""
        every = [t for m in self.metrics for t in m.tallies]
        return tuple(dict.fromkeys([PLAIN, *(t.rows for t in every if t.amount), *every]))

    @property
    def is_plain(self) -> bool:
        """Whether all its metrics count all rows alike, so that there is one pair of counts."""
        return len(self.tallies) == 1

    @cached_property
    def _places(self) -> dict[tuple[Tally, ...], Any]:
        """Where a metric's counts are among those of all tallies."""
        found: dict[tuple[Tally, ...], Any] = {}
        for which in self.metrics:
            places = [self.tallies.index(tally) for tally in which.tallies]
            found[which.tallies] = places[0] if len(places) == 1 else places
        return found

    def counts_of(
        self, which: Metric, tp: Counts, fp: Counts, P: Any, N: Any
    ) -> tuple[Any, Any, Any, Any]:
        """Return the counts in a metric's own tallies.

        Where the goal has several tallies, they are the first axis of the counts that are given.
        """
        if self.is_plain:
            return tp, fp, P, N
        place = self._places.get(which.tallies)
        if place is None:
            raise GoalError(f"'{self}' does not count the rows of {which}.")
        return tp[place], fp[place], P[place], N[place]

    def plain(self, counts: Any) -> Any:
        """Return the counts of all rows alike."""
        return counts if self.is_plain else counts[0]

    def value_of(self, which: Metric, tp: Counts, fp: Counts, P: Any, N: Any) -> Any:
        """Return the value of one of the goal's metrics, or of another one of the same tallies."""
        return which.value(*self.counts_of(which, tp, fp, P, N))

    def shortfall_of(self, constraint: Constraint, tp: Counts, fp: Counts, P: Any, N: Any) -> Any:
        """Return by how much one of the goal's constraints is missed; <= 0 where it is met."""
        return constraint.shortfall(*self.counts_of(constraint.metric, tp, fp, P, N))

    def gain(self, tp: Counts, fp: Counts, P: Any, N: Any) -> Any:
        """Return the objective, negated where lower is better."""
        return self.objective.sign * self.value_of(self.objective, tp, fp, P, N)

    def violation(self, tp: Counts, fp: Counts, P: Any, N: Any) -> Any:
        """Return the sum of the positive shortfalls, 0 where all constraints are met.

        A shortfall of at most ``TOLERANCE`` counts as none.
        """
        total: Any = 0.0 * self.plain(tp + fp)
        for constraint in self.constraints:
            shortfall = self.shortfall_of(constraint, tp, fp, P, N)
            total = total + shortfall * (shortfall > TOLERANCE)
        return total


def FPOR(alpha: float) -> Goal:  # noqa: N802
    """Fix precision, optimize recall (paper, eq. FPOR)."""
    return _floor_goal("FPOR", "recall", "precision", alpha)


def FROP(alpha: float) -> Goal:  # noqa: N802
    """Fix recall, optimize precision (paper, eq. FROP)."""
    return _floor_goal("FROP", "precision", "recall", alpha)


def OFOS() -> Goal:  # noqa: N802
    """Optimize the F1 score (paper, eq. OFOS)."""
    return Goal(metric("f1"))


def _floor_goal(name: str, objective: str, constrained: str, alpha: float) -> Goal:
    if not (math.isfinite(alpha) and 0 <= alpha <= 1):
        raise GoalError(f"{name}({format_number(alpha)}): alpha must lie between 0 and 1.")
    return Goal(metric(objective), (Constraint(metric(constrained), alpha),))


def only_fractions(goal: Goal) -> bool:
    """Whether all metrics are quotients of plain counts, which kernels can compute."""
    return goal.is_plain and all(metric.fraction is not None for metric in goal.metrics)


def check_plain(goal: Goal, what: str, instead: str) -> None:
    """Raise GoalError for a goal that names columns, in a place that counts all rows alike."""
    if not (goal.is_plain and goal.is_bound):
        names = [repr(name) for name in (*goal.amounts, *goal.segments)]
        names += [f"the times, for each {period}" for period in goal.periods]
        raise GoalError(
            f"the goal '{goal}' names columns of the rows ({', '.join(names)}), which {what} does "
            f"not read; {instead}."
        )


def check_for_new_rows(goal: Goal) -> None:
    """Raise GoalError for a goal that depends on how many rows there are.

    A number of alarms in all rows has a meaning for these rows only; new data may have any number.
    """
    for c in goal.constraints:
        if c.metric.base != ALARMS or c.per is not None:
            continue
        tally = c.metric.tallies[0]
        if tally.segment or c.each or tally.amount:
            rate = Constraint(ALARM_RATE.within(tally), 0.01, c.each)
            instead = f"Write a share, such as '{rate}'"
        elif is_precision_at(goal.objective):
            what = goal.objective
            instead = f"Write '{what} per day', or a share of the rows such as 'precision@1%'"
        else:
            instead = f"Write '{c} per day', or a share of the rows such as 'alarms <= 1%'"
        raise GoalError(
            f"'{c}' does not say in what time; new data may have any number of rows. {instead}."
        )


# --- formatting ----------------------------------------------------------------------------------


def format_metric(
    value: float, constraint: Constraint | None = None, which: Metric | None = None
) -> str:
    """Format a metric with three decimals, or more where rounding would hide a missed level.

    Numbers of alarms are whole where they can be, and money has two to four significant digits,
    or all of its whole ones. Both need ``which`` metric it is, or its constraint.
    """
    if math.isnan(value):
        return "–"
    which = which if constraint is None else constraint.metric
    digits, separator = 3, ""
    if which is not None and is_money(which):
        digits, separator = _money_digits(value), ","
    elif which is not None and is_count(which):
        digits, separator = int(1e-9 < value % 1 < 1 - 1e-9), ","
    if constraint is not None:
        met = _is_met(constraint, value)
        while digits < 9 and _is_met(constraint, round(value, digits)) != met:
            digits += 1
    return f"{value:{separator}.{digits}f}"


def _money_digits(value: float) -> int:
    """Return how many decimals an amount of money has."""
    size = abs(value)
    if size >= 100:
        return 0
    return 2 if size >= 0.1 or size < 1e-7 else 2 - math.floor(math.log10(size))


def describe_value(which: Metric, value: float, constraint: Constraint | None = None) -> str:
    """Return a metric and its value: "recall is 0.812", "12 alarms on the busiest day"."""
    text = format_metric(value, constraint, which)
    if is_count(which):
        return alarms_in_words(which, text)
    return f"{which} is {text}{' per row' if is_money(which) else ''}"


def _is_met(constraint: Constraint, value: float) -> bool:
    return constraint.metric.sign * (constraint.level - value) <= TOLERANCE


def format_requirement(constraint: Constraint) -> str:
    """Format a constraint's relation and level: "≥ 0.9"."""
    return f"{'≥' if constraint.relation == '>=' else '≤'} {format_number(constraint.level)}"
