"""Errors and warnings. Messages say what was wrong, where, and what to do about it."""

from __future__ import annotations

import warnings


class SetpointError(ValueError):
    """Base class of all errors that a user's input can cause."""


class GoalError(SetpointError):
    """A goal, metric or constraint that cannot be parsed or is invalid."""


class CheckpointError(SetpointError):
    """A checkpoint that is damaged or belongs to another problem."""


class PeerLostError(SetpointError):
    """Another process of the process group has ended."""


class DivergedError(SetpointError):
    """A model whose scores are not finite any more."""


class InfeasibleGoalWarning(UserWarning):
    """The goal is not met in training, or only by predicting no positives."""


class UncertifiedWarning(UserWarning):
    """A certificate was requested, but the goal could not be certified."""


class SourceError(SetpointError):
    """Rows that cannot be read or cannot be used for training."""


class TableFileError(SetpointError):
    """A table file that cannot be read or written."""


class SchemaError(SetpointError):
    """Columns that are missing, unknown or of another type than the model's."""


class TargetError(SetpointError):
    """A target column that does not contain exactly two labels."""


class SplitError(SetpointError):
    """Rows that cannot be split as asked."""


class ModelFileError(SetpointError):
    """A model that cannot be saved, or a file that is not a valid model."""


class ModelVersionWarning(UserWarning):
    """A model was saved with other versions of libraries than those that load it."""


class OnnxError(SetpointError):
    """A classifier that cannot be exported to ONNX."""


class SqlError(SetpointError):
    """A model that cannot be exported to SQL."""


class MissingExtraError(SetpointError, ImportError):
    """An optional dependency that is not installed or cannot be imported."""


def __getattr__(name: str) -> type[SetpointError]:
    if name == "PartsError":
        warnings.warn(
            "setpoint.errors.PartsError is deprecated; it is now SplitError.",
            DeprecationWarning,
            stacklevel=2,
        )
        return SplitError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
