"""What may be written to: nothing that was given, and nothing that something else made.

Asked before any work, for a training may take hours.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from setpoint.errors import SetpointError

_LARGEST_HEAD = 1 << 16  # bytes; where a file of ours says that it is
_MODEL = "model.json"
_PICTURES = {
    f"{name}.{ending}": "figure"
    for name in ("precision-recall", "scores", "history")
    for ending in ("png", "svg")
}
_DEMO = {"setpoint-demo.png": "figure", "setpoint-demo.html": "report"}


def check_outputs(
    given: Mapping[str, Path], report: Path | None = None, figures: Path | None = None
) -> None:
    """Refuse a report or a folder of figures that cannot or must not be written.

    Parameters
    ----------
    given : mapping of str to Path
        What the command reads or makes besides, by what it is called: ``{"the table": data}``.
    report, figures : Path, optional
        Where they shall go.
    """
    if report is not None:
        check_file(report, "report", given)
        given = {**given, "the report": report}
    if figures is not None:
        _check_files_in(figures, _PICTURES, "figures", given)


def check_demo(folder: Path) -> None:
    """Refuse a folder in which the demo's files cannot or must not be written."""
    _check_files_in(folder, _DEMO, "demo", {})


def check_model_place(path: Path, given: Mapping[str, Path]) -> None:
    """Refuse to make a model inside of another; parameters as in :func:`check_file`."""
    _check_apart(path, Path(os.path.realpath(path.expanduser())), "model", given)


def check_file(path: Path, what: str, given: Mapping[str, Path]) -> None:
    """Refuse a file that cannot or must not be written.

    Parameters
    ----------
    path : Path
        The file.
    what : {"report", "ONNX model", "table of scores"}
        What it shall become; one that is there already may be replaced.
    given : mapping of str to Path
        As of :func:`check_outputs`.
    """
    real = Path(os.path.realpath(path))
    _check_apart(path, real, what, given)
    if real.is_dir():
        raise SetpointError(f"{path} is a folder; name a file in it for the {what}.")
    _check_not_inside(path, real, what, given)
    _check_replaceable(path, what)
    _check_folder(real.parent, what)


def _check_files_in(
    folder: Path, files: Mapping[str, str], what: str, given: Mapping[str, Path]
) -> None:
    """Refuse a folder for files with these names, each of a kind that may be replaced."""
    real = Path(os.path.realpath(folder))
    _check_apart(folder, real, what, given)
    if real.exists() and not real.is_dir():
        raise SetpointError(f"{folder} is a file; name a folder for the {what}.")
    if _is_model(real / _MODEL):
        raise SetpointError(f"{folder} is the folder of a model; name another one for the {what}.")
    for name, kind in files.items():
        file = folder / name
        _check_apart(file, Path(os.path.realpath(file)), what, given)
        _check_not_inside(file, Path(os.path.realpath(file)), what, given)
        _check_replaceable(file, kind)
    _check_folder(real if real.exists() else real.parent, what)


def _check_apart(path: Path, real: Path, what: str, given: Mapping[str, Path]) -> None:
    """Refuse what the command reads or makes besides, and what lies in the folder of a model."""
    for name, other in given.items():
        there = Path(os.path.realpath(other))
        if real == there or (real.exists() and there.exists() and real.samefile(there)):
            raise SetpointError(f"{path} is {name}; name another place for the {what}.")
        if there in real.parents:
            raise SetpointError(
                f"{path} lies in {name}, {other}; name another place for the {what}."
            )
    if any(_is_model(folder / _MODEL) for folder in real.parents):
        raise SetpointError(
            f"{path} lies in the folder of a model; name another place for the {what}."
        )


def _check_not_inside(path: Path, real: Path, what: str, given: Mapping[str, Path]) -> None:
    """Refuse a file that is to be a folder as well, for something else."""
    for name, other in given.items():
        if real in Path(os.path.realpath(other)).parents:
            raise SetpointError(
                f"{other}, {name}, would lie in {path}, a file; name another place for the {what}."
            )


def _check_replaceable(path: Path, what: str) -> None:
    """Refuse to overwrite anything but an earlier one, or an empty file."""
    if not path.exists():
        return
    if not path.is_file():
        raise SetpointError(f"{path} is no plain file; name another one for the {what}.")
    try:
        replaceable = path.stat().st_size == 0 or _KINDS[what](path)
    except OSError:  # what cannot be read is not known to be ours
        replaceable = False
    if not replaceable:
        raise SetpointError(
            f"{path} is there already and is no {what} of setpoint; name another file, or delete "
            "it."
        )


def _check_folder(folder: Path, what: str) -> None:
    if not folder.exists():
        raise SetpointError(
            f"there is no folder {folder} for the {what}; make it first, or name another one."
        )
    if not folder.is_dir():
        raise SetpointError(f"{folder} is a file, so the {what} cannot be written into it.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise SetpointError(
            f"the {what} cannot be written: the folder {folder} is read-only. Name another one, or "
            "change its permissions."
        )


# --- what is ours ---------------------------------------------------------------------------------


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


def _is_figure(path: Path) -> bool:
    head = _head(path)
    if head.startswith(b"\x89PNG"):
        return b"tEXtSoftware\0setpoint " in head
    return re.search(rb"<dc:creator>\s*<cc:Agent>\s*<dc:title>setpoint ", head) is not None


def _is_scored(path: Path) -> bool:
    from setpoint.data.table_reader import TableFile
    from setpoint.errors import TableFileError

    try:
        return list(TableFile(path).names)[-3:] == ["score", "alarm", "predicted"]
    except TableFileError:
        return False


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LARGEST_HEAD)


_KINDS: dict[str, Callable[[Path], bool]] = {
    "report": _is_report,
    "figure": _is_figure,
    "ONNX model": _is_onnx,
    "table of scores": _is_scored,
}
