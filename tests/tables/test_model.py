"""From a messy table to decisions that do not depend on how the rows come."""

import warnings
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
import skrub
from sklearn import config_context
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.preprocessing import FunctionTransformer

from setpoint import SetpointClassifier, SetpointThreshold, load
from setpoint._internal.imports import BOOSTERS
from setpoint.data import read_table, table_batches
from setpoint.data.table_writer import TableWriter
from setpoint.errors import (
    GoalError,
    ModelFileError,
    OnnxError,
    SchemaError,
    SetpointError,
    SplitError,
    TableFileError,
    TargetError,
)
from setpoint.export import export_onnx
from setpoint.model_files import save
from setpoint.saving.skops_files import estimator_from_bytes, estimator_to_bytes
from setpoint.tables import MODELS, Schema, TableModel, fit_table, score_file
from setpoint.tables.encoder import encode, fit_encoder, make_encoder, tree_categories

GOAL = "max recall s.t. precision >= 0.7"
INSTALLED = [name for name in MODELS if name not in BOOSTERS or find_spec(name)]
SLIM = ["outcome", "country", "größe (€) ", "ratio"]  # for models that take long
pytestmark = pytest.mark.filterwarnings("ignore::setpoint.UncertifiedWarning")


def of(model, frame):
    """Return the columns for a model."""
    return frame[SLIM] if model in ("mlp", "forest", "hgb") else frame


@pytest.fixture(scope="module")
def fits(table):
    """The fits, each made when it is first asked for."""
    made = {}

    def fit(model, confidence=None):
        if (model, confidence) not in made:
            frame = of(model, table)
            made[model, confidence] = fit_table(
                frame, "outcome", GOAL, model=model, confidence=confidence, text_features=5,
                drop=[name for name in ("customer", "when", "account") if name in frame],
            )  # fmt: skip
        return made[model, confidence]

    return fit


@pytest.mark.parametrize("name", INSTALLED)
def test_models_learn(fits, table, name):
    fitted = fits(name)
    model, point = fitted.model, fitted.test_point
    assert (model.positive, model.negative) == ("fraud", "fine")
    assert point.recall > 0.3
    assert point.precision > 0.45
    assert fitted.test.y.sum() == point.tp + point.fn
    assert model.operating_point.threshold == 0
    assert str(model.goal) == GOAL
    assert fitted.baseline.scores.shape == fitted.test.scores.shape
    rows = of(name, table).iloc[fitted.test.rows]
    assert np.array_equal(model.scores(rows), fitted.test.scores)
    again = model.evaluate(rows, on="them")
    assert (again.tp, again.fp) == (point.tp, point.fp)


@pytest.mark.parametrize("name", INSTALLED)
def test_one_row_at_a_time_gives_the_same_scores(fits, later, name):
    model, later = fits(name).model, of(name, later)
    whole = model.scores(later)
    one_by_one = np.concatenate([model.scores(later.iloc[[i]]) for i in range(6)])
    assert np.array_equal(one_by_one, whole[:6])
    for size in (150, 299):
        pieces = [model.scores(later.iloc[i : i + size]) for i in range(0, len(later), size)]
        assert np.array_equal(np.concatenate(pieces), whole)
    many = pd.concat([later] * 30, ignore_index=True)  # more than one block
    assert np.array_equal(model.scores(many), np.tile(whole, 30))


@pytest.mark.parametrize("name", INSTALLED)
def test_decisions_are_those_of_the_classifier(fits, later, name):
    model, later = fits(name).model, of(name, later)
    found = model.predict(later)
    assert np.array_equal(found["alarm"], model.classifier.predict(model.features(later)))
    assert np.array_equal(found["alarm"], found["score"] > 0)
    assert np.array_equal(found["predicted"] == "fraud", found["alarm"])
    assert found.index.equals(later.index)


def test_notes_and_facts(fits, table):
    fitted = fits("linear")
    told = " ".join(fitted.notes)
    for part in ("'fraud' is taken as the positive", "'empty' is missing", "'one' is the same"):
        assert part in told
    facts = fitted.model.facts
    assert facts["rows"] == len(table) == facts["training rows"] + facts["test rows"]
    for aside in ("customer", "when", "account", "outcome", "empty", "one"):
        assert aside not in fitted.model.schema.names


def test_the_same_fit_twice(table):
    small = table[SLIM].head(300)
    first, second = (
        fit_table(small, "outcome", GOAL, model="logistic", test=0, text_features=5).model.scores(
            small
        )
        for _ in range(2)
    )
    assert np.array_equal(first, second)


