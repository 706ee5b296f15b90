"""Fitted estimators as JSON and files, and back; a SetpointClassifier with its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from setpoint._internal.imports import need
from setpoint.data.standardize import Standardizer
from setpoint.errors import ModelFileError, SetpointError
from setpoint.estimators.band import SetpointBand
from setpoint.estimators.classifier import SetpointClassifier
from setpoint.estimators.multilabel import SetpointMultilabel
from setpoint.estimators.multilabel_saving import multilabel_from_json, multilabel_to_json
from setpoint.estimators.stack_saving import KIND as STACKED
from setpoint.estimators.stack_saving import stack_from_json, stack_to_json
from setpoint.estimators.stacking import StackedModels
from setpoint.estimators.threshold import SetpointThreshold
from setpoint.estimators.wrapped_saving import wrapped_from_json, wrapped_to_json
from setpoint.saving.booster_files import KIND as BOOSTER
from setpoint.saving.booster_files import describe_booster, restore_booster
from setpoint.saving.certificate import certificate_from_json, certificate_to_json
from setpoint.saving.document import Described
from setpoint.saving.values import (
    Json,
    candidates_from_json,
    candidates_to_json,
    cutoff_from_json,
    decode,
    encode,
    goal_from_json,
    goal_to_json,
    history_from_json,
    history_to_json,
    labels_from_json,
    labels_to_json,
    parameters_from_json,
    parameters_to_json,
    point_from_json,
    point_to_json,
    segments_from_json,
)
from setpoint.training.models import build, scores_of

WEIGHTS = "weights.safetensors"
_NAMED = ("linear", "mlp")
_PROBES = 4  # rows
_STANDARDIZER = ("standardizer.centre", "standardizer.scale")
_KNOWN = (*_STANDARDIZER, "probe.rows", "probe.logits")
_WRAPPERS: dict[str, type[SetpointThreshold] | type[SetpointBand]] = {
    "SetpointThreshold": SetpointThreshold,
    "SetpointBand": SetpointBand,
}


def describe(model: Any) -> Described:
    """Return the JSON of a fitted estimator of this package, and the content of its files."""
    described = _describe(model)
    if described is None or described[0]["kind"] in (STACKED, BOOSTER):
        raise ModelFileError(
            f"{type(model).__name__} cannot be saved by setpoint, only SetpointClassifier, "
            "SetpointThreshold, SetpointBand and SetpointMultilabel, and no subclasses of them."
        )
    return described


def _describe(model: Any) -> Described | None:
    """Return the same, or None for an estimator of another package."""
    if type(model) is SetpointClassifier:
        check_is_fitted(model, "module_")
        return classifier_to_json(model)
    if type(model) in _WRAPPERS.values():
        check_is_fitted(model, "estimator_")
        return wrapped_to_json(model, _describe)
    if type(model) is SetpointMultilabel:
        check_is_fitted(model, "thresholds_")
        return multilabel_to_json(model, _describe)
    if type(model) is StackedModels:
        return stack_to_json(model, _describe)
    return describe_booster(model)


def restore(content: Json, parts: dict[str, bytes], module: Any) -> Any:
    """Return the estimator that :func:`describe` described."""

    def restore_inner(inner: Json, own: dict[str, bytes]) -> Any:
        return restore(inner, own, module)

    kind = content["kind"]
    if kind == "SetpointClassifier":
        return classifier_from_json(content, parts, module)
    if kind in _WRAPPERS:
        return wrapped_from_json(_WRAPPERS[kind], content, parts, restore_inner)
    if kind == "SetpointMultilabel":
        return multilabel_from_json(content, parts, restore_inner)
    if kind == STACKED:
        return stack_from_json(content, parts, restore_inner)
    if kind == BOOSTER:
        return restore_booster(content, parts)
    raise ModelFileError(f"the model is a {kind!r}, which this version of setpoint does not know.")


def classifier_to_json(clf: SetpointClassifier) -> tuple[Json, dict[str, bytes]]:
    """Return the JSON of a fitted classifier, and its weights."""
    module: nn.Module = clf.module_
    n_features = int(clf.n_features_in_)
    named = _name_of(clf, n_features)
    state = module.state_dict()
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise ModelFileError(
                f"the module's state {name!r} is not a tensor and cannot be saved."
            )
    tensors = {f"module.{name}": value for name, value in state.items()}
    if clf.standardizer_ is not None:
        for name in ("centre", "scale"):
            tensors[f"standardizer.{name}"] = torch.from_numpy(getattr(clf.standardizer_, name))
    if named is None:
        probes = np.random.default_rng(0).standard_normal((_PROBES, n_features))
        rows = torch.from_numpy(probes.astype(clf._dtype))
        tensors |= {"probe.rows": rows, "probe.logits": scores_of(module, rows)}
    content: Json = {
        "kind": "SetpointClassifier",
        "parameters": parameters_to_json(clf, without={"model"}),
        "module": {"name": named, "text": str(module)},
        "labels": labels_to_json(clf._labels),
        "goal": goal_to_json(clf.goal_),
        "operating_point": point_to_json(clf.operating_point_),
        "certificate": certificate_to_json(clf.certificate_),
        "history": history_to_json(clf.history_),
        "candidates": candidates_to_json(clf.candidates_),
        "segments": encode(clf.segments_),
        "logit_threshold": encode(clf.logit_threshold_),
        "dtype": clf._dtype.name,
        "standardized": clf.standardizer_ is not None,
        "n_features_in": n_features,
        "feature_names_in": encode(getattr(clf, "feature_names_in_", None)),
    }
    return content, {WEIGHTS: tensors_to_bytes(tensors)}


def classifier_from_json(content: Json, parts: dict[str, bytes], module: Any) -> SetpointClassifier:
    """Return the classifier; a custom module, or a factory of one, must be given."""
    named = content["module"]["name"]
    if named is None and module is None:
        raise ModelFileError(
            "the model holds the weights of a custom torch module, but not its code: pass the "
            "module, or the factory that made it, to load(path, module=...). When saved it was\n"
            f"{content['module']['text']}"
        )
    if named is not None and module is not None:
        raise ModelFileError(f"the model is {named!r}, which needs no module= to be loaded.")
    if named not in (None, *_NAMED):
        raise ModelFileError(f"the model file names the unknown model {named!r}.")
    if content["dtype"] not in ("float32", "float64"):
        raise ModelFileError(f"the model file names the unknown precision {content['dtype']!r}.")
    model = named or module
    parameters, notes = parameters_from_json(content["parameters"], SetpointClassifier)
    if "caution" not in {*content["parameters"]["kept"], *content["parameters"]["not_kept"]}:
        parameters["caution"] = 0.0  # as in the version that wrote it
    clf = SetpointClassifier(**parameters, model=model)
    clf.goal_ = goal_from_json(content["goal"])
    clf.segments_ = segments_from_json(content)
    clf.operating_point_ = point_from_json(content["operating_point"])
    clf.certificate_ = certificate_from_json(content["certificate"], clf.goal_)
    clf.history_ = history_from_json(content["history"])
    clf.candidates_ = candidates_from_json(content["candidates"])
    clf.logit_threshold_ = cutoff_from_json(content["logit_threshold"])
    clf.n_features_in_ = content["n_features_in"]
    names = decode(content["feature_names_in"])
    if names is not None:
        clf.feature_names_in_ = names
    clf._set_labels(labels_from_json(content["labels"]))
    clf._dtype = np.dtype(content["dtype"])
    tensors = tensors_from_bytes(parts[WEIGHTS])
    unknown = [n for n in tensors if n not in _KNOWN and not n.startswith("module.")]
    if unknown:
        raise ModelFileError(f"the weights hold {unknown[0]!r}, which setpoint does not know.")
    standardized = bool(content.get("standardized", parameters.get("standardize")))  # if older
    clf.standardizer_ = _standardizer(tensors, clf._dtype, clf.n_features_in_, standardized)
    clf.module_ = _filled(model, tensors, clf._dtype, clf.n_features_in_)
    clf.load_notes_ = notes
    return clf


def _name_of(clf: SetpointClassifier, n_features: int) -> str | None:
    """Return the name by which the module can be built again; None for a custom one."""
    if not isinstance(clf.model, str) or clf.model not in _NAMED:
        return None
    return clf.model if str(_built(clf.model, n_features)) == str(clf.module_) else None


def _built(model: Any, n_features: int) -> nn.Module:
    """Return a fresh module and leave torch's generator as it was."""
    with torch.random.fork_rng(devices=[]):
        return build(model, n_features)


