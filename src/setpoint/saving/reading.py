"""Read a model's files, which may be damaged or malicious.

Nothing is unpacked to disk, links are not followed, no name in a file becomes a path outside of the
model's folder, and nothing is read beyond its stated size.
"""

from __future__ import annotations

import os
import stat
import zipfile
from pathlib import Path

from setpoint.errors import ModelFileError
from setpoint.saving.document import MODEL, Document

_MAX_JSON = 256 * 2**20  # bytes
_MAX_ENTRIES = 16
_ATTEMPTS = 5


def check_model(path: Path) -> None:
    """Raise ModelFileError if there is no model; its files are not read."""
    if not os.path.lexists(path):
        raise ModelFileError(f"there is no model at {path}.")
    if path.is_dir() and not os.path.lexists(path / MODEL):
        raise _no_model(path)


def _no_model(folder: Path) -> ModelFileError:
    return ModelFileError(f"{folder} is not a model: it contains no {MODEL}.")


def read(path: Path) -> tuple[Document, dict[str, bytes]]:
    """Return model.json and the content of the files it lists, with their checksums checked."""
    check_model(path)
    try:
        return _read_folder(path) if path.is_dir() else _read_zip(path)
    except OSError as error:
        raise ModelFileError(
            f"the model {path} cannot be read: {error.strerror or error}."
        ) from error


def _read_folder(folder: Path) -> tuple[Document, dict[str, bytes]]:
    text = _read_json(folder)
    for _ in range(_ATTEMPTS):
        document = Document.from_bytes(text, str(folder))
        try:
            parts = {}
            for key, file in document.files.items():
                parts[key] = _read_regular(folder / file.name, file.length)
                file.check(parts[key], str(folder))
            return document, parts
        except FileNotFoundError as error:
            former, text = text, _read_json(folder)
            if text == former:  # otherwise a new model has just replaced this one
                raise ModelFileError(
                    f"{folder}: the file {Path(error.filename).name} is missing; the model is "
                    "damaged, use another copy."
                ) from error
    raise ModelFileError(f"{folder} keeps changing while it is read; try again later.")


def _read_json(folder: Path) -> bytes:
    try:
        return _read_regular(folder / MODEL, _MAX_JSON)
    except FileNotFoundError as error:
        raise _no_model(folder) from error


def _read_regular(path: Path, size: int) -> bytes:
    """Return the content of a regular file, up to one byte more than ``size``."""
    # Do not block on a pipe, or follow a link that was put there meanwhile.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
    if path.is_symlink():
        raise ModelFileError(f"{path} is a link; a model's files must be regular files.")
    with open(os.open(path, flags | getattr(os, "O_BINARY", 0)), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ModelFileError(f"{path} is not a regular file.")
        return file.read(size + 1)


def _read_zip(path: Path) -> tuple[Document, dict[str, bytes]]:
    if not path.is_file():
        raise ModelFileError(f"{path} is neither a folder nor a file.")
    try:
        with zipfile.ZipFile(path) as archive:
            _check_entries(path, archive)
            document = Document.from_bytes(archive.read(MODEL), str(path))
            listed = {file.name for file in document.files.values()}
            found = set(archive.namelist()) - {MODEL}
            for name in sorted(listed - found):
                raise ModelFileError(f"{path}: {name} is missing; the model is damaged.")
            for name in sorted(found - listed):
                raise ModelFileError(f"{path} contains {name!r}, which {MODEL} does not list.")
            parts = {}
            for key, file in document.files.items():
                parts[key] = archive.read(file.name)
                file.check(parts[key], str(path))
            return document, parts
    except (zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError) as error:
        raise ModelFileError(
            f"{path} is not a model, or is damaged ({error}); use another copy."
        ) from error


def _check_entries(path: Path, archive: zipfile.ZipFile) -> None:
    """Raise ModelFileError for a zip that save() cannot have written."""
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    if MODEL not in names or len(names) > _MAX_ENTRIES:
        raise ModelFileError(
            f"{path} is not a model: it needs a {MODEL} and at most {_MAX_ENTRIES - 1} more files."
        )
    for entry in entries:
        fault = None
        if entry.filename.startswith("/") or ".." in entry.filename.split("/"):
            fault = "points outside of the file"
        elif stat.S_ISLNK(entry.external_attr >> 16):
            fault = "is a link"
        elif names.count(entry.filename) > 1:
            fault = "appears twice"
        elif entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            fault = "is compressed, which setpoint does not do"
        elif entry.filename == MODEL and entry.file_size > _MAX_JSON:
            fault = "is too large"
        if fault:
            raise ModelFileError(
                f"{path}: the entry {entry.filename!r} {fault}; setpoint did not write this file. "
                "If it is a model's folder that was zipped by hand, unzip it and load the folder."
            )
    if sum(entry.file_size for entry in entries) > path.stat().st_size:
        raise ModelFileError(f"{path} claims to hold more than its size allows; it is damaged.")
