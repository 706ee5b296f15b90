"""What needs no MLflow: tags, results of any model, and the error if MLflow is missing.

``make test-engines`` runs the tests with MLflow.
"""

import sys

import numpy as np
import pandas as pd
import pytest

from saved_models import GOAL
from setpoint import SetpointClassifier
from setpoint.errors import MissingExtraError, ModelFileError, SchemaError
from setpoint.saving.mlflow import Scorer, load_model, log_model, model_tags, save_model


def test_a_missing_mlflow_names_the_extra(linear, tmp_path, monkeypatch):
    for name in ("mlflow", "mlflow.models"):
        monkeypatch.setitem(sys.modules, name, None)
    expected = r'a model in MLflow needs mlflow: pip install "setpoint\[mlflow\]"'
    for call in (
        lambda: save_model(linear, tmp_path / "model"),
        lambda: log_model(linear, "model"),
        lambda: load_model("models:/fraud/1"),
    ):
        with pytest.raises(MissingExtraError, match=expected):
            call()
    assert not list(tmp_path.iterdir())


def test_tags(linear):
    tags = model_tags(linear)
    assert tags["setpoint.goal"] == GOAL
    assert tags["setpoint.model"] == "SetpointClassifier"
    assert float(tags["setpoint.threshold"]) == linear.logit_threshold_
    assert tags["setpoint.certificate"] == "none"
    assert "setpoint.confidence" not in tags


@pytest.mark.parametrize("model", [SetpointClassifier("max f1"), "no model"])
def test_only_fitted_models_have_tags(model):
    with pytest.raises(ModelFileError, match="is not a fitted model of setpoint"):
        model_tags(model)


def test_rows_of_an_array(linear, rows):
    X, _ = rows
    found = Scorer(linear).predict(X)
    assert found["score"].tolist() == linear.positive_scores(X).tolist()
    assert found["predicted"].tolist() == linear.predict(X).tolist()
    assert Scorer(linear).predict(X[:0]).shape == (0, 3)


def test_python_objects_count_as_numbers(linear, rows):
    X, _ = rows
    frame = pd.DataFrame(X).astype(object)
    assert Scorer(linear).predict(frame).equals(Scorer(linear).predict(X))


def test_too_few_columns(linear, rows):
    with pytest.raises(SchemaError, match="the rows have 3 columns, and the model needs 5"):
        Scorer(linear).predict(np.asarray(rows[0])[:, :3])
