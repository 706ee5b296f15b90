"""Training for money: models whose loss has the price of each row, compared on the test rows.

All models are linear and get the same standardised training rows, validation rows and costs. Of
each kind, the regularisation with the least cost on the validation rows is used, with the exact
threshold that is best there.

- ``logistic``: logistic regression;
- ``logistic, weighted``: each row has the weight of its own mistake, fn - tp or fp - tn;
- ``empulse, CSLogit``: ``CSLogitClassifier``, which minimises the expected cost of the rows; at its
  own threshold 0.5 (``predict``) and at the tuned one;
- ``logistic, per row``: the logistic regression, calibrated by isotonic regression, with a decision
  by the costs of each row (Bayes minimum risk). It is not one threshold: it uses the costs when it
  decides, and shows what that is worth.

The tables also give the cost at the threshold that is best on the test rows themselves: how good
the model is, apart from the choice of the threshold.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from _data import split
from decisions import data
from decisions.data import Costs, Floats, Labels
from decisions.money import minimum_risk
from decisions.scores import methods_of, table_head, timed

CS = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 1000.0)  # as in bench_heldout.py
MODEL = "linear"


class Rows(NamedTuple):
    """Standardised rows with labels, costs and amounts."""

    X: Floats
    y: Labels
    costs: Costs
    amounts: dict[str, Floats]


class Problem(NamedTuple):
    """What a method gets."""

    train: Rows
    tune: Rows
    test: Rows
    goal: str
    seed: int


class Found(NamedTuple):
    """Decisions on the test rows, and scores if they come from one threshold."""

    alarms: Labels
    scores: Floats | None


def best_cut(y: Labels, scores: Floats, costs: Costs) -> tuple[float, float]:
    """Return the threshold with the least mean cost (alarms are above it), and that cost."""
    order = np.argsort(-scores, kind="stable")
    change = np.where(y, costs.tp - costs.fn, costs.fp - costs.tn)[order]
    totals = np.concatenate([[0.0], np.cumsum(change)])
    s = scores[order]
    ends = np.concatenate([[True], s[1:] != s[:-1], [True]])  # ties are never separated
    k = int(np.argmin(np.where(ends, totals, np.inf)))
    none = float(np.where(y, costs.fn, costs.tn).mean())
    if k == 0:
        threshold = np.inf
    elif k == len(s):
        threshold = -np.inf
    else:
        threshold = (s[k - 1] + s[k]) / 2
    return float(threshold), none + float(totals[k]) / len(y)


def best_of(problem: Problem, scorers: list[Callable[[Floats], Floats]]) -> Found:
    """Return the decisions of the scoring function that is best on the validation rows."""
    tune = problem.tune
    cuts = [best_cut(tune.y, score(tune.X), tune.costs) for score in scorers]
    best = int(np.argmin([cost for _, cost in cuts]))
    scores = scorers[best](problem.test.X)
    return Found(scores > cuts[best][0], scores)


# --- peers ----------------------------------------------------------------------------------------


def regressions(problem: Problem, weighted: bool) -> list[Any]:
    X, y, costs, _ = problem.train
    weights = None
    if weighted:
        weights = np.abs(np.where(y, costs.fn - costs.tp, costs.fp - costs.tn))
        weights = weights / weights.mean()
    return [
        LogisticRegression(C=C, solver="newton-cholesky", max_iter=1000, tol=1e-5).fit(
            X, y, sample_weight=weights
        )
        for C in CS
    ]


def logistic(problem: Problem) -> Found:
    return best_of(problem, [m.decision_function for m in regressions(problem, weighted=False)])


def logistic_weighted(problem: Problem) -> Found:
    return best_of(problem, [m.decision_function for m in regressions(problem, weighted=True)])


def logistic_per_row(problem: Problem) -> Found:
    tune, test = problem.tune, problem.test
    found = []
    for model in regressions(problem, weighted=False):
        isotonic = IsotonicRegression(out_of_bounds="clip")
        isotonic.fit(model.decision_function(tune.X), tune.y.astype(float))
        alarms = [
            minimum_risk(isotonic.predict(model.decision_function(rows.X)), rows.costs)
            for rows in (tune, test)
        ]
        found.append((tune.costs.mean(tune.y, alarms[0]), alarms[1]))
    return Found(min(found, key=lambda pair: pair[0])[1], None)


def cost_sensitive(problem: Problem) -> list[Any]:
    from empulse.models import CSLogitClassifier

    X, y, costs, _ = problem.train
    # The penalty is added to the mean cost, so costs are given in units of the mean.
    unit = costs.reference(y)
    given = {f"{kind}_cost": cost / unit for kind, cost in costs._asdict().items()}
    return [CSLogitClassifier(C=C, l1_ratio=0.0).fit(X, y.astype(int), **given) for C in CS]


def empulse(problem: Problem) -> Found:
    tune, test = problem.tune, problem.test
    models = cost_sensitive(problem)
    best = min(models, key=lambda m: tune.costs.mean(tune.y, m.predict(tune.X) == 1))
    return Found(best.predict(test.X) == 1, best.predict_proba(test.X)[:, 1])


def empulse_tuned(problem: Problem) -> Found:
    def scorer(model: Any) -> Callable[[Floats], Floats]:
        return lambda X: X @ model.coef_

    return best_of(problem, [scorer(model) for model in cost_sensitive(problem)])


PEERS: dict[str, Callable[[Problem], Found]] = {
    "logistic": logistic,
    "logistic, weighted": logistic_weighted,
    "empulse, CSLogit": empulse,
    "empulse, CSLogit, tuned": empulse_tuned,
    "logistic, per row": logistic_per_row,
}


# --- runs and tables ------------------------------------------------------------------------------


def jobs(splits: int) -> list[tuple[str, str, int]]:
    """Return data set, model and seed of every run."""
    return [(name, MODEL, seed) for name in data.MONEY for seed in range(splits)]


def run(name: str, kind: str, seed: int, ours: bool) -> list[dict[str, Any]]:
    """Return the costs of every method on the test rows of a split."""
    X, y, costs, goal, amounts, groups = data.priced(name)
    parts = split(y, groups, seed)
    scaler = StandardScaler().fit(X[parts[0]])
    problem = Problem(
        *(
            Rows(scaler.transform(X[r]), y[r], costs.of(r), {k: a[r] for k, a in amounts.items()})
            for r in parts
        ),
        goal,
        seed,
    )
    test = problem.test
    if not ours:
        import empulse.models  # noqa: F401  # which is not measured
    found = []
    for method, fit in methods_of("training", PEERS, ours).items():
        (alarms, scores), seconds = timed(fit, problem)
        at_best = None if scores is None else best_cut(test.y, scores, test.costs)[1]
        found.append(
            {
                "method": method, "seconds": seconds, "cost": test.costs.mean(test.y, alarms),
                "reference": test.costs.reference(test.y), "at best": at_best,
            }
        )  # fmt: skip
    return found


def tables(results: list[dict[str, Any]]) -> None:
    """Print costs by data set, relative to logistic regression, and their mean over the sets."""
    table_head(
        "data", "method", "cost per row", "savings", "cost relative to logistic",
        "splits cheaper than logistic", "savings at the best threshold", "seconds",
    )  # fmt: skip
    ratios: dict[str, list[float]] = {}
    saved: dict[str, list[float]] = {}
    for name in data.MONEY:
        here = [r for r in results if r["data"] == name]
        plain = {r["seed"]: r["cost"] for r in here if r["method"] == "logistic"}
        for method in dict.fromkeys(r["method"] for r in here):
            rows = [r for r in here if r["method"] == method]
            savings = [1 - r["cost"] / r["reference"] for r in rows]
            at_best = [1 - r["at best"] / r["reference"] for r in rows if r["at best"] is not None]
            saved.setdefault(method, []).append(float(np.mean(savings)))
            cells = [f"{np.mean([r['cost'] for r in rows]):,.4f}"]
            cells += [f"{np.mean(savings):.4f} ± {np.std(savings):.4f}"]
            if plain:
                relative = [r["cost"] / plain[r["seed"]] for r in rows]
                ratios.setdefault(method, []).append(float(np.mean(relative)))
                cheaper = sum(r["cost"] < plain[r["seed"]] for r in rows)
                cells += [f"{np.mean(relative):.4f}", f"{cheaper} of {len(rows)}"]
            else:
                cells += ["", ""]
            cells += [f"{np.mean(at_best):.4f}" if at_best else ""]
            cells += [f"{np.mean([r['seconds'] for r in rows]):.1f}"]
            print(f"| {name} | {method} | {' | '.join(cells)} |")
    print()
    table_head("mean over the sets", "savings", "cost relative to logistic")
    for method, values in saved.items():
        ratio = f"{np.mean(ratios[method]):.4f}" if method in ratios else ""
        print(f"| {method} | {np.mean(values):.4f} | {ratio} |")
    print()
