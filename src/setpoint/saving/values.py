"""Goals, operating points, certificates, histories, candidates and labels as JSON and back."""

from __future__ import annotations

import inspect
import json
import math
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from setpoint.certificates.bounds import Bound
from setpoint.certificates.certificate import Certificate, ShiftedCertificate
from setpoint.data.labels import Labels
from setpoint.errors import GoalError, ModelFileError
from setpoint.goals.goal import Goal
from setpoint.goals.metrics import metric
from setpoint.saving.plain import NotPlainError, decode, encode
from setpoint.thresholds.operating_point import OperatingPoint
from setpoint.training.candidates import Candidate, Candidates
from setpoint.training.history import History

Json = dict[str, Any]
_POINT = ("threshold", "tp", "fp", "fn", "tn", "on")
_BOUND = ("level", "value", "bound", "kind", "successes", "trials", "p_value")
_OWN_METRIC = "If a metric of it is your own, call setpoint.define_metric for it before."


def goal_to_json(goal: Goal) -> str:
    """Return the sentence that gives the same goal."""
    return str(goal)


def goal_from_json(text: str) -> Goal:
    """Read a goal; its own metrics must be known."""
    try:
        return Goal.parse(text)
    except GoalError as error:
        raise ModelFileError(
            f"the goal {text!r} of the model cannot be read: {error} {_OWN_METRIC}"
        ) from error


def point_to_json(point: OperatingPoint) -> Json:
    """Return an operating point as JSON.

    Its objective and violation are kept beside the counts that they follow from: by them a metric
    of a user's own is known again.
    """
    follows = {"objective": encode(point.objective), "violation": encode(point.violation)}
    kept = {name: encode(getattr(point, name)) for name in _POINT}
    return {"goal": goal_to_json(point.goal), **kept, **follows}


def point_from_json(values: Json) -> OperatingPoint:
    """Return the operating point that ``point_to_json`` described."""
    kept = {name: decode(values[name]) for name in _POINT}
    point = OperatingPoint(**kept, goal=goal_from_json(values["goal"]))
    for name in ("objective", "violation"):
        then, now = decode(values[name]), getattr(point, name)
        if not _same(then, now):
            raise ModelFileError(
                f"the {name} of the goal '{point.goal}' was {then} when the model was saved and is "
                f"{now} now, of the same counts: a metric is defined in another way. {_OWN_METRIC}"
            )
    return point


def _same(then: float, now: float) -> bool:
    if math.isnan(then) or math.isnan(now):
        return math.isnan(then) and math.isnan(now)
    return math.isclose(then, now, rel_tol=1e-9, abs_tol=1e-12)


def certificate_to_json(certificate: Certificate) -> Json:
    """Return a certificate and its bounds as JSON."""
    apart = ("goal", "operating_point", "bounds")
    kept = [f.name for f in fields(certificate) if f.name not in apart]
    return {
        "goal": goal_to_json(certificate.goal),
        "operating_point": point_to_json(certificate.operating_point),
        "bounds": [
            {"metric": b.metric.name, **{name: encode(getattr(b, name)) for name in _BOUND}}
            for b in certificate.bounds
        ],
        **{name: encode(getattr(certificate, name)) for name in kept},
    }


def certificate_from_json(values: Json) -> Certificate:
    """Return the certificate that ``certificate_to_json`` described."""
    goal = goal_from_json(values["goal"])  # first, for it tells about unknown metrics
    apart: Json = {
        "goal": goal,
        "operating_point": point_from_json(values["operating_point"]),
        "bounds": tuple(
            Bound(metric(b["metric"]), **{name: decode(b[name]) for name in _BOUND})
            for b in values["bounds"]
        ),
    }
    kind = ShiftedCertificate if "prevalence" in values else Certificate
    kept = {name: decode(value) for name, value in values.items() if name not in apart}
    return kind(**apart, **kept)


def history_to_json(history: History) -> Json:
    """Return a history as JSON."""
    values: Json = encode(history.to_dict())
    return values


def history_from_json(values: Json) -> History:
    """Return the history that ``history_to_json`` described."""
    return History.from_dict(decode(values))


def candidates_to_json(candidates: Candidates) -> Json:
    """Return the candidates as JSON."""
    kept = [
        {
            "name": c.name,
            "point": point_to_json(c.point),
            "iteration": encode(c.iteration),
            "start": c.start,
        }
        for c in candidates
    ]
    return {"candidates": kept, "margin": encode(candidates.margin)}


def candidates_from_json(values: Json) -> Candidates:
    """Return the candidates that ``candidates_to_json`` described."""
    found = [
        Candidate(c["name"], point_from_json(c["point"]), decode(c["iteration"]), c["start"])
        for c in values["candidates"]
    ]
    return Candidates(found, margin=decode(values["margin"]))


def number_from_json(value: Any) -> float:
    """Return a threshold; it may be infinite, where nothing or everything is an alarm."""
    found = decode(value)
    if not isinstance(found, float | np.floating) or math.isnan(found):
        raise ModelFileError(f"the model's threshold is {found!r}, which is no number.")
    return found  # type: ignore[return-value]


def labels_to_json(labels: Labels) -> Json:
    """Return the two labels, with their types, and which is positive."""
    return {"classes": encode(labels.classes), "positive_index": labels.positive_index}


def labels_from_json(values: Json) -> Labels:
    """Return the labels that ``labels_to_json`` described."""
    labels = Labels(decode(values["classes"]), values["positive_index"])
    if np.shape(labels.classes) != (2,) or labels.positive_index not in (0, 1):
        raise ModelFileError("the model file does not name two classes.")
    return labels


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


# DOC of model_files.parameters: The parameters of an estimator: those that are plain values are kept.
