"""Models in MLflow give the scores and decisions of setpoint, wherever they are loaded."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
import requests
from mlflow.exceptions import MlflowException
from mlflow.models import infer_signature
from payments import GOAL, arrays, payments
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import setpoint.saving.mlflow
from setpoint import SetpointBand, SetpointClassifier, SetpointMultilabel, SetpointThreshold, load
from setpoint.errors import ModelFileError, SchemaError
from setpoint.tables import fit_table

NEW = payments(300, seed=1).drop(columns="fraud")
X, Y = arrays()
BAND = "min review_rate s.t. precision(alarm) >= 0.6, npv(clear) >= 0.8"


def logistic():
    return LogisticRegression(max_iter=300)


def quietly(function, *given, **named):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*given, **named)


@pytest.fixture(scope="module")
def table_model():
    return quietly(fit_table, payments(1500), "fraud", GOAL, model="logistic", confidence=0.8).model


@pytest.fixture(scope="module")
def saved(table_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "a folder" / "mlflow model"
    setpoint.saving.mlflow.save_model(table_model, path)
    return path


def same(found, expected):
    pd.testing.assert_frame_equal(
        found.reset_index(drop=True), expected.reset_index(drop=True), check_dtype=False, rtol=1e-12
    )


# --- tables ---------------------------------------------------------------------------------------


def test_a_table_model_scores_as_it_does_without_mlflow(table_model, saved):
    same(mlflow.pyfunc.load_model(saved).predict(NEW), table_model.predict(NEW))
    again = setpoint.saving.mlflow.load_model(saved)
    same(again.predict(NEW), table_model.predict(NEW))


def test_extra_and_reordered_columns_and_an_index(table_model, saved):
    frame = NEW.assign(fraud="no", other=1)[["other", "fraud", *NEW.columns[::-1]]]
    frame.index = np.arange(len(frame)) // 2
    found = mlflow.pyfunc.load_model(saved).predict(frame)
    same(found, table_model.predict(NEW))
    assert found.index.tolist() == frame.index.tolist()


def test_a_missing_column_is_named(saved):
    with pytest.raises(MlflowException, match=r"missing inputs \['country'\]"):
        mlflow.pyfunc.load_model(saved).predict(NEW.drop(columns="country"))


def test_a_value_that_does_not_fit_is_named(saved):
    frame = NEW.assign(items="several")
    with pytest.raises(SchemaError, match="'items' held numbers .* now holds 'several' in row 1 "):
        mlflow.pyfunc.load_model(saved).predict(frame)


@pytest.mark.parametrize("items", ["int64", "float64", "Int64", "int32", "Float32", "uint8"])
def test_numbers_of_any_type(table_model, saved, items):
    frame = NEW.astype({"items": items})
    same(mlflow.pyfunc.load_model(saved).predict(frame), table_model.predict(NEW))


def test_missing_values_where_training_had_none(table_model, saved):
    scorer = mlflow.pyfunc.load_model(saved)
    for kind in ("Int64", "float64", object):
        frame = NEW.astype({"items": kind})
        frame.loc[[0, 5], "items"] = None
        same(scorer.predict(frame), table_model.predict(frame))


def test_categories_and_booleans_of_any_type(table_model, saved):
    scorer = mlflow.pyfunc.load_model(saved)
    for changed in ({"country": "category"}, {"country": object}, {"known": object}):
        same(scorer.predict(NEW.astype(changed)), table_model.predict(NEW))


def test_columns_without_any_value(table_model, saved):
    frame = NEW.assign(**{"amount due": None, "country": None, "when": None, "known": None})
    same(mlflow.pyfunc.load_model(saved).predict(frame), table_model.predict(frame))


def test_one_row_and_none(table_model, saved):
    scorer = mlflow.pyfunc.load_model(saved)
    expected = table_model.predict(NEW)
    for i in (0, 17):
        same(scorer.predict(NEW[i : i + 1]), expected[i : i + 1])
    none = scorer.predict(NEW[:0])
    assert none.shape == (0, 3)
    assert list(none) == ["score", "alarm", "predicted"]


def test_the_signature_names_columns_and_results(saved):
    signature = mlflow.models.get_model_info(str(saved)).signature
    assert signature.inputs.input_names() == list(NEW)
    types = {spec.name: spec.type.name for spec in signature.outputs.inputs}
    assert types == {"score": "double", "alarm": "boolean", "predicted": "string"}


def test_the_files_hold_no_pickle(saved):
    kinds = {path.suffix for path in saved.rglob("*") if path.is_file()}
    assert not kinds & {".pkl", ".pickle", ".joblib", ".pt", ".pth"}
    assert "cloudpickle" not in (saved / "requirements.txt").read_text()


def test_requirements_are_pinned(saved):
    lines = (saved / "requirements.txt").read_text().splitlines()
    assert any(line.startswith("setpoint[cli,mlflow]==") for line in lines)
    assert {line.partition("==")[0] for line in lines} >= {
        "torch",
        "scikit-learn",
        "skrub",
        "mlflow",
    }
    assert not any("+" in line for line in lines)


def test_requirements_of_ones_own(table_model, tmp_path):
    setpoint.saving.mlflow.save_model(
        table_model, tmp_path / "more", extra_pip_requirements=["polars"]
    )
    lines = (tmp_path / "more" / "requirements.txt").read_text().splitlines()
    assert "polars" in lines
    assert any(line.startswith("torch==") for line in lines)
    setpoint.saving.mlflow.save_model(table_model, tmp_path / "own", pip_requirements=["setpoint"])
    assert "setpoint" in (tmp_path / "own" / "requirements.txt").read_text().splitlines()


def test_an_example_and_a_signature_of_ones_own(table_model, tmp_path):
    rows = NEW.dropna()
    signature = infer_signature(rows, table_model.predict(rows))
    setpoint.saving.mlflow.save_model(
        table_model, tmp_path / "model", signature=signature, input_example=rows[:3]
    )
    scorer = mlflow.pyfunc.load_model(tmp_path / "model")
    assert scorer.metadata.signature == signature
    same(scorer.predict(rows), table_model.predict(rows))
    same(scorer.predict(scorer.input_example), table_model.predict(rows[:3]))


# --- certificates ---------------------------------------------------------------------------------


def test_the_certificate_is_a_file_tags_and_metadata(table_model, saved):
    written = json.loads((saved / "certificate.json").read_text())
    assert written == table_model.certificate.to_dict()
    assert written["certified"] is True
    found = mlflow.models.get_model_info(str(saved)).metadata["setpoint"]
    assert found["goal"] == GOAL
    assert found["certificate"] == "certified"
    assert found["statement"] == table_model.certificate.message
    assert found["columns"]["note"] == "text"


def test_a_certificate_that_is_refused(tmp_path):
    goal = "max recall s.t. precision >= 0.999"
    clf = quietly(SetpointClassifier(goal, confidence=0.99, random_state=0).fit, X, Y)
    setpoint.saving.mlflow.save_model(clf, tmp_path / "model")
    assert json.loads((tmp_path / "model" / "certificate.json").read_text())["certified"] is False
    tags = setpoint.saving.mlflow.model_tags(clf)
    assert tags["setpoint.certificate"] == "refused"
    assert tags["setpoint.confidence"] == "0.99"
    info = mlflow.models.get_model_info(str(tmp_path / "model"))
    assert info.metadata["setpoint"]["statement"].startswith("Not certified")


def test_the_report_is_copied(table_model, tmp_path):
    report = tmp_path / "r.html"
    report.write_text("<p>report</p>")
    setpoint.saving.mlflow.save_model(table_model, tmp_path / "model", report=report)
    assert (tmp_path / "model" / "report.html").read_text() == "<p>report</p>"
    with pytest.raises(ModelFileError, match="there is no report"):
        setpoint.saving.mlflow.save_model(table_model, tmp_path / "no", report=tmp_path / "none")
    assert not (tmp_path / "no").exists()


# --- classifiers of arrays and frames -------------------------------------------------------------


def both(model, tmp_path, rows):
    setpoint.saving.mlflow.save_model(model, tmp_path / "model")
    return mlflow.pyfunc.load_model(tmp_path / "model").predict(rows)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_classifier(tmp_path, dtype):
    clf = SetpointClassifier("max f1", random_state=0).fit(X.astype(dtype), Y)
    rows = arrays(seed=1, dtype=dtype)[0]
    found = both(clf, tmp_path, rows)
    assert found["score"].to_numpy().tolist() == clf.positive_scores(rows).astype(float).tolist()
    assert found["predicted"].tolist() == clf.predict(rows).tolist()
    assert found["alarm"].tolist() == (clf.predict(rows) == 1).tolist()


def test_a_classifier_whose_positive_label_comes_first(tmp_path):
    clf = SetpointThreshold(logistic(), "max f1", pos_label="fraud", random_state=0)
    clf.fit(X, np.where(Y, "fraud", "ok"))
    rows = arrays(seed=1)[0]
    found = both(clf, tmp_path, rows)
    assert found["predicted"].tolist() == clf.predict(rows).tolist()
    assert (found["alarm"] == (found["predicted"] == "fraud")).all()


def test_a_threshold_on_named_columns_in_any_order(tmp_path):
    names = list("abcd")
    clf = SetpointThreshold(logistic(), GOAL, random_state=0).fit(pd.DataFrame(X, columns=names), Y)
    rows = pd.DataFrame(arrays(seed=1)[0], columns=names)
    found = both(clf, tmp_path, rows[["d", "b", "a", "c"]].assign(e="x"))
    same(found[["score"]], pd.DataFrame({"score": clf.positive_scores(rows) - clf.threshold_}))
    assert found["predicted"].tolist() == clf.predict(rows).tolist()


def test_a_classifier_of_texts(tmp_path):
    clf = SetpointThreshold(make_pipeline(TfidfVectorizer(), logistic()), "max f1", random_state=0)
    frame = payments().dropna(subset="note")
    clf.fit(frame["note"].tolist(), (frame["fraud"] == "yes").to_numpy())
    rows = NEW.dropna(subset="note")[["note"]]
    found = both(clf, tmp_path, rows)
    assert found["alarm"].tolist() == clf.predict(rows["note"].tolist()).tolist()
    assert 0 < found["alarm"].sum() < len(rows)


def test_a_band(tmp_path):
    band = SetpointBand(logistic(), BAND, random_state=0).fit(X, Y)
    rows = arrays(seed=1)[0]
    found = both(band, tmp_path, rows)
    assert list(found) == ["score", "decision"]
    assert found["score"].tolist() == band.positive_scores(rows).tolist()
    assert found["decision"].tolist() == band.predict(rows).tolist()
    assert len(setpoint.saving.mlflow.model_tags(band)["setpoint.threshold"].split()) == 2


def test_several_labels(tmp_path):
    labels = np.column_stack([Y, X[:, 1] > 0.5])
    several = SetpointMultilabel(logistic(), "max f1 for each label", random_state=0)
    several.fit(X, labels)
    rows = arrays(seed=1)[0]
    found = both(several, tmp_path, rows)
    scores, alarms = several.decision_function(rows), several.predict(rows)
    for i, name in enumerate(several.label_names_):
        assert found[f"{name}_score"].tolist() == scores[:, i].tolist()
        assert found[f"{name}_alarm"].tolist() == (alarms[:, i] == 1).tolist()


def test_amounts_and_segments_are_columns(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(X, columns=list("abcd"))
    amounts = rng.lognormal(3, 1, len(X))
    clf = SetpointThreshold(
        logistic(), "min cost(fp=5, fn=amount)", decision="expected_value", random_state=0
    ).fit(frame, Y, amounts={"amount": amounts})
    expected = clf.positive_scores(frame, amounts={"amount": amounts}) - clf.threshold_
    same(
        both(clf, tmp_path, frame.assign(amount=amounts))[["score"]],
        pd.DataFrame({"score": expected}),
    )
    clf.fit(X, Y, amounts={"amount": amounts})
    setpoint.saving.mlflow.save_model(clf, tmp_path / "arrays")
    found = mlflow.pyfunc.load_model(tmp_path / "arrays").predict(np.column_stack([X, amounts]))
    same(found[["score"]], pd.DataFrame({"score": expected}))


def test_a_module_of_ones_own_is_refused_when_it_is_saved(tmp_path):
    from torch import nn

    def net(d):
        return nn.Sequential(nn.Linear(d, 3), nn.ELU(), nn.Linear(3, 1))

    clf = SetpointClassifier("max f1", model=net, solver="cross_entropy", random_state=0).fit(X, Y)
    with pytest.raises(ModelFileError, match="custom torch module"):
        setpoint.saving.mlflow.save_model(clf, tmp_path / "model")
    assert not (tmp_path / "model").exists()


# --- paths, processes, the registry ---------------------------------------------------------------


def test_a_folder_with_content_is_left_alone(table_model, saved):
    before = sorted(path.name for path in saved.iterdir())
    with pytest.raises(ModelFileError, match="exists already"):
        setpoint.saving.mlflow.save_model(table_model, saved)
    assert sorted(path.name for path in saved.iterdir()) == before


def test_nothing_but_the_model_is_left(table_model, tmp_path):
    (tmp_path / "empty").mkdir()
    setpoint.saving.mlflow.save_model(table_model, tmp_path / "empty")
    with pytest.raises(ModelFileError, match="LogisticRegression cannot be saved"):
        setpoint.saving.mlflow.save_model(logistic(), tmp_path / "other")
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelFileError, match="cannot be written to .*file/model: Not a directory"):
        setpoint.saving.mlflow.save_model(table_model, tmp_path / "file" / "model")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file"]


FRESH = """
import sys
import time
import mlflow
import pandas as pd
from setpoint.saving.mlflow import load_model, save_model
saved, rows, scored, again = sys.argv[1:]
save_model(load_model(saved), again)
mlflow.pyfunc.load_model(again).predict(pd.read_parquet(rows)).to_parquet(scored)
"""


def test_a_fresh_process_loads_it_and_saves_it_again(table_model, saved, tmp_path):
    rows, scored, again = tmp_path / "rows.parquet", tmp_path / "scored.parquet", tmp_path / "again"
    NEW.to_parquet(rows)
    subprocess.run([sys.executable, "-c", FRESH, saved, rows, scored, again], check=True)
    same(pd.read_parquet(scored), table_model.predict(NEW))


@pytest.fixture
def registry(tmp_path, monkeypatch):
    before = mlflow.get_tracking_uri()
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    yield mlflow.MlflowClient()
    mlflow.set_tracking_uri(before)


def test_the_registry(table_model, registry, tmp_path):
    with mlflow.start_run() as run:
        info = setpoint.saving.mlflow.log_model(
            table_model, "model", registered_model_name="fraud", input_example=NEW[:2],
            tags={"team": "risk"}, metadata={"ticket": 7},
        )  # fmt: skip
    logged = mlflow.get_logged_model(info.model_id)
    assert logged.source_run_id == run.info.run_id
    version = registry.get_model_version("fraud", "1")
    for tags in (logged.tags, version.tags):
        assert tags["setpoint.goal"] == GOAL
        assert tags["setpoint.certificate"] == "certified"
        assert tags["team"] == "risk"
    for uri in (info.model_uri, "models:/fraud/1"):
        same(mlflow.pyfunc.load_model(uri).predict(NEW), table_model.predict(NEW))
    registry.set_registered_model_alias("fraud", "champion", "1")
    same(
        setpoint.saving.mlflow.load_model("models:/fraud@champion").predict(NEW),
        table_model.predict(NEW),
    )
    metadata = mlflow.models.get_model_info(info.model_uri).metadata
    assert metadata["ticket"] == 7
    assert metadata["setpoint"]["goal"] == GOAL
    file = mlflow.artifacts.download_artifacts("models:/fraud/1/certificate.json")
    assert json.loads(Path(file).read_text()) == table_model.certificate.to_dict()


def test_a_saved_model_can_be_registered_later(table_model, registry, saved):
    tags = setpoint.saving.mlflow.model_tags(table_model)
    version = mlflow.register_model(saved.as_uri(), "later", tags=tags)
    assert registry.get_model_version("later", version.version).tags["setpoint.goal"] == GOAL
    same(mlflow.pyfunc.load_model("models:/later/1").predict(NEW), table_model.predict(NEW))


def test_models_of_other_flavors_are_named(tmp_path):
    mlflow.sklearn.save_model(logistic().fit(X, Y), tmp_path / "other")
    with pytest.raises(ModelFileError, match="is not a model of setpoint; its flavors are"):
        setpoint.saving.mlflow.load_model(tmp_path / "other")


def test_the_models_own_files_are_those_of_setpoint(table_model, saved):
    same(load(saved / "data" / "setpoint_model").predict(NEW), table_model.predict(NEW))


def test_a_server_gives_the_same_scores(table_model, saved, tmp_path):
    """Missing values are null, and dates are texts, as JSON has them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["models", "serve", "-m", saved, "-p", str(port), "--env-manager", "local"]
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "mlflow", *command],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        )
    try:
        wait_for(f"http://127.0.0.1:{port}/ping", server, tmp_path / "log")
        sent = json.loads(NEW.to_json(orient="split", index=False, date_format="iso"))
        answer = requests.post(
            f"http://127.0.0.1:{port}/invocations", json={"dataframe_split": sent}, timeout=60
        )
        assert answer.ok, answer.text
        same(pd.DataFrame(answer.json()["predictions"]), table_model.predict(NEW))
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(60)


def wait_for(address, server, log):
    for _ in range(1000):
        assert server.poll() is None, log.read_text()
        try:
            if requests.get(address, timeout=5).ok:
                return
        except requests.ConnectionError:
            time.sleep(0.2)
    raise AssertionError(f"{address} does not answer")
