"""The eliminated form on mini-batches: for rows that need not be in memory, nor on one machine."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import nn

from setpoint.models import is_linear
from setpoint.solvers.problem import Problem
from setpoint.solvers.stochastic_run import StochasticRun
from setpoint.streams.of_arrays import stream_of
from setpoint.streams.problem import StreamProblem


@dataclass(frozen=True)
class Stochastic:
    """Minimise what :class:`setpoint.solvers.Projected` does, in steps on a few rows each.

    Every look reads all rows once. It finds the models' thresholds and counts, and draws a sample:
    of each class more rows near the thresholds, with inverse weights, so that it stands for all
    rows without bias. Between two looks, steps take batches from that sample. Prices follow running
    estimates of the counts, corrected at every look; the multipliers follow these.

    Parameters
    ----------
    lam0, lam_max : float
        First and last lambda.
    gamma : float
        Strength of the regulariser psi.
    outer_iterations : int
        Looks, at most.
    inner_iterations : int or None
        Steps of Adam between two looks. None: 120 for a linear model, 240 for any other.
    batch_size : int or None
        Rows in a step, about. None: 16,384 for a linear model, 8,192 for any other.
    lr : float or None
        Adam's learning rate, which falls to zero on a cosine over the run. None: for a linear model
        0.02, and less with more than 100 features; 2e-3 for any other.
    dual_rate : float or None
        Step size of the multipliers: in one step they change by at most this factor of e. None: 0.1
        for a linear model, 0.015 for any other.
    near : float or None
        How near to a threshold rows are drawn more often, as a share of the class's median
        distance. None: 0.02 for a linear model, 0.1 for any other.
    positives : float
        The share of positives in a batch, if there are that many.
    nearness : tuple of float
        Strengths of staying near the start, 0 for none; a model is trained for each.
    restarts : int
        Further models from disturbed starts, for linear models only.
    spread : float
        Size of the largest disturbance, relative to the start.
    relaxed : bool
        Whether, where the goal has constraints, a further model for each start may break them on
        its way.
    start : {"logistic", "given"}
        Where models start: after ordinary training on a sample, or at the weights that the module
        brings.
    rows : int or None
        Size of the sample, which is held in memory. None: 2^18, or as many as make 128 MiB of
        features where that is less; but 20,000, or as many as make 1 GiB, where that is more.
    shards : int or None
        In how many parts a step is computed, rounded up to a multiple of the number of processes.
        The result hangs on this number, and not on that of the processes, but for modules with
        BatchNorm or dropout. None: 4 on CPUs, so that 1, 2 and 4 processes have 4, and 3 have 6; on
        GPUs one for each process, so that 1 and 2 differ. Give the number to compare runs.
    patience : int or None
        Training ends when so many looks in a row brought no gain that the rows which judge can
        tell from chance: a tenth of the objective's standard error. None: never before the last.
    """

    lam0: float = 1.0
    lam_max: float = 1000.0
    gamma: float = 0.1
    outer_iterations: int = 15
    inner_iterations: int | None = None
    batch_size: int | None = None
    lr: float | None = None
    dual_rate: float | None = None
    near: float | None = None
    positives: float = 0.25
    nearness: tuple[float, ...] = (0.0, 0.1, 1.0)
    restarts: int = 2
    spread: float = 1.0
    relaxed: bool = True
    start: Literal["logistic", "given"] = "logistic"
    rows: int | None = None
    shards: int | None = None
    patience: int | None = None

    def __post_init__(self) -> None:
        if self.start not in ("logistic", "given"):
            raise ValueError(f"start is one of ('logistic', 'given'), not {self.start!r}.")
        for name in ("lam0", "lam_max", "lr", "dual_rate", "near"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive, not {value}.")
        if self.outer_iterations < 0:
            raise ValueError("outer_iterations must be >= 0.")
        if not 0 < self.positives < 1:
            raise ValueError("positives must lie between 0 and 1.")
        least = {"inner_iterations": 1, "batch_size": 2, "rows": 2, "patience": 1, "shards": 1}
        for name, smallest in least.items():
            value = getattr(self, name)
            if value is not None and value < smallest:
                raise ValueError(f"{name} must be None or >= {smallest}, not {value}.")
        if min(self.gamma, self.spread, self.restarts, *self.nearness) < 0 or not self.nearness:
            raise ValueError("gamma, spread, restarts and every nearness must be >= 0.")

    def prepare(self, problem: Problem | StreamProblem, module: nn.Module) -> StochasticRun:
        """Return a run; any goal will do."""
        stream = stream_of(problem) if isinstance(problem, Problem) else problem
        on_gpu = torch.device(stream.device).type == "cuda"
        stream = replace(stream, shards=self.shards or (1 if on_gpu else 4))
        return StochasticRun(self.settle_for(module), stream, module)

    def settle_for(self, module: nn.Module) -> Stochastic:
        """Return the same with numbers in place of None, where these follow from the model."""
        linear = is_linear(module)
        return replace(
            self,
            inner_iterations=self.inner_iterations or (120 if linear else 240),
            batch_size=self.batch_size or (16_384 if linear else 8_192),
            near=self.near or (0.02 if linear else 0.1),
            dual_rate=self.dual_rate or (0.1 if linear else 0.015),
        )
