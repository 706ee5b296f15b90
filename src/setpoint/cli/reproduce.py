"""``setpoint reproduce``: the paper's tables and figures."""

from __future__ import annotations

from typing import Any

import typer


def reproduce(context: typer.Context) -> None:
    """Run the paper's comparison: tables and figures by name (setpoint reproduce --help)."""
    from setpoint.paper.reproduce import main

    raise typer.Exit(main(context.args, "setpoint reproduce"))


def add_to(app: Any) -> None:
    """Add the command, whose options are those of ``python -m setpoint.paper``."""
    settings = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    app.command(context_settings=settings)(reproduce)
