"""Test objective of the default, compared with logistic regression.

Every data set is split into 50 % training, 25 % validation and 25 % test rows (``_data.py``).
Logistic regression is fitted on the training rows with seven ridges; the ridge with the best
operating point on the validation rows is used, with its threshold there. The default gets the same
training and validation rows, and the same rule: ``caution=0``. Both are evaluated on the test rows
at their thresholds. XGBoost, stopped early on the validation rows, shows what a flexible model
reaches with a tuned threshold. "cautious" is the default with its caution: what that keeps and
costs, and how far the operating point that a fit reports is from that on the test rows, is printed
as well.

A stronger rival, "weighted", chooses in the same way among the plain and balanced regressions and
39 cost-weighted ones: 13 weights of a positive from 0.001 to 1,000 at three ridges. "selection off"
is the default without validation rows, which trains much longer, on the first splits only.

Finished splits are stored in a file, from which an interrupted run continues. The models to compare
with have a file of their own: they remain when the code of the solvers changes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit
from sklearn.preprocessing import StandardScaler

import _baselines
import _data
from _baselines import WEIGHTS, balanced, logistic_path
from _data import load_grouped, split
from _stored import digest, run_missing
from setpoint import (
    FPOR,
    FROP,
    OFOS,
    Goal,
    OperatingPoint,
    SetpointClassifier,
    choose_threshold,
    evaluate_threshold,
)
from setpoint._internal.provenance import machine

DATA = (
    "annthyroid", "mammography", "magic_gamma", "wilt", "campaign", "celeba", "creditcard",
    "ade_v2", "eyepacs",
)  # fmt: skip
GOALS = {
    "FPOR 0.9": FPOR(0.9), "FPOR 0.99": FPOR(0.99),
    "FROP 0.9": FROP(0.9), "FROP 0.99": FROP(0.99), "OFOS": OFOS(),
}  # fmt: skip
CS = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 1000.0)
WEIGHTED_RIDGES = (100.0, 1.0, 0.01)
RIVALS = {
    "logistic": "logistic regression",
    "logistic_balanced": "logistic regression, plain or balanced",
    "logistic_weighted": "logistic regression, plain, balanced or cost-weighted",
}
MLP = ("magic_gamma", "creditcard")


class Parts:
    """One split of one data set."""

    def __init__(self, name: str, seed: int) -> None:
        data = load_grouped(name)
        self.rows = split(data.y, data.groups, seed)
        scaler = StandardScaler().fit(data.X[self.rows[0]])
        self.X = [scaler.transform(data.X[r]) for r in self.rows]
        self.y = [data.y[r] for r in self.rows]

    def tested(self, scores: Any, goal: Goal) -> tuple[OperatingPoint, OperatingPoint]:
        """Return the operating points of a scoring function on validation and test rows."""
        chosen = choose_threshold(self.y[1], scores(self.X[1]), goal)
        found = evaluate_threshold(self.y[2], scores(self.X[2]), chosen.threshold, goal)
        return chosen, found

    def classifier(self, goal: Goal, **params: Any) -> SetpointClassifier:
        """Return the default classifier, fitted on the training and validation rows."""
        sizes = [len(self.y[0]), len(self.y[1])]
        held_out = PredefinedSplit(np.repeat([-1, 0], sizes))
        clf = SetpointClassifier(
            goal, validation=held_out, standardize=False, random_state=0, **params
        )
        return clf.fit(np.concatenate(self.X[:2]), np.concatenate(self.y[:2]))


def logistic_regressions(parts: Parts, class_weight: str | None) -> list[Any]:
    fitted = []
    for C in CS:
        regression = LogisticRegression(C=C, class_weight=class_weight, max_iter=2000, tol=1e-5)
        regression.set_params(solver="newton-cholesky")
        fitted.append(regression.fit(parts.X[0], parts.y[0]).decision_function)
    return fitted


def weighted_regressions(parts: Parts) -> list[Any]:
    """Return the scoring functions of plain, balanced and cost-weighted logistic regressions."""
    X, y = parts.X[0], parts.y[0]
    both = [(1.0, 1.0), balanced(y)]
    fitted = [*logistic_path(X, y, both, [1 / C for C in CS], tolerance=1e-4)]
    fitted += logistic_path(X, y, WEIGHTS, WEIGHTED_RIDGES, tolerance=1e-4)
    return [lambda X, theta=theta: X @ theta for theta in fitted]


def boosted_trees(parts: Parts) -> Any:
    """Return the scoring function of the learning rate that is better on validation rows."""
    from xgboost import XGBClassifier

    models = []
    for learning_rate in (0.3, 0.05):
        model = XGBClassifier(
            n_estimators=500, learning_rate=learning_rate, early_stopping_rounds=50,
            eval_metric="aucpr", n_jobs=1, random_state=0,
        )  # fmt: skip
        model.fit(parts.X[0], parts.y[0], eval_set=[(parts.X[1], parts.y[1])], verbose=False)
        models.append(model)
    best = max(models, key=lambda m: m.best_score)
    return lambda X: best.predict(X, output_margin=True)


def best(parts: Parts, scorers: list[Any], goal: Goal) -> dict[str, float]:
    """Return the test result of the scoring function that is best on validation rows."""
    scores = max(scorers, key=lambda s: parts.tested(s, goal)[0].rank)
    return result(parts, scores, goal)


def result(parts: Parts, scores: Any, goal: Goal) -> dict[str, float]:
    """Return objective and violation on test rows at the threshold of the validation rows.

    ``level`` is the objective at the threshold that is best on the test rows themselves, where
    every floor is met. It does not depend on the choice of the threshold.
    """
    point = parts.tested(scores, goal)[1]
    level = choose_threshold(parts.y[2], scores(parts.X[2]), goal)
    return {
        "objective": point.objective,
        "violation": point.violation,
        "level": level.objective,
    }


def own_result(parts: Parts, clf: SetpointClassifier, goal: Goal) -> dict[str, float]:
    """Return the same at the classifier's own threshold, and how optimistic its report is."""
    point = evaluate_threshold(parts.y[2], clf.positive_scores(parts.X[2]), 0.0, goal)
    level = choose_threshold(parts.y[2], clf.positive_scores(parts.X[2]), goal)
    found = {
        "objective": point.objective,
        "violation": point.violation,
        "level": level.objective,
        "optimism_objective": clf.operating_point_.objective - point.objective,
    }
    for constraint in goal.constraints:
        name = constraint.metric.name
        found["optimism"] = clf.operating_point_.value(name) - point.value(name)
    return found


