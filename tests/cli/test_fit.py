"""``setpoint fit`` on a table in memory."""

import errno
import os
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from cli_tables import DROPPED, GOAL, failure, fit_arguments, payments, printed, run

from setpoint.cli import main
from setpoint.model_files import load
from setpoint.tables import fitting


def drifting(n=1200):
    """Return rows in order of time, the newest fifth from another distribution."""
    frame = payments(n)
    old = np.arange(n) < 0.8 * n
    rng = np.random.default_rng(5)
    frame["amount"] = np.where(old, frame["amount"], np.exp(rng.normal(5, 0.8, n)))
    frame["night hour"] = frame["night hour"].where(old, True)
    return frame


def fit_of(frame, tmp_path, *more, target="class", goal=GOAL):
    table = tmp_path / "table.csv"
    if isinstance(frame, str):
        table.write_text(frame, "utf-8")
    else:
        frame.to_csv(table, index=False)
    model = () if "--model" in more else ("--model", "logistic")
    return ["fit", table, "--target", target, "--goal", goal, "--out", tmp_path / "m", *model,
            *more]  # fmt: skip


def test_the_result_and_all_paths_are_printed(files, tmp_path, capsys):
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


def test_a_model_can_be_a_zip_file(files, tmp_path, capsys):
    out = tmp_path / "model.zip"
    assert main(fit_arguments(files, out, "-q")) == 0
    rows = tmp_path / "rows.csv"
    payments(seed=1).drop(columns=[*DROPPED, "class"]).to_csv(rows, index=False)
    assert main(["predict", str(out), str(rows), "--out", str(tmp_path / "s.csv")]) == 0
    assert "600 rows" in capsys.readouterr().out


def test_time_and_group_columns_are_not_features(files, tmp_path, capsys):
    arguments = ["fit", str(files / "train.csv"), "--target", "class", "--goal", GOAL,
                 "--model", "logistic", "--drop", "id", "--out", str(tmp_path / "m"),
                 "--json"]  # fmt: skip
    assert main([*arguments, "--time", "when", "--group", "customer"]) == 0
    result = printed(capsys)
    names = load(tmp_path / "m").schema.names
    assert "when" not in names
    assert "customer" not in names
    assert "night hour" in names
    assert result["test"]["tp"] + result["test"]["fn"] > 0


