"""Training on rows that are drawn until both classes are equally many."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from setpoint.errors import SetpointError
from setpoint.solvers.base import Run, Solver
from setpoint.solvers.loss_training import LossTraining
from setpoint.solvers.problem import Problem


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

    def prepare(self, problem: Problem, module: nn.Module) -> Run:
        """Return the solver's run on the drawn rows."""
        rows = balanced_rows(problem.positive, self.sampling, int(torch.randint(2**31 - 1, (1,))))
        drawn = replace(
            problem,
            X=problem.X[rows],
            positive=problem.positive[rows],
            sample_weight=problem.sample_weight[rows],
            validation=problem.judge,
        )
        return self.solver.prepare(drawn, module)


def balanced_rows(positive: Tensor, sampling: str, seed: int) -> Tensor:
    """Return row numbers, with repeats or gaps, of which half are positive."""
    try:
        from imblearn.over_sampling import RandomOverSampler
        from imblearn.under_sampling import RandomUnderSampler
    except ImportError as error:
        raise SetpointError(
            'resampling needs imbalanced-learn: pip install "setpoint[experiments]".'
        ) from error
    sampler = {"over": RandomOverSampler, "under": RandomUnderSampler}[sampling]
    labels = positive.cpu().numpy()
    drawn = sampler(random_state=seed)
    drawn.fit_resample(np.zeros((len(labels), 1)), labels)
    return torch.from_numpy(np.sort(drawn.sample_indices_)).to(positive.device)
