"""From finished jobs to tidy rows, and from a grid to its best configuration."""

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
SLACK = 0.001  # the paper's, for what is feasible and what is best
ROUNDING = 1e-12  # 0.9 - 0.899 is a little more than 0.001


def tidy(results: Iterable[dict[str, Any]]) -> Any:
    """Return a DataFrame with a row per job, goal, rule of the threshold, and part.

    A training that diverged has a row per goal, without rule, part and figures.
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
        found = _none(trained_for) if diverged else map(_figures, result["counts"])
        rows += [{**job, **row, **about, "diverged": diverged} for row in found]
    if not rows:
        raise SetpointError("there are no results yet.")
    return pd.DataFrame(rows)


def _figures(counts: dict[str, Any]) -> dict[str, Any]:
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


def _none(trained_for: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """Return what a diverged training has to show for each of its goals."""
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
    return -1.0 if target.alpha is None else target.alpha  # pandas does not join on none


def selected(frame: Any) -> Any:
    """Return the rows of each trial's best configuration, for every method, variant and goal.

    As in the paper: the one that is best on the training rows at the model's own threshold. Trained
    to convergence a method gets its honest best: after the threshold is adjusted, and on the
    validation rows where there are some. A violation within the slack is none. What diverged is
    taken only where nothing else is left.
    """
    as_printed = frame["variant"] == "paper"
    adjusted_on = frame["three"].map({True: "validation", False: "train"})
    part = adjusted_on.where(~as_printed, "train")
    rule = adjusted_on.where(~as_printed, "own")
    judges = frame[((frame["part"] == part) & (frame["rule"] == rule)) | frame["diverged"]]
    missed = judges["violation"].where(judges["violation"] > SLACK + ROUNDING, 0.0)
    ranked = judges.assign(missed=missed).sort_values(
        ["missed", "objective", "configuration"], ascending=[True, False, True], kind="stable"
    )
    best = ranked.drop_duplicates(TRIAL)[[*TRIAL, "configuration"]]
    return frame.merge(best, on=[*TRIAL, "configuration"])
