import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from problems import two_kinds
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import NotFittedError
from sklearn.metrics import make_scorer, recall_score
from sklearn.model_selection import (
    GridSearchCV,
    PredefinedSplit,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import parametrize_with_checks

from setpoint import (
    FPOR,
    InfeasibleGoalWarning,
    SetpointClassifier,
    SetpointError,
    UncertifiedWarning,
    choose_threshold,
    define_metric,
    load,
)
from setpoint.data.splits import certification_split
from setpoint.training import Lifted, LossTraining, Projected

QUICK = Lifted(outer_iterations=4, inner_iterations=5)


def stop_at_2(record, total):
    return "stop" if record.iteration == 2 else None


@pytest.fixture(scope="module")
def cancer():
    """Benign and malignant tumours, malignant (0) being the class to find."""
    return load_breast_cancer(return_X_y=True)


@pytest.fixture(scope="module")
def overlapping():
    rng = np.random.default_rng(0)
    y = rng.random(400) < 0.2
    return rng.normal(size=(400, 3)) + 1.3 * y[:, None], y.astype(int)


# The checks fit some hundred times and are about the interface: few steps will do.
FEW_STEPS = Projected(outer_iterations=4, inner_iterations=5, restarts=1, line_search=10_000)


@pytest.mark.filterwarnings("ignore")  # scikit-learn's checks provoke warnings on purpose
@parametrize_with_checks(
    [
        SetpointClassifier(solver=FEW_STEPS),
        SetpointClassifier("max recall s.t. precision >= 0.9", model="mlp", solver=QUICK),
        SetpointClassifier(solver="cross_entropy"),
    ]
)
def test_scikit_learn_compatibility(estimator, check, short_ordinary):
    check(estimator)


@pytest.mark.parametrize("solver", ["projected", "cross_entropy", QUICK], ids=["p", "c", "q"])
@pytest.mark.parametrize("pos_label", [0, 1])
def test_predictions_are_the_operating_point(cancer, solver, pos_label):
    X, y = cancer
    clf = SetpointClassifier(
        "max recall s.t. precision >= 0.99", solver=solver, pos_label=pos_label, validation=None
    ).fit(X, y)
    point = clf.operating_point_
    alarm, positive = clf.predict(X) == pos_label, y == pos_label
    assert (alarm & positive).sum() == point.tp
    assert (alarm & ~positive).sum() == point.fp
    assert (alarm == (clf.positive_scores(X) > point.threshold)).all()
    assert point.feasible
    assert point.precision >= 0.99
    # scikit-learn's conventions: the sign of decision_function and the larger probability decide.
    assert (clf.classes_[(clf.decision_function(X) > 0).astype(int)] == clf.predict(X)).all()
    assert (clf.classes_[clf.predict_proba(X).argmax(1)] == clf.predict(X)).all()
    assert clf.evaluate(X, y, on="the training rows") == point
    assert clf.certificate_ is None
    assert clf.history_.objective.max() == point.objective


def test_the_operating_point_is_the_exact_one(cancer):
    X, y = cancer
    clf = SetpointClassifier("max f1", validation=None).fit(X, y)
    assert clf.operating_point_.f1 == choose_threshold(y, clf.positive_scores(X), "max f1").f1


def test_string_labels_pandas_and_goal_objects(overlapping):
    X, y = overlapping
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    labels = pd.Series(np.where(y == 1, "fraud", "fine"))
    clf = SetpointClassifier(FPOR(0.8), solver=QUICK, pos_label="fraud", validation=None)
    clf.fit(frame, labels)
    assert set(clf.predict(frame)) <= {"fraud", "fine"}
    assert clf.feature_names_in_.tolist() == ["a", "b", "c"]
    assert clf.evaluate(frame, labels).tp == clf.operating_point_.tp
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(frame[["b", "a", "c"]])


def test_pipeline_grid_search_and_clone(overlapping):
    X, y = overlapping
    pipeline = make_pipeline(PolynomialFeatures(2), SetpointClassifier(solver=QUICK))
    search = GridSearchCV(
        pipeline,
        {
            "setpointclassifier__goal": ["max f1", "max recall s.t. precision >= 0.5"],
            "setpointclassifier__solver": [QUICK, "cross_entropy"],
        },
        scoring=make_scorer(recall_score),
        cv=2,
    ).fit(X, y)
    assert set(search.best_params_) == {"setpointclassifier__goal", "setpointclassifier__solver"}
    assert search.best_score_ > 0.4
    copy = clone(search.best_estimator_)
    assert copy.fit(X, y).predict(X).shape == y.shape
    scores = cross_val_predict(pipeline, X, y, method="decision_function", cv=2)
    assert choose_threshold(y, scores, "max f1").f1 > 0.4


def test_pickle_keeps_predictions(overlapping):
    X, y = overlapping
    clf = SetpointClassifier("max f1 s.t. fbeta(2) >= 0.3", solver=QUICK).fit(X, y)
    copy = pickle.loads(pickle.dumps(clf))
    assert (copy.decision_function(X) == clf.decision_function(X)).all()
    assert copy.operating_point_ == clf.operating_point_


@pytest.mark.usefixtures("without_cost_path")
def test_weights_are_repetitions(overlapping):
    X, y = overlapping
    weights = np.random.default_rng(0).integers(0, 4, len(y))
    clf = SetpointClassifier("max f1", solver=QUICK, validation=None)
    weighted = clone(clf).fit(X, y, sample_weight=weights)
    repeated = clone(clf).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert weighted.operating_point_.tp == repeated.operating_point_.tp
    np.testing.assert_allclose(
        weighted.positive_scores(X), repeated.positive_scores(X), rtol=1e-5, atol=1e-7
    )


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_of_the_features_is_kept(overlapping, dtype, standardize):
    X, y = overlapping
    clf = SetpointClassifier("max f1", solver=QUICK, standardize=standardize)
    clf.fit(X.astype(dtype), y)
    for other in (np.float32, np.float64, np.float16):  # new rows may come in any precision
        assert clf.decision_function(X.astype(other)).dtype == dtype


@pytest.mark.parametrize("scale", [1e-200, 1e-8, 1e8, 1e200])
def test_feature_scales_do_no_harm(overlapping, scale):
    X, y = overlapping
    clf = SetpointClassifier("max f1", solver=QUICK, random_state=0)
    plain, scaled = clone(clf).fit(X, y), clone(clf).fit(X * scale, y)
    assert scaled.operating_point_.f1 == pytest.approx(plain.operating_point_.f1, abs=0.01)


def test_constant_features_do_no_harm(overlapping):
    X, y = overlapping
    with_constants = np.column_stack([X, np.full(len(y), 7.0), np.zeros(len(y))])
    clf = SetpointClassifier("max f1", solver=QUICK, random_state=0).fit(with_constants, y)
    plain = SetpointClassifier("max f1", solver=QUICK, random_state=0).fit(X, y)
    assert clf.operating_point_.f1 == pytest.approx(plain.operating_point_.f1, abs=0.01)


def test_only_constant_features_still_give_an_answer(overlapping):
    _, y = overlapping
    clf = SetpointClassifier("max f1", solver=QUICK).fit(np.ones((len(y), 2)), y)
    assert clf.operating_point_.recall == 1.0  # all or nothing, and all is better


def test_without_standardizing(overlapping):
    X, y = overlapping
    clf = SetpointClassifier("max f1", solver=QUICK, standardize=False).fit(X, y)
    assert clf.operating_point_.f1 > 0.4


@pytest.mark.parametrize(
    "model",
    [
        "mlp",
        torch.nn.Linear(3, 1),
        lambda d: torch.nn.Sequential(
            torch.nn.Linear(d, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)
        ),
    ],
    ids=["mlp", "module", "factory"],
)
def test_models(overlapping, model, short_ordinary):
    X, y = overlapping
    before = None if not isinstance(model, torch.nn.Module) else model.weight.detach().clone()
    clf = SetpointClassifier("max f1", model=model, solver=QUICK, random_state=0).fit(X, y)
    assert clf.operating_point_.f1 > 0.5
    again = SetpointClassifier("max f1", model=model, solver=QUICK, random_state=0).fit(X, y)
    assert (clf.positive_scores(X) == again.positive_scores(X)).all()
    if before is not None:
        assert torch.equal(model.weight, before)  # the caller's module is not trained


def test_a_model_with_two_outputs(overlapping):
    X, y = overlapping
    with pytest.raises(SetpointError, match="one logit per row"):
        SetpointClassifier("max f1", model=torch.nn.Linear(3, 2)).fit(X, y)


def test_infeasible_goal_is_reported_not_hidden():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 2)), rng.random(300) < 0.3
    clf = SetpointClassifier("max f1 s.t. precision >= 0.95, recall >= 0.95", solver=QUICK)
    with pytest.warns(InfeasibleGoalWarning, match="is not met"):
        point = clf.fit(X, y).operating_point_
    assert not point.feasible
    assert "is not met" in point.message


