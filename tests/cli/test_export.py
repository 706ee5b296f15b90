"""``setpoint export``, and ``setpoint reproduce``."""

import numpy as np
from cli_tables import DROPPED, payments

from setpoint.cli import main
from setpoint.model_files import load


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


def test_reproduce_runs_the_command_of_the_paper(capsys, tmp_path):
    assert main(["reproduce", "regulariser", "--out", str(tmp_path)]) == 0
    assert "regulariser" in capsys.readouterr().out
    assert main(["reproduce", "no-such-table", "--out", str(tmp_path)]) == 1
    assert "unknown table or figure 'no-such-table'" in capsys.readouterr().err
