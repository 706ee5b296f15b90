"""Money: the threshold with the least cost where each row has its own costs.

Every method gets the probabilities of the same fitted model on the validation rows, their labels
and costs, and decides on the test rows:

- ``0.5``: no tuning;
- ``scikit-learn``: ``TunedThresholdClassifierCV`` with the cost as scorer, the costs of the rows by
  metadata routing, as in its example of cost-sensitive learning, over its 100 default thresholds;
  ``scikit-learn, 1,000`` over the probabilities of up to 1,000 positives;
- ``empulse``: ``CSThresholdClassifier``, one threshold from the mean costs, with its default
  calibrator (a sigmoid of the probabilities) or isotonic regression, which is better here; and one
  threshold per row, from the costs of that row;
- ``Bayes minimum risk``: alarm where p (fn - tp) > (1 - p) (fp - tn), row by row, with the
  probabilities as they are or calibrated by isotonic regression on the validation rows.

Savings are 1 - cost / (cost of the better one of alarms everywhere and nowhere).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn import config_context
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import make_scorer
from sklearn.model_selection import TunedThresholdClassifierCV

from decisions import data
from decisions.data import Costs, Floats, Labels
from decisions.scores import MODELS, Scores, column, methods_of, split_of, table_head, timed

KINDS = ("tp", "fp", "fn", "tn")


class Problem(NamedTuple):
    """What a method gets: validation rows with labels, test rows without."""

    y: Labels
    p: Floats
    costs: Costs
    amounts: dict[str, Floats]
    goal: str
    test_p: Floats
    test_costs: Costs
    test_amounts: dict[str, Floats]


# --- peers ----------------------------------------------------------------------------------------


def half(problem: Problem) -> Labels:
    return problem.test_p > 0.5


def tuned(problem: Problem, thresholds: Any = 100) -> Labels:
    """Return decisions at the threshold of scikit-learn."""

    def cost(y: Any, alarms: Any, tp: Any, fp: Any, fn: Any, tn: Any) -> float:
        return Costs(tp, fp, fn, tn).mean(y == 1, alarms == 1)

    with config_context(enable_metadata_routing=True):
        scorer = make_scorer(cost, greater_is_better=False)
        scorer = scorer.set_score_request(**dict.fromkeys(KINDS, True))
        clf = TunedThresholdClassifierCV(
            Scores(), scoring=scorer, thresholds=thresholds, cv="prefit", refit=False
        )
        clf.fit(column(problem.p), problem.y.astype(int), **problem.costs._asdict())
        return clf.predict(column(problem.test_p)) == 1


def tuned_finely(problem: Problem) -> Labels:
    positives = np.unique(problem.p[problem.y])
    some = np.unique(np.linspace(0, len(positives) - 1, min(len(positives), 1000)).astype(int))
    # The last one is above every score, so that no alarm is possible too.
    return tuned(problem, np.append(positives[some], 1.1))


def empulse(problem: Problem, calibrator: str, per_row: bool = False) -> Labels:
    from empulse.models import CSThresholdClassifier

    clf = CSThresholdClassifier(Scores(), calibrator=calibrator, random_state=0)
    costs, test = (
        {f"{kind}_cost": getattr(c, kind) for kind in KINDS}
        for c in (problem.costs, problem.test_costs)
    )
    for given in (costs, test):
        # It refuses rows whose decision does not depend on p, e.g. an amount of 0: a cent instead.
        given["fn_cost"] = given["fn_cost"] + np.where(
            given["fp_cost"] + given["fn_cost"] == given["tp_cost"] + given["tn_cost"], 0.01, 0.0
        )
    clf.fit(column(problem.p), problem.y.astype(int), **costs)
    return clf.predict(column(problem.test_p), **(test if per_row else {})) == 1


def minimum_risk(p: Floats, costs: Costs) -> Labels:
    return p * (costs.fn - costs.tp) > (1 - p) * (costs.fp - costs.tn)


def risk_raw(problem: Problem) -> Labels:
    return minimum_risk(problem.test_p, problem.test_costs)


def risk_isotonic(problem: Problem) -> Labels:
    isotonic = IsotonicRegression(out_of_bounds="clip").fit(problem.p, problem.y.astype(float))
    return minimum_risk(isotonic.predict(problem.test_p), problem.test_costs)


PEERS: dict[str, Callable[[Problem], Labels]] = {
    "0.5": half,
    "scikit-learn": tuned,
    "scikit-learn, 1,000": tuned_finely,
    "empulse": partial(empulse, calibrator="sigmoid"),
    "empulse, isotonic": partial(empulse, calibrator="isotonic"),
    "empulse, isotonic, per row": partial(empulse, calibrator="isotonic", per_row=True),
    "Bayes minimum risk": risk_raw,
    "Bayes minimum risk, isotonic": risk_isotonic,
}


# --- runs and tables ------------------------------------------------------------------------------


def jobs(splits: int) -> list[tuple[str, str, int]]:
    """Return data set, model and seed of every run."""
    return [(name, kind, seed) for name in data.MONEY for kind in MODELS for seed in range(splits)]


def run(name: str, kind: str, seed: int, ours: bool) -> list[dict[str, Any]]:
    """Return the costs of every method on the test rows of a split."""
    X, y, costs, goal, amounts, groups = data.priced(name)
    tune, test = split_of(name, kind, seed, lambda: (X, y, groups))
    problem = Problem(
        tune.y, tune.p, costs.of(tune.rows), {k: a[tune.rows] for k, a in amounts.items()}, goal,
        test.p, costs.of(test.rows), {k: a[test.rows] for k, a in amounts.items()},
    )  # fmt: skip
    if not ours:
        empulse(problem, "sigmoid")  # imports and compiles, which is not measured
    found = []
    for method, decide in methods_of("money", PEERS, ours).items():
        alarms, seconds = timed(decide, problem)
        found.append(
            {
                "method": method, "seconds": seconds,
                "cost": problem.test_costs.mean(test.y, alarms),
                "reference": problem.test_costs.reference(test.y), "alarms": float(alarms.mean()),
            }
        )  # fmt: skip
    return found


def savings(rows: Sequence[dict[str, Any]]) -> list[float]:
    return [1 - r["cost"] / r["reference"] for r in rows]


def tables(results: list[dict[str, Any]]) -> None:
    """Print costs and savings of every method, and savings in the mean over the sets."""
    methods = list(dict.fromkeys(r["method"] for r in results))
    for kind in MODELS:
        table_head("data", "method", "cost per row", "savings", "alarms", "milliseconds")
        means: dict[str, list[float]] = {}
        for name in data.MONEY:
            for method in methods:
                key = (name, kind, method)
                rows = [r for r in results if (r["data"], r["model"], r["method"]) == key]
                if not rows:
                    continue
                saved = savings(rows)
                means.setdefault(method, []).append(float(np.mean(saved)))
                cost, alarms, seconds = (
                    np.mean([r[k] for r in rows]) for k in ("cost", "alarms", "seconds")
                )
                print(
                    f"| {name}, {kind} | {method} | {cost:,.4f} | {np.mean(saved):.3f} ± "
                    f"{np.std(saved):.3f} | {alarms:.2%} | {1000 * seconds:.1f} |"
                )
        print()
        table_head(f"{kind}, mean over the sets", "savings")
        for method, saved in means.items():
            print(f"| {method} | {np.mean(saved):.4f} |")
        print()
