"""Review bands and their certificates as JSON and back; inconsistent ones are rejected.

As for other certificates (:mod:`setpoint.saving.certificate`), whoever can write a file can make up
its numbers, but the result must be a valid band, and its certificate must support its claim.
"""

from __future__ import annotations

import math
from typing import Any

from setpoint.certificates.band_bounds import BandBound
from setpoint.certificates.band_certificate import BandCertificate
from setpoint.certificates.threshold_set import ThresholdSet
from setpoint.errors import GoalError, ModelFileError, SetpointError
from setpoint.goals.band_metrics import band_metric
from setpoint.goals.bands import BandGoal
from setpoint.saving.certificate import (
    _BOUND,
    _is_number,
    _is_real,
    _is_whole,
    _supports_claim,
)
from setpoint.saving.values import Json, decode, encode
from setpoint.thresholds.bands import BandPoint

_COUNTS = (
    "alarm_positives", "alarm_negatives", "review_positives", "review_negatives",
    "clear_positives", "clear_negatives",
)  # fmt: skip
_POINT = ("low", "high", *_COUNTS, "on", "costs")
_SETS = ("alarm_thresholds", "clear_thresholds")
_PLAIN = ("low", "high", "confidence", "certified", "chosen", "reason", "more_positives",
          "one_per_group", "pos_label")  # fmt: skip


def band_goal_from_json(text: Any) -> BandGoal:
    """Parse the goal of a model."""
    try:
        return BandGoal.parse(text)
    except GoalError as error:
        raise ModelFileError(f"the goal {text!r} of the model cannot be read: {error}") from error


def band_point_to_json(point: BandPoint) -> Json:
    """Return the thresholds and counts of a band as JSON."""
    return {"goal": str(point.goal), **{name: encode(getattr(point, name)) for name in _POINT}}


def band_point_from_json(values: Json) -> BandPoint:
    """Return the band that :func:`band_point_to_json` described."""
    fields = {name: decode(values[name]) for name in _POINT}
    for name in ("low", "high"):
        if not _is_number(fields[name]):
            raise ModelFileError(
                f"the model's threshold {name} is {fields[name]!r}, which is not a number."
            )
    if fields["low"] > fields["high"]:
        raise ModelFileError(
            f"the model's thresholds are not in order: low is {fields['low']}, and high is "
            f"{fields['high']}."
        )
    costs = fields["costs"]
    if not isinstance(costs, tuple) or len(costs) != 3 or not isinstance(fields["on"], str):
        raise ModelFileError("the model's review band cannot be read; the file is damaged.")
    for count in (*(fields[name] for name in _COUNTS), *costs):
        if not _is_number(count) or not 0 <= count < math.inf:
            raise ModelFileError(f"a count of the model's review band is {count!r}.")
    return BandPoint(**fields, goal=band_goal_from_json(values["goal"]))


def band_certificate_to_json(certificate: BandCertificate | None) -> Json | None:
    """Return a certificate and its bounds as JSON; None for a model without one."""
    if certificate is None:
        return None
    return {
        "goal": str(certificate.goal),
        "operating_point": band_point_to_json(certificate.operating_point),
        "bounds": [
            {"metric": str(b.metric), **{name: encode(getattr(b, name)) for name in _BOUND}}
            for b in certificate.bounds
        ],
        **{
            name: [[encode(end) for end in interval] for interval in getattr(certificate, name)]
            for name in _SETS
        },
        **{name: encode(getattr(certificate, name)) for name in _PLAIN},
    }


def band_certificate_from_json(values: Json | None, goal: BandGoal) -> BandCertificate | None:
    """Return the certificate of a model with this goal; None if it has none."""
    if values is None:
        return None
    try:
        fields: Json = {name: decode(values[name]) for name in _PLAIN}
        fields["goal"] = band_goal_from_json(values["goal"])
        fields["operating_point"] = band_point_from_json(values["operating_point"])
        fields["bounds"] = tuple(
            BandBound(band_metric(b["metric"]), **{name: decode(b[name]) for name in _BOUND})
            for b in values["bounds"]
        )
        for name in _SETS:
            ends = [(float(decode(low)), float(decode(high))) for low, high in values[name]]
            fields[name] = ThresholdSet(tuple(ends))
        certificate = BandCertificate(**fields)
        fault = _fault(certificate, goal)
    except SetpointError as error:
        raise ModelFileError(f"the certificate of the model cannot be read: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(
            f"the certificate of the model is incomplete ({error!r}); the file is damaged."
        ) from error
    if fault:
        raise ModelFileError(
            f"the certificate of the model is not consistent: {fault}. The file was damaged or "
            "changed; use another copy, or fit the model again."
        )
    return certificate


def _fault(certificate: BandCertificate, goal: BandGoal) -> str | None:
    """Return what is wrong with a certificate, or None."""
    point = certificate.operating_point
    if certificate.goal != goal or point.goal != goal:
        return f"it is for '{certificate.goal}' and '{point.goal}', but the model is for '{goal}'"
    if not _is_number(certificate.confidence) or not 0 < certificate.confidence < 1:
        return f"its confidence is {certificate.confidence!r}"
    if (certificate.low, certificate.high) != (point.low, point.high):
        return "its thresholds are not those of its counts"
    for name in ("certified", "one_per_group"):
        if not isinstance(getattr(certificate, name), bool):
            return f"{name} is {getattr(certificate, name)!r}"
    if certificate.chosen not in ((), ("low",), ("high",), ("low", "high")):
        return f"chosen is {certificate.chosen!r}"
    more, reason = certificate.more_positives, certificate.reason
    if more is not None and not (_is_whole(more) and more >= 1):
        return f"more_positives is {more!r}"
    if certificate.certified != (reason is None) or not isinstance(reason, str | None):
        return f"certified is {certificate.certified}, and the reason against it {reason!r}"
    if certificate.certified and not certificate.allows(certificate.low, certificate.high):
        return "its thresholds are not among its certified thresholds"
    return _fault_in_bounds(certificate)


def _fault_in_bounds(certificate: BandCertificate) -> str | None:
    goal, bounds = certificate.goal, certificate.bounds
    required = [*((c.metric, c.level) for c in goal.constraints), (goal.objective, None)]
    if [(b.metric, b.level) for b in bounds] != required:
        return f"'{goal}' needs {len(required)} bounds, on its constraints and its objective"
    for bound in bounds:
        if not (
            bound.kind in ("exact", "estimate")
            and _is_real(bound.value)
            and all(x is None or _is_number(x) for x in (bound.bound, bound.p_value))
            and all(x is None or (_is_whole(x) and x >= 0) for x in (bound.successes, bound.trials))
        ):
            return f"the bound on {bound.metric} is {bound!r}"
    if certificate.certified:
        for bound in bounds[:-1]:
            if not _supports_claim(bound):
                return f"it is marked as certified, but its bound is '{bound}'"
    return None
