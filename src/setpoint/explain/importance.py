"""Permutation importance, in the metrics of the goal at the chosen threshold.

A column is shuffled among labelled rows that the model has not seen, and the goal's metrics are
measured again at the same threshold. By how much they are worse is what the model owes to it.
Columns that carry the same information can replace each other, and then each alone looks
unimportant; shuffle such columns together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.listing import Ranking
from setpoint._internal.validation import did_you_mean, listed
from setpoint.errors import SetpointError
from setpoint.goals.metrics import display_name
from setpoint.thresholds.operating_point import jsonable

Floats = NDArray[np.floating]

MAX_ROWS = 20_000
REPEATS = 5


@dataclass(frozen=True)
class Importance:
    """By how much the metrics are worse if columns are shuffled.

    Attributes
    ----------
    columns : tuple of str
        The column, or those that were shuffled together.
    drops : tuple of float
        For each metric of the goal, the mean over the repeats; negative where it is better.
    deviations : tuple of float
        The standard deviations over the repeats.
    """

    columns: tuple[str, ...]
    drops: tuple[float, ...]
    deviations: tuple[float, ...]

    @property
    def name(self) -> str:
        """The columns as text."""
        return " + ".join(self.columns)


class Importances(Ranking[Importance]):
    """Permutation importance of columns, the most important first.

    Attributes
    ----------
    metrics : tuple of str
        The goal's objective, and the metrics that it constrains.
    point : OperatingPoint or BandPoint
        On the rows, before anything is shuffled.
    rows, of_rows : int
        How many rows were used, of how many.
    repeats : int
        How often each column was shuffled.
    """

    _contents = "columns, the most important first"

    def __init__(
        self,
        found: Sequence[Importance],
        metrics: Sequence[str],
        point: Any,
        rows: int,
        of_rows: int,
        repeats: int,
    ) -> None:
        drops = np.array([one.drops for one in found]).reshape(len(found), len(metrics))
        drops = np.where(np.isfinite(drops), drops, 0.0)
        # Metrics of different scales, such as money and rates, each count relative to the largest.
        largest = np.abs(drops).max(axis=0, initial=0.0)
        most = (drops / np.where(largest > 0, largest, 1.0)).max(axis=1, initial=-np.inf)
        self._found = tuple(found[i] for i in np.argsort(-most, kind="stable"))
        self.metrics, self.point = tuple(metrics), point
        self.rows, self.of_rows, self.repeats = rows, of_rows, repeats

    @property
    def meaning(self) -> str:
        """What was measured, in a sentence or two."""
        sample = "" if self.rows == self.of_rows else f", a sample of {self.of_rows:,}"
        times = "once" if self.repeats == 1 else f"{self.repeats} times"
        return (
            f"How much worse the goal's metrics are at the same threshold if a column is shuffled, "
            f"on {self.point.on} ({self.rows:,} rows{sample}): mean and standard deviation of "
            f"shuffling {times}. Above 0: the model needs the column."
        )

    def table(self, most: int | None = None) -> list[list[str]]:
        """Return the importances as rows of text, the header first; ``most``: only so many."""
        rows = [["column", *(f"worse {display_name(name)}" for name in self.metrics)]]
        for one in self[: len(self) if most is None else most]:
            pairs = zip(one.drops, one.deviations, strict=True)
            rows.append([one.name, *(drop_text(*pair) for pair in pairs)])
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON; numbers that are not finite become None."""
        return {
            "on": self.point.on,
            "rows": self.rows,
            "of_rows": self.of_rows,
            "repeats": self.repeats,
            "columns": [
                {
                    "columns": list(one.columns),
                    "worse": _by_metric(self.metrics, one.drops),
                    "standard_deviation": _by_metric(self.metrics, one.deviations),
                }
                for one in self
            ],
        }


def _by_metric(metrics: Sequence[str], values: Sequence[float]) -> dict[str, Any]:
    return {name: jsonable(value) for name, value in zip(metrics, values, strict=True)}


def drop_text(drop: float, deviation: float) -> str:
    """Write a drop of a metric and its deviation."""
    if not np.isfinite(drop):
        return "–"
    digits = 3 if abs(drop) < 10 else 1  # of money there may be much
    value = f"{drop:+,.{digits}f}" if round(drop, digits) else f"{0:.{digits}f}"
    return f"{value} ± {deviation:,.{digits}f}".replace("-", "−")


# --- measuring -----------------------------------------------------------------------------------


class Sample(NamedTuple):
    """Some rows, and their weights; None if all count alike."""

    rows: NDArray[np.intp]
    weight: Floats | None

    def donors(self, rng: np.random.Generator) -> NDArray[np.intp]:
        """Return, for each row, one whose values it takes: by chance, and as often as it counts."""
        n = len(self.rows)
        if self.weight is None or np.ptp(self.weight) == 0:
            return rng.permutation(n)
        return rng.choice(n, n, p=self.weight / self.weight.sum())


