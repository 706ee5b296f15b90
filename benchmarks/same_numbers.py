"""Show that a change of the code moved no number.

    python benchmarks/same_numbers.py run BEFORE.json
    (change the code)
    python benchmarks/same_numbers.py run AFTER.json
    python benchmarks/same_numbers.py compare BEFORE.json AFTER.json

``run`` fits small models in about a hundred ways and writes down all numbers that come out:
operating points, candidates, certificates, scores, histories, reports, answers of commands.
``compare`` wants each of them again, bit for bit, and exits with 1 if one differs or is missing.
Texts are not compared. Both runs need the same machine and the same libraries.
``--only PATTERN`` takes the combinations whose names match a regular expression.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from functools import cache
from functools import partial as case
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

import setpoint
from setpoint import SetpointClassifier, SetpointThreshold

# Keys that have another name in the later run, e.g. of a command's answer: old name, new name.
RENAMED: dict[str, str] = {"rivals": "baselines"}  # in the data of a report
# Modules in which names are looked up, those of today before those of the past.
HOMES = """setpoint setpoint.training setpoint.training.ordinary setpoint.data setpoint.thresholds
    setpoint.method setpoint.paper.competitors setpoint.paper.competitors.losses
    setpoint.solvers setpoint.losses setpoint.streams setpoint.exact"""


def find(name: str) -> Any:
    """Return a class or function, wherever it lives in this version of the code."""
    for home in HOMES.split():
        try:
            found = getattr(importlib.import_module(home), name)
        except (ModuleNotFoundError, AttributeError):
            continue
        if not isinstance(found, ModuleType):
            return found
    raise LookupError(f"{name} is in none of HOMES; add the module that has it")


def make(what: Any) -> Any:
    """Return the object that ``("Class.method", {parameters})`` stands for; all else as it is."""
    if not is_recipe(what):
        return what
    name, _, method = what[0].partition(".")
    made = getattr(find(name), method) if method else find(name)
    return made(**{key: make(value) for key, value in what[1].items()})


def is_recipe(what: Any) -> bool:
    return isinstance(what, tuple) and isinstance(what[-1], dict)


# --- data ---------------------------------------------------------------------------------------


class Rows(NamedTuple):
    """Labelled rows that train, and others that test."""

    X: Any
    X_test: Any
    y: Any
    y_test: Any
    weight: Any
    weight_test: Any
    groups: Any
    groups_test: Any


@cache
def rows(kind: str) -> Rows:
    if kind == "cancer":
        X, y = load_breast_cancer(return_X_y=True)
        X, y = X[:, :4], 1 - y
    elif kind == "nines":
        X, y = load_digits(return_X_y=True)
        X, y = X[:, ::3], (y == 9).astype(int)
    elif kind == "wine":
        X, y = load_wine(return_X_y=True)
        X, y = X[:, :3], (y == 1).astype(int)
    else:
        n = 4000 if kind == "many" else 1200
        shape = {"n_samples": n, "n_features": 8, "n_informative": 4, "weights": [0.85]}
        X, y = make_classification(**shape, flip_y=0.03, random_state=0)
    X = X.round() if kind == "ties" else X.astype(np.float32 if kind == "float32" else np.float64)
    y = np.where(y == 1, "bad", "good") if kind == "texts" else y
    rng = np.random.default_rng(1)
    weight, groups = rng.uniform(0.5, 2.0, len(y)), rng.integers(0, len(y) // 3, len(y))
    return Rows(*train_test_split(X, y, weight, groups, stratify=y, random_state=0))


@cache
def scored() -> tuple[Any, Any, Any, Any]:
    """Return labels, scores, weights and groups."""
    rng = np.random.default_rng(2)
    y = rng.random(3000) < 0.2
    return y, rng.normal(size=3000) + 2.5 * y, rng.uniform(0, 3, 3000), rng.integers(0, 1500, 3000)


def mixed_table(n: int, seed: int) -> pd.DataFrame:
    """Return a table with columns of every kind; some values are missing."""
    rng = np.random.default_rng(seed)
    bad = rng.random(n) < 0.25
    words = np.array(["late", "paid", "card", "home", "call", "bank", "note", "lost"])
    kinds = np.array(["red", "green", "blue", None], dtype=object)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(n) // 4, unit="D")
    since = days - pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    columns = {
        "amount": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n) + 1.5 * bad),
        "count": rng.poisson(3 + 3 * bad),
        "kind": kinds[np.where(bad, rng.integers(0, 3, n), rng.integers(1, 4, n))],
        "member": rng.random(n) < 0.5,
        "since": since.where(rng.random(n) > 0.05),
        "day": days,
        "remark": [" ".join(rng.choice(words[:6] if b else words, 6)) for b in bad],
        "patient": rng.integers(0, n // 2, n),
        "label": np.where(bad, "yes", "no"),
    }
    return pd.DataFrame(columns)


@cache
def tables() -> Path:
    """Write the tables that are read from files; return their folder, beside that of the case."""
    folder = Path("../tables").resolve()
    for name in ("parts", "numbers"):
        (folder / name).mkdir(parents=True)
    for name, n, seed in (("rows", 900, 3), ("later", 400, 4), ("last", 400, 5)):
        frame = mixed_table(n, seed)
        frame.to_parquet(folder / f"{name}.parquet", index=False)
        for ending in ("csv", "csv.gz"):
            frame.to_csv(folder / f"{name}.{ending}", index=False)
    y, scores, _, groups = scored()
    given = pd.DataFrame({"label": y.astype(int), "score": scores, "group": groups})
    given.to_csv(folder / "scores.csv", index=False)
    many = rows("many")
    numbers = pd.DataFrame(many.X, columns=[f"V{k}" for k in range(8)])
    numbers = numbers.assign(label=many.y == 1, w=many.weight, card=many.groups)
    for k in range(3):
        part = mixed_table(400, 6 + k)
        part.to_parquet(folder / f"parts/{k}.parquet", index=False, row_group_size=100)
        part = numbers.iloc[1000 * k : 1000 * (k + 1)]
        part.to_parquet(folder / f"numbers/{k}.parquet", index=False, row_group_size=250)
    return folder


# --- what is written down -----------------------------------------------------------------------


def flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every number with the keys and positions that lead to it; texts are passed over."""
    if isinstance(value, torch.Tensor):
        value = value.detach().numpy()
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(value).data).hexdigest()
        yield f"{path}/digest", f"#{value.dtype} {value.shape} {digest[:16]}"
        value = value.ravel()[:5].tolist()
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str) and value in ("Infinity", "-Infinity"):  # so a report writes them
        value = float(value)
    if isinstance(value, dict):
        for key, part in value.items():
            yield from flat(part, f"{path}/{key}")
    elif isinstance(value, (list, tuple)):
        yield f"{path}/length", str(len(value))
        for position, part in enumerate(value):
            yield from flat(part, f"{path}/{position}")
    elif value is None or isinstance(value, (bool, int, float)):
        yield path, repr(value)
    elif not isinstance(value, str):
        raise TypeError(f"{path} is a {type(value).__name__}, which cannot be written down")


