"""Files on disk that are whole at every moment.

A folder holds ``model.json`` and the files that it names. Each save gives these files new names, so
nothing that the old ``model.json`` needs is touched, and then replaces ``model.json`` in one step:
that step decides. Before it the folder is the old model and some files that nobody names; after it,
the new one. What is left over of a crash is cleared away by a later save.

A zip is written beside the old one and replaces it in one step.
"""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from setpoint.errors import ModelFileError
from setpoint.saving.document import MODEL, Described, Document, document_of, is_model, is_ours
from setpoint.saving.plain import NotPlainError

_DAY = 24 * 3600.0
_TEMPORARY = ".setpoint-"  # begins the name of what is being written
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same model gives the same zip


def is_zip(path: Path) -> bool:
    """Whether a path asks for one file."""
    return path.suffix.lower() == ".zip"


def save(model: Any, path: str | Path, describe: Callable[[Any], Described]) -> None:
    """Write a fitted model to a folder, or to one file if the path ends in ``.zip``.

    A crash leaves the former model or the new one whole. A model at that path is replaced; a folder
    or file that holds anything else is left alone, with an error.
    """
    try:
        content, parts = describe(model)
    except NotPlainError as error:
        raise ModelFileError(
            f"the model cannot be saved: it holds a value of the type {error}, which is neither a "
            "number nor a text."
        ) from error
    write(Path(path).expanduser(), content, parts)


def write(path: Path, model: dict[str, object], parts: Mapping[str, bytes]) -> None:
    """Write a model, or leave everything as it was.

    Parameters
    ----------
    path : Path
        A folder, or a file if it ends in ``.zip``.
    model : dict
        What model.json says of the model.
    parts : dict of str to bytes
        Its files.
    """
    try:
        if is_zip(path):
            _write_zip(Path(os.path.realpath(path)), model, parts)
        else:
            _write_folder(path, model, parts)
    except OSError as error:
        raise ModelFileError(
            f"the model cannot be written to {path}: {error.strerror or error}. What was there "
            "before is unchanged."
        ) from error


def check_target(path: str | Path) -> None:
    """Refuse a path to which a model cannot be saved; for asking before a long fit.

    Parameters
    ----------
    path : str or Path
        Where the model shall be saved: a folder, or a file if it ends in ``.zip``.
    """
    path = Path(path).expanduser()
    try:
        if is_zip(path):
            path = Path(os.path.realpath(path))
            _check_zip(path)
            path = path.parent
        else:
            _check_folder(path)
        there = next(p for p in [path, *path.absolute().parents] if os.path.lexists(p))
        if not there.is_dir():
            raise ModelFileError(f"{there} is a file, so no model can be saved to {path}.")
        if not os.access(there, os.W_OK | os.X_OK):
            raise ModelFileError(f"the folder {there} cannot be written to; name another one.")
    except OSError as error:
        raise ModelFileError(
            f"no model can be saved to {path}: {error.strerror or error}."
        ) from error


def _write_folder(folder: Path, model: dict[str, object], parts: Mapping[str, bytes]) -> None:
    old = _check_folder(folder)
    token = secrets.token_hex(8)
    named = {key: (key.replace(".", f"-{token}.", 1), data) for key, data in parts.items()}
    document = document_of(model, named)
    temporary = folder / f"{_TEMPORARY}{token}"
    with _made(folder):
        written: list[Path] = []
        deciding = False
        try:
            for name, data in named.values():
                written.append(folder / name)
                _write(folder / name, data)
            written.append(temporary)
            _write(temporary, document.to_bytes())
            _sync(folder)
            deciding = True
            os.replace(temporary, folder / MODEL)
        except BaseException:
            # An interrupt may come after the step that decides; then the files are in use.
            decided = deciding and not os.path.lexists(temporary)
            for path in [] if decided else written:
                _remove(path)
            raise
    _sync(folder)
    _clear(folder, old, {name for name, _ in named.values()})


def _write_zip(path: Path, model: dict[str, object], parts: Mapping[str, bytes]) -> None:
    _check_zip(path)
    document = document_of(model, {key: (key, data) for key, data in parts.items()})
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:  # not compressed: its parts are already
        for name, data in {MODEL: document.to_bytes(), **parts}.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data)
    _replace(path, buffer.getvalue())


def write_file(path: Path, data: bytes) -> None:
    """Write one file in one step; what was there is replaced, or unchanged after an error."""
    try:
        _replace(Path(os.path.realpath(path)), data)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be written: {error.strerror or error}.") from error


def _replace(path: Path, data: bytes) -> None:
    temporary = path.parent / f"{_TEMPORARY}{secrets.token_hex(8)}"
    with _made(path.parent):
        try:
            _write(temporary, data)
            os.replace(temporary, path)
        except BaseException:
            _remove(temporary)
            raise
    _sync(path.parent)


def _check_folder(folder: Path) -> set[str]:
    """Refuse a folder that is used for other things; return the files of the model in it."""
    if not os.path.lexists(folder):
        return set()
    if not folder.is_dir():
        raise ModelFileError(
            f"{folder} is a file, not a folder; name a folder, or a file that ends in .zip."
        )
    found = os.listdir(folder)
    if MODEL in found:
        data = (folder / MODEL).read_bytes()
        if not is_model(data):
            raise ModelFileError(
                f"{folder / MODEL} is not that of a setpoint model; name another folder, or delete "
                "it."
            )
        try:
            return {part.name for part in Document.from_bytes(data, "").parts.values()}
        except ModelFileError:  # damaged, or of another version: it shall be overwritten
            return set()
    others = sorted(n for n in found if not is_ours(n) and not n.startswith(_TEMPORARY))
    if others:
        raise ModelFileError(
            f"the folder {folder} holds other things ({', '.join(others[:3])}"
            f"{', ...' if len(others) > 3 else ''}); name a new folder for the model."
        )
    return set()


def _check_zip(path: Path) -> None:
    """Refuse to overwrite anything but a model."""
    if not os.path.lexists(path):
        return
    if path.is_dir():
        raise ModelFileError(f"{path} is a folder; name a file.")
    with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
        if MODEL in archive.namelist():
            return
    raise ModelFileError(f"{path} is there already and is no model; name another file.")


@contextlib.contextmanager
def _made(folder: Path) -> Iterator[None]:
    """Make a folder and those above it; take them away again if nothing comes of it."""
    made: list[Path] = []
    try:
        for path in [folder, *folder.parents][::-1]:
            if not path.exists():
                with contextlib.suppress(FileExistsError):  # another process was quicker
                    os.mkdir(path)
                    made.append(path)
        yield
    except BaseException:
        for path in reversed(made):
            with contextlib.suppress(OSError):
                os.rmdir(path)  # but not one that holds something by now
        raise


def _write(path: Path, data: bytes) -> None:
    """Write a new file, down to the disk."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(handle, rest) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync(folder: Path) -> None:
    """Make a folder's names last, where the system can do that."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _clear(folder: Path, old: set[str], new: set[str]) -> None:
    """Remove the former model's files, and those of saves that died long ago.

    Others may be those of a save that is under way.
    """
    with contextlib.suppress(OSError):  # the model is saved, whatever remains beside it
        for name in os.listdir(folder):
            ours = is_ours(name) or name.startswith(_TEMPORARY)
            if name in new or not ours:
                continue
            if name in old or time.time() - (folder / name).stat().st_mtime > _DAY:
                _remove(folder / name)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
