"""Model "auto" on nine tables, compared with tuned XGBoost and a stack of scikit-learn.

Every table is split into 75 % training and 25 % test rows, five times; a third of the training rows
are validation rows (``_data.py``), for methods that need some. All methods have the same features:
those of setpoint's encoders, fitted on the training rows. They use one thread; times are CPU time,
which hardly depends on what else the machine does.

auto
    ``fit_table(..., model="auto")`` on the training rows. Fits that do not depend on the goal are
    shared by the five goals of a split; the time of each goal includes them.
XGBoost
    Learning rates 0.3 and 0.05, up to 500 trees, stopped early on the validation rows by the area
    under the precision-recall curve. The better of the two, with the exact threshold for the goal
    on the validation rows. "refitted": fitted once more on all training rows with that number of
    trees, and the same threshold.
stack
    ``StackingClassifier`` of logistic regression, histogram gradient boosting and extra trees, as
    ``auto`` would fit them, with logistic regression on top, in ``TunedThresholdClassifierCV`` with
    500 thresholds and a scorer that is the objective where the constraint holds, and minus 1 minus
    the violation elsewhere. Five folds, or a single split where there are more than 50,000 rows.
    Fits are shared by goals.

The *level* is the objective on the test rows at the threshold that is best there, among those where
the constraint holds: it compares models at the same floors. *Held* is how often the constraint
holds on the test rows at the method's own threshold, and *objective* what it reaches there.
"""

from __future__ import annotations

import argparse
import hashlib
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from threadpoolctl import threadpool_limits

import _data
from _data import load, path, split
from _stored import PACKAGE, Row, digest, run_missing
from setpoint import Goal, OperatingPoint, choose_threshold, evaluate_threshold
from setpoint._internal.provenance import machine
from setpoint.estimators.classifier import SetpointClassifier
from setpoint.estimators.default_models import boosted_trees, extra_trees, logistic_model
from setpoint.estimators.search_fits import SearchFits
from setpoint.tables import fit_table
from setpoint.tables.encoder import encode, fit_encoder, make_encoder, tree_categories
from setpoint.tables.schema import Schema

TABLES = (
    "bank_marketing_full", "caravan", "sms_spam", "fraud_handbook", "campaign", "annthyroid",
    "magic_gamma", "mammography", "creditcard",
)  # fmt: skip
GOALS = (
    "max f1", "max fbeta(2)", "max recall s.t. precision >= 0.9",
    "max precision s.t. recall >= 0.9", "max recall s.t. fpr <= 1%",
)  # fmt: skip
METHODS = ("auto", "XGBoost", "XGBoost, refitted", "stack")
TARGET = "label"
_LEFT_OUT = {
    "bank_marketing_full": ["duration"],  # known only together with the outcome
    "fraud_handbook": [
        "TX_DATETIME", "TX_TIME_DAYS", "CUSTOMER_ID", "TERMINAL_ID", "TX_FRAUD_SCENARIO",
    ],
}  # fmt: skip


def read(name: str) -> pd.DataFrame:
    """Return a table with its labels in the column ``TARGET``."""
    if name == "creditcard":
        return pd.read_csv(path("creditcard.csv")).rename(columns={"Class": TARGET})
    try:
        frame = pd.read_parquet(path(f"{name}.parquet"))
    except SystemExit:
        X, y = load(name)
        return pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])]).assign(label=y * 1)
    frame = frame.rename(columns={"TX_FRAUD": TARGET})
    return frame.drop(columns=_LEFT_OUT.get(name, []))


class Rows(NamedTuple):
    """One split of one table: rows, and features for trees and for other models side by side."""

    frame: pd.DataFrame
    y: Any
    train: Any
    validation: Any
    test: Any
    X: Any
    trees: int
    categories: int
    seconds: float

    @property
    def known(self) -> Any:
        """Training and validation rows."""
        return np.sort(np.concatenate([self.train, self.validation]))

    @classmethod
    def of(cls, name: str, seed: int) -> Rows:
        """Split a table, and encode its columns."""
        frame = read(name)
        y = frame[TARGET].to_numpy() == 1
        train, validation, test = split(y, None, seed)
        known = np.sort(np.concatenate([train, validation]))
        schema = Schema.of(frame, {TARGET: "the target"})
        checked = schema.check(frame)
        schema = schema.counted(checked.iloc[known])
        started = time.process_time()
        encoders = [
            fit_encoder(make_encoder(schema, for_trees=kind), checked.iloc[known])
            for kind in (True, False)
        ]
        parts = [encode(encoder, checked) for encoder in encoders]
        seconds = time.process_time() - started
        return cls(
            frame, y, train, validation, test, np.hstack(parts), parts[0].shape[1],
            tree_categories(schema), seconds,
        )  # fmt: skip


def measured(rows: Rows, goal: Goal, scores: Any, threshold: float) -> dict[str, float]:
    """Return what scores of the test rows reach at their own threshold, and the level."""
    y = rows.y[rows.test]
    point = evaluate_threshold(y, scores, threshold, goal)
    best = choose_threshold(y, scores, goal)
    return {"objective": _objective(point), "held": bool(point.feasible), "level": _objective(best)}


