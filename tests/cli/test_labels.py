"""``setpoint fit``, ``predict`` and ``evaluate`` with several targets."""

import json

import numpy as np
import pandas as pd
import pytest
from cli_tables import failure, printed, run

from label_rows import tickets
from setpoint.model_files import load

GOAL = "max recall s.t. precision >= 0.6"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("tickets")
    tickets(2500).to_csv(found / "train.csv", index=False)
    tickets(800, seed=1).to_csv(found / "new.csv", index=False)
    given = ["fit", found / "train.csv", "--target", "spam,urgent", "--goal", GOAL, "--drop",
             "rare", "--confidence", "0.9", "--out", found / "m.zip", "-q", "--strict"]  # fmt: skip
    assert run(*given) == 0
    return found


def fit(folder, out, *more, target=("spam,urgent,rare",), goal="max f1"):
    named = [part for name in target for part in ("--target", name)]
    return ["fit", folder / "train.csv", *named, "--goal", goal, "--out", out, *more]


def test_a_list_and_repeated_targets_are_the_same(folder, tmp_path, capsys):
    results = []
    for target in (("spam,urgent,rare",), ("spam", "urgent", "rare"), ("spam, urgent", "rare")):
        assert run(*fit(folder, tmp_path / "m", "--json", target=target)) == 0
        results.append(printed(capsys)["test"])
    assert results[0] == results[1] == results[2]
    assert list(results[0]["labels"]) == ["spam", "urgent", "rare"]


def test_a_column_with_a_comma_in_its_name_comes_before_a_list(tmp_path, capsys):
    table = tickets().rename(columns={"spam": "spam,urgent"})
    table.to_csv(tmp_path / "train.csv", index=False)
    given = fit(tmp_path, tmp_path / "m", "--model", "logistic", "--json", target=["spam,urgent"])
    assert run(*given) == 0
    assert "tp" in printed(capsys)["test"]  # one target


def test_the_table_the_report_and_the_model(folder, tmp_path, capsys):
    page = tmp_path / "r.html"
    assert run(*fit(folder, tmp_path / "m", "--report", page, "--average", "micro")) == 0
    out = capsys.readouterr().out
    assert "max micro f1" in out
    assert "all labels, macro" in out
    assert str(page) in out
    assert "setpoint fit" in page.read_text("utf-8")  # the command


def test_predict_and_evaluate(folder, tmp_path, capsys):
    scores = tmp_path / "s.csv"
    given = ["predict", folder / "m.zip", folder / "new.csv", "--out", scores, "--json"]
    assert run(*given) == 0
    result, table = printed(capsys), pd.read_csv(scores)
    assert list(table) == ["spam_score", "spam_alarm", "urgent_score", "urgent_alarm"]
    assert result["labels"] == {n: int(table[f"{n}_alarm"].sum()) for n in ("spam", "urgent")}
    page = tmp_path / "e.html"
    assert run("evaluate", folder / "m.zip", folder / "new.csv", "--report", page, "--json") == 0
    found = printed(capsys)["evaluated"]["labels"]["spam"]
    assert found["tp"] + found["fp"] == result["labels"]["spam"]
    assert page.exists()


def test_the_onnx_model_decides_all_labels(folder, tmp_path, capsys):
    import onnxruntime

    assert run("export", folder / "m.zip", tmp_path / "m.onnx") == 0
    model, new = load(folder / "m.zip"), pd.read_csv(folder / "new.csv")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    X = model.features(new, ignore_extra=True).astype(np.float64)
    _, decisions = session.run(["score", "decision"], {"X": X})
    wanted = model.predict(new, ignore_extra=True)
    assert np.array_equal(decisions, wanted[["spam_alarm", "urgent_alarm"]])
    assert decisions.any(axis=0).all()


def test_a_check_continues_after_an_earlier_one(folder, tmp_path, capsys):
    evaluate = ["evaluate", folder / "m.zip", folder / "new.csv", "--json"]
    assert run(*evaluate) == 0
    first = tmp_path / "first.json"
    first.write_text(capsys.readouterr().out, "utf-8")
    assert run(*evaluate, "--after", first) == 0
    verdicts = printed(capsys)["verdicts"]
    assert {verdict["looks"] for verdict in verdicts.values()} == {2}
    first.write_text(json.dumps({"verdict": None}), "utf-8")
    assert "cannot continue" in failure(capsys, *evaluate[:-1], "--after", first)


