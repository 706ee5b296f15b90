"""The commands, on tables small enough for tests, with real files and real models."""

import json

import numpy as np
import pandas as pd
import pytest
from cli_tables import GOAL, fit_arguments, payments

from setpoint import choose_threshold
from setpoint.cli import main
from setpoint.data.table_reader import read_table
from setpoint.model_files import load

DROPPED = ["id", "when", "customer"]


def printed(capsys):
    return json.loads(capsys.readouterr().out)


def test_fit_prints_what_to_expect_and_where_everything_is(files, tmp_path, capsys):
    report = tmp_path / "report.html"
    figures = tmp_path / "figures"
    code = main(
        fit_arguments(files, tmp_path / "m", "--report", report, "--figures", figures,
                      "--cost-alarm", 5, "--cost-miss", 200, "--currency", "$")
    )  # fmt: skip
    out = capsys.readouterr().out
    assert code == 0
    assert GOAL in out
    assert str(report) in out
    assert "alarms are real" in out
    page = report.read_text("utf-8")
    assert "fraud" in page
    assert "$" in page
    assert {p.suffix for p in figures.iterdir()} == {".png", ".svg"}
    assert (tmp_path / "m").is_dir()


def test_what_is_saved_predicts_what_was_fitted_and_what_predict_writes(
    files, model, tmp_path, capsys
):
    """The command's file, the loaded model and plain Python agree to the last bit."""
    out = tmp_path / "scored.parquet"
    kept = [word for name in (*DROPPED, "class") for word in ("--keep", name)]
    rows = str(files / "new.parquet")
    assert main(["predict", str(model), rows, "--out", str(out), *kept, "--json"]) == 0
    told = printed(capsys)
    scored = pd.read_parquet(out)
    frame = read_table(files / "new.parquet").drop(columns=[*DROPPED, "class"])
    expected = load(model).predict(frame)
    assert scored["score"].to_numpy().tobytes() == expected["score"].to_numpy().tobytes()
    assert scored["id"].tolist() == payments(seed=1)["id"].tolist()
    assert set(scored["predicted"]) == {"fraud", "ok"}
    assert told["rows"] == len(scored) == 600
    assert told["alarms"] == int(scored["alarm"].sum())


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "arrow"])
def test_predict_writes_every_format_alike(files, model, tmp_path, ending, capsys):
    small = tmp_path / "rows.csv"
    payments(seed=1).drop(columns=[*DROPPED, "class"]).head(70).to_csv(small, index=False)
    out = tmp_path / f"scored.{ending}"
    assert (
        main(["predict", str(model), str(small), "--out", str(out), "--batch-rows", "32", "-q"])
        == 0
    )
    assert capsys.readouterr().out == ""
    frame = read_table(out)
    assert list(frame.columns) == ["score", "alarm", "predicted"]
    assert np.array_equal(frame["score"] > 0, frame["alarm"])


def test_a_zip_file_is_a_model_too(files, tmp_path, capsys):
    out = tmp_path / "model.zip"
    assert main(fit_arguments(files, out, "-q")) == 0
    rows = tmp_path / "rows.csv"
    payments(seed=1).drop(columns=[*DROPPED, "class"]).to_csv(rows, index=False)
    assert main(["predict", str(out), str(rows), "--out", str(tmp_path / "s.csv")]) == 0
    assert "600 rows" in capsys.readouterr().out


def test_evaluate_counts_by_hand(files, model, capsys, tmp_path):
    rows = tmp_path / "rows.parquet"
    frame = payments(seed=1).drop(columns=DROPPED)
    frame.to_parquet(rows)
    report = tmp_path / "r.html"
    assert main(["evaluate", str(model), str(rows), "--json", "--report", str(report)]) == 0
    point = printed(capsys)["evaluated"]
    alarm = load(model).predict(frame.drop(columns="class"))["alarm"].to_numpy()
    fraud = frame["class"].to_numpy() == "fraud"
    assert (point["tp"], point["fp"]) == (int((alarm & fraud).sum()), int((alarm & ~fraud).sum()))
    assert report.exists()


def test_certify_takes_scores_from_anywhere(files, tmp_path, capsys):
    rng = np.random.default_rng(0)
    y = rng.random(4000) < 0.2
    scores = rng.normal(size=4000) + 2.2 * y
    table = tmp_path / "scores.csv"
    pd.DataFrame({"y": np.where(y, "sick", "well"), "p": scores}).to_csv(table, index=False)
    arguments = ["certify", str(table), "--label", "y", "--score", "p", "--positive", "sick",
                 "--goal", "max recall s.t. precision >= 0.7", "--json"]  # fmt: skip
    assert main(arguments) == 0
    certificate = printed(capsys)["certificate"]
    assert certificate["certified"]
    assert certificate["confidence"] == 0.9
    best = choose_threshold(y, scores, "max recall s.t. precision >= 0.7")
    assert certificate["threshold"] >= best.threshold  # a promise is more careful
    hard = [a.replace("0.7", "0.999") for a in arguments]
    assert main(hard) == 0
    assert not printed(capsys)["certificate"]["certified"]
    assert main([*hard, "--strict"]) == 3