@pytest.mark.parametrize(
    ("X", "y", "params", "expected"),
    [
        ([[1.0], [np.nan], [3.0]], [0, 1, 1], {}, "NaN"),
        ([[1.0], [np.inf], [3.0]], [0, 1, 1], {}, "infinity"),
        ([[1.0], [2.0], [3.0]], [1, 1, 1], {}, "only one class, "),
        ([[1.0], [2.0], [3.0]], [0, 0, 1], {}, "has 1 row of positive weight.* at least 2"),
        ([[1.0], [2.0], [3.0]], [0, 1, 2], {}, "Only binary.*labels are 0, 1, 2.*pos_label"),
        ([[1.0], [2.0], [3.0]], ["a", "b", "b"], {"pos_label": "c"}, "'c' is not in y.*'a', 'b'"),
        ([[1.0], [2.0], [3.0]], [0, 1, 1], {"goal": "max recal"}, "did you mean recall"),
        ([[1.0], [2.0], [3.0]], [0, 1, 1], {"solver": "x"}, "unknown solver"),
        ([[1.0], [2.0], [3.0]], [0, 1, 1], {"solver": None}, "neither a name .*nor a Solver"),
        ([[1.0], [2.0], [3.0]], [0, 1, 1], {"callback": 3}, "callback 3 cannot be called"),
        ([[1.0], [2.0], [3.0]], [0, 1, 1], {"checkpoint": "."}, r"checkpoint \. is a folder"),
        ([[1.0], [2.0], [3.0]], [0, 1, 1], {"model": torch.nn.Linear}, "factory, given 1, failed"),
        ([[1.0], [2.0], [3.0]], [0, 1, 1], {"model": "x"}, "model 'x'"),
        ([[1.0], [2.0]], [0, 1, 1], {}, "inconsistent numbers"),
    ],
)  # fmt: skip
def test_invalid_input(X, y, params, expected):
    with pytest.raises(ValueError, match=expected):
        SetpointClassifier(**params).fit(X, y)


