"""Values of a model as JSON and back, the same to the last bit and of the same type.

What JSON can express is written as it is: Python writes floats so that reading gives the same
number. Anything else becomes an object whose ``"$"`` names its type: non-finite floats, tuples,
sets, numpy scalars and one-dimensional arrays.
"""

from __future__ import annotations

import inspect
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from setpoint.data.labels import Labels
from setpoint.errors import GoalError, ModelFileError
from setpoint.goals.bands import BandGoal
from setpoint.goals.goal import Goal
from setpoint.saving.document import NotPlainError
from setpoint.thresholds.operating_point import OperatingPoint, caution_fields, with_caution
from setpoint.training.candidates import Candidate, Candidates
from setpoint.training.history import History

Json = dict[str, Any]
_TAG = "$"
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
# Booleans, integers, floats of at most 8 bytes, strings, objects.
_DTYPE = re.compile(r"\|b1|[<>|][iu][1248]|[<>]f[248]|[<>]U\d{1,6}|\|O")
_VARIABLE_TEXT = "StringDType"
_POINT = ("threshold", "tp", "fp", "fn", "tn", "on")
_CUSTOM = "If it uses a custom metric, call setpoint.define_metric for it before loading."
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # in memory, different in every process
_MAX_REPR, _MAX_VALUE = 200, 1_000  # characters


