"""onnxruntime makes the same decisions as the classifier."""

import json
import warnings

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from torch import nn

from setpoint import ModelSearch, SetpointClassifier, SetpointMultilabel, SetpointThreshold
from setpoint.errors import ModelFileError, OnnxError, UncertifiedWarning
from setpoint.estimators.stacking import Member, StackedModels
from setpoint.export import export_onnx
from setpoint.export import onnx as export

HGB = HistGradientBoostingClassifier(max_iter=20, random_state=0)
FOREST = RandomForestClassifier(15, random_state=0)


def make_rows(n, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.3
    X = rng.standard_normal((n, 4))
    X[:, 0] += 1.5 * y
    X[:, 3] = rng.integers(0, 9, n) * (1 + y) % 9
    return X * [1, 1e3, 1e-3, 1] + [0, 5, 0, 0], y


X, Y = make_rows(400)
NEW, _ = make_rows(5000, seed=1)


def fitted(model, X=X, y=Y, **parameters):
    parameters = {"goal": "max f1", "random_state": 0} | parameters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(model, str) or callable(model):
            clf = SetpointClassifier(model=model, solver="cross_entropy", **parameters)
        else:
            clf = SetpointThreshold(model, cv=0.5, **parameters)
        return clf.fit(X, y)


def served(path, X, **named):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    kinds = {"tensor(double)": np.float64, "tensor(float)": np.float32}
    entry, *others = session.get_inputs()
    assert entry.name == "X"
    assert [other.name for other in others] == list(named)
    return session.run(["score", "decision"], {"X": np.asarray(X, kinds[entry.type]), **named})


def expected(clf, X):
    scores = clf.positive_scores(X)
    if isinstance(clf, SetpointThreshold):
        scores = scores.astype(np.float64) - clf.threshold_
    return scores, clf.predict(X) == clf.pos_label_


def assert_agrees(clf, path, X, tolerance):
    scores, decisions = served(path, X)
    wanted, decided = expected(clf, X)
    assert scores.shape == decisions.shape == (len(X),)
    assert decisions.dtype == bool
    assert np.array_equal(decisions, decided)
    assert 0 < decided.mean() < 1
    assert np.abs(scores - wanted).max() <= tolerance * (1 + np.abs(wanted).max())


@pytest.mark.parametrize("model", ["linear", "mlp"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-13), (np.float32, 1e-5)])
def test_models_of_this_package(model, dtype, tolerance, tmp_path):
    for positive in (False, True):
        clf = fitted(model, X.astype(dtype), pos_label=positive)
        export_onnx(clf, tmp_path / "model.onnx")
        for rows in (NEW, X, NEW[:1]):
            scores, decisions = served(tmp_path / "model.onnx", rows.astype(dtype))
            wanted, decided = expected(clf, rows.astype(dtype))
            assert scores.dtype == dtype
            assert np.array_equal(decisions, decided)
            assert np.abs(scores - wanted).max() <= tolerance * (1 + np.abs(wanted).max())


def test_rows_at_the_threshold(tmp_path):
    """Whole numbers are added without rounding, so a score of 0 is 0 everywhere."""
    clf = fitted("linear", standardize=False)
    weights = {"weight": [[1.0, 2.0, -3.0, 4.0]], "bias": [0.5]}
    for name, value in weights.items():
        parameter = getattr(clf.module_, name).data
        parameter.copy_(parameter.new_tensor(value))
    clf.logit_threshold_ = 2.5
    export_onnx(clf, tmp_path / "model.onnx")
    rows = np.random.default_rng(0).integers(-3, 4, (3000, 4)).astype(float)
    scores, decisions = served(tmp_path / "model.onnx", rows)
    assert (scores == 0).sum() > 50
    assert not decisions[scores == 0].any()
    assert np.array_equal(scores, clf.positive_scores(rows))
    assert np.array_equal(decisions, clf.predict(rows))


def test_constant_and_huge_features_and_an_infinite_threshold(tmp_path):
    wide = X * [1, 0, 1e150, 1e-150]
    for parameters in ({}, {"goal": "max recall s.t. precision >= 1"}):
        clf = fitted("linear", wide, **parameters)
        export_onnx(clf, tmp_path / "model.onnx")
        scores, decisions = served(tmp_path / "model.onnx", wide)
        assert np.array_equal(decisions, clf.predict(wide))
        assert np.allclose(scores, clf.positive_scores(wide), rtol=1e-12, atol=1e-12)


