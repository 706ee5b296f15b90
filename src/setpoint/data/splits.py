"""Splits into training, validation, certification and test rows, in memory or in blocks.

- :func:`validation_split`: validation rows, which choose among candidates and set the threshold;
- :func:`certification_split`: certification rows, which no model is trained on;
- :func:`split_rows`: test rows, at random, by groups or by time;
- :class:`ByChance`, :class:`ByTime`: rules for rows that come in blocks, one row after another.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import GroupShuffleSplit, StratifiedShuffleSplit
from torch import Tensor

from setpoint._internal.renamed import renamed_parameters, renamed_property
from setpoint._internal.validation import check_groups, one_row_per_group
from setpoint.data.rows import Block
from setpoint.data.sampling import uniform
from setpoint.errors import SetpointError, SplitError

Rows = NDArray[np.intp]
Mask = NDArray[np.bool_]

VALIDATION_FRACTION, CERTIFICATION_FRACTION = 0.25, 0.3
FEWEST = 10  # validation rows of either class; with fewer, the choice would be left to chance
_TRIES = 50  # of splits by group
_EXPECTED = {
    "validation": "'auto', a fraction, None or a splitter",
    "certification": "a fraction or a splitter",
    "cv": "a number, a splitter, pairs of rows or 'prefit'",
}


class Split(NamedTuple):
    """Two sets of rows, each in ascending order."""

    train: Rows
    test: Rows


def validation_split(
    validation: Any, positive: Mask, included: Mask, groups: Any, seed: int
) -> tuple[Rows, Rows] | None:
    """Return training and validation rows, or None if there is no such split.

    Parameters
    ----------
    validation : "auto", float, None, cross-validation splitter or iterable
        See :class:`setpoint.SetpointClassifier`.
    positive : ndarray of bool
        The labels.
    included : ndarray of bool
        The rows to split; the others are in neither set.
    groups : array-like or None
        Rows of one group stay in the same set.
    seed : int
        Seed of a random split.
    """
    groups = check_groups(groups, positive.shape)
    if validation is None or validation is False:
        return None
    automatic = isinstance(validation, str) and validation == "auto"
    rows = np.flatnonzero(included)
    row_groups = None if groups is None else groups[included]
    one_group = row_groups is not None and len(np.unique(row_groups)) < 2
    if automatic and (one_group or _rarest(positive, rows) * VALIDATION_FRACTION < FEWEST):
        return None
    fraction = VALIDATION_FRACTION if automatic else _fraction(validation, "validation")
    if fraction is None:
        train, held_out = given_split(validation, positive, groups, "validation")
        found = train[included[train]], held_out[included[held_out]]
    else:

        def distance(f: float) -> float:
            return float(abs(np.log(max(f, 1e-9) / fraction)))

        try:
            train, held_out = _random_split(positive[rows], row_groups, fraction, seed, distance)
        except ValueError as error:
            raise SetpointError(
                f"the rows cannot be split for validation ({error}) Use validation=None, or give "
                "more rows or groups."
            ) from error
        found = rows[train], rows[held_out]
    if automatic:
        return found if min(_rarest(positive, rows) for rows in found) >= FEWEST else None
    for rows, name in zip(found, ("training", "validation"), strict=True):
        if _rarest(positive, rows) == 0:
            raise SetpointError(
                f"the {name} rows of the validation split lack one of the classes; with so few "
                "positives or negatives, or groups so large, use validation=None."
            )
    return found


def _rarest(positive: Mask, rows: Rows) -> int:
    """Return how many of these rows are of the rarer class."""
    return int(min(positive[rows].sum(), (~positive[rows]).sum()))


def _random_split(
    positive: Mask,
    groups: NDArray[Any] | None,
    fraction: float,
    seed: int,
    distance: Callable[[float], float],
) -> Split:
    """Split rows at random, stratified by class.

    Whole groups cannot be stratified exactly: of several splits by group this takes the one with
    the smallest sum of ``distance(f)``, where f is the fraction of a class that is held out.
    """
    nothing = np.zeros((len(positive), 1))
    if groups is None:
        splitter = StratifiedShuffleSplit(1, test_size=fraction, random_state=seed)
        train, held_out = next(splitter.split(nothing, positive))
    else:

        def imbalance(pair: tuple[Rows, Rows]) -> float:
            held_out = [c[pair[1]].sum() / c.sum() for c in (positive, ~positive)]
            return float(sum(distance(f) for f in held_out))

        splitter = GroupShuffleSplit(_TRIES, test_size=fraction, random_state=seed)
        train, held_out = min(splitter.split(nothing, positive, groups), key=imbalance)
    return Split(np.sort(train), np.sort(held_out))


def certification_split(
    certification: Any,
    positive: Mask,
    weight: NDArray[np.floating] | None,
    groups: Any,
    seed: int,
    *,
    whole_groups: bool = False,
) -> tuple[Rows, Rows]:
    """Return training and certification rows.

    A fraction is drawn at random and not by class, so that the certification rows are independent
    draws. Rows of one group are not independent: one row of each group is taken, unless the
    certificate is about whole groups, such as days. Rows without weight are in neither set.

    Parameters
    ----------
    certification : float, splitter or iterable
        See :class:`setpoint.SetpointThreshold`.
    """
    included = np.ones(len(positive), dtype=bool)
    if weight is not None:
        included = weight > 0
        if len(np.unique(weight[included])) > 1:
            raise SetpointError(
                "a certificate counts independent rows, and sample_weight has different weights; "
                "leave the weights out, or use confidence=None."
            )
    fraction, rows = _fraction(certification, "certification"), np.flatnonzero(included)
    if fraction is None:
        train, held_out = given_split(certification, positive, groups, "certification")
        train, held_out = train[included[train]], held_out[included[held_out]]
    elif groups is None:
        order = np.random.default_rng(seed).permutation(rows)
        count = max(1, round(fraction * len(rows)))
        train, held_out = np.sort(order[count:]), np.sort(order[:count])
    elif len(np.unique(groups[rows])) < 2:
        raise SetpointError("all rows belong to one group; none are left for certification.")
    else:
        splitter = GroupShuffleSplit(1, test_size=fraction, random_state=seed)
        try:
            first, second = next(splitter.split(rows, groups=groups[rows]))
        except ValueError as error:
            raise SetpointError(
                f"too few groups for a certification of {fraction:g}: {error}"
            ) from error
        train, held_out = rows[np.sort(first)], rows[np.sort(second)]
    if len(held_out) == 0:
        raise SetpointError("certification leaves no rows to certify with.")
    if groups is not None and not whole_groups:
        held_out = held_out[one_row_per_group(groups[held_out], seed)]
    return train, held_out


def _fraction(value: Any, name: str) -> float | None:
    """Return a fraction, or None if the value is something else than a real number."""
    if not isinstance(value, Real) or isinstance(value, Integral):
        return None
    if not 0 < float(value) < 1:
        raise SetpointError(f"{name} must be a fraction between 0 and 1, not {float(value)}.")
    return float(value)


def given_split(splitter: Any, positive: Mask, groups: Any, name: str) -> tuple[Rows, Rows]:
    """Return the one pair of rows that a splitter or an iterable yields.

    ``name`` is that of the parameter, for messages.
    """
    check_splitter(splitter, name)
    if hasattr(splitter, "split"):
        try:
            splitter = list(splitter.split(np.zeros((len(positive), 1)), positive, groups))
        except ValueError as error:
            raise SetpointError(f"the rows cannot be split for {name}: {error}") from error
    try:
        splits = [(np.asarray(first), np.asarray(second)) for first, second in splitter]
        (first, second), *others = splits
    except (TypeError, ValueError) as error:
        raise SetpointError(
            f"{name} must yield one pair, e.g. [(training_rows, {name}_rows)], as "
            "sklearn.model_selection.PredefinedSplit does."
        ) from error
    if others:
        raise SetpointError(
            f"{name} yields {len(splits)} splits, and one is used. Give a single split, e.g. "
            "StratifiedShuffleSplit(1) or PredefinedSplit."
        )
    return check_pair(first, second, len(positive), groups, name)


def check_splitter(splitter: Any, name: str) -> None:
    """Raise SetpointError unless this is a splitter or an iterable; ``name`` is the parameter's."""
    if isinstance(splitter, type):
        raise SetpointError(f"{name} is the class {splitter.__name__}; give an instance.")
    if isinstance(splitter, str) or not (
        hasattr(splitter, "split") or isinstance(splitter, Iterable)
    ):
        raise SetpointError(f"{name} {splitter!r} is not {_EXPECTED[name]}.")


