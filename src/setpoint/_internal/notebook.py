"""Small HTML tables that notebooks show for results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Summary:
    """What a notebook shows for an object: a message, tables, and a folded list.

    A tick or a cross before the message shows whether it is ``good``. The first row and the first
    column of a table are headings. ``folded`` is a title and the sentences below it. ``allowed`` is
    a line about what the reader may do, in green.
    """

    message: str
    good: bool
    caption: str
    tables: Sequence[Rows]
    folded: tuple[str, Sequence[str]] | None = None
    allowed: str = ""

    def html(self) -> str:
        """Return the summary as HTML, with every text escaped."""
        return str(_template().render(summary=self))


class NotebookSummary:
    """Base class of objects that notebooks show as a :class:`Summary`."""

    def _summary(self) -> Summary:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return self._summary().html()


@cache
def _template() -> Any:
    from jinja2 import Environment

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(files(__package__).joinpath("notebook.html").read_text("utf-8"))
