"""How much work a reproduction does."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """What is cut short, and by how much; methods, goals and tables are the same at every scale.

    Attributes
    ----------
    trials : int
        Random splits and starts.
    stand_ins : bool
        Whether small generated data take the place of the real ones.
    configurations : int or None
        How many points of each grid are tried; None: all.
    steps : int
        At most so many steps of a competitor with the paper's stopping rule.
    subproblem_steps : int
        At most so many steps of a subproblem of Algorithm 1 as printed, with the same rule.
    rounds : int
        How long a training to convergence is: so many times 50 steps of L-BFGS for a linear model;
        for others five times as many passes over the rows or, where the loss is no mean over rows,
        so many times 100 steps on large batches, and at least ``steps``.
    lagrangian_steps : int
        Steps of the paper's TFCO; to convergence it takes eight times as many, and three times
        where the model is not linear.
    outer, inner : int
        Outer iterations of our solvers, and steps in each.
    """

    trials: int
    stand_ins: bool
    configurations: int | None
    steps: int
    subproblem_steps: int
    rounds: int
    lagrangian_steps: int
    outer: int
    inner: int | None


SCALES = {
    "smoke": Scale(
        trials=1,
        stand_ins=True,
        configurations=2,
        steps=10,
        subproblem_steps=10,
        rounds=1,
        lagrangian_steps=20,
        outer=2,
        inner=3,
    ),
    "small": Scale(
        trials=3,
        stand_ins=False,
        configurations=None,
        steps=3_000,
        subproblem_steps=500,
        rounds=10,
        lagrangian_steps=1_000,
        outer=50,
        inner=None,
    ),
    "full": Scale(
        trials=10,
        stand_ins=False,
        configurations=None,
        steps=30_000,
        subproblem_steps=30_000,
        rounds=40,
        lagrangian_steps=1_000,
        outer=50,
        inner=None,
    ),
}
