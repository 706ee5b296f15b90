"""From finished jobs to tidy rows, and from a grid to its best configuration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from setpoint.errors import SetpointError
from setpoint.experiments.jobs import Target
from setpoint.experiments.methods import METHODS
from setpoint.operating_point import OperatingPoint

JOB = ["dataset", "split", "three", "trial", "method", "variant", "configuration", "trained_for"]
TRIAL = ["dataset", "split", "three", "trial", "method", "variant", "kind", "alpha"]


def tidy(results: Iterable[dict[str, Any]]) -> Any:
    """Return a DataFrame with a row per job, goal, rule of the threshold, and part."""
    pd = _pandas()
    rows = []
    for result in results:
        job = {k: v for k, v in result["job"].items() if k != "target"}
        trained_for = result["job"]["target"]
        job["trained_for"] = "any" if trained_for is None else str(Target(**trained_for))
        job["label"] = METHODS[job["method"]].label_of(job["variant"])
        for counts in result["counts"]:
            target = Target(counts["kind"], counts["alpha"])
            tp, fp, fn, tn = (float(counts[k]) for k in ("tp", "fp", "fn", "tn"))
            point = OperatingPoint(0.0, tp, fp, fn, tn, target.goal)
            rows.append(
                {
                    **job,
                    "solver": result["solver"],
                    **counts,
                    "alpha": -1.0 if target.alpha is None else target.alpha,
                    "precision": point.precision,
                    "recall": point.recall,
                    "f1": point.f1,
                    "objective": point.objective,
                    "violation": point.violation,
                    "seconds": result["seconds"],
                    "machine": result["machine"],
                    "date": result["date"],
                }
            )
    if not rows:
        raise SetpointError("there are no results yet.")
    return pd.DataFrame(rows)


def selected(frame: Any) -> Any:
    """Return the rows of each trial's best configuration, for every method, variant and goal.

    As in the paper: the one that is best on the training rows at the model's own threshold. Trained
    to convergence a method gets its honest best: after the threshold is adjusted, and on the
    validation rows where there are some.
    """
    as_printed = frame["variant"] == "paper"
    adjusted_on = frame["three"].map({True: "validation", False: "train"})
    part = adjusted_on.where(~as_printed, "train")
    rule = adjusted_on.where(~as_printed, "own")
    judges = frame[(frame["part"] == part) & (frame["threshold"] == rule)]
    ranked = judges.assign(merit=-judges["violation"]).sort_values(
        ["merit", "objective", "configuration"], ascending=[False, False, True], kind="stable"
    )
    best = ranked.drop_duplicates(TRIAL)[[*TRIAL, "configuration"]]
    return frame.merge(best, on=[*TRIAL, "configuration"])


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise SetpointError('tables need pandas: pip install "setpoint[experiments]".') from error
    return pandas
