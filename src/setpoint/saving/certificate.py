"""Certificates as JSON and back; one whose numbers contradict it is rejected.

Whoever can write a file can make up its numbers, but the result must be a valid certificate: a
claim that its own bounds do not support raises ModelFileError, and so does a value of the wrong
type, which would otherwise fail later.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, TypeVar

from setpoint.certificates.band_certificate import BandCertificate
from setpoint.certificates.bounds import Bound
from setpoint.certificates.certificate import Certificate, ShiftedCertificate
from setpoint.certificates.threshold_set import ThresholdSet
from setpoint.errors import ModelFileError, SetpointError
from setpoint.goals.goal import Goal
from setpoint.goals.metrics import Metric, metric
from setpoint.goals.periods import PERIODS
from setpoint.saving.values import (
    Json,
    decode,
    encode,
    goal_from_json,
    goal_to_json,
    point_from_json,
    point_to_json,
)

C = TypeVar("C")
AnyBound = TypeVar("AnyBound", bound=Bound)

_BOUND = ("level", "value", "bound", "kind", "successes", "trials", "p_value")
_NESTED = ("goal", "operating_point", "bounds", "certified_thresholds")
_CHOICES = ("beforehand", "planned", "any")
_ROUNDING = 1e-9


def certificate_to_json(certificate: Certificate | None) -> Json | None:
    """Return a certificate and its bounds as JSON; None for a model without one."""
    if certificate is None:
        return None
    return {
        "goal": goal_to_json(certificate.goal),
        "operating_point": point_to_json(certificate.operating_point),
        "bounds": bounds_to_json(certificate.bounds),
        "certified_thresholds": thresholds_to_json(certificate.certified_thresholds),
        **{
            field.name: encode(getattr(certificate, field.name))
            for field in fields(certificate)
            if field.name not in _NESTED
        },
    }


def certificate_from_json(values: Json | None, goal: Goal) -> Certificate | None:
    """Return the certificate of a model with this goal; None if it has none."""
    if values is None:
        return None
    return consistent(
        lambda: _parsed(values), lambda c: _fault_in_fields(c, goal) or fault_in_bounds(c)
    )


def consistent(read: Callable[[], C], fault_in: Callable[[C], str | None]) -> C:
    """Return the certificate that ``read`` returns; ModelFileError if it has a fault."""
    try:
        certificate = read()
        fault = fault_in(certificate)
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


def bounds_to_json(bounds: tuple[Bound, ...]) -> list[Json]:
    """Return the bounds of a certificate as JSON."""
    return [
        {"metric": str(b.metric), **{name: encode(getattr(b, name)) for name in _BOUND}}
        for b in bounds
    ]


def bounds_from_json(
    values: list[Json], kind: Callable[..., AnyBound], metric_of: Callable[[str], Any]
) -> tuple[AnyBound, ...]:
    """Return bounds of a kind; ``metric_of`` returns the metric of a name."""
    return tuple(
        kind(metric_of(b["metric"]), **{name: decode(b[name]) for name in _BOUND}) for b in values
    )


def thresholds_to_json(thresholds: ThresholdSet) -> list[list[Any]]:
    """Return certified thresholds as JSON: the ends of intervals."""
    return [[encode(end) for end in interval] for interval in thresholds]


def thresholds_from_json(values: list[list[Any]]) -> ThresholdSet:
    """Return the thresholds that :func:`thresholds_to_json` described."""
    return ThresholdSet(tuple((float(decode(low)), float(decode(high))) for low, high in values))


def _parsed(values: Json) -> Certificate:
    goal = goal_from_json(values["goal"])  # first: its message names unknown metrics
    nested: Json = {
        "goal": goal,
        "operating_point": point_from_json(values["operating_point"]),
        "bounds": bounds_from_json(values["bounds"], Bound, lambda name: _metric(name, goal)),
    }
    if "certified_thresholds" in values:
        nested["certified_thresholds"] = thresholds_from_json(values["certified_thresholds"])
    elif values["certified"] is True:  # a file of an earlier version
        nested["certified_thresholds"] = ThresholdSet.of_points([decode(values["threshold"])])
    kind = ShiftedCertificate if "prevalence" in values else Certificate
    plain = {name: decode(value) for name, value in values.items() if name not in _NESTED}
    within = plain.get("periods_within")
    if within is None:  # an earlier version wrote None, or one pair
        plain["periods_within"] = ()
    elif len(within) == 2 and isinstance(within[0], str):
        plain["periods_within"] = (within,)
    return kind(**nested, **plain)


def _metric(name: str, goal: Goal) -> Metric:
    """Return the goal's metric of this name, or another one of the goal language."""
    return next((which for which in goal.metrics if which.name == name), None) or metric(name)


