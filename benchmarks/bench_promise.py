"""How often certified floors hold on test rows, and what certification costs.

Every data set is split at random into 50 % training, 25 % calibration and 25 % test rows. A model
is fitted on the training rows. Each method then gets the fitted model and the calibration rows, and
chooses a threshold for a goal:

- ``setpoint``: ``certify`` with confidence 0.9, planned on cross-fitted scores of the training
  rows, as ``SetpointThreshold`` does by itself; issued if it is certified;
- ``setpoint, prefit``: the same without the training rows, planned on 10 % of the calibration rows;
- ``setpoint, sequence``: 30 % of the calibration rows plan a sequence of thresholds;
- ``tuned``: the exact threshold on the calibration rows; issued if the floor is met there;
- ``scikit-learn``: ``TunedThresholdClassifierCV`` over all thresholds, with a scorer that is the
  objective if the floor is met and minus the shortfall otherwise; issued if the floor is met;
- ``MAPIE``: ``BinaryClassificationController`` with the same confidence, in three settings:
  default, five sequences on a fine grid, and one sequence; issued if it finds a threshold.

The test rows *contradict* a floor if an exact binomial test rejects it at 5 %. They are a sample
too: their own value sometimes misses even a floor that holds.

Finished splits are stored in a file, from which an interrupted run continues.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binom
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from _data import load_grouped
from _stored import PACKAGE, digest, run_missing
from setpoint import certify, choose_threshold
from setpoint._internal.provenance import machine

# Precision floors, fixed before any test row was used: in cross-validation on training rows both
# models reach them with a recall of at least 0.2 (`--floors` prints it).
PRECISION = {
    "mammography": 0.8, "campaign": 0.6, "celeba": 0.5, "magic_gamma": 0.9,
    "bank_marketing_full": 0.6, "creditcard": 0.9,
}  # fmt: skip
RECALL = 0.9
CONFIDENCE = 0.9
LEVEL = 0.05  # significance level of the test that contradicts
MOST_CONTRADICTED, MOST_BELOW = 0.1, 0.2  # the targets

DATA = tuple(PRECISION)
GOALS = ("precision", "recall")  # the metric that has the floor
OURS = ("setpoint", "setpoint, prefit", "setpoint, sequence")
OTHERS = ("tuned", "scikit-learn", "MAPIE, default", "MAPIE, five starts", "MAPIE, sequence")
METHODS = OURS + OTHERS
LEARNING = 0.3  # fraction of the calibration rows that learn MAPIE's sequence, as in setpoint
MOST_THRESHOLDS = {"precision": 200, "recall": 1000}  # in MAPIE's sequences

Decisions = NDArray[np.bool_]
# The code that decides the results.
THEIRS = (PACKAGE / "thresholds" / "sweep.py", PACKAGE / "goals")
OUR_CODE = (
    *THEIRS,
    *(PACKAGE / "certificates" / f"{name}.py" for name in (
        "rates", "nested", "walk", "sequence", "simultaneous", "certify",
    )),
)  # fmt: skip


class Part(NamedTuple):
    """Rows and their labels."""

    X: NDArray[np.float64]
    y: NDArray[np.bool_]


class Floor(NamedTuple):
    """A floor on precision or recall; the other of the two is the objective."""

    metric: str
    level: float

    @classmethod
    def of(cls, data: str, metric: str) -> Floor:
        """Return the floor of a data set."""
        return cls(metric, PRECISION[data] if metric == "precision" else RECALL)

    @property
    def goal(self) -> str:
        """The goal in the goal language."""
        objective = "recall" if self.metric == "precision" else "precision"
        return f"max {objective} s.t. {self.metric} >= {self.level}"

    def values(self, tp: float, fp: float, positives: float) -> tuple[float, float]:
        """Return the metric with the floor, and the objective."""
        precision, recall = tp / (tp + fp) if tp + fp else 1.0, tp / positives
        return (precision, recall) if self.metric == "precision" else (recall, precision)


# --- models and rows ------------------------------------------------------------------------------

data_of = cache(load_grouped)


def new_model(name: str, seed: int) -> Any:
    if name == "trees":
        # A lower learning rate and smaller trees than the defaults: at the floor of creditcard,
        # cross-validation on training rows gives a recall of 0.75, and the defaults 0.08.
        return HistGradientBoostingClassifier(
            learning_rate=0.05, max_leaf_nodes=15, l2_regularization=1.0, random_state=seed
        )
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


MODELS = ("trees", "logistic")


def parts_of(name: str, seed: int) -> tuple[Part, Part, Part]:
    """Return training, calibration and test rows, drawn at random."""
    X, y, _ = data_of(name)
    order = np.random.default_rng(seed).permutation(len(y))
    ends = [len(y) // 2, len(y) * 3 // 4]
    train, calibration, test = (Part(X[rows], y[rows]) for rows in np.split(order, ends))
    return train, calibration, test


# --- methods: decisions on test rows, or None if nothing is issued --------------------------------


def certified(
    model: Any, rows: Part, floor: Floor, X: Any, seed: int, **given: Any
) -> Decisions | None:
    scores = model.decision_function(rows.X)
    found = certify(rows.y, scores, floor.goal, confidence=CONFIDENCE, **given)
    return model.decision_function(X) > found.threshold if found.certified else None


def tuned(model: Any, rows: Part, floor: Floor, X: Any, seed: int) -> Decisions | None:
    point = choose_threshold(rows.y, model.decision_function(rows.X), floor.goal)
    return model.decision_function(X) > point.threshold if point.feasible else None


def penalised(model: Any, rows: Part, floor: Floor, X: Any, seed: int) -> Decisions | None:
    def score(y: Decisions, alarms: Decisions) -> float:
        tp, alarmed = np.count_nonzero(y & alarms), np.count_nonzero(alarms)
        floored, objective = floor.values(tp, alarmed - tp, np.count_nonzero(y))
        return objective if floored >= floor.level else floored - floor.level

    clf = TunedThresholdClassifierCV(
        model, scoring=make_scorer(score), thresholds=positive_scores(model, rows), cv="prefit",
        refit=False,
    ).fit(*rows)  # fmt: skip
    return clf.predict(X) if clf.best_score_ >= 0 else None


def mapie(model: Any, rows: Part, floor: Floor, X: Any, **params: Any) -> Decisions | None:
    controller = mapie_controller(model, floor, **params).calibrate(*rows)
    return mapie_decisions(controller, X)


def mapie_default(model: Any, rows: Part, floor: Floor, X: Any, seed: int) -> Decisions | None:
    return mapie(model, rows, floor, X)


def mapie_starts(model: Any, rows: Part, floor: Floor, X: Any, seed: int) -> Decisions | None:
    """Return decisions with a grid of 1000 thresholds, in five sequences.

    Thresholds above all scores are omitted: they have no p-value, and a sequence that starts with
    one ends there.
    """
    grid = np.linspace(0, 0.999, 1000)
    grid = grid[grid <= model.predict_proba(rows.X)[:, 1].max()]
    from mapie.risk_control import FWERFixedSequenceTesting

    starts = FWERFixedSequenceTesting(n_starts=5)
    return mapie(model, rows, floor, X, list_predict_params=grid, fwer_method=starts)


def mapie_sequence(model: Any, rows: Part, floor: Floor, X: Any, seed: int) -> Decisions | None:
    """Return decisions of the method that MAPIE recommends for each of the two metrics.

    Recall is monotone, so all rows test the thresholds in ascending order. Precision is not: some
    rows learn the order of the thresholds, and the others test. Thresholds with so few alarms that
    not even a precision of 1 would pass are omitted.
    """
    most = MOST_THRESHOLDS[floor.metric]
    if floor.metric == "recall":
        grid = thinned(positive_scores(model, rows), most)
        return mapie(model, rows, floor, X, list_predict_params=grid, fwer_method="fixed_sequence")
    learns = np.random.default_rng(seed).random(len(rows.y)) < LEARNING
    learning, testing = (Part(rows.X[of], rows.y[of]) for of in (learns, ~learns))
    scores = model.predict_proba(learning.X)[:, 1]
    grid = positive_scores(model, learning)
    alarms = len(scores) - np.searchsorted(np.sort(scores), grid)
    fewest = np.log(1 - CONFIDENCE) / np.log(floor.level) * LEARNING / (1 - LEARNING)
    grid = thinned(grid[alarms >= fewest], most)
    if len(grid) == 0:
        return None
    controller = mapie_controller(
        model, floor, list_predict_params=grid, fwer_method="split_fixed_sequence"
    )
    controller.learn_fixed_sequence_order(*learning, binary=True)
    return mapie_decisions(controller.calibrate(*testing), X)


def mapie_controller(model: Any, floor: Floor, **params: Any) -> Any:
    from mapie.risk_control import BinaryClassificationController

    return BinaryClassificationController(
        model.predict_proba, floor.metric, floor.level, CONFIDENCE, **params
    )


def mapie_decisions(controller: Any, X: Any) -> Decisions | None:
    return None if controller.best_predict_param is None else controller.predict(X) == 1


def positive_scores(model: Any, rows: Part) -> NDArray[np.float64]:
    """Return the probabilities of the positives; the best threshold is at one of them."""
    return np.unique(model.predict_proba(rows.X)[rows.y, 1])


def thinned(values: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    return values[np.unique(np.linspace(0, len(values) - 1, min(most, len(values))).astype(int))]


CHOOSERS: dict[str, Callable[..., Decisions | None]] = dict(
    zip(OTHERS, (tuned, penalised, mapie_default, mapie_starts, mapie_sequence), strict=True)
)


# --- one split ------------------------------------------------------------------------------------


@threadpool_limits.wrap(limits=1)  # processes share the cores
def run(name: str, kind: str, seed: int, ours: bool) -> list[dict[str, Any]]:
    """Return counts on the test rows of one split, for every goal and our or all other methods."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    train, calibration, test = parts_of(name, seed)
    model = new_model(kind, seed).fit(*train)
    choosers = CHOOSERS
    if ours:
        scores = cross_val_predict(new_model(kind, seed), *train, cv=5, method="decision_function")
        ways = (
            {"planning_rows": (train.y, scores)},
            {},
            {"method": "sequence", "random_state": seed},
        )
        choosers = {m: partial(certified, **w) for m, w in zip(OURS, ways, strict=True)}
    results = []
    for metric in GOALS:
        floor = Floor.of(name, metric)
        found = {}
        for method, choose in choosers.items():
            alarms = choose(model, calibration, floor, test.X, seed)
            found[method] = None if alarms is None else counts(test.y, alarms)
        results.append(
            {"data": name, "model": kind, "seed": seed, "goal": floor.goal, "found": found}
        )
    return results