def run(name: str, seed: int, model: str) -> list[dict[str, Any]]:
    """Return the results of all goals on one split."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    parts = Parts(name, seed)
    out = []
    if model == "xgboost":
        scores = boosted_trees(parts)
        for label, goal in GOALS.items():
            found = result(parts, scores, goal)
            out.append({"data": name, "seed": seed, "model": model, "goal": label, "on": found})
        return out
    if model == "weighted":
        regressions = weighted_regressions(parts)
        for label, goal in GOALS.items():
            row = {"data": name, "seed": seed, "model": model, "goal": label}
            out.append({**row, "logistic_weighted": best(parts, regressions, goal)})
        return out
    if model == "linear":
        plain = logistic_regressions(parts, None)
        both = plain + logistic_regressions(parts, "balanced")
    for label, goal in GOALS.items():
        row: dict[str, Any] = {"data": name, "seed": seed, "model": model, "goal": label}
        if model == "linear":
            row["logistic"] = best(parts, plain, goal)
            row["logistic_balanced"] = best(parts, both, goal)
        elif model == "off":
            off = SetpointClassifier(goal, validation=None, standardize=False, random_state=0)
            off.fit(parts.X[0], parts.y[0])
            row["training"] = {
                "start": off.history_[0].objective, "trained": off.operating_point_.objective,
                "no_worse": off.operating_point_.rank
                >= (-off.history_[0].violation, off.history_[0].objective),
            }  # fmt: skip
            out.append({**row, "off": result(parts, off.positive_scores, goal)})
            continue
        else:
            ordinary = parts.classifier(goal, model=model, solver="cross_entropy", caution=0)
            row["logistic"] = result(parts, ordinary.positive_scores, goal)
        start = time.perf_counter()
        clf = parts.classifier(goal, model=model, caution=0)
        row["seconds"] = time.perf_counter() - start
        row["on"] = own_result(parts, clf, goal)
        row["winner"] = clf.candidates_.winner.name
        if model == "linear":
            row["cautious"] = own_result(parts, parts.classifier(goal), goal)
        out.append(row)
    return out


def mean(rows: list[dict[str, Any]], who: str, what: str = "objective") -> float:
    return float(np.mean([r[who][what] for r in rows]))


def held(rows: list[dict[str, Any]], who: str) -> float:
    return float(np.mean([r[who]["violation"] == 0 for r in rows]))


def cell(rows: list[dict[str, Any]], who: str, floor: bool) -> str:
    spread = np.std([r[who]["objective"] for r in rows])
    kept = sum(r[who]["violation"] == 0 for r in rows)
    share = f" ({kept}/{len(rows)}, {mean(rows, who, 'violation'):.3f})" if floor else ""
    return f"{mean(rows, who):.3f} ± {spread:.3f}{share}"


def table(results: list[dict[str, Any]]) -> None:
    print(
        "| data | goal | logistic, weighted | setpoint | gain | at matched floors "
        "| selection off | training: start | trained | XGBoost |"
    )
    print("|---" * 10 + "|")
    gains: dict[str, dict[str, float]] = {rival: {} for rival in RIVALS}
    levels: dict[str, dict[str, float]] = {rival: {} for rival in RIVALS}
    no_worse = []
    linear = linear_rows(results)
    for name in DATA:
        for goal in GOALS:
            rows = [r for r in linear if (r["data"], r["goal"]) == (name, goal)]
            if not rows:
                continue
            title = f"{name} {goal}"
            for rival in RIVALS:
                gains[rival][title] = mean(rows, "on") - mean(rows, rival)
                levels[rival][title] = mean(rows, "on", "level") - mean(rows, rival, "level")
            here = [r for r in results if (r["data"], r["goal"]) == (name, goal)]
            off, trees = ([r for r in here if r["model"] == m] for m in ("off", "xgboost"))
            no_worse += [r["training"]["no_worse"] for r in off]
            floor = goal != "OFOS"
            cells = [cell(rows, "logistic_weighted", floor), cell(rows, "on", floor)]
            gain = gains["logistic_weighted"][title]
            cells += [f"{gain:+.3f}", f"{levels['logistic_weighted'][title]:+.3f}"]
            cells += [cell(off, "off", floor) if off else ""]
            cells += [
                f"{mean(off, 'training', w):.3f}" if off else "" for w in ("start", "trained")
            ]
            cells += [cell(trees, "on", floor) if trees else ""]
            print(f"| {name} | {goal} | {' | '.join(cells)} |")
    print(
        "\nTest objective, mean ± standard deviation over splits (splits that met the floor, "
        "mean amount by which it was missed).\n"
    )
    for rival, title in RIVALS.items():
        summary(f"compared with {title}", gains[rival])
    for rival, title in RIVALS.items():
        at = "each at the threshold that is best on the test rows"
        summary(f"compared with {title}, {at}", levels[rival])
    print(f"selection off, training not below the start: {sum(no_worse)} of {len(no_worse)} runs")
    floors = [r for r in linear if r["goal"] != "OFOS"]
    off = [r for r in results if r["model"] == "off" and r["goal"] != "OFOS"]
    for who in (*RIVALS, *(["off"] if off else []), "on", "cautious"):
        rows = off if who == "off" else floors
        missed = np.mean([r[who]["violation"] for r in rows])
        print(f"floors met, {who}: {held(rows, who):.0%}, missed by {missed:.3f} on average")
    caution_summary(floors)
    if any(r["model"] == "mlp" for r in results):
        mlp_table([r for r in results if r["model"] == "mlp"])


def caution_summary(floors: list[dict[str, Any]]) -> None:
    """Print what caution keeps and costs, and how optimistic the reported metrics are."""
    cells = sorted({(r["data"], r["goal"]) for r in floors})
    of_cell = {c: [r for r in floors if (r["data"], r["goal"]) == c] for c in cells}
    binding = [r for c in cells for r in of_cell[c] if held(of_cell[c], "on") < 0.8]
    if binding:
        shares = [f"{held(binding, who):.0%}" for who in ("on", "cautious")]
        print(f"floors met, of those that bind: {shares[0]} without and {shares[1]} with caution")
    lost = np.mean([mean(of_cell[c], "on") - mean(of_cell[c], "cautious") for c in cells])
    print(f"objective that caution costs, in cells with constraints: {lost:.4f}")
    for who in ("on", "cautious"):
        over = [np.mean([mean(of_cell[c], who, k) for c in cells]) for k in _OPTIMISM]
        print(
            f"operating point less test rows, {who}: constrained metric {over[0]:+.4f}, "
            f"objective {over[1]:+.4f}"
        )


_OPTIMISM = ("optimism", "optimism_objective")


def linear_rows(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of linear models, each with its cost-weighted rival."""
    weighted = {
        (r["data"], r["seed"], r["goal"]): r["logistic_weighted"]
        for r in results
        if r["model"] == "weighted"
    }
    return [
        {**r, "logistic_weighted": weighted[r["data"], r["seed"], r["goal"]]}
        for r in results
        if r["model"] == "linear"
    ]


