"""Several models of one kind, trained at once on the same rows.

A bundle holds k models, their origins (the logits that count as thresholds) and their parameters.
It returns the logits of all models as the rows of one matrix and takes the derivatives of a loss in
them back. Linear models are one matrix themselves, so that a step of ten costs little more than a
step of one. The parameters of other modules are stacked and their layers batched where torch can
(:mod:`setpoint.training.at_once`); the rest are copies that are called in turn.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from setpoint._internal.processes import all_reduce_sum, rank_and_world_size
from setpoint.training import at_once
from setpoint.training.models import is_linear, logits_of, scores_of


class _Strengths:
    """Proximities as a tensor. It is kept, because copying it to a GPU takes long."""

    def __init__(self, like: Tensor) -> None:
        self._of: tuple[float, ...] = ()
        self._tensor = like.new_empty(0)

    def __call__(self, proximity: Sequence[float]) -> Tensor:
        if self._of != tuple(proximity):
            self._of, self._tensor = tuple(proximity), self._tensor.new_tensor(proximity)
        return self._tensor


class LinearBundle:
    """Linear models as the rows of a matrix. They train in float32 and score in their own dtype."""

    def __init__(self, module: nn.Module, starts: Sequence[dict[str, Any]]) -> None:
        self._like = {k: v.detach() for k, v in module.state_dict().items()}
        rows = torch.cat([s["weight"].detach().reshape(1, -1) for s in starts])
        self.matrix = rows.float()
        # Bias and threshold are one number; the bias goes to the threshold's side.
        none = rows.new_zeros(1)
        self.origins = -torch.cat([s.get("bias", none).detach().reshape(1) for s in starts]).float()
        self.parameters = [self.matrix, self.origins]
        self.buffers: list[Tensor] = []  # none: modules may have some, such as running means
        self.start = self.matrix.clone()
        self._strengths = _Strengths(self.origins)
        self.last: Any = None  # what ``backward`` needs of the logits just returned

    def __getitem__(self, models: slice) -> LinearBundle:
        """Return some of the models as a bundle that shares their weights and origins, to score."""
        view = copy.copy(self)
        view.matrix, view.origins = self.matrix[models], self.origins[models]
        return view

    def prepare(self, X: Tensor) -> Tensor:
        """Return rows in the precision in which the models train: float32."""
        return X.float()

    def logits(self, X: Tensor) -> Tensor:
        """Return logits above the origins, shape (k, n), of prepared rows: one matrix product."""
        self.last = X
        return torch.addmm(self.origins[:, None], self.matrix, X.T, beta=-1)

    def backward(self, slopes: Tensor) -> None:
        """Set the gradients from the derivatives in the logits just returned."""
        self.matrix.grad = slopes @ self.last
        self.origins.grad = -slopes.sum(1)

    def pull_to_start(self, proximity: Sequence[float]) -> None:
        """Add to the gradients those of proximity_k/2 |theta_k - start_k|^2."""
        strengths = self.strengths(proximity)
        if strengths is not None:
            assert self.matrix.grad is not None
            self.matrix.grad.addcmul_(strengths, self.matrix - self.start)

    def strengths(self, proximity: Sequence[float]) -> Tensor | None:
        """Return the proximities as a column, None if all are zero."""
        return self._strengths(proximity)[:, None] if any(proximity) else None

    def scores(self, X: Tensor) -> Tensor:
        """Return logits before the origins are subtracted, in the rows' precision or float32."""
        scores = self.matrix.to(X.dtype) @ X.T
        return scores.to(_at_least_float32(scores.dtype))

    def weights(self, k: int) -> dict[str, Any]:
        """Return a state dict of model k, with a bias of zero where the module has one."""
        own = self._like
        weights = {"weight": self.matrix[k].reshape(own["weight"].shape).to(own["weight"])}
        if "bias" in own:
            weights["bias"] = torch.zeros_like(own["bias"])
        return weights

    def state_dict(self) -> dict[str, Any]:
        """Return the matrix, where it started, and the origins."""
        return {"matrix": self.matrix, "start": self.start, "origins": self.origins}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        self.matrix.copy_(state["matrix"])
        self.start.copy_(state["start"])
        self.origins.copy_(state["origins"])