def counts(y: NDArray[np.bool_], alarms: Decisions) -> dict[str, int]:
    return {
        "tp": int(np.count_nonzero(y & alarms)), "fp": int(np.count_nonzero(~y & alarms)),
        "positives": int(np.count_nonzero(y)),
    }  # fmt: skip


# --- tables ---------------------------------------------------------------------------------------


class Tally(NamedTuple):
    """The results of a method over several splits."""

    splits: int
    issued: int
    contradicted: int
    below: int
    objective: float  # sum over the splits in which a threshold was issued

    @classmethod
    def of(cls, outcomes: Iterable[tuple[Floor, dict[str, int] | None]]) -> Tally:
        """Count the outcomes; None is a split in which nothing was issued."""
        splits = issued = contradicted = below = 0
        total = 0.0
        for floor, at in outcomes:
            splits += 1
            if at is not None:
                floored, objective = floor.values(**at)
                issued += 1
                contradicted += is_contradicted(floor, **at)
                below += floored < floor.level
                total += objective
        return cls(splits, issued, contradicted, below, total)

    def fraction(self, count: int) -> float:
        """Return a count as a fraction of the issued thresholds."""
        return count / self.issued if self.issued else 0.0

    def __str__(self) -> str:
        if not self.issued:
            return f"0 of {self.splits} | | | | 0.000"
        return (
            f"{self.issued} of {self.splits} | {self.fraction(self.contradicted):.1%} "
            f"| {self.fraction(self.below):.1%} | {self.objective / self.issued:.3f} "
            f"| {self.objective / self.splits:.3f}"
        )


