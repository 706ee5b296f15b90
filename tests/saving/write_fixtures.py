"""Write small saved models, which every later version must load and score the same.

Run it once for each released file format, in an environment with that release installed, and
commit what it wrote:

    python tests/saving/write_fixtures.py tests/saving/fixtures/0.1.0

Never run it to repair a failing test. ``test_saved_before.py`` stands for the models that users
have; if it fails, these no longer load or have other scores, and the code must be repaired. That is
why an existing folder raises an error.

Every model has a folder of its own with

- ``model/`` or ``model.zip``: the model as it was saved;
- ``rows.npz`` (``X``, and ``columns`` where they have names) or ``rows.csv``: rows to score;
- ``expected.json``: the attributes of the model, and its scores of the rows.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # here and in the commands, before numpy is loaded

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

import setpoint
from setpoint import SetpointClassifier, SetpointThreshold, define_metric

Json = dict[str, Any]

GOAL = "max recall s.t. precision >= 0.7"
TABLE_GOAL = "max recall s.t. precision >= 0.6"
ZIPPED = ("classifier_certified", "table_trees")  # one file each; the others are folders
# Rows with a score nearer to the threshold are left out: another processor's might be beyond it.
CLEARANCE = 1e-3

# --- not in a model file: needed for loading ------------------------------------------------------


class OwnNetwork(nn.Module):
    """A custom module, with a buffer and an integer among its weights."""

    def __init__(self, n_features: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(n_features, 6)
        self.norm = nn.BatchNorm1d(6)
        self.out = nn.Linear(6, 1, bias=False)
        self.register_buffer("gain", torch.tensor([2.0, 0.5, 1.0, 1.0, 1.0, 1.0]))

    def forward(self, rows: Tensor) -> Tensor:
        return self.out(torch.tanh(self.norm(self.hidden(rows))) * self.gain)


MODULES: dict[str, Callable[[int], nn.Module]] = {"classifier_own_module": OwnNetwork}


def define_own_metric() -> None:
    """Define a custom metric."""
    define_metric(
        "worth_of_saved_models",
        lambda tp, fp, P, N: (5 * tp - fp) / (5 * P),
        bounds=(-1e9, 1.0),
    )


# --- classifiers ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A classifier, the rows it is fitted on, and the expected certificate."""

    model: Any
    rows: int = 200
    dtype: str = "f8"
    labels: tuple[Any, Any] = (False, True)
    learnable: bool = True
    standard: bool = False  # features of one scale
    missing: bool = False
    named: bool = False
    weights: bool = False
    groups: bool = False
    certified: bool | None = None
    prevalence: float | None = None  # of the certificate

    def fit(self) -> Any:
        """Return the fitted classifier."""
        X, positive = make_rows(self.rows, seed=0, standard=self.standard)
        if self.missing:
            X[::9, 0] = np.nan
        rng = np.random.default_rng(2)
        if not self.learnable:
            rng.shuffle(positive)
        given: dict[str, Any] = {}
        if self.weights:
            given["sample_weight"] = rng.exponential(size=len(X))
        if self.groups:
            given["groups"] = np.arange(len(X)) // 2
        y = np.array(self.labels)[positive.astype(int)]
        clf = self.model.fit(self._as_given(X), y, **given)
        if self.certified is not None:
            assert clf.certificate_.certified is self.certified
        if self.prevalence is not None:
            clf.certificate_ = clf.certificate_.at_prevalence(self.prevalence)
        if not self.learnable:
            assert not clf.operating_point_.feasible
        return clf

    def later(self) -> Any:
        """Return rows to score, the last of them unlike all training rows."""
        strange = np.array(
            [
                [0.0, 0.0, 0.0, 0.0],
                [50.0, -900.0, -2.0, 7.0],
                [-50.0, 900.0, -2.0, 7.0],
                [1e-30, 5.0, -2.0, 7.0],
                [1.0, 5.0, -2.0, 1e3],
                [-1.0, 5.0, 30.0, -1e3],
            ]
        )
        X = np.concatenate([make_rows(24, seed=1, standard=self.standard)[0], strange])
        if self.missing:
            X[::5, 0] = X[1::7, 1] = X[-1] = np.nan
        return self._as_given(X)

    def _as_given(self, X: NDArray[np.float64]) -> Any:
        if self.named:
            return pd.DataFrame(X, columns=["amount", "Größe (m)", "c", "constant"])
        return X.astype(self.dtype)


