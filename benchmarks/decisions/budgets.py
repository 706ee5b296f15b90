"""Budgets: at most 100 alarms a day, on the days after, with labels that arrive a week late.

The payments are those of the Fraud Detection Handbook. As there, a model is trained on a week, the
next week passes until its labels are known, and the week after that is the test week. The four
weeks of data allow eight such windows, each a day later than the one before: 56 test days, of which
14 are distinct. Their results are not independent.

``transactions``: an alarm is about a payment. ``cards``: it is about a card, whose score is the
highest one of its payments on that day; as in the handbook, cards that are known to be compromised
by then (from payments more than a week old) are not among the test rows. The data have no weeks
before the first, so no card is known in the training week: it has more alarms than the test week
at any threshold, and every threshold from it leaves a part of the budget unused.

A threshold is chosen on scores of the training week (cross-fitted, so that no model scores rows
that it was fitted on) and then used in the test week:

- ``quantile``: the score of rank 700 of that week, so that there are 100 alarms a day on average:
  common practice;
- ``quantile, less 10 %``: of rank 630;
- ``quantile of the delay week``: the same on the scores of the week before the test week. It needs
  no labels, and the rows are more recent;
- ``top 100``: the 100 highest scores of each day, as the handbook scores models. It needs all
  scores of the day before the first alarm, so it is a reference rather than a rival.

Precision and recall are means over days; *over* counts days with more than 100 alarms.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from decisions import data
from decisions.scores import (
    MODELS,
    Floats,
    Labels,
    methods_of,
    new_model,
    stored,
    table_head,
    timed,
)

BUDGET = 100
WEEK = 7
WINDOWS = 8
UNITS = ("transactions", "cards")
Days = NDArray[np.int64]


class Scored(NamedTuple):
    """Scores of payments or cards with their days; labels of the delay week are not yet known."""

    day: Days
    y: Labels
    p: Floats


class Problem(NamedTuple):
    """What a method gets: the training and the delay week, and scores of the test week."""

    train: Scored
    delay: Scored
    test: Scored

    @property
    def goal(self) -> str:
        """The goal in the goal language."""
        return f"max recall s.t. alarms <= {BUDGET} per day"


# --- the weeks ------------------------------------------------------------------------------------

table_of = cache(data.payments)


def weeks(kind: str, start: int) -> tuple[Any, list[Floats], list[Any]]:
    """Return the table, and scores and rows of the training, delay and test week of a window."""
    table = table_of()
    day = table.TX_TIME_DAYS.to_numpy() - table.TX_TIME_DAYS.min() - start
    rows = [np.flatnonzero((day >= k * WEEK) & (day < (k + 1) * WEEK)) for k in range(3)]

    def fitted() -> tuple[Floats, ...]:
        X, y = data.payment_features(table), table.TX_FRAUD.to_numpy() == 1
        model = new_model(kind, 0)
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        train = X[rows[0]], y[rows[0]]
        crossed = cross_val_predict(clone(model), *train, cv=folds, method="predict_proba")[:, 1]
        model.fit(*train)
        return crossed, *(model.predict_proba(X[r])[:, 1] for r in rows[1:])

    return table, stored(f"handbook-weeks-{kind}-{start}", fitted), rows


def problem_of(unit: str, kind: str, start: int) -> Problem:
    """Return one window, with a row per payment or per card and day."""
    table, scores, rows = weeks(kind, start)
    day, fraud, card = (
        table[c].to_numpy().astype(np.int64) for c in ("TX_TIME_DAYS", "TX_FRAUD", "CUSTOMER_ID")
    )
    day = day - day.min()
    if unit == "transactions":
        parts = [Scored(day[r], fraud[r] == 1, p) for r, p in zip(rows, scores, strict=True)]
        return Problem(*parts)
    parts = []
    for week, (r, p) in enumerate(zip(rows, scores, strict=True)):
        known = np.zeros(len(r), dtype=bool)
        if week == 2:
            # A fraud is known to be one a week later: then its card is blocked.
            known = day[r] - first_fraud(day, fraud, card, start)[card[r]] > WEEK
        parts.append(by_card(day[r][~known], card[r][~known], fraud[r][~known] == 1, p[~known]))
    return Problem(*parts)


def first_fraud(day: Days, fraud: Days, card: Days, start: int) -> Floats:
    """Return the day of each card's first fraud from the start on, or infinity."""
    first = np.full(card.max() + 1, np.inf)
    some = (fraud == 1) & (day >= start)
    np.minimum.at(first, card[some], day[some])
    return first