def is_contradicted(floor: Floor, tp: int, fp: int, positives: int) -> bool:
    """Whether so few successes have a probability of at most LEVEL if the floor is just met."""
    trials = tp + fp if floor.metric == "precision" else positives
    return bool(binom.cdf(tp, trials, floor.level) <= LEVEL)


Cell = tuple[str, str, Floor]


def cells_of(results: list[dict[str, Any]]) -> dict[Cell, list[dict[str, Any]]]:
    """Return the results of the splits of each data set, model and goal."""
    cells = {}
    for name in DATA:
        for kind in MODELS:
            for floor in (Floor.of(name, metric) for metric in GOALS):
                key = (name, kind, floor.goal)
                rows = [r for r in results if (r["data"], r["model"], r["goal"]) == key]
                if rows:
                    merged: dict[int, dict[str, Any]] = {}
                    for r in rows:  # our methods and the others have results of their own
                        merged.setdefault(r["seed"], {}).update(r["found"])
                    cells[name, kind, floor] = list(merged.values())
    return cells


def tally(cell: Cell, found: list[dict[str, Any]], method: str) -> Tally:
    return Tally.of((cell[2], one[method]) for one in found)


HEAD = "issued | contradicted | below the floor | objective | objective, 0 where not issued |"


def table(cells: dict[Cell, list[dict[str, Any]]], methods: tuple[str, ...]) -> None:
    print(f"| data | model | goal | method | {HEAD}")
    print("|---" * 9 + "|")
    for cell, found in cells.items():
        name, kind, floor = cell
        for method in methods:
            print(f"| {name} | {kind} | {floor.goal} | {method} | {tally(cell, found, method)} |")
    print(
        "\ncontradicted: an exact binomial test on the test rows rejects the floor at 5 %; below "
        "the floor: their own value is below it. Both are fractions of the issued thresholds. "
        "Objectives are means on the test rows.\n"
    )


