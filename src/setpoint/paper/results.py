"""Finished jobs as a tidy table, and the best configuration of each grid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf, nan
from typing import Any

from setpoint._internal.imports import need
from setpoint.errors import SetpointError
from setpoint.paper.jobs import TARGETS, Target
from setpoint.paper.methods import METHODS
from setpoint.thresholds.operating_point import OperatingPoint

TRIAL = ["dataset", "split", "three", "trial", "method", "variant", "kind", "alpha"]
SLACK = 0.001  # the paper's tolerance for "feasible" and "best"
ROUNDING = 1e-12  # 0.9 - 0.899 is slightly more than 0.001


def tidy(results: Iterable[dict[str, Any]]) -> Any:
    """Return a DataFrame with one row per job, goal, threshold rule and subset of the data.

    A diverged training has one row per goal, without rule, subset and metrics.
    """
    pd = need("pandas", "paper", "a table")
    rows: list[dict[str, Any]] = []
    for result in results:
        job = {k: v for k, v in result["job"].items() if k != "target"}
        trained_for = result["job"]["target"]
        job["trained_for"] = "any" if trained_for is None else str(Target(**trained_for))
        job["label"] = METHODS[job["method"]].label_of(job["variant"])
        about = {k: result[k] for k in ("solver", "seconds", "machine", "date")}
        diverged = result.get("diverged", False)
        found = _diverged(trained_for) if diverged else map(_metrics, result["counts"])
        rows += [{**job, **row, **about, "diverged": diverged} for row in found]
    if not rows:
        raise SetpointError("there are no results yet.")
    return pd.DataFrame(rows)


def _metrics(counts: dict[str, Any]) -> dict[str, Any]:
    target = Target(counts["kind"], counts["alpha"])
    tp, fp, fn, tn = (float(counts[k]) for k in ("tp", "fp", "fn", "tn"))
    point = OperatingPoint(0.0, tp, fp, fn, tn, target.goal)
    return {
        "kind": target.kind,
        "alpha": _level(target),
        "rule": counts["threshold"],
        "part": counts["part"],
        **{k: counts[k] for k in ("tp", "fp", "fn", "tn")},
        **{k: getattr(point, k) for k in ("precision", "recall", "f1", "objective", "violation")},
    }


def _diverged(trained_for: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a diverged training, one per goal."""
    for target in TARGETS if trained_for is None else (Target(**trained_for),):
        yield {
            "kind": target.kind,
            "alpha": _level(target),
            "rule": None,
            "part": None,
            **dict.fromkeys(("tp", "fp", "fn", "tn"), 0),
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