def make_rows(n: int, seed: int, standard: bool) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return rows of four features, the last of them constant, and which rows are positive."""
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < 0.3
    X = rng.standard_normal((n, 4))
    X[:, 0] += 2.0 * positive
    X[:, 1] -= 1.0 * positive
    if not standard:
        X = X * [1.0, 100.0, 1e-3, 0.0] + [0.0, 5.0, -2.0, 7.0]
    return X, positive


def estimators() -> dict[str, Case]:
    """Return the classifiers, by the names of their fixtures."""
    trained = partial(SetpointClassifier, random_state=0)
    ordinary = partial(trained, solver="cross_entropy")
    above = partial(SetpointThreshold, random_state=0)
    logistic = make_pipeline(StandardScaler(), LogisticRegression())
    steps = SimpleImputer(add_indicator=True), StandardScaler(), LogisticRegression()
    boosting = HistGradientBoostingClassifier(max_iter=6, max_leaf_nodes=6, random_state=0)
    forest = RandomForestClassifier(6, max_depth=3, random_state=0)
    fitted = clone(logistic).fit(*make_rows(200, seed=4, standard=False))
    split = StratifiedShuffleSplit(1, test_size=0.3, random_state=0)  # which is not saved
    strict = "max f1 s.t. precision >= 0.95 and recall >= 0.9"
    worth = "max worth_of_saved_models"
    return {
        "classifier_linear": Case(trained(GOAL)),
        "classifier_float32": Case(trained("max f1"), dtype="f4"),
        "classifier_weights": Case(
            trained("max fbeta(2) s.t. fpr <= 0.2", refit=True), weights=True
        ),
        "classifier_mlp": Case(ordinary(GOAL, model="mlp"), dtype="f4"),
        "classifier_own_module": Case(trained(GOAL, model=OwnNetwork)),
        "classifier_certified": Case(trained(GOAL, confidence=0.9), 800, certified=True),
        "classifier_uncertified": Case(ordinary(GOAL, confidence=0.95), certified=False),
        "classifier_groups": Case(
            ordinary("max precision s.t. recall >= 0.5", confidence=0.8), 800, groups=True
        ),
        "classifier_at_prevalence": Case(ordinary(GOAL, confidence=0.9), 800, prevalence=0.05),
        "classifier_text_labels": Case(
            ordinary(GOAL, pos_label="betrügerisch"), named=True, labels=("ok", "betrügerisch")
        ),
        "classifier_goal_not_met": Case(
            trained(strict, solver="lifted", validation=None), learnable=False, labels=(-1, 1)
        ),
        "classifier_not_standardized": Case(
            trained(
                "min fpr s.t. recall >= 0.8", solver="paper", standardize=False, validation=split
            ),
            standard=True,
            labels=(0, 1),
        ),
        "classifier_own_metric": Case(
            ordinary(f"{worth} s.t. precision >= 0.5", confidence=0.9), 400
        ),
        "threshold_logistic": Case(above(logistic, GOAL), named=True),
        "threshold_weights": Case(
            above(LogisticRegression(), "max f1"), weights=True, standard=True
        ),
        "threshold_boosting": Case(above(boosting, GOAL, cv=3), 300, missing=True),
        "threshold_forest": Case(above(forest, "max f1", cv=0.3, refit=False)),
        "threshold_pipeline": Case(
            above(make_pipeline(*steps), GOAL, response_method="predict_proba", pos_label="bad"),
            missing=True,
            labels=("good", "bad"),
        ),
        "threshold_calibrated": Case(
            above(CalibratedClassifierCV(logistic, method="isotonic", cv=2), "max f1", cv=split)
        ),
        "threshold_of_a_fitted_one": Case(above(fitted, "min fnr s.t. fpr <= 0.2", cv="prefit")),
        "threshold_of_a_classifier": Case(above(ordinary("max f1"), GOAL, cv=2)),
        "threshold_certified": Case(above(logistic, GOAL, confidence=0.9), 800, certified=True),
        "threshold_uncertified": Case(
            above(logistic, strict, confidence=0.95), learnable=False, certified=False
        ),
        "threshold_at_prevalence": Case(above(logistic, GOAL, confidence=0.9), 800, prevalence=0.4),
        "threshold_own_metric": Case(above(logistic, worth)),
    }


def fit_and_score_estimator(name: str, case: Case, folder: Path) -> None:
    """Fit a classifier, save it, and write its scores of other rows before it was saved."""
    clf, rows = case.fit(), case.later()
    threshold = getattr(clf, "threshold_", 0.0)  # scores of a SetpointClassifier are relative to it
    rows = rows[np.abs(clf.positive_scores(rows) - threshold) > CLEARANCE]
    scores = clf.positive_scores(rows)
    clf.save(folder / model_name(name))
    columns = {"columns": np.array(rows.columns, dtype=str)} if case.named else {}
    np.savez_compressed(folder / "rows.npz", X=np.asarray(rows), **columns)
    write_expected(folder, described(clf), scores, clf.predict(rows), threshold, str(scores.dtype))


# --- models of tables, made by the command line ---------------------------------------------------


WORDS = (
    "transfer invoice refund birthday urgent account holiday deposit password rent lottery gift "
    "insurance monthly prize tickets verify savings coffee books train parcel winner salary"
)


def payments(n: int, seed: int) -> pd.DataFrame:
    """Return payments with columns of every kind, some in unusual formats."""
    rng = np.random.default_rng(seed)
    fraud = rng.random(n) < 0.3
    day = pd.Timestamp("2024-01-01", tz="UTC") + pd.to_timedelta(rng.permutation(n) * 31, unit="h")
    amount = np.round(np.exp(rng.normal(3 + 1.8 * fraud, 0.8)), 2)
    frame = pd.DataFrame(
        {
            "number": np.arange(n),
            "amount": amount,
            "items": rng.poisson(2, n) + fraud,
            "night": rng.random(n) < np.where(fraud, 0.7, 0.2),
            "country": rng.choice(["DE", "FR", "NL", "Åland"], n, p=[0.5, 0.2, 0.2, 0.1]),
            "when": day,
            "born": pd.Series(day - pd.Timedelta(days=9000)).dt.strftime("%d.%m.%Y"),
            "balance": [f"{x:.2f}".replace(".", ",") + " €" for x in rng.lognormal(6, 1, n)],
            "code": [f"{'x' if bad else 'k'}{rng.integers(60):03d}" for bad in fraud],
            "customer": rng.integers(0, max(2, n // 2), n),
            "note": [" ".join(rng.choice(WORDS.split(), 6)) for _ in range(n)],
            "class": np.where(fraud, "fraud", "ok"),
        }
    )
    frame.loc[::8, "amount"] = np.nan
    frame.loc[3::9, "country"] = None
    frame.loc[5::11, "when"] = pd.NaT
    frame.loc[2::15, "balance"] = "unknown"
    frame.loc[4::30, "note"] = None
    return frame


def later_payments() -> pd.DataFrame:
    """Return rows to score, the last of them unlike all training rows."""
    frame = payments(30, seed=9)
    last = frame.index[-6:]
    frame.loc[last[0], ["country", "code"]] = ["Chile", "never seen"]
    frame.loc[last[1], ["amount", "items"]] = [1e9, 100]
    frame.loc[last[2], ["amount", "items"]] = [-3.5, 0]
    frame.loc[last[3], "when"] = pd.Timestamp("2031-12-31 23:59:59", tz="UTC")
    frame.loc[last[4], ["note", "country"]] = ['ΑΒΓ 😀 never; seen, "either"', "DE "]
    frame.loc[last[5], ["amount", "country", "when", "born", "balance", "code", "note"]] = None
    return frame


# The columns that a model gets, how many rows, and the options of `setpoint fit`.
TABLES: dict[str, tuple[list[str], int, list[str]]] = {
    "table_linear": (["amount", "items", "night", "country"], 400, ["--seed", "2"]),
    "table_mlp": (["amount", "night", "country", "when"], 240, ["--model", "mlp"]),
    "table_trees": (
        ["amount", "items", "night", "country", "when", "code"], 120, ["--model", "hgb"],
    ),
    "table_forest": (["amount", "night", "country"], 48, ["--model", "forest", "--test", "0"]),
    "table_logistic_certified": (
        ["amount", "items", "night", "country"], 900,
        ["--model", "logistic", "--confidence", "0.9", "--strict"],
    ),
    "table_writings": (["when", "born", "balance", "code", "amount"], 240, []),
    "table_text": (["note", "amount", "night"], 240, []),
    "table_groups_and_time": (
        ["amount", "night", "customer", "number"], 500,
        ["--model", "logistic", "--confidence", "0.8", "--group", "customer", "--time", "number"],
    ),
    "table_streamed": (
        ["amount", "items", "night", "country", "when"], 400, ["--stream"],
    ),
}  # fmt: skip


def fit_and_score_table(name: str, folder: Path) -> None:
    """Fit a model by the command, and write the scores that the command gives later rows."""
    columns, n, options = TABLES[name]
    model, rows = folder / model_name(name), folder / "rows.csv"
    train = payments(n, seed=0)[[*columns, "class"]]
    not_wanted = {option for option in options if option in columns}  # the group and the time
    later = later_payments()[[c for c in columns if c not in not_wanted]]
    with tempfile.TemporaryDirectory() as temporary:
        table = Path(temporary, "train.csv")
        if "--stream" in options:
            table = Path(temporary, "train")
            table.mkdir()
            for i, start in enumerate(range(0, n, 150)):
                part = train.iloc[start : start + 150]
                part.to_parquet(table / f"{i}.parquet", index=False, row_group_size=60)
        else:
            train.to_csv(table, index=False)
        if "note" in columns:
            fit_text(table, model)
        else:
            command(
                "fit", table, "--target", "class", "--positive", "fraud", "--goal", TABLE_GOAL,
                *options, "--out", model,
            )  # fmt: skip
        scores = Path(temporary, "scores.parquet")
        later.to_csv(rows, index=False)
        clear = score_table(model, rows, scores)["score"].abs() > CLEARANCE
        later[clear].to_csv(rows, index=False)
        found = score_table(model, rows, scores)
    expected = described(setpoint.load(model))
    # Scores of any precision come from features of 32 bits.
    write_expected(folder, expected, found["score"], found["predicted"], 0.0, "float32")


def fit_text(table: Path, model: Path) -> None:
    """Fit a model of texts with few features; with the command's default, its file is large."""
    from setpoint.model_files import save

    moved = importlib.util.find_spec("setpoint.tables") is not None  # since 0.1.0
    tables = importlib.import_module("setpoint.tables" if moved else "setpoint.tabular")
    frame = pd.read_csv(table)
    fitted = tables.fit_table(frame, "class", TABLE_GOAL, positive="fraud", text_features=4)
    save(fitted.model, model)


