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
    load(tmp_path / "model")  # the original is accepted
    return tmp_path / "model"


@pytest.fixture
def one_table(fitted, tmp_path):
    save(fitted["logistic"], tmp_path / "model")
    return tmp_path / "model"


def rejected(folder, match):
    with pytest.raises(ModelFileError, match=match) as caught:
        load(folder)
    assert str(folder) in str(caught.value)


def test_values_of_the_wrong_type(one_table):
    original = (one_table / "model.json").read_bytes()
    for name, value, message in (
        ("facts", "x", "the facts of"),
        ("facts", None, "the facts of"),
        ("facts", [1], "the facts of"),
        ("target", None, "the target of"),
        ("positive", [1], "the positive of"),
        ("negative", None, "the negative of"),
        ("summaries", [1], "the summaries of"),
        ("summaries", [{"name": "x"}], "the summaries of"),
        (
            "summaries",
            [{"name": "x", "kind": "number", "rows": 2, "missing": 0}],
            "the summaries of",
        ),
        ("schema", None, "not a schema"),
        ("schema", {"columns": [], "aside": []}, "not a schema"),
    ):
        (one_table / "model.json").write_bytes(original)
        forge(one_table, lambda model, name=name, value=value: model.update({name: value}))
        rejected(one_table, message)


def test_a_schema_of_other_columns(table):
    def rename(model):
        model["schema"]["columns"][0]["name"] = "other"

    rejected(forge(table, rename), "do not fit each other")


def test_thresholds_that_are_not_numbers(one_table, linear, tmp_path):
    save(linear, tmp_path / "linear")
    for value in ({"$": "float", "value": "nan"}, None, "0"):
        forge(one_table, lambda model, v=value: model["classifier"].update(threshold=v))
        rejected(one_table, "threshold is .* not a number")
        forge(tmp_path / "linear", lambda model, v=value: model.update(logit_threshold=v))
        rejected(tmp_path / "linear", "threshold is .* not a number")


def test_objects_that_are_not_encoders(table):
    schema = Schema.of(FRAME[["amount"]])
    for other in (
        "a text",
        ColumnTransformer([("a", "passthrough", ["amount"])]),  # not fitted
        ColumnTransformer([("a", "passthrough", ["amount"])]).fit(FRAME),
        SVC(),
        fit_encoder(make_encoder(schema), schema.check(FRAME[["amount"]])),  # of other columns
    ):
        forge(table, part="encoder.skops", data=skops.io.dumps(other))
        rejected(table, "do not fit each other")


def change_tensors(change):
    """Return a function that changes the tensors in a safetensors file."""

    def changed(data):
        tensors = safetensors.numpy.load(data)
        change(tensors)
        return safetensors.numpy.save(tensors)

    return changed


def test_weights_that_are_not_finite(linear, tmp_path):
    for name, values in {
        "module.weight": (np.nan, np.inf, -np.inf),
        "module.bias": (np.nan, np.inf, -np.inf),
        "standardizer.centre": (np.nan, np.inf),
        "standardizer.scale": (np.nan, -np.inf, 0.0),  # infinite for constant features
    }.items():
        for value in values:

            def spoil(tensors, name=name, value=value):
                tensors[name].flat[-1] = value

            save(linear, tmp_path / "model")
            forge(tmp_path / "model", part="weights.safetensors", data=change_tensors(spoil))
            rejected(tmp_path / "model", "not numbers|not finite")


# --- standardizers ------------------------------------------------------------------------------


@pytest.mark.parametrize("former_version", [False, True])
def test_incomplete_standardizers(linear, tmp_path, former_version):
    folder = tmp_path / "model"
    for change in (
        lambda t: t.pop("standardizer.centre"),
        lambda t: t.pop("standardizer.scale"),
        lambda t: (t.pop("standardizer.centre"), t.pop("standardizer.scale")),
        lambda t: t.update({"standardizer.other": t["standardizer.scale"]}),
    ):
        save(linear, folder)
        if former_version:
            forge(folder, lambda model: model.pop("standardized"))
        load(folder)
        forge(folder, part="weights.safetensors", data=change_tensors(change))
        rejected(folder, "standardi|does not know")


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
