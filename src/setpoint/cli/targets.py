"""What may be written to: nothing that was given, and nothing that something else made.

Asked before any work, for a training may take hours.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from setpoint.errors import SetpointError

_FIGURES = ("precision-recall", "scores", "history")
_LARGEST_PAGE = 1 << 26  # bytes; no report comes near
_MODEL = "model.json"


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
    if figures is not None:
        _check_figures(figures, given)


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
    _check_replaceable(path, _KINDS[what], what)
    _check_folder(real.parent, what)


def _check_figures(folder: Path, given: Mapping[str, Path]) -> None:
    real = Path(os.path.realpath(folder))
    if real.exists() and not real.is_dir():
        raise SetpointError(f"{folder} is a file; name a folder for the figures.")
    # Asked of a file in the folder, for that is what will be written.
    _check_apart(folder, real / "figure", "figures", given)
    for name in _FIGURES:
        for ending in ("png", "svg"):
            _check_replaceable(folder / f"{name}.{ending}", _is_figure, "figure")
    _check_folder(real if real.exists() else real.parent, "figures")


def _check_apart(path: Path, real: Path, what: str, given: Mapping[str, Path]) -> None:
    """Refuse what the command reads, and all that lies in the folder of a model."""
    for name, other in given.items():
        there = Path(os.path.realpath(other))
        if real == there or (real.exists() and there.exists() and real.samefile(there)):
            raise SetpointError(f"{path} is {name}; name another place for the {what}.")
        if there == real.parent:
            raise SetpointError(
                f"{path} lies in {name}, {other}; name another place for the {what}."
            )
    if _is_model(real.parent / _MODEL):
        raise SetpointError(
            f"{path} lies in the folder of a model; name another place for the {what}."
        )


def _check_replaceable(path: Path, ours: Callable[[Path], bool], what: str) -> None:
    """Refuse to overwrite anything but an earlier one, or an empty file."""
    if not path.exists():
        return
    if not path.is_file():
        raise SetpointError(f"{path} is no plain file; name another one for the {what}.")
    try:
        replaceable = path.stat().st_size == 0 or ours(path)
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
    from setpoint.model_files.document import is_model

    try:
        return path.is_file() and is_model(path.read_bytes())
    except OSError:
        return False


def _is_report(path: Path) -> bool:
    if path.stat().st_size > _LARGEST_PAGE:
        return False
    content = path.read_bytes()
    return content[:14].lower() == b"<!doctype html" and b"Made by setpoint" in content


def _is_onnx(path: Path) -> bool:
    return b"\x12\x08setpoint" in _head(path)  # the field with the name of the producer


def _is_figure(path: Path) -> bool:
    return b"Matplotlib" in _head(path)


def _is_scored(path: Path) -> bool:
    from setpoint.tabular.errors import TableFileError
    from setpoint.tabular.files import TableFile

    try:
        return {"score", "alarm"} <= set(TableFile(path).names)
    except TableFileError:
        return False


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(4096)


_KINDS = {"report": _is_report, "ONNX model": _is_onnx, "table of scores": _is_scored}
