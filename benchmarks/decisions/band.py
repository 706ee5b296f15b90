"""A review band: alarm above one threshold, clear below another, review what is between.

The goal is the least review rate with floors on the precision of alarms and on the negative
predictive value (NPV) of cleared rows. Floors were chosen in cross-validation on training rows,
where both models reach them with alarms for more than 40 % of the positives. A precision of 0.95 is
out of reach there: on mammography and creditcard 4 to 40 alarms have it, on campaign none or 14.
Those of mammography were changed from 0.8 and 0.995 after a look at results of the first two
splits, test rows included: hardly any method could issue a band. At 0.7 and 0.99 nothing was left
to review.

Every method gets the probabilities of the same model on the validation rows and their labels.

- ``grid``: the pair of thresholds on a grid that meets the floors on the validation rows with the
  fewest reviews: what the example of MAPIE calls the naive approach;
- ``MAPIE``: ``BinaryClassificationController`` with abstention, precision and NPV as risks and the
  abstention rate as the choice among valid pairs, as in its example "risk control with abstention",
  with confidence 0.9: pairs of 20 probabilities in equal steps, less those outside the range of
  the scores, which would leave it without a result;
- ``MAPIE, logit grid``: pairs of 25 probabilities in equal steps of the logit, which suits rare
  classes better;
- ``MAPIE, learned order``: 30 % of the rows learn the order in which pairs of their own quantiles
  are tested (``split_fixed_sequence``);
- ``MAPIE, side by side``: one controller for each floor with confidence 0.95, each with the method
  that MAPIE recommends for it. The floors separate, so this is its strongest use here. Thresholds
  of the NPV are taken from the rows that test them, so its confidence is approximate.

A band is *issued* if the method finds one; if not, every row is reviewed. The test rows
*contradict* a floor if an exact binomial test rejects it at 5 %.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit
from scipy.stats import binom

from _data import load_grouped
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

FLOORS = {"mammography": (0.7, 0.995), "campaign": (0.65, 0.99), "creditcard": (0.8, 0.9998)}
CONFIDENCE = 0.9
LEVEL = 0.05  # significance level of the test that contradicts
LEARNING = 0.3  # fraction of the rows that learn an order
STEPS = 25  # thresholds of each side in learned pairs
MOST_THRESHOLDS = 200  # in a sequence of one side

data_of = cache(load_grouped)
Edges = tuple[float, float]  # clear up to the first probability, alarm from the second


class Problem(NamedTuple):
    """What a method gets: validation rows, and the two floors."""

    y: Labels
    p: Floats
    precision: float
    npv: float
    seed: int

    @property
    def goal(self) -> str:
        """The goal in the goal language."""
        floors = f"precision(alarm) >= {self.precision}, npv(clear) >= {self.npv}"
        return f"min review_rate s.t. {floors}"


def logit_steps() -> Floats:
    return np.asarray(expit(np.linspace(-9, 6, STEPS)))


def pairs(low: Floats, high: Floats) -> Floats:
    return np.array([(a, b) for a in low for b in high if a < b])


# --- peers ----------------------------------------------------------------------------------------


def grid(problem: Problem) -> Edges | None:
    """Return the best pair on the logit grid, by the values on the validation rows alone."""
    best, fewest = None, np.inf
    for low, high in pairs(logit_steps(), logit_steps()):
        alarms, clear = problem.p >= high, problem.p <= low
        if (
            alarms.any()
            and clear.any()
            and problem.y[alarms].mean() >= problem.precision
            and 1 - problem.y[clear].mean() >= problem.npv
            and (reviews := len(problem.y) - alarms.sum() - clear.sum()) < fewest
        ):
            best, fewest = (float(low), float(high)), reviews
    return best


def abstaining(X: Any, low: float, high: float) -> Floats:
    """Return 0 for cleared rows, 1 for alarms and NaN for reviews, as MAPIE expects."""
    p = np.asarray(X)[:, 0]
    return np.where(p >= high, 1.0, np.where(p <= low, 0.0, np.nan))


def mapie(problem: Problem, thresholds: Floats) -> Edges | None:
    # A pair without alarms or without cleared rows has no p-value, and then no pair is valid.
    some = (thresholds >= problem.p.min()) & (thresholds <= problem.p.max())
    both = controller(problem, pairs(thresholds[some], thresholds[some]))
    return both.calibrate(column(problem.p), problem.y.astype(int)).best_predict_param


def controller(problem: Problem, params: Floats, **given: Any) -> Any:
    from mapie.risk_control import BinaryClassificationController

    return BinaryClassificationController(
        abstaining, ["precision", "negative_predictive_value"], [problem.precision, problem.npv],
        CONFIDENCE, "abstention_rate", params, **given,
    )  # fmt: skip


def learning_rows(problem: Problem) -> Labels:
    return np.random.default_rng(problem.seed).random(len(problem.y)) < LEARNING


def mapie_learned(problem: Problem) -> Edges | None:
    learns = learning_rows(problem)
    p, y = problem.p[learns], problem.y[learns].astype(int)
    low = np.quantile(p, 1 - np.geomspace(0.7, 1 / len(p), STEPS))
    high = np.quantile(p[y == 1], np.linspace(0, 0.95, STEPS))
    both = controller(
        problem, pairs(np.unique(low), np.unique(high)), fwer_method="split_fixed_sequence"
    )
    betas = np.logspace(-25, 0, 200)
    both.learn_fixed_sequence_order(column(p), y, beta_grid=betas, binary=True)
    rest = column(problem.p[~learns]), problem.y[~learns].astype(int)
    return both.calibrate(*rest).best_predict_param


def mapie_sides(problem: Problem) -> Edges | None:
    """Return the edges of two controllers, each with half of the error probability.

    For precision, which is not monotone, some rows learn the order of the thresholds. For NPV all
    rows test thresholds from the lowest on, which are quantiles of the probabilities of the
    positives; thresholds with so few rows that not even an NPV of 1 would pass are omitted.
    """
    from mapie.risk_control import BinaryClassificationController, negative_predictive_value

    confidence = (1 + CONFIDENCE) / 2
    model, learns = Scores(), learning_rows(problem)
    y = problem.y.astype(int)
    positives = np.unique(problem.p[learns & problem.y])
    alarms = np.array([np.sum(problem.p[learns] >= t) for t in positives])
    fewest = np.log(1 - confidence) / np.log(problem.precision) * LEARNING / (1 - LEARNING)
    candidates = thinned(positives[alarms >= fewest])
    if len(candidates) == 0:
        return None
    precise = BinaryClassificationController(
        model.predict_proba, "precision", problem.precision, confidence,
        list_predict_params=candidates, fwer_method="split_fixed_sequence",
    )  # fmt: skip
    precise.learn_fixed_sequence_order(column(problem.p[learns]), y[learns], binary=True)
    precise.calibrate(column(problem.p[~learns]), y[~learns])
    positives = np.unique(problem.p[problem.y])
    cleared = np.array([np.sum(problem.p < t) for t in positives])
    enough = cleared >= np.log(1 - confidence) / np.log(problem.npv)
    clears = BinaryClassificationController(
        model.predict_proba, negative_predictive_value, problem.npv, confidence,
        best_predict_param_choice="predicted_positive_fraction",
        list_predict_params=thinned(positives[enough]), fwer_method="fixed_sequence",
    ).calibrate(column(problem.p), y)  # fmt: skip
    low, high = clears.best_predict_param, precise.best_predict_param
    if low is None or high is None:
        return None
    return min(float(np.nextafter(low, 0)), high), high  # it clears p < low


def thinned(values: Floats) -> Floats:
    n = len(values)
    return values[np.unique(np.linspace(0, n - 1, min(MOST_THRESHOLDS, n)).astype(int))]


PEERS: dict[str, Callable[[Problem], Edges | None]] = {
    "grid": grid,
    "MAPIE": partial(mapie, thresholds=np.linspace(0, 0.95, 20)),
    "MAPIE, logit grid": partial(mapie, thresholds=logit_steps()),
    "MAPIE, learned order": mapie_learned,
    "MAPIE, side by side": mapie_sides,
}


# --- runs and tables ------------------------------------------------------------------------------


def jobs(splits: int) -> list[tuple[str, str, int]]:
    """Return data set, model and seed of every run."""
    return [(name, kind, seed) for name in FLOORS for kind in MODELS for seed in range(splits)]


def run(name: str, kind: str, seed: int, ours: bool) -> list[dict[str, Any]]:
    """Return the counts of every method's band on the test rows of a split."""
    tune, test = split_of(name, kind, seed, lambda: data_of(name))
    problem = Problem(tune.y, tune.p, *FLOORS[name], seed)
    if not ours:
        import mapie.risk_control  # noqa: F401  # which is not measured
    found = []
    for method, choose in methods_of("band", PEERS, ours).items():
        edges, seconds = timed(choose, problem)
        low, high = (-np.inf, np.inf) if edges is None else edges
        alarms, clear = test.p >= high, test.p <= low
        found.append(
            {
                "method": method, "seconds": seconds, "issued": edges is not None,
                "alarms": int(alarms.sum()), "tp": int(test.y[alarms].sum()),
                "cleared": int(clear.sum()), "tn": int((~test.y[clear]).sum()),
                "rows": len(test.y), "positives": int(test.y.sum()),
            }
        )  # fmt: skip
    return found


