"""Errors that tell a person what was wrong, where, and what to do about it."""


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
