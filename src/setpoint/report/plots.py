"""Pictures of a promise. They need matplotlib."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from setpoint.certificates.certificate import Certificate
from setpoint.thresholds.operating_point import check_scores, evaluate_threshold

_CURVE, _POINT, _FLOOR = "#33658a", "#d1495b", "#555555"


def plot_certificate(
    certificate: Certificate,
    y: ArrayLike,
    scores: ArrayLike,
    *,
    pos_label: Any = None,
    ax: Any = None,
) -> Any:
    """Draw precision over recall, the chosen threshold, what the goal asks and what is promised.

    The red point is what the threshold did on the rows that certified it; from there lines lead to
    the bounds.

    Parameters
    ----------
    certificate : Certificate
        What is promised of these scores.
    y, scores : array-like of shape (n,)
        Labels and scores of rows that the model has not seen.
    pos_label : optional
        The label of the positive class; by default that of the certificate.
    ax : matplotlib axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib axes
    """
    if ax is None:
        import matplotlib.pyplot as plt

        ax = plt.subplots(figsize=(6, 4.5), layout="constrained")[1]
    label = certificate.pos_label if pos_label is None else pos_label
    positive, own, _ = check_scores(y, scores, None, label)
    ax.plot(*_curve(positive, own), color=_CURVE, label="every threshold, on the rows given")
    here = evaluate_threshold(positive, own, certificate.threshold, certificate.goal)
    ax.plot(here.recall, here.precision, "o", color=_CURVE, label="the threshold there")
    for constraint in certificate.goal.constraints:
        line = {"precision": ax.axhline, "recall": ax.axvline}.get(constraint.metric.name)
        if line is not None:
            line(constraint.level, color=_FLOOR, linestyle="--", label=f"goal: {constraint}")
    point = certificate.operating_point
    ax.plot(point.recall, point.precision, "o", color=_POINT, markersize=9, label=f"on {point.on}")
    for bound in certificate.bounds:
        if bound.bound is None or bound.kind != "exact":
            continue
        if bound.metric.name == "precision":
            _whisker(ax, (point.recall, point.precision), (point.recall, bound.bound), bound)
        elif bound.metric.name == "recall":
            _whisker(ax, (point.recall, point.precision), (bound.bound, point.precision), bound)
    ax.set(xlabel="recall", ylabel="precision", xlim=(0, 1.02), ylim=(0, 1.03))
    ax.set_title("\n".join(_wrapped(certificate.message)), fontsize="medium", loc="left")
    ax.legend(loc="lower left", frameon=False)
    return ax


def _curve(positive: Any, scores: Any) -> tuple[Any, Any]:
    """Return recall and precision at every distinct cut, from the highest."""
    order = np.argsort(-scores.astype(float), kind="stable")
    tp, n = np.cumsum(positive[order]), np.arange(1, len(scores) + 1)
    ordered = scores[order]
    last = np.append(ordered[1:] != ordered[:-1], True)  # equal scores are never parted
    return tp[last] / max(positive.sum(), 1), (tp / n)[last]


def _whisker(ax: Any, start: Any, end: Any, bound: Any) -> None:
    style = {"color": _POINT, "linewidth": 2.0, "solid_capstyle": "butt"}
    ax.plot(*zip(start, end, strict=True), **style, label=str(bound).split(" (")[0])


def _wrapped(text: str, width: int = 70) -> list[str]:
    return textwrap.wrap(text, width)