@pytest.mark.parametrize(
    ("option", "advice"),
    [
        (["--importance"], "this one has several."),
        (["--nearest", 3], "this one has several."),
        (["--baseline-scores", "x"], "this one has several."),
        (["--figures", "f"], "leave it out."),
        (["--cost-alarm", 1, "--cost-miss", 2], "leave it out."),
        (["--called", "case,cases"], "leave it out."),
    ],
)
def test_options_of_models_of_one_label_are_refused(folder, capsys, option, advice):
    message = failure(capsys, "evaluate", folder / "m.zip", folder / "new.csv", *option)
    assert f"{option[0]} is for models of one label; {advice}" in message


def test_rows_that_contradict_a_certificate_fail_strictly(folder, tmp_path, capsys):
    frame = tickets(800, seed=2)
    frame["spam"] = 1 - frame["spam"]
    frame.to_csv(tmp_path / "broken.csv", index=False)
    evaluate = ["evaluate", folder / "m.zip", tmp_path / "broken.csv"]
    assert run(*evaluate) == 0
    assert "contradict" in capsys.readouterr().out
    assert run(*evaluate, "--strict", "-q") == 3


def test_strict_fails_if_a_label_is_not_certified(folder, tmp_path):
    given = fit(folder, tmp_path / "m", "--confidence", "0.99", "--strict", "-q",
                goal="max recall s.t. precision >= 0.97")  # fmt: skip
    assert run(*given) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "linear"], "logistic"),
        (["--decision", "expected-value"], "leave out --decision"),
        (["--thresholds", "per-group"], "leave out --thresholds"),
        (["--cap", "a=5"], "leave out --cap"),
        (["--stream"], "leave out --stream"),
        (["--checkpoint", "x"], "leave out --checkpoint"),
        (["--figures", "x"], "use --report"),
        (["--cost-alarm", "1", "--cost-miss", "2"], "no costs"),
        (["--average", "micro", "--confidence", "0.9"], "cannot be certified"),
    ],
)
def test_options_of_one_target_are_refused_before_reading(
    tmp_path, capsys, no_work, options, message
):
    given = ["fit", tmp_path / "none.csv", "--target", "a", "--target", "b", "--goal", "max f1",
             "--out", tmp_path / "m"]  # fmt: skip
    assert message in failure(capsys, *given, *options)


def test_average_and_top_need_the_right_number_of_labels(folder, tmp_path, capsys):
    assert "several targets" in failure(
        capsys, *fit(folder, tmp_path / "m", "--average", "micro", target=["spam"])
    )
    predict = ["predict", folder / "m.zip", folder / "new.csv", "--out", tmp_path / "s.csv"]
    assert "threshold for each of several labels" in failure(capsys, *predict, "--top", "5")


# --- one important class among three --------------------------------------------------------------


def test_several_positive_labels_of_three_classes(tmp_path, capsys):
    rng = np.random.default_rng(0)
    x = rng.normal(size=900)
    outcome = np.digitize(x + 0.4 * rng.normal(size=900), [0, 1])
    pd.DataFrame({"x": x, "y": rng.normal(size=900), "outcome": outcome}).to_csv(
        tmp_path / "t.csv", index=False
    )
    page, model = tmp_path / "r.html", tmp_path / "m"
    given = ["fit", tmp_path / "t.csv", "--target", "outcome", "--positive", "1,2", "--goal", GOAL,
             "--model", "logistic", "--out", model, "--report", page, "-q"]  # fmt: skip
    assert run(*given) == 0
    assert "1 or 2" in page.read_text("utf-8")
    scores = tmp_path / "s.csv"
    assert run("predict", model, tmp_path / "t.csv", "--out", scores, "-q") == 0
    assert set(pd.read_csv(scores)["predicted"]) == {"1 or 2", "other"}
    assert run("evaluate", model, tmp_path / "t.csv", "--report", page, "--json") == 0
    found = printed(capsys)["evaluated"]
    assert found["tp"] + found["fn"] == int((outcome > 0).sum())