def test_a_list_of_dropped_columns(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.random(300) < 0.4
    columns = {name: rng.normal(size=300) + y for name in ("", "a", "b", "c", "c,d")}
    pd.DataFrame({**columns, "y": y.astype(int)}).to_csv(tmp_path / "t.csv", index=False)

    def features(*options):
        arguments = ("fit", tmp_path / "t.csv", "--target", "y", "--goal", "max f1", "--model",
                     "logistic", "--out", tmp_path / "m")  # fmt: skip
        assert run(*arguments, *options) == 0
        return list(load(tmp_path / "m").schema.names)

    assert features("--drop", "a, b") == ["", "c", "c,d"]
    assert features("--drop", "a", "--drop", "c,d") == ["", "b", "c"]
    assert features("--drop", "", "--drop", "a,b") == ["c", "c,d"]
    assert features("--drop", ",a,b") == ["c", "c,d"]


def test_comparisons_and_reports_need_test_rows(files, tmp_path, capsys):
    compare = ["compare", str(files / "train.csv"), "--target", "class", "--goal", "max f1"]
    assert main([*compare, "--test", "0"]) == 1
    assert "--test" in capsys.readouterr().err
    page = tmp_path / "page.html"
    assert main(fit_arguments(files, tmp_path / "m", "--test", 0, "--report", page)) == 1
    assert "needs test rows" in capsys.readouterr().err
    assert main(fit_arguments(files, tmp_path / "m", "--test", 0)) == 0


def test_strict_applies_to_the_test_rows(tmp_path, capsys):
    fit = fit_of(drifting(), tmp_path, "--positive", "fraud", "--drop", "id", "--drop", "customer",
                 "--time", "when", "--json")  # fmt: skip
    assert run(*fit) == 0
    result = printed(capsys)
    assert result["threshold_set_on"]["feasible"]
    assert not result["test"]["feasible"]
    assert run(*fit, "--strict") == 3


def test_without_test_rows_strict_applies_to_the_validation_rows(files, tmp_path):
    assert run(*fit_arguments(files, tmp_path / "m", "--test", 0, "--strict", "-q")) == 0


def test_a_goal_met_without_alarms_is_missed(files, tmp_path, capsys, monkeypatch):
    real = fitting.fit_table

    def silent(*given, **named):
        fitted = real(*given, **named)
        point = fitted.test_point
        none = replace(point, tp=0.0, fp=0.0, fn=point.fn + point.tp, tn=point.tn + point.fp)
        return replace(fitted, test_point=none)

    monkeypatch.setattr(fitting, "fit_table", silent)
    assert run(*fit_arguments(files, tmp_path / "m")) == 0
    assert "trivially (no alarms)" in capsys.readouterr().out
    assert run(*fit_arguments(files, tmp_path / "m", "--strict", "-q")) == 3


def test_too_few_rows_for_a_test_split_names_the_option(tmp_path, capsys):
    frame = payments(40)
    frame["class"] = ["fraud", *["ok"] * 39]
    assert "--test 0" in failure(capsys, *fit_of(frame, tmp_path, goal="max f1"))


def test_a_missing_table(tmp_path, capsys):
    fit = fit_of("", tmp_path)
    fit[1] = tmp_path / "nothing.csv"
    assert "nothing.csv" in failure(capsys, *fit)


def test_a_missing_column(tmp_path, capsys):
    err = failure(capsys, *fit_of(payments(60), tmp_path, target="clas"))
    assert "'clas'" in err
    assert "'class'" in err  # the nearest one


def test_a_target_with_three_values(tmp_path, capsys):
    frame = payments(60)
    frame.loc[:9, "class"] = "unclear"
    err = failure(capsys, *fit_of(frame, tmp_path))
    for word in ("unclear", "fraud", "ok"):
        assert word in err


def test_a_table_without_rows(tmp_path, capsys):
    assert "empty" in failure(capsys, *fit_of("", tmp_path))
    assert "no rows" in failure(capsys, *fit_of("a,class\n", tmp_path))


def test_an_empty_column_is_reported_and_left_out(files, tmp_path, capsys):
    frame = payments()
    frame["nothing"] = np.nan
    assert run(*fit_of(frame, tmp_path, "--positive", "fraud")) == 0
    assert "'nothing'" in capsys.readouterr().err


def test_a_csv_with_a_broken_row(tmp_path, capsys):
    lines = payments(60).to_csv(index=False).splitlines()
    lines[20] += ",one more,and another"
    err = failure(capsys, *fit_of("\n".join(lines), tmp_path))
    assert "21" in err  # the line, as an editor counts


def test_a_positive_label_that_does_not_occur(tmp_path, capsys):
    err = failure(capsys, *fit_of(payments(60), tmp_path, "--positive", "Fraud!"))
    assert "Fraud!" in err
    assert "fraud" in err


def test_an_invalid_goal_and_an_infeasible_one(files, tmp_path, capsys):
    err = failure(capsys, *fit_of(payments(60), tmp_path, goal="max recal"))
    assert "recall" in err
    rng = np.random.default_rng(0)
    noise = pd.DataFrame(
        {"x": rng.normal(size=400), "class": rng.choice(["a", "b"], 400, p=[0.9, 0.1])}
    )
    arguments = fit_of(noise, tmp_path, goal="max recall s.t. precision >= 0.9, recall >= 0.9")
    assert run(*arguments) == 0  # the closest point is kept, and the reader result
    out, err = capsys.readouterr()
    assert "warning" in err
    assert "no" in out
    assert run(*[*arguments, "--strict"]) == 3


def test_a_read_only_output_folder(files, tmp_path, capsys, monkeypatch):
    """Root may write anywhere, so the refusal is simulated where it would come from."""
    real = os.mkdir

    def refuse(path, *given, **named):
        if "locked" in str(path):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, *given, **named)

    monkeypatch.setattr(os, "mkdir", refuse)
    err = failure(capsys, *fit_arguments(files, tmp_path / "locked" / "m"))
    assert "locked" in err
    assert "Permission denied" in err


