"""The files of a data set: where they are, whether they are whole, and how to get them.

Every message ends in what to do next. That part, ``how``, is an order without a full stop, e.g.
``"download creditcard.csv from https://..."``.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from setpoint.errors import SetpointError

VARIABLE = "SETPOINT_DATA"


class MissingDataError(SetpointError):
    """A file of a data set that is in none of the folders."""


class CorruptDataError(SetpointError):
    """A file that is damaged, cut off, or not the one that was published."""


@dataclass(frozen=True)
class Expected:
    """What is published about a data set; ``None`` is not checked."""

    rows: int
    positives: int | None = None
    md5: str | None = None


def folders() -> list[Path]:
    """Return the folders that ``SETPOINT_DATA`` names, or ``data``."""
    named = os.environ.get(VARIABLE, "").split(os.pathsep)
    return [Path(name.strip()).expanduser() for name in named if name.strip()] or [Path("data")]


def find(*forms: tuple[str, ...], how: str) -> tuple[Path, ...]:
    """Return the files of a data set, all from one folder.

    Parameters
    ----------
    *forms : tuple of str
        The files, relative to a folder. A data set that comes in several forms has one tuple for
        each; the first folder that holds all files of a form wins.
    how : str
        How to get them.
    """
    halves = []
    for folder in folders():
        for form in forms:
            paths = tuple(folder / name for name in form)
            absent = [path for path in paths if not path.is_file()]
            if not absent:
                return paths
            if len(absent) < len(paths):
                there = next(path for path in paths if path not in absent)
                halves.append(f" {there} is there, but {absent[0].name} beside it is not.")
    wanted = ", or ".join(" and ".join(form) for form in forms)
    searched = ", ".join(f"{f}" if f.is_dir() else f"{f} (no such folder)" for f in folders())
    raise MissingDataError(
        f"{wanted} not found in {searched}.{''.join(halves)} What to do: {how}; put it into "
        f"{folders()[0]}, or name the folder that holds it in the environment variable {VARIABLE}."
    )


def corrupt(path: Path | str, what: str, how: str) -> CorruptDataError:
    """Return the error for a file that is there but not as it should be."""
    return CorruptDataError(f"{path} {what}. Replace it: {how}.")


def digest(path: Path) -> str:
    """Return the md5 of a file of any size."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def named(*paths: Path) -> str:
    """Return names and digests of files, for the record."""
    return ", ".join(f"{path.name} (md5 {digest(path)})" for path in paths)


def check_md5(path: Path, found: str, expected: Expected, how: str) -> None:
    """Refuse a file that is not, byte by byte, the published one."""
    if expected.md5 is not None and found != expected.md5:
        raise corrupt(
            path,
            f"has the md5 {found} instead of the published {expected.md5}: it is damaged or "
            "another version",
            how,
        )


def check_counts(path: Path | str, rows: int, positives: int, expected: Expected, how: str) -> None:
    """Refuse a file with more or fewer rows or positives than were published."""
    if rows != expected.rows:
        reason = "it was cut off" if rows < expected.rows else "it is another version"
        raise corrupt(path, f"has {rows:,} rows instead of {expected.rows:,}: {reason}", how)
    if expected.positives is not None and positives != expected.positives:
        raise corrupt(
            path,
            f"has {positives:,} positives instead of {expected.positives:,}: its labels were "
            "changed",
            how,
        )


def lines(path: Path, how: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file that are not blank, with their numbers from 1.

    Only a line feed ends a line: sentences may hold the other characters that Python's
    ``splitlines`` would part them at.
    """
    empty = True
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    empty = False
                    yield number, line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise corrupt(path, f"is not UTF-8 text ({error.reason})", how) from error
    if empty:
        raise corrupt(path, "is empty", how)
