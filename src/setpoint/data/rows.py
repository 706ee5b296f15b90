"""Blocks of labelled rows, the protocol of their sources, and shared checks and conversions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setpoint.data.sampling import mix
from setpoint.errors import SourceError

Where = Callable[..., str]  # describes the value at an index, for errors
Chunk = TypeVar("Chunk", bound=Sized)
Units = NDArray[np.int64]

_HASHED_ROWS = 4_096  # at a time, since long texts need much memory


@dataclass(frozen=True, eq=False)
class Block:
    """Some labelled rows.

    Attributes
    ----------
    X : Tensor of shape (m, ...)
        The model's input; features of a table are float32, of shape (m, d).
    positive : Tensor of bool, shape (m,)
        The labels.
    weight : Tensor of float64, shape (m,)
        Weights >= 0 of the counts.
    number : Tensor of int64, shape (m,)
        Each row's number in the whole source: the same in every pass, and for any number of
        processes. All random draws derive from it.
    unit : Tensor of int64, shape (m,)
        Rows of one unit stay in the same split: the number again, or one integer for each group.
    time : Tensor of float64, shape (m,), or None
        The time of each row, where splits go by time.
    shard : int
        The shard of the problem that the rows belong to.
    factors : Tensor of float64, shape (m, tallies), or None
        What the rows count in each tally of a goal that names amounts, segments or periods,
        relative to their weight.
    """

    X: Tensor
    positive: Tensor
    weight: Tensor
    number: Tensor
    unit: Tensor
    time: Tensor | None = None
    shard: int = 0
    factors: Tensor | None = None

    def __len__(self) -> int:
        return len(self.positive)

    def rows(self, which: Tensor) -> Block:
        """Return some of the rows, by a mask or by their places."""
        return self._each(lambda field: field[which])

    def to(self, device: torch.device | str) -> Block:
        """Return the block on a device."""
        return self._each(lambda field: field.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> Block:
        changed: dict[str, Any] = {
            name: change(value) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return replace(self, **changed)


class RowSource(Protocol):
    """Labelled rows that can be read any number of times, from first to last."""

    def blocks(self, shard: int = 0, shards: int = 1) -> Iterator[Block]:
        """Yield the rows of one of ``shards`` shards, in blocks of bounded size.

        Each row belongs to exactly one shard. Blocks are the same in every pass.
        """
        ...

    def fingerprint(self) -> str:
        """Return a digest by which a checkpoint recognises the source."""
        ...


def grouped(chunks: Iterable[Chunk], most: int) -> Iterator[list[Chunk]]:
    """Yield lists of consecutive chunks with at most ``most`` rows together, at least one each."""
    found: list[Chunk] = []
    count = 0
    for chunk in chunks:
        if found and count + len(chunk) > most:
            yield found
            found, count = [], 0
        found.append(chunk)
        count += len(chunk)
    if found:
        yield found


def concatenated(blocks: list[Block]) -> Block:
    """Return the rows of several blocks as one."""
    if len(blocks) == 1:
        return blocks[0]
    fields: Any = {}
    for name in ("X", "positive", "weight", "number", "unit", "time", "factors"):
        parts = [getattr(block, name) for block in blocks]
        fields[name] = None if parts[0] is None else torch.cat(parts)
    return Block(**fields)


def check_sources(source: Any, validation: Any) -> None:
    """Raise SourceError unless both are sources, with the same features and positive label."""
    for rows in (source,) if validation is None else (source, validation):
        if not hasattr(rows, "blocks"):
            raise SourceError(
                f"rows must come from a row source, not from a {type(rows).__name__}: wrap arrays "
                "in setpoint.data.ArrayRows, a data loader in LoaderRows, and pass files or a "
                "folder to ParquetRows."
            )
    if validation is None:
        return
    first, second = (getattr(s, "features", None) for s in (source, validation))
    if first is not None and second is not None and list(first) != list(second):
        differ = sorted(set(first) ^ set(second), key=str)
        found = "have their features in another order than the training rows"
        if differ:
            names = ", ".join(map(repr, differ[:5])) + (", ..." if len(differ) > 5 else "")
            found = f"have other features than the training rows: {names} is in one of them only"
        raise SourceError(
            f"the validation rows {found}. Name the same for both, in one order: features=[...]."
        )
    first, second = (getattr(s, "classes", None) for s in (source, validation))
    if first is not None and second is not None and first[1] != second[1]:
        raise SourceError(
            f"the positive label is {second[1]!r} in the validation rows and {first[1]!r} in the "
            "training rows; name the same for both."
        )


def check_features(X: Any, name: str) -> None:
    """Raise SourceError unless X is an array or tensor of numbers, with one row per label."""
    if not (X.dtype.kind in "biuf" if isinstance(X, np.ndarray) else not X.is_complex()):
        raise SourceError(f"{name} is of type {X.dtype}; features are numbers. Encode them first.")
    if X.ndim < 2 or 0 in X.shape[1:]:
        raise SourceError(
            f"{name} has the shape {tuple(X.shape)}; it must have a row of features "
            "for each label, (n, d) or (n, ...). Use X.reshape(-1, 1) for a single feature."
        )


def as_array(values: NDArray[Any] | Tensor) -> NDArray[Any]:
    """Return one value per row as an array in main memory; floats of a tensor become float64."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return np.asarray(values.double() if values.is_floating_point() else values)
    return values