def test_without_test_rows(table):
    fitted = fit_table(
        table[SLIM].head(400), "outcome", GOAL, model="logistic", test=0, text_features=5
    )
    assert fitted.test is fitted.test_point is fitted.baseline is None
    assert fitted.model.facts["training rows"] == 400


@pytest.mark.parametrize("name", ["linear", "logistic"])
def test_certificates(fits, name):
    fitted = fits(name, 0.8)
    certificate = fitted.model.certificate
    assert certificate.threshold == certificate.operating_point.threshold == 0
    if certificate.certified:  # like the scores, they are measured from the threshold
        assert 0.0 in certificate.certified_thresholds
        own = fitted.model.classifier.certificate_
        assert certificate.certified_thresholds == own.certified_thresholds.less(own.threshold)
    assert certificate.confidence == 0.8
    point = certificate.operating_point
    # 30 % of the training rows certify, and no one else's counts are in it.
    assert point.tp + point.fp + point.fn + point.tn == fitted.model.facts["certifying rows"] == 144
    assert fits(name).model.certificate is None


@pytest.mark.parametrize("confidence", [None, 0.8])
def test_a_notebook_shows_what_it_does_and_its_steps(fits, confidence):
    model = replace(fits("linear", confidence).model, positive="<script>fraud")
    shown = model._repr_html_()
    assert "positive: &lt;script&gt;fraud" in shown
    assert "negative: fine" in shown
    assert "<script>fraud" not in shown
    assert ("80 % confidence" in shown) == (confidence is not None)
    assert shown.index("threshold 0 on") < shown.index("sk-container")
    with config_context(display="text"):
        assert "sk-container" not in model._repr_html_()


def test_features_are_not_fitted_on_certifying_rows(table):
    frame = table[["outcome", "country", "größe (€) "]].copy()
    ordinary = fit_table(frame, "outcome", GOAL, model="logistic", confidence=0.8)
    encoder = ordinary.model.encoder
    scaler = encoder.named_transformers_["numbers"][0].robust_scaler_
    train = np.setdiff1d(np.arange(len(frame)), ordinary.test.rows)
    values = frame["größe (€) "].iloc[train]
    assert scaler.center_[0] != np.nanmedian(values)  # that of all training rows


def test_groups_stay_in_one_split(table):
    table = table[[*SLIM, "customer", "when"]]
    fitted = fit_table(
        table,
        "outcome",
        GOAL,
        model="logistic",
        group="customer",
        confidence=0.8,
        drop=["when"],
        text_features=5,
    )
    test = set(table["customer"].iloc[fitted.test.rows])
    train = np.setdiff1d(np.arange(len(table)), fitted.test.rows)
    assert not test & set(table["customer"].iloc[train])
    assert fitted.model.certificate.one_per_group
    assert fitted.model.group == "customer"
    assert "customer" not in fitted.model.schema.names


@pytest.mark.parametrize("name", ["linear", "logistic"])
def test_time(table, name):
    shuffled = table.sample(frac=1, random_state=0).reset_index(drop=True)
    fitted = fit_table(
        shuffled[["outcome", "country", "note", "when"]], "outcome", GOAL, model=name,
        time="when", confidence=0.8, text_features=5,
    )  # fmt: skip
    when = shuffled["when"]
    train = np.setdiff1d(np.arange(len(when)), fitted.test.rows)
    assert when[train].max() < when[fitted.test.rows].min()
    assert any("newest training rows" in note for note in fitted.notes)
    assert "when" not in fitted.model.schema.names
    # The certifying rows are the newest of the training rows.
    newest = when[train].sort_values().index[-144:]
    point = fitted.model.certificate.operating_point
    assert point.tp + point.fn == (shuffled["outcome"][newest] == "fraud").sum()


def test_too_few_new_positives_to_set_a_threshold(table):
    frame = table[SLIM].assign(when=np.arange(len(table)))
    fraud = frame["outcome"] == "fraud"
    frame = frame[~fraud | (frame["when"] < 350) | (frame["when"] > 590)]
    fitted = fit_table(frame, "outcome", "max f1", model="logistic", time="when")
    assert any("rows of all times" in note for note in fitted.notes)


def test_time_and_groups_together(table):
    table = table[[*SLIM, "customer", "when"]]
    fitted = fit_table(
        table,
        "outcome",
        GOAL,
        model="logistic",
        group="customer",
        time="when",
        text_features=5,
    )
    train = np.setdiff1d(np.arange(len(table)), fitted.test.rows)
    groups = table["customer"].to_numpy()
    assert not set(groups[train]) & set(groups[fitted.test.rows])
    assert any("Whole groups" in note for note in fitted.notes)


