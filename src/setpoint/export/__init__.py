"""Models as ONNX, for serving without Python; the threshold is part of the graph."""

from setpoint.export.onnx import export_onnx

__all__ = ["export_onnx"]
