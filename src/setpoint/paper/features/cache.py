"""Vectors on disk, found again by the content they were computed from."""

from __future__ import annotations

import contextlib
import io
import os
import re
import time
import uuid
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.files import AtomicFile
from setpoint.errors import SetpointError
from setpoint.paper.features.encoder import Features

VARIABLE = "SETPOINT_CACHE"
_SMALL = 64 * 2**20  # bytes; larger shards are left alone
_LARGE = 256 * 2**20  # bytes that a merged shard comes to at most, or little more
_MANY = 64  # small shards
_DAY = 24 * 3600.0


def default_folder() -> Path:
    """Return the folder that ``SETPOINT_CACHE`` names, or one among the user's caches."""
    named = os.environ.get(VARIABLE, "").strip()
    if named:
        return Path(named).expanduser()
    caches = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not caches.is_absolute():  # unset, or to be ignored by the XDG's own rule
        caches = Path("~/.cache").expanduser()
    return caches / "setpoint" / "features"


class CacheWarning(UserWarning):
    """A file of a cache was damaged; its vectors are computed again."""


class _DamagedError(Exception):
    """A shard that cannot be read."""


class FeatureCache:
    """The vectors of one encoder: a folder of shards, each written once and in one step.

    Several processes may read and write at once. Shards have names of their own, and a shard is
    removed only after its vectors have been written again, as part of a larger one.

    Parameters
    ----------
    folder : str or path-like
        Holds the caches of all encoders; it is made where it does not exist.
    fingerprint : str
        Of the encoder, see :class:`setpoint.paper.features.Encoder`.
    dimension : int
        The length of a vector.
    """

    def __init__(self, folder: str | os.PathLike[str], fingerprint: str, dimension: int) -> None:
        if not re.fullmatch(r"\w[\w.-]*", fingerprint, re.ASCII):
            raise SetpointError(
                f"the encoder's fingerprint {fingerprint!r} cannot name a folder; use letters, "
                "digits, '.', '_' and '-', e.g. a hexadecimal digest."
            )
        self.folder = Path(folder).expanduser() / fingerprint
        self.dimension = dimension
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SetpointError(
                f"the cache {self.folder} cannot be made: {error.strerror}; name a folder that "
                f"can be written to, in the call or in the environment variable {VARIABLE}."
            ) from error
        self._drop_remains()
        self._merge_if_many()

    def fill(self, features: Features, places: Mapping[str, int]) -> set[str]:
        """Write the vectors that are known to their rows of ``features``.

        Parameters
        ----------
        features : ndarray of shape (n, dimension)
            Is changed.
        places : dict of str to int
            The row for each digest.

        Returns
        -------
        set of str
            The digests that were known.
        """
        known: set[str] = set()
        for shard in self._shards():
            with self._tolerant(shard):
                digests = _digests(shard)
                rows = {d: row for row, d in enumerate(digests) if d in places and d not in known}
                if rows:
                    vectors = _vectors(shard, len(digests), self.dimension)
                    features[[places[d] for d in rows]] = vectors[list(rows.values())]
                    known.update(rows)
        return known

    def add(self, digests: Sequence[str], features: Features) -> None:
        """Write vectors, so that neither a crash nor a power cut can leave half of them."""
        try:
            self._write(digests, features)
        except OSError as error:
            raise SetpointError(
                f"the cache {self.folder} cannot be written: {error.strerror}; what it holds "
                "already is safe, and another run goes on from there."
            ) from error
        self._merge_if_many()

    def _shards(self) -> Iterator[Path]:
        """Yield all shards, and those that appear while others vanish: they hold the same."""
        seen: set[Path] = set()
        while True:
            found = sorted(set(self.folder.glob("*.npz")) - seen)
            for shard in found:
                seen.add(shard)
                yield shard
            if all(shard.exists() for shard in found):
                return

    @contextlib.contextmanager
    def _tolerant(self, shard: Path) -> Iterator[None]:
        """Set a damaged shard aside, and pass over one that another process has merged."""
        try:
            yield
        except FileNotFoundError:
            pass
        except _DamagedError as error:
            aside = shard.with_suffix(".damaged")
            with contextlib.suppress(FileNotFoundError):
                os.replace(shard, aside)
            warnings.warn(
                f"{shard} is damaged ({error}); its vectors will be computed again. It was renamed "
                f"to {aside.name} and can be deleted.",
                CacheWarning,
                stacklevel=5,
            )

    def _write(self, digests: Sequence[str], features: Features) -> None:
        name = uuid.uuid4().hex
        part = self.folder / f"{name}.part"
        with AtomicFile(self.folder / f"{name}.npz", temporary=part) as file:
            np.savez(file, digests=np.array([d.encode() for d in digests]), features=features)

    def _merge_if_many(self) -> None:
        """Write many small shards again as few large ones."""
        sizes: dict[Path, int] = {}
        for shard in sorted(self.folder.glob("*.npz")):
            with contextlib.suppress(FileNotFoundError):
                sizes[shard] = shard.stat().st_size
        small = {shard: size for shard, size in sizes.items() if size < _SMALL}
        if len(small) <= _MANY:
            return
        group: list[Path] = []
        total = 0
        for shard, size in small.items():
            group.append(shard)
            total += size
            if total >= _LARGE:
                self._merge(group)
                group, total = [], 0
        self._merge(group)

    def _merge(self, shards: Sequence[Path]) -> None:
        """Write shards again as one, and only then remove them."""
        merged: dict[str, NDArray[np.float32]] = {}
        done: list[Path] = []
        for shard in shards:
            with self._tolerant(shard):
                digests = _digests(shard)
                merged.update(
                    zip(digests, _vectors(shard, len(digests), self.dimension), strict=True)
                )
                done.append(shard)
        if len(done) < 2:
            return
        try:
            self._write(list(merged), np.stack(list(merged.values())))
        except OSError:
            return  # no room: the small ones do as well
        for shard in done:
            with contextlib.suppress(OSError):  # gone already, or held open by another process
                shard.unlink()

    def _drop_remains(self) -> None:
        """Remove what processes that were killed left half written, long ago."""
        for part in self.folder.glob("*.part"):
            with contextlib.suppress(OSError):
                if time.time() - part.stat().st_mtime > _DAY:
                    part.unlink()


def _digests(shard: Path) -> list[str]:
    found = _read(shard, "digests")
    if found.ndim != 1 or found.dtype.kind != "S":
        raise _DamagedError("its digests are none")
    return [digest.decode() for digest in found.tolist()]


def _vectors(shard: Path, count: int, dimension: int) -> Features:
    found = _read(shard, "features")
    if found.shape != (count, dimension) or found.dtype != np.float32:
        raise _DamagedError(
            f"it holds {found.dtype} of shape {found.shape} instead of float32 of shape "
            f"{(count, dimension)}"
        )
    return found


def _read(shard: Path, name: str) -> NDArray[Any]:
    """Return one array of a shard; its checksum is compared before anything is made of it."""
    with open(shard, "rb") as file:  # what fails here says nothing about the content
        try:
            with zipfile.ZipFile(file) as archive:
                content = archive.read(f"{name}.npy")
            found: NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
        except MemoryError:
            raise
        except Exception as error:  # damage shows itself in many ways
            raise _DamagedError(str(error) or type(error).__name__) from error
    return found
