"""Checks of output paths, before any work, as a training may take hours.

A command replaces earlier outputs of its own kind, recognised by embedded metadata, and nothing
else: not its inputs, no file of another program, and nothing inside a model's folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from setpoint.errors import SetpointError

_HEAD = 1 << 16  # bytes, which contain a file's metadata
_SAMPLE = 1000  # rows
_MODEL = "model.json"
_PICTURES = {
    f"{name}.{ending}": "figure"
    for name in (
        "precision-recall",
        "scores",
        "history",
        *(f"{kind}{i}" for kind in ("segments", "periods") for i in ("", "-2", "-3", "-4")),
    )
    for ending in ("png", "svg")
}
_DEMO = {"setpoint-demo.png": "figure", "setpoint-demo.html": "report"}


def check_outputs(
    given: Mapping[str, Path], report: Path | None = None, figures: Path | None = None
) -> None:
    """Raise SetpointError if a report or a folder of figures cannot or must not be written.

    Parameters
    ----------
    given : mapping of str to Path
        Other inputs and outputs of the command by name, e.g. ``{"the table": data}``.
    report, figures : Path, optional
        The paths to check.
    """
    if report is not None:
        check_file(report, "report", given)
        given = {**given, "the report": report}
    if figures is not None:
        _check_files_in(figures, _PICTURES, "figures", given)


def check_demo(folder: Path) -> None:
    """Raise SetpointError if the demo's files cannot or must not be written to the folder."""
    _check_files_in(folder, _DEMO, "demo", {})


def check_file(path: Path, what: str, given: Mapping[str, Path]) -> None:
    """Raise SetpointError if a file cannot or must not be written.

    Parameters
    ----------
    path : Path
        The file.
    what : {"report", "ONNX model", "SQL statement", "table of scores", "Prometheus file"}
        The kind of file; an existing one of the same kind may be replaced.
    given : mapping of str to Path
        As in :func:`check_outputs`.
    """
    _check_file(path, what, what, given)
    _check_folder(_real(path).parent, what)


def check_separate(path: Path, what: str, given: Mapping[str, Path]) -> None:
    """Raise SetpointError if the path is, or is inside, another path of the command or a model."""
    real = _real(path)
    for name, other in given.items():
        there = _real(other)
        if real == there or (real.exists() and there.exists() and real.samefile(there)):
            raise SetpointError(f"{path} is {name}; name another path for the {what}.")
        if there in real.parents:
            raise SetpointError(
                f"{path} is inside {name}, {other}; name another path for the {what}."
            )
    if any(_is_model(folder / _MODEL) for folder in real.parents):
        raise SetpointError(f"{path} is inside a model's folder; name another path for the {what}.")


def _check_files_in(
    folder: Path, files: Mapping[str, str], what: str, given: Mapping[str, Path]
) -> None:
    """Raise SetpointError if files with these names and kinds must not be written to the folder."""
    real = _real(folder)
    check_separate(folder, what, given)
    if real.exists() and not real.is_dir():
        raise SetpointError(f"{folder} is a file; name a folder for the {what}.")
    if _is_model(real / _MODEL):
        raise SetpointError(f"{folder} is a model's folder; name another one for the {what}.")
    for name, kind in files.items():
        _check_file(folder / name, kind, what, given)
    _check_folder(real if real.exists() else real.parent, what)


def _check_file(path: Path, kind: str, what: str, given: Mapping[str, Path]) -> None:
    """Raise SetpointError if a file of a kind, one of the outputs ``what``, must not be written."""
    check_separate(path, what, given)
    real = _real(path)
    if real.is_dir():
        raise SetpointError(f"{path} is a folder, not a file; name another path for the {what}.")
    for name, other in given.items():
        if real in _real(other).parents:
            raise SetpointError(
                f"{other}, {name}, would be inside the file {path}; name another path for the "
                f"{what}."
            )
    _check_replaceable(path, kind)


def _check_replaceable(path: Path, kind: str) -> None:
    """Raise SetpointError if there is anything but an empty file or one of the same kind."""
    if not path.exists():
        return
    if not path.is_file():
        raise SetpointError(f"{path} is not a regular file; name another one for the {kind}.")
    try:
        replaceable = path.stat().st_size == 0 or _KINDS[kind](path)
    except OSError:  # a file that cannot be read is not known to be of this kind
        replaceable = False
    if not replaceable:
        raise SetpointError(
            f"{path} exists and is not the {kind} of an earlier run; name another file, or delete "
            "it."
        )


def _check_folder(folder: Path, what: str) -> None:
    if not folder.exists():
        raise SetpointError(
            f"the folder {folder} for the {what} does not exist; create it, or name another one."
        )
    if not folder.is_dir():
        raise SetpointError(f"{folder} is a file, so the {what} cannot be written there.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise SetpointError(
            f"the {what} cannot be written: the folder {folder} is read-only. Name another one, or "
            "change its permissions."
        )


# --- recognising files of setpoint ---------------------------------------------------------------


def _is_model(path: Path) -> bool:
    from setpoint.saving.document import is_model

    try:
        return path.is_file() and is_model(path.read_bytes())
    except OSError:
        return False


def _is_report(path: Path) -> bool:
    head, end, _ = _head(path).partition(b"</head>")
    doctype = head[:14].lower() == b"<!doctype html"
    return doctype and bool(end) and b'<meta name="generator" content="setpoint ' in head


def _is_onnx(path: Path) -> bool:
    return _head(path)[2:12] == b"\x12\x08setpoint"  # the producer, after the version


def _is_sql(path: Path) -> bool:
    return _head(path).startswith(b"-- generator: setpoint ")


def _is_prometheus(path: Path) -> bool:
    from setpoint.cli.prometheus import HEAD

    return _head(path).startswith(HEAD.encode())


def _is_figure(path: Path) -> bool:
    head = _head(path)
    if head.startswith(b"\x89PNG"):
        return b"tEXtSoftware\0setpoint " in head
    return re.search(rb"<dc:creator>\s*<cc:Agent>\s*<dc:title>setpoint ", head) is not None


def _is_scored(path: Path) -> bool:
    from setpoint.data.table_reader import TableFile
    from setpoint.errors import TableFileError

    try:
        file = TableFile(path)
        names = list(file.names)
        if names[-3:] == ["score", "alarm", "predicted"]:
            return True
        if _is_label_scores(names):
            return True
        # Two names are little evidence, so the decisions of a review band are read, too.
        if names[-2:] != ["score", "decision"]:
            return False
        first = next(iter(file.frames(_SAMPLE, ["decision"])), None)
        return first is None or set(first["decision"]) <= {"alarm", "review", "clear"}
    except TableFileError:
        return False


def _is_label_scores(names: list[str]) -> bool:
    """Whether a table ends in score and alarm of at least two labels."""
    pairs = [names[-4:-2], names[-2:]]
    labels = [pair[-1].removesuffix("_alarm") for pair in pairs if pair]
    return pairs == [[f"{label}_score", f"{label}_alarm"] for label in labels]


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD)


_KINDS: dict[str, Callable[[Path], bool]] = {
    "report": _is_report,
    "figure": _is_figure,
    "ONNX model": _is_onnx,
    "SQL statement": _is_sql,
    "Prometheus file": _is_prometheus,
    "table of scores": _is_scored,
}
