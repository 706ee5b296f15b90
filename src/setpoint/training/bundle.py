"""Several models of one kind, trained at once on the same rows.

A bundle gives the logits of all its models as the rows of one matrix and takes the derivatives
of a loss in them back. Linear models are one matrix themselves, so that a step of ten costs little
more than a step of one; other modules are copies that take turns.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from setpoint.training.models import is_linear, logits_of, scores_of

ALL = slice(None)


class Bundle(Protocol):
    """k models, their origins (the logits that count as the threshold) and their parameters."""

    origins: Tensor
    parameters: list[Tensor]
    buffers: list[Tensor]  # what modules keep besides, such as running means
    last: Any  # what ``backward`` needs to know of the logits just returned

    def prepare(self, X: Tensor) -> Tensor:
        """Bring rows to the form and precision in which the models train."""
        ...

    def logits(self, X: Tensor) -> Tensor:
        """Return logits above the origins, shape (k, n), of prepared rows, for ``backward``."""
        ...

    def backward(self, slopes: Tensor) -> None:
        """Set every parameter's gradient from the derivatives in the logits just returned."""
        ...

    def hold_near(self, nearness: Sequence[float]) -> None:
        """Add to the gradients those of nearness_k/2 |theta_k - start_k|^2."""
        ...

    def scores(self, X: Tensor, models: slice = ALL) -> Tensor:
        """Return models' logits before the origins are subtracted, a row for each."""
        ...

    def weights(self, k: int) -> dict[str, Any]:
        """Return a state dict of model k."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Return all that the bundle holds."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a state again."""
        ...


def make_bundle(module: nn.Module, starts: Sequence[dict[str, Any]]) -> Bundle:
    """Return copies of the module, one for each state dict."""
    kind = LinearBundle if is_linear(module) else ModuleBundle
    return kind(module, starts)


class LinearBundle:
    """Linear models as the rows of a matrix. They train in float32 and score in their own."""

    def __init__(self, module: nn.Module, starts: Sequence[dict[str, Any]]) -> None:
        self._like = {k: v.detach() for k, v in module.state_dict().items()}
        rows = torch.cat([s["weight"].detach().reshape(1, -1) for s in starts])
        self.matrix = rows.float()
        # The bias and the threshold are one number; it is kept on the side of the threshold.
        none = rows.new_zeros(1)
        self.origins = -torch.cat([s.get("bias", none).detach().reshape(1) for s in starts]).float()
        self.parameters = [self.matrix, self.origins]
        self.buffers: list[Tensor] = []
        self._start = self.matrix.clone()
        self._strengths: tuple[tuple[float, ...], Tensor] | None = None
        self.last: Any = None

    def prepare(self, X: Tensor) -> Tensor:
        """Return the rows in float32."""
        return X.float()

    def logits(self, X: Tensor) -> Tensor:
        """Return one product of matrices."""
        self.last = X
        return torch.addmm(self.origins[:, None], self.matrix, X.T, beta=-1)

    def backward(self, slopes: Tensor) -> None:
        """Return through that product."""
        self.matrix.grad = slopes @ self.last
        self.origins.grad = -slopes.sum(1)

    def hold_near(self, nearness: Sequence[float]) -> None:
        """Add to the gradient of the matrix."""
        if not any(nearness):
            return
        assert self.matrix.grad is not None
        if self._strengths is None or self._strengths[0] != tuple(nearness):
            column = self.matrix.new_tensor(nearness)[:, None]
            self._strengths = tuple(nearness), column  # kept: to bring it to a GPU takes long
        self.matrix.grad.addcmul_(self._strengths[1], self.matrix - self._start)

    def scores(self, X: Tensor, models: slice = ALL) -> Tensor:
        """Return the product in the rows' own precision, as numbers of float32 at least."""
        scores = self.matrix[models].to(X.dtype) @ X.T
        return scores.to(_whole_precision(scores.dtype))

    def weights(self, k: int) -> dict[str, Any]:
        """Return a row, with a bias of zero where there is one."""
        own = self._like
        weights = {"weight": self.matrix[k].reshape(own["weight"].shape).to(own["weight"])}
        if "bias" in own:
            weights["bias"] = torch.zeros_like(own["bias"])
        return weights

    def state_dict(self) -> dict[str, Any]:
        """Return the matrix, where it started, and the origins."""
        return {"matrix": self.matrix, "start": self._start, "origins": self.origins}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a state again."""
        self.matrix.copy_(state["matrix"])
        self._start.copy_(state["start"])
        self.origins.copy_(state["origins"])


class ModuleBundle:
    """Copies of any module."""

    def __init__(self, module: nn.Module, starts: Sequence[dict[str, Any]]) -> None:
        self._modules = [copy.deepcopy(module) for _ in starts]
        for one, start in zip(self._modules, starts, strict=True):
            one.load_state_dict(start)
            one.train()
        first = next(module.parameters())
        self.origins = first.detach().new_zeros(len(starts)).to(_whole_precision(first.dtype))
        self.parameters = [
            *(p for m in self._modules for p in m.parameters() if p.requires_grad),
            self.origins,
        ]
        self.buffers = [b for m in self._modules for b in m.buffers() if b.is_floating_point()]
        self._start = [[p.detach().clone() for p in m.parameters()] for m in self._modules]
        self.last: Any = None

    def prepare(self, X: Tensor) -> Tensor:
        """Return the rows as they are."""
        return X

    def logits(self, X: Tensor) -> Tensor:
        """Ask each copy in turn."""
        self.last = [logits_of(m, X) for m in self._modules]
        return torch.stack([z.detach() for z in self.last]) - self.origins[:, None]

    def backward(self, slopes: Tensor) -> None:
        """Let autograd go back through each copy."""
        for p in self.parameters:
            p.grad = None
        torch.autograd.backward(self.last, list(slopes))
        self.origins.grad = -slopes.sum(1)

    def hold_near(self, nearness: Sequence[float]) -> None:
        """Add to the gradient of each copy."""
        for strength, module, start in zip(nearness, self._modules, self._start, strict=True):
            if not strength:
                continue
            for p, p0 in zip(module.parameters(), start, strict=True):
                if p.grad is not None:
                    p.grad.add_(p.detach() - p0, alpha=strength)

    def scores(self, X: Tensor, models: slice = ALL) -> Tensor:
        """Ask each copy in evaluation mode."""
        return torch.stack([scores_of(m, X) for m in self._modules[models]])

    def weights(self, k: int) -> dict[str, Any]:
        """Return the state dict of a copy."""
        return self._modules[k].state_dict()

    def state_dict(self) -> dict[str, Any]:
        """Return the copies, where they started, and the origins."""
        modules = [m.state_dict() for m in self._modules]
        return {"modules": modules, "start": self._start, "origins": self.origins}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a state again."""
        for module, saved in zip(self._modules, state["modules"], strict=True):
            module.load_state_dict(saved)
        for start, saved in zip(self._start, state["start"], strict=True):
            for p, value in zip(start, saved, strict=True):
                p.copy_(value)
        self.origins.copy_(state["origins"])


def _whole_precision(dtype: torch.dtype) -> torch.dtype:
    """Return float32 for half precisions: thresholds differ by less than these can tell."""
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype
