"""Results by segment and by period: what a goal "for each region" or "per day" is about."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setpoint.goals.columns import NO_SEGMENT, OTHER
from setpoint.goals.goal import TOLERANCE, Constraint
from setpoint.goals.metrics import Metric
from setpoint.goals.periods import beginning_of
from setpoint.goals.tallies import Tally
from setpoint.report.content import Report
from setpoint.report.fractions import interval_of
from setpoint.report.wording import counted, in_words

MOST_DRAWN = 30  # segments in a table and a picture
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip


# --- by segment ----------------------------------------------------------------------------------


class Measured(NamedTuple):
    """A constrained metric in a segment.

    Attributes
    ----------
    constraint : Constraint
        Bound to the segment.
    value : float
        The metric there.
    low, high : float or None
        Its 95 % interval, if it is a fraction of rows.
    met : bool
        Whether the level is reached.
    """

    constraint: Constraint
    value: float
    low: float | None
    high: float | None
    met: bool


@dataclass(frozen=True)
class Segment:
    """The counts of a segment's rows, and its constrained metrics, by the metric's plain name."""

    name: str
    cases: int
    positives: int
    caught: int
    alarms: int
    measured: dict[str, Measured]

    @property
    def met(self) -> bool | None:
        """Whether it meets all levels that it is held to; None if it is held to none."""
        return all(found.met for found in self.measured.values()) if self.measured else None


class BySegment:
    """The results in each segment of a column, the worst first.

    Attributes
    ----------
    column : str
        The column of segments.
    segments : list of Segment
        Those with rows; segments that are held to no level come last.
    unjudged : Segment or None
        The rows of no segment that is judged, together.
    """

    def __init__(self, report: Report, column: str) -> None:
        self.report, self.column = report, column
        codes = report.columns.segments[column]
        y, alarm = report.rows.y, report.alarm
        cases, positives, caught, alarms = (codes.counts(of) for of in (None, y, y & alarm, alarm))
        bound = _by_value(report, column)
        found = [
            Segment(
                value,
                cases[value],
                positives[value],
                caught[value],
                alarms[value],
                bound.get(value, {}),
            )
            for value in codes.values
            if cases[value]
        ]
        self.unjudged = next((s for s in found if s.name == NO_SEGMENT), None)
        self.segments = sorted((s for s in found if s is not self.unjudged), key=_worst_first)

    @cached_property
    def metrics(self) -> dict[str, Metric]:
        """The constrained metrics, by their plain names."""
        return {
            name: m.constraint.metric.base.within(
                Tally(amount=m.constraint.metric.tallies[0].amount)
            )
            for segment in self.segments
            for name, m in segment.measured.items()
        }

    @property
    def judged(self) -> list[Segment]:
        """The segments that are held to a level."""
        return [segment for segment in self.segments if segment.measured]

    @property
    def missed(self) -> list[Segment]:
        """Those that miss a level."""
        return [segment for segment in self.judged if not segment.met]

    @property
    def drawn(self) -> list[Segment]:
        """The segments that a table and a picture show."""
        return self.segments[:MOST_DRAWN]

    def measured(self, name: str) -> list[tuple[str, Measured]]:
        """Return a metric in each judged segment, the worst first."""
        every = [(s.name, s.measured[name]) for s in self.judged if name in s.measured]
        return sorted(every, key=lambda found: -_shortfall(found[1]))

    @property
    def remarks(self) -> list[str]:
        """Sentences about segments that the table does not show one by one."""
        found, terms = [], self.report.terms
        where = f"segments of {in_words(self.column)}"
        rest = self.segments[MOST_DRAWN:]
        if rest:
            missed = sum(s.met is False for s in rest)
            judged = sum(s.met is not None for s in rest)
            verdict = {0: "all meet the goal", judged: "none meets the goal"}.get(
                missed, f"{judged - missed:,} of them meet the goal, {missed:,} do not"
            )
            verdict = verdict if judged else "the goal holds them to nothing"
            found.append(
                f"These are the worst {MOST_DRAWN} of {len(self.segments):,} {where}. Of the other "
                f"{len(rest):,} ({sum(s.cases for s in rest):,} cases), {verdict}."
            )
        if any(s.name == OTHER for s in self.segments):
            found.append(f"“{OTHER}” are all smaller {where} together.")
        if (none := self.unjudged) is not None:
            positives = counted(none.positives, terms.one, terms.many)
            found.append(
                f"{counted(none.cases, 'case')}, including {positives}, "
                f"{'is' if none.cases == 1 else 'are'} in {where} that are too small to be judged; "
                "the goal does not apply there."
            )
        return found


def _by_value(report: Report, column: str) -> dict[str, dict[str, Measured]]:
    """Return the constrained metrics of each segment, by its value and the metric's plain name."""
    point = report.point
    found: dict[str, dict[str, Measured]] = {}
    for constraint in point.goal.constraints:
        which, tally = constraint.metric, constraint.metric.tallies[0]
        if tally.segment != column:
            continue
        counts = point.goal.counts_of(which, *point.goal_counts)
        low, high = (None, None) if tally.amount else interval_of(which.base, counts)
        with np.errstate(all="ignore"):
            value = float(which.value(*counts))
        met = not constraint.shortfall(*counts) > TOLERANCE
        measured = Measured(constraint, value, low, high, met)
        found.setdefault(tally.value, {})[plain_name(which)] = measured
    return found