def test_labels_of_later_rows(fits, later):
    model = fits("logistic").model
    with pytest.raises(SchemaError, match="no column 'outcome' with the labels"):
        model.evaluate(later.drop(columns="outcome"))
    with pytest.raises(TargetError, match="holds 'other'; the model knows 'fine' and 'fraud'"):
        model.evaluate(later.assign(outcome="other"))
    y, scores = model.labelled_scores(later)
    assert y.sum() == (later["outcome"] == "fraud").sum()
    assert len(scores) == len(y)


@pytest.mark.parametrize(
    ("changes", "error", "match"),
    [
        ({"target": "outcom"}, SchemaError, "no column 'outcom' .the target.*mean 'outcome'"),
        ({"group": "costumer"}, SchemaError, "no column 'costumer' .the group.*mean 'customer'"),
        ({"drop": ["xyz"]}, SchemaError, "no column 'xyz'"),
        ({"group": "outcome"}, SchemaError, "is the target and cannot be the group too"),
        ({"model": "hbg"}, SchemaError, "no model 'hbg'.*mean 'hgb'"),
        ({"goal": "max recall s.t."}, GoalError, None),
        ({"positive": "frau"}, TargetError, "mean 'fraud'"),
        ({"target": "country"}, TargetError, "missing|3 different"),
        ({"confidence": 2.0}, SetpointError, "confidence"),
        ({"test": 1.0}, SplitError, "less than 1"),
        ({"random_state": -1}, SplitError, "seed must be a whole number"),
        ({"group": "country"}, SplitError, "groups in 'country' are missing"),
        ({"time": "merchant"}, SplitError, "missing|neither"),
    ],
)
def test_bad_input(table, changes, error, match):
    arguments = {"target": "outcome", "goal": GOAL, "model": "logistic"} | changes
    with pytest.raises(error, match=match):
        fit_table(table, **arguments)


# --- files --------------------------------------------------------------------------------------


def write_table(path, frame):
    with TableWriter(path) as out:
        out.write(frame)
    return path


@pytest.mark.parametrize(("source", "out"), [(".parquet", ".csv.gz"), (".arrow", ".parquet")])
def test_scored_files(tmp_path, fits, later, source, out):
    model = fits("linear").model
    frame = later.assign(mixed=later["mixed"].astype(str))
    path = write_table(tmp_path / f"new{source}", frame)
    seen = []
    done = score_file(
        model, path, tmp_path / f"scored{out}", batch_rows=70, keep=["account", "one"],
        progress=seen.append,
    )  # fmt: skip
    found = read_table(tmp_path / f"scored{out}")
    assert list(found) == ["account", "one", "score", "alarm", "predicted"]
    assert found["account"].tolist() == later["account"].tolist()  # beyond 2**53
    assert np.array_equal(found["score"].to_numpy(), model.scores(later))
    assert (done.rows, done.alarms) == (300, int(found["alarm"].sum()))
    assert seen == [70, 140, 210, 280, 300]


def test_csv_keeps_codes_that_look_like_numbers(tmp_path):
    rng = np.random.default_rng(0)
    codes = [f"{i}" if i % 2 else f"x{i}" for i in rng.integers(0, 30, 600)]
    y = np.array([int(c.strip("x")) < 8 for c in codes]) ^ (rng.random(600) < 0.05)
    frame = pd.DataFrame({"code": codes, "y": y.astype(int)})
    model = fit_table(frame, "y", "max f1", model="logistic", test=0, text_features=5).model
    later = frame[frame["code"].str.isdigit()].head(50)  # a file of numbers only
    path = write_table(tmp_path / "new.csv", later)
    assert str(read_table(path)["code"].dtype) == "Int64"
    score_file(model, path, tmp_path / "scored.parquet")
    found = read_table(tmp_path / "scored.parquet")["score"].to_numpy()
    assert np.array_equal(found, model.scores(later))
    assert np.array_equal(model.scores(model.read(path)), found)
    assert list(next(table_batches(path))) == ["code", "y"]