def of_point(p: Any) -> list[Any]:
    return [p.threshold, p.tp, p.fp, p.fn, p.tn, p.objective, p.violation]


def of_certificate(c: Any) -> dict[str, Any]:
    bounds = [[b.level, b.value, b.bound, b.successes, b.trials, b.p_value] for b in c.bounds]
    facts = [c.threshold, c.confidence, c.certified, c.tested, c.more_positives]
    return {"facts": facts, "bounds": bounds, "point": of_point(c.operating_point)}


def of_promise(c: Any, y: Any, scores: Any, groups: Any = None) -> dict[str, Any]:
    """Return a certificate, what it says of other prevalences, and what two looks say of it."""
    found = of_certificate(c)
    found["elsewhere"] = [of_certificate(c.at_prevalence(share)) for share in (0.05, 0.4)]
    verdict, found["looks"] = None, []
    for part in np.array_split(np.arange(len(y)), 2) if c.certified else ():
        own = None if groups is None else groups[part]
        verdict = c.check(y[part], scores[part], after=verdict, groups=own)
        facts = [verdict.broken, verdict.looks, verdict.level, verdict.evidence]
        found["looks"].append([facts, of_point(verdict.operating_point)])
    return found


def of_classifier(clf: Any, split: Rows, grouped: bool = False) -> dict[str, Any]:
    X, y = split.X_test, split.y_test
    found: dict[str, Any] = {
        "point": of_point(clf.operating_point_),
        "test": of_point(clf.evaluate(X, y)),
        "scores": clf.positive_scores(X),
        "predicted": np.asarray(clf.predict(X) == clf.pos_label_),
        "probabilities": clf.predict_proba(X),
    }
    if hasattr(clf, "history_"):
        tried, history, last = list(clf.candidates_), clf.history_, clf.history_[-1]
        names = ("iteration", "objective", "violation", "threshold", "lam", "loss")
        found["candidates"] = [[of_point(c.point), c.iteration] for c in tried]
        found["winner"] = tried.index(clf.candidates_.winner)
        found["history"] = [
            len(history),
            history.best_iteration,
            *(getattr(last, n) for n in names),
        ]
        found["trained"] = [clf.logit_threshold_, *clf.module_.state_dict().values()]
    else:
        found["thresholds"] = clf.thresholds_
    if clf.certificate_ is not None:
        groups = split.groups_test if grouped else None
        found["promise"] = of_promise(clf.certificate_, y, found["scores"], groups)
    return found


