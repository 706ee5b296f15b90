"""Histograms of scores: exact counts at 65,536 edges, from one pass over the rows.

**Keys.** The bits of a positive float, read as an integer, increase with it; those of a negative
float decrease. With the sign bit of the positive ones set and all bits of the negative ones
flipped, these integers, the keys, have the order of the floats, so scores can be counted without
sorting.

**Buckets.** The bucket of a float32 score is the upper half of its key: its sign, its exponent and
seven bits of its mantissa. Buckets are finer near 0. Counts at the edges of the buckets are exact;
the order of scores within a bucket is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setpoint._internal.processes import all_gather, all_reduce_sum
from setpoint.errors import DivergedError, SetpointError
from setpoint.thresholds.checks import check_classes
from setpoint.thresholds.sweep import Ranking, best_index, rank_of

Keys = NDArray[np.unsignedinteger[Any]]
Scores = NDArray[np.floating[Any]]

_SIGNED: dict[str, Any] = {"float16": np.int16, "float32": np.int32, "float64": np.int64}
_FLOAT: dict[str, Any] = {"uint16": np.float16, "uint32": np.float32, "uint64": np.float64}


def to_keys(scores: Scores) -> Keys:
    """Return an unsigned integer for each score, as wide as the score and in the same order.

    ``key(a) < key(b)`` if and only if ``a < b``; -0.0 and 0.0 have the same key. Scores may be
    infinite.

    Parameters
    ----------
    scores : ndarray of float16, float32 or float64
        Not NaN.

    Examples
    --------
    >>> import numpy as np
    >>> keys = to_keys(np.array([-np.inf, -1.5, -0.0, 0.0, 1e-45, 2.0], dtype=np.float32))
    >>> bool((np.diff(keys.astype(np.int64)) > 0).all()), bool(keys[2] == keys[3])
    (False, True)
    """
    scores = np.asarray(scores)
    if scores.dtype.name not in _SIGNED:
        raise SetpointError(f"scores must be float16, float32 or float64, not {scores.dtype}.")
    if np.isnan(scores).any():
        raise SetpointError(f"{int(np.isnan(scores).sum())} of {scores.size} scores are NaN.")
    signed = _SIGNED[scores.dtype.name]
    bits = np.asarray(scores + scores.dtype.type(0)).view(signed)  # -0.0 + 0.0 is 0.0
    flip = bits >> (8 * bits.itemsize - 1)  # all bits of negative numbers, none of others
    flip |= np.iinfo(signed).min
    flip ^= bits
    return np.asarray(flip.view(f"uint{8 * flip.itemsize}"))


def from_keys(keys: Keys) -> Scores:
    """Return the scores with these keys; uint32 gives float32, uint64 gives float64.

    Examples
    --------
    >>> import numpy as np
    >>> from_keys(to_keys(np.array([-2.5, 0.0, np.inf])))
    array([-2.5,  0. ,  inf])
    """
    keys = np.asarray(keys)
    if keys.dtype.name not in _FLOAT:
        raise SetpointError(f"keys must be uint16, uint32 or uint64, not {keys.dtype}.")
    sign = keys.dtype.type(1 << (8 * keys.itemsize - 1))
    bits = np.where(keys >= sign, keys ^ sign, ~keys)
    return np.asarray(bits).view(_FLOAT[keys.dtype.name])


def largest_below(key: int) -> float:
    """Return the largest float32 with a smaller key: greater scores have this key or a higher one.

    The key before that of 0 would be that of -0.0, which is not below 0, so the next one is used.
    """
    before = key - 2 if key == 1 << 31 else key - 1
    return float(from_keys(np.array(before, dtype=np.uint32)))


BUCKETS = 1 << 16
_HALF = BUCKETS // 2
_ROWS = 1 << 16  # counted at once: few enough for a processor's cache
_LOWEST = int(to_keys(np.array(-np.inf, dtype=np.float32))) >> 16  # no cut lies below -inf


class EdgeCut(NamedTuple):
    """The decision "score > threshold" at the edge of a bucket, and its counts.

    With several tallies, the counts are arrays with an entry for each.
    """

    threshold: float
    tp: Any
    fp: Any


class ScoreHistogram:
    """Weights by class of the scores of k models, and the best edge for a goal.

    A bucket spans 1/128 of an octave: scores near 0 are distinguished to any precision, scores
    near 1 to 0.008. For an edge close to the best cut, subtract an estimate of the threshold from
    the scores, e.g. that of the last pass, so that the finest buckets lie around the cut, and add
    the estimate to the edge that is returned.

    Parameters
    ----------
    k : int
        The number of models. Each takes 1 MiB on the device of its scores.
    tallies : int
        In how many ways rows are counted, all alike first. The counts of the others are held for
        the buckets that have rows.

    Examples
    --------
    >>> import torch
    >>> from setpoint import Goal
    >>> histogram = ScoreHistogram(1)
    >>> scores = torch.tensor([[-1.0, 0.25, 0.5, 2.0]])
    >>> histogram.add(scores, torch.tensor([False, True, False, True]))
    >>> histogram.best(Goal.parse("max f1"))
    [EdgeCut(threshold=0.2499999850988388, tp=2.0, fp=1.0)]
    """

    def __init__(self, k: int, tallies: int = 1) -> None:
        self.k, self.tallies = k, tallies
        self._tallied = [_TalliedBuckets(tallies - 1) for _ in range(k if tallies > 1 else 0)]
        # Negatives, positives and the number of NaN scores in one tensor, for one all_reduce.
        self._table = torch.zeros(k, 2 * BUCKETS + 1, dtype=torch.float64)

    def add(
        self,
        scores: Tensor,
        positive: Tensor,
        weight: Tensor | None = None,
        counts: Tensor | None = None,
        shard: int = 0,
    ) -> None:
        """Count rows.

        Parameters
        ----------
        scores : Tensor of float32, shape (k, m)
            Scores of each model.
        positive : Tensor of bool, shape (m,)
            The labels.
        weight : Tensor of shape (m,), optional
            Weights >= 0; without them each row counts 1.
        counts : Tensor of shape (m, tallies), optional
            What each row counts in each tally, the first of which is the weight.
        shard : int
            The shard of the rows. Counts of several tallies are added by shards, so that their sums
            do not depend on the number of processes.
        """
        shape = None if counts is None else tuple(counts.shape)
        if self.tallies > 1 and shape != (len(positive), self.tallies):
            raise SetpointError(
                f"counts must have the shape {(len(positive), self.tallies)}, one column for each "
                f"tally, not {shape}."
            )
        if scores.dtype != torch.float32 or scores.shape != (self.k, len(positive)):
            raise SetpointError(
                f"scores must be float32 of the shape {(self.k, len(positive))}; they are "
                f"{str(scores.dtype).removeprefix('torch.')} of the shape {tuple(scores.shape)}."
            )
        self._table = self._table.to(scores.device)
        positive = positive.to(scores.device)
        weight = None if weight is None else weight.to(scores.device)
        self._table[:, -1] += scores.isnan().sum(dim=1)
        for table, row in zip(self._table, scores.detach(), strict=True):
            _count_buckets(table[:-1], row, positive, weight)
        if counts is not None and self._tallied:
            values = counts[:, 1:].to(scores.device, torch.float64)
            for tallied, row in zip(self._tallied, scores.detach(), strict=True):
                tallied.add(_bucket_index(row, positive), values, shard)

    def all_reduce(self) -> None:
        """Replace the histogram by its sum over all processes."""
        self._table = self._table.cpu()
        all_reduce_sum(self._table)
        processes = all_gather([tallied.shards() for tallied in self._tallied])
        for i, tallied in enumerate(self._tallied):
            tallied.replace_by(own[i] for own in processes)

    @property
    def diverged(self) -> list[int]:
        """The models with a score that is NaN."""
        return [int(i) for i in torch.nonzero(self._table[:, -1]).flatten()]

    @property
    def positive(self) -> NDArray[np.float64]:
        """The weight of the positives, shape (k, 65,536), buckets in ascending order."""
        return self._ordered()[:, 1]

    @property
    def negative(self) -> NDArray[np.float64]:
        """The weight of the negatives, in the same shape."""
        return self._ordered()[:, 0]

    def _ordered(self) -> NDArray[np.float64]:
        tables = self._table[:, :-1].reshape(self.k, 2, BUCKETS)
        return np.asarray(_in_order(tables).cpu().numpy())

    def best(self, goal: Ranking) -> list[EdgeCut]:
        """Return each model's best edge, ranked as in ``choose_threshold``.

        The edge is the lower one of a bucket that holds scores, or lies above all scores.
        """
        if self.diverged:
            raise DivergedError(
                f"the scores of {len(self.diverged)} of {self.k} models are not numbers; try a "
                "lower learning rate."
            )
        tables = self._ordered()
        if not self._tallied:
            return [_best_edge(*_occupied(*table), goal) for table in tables]
        return [
            _best_edge(*_occupied(*table, *tallied.ordered()), goal)
            for table, tallied in zip(tables, self._tallied, strict=True)
        ]

    def totals(self) -> tuple[Any, Any]:
        """Return P and N: numbers, or arrays with an entry for each of several tallies."""
        P, N = (float(weights[0].sum()) for weights in (self.positive, self.negative))
        if not self._tallied:
            return P, N
        negatives, positives = (sums.sum(axis=1) for _, sums in self._tallied[0].ordered())
        return np.append(P, positives), np.append(N, negatives)


def _occupied(
    negative: NDArray[np.float64],
    positive: NDArray[np.float64],
    *tallied: tuple[NDArray[np.int64], NDArray[np.float64]],
) -> tuple[NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    """Return the buckets that hold rows, and TP and FP at their lower edges.

    With several tallies, ``tallied`` is which buckets hold negatives and what they count in the
    further ones, then the same for positives; the counts have the shape (tallies, buckets).
    """
    check_classes(float(positive.sum()), float(negative.sum()), weighted=False)
    buckets = np.flatnonzero(positive + negative)
    found = [positive[buckets], negative[buckets]]
    for i, (plain, (own, sums)) in enumerate(zip(found, tallied[::-1], strict=False)):
        found[i] = np.zeros((1 + len(sums), len(buckets)))
        found[i][0] = plain
        # Rows of weight 0 may have a bucket of their own.
        place = np.minimum(np.searchsorted(buckets, own), len(buckets) - 1)
        known = buckets[place] == own
        found[i][1:, place[known]] = sums[:, known]
    tp, fp = (np.cumsum(weights[..., ::-1], axis=-1)[..., ::-1] for weights in found)
    return buckets, tp, fp


def _best_edge(
    buckets: NDArray[np.intp], tp: NDArray[np.float64], fp: NDArray[np.float64], goal: Ranking
) -> EdgeCut:
    P, N, none = tp[..., 0][()], fp[..., 0][()], np.zeros(tp.shape[:-1])[()]
    # Infinity is the last number of its bucket; what follows it is NaN.
    above_all = float(np.fmin(largest_below(int(buckets[-1] + 1) << 16), np.inf))
    nothing = EdgeCut(above_all, *map(_counts, (none, none)))
    allowed = buckets > _LOWEST
    buckets, tp, fp = buckets[allowed], tp[..., allowed], fp[..., allowed]
    if not len(buckets):
        return nothing
    with np.errstate(divide="ignore", invalid="ignore"):  # as in best_cut
        i = best_index(goal, tp, fp, P, N)
        if rank_of(goal, tp[..., i], fp[..., i], P, N) <= rank_of(goal, none, none, P, N):
            return nothing
    at = largest_below(int(buckets[i]) << 16)
    return EdgeCut(at, _counts(tp[..., i]), _counts(fp[..., i]))


def _counts(counts: Any) -> Any:
    return counts if np.ndim(counts) else float(counts)


_Sums = tuple[Tensor, Tensor]  # buckets in ascending order, and the sums of their values


class _TalliedBuckets:
    """What the rows of one model's buckets count in the tallies after the first.

    Buckets are numbered as in the histogram's table. Few of them hold rows, so only these are kept.
    Floating-point sums depend on their order: each shard is summed by itself, and the shards are
    added in their order.
    """

    def __init__(self, tallies: int) -> None:
        self._tallies = tallies
        self._shards: dict[int, list[_Sums]] = {}

    def add(self, bucket: Tensor, values: Tensor, shard: int) -> None:
        """Add rows of a shard with these buckets (m,) and values (m, tallies)."""
        parts = self._shards.setdefault(shard, [])
        parts.append(_sums_by_bucket(bucket, values))
        if sum(len(own) for own, _ in parts) > 2 * len(parts[0][0]) + BUCKETS:
            self._shards[shard] = [_added(parts)]

    def shards(self) -> dict[int, _Sums]:
        """Return the sums of each shard."""
        self._shards = {shard: [_added(parts)] for shard, parts in self._shards.items()}
        return {shard: parts[0] for shard, parts in self._shards.items()}

    def replace_by(self, processes: Iterable[dict[int, _Sums]]) -> None:
        """Replace the sums by those of all processes, each of which has shards of its own."""
        self._shards = {shard: [sums] for own in processes for shard, sums in own.items()}

    def sums(self) -> _Sums:
        """Return the sums of all shards."""
        nothing = torch.zeros(0, dtype=torch.int64), torch.zeros(0, self._tallies).double()
        of_shards = self.shards()
        return _added([nothing, *(of_shards[shard] for shard in sorted(of_shards))])

    def ordered(self) -> list[tuple[NDArray[np.int64], NDArray[np.float64]]]:
        """Return buckets in ascending order of scores, and sums (tallies, buckets), by class.

        Negatives come first.
        """
        buckets, values = (column.numpy() for column in self.sums())
        found = []
        for label in (0, 1):
            own = buckets // BUCKETS == label
            place = buckets[own] % BUCKETS
            # The order of :func:`_in_order`
            place = np.where(place < _HALF, _HALF - 1 - place, place)
            found.append((place, values[own].T))
        return found


def _added(parts: list[_Sums]) -> _Sums:
    buckets, values = (
        torch.cat([part.cpu() for part in column]) for column in zip(*parts, strict=True)
    )
    return _sums_by_bucket(buckets, values)


def _sums_by_bucket(bucket: Tensor, values: Tensor) -> _Sums:
    buckets, place = torch.unique(bucket, return_inverse=True)
    sums = values.new_zeros(len(buckets), values.shape[1]).index_add_(0, place, values)
    return buckets, sums


def bucket_values() -> NDArray[np.float64]:
    """Return a score in the middle of each bucket; infinite where a bucket holds no finite one."""
    bucket = np.arange(BUCKETS)
    middle = from_keys(((bucket << 16) + _HALF).astype(np.uint32))
    beyond = np.where(bucket < _HALF, -np.inf, np.inf)
    return np.where(np.isfinite(middle), middle, beyond.astype(np.float32)).astype(np.float64)


def _count_buckets(table: Tensor, scores: Tensor, positive: Tensor, weight: Tensor | None) -> None:
    """Add scores of any floating type to a table of 2 x 65,536 weights, negatives first.

    Buckets are in the order of the scores' bits; :func:`_in_order` sorts them.
    """
    step = _ROWS if table.device.type == "cpu" else max(len(scores), 1)
    one = torch.ones(1, dtype=table.dtype, device=table.device)
    for start in range(0, len(scores), step):
        rows = slice(start, start + step)
        index = _bucket_index(scores[rows], positive[rows])
        w = one.expand(len(index)) if weight is None else weight[rows].to(table.dtype)
        table.scatter_add_(0, index, w)


def _bucket_index(scores: Tensor, positive: Tensor) -> Tensor:
    """Return the places of rows in a table, in which positives follow negatives."""
    return _upper_half(scores).add_(positive.long() * BUCKETS + _HALF)


def _upper_half(scores: Tensor) -> Tensor:
    """Return the upper 16 bits as numbers from -32,768 on; -0.0 counts as 0.0."""
    signed = {2: torch.int16, 4: torch.int32, 8: torch.int64}[scores.element_size()]
    return ((scores + 0.0).view(signed) >> (8 * scores.element_size() - 16)).long()


def _in_order(tables: Tensor) -> Tensor:
    """Return buckets in ascending order of their scores, given those in the order of bits."""
    return torch.cat((tables[..., :_HALF].flip(-1), tables[..., _HALF:]), dim=-1)
