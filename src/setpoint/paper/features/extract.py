"""Feature extraction: many items to a matrix, in batches, with a cache and a progress bar."""

from __future__ import annotations

import os
import reprlib
import time
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import torch

from setpoint._internal.validation import check_whole
from setpoint.errors import SetpointError
from setpoint.paper.features.cache import FeatureCache, Features

_BATCHES = 16  # batches per shard of the cache,
_SECONDS = 60.0  # unless they take longer: the most work that a power failure loses


class Encoder(Protocol):
    """An object that turns items, such as texts or image files, into vectors of equal length.

    The vector of an item must not depend on the items beside it in a batch, beyond rounding.

    An encoder may also have a method ``length(item) -> int``. Items of similar length then share a
    batch, longest first: less padding, and a batch too large for the device fails at once.
    """

    @property
    def dimension(self) -> int:
        """The length of a vector."""
        ...

    @property
    def fingerprint(self) -> str:
        """A digest of all that determines the vectors: weights, configuration, preprocessing.

        It names a folder of the cache: letters, digits, dots, underscores and hyphens.
        """
        ...

    def digest(self, item: Any) -> str:
        """Return a digest of the item's content, not of its name."""
        ...

    def encode(self, items: Sequence[Any]) -> Features:
        """Return one vector per item, shape (k, dimension)."""
        ...


def extract(
    items: Iterable[Any],
    encoder: Encoder,
    cache: str | os.PathLike[str] | None = None,
    batch_size: int = 64,
    progress: bool = True,
) -> Features:
    """Return the vectors of items, in their order.

    Items of equal content are encoded once. With a cache, vectors that the same encoder computed
    before are read, and new ones are added: after Ctrl-C or a crash, another call continues.

    Parameters
    ----------
    items : iterable
        Texts, paths of image files, or other inputs of the encoder.
    encoder : Encoder
        E.g. ``TextEncoder.from_pretrained("bert-base-uncased")``.
    cache : str or path-like, optional
        A folder; any number of encoders and data sets can share it.
    batch_size : int
        Number of items encoded at once. It is halved if the device runs out of memory.
    progress : bool
        Whether to show a progress bar, in a terminal or notebook.

    Returns
    -------
    ndarray of float32, shape (n, encoder.dimension)

    Examples
    --------
    >>> import numpy as np
    >>> from setpoint.paper.features import extract
    >>> class Lengths:
    ...     dimension, fingerprint = 1, "lengths"
    ...
    ...     def digest(self, item):
    ...         return str(len(item))
    ...
    ...     def encode(self, items):
    ...         return np.array([[len(item)] for item in items], np.float32)
    >>> extract(["fever", "", "cough"], Lengths()).tolist()
    [[5.0], [0.0], [5.0]]
    """
    if isinstance(items, str | bytes | os.PathLike):
        raise SetpointError(f"items must be a list, not the single item {_short(items)}.")
    items = list(items)
    batch_size = check_whole(batch_size, "batch_size")
    features = np.empty((len(items), encoder.dimension), np.float32)
    if not items:
        return features
    with Progress(progress) as bar:
        digests = _digests(items, encoder, bar)
        first: dict[str, int] = {}  # the first item of each content represents the others
        for row, digest in enumerate(digests):
            first.setdefault(digest, row)
        store, known = None, set()
        if cache is not None:
            store = FeatureCache(cache, encoder.fingerprint, encoder.dimension)
            known = store.fill(features, first)
        note = f"{len(known)} from the cache" if store is not None else ""
        bar.begin("encoding", len(first), len(known), note)
        missing = {row: digest for digest, row in first.items() if digest not in known}
        _encode_all(items, missing, encoder, store, features, batch_size, bar)
    sources = np.fromiter((first[digest] for digest in digests), np.intp, len(items))
    copies = np.flatnonzero(sources != np.arange(len(items)))
    features[copies] = features[sources[copies]]
    return features


def _digests(items: Sequence[Any], encoder: Encoder, bar: Progress) -> list[str]:
    bar.begin("reading", len(items))
    digests = []
    for row, item in enumerate(items):
        try:
            digests.append(encoder.digest(item))
        except SetpointError as error:
            raise SetpointError(f"item {row}: {error}") from error
        bar.advance()
    return digests


