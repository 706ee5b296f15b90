"""A SetpointThreshold around scikit-learn's classifiers comes back and does the same."""

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from torch import nn

from setpoint import SetpointClassifier, SetpointThreshold, load
from setpoint.errors import ModelFileError, ModelVersionWarning, UncertifiedWarning
from setpoint.saving.document import _digest

HGB = HistGradientBoostingClassifier(max_iter=4, random_state=0)
TABLE = make_column_transformer(
    (OneHotEncoder(handle_unknown="ignore"), ["where"]),
    (SimpleImputer(), make_column_selector(dtype_include=float)),
)


def fitted(estimator, X, y, **parameters):
    parameters = {"goal": "max recall s.t. precision >= 0.5", "random_state": 0} | parameters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SetpointThreshold(estimator, cv=0.4, **parameters).fit(X, y)


def assert_same(a, b, X, y):
    assert a.positive_scores(X).tobytes() == b.positive_scores(X).tobytes()
    assert list(a.predict(X)) == list(b.predict(X))
    for method in ("predict_proba", "decision_function"):
        assert hasattr(a, method) == hasattr(b, method)
        if hasattr(a, method):
            assert getattr(a, method)(X).tobytes() == getattr(b, method)(X).tobytes()
    assert a.threshold_ == b.threshold_
    assert a.thresholds_.tobytes() == b.thresholds_.tobytes()
    assert a.evaluate(X, y) == b.evaluate(X, y)
    assert a.operating_point_ == b.operating_point_
    assert a.certificate_ == b.certificate_
    assert (a.pos_label_, a.goal_) == (b.pos_label_, b.goal_)
    without_addresses = [re.sub("0x[0-9a-f]+", "", str(clf.estimator)) for clf in (a, b)]
    assert without_addresses[0] == without_addresses[1]


@pytest.fixture(scope="session")
def table(rows):
    X, y = rows
    frame = pd.DataFrame({"amount": X[:, 0], "where": np.where(X[:, 1] > 7, "Köln", "Ulm")})
    frame.loc[::7, "amount"] = np.nan
    frame["kind"] = pd.Categorical(np.where(y ^ (X[:, 2] > 8), "a", "b"))
    return frame, y


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        HGB,
        RandomForestClassifier(3, random_state=0),
        GradientBoostingClassifier(n_estimators=3, random_state=0),
        SVC(),
        CalibratedClassifierCV(LogisticRegression(), method="isotonic", cv=2),
        make_pipeline(StandardScaler(), MLPClassifier((3,), max_iter=3, random_state=0)),
        make_pipeline(FunctionTransformer(np.exp2), StandardScaler(), LogisticRegression()),
    ],
    ids=lambda e: type(e).__name__,
)
def test_classifiers_of_scikit_learn(estimator, rows, tmp_path):
    X, y = rows
    clf = fitted(estimator, X, np.where(y, "ja", "nein"), pos_label="ja")
    clf.save(tmp_path / "model.zip")
    back = load(tmp_path / "model.zip")
    assert_same(clf, back, X, np.where(y, "ja", "nein"))
    assert back.n_features_in_ == 5
    assert not hasattr(back.estimator, "classes_")  # is a recipe, not fitted


@pytest.mark.parametrize(
    "estimator",
    [
        HistGradientBoostingClassifier(max_iter=4, categorical_features=["kind", "where"]),
        make_pipeline(TABLE, LogisticRegression()),
    ],
    ids=["trees", "pipeline"],
)
def test_tables(estimator, table, tmp_path):
    X, y = table
    X = X.astype({"where": "category"}) if isinstance(estimator, type(HGB)) else X
    clf = fitted(estimator, X, y)
    clf.save(tmp_path / "model")
    back = load(tmp_path / "model")
    assert_same(clf, back, X, y)
    assert back.feature_names_in_.tolist() == ["amount", "where", "kind"]