def test_weights_must_leave_two_positives():
    X, y = [[1.0], [2.0], [3.0], [4.0]], [0, 0, 1, 1]
    with pytest.raises(SetpointError, match="class 1 has 1 row"):
        SetpointClassifier().fit(X, y, sample_weight=[1, 1, 1, 0])
    with pytest.raises(ValueError, match="[Nn]egative"):
        SetpointClassifier().fit(X, y, sample_weight=[1, 1, 1, -1])


def test_not_fitted():
    with pytest.raises(NotFittedError):
        SetpointClassifier().predict([[1.0]])
    with pytest.raises(NotFittedError):
        SetpointClassifier().evaluate([[1.0]], [1])


def test_callback_and_checkpoint_reach_the_loop(overlapping, tmp_path):
    X, y = overlapping
    seen = []
    params = {"solver": QUICK, "random_state": 0, "checkpoint": tmp_path / "fit.ckpt"}
    stopped = SetpointClassifier(callback=stop_at_2, **params).fit(X, y)
    assert stopped.history_.interrupted
    resumed = SetpointClassifier(callback=lambda r, n: seen.append((r.iteration, n)), **params)
    resumed.fit(X, y)
    assert seen == [(3, 4), (4, 4)]
    straight = SetpointClassifier(solver=QUICK, random_state=0).fit(X, y)
    assert (resumed.positive_scores(X) == straight.positive_scores(X)).all()


@pytest.mark.parametrize("pos_label", [0, 1])
def test_predicting_nothing_is_consistent(pos_label):
    """All three ways to a decision agree where the best is to raise no alarm at all."""
    X = np.linspace(-1, 1, 31)[:, None]
    y = np.where(np.abs(X[:, 0]) < 0.3, pos_label, 1 - pos_label)  # negatives at both ends
    clf = SetpointClassifier(FPOR(0.95), solver=QUICK, pos_label=pos_label)
    with pytest.warns(InfeasibleGoalWarning, match="nothing is predicted positive"):
        clf.fit(X, y)
    assert clf.operating_point_.empty
    assert (clf.predict(X) != pos_label).all()
    assert (clf.classes_[(clf.decision_function(X) > 0).astype(int)] != pos_label).all()
    assert (clf.classes_[clf.predict_proba(X).argmax(1)] != pos_label).all()


def test_the_steps_of_a_decision_can_be_served_elsewhere(cancer):
    X, y = cancer
    clf = SetpointClassifier("max f1", solver=QUICK).fit(X, y)
    Z = torch.from_numpy(clf.standardizer_.transform(X))
    with torch.no_grad():
        decided = clf.module_(Z).squeeze(1) > clf.logit_threshold_
    assert (decided.numpy() == (clf.predict(X) == 1)).all()


def test_training_for_a_custom_metric(overlapping):
    X, y = overlapping
    define_metric(
        "own_precision", lambda tp, fp, P, N: np.where(tp + fp > 0, tp / np.maximum(tp + fp, 1), 1)
    )
    clf = SetpointClassifier("max own_precision s.t. recall >= 0.5", solver=QUICK).fit(X, y)
    assert clf.operating_point_.value("own_precision") == clf.operating_point_.precision
    assert clf.history_.column("own_precision").max() > 0.3
    half = PredefinedSplit(np.where(np.arange(len(y)) % 2, 0, -1))
    results = cross_val_score(clf, X, y, cv=half, n_jobs=2)  # in a worker that does not know it
    assert np.isfinite(results).all()


def test_one_class_can_be_evaluated(overlapping):
    X, y = overlapping
    clf = SetpointClassifier("max f1", solver=QUICK, validation=None).fit(X, y)
    point = clf.evaluate(X[y == 0], y[y == 0])
    assert point.fp == clf.operating_point_.fp
    assert clf.evaluate(X, pd.DataFrame({"y": y})).tp == clf.operating_point_.tp


def test_weights_must_be_of_a_size_to_add_up(overlapping):
    X, y = overlapping
    for scale in (1e-300, 1e300):
        with pytest.raises(SetpointError, match="rescale it to about 1"):
            SetpointClassifier(solver=QUICK).fit(X, y, np.full(len(y), scale))


