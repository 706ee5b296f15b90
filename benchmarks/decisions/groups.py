"""Groups: the highest recall with a precision of at least 0.5 in every group.

The table is bank marketing without the duration of the call; groups are the marital status, the age
band or the job of the client. Every method gets the probabilities of the same model on the
validation rows, their labels and groups.

- ``one threshold``: scikit-learn's ``TunedThresholdClassifierCV`` with the recall as scorer where
  the precision of all rows together is at least 0.5, and minus the shortfall elsewhere;
- ``one per group``: the same on the rows of each group by itself, which is common practice;
- ``Fairlearn``: ``ThresholdOptimizer``. It cannot express a floor on precision: its constraints
  make a rate equal in all groups, and its objective is accuracy or balanced accuracy. Of four
  constraints (equal true positive rates, false positive rates, both, or selection rates), each with
  accuracy where a positive counts as 1, 1.5, 2, 2.5 or 3 negatives (by repeating rows) and with
  balanced accuracy, the one with the highest recall is used among those that meet all floors on the
  validation rows; if none does, the one with the least shortfall. Its decisions are randomised.
- ``Fairlearn, default``: equal true positive rates, accuracy.

A split *holds* if every group with alarms has the precision on the test rows. The test rows
*contradict* it if an exact binomial test rejects the floor of some group at 5 % divided by the
number of groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom
from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV

from decisions import data
from decisions.scores import (
    MODELS,
    Floats,
    Labels,
    Scores,
    column,
    methods_of,
    split_of,
    table_head,
    timed,
)

COLUMNS = ("marital", "age", "job")
FLOOR = 0.5
LEVEL = 0.05
REPEATS = ((1, 1), (3, 2), (2, 1), (5, 2), (3, 1))  # of positives and negatives
CONSTRAINTS = (
    "true_positive_rate_parity",
    "false_positive_rate_parity",
    "selection_rate_parity",
    "equalized_odds",
)
Groups = NDArray[np.str_]


class Problem(NamedTuple):
    """What a method gets: validation rows with labels, test rows without."""

    y: Labels
    p: Floats
    groups: Groups
    column: str
    test_p: Floats
    test_groups: Groups
    seed: int

    @property
    def goal(self) -> str:
        """The goal in the goal language."""
        return f"max recall s.t. precision >= {FLOOR} for each {self.column}"


# --- peers ----------------------------------------------------------------------------------------


def tuned_threshold(y: Labels, p: Floats) -> float:
    """Return scikit-learn's threshold, from which on rows are alarms."""

    def score(y: Any, alarms: Any) -> float:
        alarmed = np.count_nonzero(alarms)
        tp = np.count_nonzero(y & alarms)
        precision = tp / alarmed if alarmed else 1.0
        return tp / np.count_nonzero(y) if precision >= FLOOR else precision - FLOOR

    thresholds = np.append(np.unique(p[y]), 1.1)  # 1.1: no alarm
    clf = TunedThresholdClassifierCV(
        Scores(), scoring=make_scorer(score), thresholds=thresholds, cv="prefit", refit=False
    ).fit(column(p), y.astype(int))
    return float(clf.best_threshold_)


def one_threshold(problem: Problem) -> Labels:
    return problem.test_p >= tuned_threshold(problem.y, problem.p)


def one_per_group(problem: Problem) -> Labels:
    alarms = np.zeros(len(problem.test_p), dtype=bool)
    for group in np.unique(problem.groups):
        own, test = problem.groups == group, problem.test_groups == group
        alarms[test] = problem.test_p[test] >= tuned_threshold(problem.y[own], problem.p[own])
    return alarms


def fairlearn(problem: Problem, constraint: str, objective: str, repeats: Any = (1, 1)) -> Any:
    """Return a fitted optimiser of Fairlearn."""
    from fairlearn.postprocessing import ThresholdOptimizer

    rows = np.repeat(np.arange(len(problem.y)), np.where(problem.y, *repeats))
    return ThresholdOptimizer(
        estimator=Scores(), constraints=constraint, objective=objective, prefit=True,
        predict_method="predict_proba",
    ).fit(
        column(problem.p[rows]), problem.y[rows].astype(int),
        sensitive_features=problem.groups[rows],
    )  # fmt: skip


def fairlearn_decisions(optimiser: Any, p: Floats, groups: Groups, seed: int) -> Labels:
    return optimiser.predict(column(p), sensitive_features=groups, random_state=seed) == 1


