"""Atomic writes: a reader sees the former file or the new one, never a part of either.

New content goes to a temporary file in the same folder and down to the disk; one rename then puts
it in place. An error removes the temporary file and leaves the former one as it was. A process that
is killed leaves at most a file whose name begins with ``.setpoint-``.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

TEMPORARY_PREFIX = ".setpoint-"
_BINARY = getattr(os, "O_BINARY", 0)


def write_atomically(path: Path, data: bytes | str) -> None:
    """Write a file, or replace the one that is there; text is written as UTF-8.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "notes.txt")
    ...     write_atomically(path, "first")
    ...     write_atomically(path, "second")
    ...     path.read_text(), os.listdir(folder)
    ('second', ['notes.txt'])
    """
    temporary = temporary_path(path.parent)
    try:
        write_new_file(temporary, data.encode() if isinstance(data, str) else data)
        os.replace(temporary, path)
    except BaseException:
        remove(temporary)
        raise
    sync_folder(path.parent)


class AtomicFile:
    """The same for content that is written piece by piece, to a binary file.

    As a context manager it replaces ``path`` if the block ends without an error. Otherwise call
    :meth:`commit` when everything is written, and :meth:`discard` in any case.

    Parameters
    ----------
    path : Path
        The file to write or replace.
    temporary : Path, optional
        The temporary file, in the same folder; by default one with a random name.
    """

    def __init__(self, path: Path, temporary: Path | None = None) -> None:
        self.path = path
        self._temporary = temporary or temporary_path(path.parent)
        self._file: BinaryIO | None = None

    def open(self) -> BinaryIO:
        """Create the temporary file, with the permissions of any new file."""
        self._file = open(self._temporary, "xb")  # noqa: SIM115 (closed by commit or discard)
        return self._file

    def commit(self) -> None:
        """Close the temporary file, write it to the disk, and let it replace ``path``."""
        assert self._file is not None
        if not self._file.closed:
            self._file.close()
        with self._temporary.open("rb+") as file:  # some writers have closed theirs already
            os.fsync(file.fileno())
        os.replace(self._temporary, self.path)
        sync_folder(self.path.parent)

    def discard(self) -> None:
        """Remove the temporary file, if it is there; raises no error."""
        with suppress(Exception):
            if self._file is not None:
                self._file.close()
        remove(self._temporary)

    def __enter__(self) -> BinaryIO:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.commit()
        finally:
            self.discard()


def temporary_path(folder: Path) -> Path:
    """Return a name in the folder that nothing else uses."""
    return folder / f"{TEMPORARY_PREFIX}{secrets.token_hex(8)}"


def write_new_file(path: Path, data: bytes) -> None:
    """Write a file that does not exist yet, down to the disk."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Write a folder's entries to the disk, where the system can do that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove(path: Path) -> None:
    """Remove a file if that is possible."""
    with suppress(OSError):
        os.unlink(path)


@contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """Create a folder and its parents; an error in the block removes those that are empty."""
    created: list[Path] = []
    try:
        for path in [folder, *folder.parents][::-1]:
            if not path.exists():
                with suppress(FileExistsError):  # another process was faster
                    os.mkdir(path)
                    created.append(path)
        yield
    except BaseException:
        for path in reversed(created):
            with suppress(OSError):
                os.rmdir(path)
        raise
