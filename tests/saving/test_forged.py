"""Files whose checksums are right and whose content is not."""

import hashlib
import json
import warnings

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
import skops.io
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.svm import SVC, SVR, NuSVC, OneClassSVM

from setpoint import SetpointThreshold, load
from setpoint.errors import ModelFileError, SetpointError
from setpoint.model_files import save
from setpoint.saving.document import _digest
from setpoint.saving.integrity import check
from setpoint.saving.skops_files import estimator_from_bytes
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


def forge(folder, change=None, part=None, data=None):
    """Change model.json, or one of its parts, and make all checksums right."""
    path = folder / "model.json"
    content = json.loads(path.read_bytes())
    content.pop("sha256")
    if change is not None:
        change(content["model"])
    if part is not None:
        described = content["files"][part]
        data = data((folder / described["name"]).read_bytes()) if callable(data) else data
        (folder / described["name"]).write_bytes(data)
        described |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    content["sha256"] = _digest(content)
    path.write_text(json.dumps(content))
    return folder


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
def test_values_of_another_type(one_table, name, value):
    refused(forge(one_table, lambda model: model.update({name: value})), f"the {name} of")


@pytest.mark.parametrize("schema", [None, {"columns": [], "aside": []}])
def test_schemas_that_are_none(one_table, schema):
    refused(forge(one_table, lambda model: model.update(schema=schema)), "not a schema")


def test_a_schema_of_other_columns(table):
    def rename(model):
        model["schema"]["columns"][0]["name"] = "other"

    refused(forge(table, rename), "do not fit each other")


@pytest.mark.parametrize("value", [float("nan"), None, "0"], ids=str)
def test_thresholds_that_are_no_numbers(one_table, linear, tmp_path, value):
    value = {"$": "float", "value": "nan"} if isinstance(value, float) else value
    forge(one_table, lambda model: model["classifier"].update(threshold=value))
    refused(one_table, "threshold is .* no number")
    save(linear, tmp_path / "linear")
    forge(tmp_path / "linear", lambda model: model.update(logit_threshold=value))
    refused(tmp_path / "linear", "threshold is .* no number")


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
def test_encoders_that_are_something_else(table, other):
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
def test_weights_that_are_no_numbers(linear, tmp_path, name, value):
    def spoil(data):
        tensors = safetensors.numpy.load(data)
        tensors[name].flat[-1] = value
        return safetensors.numpy.save(tensors)

    save(linear, tmp_path / "model")
    forge(tmp_path / "model", part="weights.safetensors", data=spoil)
    refused(tmp_path / "model", "not numbers|not finite")


# --- support vectors ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def xy():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 4))
    return X, (X[:, 0] > 0.4).astype(int) + (X[:, 1] > 0.8)


@pytest.mark.parametrize("dress", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("machine", [SVC(), NuSVC(nu=0.1), SVR(), OneClassSVM()], ids=str)
def test_honest_support_vectors_are_taken(machine, dress, xy):
    X, y = xy
    check(machine.fit(dress(X), y))
    check(machine.fit(dress(X), y > 0))
    back = estimator_from_bytes(skops.io.dumps(machine))
    assert (back.predict(dress(X)) == machine.predict(dress(X))).all()


def test_a_precomputed_kernel_is_taken(xy):
    X, y = xy
    model = SVC(kernel="precomputed").fit(X @ X.T, y)
    check(model)
    model.support_[0] = 10**6
    with pytest.raises(ModelFileError, match="do not fit each other"):
        check(model)


@pytest.mark.parametrize("dress", [np.asarray, sparse.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("name", "forged"),
    [
        ("_n_support", lambda a: np.full_like(a, 2 * 10**8)),
        ("_n_support", lambda a: a - [a[0] + 5, *[-a[0] - 5] * (len(a) - 1)]),
        ("_n_support", lambda a: a[:1]),
        ("_dual_coef_", lambda a: a[:, :1]),
        ("dual_coef_", lambda a: a[:, :1]),
        ("_intercept_", lambda a: a[:0]),
        ("_probA", lambda a: np.zeros(7)),
        ("support_", lambda a: a[:3]),
        ("support_", lambda a: -a - 1),
        ("support_vectors_", lambda a: a[:3]),
        ("support_vectors_", lambda a: a[:, :2]),
        ("classes_", lambda a: np.arange(9)),
        ("kernel", lambda _: "precomputed"),
        ("_sparse", lambda s: not s),
    ],
)
def test_support_vectors_that_do_not_fit(name, forged, dress, xy):
    X, y = xy
    model = SVC().fit(dress(X), y)
    setattr(model, name, forged(getattr(model, name)))
    if name == "kernel":
        model.support_vectors_ = model.support_vectors_[:1]
    with pytest.raises(ModelFileError, match="do not fit each other|cannot be read"):
        estimator_from_bytes(skops.io.dumps(model))


def test_a_forged_machine_in_a_model(xy, tmp_path):
    X, y = xy
    clf = SetpointThreshold(SVC(), "max f1", random_state=0).fit(X, y > 0)
    clf.estimator_._n_support = np.full(2, 2 * 10**8, dtype=np.int32)
    clf.save(tmp_path / "model")
    with pytest.raises(SetpointError, match="do not fit each other"):
        load(tmp_path / "model")
