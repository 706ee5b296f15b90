"""A SetpointClassifier comes back from its files and does the same, bit for bit."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ShuffleSplit
from torch import nn

from setpoint import Goal, SetpointClassifier, define_metric, load
from setpoint.errors import InfeasibleGoalWarning, ModelFileError, SetpointError, UncertifiedWarning
from setpoint.goals.metrics import _METRICS
from setpoint.model_files import save
from setpoint.training import get_solver

GOAL = "max recall s.t. precision >= 0.7"


def fitted(X, y, **parameters):
    parameters = {"goal": GOAL, "solver": "cross_entropy", "random_state": 0} | parameters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncertifiedWarning)
        warnings.simplefilter("ignore", InfeasibleGoalWarning)
        return SetpointClassifier(**parameters).fit(X, y)


def assert_same(a, b, X, y):
    for method in ("positive_scores", "decision_function", "predict_proba", "predict"):
        one, other = getattr(a, method)(X), getattr(b, method)(X)
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes() or list(one) == list(other)
    assert a.evaluate(X, y) == b.evaluate(X, y)
    assert str(a.operating_point_) == str(b.operating_point_)
    assert a.operating_point_ == b.operating_point_
    assert a.certificate_ == b.certificate_
    assert str(a.certificate_) == str(b.certificate_)
    assert repr(a.history_) == repr(b.history_)
    assert a.candidates_ == b.candidates_
    assert str(a.candidates_) == str(b.candidates_)
    assert a.candidates_.margin == b.candidates_.margin
    assert a.logit_threshold_ == b.logit_threshold_
    assert a.goal_ == b.goal_
    assert a.classes_.dtype == b.classes_.dtype
    assert type(a.pos_label_) is type(b.pos_label_)
    assert a.pos_label_ == b.pos_label_
    assert a.n_features_in_ == b.n_features_in_


@pytest.mark.parametrize(
    "parameters",
    [
        {"model": "mlp", "confidence": 0.9},
        {"standardize": False},
        {"refit": True, "validation": 0.5},
        {"goal": "max fbeta(0.30000000000000004) s.t. fpr <= 0.3333333333333333"},
    ],
    ids=str,
)
def test_everything_comes_back(parameters, rows, tmp_path):
    X, y = rows[0][:60, :2], rows[1][:60]
    clf = fitted(X, y, **parameters)
    for name in ("model", "model.zip"):
        clf.save(tmp_path / name)
        generator = torch.get_rng_state()
        back = load(str(tmp_path / name))
        assert torch.equal(torch.get_rng_state(), generator)  # though modules are made anew
        assert_same(clf, back, X, y)
        assert back.get_params() == clf.get_params()
        assert back.load_notes_ == []


def test_many_candidates_and_a_long_history(rows, tmp_path):
    X, y = rows[0][:60, :2], rows[1][:60]
    clf = fitted(X, y, solver=replace(get_solver("projected"), outer_iterations=2))
    clf.save(tmp_path / "model")
    assert_same(clf, load(tmp_path / "model"), X, y)
    assert len(clf.candidates_) > 3
    assert any(c.start is not None for c in clf.candidates_)


def test_float32_extremes_and_constant_features(tmp_path):
    rng = np.random.default_rng(1)
    y = rng.random(300) < 0.4
    X = rng.standard_normal((300, 4)) * [1, 1e30, 1e-30, 0] + [0, 1e30, 0, 5]
    X[:, 0] += 2 * y
    for dtype in (np.float32, np.float64):
        clf = fitted(X.astype(dtype), y)
        clf.save(tmp_path / "model")
        back = load(tmp_path / "model")
        assert np.isinf(back.standardizer_.scale[3])
        assert_same(clf, back, X.astype(dtype), y)
        assert_same(clf, back, X[:1], y[:1])
        assert back.positive_scores(X[:2]).dtype == dtype


@pytest.mark.parametrize(
    "classes",
    [
        [0, 1],
        [False, True],
        ["harmlos", "betrügerisch 💸"],
        np.array(["a", "b"], dtype=object),
        np.array([-1, 2], dtype=np.float32),
        np.array([3, 7], dtype=np.uint8),
    ],
    ids=repr,
)
@pytest.mark.parametrize("positive", [0, 1])
def test_labels_of_every_kind(classes, positive, rows, tmp_path):
    X, y = rows
    labels = np.asarray(classes)[y.astype(int)]
    pos_label = np.asarray(classes)[positive]
    clf = fitted(X, labels, pos_label=pos_label, goal="max f1")
    clf.save(tmp_path / "model")
    back = load(tmp_path / "model")
    assert_same(clf, back, X, labels)
    assert type(back.pos_label) is type(pos_label)


def test_column_names_are_kept(rows, tmp_path):
    X = pd.DataFrame(rows[0], columns=["größe", "b", "", "x" * 300, "e"])
    clf = fitted(X, rows[1])
    clf.save(tmp_path / "model")
    back = load(tmp_path / "model")
    assert_same(clf, back, X, rows[1])
    assert back.feature_names_in_.tolist() == list(X.columns)
    with pytest.raises(ValueError, match="feature names"):
        back.predict(X[["b", "größe", "", "x" * 300, "e"]])


def test_parameters_that_are_not_plain_are_listed_and_become_defaults(rows, tmp_path):
    X, y = rows
    clf = fitted(
        X,
        y,
        goal=Goal.parse(GOAL),
        solver=get_solver("cross_entropy"),
        validation=ShuffleSplit(1, random_state=3),
        callback=lambda record, n: None,
        random_state=np.random.RandomState(0),
        checkpoint=tmp_path / "checkpoint",
    )
    clf.save(tmp_path / "model")
    back = load(tmp_path / "model")
    assert_same(clf, back, X, y)
    lost = {"solver", "validation", "callback", "random_state"}
    assert {note.partition("=")[0] for note in back.load_notes_} == lost
    told = " ".join(back.load_notes_)
    assert "ShuffleSplit(" in told
    assert "callback=a function was not saved" in told
    assert "0x" not in told  # an address in memory, which is another one every time
    assert back.validation == "auto"
    assert back.solver == "projected"
    assert back.goal == GOAL
    assert back.checkpoint == str(tmp_path / "checkpoint")
    assert not hasattr(clone(back), "module_")


def test_a_loaded_model_can_be_fitted_again(linear, rows, tmp_path):
    linear.save(tmp_path / "model")
    back = load(tmp_path / "model").fit(*rows)
    assert_same(linear, back, *rows)


class Twisted(nn.Module):
    """A module with buffers, shared weights, and a name that a file must not look up."""

    def __init__(self, d, act=torch.tanh):
        super().__init__()
        self.norm = nn.BatchNorm1d(d)
        self.inner = nn.Linear(d, d)
        self.again = self.inner
        self.last = nn.Linear(d, 1)
        self.act = act

    def forward(self, X):
        return self.last(self.again(self.act(self.inner(self.norm(X)))))


@pytest.mark.parametrize("given", ["module", "factory", "lazy"])
def test_a_custom_module(given, rows, tmp_path):
    X, y = rows
    model = {
        "module": Twisted(5),
        "factory": Twisted,
        "lazy": lambda n: nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyLinear(1)),
    }[given]
    clf = fitted(X, y, model=model)
    clf.save(tmp_path / "model")
    back = load(tmp_path / "model", module=model)
    assert_same(clf, back, X, y)
    assert back.model is model
    assert not isinstance(model, nn.Module) or back.module_ is not model
    with pytest.raises(ModelFileError, match=r"(?s)load\(path, module=.*(Twisted|Lazy|Linear)"):
        load(tmp_path / "model")


def test_modules_that_do_not_fit(rows, linear, tmp_path):
    fitted(*rows, model=Twisted).save(tmp_path / "model")
    for module, message in {
        nn.Linear(5, 1): r"do not fit the module.*Missing key",
        Twisted(4): r"do not fit the module.*size mismatch",
        (lambda n: Twisted(n, torch.relu)): "scores differ from those of the saved model",
        (lambda n: 3): "factory returned int",
        7: "not 'linear'",
    }.items():
        with pytest.raises(SetpointError, match=f"(?s){message}"):
            load(tmp_path / "model", module=module)
    linear.save(tmp_path / "linear")
    with pytest.raises(ModelFileError, match="needs no module="):
        load(tmp_path / "linear", module=nn.Linear(5, 1))


def test_a_named_model_whose_module_was_replaced_is_custom(rows, tmp_path):
    clf = fitted(*rows, model=Twisted).set_params(model="linear")
    clf.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="custom torch module"):
        load(tmp_path / "model")


def test_modules_that_cannot_be_saved(rows, tmp_path):
    class Stateful(nn.Linear):
        def get_extra_state(self):
            return {"anything": object()}

        def set_extra_state(self, state):
            pass

    clf = fitted(*rows, model=lambda n: Stateful(n, 1))
    with pytest.raises(ModelFileError, match="_extra_state' is not a tensor"):
        clf.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_custom_metrics_must_be_defined_before_loading(rows, tmp_path):
    name = "gain_in_a_test"
    define_metric(name, lambda tp, fp, P, N: (5 * tp - fp) / (5 * P), bounds=(-1e9, 1.0))
    try:
        clf = fitted(*rows, goal=f"max {name}")
        clf.save(tmp_path / "model")
        assert_same(clf, load(tmp_path / "model"), *rows)
    finally:
        del _METRICS[name]
    with pytest.raises(ModelFileError, match=r"gain_in_a_test.*define_metric"):
        load(tmp_path / "model")


def test_only_fitted_models_of_this_package_are_saved(tmp_path):
    with pytest.raises(NotFittedError):
        SetpointClassifier().save(tmp_path / "model")
    for other in (LogisticRegression(), "text", None):
        with pytest.raises(ModelFileError, match="cannot be saved by setpoint"):
            save(other, tmp_path / "model")
    assert not (tmp_path / "model").exists()
