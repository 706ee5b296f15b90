"""Rules that choose a model among the candidates of a fit, compared on test rows.

Rows that the held-out benchmark tests on are left out (``_data.py``): rules may be chosen here. The
other rows of each data set are split into 50 % training, 25 % validation and 25 % test rows. All
rules choose among the same models, those that a fit with validation rows compares, and the exact
threshold on the validation rows is theirs. They are compared with the best plain, balanced or
cost-weighted logistic regression on validation rows, as in ``bench_heldout.py``.
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
from setpoint import Goal, choose_threshold
from setpoint._internal.provenance import machine
from setpoint.thresholds.halves import Halves
from setpoint.training.candidates import Selection, TrainedModel

DATA = bench_heldout.DATA[:7]  # without groups, and quick
MARGINS = (0.0, 0.5)


class OtherParts(Parts):
    """One split of the rows that are not set apart for tests."""

    def __init__(self, name: str, seed: int) -> None:
        data = load_grouped(name)
        rows = np.flatnonzero(~set_apart(data.y, data.groups))
        part = np.zeros(len(rows), int)
        rng = np.random.default_rng(1000 + seed)
        for label in (True, False):
            own = rng.permutation(np.flatnonzero(data.y[rows] == label))
            part[own[len(own) // 2 :]] = 1
            part[own[len(own) * 3 // 4 :]] = 2
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


def measured(parts: Parts, goal: Goal, halves: Halves, weights: Any) -> dict[str, float]:
    """Return what rules may use, of the validation rows, and what counts, of the test rows."""
    chosen, tested = parts.tested(lambda X: X @ weights, goal)
    violation, gain, *_ = chosen.sort_key
    return {
        "violation": violation,
        "gain": gain,
        "error": chosen.standard_error,
        "average": halves.average(parts.X[1] @ weights, goal),
        "objective": tested.objective,
        "held": float(tested.feasible),
        "level": choose_threshold(parts.y[2], parts.X[2] @ weights, goal).objective,
    }


def run(name: str, seed: int) -> list[dict[str, Any]]:
    """Return the measured models of all goals on one split."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    parts = OtherParts(name, seed)
    halves = Halves(parts.y[1])
    rivals = [scores(np.eye(parts.X[0].shape[1])) for scores in weighted_regressions(parts)]
    rows = []
    for label, goal in GOALS.items():
        own = [(None, weights) for weights in rivals]
        for who, models in (("rival", own), ("fit", compared_models(parts, goal))):
            found = [{"start": s, **measured(parts, goal, halves, w)} for s, w in models]
            rows.append({"data": name, "seed": seed, "goal": label, "who": who, "models": found})
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
        (r["data"], r["seed"], r["goal"]): choose(r["models"], RULES["objective"], 0.0)
        for r in results
        if r["who"] == "rival"
    }
    fits = [r for r in results if r["who"] == "fit"]
    constrained = [r for r in fits if r["goal"] != "OFOS"]
    print("| compared by | margin | gain, validation threshold | gain, matched floors | floors |")
    print("|---" * 5 + "|")
    for title, rule in RULES.items():
        for margin in MARGINS:
            pick = functools.partial(choose, rule=rule, margin=margin)
            gains = [
                [pick(r["models"])[k] - rivals[r["data"], r["seed"], r["goal"]][k] for r in fits]
                for k in ("objective", "level")
            ]
            held = np.mean([pick(r["models"])["held"] for r in constrained])
            cells = [f"{np.mean(gain):+.4f}" for gain in gains]
            print(f"| {title} | {margin:g} | {cells[0]} | {cells[1]} | {held:.0%} |")
    own = [rivals[r["data"], r["seed"], r["goal"]]["held"] for r in constrained]
    print(f"\nfloors held by the logistic regression: {np.mean(own):.0%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*", default=DATA, choices=DATA, metavar="NAME")
    parser.add_argument("--splits", type=int, default=6)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=Path("build/selection.jsonl"))
    given = parser.parse_args()
    jobs = [(d, s) for s in range(given.splits) for d in given.data]
    results = run_missing(given.keep, jobs, run, lambda r: (r["data"], r["seed"]), given.jobs)
    print(machine(), f"; {given.splits} splits\n")
    table(results)


if __name__ == "__main__":
    main()