def test_a_failed_fit_leaves_the_old_model_usable(overlapping):
    X, y = overlapping
    clf = SetpointClassifier("max f1", solver=QUICK).fit(X, y)
    before = clf.predict(X)
    with pytest.raises(ValueError, match="NaN"):
        clf.fit(np.full((len(y), 3), np.nan), y)
    assert (clf.predict(X) == before).all()
    clf.set_params(model=torch.nn.Linear(3, 2))
    with pytest.raises(SetpointError, match="one logit"):
        clf.fit(X * 5, np.where(y == 1, "b", "a"))
    assert (clf.predict(X) == before).all()


def test_unknown_labels_cannot_be_evaluated(overlapping):
    X, y = overlapping
    clf = SetpointClassifier("max f1", solver=QUICK).fit(X, np.where(y == 1, "fraud", "fine"))
    with pytest.raises(SetpointError, match=r"labels 'FRAUD', which were not there.*'fine'"):
        clf.evaluate(X, np.where(y == 1, "FRAUD", "fine"))


def test_without_random_state_numpys_global_seed_decides(overlapping, short_ordinary):
    X, y = overlapping

    def dropout(n_features):
        return torch.nn.Sequential(
            torch.nn.Linear(n_features, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1)
        )

    def fit():
        np.random.seed(0)  # noqa: NPY002 (scikit-learn's convention is the subject)
        return SetpointClassifier("max f1", model=dropout, solver=QUICK).fit(X, y)

    assert (fit().positive_scores(X) == fit().positive_scores(X)).all()


def test_solver_objects_are_parameters(overlapping):
    X, y = overlapping
    clf = SetpointClassifier(solver=LossTraining(l2=100.0))
    assert clone(clf).get_params()["solver"] == LossTraining(l2=100.0)
    assert clf.fit(X, y).operating_point_.f1 > 0.4


def test_the_validation_rows_set_the_threshold_and_choose_the_model(overlapping):
    X, y = overlapping
    fold = np.where(np.arange(len(y)) % 4 == 0, 0, -1)
    clf = SetpointClassifier("max f1", validation=PredefinedSplit(fold), random_state=0).fit(X, y)
    point = clf.candidates_.winner.point
    assert point.on == "the validation rows"
    assert clf.evaluate(X[fold == 0], y[fold == 0]).counts == point.counts
    ordinary = max(c.point.f1 for c in clf.candidates_ if c.start is None)
    assert ordinary <= point.f1 <= max(c.point.f1 for c in clf.candidates_)
    assert clf.candidates_[0].name == "logistic regression, ridge 10000"
    # no validation row influences how features are scaled
    scaled = clf.standardizer_.transform(X[fold == -1])
    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-12)


def test_selection_can_be_turned_off(overlapping):
    X, y = overlapping
    clf = SetpointClassifier("max f1", validation=None, random_state=0).fit(X, y)
    assert clf.operating_point_.on == "the training rows"
    assert clf.operating_point_.tp + clf.operating_point_.fn == y.sum()
    assert clf.operating_point_.f1 == max(c.point.f1 for c in clf.candidates_)


def test_groups_stay_together(overlapping):
    X, y = overlapping
    groups = np.arange(len(y)) // 4
    told = SetpointClassifier("max f1", random_state=0).fit(X, y, groups=groups)
    size = sum(told.operating_point_.counts[2:])
    assert size == pytest.approx(100, abs=15)
    with pytest.raises(SetpointError, match="groups must hold one entry per row"):
        SetpointClassifier("max f1").fit(X, y, groups=groups[:5])


@pytest.mark.parametrize("solver", ["projected", "cross_entropy", QUICK], ids=["p", "c", "q"])
@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_the_winner_can_be_refitted_on_all_rows(overlapping, solver, model, short_ordinary):
    X, y = overlapping
    if (solver, model) == ("projected", "mlp"):
        solver = Projected(outer_iterations=4, inner_iterations=10)
    params = {"solver": solver, "model": model, "random_state": 0}
    held, all_rows = (
        SetpointClassifier("max f1", refit=refit, **params).fit(X, y) for refit in (False, True)
    )
    assert held.candidates_ == all_rows.candidates_
    assert all_rows.operating_point_.on == "the training rows"
    assert all_rows.operating_point_.tp + all_rows.operating_point_.fn == y.sum()
    assert len(all_rows.history_) == all_rows.candidates_.winner.iteration + 1
    assert all_rows.operating_point_.f1 > 0.5
    assert all_rows.operating_point_.f1 >= all_rows.history_[0].objective - 1e-9
    assert (held.positive_scores(X) != all_rows.positive_scores(X)).any()


def test_same_seed_same_result(overlapping):
    X, y = overlapping
    first, second = (SetpointClassifier("max f1", random_state=3).fit(X, y) for _ in range(2))
    assert (first.positive_scores(X) == second.positive_scores(X)).all()
    assert first.candidates_ == second.candidates_


def test_an_interrupted_fit_without_a_seed_continues(overlapping, tmp_path):
    X, y = overlapping
    params = {"solver": QUICK, "checkpoint": tmp_path / "fit.ckpt"}
    SetpointClassifier(callback=stop_at_2, **params).fit(X, y)
    seen = []
    SetpointClassifier(callback=lambda r, n: seen.append(r.iteration), **params).fit(X, y)
    assert seen == [3, 4]


