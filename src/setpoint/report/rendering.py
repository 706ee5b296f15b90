"""From content to a page: parts that all pages share, templates, scripts, and the file."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from setpoint._internal.files import write_atomically
from setpoint._internal.provenance import made_by
from setpoint.certificates.bounds import round_conservatively
from setpoint.errors import SetpointError
from setpoint.goals.metrics import format_number, format_threshold
from setpoint.report.content import Described
from setpoint.report.drawings import swatch
from setpoint.report.money import money
from setpoint.report.sections import Tile
from setpoint.report.sentences import Headline
from setpoint.report.wording import metric_label, value_text


def render(template: str, scripts: tuple[str, ...] = (), **content: Any) -> str:
    """Return a page; ``scripts`` are files that run after that of all pages."""
    style = _file("page.css")
    script = Markup("").join(_file(name) for name in ("shell.js", *scripts))
    return (
        _environment()
        .get_template(template)
        .render(
            generator=made_by(),
            style=style,
            style_hash=_digest(style),
            script=script,
            script_hash=_digest(script),
            **content,
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("setpoint.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.globals |= {"money": money, "format_threshold": format_threshold, "swatch": swatch}
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment


def _file(name: str) -> Markup:
    return Markup(resources.files("setpoint.report").joinpath(name).read_text(encoding="utf-8"))


def _digest(text: str) -> str:
    """Return the hash by which the Content-Security-Policy allows a style sheet or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def write_page(page: str, path: str | Path) -> Path:
    """Write a page to a file, in one step: a failure leaves the former file as it was."""
    target = Path(path)
    if target.is_dir():
        raise SetpointError(f"the report cannot be written to {target}, which is a folder.")
    # Labels may come from file names that are not valid UTF-8.
    content = page.encode("utf-8", errors="replace")
    real = Path(os.path.realpath(target))  # a link stays, and what it leads to is written
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(real, content)
    except OSError as error:
        raise SetpointError(
            f"the report cannot be written to {target}: {error.strerror or error}. Choose another "
            "folder, or free space or set permissions there."
        ) from error
    return target


# --- parts that pages share ----------------------------------------------------------------------


def opening(
    parts: Headline, badges: list[tuple[str, str]], tiles: list[Tile], notes: Sequence[str]
) -> dict[str, Any]:
    """Return the first section of a page: the headline, and the numbers behind it."""
    lede = [parts.alert and parts.expected, parts.goal, parts.certificate, parts.stands]
    return {
        "headline": parts.alert or parts.expected,
        "badges": badges,
        "lede": " ".join(filter(None, lede)),
        "tiles": tiles,
        "basis": parts.basis,
        "notes": [note for note in (parts.caution, *notes) if note],
    }


def badges_of(report: Described) -> list[tuple[str, str]]:
    """Return the state of goal and certificate as a class and a text, which has a sign too."""
    found = []
    if report.point.goal.constraints:
        met = report.point.feasible
        found.append(("good", "✓ goal met") if met else ("bad", "✗ goal not met"))
    certificate = report.certificate
    if certificate is None:
        found.append(("plain", "no certificate"))
    elif report.broken:
        found.append(("bad", "✗ certificate contradicted"))
    elif certificate.certified:
        found.append(("good", f"✓ certified at {100 * certificate.confidence:g} %"))
    else:
        found.append(("bad", "✗ certification failed"))
    return found


def goal_section(
    report: Described, text: str, reached: str, missed: Sequence[str], why: str
) -> dict[str, str]:
    """Return the goal in words, and whether it is met, or ``why`` only by convention."""
    on = report.rows.on
    if not report.point.goal.constraints:
        kind, result = "", f"On {on}, {reached}."
    elif missed:
        kind, result = "bad", f"✗ Not met on {on}: {'; '.join(missed)}."
    elif why:
        kind, result = "good", f"✓ Met on {on}, but only because {why}; {reached}."
    else:
        kind, result = "good", f"✓ Met on {on}; {reached}."
    return {"text": text, "kind": kind, "result": result}


def bounds_table(report: Described) -> list[list[str]]:
    """Return the rows of the certificate's table: required, observed, and on new data."""
    rows = []
    for bound in () if report.certificate is None else report.certificate.bounds:
        side, best = ("≥", "highest") if bound.metric.direction == "max" else ("≤", "lowest")
        required = best if bound.level is None else f"{side} {format_number(bound.level)}"
        draws = ""
        if bound.trials is not None:  # a phone may break the line before it, but not inside
            draws = f" ({bound.successes:,} of {bound.trials:,})".replace(" of ", "\xa0of\xa0")
        known = "unknown"
        if bound.bound is not None:
            rounded = round_conservatively(bound.metric, bound.bound)
            known = f"{side}\N{NO-BREAK SPACE}{format_number(rounded)}"
            known += report.certificate.name_of(bound).removeprefix(str(bound.metric))
            known += "" if bound.kind == "exact" else " (estimate, no guarantee)"
        value = value_text(bound.metric, bound.value, report.currency)
        rows.append([metric_label(bound.metric), required, value + draws, known])
    return rows


def facts_of(report: Described, own: Mapping[str, str]) -> dict[str, str]:
    """Return what is needed to make the same page again."""
    n, P = len(report.rows), int(report.rows.y.sum())
    rows = f"{n:,} of {report.rows.on}: {P:,} {report.plural}, {n - P:,} other cases"
    return merged_facts(
        {"rows of this report": rows, "goal": str(report.goal), **own}, report.facts
    )


def merged_facts(own: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, str]:
    """Return a page's own facts, and those given that are neither empty nor repeated."""
    facts, known = dict(own), set(own)
    for name, value in given.items():
        key = {"random_state": "seed"}.get(name, name).casefold()
        if str(value) not in ("", "None") and key not in known:
            known.add(key)
            facts[name] = str(value)
    return facts


def exactly(threshold: float) -> str:
    """Write a threshold with all of its digits."""
    return format_number(threshold) if np.isfinite(threshold) else format_threshold(threshold)