def of_page(path: str | Path) -> Any:
    """Return the data block of a report; None where there is no report."""
    if not Path(path).exists():
        return None
    page = Path(path).read_text("utf-8")
    (block,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    return json.loads(block)


# --- how combinations are made ------------------------------------------------------------------


def fit(
    what: Any, kind: str, goal: str, weighted: bool = False, grouped: bool = False,
    report: bool = False, **options: Any,
) -> Any:  # fmt: skip
    """Fit a model of ours for the goal, or find the threshold of another classifier."""
    split = rows(kind)
    if isinstance(what, str):
        clf: Any = SetpointClassifier(goal, model=what, random_state=0)
    else:
        clf = SetpointThreshold(clone(what), goal, random_state=0)
    if options.get("cv") == "prefit":
        half = len(split.y) // 2
        clf.estimator.fit(split.X[:half], split.y[:half])
        split = split._replace(X=split.X[half:], y=split.y[half:])
    clf.set_params(**{name: make(value) for name, value in options.items()})
    weight, groups = split.weight if weighted else None, split.groups if grouped else None
    clf.fit(split.X, split.y, sample_weight=weight, groups=groups)
    if not report:
        return of_classifier(clf, split, grouped)
    pages = clf.report("new.html", split.X_test, split.y_test), clf.report("own.html")
    return [of_page(page) for page in pages]


def goals(*texts: str, **options: Any) -> Any:
    split = rows("nines")
    template = SetpointClassifier(random_state=0, **options)
    fitted = setpoint.fit_goals(template, texts, split.X, split.y)
    return [of_classifier(clf, split) for clf in fitted]


def stream(source: str, goal: str, **options: Any) -> Any:
    split, others = rows("many"), None
    if source == "parquet":
        names = [f"V{k}" for k in range(8)]
        columns = {"features": names, "weight": "w", "group": "card"}
        training = find("ParquetRows")(tables() / "numbers", "label", **columns)
        X_test = pd.DataFrame(split.X_test, columns=names)
        split = split._replace(X_test=X_test, y_test=split.y_test == 1)
    else:
        training = find("ArrayRows")(split.X, split.y, block_rows=300)
        if source == "arrays, others judge":
            others = find("ArrayRows")(split.X_test, split.y_test)
    clf = SetpointClassifier(goal, solver=make(QUICK), random_state=0, **options)
    return of_classifier(clf.fit_stream(training, validation=others), split)


def loader(goal: str) -> Any:
    """Train a module on a loader's batches."""
    split = rows("many")
    X, y = torch.tensor(split.X, dtype=torch.float32), torch.tensor(split.y == 1)
    batches = find("LoaderRows")(list(zip(X.split(500), y.split(500), strict=True)))
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.Tanh(), torch.nn.Linear(6, 1))
    solution = find("train")(module, batches, goal, solver=make(QUICK))
    return [of_point(solution.operating_point), *module.state_dict().values()]


def saved(goal: str) -> Any:
    """Stop a training, go on from its checkpoint, save and load."""
    split, found = rows("made"), []
    for last in (4, None):
        clf = SetpointClassifier(goal, random_state=0, checkpoint="fit.ckpt")
        clf.callback = lambda record, _, last=last: "stop" if record.iteration == last else None
        found.append(of_classifier(clf.fit(split.X, split.y), split))
    for model in (clf, SetpointThreshold(LOGISTIC, goal, random_state=0).fit(split.X, split.y)):
        model.save(f"{type(model).__name__}.zip")
        found.append(of_classifier(setpoint.load(f"{type(model).__name__}.zip"), split))
    return found


