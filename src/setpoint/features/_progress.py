"""A progress bar where a person is watching."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any


class Progress:
    """Shows one task after the other; shows nothing if ``show`` is false or no one watches."""

    def __init__(self, show: bool) -> None:
        self._bar: Any = _bar() if show else None
        self._task: Any = None
        self._start = 0.0
        self._done = 0

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, what: str, total: int, done: int = 0, note: str = "") -> None:
        """Start a task of which ``done`` steps are done already, which do not count as speed."""
        self._start, self._done = time.monotonic(), 0
        if self._bar is not None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(what, total=total, completed=done, rate="", note=note)

    def advance(self, steps: int = 1) -> None:
        """Count steps of the current task."""
        self._done += steps
        if self._bar is not None:
            seconds = max(time.monotonic() - self._start, 1e-9)
            rate = f"{self._done / seconds:.3g} items/s"
            self._bar.update(self._task, advance=steps, rate=rate)


def _bar() -> Any:
    """Return a bar on the standard error, or None where that is no terminal or notebook."""
    try:
        from rich import console as consoles
        from rich import progress
    except ImportError:  # vectors can do without a bar
        return None
    console = consoles.Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        return None
    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[rate]}"),
        progress.TimeRemainingColumn(),
        progress.TextColumn("{task.fields[note]}"),
        console=console,
    )
