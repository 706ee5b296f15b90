"""A user's mistakes: a message that says what was wrong, where, and what to do; no traceback."""

import errno
import os

import numpy as np
import pandas as pd
import pytest
from cli_tables import GOAL, fit_arguments, payments

from setpoint.cli import main


def told(capsys, arguments, code=1):
    assert main([str(a) for a in arguments]) == code
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured.err


def fit_of(frame, tmp_path, *more, target="class", goal=GOAL):
    table = tmp_path / "table.csv"
    if isinstance(frame, str):
        table.write_text(frame, "utf-8")
    else:
        frame.to_csv(table, index=False)
    return [
        "fit",
        table,
        "--target",
        target,
        "--goal",
        goal,
        "--out",
        tmp_path / "m",
        "--model",
        "logistic",
        *more,
    ]


def test_no_such_file(tmp_path, capsys):
    err = told(
        capsys,
        ["fit", tmp_path / "nothing.csv", "--target", "y", "--goal", GOAL, "--out", tmp_path / "m"],
    )
    assert "nothing.csv" in err


def test_no_such_column(tmp_path, capsys):
    err = told(capsys, fit_of(payments(60), tmp_path, target="clas"))
    assert "'clas'" in err
    assert "'class'" in err  # the nearest one


def test_a_target_with_three_values(tmp_path, capsys):
    frame = payments(60)
    frame.loc[:9, "class"] = "unclear"
    err = told(capsys, fit_of(frame, tmp_path))
    for word in ("unclear", "fraud", "ok"):
        assert word in err


def test_an_empty_file_and_one_with_a_header_alone(tmp_path, capsys):
    assert "empty" in told(capsys, fit_of("", tmp_path))
    assert "no rows" in told(capsys, fit_of("a,class\n", tmp_path))


def test_an_all_missing_column_is_told_and_left_out(files, tmp_path, capsys):
    frame = payments()
    frame["nothing"] = np.nan
    assert main([str(a) for a in fit_of(frame, tmp_path, "--positive", "fraud")]) == 0
    assert "'nothing'" in capsys.readouterr().err


def test_a_csv_with_a_broken_row(tmp_path, capsys):
    lines = payments(60).to_csv(index=False).splitlines()
    lines[20] += ",one more,and another"
    err = told(capsys, fit_of("\n".join(lines), tmp_path))
    assert "21" in err  # the line, as an editor counts


def test_a_positive_label_that_does_not_occur(tmp_path, capsys):
    err = told(capsys, fit_of(payments(60), tmp_path, "--positive", "Fraud!"))
    assert "Fraud!" in err
    assert "fraud" in err


def test_a_goal_that_cannot_be_read_and_one_that_no_threshold_meets(files, tmp_path, capsys):
    err = told(capsys, fit_of(payments(60), tmp_path, goal="max recal"))
    assert "recall" in err
    rng = np.random.default_rng(0)
    noise = pd.DataFrame(
        {"x": rng.normal(size=400), "class": rng.choice(["a", "b"], 400, p=[0.9, 0.1])}
    )
    arguments = fit_of(noise, tmp_path, goal="max recall s.t. precision >= 0.9, recall >= 0.9")
    assert main([str(a) for a in arguments]) == 0  # the closest point is kept, and the reader told
    out, err = capsys.readouterr()
    assert "warning" in err
    assert "no" in out
    assert main([str(a) for a in [*arguments, "--strict"]]) == 3


def test_a_read_only_output_folder(files, tmp_path, capsys, monkeypatch):
    """Root may write anywhere, so the refusal is simulated where it would come from."""
    real = os.mkdir

    def refuse(path, *given, **named):
        if "locked" in str(path):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, *given, **named)

    monkeypatch.setattr(os, "mkdir", refuse)
    err = told(capsys, fit_arguments(files, tmp_path / "locked" / "m"))
    assert "locked" in err
    assert "Permission denied" in err


def test_a_full_disk_leaves_the_old_result(files, model, tmp_path, capsys, monkeypatch):
    rows = tmp_path / "rows.csv"
    payments(seed=1).drop(columns=["id", "when", "customer", "class"]).to_csv(rows, index=False)
    out = tmp_path / "scored.csv"
    old = "score,alarm,predicted\n0.5,true,fraud\n"
    out.write_text(old)

    def full(*given, **named):
        raise OSError(errno.ENOSPC, "No space left on device", str(out))

    monkeypatch.setattr("setpoint.data.table_writer.TableWriter.write", full)
    err = told(capsys, ["predict", model, rows, "--out", out])
    assert "No space left" in err
    assert out.read_text() == old
    assert sorted(p.name for p in tmp_path.iterdir()) == ["rows.csv", "scored.csv"]


@pytest.mark.parametrize(
    ("device", "model", "expected"),
    [
        ("cuda", "linear", "requests a GPU, but torch finds none"),
        ("cuda:0", "logistic", "requests a GPU"),
        ("mps", "mlp", "not supported"),
        ("gpu", "linear", "'auto', 'cpu', 'cuda'"),
    ],
)
def test_a_device_that_is_not_there_is_told_before_the_table_is_read(
    tmp_path, capsys, device, model, expected, monkeypatch
):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    arguments = fit_of("not a table\n", tmp_path, "--device", device, "--model", model)
    assert expected in told(capsys, arguments)


def test_a_device_for_a_model_that_is_trained_on_the_cpu(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    err = told(capsys, fit_of("not a table\n", tmp_path, "--device", "cuda:0", "--model", "hgb"))
    assert "is for linear and mlp; 'hgb' is trained on the CPU" in err


@pytest.mark.parametrize("harm", ["truncated", "missing", "not a model"])
def test_a_model_that_is_damaged(model, tmp_path, capsys, harm, files):
    import shutil

    copy = tmp_path / "model"
    if harm == "not a model":
        copy.mkdir()
        (copy / "notes.txt").write_text("hello")
    else:
        shutil.copytree(model, copy, symlinks=True)
        part = max((p for p in copy.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
        part.unlink() if harm == "missing" else part.write_bytes(part.read_bytes()[:-20])
    err = told(capsys, ["predict", copy, files / "new.csv", "--out", tmp_path / "s.csv"])
    assert "model" in err
    assert not (tmp_path / "s.csv").exists()


def test_columns_that_are_missing_extra_or_of_another_type_are_named(model, tmp_path, capsys):
    frame = payments(seed=1).drop(columns=["id", "when", "customer", "class"])
    rows, out = tmp_path / "rows.csv", tmp_path / "s.csv"
    frame.drop(columns="amount").assign(colour="red").to_csv(rows, index=False)
    err = told(capsys, ["predict", model, rows, "--out", out])
    assert "'amount'" in err
    assert "'colour'" in err
    frame = frame.astype({"amount": object})
    frame.loc[3, "amount"] = "a lot"
    frame.to_csv(rows, index=False)
    err = told(capsys, ["predict", model, rows, "--out", out])
    assert "'amount'" in err
    assert "a lot" in err


def test_half_of_the_costs(files, tmp_path, capsys):
    assert "--cost-miss" in told(capsys, fit_arguments(files, tmp_path / "m", "--cost-alarm", 3))


def test_usage_and_debug(capsys, tmp_path):
    assert main(["fit"]) == 2
    assert main(["predict", "--no-such-option"]) == 2
    capsys.readouterr()
    assert main(["predict", str(tmp_path / "m"), "rows.csv", "--out", "x.csv", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err