def score_table(model: Path, rows: Path, out: Path) -> pd.DataFrame:
    """Return the result of `setpoint predict` for a table, with all digits."""
    command("predict", model, rows, "--out", out)
    return pd.read_parquet(out)


def command(*arguments: object) -> None:
    """Run the command line, or raise an error with its message."""
    full = [sys.executable, "-m", "setpoint", *map(str, arguments), "--quiet"]
    done = subprocess.run(full, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(full)} ended with {done.returncode}:\n{done.stderr}")


# --- expected values ------------------------------------------------------------------------------


def described(model: Any) -> Json:
    """Return the attributes of a model as plain values, which are compared one by one."""
    if hasattr(model, "schema"):
        return {
            "kind": type(model).__name__,
            "target": model.target,
            "labels": [model.negative, model.positive],
            "facts": dict(model.facts),
            "columns": [[column.name, column.kind] for column in model.schema.columns],
            "classifier": described(model.classifier),
        }
    found: Json = {
        "kind": type(model).__name__,
        "goal": str(model.goal_),
        "classes": model.classes_.tolist(),
        "positive": np.asarray(model.pos_label_).item(),
        "operating_point": described_point(model.operating_point_),
        "certificate": described_certificate(model.certificate_),
    }
    if hasattr(model, "history_"):
        found["threshold"] = float(model.logit_threshold_)
        found["history"] = len(model.history_)
        found["candidates"] = [[c.name, described_point(c.point)] for c in model.candidates_]
        found["winner"] = model.candidates_.winner.name
    else:
        found["threshold"] = float(model.threshold_)
        found["thresholds"] = [float(threshold) for threshold in model.thresholds_]
    if hasattr(getattr(model, "estimator_", None), "operating_point_"):
        found["estimator"] = described(model.estimator_)
    return found


