"""Training over epochs of a data loader, with any optimizer: the mini-batch penalty at work.

The first epochs minimise cross-entropy, the others :class:`MiniBatchPenalty`. After each epoch the
exact threshold is found on the validation rows, and the best model so far is kept.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from setpoint._internal.processes import all_gather, all_reduce_mean, is_distributed
from setpoint._internal.validation import check_whole
from setpoint.data.loader_batches import LoaderBatch, LoaderBatches
from setpoint.errors import DivergedError, SetpointError
from setpoint.goals.goal import Goal
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.thresholds.stream import stream_threshold
from setpoint.training.candidates import TrainedModel
from setpoint.training.loop import Progress
from setpoint.training.mini_batch_penalty import MiniBatchPenalty
from setpoint.training.models import logits_in
from setpoint.training.problem import fingerprint_of

MakeOptimizer = Callable[[list[nn.Parameter]], Optimizer]
MakeScheduler = Callable[[Optimizer], Any]

_RATE = 1e-3  # of Adam, where no optimizer is given; it falls to zero on a cosine


@dataclass(frozen=True, eq=False)
class LoaderProblem:
    """Rows of a data loader, which train a module for a goal.

    Attributes
    ----------
    batches : LoaderBatches
        The training rows.
    goal : Goal
        What to train for.
    validation : LoaderBatches, optional
        Validation rows; without them the training rows choose among the candidates.
    device : torch.device
        Where the module is.
    """

    batches: LoaderBatches
    goal: Goal
    validation: LoaderBatches | None
    device: torch.device

    @property
    def evaluation_goal(self) -> Goal:
        """The goal on the rows on which models are compared."""
        return self.goal

    def operating_point(self, module: nn.Module) -> OperatingPoint:
        """Return the module's operating point at its exact threshold, from one pass."""
        rows, on = self.validation, "the validation rows"
        if rows is None:
            rows, on = self.batches, "the training rows"
        found = [scored(module, batch, self.device) for batch in rows]
        try:
            return stream_threshold(lambda: found, self.goal, on=on)
        except SetpointError as error:
            raise SetpointError(f"{on}: {error}") from error

    def fingerprint(self) -> str:
        """Return a digest of the goal and of what the loaders say of themselves."""
        known = []
        for rows in (self.batches, self.validation):
            dataset = getattr(getattr(rows, "loader", None), "dataset", None)
            known.append(f"{type(dataset).__qualname__} {rows and rows.steps()}".encode())
        return fingerprint_of(self.goal, known)


@torch.no_grad()
def scored(module: nn.Module, batch: LoaderBatch, device: torch.device) -> tuple[Any, Any, Any]:
    """Return the labels, logits and weights of a batch; the module is in evaluation mode."""
    module.eval()
    logits = logits_in(batch.output(module, device), len(batch)).cpu()
    if logits.isnan().any():
        raise DivergedError(
            f"the model returned NaN for {int(logits.isnan().sum())} of the rows of {batch.name}; "
            "look for NaN in its inputs and weights, and try a lower learning rate."
        )
    return batch.positive, logits, batch.weight


