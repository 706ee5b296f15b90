"""Which models there are, and who describes and restores each."""

from __future__ import annotations

from typing import Any

from sklearn.utils.validation import check_is_fitted

from setpoint.estimators import SetpointClassifier
from setpoint.model_files.classifier import classifier_from_json, classifier_to_json
from setpoint.model_files.errors import ModelFileError
from setpoint.model_files.plain import NotPlainError
from setpoint.model_files.table import table_from_json, table_to_json
from setpoint.model_files.threshold import Described, threshold_from_json, threshold_to_json
from setpoint.model_files.values import Json
from setpoint.threshold import SetpointThreshold


def describe(model: Any) -> Described:
    """Return what model.json says of a model, and the content of its files by name."""
    try:
        described = _describe(model)
    except NotPlainError as error:
        raise ModelFileError(
            f"the model cannot be saved: it holds a value of the type {error}, which is no number "
            "or text."
        ) from error
    if described is None:
        raise ModelFileError(
            f"{type(model).__name__} cannot be saved by setpoint; save takes a SetpointClassifier, "
            "a SetpointThreshold or a TableModel."
        )
    return described


def _describe(model: Any) -> Described | None:
    if type(model) is SetpointClassifier:
        check_is_fitted(model, "module_")
        return classifier_to_json(model)
    if type(model) is SetpointThreshold:
        check_is_fitted(model, "threshold_")
        return threshold_to_json(model, _describe)
    if type(model).__name__ == "TableModel":  # looked at first: its package is large
        from setpoint.tabular import TableModel

        if type(model) is TableModel:
            return table_to_json(model, describe)
    return None


def restore(content: Json, parts: dict[str, bytes], module: Any) -> Any:
    """Return the model that ``describe`` described."""
    kind = content["kind"]
    if kind == "SetpointClassifier":
        return classifier_from_json(content, parts, module)
    if kind == "SetpointThreshold":
        return threshold_from_json(content, parts, lambda inner: restore(inner, parts, module))
    if kind == "TableModel":
        return table_from_json(content, parts, lambda inner: restore(inner, parts, module))
    raise ModelFileError(f"the model is a {kind!r}, which this version of setpoint does not know.")