def summary(cells: dict[Cell, list[dict[str, Any]]], methods: tuple[str, ...]) -> None:
    for metric in (None, *GOALS):
        some = {c: found for c, found in cells.items() if metric in (None, c[2].metric)}
        which = "all cells" if metric is None else f"floor on {metric}"
        print(f"| {which} ({len(some)}) | {HEAD} where both are issued, minus setpoint |")
        print("|---" * 7 + "|")
        for method in methods:
            pooled = Tally.of((c[2], one[method]) for c, found in some.items() for one in found)
            print(f"| {method} | {pooled} | {difference(some, method)} |")
        print()


def difference(cells: dict[Cell, list[dict[str, Any]]], method: str) -> str:
    """Return the mean difference from setpoint's objective in splits where both are issued."""
    both = [
        cell[2].values(**one[method])[1] - cell[2].values(**one["setpoint"])[1]
        for cell, found in cells.items()
        for one in found
        if one[method] is not None and one["setpoint"] is not None
    ]
    return f"{np.mean(both):+.4f} ({len(both)})" if both else ""


def targets(cells: dict[Cell, list[dict[str, Any]]], method: str) -> None:
    """Print whether a method meets the two targets, pooled and in every cell, and the worst cells.

    Fractions are given of the issued thresholds and of all splits. Confidence refers to the latter:
    where hardly anything can be certified, the few certificates are those of lucky splits.
    """
    tallies = {cell: tally(cell, found, method) for cell, found in cells.items()}
    tallies = {cell: t for cell, t in tallies.items() if t.issued}
    for what, most in (("contradicted", MOST_CONTRADICTED), ("below", MOST_BELOW)):
        for base in ("issued", "splits") if tallies else ():
            counted = {cell: (getattr(t, what), getattr(t, base)) for cell, t in tallies.items()}
            pooled = sum(k for k, _ in counted.values()) / sum(n for _, n in counted.values())
            worst = sorted(counted, key=lambda cell: -counted[cell][0] / counted[cell][1])
            above = [cell for cell in worst if counted[cell][0] / counted[cell][1] > most]
            print(
                f"{method}, {what} in at most {most:.0%} of the {base}: pooled "
                f"{verdict(pooled <= most)} ({pooled:.1%}); every cell {verdict(not above)} "
                f"({len(above)} of {len(counted)} above); worst:"
            )
            for cell in worst[: len(above) if above and method == "setpoint" else 1]:
                name, kind, floor = cell
                print(f"  {name}, {kind}, {floor.goal}: {counted[cell][0]} of {counted[cell][1]}")


def verdict(holds: bool) -> str:
    return "met" if holds else "NOT met"


def floors(names: list[str]) -> None:
    """Print the recall that models reach at the precision floor, on training rows alone."""
    warnings.simplefilter("ignore")
    print("| data | model | precision floor | recall | precision at recall 0.9 |")
    print("|---" * 5 + "|")
    for name in names:
        train = parts_of(name, seed=0)[0]
        for kind in MODELS:
            scores = cross_val_predict(new_model(kind, 0), *train, cv=5, method="decision_function")
            by_precision, by_recall = (
                choose_threshold(train.y, scores, Floor.of(name, metric).goal) for metric in GOALS
            )
            print(
                f"| {name} | {kind} | {PRECISION[name]} | {by_precision.objective:.3f} "
                f"| {by_recall.objective:.3f} |",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*", default=DATA, choices=DATA, metavar="NAME")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=Path("build"), help="folder of the results")
    parser.add_argument("--ours", action="store_true", help="only the methods of setpoint")
    parser.add_argument("--floors", action="store_true", help="only print the attainable recall")
    given = parser.parse_args()
    if given.floors:
        floors(given.data)
        return
    # One data set after another, so that a process reads each of them once.
    splits = [(d, m, s) for d in given.data for s in range(given.splits) for m in MODELS]
    results = []
    for ours, code in ((True, OUR_CODE), (False, THEIRS)):
        file = "promise.jsonl" if ours else "promise.others.jsonl"
        if ours or not given.ours:
            results += run_missing(
                given.keep / file, [(*split, ours) for split in splits], run,
                lambda r, ours=ours: (r["data"], r["model"], r["seed"], ours), given.jobs,
                digest(*code),
            )  # fmt: skip
    print(machine(), f"; {given.splits} splits, confidence {CONFIDENCE}\n")
    cells = cells_of([r for r in results if r["seed"] < given.splits and r["data"] in given.data])
    methods = OURS if given.ours else METHODS
    table(cells, methods)
    summary(cells, methods)
    for method in methods:
        targets(cells, method)


if __name__ == "__main__":
    main()
