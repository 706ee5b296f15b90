"""A stack and the models that a search compared as JSON and files, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from setpoint.errors import ModelFileError
from setpoint.estimators.model_search import ModelSearch
from setpoint.estimators.stacking import Columns, Member, StackedModels
from setpoint.saving.document import Described
from setpoint.saving.skops_files import estimator_from_bytes, estimator_to_bytes
from setpoint.saving.values import (
    Json,
    decode,
    encode,
    notes_of,
    parameters_from_json,
    parameters_to_json,
    point_from_json,
    point_to_json,
)
from setpoint.training.model_candidates import ModelCandidate, ModelCandidates

KIND = "StackedModels"
_ESTIMATOR = "estimator.skops"
_NUMBERS = (  # fields of a candidate
    "average", "behind", "error", "log_loss", "log_loss_behind", "log_loss_error", "seconds",
)  # fmt: skip


def stack_to_json(stack: StackedModels, describe: Callable[[Any], Described | None]) -> Described:
    """Return the JSON of a stack, and the files of its members."""
    members: list[Json] = []
    parts: dict[str, bytes] = {}
    for number, member in enumerate(stack.members):
        described = describe(member.classifier)
        if described is None:
            data = estimator_to_bytes(member.classifier, f"The classifier {member.name!r}")
            described = {}, {_ESTIMATOR: data}
        own, files = described
        members.append({
            "name": member.name,
            "columns": None if member.columns is None else list(member.columns),
            "from_probabilities": member.from_probabilities,
            "estimator": own or None,
            "files": list(files),
        })  # fmt: skip
        parts |= {f"member{number}{name}": data for name, data in files.items()}
    content: Json = {
        "kind": KIND,
        "members": members,
        "weights": encode(np.asarray(stack.weights)),
        "intercept": encode(float(stack.intercept)),
        "classes": encode(stack.classes_),
        "positive_index": int(stack.positive_index),
    }
    return content, parts


def stack_from_json(
    content: Json, parts: dict[str, bytes], restore: Callable[[Json, dict[str, bytes]], Any]
) -> StackedModels:
    """Return the stack; ``restore`` returns a classifier that was described."""
    members = []
    for number, one in enumerate(content["members"]):
        own = {name: parts[f"member{number}{name}"] for name in one["files"]}
        inner = one["estimator"]
        classifier = estimator_from_bytes(own[_ESTIMATOR]) if inner is None else restore(inner, own)
        columns = one["columns"]
        if columns is not None:
            first, last, *in_64_bits = columns  # the latter not in older files
            if type(first) is not int or type(last) is not int or not 0 <= first < last:
                raise ModelFileError(f"a member of the stack has the columns {columns!r}.")
            columns = Columns(first, last, in_64_bits == [True])
        from_probabilities = one.get("from_probabilities", False) is True  # not in older files
        members.append(Member(str(one["name"]), classifier, columns, from_probabilities))
    weights, intercept = decode(content["weights"]), decode(content["intercept"])
    classes, positive_index = decode(content["classes"]), content["positive_index"]
    if (
        not members
        or np.shape(weights) != (len(members),)
        or not np.all(np.isfinite(weights))
        or not np.isfinite(intercept)
        or np.shape(classes) != (2,)
        or positive_index not in (0, 1)
    ):
        raise ModelFileError("the weights or classes of the model's stack are damaged.")
    stack = StackedModels(members, weights, intercept, classes, positive_index)
    if notes := notes_of(*(member.classifier for member in members)):
        stack.load_notes_ = notes
    return stack


def search_to_json(search: Any, candidates: ModelCandidates | None) -> Json | None:
    """Return a search's parameters and what it compared; None for any other estimator."""
    if not isinstance(search, ModelSearch):
        return None
    return {
        "parameters": parameters_to_json(search, without={"callback", "columns"}),
        "candidates": [
            {
                "name": c.name,
                "point": None if c.point is None else point_to_json(c.point),
                **{name: encode(float(getattr(c, name))) for name in _NUMBERS},
                "behind_on_all": encode(float(c.behind_on_all)),
                "note": c.note,
            }
            for c in candidates or ()
        ],
    }


def search_from_json(
    content: Json | None, estimator: Any, prefit: bool
) -> tuple[Any, ModelCandidates | None, list[str]]:
    """Return the estimator to give, the candidates, and notes on parameters that were not saved.

    The estimator is a clone of the fitted one, or that itself if it was given fitted. If models
    were compared, it is a search with the same models or, if these were the user's own, with those
    of the fitted ``estimator``.
    """
    if content is None:
        return estimator if prefit else clone(estimator), None, []
    parameters, notes = parameters_from_json(content["parameters"], ModelSearch)
    if "models" not in parameters:
        stacked = isinstance(estimator, StackedModels)
        members = estimator.members if stacked else [Member("model", estimator)]
        parameters["models"] = {m.name: clone(m.classifier) for m in members}
    candidates = [
        ModelCandidate(
            str(c["name"]),
            None if c["point"] is None else point_from_json(c["point"]),
            **{name: float(decode(c[name])) for name in _NUMBERS},
            note=str(c["note"]),
            behind_on_all=float(decode(c.get("behind_on_all", encode(0.0)))),  # not in older files
        )
        for c in content["candidates"]
    ]
    if all(c.point is None for c in candidates):
        raise ModelFileError("none of the models that were compared was fitted.")
    return ModelSearch(**parameters), ModelCandidates(candidates), notes
