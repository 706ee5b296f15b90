"""The exact threshold for a goal in bounded memory, from a few passes over the scores.

The first pass counts the scores in 65,536 ranges of their keys. The counts at the ends of a range
bound the goal at any cut inside it, so most ranges cannot hold the best cut. The few that can are
resolved in the next pass: the rows of a range are collected if they are few, and counted in 65,536
subranges if they are many. This is repeated until single scores are known.

Two passes usually suffice. A third finds the next lower score if that lies in another range (as
it does where scores are few and tied), and float64 scores need up to five if ranges hold millions
of rows. Custom metrics that are not monotone exclude no range: then all ranges are resolved, in as
many passes as the memory limit requires.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from setpoint._internal.processes import all_gather, all_reduce_sum
from setpoint.errors import SetpointError
from setpoint.goals.goal import Goal, check_plain
from setpoint.thresholds.caution import Cautious
from setpoint.thresholds.checks import check_classes, check_scores
from setpoint.thresholds.histogram import BUCKETS, Scores, from_keys, to_keys
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.thresholds.stream_search import (
    CutSearch,
    Floats,
    Group,
    KeyRanges,
    concatenate,
    subranges,
)
from setpoint.thresholds.sweep import threshold_below


def stream_threshold(
    scan: Scan,
    goal: str | Goal,
    *,
    on: str = "the data given",
    ranking: Cautious | None = None,
) -> OperatingPoint:
    """Find the exact threshold for a goal on scores that need not fit into memory.

    The result equals that of :func:`setpoint.choose_threshold` on all rows at once, to the last
    bit, if weights add up exactly, as integers do. Sums of other weights depend on the order of
    addition: counts then agree up to rounding, as does the choice between cuts that differ by
    rounding only.

    In a process group, each process scans its own rows, and all return the same point, that of
    all rows.

    Parameters
    ----------
    scan : callable
        ``scan()`` is one pass: it returns an iterable of blocks ``(positive, scores, weight)``,
        arrays or tensors of one entry per row; weight may be None. Each call must return the same
        rows.
    goal : str or Goal
        E.g. ``"max recall s.t. precision >= 0.9"``; it must count all rows alike.
    on : str
        The name of the data in messages.
    ranking : Cautious, optional
        The ranking of thresholds, if it is not the goal.

    Examples
    --------
    >>> import numpy as np
    >>> def scan():
    ...     yield np.array([False, False, True]), np.array([0.1, 0.2, 0.3]), None
    ...     yield np.array([False, True, True]), np.array([0.5, 0.7, 0.9]), None
    >>> stream_threshold(scan, "max recall s.t. precision >= 0.9").threshold
    0.6
    """
    goal = _check_goal(goal)
    scans = ScoreScans(scan)
    ranges = _first_pass(scans)
    P, N = float(ranges.tp[0]), float(ranges.fp[0])
    search = CutSearch(ranking or goal, scans.dtype, P, N)
    search.consider(ranges)
    while len((group := search.next_group()).ranges.first):
        search.consider(_resolve(scans, group))
    best = search.best
    known = [best.below, best.key] if best.below is not None else _neighbours(scans, best.key)
    values = from_keys(np.array(known, dtype=f"uint{8 * scans.dtype.itemsize}"))
    lowest = None if best.key is None else float(values[known.index(best.key)])
    threshold = threshold_below(lowest, values)
    return OperatingPoint(threshold, best.tp, best.fp, P - best.tp, N - best.fp, goal, on, ranking)


def stream_evaluate(
    scan: Scan, threshold: float, goal: str | Goal, *, on: str = "the data given"
) -> OperatingPoint:
    """Return the operating point at a threshold in one pass; parameters as in stream_threshold.

    One class is enough, as in :func:`setpoint.evaluate_threshold`.
    """
    goal = _check_goal(goal)
    if np.isnan(threshold):
        raise SetpointError("the threshold is NaN.")
    counts = torch.zeros(2, 2, dtype=torch.float64)  # by alarm and class

    def count(rows: Rows) -> None:
        alarm = rows.scores.astype(np.float64, copy=False) > float(threshold)
        w = np.ones(len(alarm)) if rows.weight is None else rows.weight
        for i, j in np.ndindex(2, 2):
            counts[i, j] += float(w[(alarm == i) & (rows.positive == j)].sum())

    scans = ScoreScans(scan)
    scans.read(count)
    _check_not_empty(scans)
    all_reduce_sum(counts)
    (tn, fn), (fp, tp) = counts.tolist()
    return OperatingPoint(float(threshold), tp, fp, fn, tn, goal, on)


def _check_goal(goal: str | Goal) -> Goal:
    goal = Goal.parse(goal)
    check_plain(
        goal,
        "a stream of scores",
        "use choose_threshold or evaluate_threshold on scores in memory, with their amounts, "
        "segments and times",
    )
    return goal


def _check_not_empty(scans: ScoreScans) -> None:
    if scans.rows == 0 and not scans.weighted:
        raise SetpointError("there are no samples.")


class _Counts:
    """Numbers and weights of rows, by table, class and bucket."""

    def __init__(self, tables: int) -> None:
        self._rows = np.zeros(tables * 2 * BUCKETS)
        self._weights: Floats | None = None

    def add(self, index: NDArray[np.intp], weight: NDArray[np.floating] | None) -> None:
        if weight is not None and self._weights is None:
            self._weights = self._rows.copy()  # rows without a weight count 1
        np.add.at(self._rows, index, 1.0)
        if self._weights is not None:
            np.add.at(self._weights, index, 1.0 if weight is None else weight)

    def all_reduce(self, weighted: bool) -> tuple[Floats, Floats]:
        """Return the weights and numbers of rows of all processes, shape (tables, 2, 65,536)."""
        if weighted and self._weights is None:
            self._weights = self._rows.copy()
        for table in (self._rows, self._weights):
            if table is not None and len(table):
                all_reduce_sum(torch.from_numpy(table))
        rows = self._rows.reshape(-1, 2, BUCKETS)
        weights = rows if self._weights is None else self._weights.reshape(-1, 2, BUCKETS)
        return weights, rows


def _first_pass(scans: ScoreScans) -> KeyRanges:
    """Return the ranges of keys with equal upper 16 bits that hold rows."""
    counts = _Counts(1)

    def count(rows: Rows) -> None:
        bucket = to_keys(rows.scores) >> (8 * rows.scores.itemsize - 16)
        counts.add(bucket.astype(np.intp) + rows.positive * BUCKETS, rows.weight)

    scans.read(count)
    weights, n = (table[0] for table in counts.all_reduce(scans.weighted))
    _check_not_empty(scans)
    negative, positive = weights
    check_classes(float(positive.sum()), float(negative.sum()), weighted=scans.weighted)
    P, N = (float(np.cumsum(w[::-1])[-1]) for w in (positive, negative))
    return _occupied((P, N, 0.0, 0.0), 0, 8 * scans.dtype.itemsize, weights, n)


def _occupied(
    parent: tuple[float, float, float, float], first: int, bits: int, weights: Floats, rows: Floats
) -> KeyRanges:
    """Return the subranges that hold rows, of 65,536 equal subranges of a range."""
    which = np.flatnonzero(rows.any(axis=0))
    keys = np.uint64(first) + (which.astype(np.uint64) << np.uint64(bits - 16))
    return subranges(parent, keys, bits - 16, weights[:, which], rows[:, which].sum(axis=0))


# Keys, and for each key the weight of its negatives, that of its positives, and how many rows.
_ByKey = tuple[NDArray[np.uint64], Floats]


def _sum_by_key(parts: list[_ByKey]) -> _ByKey:
    """Return the distinct keys in ascending order, with the sums of all parts."""
    keys, inverse = np.unique(np.concatenate([part[0] for part in parts]), return_inverse=True)
    columns = np.concatenate([part[1] for part in parts], axis=1)
    return keys, np.array([np.bincount(inverse, column, len(keys)) for column in columns])


def _resolve(scans: ScoreScans, group: Group) -> KeyRanges:
    """Return the scores in the collected ranges, and the subranges of the counted ones."""
    ranges, bits = group.ranges, 8 * scans.dtype.itemsize
    last = ranges.last
    touched = np.zeros(BUCKETS, dtype=bool)
    touched[(ranges.first >> np.uint64(bits - 16)).astype(np.intp)] = True
    table = np.cumsum(group.counted) - 1
    counts = _Counts(int(group.counted.sum()))
    collected: list[_ByKey] = [(np.empty(0, dtype=np.uint64), np.empty((3, 0)))]

    def resolve(rows: Rows) -> None:
        keys = to_keys(rows.scores)
        near = np.flatnonzero(touched[(keys >> (bits - 16)).astype(np.intp)])
        keys = keys[near].astype(np.uint64)
        which = np.searchsorted(ranges.first, keys, side="right") - 1
        inside = (which >= 0) & (keys <= last[which])
        for counted in (True, False):
            chosen = np.flatnonzero(inside & (group.counted[which] == counted))
            if not len(chosen):
                continue
            positive = rows.positive[near[chosen]]
            weight = None if rows.weight is None else rows.weight[near[chosen]]
            if not counted:
                w = np.ones(len(chosen)) if weight is None else weight
                columns = np.array([w * ~positive, w * positive, np.ones(len(chosen))])
                collected.append((keys[chosen], columns))
                continue
            i = which[chosen]
            bucket = (keys[chosen] - ranges.first[i]) >> (ranges.bits[i] - np.uint64(16))
            counts.add((2 * table[i] + positive) * BUCKETS + bucket.astype(np.intp), weight)

    values, columns = _sum_by_key(scans.read(resolve, lambda: _sum_by_key(collected)))
    weights, rows = counts.all_reduce(scans.weighted)
    found = []
    for i, counted in enumerate(group.counted):
        parent = _counts_at_ends(ranges, i)
        if counted:
            first, size = int(ranges.first[i]), int(ranges.bits[i])
            parts = _occupied(parent, first, size, weights[table[i]], rows[table[i]])
        else:
            start = int(np.searchsorted(values, ranges.first[i], side="left"))
            inside = slice(start, int(np.searchsorted(values, last[i], side="right")))
            parts = subranges(parent, values[inside], 0, columns[:2, inside], columns[2, inside])
        if parts.rows.sum() != ranges.rows[i]:
            raise SetpointError(
                f"pass {scans.passes} gave other scores than the first; each call of scan must "
                "return the same rows."
            )
        found.append(parts)
    return concatenate(found)


def _counts_at_ends(ranges: KeyRanges, i: int) -> tuple[float, float, float, float]:
    """Return TP and FP at the lower end of a range, then those at its upper end."""
    tp, fp = float(ranges.tp[i]), float(ranges.fp[i])
    return tp, fp, tp - float(ranges.positive[i]), fp - float(ranges.negative[i])


def _neighbours(scans: ScoreScans, key: int | None) -> list[int]:
    """Return a key with its neighbours among all rows; without a key, the two highest."""
    found: set[int] = set() if key is None else {key}

    def search(rows: Rows) -> None:
        keys = to_keys(rows.scores)
        below = keys if key is None else keys[keys < keys.dtype.type(key)]
        for _ in range(2 if key is None else 1):
            if len(below):
                found.add(int(below.max()))
                below = below[below < below.max()]
        if key is not None and (keys > keys.dtype.type(key)).any():
            found.add(int(keys[keys > keys.dtype.type(key)].min()))
        nearest = _nearest(found, key)
        found.clear()
        found.update(nearest)

    return _nearest(set().union(*scans.read(search, lambda: found)), key)


def _nearest(keys: set[int], key: int | None) -> list[int]:
    ascending = sorted(keys)
    if key is None:
        return ascending[-2:]
    i = ascending.index(key)
    return ascending[max(i - 1, 0) : i + 2]


# --- passes over the rows ------------------------------------------------------------------------

# One pass: blocks of labels, scores, and weights or None, the same ones at each call.
Scan = Callable[[], Iterable[tuple[Any, Any, Any]]]

_ROWS = 1 << 16  # handled at once: few enough for a processor's cache


class Rows(NamedTuple):
    """Validated rows: no weight is 0, and no score is NaN."""

    positive: NDArray[np.bool_]
    scores: Scores
    weight: NDArray[np.floating[Any]] | None


class _PassResult(NamedTuple):
    """What the processes exchange at the end of a pass."""

    error: str | None
    dtype: str | None
    rows: int
    weighted: bool
    value: Any


class ScoreScans:
    """Passes over all rows, at the end of which the processes exchange their results.

    An error in one process is raised in all of them, so that none waits for another one forever.

    Attributes
    ----------
    passes : int
        The number of passes so far.
    dtype : numpy dtype
        The type of the scores.
    rows : int
        The number of rows whose weight is not 0.
    weighted : bool
        Whether any row has a weight.
    """

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self.passes = 0
        self.dtype = np.dtype(np.float32)
        self.weighted = False
        self.rows = 0

    def read(self, use: Callable[[Rows], None], value: Callable[[], Any] = lambda: None) -> Any:
        """Pass all rows to ``use``, block by block, and return ``value()`` of each process."""
        dtypes: set[str] = set()
        error, n, weighted = None, 0, False
        try:
            for rows in _validated(self._scan()):
                dtypes.add(rows.scores.dtype.name)
                n += len(rows.scores)
                weighted |= rows.weight is not None
                use(rows)
            _common_dtype(dtypes)
        except SetpointError as problem:
            error = str(problem)
        results = all_gather(_PassResult(error, next(iter(dtypes), None), n, weighted, value()))
        self._compare(results)
        return [result.value for result in results]

    def _compare(self, results: list[_PassResult]) -> None:
        for result in results:
            if result.error is not None:
                raise SetpointError(result.error)
        dtype = _common_dtype({r.dtype for r in results if r.dtype is not None})
        rows = sum(result.rows for result in results)
        self.passes += 1
        if self.passes == 1:
            self.dtype, self.rows = np.dtype(dtype), rows
            self.weighted = any(result.weighted for result in results)
        elif (rows, dtype) != (self.rows, self.dtype.name):
            raise SetpointError(
                f"pass {self.passes} gave {rows} rows of {dtype} scores, the first pass "
                f"{self.rows} of {self.dtype}; each call of scan must return the same rows."
            )


def _common_dtype(dtypes: set[str]) -> str:
    if len(dtypes) > 1:
        raise SetpointError(f"scores must have one dtype, but are {' and '.join(sorted(dtypes))}.")
    return next(iter(dtypes), "float32")


def _validated(blocks: Iterable[tuple[Any, Any, Any]]) -> Iterator[Rows]:
    """Yield rows in blocks of bounded size, validated as in choose_threshold."""
    start = 0
    for block in blocks:
        positive, scores, weight = (
            b.detach().cpu() if isinstance(b, torch.Tensor) else b for b in block
        )
        if not isinstance(scores, torch.Tensor):  # check_scores converts bfloat16
            scores = np.asarray(scores)
        positive = np.asarray(positive)
        weight = None if weight is None else np.asarray(weight)
        sizes = {len(b) if b.ndim else 0 for b in (positive, scores, weight) if b is not None}
        if len(sizes) > 1:
            raise SetpointError(
                f"a block's labels, scores and weights differ in length: {sorted(sizes)}."
            )
        for first in range(0, len(scores), _ROWS):
            rows = slice(first, first + _ROWS)
            w = None if weight is None else weight[rows]
            try:
                yield Rows(*check_scores(positive[rows], scores[rows], w, None))
            except SetpointError as error:
                raise SetpointError(f"in the rows from {start + first} on, {error}") from None
        start += len(scores)