def test_an_unavailable_device_is_reported_before_the_table_is_read(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for device, model, expected in (
        ("cuda", "linear", "requests a GPU, but torch finds none"),
        ("cuda:0", "logistic", "'logistic' is trained on the CPU"),
        ("mps", "mlp", "'auto', 'cpu', 'cuda'"),
        ("gpu", "linear", "'auto', 'cpu', 'cuda'"),
    ):
        arguments = fit_of("not a table\n", tmp_path, "--device", device, "--model", model)
        assert expected in failure(capsys, *arguments)


def test_a_gpu_for_a_model_that_is_trained_on_the_cpu(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    err = failure(
        capsys, *fit_of("not a table\n", tmp_path, "--device", "cuda:0", "--model", "hgb")
    )
    assert "is for linear and mlp; 'hgb' is trained on the CPU" in err


def test_costs_must_be_given_together(files, tmp_path, capsys):
    assert "--cost-miss" in failure(
        capsys, *fit_arguments(files, tmp_path / "m", "--cost-alarm", 3)
    )


def test_several_positive_labels(files, tmp_path, capsys):
    """From a table with four labels to predictions, an evaluation and a report."""
    frame = payments()
    rng = np.random.default_rng(0)
    frame["class"] = np.where(
        frame["class"] == "fraud", rng.choice([1, 2], len(frame)), rng.choice([0, 3], len(frame))
    )
    table, out = tmp_path / "train.csv", tmp_path / "model"
    frame.drop(columns=DROPPED).to_csv(table, index=False)
    page = tmp_path / "report.html"
    fit = ["fit", table, "--target", "class", "--goal", "max f1", "--out", out]
    assert "--positive 1,2" in failure(capsys, *fit)
    assert run(*fit, "--positive", "1,2", "--report", page, "--quiet") == 0
    assert "1 or 2" in page.read_text("utf-8")
    assert run("evaluate", out, table, "--json") == 0
    found = printed(capsys)["evaluated"]
    assert found["tp"] + found["fn"] == frame["class"].isin([1, 2]).sum()
    assert run("predict", out, table, "--out", tmp_path / "new.csv", "--quiet") == 0
    predicted = pd.read_csv(tmp_path / "new.csv")
    assert set(predicted["predicted"]) == {"1 or 2", "other"}
    assert (predicted["alarm"] == (predicted["predicted"] == "1 or 2")).all()


def test_linear_models_point_to_others(files, tmp_path, capsys):
    fit = fit_arguments(files, tmp_path / "m")
    assert main(fit) == 0
    assert "boosted trees are often better on tables; --model auto" in capsys.readouterr().err
    trees = [argument.replace("logistic", "hgb") for argument in fit]
    assert main(trees) == 0
    assert "often better" not in capsys.readouterr().err
    chosen = [argument.replace("logistic", "linear") for argument in fit]
    assert main([*chosen, "--device", "cpu"]) == 0
    assert "often better" not in capsys.readouterr().err


def test_coefficients_of_a_linear_model(files, tmp_path, capsys):
    page = tmp_path / "r.html"
    assert main(fit_arguments(files, tmp_path / "m", "--report", page)) == 0
    out = capsys.readouterr().out
    assert "Coefficients. The score of a row, relative to the threshold" in out
    assert "night hour " in out
    assert "What moves the score" in page.read_text("utf-8")
    assert main(fit_arguments(files, tmp_path / "m", "--json")) == 0
    found = printed(capsys)["coefficients"]
    features = [one["feature"] for one in found["coefficients"]]
    assert {"amount", "night hour", "amount is missing"} <= set(features)
    assert found == load(tmp_path / "m").coefficients().to_dict()


def test_only_ten_coefficients_are_printed(tmp_path, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"<script>{i},€": rng.normal(size=200) for i in range(12)})
    frame["class"] = frame.iloc[:, 0] + rng.normal(size=200) > 0.5
    assert run(*fit_of(frame, tmp_path, "--report", tmp_path / "r.html", goal="max f1")) == 0
    assert "… 2 more (all of them: --json" in capsys.readouterr().out
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "<summary>2 more</summary>" in page
    assert "<script>0" not in page
    assert "&lt;script&gt;0,€" in page


def test_trees_have_no_coefficients(tmp_path, capsys):
    arguments = fit_of(payments(300).drop(columns=DROPPED), tmp_path, "--json")
    arguments[arguments.index("logistic")] = "hgb"
    assert run(*arguments) == 0
    assert printed(capsys)["coefficients"] is None


def test_importance_and_nearest_rows_in_the_report(files, tmp_path, capsys):
    page = tmp_path / "r.html"
    assert main(fit_arguments(files, tmp_path / "m", "--report", page)) == 0
    assert "Importance." not in capsys.readouterr().out
    text = page.read_text("utf-8")
    assert "Columns that the goal depends on" in text
    assert "Cases nearest to the threshold" in text
    assert "Values are left out" in text
    near = text.partition("Cases nearest to the threshold")[2].partition("</section>")[0]
    assert "amount\xa0↑" in near or "amount\xa0↓" in near
    assert "amount =" not in near
    more = ["--report", page, "--no-importance", "--show-values"]
    assert main(fit_arguments(files, tmp_path / "m", *more)) == 0
    text = page.read_text("utf-8")
    assert "Columns that the goal depends on" not in text
    assert "Values are left out" not in text
    assert "country = " in text.partition("Cases nearest to the threshold")[2]


def test_importance_on_request(files, tmp_path, capsys):
    assert main(fit_arguments(files, tmp_path / "m", "--importance", "--json")) == 0
    result = printed(capsys)
    assert result["importance"]["columns"][0]["columns"] in (["amount"], ["night hour"])
    assert result["report"] is None
    message = failure(capsys, *fit_arguments(files, tmp_path / "n", "--importance", "--test", "0"))
    assert "--importance needs test rows" in message
    assert main(fit_arguments(files, tmp_path / "m", "--show-values")) == 0
    assert "--show-values has no effect without --report" in capsys.readouterr().err


def test_a_workbook_is_a_table(tmp_path, capsys):
    pytest.importorskip("openpyxl")
    frame = payments(300)[["amount", "night hour", "country", "when", "class"]]
    for name, table in (("t.csv", frame.to_csv), ("t.xlsx", frame.to_excel)):
        table(tmp_path / name, index=False)
    results = []
    for name in ("t.csv", "t.xlsx"):
        fit = ["fit", tmp_path / name, "--target", "class", "--goal", GOAL, "--out", tmp_path / "m",
               "--model", "logistic", "--json"]  # fmt: skip
        assert run(*fit) == 0
        results.append(printed(capsys)["test"])
        assert run("evaluate", tmp_path / "m", tmp_path / "t.xlsx", "--json") == 0
        assert printed(capsys)["rows_seen"]["in_training"] > 0.75
    assert results[0] == results[1]
    predict = ["predict", tmp_path / "m", tmp_path / "t.xlsx", "--out"]
    assert run(*predict, tmp_path / "s.csv", "-q") == 0
    assert "not written as workbooks" in failure(capsys, *predict, tmp_path / "s.xlsx")
