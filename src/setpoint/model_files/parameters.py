"""The parameters of an estimator: those that are plain values are kept."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

from setpoint.goals import Goal
from setpoint.model_files.plain import NotPlainError, decode, encode
from setpoint.model_files.values import Json

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # in memory, another one in every process
_LONGEST_REPR = 200
_LONGEST_VALUE = 1_000  # characters


def parameters_to_json(estimator: Any, without: set[str]) -> Json:
    """Return the plain parameters, and the texts of the others, which are not kept."""
    kept: Json = {}
    not_kept: dict[str, str] = {}
    for name, value in estimator.get_params(deep=False).items():
        if name in without:
            continue
        try:
            plain = encode(str(value) if isinstance(value, Goal | Path) else value)
        except NotPlainError:
            plain = None
        # Lists of rows are plain, too, but belong to the data and not to the model.
        if value is not None and (plain is None or len(json.dumps(plain)) > _LONGEST_VALUE):
            not_kept[name] = _described(value)
        else:
            kept[name] = plain
    return {"kept": kept, "not_kept": not_kept}


def parameters_from_json(values: Json, kind: type[Any]) -> tuple[Json, list[str]]:
    """Return the parameters that were kept, and a sentence for each that was not."""
    known = inspect.signature(kind).parameters
    kept = {name: decode(value) for name, value in values["kept"].items() if name in known}
    notes = [
        f"{name}={text} was not saved; fit() would use the default, {known[name].default!r}."
        for name, text in values["not_kept"].items()
        if name in known
    ]
    return kept, notes


def _described(value: Any) -> str:
    if inspect.isroutine(value):  # whose repr tells an address in memory
        name = str(value.__name__)
        return "a function" if name == "<lambda>" else f"the function {name}"
    try:
        text = repr(value)
    except Exception:  # a repr of a user's own
        text = object.__repr__(value)
    text = " ".join(_ADDRESS.sub("", text).split())
    return text if len(text) <= _LONGEST_REPR else text[:_LONGEST_REPR] + "..."