class ModuleBundle:
    """Copies of any module, called in turn."""

    def __init__(self, module: nn.Module, starts: Sequence[dict[str, Any]]) -> None:
        self._modules = [copy.deepcopy(module) for _ in starts]
        for one, start in zip(self._modules, starts, strict=True):
            one.load_state_dict(start)
            one.train()
        first = next(module.parameters())
        self.origins = first.detach().new_zeros(len(starts)).to(_at_least_float32(first.dtype))
        self.parameters = [
            *(p for m in self._modules for p in m.parameters() if p.requires_grad),
            self.origins,
        ]
        self.buffers = [b for m in self._modules for b in m.buffers() if b.is_floating_point()]
        self._start = [[p.detach().clone() for p in m.parameters()] for m in self._modules]
        self.last: Any = None

    def __getitem__(self, models: slice) -> ModuleBundle:
        """Return some of the copies as a bundle that shares their weights and origins, to score."""
        view = copy.copy(self)
        view._modules, view.origins = self._modules[models], self.origins[models]
        view.last = None
        return view

    def prepare(self, X: Tensor) -> Tensor:
        """Return the rows unchanged."""
        return X

    def logits(self, X: Tensor) -> Tensor:
        """Return logits above the origins, shape (k, n)."""
        self.last = None  # a graph that is alive would tie the next one to its stream of a GPU
        self.last = list(self._each(X))
        return torch.stack([z.detach() for z in self.last]) - self.origins[:, None]

    def _each(self, X: Tensor) -> Iterable[Tensor]:
        """Return the logits of each copy."""
        return (logits_of(m, X) for m in self._modules)

    def backward(self, slopes: Tensor) -> None:
        """Let autograd differentiate the copies."""
        for p in self.parameters:
            p.grad = None
        torch.autograd.backward(self.last, list(slopes))
        self.origins.grad = -slopes.sum(1)

    def pull_to_start(self, proximity: Sequence[float]) -> None:
        """Add to the gradient of each copy."""
        for strength, module, start in zip(proximity, self._modules, self._start, strict=True):
            if not strength:
                continue
            for p, p0 in zip(module.parameters(), start, strict=True):
                if p.grad is not None:
                    p.grad.add_(p.detach() - p0, alpha=strength)

    def add_ridge(self, ridges: Sequence[float]) -> None:
        """Add to the gradients those of ridge_k/2 |theta_k|^2, without biases."""
        for ridge, module in zip(ridges, self._modules, strict=True):
            for p in module.parameters():
                if ridge and p.grad is not None and p.ndim > 1:
                    p.grad.add_(p.detach(), alpha=ridge)

    def scores(self, X: Tensor) -> Tensor:
        """Call each copy in evaluation mode."""
        return torch.stack([scores_of(m, X) for m in self._modules])

    def weights(self, k: int) -> dict[str, Any]:
        """Return the state dict of a copy."""
        return self._modules[k].state_dict()

    def state_dict(self) -> dict[str, Any]:
        """Return the copies, where they started, and the origins."""
        modules = [m.state_dict() for m in self._modules]
        return {"modules": modules, "start": self._start, "origins": self.origins}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state."""
        for module, saved in zip(self._modules, state["modules"], strict=True):
            module.load_state_dict(saved)
        for start, saved in zip(self._start, state["start"], strict=True):
            for p, value in zip(start, saved, strict=True):
                p.copy_(value)
        self.origins.copy_(state["origins"])


class StackedBundle(ModuleBundle):
    """Copies of a module that can be computed at once.

    The parameters and buffers of the copies are views of stacked ones, which the optimizer and the
    processes see. Gradients are those of the stacked parameters.
    """

    def __init__(self, module: nn.Module, starts: Sequence[dict[str, Any]]) -> None:
        super().__init__(module, starts)
        self._parameters = _stacked([dict(m.named_parameters()) for m in self._modules])
        self._buffers = _stacked([dict(m.named_buffers()) for m in self._modules])
        self.parameters = [*(p for p in self._parameters.values() if p.requires_grad), self.origins]
        self.buffers = [b for b in self._buffers.values() if b.is_floating_point()]
        self._stacked_start = [p.detach().clone() for p in self._parameters.values()]
        self._start = [list(each) for each in zip(*self._stacked_start, strict=True)]
        self._strengths, self._ridges = _Strengths(self.origins), _Strengths(self.origins)

    def __getitem__(self, models: slice) -> StackedBundle:
        """Return some of the copies as a bundle that shares their weights and origins, to score."""
        view = super().__getitem__(models)
        assert isinstance(view, StackedBundle)
        # Detached: a slice would keep a graph alive and tie later graphs to its stream of a GPU.
        view._parameters = {name: p.detach()[models] for name, p in self._parameters.items()}
        view._buffers = {name: b[models] for name, b in self._buffers.items()}
        return view

    def _each(self, X: Tensor) -> Iterable[Tensor]:
        """Return the logits of each copy, computed in the order that is faster."""
        if not at_once.pays(self._parameters, X):
            return at_once.logits_in_turn(self._modules, self._parameters, X)
        some = self._modules[0]
        return at_once.logits_at_once(some, self._parameters, self._buffers, X).unbind()

    def backward(self, slopes: Tensor) -> None:
        """Let autograd differentiate all copies.

        Without accumulation: that would run on the stream of an earlier call, and a step that is
        being recorded must stay on its own.
        """
        trained = self.parameters[:-1]
        found = torch.autograd.grad(self.last, trained, list(slopes), allow_unused=True)
        for p, gradient in zip(trained, found, strict=True):
            p.grad = None if gradient is None else gradient.contiguous()
        self.origins.grad = -slopes.sum(1)

    def pull_to_start(self, proximity: Sequence[float]) -> None:
        """Add to the gradients of all copies."""
        if not any(proximity):
            return
        strengths = self._strengths(proximity)
        for p, p0 in zip(self._parameters.values(), self._stacked_start, strict=True):
            if p.grad is not None:
                of_copy = strengths.to(p.dtype).view(-1, *[1] * (p.ndim - 1))
                p.grad.addcmul_(of_copy, p.detach() - p0)

    def add_ridge(self, ridges: Sequence[float]) -> None:
        """Add to the gradients of all copies."""
        strengths = self._ridges(ridges)
        for p in self._parameters.values():
            if p.grad is not None and p.ndim > 2:
                of_copy = strengths.to(p.dtype).view(-1, *[1] * (p.ndim - 1))
                p.grad.addcmul_(of_copy, p.detach())

    def weights(self, k: int) -> dict[str, Any]:
        """Return the state dict of a copy, in memory of its own: a view would keep all copies."""
        state = super().weights(k)
        return {n: v.clone() if isinstance(v, Tensor) else v for n, v in state.items()}


def _stacked(copies: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return tensors stacked by name, and make those of the copies views of the result."""
    found = {}
    for name, first in copies[0].items():
        stacked = torch.stack([tensors[name].detach() for tensors in copies])
        for tensors, part in zip(copies, stacked, strict=True):
            tensors[name].data = part
        found[name] = stacked.requires_grad_(first.requires_grad)
    return found