def test_an_interrupted_refit_continues(tmp_path):
    problem = two_kinds(FPOR(0.8))
    X, y = problem.X.numpy(), problem.positive.numpy()
    solver = Projected(outer_iterations=6, inner_iterations=10)
    params = {"goal": FPOR(0.8), "solver": solver, "refit": True, "random_state": 0}
    straight = SetpointClassifier(**params).fit(X, y)
    last = straight.candidates_.winner.iteration
    assert last > 1
    calls = []

    def stop_in_the_refit(record, total):
        calls.append(record.iteration)
        return "stop" if len(calls) == 9 else None  # seven looks to select, then two of the refit

    params["checkpoint"] = tmp_path / "fit.ckpt"
    with pytest.warns(InfeasibleGoalWarning):  # hardly begun
        stopped = SetpointClassifier(callback=stop_in_the_refit, **params).fit(X, y)
    assert stopped.history_.interrupted
    assert len(stopped.history_) == 2
    resumed = SetpointClassifier(**params).fit(X, y)
    assert (resumed.positive_scores(X) == straight.positive_scores(X)).all()


def test_a_refit_of_another_winner_ignores_the_old_checkpoint(overlapping, tmp_path):
    X, y = overlapping
    solver = Projected(outer_iterations=5, inner_iterations=10)
    params = {"goal": "max f1", "solver": solver, "refit": True, "random_state": 0}
    file = tmp_path / "fit.ckpt"
    for share in (0.2, 0.25, 0.3, 0.4):
        kept = SetpointClassifier(validation=share, checkpoint=file, **params).fit(X, y)
        fresh = SetpointClassifier(validation=share, **params).fit(X, y)
        assert (kept.positive_scores(X) == fresh.positive_scores(X)).all()


def test_a_refit_trains_as_the_selection_did():
    rng = np.random.default_rng(0)
    y = rng.random(2400) < 0.2  # 1,800 rows select, 2,400 refit
    X = rng.normal(size=(2400, 3)) + y[:, None]
    clf = SetpointClassifier("max f1", refit=True, random_state=1).fit(X, y)
    assert len(clf.history_) == clf.candidates_.winner.iteration + 1
    assert clf.candidates_.winner.iteration > 0
    lam = clf.history_.lam[-1]
    assert lam == pytest.approx(1000 ** (clf.candidates_.winner.iteration / 8))


def test_probabilities_decide_as_predictions_do_however_small_the_scores(overlapping):
    X, y = overlapping
    for pos_label in (0, 1):
        clf = SetpointClassifier("max f1", solver=QUICK, standardize=False, pos_label=pos_label)
        clf.fit(X * 1e-12, y)
        decided = clf.classes_[clf.predict_proba(X * 1e-12).argmax(1)]
        assert (decided == clf.predict(X * 1e-12)).all()


@pytest.fixture(scope="module")
def many():
    """Enough rows for a certificate."""
    rng = np.random.default_rng(0)
    y = rng.random(900) < 0.3
    return rng.normal(size=(900, 3)) + 1.3 * y[:, None], y.astype(int)