def check_pair(first: Any, second: Any, n: int, groups: Any, name: str) -> tuple[Rows, Rows]:
    """Return two disjoint sets of rows, given as masks or indices, that do not separate groups."""
    sets = [np.asarray(rows) for rows in (first, second)]
    sets = [np.flatnonzero(rows) if rows.dtype == bool else rows for rows in sets]
    for rows in sets:
        if len(rows) and rows.dtype.kind not in "iu":
            raise SetpointError(f"{name} must yield indices of rows or masks.")
        if len(rows) and not 0 <= rows.min() <= rows.max() < n:
            raise SetpointError(
                f"{name} names rows {rows.min()} to {rows.max()}, but there are "
                f"{n}; was the split made for other data?"
            )
        if len(np.unique(rows)) < len(rows):
            raise SetpointError(f"{name} names rows twice.")
    first, second = (rows.astype(np.intp) for rows in sets)
    if len(np.intersect1d(first, second)):
        raise SetpointError(f"the training and the {name} rows overlap.")
    if groups is not None and len(np.intersect1d(groups[first], groups[second])):
        raise SetpointError(f"{name} puts rows of one group on both sides of the split.")
    return first, second


# --- test rows of a table -----------------------------------------------------------------------


def split_rows(
    n: int,
    y: Mask,
    *,
    test: float = 0.2,
    group: Any = None,
    time: Any = None,
    random_state: int = 0,
) -> Split:
    """Hold out some rows for a final test.

    Parameters
    ----------
    n : int
        The number of rows.
    y : ndarray of bool
        The labels.
    test : float
        The fraction of test rows; 0 holds out none.
    group : array-like, optional
        Rows of one group, e.g. of one customer, stay in the same set.
    time : array-like of numbers, optional
        The time of each row: the newest rows are the test rows, and rows of one time stay in the
        same set. With groups, the groups whose last row is the newest are the test groups.
    random_state : int
        Seed of a random split, which is stratified, or by groups as balanced as possible.

    Examples
    --------
    >>> y = np.array([False, True] * 5)
    >>> split_rows(10, y, test=0.2, time=np.arange(10)).test
    array([8, 9])
    """
    y = np.asarray(y, dtype=bool)
    if not 0 <= test < 1:
        raise SplitError(
            f"the fraction of test rows must be at least 0 and less than 1, not {test}."
        )
    check_seed(random_state)
    if test == 0:
        return Split(np.arange(n), np.arange(0))
    groups = check_groups(group, (n,))
    remedy = "choose another fraction of test rows"
    if time is not None:
        found = newest_split(np.arange(n), np.asarray(time, dtype=np.float64), groups, test)
        remedy += ", or do not split by time."
    else:
        _check_sizes(y, groups, test)
        found = _random_split(y, groups, test, random_state, lambda f: abs(f - test))
        remedy += ", or use more labelled rows." if groups is None else "; groups may be too large."
    for rows, name in zip(found, ("training", "test"), strict=True):
        if _rarest(y, rows) == 0:
            missing = "negative" if y[rows].any() else "positive"
            raise SplitError(
                f"there are {len(rows):,} {name} rows, and none of them is {missing}; {remedy}"
            )
    return found


