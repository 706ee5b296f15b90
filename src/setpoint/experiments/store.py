"""Finished jobs on disk: a file each, written in one step, so that a stopped run goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from setpoint.errors import SetpointError
from setpoint.experiments.jobs import Job


class Store:
    """A folder with one JSON file per finished job.

    Parameters
    ----------
    folder : path
        Made if it is not there.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
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
        held = mark.read_text().strip() if mark.exists() else scale
        if held != scale:
            raise SetpointError(
                f"{self.folder} holds results of the scale {held!r}; choose another folder for "
                f"{scale!r} with --out."
            )
        mark.write_text(f"{scale}\n")

    def path(self, job: Job) -> Path:
        """Return where a job's result lies."""
        return self.folder / "jobs" / f"{job.name}.json"

    def has(self, job: Job, source: str) -> bool:
        """Whether the job was done, with this solver and these data.

        A file that cannot be read, e.g. cut off by a full disk, is as good as none.
        """
        try:
            found = json.loads(self.path(job).read_text())
            return bool(
                found["job"] == json.loads(json.dumps(job.to_dict()))
                and found["solver"] == repr(job.solver)
                and found["source"] == source
                and found["counts"]
            )
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def keep(self, job: Job, result: dict[str, Any]) -> None:
        """Write a result."""
        path = self.path(job)
        temporary = path.with_suffix(f".{os.getpid()}")
        try:
            temporary.write_text(json.dumps(result))
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def results(self, jobs: Iterable[Job]) -> Iterator[dict[str, Any]]:
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