def sample_rows(y: NDArray[np.bool_], weight: Floats | None, most: int | None, seed: int) -> Sample:
    """Return at most so many rows: all positives if they are few, and weights that make up for it.

    Examples
    --------
    >>> y = np.arange(1000) < 10
    >>> sample = sample_rows(y, None, 100, seed=0)
    >>> int(y[sample.rows].sum()), len(sample.rows), float(sample.weight.sum())
    (10, 100, 1000.0)
    """
    if weight is not None:
        weight = np.asarray(weight, dtype=np.float64)
    every = np.arange(len(y)) if weight is None else np.flatnonzero(weight > 0)
    if most is None or len(every) <= most:
        return Sample(every, None if weight is None else weight[every])
    rng = np.random.default_rng(seed)
    classes = [every[y[every]], every[~y[every]]]
    fewer = min(len(c) for c in classes)
    sizes = [most - min(fewer, most // 2), min(fewer, most // 2)]
    if len(classes[0]) == fewer:
        sizes.reverse()
    chosen, weights = [], []
    for rows, size in zip(classes, sizes, strict=True):
        kept = rng.choice(rows, size, replace=False) if size < len(rows) else rows
        own = np.ones(len(kept)) if weight is None else weight[kept]
        total = float(len(rows)) if weight is None else float(weight[rows].sum())
        chosen.append(kept)
        weights.append(own * (total / own.sum()) if len(own) else own)
    rows = np.concatenate(chosen)
    order = np.argsort(rows)
    return Sample(rows[order], np.concatenate(weights)[order])


def check_rows(y: NDArray[np.bool_], max_rows: int | None) -> None:
    """Raise SetpointError unless importance can be measured on rows."""
    if max_rows is not None and max_rows < 2:
        raise SetpointError(f"max_rows must be at least 2, not {max_rows}.")
    for present, name in ((y.any(), "positive"), (not y.all(), "negative")):
        if not present:
            raise SetpointError(
                f"there are no {name} rows; importance is measured on labelled rows of both "
                "classes."
            )


def column_groups(
    names: Sequence[str], columns: Sequence[str] | None, together: Sequence[Sequence[str]]
) -> list[tuple[str, ...]]:
    """Return the columns to shuffle, those of one group together; ``columns``: only these."""
    if isinstance(columns, str) or any(isinstance(group, str) for group in together):
        raise SetpointError("columns is a list of names, and together a list of such lists.")
    groups = [tuple(dict.fromkeys(group)) for group in together if len(group)]
    taken = [name for group in groups for name in group]
    for name in [*taken, *(columns or ())]:
        if name not in names:
            raise SetpointError(
                f"there is no column {name!r} to shuffle; the model has {listed(names)}."
                f"{did_you_mean(name, list(names))}"
            )
    if twice := [name for name in dict.fromkeys(taken) if taken.count(name) > 1]:
        raise SetpointError(f"the column {twice[0]!r} is in two groups of columns.")
    singles = names if columns is None else list(dict.fromkeys(columns))
    return [*groups, *((name,) for name in singles if name not in taken)]


def measure_importance(
    groups: Sequence[tuple[str, ...]],
    sample: Sample,
    score: Callable[[tuple[str, ...], NDArray[np.intp] | None], Floats],
    judge: Callable[[Floats], Any],
    of_rows: int,
    *,
    repeats: int = REPEATS,
    seed: int = 0,
    progress: Callable[[int, int], object] | None = None,
) -> Importances:
    """Return the importance of columns.

    Parameters
    ----------
    groups : sequence of tuple of str
        The columns, those that are shuffled together in one tuple.
    sample : Sample
        The rows.
    score : callable
        Returns the scores of the sample's rows if these columns have the values of other rows,
        given by their positions in the sample; with None as they are.
    judge : callable
        Returns the operating point of such scores.
    of_rows : int
        How many rows there are besides the sample.
    repeats : int
        How often each column is shuffled.
    seed : int
        Of the shuffling. The result of a column does not depend on the other columns.
    progress : callable, optional
        Called as ``progress(columns done, all columns)``.
    """
    if repeats < 1:
        raise SetpointError(f"repeats must be at least 1, not {repeats}.")
    before = score((), None)
    point = judge(before)
    values = goal_values(point)
    found = []
    for place, group in enumerate(groups):
        own_seed = crc32("\0".join(group).encode("utf-8", "surrogatepass"))
        drops = np.zeros((repeats, len(values)))
        for repeat in range(repeats):
            rng = np.random.default_rng([seed, own_seed, repeat])
            after = score(group, sample.donors(rng))
            if repeat == 0 and np.array_equal(after, before):
                break  # the model does not use these columns
            then = goal_values(judge(after))
            drops[repeat] = [
                sign * (value - then[name][0]) for name, (value, sign) in values.items()
            ]
        deviations = drops.std(axis=0, ddof=1) if repeats > 1 else np.zeros(len(values))
        found.append(
            Importance(group, tuple(drops.mean(axis=0).tolist()), tuple(deviations.tolist()))
        )
        if progress is not None:
            progress(place + 1, len(groups))
    return Importances(found, list(values), point, len(sample.rows), of_rows, repeats)


def goal_values(point: Any) -> dict[str, tuple[float, float]]:
    """Return objective and constrained metrics of a point, each with its sign: 1 if more is better.

    Of a constraint for each segment it is the worst of the segments.
    """
    goal = point.goal
    stated = getattr(goal, "stated", None) or goal
    objective = goal.objective
    found = {str(stated.objective): (point.value(objective.name), float(objective.sign))}
    bound = dict(getattr(goal, "found", ()))
    for constraint in stated.constraints:
        own = (constraint,) if stated is goal else constraint.bind(bound)
        name = str(constraint.metric)
        name += f" for each {constraint.each}" if getattr(constraint, "each", "") else ""
        if not own:  # no segment was large enough
            continue
        values = [point.value(c.metric.name) for c in own]
        sign = float(constraint.metric.sign)
        found[name] = (min(values) if sign > 0 else max(values), sign)
    return found
