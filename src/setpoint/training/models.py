"""Models that return one logit per sample: a linear one, the paper's MLP, or any nn.Module."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn

from setpoint.errors import SetpointError

Model = Literal["linear", "mlp"] | nn.Module | Callable[[int], nn.Module]


def linear(n_features: int) -> nn.Module:
    """Return a linear model with a bias, which starts at zero."""
    model = nn.Linear(n_features, 1)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    return model


def mlp(n_features: int, width: int = 100) -> nn.Module:
    """Return the paper's three layers: two of ``width`` ReLU units and the logit."""
    return nn.Sequential(
        nn.Linear(n_features, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, 1),
    )


def build(model: Model, n_features: int) -> nn.Module:
    """Return a fresh module for a name, a factory ``f(n_features)`` or a module to be copied."""
    if isinstance(model, nn.Module):
        # The caller's module stays as it is, so that an estimator can be cloned and refitted.
        try:
            return copy.deepcopy(model)
        except Exception as error:
            raise SetpointError(
                f"the model cannot be copied ({error}); pass a factory, e.g. "
                "model=lambda n_features: MyModule(n_features)."
            ) from error
    if model == "linear":
        return linear(n_features)
    if model == "mlp":
        return mlp(n_features)
    if callable(model):
        try:
            built = model(n_features)
        except Exception as error:  # a factory can raise anything
            raise SetpointError(
                f"the model factory, given {n_features}, failed: {error}"
            ) from error
        if isinstance(built, nn.Module):
            return built
        raise SetpointError(
            f"the model factory returned {type(built).__name__}, not a torch.nn.Module."
        )
    raise SetpointError(
        f"model {model!r} is not 'linear', 'mlp', a torch.nn.Module or a factory of one."
    )


def check(module: nn.Module, X: Tensor) -> None:
    """Raise SetpointError unless the module trains on two rows; initialises lazy layers."""
    try:
        with torch.no_grad():
            scores_of(module, X[:2])
        module.eval()
        trainable = any(p.requires_grad for p in module.parameters())
        learns = trainable and logits_of(module, X[:2]).requires_grad
    except SetpointError:
        raise
    except Exception as error:  # a model can raise anything
        shape = tuple(X.shape[1:])
        rows = f"{shape[0]} features" if len(shape) == 1 else f"the shape {shape}"
        raise SetpointError(f"the model cannot take rows of {rows}: {error}") from error
    finally:
        module.train()
    if not learns:
        raise SetpointError("the model's logits do not depend on any trainable parameter.")


def is_linear(module: nn.Module) -> bool:
    """Return whether the module is a plain linear layer, all of it trainable.

    Such a model can be trained outside of the module, by its weights alone. Subclasses,
    parametrised or frozen layers and layers with hooks may compute something else.
    """
    return (
        type(module) is nn.Linear
        and set(module.state_dict()) <= {"weight", "bias"}
        and all(p.requires_grad for p in module.parameters())
        and not module._forward_hooks
        and not module._forward_pre_hooks
    )


def linear_state(module: nn.Module, coef: Any, intercept: Any) -> dict[str, Any]:
    """Return a regression as a state dict of the linear module.

    Without a bias in the module the intercept is dropped; the threshold replaces it.
    """
    own = module.state_dict()
    weights = {"weight": torch.as_tensor(coef).reshape(1, -1).to(own["weight"])}
    if "bias" in own:
        weights["bias"] = torch.as_tensor(intercept).to(own["bias"])
    return weights


def logits_of(module: Callable[[Tensor], Any], X: Tensor) -> Tensor:
    """Return the module's logits as a vector; raise SetpointError for any other shape."""
    out = module(X)
    if isinstance(out, Tensor) and out.ndim == 0 and len(X) == 1:
        out = out.reshape(1)  # a model that ends in squeeze(), given one row
    if not isinstance(out, Tensor) or out.shape not in ((len(X),), (len(X), 1)):
        got = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise SetpointError(
            f"the model must return one logit per row, shape ({len(X)},) or ({len(X)}, 1); "
            f"it returned {got}."
        )
    if out.dtype in (torch.bfloat16, torch.float16):  # thresholds need the precision
        out = out.float()
    return out.reshape(-1)


def logits_in(output: Any, rows: int) -> Tensor:
    """Return one logit per row of a model's output, in float32 at least.

    The output has the shape (rows,) or (rows, 1), or (rows, 2) of two classes, whose difference is
    the logit of class 1; or it holds such a tensor as ``logits``, as Hugging Face models do.
    """
    if not isinstance(output, Tensor):
        held = output.get("logits") if isinstance(output, Mapping) else None
        held = getattr(output, "logits", None) if held is None else held
        if not isinstance(held, Tensor):
            raise SetpointError(
                f"the model returned {_kind_of(output)}; it must return logits as a tensor, or an "
                "object that holds them as `logits`."
            )
        output = held
    if output.ndim == 0 and rows == 1:
        output = output.reshape(1)  # a model that ends in squeeze(), given one row
    if output.shape not in ((rows,), (rows, 1), (rows, 2)) or not output.is_floating_point():
        raise SetpointError(
            f"the model returned {output.dtype} of the shape {tuple(output.shape)} for {rows} "
            f"rows; it must return logits, floats of the shape ({rows},), ({rows}, 1) or "
            f"({rows}, 2): one for each row, or one for each of two classes."
        )
    if output.dtype in (torch.bfloat16, torch.float16):  # thresholds need the precision
        output = output.float()
    # (1, 2) of one row are two classes; (2,) of two rows, one logit each.
    logits: Tensor = output
    if logits.ndim == 2 and logits.shape[1] == 2:
        return logits[:, 1] - logits[:, 0]
    return logits.reshape(-1)


def _kind_of(value: Any) -> str:
    kind = type(value).__name__
    return f"a {kind} of {len(value)}" if isinstance(value, tuple | list) else f"a {kind}"


@torch.no_grad()
def scores_of(module: nn.Module, X: Tensor) -> Tensor:
    """Return the logits in evaluation mode, without gradients."""
    training = module.training
    module.eval()
    try:
        return logits_of(module, X)
    finally:
        module.train(training)
