"""``setpoint export``: a model for serving."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from setpoint.cli import options as o
from setpoint.cli.output import Output


def export(
    model: o.Model,
    out: Annotated[Path, typer.Argument(help="The ONNX file.", show_default=False)],
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Write a saved model's classifier, threshold included, as ONNX.

    Its input are the encoded features: the steps that turn a table into numbers stay in Python.
    """
    from setpoint.cli.overwriting import check_file
    from setpoint.export.onnx import export_onnx
    from setpoint.model_files import load

    check_file(out, "ONNX model", {"the model": model})
    output = Output(as_json, quiet)
    with output.warnings_as_notes():
        loaded = load(model)
    export_onnx(getattr(loaded, "classifier", loaded), out)
    output.result({"out": str(out)}, f"ONNX model: {out}")


def add_to(app: Any) -> None:
    """Add the command."""
    app.command()(export)
