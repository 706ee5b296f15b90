"""What ONNX cannot express."""

from __future__ import annotations

from setpoint.errors import SetpointError


class OnnxError(SetpointError):
    """A classifier that cannot be exported."""
