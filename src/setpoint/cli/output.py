"""Where a command's words go: to a person, to a program, or nowhere."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from setpoint.errors import SetpointError, UncertifiedWarning

_WIDE = 1000  # columns: what is piped, or longer than a terminal is wide, is not cut off


class AnsweredError(Exception):
    """An error, its cause, that the answer to a program tells already."""


class Output:
    """What a command says.

    A person reads results on stdout; notes and progress go to stderr, so that results can be
    piped. A program gets one JSON object on stdout.

    Parameters
    ----------
    as_json : bool
        Whether the result is for a program.
    quiet : bool
        Whether notes, progress and results for a person are left out.
    """

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        from rich.console import Console

        self.as_json, self.quiet = as_json, quiet
        self.notes: list[str] = []
        self._out = Console(highlight=False, soft_wrap=True, width=_WIDE)
        self._side = Console(stderr=True, highlight=False, soft_wrap=True)

    def note(self, text: str, kind: str = "note") -> None:
        """Tell a person something on the side; a program finds it under "notes"."""
        self.notes.append(text)
        if not self.quiet and not self.as_json:
            self._side.print(f"{kind}: {text}", markup=False)

    def result(self, fields: dict[str, Any], *parts: Any) -> None:
        """Print the result: the fields for a program, the parts (texts, tables) for a person."""
        self._say(*parts)
        self._hand_over(fields)

    def result_and_files(
        self,
        fields: dict[str, Any],
        *parts: Any,
        files: Iterable[tuple[str, Path]],
        kept: str = "",
    ) -> None:
        """Print the result, and then let the files be written, each as it is asked for.

        What goes wrong with them, such as a full disk, does not hide the result.

        Parameters
        ----------
        fields, *parts
            As of :meth:`result`.
        files : iterable of (str, Path)
            Writes the next file, and gives what it is ("report" or "figure") and where.
        kept : str
            What to add to an error: that all else is done.
        """
        self._say(*parts)
        written: dict[str, list[str]] = {"report": [], "figure": []}
        more: dict[str, Any] = {}
        try:
            for kind, path in files:
                written[kind].append(str(path))
                self._say(f"{kind.capitalize()}: {path}")
        except Exception as error:
            more["error"] = f"{in_words(error)} {kept}".strip()
            raise AnsweredError(more["error"]) from error
        finally:
            page = written["report"][0] if written["report"] else None
            self._hand_over({**fields, "report": page, "figures": written["figure"], **more})

    def _say(self, *parts: Any) -> None:
        if not self.as_json and not self.quiet:
            for part in parts:
                self._out.print(part, markup=False)

    def _hand_over(self, fields: dict[str, Any]) -> None:
        if self.as_json:
            print(json.dumps({**fields, "notes": self.notes}, indent=2, ensure_ascii=False))

    @contextmanager
    def warnings_as_notes(self) -> Iterator[None]:
        """Turn Python's warnings into notes."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        for text in dict.fromkeys(str(w.message) for w in caught if _is_for_users(w.category)):
            self.note(text, "warning")

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[float, float | None], None]]:
        """Show a bar, moved by a function of what is done and, if known, how much there is."""
        if self.quiet or self.as_json or not self._side.is_terminal:
            yield lambda done, total: None
            return
        from rich.markup import escape
        from rich.progress import Progress

        with Progress(console=self._side, transient=True) as bar:
            task = bar.add_task(escape(what), total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)


def in_words(error: Exception) -> str:
    """Return what to tell of an error."""
    if isinstance(error, MemoryError):
        return "there is not enough memory for this."
    if is_expected(error):
        return str(error)
    what = f"internal error: {type(error).__name__}: {error}".rstrip(": ")
    return f"{what}; run again with --debug and report it."


def is_expected(error: BaseException | None) -> bool:
    """Whether an error is no mistake of ours."""
    return isinstance(error, (SetpointError, OSError, MemoryError))


def _is_for_users(category: type[Warning]) -> bool:
    # What is not certified is told with the certificate.
    others = (DeprecationWarning, UncertifiedWarning)
    return issubclass(category, UserWarning) and not issubclass(category, others)


_PATIENCE = 5  # seconds, for the others' bulletin board


def several() -> bool:
    """Whether ``torchrun`` started this process and others."""
    return "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_first() -> bool:
    """Whether this is the process that speaks and writes files."""
    return not several() or os.environ.get("RANK", "0") == "0"


@contextmanager
def only_first_speaks() -> Iterator[None]:
    """Let the other processes say nothing."""
    if is_first():
        yield
        return
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


def tells_error() -> bool:
    """Whether this process is the one that tells what went wrong.

    It is the one that fails first: the others fail because of it, or of the same.
    """
    if not several():
        return True
    try:
        from datetime import timedelta

        from torch.distributed.rendezvous import rendezvous

        store, _, _ = next(rendezvous("env://", timeout=timedelta(seconds=_PATIENCE)))
        return bool(store.add("setpoint/failed", 1) == 1)
    except Exception:  # nobody can be asked any more: better twice than not at all
        return True


def leave() -> None:
    """Part from the other processes, where they were joined."""
    if several():
        import torch.distributed as dist

        if dist.is_available() and dist.is_initialized():
            dist.destroy_process_group()


# DOC of cli.processes: The command as one of several processes, which ``torchrun`` started: one of them speaks.
