"""All commands, and what becomes of their errors."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from importlib import import_module

from setpoint.errors import SetpointError

# Exit codes; docs/command-line.md has the same table.
DONE = 0
BAD_INPUT = 1  # a file, a column or a goal that cannot be used; the message says what to do
USAGE = 2  # an unknown option, a missing argument
MISSED = 3  # done, but the goal is not met or not certified, and --strict asked to be told
STOPPED = 130  # Ctrl-C

COMMANDS = ("fit", "predict", "evaluate", "certify", "compare", "export", "reproduce", "demo")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        typer = import_module("typer")
    except ImportError:
        print(
            'error: the command line needs its extra: pip install "setpoint[cli]"', file=sys.stderr
        )
        return BAD_INPUT
    app = typer.Typer(
        name="setpoint",
        help="Classifiers for a rare, important class that must keep a promise.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_top)
    for name in COMMANDS:
        # Only the command that is asked for is imported with what it needs; the others' options are
        # declared in light modules.
        import_module(f"setpoint.cli.{name}").add_to(app)
    try:
        app(given, prog_name="setpoint")
    except SystemExit as ending:
        return int(ending.code or 0)
    except KeyboardInterrupt:
        print("\nstopped.", file=sys.stderr)
        return STOPPED
    except (SetpointError, OSError) as error:
        if "--debug" in given:
            traceback.print_exc()
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT
    return DONE


def _top() -> None:
    """Classifiers for a rare, important class that must keep a promise."""