def _objective(point: OperatingPoint) -> float:
    return float(point.value(point.goal.objective.name))


# --- auto -------------------------------------------------------------------------------------


@contextmanager
def shared_fits(known: dict[Any, Any], saved: list[float]) -> Iterator[None]:
    """Reuse fits that do not depend on the goal; ``saved`` are the seconds that took before."""
    own = SearchFits.fit

    def fit(self: Any, name: str, rows: Any) -> Any:
        if isinstance(self.models[name], SetpointClassifier):
            return own(self, name, rows)
        key = name, hashlib.sha256(rows.tobytes()).hexdigest()
        if key in known:
            saved.append(known[key][1])
        else:
            started = time.process_time()
            known[key] = own(self, name, rows), time.process_time() - started
        return known[key][0]

    SearchFits.fit = fit  # type: ignore[method-assign]
    try:
        yield
    finally:
        SearchFits.fit = own  # type: ignore[method-assign]


def auto(rows: Rows) -> Iterator[Row]:
    known, test = rows.frame.iloc[rows.known], rows.frame.iloc[rows.test]
    fits: dict[Any, Any] = {}
    for goal in map(Goal.parse, GOALS):
        saved: list[float] = []
        started = time.process_time()
        with shared_fits(fits, saved):
            model = fit_table(known, TARGET, goal, positive=1, model="auto", test=0).model
        seconds = time.process_time() - started + sum(saved)
        found = model.classifier.candidates_
        yield {
            "method": "auto", "goal": str(goal), "seconds": seconds, "chosen": found.winner.name,
            "candidates": {
                c.name: [c.average, c.behind, c.error, c.log_loss, c.seconds] for c in found
            },
            **measured(rows, goal, model.scores(test), 0.0),
        }  # fmt: skip


# --- XGBoost ----------------------------------------------------------------------------------


def xgboost(rows: Rows) -> Iterator[Row]:
    from xgboost import XGBClassifier

    X = rows.X[:, : rows.trees]
    kinds = ["c"] * rows.categories + ["float"] * (rows.trees - rows.categories)

    def made(**parameters: Any) -> Any:
        return XGBClassifier(
            n_jobs=1, random_state=0, feature_types=kinds, enable_categorical=True, **parameters
        )

    started = time.process_time()
    models = []
    for rate in (0.3, 0.05):
        model = made(
            n_estimators=500, learning_rate=rate, early_stopping_rounds=50, eval_metric="aucpr"
        )
        held = [(X[rows.validation], rows.y[rows.validation])]
        models.append(model.fit(X[rows.train], rows.y[rows.train], eval_set=held, verbose=False))
    best = max(models, key=lambda m: m.best_score)
    margins = best.predict(X[rows.validation], output_margin=True)
    seconds = time.process_time() - started + rows.seconds / 2  # one of two encoders
    again = made(n_estimators=best.best_iteration + 1, learning_rate=best.learning_rate)
    again.fit(X[rows.known], rows.y[rows.known])
    refitted = time.process_time() - started + rows.seconds / 2
    for goal in map(Goal.parse, GOALS):
        threshold = choose_threshold(rows.y[rows.validation], margins, goal).threshold
        for method, model, took in (
            ("XGBoost", best, seconds), ("XGBoost, refitted", again, refitted),
        ):  # fmt: skip
            scores = model.predict(X[rows.test], output_margin=True)
            yield {
                "method": method, "goal": str(goal), "seconds": took,
                **measured(rows, goal, scores, threshold),
            }  # fmt: skip


# --- a stack of scikit-learn ------------------------------------------------------------------


def stack(rows: Rows) -> Iterator[Row]:
    from sklearn.ensemble import StackingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, TunedThresholdClassifierCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    fits: dict[str, Any] = {}

    class Shared(StackingClassifier):
        """Fits on the same rows are shared by goals."""

        def fit(self, X: Any, y: Any, **params: Any) -> Any:
            key = hashlib.sha256(X[:, -1].tobytes() + X[:, 0].tobytes() + y.tobytes()).hexdigest()
            if key not in fits:
                fits[key] = vars(super().fit(X, y, **params))
            vars(self).update(fits[key])
            return self

    known = rows.known
    raw = FunctionTransformer(_taken, kw_args={"columns": slice(0, rows.trees)})
    other = FunctionTransformer(_taken, kw_args={"columns": slice(rows.trees, None)})
    members = [
        ("logistic", make_pipeline(other, logistic_model(rows.X.shape[1] - rows.trees))),
        ("trees", make_pipeline(raw, boosted_trees("hgb", 0, range(rows.categories)))),
        ("extra", make_pipeline(other, extra_trees(0, len(known)))),
    ]
    X, y = rows.X[known], rows.y[known]
    # Without shuffling, the folds of a table in order of time would be periods, which differ.
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    cv: Any = folds if len(known) <= 50_000 else 0.25
    first = 0.0
    for goal in map(Goal.parse, GOALS):
        started = time.process_time()
        tuned = TunedThresholdClassifierCV(
            Shared(members, LogisticRegression(), cv=folds), scoring=scorer(goal),
            thresholds=500, cv=cv, random_state=0,
        ).fit(X, y)  # fmt: skip
        first = max(first, time.process_time() - started + rows.seconds)
        scores = tuned.predict_proba(rows.X[rows.test])[:, 1]
        # It decides by >=, setpoint by >.
        threshold = np.nextafter(tuned.best_threshold_, -np.inf)
        yield {
            "method": "stack", "goal": str(goal), "seconds": first,
            **measured(rows, goal, scores, float(threshold)),
        }  # fmt: skip