class TestConfidence:
    """What a certificate changes; what both estimators share is in test_certification.py."""

    GOAL = "max recall s.t. precision >= 0.6"

    def parts(self, y, clf, *, groups=None, unseeded=False):
        """The rows that training saw, and those that certify."""
        seed = np.random.RandomState(clf.random_state).randint(2**31 - 1)
        seed = 0 if unseeded else int(seed)
        return certification_split(clf.certification, y == clf.pos_label_, None, groups, seed)

    @pytest.mark.parametrize(
        "params",
        [
            {},
            {"validation": None},
            {"refit": True},
            {"validation": 0.4, "standardize": False},
            {"validation": PredefinedSplit(np.where(np.arange(900) % 3 == 0, 0, -1))},
            {"solver": "cross_entropy"},
        ],
        ids=str,
    )
    def test_training_does_not_see_the_certification_rows(self, many, params):
        """With other features and labels there, the same model comes out."""
        X, y = many
        params = {"solver": QUICK, "confidence": 0.9, "random_state": 0, **params}
        clf = SetpointClassifier(self.GOAL, **params).fit(X, y)
        seen, rows = self.parts(y, clf)
        assert len(rows) == 270
        assert sum(clf.operating_point_.counts[2:]) == 270
        X, y = X.copy(), y.copy()
        X[rows] = 1e3 * np.random.default_rng(1).normal(size=(270, 3))
        y[rows] = np.arange(270) < 20
        other = SetpointClassifier(self.GOAL, **params)
        with pytest.warns(UncertifiedWarning):
            other.fit(X, y)
        mine, its = clf.module_.state_dict(), other.module_.state_dict()
        assert all(torch.equal(mine[name], its[name]) for name in mine)
        assert clf.candidates_ == other.candidates_
        assert clf.history_.to_dict() == other.history_.to_dict()
        if clf.standardizer_ is not None:
            scaled = clf.standardizer_.transform(X[seen])
            assert (scaled == other.standardizer_.transform(X[seen])).all()

    def test_rows_chosen_for_validation_do_not_certify(self, many):
        X, y = many
        fold = np.where(np.arange(900) % 3 == 0, 0, -1)
        held = np.where(np.arange(900) % 3 == 1, 0, -1)
        clf = SetpointClassifier(
            self.GOAL, solver=QUICK, confidence=0.9, random_state=0,
            validation=PredefinedSplit(fold), certification=PredefinedSplit(held),
        ).fit(X, y)  # fmt: skip
        assert sum(clf.candidates_.winner.point.counts[2:]) == 300
        assert sum(clf.operating_point_.counts[2:]) == 300
        assert clf.evaluate(X[held == 0], y[held == 0]).counts == clf.operating_point_.counts
        # what is left trains
        kept = (fold == -1) & (held == -1)
        np.testing.assert_allclose(
            clf.standardizer_.transform(X[kept]).mean(axis=0), 0.0, atol=1e-12
        )

    def test_a_refit_takes_all_rows_that_do_not_certify(self, many):
        X, y = many
        params = {"solver": QUICK, "confidence": 0.9, "random_state": 0}
        clf = SetpointClassifier(self.GOAL, refit=True, **params).fit(X, y)
        seen, rows = self.parts(y, clf)
        np.testing.assert_allclose(
            clf.standardizer_.transform(X[seen]).mean(axis=0), 0.0, atol=1e-12
        )
        assert clf.operating_point_.on == "the certification rows"
        assert clf.evaluate(X[rows], y[rows]).counts == clf.operating_point_.counts

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("pos_label", [0, 1])
    @pytest.mark.parametrize("goal", [GOAL, "max precision s.t. recall >= 0.6", "max f1"])
    def test_decisions_are_the_counts_to_the_last_row(self, many, dtype, pos_label, goal):
        """All ways to a decision agree, in the precision of the features."""
        X, y = many
        X = X.round(1).astype(dtype)  # so that many scores are equal or nearly so
        clf = SetpointClassifier(
            goal, solver=QUICK, confidence=0.9, random_state=0, pos_label=pos_label
        ).fit(X, y)
        assert clf.certificate_.certified
        assert clf.certificate_.threshold == clf.operating_point_.threshold == 0.0
        _, rows = self.parts(y, clf)
        X, y = X[rows], y[rows]
        assert clf.positive_scores(X).dtype == dtype
        Z = torch.from_numpy(clf.standardizer_.transform(X).astype(dtype))
        with torch.no_grad():
            logits = clf.module_(Z).squeeze(1).numpy().astype(np.float64)
        positive, point = y == pos_label, clf.operating_point_
        for alarm in (
            clf.predict(X) == pos_label,
            clf.positive_scores(X) > clf.certificate_.threshold,
            clf.classes_[(clf.decision_function(X) > 0).astype(int)] == pos_label,
            clf.classes_[clf.predict_proba(X).argmax(1)] == pos_label,
            logits > clf.logit_threshold_,
        ):
            assert (alarm & positive).sum() == point.tp
            assert (alarm & ~positive).sum() == point.fp

    def test_groups_do_not_train_where_they_certify(self, many):
        X, y = many
        groups = np.random.default_rng(0).integers(0, 300, len(y))
        clf = SetpointClassifier(
            "max precision s.t. recall >= 0.4", solver=QUICK, confidence=0.9, random_state=0
        ).fit(X, y, groups=groups)
        seen, rows = self.parts(y, clf, groups=groups)
        assert len(set(groups[rows])) == len(rows)
        assert not set(groups[rows]) & set(groups[seen])
        assert sum(clf.operating_point_.counts[2:]) == len(rows)
        assert clf.evaluate(X[rows], y[rows]).counts == clf.operating_point_.counts

    @pytest.mark.parametrize("random_state", [0, None])
    @pytest.mark.parametrize("refit", [False, True])
    def test_an_interrupted_fit_continues_to_the_same_certificate(
        self, many, tmp_path, random_state, refit
    ):
        X, y = many
        params = {
            "goal": self.GOAL, "solver": QUICK, "confidence": 0.9, "refit": refit,
            "random_state": random_state,
        }  # fmt: skip
        file = tmp_path / "fit.ckpt"
        stopped = SetpointClassifier(callback=stop_at_2, checkpoint=file, **params).fit(X, y)
        assert stopped.history_.interrupted
        assert stopped.certificate_ is not None
        seen = []
        resumed = SetpointClassifier(
            callback=lambda r, n: seen.append(r.iteration), checkpoint=file, **params
        ).fit(X, y)
        assert seen[:2] == [3, 4]
        _, rows = self.parts(y, resumed, unseeded=random_state is None)
        assert resumed.evaluate(X[rows], y[rows]).counts == resumed.operating_point_.counts
        straight = SetpointClassifier(
            **params, checkpoint=None if random_state == 0 else tmp_path / "other.ckpt"
        ).fit(X, y)
        assert resumed.certificate_ == straight.certificate_
        assert (resumed.positive_scores(X) == straight.positive_scores(X)).all()

    def test_it_survives_clone_and_pickle(self, many):
        X, y = many
        clf = SetpointClassifier(self.GOAL, solver=QUICK, confidence=0.9, random_state=0)
        assert clone(clf).get_params()["confidence"] == 0.9
        copy = pickle.loads(pickle.dumps(clf.fit(X, y)))
        assert copy.certificate_ == clf.certificate_
        assert (copy.predict(X) == clf.predict(X)).all()

    def test_a_failed_fit_leaves_the_old_certificate(self, many):
        X, y = many
        clf = SetpointClassifier(self.GOAL, solver=QUICK, confidence=0.9, random_state=0)
        before = clf.fit(X, y).certificate_
        decided = clf.predict(X)
        for params, given in (
            ({"confidence": 2.0}, {}),
            ({"certification": 7}, {}),
            ({"model": torch.nn.Linear(3, 2)}, {}),
            ({}, {"sample_weight": 1.0 + y}),
        ):
            with pytest.raises(SetpointError):
                clone(clf).set_params(**params).fit(X, y, **given)
            original = clf.get_params()
            with pytest.raises(SetpointError):
                clf.set_params(**params).fit(X, y, **given)
            clf.set_params(**original)
            assert clf.certificate_ is before
            assert (clf.predict(X) == decided).all()