def test_compare_puts_models_and_goals_into_one_table(files, capsys):
    arguments = ["compare", str(files / "train.csv"), "--target", "class", "--positive", "fraud",
                 "--goal", GOAL, "--goal", "max f1", "--model", "logistic", "--model", "hgb",
                 "--drop", "id", "--drop", "when", "--drop", "customer"]  # fmt: skip
    assert main([*arguments, "--json"]) == 0
    rows = printed(capsys)["compared"]
    assert [(r["goal"], r["model"]) for r in rows] == [
        (g, m) for g in (GOAL, "max f1") for m in ("logistic", "hgb")
    ]
    assert all(
        r["test"]["tp"] + r["test"]["fn"] == rows[0]["test"]["tp"] + rows[0]["test"]["fn"]
        for r in rows
    )
    assert main(arguments) == 0
    assert "hgb" in capsys.readouterr().out


def test_time_and_group_are_no_features_and_are_told(files, tmp_path, capsys):
    arguments = ["fit", str(files / "train.csv"), "--target", "class", "--goal", GOAL,
                 "--model", "logistic", "--drop", "id", "--out", str(tmp_path / "m"),
                 "--json"]  # fmt: skip
    assert main([*arguments, "--time", "when", "--group", "customer"]) == 0
    told = printed(capsys)
    names = load(tmp_path / "m").schema.names
    assert "when" not in names
    assert "customer" not in names
    assert "night hour" in names
    assert told["test"]["tp"] + told["test"]["fn"] > 0


def test_export_gives_onnx_that_decides_the_same(model, tmp_path, capsys):
    import onnxruntime

    out = tmp_path / "model.onnx"
    assert main(["export", str(model), str(out)]) == 0
    loaded = load(model)
    frame = payments(seed=1).drop(columns=[*DROPPED, "class"])
    X = loaded.features(frame)
    session = onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"])
    wanted = session.get_inputs()[0]
    X = X.astype(np.float64 if "double" in wanted.type else np.float32)
    outputs = dict(
        zip(
            [o.name for o in session.get_outputs()],
            session.run(None, {wanted.name: X}),
            strict=True,
        )
    )
    assert np.array_equal(
        outputs["decision"].astype(bool).ravel(), loaded.predict(frame)["alarm"].to_numpy()
    )


def test_reproduce_is_the_experiments_command(capsys, tmp_path):
    assert main(["reproduce", "regulariser", "--out", str(tmp_path)]) == 0
    assert "regulariser" in capsys.readouterr().out
    assert main(["reproduce", "no-such-table", "--out", str(tmp_path)]) == 1
    assert "unknown table or figure 'no-such-table'" in capsys.readouterr().err


def test_evaluate_checks_the_promise_one_case_of_a_group(files, tmp_path, capsys):
    goal = "max recall s.t. precision >= 0.3"
    fit = ["fit", str(files / "train.csv"), "--target", "class", "--goal", goal, "--model",
           "logistic", "--drop", "id", "--drop", "when", "--group", "customer", "--confidence",
           "0.9", "--out", str(tmp_path / "m"), "-q"]  # fmt: skip
    assert main(fit) == 0
    assert load(tmp_path / "m").certificate.one_per_group
    rows = tmp_path / "rows.csv"
    payments(seed=1).drop(columns=["id", "when"]).to_csv(rows, index=False)
    assert main(["evaluate", str(tmp_path / "m"), str(rows), "--json"]) == 0
    told = printed(capsys)
    assert told["verdict"]["looks"] == 1
    assert not told["verdict"]["broken"]
    payments(seed=1).drop(columns=["id", "when", "customer"]).to_csv(rows, index=False)
    assert main(["evaluate", str(tmp_path / "m"), str(rows)]) == 1
    assert "'customer'" in capsys.readouterr().err


def test_comparing_or_reporting_needs_test_rows(files, tmp_path, capsys):
    compare = ["compare", str(files / "train.csv"), "--target", "class", "--goal", "max f1"]
    assert main([*compare, "--test", "0"]) == 1
    assert "--test" in capsys.readouterr().err
    page = tmp_path / "page.html"
    assert main(fit_arguments(files, tmp_path / "m", "--test", 0, "--report", page)) == 1
    assert "needs test rows" in capsys.readouterr().err
    assert main(fit_arguments(files, tmp_path / "m", "--test", 0)) == 0
