"""Several copies of a module computed at once: their parameters stacked, their layers batched.

``torch.func`` turns each operation of the module into one operation for all copies. This saves time
where starting an operation takes longer than the operation itself, as with few rows. With many rows
the matrix products take the time. There copies in turn are faster, in blocks of rows whose
activations stay in the cache.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from setpoint.training.models import logits_of

# In multiplications of one copy, about; see "A step on a CPU" in docs/performance.md.
_MOST_ON_CPU, _MOST_ON_GPU = 2**21, 2**27  # beyond them, copies in turn are faster
_BLOCK, _BLOCK_ROWS = 2**26, 1024  # of a block of rows, and the least of its rows
_TOLERANCE = 0.05  # of the largest number; bfloat16 has little more than two digits

Tensors = Mapping[str, Tensor]


def pays(parameters: Tensors, X: Tensor) -> bool:
    """Return whether copies are faster at once than in turn on such rows."""
    most = _MOST_ON_GPU if X.is_cuda else _MOST_ON_CPU
    return X.numel() + len(X) * _size(parameters) <= most


def _size(parameters: Tensors) -> int:
    """Return the number of parameters of one copy."""
    return sum(p[0].numel() for p in parameters.values())


def logits_at_once(module: nn.Module, parameters: Tensors, buffers: Tensors, X: Tensor) -> Tensor:
    """Return the logits of all copies, shape (k, n), from their stacked parameters and buffers."""

    def one(parameters: dict[str, Tensor], buffers: dict[str, Tensor]) -> Tensor:
        return logits_of(_with(module, parameters | buffers), X)

    found: Tensor = vmap(one)(dict(parameters), dict(buffers))
    return found


def logits_in_turn(
    modules: Sequence[nn.Module], parameters: Tensors, X: Tensor
) -> Iterator[Tensor]:
    """Yield the logits of each copy, as functions of the stacked parameters."""
    size = len(X) if X.is_cuda else max(_BLOCK_ROWS, _BLOCK // _size(parameters))
    blocks = torch.split(X, size)
    each = zip(*(p.unbind() for p in parameters.values()), strict=True)
    for module, own in zip(modules, each, strict=True):
        call = _with(module, dict(zip(parameters, own, strict=True)))
        yield torch.cat([logits_of(call, block) for block in blocks])


def _with(module: nn.Module, tensors: dict[str, Tensor]) -> Callable[[Tensor], Any]:
    """Return the module with other parameters and buffers."""
    return lambda X: functional_call(module, tensors, (X,))


def works(module: nn.Module, rows: Tensor) -> bool:
    """Return whether copies of the module give the same at once as in turn, tried on these rows.

    Modules that draw random numbers, change themselves when called, or have hooks are refused even
    if torch could compute them at once: Dropout, and BatchNorm in training mode, for example. So
    are those in which rows influence one another.
    """
    if any(_hooks(part) for part in module.modules()):
        return False
    try:
        with torch.random.fork_rng([]), warnings.catch_warnings(), torch.enable_grad():
            # torch warns where it has no batched operation and would loop over the copies.
            warnings.simplefilter("error")
            return _same_in_turn(module, rows)
    except Exception:  # a module can raise anything
        return False


def _same_in_turn(module: nn.Module, rows: Tensor) -> bool:
    pair = [copy.deepcopy(module).train() for _ in range(2)]
    with torch.no_grad():
        for p in pair[1].parameters():
            p.mul_(0.9)  # two different copies
    parameters, buffers = stack_module_state(pair)
    before = _state(pair)
    in_turn, again = (torch.stack([logits_of(m, rows) for m in pair]) for _ in range(2))
    alone = torch.stack([torch.cat([logits_of(m, x[None]) for x in rows]) for m in pair])
    at_once = logits_at_once(pair[0], parameters, buffers, rows)
    slopes = torch.linspace(-1, 1, at_once.numel()).to(at_once).view_as(at_once)
    torch.autograd.backward([in_turn, at_once], [slopes, slopes])
    each = zip(*(m.parameters() for m in pair), strict=True)
    return (
        torch.equal(in_turn, again)
        and _same_state(before, _state(pair))
        and _close(alone, in_turn)
        and _close(at_once, in_turn)
        and all(
            _close(stacked.grad, torch.stack([p.grad for p in apart]))
            for stacked, apart in zip(parameters.values(), each, strict=True)
            if any(p.grad is not None for p in (stacked, *apart))
        )
    )


def _hooks(part: nn.Module) -> bool:
    """Return whether anything is called besides the module, or when a gradient is there."""
    of_tensors = [
        hooks
        for p in part.parameters(recurse=False)
        for hooks in (p._backward_hooks, getattr(p, "_post_accumulate_grad_hooks", None))
    ]
    return any(
        (
            part._forward_hooks,
            part._forward_pre_hooks,
            part._backward_hooks,
            part._backward_pre_hooks,
            *of_tensors,
        )
    )


State = tuple[list[Tensor], list[Any]]


def _state(modules: Sequence[nn.Module]) -> State:
    """Return the buffers, and the numbers, strings and parameters that the modules hold.

    torch forgets the parameters of a submodule that has two names.
    """
    parts = [part for module in modules for part in module.modules()]
    plain = [{n: v for n, v in vars(p).items() if isinstance(v, float | int | str)} for p in parts]
    identities = [id(p) for part in parts for p in part.parameters()]
    return [b.clone() for module in modules for b in module.buffers()], [plain, identities]


def _same_state(a: State, b: State) -> bool:
    return a[1] == b[1] and all(map(torch.equal, a[0], b[0]))


def _close(a: Tensor, b: Tensor) -> bool:
    return bool((a - b).abs().max() <= _TOLERANCE * b.abs().max())


# --- the state of Adam ----------------------------------------------------------------------------


def split_moments(state: dict[str, Any], k: int) -> dict[str, Any]:
    """Return the state of an optimizer of stacked parameters as one with each copy's parameters.

    The last parameter, the origins, is not stacked. Files have this form, whether copies train at
    once or in turn.
    """
    own = len(state["param_groups"][0]["params"]) - 1
    moments = {}
    for i, m in state["state"].items():
        if i == own:
            moments[k * own] = m
            continue
        for c in range(k):
            moments[c * own + i] = {n: (v if n == "step" else v[c]).clone() for n, v in m.items()}
    return _with_moments(state, moments, k * own + 1)


def stack_moments(state: dict[str, Any], k: int) -> dict[str, Any]:
    """Undo :func:`split_moments`."""
    own = (len(state["param_groups"][0]["params"]) - 1) // k
    moments = {}
    for i, m in state["state"].items():
        if i < own:
            each = [state["state"][c * own + i] for c in range(k)]
            stacked = {n: torch.stack([one[n] for one in each]) for n in m if n != "step"}
            moments[i] = {"step": m["step"], **stacked}
        elif i == k * own:
            moments[own] = m
    return _with_moments(state, moments, own + 1)


def _with_moments(state: dict[str, Any], moments: dict[Any, Any], count: int) -> dict[str, Any]:
    (group,) = state["param_groups"]
    return {"state": moments, "param_groups": [{**group, "params": list(range(count))}]}