def floors_of(row: dict[str, Any]) -> list[tuple[int, int, float]]:
    """Return successes, trials and floor of both sides."""
    precision, npv = FLOORS[row["data"]]
    return [(row["tp"], row["alarms"], precision), (row["tn"], row["cleared"], npv)]


def tables(results: list[dict[str, Any]]) -> None:
    """Print the reviews, and how often both floors held on the test rows."""
    table_head(
        "data, floors", "method", "issued", "both floors met", "contradicted",
        "reviewed, if issued", "reviewed", "recall of the alarms", "milliseconds",
    )  # fmt: skip
    for name, floors in FLOORS.items():
        for kind in MODELS:
            here = [r for r in results if (r["data"], r["model"]) == (name, kind)]
            for method in dict.fromkeys(r["method"] for r in here):
                rows = [r for r in here if r["method"] == method]
                issued = [r for r in rows if r["issued"]]
                met = sum(all(k >= f * n for k, n, f in floors_of(r)) for r in issued)
                contradicted = sum(
                    any(binom.cdf(k, n, f) <= LEVEL for k, n, f in floors_of(r)) for r in issued
                )
                reviews = [1 - (r["alarms"] + r["cleared"]) / r["rows"] for r in rows]
                of_issued = [x for x, r in zip(reviews, rows, strict=True) if r["issued"]]
                when_issued = f"{np.mean(of_issued):.3%}" if of_issued else ""
                recall = np.mean([r["tp"] / r["positives"] for r in rows])
                print(
                    f"| {name}, {kind}, {floors[0]} and {floors[1]} | {method} "
                    f"| {len(issued)} of {len(rows)} | {met} | {contradicted} "
                    f"| {when_issued} | {np.mean(reviews):.3%} "
                    f"| {recall:.3f} | {1000 * np.mean([r['seconds'] for r in rows]):.1f} |"
                )
    print()
