"""Monitoring of several guarantees, each about draws of its own.

A review band has guarantees on its alarms, its cleared rows and its reviews;
``precision >= 0.9 for each region`` has one on the alarms of each region;
``alarms <= 200 per day on 95% of days`` is about days; and a mean cost is one of rows. Each is
monitored on its own draws, by :mod:`setpoint.certificates.monitor` or
:mod:`setpoint.certificates.mean_monitor`, and they divide the level equally.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setpoint._internal.notebook import NotebookSummary, Summary
from setpoint._internal.validation import check_fraction
from setpoint.certificates.mean_monitor import Costs, MeanVerdict, check_mean
from setpoint.certificates.monitor import Verdict, as_sentence, one_look_in_words, updated
from setpoint.errors import SetpointError
from setpoint.goals.goal import Constraint, Goal, format_metric, format_requirement
from setpoint.goals.metrics import format_number
from setpoint.thresholds.checks import check_scores
from setpoint.thresholds.operating_point import OperatingPoint, jsonable


class Monitored(NamedTuple):
    """A guarantee, and how it is monitored.

    Attributes
    ----------
    guarantee : Constraint or BandConstraint
        The guarantee of the certificate.
    name : str
        What its metric is called in messages.
    plain : Constraint
        The same as a guarantee on the fraction of some draws, or on a mean.
    threshold : float
        The threshold that decides.
    units : str
        What the rows are that it is about: cases, or days.
    span : (float, float), optional
        The least and the largest cost of a row, for a mean.
    """

    guarantee: Any
    name: str
    plain: Constraint
    threshold: float
    units: str = "cases"
    span: tuple[float, float] | None = None


class Counted(NamedTuple):
    """Counts of later rows; of those that are not labelled, e.g. days, as if all were negative."""

    tp: float
    fp: float
    fn: float
    tn: float

    @classmethod
    def of(cls, positive: NDArray[np.bool_], alarm: NDArray[np.bool_]) -> Counted:
        """Count rows by their labels and alarms."""
        counts = (positive & alarm, ~positive & alarm, positive & ~alarm, ~positive & ~alarm)
        return cls(*(float(count.sum()) for count in counts))


def later_scores(
    y: ArrayLike, scores: ArrayLike, pos_label: Any
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return the labels of later rows as booleans, and their scores; there may be none."""
    if np.size(np.asarray(y)) or np.size(np.asarray(scores)):
        positive, found, _ = check_scores(y, scores, None, pos_label)
        return positive, found.astype(np.float64)
    return np.empty(0, dtype=bool), np.empty(0)


