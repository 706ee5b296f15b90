"""``setpoint demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from setpoint.cli import options as o
from setpoint.cli.output import Output


def demo(
    folder: Annotated[Path, typer.Option(help="Where picture and report go.")] = Path(),
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Train for three goals on real data; print a table, draw a picture, write a report."""
    from setpoint.demo import show

    Output(as_json).result(show(folder, quiet or as_json))


def add_to(app: Any) -> None:
    """Add the command."""
    app.command()(demo)
