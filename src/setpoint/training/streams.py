"""Training any torch module on a stream of rows."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from setpoint._internal.processes import broadcast, join_process_group
from setpoint._internal.renamed import renamed_parameters
from setpoint.data.loaders import check_passes
from setpoint.data.rows import RowSource, check_sources
from setpoint.data.splits import SplitRule
from setpoint.errors import SetpointError
from setpoint.goals.goal import Goal
from setpoint.training.loop import Callback, Solution, solve
from setpoint.training.models import check as check_model
from setpoint.training.stochastic import Stochastic
from setpoint.training.stream_problem import StreamProblem, check_goal


@renamed_parameters(parting="split")
def train(
    module: nn.Module,
    source: RowSource,
    goal: str | Goal,
    *,
    validation: RowSource | None = None,
    split: SplitRule | None = None,
    solver: Stochastic | None = None,
    seed: int | None = 0,
    callback: Callback | None = None,
    checkpoint: str | Path | None = None,
) -> Solution:
    """Train a module in place for a goal, on rows of any shape that come in blocks.

    Under ``torchrun`` all processes of the group train it, each on some of the rows.

    Parameters
    ----------
    module : nn.Module
        It returns one logit per row, shape (m,) or (m, 1). Rows are moved to its device.
    source : RowSource
        The rows, e.g. ``LoaderRows(loader)``.
    goal : str or Goal
        What to train for; it must count all rows alike.
    validation : RowSource, optional
        Validation rows, which choose among the candidates and set the threshold. Without them, and
        without a ``split`` that sets some apart, the training rows do.
    split : callable, optional
        Which of the source's rows are for training and which for validation, e.g.
        ``ByChance(validation=0.25)``. A loader must not shuffle then.
    solver : Stochastic, optional
        ``Stochastic(start="given")`` starts from the module's own weights.
    seed, callback, checkpoint
        As in :func:`setpoint.training.solve`.

    Returns
    -------
    Solution
        ``solution.operating_point.threshold`` is the exact threshold of the module's logits on
        the validation rows or, without any, on the training rows.

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
    goal = Goal.parse(goal)
    check_goal(goal)
    check_sources(source, validation)
    join_process_group()
    first = next(module.parameters(), None)
    if first is None:
        raise SetpointError("the model has no parameters to train.")
    check_passes(source, validation, split)
    problem = StreamProblem(source, goal, split, validation, device=first.device)
    check_model(module, problem.first_rows())
    with torch.random.fork_rng(devices=[first.device] if first.is_cuda else []):
        # All processes start from the first one's weights and seed.
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