def plain_name(which: Metric) -> str:
    """Return the name of a metric without its segment."""
    amount = which.tallies[0].amount
    return f"{which.base.name}[{amount}]" if amount else which.base.name


def _shortfall(found: Measured) -> float:
    constraint = found.constraint
    missed = constraint.metric.sign * (constraint.level - found.value)
    return -math.inf if math.isnan(missed) else missed


def _worst_first(segment: Segment) -> tuple[bool, float, str]:
    worst = max((_shortfall(found) for found in segment.measured.values()), default=-math.inf)
    return not segment.measured, -worst, segment.name


def by_segment(report: Report) -> list[BySegment]:
    """Return the results by each column of segments that the goal names."""
    return [BySegment(report, column) for column in report.goal.segments]


# --- by period -----------------------------------------------------------------------------------


class ByPeriod:
    """The alarms of each period, in order of time.

    Attributes
    ----------
    constraint : Constraint
        The budget, as it was stated.
    names : list of str
        When the periods that have rows begin, as ISO texts or numbers.
    places : ndarray of int
        Their numbers on a time axis, on which periods without rows leave a gap.
    alarms, real : ndarray of int
        The alarms of each period, and how many of them are real.
    dated : bool
        Whether periods are dates; otherwise they are numbers.
    """

    def __init__(self, report: Report, constraint: Constraint) -> None:
        assert constraint.per is not None
        self.constraint, self.per = constraint, constraint.per
        codes = report.columns.periods[self.period]
        begins = [beginning_of(value) for value in codes.values]
        places, self.dated = _places(begins, self.period)
        counts = [codes.counts(of) for of in (None, report.alarm, report.alarm & report.rows.y)]
        present = [i for i, value in enumerate(codes.values) if counts[0][value]]
        order = sorted(present, key=lambda i: int(places[i]))
        self.names = [begins[i] for i in order]
        self.places = places[order]
        self.alarms, self.real = (
            np.array([count[codes.values[i]] for i in order], dtype=np.int64)
            for count in counts[1:]
        )

    def __len__(self) -> int:
        return len(self.names)

    @property
    def period(self) -> str:
        """The kind of period, e.g. "day"."""
        return self.per.period

    @property
    def level(self) -> float:
        """The number of alarms that is allowed."""
        return self.constraint.level

    @property
    def over(self) -> NDArray[np.bool_]:
        """The periods with more alarms than are allowed."""
        return self.alarms > self.level + TOLERANCE

    @property
    def busiest(self) -> str:
        """The period with most alarms, the first of several."""
        return self.describe(int(self.alarms.argmax()))

    def describe(self, index: int) -> str:
        """Return a period for a sentence, e.g. "16 March 2024"."""
        name = self.names[index]
        if not self.dated:
            return f"{self.period} {int(name):,}"
        date, _, hour = name.partition("T")
        year, month, *day = date.split("-")
        text = " ".join([*(str(int(d)) for d in day), MONTHS[int(month) - 1], year])
        if self.period == "week":
            return f"the week of {text}"
        return f"{text}, {hour}:00" if hour else text

    @property
    def sentence(self) -> str:
        """How many periods exceed the budget, which one is the busiest, and the average."""
        n, over, most = len(self), int(self.over.sum()), int(self.alarms.max())
        allowed = counted(self.level, "alarm")
        if n == 1:
            return (
                f"The only {self.period}, {self.busiest}, had {counted(most, 'alarm')}, "
                f"{int(self.real[0]):,} of them real; {allowed} may be raised."
            )
        which = f"{over:,} of {n:,}" if over else f"None of the {n:,}"
        mean, real = float(self.alarms.mean()), float(self.real.mean())
        return (
            f"{which} {self.period}s had more than {allowed}; the busiest, {self.busiest}, had "
            f"{most:,}. On average there were {mean:,.1f} alarms per {self.period}, {real:,.1f} of "
            "them real."
        )

    def busiest_first(self, most: int = 10) -> list[tuple[str, int, int, bool]]:
        """Return name, alarms, real alarms and whether it is over budget, of the busiest."""
        order = np.argsort(-self.alarms, kind="stable")[:most]
        return [
            (self.describe(int(i)), int(self.alarms[i]), int(self.real[i]), bool(self.over[i]))
            for i in order
        ]


def by_period(report: Report) -> list[ByPeriod]:
    """Return the alarms by each kind of period for which the goal has a budget."""
    return [ByPeriod(report, c) for c in report.goal.constraints if c.per is not None]


_UNITS: dict[str, Any] = {"hour": "h", "day": "D", "week": "D", "month": "M"}


def _places(begins: list[str], period: str) -> tuple[NDArray[np.int64], bool]:
    """Return the place of each period on a time axis, and whether periods are dates."""
    try:
        return np.array(begins, dtype=np.int64), False
    except ValueError:
        dates = np.array(begins, dtype=f"datetime64[{_UNITS[period]}]")
        places = dates.astype(np.int64)
        return places // 7 if period == "week" else places, True
