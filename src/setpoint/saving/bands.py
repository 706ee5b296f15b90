"""Review bands and their certificates as JSON and back; inconsistent ones are rejected.

As for other certificates (:mod:`setpoint.saving.certificate`), whoever can write a file can make up
its numbers, but the result must be a valid band, and its certificate must support its claim.
"""

from __future__ import annotations

import math
from typing import Any

from setpoint.certificates.band_bounds import BandBound
from setpoint.certificates.band_certificate import BandCertificate
from setpoint.errors import GoalError, ModelFileError
from setpoint.goals.band_metrics import band_metric
from setpoint.goals.bands import BandGoal
from setpoint.saving.certificate import (
    bounds_from_json,
    bounds_to_json,
    consistent,
    fault_in_bounds,
    is_number,
    is_whole,
    thresholds_from_json,
    thresholds_to_json,
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
        if not is_number(fields[name]):
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
        if not is_number(count) or not 0 <= count < math.inf:
            raise ModelFileError(f"a count of the model's review band is {count!r}.")
    return BandPoint(**fields, goal=band_goal_from_json(values["goal"]))


def band_certificate_to_json(certificate: BandCertificate | None) -> Json | None:
    """Return a certificate and its bounds as JSON; None for a model without one."""
    if certificate is None:
        return None
    return {
        "goal": str(certificate.goal),
        "operating_point": band_point_to_json(certificate.operating_point),
        "bounds": bounds_to_json(certificate.bounds),
        **{name: thresholds_to_json(getattr(certificate, name)) for name in _SETS},
        **{name: encode(getattr(certificate, name)) for name in _PLAIN},
    }


def band_certificate_from_json(values: Json | None, goal: BandGoal) -> BandCertificate | None:
    """Return the certificate of a model with this goal; None if it has none."""
    if values is None:
        return None
    return consistent(lambda: _parsed(values), lambda found: _fault(found, goal))


def _parsed(values: Json) -> BandCertificate:
    fields: Json = {name: decode(values[name]) for name in _PLAIN}
    fields["goal"] = band_goal_from_json(values["goal"])
    fields["operating_point"] = band_point_from_json(values["operating_point"])
    fields["bounds"] = bounds_from_json(values["bounds"], BandBound, band_metric)
    fields |= {name: thresholds_from_json(values[name]) for name in _SETS}
    return BandCertificate(**fields)


def _fault(certificate: BandCertificate, goal: BandGoal) -> str | None:
    """Return what is wrong with a certificate, or None."""
    point = certificate.operating_point
    if certificate.goal != goal or point.goal != goal:
        return f"it is for '{certificate.goal}' and '{point.goal}', but the model is for '{goal}'"
    if not is_number(certificate.confidence) or not 0 < certificate.confidence < 1:
        return f"its confidence is {certificate.confidence!r}"
    if (certificate.low, certificate.high) != (point.low, point.high):
        return "its thresholds are not those of its counts"
    for name in ("certified", "one_per_group"):
        if not isinstance(getattr(certificate, name), bool):
            return f"{name} is {getattr(certificate, name)!r}"
    if certificate.chosen not in ((), ("low",), ("high",), ("low", "high")):
        return f"chosen is {certificate.chosen!r}"
    more, reason = certificate.more_positives, certificate.reason
    if more is not None and not (is_whole(more) and more >= 1):
        return f"more_positives is {more!r}"
    if certificate.certified != (reason is None) or not isinstance(reason, str | None):
        return f"certified is {certificate.certified}, and the reason against it {reason!r}"
    if certificate.certified and not certificate.allows(certificate.low, certificate.high):
        return "its thresholds are not among its certified thresholds"
    return fault_in_bounds(certificate)
