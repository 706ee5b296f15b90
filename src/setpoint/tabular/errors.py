"""What can be wrong with a table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from setpoint.errors import SetpointError


class TableFileError(SetpointError):
    """A file that cannot be read or written."""


class SchemaError(SetpointError):
    """Columns that are missing, unknown or of another type than the model's."""


class TargetError(SetpointError):
    """A target column that does not hold two labels."""


class PartsError(SetpointError):
    """Rows that cannot be parted as asked."""


def listed(names: Iterable[object], most: int = 8) -> str:
    """Return names in quotes for a message, the first few of them.

    Examples
    --------
    >>> listed(["a", "b c"])
    "'a', 'b c'"
    """
    every = [repr(name) for name in names]
    more = f", ... ({len(every)} in all)" if len(every) > most else ""
    return ", ".join(every[:most]) + more


def shown(value: object) -> str:
    """Return a value of a table for a message.

    Examples
    --------
    >>> shown("seven"), shown(float("nan")), shown("x" * 99)
    ("'seven'", 'nan', "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...")
    """
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def nearest(name: object, known: Sequence[object]) -> str:
    """Return " Did you mean ...?" where a known name is much like this one, else nothing.

    Examples
    --------
    >>> nearest("Clas", ["Amount", "Class"])
    " Did you mean 'Class'?"
    """
    texts = {str(k).casefold(): k for k in reversed(known)}
    found = get_close_matches(str(name).casefold(), list(texts), n=1, cutoff=0.6)
    return f" Did you mean {texts[found[0]]!r}?" if found else ""
