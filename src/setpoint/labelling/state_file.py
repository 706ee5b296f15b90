"""The file of a labelling session: JSON, replaced atomically, tied to the scores by a digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from setpoint._internal.files import write_atomically
from setpoint.errors import SetpointError
from setpoint.labelling.top_down import Floats

FORMAT = "setpoint labelling session"
VERSION = 1


def digest(scores: Floats) -> str:
    """Return a digest of the scores in their order."""
    return hashlib.sha256(np.ascontiguousarray(scores, dtype="<f8").tobytes()).hexdigest()


def write(path: Path, fields: dict[str, Any]) -> None:
    """Write the fields of a session, or replace those in the file."""
    content = json.dumps({"format": FORMAT, "version": VERSION, **fields}, allow_nan=False)
    write_atomically(path, content + "\n")


def read(path: Path, scores: Floats) -> dict[str, Any]:
    """Return the fields of a session; raise SetpointError if they belong to other scores."""
    if not path.exists():
        raise SetpointError(f"there is no file {path}.")
    if path.is_dir():
        raise SetpointError(f"{path} is a folder, not the file of a labelling session.")
    with damage_reported(path):
        fields = json.loads(path.read_text("utf-8"))
        if fields["format"] != FORMAT:
            raise ValueError("it is of another kind")
    if fields.get("version") != VERSION:
        raise SetpointError(
            f"{path} was written by another version of setpoint, with format "
            f"{fields.get('version')!r}; this one reads format {VERSION}."
        )
    with damage_reported(path):
        same = fields["pool"]["digest"] == digest(scores)
        rows = int(fields["pool"]["rows"])
    if not same:
        size = f"it has {rows:,} rows, and this one {len(scores):,}"
        if rows == len(scores):
            size = "the number of rows is the same, but a score or their order has changed"
        raise SetpointError(
            f"{path} belongs to another table of scores: {size}. Give the scores with which the "
            "session was started, or name another file to start a new session."
        )
    return dict(fields)


@contextmanager
def damage_reported(path: Path) -> Iterator[None]:
    """Turn errors about the content of the file into one that says what to do."""
    try:
        yield
    except OSError:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise SetpointError(
            f"{path} is not the file of a labelling session, or is damaged ({error}). Restore it "
            "from a copy. If there is none, start again with another file: the labels that were "
            "given can be added once more, since the same seed asks for the same rows."
        ) from error
