"""A torch module of one's own, trained on a stream."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from setpoint._internal.processes import broadcast, join_process_group
from setpoint.data.loaders import check_passes
from setpoint.data.rows import RowSource, check_sources
from setpoint.data.splits import Parting
from setpoint.errors import SetpointError
from setpoint.goals.goal import Goal
from setpoint.training.loop import Callback, Solution, solve
from setpoint.training.models import check as check_model
from setpoint.training.stochastic import Stochastic
from setpoint.training.stream_problem import StreamProblem


def train(
    module: nn.Module,
    source: RowSource,
    goal: str | Goal,
    *,
    validation: RowSource | None = None,
    parting: Parting | None = None,
    solver: Stochastic | None = None,
    seed: int | None = 0,
    callback: Callback | None = None,
    checkpoint: str | Path | None = None,
) -> Solution:
    """Train a module for a goal, in place, on rows of any shape that come in blocks.

    Under ``torchrun`` all processes train it together, each on its share of the rows.

    Parameters
    ----------
    module : nn.Module
        It returns one logit per row, shape (m,) or (m, 1). Where its weights are, rows are moved.
    source : RowSource
        The rows, e.g. ``LoaderRows(loader)``.
    goal : str or Goal
        What to train for.
    validation : RowSource, optional
        Rows that judge among the candidates and set the threshold; without them, and without a
        ``parting`` that sets some apart, the training rows do.
    parting : callable, optional
        Which of the source's rows train and which judge, e.g. ``ByChance(judging=0.25)``. A loader
        must not shuffle then.
    solver : Stochastic, optional
        ``Stochastic(start="given")`` starts from the module's own weights.
    seed, callback, checkpoint
        As in :func:`setpoint.training.solve`.

    Returns
    -------
    Solution
        ``solution.operating_point.threshold`` is the exact threshold of the module's logits on
        the rows that judge.

    Examples
    --------
    >>> import torch
    >>> from setpoint.data import LoaderRows
    >>> from setpoint.training import train
    >>> generator = torch.Generator().manual_seed(0)
    >>> X = torch.randn(500, 4, generator=generator)
    >>> y = X[:, 0] + torch.randn(500, generator=generator) > 1.5
    >>> rows = LoaderRows([(X[:300], y[:300]), (X[300:], y[300:])])
    >>> solution = train(torch.nn.Linear(4, 1), rows, "max f1")
    >>> solution.operating_point.value("f1") > 0.5
    True
    """
    check_sources(source, validation)
    join_process_group()
    first = next(module.parameters(), None)
    if first is None:
        raise SetpointError("the model has no parameters to train.")
    check_passes(source, validation, parting)
    problem = StreamProblem(source, Goal.parse(goal), parting, validation, device=first.device)
    check_model(module, problem.first_rows())
    with torch.random.fork_rng(devices=[first.device] if first.is_cuda else []):
        # Processes start from one set of weights and one seed, whatever each was given.
        module.load_state_dict(broadcast(module.state_dict()))
        seed = broadcast(int(torch.randint(2**31, (1,))) if seed is None else seed)
        return solve(
            problem,
            module,
            solver or Stochastic(),
            seed=seed,
            callback=callback,
            checkpoint=checkpoint,
        )
