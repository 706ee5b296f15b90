"""Training on rows that are drawn until both classes are equally many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from setpoint._internal.imports import need
from setpoint.training.candidates import TrainedModel
from setpoint.training.loop import Progress, Run, Solver
from setpoint.training.loss_training import LossTraining
from setpoint.training.problem import Problem


@dataclass(frozen=True)
class Resampled:
    """Repeat positives or leave out negatives by chance, then train; imbalanced-learn draws.

    Iterates are judged on the rows as they were.

    Parameters
    ----------
    sampling : {"over", "under"}
        Whether rows of the rarer class are repeated, or rows of the other left out.
    solver : Solver
        How to train on what is drawn.
    """

    sampling: Literal["over", "under"] = "over"
    solver: Solver = LossTraining()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        if self.sampling not in ("over", "under"):
            raise ValueError(f"sampling is 'over' or 'under', not {self.sampling!r}.")

    @property
    def outer_iterations(self) -> int:
        """Those of the solver."""
        return self.solver.outer_iterations

    def prepare(self, problem: Problem, module: nn.Module) -> ResampledRun:
        """Return a run; refuses to do without imbalanced-learn."""
        _sampler(self.sampling)
        return ResampledRun(self, problem, module)


class ResampledRun:
    """The solver's run on the rows that were drawn.

    They are drawn at the start, when the seed is set, and known again by a seed of their own.
    """

    _run: Run
    _seed: int

    def __init__(self, solver: Resampled, problem: Problem, module: nn.Module) -> None:
        self.solver, self.problem, self.module = solver, problem, module

    def start(self, take: str | None = None) -> Progress:
        """Draw the rows and start on them."""
        self._draw(int(torch.randint(2**31 - 1, (1,))))
        return self._run.start(take)

    def _draw(self, seed: int) -> None:
        problem = self.problem
        rows = balanced_rows(problem.positive, self.solver.sampling, seed)
        drawn = replace(
            problem,
            X=problem.X[rows],
            positive=problem.positive[rows],
            sample_weight=problem.sample_weight[rows],
            validation=problem.judge,
        )
        self._seed, self._run = seed, self.solver.solver.prepare(drawn, self.module)

    def advance(self, iteration: int) -> Progress:
        """Do what the solver does."""
        return self._run.advance(iteration)

    def models(self) -> Sequence[TrainedModel]:
        """Return the models of the wrapped solver."""
        return self._run.models()

    def state_dict(self) -> dict[str, Any]:
        """Return the rows' seed and the solver's state."""
        return {"seed": self._seed, "run": self._run.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Draw the same rows and take up the solver's state."""
        self._draw(state["seed"])
        self._run.load_state_dict(state["run"])


def balanced_rows(positive: Tensor, sampling: str, seed: int) -> Tensor:
    """Return row numbers, with repeats or gaps, of which half are positive."""
    labels = positive.cpu().numpy()
    drawn = _sampler(sampling)(random_state=seed)
    drawn.fit_resample(np.zeros((len(labels), 1)), labels)
    return torch.from_numpy(np.sort(drawn.sample_indices_)).to(positive.device)


def _sampler(sampling: str) -> Any:
    """Return imbalanced-learn's class for it."""
    module, name = {
        "over": ("imblearn.over_sampling", "RandomOverSampler"),
        "under": ("imblearn.under_sampling", "RandomUnderSampler"),
    }[sampling]
    return getattr(need(module, "paper", "resampling"), name)
