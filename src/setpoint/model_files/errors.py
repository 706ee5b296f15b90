"""What can be wrong with a model file."""

from __future__ import annotations

from setpoint.errors import SetpointError


class ModelFileError(SetpointError):
    """A model that cannot be written, or a file from which none can be read."""


class ModelVersionWarning(UserWarning):
    """A model is loaded by other versions of libraries than those that it was saved by."""
