"""``setpoint export``: a saved model as ONNX."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from setpoint.cli import options as o
from setpoint.cli.app import first_imports
from setpoint.cli.output import Output


def export(
    model: o.Model,
    out: Annotated[Path, o.argument(help="ONNX file to write.")],
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Write a saved model's classifier and thresholds as ONNX.

    Its inputs are the encoded features and, for decisions that need them, amounts or segments.
    Turning a table into numbers stays in Python.
    """
    with first_imports():
        from setpoint.cli.output_paths import check_file
        from setpoint.export.onnx import export_onnx
        from setpoint.model_files import load

    check_file(out, "ONNX model", {"the model": model})
    output = Output(as_json, quiet)
    with output.warnings_as_notes():
        loaded = load(model)
    export_onnx(getattr(loaded, "classifier", loaded), out)
    output.result({"out": str(out)}, f"ONNX model: {out}")
