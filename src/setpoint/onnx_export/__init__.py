"""Classifiers as ONNX, for serving without Python: the threshold is part of the model."""

from setpoint.onnx_export.errors import OnnxError
from setpoint.onnx_export.export import export_onnx

__all__ = ["OnnxError", "export_onnx"]