def _standardizer(
    tensors: dict[str, Tensor], dtype: np.dtype[Any], n_features: int, standardized: bool
) -> Standardizer | None:
    found = [tensors[name] for name in _STANDARDIZER if name in tensors]
    if len(found) != (len(_STANDARDIZER) if standardized else 0):
        raise ModelFileError(
            f"the model was {'' if standardized else 'not '}fitted on standardized features, and "
            f"its file holds {len(found)} of 2 arrays, the means and the deviations."
        )
    if not found:
        return None
    centre, scale = (tensor.clone().numpy() for tensor in found)
    if not centre.shape == scale.shape == (n_features,):
        raise ModelFileError("the means and deviations do not fit the number of features.")
    if not np.isfinite(centre).all() or not (scale > 0).all():  # infinite for constant features
        raise ModelFileError("some means or deviations of features are not numbers.")
    return Standardizer(centre, scale, dtype)


def _filled(
    model: Any, tensors: dict[str, Tensor], dtype: np.dtype[Any], n_features: int
) -> nn.Module:
    """Return the module with its weights; raise ModelFileError if they do not fit."""
    prefix = "module."
    weights = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
    try:
        module = _built(model, n_features).to(getattr(torch, dtype.name))
        module.load_state_dict(weights)
    except (RuntimeError, SetpointError) as error:
        raise ModelFileError(f"the weights do not fit the module: {error}") from error
    for name, value in module.state_dict().items():
        if value.dtype != weights[name].dtype or value.shape != weights[name].shape:
            raise ModelFileError(
                f"the weights do not fit the module: {name} is {weights[name].dtype} in the file "
                f"and {value.dtype} in the module."
            )
    for name, parameter in module.named_parameters():  # a buffer, such as a mask, may be infinite
        if not torch.isfinite(parameter).all():
            raise ModelFileError(f"some weights are not finite numbers, the first in {name}.")
    if "probe.rows" in tensors:
        _check_probes(module, tensors["probe.rows"].clone(), tensors["probe.logits"])
    return module