class TestDevice:
    def test_the_default_is_the_cpu_where_a_linear_model_has_few_rows(self, overlapping):
        X, y = overlapping
        clf = SetpointClassifier(solver=FEW_STEPS, random_state=0)
        assert clf.get_params()["device"] == "auto"
        found = [
            clone(clf).set_params(device=device).fit(X, y)
            for device in ("auto", "cpu", torch.device("cpu"))
        ]
        for other in found[1:]:
            assert torch.equal(other.module_.weight, found[0].module_.weight)
            assert other.logit_threshold_ == found[0].logit_threshold_
            assert other.operating_point_ == found[0].operating_point_
            assert other.candidates_ == found[0].candidates_

    @pytest.mark.parametrize("device", ["cuda:1", torch.device("cuda", 1)])
    def test_it_is_a_parameter_like_others(self, device):
        clf = SetpointClassifier(device=device)
        for copy in (clone(clf), pickle.loads(pickle.dumps(clf))):
            assert copy.device == device

    @pytest.mark.parametrize(
        ("device", "expected"),
        [
            ("cuda", "requests a GPU, but torch finds none"),
            ("gpu", "device 'gpu' is not 'auto'"),
            ("mps", "not supported"),
        ],
    )
    def test_a_missing_device_is_found_before_any_work(self, device, expected, monkeypatch):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        clf = SetpointClassifier(device=device)
        with pytest.raises(SetpointError, match=expected):
            clf.fit("no rows at all", None)
        with pytest.raises(SetpointError, match=expected):
            clf.fit_stream("no source at all")

    def test_a_saved_model_can_be_loaded_where_there_is_no_gpu(self, overlapping, tmp_path):
        X, y = overlapping
        clf = SetpointClassifier(solver=FEW_STEPS).fit(X, y)
        for device, kept in (("cuda:1", "cuda:1"), (torch.device("cuda:1"), "auto")):
            clf.set_params(device=device).save(tmp_path / "m.zip")
            loaded = load(tmp_path / "m.zip")
            assert loaded.device == kept
            assert (loaded.predict(X) == clf.predict(X)).all()

    @pytest.mark.parametrize("confidence", [None, 0.9])
    def test_warnings_name_the_line_that_called_fit(self, overlapping, confidence):
        X, y = overlapping
        clf = SetpointClassifier(
            "max f1 s.t. recall >= 0.99, precision >= 0.99",
            solver=FEW_STEPS,
            confidence=confidence,
            random_state=0,
        )
        with pytest.warns((InfeasibleGoalWarning, UncertifiedWarning)) as told:
            clf.fit(X, y)
        assert {Path(w.filename).name for w in told} == {Path(__file__).name}


