"""``setpoint export``, and ``setpoint reproduce``."""

import numpy as np
from cli_tables import DROPPED, failure, payments

from setpoint.cli import main
from setpoint.model_files import load
from sql_tables import in_duckdb


def test_the_onnx_model_decides_the_same(model, tmp_path, capsys):
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


def test_the_sql_statement_decides_the_same(model, tmp_path, capsys):
    out = tmp_path / "model.sql"
    assert main(["export", str(model), str(out), "--table", "payments"]) == 0
    assert f"SQL statement: {out}" in capsys.readouterr().out
    frame = payments(seed=1).drop(columns="class")
    found = in_duckdb(out.read_text(), frame, "payments")
    expected = load(model).predict(frame, ignore_extra=True)
    assert found["alarm"].tolist() == expected["alarm"].tolist()
    assert found["predicted"].tolist() == expected["predicted"].tolist()
    before = out.read_bytes()
    assert main(["export", str(model), str(out), "--format", "sql", "--table", "payments"]) == 0
    assert out.read_bytes() == before
    assert main(["export", str(model), str(out), "--dialect", "bigquery"]) == 0
    assert "FROM `rows` AS" in out.read_text()


def test_wrong_options_of_an_export_are_named(model, tmp_path, capsys):
    out = tmp_path / "model.sql"
    message = failure(capsys, "export", model, out, "--dialect", "snowflke")
    assert "Did you mean 'snowflake'?" in message
    assert "Did you mean 'sql'?" in failure(capsys, "export", model, out, "--format", "sqll")
    message = failure(capsys, "export", model, tmp_path / "model.onnx", "--dialect", "duckdb")
    assert "--dialect and --table are for SQL" in message
    assert "is not the name of a table" in failure(capsys, "export", model, out, "--table", "a b")
    assert not out.exists()
    out.write_text("SELECT 1")
    assert "is not the SQL statement of an earlier run" in failure(capsys, "export", model, out)


def test_reproduce_runs_the_command_of_the_paper(capsys, tmp_path):
    assert main(["reproduce", "regulariser", "--out", str(tmp_path)]) == 0
    assert "regulariser" in capsys.readouterr().out
    assert main(["reproduce", "no-such-table", "--out", str(tmp_path)]) == 1
    assert "unknown table or figure 'no-such-table'" in capsys.readouterr().err
