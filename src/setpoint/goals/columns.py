"""The columns that a goal names: amounts, segments and times of the rows.

They say what a row counts in each of the goal's tallies, and which segments and periods there are.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.validation import check_number, did_you_mean, listed
from setpoint.errors import SetpointError
from setpoint.goals.goal import Goal
from setpoint.goals.metrics import Metric
from setpoint.goals.periods import period_codes
from setpoint.goals.tallies import PLAIN, Tally

Floats = NDArray[np.floating]
Rows = Any  # a mask, indices or a slice
OTHER = "(other)"  # small segments together
NO_SEGMENT = "(none)"  # rows of no segment that is judged
FEWEST = 10  # rows of each class in a segment that is judged by itself
_LARGEST = 1e100  # amounts up to this can be summed
_NOT_NUMBERS = {"M": "dates", "m": "durations", "b": "booleans", "c": "complex numbers"}


@dataclass(frozen=True)
class Codes:
    """A column of texts: the place of each row's text among the distinct ones.

    These are in the order of the alphabet; periods are in the order of time. ``partial`` are
    periods that the rows cover only in part.
    """

    codes: NDArray[np.intp]
    values: tuple[str, ...]
    partial: frozenset[str] = frozenset()

    @classmethod
    def of(cls, texts: NDArray[np.str_]) -> Codes:
        """Encode a column."""
        values, codes = np.unique(texts, return_inverse=True)
        return cls(codes.reshape(-1), tuple(values.tolist()))

    def __getitem__(self, rows: Rows) -> Codes:
        return replace(self, codes=self.codes[rows])

    def __len__(self) -> int:
        return len(self.codes)

    def followed_by(self, other: Codes) -> Codes:
        """Return this column and another one after it."""
        if self.values == other.values:
            return replace(self, codes=np.concatenate([self.codes, other.codes]))
        values = tuple(dict.fromkeys([*self.values, *other.values]))
        place = {value: i for i, value in enumerate(values)}
        others = np.array([place[value] for value in other.values], dtype=np.intp)
        codes = np.concatenate([self.codes, others[other.codes]])
        return Codes(codes, values, self.partial | other.partial)

    @property
    def texts(self) -> NDArray[np.str_]:
        """The text of each row."""
        return np.asarray(np.array(self.values)[self.codes])

    def counts(self, rows: NDArray[np.bool_] | None = None) -> dict[str, int]:
        """Return how often each text occurs, in some or all rows."""
        codes = self.codes if rows is None else self.codes[rows]
        found = np.bincount(codes, minlength=len(self.values))
        return dict(zip(self.values, found.tolist(), strict=True))

    def keeping(self, values: tuple[str, ...]) -> Codes:
        """Return the column in which every other text is ``OTHER``, or else ``NO_SEGMENT``."""
        rest = OTHER if OTHER in values else NO_SEGMENT
        texts = np.array([value if value in values else rest for value in self.values], dtype=str)
        return Codes.of(texts[self.codes])

    def members(self, value: str, rows: Rows = slice(None)) -> NDArray[np.bool_]:
        """Return which rows hold a text."""
        codes = self.codes[rows]
        if value not in self.values:
            return np.zeros(len(codes), dtype=bool)
        return np.asarray(codes == self.values.index(value))


@dataclass(frozen=True)
class GoalColumns:
    """Amounts, segments and periods of rows, by name.

    Attributes
    ----------
    amounts : mapping of str to ndarray
        Numbers >= 0.
    segments : mapping of str to Codes
        The segment of each row, in each column of segments.
    periods : mapping of str to Codes
        The period of each row, for each kind of period.
    """

    amounts: Mapping[str, Floats] = field(default_factory=dict)
    segments: Mapping[str, Codes] = field(default_factory=dict)
    periods: Mapping[str, Codes] = field(default_factory=dict)

    @classmethod
    def of(
        cls, goal: Goal, n: int, amounts: Any = None, segments: Any = None, times: Any = None
    ) -> GoalColumns:
        """Validate and return the columns that a goal names, for n rows.

        Raises SetpointError if one is missing or its values are invalid.
        """
        return cls(
            {
                name: _check_amounts(name, _find(amounts, "amounts", name, goal), n)
                for name in goal.amounts
            },
            {
                name: Codes.of(segment_texts(name, _find(segments, "segments", name, goal), n))
                for name in goal.segments
            },
            {period: _periods(times, period, n, goal) for period in goal.periods},
        )

    def __bool__(self) -> bool:
        return bool(self.amounts or self.segments or self.periods)

    def take(self, rows: Rows) -> GoalColumns:
        """Return the columns of some rows."""
        return GoalColumns(
            {name: column[rows] for name, column in self.amounts.items()},
            {name: column[rows] for name, column in self.segments.items()},
            {name: column[rows] for name, column in self.periods.items()},
        )

    def followed_by(self, other: GoalColumns) -> GoalColumns:
        """Return the columns of these rows and of others after them."""
        return GoalColumns(
            {n: np.concatenate([c, other.amounts[n]]) for n, c in self.amounts.items()},
            {n: c.followed_by(other.segments[n]) for n, c in self.segments.items()},
            {n: c.followed_by(other.periods[n]) for n, c in self.periods.items()},
        )

    def bind(self, goal: Goal, positive: NDArray[np.bool_]) -> Goal:
        """Return the goal for the segments and periods of these rows.

        A segment in which a constrained metric is undefined, such as recall without positives, is
        left out.
        """
        if not self:  # there is nothing to find, and a goal that is bound already stays so
            return goal
        goal = goal if goal.stated is None else goal.stated
        found = {f"per {name}": present_values(codes) for name, codes in self.periods.items()}
        for name, codes in self.segments.items():
            P, N = codes.counts(positive), codes.counts(~positive)
            own = [c.metric for c in goal.constraints if c.each == name]
            found[name] = tuple(
                value for value in present_values(codes) if _all_defined(own, P[value], N[value])
            )
        return goal.bind(found)

    def check_values(self, goal: Goal) -> None:
        """Raise SetpointError if a goal names a segment without rows, as ``[region=zzz]`` may."""
        for which in (goal if goal.stated is None else goal.stated).metrics:
            for tally in which.tallies:
                codes = self.segments.get(tally.segment)
                values = () if codes is None else present_values(codes)
                # Where small segments are pooled, their own names are gone.
                if codes is None or tally.value in values or OTHER in values:
                    continue
                similar = did_you_mean(tally.value, list(values)) if len(values) > 4 else ""
                raise SetpointError(
                    f"{which}: there is no {tally.segment} {tally.value!r} in these rows; there "
                    f"{'is' if len(values) == 1 else 'are'} {listed(values, 4)}.{similar}"
                )

    def keeping(self, segments: Mapping[str, tuple[str, ...]]) -> GoalColumns:
        """Return the columns in which only these segments, by column, have their own names."""
        kept = {
            name: codes.keeping(segments[name]) if name in segments else codes
            for name, codes in self.segments.items()
        }
        return replace(self, segments=kept)

    def large_segments(
        self,
        goal: Goal,
        positive: NDArray[np.bool_] | None,
        fewest: int = FEWEST,
        stacklevel: int = 2,
    ) -> dict[str, tuple[str, ...]]:
        """Return the segments in which a goal's constraints can be judged, by column.

        A segment needs ``fewest`` positives and as many negatives; without labels, twice as many
        rows. Smaller ones are pooled as ``OTHER``; if they are too few together, a warning says
        that they are held to nothing.
        """
        found = {}
        least = f"{fewest} of each"
        if positive is None:
            fewest *= 2
            least = str(fewest)
        for name in dict.fromkeys(c.each for c in goal.constraints if c.each):
            codes = self.segments[name]
            counts = {"row": codes.counts()}
            if positive is not None:
                counts = {"positive": codes.counts(positive), "negative": codes.counts(~positive)}
            sizes = {v: min(own[v] for own in counts.values()) for v in present_values(codes)}
            large = [value for value, size in sizes.items() if size >= fewest]
            small = [value for value in sizes if value not in large]
            if not large:
                raise SetpointError(
                    f"no segment of {name!r} has "
                    f"{' and '.join(f'{fewest} {noun}s' for noun in counts)}, which '{goal}' "
                    "needs; the largest have "
                    f"{' and '.join(f'{max(n.values())} {noun}s' for noun, n in counts.items())}. "
                    "Use more rows, or larger segments."
                )
            together = {noun: sum(own[v] for v in small) for noun, own in counts.items()}
            if min(together.values()) >= fewest:
                large.append(OTHER)
            elif small:
                one = len(small) == 1
                has = "it has" if one else "together they have"
                subject = f"the segment {small[0]!r}" if one else f"the segments {listed(small, 4)}"
                warnings.warn(
                    f"{subject} of {name!r} {'is' if one else 'are'} too small to be judged: "
                    f"{has} {' and '.join(_counted(n, noun) for noun, n in together.items())}, "
                    f"and {least} are needed. "
                    f"'{goal}' does not apply to {'it' if one else 'them'}.",
                    stacklevel=stacklevel,
                )
            found[name] = tuple(large)
        return found

    def factors(self, tallies: tuple[Tally, ...], rows: Rows = slice(None)) -> Floats:
        """Return what rows count in each tally, relative to their weight: shape (tallies, rows).

        The rows of a plain goal must be given by their indices: no column says how many there are.
        """
        parts = [self._factor(tally, rows) for tally in tallies if tally != PLAIN]
        ones = np.ones(len(parts[0]) if parts else np.size(rows))
        return np.stack([ones if tally == PLAIN else parts.pop(0) for tally in tallies])

    def _factor(self, tally: Tally, rows: Rows) -> Floats:
        found: Any = self.amounts[tally.amount][rows] if tally.amount else 1.0
        if tally.segment:
            found = found * self.segments[tally.segment].members(tally.value, rows)
        if tally.period:
            found = found * self.periods[tally.period].members(tally.value, rows)
        return np.asarray(found, dtype=np.float64)


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def present_values(codes: Codes) -> tuple[str, ...]:
    """Return the texts that occur, but for rows of no segment."""
    counts = codes.counts()
    return tuple(value for value, count in counts.items() if count and value != NO_SEGMENT)


def _all_defined(metrics: list[Metric], P: int, N: int) -> bool:
    """Whether the rows of a segment, so many of each class, define all metrics."""
    for which in metrics:
        shape = () if len(which.tallies) == 1 else (len(which.tallies),)
        none, p, n = (np.full(shape, count, dtype=np.float64)[()] for count in (0, P, N))
        with np.errstate(all="ignore"):
            if np.isnan(which.value(none, none, p, n)):
                return False
    return True


def from_table(X: Any, goal: Goal, named: Mapping[str, Any]) -> dict[str, Any]:
    """Return amounts, segments and times; those not given are columns of X, if it has them all."""
    found = dict(named)
    for kind, names in (("amounts", goal.amounts), ("segments", goal.segments)):
        in_table = names and hasattr(X, "keys") and all(name in X for name in names)
        if kind in found and found[kind] is None and in_table:
            found[kind] = X
    return found


def _find(given: Any, kind: str, name: str, goal: Goal) -> Any:
    """Return the column that a goal names; raise SetpointError if it was not given."""
    example = f"{kind}={{{name!r}: ...}}"
    if given is None:
        raise SetpointError(f"the goal '{goal}' names {name!r}; pass {example}, one entry per row.")
    if not hasattr(given, "keys"):
        raise SetpointError(f"{kind} must map names to arrays, e.g. {example}.")
    names = list(given.keys())
    if name not in names:
        raise SetpointError(
            f"the goal '{goal}' names {name!r}, and {kind} has {listed(names)}."
            f"{did_you_mean(name, names)}"
        )
    return given[name]


def _check_shape(kind: str, name: str, values: NDArray[Any], n: int) -> None:
    if values.shape != (n,):
        raise SetpointError(
            f"{kind}[{name!r}] must have one entry per row, shape ({n},); it has {values.shape}."
        )


def _check_amounts(name: str, given: Any, n: int) -> Floats:
    plain = np.asarray(given)
    if what := _not_numbers(plain):
        raise SetpointError(f"amounts[{name!r}] must be numbers, not {what}.")
    try:
        values = np.asarray(plain, dtype=np.float64)
    except (TypeError, ValueError):
        raise SetpointError(f"amounts[{name!r}] must be numbers.") from None
    _check_shape("amounts", name, values, n)
    for wrong, what, remedy in (
        (np.isnan(values), "missing", "fill in what such a row is worth, e.g. 0, or drop it"),
        (~np.isfinite(values), "infinite", "give a finite amount"),
        (values < 0, "negative", f"give its size and write the sign in the goal, e.g. -1*{name}"),
        (values > _LARGEST, "too large to be summed", "rescale the amounts"),
    ):
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise SetpointError(
                f"amounts[{name!r}] is {what} in {int(wrong.sum()):,} of {n:,} rows, the first at "
                f"position {row} ({values[row]:g}); {remedy}."
            )
    return values


def _not_numbers(values: NDArray[Any]) -> str | None:
    """Return what an array holds that numpy would convert to numbers, but that are none."""
    if values.dtype.kind != "O":
        return _NOT_NUMBERS.get(values.dtype.kind)
    kinds = (np.asarray(v).dtype.kind for v in values.ravel() if not isinstance(v, int | float))
    if any(isinstance(value, bool) for value in values.ravel()):
        return _NOT_NUMBERS["b"]
    return next((_NOT_NUMBERS[kind] for kind in kinds if kind in _NOT_NUMBERS), None)


def segment_texts(name: str, given: Any, n: int) -> NDArray[np.str_]:
    """Return a column of segments as texts; raise SetpointError if some are missing.

    Whole numbers are written alike, whatever their type.

    Examples
    --------
    >>> segment_texts("store", [20240101.0, 2.5], 2).tolist()
    ['20240101', '2.5']
    """
    values = np.asarray(given)
    _check_shape("segments", name, values, n)
    if values.dtype.kind == "f":
        missing = np.isnan(values)
        distinct, places = np.unique(values, return_inverse=True)
        texts = np.array([_text(value) for value in distinct], dtype=str)[places]
    elif values.dtype.kind in "OU":
        plain = values.tolist()
        missing = np.array([_is_missing(v) for v in plain], dtype=bool)
        texts = np.array([_text(v) for v in plain], dtype=str)
    else:
        missing, texts = np.zeros(n, dtype=bool), values.astype(str)
    if missing.any():
        raise SetpointError(
            f"segments[{name!r}] is missing in {int(missing.sum()):,} of {n:,} rows, the first at "
            f"position {int(np.flatnonzero(missing)[0])}; give such rows a segment of their own, "
            "e.g. 'unknown'."
        )
    return texts


def _text(value: Any) -> str:
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _is_missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value) or str(value) == ""
    except TypeError:  # pandas' NA is neither equal to itself nor not
        return True


def _periods(times: Any, period: str, n: int, goal: Goal) -> Codes:
    if times is None:
        raise SetpointError(
            f"the goal '{goal}' is per {period}; pass times=..., the time of each row."
        )
    found = period_codes(times, period)
    if len(found.codes) != n:
        raise SetpointError(
            f"times must have one entry per row, and has {len(found.codes):,} for {n:,} rows."
        )
    partial = [name for name, part in zip(found.names, found.partial, strict=True) if part]
    return Codes(found.codes, found.names, frozenset(partial))


def check_caps(caps: Mapping[str, float] | None, goal: Goal) -> dict[str, float]:
    """Return the caps of amounts; raise SetpointError unless they are numbers above 0."""
    found = dict(caps or {})
    for name, cap in found.items():
        if not 0 < check_number(cap, f"the cap of {name}") < np.inf:
            raise SetpointError(
                f"the cap of {name!r} is {cap}; it is the largest amount that a row can have, a "
                "number above 0."
            )
        if name not in goal.amounts:
            raise SetpointError(
                f"there is a cap of {name!r}, and the goal '{goal}' names "
                f"{', '.join(goal.amounts) or 'no amounts'}."
            )
    return found
