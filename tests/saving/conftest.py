"""Saved models that tests share."""

from saved_models import linear, other_linear, rows  # noqa: F401
