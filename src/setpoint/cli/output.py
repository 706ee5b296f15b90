"""Console output of commands: results, notes, progress and errors.

Results go to stdout, notes and progress to stderr, so that results can be piped. With ``--json``,
stdout gets one JSON object instead. Of several processes only the first one prints.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from setpoint.errors import SetpointError, UncertifiedWarning

_WIDTH = 1000  # characters: tables are not cut off, in a pipe or in a narrow terminal
_STORE_TIMEOUT = 5  # seconds


class ReportedError(Exception):
    """An error, its cause, that the JSON result already contains."""


class Output:
    """The output of a command.

    Parameters
    ----------
    as_json : bool
        Whether to print one JSON object instead of text.
    quiet : bool
        Whether to print no notes, progress and results.
    """

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        from rich.console import Console

        self.as_json, self.quiet = as_json, quiet
        self.notes: list[str] = []
        self._out = Console(highlight=False, soft_wrap=True, width=_WIDTH)
        self._err = Console(stderr=True, highlight=False, soft_wrap=True)

    def note(self, text: str, kind: str = "note") -> None:
        """Print a note; JSON has it under "notes"."""
        self.notes.append(text)
        if not self.quiet and not self.as_json:
            self._err.print(f"{kind}: {text}", markup=False)

    def result(self, fields: dict[str, Any], *parts: Any) -> None:
        """Print the result: the fields as JSON, or the parts (texts, tables) for a terminal."""
        self.show(*parts)
        self._print_json(fields)

    def result_and_files(
        self,
        fields: dict[str, Any],
        *parts: Any,
        files: Iterable[tuple[str, Path]],
        saved: str = "",
    ) -> None:
        """Print the result, then write the files; an error in that does not hide the result.

        Parameters
        ----------
        fields, *parts
            As in :meth:`result`.
        files : iterable of (str, Path)
            Writes a file at each step, and yields its kind ("report", "figure" or "prometheus")
            and path.
        saved : str
            Added to an error message: what has been saved.
        """
        self.show(*parts)
        written: dict[str, list[str]] = {"report": [], "figure": [], "prometheus": []}
        failure: dict[str, Any] = {}
        try:
            for kind, path in files:
                written[kind].append(str(path))
                self.show(f"{kind.capitalize()}: {path}")
        except Exception as error:
            failure["error"] = f"{describe_error(error)} {saved}".strip()
            raise ReportedError(failure["error"]) from error
        finally:
            page = written["report"][0] if written["report"] else None
            metrics = {"prometheus": written["prometheus"][0]} if written["prometheus"] else {}
            self._print_json(
                {**fields, "report": page, "figures": written["figure"], **metrics, **failure}
            )

    def show(self, *parts: Any) -> None:
        """Print texts and tables, unless the output is JSON or quiet."""
        if not self.as_json and not self.quiet:
            for part in parts:
                self._out.print(part, markup=False)

    def _print_json(self, fields: dict[str, Any]) -> None:
        if self.as_json:
            print(json.dumps({**fields, "notes": self.notes}, indent=2, ensure_ascii=False))

    @contextmanager
    def warnings_as_notes(self) -> Iterator[None]:
        """Turn Python warnings for users into notes."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        # Commands print the certificate itself instead of UncertifiedWarning.
        texts = [
            str(warning.message)
            for warning in caught
            if issubclass(warning.category, UserWarning)
            and not issubclass(warning.category, (DeprecationWarning, UncertifiedWarning))
        ]
        for text in dict.fromkeys(texts):
            self.note(text, "warning")

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[float, float | None], None]]:
        """Show a progress bar; the function takes the work done and, if known, the total."""
        if self.quiet or self.as_json or not self._err.is_terminal:
            yield lambda done, total: None
            return
        from rich.markup import escape
        from rich.progress import Progress

        with Progress(console=self._err, transient=True) as bar:
            task = bar.add_task(escape(what), total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)


def describe_error(error: Exception) -> str:
    """Return the message for an error."""
    if isinstance(error, MemoryError):
        return "there is not enough memory for this."
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f": {error.filename}"
        return f"{error.strerror}{where}."
    if is_expected(error):
        return str(error)
    what = f"internal error: {type(error).__name__}: {error}".rstrip(": ")
    return f"{what}; run again with --debug and report it."


def is_expected(error: BaseException | None) -> bool:
    """Return whether an error is caused by the input or the system, not by a bug."""
    return isinstance(error, (SetpointError, OSError, MemoryError))


# --- several processes, started by torchrun -------------------------------------------------------


def launched_by_torchrun() -> bool:
    """Return whether ``torchrun`` started this process and others."""
    return "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


def is_main_process() -> bool:
    """Return whether this process prints and writes files."""
    return not launched_by_torchrun() or os.environ.get("RANK", "0") == "0"


@contextmanager
def silence_other_processes() -> Iterator[None]:
    """Discard the output of all processes but the first."""
    if is_main_process():
        yield
        return
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        yield


def reports_errors() -> bool:
    """Return whether this process reports its error.

    That is the process that fails first; the others fail for the same reason, or because of it.
    """
    if not launched_by_torchrun():
        return True
    try:
        from datetime import timedelta

        from torch.distributed.rendezvous import rendezvous

        store, _, _ = next(rendezvous("env://", timeout=timedelta(seconds=_STORE_TIMEOUT)))
        return bool(store.add("setpoint/failed", 1) == 1)
    except Exception:  # the store is gone: better report it twice than not at all
        return True


def leave_process_group() -> None:
    """Leave the process group, if there is one."""
    if launched_by_torchrun():
        import torch.distributed as dist

        if dist.is_available() and dist.is_initialized():
            dist.destroy_process_group()