def test_user_defined_modules(tmp_path):
    known = fitted(lambda n: nn.Sequential(nn.Linear(n, 3, bias=False), nn.Tanh(), nn.Dropout(),
                                           nn.Sequential(nn.Linear(3, 1))))  # fmt: skip
    export_onnx(known, tmp_path / "known.onnx")
    assert_agrees(known, tmp_path / "known.onnx", NEW, 1e-13)

    class Own(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.norm, self.out = nn.BatchNorm1d(n), nn.Linear(n, 1)

        def forward(self, X):
            return self.out(self.norm(X).abs() + X).squeeze(1)

    other = fitted(Own, X.astype(np.float32))
    export_onnx(other, tmp_path / "other.onnx")
    assert_agrees(other, tmp_path / "other.onnx", NEW.astype(np.float32), 1e-5)

    class Unknown(Own):
        def forward(self, X):
            return super().forward(X) + float(np.linalg.matrix_rank(X.detach().numpy()))

    for strange in (fitted(Unknown), fitted(lambda n: Hooked(n, 1))):
        with pytest.raises(OnnxError, match="torch cannot export|does not agree"):
            export_onnx(strange, tmp_path / "strange.onnx")
    assert not (tmp_path / "strange.onnx").exists()


class Hooked(nn.Linear):
    """Computes something that the exporter sees only for the rows that it tries."""

    def forward(self, X):
        return super().forward(X) * (1.0 if len(X) == 3 else 2.0)


def test_trees_and_linear_models_of_scikit_learn(tmp_path):
    missing = X.copy()
    missing[::3, 1] = np.nan
    gaps = NEW.copy()
    gaps[::4, :3] = np.nan
    odd = np.where(NEW[:, 3] == 4, 77, NEW[:, 3])  # a category that is not known
    odd[::50] = np.nan
    categories = np.column_stack([NEW[:, :3], odd])
    by_category = HistGradientBoostingClassifier(
        max_iter=20, categorical_features=[1, 3], random_state=0
    )
    levels = X * [1, 0, 1, 1] + [0, 3, 0, 0]
    for model, seen, new in [
        (HGB, missing, gaps),
        (by_category, np.where(levels == 3, -2.5, levels), categories),
        (HistGradientBoostingClassifier(max_iter=2, max_leaf_nodes=2), X, NEW),
        (HistGradientBoostingClassifier(max_iter=2, min_samples_leaf=400), X, None),
        (FOREST, X, NEW),
        (FOREST, missing, gaps),
        (ExtraTreesClassifier(5, max_depth=3, random_state=0), X, NEW),
        (LogisticRegression(max_iter=1000), X, NEW),
    ]:
        for positive in (False, True):
            clf = fitted(model, seen, pos_label=positive)
            export_onnx(clf, tmp_path / "model.onnx")
            if new is None:  # trees without a single split
                scores, _ = served(tmp_path / "model.onnx", X)
                assert np.allclose(scores, expected(clf, X)[0])
                continue
            assert_agrees(clf, tmp_path / "model.onnx", new, 1e-13)


def test_text_features_and_string_labels(tmp_path):
    labels = np.where(Y, "ä", "b")
    clf = fitted(FOREST, pd.DataFrame(X, columns=list("wxyz")), labels, pos_label="ä")
    export_onnx(clf, tmp_path / "model.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # arrays have no column names
        assert_agrees(clf, tmp_path / "model.onnx", NEW, 1e-13)
    facts = properties(tmp_path / "model.onnx")
    assert facts["goal"] == "max f1"
    assert (facts["positive"], facts["negative"]) == ("ä", "b")
    assert json.loads(facts["features"]) == list("wxyz")


@pytest.mark.parametrize("labels", [["no", "yes"], ["yes", "no"]])
def test_a_chosen_model_of_text_labels(labels, tmp_path):
    for model in (LogisticRegression(), HGB):
        search = ModelSearch({"one": model})
        clf = fitted(search, y=np.where(Y, *labels[::-1]), pos_label=labels[1])
        export_onnx(clf, tmp_path / "model.onnx")
        assert_agrees(clf, tmp_path / "model.onnx", NEW, 1e-13)


@pytest.mark.parametrize(
    ("model", "parameters", "tolerance"),
    [
        (make_pipeline(StandardScaler(), LogisticRegression()), {}, 1e-13),
        (
            make_pipeline(StandardScaler(), "passthrough", LogisticRegression()),
            {"response_method": "predict_proba", "pos_label": False},
            1e-13,
        ),
        (make_pipeline(StandardScaler(), HGB), {"pos_label": False}, 1e-13),
        (CalibratedClassifierCV(FOREST, cv=2), {}, 1e-5),
        (GradientBoostingClassifier(n_estimators=5, random_state=0), {"pos_label": False}, 1e-5),
    ],
    ids=["pipeline", "probabilities", "boosted pipeline", "calibrated", "single precision"],
)
def test_steps_converted_by_skl2onnx(model, parameters, tolerance, tmp_path):
    clf = fitted(model, **parameters)
    export_onnx(clf, tmp_path / "model.onnx")
    # Rows whose scores are this near to the threshold may go either way.
    scores, decisions = served(tmp_path / "model.onnx", NEW)
    wanted, decided = expected(clf, NEW)
    slack = tolerance * (1 + np.abs(wanted).max())
    assert np.abs(scores - wanted).max() <= slack
    clear = np.abs(wanted) > slack
    assert clear.mean() > 0.99
    assert np.array_equal(decisions[clear], decided[clear])


def test_imputed_values(tmp_path):
    missing, gaps = X.copy(), NEW.astype(np.float32)
    missing[::3, 1] = np.nan
    gaps[::4, :2] = np.nan
    clf = fitted(make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression()), missing)
    export_onnx(clf, tmp_path / "model.onnx")
    scores, _ = served(tmp_path / "model.onnx", gaps)
    assert np.abs(scores - expected(clf, gaps)[0]).max() < 1e-4


@pytest.mark.parametrize("method", ["auto", "predict_proba"])
@pytest.mark.parametrize("positive", [0, 1])
def test_stacks(method, positive, tmp_path):
    clf = fitted(LogisticRegression(max_iter=1000), pos_label=positive, response_method=method)
    y = positive == Y
    members = [
        Member("logistic", LogisticRegression(max_iter=1000).fit(X[:, :2], y), (0, 2)),
        Member("trees", HGB.fit(X, y)),
        Member("forest", FOREST.fit(X[:, 1:], y), (1, X.shape[1])),
        Member("goal", SetpointClassifier(solver="cross_entropy", random_state=0).fit(X, y)),
    ]
    weights = np.array([0.5, 1.0, 0.7, 0.3])
    clf.estimator_ = StackedModels(members, weights, -0.2, clf._labels.classes, positive)
    clf.threshold_ = float(np.median(clf.positive_scores(X)))
    export_onnx(clf, tmp_path / "model.onnx")
    for rows in (NEW, X, NEW[:1]):
        scores, _ = served(tmp_path / "model.onnx", rows)
        wanted = clf.positive_scores(rows) - clf.threshold_
        assert np.abs(scores - wanted).max() < 1e-9


def test_a_threshold_on_a_setpoint_classifier(tmp_path):
    for positive in (False, True):
        clf = fitted(
            SetpointClassifier("max recall", solver="cross_entropy", random_state=0),
            pos_label=positive,
            refit=False,
        )
        export_onnx(clf, tmp_path / "model.onnx")
        assert_agrees(clf, tmp_path / "model.onnx", NEW, 1e-13)


AMOUNT, FEE = np.random.default_rng(2).lognormal(3, 2, (2, len(NEW)))
REGION = np.array(["north", "süd", "", "🐟 never seen", "rare"], dtype=object)[
    np.random.default_rng(3).integers(0, 5, len(NEW))
]


def properties(path):
    return {p.key: p.value for p in onnx.load(path).metadata_props}


@pytest.mark.parametrize(
    ("goal", "names"),
    [
        ("min cost(fp=5, fn=amount)", ["amount"]),
        ("max profit(tp=0.5*amount, fp=-1*fee, tn=1, fn=-0.1*amount)", ["amount", "fee"]),
        ("min cost(fp=5, fn=amount) s.t. recall >= 0.8, cost(fp=1, fn=fee) <= 1e9", ["amount"]),
        ("min cost(fp=5, fn=20)", []),
    ],
)
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("model", [LogisticRegression(max_iter=1000), HGB, FOREST])
def test_decisions_by_expected_value(model, goal, names, positive, tmp_path):
    amounts = {"amount": AMOUNT, "fee": FEE}
    seen = {name: column[: len(X)] for name, column in amounts.items()}
    clf = SetpointThreshold(
        model, goal, decision="expected_value", cv=0.5, pos_label=positive, random_state=0
    ).fit(X, Y, amounts=seen)
    export_onnx(clf, tmp_path / "model.onnx")
    given = {"amounts": np.column_stack([amounts[name] for name in names])} if names else {}
    scores, decisions = served(tmp_path / "model.onnx", NEW, **given)
    assert json.loads(properties(tmp_path / "model.onnx")["amounts"]) == names
    wanted = clf.positive_scores(NEW, amounts=amounts) - clf.threshold_
    assert np.allclose(scores, wanted, rtol=1e-12, atol=1e-9)
    clear = np.abs(wanted) > 1e-9
    decided = clf.predict(NEW, amounts=amounts) == clf.pos_label_
    assert clear.mean() > 0.9  # savings of a forest may be 0
    assert 0 < decided.mean() < 1
    assert np.array_equal(decisions[clear], decided[clear])


@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("confidence", [None, 0.8])
@pytest.mark.parametrize("model", [LogisticRegression(max_iter=1000), HGB])
def test_thresholds_per_group(model, confidence, pooled, tmp_path):
    rows, y = make_rows(3000, seed=5)
    seen = np.where(np.arange(3000) % 2, "north", "süd").astype(object)
    if pooled:
        for name, first in (("rare", 0), ("rarer", 9)):
            seen[np.flatnonzero(y)[first : first + 9]] = name
            seen[np.flatnonzero(~y)[first : first + 9]] = name
    clf = SetpointThreshold(
        model, "max recall s.t. precision >= 0.4 for each region", thresholds="per group", cv=0.5,
        confidence=confidence, random_state=0,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncertifiedWarning)
        clf.fit(rows, y, segments={"region": seen})
    assert ("(other)" in clf.segment_thresholds_.thresholds) == pooled
    export_onnx(clf, tmp_path / "model.onnx")
    assert properties(tmp_path / "model.onnx")["segments"] == "region"
    scores, decisions = served(tmp_path / "model.onnx", NEW, segments=REGION)
    texts = {"region": np.where(REGION == "", "never seen", REGION)}
    wanted = clf.positive_scores(NEW, segments=texts) - clf.threshold_
    assert np.allclose(scores, wanted, rtol=1e-12, atol=1e-12)
    assert np.array_equal(decisions, clf.predict(NEW, segments=texts) == clf.pos_label_)
    assert 0 < decisions.mean() < 1


def test_a_group_without_alarms_has_none(tmp_path):
    rows, y = make_rows(3000, seed=5)
    region = np.where(np.arange(3000) % 2, "north", "south")
    goal = "max recall s.t. precision >= 0.6 for each region"
    clf = SetpointThreshold(HGB, goal, thresholds="per group", cv=0.5, random_state=0)
    clf.fit(rows, y, segments={"region": region})
    clf.segment_thresholds_.thresholds["south"] = np.inf
    export_onnx(clf, tmp_path / "model.onnx")
    south = np.full(len(NEW), "south", dtype=object)
    scores, decisions = served(tmp_path / "model.onnx", NEW, segments=south)
    assert not decisions.any()
    assert (scores == -np.inf).all()


@pytest.mark.parametrize(
    "model",
    [
        LogisticRegression(max_iter=1000),
        make_pipeline(StandardScaler(), LogisticRegression()),
        HGB,
        FOREST,
        OneVsRestClassifier(HGB),
        MultiOutputClassifier(LogisticRegression(max_iter=1000)),
    ],
)
def test_several_labels(model, tmp_path):
    rows, y = make_rows(800, seed=6)
    rng = np.random.default_rng(7)
    labels = pd.DataFrame(
        {
            "spam": y,
            "never": np.zeros(800, dtype=bool),
            "äbuse": rows[:, 0] + rng.normal(size=800) > 1,
            "always": np.ones(800, dtype=bool),
            "other": ~y,
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = SetpointMultilabel(model, "max micro f1", cv=0.5, random_state=0).fit(rows, labels)
    export_onnx(clf, tmp_path / "model.onnx")
    for new in (NEW, NEW[:1]):
        scores, decisions = served(tmp_path / "model.onnx", new)
        assert scores.shape == decisions.shape == (len(new), 5)
        assert np.array_equal(decisions, clf.predict(new) == 1)
        wanted = clf.decision_function(new)
        assert np.array_equal(np.isinf(scores), np.isinf(wanted))
        assert np.allclose(scores[np.isfinite(wanted)], wanted[np.isfinite(wanted)], atol=1e-12)
    facts = properties(tmp_path / "model.onnx")
    assert json.loads(facts["labels"]) == list(labels)
    assert facts["goal"] == "max micro f1"


def test_a_fitted_classifier_of_several_labels_that_saw_one_class(tmp_path):
    labels = np.column_stack([Y, np.zeros(len(Y), dtype=bool), ~Y]).astype(int)
    for model in (FOREST, MultiOutputClassifier(FOREST)):
        fitted = model.fit(X, labels)
        new = np.column_stack([Y, Y, ~Y]).astype(int)
        clf = SetpointMultilabel(fitted, "max f1", cv="prefit").fit(X, new)
        export_onnx(clf, tmp_path / "model.onnx")
        scores, decisions = served(tmp_path / "model.onnx", NEW)
        assert np.array_equal(decisions, clf.predict(NEW) == 1)
        assert np.allclose(scores, clf.decision_function(NEW))


def test_labels_that_cannot_be_exported(tmp_path):
    labels = np.column_stack([Y, ~Y]).astype(int)
    network = MLPClassifier((3,), max_iter=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = SetpointMultilabel(network, "max f1", cv=0.5, random_state=0).fit(X, labels)
        nothing = SetpointMultilabel(FOREST, "max f1", cv=0.5, random_state=0).fit(X, 0 * labels)
    with pytest.raises(OnnxError, match="MLPClassifier, fitted to a matrix of labels, cannot"):
        export_onnx(clf, tmp_path / "model.onnx")
    with pytest.raises(OnnxError, match="no label has a classifier"):
        export_onnx(nothing, tmp_path / "model.onnx")


def test_boosters_of_other_libraries_name_what_can_be_exported(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    clf = fitted(xgboost.XGBClassifier(n_estimators=3))
    with pytest.raises(OnnxError, match="XGBClassifier cannot be exported to ONNX; fit scikit-l"):
        export_onnx(clf, tmp_path / "model.onnx")


def test_unsupported_models_raise_an_error(tmp_path):
    path = tmp_path / "model.onnx"
    texts = [f"w{i % 5} x" for i in range(60)]
    named = pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(np.where(Y, "u", "v"))})
    by_text = HistGradientBoostingClassifier(max_iter=2, categorical_features=["b"])
    for model, message in [
        (LogisticRegression(), "LogisticRegression cannot be exported"),
        (
            fitted(make_pipeline(TfidfVectorizer(), LogisticRegression()), texts,
                   np.arange(60) % 5 == 0),
            "does not take an array of numbers",
        ),
        (
            fitted(make_pipeline(FunctionTransformer(np.sinh), StandardScaler(),
                                 LogisticRegression()), X / 1e4),
            "cannot be exported",
        ),
        (fitted(by_text, named), "categories that are strings"),
    ]:  # fmt: skip
        with pytest.raises(OnnxError, match=message):
            export_onnx(model, path)
    with pytest.raises(NotFittedError):
        export_onnx(SetpointClassifier(), path)
    assert not path.exists()


def test_a_wrong_export_is_not_written(tmp_path, monkeypatch):
    def wrong(graph, clf, X):
        return graph.add("Neg", original(graph, clf, X))

    original = export.classifier_scores
    monkeypatch.setattr(export, "classifier_scores", wrong)
    (tmp_path / "model.onnx").write_text("the old one")
    with pytest.raises(OnnxError, match="does not agree with the classifier on 500 of 500 scores"):
        export_onnx(fitted("linear"), tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_text() == "the old one"


def test_files_that_cannot_be_written(tmp_path):
    clf = fitted("linear")
    export_onnx(clf, tmp_path / "new" / "model.onnx")
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["model.onnx"]
    with pytest.raises(ModelFileError, match="cannot be written"):
        export_onnx(clf, tmp_path / "new")
    with pytest.raises(ModelFileError, match="cannot be written"):
        export_onnx(clf, tmp_path / "new" / "model.onnx" / "x.onnx")
