"""One check of a promise over several files: an answer is kept as JSON, and gone on from."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from setpoint.certificates import Certificate, Verdict
from setpoint.cli.words import point_fields
from setpoint.errors import SetpointError
from setpoint.goals import Goal
from setpoint.operating_point import OperatingPoint

_COUNTS = ("tp", "fp", "fn", "tn")


def to_json(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict with the certificate that it belongs to."""
    return {
        **verdict.to_dict(),
        "operating_point": point_fields(verdict.operating_point),
        "certificate": list(verdict.identity),
    }


def read(path: Path, certificate: Certificate) -> Verdict:
    """Read what ``evaluate --json`` printed, to go on from it."""
    wanted = "--after takes what 'setpoint evaluate --json' printed"
    if not path.exists():
        raise SetpointError(f"there is no file {path} to go on from; {wanted}.")
    if path.is_dir():
        raise SetpointError(f"{path} is a folder, and no answer to go on from; {wanted}.")
    if path.is_file() and path.stat().st_size == 0:
        raise SetpointError(
            f"{path} is empty, and no answer to go on from; {wanted}. (In a shell '> {path.name}' "
            "empties the file before the command reads it: write to another one.)"
        )
    try:
        return _verdict(json.loads(path.read_text("utf-8"))["verdict"], certificate)
    except (KeyError, TypeError, ValueError) as error:
        raise SetpointError(
            f"{path} is no answer to go on from; it must be what 'setpoint evaluate --json' "
            "printed of this model, with its certificate."
        ) from error


def _verdict(kept: dict[str, Any], certificate: Certificate) -> Verdict:
    promises = certificate.promises
    counts = [float(kept["operating_point"][name]) for name in _COUNTS]
    # JSON knows no infinity, which evidence may be.
    evidence = [math.inf if value is None else float(value) for value in kept["evidence"]]
    if len(evidence) != len(promises) or not all(0 <= x < math.inf for x in counts):
        raise ValueError("it belongs to something else")
    tp, fp, fn, tn = counts
    goal = Goal(promises[0].metric, promises)
    return Verdict(
        bool(kept["broken"]),
        promises,
        tuple(evidence),
        OperatingPoint(certificate.threshold, tp, fp, fn, tn, goal, "later data"),
        float(kept["level"]),
        int(kept["looks"]),
        tuple(kept["certificate"]),
    )
