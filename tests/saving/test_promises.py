"""Certificates and standardizers that are not whole are refused, whatever the checksums say."""

import json

import numpy as np
import pytest
import safetensors.numpy
from sklearn.linear_model import LogisticRegression

from setpoint import SetpointClassifier, SetpointThreshold, load
from setpoint.errors import ModelFileError, UncertifiedWarning
from setpoint.model_files import save
from setpoint.saving.document import Document, document_of

NAN = {"$": "float", "value": "nan"}


def forge(folder, change=None, tensors=None):
    """Change model.json, or the weights, and make all checksums right."""
    document = Document.from_bytes((folder / "model.json").read_bytes(), "")
    names = {key: part.name for key, part in document.parts.items()}
    parts = {key: (name, (folder / name).read_bytes()) for key, name in names.items()}
    if change is not None:
        change(document.model)
    if tensors is not None:
        ((key, (name, data)),) = parts.items()
        found = safetensors.numpy.load(data)
        tensors(found)
        parts[key] = name, safetensors.numpy.save(found)
        (folder / name).write_bytes(parts[key][1])
    (folder / "model.json").write_bytes(document_of(document.model, parts).to_bytes())
    return folder


@pytest.fixture(scope="module", params=["classifier", "threshold"])
def certified(request, rows):
    X, y = rows
    X, y = np.concatenate([X] * 3), np.concatenate([y] * 3)  # enough to certify
    options = {"confidence": 0.8, "random_state": 0}
    goal = "max recall s.t. precision >= 0.4, fpr <= 0.6"
    if request.param == "threshold":
        model = SetpointThreshold(LogisticRegression(), goal, **options).fit(X, y)
    else:
        model = SetpointClassifier(goal, solver="cross_entropy", **options).fit(X, y)
    assert model.certificate_.certified
    return model


@pytest.fixture
def folder(certified, tmp_path):
    save(certified, tmp_path / "model")
    assert load(tmp_path / "model").certificate_ == certified.certificate_
    return tmp_path / "model"


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.update(bounds=[]),
        lambda c: c["bounds"].pop(),
        lambda c: c["bounds"].pop(0),
        lambda c: c["bounds"].reverse(),
        lambda c: c.update(bounds=None),
        lambda c: c["bounds"][0].update(metric="recall"),
        lambda c: c["bounds"][0].update(level=0.1),
        lambda c: c["bounds"][0].update(bound=None),
        lambda c: c["bounds"][0].update(bound=0.1),
        lambda c: c["bounds"][1].update(bound=0.9),
        lambda c: c["bounds"][1].update(bound=NAN),
        lambda c: c["bounds"][1].update(bound="low"),
        lambda c: c["bounds"][1].update(value="low"),
        lambda c: c["bounds"][1].update(value=None),
        lambda c: c["bounds"][0].update(kind="estimate"),
        lambda c: c["bounds"][0].update(kind="sure"),
        lambda c: c["bounds"][0].update(p_value="none"),
        lambda c: c["bounds"][0].update(trials="many"),
        lambda c: c.update(confidence="high"),
        lambda c: c.update(confidence=1.0),
        lambda c: c.update(confidence=0),
        lambda c: c.update(confidence=NAN),
        lambda c: c.update(confidence=None),
        lambda c: c.update(confidence=True),
        lambda c: c.update(certified="yes"),
        lambda c: c.update(certified=None),
        lambda c: c.update(threshold="low"),
        lambda c: c.update(threshold=NAN),
        lambda c: c.update(choice="mine"),
        lambda c: c.update(tested="few"),
        lambda c: c.update(tested=0),
        lambda c: c.update(more_positives="some"),
        lambda c: c.update(one_per_group=None),
        lambda c: c.update(prevalence=7),
        lambda c: c.update(goal="max recall s.t. precision >= 0.9, fpr <= 0.6"),
        lambda c: c["operating_point"].update(goal="max f1", objective=0.5, violation=0.0),
        lambda c: c.pop("confidence"),
    ],
)  # fmt: skip
def test_certificates_that_are_none(folder, change):
    forge(folder, lambda model: change(model["certificate"]))
    with pytest.raises(ModelFileError, match="the certificate of the model"):
        load(folder)


def test_a_certificate_of_an_objective(rows, tmp_path):
    model = SetpointThreshold(LogisticRegression(), "max recall", confidence=0.8, random_state=0)
    model.fit(*rows)
    assert model.certificate_.certified
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").certificate_ == model.certificate_
    forge(tmp_path / "model", lambda m: m["certificate"]["bounds"][0].update(bound=None))
    with pytest.raises(ModelFileError, match="certificate"):
        load(tmp_path / "model")


def test_what_is_not_certified_may_have_no_bounds(rows, tmp_path):
    goal = "max recall s.t. precision >= 0.999, mcc >= 0.1"
    model = SetpointThreshold(LogisticRegression(), goal, confidence=0.99, random_state=0)
    with pytest.warns(UncertifiedWarning):
        model.fit(*rows)
    assert not model.certificate_.certified
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").certificate_ == model.certificate_
    # To call it certified makes it a lie.
    forge(tmp_path / "model", lambda m: m["certificate"].update(certified=True))
    with pytest.raises(ModelFileError, match="certificate"):
        load(tmp_path / "model")


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
def test_standardizers_are_whole(linear, tmp_path, change, old):
    def as_before(model):
        del model["standardized"]

    folder = tmp_path / "model"
    save(linear, folder)
    forge(folder, as_before if old else None)
    load(folder)
    forge(folder, tensors=change)
    with pytest.raises(ModelFileError, match="standardi|does not know"):
        load(folder)


def test_models_without_one(rows, tmp_path):
    X, y = rows
    plain = SetpointClassifier("max f1", solver="cross_entropy", standardize=False, random_state=0)
    plain.fit((X - X.mean(0)) / X.std(0), y)
    folder = tmp_path / "model"
    save(plain, folder)
    assert json.loads((folder / "model.json").read_bytes())["model"]["standardized"] is False
    assert load(folder).standardizer_ is None
    forge(folder, tensors=lambda t: t.update({
        "standardizer.centre": np.ones(5), "standardizer.scale": np.ones(5)
    }))  # fmt: skip
    with pytest.raises(ModelFileError, match="standardi"):
        load(folder)
    # A parameter that was changed after fit() does not matter.
    plain.set_params(standardize=True)
    save(plain, folder)
    assert load(folder).standardizer_ is None
