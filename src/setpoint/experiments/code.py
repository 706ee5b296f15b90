"""Which code made a result: kept trainings of other code are not mixed with new ones."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import setpoint

# What decides a training's result. Grids (methods, scale) are left out: what they come to, the
# solver, is compared by itself, and so are the data.
DECIDING = (
    "losses",
    "solvers",
    "_arrays.py",
    "_standardize.py",
    "_sweep.py",
    "_validation.py",
    "capped_loss.py",
    "goals.py",
    "metrics.py",
    "models.py",
    "operating_point.py",
    "penalty.py",
    "reformulation.py",
    "datasets/splits.py",
    "experiments/trial.py",
)


@cache  # once, at the start: an edit during a run changes the files, not what runs
def digest() -> str:
    """Return a digest of the code that decides a training's result."""
    total = hashlib.sha256()
    package = Path(setpoint.__file__).parent
    for file in _files(package):
        total.update(f"{file.relative_to(package).as_posix()}\n".encode())
        total.update(meaning(file.read_text("utf-8")).encode())
    return total.hexdigest()[:12]


def _files(package: Path) -> Iterator[Path]:
    for name in DECIDING:
        place = package / name
        yield from sorted(place.glob("*.py")) if place.is_dir() else [place]


def meaning(source: str) -> str:
    """Return a text that is the same for sources that differ in comments, docstrings or layout."""
    return _text(ast.parse(source))


def _text(part: object) -> str:
    """Return a syntax tree as text; unlike ``ast.dump`` the same in all versions of Python."""
    if isinstance(part, list):
        return f"[{','.join(_text(each) for each in part if not _is_note(each))}]"
    if not isinstance(part, ast.AST):
        return repr(part)
    # Newer versions have more fields, which are empty where older sources are read.
    fields = [(name, value) for name, value in ast.iter_fields(part) if value not in (None, [])]
    return f"{type(part).__name__}({','.join(f'{name}={_text(v)}' for name, v in fields)})"


def _is_note(part: object) -> bool:
    """Whether this is a string that stands alone, as docstrings do."""
    return (
        isinstance(part, ast.Expr)
        and isinstance(part.value, ast.Constant)
        and isinstance(part.value.value, str)
    )
