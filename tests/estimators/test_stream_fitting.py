"""Classifiers on streams."""

import warnings
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import torch
from sklearn.model_selection import StratifiedKFold
from torch.utils.data import DataLoader, TensorDataset

from setpoint import (
    Goal,
    InfeasibleGoalWarning,
    SetpointClassifier,
    SetpointError,
    choose_threshold,
)
from setpoint.data import ArrayRows, ByChance, LoaderRows, ParquetRows
from setpoint.data.splits import CERTIFICATION, VALIDATION
from setpoint.errors import UncertifiedWarning
from setpoint.thresholds.caution import Cautious, row_weights_of
from setpoint.thresholds.choose import best_point
from setpoint.training import Projected, Stochastic

SMALL = Stochastic(
    outer_iterations=2, inner_iterations=5, batch_size=256, rows=1000, restarts=0, proximity=(0.0,)
)
GOAL = "max recall s.t. precision >= 0.6"


@cache
def table(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.15
    z = rng.normal(size=(n, 3)) + y[:, None] * [2.0, 1.0, 0.0]
    X = z * [1.0, 50.0, 1e-3] + [0.0, 1e4, 0.0]
    return X.astype(np.float32), y


def classifier(**given):
    return SetpointClassifier(**{"goal": GOAL, "solver": SMALL, "random_state": 0, **given})


def sets_of(source, clf, validation, certification=0.0):
    """Return the set of each row, as in a fit."""
    seed = int(np.random.RandomState(clf.random_state).randint(2**31 - 1))
    split = ByChance(validation, certification, seed=seed)
    return torch.cat([split(block) for block in source.blocks()]).numpy()


@cache
def fitted():
    return classifier().fit_stream(ArrayRows(*table(), block_rows=256))


def best_cautious(y, scores, caution, row_weights=(1.0, 1.0), weight=None):
    ranking = Cautious(Goal.parse(GOAL), caution, row_weights)
    return best_point(y, scores, weight, ranking, ranking.goal, "here")


def test_a_threshold_without_caution_is_the_best_on_the_validation_rows():
    X, y = table()
    clf = classifier(caution=0).fit_stream(ArrayRows(X, y))
    held_out = sets_of(ArrayRows(X, y), clf, 0.25) == VALIDATION
    expected = choose_threshold(y[held_out], clf.positive_scores(X[held_out]), GOAL)
    assert clf.operating_point_.counts == expected.counts


def test_caution_knows_the_weights_of_the_validation_rows():
    (X, y), (X2, y2) = table(), table(800, 1)
    weight = np.where(np.arange(800) % 2 == 0, 1.0, 3.0)
    validation = ArrayRows(X2, y2, sample_weight=weight)
    clf = classifier().fit_stream(ArrayRows(X, y), validation)
    sizes = row_weights_of(y2, weight)
    assert sizes == pytest.approx((2.5, 2.5), abs=0.1)
    expected = best_cautious(y2, clf.positive_scores(X2), 0.2, sizes, weight)
    assert clf.operating_point_.counts == expected.counts


def test_the_threshold_is_exact_on_the_validation_rows():
    X, y = table()
    clf = fitted()
    held_out = sets_of(ArrayRows(X, y), clf, 0.25) == VALIDATION
    assert 600 < held_out.sum() < 900
    scores = clf.positive_scores(X[held_out])
    expected = best_cautious(y[held_out], scores, 0.2)
    assert expected.recall < choose_threshold(y[held_out], scores, GOAL).recall
    assert clf.operating_point_.counts == expected.counts
    assert clf.operating_point_.threshold == 0.0
    assert clf.operating_point_.on == "the validation rows"
    assert clf.evaluate(X[held_out], y[held_out]).counts == expected.counts
    assert clf.operating_point_.feasible
    assert clf.operating_point_.recall > 0.5


def test_attributes_of_a_fitted_classifier():
    X, y = table()
    clf = fitted()
    assert clf.classes_.tolist() == [False, True]
    assert clf.n_features_in_ == 3
    assert not hasattr(clf, "feature_names_in_")
    assert clf.certificate_ is None
    assert len(clf.history_) == 3
    assert clf.candidates_.winner.point.on == "the validation rows"
    assert clf.positive_scores(X).dtype == np.float32
    assert (clf.predict(X) == (clf.positive_scores(X) > 0)).all()
    assert clf.score(X, y) > 0.85


def test_the_same_seed_is_the_same_fit():
    again = classifier().fit_stream(ArrayRows(*table(), block_rows=256))
    assert torch.equal(again.module_.weight, fitted().module_.weight)
    assert again.logit_threshold_ == fitted().logit_threshold_
    assert again.candidates_ == fitted().candidates_


def test_parquet_files_name_their_features_and_labels(tmp_path):
    X, y = table()
    columns = {"a": X[:, 0], "größe": X[:, 1], "c": X[:, 2]}
    label = np.where(y, "fraud", "fine")
    pa.parquet.write_table(pa.table({**columns, "what": label}), tmp_path / "t.parquet", 300)
    clf = classifier().fit_stream(ParquetRows(tmp_path, "what", positive="fraud"))
    assert clf.feature_names_in_.tolist() == ["a", "größe", "c"]
    assert clf.classes_.tolist() == ["fine", "fraud"]
    assert clf.pos_label_ == "fraud"
    assert clf.operating_point_.recall == pytest.approx(fitted().operating_point_.recall, abs=0.05)
    import pandas as pd

    frame = pd.DataFrame(columns)
    assert set(clf.predict(frame)) == {"fine", "fraud"}
    with pytest.raises(ValueError, match="feature names"):
        clf.predict(frame[["c", "a", "größe"]])
    clf.fit_stream(ArrayRows(X, y))  # and nothing is left of the names
    assert not hasattr(clf, "feature_names_in_")


def test_the_smaller_label_may_be_the_positive_one():
    X, y = table()
    clf = classifier().fit_stream(ArrayRows(X, np.where(y, -1, 1), pos_label=-1, block_rows=256))
    assert clf.classes_.tolist() == [-1, 1]
    assert clf.pos_label_ == -1
    assert clf.operating_point_.counts == fitted().operating_point_.counts
    assert (clf.predict(X) == np.where(clf.positive_scores(X) > 0, -1, 1)).all()


def test_a_loader_with_a_validation_source():
    (X, y), (X2, y2) = table(), table(800, 1)
    loader = LoaderRows([(X[i : i + 500], y[i : i + 500]) for i in range(0, 3000, 500)])
    validation = ArrayRows(X2, y2)
    clf = classifier(standardize=False).fit_stream(loader, validation)
    expected = best_cautious(y2, clf.positive_scores(X2), 0.2)
    assert clf.operating_point_.counts == expected.counts
    assert clf.standardizer_ is None


@pytest.mark.parametrize("given", [{}, {"validation": 0.5}, {"confidence": 0.9}], ids=str)
def test_a_loader_that_shuffles_cannot_be_split(given):
    def never(record, total):
        raise AssertionError("a training began")

    (X, y), validation = table(), ArrayRows(*table(800, 1))
    rows = TensorDataset(torch.from_numpy(X), torch.from_numpy(y))
    shuffled = LoaderRows(DataLoader(rows, 500, shuffle=True))
    with pytest.raises(SetpointError, match="without shuffle"):
        classifier(**given, callback=never).fit_stream(shuffled)
    if "confidence" in given:  # the rows that certify are the loader's in any case
        with pytest.raises(SetpointError, match="without shuffle"):
            classifier(**given, callback=never).fit_stream(shuffled, validation)
    else:
        assert classifier(**given).fit_stream(shuffled, validation).operating_point_.tp > 0


def test_a_loader_that_shuffles_may_validate_on_all_rows():
    X, y = table()
    rows = TensorDataset(torch.from_numpy(X), torch.from_numpy(y))
    shuffled = LoaderRows(DataLoader(rows, 500, shuffle=True))
    clf = classifier(validation=None, standardize=False).fit_stream(shuffled)
    assert clf.operating_point_.counts == choose_threshold(y, clf.positive_scores(X), GOAL).counts


def test_without_validation_all_rows_set_the_threshold():
    X, y = table()
    clf = classifier(validation=None).fit_stream(ArrayRows(X, y))
    assert clf.operating_point_.counts == choose_threshold(y, clf.positive_scores(X), GOAL).counts
    assert clf.operating_point_.on == "the training rows"


def test_weights_set_the_threshold():
    X, y = table()
    weight = np.where(np.arange(3000) % 2, 3.0, 0.0)
    clf = classifier(validation=None).fit_stream(ArrayRows(X, y, sample_weight=weight))
    own = weight > 0
    expected = choose_threshold(y[own], clf.positive_scores(X[own]), GOAL)
    assert clf.operating_point_.counts == tuple(3.0 * np.array(expected.counts))


def test_the_default_solver_becomes_the_stochastic_one(monkeypatch):
    monkeypatch.setattr("setpoint.estimators.stream_fitting.Stochastic", lambda: SMALL)
    clf = classifier(solver="projected").fit_stream(ArrayRows(*table(), block_rows=256))
    assert clf.operating_point_ == fitted().operating_point_


@pytest.mark.usefixtures("short_ordinary")
def test_an_mlp():
    clf = classifier(model="mlp").fit_stream(ArrayRows(*table(1500)))
    assert clf.operating_point_.recall > 0.4


def test_a_certificate():
    X, y = table(6000)
    source = ArrayRows(X, y)
    clf = classifier(confidence=0.9, certification=0.4).fit_stream(source)
    assert clf.certificate_.certified
    part = sets_of(source, clf, 0.25, 0.4)
    unseen = part == CERTIFICATION
    assert 2200 < unseen.sum() < 2600
    assert clf.operating_point_.on == "the certification rows"
    assert clf.evaluate(X[unseen], y[unseen]).counts == clf.operating_point_.counts
    assert not clf.certificate_.one_per_group
    # and on rows that nobody has seen
    new = clf.evaluate(*table(6000, 2))
    assert new.precision > 0.58


def test_one_row_of_each_group_certifies():
    X, y = table(6000)
    groups = np.arange(6000) // 3
    clf = classifier(confidence=0.8, certification=0.5)
    clf.fit_stream(ArrayRows(X, y, groups=groups))
    assert clf.certificate_.one_per_group
    assert sum(clf.operating_point_.counts[2:]) < 1100


def test_a_certificate_with_a_validation_source():
    """Its rows plan, whatever fraction of the source the classifier asks for."""
    other = ArrayRows(*table(1500, 1))
    found = [
        classifier(confidence=0.9, certification=0.4, validation=validation).fit_stream(
            ArrayRows(*table(6000)), other
        )
        for validation in ("auto", None)
    ]
    assert found[0].certificate_.certified
    assert found[0].logit_threshold_ == found[1].logit_threshold_


def test_an_uncertified_fit_warns():
    clf = classifier(goal="max recall s.t. precision >= 0.99", confidence=0.99)
    with pytest.warns(UncertifiedWarning):
        clf.fit_stream(ArrayRows(*table(1200)))
    assert not clf.certificate_.certified


def test_different_weights_cannot_certify():
    X, y = table(1200)
    weight = 1.0 + np.arange(1200) % 2
    with pytest.raises(SetpointError, match="different weights"):
        classifier(confidence=0.9).fit_stream(ArrayRows(X, y, sample_weight=weight))


def test_an_infeasible_goal_warns():
    clf = classifier(goal="max f1 s.t. recall >= 0.99, precision >= 0.99")
    with pytest.warns(InfeasibleGoalWarning, match="the validation rows"):
        clf.fit_stream(ArrayRows(*table()))
    assert not clf.operating_point_.feasible


def test_a_checkpoint_is_used_without_a_seed_too(tmp_path):
    seen = []

    def stop_once(record, total):
        seen.append(record.iteration)
        return "stop" if len(seen) == 2 else None

    clf = classifier(random_state=None, checkpoint=tmp_path / "run", callback=stop_once)
    for interrupted in (True, False):
        clf.fit_stream(ArrayRows(*table(), block_rows=256))
        assert clf.history_.interrupted == interrupted
    assert seen == [0, 1, 2]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"refit": True}, "refit is for rows in memory"),
        ({"solver": "lifted"}, "needs the solver 'stochastic', not 'lifted'"),
        ({"solver": Projected()}, "needs the solver 'stochastic'"),
        ({"solver": "nonsense"}, "unknown solver"),
        ({"validation": StratifiedKFold(4)}, "validation of a stream must be a fraction"),
        ({"validation": 1.5}, "validation"),
        ({"validation": "most"}, "validation of a stream must be a fraction"),
        ({"confidence": 7}, "confidence"),
        ({"confidence": 0.9, "certification": StratifiedKFold(4)}, "certification"),
        ({"confidence": 0.9, "certification": 0.5, "validation": 0.5}, "leave rows to train on"),
        ({"goal": "max nothing"}, "nothing"),
        (
            {"goal": "min cost(fp=5, fn=amount)"},
            r"\('amount'\), which training on a stream does not",
        ),
        ({"goal": "max recall s.t. precision >= 0.9 for each region"}, "'region'.*in memory"),
        ({"goal": "max recall s.t. alarms <= 9 per day"}, "the times, for each day"),
        ({"goal": "max recall s.t. alarms <= 9"}, "does not say in what time"),
        ({"model": "forest"}, "forest"),
    ],
    ids=str,
)
def test_invalid_parameters(given, message):
    with pytest.raises(SetpointError, match=message):
        classifier(**given).fit_stream(ArrayRows(*table(300)))


def test_invalid_sources(tmp_path):
    X, y = table(300)
    with pytest.raises(SetpointError, match="no positive training rows"):
        classifier().fit_stream(LoaderRows([(X, np.zeros(300))]))
    with pytest.raises(SetpointError, match="setpoint.training.train"):
        classifier().fit_stream(ArrayRows(X[:, :, None], y))
    pa.parquet.write_table(pa.table({"a": X[:, 0], "y": [True] * 300}), tmp_path / "t.parquet")
    with pytest.raises(SetpointError, match=r"no negative rows|both classes"):
        classifier().fit_stream(ParquetRows(tmp_path, "y"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(SetpointError, match="no positive training rows"):
            classifier().fit_stream(ArrayRows(X, y, sample_weight=1.0 - y))
