"""A cache of vectors on disk, keyed by the content they were computed from."""

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

Features = NDArray[np.float32]
VARIABLE = "SETPOINT_CACHE"
_SMALL = 64 * 2**20  # bytes; larger shards are not merged
_LARGE = 256 * 2**20  # bytes; approximate limit of a merged shard
_MANY = 64  # small shards that trigger a merge
_DAY = 24 * 3600.0


def default_folder() -> Path:
    """Return the folder named in ``SETPOINT_CACHE``, or one in the user's cache folder."""
    named = os.environ.get(VARIABLE, "").strip()
    if named:
        return Path(named).expanduser()
    caches = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not caches.is_absolute():  # unset, or invalid by the XDG specification
        caches = Path("~/.cache").expanduser()
    return caches / "setpoint" / "features"


class CacheWarning(UserWarning):
    """A file of the cache is damaged; its vectors are computed again."""


class _DamagedError(Exception):
    """A shard that cannot be read."""


class FeatureCache:
    """The vectors of one encoder: a folder of shards, each written atomically.

    Several processes may read and write at once. Shards have unique names, and a shard is removed
    only after its vectors have been written again, as part of a larger one.

    Parameters
    ----------
    folder : str or path-like
        The folder of the caches of all encoders; created if it does not exist.
    fingerprint : str
        Fingerprint of the encoder; see :class:`setpoint.paper.features.Encoder`.
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
                f"the cache {self.folder} cannot be created: {error.strerror}; pass a writable "
                f"folder, or name one in the environment variable {VARIABLE}."
            ) from error
        self._remove_partial_files()
        self._merge_if_many()

    def fill(self, features: Features, places: Mapping[str, int]) -> set[str]:
        """Copy cached vectors into ``features``; return the digests that were found.

        ``places`` has the row for each digest.
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
        """Write vectors, atomically even in a crash or power failure."""
        try:
            self._write(digests, features)
        except OSError as error:
            raise SetpointError(
                f"the cache {self.folder} cannot be written: {error.strerror}; its present content "
                "is safe, and another run continues from there."
            ) from error
        self._merge_if_many()

    def _shards(self) -> Iterator[Path]:
        """Yield all shards, including those that appear while merged ones vanish."""
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
        """Rename a damaged shard, and skip one that another process has merged."""
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
        """Merge many small shards into few large ones."""
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
        """Write several shards as one, and only then remove them."""
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
            return  # no space left: keep the small ones
        for shard in done:
            with contextlib.suppress(OSError):  # already removed, or open in another process
                shard.unlink()

    def _remove_partial_files(self) -> None:
        """Remove partial files that killed processes left more than a day ago."""
        for part in self.folder.glob("*.part"):
            with contextlib.suppress(OSError):
                if time.time() - part.stat().st_mtime > _DAY:
                    part.unlink()


def _digests(shard: Path) -> list[str]:
    found = _read(shard, "digests")
    if found.ndim != 1 or found.dtype.kind != "S":
        raise _DamagedError("its digests are invalid")
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
    """Return one array of a shard after comparing its checksum."""
    with open(shard, "rb") as file:  # an error here does not mean damage
        try:
            with zipfile.ZipFile(file) as archive:
                content = archive.read(f"{name}.npy")
            found: NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
        except MemoryError:
            raise
        except Exception as error:  # damage raises many kinds of errors
            raise _DamagedError(str(error) or type(error).__name__) from error
    return found