def by_card(day: Days, card: Days, y: Labels, p: Floats) -> Scored:
    """Return one row per day and card: the highest score, and whether any payment is a fraud."""
    key, member = np.unique(np.stack([day, card]), axis=1, return_inverse=True)
    member = member.ravel()
    highest, any_fraud = np.full(key.shape[1], -np.inf), np.zeros(key.shape[1], dtype=bool)
    np.maximum.at(highest, member, p)
    np.logical_or.at(any_fraud, member, y)
    return Scored(key[0], any_fraud, highest)


# --- peers ----------------------------------------------------------------------------------------


def quantile(rows: Scored, per_day: float) -> float:
    """Return the score above which there are so many rows a day on average."""
    rank = round(per_day * len(np.unique(rows.day)))
    return float(np.sort(rows.p)[-rank - 1])


def top(problem: Problem) -> Labels:
    """Return the highest scores of each day; of equal ones, the earlier rows."""
    alarms = np.zeros(len(problem.test.p), dtype=bool)
    for day in np.unique(problem.test.day):
        own = np.flatnonzero(problem.test.day == day)
        alarms[own[np.argsort(-problem.test.p[own], kind="stable")[:BUDGET]]] = True
    return alarms


PEERS: dict[str, Callable[[Problem], Labels]] = {
    "quantile": lambda problem: problem.test.p > quantile(problem.train, BUDGET),
    "quantile, less 10 %": lambda problem: problem.test.p > quantile(problem.train, 0.9 * BUDGET),
    "quantile of the delay week": lambda problem: problem.test.p > quantile(problem.delay, BUDGET),
    "top 100 (reference)": top,
}


# --- runs and tables ------------------------------------------------------------------------------


def jobs(splits: int) -> list[tuple[str, str, int]]:
    """Return unit, model and first day of every run."""
    windows = range(min(splits, WINDOWS))
    return [(unit, kind, start) for unit in UNITS for kind in MODELS for start in windows]


def run(name: str, kind: str, seed: int, ours: bool) -> list[dict[str, Any]]:
    """Return the counts of every method on each day of the test week."""
    problem = problem_of(name, kind, seed)
    day, y, _ = problem.test
    found = []
    for method, decide in methods_of("budgets", PEERS, ours).items():
        alarms, seconds = timed(decide, problem)
        days = [
            (int(np.sum(alarms[o])), int(np.sum(alarms[o] & y[o])), int(np.sum(y[o])))
            for o in (day == d for d in np.unique(day))
        ]
        found.append({"method": method, "seconds": seconds, "days": days})
    return found


def tables(results: list[dict[str, Any]]) -> None:
    """Print daily alarms, precision and recall, and how many days are over the budget."""
    table_head(
        "alarms about", "method", "alarms a day", "most", "days over", "precision", "recall",
        "precision at 100", "milliseconds",
    )  # fmt: skip
    for unit in UNITS:
        for kind in MODELS:
            here = [r for r in results if (r["data"], r["model"]) == (unit, kind)]
            for method in dict.fromkeys(r["method"] for r in here):
                rows = [r for r in here if r["method"] == method]
                alarms, tp, positives = np.array([d for r in rows for d in r["days"]]).T
                cells = [
                    f"{alarms.mean():.1f}", f"{alarms.max()}",
                    f"{np.sum(alarms > BUDGET)} of {len(alarms)}",
                    f"{np.mean(tp / np.maximum(alarms, 1)):.3f}", f"{np.mean(tp / positives):.3f}",
                    f"{np.mean(tp / np.maximum(alarms, BUDGET)):.3f}",
                    f"{1000 * np.mean([r['seconds'] for r in rows]):.1f}",
                ]  # fmt: skip
                print(f"| {unit}, {kind} | {method} | {' | '.join(cells)} |")
    print(
        "\nPrecision at 100 divides the frauds found by 100, or by the alarms if there are more: "
        "what is left of the budget counts as wasted.\n"
    )
