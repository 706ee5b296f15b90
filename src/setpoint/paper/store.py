"""Finished jobs on disk: a file each, written in one step, so that a stopped run goes on."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import setpoint
from setpoint._internal.files import write_atomically
from setpoint.errors import SetpointError
from setpoint.paper.jobs import Job, Target

Result = dict[str, Any]
COUNTS = ("tp", "fp", "fn", "tn")


class Store:
    """A folder with one JSON file per finished job.

    Parameters
    ----------
    folder : path
        Made if it is not there.
    keep_old : bool
        Whether jobs count as done that other code did; see :mod:`setpoint.paper.store`.
    """

    def __init__(self, folder: str | Path, keep_old: bool = False) -> None:
        self.folder = Path(folder)
        self.keep_old = keep_old
        try:
            (self.folder / "jobs").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SetpointError(
                f"results cannot be kept in {self.folder} ({error.strerror}); choose another "
                "folder with --out."
            ) from error

    def claim(self, scale: str) -> None:
        """Take the folder for one scale; another one's results would be overwritten."""
        mark = self.folder / "scale"
        while not _put(mark, f"{scale}\n"):
            try:
                held = mark.read_text().strip()
            except FileNotFoundError:
                continue
            if held == scale:
                return
            if held:
                raise SetpointError(
                    f"{self.folder} holds results of the scale {held!r}; choose another folder "
                    f"for {scale!r} with --out."
                )
            mark.unlink(missing_ok=True)  # empty: what a crash left

    def path(self, job: Job) -> Path:
        """Return where a job's result lies."""
        return self.folder / "jobs" / f"{job.name}.json"

    def has(self, job: Job, source: str) -> bool:
        """Whether the job was done, with this solver and these data, by this code.

        A file that cannot be read, e.g. cut off by a full disk, is as good as none.
        """
        return self._is_of(job, source, _read(self.path(job)))

    def keep(self, job: Job, result: Result) -> None:
        """Write a result, marked with the code that made it."""
        write_atomically(self.path(job), json.dumps({**result, "code": digest()}))

    def results(self, jobs: Iterable[Job]) -> Iterator[Result]:
        """Read the results of jobs, those that are done."""
        for job in jobs:
            path = self.path(job)
            if not path.exists():
                continue
            try:
                yield json.loads(path.read_text())
            except ValueError as error:
                raise SetpointError(
                    f"{path} is damaged ({error}); delete it and run again, which does that job "
                    "alone."
                ) from error

    def kept(self, split: str, sources: Mapping[str, str]) -> dict[str, Result]:
        """Return all results of a split, by their jobs' names, whatever command asked for them.

        ``sources`` tells for every data set which data are in use; results of others are left out.
        """
        found = {}
        for path in sorted((self.folder / "jobs").glob("*.json")):
            result = _read(path)
            job = _job_of(result)
            if job is None or job.split != split or path != self.path(job):
                continue
            if job.dataset in sources and self._is_of(job, sources[job.dataset], result):
                found[job.name] = result
        return found

    def _is_of(self, job: Job, source: str, found: Any) -> bool:
        try:
            return bool(
                found["job"] == json.loads(json.dumps(job.to_dict()))
                and found["solver"] == repr(job.solver)
                and found["source"] == source
                and (self.keep_old or found["code"] == digest())
                and {"seconds", "machine", "date"} <= found.keys()
                and _is_counted(job, found)
            )
        except (LookupError, TypeError, AttributeError):
            return False


def _is_counted(job: Job, found: Result) -> bool:
    """Whether every goal of the job has its counts, or the training diverged."""
    counts = found["counts"]
    if found.get("diverged") is True:
        return bool(counts == [])
    goals = {(row["kind"], row["alpha"]) for row in counts if {"threshold", "part"} <= row.keys()}
    return goals == {(target.kind, target.alpha) for target in job.targets} and all(
        isinstance(row[name], int) for row in counts for name in COUNTS
    )


def _job_of(found: Any) -> Job | None:
    """Return the job that a result says it is of."""
    try:
        target = found["job"]["target"]
        seen = None if target is None else Target(**target)
        return Job(**{**found["job"], "target": seen})
    except (LookupError, TypeError):
        return None


def _read(path: Path) -> Any:
    """Return what lies in a file, or None if that cannot be read."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def _put(path: Path, text: str) -> bool:
    """Write a file in one step unless there is one; tell whether it was written."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        temporary.write_text(text)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError:  # not every file system has links
            try:
                with path.open("x") as file:
                    file.write(text)
            except FileExistsError:
                return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


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


# DOC of experiments.code: Which code made a result: kept trainings of other code are not mixed with new ones.
