"""Histograms of the logits, with and without the regulariser psi.

psi keeps the scores away from the threshold, where the reformulation is not exact. The figure shows
for two models how far the samples of each class are from the threshold. The paper shows "normalized
prediction logits" without defining the normalisation; it also calls f(x) in [0, 1] a logit. So this
figure has both: scores in [0, 1] with the threshold at 0.5, which show the model's confidence, and
logits in units of their standard deviation, which do not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from setpoint.errors import SetpointError
from setpoint.goals.goal import Goal
from setpoint.paper.figures.style import BLACK, NEGATIVE, POSITIVE, new_figure, styled
from setpoint.training.history import Record
from setpoint.training.lifted import Lifted
from setpoint.training.loop import solve
from setpoint.training.models import linear, scores_of
from setpoint.training.problem import Problem, make_problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Floats = NDArray[np.float64]

NEAR = 0.1  # the distance that counts as near the threshold, in both units
SCORE_EDGES = np.linspace(0.0, 1.0, 41)


@dataclass(frozen=True)
class Logits:
    """The logits of a model on some rows, and the threshold at which it decides."""

    logits: Floats
    threshold: float

    @property
    def scores(self) -> Floats:
        """The scores in [0, 1] with the threshold at 0.5, as in the solver."""
        return np.asarray(expit(self.logits - self.threshold))

    @property
    def normalised(self) -> Floats:
        """See :func:`normalise`."""
        return normalise(self.logits, self.threshold)


def normalise(logits: ArrayLike, threshold: float) -> Floats:
    """Return logits relative to the threshold, in units of their standard deviation.

    Multiplying all weights and the threshold by ten changes no decision, and nothing here.
    Positive numbers are predicted positive. If all logits are equal, they keep their own unit.
    """
    values = np.asarray(logits, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0:
        raise SetpointError(f"logits must be one number per sample, not of shape {values.shape}.")
    if not np.isfinite(values).all() or not np.isfinite(threshold):
        raise SetpointError("logits and threshold must be finite numbers to be normalised.")
    equal = bool((values == values[0]).all())  # because of rounding, their deviation may not be 0
    return np.asarray((values - threshold) / (1.0 if equal else values.std()))


@dataclass(frozen=True)
class Histogram:
    """Counts per class; the outermost bins include all values beyond them."""

    edges: Floats
    positive: NDArray[np.int64]
    negative: NDArray[np.int64]


def bin_edges(y: ArrayLike, *normalised: Floats, bins: int = 60) -> Floats:
    """Return the edges of about ``bins`` common bins; 0, the threshold, is one of them.

    They span the middle 99 % of each class, and 0. Per class, because the outer 1 % of all samples
    could be all the positives.
    """
    positive = np.asarray(y) == 1
    classes = [x[c] for x in normalised for c in (positive, ~positive) if c.any()]
    ends = np.concatenate([np.quantile(x, [0.005, 0.995]) for x in classes])
    if not ends.any():  # nearly all are at the threshold
        ends = np.array([-1.0, 1.0])
    low, high = min(ends.min(), 0.0), max(ends.max(), 0.0)
    width = (high - low) / bins
    return np.asarray(width * np.arange(np.floor(low / width), np.ceil(high / width) + 1))


def histogram(values: Floats, y: ArrayLike, edges: Floats) -> Histogram:
    """Count the samples of each class per bin (from, to], consistent with ``score > threshold``."""
    positive = np.asarray(y) == 1
    if positive.shape != values.shape:
        raise SetpointError(
            f"y has the shape {positive.shape}, but there are {len(values)} logits."
        )
    bins = len(edges) - 1
    place = np.clip(np.searchsorted(edges, values, side="left") - 1, 0, bins - 1)
    counts = [np.bincount(place[chosen], minlength=bins) for chosen in (positive, ~positive)]
    return Histogram(edges, *counts)


def fraction_near(values: Floats, threshold: float, within: float = NEAR) -> float:
    """Return the fraction of samples closer to the threshold than ``within``."""
    return float((np.abs(values - threshold) < within).mean())


@styled
def figure(with_psi: Logits, without_psi: Logits, y: ArrayLike, title: str = "") -> Figure:
    """Draw scores on the left and normalised logits on the right, with psi above, without below.

    Parameters
    ----------
    with_psi, without_psi : Logits
        What :func:`train_for_histograms` returns, or the logits of any two models.
    y : array-like of shape (n,)
        Labels of the rows, 1 or True for positive.
    title : str
        The title, e.g. the data and the goal.
    """
    models = {"with $\\psi$": with_psi, "without $\\psi$": without_psi}
    edges = bin_edges(y, with_psi.normalised, without_psi.normalised)
    fig = new_figure(10.5, 6.0)
    grid = fig.subplots(2, 2, sharex="col")
    for row, (name, model) in zip(grid, models.items(), strict=True):
        shown = ((model.scores, SCORE_EDGES, 0.5), (model.normalised, edges, 0.0))
        for ax, (values, bins, threshold) in zip(row, shown, strict=True):
            draw(ax, histogram(values, y, bins), threshold)
            near = f"{100 * fraction_near(values, threshold):.1f} %"
            ax.set_title(f"{name}:  {near} within {NEAR:g} of the threshold")
        row[0].set_ylabel("share of the class")
    grid[1, 0].set_xlabel("score: sigmoid of the logit from the threshold")
    grid[1, 1].set_xlabel("logit from the threshold, in standard deviations")
    if title:
        fig.suptitle(title)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=3)
    return fig


def draw(ax: Axes, counts: Histogram, threshold: float) -> None:
    """Draw the fraction of each class per bin, so that a rare class is visible."""
    looks: tuple[tuple[Any, str, str], ...] = (
        (counts.negative, NEGATIVE, "negatives"),
        (counts.positive, POSITIVE, "positives"),
    )
    for count, colour, label in looks:
        share = count / max(count.sum(), 1)
        ax.stairs(share, counts.edges, fill=True, color=colour, alpha=0.35, label=label)
        ax.stairs(share, counts.edges, color=colour, lw=1.2)
    ax.axvline(threshold, color=BLACK, lw=1.2, ls="--", label="threshold")


@dataclass(frozen=True)
class Pair:
    """The same training with and without psi."""

    with_psi: Logits
    without_psi: Logits


def train_for_histograms(
    X: ArrayLike, y: ArrayLike, goal: str | Goal, seed: int = 0, **solver_changes: Any
) -> Pair:
    """Train a linear model by Algorithm 1 twice, the second time with gamma at 0.

    The logits are those of the last iterate, when psi has its full weight. The best iterate, which
    a fit returns, may be the ordinary training from which both start.

    Parameters
    ----------
    X : array-like of shape (n, d)
        Standardized features; float32 is trained in float32, all else in float64.
    y : array-like of shape (n,)
        Labels, 1 or True for positive.
    goal : str or Goal
        E.g. ``"max recall s.t. precision >= 0.9"``.
    seed : int
        The seed of both trainings.
    **solver_changes
        Fields of :class:`setpoint.training.Lifted`, for both.
    """
    features = torch.as_tensor(np.asarray(X))
    if features.dtype != torch.float32:
        features = features.double()
    problem = make_problem(features, torch.as_tensor(np.asarray(y) == 1), goal)
    solver = Lifted(**solver_changes)
    return Pair(
        _train(problem, solver, seed),
        _train(problem, replace(solver, gamma0=0.0, gamma_max=0.0), seed),
    )


def _train(problem: Problem, solver: Lifted, seed: int) -> Logits:
    module = linear(problem.X.shape[1]).to(problem.X.dtype)
    last: list[Logits] = []

    def record_logits(record: Record, _: int) -> None:  # the module is at the present iterate
        logits = scores_of(module, problem.X).numpy().astype(np.float64)
        last[:] = [Logits(logits, record.threshold)]

    solve(problem, module, solver, seed=seed, callback=record_logits)
    return last[0]
