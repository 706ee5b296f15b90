"""What can be wrong with a source of rows."""

from __future__ import annotations

from setpoint.errors import SetpointError


class SourceError(SetpointError):
    """Rows that cannot be read, or are of no use for training."""