Bundle = LinearBundle | ModuleBundle
FEW = 8  # rows that show how a module computes


def make_bundle(
    module: nn.Module, starts: Sequence[dict[str, Any]], rows: Tensor | None = None
) -> Bundle:
    """Return copies of the module, one for each state dict.

    On a few ``rows`` it is tried whether the copies can be computed at once. Without rows they are
    called in turn.
    """
    if is_linear(module):
        return LinearBundle(module, starts)
    if rows is None or len(starts) == 1 or not at_once.works(module, rows):
        return ModuleBundle(module, starts)
    return StackedBundle(module, starts)


def _at_least_float32(dtype: torch.dtype) -> torch.dtype:
    """Return float32 for half precisions, which cannot tell thresholds apart."""
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


class ShardedSums:
    """Gradients and counts of one step as sums over shards, the same for any number of processes.

    Floating-point sums depend on their order. Here each shard is summed by itself, where it lies,
    and the shards are added in their order: the result is the same to the last bit for one process
    that has all shards and for several that have some each.

    Parameters
    ----------
    bundle : Bundle
        The models.
    shards : int
        Of all processes; shard s is on the process s modulo their number.
    """

    def __init__(self, bundle: Bundle, shards: int) -> None:
        self._bundle, self._shards = bundle, shards
        rank, world = rank_and_world_size()
        self._own = range(rank, shards, world)
        self._kept: dict[int, list[Tensor]] = {}

    def split(self, shard: Tensor) -> dict[int, Tensor]:
        """Return the indices of the rows of each of this process's shards that has rows."""
        if self._shards == 1:
            return {0: torch.arange(len(shard), device=shard.device)} if len(shard) else {}
        found = {s: (shard == s).nonzero().squeeze(1) for s in self._own}
        return {s: rows for s, rows in found.items() if len(rows)}

    def total(self, of_shard: Mapping[int, Tensor], columns: int = 2) -> Tensor:
        """Return the sum over all shards of tensors of shape (k, columns)."""
        origins = self._bundle.origins
        table = torch.zeros(
            self._shards, len(origins), columns, dtype=torch.float64, device=origins.device
        )
        for shard, value in of_shard.items():
            table[shard] = value
        all_reduce_sum(table)
        return _in_order(table)

    def keep_gradients(self, shard: int) -> None:
        """Store the current gradients as those of a shard."""
        self._kept[shard] = [
            torch.zeros_like(p) if p.grad is None else p.grad for p in self._bundle.parameters
        ]

    def set_gradients(self) -> None:
        """Set the gradients to the sum over all shards."""
        kept, self._kept = self._kept, {}
        if self._shards == 1 and 0 in kept:
            return  # they are set already
        sizes = [p.numel() for p in self._bundle.parameters]
        like = self._bundle.origins  # unlike the weights never in half precision
        table = torch.zeros(self._shards, sum(sizes), dtype=like.dtype, device=like.device)
        for shard, gradients in kept.items():
            table[shard] = torch.cat([g.reshape(-1) for g in gradients])
        all_reduce_sum(table)
        total, start = _in_order(table), 0
        for parameter, size in zip(self._bundle.parameters, sizes, strict=True):
            parameter.grad = total[start : start + size].view_as(parameter).to(parameter.dtype)
            start += size


def _in_order(table: Tensor) -> Tensor:
    """Return the sum over the first axis, one after the other."""
    total = table[0].clone()
    for row in table[1:]:
        total += row
    return total
