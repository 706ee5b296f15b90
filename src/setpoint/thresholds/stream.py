"""The exact threshold for a goal in bounded memory, from a few passes over the scores.

The first pass counts the scores in 65,536 ranges of their keys. The counts at the ends of a range
bound what any cut inside it can reach, so most ranges cannot hold the best cut; the few that can
are resolved in the next pass: the rows of a range are collected where they are few, and counted
in 65,536 parts of the range where they are many. This goes on until single scores are known.

Two passes are the rule. A third finds the next lower score where that lies in another range (as
it does where scores are few and tied), and float64 scores need up to five where ranges hold
millions of rows. Metrics of a user's own that are not monotone rule nothing out: then all ranges
are resolved, in as many passes as the bound on memory asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from setpoint._internal.processes import all_gather, all_reduce_sum
from setpoint.errors import SetpointError
from setpoint.goals.goal import Goal
from setpoint.thresholds.histogram import BUCKETS, Scores, check_classes, from_keys, to_keys
from setpoint.thresholds.operating_point import OperatingPoint, check_scores, threshold_below
from setpoint.thresholds.stream_search import CutSearch, Floats, Group, Spans, joined, within


def stream_threshold(scan: Scan, goal: str | Goal, *, on: str = "the data given") -> OperatingPoint:
    """Find the exact threshold for a goal on scores that need not fit into memory.

    The result is that of :func:`setpoint.choose_threshold` on all rows at once, to the last bit,
    where weights add up exactly, as whole numbers do. Sums of other weights depend on the order
    in which they are added: counts then agree to rounding, and so does the choice between cuts
    that are equally good but for rounding.

    Where torch.distributed runs, each process scans its own rows and all return the same point,
    that of all rows.

    Parameters
    ----------
    scan : callable
        ``scan()`` is one pass: it returns an iterable of blocks ``(positive, scores, weight)``,
        arrays or tensors of one entry per row; weight may be None. Each call must give the same
        rows anew.
    goal : str or Goal
        E.g. ``"max recall s.t. precision >= 0.9"``.
    on : str
        What to call these data in messages.

    Examples
    --------
    >>> import numpy as np
    >>> def scan():
    ...     yield np.array([False, False, True]), np.array([0.1, 0.2, 0.3]), None
    ...     yield np.array([False, True, True]), np.array([0.5, 0.7, 0.9]), None
    >>> stream_threshold(scan, "max recall s.t. precision >= 0.9").threshold
    0.6
    """
    goal = Goal.parse(goal)
    scans = ScoreScans(scan)
    everything = _first_pass(scans)
    P, N = float(everything.tp[0]), float(everything.fp[0])
    search = CutSearch(goal, scans.dtype, P, N)
    search.consider(everything)
    while len((group := search.next_group()).spans.first):
        search.consider(_resolve(scans, group))
    best = search.best
    known = [best.below, best.key] if best.below is not None else _around(scans, best.key)
    values = from_keys(np.array(known, dtype=f"uint{8 * scans.dtype.itemsize}"))
    lowest = None if best.key is None else float(values[known.index(best.key)])
    threshold = threshold_below(lowest, values)
    return OperatingPoint(threshold, best.tp, best.fp, P - best.tp, N - best.fp, goal, on)


def stream_evaluate(
    scan: Scan, threshold: float, goal: str | Goal, *, on: str = "the data given"
) -> OperatingPoint:
    """Return what a given threshold does, from one pass; parameters as in stream_threshold.

    One class is enough, as in :func:`setpoint.evaluate_threshold`.
    """
    goal = Goal.parse(goal)
    if np.isnan(threshold):
        raise SetpointError("the threshold is NaN.")
    counts = torch.zeros(2, 2, dtype=torch.float64)  # by alarm and class

    def see(rows: Rows) -> None:
        alarm = rows.scores.astype(np.float64, copy=False) > float(threshold)
        w = np.ones(len(alarm)) if rows.weight is None else rows.weight
        for i, j in np.ndindex(2, 2):
            counts[i, j] += float(w[(alarm == i) & (rows.positive == j)].sum())

    scans = ScoreScans(scan)
    scans.read(see)
    _check_any(scans)
    all_reduce_sum(counts)
    (tn, fn), (fp, tp) = counts.tolist()
    return OperatingPoint(float(threshold), tp, fp, fn, tn, goal, on)


def _check_any(scans: ScoreScans) -> None:
    if scans.rows == 0 and not scans.weighted:
        raise SetpointError("there are no samples.")


class _Counts:
    """Rows, and weights where there are any, by table, class and bucket."""

    def __init__(self, tables: int) -> None:
        self._rows = np.zeros(tables * 2 * BUCKETS)
        self._weights: Floats | None = None

    def add(self, index: NDArray[np.intp], weight: NDArray[np.floating] | None) -> None:
        if weight is not None and self._weights is None:
            self._weights = self._rows.copy()  # rows without a weight count 1
        np.add.at(self._rows, index, 1.0)
        if self._weights is not None:
            np.add.at(self._weights, index, 1.0 if weight is None else weight)

    def add_up(self, weighted: bool) -> tuple[Floats, Floats]:
        """Return the weights and the rows of all processes, shape (tables, 2, 65,536)."""
        if weighted and self._weights is None:
            self._weights = self._rows.copy()
        for table in (self._rows, self._weights):
            if table is not None and len(table):
                all_reduce_sum(torch.from_numpy(table))
        rows = self._rows.reshape(-1, 2, BUCKETS)
        weights = rows if self._weights is None else self._weights.reshape(-1, 2, BUCKETS)
        return weights, rows


def _first_pass(scans: ScoreScans) -> Spans:
    """Return the ranges of the upper 16 bits that hold rows."""
    counts = _Counts(1)

    def see(rows: Rows) -> None:
        bucket = to_keys(rows.scores) >> (8 * rows.scores.itemsize - 16)
        counts.add(bucket.astype(np.intp) + rows.positive * BUCKETS, rows.weight)

    scans.read(see)
    weights, n = (table[0] for table in counts.add_up(scans.weighted))
    _check_any(scans)
    negative, positive = weights
    check_classes(float(positive.sum()), float(negative.sum()), scans.weighted)
    P, N = (float(np.cumsum(w[::-1])[-1]) for w in (positive, negative))
    return _occupied((P, N, 0.0, 0.0), 0, 8 * scans.dtype.itemsize, weights, n)


def _occupied(
    parent: tuple[float, float, float, float], first: int, bits: int, weights: Floats, rows: Floats
) -> Spans:
    """Return the parts of a range that hold rows."""
    held = np.flatnonzero(rows.any(axis=0))
    keys = np.uint64(first) + (held.astype(np.uint64) << np.uint64(bits - 16))
    return within(parent, keys, bits - 16, weights[:, held], rows[:, held].sum(axis=0))


class _Collected:
    """Rows of ranges that hold few."""

    def __init__(self) -> None:
        self._parts: list[
            tuple[NDArray[np.uint64], NDArray[np.bool_], NDArray[np.floating] | None]
        ] = []

    def add(
        self,
        keys: NDArray[np.uint64],
        positive: NDArray[np.bool_],
        weight: NDArray[np.floating] | None,
    ) -> None:
        self._parts.append((keys, positive, weight))

    def distinct(self) -> tuple[NDArray[np.uint64], Floats, Floats]:
        """Return the distinct keys, and the weights by class and the rows at each."""
        if not self._parts:
            return np.empty(0, dtype=np.uint64), np.empty((2, 0)), np.empty(0)
        keys, inverse = np.unique(np.concatenate([p[0] for p in self._parts]), return_inverse=True)
        positive = np.concatenate([p[1] for p in self._parts])
        weight = np.concatenate([np.ones(len(p[0])) if p[2] is None else p[2] for p in self._parts])
        weights = [
            np.bincount(inverse[own], weight[own], len(keys)) for own in (~positive, positive)
        ]
        rows = np.bincount(inverse, minlength=len(keys)).astype(np.float64)
        return keys, np.array(weights), rows


def _of_all(
    told: list[tuple[NDArray[np.uint64], Floats, Floats]],
) -> tuple[NDArray[np.uint64], Floats, Floats]:
    """Return what several processes have collected, as one."""
    if len(told) == 1:
        return told[0]
    keys, inverse = np.unique(np.concatenate([t[0] for t in told]), return_inverse=True)
    columns = np.concatenate([np.vstack((t[1], t[2])) for t in told], axis=1)
    sums = np.array([np.bincount(inverse, c, len(keys)) for c in columns])
    return keys, sums[:2], sums[2]


def _resolve(scans: ScoreScans, group: Group) -> Spans:
    """Return the scores in ranges that are collected, and the parts of those that are counted."""
    spans, bits = group.spans, 8 * scans.dtype.itemsize
    last = spans.last
    touched = np.zeros(BUCKETS, dtype=bool)
    touched[(spans.first >> np.uint64(bits - 16)).astype(np.intp)] = True
    table = np.cumsum(group.counted) - 1
    counts, collected = _Counts(int(group.counted.sum())), _Collected()

    def see(rows: Rows) -> None:
        keys = to_keys(rows.scores)
        near = np.flatnonzero(touched[(keys >> (bits - 16)).astype(np.intp)])
        keys = keys[near].astype(np.uint64)
        which = np.searchsorted(spans.first, keys, side="right") - 1
        inside = (which >= 0) & (keys <= last[which])
        for counted in (True, False):
            own = np.flatnonzero(inside & (group.counted[which] == counted))
            if not len(own):
                continue
            positive = rows.positive[near[own]]
            weight = None if rows.weight is None else rows.weight[near[own]]
            if not counted:
                collected.add(keys[own], positive, weight)
                continue
            i = which[own]
            part = (keys[own] - spans.first[i]) >> (spans.bits[i] - np.uint64(16))
            index = (2 * table[i] + positive) * BUCKETS + part.astype(np.intp)
            counts.add(index, weight)

    values, at, rows_at = _of_all(scans.read(see, collected.distinct))
    weights, rows = counts.add_up(scans.weighted)
    found = []
    for i, counted in enumerate(group.counted):
        parent = _counts_around(spans, i)
        if counted:
            first, size = int(spans.first[i]), int(spans.bits[i])
            parts = _occupied(parent, first, size, weights[table[i]], rows[table[i]])
        else:
            start = int(np.searchsorted(values, spans.first[i], side="left"))
            own = slice(start, int(np.searchsorted(values, last[i], side="right")))
            parts = within(parent, values[own], 0, at[:, own], rows_at[own])
        if parts.rows.sum() != spans.rows[i]:
            raise SetpointError(
                f"pass {scans.passes} gave other scores than the first; each call of scan must "
                "give the same rows anew."
            )
        found.append(parts)
    return joined(found)


def _counts_around(spans: Spans, i: int) -> tuple[float, float, float, float]:
    """Return TP and FP at the lower end of a range, then those at its upper end."""
    tp, fp = float(spans.tp[i]), float(spans.fp[i])
    return tp, fp, tp - float(spans.positive[i]), fp - float(spans.negative[i])


def _around(scans: ScoreScans, key: int | None) -> list[int]:
    """Return a key with its neighbours among all rows; without a key, the two highest."""
    found: set[int] = set() if key is None else {key}

    def see(rows: Rows) -> None:
        keys = to_keys(rows.scores)
        below = keys if key is None else keys[keys < keys.dtype.type(key)]
        for _ in range(2 if key is None else 1):
            if len(below):
                found.add(int(below.max()))
                below = below[below < below.max()]
        if key is not None and (keys > keys.dtype.type(key)).any():
            found.add(int(keys[keys > keys.dtype.type(key)].min()))
        kept = _nearest(found, key)
        found.clear()
        found.update(kept)

    return _nearest(set().union(*scans.read(see, lambda: found)), key)


def _nearest(keys: set[int], key: int | None) -> list[int]:
    ascending = sorted(keys)
    if key is None:
        return ascending[-2:]
    i = ascending.index(key)
    return ascending[max(i - 1, 0) : i + 2]


# One pass: blocks of labels, scores, and weights or None, the same ones at each call.
Scan = Callable[[], Iterable[tuple[Any, Any, Any]]]

_ROWS = 1 << 16  # handled at once: what stays in a processor's cache


class Rows(NamedTuple):
    """Some rows after their check: none without weight, no score NaN."""

    positive: NDArray[np.bool_]
    scores: Scores
    weight: NDArray[np.floating[Any]] | None


class _Told(NamedTuple):
    """What a process tells the others at the end of a pass."""

    error: str | None
    dtype: str | None
    rows: int
    weighted: bool
    answer: Any


class ScoreScans:
    """Passes over all rows, after each of which the processes agree on what was seen.

    An error that one process meets is raised by all of them: none waits for one that is gone.

    Attributes
    ----------
    passes : int
        How many there were.
    dtype : numpy dtype
        Of the scores.
    rows : int
        How many there are with a weight.
    weighted : bool
        Whether any row came with a weight.
    """

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self.passes = 0
        self.dtype = np.dtype(np.float32)
        self.weighted = False
        self.rows = 0

    def read(self, see: Callable[[Rows], None], answer: Callable[[], Any] = lambda: None) -> Any:
        """Give all rows to ``see``, some at a time, and return each process's ``answer()``."""
        found: set[str] = set()
        error, n, weighted = None, 0, False
        try:
            for rows in _checked(self._scan()):
                found.add(rows.scores.dtype.name)
                n += len(rows.scores)
                weighted |= rows.weight is not None
                see(rows)
            _one_kind(found)
        except SetpointError as problem:
            error = str(problem)
        told = all_gather(_Told(error, next(iter(found), None), n, weighted, answer()))
        self._agree(told)
        return [t.answer for t in told]

    def _agree(self, told: list[_Told]) -> None:
        for t in told:
            if t.error is not None:
                raise SetpointError(t.error)
        dtype = _one_kind({t.dtype for t in told if t.dtype is not None})
        rows = sum(t.rows for t in told)
        self.passes += 1
        if self.passes == 1:
            self.dtype, self.rows = np.dtype(dtype), rows
            self.weighted = any(t.weighted for t in told)
        elif (rows, dtype) != (self.rows, self.dtype.name):
            raise SetpointError(
                f"pass {self.passes} gave {rows} rows of {dtype} scores, the first pass "
                f"{self.rows} of {self.dtype}; each call of scan must give the same rows anew."
            )