def newest_split(rows: Rows, time: NDArray[np.float64], groups: Any, fraction: float) -> Split:
    """Split off the newest of some rows; rows of one time or group stay in the same set."""
    times = time[rows]
    if groups is not None:
        _, member = np.unique(groups[rows], return_inverse=True)
        last = np.full(member.max() + 1, -np.inf)
        np.maximum.at(last, member, times)
        times = last[member]
    new = times >= newest_since(np.sort(times), fraction)
    return Split(rows[~new], rows[new])


def newest_since(ordered: NDArray[np.float64], fraction: float) -> float:
    """Return the time since when rows are the newest fraction, given all times in order.

    The fraction may begin among many rows of one time. They are new, unless no older ones remain.
    """
    n = len(ordered)
    since = ordered[min(n - 1, n - max(1, round(fraction * n)))]
    if since == ordered[0]:
        later = ordered[ordered > since]
        if not len(later):
            raise SplitError("all rows have the same time; they cannot be split by time.")
        since = later[0]
    return float(since)


def check_seed(seed: Any) -> None:
    """Raise SplitError if a value cannot be the seed of a random split."""
    if not isinstance(seed, Integral) or not 0 <= int(seed) < 2**32:
        raise SplitError(f"the seed must be a whole number from 0 to {2**32 - 1}, not {seed!r}.")


