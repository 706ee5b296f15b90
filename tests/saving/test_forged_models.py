"""Files with valid checksums and invalid content are rejected."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
import skops.io
from sklearn.compose import ColumnTransformer
from sklearn.svm import SVC

from saved_models import forge
from setpoint import SetpointClassifier, load
from setpoint.errors import ModelFileError
from setpoint.model_files import save
from setpoint.tables import fit_table
from setpoint.tables.encoder import fit_encoder, make_encoder
from setpoint.tables.schema import Schema

FRAME = pd.DataFrame(
    {
        "amount": np.random.default_rng(0).normal(size=200),
        "where": np.random.default_rng(1).choice(["a", "b"], 200),
        "when": pd.date_range("2024", periods=200, tz="Europe/Paris"),
        "day": [f"{1 + i % 28:02d}.02.2024" for i in range(200)],
        "note": [f"some words about the case number {i}" for i in range(200)],
        "flag": [True, False] * 100,
    }
)
Y = FRAME["amount"] + np.random.default_rng(2).normal(0, 0.5, 200) > 0.8


@pytest.fixture(scope="module")
def fitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"test": 0, "text_features": 3, "positive": "True"}
        return {
            name: fit_table(FRAME.assign(y=Y), "y", "max f1", model=name, **options).model
            for name in ("logistic", "hgb")
        }


@pytest.fixture(params=["logistic", "hgb"])
def table(request, fitted, tmp_path):
    save(fitted[request.param], tmp_path / "model")
    load(tmp_path / "model")  # the honest one is taken
    return tmp_path / "model"


@pytest.fixture
def one_table(fitted, tmp_path):
    save(fitted["logistic"], tmp_path / "model")
    return tmp_path / "model"


def refused(folder, match):
    with pytest.raises(ModelFileError, match=match) as caught:
        load(folder)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("facts", "x"),
        ("facts", None),
        ("facts", [1]),
        ("target", None),
        ("positive", [1]),
        ("negative", None),
    ],
)
def test_values_of_the_wrong_type(one_table, name, value):
    refused(forge(one_table, lambda model: model.update({name: value})), f"the {name} of")


@pytest.mark.parametrize("schema", [None, {"columns": [], "aside": []}])
def test_invalid_schemas(one_table, schema):
    refused(forge(one_table, lambda model: model.update(schema=schema)), "not a schema")


def test_a_schema_of_other_columns(table):
    def rename(model):
        model["schema"]["columns"][0]["name"] = "other"

    refused(forge(table, rename), "do not fit each other")


@pytest.mark.parametrize("value", [float("nan"), None, "0"], ids=str)
def test_thresholds_that_are_not_numbers(one_table, linear, tmp_path, value):
    value = {"$": "float", "value": "nan"} if isinstance(value, float) else value
    forge(one_table, lambda model: model["classifier"].update(threshold=value))
    refused(one_table, "threshold is .* not a number")
    save(linear, tmp_path / "linear")
    forge(tmp_path / "linear", lambda model: model.update(logit_threshold=value))
    refused(tmp_path / "linear", "threshold is .* not a number")


@pytest.mark.parametrize(
    "other",
    [
        "a text",
        ColumnTransformer([("a", "passthrough", ["amount"])]),
        ColumnTransformer([("a", "passthrough", ["amount"])]).fit(FRAME),
        SVC(),
    ],
    ids=["text", "not fitted", "other features", "no encoder"],
)
def test_objects_that_are_not_encoders(table, other):
    refused(forge(table, part="encoder.skops", data=skops.io.dumps(other)), "do not fit each other")


def test_an_encoder_of_other_columns(one_table):
    schema = Schema.of(FRAME[["amount"]])
    encoder = fit_encoder(make_encoder(schema), schema.check(FRAME[["amount"]]))
    data = skops.io.dumps(encoder)
    refused(forge(one_table, part="encoder.skops", data=data), "do not fit each other")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((f"module.{name}", v) for name in ("weight", "bias") for v in (np.nan, np.inf, -np.inf)),
        *(("standardizer.centre", v) for v in (np.nan, np.inf)),
        *(("standardizer.scale", v) for v in (np.nan, -np.inf, 0.0)),  # inf: constant features
    ],
)
def test_weights_that_are_not_finite(linear, tmp_path, name, value):
    def spoil(data):
        tensors = safetensors.numpy.load(data)
        tensors[name].flat[-1] = value
        return safetensors.numpy.save(tensors)

    save(linear, tmp_path / "model")
    forge(tmp_path / "model", part="weights.safetensors", data=spoil)
    refused(tmp_path / "model", "not numbers|not finite")


# --- standardizers ------------------------------------------------------------------------------


def change_tensors(change):
    def changed(data):
        tensors = safetensors.numpy.load(data)
        change(tensors)
        return safetensors.numpy.save(tensors)

    return changed


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.pop("standardizer.centre"),
        lambda t: t.pop("standardizer.scale"),
        lambda t: (t.pop("standardizer.centre"), t.pop("standardizer.scale")),
        lambda t: t.update({"standardizer.other": t["standardizer.scale"]}),
    ],
)
@pytest.mark.parametrize("old", [False, True])
def test_incomplete_standardizers(linear, tmp_path, change, old):
    def as_before(model):
        del model["standardized"]

    folder = tmp_path / "model"
    save(linear, folder)
    forge(folder, as_before if old else None)
    load(folder)
    forge(folder, part="weights.safetensors", data=change_tensors(change))
    with pytest.raises(ModelFileError, match="standardi|does not know"):
        load(folder)


def test_models_without_a_standardizer(rows, tmp_path):
    X, y = rows
    plain = SetpointClassifier("max f1", solver="cross_entropy", standardize=False, random_state=0)
    plain.fit((X - X.mean(0)) / X.std(0), y)
    folder = tmp_path / "model"
    save(plain, folder)
    assert json.loads((folder / "model.json").read_bytes())["model"]["standardized"] is False
    assert load(folder).standardizer_ is None
    added = {"standardizer.centre": np.ones(5), "standardizer.scale": np.ones(5)}
    add = change_tensors(lambda tensors: tensors.update(added))
    forge(folder, part="weights.safetensors", data=add)
    with pytest.raises(ModelFileError, match="standardi"):
        load(folder)
    # A parameter that was changed after fit() does not matter.
    plain.set_params(standardize=True)
    save(plain, folder)
    assert load(folder).standardizer_ is None
