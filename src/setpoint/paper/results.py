"""Finished jobs: one file each, their rows as a tidy table, and the best of each grid."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from math import inf, nan
from pathlib import Path
from typing import Any

from setpoint._internal.files import temporary_path, write_atomically
from setpoint._internal.imports import need
from setpoint.errors import SetpointError
from setpoint.paper.code import accepted, digest
from setpoint.paper.jobs import COUNTS, Job, Target
from setpoint.paper.methods import METHODS
from setpoint.thresholds.operating_point import OperatingPoint

Result = dict[str, Any]
TRIAL = ["dataset", "split", "three", "trial", "method", "variant", "kind", "alpha"]
SLACK = 0.001  # the paper's tolerance for "feasible" and "best"
ROUNDING = 1e-12  # 0.9 - 0.899 is slightly more than 0.001

# --- files ----------------------------------------------------------------------------------------


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

    def save(self, job: Job, result: Result) -> None:
        """Write a result together with the digest of the code that made it."""
        write_atomically(self.path(job), json.dumps({**result, "code": digest()}))

    def results_of_split(self, split: str, sources: Mapping[str, str]) -> dict[str, Result]:
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
                found["job"] == json.loads(json.dumps(asdict(job)))
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
    """Return the job that a result names, or None if it does not name a valid one."""
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


# --- tables ---------------------------------------------------------------------------------------


def tidy(results: Iterable[dict[str, Any]]) -> Any:
    """Return a DataFrame with one row per job, goal, threshold rule and subset of the data.

    A diverged training has one row per goal, without rule, subset and metrics.
    """
    pd = need("pandas", "paper", "a table")
    rows: list[dict[str, Any]] = []
    for result in results:
        job = _job_of(result)
        assert job is not None
        described = {
            **{name: value for name, value in asdict(job).items() if name != "target"},
            "trained_for": str(job.target or "any"),
            "label": METHODS[job.method].label_of(job.variant),
        }
        about = {name: result[name] for name in ("solver", "seconds", "machine", "date")}
        about["diverged"] = result.get("diverged", False)
        evaluated = (
            map(_diverged, job.targets) if about["diverged"] else map(_metrics, result["counts"])
        )
        rows += [{**described, **row, **about} for row in evaluated]
    if not rows:
        raise SetpointError("there are no results yet.")
    return pd.DataFrame(rows)


def _metrics(counts: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of one goal, threshold rule and subset."""
    target = Target(counts["kind"], counts["alpha"])
    tp, fp, fn, tn = (float(counts[name]) for name in COUNTS)
    point = OperatingPoint(0.0, tp, fp, fn, tn, target.goal)
    return {
        "kind": target.kind,
        "alpha": _level(target),
        "rule": counts["threshold"],
        "part": counts["part"],
        **{name: counts[name] for name in COUNTS},
        **{k: getattr(point, k) for k in ("precision", "recall", "f1", "objective", "violation")},
    }


def _diverged(target: Target) -> dict[str, Any]:
    """Return the columns of one goal of a diverged training."""
    return {
        "kind": target.kind,
        "alpha": _level(target),
        "rule": None,
        "part": None,
        **dict.fromkeys(COUNTS, 0),
        **dict.fromkeys(("precision", "recall", "f1", "objective"), nan),
        "violation": inf,
    }


def _level(target: Target) -> float:
    return -1.0 if target.alpha is None else target.alpha  # pandas does not join on None


def selected(frame: Any) -> Any:
    """Return the rows of each trial's best configuration, for every method, variant and goal.

    As in the paper, this is the best one on the training rows at the model's own threshold. For
    methods trained to convergence it is the best one after threshold adjustment, on the validation
    rows if there are any. A violation within the slack counts as none. A diverged training is
    selected only if all others diverged, too.
    """
    as_printed = frame["variant"] == "paper"
    adjusted_on = frame["three"].map({True: "validation", False: "train"})
    part = adjusted_on.where(~as_printed, "train")
    rule = adjusted_on.where(~as_printed, "own")
    compared = frame[((frame["part"] == part) & (frame["rule"] == rule)) | frame["diverged"]]
    missed = compared["violation"].where(compared["violation"] > SLACK + ROUNDING, 0.0)
    ranked = compared.assign(missed=missed).sort_values(
        ["missed", "objective", "configuration"], ascending=[True, False, True], kind="stable"
    )
    best = ranked.drop_duplicates(TRIAL)[[*TRIAL, "configuration"]]
    return frame.merge(best, on=[*TRIAL, "configuration"])
