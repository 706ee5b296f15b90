"""onnxruntime, which is asked before a model is written."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from setpoint._extras import need
from setpoint.onnx_export.errors import OnnxError

_ONLY_FATAL = 4  # errors are told by exceptions; onnxruntime would print them as well


def run(model: Any, rows: NDArray[Any]) -> list[NDArray[Any]]:
    """Return all outputs of a model for some rows."""
    runtime = need("onnxruntime", "onnx", "An ONNX export")
    options = runtime.SessionOptions()
    options.log_severity_level = _ONLY_FATAL
    try:
        session = runtime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return list(session.run(None, {session.get_inputs()[0].name: rows}))
    except Exception as error:  # onnxruntime has no error of its own to catch
        raise OnnxError(f"onnxruntime cannot run the exported model: {error}") from error
