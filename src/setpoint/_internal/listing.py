"""Results that are a sequence of findings and are shown as a table; tables as aligned text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar, overload

from setpoint._internal.notebook import NotebookSummary, Summary

T = TypeVar("T")

MOST_SHOWN = 30  # of a ranking, in a notebook and as text


class Listing(NotebookSummary, Sequence[T]):
    """Base class of sequences that ``print`` and notebooks show as a table."""

    _found: tuple[T, ...]

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...

    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        return self._found[index]

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[T]:
        return iter(self._found)

    def __repr__(self) -> str:
        return str(self)


class Ranking(Listing[T]):
    """A listing from the largest finding down; of a long one, the first are shown."""

    _contents: str  # e.g. "features, the most influential first"

    @property
    def meaning(self) -> str:
        """What the table shows, in a sentence or two."""
        raise NotImplementedError

    def table(self, most: int | None = None) -> list[list[str]]:
        """Return the findings as rows of text, the header first; ``most``: only so many."""
        raise NotImplementedError

    def text(self, most: int | None = None) -> str:
        """Return meaning and table as text; ``most``: only the first so many rows."""
        lines = [self.meaning, *aligned(self.table(most))]
        if most is not None and len(self) > most:
            lines.append(f"… {len(self) - most:,} more")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text(None if len(self) <= MOST_SHOWN else MOST_SHOWN)

    def _summary(self) -> Summary:
        caption = f"{len(self):,} {self._contents}"
        if len(self) > MOST_SHOWN:
            caption += f"; {len(self) - MOST_SHOWN:,} of them are not shown"
        return Summary(self.meaning, True, caption, [self.table(MOST_SHOWN)])


def aligned(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,)) -> list[str]:
    """Return rows of text as lines with aligned columns: those of ``left`` to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.ljust(width) if i in left else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