def encode(value: Any) -> Any:
    """Return a value that ``json`` can write; raises NotPlainError if there is none.

    Examples
    --------
    >>> encode({"a": [1, 0.1, float("inf")], "b": None})
    {'a': [1, 0.1, {'$': 'float', 'value': 'inf'}], 'b': None}
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {_TAG: "float", "value": repr(value)}
    if type(value) is list:
        return [encode(item) for item in value]
    if type(value) is tuple:
        return {_TAG: "tuple", "items": [encode(item) for item in value]}
    if type(value) in (set, frozenset):
        kind = type(value).__name__
        return {_TAG: kind, "items": [encode(item) for item in sorted(value, key=repr)]}
    if type(value) is dict:
        if all(type(key) is str for key in value) and _TAG not in value:
            return {key: encode(item) for key, item in value.items()}
        pairs = [[encode(key), encode(item)] for key, item in value.items()]
        return {_TAG: "dict", "items": pairs}
    if isinstance(value, np.generic):
        return {_TAG: "scalar", "dtype": _name(value.dtype), "value": encode(value.item())}
    if type(value) is np.ndarray and value.ndim == 1:
        items = value if value.dtype.kind == "O" else value.tolist()
        encoded = [encode(item) for item in items]
        return {_TAG: "array", "dtype": _name(value.dtype), "items": encoded}
    raise NotPlainError(f"{type(value).__module__}.{type(value).__qualname__}")


def decode(value: Any) -> Any:
    """Return the value that ``encode`` was given."""
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(_TAG)
    if kind is None:
        return {key: decode(item) for key, item in value.items()}
    if kind == "float":
        return _NOT_FINITE[value["value"]]
    if kind == "tuple":
        return tuple(decode(item) for item in value["items"])
    if kind in ("set", "frozenset"):
        items = [decode(item) for item in value["items"]]
        return set(items) if kind == "set" else frozenset(items)
    if kind == "dict":
        return {decode(key): decode(item) for key, item in value["items"]}
    if kind == "scalar":
        return np.array([decode(value["value"])], dtype=_dtype(value["dtype"]))[0]
    if kind == "array":
        array = np.empty(len(value["items"]), dtype=_dtype(value["dtype"]))
        for index, item in enumerate(value["items"]):  # one by one: an item may be a list itself
            array[index] = decode(item)
        return array
    raise ModelFileError(f"the model file contains a value of unknown kind {kind!r}.")


def _name(dtype: np.dtype[Any]) -> str:
    if dtype.kind == "T" and not hasattr(dtype, "na_object"):
        return _VARIABLE_TEXT
    if not _DTYPE.fullmatch(dtype.str):
        raise NotPlainError(f"numpy's {dtype}")
    return dtype.str


def _dtype(name: str) -> np.dtype[Any]:
    if name == _VARIABLE_TEXT:
        return np.dtypes.StringDType()
    if not _DTYPE.fullmatch(name):
        raise ModelFileError(f"the model file contains an array of unknown type {name!r}.")
    return np.dtype(name)


def goal_to_json(goal: Goal) -> Any:
    """Return the text that parses to the same goal.

    For one that is bound to the segments and periods of some rows, these are added.
    """
    if goal.stated is None:
        return str(goal)
    return {"goal": str(goal), "found": {name: list(values) for name, values in goal.found}}


def goal_from_json(text: Any) -> Goal:
    """Parse a goal; its custom metrics must be defined."""
    if isinstance(text, dict):
        found = {str(name): tuple(map(str, values)) for name, values in text["found"].items()}
        return goal_from_json(text["goal"]).bind(found)
    try:
        return Goal.parse(text)
    except GoalError as error:
        raise ModelFileError(
            f"the goal {text!r} of the model cannot be read: {error} {_CUSTOM}"
        ) from error


def segments_from_json(content: Json) -> dict[str, tuple[str, ...]]:
    """Return the segments of each column; none in files of earlier versions."""
    found = decode(content.get("segments", {}))
    for name, values in found.items():
        if not isinstance(values, tuple) or not all(isinstance(value, str) for value in values):
            raise ModelFileError(f"the segments of {name!r} are {values!r}.")
    return dict(found)


def point_to_json(point: OperatingPoint) -> Json:
    """Return an operating point as JSON.

    Objective and violation follow from the counts; they are saved to detect a custom metric that is
    defined differently when the model is loaded.
    """
    names = (*_POINT, "objective", "violation")
    tallied = {"tallied": [list(counts) for counts in point.tallied]} if point.tallied else {}
    fields = {name: encode(getattr(point, name)) for name in names}
    return {"goal": goal_to_json(point.goal), **fields, **tallied}


def point_from_json(values: Json) -> OperatingPoint:
    """Return the operating point that ``point_to_json`` described."""
    fields = {name: decode(values[name]) for name in _POINT}
    further = values.get("tallied", ())
    tallied = tuple((float(tp), float(fp), float(P), float(N)) for tp, fp, P, N in further)
    point = OperatingPoint(**fields, goal=goal_from_json(values["goal"]), tallied=tallied)
    for name in ("objective", "violation"):
        then, now = decode(values[name]), getattr(point, name)
        if not _same(then, now):
            raise ModelFileError(
                f"the {name} of the goal '{point.goal}' was {then} when the model was saved and is "
                f"{now} now, for the same counts: a metric is defined differently. {_CUSTOM}"
            )
    return point


def _same(then: float, now: float) -> bool:
    if math.isnan(then) or math.isnan(now):
        return math.isnan(then) and math.isnan(now)
    return math.isclose(then, now, rel_tol=1e-9, abs_tol=1e-12)


def history_to_json(history: History) -> Json:
    """Return a history as JSON."""
    values: Json = encode(history.to_dict())
    return values


def history_from_json(values: Json) -> History:
    """Return the history that ``history_to_json`` described."""
    return History.from_dict(decode(values))


def candidates_to_json(candidates: Candidates) -> Json:
    """Return the candidates as JSON."""
    found = [
        {
            "name": c.name,
            "point": point_to_json(c.point),
            "caution": encode(caution_fields(c.point)),
            "iteration": encode(c.iteration),
            "start": c.start,
            "average": encode(c.average),
        }
        for c in candidates
    ]
    return {"candidates": found, "margin": encode(candidates.margin)}


def candidates_from_json(values: Json) -> Candidates:
    """Return the candidates that ``candidates_to_json`` described."""
    found = [
        Candidate(
            c["name"],
            with_caution(point_from_json(c["point"]), decode(c.get("caution"))),
            decode(c["iteration"]),
            c["start"],
            decode(c.get("average")),
        )
        for c in values["candidates"]
    ]
    return Candidates(found, margin=decode(values["margin"]))


def cutoff_from_json(value: Any) -> float:
    """Return a threshold, which is infinite if no row or every row is an alarm."""
    found = decode(value)
    if not isinstance(found, float | np.floating) or math.isnan(found):
        raise ModelFileError(f"the model's threshold is {found!r}, which is not a number.")
    return found  # type: ignore[return-value]


def labels_to_json(labels: Labels) -> Json:
    """Return the two labels, with their types, and which one is positive."""
    values = {"classes": encode(labels.classes), "positive_index": labels.positive_index}
    if labels.positive_labels:
        values["positive_labels"] = encode(list(labels.positive_labels))
    return values


def labels_from_json(values: Json) -> Labels:
    """Return the labels that ``labels_to_json`` described."""
    several = tuple(decode(values.get("positive_labels", [])))
    labels = Labels(decode(values["classes"]), values["positive_index"], positive_labels=several)
    if np.shape(labels.classes) != (2,) or labels.positive_index not in (0, 1):
        raise ModelFileError("the model file does not contain two classes.")
    return labels


def parameters_to_json(estimator: Any, without: set[str]) -> Json:
    """Return the plain parameters, and a description of the others, which are not saved."""
    kept: Json = {}
    not_kept: dict[str, str] = {}
    for name, value in estimator.get_params(deep=False).items():
        if name in without:
            continue
        try:
            plain = encode(str(value) if isinstance(value, Goal | BandGoal | Path) else value)
        except NotPlainError:
            plain = None
        # Long values, such as lists of rows, belong to the data, not to the model.
        if value is not None and (plain is None or len(json.dumps(plain)) > _MAX_VALUE):
            not_kept[name] = _described(value)
        else:
            kept[name] = plain
    return {"kept": kept, "not_kept": not_kept}


def parameters_from_json(values: Json, kind: type[Any]) -> tuple[Json, list[str]]:
    """Return the parameters that were saved, and a note on each that was not."""
    known = inspect.signature(kind).parameters
    kept = {name: decode(value) for name, value in values["kept"].items() if name in known}
    notes = [
        f"{name}={text} was not saved; fit() would use the default, {known[name].default!r}."
        for name, text in values["not_kept"].items()
        if name in known
    ]
    return kept, notes


def notes_of(*estimators: Any) -> list[str]:
    """Return the notes on parameters of loaded estimators that were not saved, each once."""
    found = [note for each in estimators for note in getattr(each, "load_notes_", ())]
    return list(dict.fromkeys(found))


def _described(value: Any) -> str:
    if inspect.isroutine(value):  # its repr contains an address in memory
        name = str(value.__name__)
        return "a function" if name == "<lambda>" else f"the function {name}"
    try:
        text = repr(value)
    except Exception:  # a user-defined __repr__
        text = object.__repr__(value)
    text = " ".join(_ADDRESS.sub("", text).split())
    return text if len(text) <= _MAX_REPR else text[:_MAX_REPR] + "..."
