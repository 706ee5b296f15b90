"""Finished jobs on disk: one file each, written atomically, so that a stopped run can continue."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from setpoint._internal.files import temporary_path, write_atomically
from setpoint.errors import SetpointError
from setpoint.paper.code import accepted, digest
from setpoint.paper.jobs import Job, Target

Result = dict[str, Any]
COUNTS = ("tp", "fp", "fn", "tn")


class Store:
    """A folder with one JSON file per finished job.

    Parameters
    ----------
    folder : path
        Created if it does not exist.
    keep_old : bool
        Whether to accept results of other code; see :mod:`setpoint.paper.code`.
    """

    def __init__(self, folder: str | Path, keep_old: bool = False) -> None:
        self.folder = Path(folder)
        self.keep_old = keep_old
        try:
            (self.folder / "jobs").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SetpointError(
                f"results cannot be stored in {self.folder} ({error.strerror}); choose another "
                "folder with --out."
            ) from error

    def claim(self, scale: str) -> None:
        """Reserve the folder for one scale; raise SetpointError if it holds another's results."""
        mark = self.folder / "scale"
        while not _write_new(mark, f"{scale}\n"):
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
            mark.unlink(missing_ok=True)  # empty after a crash

    def path(self, job: Job) -> Path:
        """Return the file of a job's result."""
        return self.folder / "jobs" / f"{job.name}.json"

    def has(self, job: Job, source: str) -> bool:
        """Return whether there is a result of this job, with this solver, data and code.

        An unreadable file, e.g. one truncated by a full disk, counts as missing.
        """
        return self._matches(job, source, _read(self.path(job)))

    def keep(self, job: Job, result: Result) -> None:
        """Write a result together with the digest of the code that made it."""
        write_atomically(self.path(job), json.dumps({**result, "code": digest()}))

    def results(self, jobs: Iterable[Job]) -> Iterator[Result]:
        """Yield the results of those jobs that have one."""
        for job in jobs:
            path = self.path(job)
            if not path.exists():
                continue
            try:
                yield json.loads(path.read_text())
            except ValueError as error:
                raise SetpointError(
                    f"{path} is damaged ({error}); delete it and run the command again, which "
                    "repeats only that job."
                ) from error

    def kept(self, split: str, sources: Mapping[str, str]) -> dict[str, Result]:
        """Return all results of a split by job name, whichever command produced them.

        ``sources`` maps each data set to the source of the data in use; results from other data
        are left out.
        """
        found = {}
        for path in sorted((self.folder / "jobs").glob("*.json")):
            result = _read(path)
            job = _job_of(result)
            if job is None or job.split != split or path != self.path(job):
                continue
            if job.dataset in sources and self._matches(job, sources[job.dataset], result):
                found[job.name] = result
        return found

    def _matches(self, job: Job, source: str, found: Any) -> bool:
        try:
            return bool(
                found["job"] == json.loads(json.dumps(job.to_dict()))
                and found["solver"] == repr(job.solver)
                and found["source"] == source
                and (self.keep_old or found["code"] in accepted())
                and {"seconds", "machine", "date"} <= found.keys()
                and _is_complete(job, found)
            )
        except (LookupError, TypeError, AttributeError):
            return False


def _is_complete(job: Job, found: Result) -> bool:
    """Return whether there are counts for every goal of the job, or the training diverged."""
    counts = found["counts"]
    if found.get("diverged") is True:
        return bool(counts == [])
    goals = {(row["kind"], row["alpha"]) for row in counts if {"threshold", "part"} <= row.keys()}
    return goals == {(target.kind, target.alpha) for target in job.targets} and all(
        isinstance(row[name], int) for row in counts for name in COUNTS
    )


def _job_of(found: Any) -> Job | None:
    """Return the job that a result names, or None if it names none."""
    try:
        target = found["job"]["target"]
        return Job(**{**found["job"], "target": None if target is None else Target(**target)})
    except (LookupError, TypeError):
        return None


def _read(path: Path) -> Any:
    """Return the content of a JSON file, or None if it cannot be read."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def _write_new(path: Path, text: str) -> bool:
    """Write a file atomically unless it exists; return whether it was written."""
    temporary = temporary_path(path.parent)
    try:
        temporary.write_text(text)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links
            try:
                with path.open("x") as file:
                    file.write(text)
            except FileExistsError:
                return False
    finally:
        temporary.unlink(missing_ok=True)
    return True