def fairlearn_default(problem: Problem) -> Labels:
    optimiser = fairlearn(problem, CONSTRAINTS[0], "accuracy_score")
    return fairlearn_decisions(optimiser, problem.test_p, problem.test_groups, problem.seed)


def settings() -> Iterator[tuple[str, str, tuple[int, int]]]:
    for constraint in CONSTRAINTS:
        yield constraint, "balanced_accuracy_score", (1, 1)
        for repeats in REPEATS:
            yield constraint, "accuracy_score", repeats


def fairlearn_best(problem: Problem) -> Labels:
    best, rank = None, (-np.inf, -np.inf)
    for setting in settings():
        optimiser = fairlearn(problem, *setting)
        alarms = fairlearn_decisions(optimiser, problem.p, problem.groups, problem.seed)
        precisions = [tp / n for tp, n in counts(problem.y, alarms, problem.groups).values() if n]
        shortfall = sum(max(0.0, FLOOR - precision) for precision in precisions)
        found = (-shortfall, float(alarms[problem.y].mean()))
        if found > rank:
            best, rank = optimiser, found
    return fairlearn_decisions(best, problem.test_p, problem.test_groups, problem.seed)


PEERS: dict[str, Callable[[Problem], Labels]] = {
    "one threshold": one_threshold,
    "one per group": one_per_group,
    "Fairlearn, default": fairlearn_default,
    "Fairlearn": fairlearn_best,
}


# --- runs and tables ------------------------------------------------------------------------------


def counts(y: Labels, alarms: Labels, groups: Groups) -> dict[str, tuple[int, int]]:
    """Return true positives and alarms of each group."""
    return {
        str(g): (int(np.sum(y & alarms & (groups == g))), int(np.sum(alarms & (groups == g))))
        for g in np.unique(groups)
    }


def jobs(splits: int) -> list[tuple[str, str, int]]:
    """Return the column of the groups, model and seed of every run."""
    return [(name, kind, seed) for name in COLUMNS for kind in MODELS for seed in range(splits)]


def run(name: str, kind: str, seed: int, ours: bool) -> list[dict[str, Any]]:
    """Return the counts of every method in each group of the test rows."""
    X, y, columns = data.bank_marketing()
    tune, test = split_of("bank_marketing_full", kind, seed, lambda: (X, y, None))
    tune_groups, groups = columns[name][tune.rows], columns[name][test.rows]
    problem = Problem(tune.y, tune.p, tune_groups, name, test.p, groups, seed)
    if not ours:
        fairlearn_default(problem)  # imports, which are not measured
    found = []
    for method, decide in methods_of("groups", PEERS, ours).items():
        alarms, seconds = timed(decide, problem)
        found.append(
            {
                "method": method, "seconds": seconds, "recall": float(alarms[test.y].mean()),
                "groups": counts(test.y, alarms, groups),
            }
        )  # fmt: skip
    return found


def tables(results: list[dict[str, Any]]) -> None:
    """Print recall, and how often the floor held in all groups of the test rows."""
    table_head(
        "groups", "method", "recall", "all groups hold", "groups that hold", "contradicted",
        "least precision, mean", "worst", "milliseconds",
    )  # fmt: skip
    for name in COLUMNS:
        for kind in MODELS:
            here = [r for r in results if (r["data"], r["model"]) == (name, kind)]
            for method in dict.fromkeys(r["method"] for r in here):
                print(f"| {name}, {kind} | {method} | {_cells(here, method)} |")
    print()


def _cells(here: list[dict[str, Any]], method: str) -> str:
    rows = [r for r in here if r["method"] == method]
    pairs = [[(tp, n) for tp, n in r["groups"].values() if n] for r in rows]
    least = [min((tp / n for tp, n in groups), default=1.0) for groups in pairs]
    held = [tp >= FLOOR * n for groups in pairs for tp, n in groups]
    contradicted = sum(
        any(binom.cdf(tp, n, FLOOR) <= LEVEL / len(groups) for tp, n in groups) for groups in pairs
    )
    cells = [
        f"{np.mean([r['recall'] for r in rows]):.3f}",
        f"{sum(x >= FLOOR for x in least)} of {len(rows)}",
        f"{np.mean(held):.0%}" if held else "",
        f"{contradicted}",
        f"{np.mean(least):.3f}",
        f"{np.min(least):.3f}",
        f"{1000 * np.mean([r['seconds'] for r in rows]):.1f}",
    ]
    return " | ".join(cells)