def _taken(X: Any, columns: slice) -> Any:
    return X[:, columns]


def scorer(goal: Goal) -> Any:
    """Return the objective where the constraint holds, and -1 - violation elsewhere."""
    from sklearn.metrics import make_scorer

    def score(y: Any, predicted: Any) -> float:
        point = evaluate_threshold(y, np.asarray(predicted, dtype=float), 0.5, goal)
        return _objective(point) if point.feasible else -1 - point.violation

    return make_scorer(score)


# --- all of them ------------------------------------------------------------------------------

RUNS: dict[str, Callable[[Rows], Iterator[Row]]] = {
    "auto": auto, "xgboost": xgboost, "stack": stack,
}  # fmt: skip


def run(table: str, seed: int, which: str) -> list[Row]:
    torch.set_num_threads(1)
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        rows = Rows.of(table, seed)
        return [{"table": table, "seed": seed, "run": which, **row} for row in RUNS[which](rows)]


def report(results: list[Row]) -> None:
    frame = pd.DataFrame(results).drop(columns="candidates", errors="ignore")
    frame["constrained"] = frame.goal.str.contains("s.t.")
    print(f"\nLevel: objective at the best threshold on the test rows. {machine()}\n")
    _show(frame.pivot_table(index="table", columns="method", values="level"))
    print("CPU time in seconds")
    _show(frame.pivot_table(index="table", columns="method", values="seconds"))
    _show(frame.pivot_table(index="goal", columns="method", values="level"))
    held = frame[frame.constrained].groupby("method").held
    times = frame.groupby(["table", "seed", "method"]).seconds.mean().unstack()
    print("| method | level | objective | floors held | time / XGBoost, in all | median | most |")
    print("|---|---|---|---|---|---|---|")
    for method in [m for m in METHODS if m in set(frame.method)]:
        own = frame[frame.method == method]
        ratio = times[method] / times["XGBoost"] if "XGBoost" in times else times[method] * np.nan
        total = times[method].sum() / times["XGBoost"].sum() if "XGBoost" in times else np.nan
        print(
            f"| {method} | {own.level.mean():.4f} | {own.objective.mean():.4f} | "
            f"{held.mean()[method]:.0%} | {total:.1f} | {ratio.median():.1f} | {ratio.max():.1f} |"
        )
    level = frame.pivot_table(index=["table", "seed", "goal"], columns="method", values="level")
    for rival in [m for m in METHODS[1:] if m in level and "auto" in level]:
        difference = (level["auto"] - level[rival]).groupby("table").mean()
        error = difference.std() / np.sqrt(len(difference))
        wins = int((difference > 0).sum())
        print(
            f"\nauto - {rival}: {difference.mean():+.4f} (standard error over tables {error:.4f}); "
            f"above on {wins} of {len(difference)} tables"
        )
    if "chosen" in frame:
        print("\nchosen by auto:", frame.chosen.value_counts().to_dict())


def _show(table: pd.DataFrame) -> None:
    table = table[[m for m in METHODS if m in table]]
    print("| |", " | ".join(table.columns), "|\n|---|" + "---|" * table.shape[1])
    for name, values in table.iterrows():
        print(f"| {name} |", " | ".join(f"{v:.3f}" for v in values), "|")
    print("| mean |", " | ".join(f"{v:.4f}" for v in table.mean()), "|\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", nargs="*", default=TABLES)
    parser.add_argument("--run", nargs="*", default=tuple(RUNS), choices=tuple(RUNS))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("build/tables.jsonl"))
    given = parser.parse_args()
    # The slowest first, so that no core waits for them at the end.
    order = sorted(given.table, key=lambda name: name not in ("creditcard", "fraud_handbook"))
    jobs = [(t, s, w) for t in order for s in range(given.splits) for w in given.run]
    code = digest(*(PACKAGE / f for f in ("estimators", "tables", "thresholds", "training")),
                  Path(__file__), Path(_data.__file__))  # fmt: skip
    report(
        run_missing(
            given.out, jobs, run, lambda r: (r["table"], r["seed"], r["run"]), given.workers, code
        )
    )


if __name__ == "__main__":
    main()