def summary(title: str, by_cell: dict[str, float]) -> None:
    gains = np.array(list(by_cell.values()))
    lost = [f"{name} {gain:+.3f}" for name, gain in by_cell.items() if gain < -0.03]
    named = f" ({', '.join(lost)})" if lost else ""
    print(
        f"{title}: mean gain {gains.mean():+.4f} over {len(gains)} cells; >= -0.01 in "
        f"{(gains >= -0.01).sum()}, < -0.03 in {len(lost)}{named}, "
        f">= 0.02 in {(gains >= 0.02).sum()}; from {gains.min():+.3f} to {gains.max():+.3f}"
    )


def mlp_table(results: list[dict[str, Any]]) -> None:
    print("\n| data | goal | MLP, ordinary | MLP, selection on | gain |\n|---|---|---|---|---|")
    for name in MLP:
        for goal in GOALS:
            rows = [r for r in results if (r["data"], r["goal"]) == (name, goal)]
            if rows:
                cells = [cell(rows, who, goal != "OFOS") for who in ("logistic", "on")]
                gain = mean(rows, "on") - mean(rows, "logistic")
                print(f"| {name} | {goal} | {' | '.join(cells)} | {gain:+.3f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*", default=DATA, choices=DATA, metavar="NAME")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--off-splits", type=int, default=1, help="with selection off")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=Path("build/heldout.jsonl"))
    parser.add_argument("--no-mlp", action="store_true")
    parser.add_argument("--no-xgboost", action="store_true")
    given = parser.parse_args()
    jobs = [(d, s, "linear") for s in range(given.splits) for d in given.data]
    jobs += [(d, s, "off") for s in range(given.off_splits) for d in given.data]
    if not given.no_mlp:
        jobs += [(d, s, "mlp") for s in range(given.splits) for d in given.data if d in MLP]

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["data"], row["seed"], row["model"]

    results = run_missing(given.keep, jobs, run, key, given.jobs)
    # These do not depend on setpoint's training, and remain when its code changes.
    rivals = ["weighted"] if given.no_xgboost else ["weighted", "xgboost"]
    jobs = [(d, s, m) for m in rivals for s in range(given.splits) for d in given.data]
    own_code = digest(*(Path(f) for f in (_baselines.__file__, _data.__file__, __file__)))
    file = given.keep.with_suffix(".baselines.jsonl")
    results += run_missing(file, jobs, run, key, given.jobs, own_code)
    print(machine(), f"; {given.splits} splits\n")
    table([r for r in results if r["seed"] < given.splits and r["data"] in given.data])


if __name__ == "__main__":
    main()
