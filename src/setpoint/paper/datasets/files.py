"""The files of a data set: finding them, reading them, and checking every cell.

Every error message ends in what to do. This text, ``how``, is an instruction without a full stop,
e.g. ``"download creditcard.csv from https://..."``.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.imports import need
from setpoint.errors import SetpointError

VARIABLE = "SETPOINT_DATA"


class MissingDataError(SetpointError):
    """A file of a data set is in none of the folders."""


class CorruptDataError(SetpointError):
    """A file is damaged, truncated, or not the published one."""


@dataclass(frozen=True)
class Expected:
    """The published properties of a data set; None is not checked."""

    rows: int
    positives: int | None = None
    md5: str | None = None


def folders() -> list[Path]:
    """Return the folders named in ``SETPOINT_DATA``; without it, ``data``."""
    named = os.environ.get(VARIABLE, "").split(os.pathsep)
    return [Path(name.strip()).expanduser() for name in named if name.strip()] or [Path("data")]


def find(*forms: tuple[str, ...], how: str) -> tuple[Path, ...]:
    """Return the files of a data set, all from one folder.

    Parameters
    ----------
    *forms : tuple of str
        The files, relative to a folder. A data set that comes in several forms has one tuple for
        each; the first folder with all files of a form is used.
    how : str
        How to get them.
    """
    incomplete = []
    for folder in folders():
        for form in forms:
            paths = tuple(folder / name for name in form)
            absent = [path for path in paths if not path.is_file()]
            if not absent:
                return paths
            if len(absent) < len(paths):
                there = next(path for path in paths if path not in absent)
                incomplete.append(f" {there} exists, but {absent[0].name} beside it does not.")
    wanted = ", or ".join(" and ".join(form) for form in forms)
    searched = ", ".join(f"{f}" if f.is_dir() else f"{f} (no such folder)" for f in folders())
    raise MissingDataError(
        f"{wanted} not found in {searched}.{''.join(incomplete)} What to do: {how}; put it into "
        f"{folders()[0]}, or name its folder in the environment variable {VARIABLE}."
    )


def corrupt(path: Path | str, what: str, how: str) -> CorruptDataError:
    """Return the error for a file that exists but is not as expected."""
    return CorruptDataError(f"{path} {what}. Replace it: {how}.")


def digest(path: Path) -> str:
    """Return the md5 of a file of any size."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def named(*paths: Path) -> str:
    """Return the names and digests of files."""
    return ", ".join(f"{path.name} (md5 {digest(path)})" for path in paths)


def check_md5(path: Path, found: str, expected: Expected, how: str) -> None:
    """Raise CorruptDataError unless the file is identical to the published one."""
    if expected.md5 is not None and found != expected.md5:
        raise corrupt(
            path,
            f"has the md5 {found} instead of the published {expected.md5}: it is damaged or "
            "another version",
            how,
        )


def check_counts(path: Path | str, rows: int, positives: int, expected: Expected, how: str) -> None:
    """Raise CorruptDataError unless rows and positives are as published."""
    if rows != expected.rows:
        reason = "it is truncated" if rows < expected.rows else "it is another version"
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

    Only a line feed ends a line: sentences may contain other characters at which Python's
    ``splitlines`` would split them.
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


def read_arrays(path: Path, names: Sequence[str], how: str) -> dict[str, NDArray[Any]]:
    """Return those of the named arrays that an npz file contains.

    Nothing in the file is executed. Each array has a checksum, so damage raises CorruptDataError.
    """
    with path.open("rb") as file:
        try:
            content = np.load(file, allow_pickle=False)
            if not isinstance(content, np.lib.npyio.NpzFile):
                raise ValueError("it is a single array")
            return {name: content[name] for name in names if name in content.files}
        except Exception as error:  # damage raises many kinds of errors
            raise corrupt(path, f"is not a complete npz file ({error})", how) from error


