"""Scores that are read from the first to the last, more than once and by several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from setpoint.errors import SetpointError
from setpoint.operating_point import check_scores
from setpoint.streams.keys import Scores
from setpoint.streams.together import gather

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
        told = gather(_Told(error, next(iter(found), None), n, weighted, answer()))
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