def _check_sizes(y: Mask, groups: NDArray[Any] | None, fraction: float) -> None:
    """Raise SplitError if a random split leaves too few training or test rows."""
    if groups is None:
        n, what, needed, rarest = len(y), "rows", 2, _rarest(y, np.arange(len(y)))
        if rarest < 2:
            raise SplitError(
                f"one of the labels has {rarest} row{'' if rarest == 1 else 's'}, too few for "
                "training and test; use more labelled rows."
            )
    else:
        n, what, needed = len(np.unique(groups)), "groups", 1
        if n < 2:
            raise SplitError("all rows belong to one group; the test rows need other groups.")
    test = math.ceil(fraction * n)
    if min(test, n - test) < needed:
        raise SplitError(
            f"{n:,} {what} cannot be split: a fraction of {fraction:g} makes {test:,} for the test "
            f"and {n - test:,} for training, and each needs {needed} or more. Choose another "
            "fraction, or 0 for no test."
        )


# --- rows that come in blocks -------------------------------------------------------------------

TRAINING, VALIDATION, CERTIFICATION, TEST = range(4)


class SplitRule(Protocol):
    """A rule that assigns each row to TRAINING, VALIDATION, CERTIFICATION or TEST."""

    @property
    def has_validation(self) -> bool:
        """Whether there are validation rows."""
        ...

    def __call__(self, block: Block) -> Tensor:
        """Return the set of each row, int64."""
        ...


def has_validation(rule: SplitRule | None) -> bool:
    """Return whether a rule has validation rows."""
    if rule is None:
        return False
    if not hasattr(rule, "has_validation") and hasattr(rule, "judges"):
        warnings.warn(
            "the property judges of a split rule is deprecated; it is now has_validation.",
            DeprecationWarning,
            stacklevel=2,
        )
        return bool(rule.judges)
    return rule.has_validation


def rule_key(rule: SplitRule | None) -> str:
    """Return the text by which a checkpoint recognises a rule."""
    return str(getattr(rule, "_key", repr(rule)))


@renamed_parameters(judging="validation", certifying="certification", testing="test")
@dataclass(frozen=True)
class ByChance:
    """Random sets of about these fractions; rows of one unit stay in the same set.

    Attributes
    ----------
    validation, certification, test : float
        Fractions; the other rows are training rows.
    seed : int
        Seed of the split.
    """

    validation: float = 0.0
    certification: float = 0.0
    test: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        fractions = (self.validation, self.certification, self.test)
        if not (all(f >= 0 for f in fractions) and sum(fractions) < 1):  # NaN is neither
            raise SetpointError(
                "the fractions of validation, certification and test rows are "
                f"{', '.join(f'{f:g}' for f in fractions)}; none may be negative, and together "
                "they must leave rows to train on."
            )

    @property
    def has_validation(self) -> bool:
        """Whether there are validation rows."""
        return self.validation > 0

    judges = renamed_property("judges", "has_validation")

    @property
    def _key(self) -> str:  # as in version 0.1, whose checkpoints hold its digest
        return (
            f"ByChance(judging={self.validation!r}, certifying={self.certification!r}, "
            f"testing={self.test!r}, seed={self.seed!r})"
        )

    def __call__(self, block: Block) -> Tensor:
        """Return the set of each row, by its unit."""
        u = uniform(block.unit, self.seed)
        edges = torch.tensor([self.validation, self.certification, self.test]).double().cumsum(0)
        # Below the first edge: validation; below the second: certification; above all: training
        return (torch.searchsorted(edges, u, right=True) + 1) % 4


@dataclass(frozen=True)
class ByTime:
    """The oldest rows are training rows, the newest test rows.

    Attributes
    ----------
    since : tuple of float
        The times since when rows are for validation, certification and test; ``inf`` for a set
        that is not wanted.
    """

    since: tuple[float, float, float]

    def __post_init__(self) -> None:
        if sorted(self.since) != list(self.since):
            raise SetpointError(f"the times {self.since} are not in order.")

    @property
    def has_validation(self) -> bool:
        """Whether there are validation rows."""
        return self.since[0] < self.since[1]

    judges = renamed_property("judges", "has_validation")

    def __call__(self, block: Block) -> Tensor:
        """Return the set of each row, by its time."""
        if block.time is None:
            raise SetpointError("a split by time needs a source whose rows have times.")
        return torch.searchsorted(torch.tensor(self.since).double(), block.time, right=True)