def certify(goal: str, grouped: bool = False, **options: Any) -> Any:
    y, scores, _, groups = scored()
    early, late = (groups[:2000], groups[2000:]) if grouped else (None, None)
    found = setpoint.certify(y[:2000], scores[:2000], goal, groups=early, **options)
    return of_promise(found, y[2000:], scores[2000:] - 0.2, late)


def thresholds(goal: str) -> Any:
    """Choose thresholds of many kinds of scores, in one piece and in blocks."""
    y, scores, weight, _ = scored()
    ends = np.where(np.arange(3000) < 40, np.inf, np.where(np.arange(3000) < 80, -np.inf, scores))
    in_blocks, points = find("stream_threshold"), []
    for s in (scores, scores.round(1), scores.astype(np.float32), ends):
        for w in (None, weight):
            blocks = [(y[k::4], s[k::4], None if w is None else w[k::4]) for k in range(4)]
            points.append(setpoint.choose_threshold(y, s, goal, sample_weight=w))
            points.append(in_blocks(lambda blocks=blocks: iter(blocks), goal))
    return [of_point(point) for point in points]


def referee(goal: str) -> Any:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 3))
    y = X @ [1.0, -1.0, 0.5] + rng.normal(size=40) > 0.5
    best = find("solve_exactly")(X, y, goal)
    return [best.coef, of_point(best.operating_point), best.bound, best.proven]


