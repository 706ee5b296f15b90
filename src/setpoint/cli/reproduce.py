"""``setpoint reproduce``: the paper's tables and figures."""

from __future__ import annotations

import typer

# All arguments, --help included, go to the command of setpoint.paper.
CONTEXT_SETTINGS = {
    "allow_extra_args": True,
    "ignore_unknown_options": True,
    "help_option_names": [],
}


def reproduce(context: typer.Context) -> None:
    """Run the paper's comparison: tables and figures by name (setpoint reproduce --help)."""
    from setpoint.paper.reproduce import main

    raise typer.Exit(main(context.args, "setpoint reproduce"))
