"""Torch modules as ONNX nodes."""

from __future__ import annotations

import copy
import io
import warnings
from typing import Any

import numpy as np
import torch
from torch import nn

from setpoint.estimators import SetpointClassifier
from setpoint.onnx_export.errors import OnnxError
from setpoint.onnx_export.graph import OPSET, Graph

_ACTIVATIONS = {nn.ReLU: "Relu", nn.Tanh: "Tanh", nn.Sigmoid: "Sigmoid"}
_WITHOUT_EFFECT = (nn.Dropout, nn.Identity)  # when a model is used


def classifier_scores(graph: Graph, clf: SetpointClassifier, X: str) -> str:
    """Add a classifier's standardiser, module and threshold; return the name of its scores."""
    dtype = clf._dtype
    if clf.standardizer_ is not None:
        wide = graph.cast(X, np.float64)
        centred = graph.add("Sub", wide, graph.constant(clf.standardizer_.centre))
        X = graph.add("Div", centred, graph.constant(clf.standardizer_.scale))
    X = graph.cast(X, dtype)
    logits = _layers(graph, clf.module_, X) if _is_known(clf.module_) else None
    if logits is None:
        logits = graph.include(_exported(clf.module_, clf.n_features_in_), X)
    logits = graph.add("Reshape", logits, graph.constant(np.array([-1])))
    return graph.add("Sub", logits, graph.constant(dtype.type(clf.logit_threshold_)))


def _is_known(module: nn.Module) -> bool:
    """Whether a module is made of nothing but layers that are known here."""
    if module._forward_hooks or module._forward_pre_hooks:
        return False
    if type(module) is nn.Sequential:
        return all(_is_known(layer) for layer in module)
    return type(module) in (nn.Linear, *_ACTIVATIONS, *_WITHOUT_EFFECT)


def _layers(graph: Graph, module: nn.Module, X: str) -> str:
    if isinstance(module, nn.Sequential):
        for layer in module:
            X = _layers(graph, layer, X)
        return X
    if isinstance(module, nn.Linear):
        weight = graph.constant(module.weight.detach().numpy())
        bias = [] if module.bias is None else [graph.constant(module.bias.detach().numpy())]
        return graph.add("Gemm", X, weight, *bias, transB=1)
    if type(module) in _ACTIVATIONS:
        return graph.add(_ACTIVATIONS[type(module)], X)
    return X


def _exported(module: nn.Module, n_features: int) -> object:
    """Return the ONNX model that torch makes of a module of the user's own."""
    from onnx import load_model_from_string

    module = copy.deepcopy(module).eval()
    dtype = next(module.parameters()).dtype
    buffer: Any = io.BytesIO()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # this exporter is old, and needs no other package
            torch.onnx.export(
                module,
                (torch.zeros((3, n_features), dtype=dtype),),
                buffer,
                input_names=["X"],
                output_names=["logits"],
                dynamic_axes={"X": {0: "n"}},
                opset_version=OPSET,
                dynamo=False,
            )
    except Exception as error:  # whatever a module may hold that the exporter does not know
        raise OnnxError(
            f"torch cannot export the module {type(module).__name__} to ONNX: {error}"
        ) from error
    return load_model_from_string(buffer.getvalue())