@dataclass(frozen=True)
class Epochs:
    """Train over epochs of a loader: first by cross-entropy, then for the goal.

    Parameters
    ----------
    epochs : int
        Passes over the training loader.
    warm_up : int or None
        How many of them are by cross-entropy. None: half of them.
    optimizer : Optimizer or callable, optional
        An optimizer of the module's parameters, or a function that makes one of a list of them.
        Default: Adam, with a rate that falls from 1e-3 to zero on a cosine.
    scheduler : callable, optional
        Makes a learning-rate scheduler of the optimizer; it advances after every batch.
    lam, lam_max, gamma, dual_rate
        As in :class:`MiniBatchPenalty`; lambda rises over the epochs for the goal.
    """

    epochs: int = 10
    warm_up: int | None = None
    optimizer: Optimizer | MakeOptimizer | None = None
    scheduler: MakeScheduler | None = None
    lam: float = 3.0
    lam_max: float = 10.0
    gamma: float = 0.25
    dual_rate: float = 0.015

    reads_loaders: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_whole(self.epochs, "epochs", least=0)
        if self.warm_up is not None:
            check_whole(self.warm_up, "warm_up", least=0, most=self.epochs)
        if isinstance(self.optimizer, torch.optim.LBFGS):
            raise SetpointError("LBFGS needs several losses for a step; use another optimizer.")
        for name, kind in (("optimizer", Optimizer), ("scheduler", ())):
            given = getattr(self, name)
            if given is not None and not isinstance(given, kind) and not callable(given):
                raise SetpointError(
                    f"{name} must be {'an Optimizer or ' if kind else ''}a function that makes "
                    f"one, not a {type(given).__name__}."
                )

    def __repr__(self) -> str:
        """Return all parameters; those of an optimizer are part of its state."""
        named = {
            name: value.__qualname__ if hasattr(value, "__qualname__") else type(value).__qualname__
            for name, value in vars(self).items()
            if name in ("optimizer", "scheduler")
        }
        values = {**vars(self), **named}
        return f"Epochs({', '.join(f'{name}={value}' for name, value in values.items())})"

    @property
    def outer_iterations(self) -> int:
        """The number of epochs."""
        return self.epochs

    def prepare(self, problem: LoaderProblem, module: nn.Module) -> EpochsRun:
        """Return a run. Supports every goal that counts all rows alike."""
        settled = replace(self, warm_up=self.epochs // 2 if self.warm_up is None else self.warm_up)
        return EpochsRun(settled, problem, module)


class EpochsRun:
    """Training over epochs at work on a module."""

    distributed = True  # over the processes of torch's default group, if there is one

    def __init__(self, solver: Epochs, problem: LoaderProblem, module: nn.Module) -> None:
        self.solver, self.problem, self.module = solver, problem, module
        assert solver.warm_up is not None
        self._warm_up = solver.warm_up
        self._modes = [(m, m.training) for m in module.modules()] if module.training else []
        self._penalty = MiniBatchPenalty(
            problem.goal, gamma=solver.gamma, dual_rate=solver.dual_rate, lam_max=solver.lam_max
        )
        self._epoch, self._step = 0, 0
        self._steps = problem.batches.steps()  # of an epoch, as far as it is known
        self._model: TrainedModel
        self._trained = [p for p in module.parameters() if p.requires_grad]
        self._optimizer = self._made_optimizer()
        self._scheduler = self._made_scheduler()

    def _made_optimizer(self) -> Optimizer:
        given = self.solver.optimizer
        if not self._trained:
            raise SetpointError("the model has no parameter to train: all of them are frozen.")
        if given is None:
            return torch.optim.Adam(self._trained, lr=_RATE)
        made = given if isinstance(given, Optimizer) else given(self._trained)
        if not isinstance(made, Optimizer):
            raise SetpointError(
                f"optimizer made a {type(made).__name__}, not a torch.optim.Optimizer."
            )
        known = {id(p) for p in self.module.parameters()}
        held = [p for group in made.param_groups for p in group["params"]]
        foreign = sum(id(p) not in known for p in held)
        if foreign:
            raise SetpointError(
                f"{foreign} of the {len(held)} parameters of the optimizer are not those of the "
                "module; make it of module.parameters(), after the module is on its device."
            )
        if not any(p.requires_grad for p in held):
            raise SetpointError("the optimizer has no parameter to train: all of them are frozen.")
        return made

    def _made_scheduler(self) -> Any:
        if self.solver.scheduler is not None:
            made = self.solver.scheduler(self._optimizer)
            if not hasattr(made, "step"):
                raise SetpointError(f"scheduler made a {type(made).__name__}, without a step().")
            return made
        if self.solver.optimizer is not None:
            return None
        return LambdaLR(self._optimizer, lambda _: (1 + math.cos(math.pi * self._elapsed())) / 2)

    def _elapsed(self, since: int = 0) -> float:
        """Return the fraction of the epochs from ``since`` on that is done."""
        within = self._step / self._steps if self._steps else 0.0
        done = self._epoch + min(within, 1.0) - since
        return min(done / max(self.solver.epochs - since, 1), 1.0)

    @property
    def _lam(self) -> float:
        """The current lambda, which rises from the first epoch for the goal to the last."""
        first, last = self.solver.lam, self.solver.lam_max
        return float(first * (last / first) ** max(self._elapsed(self._warm_up), 0.0))

    # --- epochs -------------------------------------------------------------------------------

    def start(self, take: str | None = None) -> Progress:
        """Evaluate the module as it is given."""
        self._evaluate("as given")
        return Progress(self.solver.lam, math.nan)

    def advance(self, iteration: int) -> Progress:
        """Train for an epoch."""
        self._epoch, self._step = iteration - 1, 0
        self._train_mode()
        total, rows = 0.0, 0
        classes: set[bool] = set()  # whether some rows are positive
        for batch in _in_step(self.problem.batches):
            if batch is not None:
                classes.update({bool(batch.positive.any()), bool(batch.positive.all())})
                rows += len(batch)
            total += self._take_step(batch)
            self._step += 1
        self._steps = self._step
        if missing := {True, False}.difference(*all_gather(classes)):
            which = "positive" if True in missing else "negative"
            raise SetpointError(f"there are no {which} training rows; both classes are needed.")
        if is_distributed():  # e.g. BatchNorm's running means
            all_reduce_mean([b for b in self.module.buffers() if b.is_floating_point()])
        if self._epoch < self._warm_up:
            self._evaluate("cross-entropy")
        else:
            start = "cross-entropy" if self._warm_up else "as given"
            self._evaluate(f"goal-trained from {start}", start)
        return Progress(self._lam, total / rows)

    def _take_step(self, batch: LoaderBatch | None) -> float:
        """Take a step of the optimizer, and return the sum of the losses of the rows.

        Without a batch, take part in the step of other processes, which have more.
        """
        if batch is not None and len(batch) == 1 and self._has_batch_norm():
            warnings.warn(
                f"{batch.name} has a single row, which BatchNorm cannot train on, and is left out. "
                "Use another batch size, or drop_last=True.",
                stacklevel=2,
            )
            batch = None
        if batch is None and not is_distributed():
            return 0.0
        for parameter in self.module.parameters():
            parameter.grad = None
        loss = self._loss(batch)
        if batch is not None:
            if not loss.requires_grad:
                raise SetpointError("the model's logits do not depend on any trainable parameter.")
            loss.backward()  # type: ignore[no-untyped-call]
        self._share_gradients()
        self._optimizer.step()
        if self._scheduler is not None:
            self._scheduler.step()
        return 0.0 if batch is None else float(loss.detach()) * len(batch)

    def _loss(self, batch: LoaderBatch | None) -> Tensor:
        """Return the loss of a batch; every process shows its rows to the penalty."""
        logits, positive, weight = torch.zeros(0), torch.zeros(0, dtype=torch.bool), torch.zeros(0)
        if batch is not None:
            logits = logits_in(batch.output(self.module, self.problem.device), len(batch))
            positive, weight = batch.positive, batch.weight
        if self._epoch >= self._warm_up:
            self._penalty.lam = self._lam
            found: Tensor = self._penalty(logits, positive, weight)
            return found
        self._penalty.observe(logits, positive, weight)
        weight = weight.to(logits)
        losses = binary_cross_entropy_with_logits(
            logits, positive.to(logits), weight, reduction="sum"
        )
        return losses / weight.sum().clamp(min=1e-12)

    def _share_gradients(self) -> None:
        """Average the gradients of all processes; DistributedDataParallel does so by itself."""
        if is_distributed() and not isinstance(self.module, DistributedDataParallel):
            for p in self._trained:
                p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            all_reduce_mean([p.grad for p in self._trained if p.grad is not None])

    def _train_mode(self) -> None:
        """Let the module train; what was in evaluation mode while the module trained stays so."""
        self.module.train()
        for module, training in self._modes:
            module.training = training

    def _has_batch_norm(self) -> bool:
        return any(isinstance(m, _BatchNorm) and m.training for m in self.module.modules())

    def _evaluate(self, name: str, start: str | None = None) -> None:
        point = self.problem.operating_point(self.module)
        self._model = TrainedModel(name, point, self.module.state_dict(), start)

    def models(self) -> list[TrainedModel]:
        """Return the module as it is now."""
        return [self._model]

    # --- interruption -------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state of optimizer, scheduler and penalty."""
        return {
            "steps": self._steps,
            "optimizer": self._optimizer.state_dict(),
            "scheduler": None if self._scheduler is None else self._scheduler.state_dict(),
            "penalty": self._penalty.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        self._steps = state["steps"]
        self._optimizer.load_state_dict(state["optimizer"])
        if self._scheduler is not None:
            self._scheduler.load_state_dict(state["scheduler"])
        self._penalty.load_state_dict(state["penalty"])


def _in_step(batches: LoaderBatches) -> Iterator[LoaderBatch | None]:
    """Yield the batches; in a process group, None until the last process has no more."""
    own = iter(batches)
    while True:
        batch = next(own, None)
        if not any(all_gather(batch is not None)):
            return
        yield batch
