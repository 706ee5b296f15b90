"""Which rows train and which judge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import GroupShuffleSplit, StratifiedShuffleSplit
from torch import Tensor

from setpoint._internal.arrays import one_of_each
from setpoint._internal.validation import check_groups
from setpoint.data.rows import Block
from setpoint.data.sampling import uniform
from setpoint.errors import SetpointError

Rows = NDArray[np.intp]
_SHARE = 0.25
_FEWEST = 10  # of either class in either part; with fewer, chance would choose
_TRIES = 50  # of splits by group
_UNKNOWN = {
    "validation": "validation {!r} is not 'auto', a share, None or a splitter.",
    "certification": "certification {!r} is not a share or a splitter.",
}


def split(
    validation: Any,
    positive: NDArray[np.bool_],
    kept: NDArray[np.bool_],
    groups: Any,
    seed: int,
) -> tuple[Rows, Rows] | None:
    """Return training and validation rows, or None where all rows do both.

    Parameters
    ----------
    validation : "auto", float, None, cross-validation splitter or iterable
        See :class:`setpoint.SetpointClassifier`.
    positive : ndarray of bool
        The labels.
    kept : ndarray of bool
        Which rows have a weight; the others are in neither part.
    groups : array-like or None
        Rows of one group stay together.
    seed : int
        Of a random split.
    """
    groups = check_groups(groups, positive.shape)
    if validation is None or validation is False:
        return None
    if isinstance(validation, str):
        if validation != "auto":
            raise SetpointError(_UNKNOWN["validation"].format(validation))
        return _automatic(positive, kept, groups, seed)
    if isinstance(validation, Real) and not isinstance(validation, Integral):
        share = float(validation)
        if not 0 < share < 1:
            raise SetpointError(f"validation must be a share between 0 and 1, not {share}.")
        found = _random_split(share, positive, kept, groups, seed)
    else:
        train, judge = given_split(validation, positive, groups, "validation")
        found = train[kept[train]], judge[kept[judge]]
    for rows, part in zip(found, ("training", "validation"), strict=True):
        if not positive[rows].any() or positive[rows].all():
            raise SetpointError(
                f"the {part} part of the validation split lacks one of the classes; with so few "
                "positives or negatives, or groups so large, use validation=None."
            )
    return found


def _automatic(
    positive: NDArray[np.bool_], kept: NDArray[np.bool_], groups: Any, seed: int
) -> tuple[Rows, Rows] | None:
    """Return a split with enough of both classes in both parts, or None where there is none."""
    if min((positive & kept).sum(), (~positive & kept).sum()) * _SHARE < _FEWEST:
        return None
    if groups is not None and len(np.unique(groups[kept])) < 2:
        return None
    found = _random_split(_SHARE, positive, kept, groups, seed)
    fewest = min(min(positive[r].sum(), (~positive[r]).sum()) for r in found)
    return found if fewest >= _FEWEST else None


def _random_split(
    share: float,
    positive: NDArray[np.bool_],
    kept: NDArray[np.bool_],
    groups: Any,
    seed: int,
) -> tuple[Rows, Rows]:
    rows = np.flatnonzero(kept)
    nothing, labels = np.zeros((len(rows), 1)), positive[rows]
    try:
        if groups is None:
            splitter = StratifiedShuffleSplit(1, test_size=share, random_state=seed)
            train, judge = next(splitter.split(nothing, labels))
        else:
            # Whole groups cannot be stratified exactly: of many splits the best balanced is taken.
            splitter = GroupShuffleSplit(_TRIES, test_size=share, random_state=seed)
            train, judge = min(
                splitter.split(nothing, labels, groups[rows]),
                key=lambda parts: _imbalance(labels, parts[1], share),
            )
    except ValueError as error:
        raise SetpointError(
            f"the rows cannot be split for validation ({error}) Use validation=None, or give more "
            "rows or groups."
        ) from error
    return rows[np.sort(train)], rows[np.sort(judge)]


def _imbalance(labels: NDArray[np.bool_], judge: Rows, share: float) -> float:
    """Return how far the shares of both classes in the validation part are from the one asked."""
    found = [labels[judge].sum() / labels.sum(), (~labels[judge]).sum() / (~labels).sum()]
    return float(sum(abs(np.log(max(f, 1e-9) / share)) for f in found))


def given_split(
    splitter: Any, positive: NDArray[np.bool_], groups: Any, name: str
) -> tuple[Rows, Rows]:
    """Return the one pair of rows that a splitter or an iterable yields.

    ``name`` is that of the parameter, for messages.
    """
    if isinstance(splitter, str):
        raise SetpointError(_UNKNOWN[name].format(splitter))
    if isinstance(splitter, type):
        raise SetpointError(f"{name} is the class {splitter.__name__}; give an instance.")
    if hasattr(splitter, "split"):
        try:
            splits = splitter.split(np.zeros((len(positive), 1)), positive, groups)
            splitter = list(splits)
        except ValueError as error:
            raise SetpointError(f"the rows cannot be split for {name}: {error}") from error
    if not isinstance(splitter, Iterable):
        raise SetpointError(_UNKNOWN[name].format(splitter))
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


def check_pair(first: Any, second: Any, n: int, groups: Any, name: str) -> tuple[Rows, Rows]:
    """Return two sets of rows that may be given as masks, have none in common and part no group."""
    parts = [np.asarray(p) for p in (first, second)]
    parts = [np.flatnonzero(p) if p.dtype == bool else p for p in parts]
    for part in parts:
        if len(part) and part.dtype.kind not in "iu":
            raise SetpointError(f"{name} must yield indices of rows or masks.")
        if len(part) and not 0 <= part.min() <= part.max() < n:
            raise SetpointError(
                f"{name} names rows {part.min()} to {part.max()}, but there are "
                f"{n}; was the split made for other data?"
            )
        if len(np.unique(part)) < len(part):
            raise SetpointError(f"{name} names rows twice.")
    first, second = (part.astype(np.intp) for part in parts)
    if len(np.intersect1d(first, second)):
        raise SetpointError(f"the training and the {name} part share rows.")
    if groups is not None and len(np.intersect1d(groups[first], groups[second])):
        raise SetpointError(f"the {name} split given parts rows of one group.")
    return first, second


def certifying_split(
    certification: Any,
    positive: NDArray[np.bool_],
    weight: NDArray[np.floating] | None,
    groups: Any,
    seed: int,
) -> tuple[Rows, Rows]:
    """Return the rows that a model may see, and those that it must not.

    A share is drawn by chance alone, not by class, so that the certifying rows are independent
    draws. Rows of no weight are in neither part. Rows of one group are no independent draws: of
    each group one row certifies.

    Parameters
    ----------
    certification : float, splitter or iterable
        See :class:`setpoint.SetpointThreshold`.
    """
    kept = np.ones(len(positive), dtype=bool)
    if weight is not None:
        kept = weight > 0
        if len(np.unique(weight[kept])) > 1:
            raise SetpointError(
                "a certificate counts independent rows, and sample_weight has different weights; "
                "leave the weights out, or use confidence=None."
            )
    is_share = isinstance(certification, Real) and not isinstance(certification, Integral)
    if not is_share:
        seen, unseen = given_split(certification, positive, groups, "certification")
        found = seen[kept[seen]], unseen[kept[unseen]]
    else:
        share, rows = float(certification), np.flatnonzero(kept)
        if not 0 < share < 1:
            raise SetpointError(f"certification must be a share between 0 and 1, not {share}.")
        if groups is None:
            order = np.random.default_rng(seed).permutation(rows)
            few = max(1, round(share * len(rows)))
            found = np.sort(order[few:]), np.sort(order[:few])
        elif len(np.unique(groups[rows])) < 2:
            raise SetpointError("all rows are of one group; none can be kept apart to certify.")
        else:
            splitter = GroupShuffleSplit(1, test_size=share, random_state=seed)
            try:
                seen, unseen = next(splitter.split(rows, groups=groups[rows]))
            except ValueError as error:
                raise SetpointError(
                    f"too few groups for a certification of {share:g}: {error}"
                ) from error
            found = rows[np.sort(seen)], rows[np.sort(unseen)]
    if len(found[1]) == 0:
        raise SetpointError("certification leaves no rows to certify with.")
    unseen = found[1]
    return found[0], unseen if groups is None else unseen[one_of_each(groups[unseen], seed)]


TRAINING, JUDGING, CERTIFYING, TESTING = range(4)


class Parting(Protocol):
    """A rule that gives each row to one of the parts."""

    @property
    def judges(self) -> bool:
        """Whether there is a part that judges."""
        ...

    def __call__(self, block: Block) -> Tensor:
        """Return the part of each row, int64."""
        ...


@dataclass(frozen=True)
class ByChance:
    """Parts of about these shares; rows of one unit go together.

    Attributes
    ----------
    judging, certifying, testing : float
        Shares; the rest trains.
    seed : int
        Another seed, another split.
    """

    judging: float = 0.0
    certifying: float = 0.0
    testing: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        _check_shares(self.judging, self.certifying, self.testing)

    @property
    def judges(self) -> bool:
        """Whether there is a part that judges."""
        return self.judging > 0

    def __call__(self, block: Block) -> Tensor:
        """Return the part of each row by its unit."""
        u = uniform(block.unit, self.seed)
        edges = torch.tensor([self.judging, self.certifying, self.testing]).double().cumsum(0)
        # Below the first edge: judging; below the second: certifying; ...; above all: training
        return (torch.searchsorted(edges, u, right=True) + 1) % 4


@dataclass(frozen=True)
class ByTime:
    """The oldest rows train and the newest test.

    Attributes
    ----------
    since : tuple of float
        The times from which rows judge, certify and test; ``inf`` for a part that is not wanted.
    """

    since: tuple[float, float, float]

    def __post_init__(self) -> None:
        if sorted(self.since) != list(self.since):
            raise SetpointError(f"the times {self.since} are not in order.")

    @property
    def judges(self) -> bool:
        """Whether there is a part that judges."""
        return self.since[0] < self.since[1]

    def __call__(self, block: Block) -> Tensor:
        """Return the part of each row by its time."""
        if block.time is None:
            raise SetpointError("a split by time needs rows that know their time.")
        return torch.searchsorted(torch.tensor(self.since).double(), block.time, right=True)


def _check_shares(*shares: float) -> None:
    if not (all(share >= 0 for share in shares) and sum(shares) < 1):  # NaN is neither
        listed: Sequence[str] = [f"{s:g}" for s in shares]
        raise SetpointError(
            f"the shares that judge, certify and test are {', '.join(listed)}; none may be "
            "negative, and together they must leave rows to train on."
        )


# DOC of _certification: Which rows certify, and what an estimator does with them.

# DOC of streams.parts: Which rows train, which judge, which certify and which are kept for a test.
