"""Checks of the labels, scores, weights and columns that a threshold is chosen on."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from setpoint._internal.validation import check_known_labels, positive_mask
from setpoint.errors import SetpointError
from setpoint.goals.columns import GoalColumns
from setpoint.goals.goal import Goal
from setpoint.thresholds.sweep import Floats


def check_rows(
    y: ArrayLike,
    scores: ArrayLike,
    goal: Goal,
    sample_weight: ArrayLike | None,
    amounts: Any,
    segments: Any,
    times: Any,
    pos_label: Any,
) -> tuple[NDArray[np.bool_], Floats, Floats | None, GoalColumns]:
    """Validate rows and the columns that the goal names; drop rows of weight 0."""
    columns = GoalColumns.of(goal, np.shape(y)[0] if np.ndim(y) else 0, amounts, segments, times)
    positive, checked, weights = check_scores(y, scores, sample_weight, pos_label)
    if columns and weights is not None:
        columns = columns.take(np.asarray(sample_weight, dtype=np.float64) > 0)
    return positive, checked, weights, columns


def check_classes(positives: float, negatives: float, *, weighted: bool) -> None:
    """Raise SetpointError unless there are rows of both classes."""
    for count, name in ((positives, "positive"), (negatives, "negative")):
        if not count:
            weightless = " of positive weight" if weighted else ""
            raise SetpointError(
                f"there are no {name} samples{weightless}; a threshold needs both classes."
            )


def check_scores(
    y: ArrayLike, scores: ArrayLike, sample_weight: ArrayLike | None, pos_label: Any
) -> tuple[NDArray[np.bool_], Floats, Floats | None]:
    """Validate labels, scores and weights; return labels as booleans, without rows of weight 0."""
    if isinstance(scores, torch.Tensor):
        scores = scores.detach().cpu()
        scores = scores.float() if scores.dtype == torch.bfloat16 else scores
    s = np.asarray(scores)
    if s.ndim == 2 and s.shape[1] == 1:
        s = s[:, 0]
    if s.ndim != 1:
        raise SetpointError(
            f"scores must be one number per sample, but have the shape {s.shape}; pass the "
            "positive class's column of predict_proba, e.g. proba[:, 1]."
        )
    if s.dtype not in (np.float64, np.float32, np.float16):
        try:
            s = s.astype(np.float64)
        except (TypeError, ValueError):
            raise SetpointError(f"scores must be numbers, not {s.dtype}.") from None
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) != len(s):
        raise SetpointError(
            f"y and scores must have one entry per sample, but have the shapes {labels.shape} "
            f"and {s.shape}."
        )
    if len(s) == 0:
        raise SetpointError("there are no samples.")
    if np.isnan(s).any():
        first = int(np.flatnonzero(np.isnan(s))[0])
        raise SetpointError(
            f"{int(np.isnan(s).sum())} of {len(s)} scores are NaN, the first at position {first}."
        )
    check_known_labels(labels)
    positive = positive_mask(labels, pos_label)
    weights: Floats | None = None
    if sample_weight is not None:
        weights = np.asarray(sample_weight, dtype=np.float64)
        if weights.shape != s.shape:
            raise SetpointError(
                f"sample_weight has the shape {weights.shape}, the scores {s.shape}."
            )
        if not np.isfinite(weights).all() or (weights < 0).any():
            raise SetpointError("sample_weight must be finite and not negative.")
        if weights.max(initial=0.0) > 1e100:
            raise SetpointError("sample_weight is too large to be summed; rescale it.")
        if (weights == 0).any():
            counted = weights > 0
            positive, s, weights = positive[counted], s[counted], weights[counted]
    return positive, s, weights
