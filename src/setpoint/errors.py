"""Errors that tell a person what was wrong, where, and what to do about it."""

from __future__ import annotations

import warnings


class SetpointError(ValueError):
    """Base of all errors that a user's input can cause."""


class GoalError(SetpointError):
    """A goal, metric or constraint that cannot be understood or makes no sense."""


class CheckpointError(SetpointError):
    """A checkpoint that is damaged or belongs to another problem."""


class PeerLostError(SetpointError):
    """One of several processes that work together has ended."""


class DivergedError(SetpointError):
    """A model whose scores are no longer numbers."""


class InfeasibleGoalWarning(UserWarning):
    """The goal is not met in training, or only by predicting no positives."""


class UncertifiedWarning(UserWarning):
    """A certificate was asked for, and nothing can be promised."""


class SourceError(SetpointError):
    """Rows that cannot be read, or are of no use for training."""


class TableFileError(SetpointError):
    """A file that cannot be read or written."""


class SchemaError(SetpointError):
    """Columns that are missing, unknown or of another type than the model's."""


class TargetError(SetpointError):
    """A target column that does not hold two labels."""


class SplitError(SetpointError):
    """Rows that cannot be split as asked."""


class ModelFileError(SetpointError):
    """A model that cannot be written, or a file from which none can be read."""


class ModelVersionWarning(UserWarning):
    """A model is loaded by other versions of libraries than those that it was saved by."""


class OnnxError(SetpointError):
    """A classifier that cannot be exported."""


class MissingExtraError(SetpointError, ImportError):
    """A module that is not installed, or cannot be imported."""


def __getattr__(name: str) -> type[SetpointError]:
    if name == "PartsError":
        warnings.warn(
            "setpoint.errors.PartsError is deprecated; it is now SplitError.",
            DeprecationWarning,
            stacklevel=2,
        )
        return SplitError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# DOC of streams.errors: What can be wrong with a source of rows.

# DOC of tabular.errors: What can be wrong with a table.

# DOC of model_files.errors: What can be wrong with a model file.

# DOC of onnx_export.errors: What ONNX cannot express.