def test_files_that_cannot_be_scored(tmp_path, fits, later):
    model = fits("logistic").model
    frame = later.assign(mixed=later["mixed"].astype(str))
    path = write_table(tmp_path / "new.parquet", frame)
    with pytest.raises(TableFileError, match="is the table to score"):
        score_file(model, path, path)
    with pytest.raises(TableFileError, match="no column 'xyz'"):
        score_file(model, path, tmp_path / "out.csv", keep=["xyz"])
    with pytest.raises(TableFileError, match="'predicted' cannot be kept"):
        score_file(model, path, tmp_path / "out.csv", keep=["predicted"])
    write_table(path, frame.drop(columns="note").assign(extra=1))
    with pytest.raises(SchemaError, match="'note' is missing.*not known to the model: 'extra'"):
        score_file(model, path, tmp_path / "out.csv")
    write_table(path, frame.assign(extra=1))
    score_file(model, path, tmp_path / "out.csv", keep=["extra"])
    score_file(model, path, tmp_path / "out.csv", ignore_extra=True)
    with pytest.raises(SchemaError, match="'extra'"):
        score_file(model, path, tmp_path / "out.csv")
    write_table(path, frame.assign(ratio=["x" if i == 250 else "1" for i in range(300)]))
    with pytest.raises(SchemaError, match="'ratio' held numbers.*'x' in row 251"):
        score_file(model, path, tmp_path / "new.csv", batch_rows=100)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new.parquet", "out.csv"]


# --- saving ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_table():
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


def fitted_model(frame, y, for_trees):
    schema = Schema.of(frame, {"target": "the target"})
    checked = schema.check(frame)
    encoder = make_encoder(schema, text_features=5, for_trees=for_trees)
    features = encode(fit_encoder(encoder, checked), checked)
    rows = np.arange(len(y))
    split = [(rows[:200], rows[200:])]
    if for_trees:
        categories = list(range(tree_categories(schema)))
        trees = HistGradientBoostingClassifier(max_iter=5, categorical_features=categories)
        classifier = SetpointThreshold(trees, "max f1", cv=split, random_state=0)
    else:
        classifier = SetpointClassifier("max f1", solver="cross_entropy", validation=split)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classifier.fit(features, y)
    facts = {"rows": 300, "file": "größe.csv", "share": 0.1, "nothing": None, "list": [1, "a"]}
    return TableModel(schema, encoder, classifier, "target", "nein", "ja", facts)


@pytest.fixture(scope="module", params=[False, True], ids=["linear", "trees"])
def small_model(request, small_table):
    return fitted_model(*small_table, request.param)


@pytest.mark.parametrize("name", ["model", "model.zip"])
def test_everything_comes_back(small_model, name, small_table, tmp_path):
    frame, _ = small_table
    save(small_model, tmp_path / name)
    back = load(tmp_path / name)
    assert isinstance(back, TableModel)
    assert back.schema == small_model.schema
    assert (back.target, back.negative, back.positive) == ("target", "nein", "ja")
    assert back.facts == small_model.facts
    new = frame.sample(frac=1, random_state=0).reset_index(drop=True)
    new.loc[:5, "where"] = "Rom"
    for rows in (frame, new, new[:1]):
        assert small_model.features(rows).tobytes() == back.features(rows).tobytes()
        assert small_model.scores(rows).tobytes() == back.scores(rows).tobytes()
        assert small_model.predict(rows).equals(back.predict(rows))
    assert back.operating_point == small_model.operating_point
    # The rows of a split belong to the data, not to the model.
    lost = [note.partition("=")[0] for note in back.classifier.load_notes_]
    assert lost in (["validation"], ["cv"])


def test_encoders_with_functions_are_not_saved(small_model, small_table, tmp_path):
    encoder = skrub.TableVectorizer(numeric=FunctionTransformer(print))
    broken = TableModel(
        small_model.schema, encoder, small_model.classifier, "target", "nein", "ja", {}
    )
    with pytest.raises(ModelFileError, match=r"encoder cannot be saved: .*builtins\.print"):
        save(broken, tmp_path / "model")
    with pytest.raises(ModelFileError, match="a value of type builtins.object"):
        save(
            TableModel(
                small_model.schema, small_model.encoder, small_model.classifier, "t", object(), "ja"
            ),
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
def test_encoders_of_skrub(encoder, small_table):
    frame = small_table[0][:100].replace(np.inf, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = encoder.fit(frame).transform(frame)
        back = estimator_from_bytes(estimator_to_bytes(encoder, "The encoder"))
        found = back.transform(frame)
    assert list(found.columns) == list(expected.columns)
    assert found.to_numpy().tobytes() == expected.to_numpy().tobytes()


def test_the_classifier_alone_goes_to_onnx(small_model, tmp_path):
    with pytest.raises(OnnxError, match=r"export_onnx\(model\.classifier"):
        export_onnx(small_model, tmp_path / "model.onnx")
    export_onnx(small_model.classifier, tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").exists()
