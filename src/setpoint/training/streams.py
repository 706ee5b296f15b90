"""Training any torch module on a data loader, or on a stream of rows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from setpoint._internal.processes import broadcast, join_process_group
from setpoint._internal.renamed import renamed_parameters
from setpoint.data.loader_batches import LoaderBatches
from setpoint.data.loaders import LoaderRows, check_passes
from setpoint.data.rows import RowSource, check_sources
from setpoint.data.splits import SplitRule
from setpoint.errors import GoalError, SetpointError
from setpoint.goals.goal import Goal
from setpoint.training.epochs import Epochs, LoaderProblem, MakeOptimizer, MakeScheduler
from setpoint.training.loop import Callback, Solution, solve
from setpoint.training.mini_batch_penalty import depends_on_rows
from setpoint.training.models import check as check_model
from setpoint.training.stochastic import Stochastic
from setpoint.training.stream_problem import StreamProblem, check_goal


@renamed_parameters(parting="split")
def train(
    module: nn.Module,
    source: RowSource | Iterable[Any],
    goal: str | Goal,
    *,
    validation: RowSource | Iterable[Any] | None = None,
    split: SplitRule | None = None,
    solver: Stochastic | Epochs | None = None,
    epochs: int | None = None,
    warm_up: int | None = None,
    optimizer: Optimizer | MakeOptimizer | None = None,
    scheduler: MakeScheduler | None = None,
    label: str | None = None,
    weight: str | None = None,
    seed: int | None = 0,
    callback: Callback | None = None,
    checkpoint: str | Path | None = None,
) -> Solution:
    """Train a module in place for a goal, on rows of any shape.

    A ``DataLoader`` is trained on in epochs, with your optimizer or Adam: first by cross-entropy,
    then for the goal (:class:`setpoint.MiniBatchPenalty`). After each epoch the exact threshold is
    found on the validation rows; the best model is kept, which may be the one that was given.

    A row source, or ``solver=Stochastic(...)``, is trained on by :class:`Stochastic`, which trains
    several copies of the module at once from a sample of the rows.

    Under ``torchrun`` all processes of the group train it, each on rows of its own.

    Parameters
    ----------
    module : nn.Module
        It returns one logit per row, shape (m,) or (m, 1). Rows are moved to its device. On a
        loader it may have several inputs, return two logits per row, of which the difference
        counts, or an object with ``logits``, as Hugging Face models do.
    source : DataLoader, iterable or RowSource
        Batches ``(x, y)`` or ``(x, y, weight)``, in which x is a tensor, or a tuple or dict of the
        module's inputs; or dicts of inputs and labels. y holds booleans or 0 and 1. Or a row
        source, e.g. ``ParquetRows("folder", target="fraud")``.
    goal : str or Goal
        What to train for; it must count all rows alike.
    validation : DataLoader, iterable or RowSource, optional
        Validation rows, which choose among the candidates and set the threshold. Without them, and
        without a ``split`` that sets some apart, the training rows do, for which a loader is read
        once more after every epoch.
    split : callable, optional
        Which of a row source's rows are for training and which for validation, e.g.
        ``ByChance(validation=0.25)``. A loader in ``LoaderRows`` must not shuffle then.
    solver : Stochastic or Epochs, optional
        ``Stochastic(start="given")`` starts from the module's own weights.
    epochs : int, optional
        Passes over a training loader. Default: 10.
    warm_up : int, optional
        How many of them are by cross-entropy; 0 for a module that is trained already. Default:
        half of them.
    optimizer : Optimizer or callable, optional
        An optimizer of the module's parameters, or a function that makes one of a list of them,
        e.g. ``torch.optim.AdamW``. Default: Adam with a rate that falls from 1e-3 to zero.
    scheduler : callable, optional
        Makes a learning-rate scheduler of the optimizer; it advances after every batch.
    label, weight : str, optional
        The keys of labels and of weights in batches that are dicts. Default: "labels" or "label",
        and no weights.
    seed, callback, checkpoint
        As in :func:`setpoint.training.solve`.

    Returns
    -------
    Solution
        ``solution.operating_point.threshold`` is the exact threshold of the module's logits on
        the validation rows or, without any, on the training rows; ``solution.candidates`` compares
        the module as it was given with the trained ones.

    Examples
    --------
    >>> import torch
    >>> from torch.utils.data import DataLoader, TensorDataset
    >>> from setpoint.streams import train
    >>> generator = torch.Generator().manual_seed(0)
    >>> X = torch.randn(500, 4, generator=generator)
    >>> y = X[:, 0] + torch.randn(500, generator=generator) > 1.5
    >>> loader = DataLoader(TensorDataset(X[:300], y[:300]), batch_size=50, shuffle=True)
    >>> held_out = DataLoader(TensorDataset(X[300:], y[300:]), batch_size=100)
    >>> solution = train(torch.nn.Linear(4, 1), loader, "max f1", validation=held_out, epochs=4)
    >>> [candidate.name for candidate in solution.candidates]
    ['as given', 'cross-entropy', 'goal-trained from cross-entropy']
    """
    goal = Goal.parse(goal)
    check_goal(goal)
    plan: dict[str, Any] = {
        "epochs": epochs, "warm_up": warm_up, "optimizer": optimizer, "scheduler": scheduler
    }  # fmt: skip
    plan = {name: value for name, value in plan.items() if value is not None}
    keys = {name: key for name, key in (("label", label), ("weight", weight)) if key is not None}
    if isinstance(solver, Epochs) and plan:
        raise SetpointError(f"{', '.join(plan)}: give it to Epochs(...), since it is the solver.")
    if isinstance(solver, Stochastic) and (plan or keys):
        raise SetpointError(
            f"{', '.join([*plan, *keys])}: only for a loader that is trained on in epochs, without "
            "solver=Stochastic(...)."
        )
    is_source = hasattr(source, "blocks") and not (plan or keys)
    if solver is None:
        solver = Stochastic() if is_source else Epochs(**plan)
    join_process_group()
    first = next(module.parameters(), None)
    if first is None:
        raise SetpointError("the model has no parameters to train.")
    problem: StreamProblem | LoaderProblem
    if isinstance(solver, Epochs):
        problem = _loader_problem(module, source, validation, split, goal, keys, first.device)
    else:
        problem = _stream_problem(source, validation, split, goal, first.device)
        check_model(module, problem.first_rows())
    with torch.random.fork_rng(devices=[first.device] if first.is_cuda else []):
        # All processes start from the first one's weights and seed.
        module.load_state_dict(broadcast(module.state_dict()))
        seed = broadcast(int(torch.randint(2**31, (1,))) if seed is None else seed)
        return solve(problem, module, solver, seed=seed, callback=callback, checkpoint=checkpoint)


def _stream_problem(
    source: Any, validation: Any, split: SplitRule | None, goal: Goal, device: torch.device
) -> StreamProblem:
    """Return the problem of row sources; loaders are made one."""
    source, validation = (
        LoaderRows(rows) if _is_loader(rows) else rows for rows in (source, validation)
    )
    check_sources(source, validation)
    check_passes(source, validation, split)
    return StreamProblem(source, goal, split, validation, device=device)


def _loader_problem(
    module: nn.Module,
    source: Any,
    validation: Any,
    split: SplitRule | None,
    goal: Goal,
    keys: dict[str, str],
    device: torch.device,
) -> LoaderProblem:
    """Return the problem of loaders; the module initialises its lazy layers."""
    if split is not None:
        raise SetpointError(
            "split= sets rows of a row source apart. Pass the validation rows of a loader as a "
            "loader of their own, validation=DataLoader(...)."
        )
    training, judges = (
        rows.loader if isinstance(rows, LoaderRows) else rows for rows in (source, validation)
    )
    if hasattr(training, "blocks") or hasattr(judges, "blocks"):
        raise SetpointError(
            "training in epochs reads loaders, not row sources; pass DataLoaders for both the "
            "training and the validation rows, or leave out epochs= and optimizer=."
        )
    for rows in (training,) if judges is None else (training, judges):
        if not _is_loader(rows):
            check_sources(rows, None)
    if depends_on_rows(goal):
        raise GoalError(
            f"the goal '{goal}' has a constraint on a number of rows or a sum over them, which "
            "means another thing for the training and for the validation rows. Write a share or a "
            "mean instead, such as 'alarms <= 1%'."
        )
    own = LoaderBatches(training, **keys)
    others = None
    if judges is not None:
        others = LoaderBatches(judges, **keys, on="the validation rows")
    check_passes(LoaderRows(training), None if judges is None else LoaderRows(judges), None)
    if any(map(is_lazy, module.parameters())):
        batch = next(iter(own if others is None else others))
        with torch.no_grad():
            batch.output(module, device)
    return LoaderProblem(own, goal, others, device)


def _is_loader(rows: Any) -> bool:
    """Whether an object yields batches; one that yields rows or letters does not."""
    if hasattr(rows, "blocks") or isinstance(rows, str | bytes | np.ndarray | torch.Tensor):
        return False
    return hasattr(rows, "__iter__") and not hasattr(rows, "iloc")