class TestCaution:
    """Constraints that hold on new rows are worth some of the objective."""

    GOAL = "max recall s.t. precision >= 0.6"
    PARAMETERS = {"goal": GOAL, "solver": "cross_entropy", "random_state": 0}  # noqa: RUF012

    def fit(self, rows, **parameters):
        return SetpointClassifier(**{**self.PARAMETERS, **parameters}).fit(*rows)

    @pytest.mark.parametrize("caution", [-0.1, float("nan"), float("inf"), "much", None, True])
    def test_it_is_a_number_that_is_not_negative(self, overlapping, caution):
        with pytest.raises(SetpointError, match="caution must be a number >= 0"):
            self.fit(overlapping, caution=caution)

    def test_without_it_the_threshold_is_the_best_on_the_validation_rows(self, overlapping):
        clf = self.fit(overlapping, caution=0)
        best = choose_threshold(*clf._threshold_rows, self.GOAL)
        assert clf.candidates_.winner.point.counts == best.counts
        assert clf.evaluate(*self.validation_rows(clf, overlapping)).counts == best.counts

    def validation_rows(self, clf, rows):
        """Return the rows whose scores set the threshold."""
        positive, scores = clf._threshold_rows
        every = clf.positive_scores(rows[0])
        at = [int(np.flatnonzero(every == s)[0]) for s in scores]
        assert (rows[1][at] == positive).all()
        return rows[0][at], rows[1][at]

    def test_some_of_the_objective_is_given_up_for_precision(self, overlapping):
        bold, careful = (self.fit(overlapping, caution=c) for c in (0, 1))
        one, other = (clf.candidates_.winner.point for clf in (bold, careful))
        assert other.feasible
        assert other.precision > one.precision
        assert one.recall - 0.5 <= other.recall <= one.recall

    def test_the_operating_point_is_an_estimate_for_new_rows(self, overlapping):
        """Each half of the validation rows is counted at the other one's threshold."""
        clf = self.fit(overlapping)
        point, counted = clf.operating_point_, clf.candidates_.winner.point
        assert point.on == "the validation rows (cross-fitted)"
        assert point.threshold == 0.0
        assert point.counts[2:] == counted.counts[2:]
        assert point.counts != counted.counts
        assert "(cross-fitted)" in str(point)

    def test_it_is_not_optimistic_on_average(self):
        """Labels are noise: whatever precision validation rows show above 0.25 is luck."""
        counted, estimated = [], []
        for seed in range(8):
            rng = np.random.default_rng(seed)
            rows = rng.normal(size=(800, 3)), np.arange(800) % 4 == 0
            clf = self.fit(rows, goal="max precision s.t. recall >= 0.3")
            counted.append(clf.candidates_.winner.point.precision)
            estimated.append(clf.operating_point_.precision)
        assert np.mean(counted) > 0.28
        assert np.mean(estimated) == pytest.approx(0.25, abs=0.03)

    def test_a_warning_needs_a_goal_that_is_missed_on_the_validation_rows(self, overlapping):
        """The estimate may miss it, without a warning: pytest raises warnings as errors."""
        goals = [f"max recall s.t. precision >= {level}" for level in (0.5, 0.6, 0.7, 0.8)]
        fitted = [self.fit(overlapping, goal=goal) for goal in goals]
        assert all(clf.candidates_.winner.point.feasible for clf in fitted)
        assert not all(clf.operating_point_.feasible for clf in fitted)
        with pytest.warns(InfeasibleGoalWarning, match="On the validation rows the goal"):
            self.fit(overlapping, goal="max recall s.t. precision >= 0.99, recall >= 0.9")

    @pytest.mark.parametrize("others", [{"validation": None}, {"refit": True}])
    def test_training_rows_have_none(self, overlapping, others):
        clf = self.fit(overlapping, caution=0.5, **others)
        best = choose_threshold(overlapping[1], clf.positive_scores(overlapping[0]), self.GOAL)
        assert clf.operating_point_.counts == best.counts
        assert clf.operating_point_.on == "the training rows"

    @pytest.mark.filterwarnings("ignore::setpoint.UncertifiedWarning")
    def test_certificates_do_not_depend_on_it(self, overlapping):
        one, other = (self.fit(overlapping, caution=c, confidence=0.8) for c in (0, 1))
        assert one.certificate_ == other.certificate_
        assert one.candidates_ == other.candidates_

    def test_two_rows_of_a_class_are_enough_and_one_is_counted_as_it_is(self, overlapping):
        _, y = overlapping
        positives, negatives = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
        for count, on in ((2, "the validation rows (cross-fitted)"), (1, "the validation rows")):
            held_out = np.full(len(y), -1)
            held_out[[*positives[:count], *negatives[:50]]] = 0
            clf = self.fit(overlapping, goal="max f1", validation=PredefinedSplit(held_out))
            assert clf.operating_point_.on == on

    def test_weights_count_as_they_are(self, overlapping):
        """Rows of the same weight are as many rows, whatever the weight is."""
        X, y = overlapping
        plain = self.fit(overlapping)
        scaled = SetpointClassifier(**self.PARAMETERS).fit(X, y, sample_weight=np.full(len(y), 4.0))
        assert scaled.operating_point_.precision == pytest.approx(plain.operating_point_.precision)
        assert scaled.operating_point_.tp == pytest.approx(4 * plain.operating_point_.tp)

    def test_files_keep_it_and_what_won(self, overlapping, tmp_path):
        clf = self.fit(overlapping, caution=0.3)
        clf.save(tmp_path / "model")
        back = load(tmp_path / "model")
        assert back.caution == 0.3
        assert back.operating_point_ == clf.operating_point_
        assert back.candidates_.winner.name == clf.candidates_.winner.name
        keys = [[c.sort_key for c in x.candidates_] for x in (back, clf)]
        assert keys[0] == keys[1]

    def test_checkpoints_keep_it(self, overlapping, tmp_path):
        params = {"solver": QUICK, "checkpoint": tmp_path / "fit.ckpt"}
        first = self.fit(overlapping, callback=stop_at_2, **params)
        resumed = self.fit(overlapping, **params)
        straight = self.fit(overlapping, solver=QUICK)
        assert first.history_.interrupted
        assert resumed.candidates_ == straight.candidates_
        assert [c.sort_key for c in resumed.candidates_] == [
            c.sort_key for c in straight.candidates_
        ]
        assert resumed.operating_point_ == straight.operating_point_
        other = self.fit(overlapping, caution=0, **params)  # the finished run is another one
        assert other.candidates_ == self.fit(overlapping, caution=0, solver=QUICK).candidates_