def read_quantized(path: Path, names: Sequence[str], how: str) -> dict[str, NDArray[Any]]:
    """Return ``X = q * scale + offset`` as float32, and the named arrays with one entry per row.

    ``q`` holds one byte per feature.
    """
    wanted = ("q", "scale", "offset", *names)
    arrays = read_arrays(path, wanted, how)
    missing = [name for name in wanted if name not in arrays]
    if missing:
        raise corrupt(path, f"has no array {', '.join(missing)}", how)
    q, scale, offset = (arrays.pop(name) for name in wanted[:3])
    if q.ndim != 2 or q.dtype != np.uint8:
        raise corrupt(path, f"has a q of {q.dtype} and shape {q.shape}, not a matrix of uint8", how)
    for name, values in (("scale", scale), ("offset", offset)):
        if values.shape != q.shape[1:] or not np.isfinite(values).all():
            raise corrupt(path, f"does not have one finite {name} per column of q", how)
    for name, values in arrays.items():
        if values.shape != q.shape[:1] or values.dtype.kind not in "iu":
            raise corrupt(path, f"does not have one integer {name} per row of q", how)
    return {"X": q * scale.astype(np.float32) + offset.astype(np.float32), **arrays}


Columns = dict[str, NDArray[Any]]


def read_csv(path: Path, numbers: Sequence[str], texts: Sequence[str], how: str) -> Columns:
    """Return the named columns: finite numbers as float64, texts unchanged.

    Other columns are ignored. Rows are counted from 1, after the header.
    """
    pandas = _needed("pandas")
    with warnings.catch_warnings():
        # pandas only warns about lines that are too long, and drops their end.
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        try:
            frame = pandas.read_csv(
                path,
                index_col=False,
                dtype=dict.fromkeys(texts, str),
                encoding="utf-8-sig",
                low_memory=False,
            )
        except pandas.errors.EmptyDataError as error:
            raise corrupt(path, "is empty", how) from error
        except (ValueError, pandas.errors.ParserWarning) as error:
            raise corrupt(
                path, f"is not a complete CSV file ({str(error).strip()})", how
            ) from error
    return _checked(path, frame, numbers, texts, how)


def read_parquet(path: Path, numbers: Sequence[str], texts: Sequence[str], how: str) -> Columns:
    """Return the named columns of a Parquet file, as :func:`read_csv` does."""
    _needed("pyarrow")
    pandas = _needed("pandas")
    try:
        frame = pandas.read_parquet(path)
    except (ValueError, OSError) as error:
        raise corrupt(path, f"is not a complete Parquet file ({error})", how) from error
    return _checked(path, frame, numbers, texts, how)


def _needed(module: str) -> Any:
    return need(module, "paper", "reading this data set")


def _checked(
    path: Path, frame: Any, numbers: Sequence[str], texts: Sequence[str], how: str
) -> Columns:
    missing = [name for name in (*texts, *numbers) if name not in frame.columns]
    if missing:
        named = ", ".join(map(str, frame.columns[:5])) + (", ..." if len(frame.columns) > 5 else "")
        raise corrupt(
            path, f"has no column {', '.join(missing)}; its columns are {named[:200]}", how
        )
    if not len(frame):
        raise corrupt(path, "has a header but no rows", how)
    found: Columns = {}
    for name in numbers:
        values = _needed("pandas").to_numeric(frame[name], errors="coerce").to_numpy(np.float64)
        _check_cells(path, frame[name], name, np.isfinite(values), "a number", how)
        found[name] = values
    for name in texts:
        cells = frame[name].to_numpy(object)
        is_text = np.array([isinstance(cell, str) for cell in cells])
        _check_cells(path, frame[name], name, is_text, "a text", how)
        found[name] = cells
    return found


def _check_cells(
    path: Path, column: Any, name: str, good: NDArray[np.bool_], kind: str, how: str
) -> None:
    """Raise CorruptDataError if cells are empty or of the wrong kind; name the first."""
    if good.all():
        return
    row = int(np.flatnonzero(~good)[0])
    cell = column.iloc[row]
    empty = cell is None or cell != cell
    what = "is empty" if empty else f"holds {str(cell)[:40]!r}, not {kind}"
    cut = " (the last row: the file is truncated)" if row == len(good) - 1 else ""
    raise corrupt(
        path,
        f"has {int((~good).sum()):,} bad cells in the column {name}: row {row + 1:,} {what}{cut}",
        how,
    )


def check_labels(
    path: Path, name: str, labels: NDArray[Any], allowed: Sequence[int], how: str
) -> None:
    """Raise CorruptDataError if there are labels other than the published ones."""
    good = np.isin(labels, allowed)
    if good.all():
        return
    row = int(np.flatnonzero(~good)[0])
    others = ", ".join(f"{value:g}" for value in np.unique(labels[~good])[:5])
    raise corrupt(
        path,
        f"has labels other than {', '.join(map(str, allowed))} in the column {name}: {others}, "
        f"first in row {row + 1:,}",
        how,
    )
