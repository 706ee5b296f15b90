"""Checks of a certificate on later files: verdicts as JSON, and back for ``--after``."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from setpoint.cli.points import point_fields
from setpoint.errors import SetpointError

if TYPE_CHECKING:
    from setpoint.certificates.joint_monitor import JointVerdict, Monitored
    from setpoint.certificates.mean_monitor import MeanVerdict
    from setpoint.certificates.monitor import Verdict
    from setpoint.goals.goal import Constraint
    from setpoint.tables.fitted_columns import FittedColumns

T = TypeVar("T")

CONTINUE = (
    "To continue this check with later rows, save the output of --json and pass it to 'evaluate' "
    "with --after."
)


def not_monitored(certificate: Any) -> str:
    """Return why later rows are not compared with a certificate, and what to do instead."""
    return (
        f"The certificate is not monitored: {certificate.unchecked}. Certify the threshold again "
        "on later labelled rows instead."
    )


def groups_of(model: FittedColumns, frame: Any) -> Any:
    """Return the group of each row, if the model was fitted with groups."""
    if model.group is None:
        return None
    if model.group not in frame.columns:
        raise SetpointError(
            f"the certificate of this model is about one row per {model.group!r}; the table needs "
            "that column to check it."
        )
    return frame[model.group].to_numpy()


def verdict_fields(verdict: Any) -> dict[str, Any]:
    """Return a verdict for JSON, with the certificate that it belongs to."""
    found: dict[str, Any] = verdict.to_dict()
    if parts := getattr(verdict, "parts", None):
        return {**found, "parts": [verdict_fields(part) for part in parts]}
    if "operating_point" in found:
        found["operating_point"] = point_fields(verdict.operating_point)
    # JSON has no infinity, which a threshold may be.
    identity = [str(x) if x in (math.inf, -math.inf) else x for x in verdict.identity]
    return {**found, "certificate": identity}


def read_output(path: Path, read: Callable[[Any], T]) -> T:
    """Return what ``read`` finds in the output of ``evaluate --json``."""
    expected = "--after takes the output of 'setpoint evaluate --json'"
    if not path.exists():
        raise SetpointError(f"there is no file {path}; {expected}.")
    if path.is_dir():
        raise SetpointError(f"{path} is a folder; {expected}.")
    if path.is_file() and path.stat().st_size == 0:
        raise SetpointError(
            f"{path} is empty; {expected}. (In a shell '> {path.name}' empties the file before the "
            "command reads it: write to another one.)"
        )
    try:
        return read(json.loads(path.read_text("utf-8")))
    except (
        KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError,
    ) as error:  # fmt: skip
        raise SetpointError(
            f"{path} is not the output of 'setpoint evaluate --json' for this model and its "
            "certificate, so the check cannot continue from it."
        ) from error


def parse_verdict(fields: dict[str, Any], certificate: Any) -> Verdict | JointVerdict:
    """Return a verdict from its values in JSON; ValueError if it is of another certificate."""
    from setpoint.certificates.joint_monitor import JointVerdict

    monitored = certificate.monitored
    if monitored is None:
        return _parse_counted(fields, certificate.guarantees, certificate.threshold)
    if len(fields["parts"]) != len(monitored):
        raise ValueError("it belongs to another certificate")
    parts = [
        _parse_counted(own, (each.plain,), each.threshold)
        if each.span is None
        else _parse_mean(own, each)
        for own, each in zip(fields["parts"], monitored, strict=True)
    ]
    last = tuple((str(kind), str(name)) for kind, name in fields["last_periods"].items())
    return JointVerdict(monitored, tuple(parts), float(fields["level"]), last)


def _parse_mean(fields: dict[str, Any], each: Monitored) -> MeanVerdict:
    from setpoint.certificates.mean_monitor import BETS, MeanVerdict

    assert each.span is not None
    logs = tuple(map(float, fields["logs"]))
    starts = tuple(tuple(map(float, start)) for start in fields["starts"])
    if fields["span"] != list(each.span) or {len(logs)} != {BETS, *(len(s) - 1 for s in starts)}:
        raise ValueError("it belongs to another certificate")
    rows, mean, uncapped = int(fields["rows"]), float(fields["mean"]), float(fields["uncapped"])
    numbers = (uncapped, *logs, *(x for start in starts for x in start))
    rising = [0.0, *(start[0] for start in starts), float(rows)]
    if rising != sorted(rising) or not 0 <= mean <= 1 or not all(map(math.isfinite, numbers)):
        raise ValueError("its values are not those of a check")
    return MeanVerdict(
        bool(fields["broken"]), each.plain, each.span, _evidence(fields["evidence"]),
        float(fields["level"]), rows, mean, logs, starts, int(fields["since"]),
        int(fields["checks"]), _identity(fields), int(fields["pending"]), int(fields["capped"]),
        uncapped,
    )  # fmt: skip


def _evidence(value: Any) -> float:
    """Return evidence, which may be infinite; JSON has no infinity."""
    found = math.inf if value is None else float(value)
    if not found >= 0:
        raise ValueError("its evidence is not a number of at least 0")
    return found


def _identity(fields: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(float(x) if x in ("inf", "-inf") else x for x in fields["certificate"])


def _parse_counted(
    fields: dict[str, Any], guarantees: tuple[Constraint, ...], threshold: float
) -> Verdict:
    """Return a verdict from its values in JSON; ValueError if it is of other guarantees."""
    from setpoint.certificates.monitor import Verdict
    from setpoint.goals.goal import Goal
    from setpoint.thresholds.operating_point import OperatingPoint

    counts = [float(fields["operating_point"][name]) for name in ("tp", "fp", "fn", "tn")]
    evidence = [_evidence(value) for value in fields["evidence"]]
    # Versions without restarts had none of these.
    since, reserve = fields.get("since") or (), fields.get("reserve")
    for numbers in (evidence, since or evidence, reserve or evidence):
        if len(numbers) != len(guarantees):
            raise ValueError("it belongs to another certificate")
    starts = tuple(_four_counts(start) for start in fields.get("starts", ()))
    stakes = () if reserve is None else tuple(map(float, reserve))
    if not all(0 <= x < math.inf for numbers in (counts, stakes, *starts) for x in numbers):
        raise ValueError("its counts are not counts")
    for series in zip((0.0,) * 4, *starts, counts, strict=True):
        if list(series) != sorted(series):
            raise ValueError("its counts do not rise")
    tp, fp, fn, tn = counts
    goal = Goal(guarantees[0].metric, guarantees)
    return Verdict(
        bool(fields["broken"]),
        guarantees,
        tuple(evidence),
        OperatingPoint(threshold, tp, fp, fn, tn, goal, "later data"),
        float(fields["level"]),
        int(fields["looks"]),
        _identity(fields),
        tuple(map(int, since)),
        int(fields.get("pending", 0)),
        starts,
        None if reserve is None else stakes,
    )


def _four_counts(start: Any) -> tuple[float, float, float, float]:
    tp, fp, fn, tn = map(float, start)
    return tp, fp, fn, tn
