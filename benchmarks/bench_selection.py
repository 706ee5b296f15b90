"""Rules that choose a model among the candidates of a fit, compared on test rows.

Rows that the held-out benchmark tests on are left out (``_data.py``): rules may be chosen here. The
other rows of each data set are split into 50 % training, 25 % validation and 25 % test rows. All
rules choose among the same models, those that a fit with validation rows compares, and the exact
threshold on the validation rows is theirs. They are compared with the best plain, balanced or
cost-weighted logistic regression on validation rows, as in ``bench_heldout.py``.

The second table is about caution: how often floors hold on test rows, what that costs, and how far
the constrained metric is from that on test rows, as counted on the validation rows and as
cross-fitted over halves of them. Validation rows are few here, half of those in
``bench_heldout.py``; ``--validation 0.4`` takes more of them from the training and test rows.
"""

from __future__ import annotations

import argparse
import functools
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from sklearn.preprocessing import StandardScaler

import bench_heldout
from _data import load_grouped, set_apart
from _stored import run_missing
from bench_heldout import GOALS, Parts, weighted_regressions
from setpoint import Goal, OperatingPoint, choose_threshold, evaluate_threshold
from setpoint._internal.provenance import machine
from setpoint.thresholds.caution import cautious
from setpoint.thresholds.choose import best_point
from setpoint.thresholds.halves import Halves
from setpoint.training.candidates import Selection, TrainedModel

DATA = bench_heldout.DATA[:7]  # without groups, and quick
AHEAD = (0.0, 0.5)  # standard errors by which a goal-trained model must be ahead
CAUTIONS = (0.0, 0.05, 0.1, 0.2, 0.3)


class OtherParts(Parts):
    """One split of the rows that are not set apart for tests."""

    def __init__(self, name: str, seed: int, validation: float = 0.25) -> None:
        data = load_grouped(name)
        rows = np.flatnonzero(~set_apart(data.y, data.groups))
        part = np.zeros(len(rows), int)
        rng = np.random.default_rng(1000 + seed)
        for label in (True, False):
            own = rng.permutation(np.flatnonzero(data.y[rows] == label))
            train = (1 - validation) * 2 / 3  # twice as many as test rows
            part[own[int(len(own) * train) :]] = 1
            part[own[int(len(own) * (train + validation)) :]] = 2
        self.rows = [rows[part == k] for k in range(3)]
        scaler = StandardScaler().fit(data.X[self.rows[0]])
        self.X = [scaler.transform(data.X[r]) for r in self.rows]
        self.y = [data.y[r] for r in self.rows]


def compared_models(parts: Parts, goal: Goal) -> list[tuple[str | None, Any]]:
    """Return the start and the weights of every model that a fit compares."""
    found = []
    update = Selection.update

    def seen(self: Selection, models: Sequence[TrainedModel], *given: float) -> None:
        found.extend((m.start, m.weights["weight"].double().numpy()[0].copy()) for m in models)
        update(self, models, *given)

    with mock.patch.object(Selection, "update", seen):
        parts.classifier(goal)
    return found


def measured(parts: Parts, goal: Goal, halves: Halves, weights: Any) -> list[dict[str, float]]:
    """Return, by caution, what rules may use, of validation rows, and what counts, of test rows."""
    scores, tested = parts.X[1] @ weights, parts.X[2] @ weights
    level = choose_threshold(parts.y[2], tested, goal).objective
    found = []
    for caution in CAUTIONS if goal.constraints else (0.0,):
        ranking = cautious(goal, caution, (1.0, 1.0))
        chosen = best_point(parts.y[1], scores, None, ranking, goal, "the validation rows")
        with np.errstate(all="ignore"):
            violation = -float(ranking.violation(*chosen.counts))
            gain = float(ranking.gain(*chosen.counts))
        point = evaluate_threshold(parts.y[2], tested, chosen.threshold, goal)
        found.append({
            "violation": violation,
            "gain": gain,
            "error": chosen.standard_error,
            "average": halves.average(scores, ranking),
            "objective": point.objective,
            "held": float(point.feasible),
            "level": level,
            "counted": constrained(chosen) - constrained(point),
            "constrained": constrained(point),
        })  # fmt: skip
    return found


def crossed(parts: Parts, goal: Goal, halves: Halves, weights: Any, caution: float) -> float:
    """Return the constrained metric cross-fitted over halves of the validation rows."""
    ranking = cautious(goal, caution, (1.0, 1.0))
    recall, fpr = halves.cross_fitted(parts.X[1] @ weights, ranking)
    P, N = float(parts.y[1].sum()), float((~parts.y[1]).sum())
    counts = recall * P, fpr * N, (1 - recall) * P, (1 - fpr) * N
    return constrained(OperatingPoint(0.0, *counts, goal))


def constrained(point: OperatingPoint) -> float:
    """Return the constrained metric, or the objective without one."""
    return point.value(point.goal.metrics[-1].name)