@dataclass(frozen=True)
class JointVerdict(NotebookSummary):
    """The result of a check of several guarantees, each about draws of its own.

    Attributes
    ----------
    monitored : tuple of Monitored
        The guarantees of the certificate, and how they are monitored.
    parts : tuple of Verdict or MeanVerdict
        The verdict on each of them.
    level : float
        The probability of a false alarm, over all checks and guarantees together.
    last_periods : tuple of (str, str)
        The last day, or other period, of the rows so far, for each kind that the goal names.
    """

    monitored: tuple[Monitored, ...]
    parts: tuple[Verdict | MeanVerdict, ...]
    level: float
    last_periods: tuple[tuple[str, str], ...] = ()

    @property
    def guarantees(self) -> tuple[Any, ...]:
        """The guarantees of the certificate."""
        return tuple(each.guarantee for each in self.monitored)

    @property
    def broken(self) -> bool:
        """Whether this check or an earlier one contradicts a guarantee."""
        return any(part.broken for part in self.parts)

    @property
    def checks(self) -> int:
        """The number of checks so far."""
        return self.parts[0].checks

    @property
    def pending(self) -> int:
        """Cases of this check that were left out because their labels are not final."""
        return self.parts[0].pending

    @property
    def evidence(self) -> tuple[float, ...]:
        """The largest evidence so far against each guarantee."""
        return tuple(float(np.ravel(part.evidence)[0]) for part in self.parts)

    @property
    def contradicted(self) -> tuple[Any, ...]:
        """The guarantees that this check or an earlier one contradicts."""
        pairs = zip(self.guarantees, self.parts, strict=True)
        return tuple(guarantee for guarantee, part in pairs if part.broken)

    def part_of(self, guarantee: Any) -> tuple[Monitored, Verdict | MeanVerdict]:
        """Return how a guarantee is monitored, and the verdict on it."""
        at = self.guarantees.index(guarantee)
        return self.monitored[at], self.parts[at]

    def is_missed(self, guarantee: Any) -> bool:
        """Return whether the rows since the certificate miss a level."""
        return _is_missed(*self.part_of(guarantee))

    def draws(self, guarantee: Any) -> tuple[int, int]:
        """Return the successes and trials of a guarantee since the certificate.

        Those of a mean are its rows.
        """
        each, part = self.part_of(guarantee)
        return part.draws(each.plain) if isinstance(part, Verdict) else (part.rows, part.rows)

    @property
    def message(self) -> str:
        """The result as a sentence."""
        pairs = list(zip(self.monitored, self.parts, strict=True))
        found = "; ".join(_describe(each, part) for each, part in pairs)
        missed = any(_is_missed(each, part) for each, part in pairs)
        return as_sentence(found, self.broken, missed, self.pending, self.one_look)

    @property
    def p_values(self) -> tuple[float | None, ...]:
        """Of each guarantee, the p-value of the rows of this check alone; see :class:`Verdict`.

        That of a mean is an upper bound on it.
        """
        return tuple(
            part.p_value if isinstance(part, MeanVerdict) else next(iter(part.p_values), None)
            for part in self.parts
        )

    @property
    def one_look(self) -> str:
        """What the rows of this check say by themselves, as a sentence; empty without draws."""
        names = [each.name for each in self.monitored]
        relation = "<=" if any(isinstance(part, MeanVerdict) for part in self.parts) else "="
        level = self.level / len(self.parts)
        return one_look_in_words(names, self.p_values, level, self.broken, relation)

    def __str__(self) -> str:
        return self.message

    def _summary(self) -> Summary:
        rows = [["metric", "guaranteed", "observed since", "draws"]]
        for each, part in zip(self.monitored, self.parts, strict=True):
            if isinstance(part, MeanVerdict):
                value, draws = part.value, f"{part.rows:,}"
                observed = format_metric(value, which=each.plain.metric) if part.rows else "–"
            else:
                successes, trials = part.draws(each.plain)
                observed = f"{successes / trials:.3f}" if trials else "–"
                draws = f"{successes:,} of {trials:,}"
            rows.append([each.name, format_requirement(each.plain), observed, draws])
        checks = "1 check" if self.checks == 1 else f"{self.checks:,} checks"
        caption = (
            f"{checks}; chance of a false alarm at most {format_number(self.level)} over all checks"
        )
        return Summary(self.message, not self.broken, caption, [rows])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; numbers that are not finite are None."""
        return {
            "broken": self.broken,
            "guarantees": list(map(str, self.guarantees)),
            "evidence": [jsonable(e) for e in self.evidence],
            "level": self.level,
            "checks": self.checks,
            "pending": self.pending,
            "message": self.message,
            "p_values": list(self.p_values),
            "last_periods": dict(self.last_periods),
            "parts": [part.to_dict() for part in self.parts],
        }


def _describe(each: Monitored, part: Verdict | MeanVerdict) -> str:
    if isinstance(part, MeanVerdict):
        return part.describe(each.name, each.units)
    return part.describe(each.plain, part.evidence[0], each.name, each.units)


def _is_missed(each: Monitored, part: Verdict | MeanVerdict) -> bool:
    return part.is_missed if isinstance(part, MeanVerdict) else part.is_missed(each.plain)


def check_jointly(
    monitored: tuple[Monitored, ...],
    later: tuple[Counted | Costs, ...],
    after: JointVerdict | None,
    level: float,
    identity: tuple[Any, ...],
    pending: int,
    last_periods: tuple[tuple[str, str], ...] = (),
) -> JointVerdict:
    """Return the verdict after later rows, given the counts or costs for each guarantee."""
    level = check_fraction(level, "level")
    if after is not None and after.guarantees != tuple(each.guarantee for each in monitored):
        raise SetpointError("the verdict in after= belongs to another certificate.")
    if after is not None and after.level != level:
        raise SetpointError(f"earlier checks had the level {after.level}, not {level}.")
    share = level / len(monitored)
    parts: list[Verdict | MeanVerdict] = []
    for i, (each, found) in enumerate(zip(monitored, later, strict=True)):
        own = (*identity, i)
        before: Any = None if after is None else after.parts[i]
        if isinstance(found, Counted):
            goal = Goal(each.plain.metric, (each.plain,))
            point = OperatingPoint(each.threshold, *found, goal, "later data")
            parts.append(updated((each.plain,), point, before, share, own, pending))
        else:
            assert each.span is not None
            parts.append(check_mean(each.plain, each.span, found, before, share, own, pending))
    known = dict(() if after is None else after.last_periods) | dict(last_periods)
    return JointVerdict(monitored, tuple(parts), level, tuple(known.items()))
