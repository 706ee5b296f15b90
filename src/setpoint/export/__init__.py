"""Export of classifiers to ONNX, for serving without Python; the graph includes the threshold."""

from setpoint.export.onnx import export_onnx

__all__ = ["export_onnx"]
