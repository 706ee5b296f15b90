"""All commands, and what becomes of their errors."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from setpoint.cli.output import (
    AnsweredError,
    in_words,
    is_expected,
    is_first,
    only_first_speaks,
    tells_error,
)

# Exit codes; docs/command-line.md has the same table.
DONE = 0
BAD_INPUT = 1  # a file, a column or a goal that cannot be used; the message says what to do
USAGE = 2  # an unknown option, a missing argument
MISSED = 3  # done, but the goal is not met or not certified, and --strict asked to be told
INTERNAL = 4  # a mistake of ours
STOPPED = 130  # Ctrl-C

COMMANDS = ("fit", "predict", "evaluate", "certify", "compare", "export", "reproduce", "demo")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] != ["fit"] and not is_first():
        return DONE  # all else is done by one process
    with only_first_speaks():
        found = _run(given)
    if isinstance(found, Exception):
        return _failed(found, given)
    return found


def _run(given: list[str]) -> int | Exception:
    """Run a command; return its exit code, or what went wrong."""
    try:
        app = _app()
    except ImportError:
        return _told('the command line needs its extra: pip install "setpoint[cli]"', given)
    try:
        app(given, prog_name="setpoint", obj=tuple(given))
    except SystemExit as ending:
        if _interrupted(ending):
            return _stopped()
        return int(ending.code or 0)
    except KeyboardInterrupt:
        return _stopped()
    except Exception as error:
        return error
    return DONE


def _app() -> Any:
    """Return the commands; only the one that is asked for imports what it needs."""
    typer = import_module("typer")
    app = typer.Typer(
        name="setpoint",
        help="Classifiers for a rare, important class that must keep a promise.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def version(asked: bool) -> None:
        if asked:
            from setpoint._internal.provenance import __version__

            print(f"setpoint {__version__}")
            raise typer.Exit(DONE)

    def top(
        version: bool = typer.Option(
            False, "--version", help="Show the version.", is_eager=True, callback=version
        ),
    ) -> None:
        """Classifiers for a rare, important class that must keep a promise."""

    app.callback()(top)
    for name in COMMANDS:
        import_module(f"setpoint.cli.{name}").add_to(app)
    return app


def _failed(error: Exception, given: Sequence[str]) -> int:
    answered = isinstance(error, AnsweredError)
    code = BAD_INPUT if is_expected(error.__cause__ if answered else error) else INTERNAL
    if not tells_error():
        return code
    if "--debug" in given:
        traceback.print_exception(error)
    if answered:
        print(_line(str(error)), file=sys.stderr)
    else:
        _told(in_words(error), given)
    return code


def _told(message: str, given: Sequence[str]) -> int:
    """Say what is wrong, to a program as well if one is listening."""
    print(_line(message), file=sys.stderr)
    if "--json" in given:
        print(json.dumps({"error": message}, indent=2, ensure_ascii=False))
    return BAD_INPUT


def _line(message: str) -> str:
    return message if message.startswith("internal error: ") else f"error: {message}"


def _stopped() -> int:
    print("\nstopped.", file=sys.stderr)
    return STOPPED


def _interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind it: Typer makes an exit code of that."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