def _fault_in_fields(certificate: Certificate, goal: Goal) -> str | None:
    """Return what is wrong with the fields other than the bounds."""
    point = certificate.operating_point
    prevalence = getattr(certificate, "prevalence", 0.5)
    if certificate.goal != point.goal or (certificate.goal.stated or certificate.goal) != goal:
        return f"it is for '{certificate.goal}' and '{point.goal}', but the model is for '{goal}'"
    for name, fraction in (("confidence", certificate.confidence), ("prevalence", prevalence)):
        if not is_number(fraction) or not 0 < fraction < 1:
            return f"its {name} is {fraction!r}, which is not a number between 0 and 1"
    if not all(isinstance(reason, str) for reason in certificate.reasons):
        return f"its reasons are {certificate.reasons!r}"
    if not all(isinstance(n, str) and is_number(cap) and cap > 0 for n, cap in certificate.caps):
        return f"its caps are {certificate.caps!r}"
    for period, share in certificate.periods_within:
        if period not in PERIODS or not is_number(share) or not 0 <= share <= 1:
            return f"the share of periods within the budget per {period} is {share!r}"
    if not is_number(certificate.threshold):
        return f"its threshold is {certificate.threshold!r}"
    if certificate.choice not in _CHOICES:
        return f"choice is {certificate.choice!r}"
    for name in ("certified", "one_per_group"):
        if not isinstance(getattr(certificate, name), bool):
            return f"{name} is {getattr(certificate, name)!r}"
    if certificate.certified != bool(certificate.certified_thresholds):
        return f"certified is {certificate.certified} for {certificate.certified_thresholds!r}"
    if certificate.certified and certificate.threshold not in certificate.certified_thresholds:
        return "its threshold is not one of its certified thresholds"
    for name in ("tested", "more_positives"):
        count = getattr(certificate, name)
        if count is not None and not (is_whole(count) and count >= 1):
            return f"{name} is {count!r}"
    if (certificate.choice == "any") != (certificate.tested is None):
        return f"tested is {certificate.tested!r} while choice is {certificate.choice!r}"
    return None


def fault_in_bounds(certificate: Certificate | BandCertificate) -> str | None:
    """Return what is wrong with the bounds, which must support the claim."""
    goal, bounds = certificate.goal, certificate.bounds
    required = [*((c.metric, c.level) for c in goal.constraints), (goal.objective, None)]
    if [(b.metric, b.level) for b in bounds] != required:
        return f"'{goal}' needs {len(required)} bounds, on its constraints and its objective"
    for bound in bounds:
        if not (
            bound.kind in ("exact", "estimate")
            and is_real(bound.value)  # NaN where there are no cases
            and all(x is None or is_number(x) for x in (bound.bound, bound.p_value))
            and all(x is None or (is_whole(x) and x >= 0) for x in (bound.successes, bound.trials))
        ):
            return f"the bound on {bound.metric} is {bound!r}"
    if certificate.certified:
        for bound in bounds[:-1] or bounds:
            if not _supports_claim(bound):
                return f"it is marked as certified, but its bound is '{bound}'"
    return None


def _supports_claim(bound: Bound) -> bool:
    """Return whether a bound guarantees its level, or anything where no level is required."""
    if bound.kind != "exact" or bound.bound is None:
        return False
    return bound.level is None or bound.metric.sign * (bound.bound - bound.level) >= -_ROUNDING


def is_real(value: Any) -> bool:
    """Return whether a value is a number, which may be NaN."""
    return type(value) is not bool and isinstance(value, Real)


def is_number(value: Any) -> bool:
    """Return whether a value is a number other than NaN."""
    return is_real(value) and not math.isnan(value)


def is_whole(value: Any) -> bool:
    """Return whether a value is an integer."""
    return type(value) is not bool and isinstance(value, Integral)
