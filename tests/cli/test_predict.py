"""``setpoint predict``."""

import errno
import shutil

import numpy as np
import pandas as pd
from cli_tables import DROPPED, failure, payments, printed, run

from setpoint.cli import main
from setpoint.data.table_reader import read_table
from setpoint.model_files import load


def test_the_file_has_the_scores_of_the_loaded_model(files, model, tmp_path, capsys):
    """The command's file, the loaded model and plain Python agree to the last bit."""
    out = tmp_path / "scored.parquet"
    kept = [word for name in (*DROPPED, "class") for word in ("--keep", name)]
    rows = str(files / "new.parquet")
    assert main(["predict", str(model), rows, "--out", str(out), *kept, "--json"]) == 0
    result = printed(capsys)
    scored = pd.read_parquet(out)
    frame = read_table(files / "new.parquet").drop(columns=[*DROPPED, "class"])
    expected = load(model).predict(frame)
    assert scored["score"].to_numpy().tobytes() == expected["score"].to_numpy().tobytes()
    assert scored["id"].tolist() == payments(seed=1)["id"].tolist()
    assert set(scored["predicted"]) == {"fraud", "ok"}
    assert result["rows"] == len(scored) == 600
    assert result["alarms"] == int(scored["alarm"].sum())


def test_every_format_can_be_written(model, tmp_path, capsys):
    small = tmp_path / "rows.csv"
    payments(seed=1).drop(columns=[*DROPPED, "class"]).head(70).to_csv(small, index=False)
    for ending in ("csv", "csv.gz", "parquet", "arrow"):
        out = tmp_path / f"scored.{ending}"
        assert run("predict", model, small, "--out", out, "--batch-rows", 32, "-q") == 0
        assert capsys.readouterr().out == ""
        frame = read_table(out)
        assert list(frame.columns) == ["score", "alarm", "predicted"]
        assert np.array_equal(frame["score"] > 0, frame["alarm"])


def test_a_full_disk_leaves_the_former_result(files, model, tmp_path, capsys, monkeypatch):
    rows = tmp_path / "rows.csv"
    payments(seed=1).drop(columns=[*DROPPED, "class"]).to_csv(rows, index=False)
    out = tmp_path / "scored.csv"
    old = "score,alarm,predicted\n0.5,true,fraud\n"
    out.write_text(old)

    def full(*given, **named):
        raise OSError(errno.ENOSPC, "No space left on device", str(out))

    monkeypatch.setattr("setpoint.data.table_writer.TableWriter.write", full)
    err = failure(capsys, "predict", model, rows, "--out", out)
    assert "No space left" in err
    assert out.read_text() == old
    assert sorted(p.name for p in tmp_path.iterdir()) == ["rows.csv", "scored.csv"]


def test_a_damaged_model(model, tmp_path, capsys, files):
    for harm in ("truncated", "missing", "not a model"):
        copy = tmp_path / harm
        if harm == "not a model":
            copy.mkdir()
            (copy / "notes.txt").write_text("hello")
        else:
            shutil.copytree(model, copy, symlinks=True)
            part = max((p for p in copy.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
            part.unlink() if harm == "missing" else part.write_bytes(part.read_bytes()[:-20])
        err = failure(capsys, "predict", copy, files / "new.csv", "--out", tmp_path / "s.csv")
        assert "model" in err
        assert not (tmp_path / "s.csv").exists()


def test_missing_extra_and_mistyped_columns_are_named(model, tmp_path, capsys):
    frame = payments(seed=1).drop(columns=[*DROPPED, "class"])
    rows, out = tmp_path / "rows.csv", tmp_path / "s.csv"
    frame.drop(columns="amount").assign(colour="red").to_csv(rows, index=False)
    err = failure(capsys, "predict", model, rows, "--out", out)
    assert "'amount'" in err
    assert "'colour'" in err
    frame = frame.astype({"amount": object})
    frame.loc[3, "amount"] = "a lot"
    frame.to_csv(rows, index=False)
    err = failure(capsys, "predict", model, rows, "--out", out)
    assert "'amount'" in err
    assert "a lot" in err


def test_unknown_columns_can_be_ignored(model, write_rows, tmp_path, capsys):
    table = write_rows(payments(seed=1).drop(columns=DROPPED).assign(colour="red"))
    out = tmp_path / "scored.csv"
    for command in (["predict", model, table, "--out", out], ["evaluate", model, table]):
        assert run(*command, "-q") == 1
        assert "'colour'" in capsys.readouterr().err
        assert run(*command, "-q", "--ignore-extra") == 0
    assert list(pd.read_csv(out).columns) == ["score", "alarm", "predicted"]


def test_unseen_values_are_noted(model, write_rows, tmp_path, capsys):
    frame = payments(seed=1).drop(columns=DROPPED)
    frame.loc[:11, "country"] = "Atlantis"
    table = write_rows(frame)
    for command in (
        ["predict", model, table, "--out", tmp_path / "s.csv"],
        ["evaluate", model, table],
    ):
        assert run(*command) == 0
        err = capsys.readouterr().err
        assert "'country'" in err
        assert "12" in err
        assert run(*command, "--json") == 0
        assert any("'country'" in n for n in printed(capsys)["notes"])


def test_a_column_named_label_can_be_kept(model, write_rows, tmp_path):
    table = write_rows(payments(seed=1).drop(columns=DROPPED).assign(label="mine"))
    out = tmp_path / "scored.csv"
    assert run("predict", model, table, "--out", out, "--keep", "label", "-q") == 0
    assert list(pd.read_csv(out).columns) == ["label", "score", "alarm", "predicted"]
