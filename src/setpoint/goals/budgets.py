"""Budgets: how many alarms may be raised in a period, and metrics of the k highest scores.

``alarms <= 200 per day`` must hold on every day of the rows; ``on 95% of days`` and ``on average``
ask for less. ``recall@200`` is the recall of the goal in which at most 200 alarms are raised, and
``precision@200`` is TP / 200 there: the precision of the 200 highest scores, unless several rows
are equal at the last place, which are then left out together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from setpoint.errors import GoalError
from setpoint.goals.linear_fraction import Counts, is_tensor
from setpoint.goals.metrics import Metric, format_number, from_fraction
from setpoint.goals.periods import PERIODS
from setpoint.goals.tallies import Tally


@dataclass(frozen=True)
class Per:
    """The periods in which a limit must hold.

    Attributes
    ----------
    period : {"hour", "day", "week", "month"}
        Their length.
    share : float or None
        The fraction of periods in which the limit must hold; None: on average.
    """

    period: str
    share: float | None = 1.0

    def __post_init__(self) -> None:
        if self.period not in PERIODS:
            raise GoalError(f"'per {self.period}': a period is one of {', '.join(PERIODS)}.")
        if self.share is not None and not 0 < self.share <= 1:
            raise GoalError(
                f"'on {format_number(100 * self.share)}% of {self.period}s': the percentage must "
                "be above 0 and at most 100."
            )

    def __str__(self) -> str:
        if self.share is None:
            return f"per {self.period} on average"
        share = "" if self.share == 1 else f" on {format_percent(self.share)} of {self.period}s"
        return f"per {self.period}{share}"


def format_percent(fraction: float) -> str:
    """Return a fraction as a percentage without rounding errors: 0.95 is 95%."""
    return f"{format_number(float(f'{100 * fraction:.12g}'))}%"


@cache
def alarms_per(per: Per, periods: tuple[str, ...]) -> Metric:
    """Return the number of alarms in a period, given the periods of the rows.

    It is that of the busiest period or, where some periods may exceed the limit, of the busiest
    one but these; or the average over all periods.
    """
    name = f"alarms {per}"
    if per.share is None:
        count = len(periods)
        found = from_fraction(
            name, lambda P, N: (0, 1, 1), lambda P, N: (count, 0, 0), direction="min",
            monotone=False, bounds=(0.0, math.inf),
        )  # fmt: skip
        return replace(found, made_by=(alarms_per, per, periods))
    over = int((1 - per.share) * len(periods) + 1e-9)
    tallies = tuple(Tally(period=per.period, value=value) for value in periods)

    def value(tp: Counts, fp: Counts, P: Any, N: Any) -> Any:
        alarms = tp + fp
        return alarms if len(tallies) == 1 else _largest(alarms, over)

    def slope(tp: Counts, fp: Counts, P: Any, N: Any) -> Any:
        # Of the average over the periods: which one is the busiest changes from step to step.
        return 1.0 / len(tallies) + 0.0 * (tp + fp)

    return Metric(
        name, value, slope, slope, direction="min", monotone=False, bounds=(0.0, math.inf),
        tallies=tallies, made_by=(alarms_per, per, periods),
    )  # fmt: skip


def is_count(which: Metric) -> bool:
    """Whether a metric is a number of alarms, of all rows or per period."""
    return which.name == "alarms" or which.name.startswith(("alarms ", "alarms["))


def per_of(which: Metric) -> Per | None:
    """Return the periods of a number of alarms per period; None for other metrics."""
    made_by = which.made_by
    if made_by is None or made_by[0] is not alarms_per:
        return None
    per: Per = made_by[1]
    return per


def alarms_in_words(which: Metric, number: str) -> str:
    """Return a number of alarms with what it is about: "12 alarms on the busiest day"."""
    per = per_of(which)
    alarms = f"{number} alarm{'' if number == '1' else 's'}"
    if per is None:
        return f"{alarms}{which.name.removeprefix('alarms')}"
    if per.share == 1:
        return f"{alarms} {in_the_busiest(per.period)}"
    return f"{alarms} {per}"


def on_or_in(period: str) -> str:
    """Return the preposition of a period: on a day, but in an hour, a week or a month."""
    return "on" if period == "day" else "in"


def in_the_busiest(period: str) -> str:
    """Return "on the busiest day", "in the busiest week"."""
    return f"{on_or_in(period)} the busiest {period}"


def _largest(values: Any, k: int) -> Any:
    """Return the (k + 1)-th largest entry along the first axis."""
    if is_tensor(values):
        return values.topk(k + 1, dim=0).values[k]
    return np.partition(values, len(values) - 1 - k, axis=0)[len(values) - 1 - k]


@cache
def precision_at(budget: float, share: bool, per: str = "", periods: int = 1) -> Metric:
    """Return TP over the number of alarms that a budget allows.

    The budget is a number of alarms, in each of several periods if ``per`` is one; or a share of
    the rows.
    """
    shown = format_percent(budget) if share else format_number(budget)

    def allowed(P: float, N: float) -> Any:
        return (budget * (P + N) if share else budget * periods), 0, 0

    name = f"precision@{shown}{f' per {per}' if per else ''}"
    found = from_fraction(name, lambda P, N: (0, 1, 0), allowed)
    return replace(found, made_by=(precision_at, budget, share, per, periods))


def is_precision_at(which: Metric) -> bool:
    """Whether a metric is precision@k."""
    return which.made_by is not None and which.made_by[0] is precision_at


def for_periods(which: Metric, found: Mapping[str, tuple[str, ...]]) -> Metric:
    """Return an objective for the periods of some rows; one that needs none is unchanged."""
    if not is_precision_at(which) or which.made_by is None or not which.made_by[3]:
        return which
    _, budget, share, per, _ = which.made_by
    bound: Metric = precision_at(budget, share, per, len(found[f"per {per}"]))
    return bound
