"""Export of models for use without Python: to ONNX, and to SQL (``setpoint.export.sql``)."""

from setpoint.export.onnx import export_onnx

__all__ = ["export_onnx"]