def _one_kind(found: set[str]) -> str:
    if len(found) > 1:
        raise SetpointError(f"scores must be of one kind, but are {' and '.join(sorted(found))}.")
    return next(iter(found), "float32")


def _checked(blocks: Iterable[tuple[Any, Any, Any]]) -> Iterator[Rows]:
    """Yield blocks in parts of bounded size, after the checks of choose_threshold."""
    start = 0
    for block in blocks:
        positive, scores, weight = (
            b.detach().cpu() if isinstance(b, torch.Tensor) else b for b in block
        )
        if not isinstance(scores, torch.Tensor):  # choose_threshold knows those of bfloat16
            scores = np.asarray(scores)
        positive = np.asarray(positive)
        weight = None if weight is None else np.asarray(weight)
        sizes = {len(b) if b.ndim else 0 for b in (positive, scores, weight) if b is not None}
        if len(sizes) > 1:
            raise SetpointError(
                f"a block's labels, scores and weights differ in length: {sorted(sizes)}."
            )
        for first in range(0, len(scores), _ROWS):
            part = slice(first, first + _ROWS)
            w = None if weight is None else weight[part]
            try:
                yield Rows(*check_scores(positive[part], scores[part], w, None))
            except SetpointError as error:
                raise SetpointError(f"in the rows from {start + first} on, {error}") from None
        start += len(scores)
