"""The report as one HTML file that makes no network requests.

The page is complete before any script runs: pictures are drawn as SVG, and a small script moves a
marker in them. Every number can be read by a screen reader and by a test. A page has about 100 to
400 KB.
"""

from __future__ import annotations

import base64
import hashlib
import os
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from setpoint._internal.files import write_atomically
from setpoint._internal.provenance import made_by
from setpoint.errors import SetpointError
from setpoint.goals.metrics import format_threshold
from setpoint.report.content import Report, report_of
from setpoint.report.data import Contents, money
from setpoint.report.drawings import CURVE, scores_frame, swatch
from setpoint.report.sections import sections
from setpoint.report.sentences import headline


def html(report: Report) -> str:
    """Return the page."""
    contents = Contents(report)
    data = contents.for_script()
    data["frames"] = {"curve": CURVE.corners, "scores": scores_frame(contents).corners}
    style, script = _file("page.css"), _file("page.js")
    return _template().render(
        report=report,
        generator=made_by(),
        description=headline(report),
        style=style,
        style_hash=_digest(style),
        script=script,
        script_hash=_digest(script),
        data=data,
        **sections(contents),
    )


def write_report(report: Report, path: str | Path) -> Path:
    """Write the page to a file, in one step: a failure leaves the former file as it was."""
    target = Path(path)
    if target.is_dir():
        raise SetpointError(f"the report cannot be written to {target}, which is a folder.")
    # Labels may come from file names that are not valid UTF-8.
    content = html(report).encode("utf-8", errors="replace")
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


def write_report_of(
    classifier: Any, path: str | Path, X: Any = None, y: Any = None, **options: Any
) -> Path:
    """Write the page about a fitted classifier; parameters as in :func:`report_of`."""
    return write_report(report_of(classifier, X, y, **options), path)


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("setpoint.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.globals |= {"money": money, "format_threshold": format_threshold, "swatch": swatch}
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment.get_template("page.html")


def _file(name: str) -> Markup:
    return Markup(resources.files("setpoint.report").joinpath(name).read_text(encoding="utf-8"))


def _digest(text: str) -> str:
    """Return the hash by which the Content-Security-Policy allows a style sheet or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
