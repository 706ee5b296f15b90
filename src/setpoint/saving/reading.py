"""Models from files that may be damaged, or made to do harm.

Nothing is unpacked to disk, no link is followed, no name from a file becomes a path outside of the
model's folder, and nothing is read that is larger than it says.
"""

from __future__ import annotations

import os
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from setpoint.errors import ModelFileError
from setpoint.saving.document import MODEL, Document

_LONGEST_JSON = 256 * 2**20  # bytes
_ATTEMPTS = 5
_MOST_ENTRIES = 16


def read(path: Path) -> tuple[Document, dict[str, bytes]]:
    """Return what model.json says and the content of its files, checked."""
    with _told(path):
        if not os.path.lexists(path):
            raise ModelFileError(f"there is no model at {path}.")
        return _read_folder(path) if path.is_dir() else _read_zip(path)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ModelFileError(
            f"the model {path} cannot be read: {error.strerror or error}."
        ) from error


def _read_folder(folder: Path) -> tuple[Document, dict[str, bytes]]:
    text = _text(folder)
    for _ in range(_ATTEMPTS):
        document = Document.from_bytes(text, str(folder))
        try:
            parts = {}
            for key, part in document.parts.items():
                parts[key] = _regular(folder / part.name, part.length)
                part.check(parts[key], str(folder))
            return document, parts
        except FileNotFoundError as error:
            former, text = text, _text(folder)
            if text == former:  # or else a new model took the old one's place just now
                missing = Path(error.filename).name
                raise ModelFileError(
                    f"{folder}: the file {missing} is missing; the model is damaged, get it anew."
                ) from error
    raise ModelFileError(f"{folder} is being written all the time; try again later.")


def _text(folder: Path) -> bytes:
    try:
        return _regular(folder / MODEL, _LONGEST_JSON)
    except FileNotFoundError as error:
        raise ModelFileError(f"{folder} is no model: there is no {MODEL} in it.") from error


def _regular(path: Path, most: int) -> bytes:
    """Return the content of a plain file, up to one byte more than ``most``."""
    # Not to block on a pipe, and not to follow a link that was put there meanwhile.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    if path.is_symlink():
        raise ModelFileError(f"{path} is a link; a model's files must be plain files.")
    with open(os.open(path, flags | getattr(os, "O_BINARY", 0)), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ModelFileError(f"{path} is no plain file.")
        return file.read(most + 1)


def _read_zip(path: Path) -> tuple[Document, dict[str, bytes]]:
    if not path.is_file():
        raise ModelFileError(f"{path} is neither a folder nor a file.")
    try:
        with zipfile.ZipFile(path) as archive:
            _check_entries(path, archive)
            document = Document.from_bytes(archive.read(MODEL), str(path))
            listed = {part.name for part in document.parts.values()}
            found = set(archive.namelist()) - {MODEL}
            for name in sorted(listed - found):
                raise ModelFileError(f"{path}: {name} is missing; the model is damaged.")
            for name in sorted(found - listed):
                raise ModelFileError(f"{path} holds {name!r}, which is no part of the model.")
            parts = {}
            for key, part in document.parts.items():
                parts[key] = archive.read(part.name)
                part.check(parts[key], str(path))
            return document, parts
    except (zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError) as error:
        raise ModelFileError(
            f"{path} is no model, or a damaged one ({error}); get it anew."
        ) from error


def _check_entries(path: Path, archive: zipfile.ZipFile) -> None:
    """Refuse a zip that save() cannot have written."""
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    if MODEL not in names or len(names) > _MOST_ENTRIES:
        raise ModelFileError(f"{path} is no model: no {MODEL} and few files besides.")
    for entry in entries:
        strange = None
        if entry.filename.startswith("/") or ".." in entry.filename.split("/"):
            strange = "points outside of the file"
        elif stat.S_ISLNK(entry.external_attr >> 16):
            strange = "is a link"
        elif names.count(entry.filename) > 1:
            strange = "is there twice"
        elif entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            strange = "is compressed, which setpoint does not do"
        elif entry.filename == MODEL and entry.file_size > _LONGEST_JSON:
            strange = "is too large"
        if strange:
            raise ModelFileError(
                f"{path}: the entry {entry.filename!r} {strange}; this is no file that setpoint "
                "wrote. If it is a model's folder that was packed by hand, unpack it and load the "
                "folder."
            )
    if sum(entry.file_size for entry in entries) > path.stat().st_size:
        raise ModelFileError(f"{path} says that it holds more than it can; it is damaged.")