def run(name: str, seed: int, validation: float) -> list[dict[str, Any]]:
    """Return the measured models of all goals on one split."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    parts = OtherParts(name, seed, validation)
    halves = Halves(parts.y[1])
    rivals = [scores(np.eye(parts.X[0].shape[1])) for scores in weighted_regressions(parts)]
    rows = []
    for label, goal in GOALS.items():
        own = [(None, weights) for weights in rivals]
        for who, models in (("rival", own), ("fit", compared_models(parts, goal))):
            found = [
                [{"start": start, **own} for own in measured(parts, goal, halves, weights)]
                for start, weights in models
            ]
            if who == "fit" and goal.constraints:
                # Only of those that a rule chooses: it takes a while.
                for i, caution in enumerate(CAUTIONS):
                    every = [of[i] for of in found]
                    for rule in RULES.values():
                        chosen = choose(every, rule, 0.0)
                        weights = models[every.index(chosen)][1]
                        estimate = crossed(parts, goal, halves, weights, caution)
                        chosen["crossed"] = estimate - chosen["constrained"]
            row = {"data": name, "seed": seed, "validation": validation, "goal": label}
            # By caution, then by model.
            rows.append(
                {**row, "who": who, "models": [list(of) for of in zip(*found, strict=True)]}
            )
    return rows


Model = dict[str, Any]
RULES: dict[str, Callable[[Model], float]] = {
    "objective": lambda model: model["gain"],
    "average over halves": lambda model: model["average"],
    "mean of both": lambda model: (model["gain"] + model["average"]) / 2,
}


def choose(models: list[Model], rule: Callable[[Model], float], margin: float) -> Model:
    """Return the best model; a goal-trained one must exceed the best ordinary one by the margin."""

    def rank(model: Model) -> tuple[float, float]:
        return model["violation"], rule(model)

    best = max(models, key=rank)
    ordinary = max((m for m in models if m["start"] is None), key=rank)
    if best["violation"] > ordinary["violation"]:
        return best
    return best if rule(best) - rule(ordinary) > margin * ordinary["error"] else ordinary


def table(results: list[dict[str, Any]]) -> None:
    rivals = {
        (r["data"], r["seed"], r["goal"]): choose(r["models"][0], RULES["objective"], 0.0)
        for r in results
        if r["who"] == "rival"
    }
    fits = [r for r in results if r["who"] == "fit"]
    floors = [r for r in fits if r["goal"] != "OFOS"]
    print("| compared by | ahead | gain, validation threshold | gain, matched floors | floors |")
    print("|---" * 5 + "|")
    for title, rule in RULES.items():
        for ahead in AHEAD:
            pick = functools.partial(choose, rule=rule, margin=ahead)
            gains = [
                [pick(r["models"][0])[k] - rivals[r["data"], r["seed"], r["goal"]][k] for r in fits]
                for k in ("objective", "level")
            ]
            held = np.mean([pick(r["models"][0])["held"] for r in floors])
            cells = [f"{np.mean(gain):+.4f}" for gain in gains]
            print(f"| {title} | {ahead:g} | {cells[0]} | {cells[1]} | {held:.0%} |")
    own = [rivals[r["data"], r["seed"], r["goal"]]["held"] for r in floors]
    print(f"\nfloors held by the logistic regression: {np.mean(own):.0%}\n")
    caution_table(floors)


def caution_table(floors: list[dict[str, Any]]) -> None:
    """Print what caution keeps and costs, compared with the mean of both without it."""
    today = [choose(r["models"][0], RULES["mean of both"], 0.0) for r in floors]
    cells = [(r["data"], r["goal"]) for r in floors]
    met = {c: np.mean([t["held"] for t, own in zip(today, cells, strict=True) if own == c])
           for c in cells}  # fmt: skip
    binds = np.array([met[c] < 0.8 for c in cells])
    print(
        "| compared by | caution | floors | that bind | objective lost "
        "| metric less test rows, counted | cross-fitted |"
    )
    print("|---" * 7 + "|")
    for title, rule in RULES.items():
        for i, caution in enumerate(CAUTIONS):
            chosen = [choose(r["models"][i], rule, 0.0) for r in floors]
            held, objective, counted, crossed = (
                np.array([c[k] for c in chosen])
                for k in ("held", "objective", "counted", "crossed")
            )
            lost = np.mean([t["objective"] for t in today]) - objective.mean()
            print(
                f"| {title} | {caution:g} | {held.mean():.0%} | {held[binds].mean():.0%} "
                f"| {lost:.4f} | {counted.mean():+.4f} | {crossed.mean():+.4f} |"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*", default=DATA, choices=DATA, metavar="NAME")
    parser.add_argument("--splits", type=int, default=6)
    parser.add_argument("--validation", type=float, default=0.25, help="of the rows")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=Path("build/selection.jsonl"))
    given = parser.parse_args()
    jobs = [(d, s, given.validation) for s in range(given.splits) for d in given.data]

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["data"], row["seed"], row["validation"]

    results = run_missing(given.keep, jobs, run, key, given.jobs)
    print(machine(), f"; {given.splits} splits, {given.validation:.0%} validation rows\n")
    table([r for r in results if key(r) in jobs])


if __name__ == "__main__":
    main()
