"""The command ``setpoint``: its subcommands, exit codes and errors.

Modules of commands import torch, scikit-learn and the like inside of functions, so that
``setpoint --help`` is fast and ``setpoint demo`` runs with the extra ``demo`` alone.
"""

from __future__ import annotations

import gc
import json
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from setpoint.cli.output import (
    ReportedError,
    describe_error,
    is_expected,
    is_main_process,
    reports_errors,
    silence_other_processes,
)

# Exit codes; docs/command-line.md has the same table.
DONE = 0
BAD_INPUT = 1  # a file, a column or a goal that cannot be used
USAGE = 2  # an unknown option, a missing argument
MISSED = 3  # with --strict: done, but the goal is not met or not certified
INTERNAL = 4  # a bug
STOPPED = 130  # Ctrl-C

COMMANDS = (
    "fit", "predict", "evaluate", "certify", "label", "compare", "export", "reproduce", "demo",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] != ["fit"] and not is_main_process():
        return DONE  # only fit uses several processes
    with silence_other_processes():
        outcome = _run(given)
    return _report_failure(outcome, given) if isinstance(outcome, Exception) else outcome


@contextmanager
def first_imports() -> Iterator[None]:
    """Import torch and the like at the start of a command, without garbage collections.

    They create hundreds of thousands of objects, which stay. Python would look through them again
    and again: for 0.4 s during the imports, and 0.5 s when it exits. Later collections pass over
    all that exists by then. If torch has been imported before, this does nothing.
    """
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def exit_if_missed(strict: bool, achieved: bool) -> None:
    """End the command with the exit code MISSED if ``--strict`` requires what was not achieved."""
    import typer

    if strict and not achieved:
        raise typer.Exit(MISSED)


def _run(given: list[str]) -> int | Exception:
    """Run a command; return its exit code, or the error that ended it."""
    try:
        app = _app()
    except ImportError:
        _print_error('the command line needs an extra: pip install "setpoint[cli]"', given)
        return BAD_INPUT
    try:
        app(given, prog_name="setpoint", obj=tuple(given))
    except (SystemExit, KeyboardInterrupt) as ending:
        if isinstance(ending, SystemExit) and not _is_interrupt(ending):
            return int(ending.code or 0)
        print("\nstopped.", file=sys.stderr)
        return STOPPED
    except Exception as error:
        return error
    return DONE


def _app() -> Any:
    typer = import_module("typer")
    app = typer.Typer(
        name="setpoint",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def print_version(requested: bool) -> None:
        if requested:
            from setpoint import __version__

            print(f"setpoint {__version__}")
            raise typer.Exit(DONE)

    @app.callback()  # type: ignore[untyped-decorator]
    def top(
        version: bool = typer.Option(
            False, "--version", help="Show the version.", is_eager=True, callback=print_version
        ),
    ) -> None:
        """Train, certify and use classifiers for a rare, important class."""

    command = import_module("setpoint.cli.options").Command
    for name in COMMANDS:
        module = import_module(f"setpoint.cli.{name}")
        settings = getattr(module, "CONTEXT_SETTINGS", None)
        app.command(cls=command, context_settings=settings)(getattr(module, name))
    return app


def _report_failure(error: Exception, given: Sequence[str]) -> int:
    """Print an error, unless another process has done so; return the exit code."""
    reported = isinstance(error, ReportedError)
    code = BAD_INPUT if is_expected(error.__cause__ if reported else error) else INTERNAL
    if reports_errors():
        if "--debug" in given:
            traceback.print_exception(error)
        if reported:
            _print_error(str(error), ())
        else:
            _print_error(describe_error(error), given)
    return code


def _print_error(message: str, given: Sequence[str]) -> None:
    """Print an error on stderr, and with ``--json`` as an object on stdout."""
    internal = message.startswith("internal error: ")
    print(message if internal else f"error: {message}", file=sys.stderr)
    if "--json" in given:
        print(json.dumps({"error": message}, indent=2, ensure_ascii=False))


def _is_interrupt(error: BaseException | None) -> bool:
    """Return whether Ctrl-C is the cause, which Typer turns into an exit code."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
