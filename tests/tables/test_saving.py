"""A model of tables comes back with its columns, encoder and classifier."""

import warnings

import numpy as np
import pandas as pd
import pytest
import skrub
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.preprocessing import FunctionTransformer

from setpoint import SetpointClassifier, SetpointThreshold, load
from setpoint.errors import ModelFileError, OnnxError
from setpoint.export import export_onnx
from setpoint.model_files import save
from setpoint.saving.skops_files import estimator_from_bytes, estimator_to_bytes
from setpoint.tables import Schema, TableModel
from setpoint.tables.encoder import encode, fit_encoder, make_encoder, tree_categories


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 300
    y = rng.random(n) < 0.3
    words = np.array(["größer", "kleiner", "gewinn", "hallo", "morgen", "konto"])
    frame = pd.DataFrame(
        {
            "amount": rng.lognormal(3, 2, n) * (1 + 3 * y),
            "when": pd.date_range("2024-02-28 23:00", periods=n, freq="7h"),
            "where": rng.choice(["Köln", "Ulm", "Paris"], n),
            "vip": rng.random(n) < 0.2,
            "customer": [f"K-{i:04d}" for i in rng.integers(0, 120, n)],
            "note": [" ".join(rng.choice(words, 6)) + f" {i}" for i in range(n)],
        }
    )
    frame.loc[::9, "amount"] = np.nan
    frame.loc[::11, "where"] = None
    frame.loc[::13, "when"] = pd.NaT
    frame.loc[0, "amount"] = np.inf
    return frame, y


def fitted(frame, y, for_trees):
    schema = Schema.of(frame, {"target": "the target"})
    checked = schema.check(frame)
    encoder = make_encoder(schema, text_features=5, for_trees=for_trees)
    features = encode(fit_encoder(encoder, checked), checked)
    rows = np.arange(len(y))
    judging = [(rows[:200], rows[200:])]
    if for_trees:
        categories = list(range(tree_categories(schema)))
        trees = HistGradientBoostingClassifier(max_iter=5, categorical_features=categories)
        classifier = SetpointThreshold(trees, "max f1", cv=judging, random_state=0)
    else:
        classifier = SetpointClassifier("max f1", solver="cross_entropy", validation=judging)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classifier.fit(features, y)
    facts = {"rows": 300, "file": "größe.csv", "share": 0.1, "nothing": None, "list": [1, "a"]}
    return TableModel(schema, encoder, classifier, "target", "nein", "ja", facts)


@pytest.fixture(scope="module", params=[False, True], ids=["linear", "trees"])
def model(request, table):
    return fitted(*table, request.param)


@pytest.mark.parametrize("name", ["model", "model.zip"])
def test_everything_comes_back(model, name, table, tmp_path):
    frame, _ = table
    save(model, tmp_path / name)
    back = load(tmp_path / name)
    assert isinstance(back, TableModel)
    assert back.schema == model.schema
    assert (back.target, back.negative, back.positive) == ("target", "nein", "ja")
    assert back.facts == model.facts
    new = frame.sample(frac=1, random_state=0).reset_index(drop=True)
    new.loc[:5, "where"] = "Rom"
    for rows in (frame, new, new[:1]):
        assert model.features(rows).tobytes() == back.features(rows).tobytes()
        assert model.scores(rows).tobytes() == back.scores(rows).tobytes()
        assert model.predict(rows).equals(back.predict(rows))
    assert back.operating_point == model.operating_point
    # The rows of a split belong to the data, not to the model.
    lost = [note.partition("=")[0] for note in back.classifier.load_notes_]
    assert lost in (["validation"], ["cv"])


def test_encoders_with_functions_are_not_saved(model, table, tmp_path):
    encoder = skrub.TableVectorizer(numeric=FunctionTransformer(print))
    broken = TableModel(model.schema, encoder, model.classifier, "target", "nein", "ja", {})
    with pytest.raises(ModelFileError, match=r"encoder cannot be saved: .*builtins\.print"):
        save(broken, tmp_path / "model")
    with pytest.raises(ModelFileError, match="a value of type builtins.object"):
        save(
            TableModel(model.schema, model.encoder, model.classifier, "t", object(), "ja"),
            tmp_path / "model",
        )
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    "encoder",
    [
        skrub.TableVectorizer(),
        skrub.TableVectorizer(
            high_cardinality=skrub.MinHashEncoder(n_components=3),
            datetime=skrub.DatetimeEncoder(periodic_encoding="spline"),
            numeric=skrub.SquashingScaler(),
        ),
    ],
    ids=["default", "hashes"],
)
def test_encoders_of_skrub(encoder, table):
    frame = table[0][:100].replace(np.inf, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = encoder.fit(frame).transform(frame)
        back = estimator_from_bytes(estimator_to_bytes(encoder, "The encoder"))
        found = back.transform(frame)
    assert list(found.columns) == list(expected.columns)
    assert found.to_numpy().tobytes() == expected.to_numpy().tobytes()


def test_the_classifier_alone_goes_to_onnx(model, tmp_path):
    with pytest.raises(OnnxError, match=r"export_onnx\(model\.classifier"):
        export_onnx(model, tmp_path / "model.onnx")
    export_onnx(model.classifier, tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").exists()
