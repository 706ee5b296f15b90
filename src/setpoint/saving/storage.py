"""Save a model so that the folder or zip on disk is complete at every moment.

A folder holds ``model.json`` and the files that it lists. Each save gives these files new names, so
that the former model stays intact, and then replaces ``model.json`` in one step. Before that step
the folder holds the former model and some files that nothing refers to; after it, the new model. A
later save removes what a crash has left. A zip is written beside the former one and replaces it.
"""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from setpoint._internal.files import (
    TEMPORARY_PREFIX,
    new_folder,
    remove,
    sync_folder,
    write_atomically,
    write_new_file,
)
from setpoint.errors import ModelFileError
from setpoint.saving.document import (
    MODEL,
    Described,
    Document,
    NotPlainError,
    is_model,
    is_model_file,
)

_DAY = 24 * 3600.0  # seconds
_EPOCH = (1980, 1, 1, 0, 0, 0)  # no date, so that equal models give equal zips


def save(model: Any, path: str | Path, describe: Callable[[Any], Described]) -> None:
    """Write a fitted model to a folder, or to one file if the path ends in ``.zip``.

    A model at that path is replaced; a folder or file that holds anything else is left alone, with
    an error. A crash leaves either the former model or the new one complete.
    """
    try:
        content, parts = describe(model)
    except NotPlainError as error:
        raise ModelFileError(
            f"the model cannot be saved: it holds a value of type {error}, which is neither a "
            "number nor a string."
        ) from error
    path = Path(path).expanduser()
    try:
        if _is_zip(path):
            _write_zip(Path(os.path.realpath(path)), content, parts)
        else:
            _write_folder(path, content, parts)
    except OSError as error:
        raise ModelFileError(
            f"the model cannot be written to {path}: {error.strerror or error}. What was there "
            "before is unchanged."
        ) from error


def check_target(path: str | Path) -> None:
    """Raise ModelFileError if a model cannot be saved here; call it before a long fit.

    Parameters
    ----------
    path : str or Path
        Where the model will be saved: a folder, or a file if it ends in ``.zip``.
    """
    path = Path(path).expanduser()
    try:
        if _is_zip(path):
            path = Path(os.path.realpath(path))
            _check_zip(path)
            path = path.parent
        else:
            _check_folder(path)
        existing = next(p for p in [path, *path.absolute().parents] if os.path.lexists(p))
        if not existing.is_dir():
            raise ModelFileError(f"{existing} is a file, so a model cannot be saved to {path}.")
        if not os.access(existing, os.W_OK | os.X_OK):
            raise ModelFileError(f"the folder {existing} is not writable; name another one.")
    except OSError as error:
        raise ModelFileError(
            f"a model cannot be saved to {path}: {error.strerror or error}."
        ) from error


def _is_zip(path: Path) -> bool:
    return path.suffix.lower() == ".zip"


def _write_folder(folder: Path, model: dict[str, Any], parts: Mapping[str, bytes]) -> None:
    former = _check_folder(folder)
    token = secrets.token_hex(8)
    named = {key: (key.replace(".", f"-{token}.", 1), data) for key, data in parts.items()}
    document = Document.of(model, named)
    temporary = folder / f"{TEMPORARY_PREFIX}{token}"
    with new_folder(folder):
        written: list[Path] = []
        replacing = False
        try:
            for name, data in named.values():
                written.append(folder / name)
                write_new_file(folder / name, data)
            written.append(temporary)
            write_new_file(temporary, document.to_bytes())
            sync_folder(folder)
            replacing = True
            os.replace(temporary, folder / MODEL)
        except BaseException:
            # An interrupt may come right after the replacement; then the new files are in use.
            replaced = replacing and not os.path.lexists(temporary)
            for path in [] if replaced else written:
                remove(path)
            raise
    sync_folder(folder)
    _remove_former(folder, former, {name for name, _ in named.values()})


def _write_zip(path: Path, model: dict[str, Any], parts: Mapping[str, bytes]) -> None:
    _check_zip(path)
    document = Document.of(model, {key: (key, data) for key, data in parts.items()})
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:  # not compressed: the parts are already
        for name, data in {MODEL: document.to_bytes(), **parts}.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data)
    with new_folder(path.parent):
        write_atomically(path, buffer.getvalue())


def _check_folder(folder: Path) -> set[str]:
    """Return the files of the model in a folder; raise ModelFileError if it holds anything else."""
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
                f"{folder / MODEL} does not describe a setpoint model; name another folder, or "
                "delete it."
            )
        try:
            return {file.name for file in Document.from_bytes(data, "").files.values()}
        except ModelFileError:  # damaged or of another version: overwriting it is what is wanted
            return set()
    others = sorted(n for n in found if not is_model_file(n) and not _is_temporary(n))
    if others:
        raise ModelFileError(
            f"the folder {folder} contains other files ({', '.join(others[:3])}"
            f"{', ...' if len(others) > 3 else ''}); name a new folder for the model."
        )
    return set()


def _check_zip(path: Path) -> None:
    """Raise ModelFileError if there is anything but a model."""
    if not os.path.lexists(path):
        return
    if path.is_dir():
        raise ModelFileError(f"{path} is a folder; name a file.")
    with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
        if MODEL in archive.namelist():
            return
    raise ModelFileError(f"{path} exists and is not a model; name another file.")


def _remove_former(folder: Path, former: set[str], new: set[str]) -> None:
    """Remove the former model's files, and what saves that crashed over a day ago have left.

    Younger files may belong to a save that is still running.
    """
    with contextlib.suppress(OSError):  # the model is saved, whatever remains beside it
        for name in os.listdir(folder):
            if name in new or not (is_model_file(name) or _is_temporary(name)):
                continue
            if name in former or time.time() - (folder / name).stat().st_mtime > _DAY:
                remove(folder / name)


def _is_temporary(name: str) -> bool:
    return name.startswith(TEMPORARY_PREFIX)