def described_point(point: Any) -> Json:
    """Return an operating point in plain values."""
    counts = {name: float(getattr(point, name)) for name in ("threshold", "tp", "fp", "fn", "tn")}
    return {"goal": str(point.goal), **counts, "on": point.on}


def described_certificate(certificate: Any) -> Json | None:
    """Return the numbers of a certificate, without its message."""
    if certificate is None:
        return None
    found: Json = {
        "goal": str(certificate.goal),
        "operating_point": described_point(certificate.operating_point),
        "bounds": [
            {
                "metric": bound.metric.name,
                **{
                    name: getattr(bound, name)
                    for name in ("level", "value", "bound", "kind", "successes", "trials")
                },
            }
            for bound in certificate.bounds
        ],
    }
    names = ("threshold", "confidence", "certified", "choice", "tested", "one_per_group")
    found |= {name: getattr(certificate, name) for name in names}
    found["prevalence"] = getattr(certificate, "prevalence", None)
    return found


def write_expected(
    folder: Path, expected: Json, scores: Any, predictions: Any, threshold: float, precision: str
) -> None:
    """Write expected.json."""
    scores = np.asarray(scores)
    assert np.abs(scores - threshold).min() > CLEARANCE
    alarms = int((scores > threshold).sum())
    if not 3 <= alarms <= len(scores) - 3:
        raise RuntimeError(f"{folder.name}: {alarms} of {len(scores)} rows are alarms.")
    content = {
        **expected,
        "precision": precision,
        "scores": [float(score).hex() for score in scores],
        "predictions": np.asarray(predictions).tolist(),
    }
    text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


def model_name(fixture: str) -> str:
    """Return the name of a fixture's model in its folder."""
    return "model.zip" if fixture in ZIPPED else "model"


def main() -> None:
    """Write all fixtures."""
    parser = argparse.ArgumentParser(description="Write small saved models; see the module.")
    parser.add_argument("folder", type=Path, help="a new folder, e.g. tests/saving/fixtures/0.1.0")
    folder = parser.parse_args().folder
    if folder.exists():
        parser.error(f"{folder} already exists; the files of a release are not written again.")
    torch.set_num_threads(1)
    define_own_metric()
    print(f"setpoint {setpoint.__version__} from {Path(setpoint.__file__).parent}")
    warnings.simplefilter("ignore")  # some goals are meant to be missed
    cases = estimators()
    for name in (*cases, *TABLES):
        own = folder / name
        own.mkdir(parents=True)
        if name in TABLES:
            fit_and_score_table(name, own)
        else:
            fit_and_score_estimator(name, cases[name], own)
        size = sum(file.stat().st_size for file in own.rglob("*") if file.is_file())
        print(f"{size:9,} bytes  {name}", flush=True)


if __name__ == "__main__":
    main()