def test_texts(tmp_path):
    texts = [f"gewinn {i % 3} prämie" if i % 4 == 0 else f"hallo {i % 7}" for i in range(80)]
    y = np.arange(80) % 4 == 0
    clf = fitted(make_pipeline(TfidfVectorizer(), LogisticRegression()), texts, y)
    clf.save(tmp_path / "model")
    assert_same(clf, load(tmp_path / "model"), texts, y)


def test_a_certificate_and_a_classifier_that_was_fitted_before(rows, tmp_path):
    X, y = rows
    with pytest.warns(UncertifiedWarning):
        clf = SetpointThreshold(
            HGB.fit(X[:200], y[:200]), "max recall s.t. precision >= 0.999",
            cv="prefit", confidence=0.9, random_state=0,
        ).fit(X[200:], y[200:])  # fmt: skip
    clf.save(tmp_path / "model")
    back = load(tmp_path / "model")
    assert_same(clf, back, X, y)
    assert str(back.certificate_) == str(clf.certificate_)
    assert back.estimator is back.estimator_


def test_parameters_that_are_not_plain(rows, tmp_path):
    X, y = rows
    clf = SetpointThreshold(GaussianNB(), cv=ShuffleSplit(2, random_state=0)).fit(X, y)
    clf.save(tmp_path / "model")
    back = load(tmp_path / "model")
    assert_same(clf, back, X, y)
    assert back.load_notes_ == [f"cv={clf.cv!r} was not saved; fit() would use the default, None."]
    assert back.cv is None


def test_a_threshold_of_a_setpoint_classifier(linear, rows, tmp_path):
    X, y = rows
    clf = fitted(SetpointClassifier(solver="cross_entropy", random_state=0), X, y, refit=False)
    clf.save(tmp_path / "model")
    assert sorted(p.suffix for p in (tmp_path / "model").iterdir()) == [".json", ".safetensors"]
    assert_same(clf, load(tmp_path / "model"), X, y)
    mine = SetpointClassifier(
        solver="cross_entropy", model=lambda n: nn.Linear(n, 1), random_state=0
    )
    clf = fitted(mine, X, y, refit=False)
    clf.save(tmp_path / "mine")
    back = load(tmp_path / "mine", module=lambda n: nn.Linear(n, 1))
    assert back.positive_scores(X).tobytes() == clf.positive_scores(X).tobytes()


@pytest.mark.parametrize(
    ("estimator", "named"),
    [
        (make_pipeline(FunctionTransformer(abs), LogisticRegression()), "builtins.abs"),
        (make_pipeline(FunctionTransformer(lambda X: X), LogisticRegression()), "<lambda>"),
        (make_pipeline(FunctionTransformer(np.nan_to_num), LogisticRegression()), "nan_to_num"),
        (KNeighborsClassifier(), "KDTree"),
    ],
    ids=["builtin", "lambda", "numpy", "tree of points"],
)
def test_classifiers_that_could_not_be_loaded_are_not_saved(estimator, named, rows, tmp_path):
    clf = fitted(estimator, *rows)
    with pytest.raises(ModelFileError, match=f"classifier cannot be saved: .*{named}"):
        clf.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_other_versions_are_warned_about(rows, tmp_path, linear):
    X, y = rows
    for model in (fitted(LogisticRegression(), X, y), linear):
        folder = tmp_path / type(model).__name__
        model.save(folder)
        content = json.loads((folder / "model.json").read_bytes())
        content.pop("sha256")
        content["versions"]["scikit-learn"] = "1.2.3"
        content["sha256"] = _digest(content)
        (folder / "model.json").write_text(json.dumps(content))
    with pytest.warns(ModelVersionWarning, match=r"scikit-learn 1\.2\.3 \(here: ") as caught:
        back = load(tmp_path / "SetpointThreshold")
    assert caught[0].filename == __file__
    assert len(caught) == 1
    assert list(back.classes_) == [False, True]
    load(tmp_path / "SetpointClassifier")  # holds nothing of scikit-learn's