def _encode_all(
    items: Sequence[Any],
    missing: dict[int, str],
    encoder: Encoder,
    store: FeatureCache | None,
    features: Features,
    batch_size: int,
    bar: Progress,
) -> None:
    """Encode the missing rows, and store them even if encoding ends early."""
    length = getattr(encoder, "length", None)
    rows = list(missing) if length is None else sorted(missing, key=lambda r: -length(items[r]))
    start = stored = 0  # rows[stored:start] are encoded and not yet in the cache
    written = time.monotonic()

    def store_encoded() -> None:
        nonlocal stored, written
        if store is not None and stored < start:
            fresh = rows[stored:start]
            store.add([missing[row] for row in fresh], features[fresh])
        stored, written = start, time.monotonic()

    try:
        while start < len(rows):
            batch = rows[start : start + batch_size]
            found = _encode(encoder, [items[row] for row in batch])
            if found is None:
                batch_size = _halve(len(batch), items[batch[0]])
                continue
            _check(found, batch, items, encoder)
            features[batch] = found
            start += len(batch)
            bar.advance(len(batch))
            if start - stored >= _BATCHES * batch_size or time.monotonic() - written > _SECONDS:
                store_encoded()
    finally:
        store_encoded()


def _encode(encoder: Encoder, batch: Sequence[Any]) -> Features | None:
    """Return the vectors of a batch, or None if it does not fit into memory.

    The error is dropped here, because it references the tensors that fill the memory.
    """
    try:
        return np.asarray(encoder.encode(batch), np.float32)
    except (RuntimeError, MemoryError) as error:
        # CUDA has an error class for this, other devices only a message.
        if not (
            isinstance(error, torch.cuda.OutOfMemoryError | MemoryError)
            or "out of memory" in str(error).lower()
            or "can't allocate memory" in str(error).lower()
        ):
            raise
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return None


def _halve(size: int, item: Any) -> int:
    """Return half the size of a batch that was too large, with a warning."""
    if size == 1:
        raise SetpointError(
            f"the model and a single item ({_short(item)}) do not fit into memory; use a device "
            "with more memory, precision='bfloat16', or a smaller model."
        )
    half = size // 2
    warnings.warn(
        f"a batch of {size} items does not fit into memory; continuing with {half}.",
        RuntimeWarning,
        stacklevel=4,
    )
    return half


def _check(found: Features, batch: Sequence[int], items: Sequence[Any], encoder: Encoder) -> None:
    expected = (len(batch), encoder.dimension)
    if found.shape != expected:
        raise SetpointError(
            f"{type(encoder).__name__}.encode returned the shape {found.shape} instead of "
            f"{expected}: one vector per item."
        )
    broken = np.flatnonzero(~np.isfinite(found).all(axis=1))
    if len(broken):
        row = batch[broken[0]]
        raise SetpointError(
            f"item {row} ({_short(items[row])}) has features that are NaN or infinite; large "
            "values overflow in float16: use precision='float32' or 'bfloat16'."
        )


def _short(item: Any) -> str:
    return reprlib.repr(os.fspath(item) if isinstance(item, os.PathLike) else item)


class Progress:
    """A progress bar for one task after the other; none outside of terminals and notebooks."""

    def __init__(self, show: bool) -> None:
        self._bar: Any = _bar() if show else None
        self._task: Any = None
        self._start = 0.0
        self._done = 0

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, what: str, total: int, done: int = 0, note: str = "") -> None:
        """Start a task; ``done`` steps are done already and do not count for the speed."""
        self._start, self._done = time.monotonic(), 0
        if self._bar is not None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(what, total=total, completed=done, rate="", note=note)

    def advance(self, steps: int = 1) -> None:
        """Count steps of the current task."""
        self._done += steps
        if self._bar is not None:
            seconds = max(time.monotonic() - self._start, 1e-9)
            rate = f"{self._done / seconds:.3g} items/s"
            self._bar.update(self._task, advance=steps, rate=rate)


def _bar() -> Any:
    """Return a bar on the standard error, or None if that is not a terminal or notebook."""
    try:
        from rich import console as consoles
        from rich import progress
    except ImportError:  # the bar is optional
        return None
    console = consoles.Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        return None
    text = progress.TextColumn
    return progress.Progress(
        text("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        text("{task.fields[rate]}"),
        progress.TimeRemainingColumn(),
        text("{task.fields[note]}"),
        console=console,
    )