def _check_probes(module: nn.Module, rows: Tensor, logits: Tensor) -> None:
    """Raise ModelFileError if the weights fit the module, but its scores differ."""
    try:
        now = scores_of(module, rows)
    except Exception as error:  # whatever a module may raise
        raise ModelFileError(f"the module cannot score rows of the model: {error}") from error
    if not torch.allclose(now, logits, rtol=1e-4, atol=1e-5, equal_nan=True):
        raise ModelFileError(
            "the weights fit the module, but its scores differ from those of the saved model: it "
            "is another module, or its scores are random."
        )


def tensors_to_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Return tensors in the safetensors format, which holds numbers and nothing else."""
    library = need("safetensors.torch", "files", "A saved model")
    # Copies, since safetensors takes no two tensors that share memory.
    apart = {name: t.detach().cpu().contiguous().clone() for name, t in tensors.items()}
    try:
        return bytes(library.save(apart))
    except Exception as error:  # e.g. quantised or sparse tensors
        raise ModelFileError(f"the weights cannot be saved: {error}") from error


def tensors_from_bytes(data: bytes) -> dict[str, Tensor]:
    """Return the tensors by name."""
    library = need("safetensors.torch", "files", "A saved model")
    try:
        return dict(library.load(data))
    except Exception as error:  # damaged files raise many kinds
        raise ModelFileError(f"the weights cannot be read: {error}") from error
