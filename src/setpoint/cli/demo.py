"""``setpoint demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def demo(
    folder: Annotated[Path, typer.Option(help="Where picture and report go.")] = Path(),
) -> None:
    """Train for three goals on real data; print a table, draw a picture, write a report."""
    from setpoint.demo import show

    show(folder)


def add_to(app: Any) -> None:
    """Add the command."""
    app.command()(demo)