def bits_of(X: Tensor) -> NDArray[np.uint8]:
    """Return the values of a tensor as bytes, since numpy lacks some of its types."""
    return np.asarray(X.detach().cpu().contiguous().reshape(-1).view(torch.uint8))


def as_features(X: NDArray[Any] | Tensor, where: Where, *, copy: bool = False) -> Tensor:
    """Return a model's input: a tensor as it is, an array as float32."""
    if isinstance(X, Tensor):
        found = X.detach()
    else:
        with np.errstate(over="ignore"):  # infinite values raise an error below
            array = np.ascontiguousarray(X, dtype=np.float32)
        if (copy or not array.flags.writeable) and np.may_share_memory(array, X):
            array = array.copy()
        found = torch.from_numpy(array)
    check_finite(found, where)
    return found


def check_finite(X: Tensor, where: Where) -> None:
    """Raise SourceError if a value is NaN or infinite."""
    if not X.is_floating_point():
        return
    # A sum is several times faster than a check of each value, and needs no memory.
    total = X.sum(dtype=torch.float32 if X.dtype.itemsize < 4 else None)
    if math.isfinite(total.item()):
        return
    wrong = (~torch.isfinite(X)).nonzero()
    if len(wrong):
        index = wrong[0].tolist()
        raise SourceError(
            f"{where(*index)} is {X[tuple(index)].item()}; fill in or drop missing and infinite "
            f"values, and scale those too large for {str(X.dtype).removeprefix('torch.')}."
        )


def as_weights(weight: NDArray[Any], where: Where) -> Tensor:
    """Return weights as float64; raise SourceError unless all are finite numbers >= 0."""
    if weight.dtype.kind not in "biuf":
        raise SourceError(f"{where(0)} is {weight[:1].tolist()[0]!r}; a weight is a number.")
    found = np.array(weight, dtype=np.float64)
    wrong = ~((found >= 0) & (found < np.inf))
    if wrong.any():
        row = int(wrong.argmax())
        raise SourceError(f"{where(row)} is {found[row]}; a weight is a finite number >= 0.")
    return torch.from_numpy(found)


def units_of(values: NDArray[Any], where: Where) -> Units:
    """Return an integer for each row that identifies its group, on every machine and in every pass.

    Integers, booleans and dates keep their values. Texts are hashed: two different ones get the
    same integer with a probability below 2^-50, and then merely stay in the same split.

    Examples
    --------
    >>> import numpy as np
    >>> texts = units_of(np.array(["b", "a", "b"]), str)
    >>> bool(texts[0] == texts[2] != texts[1])
    True
    >>> units_of(np.array([3, 7], dtype=np.int8), str)
    array([3, 7])
    """
    kind = values.dtype.kind
    if kind in "mM":
        _check_groups(np.isnat(values), where)
        return values.astype(np.int64)
    if kind == "f":
        _check_groups(np.isnan(values), where)
        wrong = ~((values == np.floor(values)) & (np.abs(values) < 2.0**63))
        if wrong.any():
            row = int(wrong.argmax())
            raise SourceError(f"{where(row)} is {values[row]}; groups are texts or integers.")
        return values.astype(np.int64)
    if kind in "biu":
        return values.astype(np.int64)
    listed = values.tolist()
    _check_groups(np.array([v is None or v != v for v in listed], dtype=bool), where)
    if all(isinstance(v, str) for v in listed):
        listed = [v.encode("utf-8", "surrogatepass") for v in listed]
    if all(isinstance(v, bytes) for v in listed):
        lengths = np.fromiter(map(len, listed), dtype=np.int64, count=len(listed))
        return hash_texts(np.frombuffer(b"".join(listed), dtype=np.uint8), lengths)
    try:
        if all(isinstance(v, int | np.integer) for v in listed):
            return np.array(listed, dtype=np.int64)
    except OverflowError:
        pass
    raise SourceError(
        f"{where(0)} is {listed[0]!r}; groups are texts or integers below 2^63, all of one type."
    )


def hash_texts(data: NDArray[np.uint8], lengths: NDArray[np.int64]) -> Units:
    """Return a hash of each text; ``data`` holds their bytes, one text after the other."""
    ends = np.cumsum(lengths)
    found = np.empty(len(lengths), dtype=np.int64)
    for first in range(0, len(lengths), _HASHED_ROWS):
        some = slice(first, first + _HASHED_ROWS)
        begin, end = ends[some][0] - lengths[first], ends[some][-1]
        found[some] = _hashed(data[begin:end], lengths[some])
    return found


def _hashed(data: NDArray[np.uint8], lengths: NDArray[np.int64]) -> Units:
    """Return sums of bytes, each times a pseudorandom odd factor."""
    starts = np.cumsum(lengths) - lengths
    place = np.arange(len(data)) - np.repeat(starts, lengths)
    factors = mix(torch.arange(int(lengths.max(initial=0)))).numpy() | 1
    terms = (data.astype(np.int64) + 1) * factors[place]  # integers wrap around
    found = np.zeros(len(lengths), dtype=np.int64)
    some = lengths > 0
    if some.any():
        found[some] = np.add.reduceat(terms, starts[some])
    return found


def _check_groups(missing: NDArray[np.bool_], where: Where) -> None:
    if missing.any():
        raise SourceError(
            f"{where(int(missing.argmax()))} is missing; assign rows without a group to groups of "
            "their own, or drop them."
        )