def command(words: str) -> Any:
    """Run a command in a process of its own and return its answer."""
    arguments = [word.replace("TABLES", str(tables())) for word in shlex.split(words)]
    told = subprocess.run(
        [sys.executable, "-m", "setpoint", *arguments, "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if told.returncode:
        raise RuntimeError(f"'{words}' ended with {told.returncode}: {told.stdout}{told.stderr}")
    return json.loads(told.stdout)


def answer(words: str) -> Any:
    return {"answer": command(words), "report": of_page("page.html")}


def table(training: str, later: str, options: str) -> Any:
    """Fit, predict and evaluate by commands; look at a certificate's promise once more."""
    found = {"fit": command(f"fit TABLES/{training} --target label --out model {options}")}
    found["predict"] = command(f"predict model TABLES/{later} --out scored.parquet")
    found["evaluate"] = command(f"evaluate model TABLES/{later}")
    if "--confidence" in options:
        Path("first.json").write_text(json.dumps(found["evaluate"]))
        found["after"] = command("evaluate model TABLES/last.parquet --after first.json")
    result = pd.read_parquet("scored.parquet")
    found["scores"] = [result.iloc[:, k].to_numpy() for k in (-3, -2)]  # score and alarm
    return {**found, "report": of_page("page.html")}


# --- the combinations ---------------------------------------------------------------------------

SHORT = {"outer_iterations": 3, "inner_iterations": 20}
QUICK = ("Stochastic", {"outer_iterations": 2, "inner_iterations": 10, "batch_size": 256})
AS_PRINTED = {"scaling": "paper", "gamma_max": 10.0}  # Lifted.printed(), which older code lacks
PAPER = ("Lifted.paper", {**AS_PRINTED, "outer_iterations": 3, "inner_iterations": 200})
LEARNED = ("Lifted.paper", {**PAPER[1], "threshold": "learned"})
HINGE = ("Lagrangian", {**SHORT, "formulation": "lagrangian", "proxy": "hinge"})
FOCAL = ("LossTraining", {"loss": ("Focal", {}), **SHORT})
TILTED = ("LossTraining", {"loss": ("Tilted", {"by_class": True}), **SHORT})
LDAM = ("LossTraining.paper", {"loss": ("LDAM", {}), **SHORT})
SIGMOID = ("LossTraining.paper", {"loss": ("SigmoidF1", {}), **SHORT})
TREES = HistGradientBoostingClassifier(max_iter=20, random_state=0)
FOREST = RandomForestClassifier(30, min_samples_leaf=3, random_state=0)
LOGISTIC = LogisticRegression()
TWO = "max recall s.t. fpr <= 0.1, precision >= 0.5"
FEW = "max recall s.t. alarm_rate <= 0.1"
IMPOSSIBLE = "max recall s.t. precision >= 1, npv >= 1"

ALL = [
    case(fit, "linear", "cancer", "FPOR(0.95)"),
    case(fit, "linear", "cancer", "FROP(0.95)", validation=None),
    case(fit, "linear", "cancer", "OFOS()", refit=True),
    case(fit, "linear", "cancer", "FPOR(0.8)", confidence=0.9),
    case(fit, "linear", "cancer", "max f1", standardize=False, validation=0.4),
    case(fit, "mlp", "cancer", "FPOR(0.95)"),
    case(fit, "linear", "nines", "FPOR(0.9)"),
    case(fit, "linear", "nines", "FROP(0.9)", validation=0.4),
    case(fit, "linear", "nines", TWO, validation=None),
    case(fit, "linear", "nines", "max mcc"),
    case(fit, "linear", "nines", "max fbeta(2)", refit=True, validation=0.3),
    case(fit, "linear", "wine", "OFOS()"),
    case(fit, "linear", "wine", IMPOSSIBLE),
    case(fit, "mlp", "wine", "FROP(0.9)", validation=None),
    case(fit, "linear", "made", "FPOR(0.8)", validation=None),
    case(fit, "linear", "made", "FROP(0.6)", confidence=0.9),
    case(fit, "linear", "made", "max gmean", validation=None),
    case(fit, "linear", "made", FEW),
    case(fit, "linear", "made", "max profit", validation=None),
    case(fit, "linear", "made", "max recall s.t. profit >= 0.3"),
    case(fit, "linear", "made", "FPOR(0.7)", weighted=True),
    case(fit, "linear", "made", "OFOS()", weighted=True, validation=None),
    case(fit, "linear", "made", "FPOR(0.7)", grouped=True),
    case(fit, "linear", "made", "FROP(0.6)", grouped=True, confidence=0.9),
    case(fit, "mlp", "made", "FPOR(0.6)", confidence=0.8),
    case(fit, "linear", "ties", "FPOR(0.7)"),
    case(fit, "linear", "ties", "FROP(0.8)", refit=True),
    case(fit, "linear", "texts", "FPOR(0.7)", pos_label="bad"),
    case(fit, "linear", "texts", "FROP(0.6)", pos_label="bad", confidence=0.9),
    case(fit, "linear", "float32", "FPOR(0.7)", validation=None),
    case(fit, "linear", "made", "FPOR(0.7)", solver="lifted", validation=None),
    case(fit, "linear", "nines", FEW, solver="lifted"),
    case(fit, "mlp", "wine", "OFOS()", solver="lifted"),
    case(fit, "linear", "made", "FPOR(0.7)", solver=PAPER, validation=None),
    case(fit, "linear", "cancer", "OFOS()", solver=LEARNED),
    case(fit, "mlp", "wine", "FROP(0.8)", solver=PAPER),
    case(fit, "linear", "made", "FPOR(0.7)", solver="cross_entropy"),
    case(fit, "mlp", "cancer", "FPOR(0.9)", solver="cross_entropy"),
    case(fit, "linear", "wine", "FPOR(0.8)", solver="stochastic"),
    case(fit, "linear", "made", "FPOR(0.5)", solver=QUICK, confidence=0.8),
    case(fit, "mlp", "made", "FROP(0.8)", solver=QUICK),
    case(fit, "linear", "made", "FPOR(0.7)", solver=("Ordinary", {})),
    case(fit, "linear", "made", "FPOR(0.7)", solver=("Lagrangian", SHORT)),
    case(fit, "linear", "nines", "FROP(0.9)", solver=HINGE),
    case(fit, "linear", "made", "FPOR(0.7)", solver=("Augmented", SHORT), validation=None),
    case(fit, "linear", "made", "OFOS()", solver=("Resampled", {})),
    case(fit, "linear", "nines", "OFOS()", solver=("Resampled", {"sampling": "under"})),
    *(case(fit, "linear", "made", "FPOR(0.7)", solver=s) for s in (FOCAL, TILTED, LDAM, SIGMOID)),
    case(fit, TREES, "made", "FPOR(0.8)"),
    case(fit, TREES, "many", "FPOR(0.7)", confidence=0.9),
    case(fit, TREES, "cancer", "FROP(0.9)", cv="prefit"),
    case(fit, TREES, "many", "FPOR(0.7)", cv="prefit", confidence=0.9),
    case(fit, TREES, "made", "OFOS()", weighted=True),
    case(fit, LOGISTIC, "ties", "FPOR(0.7)", cv=3),
    case(fit, LOGISTIC, "nines", TWO, cv=0.3, refit=False),
    case(fit, LOGISTIC, "many", "FROP(0.7)", grouped=True, confidence=0.9),
    case(fit, FOREST, "texts", "max mcc", pos_label="bad"),
    case(fit, FOREST, "many", TWO, confidence=0.8, response_method="predict_proba"),
    case(fit, "linear", "made", "FPOR(0.7)", report=True),
    case(fit, "linear", "made", "FROP(0.6)", confidence=0.9, report=True),
    case(fit, TREES, "nines", TWO, report=True),
    case(goals, "FPOR(0.8)", "FPOR(0.9)", "OFOS()", validation=None),
    case(goals, "FROP(0.5)", TWO, "max mcc", confidence=0.9),
    case(stream, "arrays", "FPOR(0.7)"),
    case(stream, "arrays", "FPOR(0.6)", confidence=0.9),
    case(stream, "arrays", "FROP(0.8)", model="mlp"),
    case(stream, "arrays, others judge", "OFOS()"),
    case(stream, "parquet", "FPOR(0.7)"),
    case(loader, "FPOR(0.7)"),
    case(saved, "FPOR(0.7)"),
    case(certify, "FPOR(0.8)"),
    case(certify, "FPOR(0.75)", method="split", planning=0.5),
    case(certify, "FROP(0.9)", confidence=0.95),
    case(certify, "max recall s.t. fpr <= 0.1"),
    case(certify, TWO, random_state=7),
    case(certify, "OFOS()"),
    case(certify, "FPOR(0.8)", threshold=2.0),
    case(certify, "max mcc s.t. fbeta(2) >= 0.5", threshold=1.7),
    case(certify, "FPOR(0.97)"),
    case(certify, "FPOR(0.7)", grouped=True),
    *(case(thresholds, goal) for goal in ("FPOR(0.8)", "FROP(0.9)", "OFOS()", TWO, FEW, "max mcc")),
    *(case(thresholds, goal) for goal in ("max profit", "min fpr s.t. recall >= 0.8", IMPOSSIBLE)),
    *(case(referee, goal) for goal in ("FPOR(0.9)", "FROP(0.9)", "OFOS()")),
    case(table, "rows.csv", "later.csv", "--goal FPOR(0.7) --drop day --report page.html"),
    case(table, "rows.csv", "later.parquet", "--goal OFOS() --model mlp --drop remark"),
    case(table, "rows.parquet", "later.csv.gz", "--goal FROP(0.7) --model hgb --confidence 0.9"),
    case(table, "rows.csv.gz", "later.csv", "--goal FPOR(0.7) --model logistic --group patient"),
    case(table, "rows.parquet", "later.parquet", "--goal FPOR(0.7) --model forest --time day"),
    case(table, "rows.parquet", "last.csv", "--goal FROP(0.7) --group patient --confidence 0.9"),
    case(table, "parts", "later.parquet", "--goal FROP(0.7) --confidence 0.9 --report page.html"),
    case(table, "parts", "parts", "--goal FPOR(0.7) --stream --group patient --drop remark"),
    case(table, "parts", "later.parquet", "--goal OFOS() --time day --model mlp --drop remark"),
    *(
        case(answer, words)
        for words in (
            "certify TABLES/scores.csv --label label --score score --goal FPOR(0.8) "
            "--report page.html --cost-alarm 2 --cost-miss 50",
            "certify TABLES/scores.csv --label label --score score --goal FPOR(0.75) "
            "--threshold 1.8 --group group",
            "compare TABLES/rows.parquet --target label --goal OFOS() --goal FROP(0.7) "
            "--confidence 0.9 --drop remark",
        )
    ),
]


# --- run and compare ----------------------------------------------------------------------------


def called(what: Any) -> str:
    """Return a short name of a combination or of one of its parameters."""
    if isinstance(what, case):
        options = (f"{key}={called(value)}" for key, value in what.keywords.items())
        return " ".join([what.func.__name__, *map(called, what.args), *options])
    if is_recipe(what):
        inner = [called(value) for value in what[1].values() if not isinstance(value, int)]
        return " ".join([what[0], *inner])
    return type(what).__name__ if hasattr(what, "fit") else str(what)


def profit(tp: Any, fp: Any, P: float, N: float) -> Any:
    return (10 * tp - fp) / (10 * P)


def run(out: Path, only: str) -> int:
    """Write the numbers of all combinations; return 1 if one failed."""
    code = Path(setpoint.__file__).resolve().parent
    print(f"setpoint is {code}", file=sys.stderr)
    # Commands run the same code as this process, with one thread and without a GPU.
    threads = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    os.environ |= {"PYTHONPATH": str(code.parent), **threads}
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    setpoint.define_metric("profit", profit, bounds=(-1e9, 1.0))
    found: dict[str, dict[str, str]] = {}
    out, begin, failed, back = out.resolve(), time.perf_counter(), 0, Path.cwd()
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        for number, one in enumerate(ALL):
            if not re.search(only, name := called(one)):
                continue
            start = time.perf_counter()
            os.mkdir(own := Path(folder, str(number)))
            os.chdir(own)
            try:
                found[name] = dict(flat(one()))
            except Exception:  # the others are wanted all the same
                traceback.print_exc()
                failed += 1
            print(f"{time.perf_counter() - start:6.1f} s  {name}", file=sys.stderr)
        os.chdir(back)
    out.write_text(json.dumps(found, indent=0), "utf-8")
    numbers, seconds = sum(map(len, found.values())), time.perf_counter() - begin
    print(f"{len(found)} combinations, {numbers:,} numbers, {failed} failed, {seconds:.0f} s")
    return int(failed > 0)


def difference(before: dict[str, str], after: dict[str, str]) -> str:
    """Say what differs between two runs of a combination; nothing where nothing does."""
    before = {"/".join(RENAMED.get(k, k) for k in p.split("/")): v for p, v in before.items()}
    said, sizes = [], []
    for path in [p for p in before if before[p] != after.get(p, before[p])]:
        said.append(f"{path[1:]} {before[path]} -> {after[path]}")
        if not {before[path][0], after[path][0]} & set("#TFN"):  # no digest, True, False or None
            sizes.append(abs(float(before[path]) - float(after[path])))
    if said:
        largest = max((size for size in sizes if not math.isnan(size)), default=None)
        by = "" if largest is None else f", by {largest:.3g} at most"
        said = [f"{len(said)} of {len(before)} numbers{by}", *said[:4]]
    for paths, where in ((before.keys() - after, "before"), (after.keys() - before, "after")):
        if paths:
            shown = ", ".join(path[1:] for path in sorted(paths)[:4])
            said.append(f"{len(paths)} numbers only {where}: {shown}")
    return "; ".join(said)


def compare(before_path: Path, after_path: Path, only: str) -> int:
    """Print a row for each combination; return 1 if anything differs or is missing."""
    before, after = (json.loads(p.read_text("utf-8")) for p in (before_path, after_path))
    counts = {"equal": 0, "different": 0, "missing": 0}
    for name in dict.fromkeys([*before, *after]):
        if not re.search(only, name):
            continue
        if name not in before or name not in after:
            kind, said = "missing", f"missing {'after' if name in before else 'before'}"
        elif said := difference(before[name], after[name]):
            kind, said = "different", f"differs in {said}"
        else:
            kind, said = "equal", f"equal bit for bit, {len(after[name])} numbers"
        counts[kind] += 1
        print(f"{name:80} {said}")
    print(", ".join(f"{count} {kind}" for kind, count in counts.items()))
    return int(not counts["equal"] or counts["different"] + counts["missing"] > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["run", "compare"])
    parser.add_argument("files", nargs="+", type=Path, help="OUT.json, or BEFORE.json AFTER.json")
    parser.add_argument("--only", default="", help="a regular expression for names")
    given = parser.parse_args()
    if len(given.files) != (1 if given.what == "run" else 2):
        parser.error("run takes one file, compare two")
    return {"run": run, "compare": compare}[given.what](*given.files, given.only)


if __name__ == "__main__":
    sys.exit(main())
