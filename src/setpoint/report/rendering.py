"""From a template to a page: style sheet, scripts and their hashes, and the file."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from setpoint._internal.files import write_atomically
from setpoint._internal.provenance import made_by
from setpoint.errors import SetpointError
from setpoint.goals.metrics import format_number, format_threshold
from setpoint.report.drawings import swatch
from setpoint.report.money import money


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
