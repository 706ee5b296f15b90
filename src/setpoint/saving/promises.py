"""The certificate of a model from a file: whole, and not at odds with itself.

Who writes a file can make it say anything, but what it says must be a certificate: a promise that
its own numbers do not bear out is refused, and so is one that would fail when it is looked at.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

from setpoint.certificates.bounds import Bound
from setpoint.certificates.certificate import Certificate
from setpoint.errors import ModelFileError, SetpointError
from setpoint.goals.goal import Goal
from setpoint.saving.values import Json, certificate_from_json

_ROUNDING = 1e-9
_CHOICES = ("beforehand", "planned", "any")


def promise_from_json(values: Json | None, goal: Goal) -> Certificate | None:
    """Return the certificate of a model with this goal, None where it has none."""
    if values is None:
        return None
    try:
        certificate = certificate_from_json(values)
    except SetpointError as error:
        raise ModelFileError(f"the certificate of the model cannot be read: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(
            f"the certificate of the model is not complete ({error!r}); the file is damaged."
        ) from error
    wrong = _of_fields(certificate, goal) or _of_bounds(certificate)
    if wrong:
        raise ModelFileError(
            f"the certificate of the model does not hold together: {wrong}. The file was damaged "
            "or changed; get it anew, or fit the model again."
        )
    return certificate


def _of_fields(certificate: Certificate, goal: Goal) -> str | None:
    """Return what is wrong with a certificate's fields, but for its bounds."""
    own, point = certificate, certificate.operating_point
    prevalence = getattr(own, "prevalence", 0.5)
    if own.goal != goal or point.goal != goal:
        return f"it is for '{own.goal}' and '{point.goal}', and the model for '{goal}'"
    if not _is_share(own.confidence) or not _is_share(prevalence):
        return f"its confidence is {own.confidence!r}, which is no number between 0 and 1"
    if not _is_number(own.threshold):
        return f"its threshold is {own.threshold!r}"
    if own.choice not in _CHOICES:
        return f"its threshold was chosen {own.choice!r}"
    if not all(isinstance(flag, bool) for flag in (own.certified, own.one_per_group)):
        return f"certified is {own.certified!r} and one_per_group {own.one_per_group!r}"
    for name, count in (("tested", own.tested), ("more_positives", own.more_positives)):
        if count is not None and not (_is_whole(count) and count >= 1):
            return f"{name} is {count!r}"
    if (own.choice == "any") != (own.tested is None):
        return f"of {own.tested!r} thresholds that were tested it has the best of {own.choice!r}"
    return None


def _of_bounds(certificate: Certificate) -> str | None:
    """Return what is wrong with a certificate's bounds."""
    goal, bounds = certificate.goal, certificate.bounds
    asked = [*((c.metric, c.level) for c in goal.constraints), (goal.objective, None)]
    if [(b.metric, b.level) for b in bounds] != asked:
        return f"'{goal}' needs {len(asked)} bounds, of its constraints and its objective"
    for bound in bounds:
        counts = (bound.successes, bound.trials)
        numbers = (bound.bound, bound.p_value)
        if not (
            bound.kind in ("exact", "estimate")
            and _is_real(bound.value)  # NaN where there are no cases
            and all(x is None or _is_number(x) for x in numbers)
            and all(x is None or (_is_whole(x) and x >= 0) for x in counts)
        ):
            return f"the bound of {bound.metric} is {bound!r}"
    if certificate.certified:
        for bound in bounds[:-1] or bounds:
            if not _bears_out(bound):
                return f"it is called certified, and its bound is '{bound}'"
    return None


def _bears_out(bound: Bound) -> bool:
    """Whether a bound guarantees the level that is asked for, or where there is none, anything."""
    if bound.kind != "exact" or bound.bound is None:
        return False
    return bound.level is None or bound.metric.sign * (bound.bound - bound.level) >= -_ROUNDING


def _is_real(value: Any) -> bool:
    return type(value) is not bool and isinstance(value, Real)


def _is_number(value: Any) -> bool:
    return _is_real(value) and not math.isnan(value)


def _is_whole(value: Any) -> bool:
    return type(value) is not bool and isinstance(value, Integral)


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0 < value < 1
