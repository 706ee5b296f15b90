"""Argument validation, names and values in error messages, and groups of rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint.errors import SetpointError


def listed(names: Iterable[object], most: int = 8) -> str:
    """Return the first few names, in quotes, for a message.

    Examples
    --------
    >>> listed(["a", "b c"])
    "'a', 'b c'"
    """
    every = [repr(name) for name in names]
    more = f", ... ({len(every)} in all)" if len(every) > most else ""
    return ", ".join(every[:most]) + more


def quoted(value: object) -> str:
    """Return a value of a table, shortened, for a message.

    Examples
    --------
    >>> quoted("seven"), quoted(float("nan")), quoted("x" * 99)
    ("'seven'", 'nan', "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...")
    """
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def unknown_device(device: Any) -> SetpointError:
    """Return the error about a device that torch does not know."""
    return SetpointError(
        f"device {device!r} is not 'auto', 'cpu', 'cuda', 'cuda:1' or a torch.device."
    )


def did_you_mean(name: object, known: Sequence[object]) -> str:
    """Return " Did you mean ...?" if a known name is similar, otherwise an empty string.

    The only name that begins as the given one does is similar in any case.

    Examples
    --------
    >>> did_you_mean("Clas", ["Amount", "Class"])
    " Did you mean 'Class'?"
    >>> did_you_mean("xgb", ["hgb", "xgboost"])
    " Did you mean 'xgboost'?"
    """
    texts = {str(k).casefold(): k for k in reversed(known)}
    given = str(name).casefold()
    found = [text for text in texts if given and text.startswith(given)]
    if len(found) != 1:
        found = get_close_matches(given, list(texts), n=1, cutoff=0.6)
    return f" Did you mean {texts[found[0]]!r}?" if found else ""


def label_list(pos_label: Any) -> list[Any] | None:
    """Return several labels as a list, each once; None for a single label.

    Examples
    --------
    >>> label_list([2, 1, 2]), label_list({"b", "a"}), label_list("ab")
    ([2, 1], ['a', 'b'], None)
    """
    several = isinstance(pos_label, Collection) and not isinstance(pos_label, str | bytes)
    if not several or getattr(pos_label, "ndim", 1) == 0:
        return None
    found = list(
        dict.fromkeys(np.asarray(pos_label).tolist() if hasattr(pos_label, "dtype") else pos_label)
    )
    if not found:
        raise SetpointError("pos_label is empty; name at least one label.")
    # Sets have no order of their own.
    return sorted(found, key=repr) if isinstance(pos_label, set | frozenset) else found


def as_text(value: Any) -> str:
    """Return a value as a text; integers are written alike, whatever their type.

    Examples
    --------
    >>> as_text(2.0), as_text(np.int8(2)), as_text(" two ")
    ('2', '2', 'two')
    """
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value).strip()


def either(labels: Iterable[Any]) -> str:
    """Return the name of the class of several labels.

    Examples
    --------
    >>> either([1, 2, 3]), either(["b"])
    ('1, 2 or 3', 'b')
    """
    *first, last = map(as_text, labels)
    return f"{', '.join(first)} or {last}" if first else last


def as_labels(y: Any) -> NDArray[Any]:
    """Return labels as an array; raise SetpointError if some are missing."""
    labels = np.asarray(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise SetpointError(f"labels must be one per row, but have the shape {labels.shape}.")
    check_known_labels(labels)
    return labels


def check_known_labels(labels: NDArray[Any]) -> None:
    """Raise SetpointError if labels are missing."""
    if labels.dtype.kind in "fO":
        unknown = (labels != labels) | (labels == None)  # noqa: E711 (elementwise)
        if unknown.any():
            raise SetpointError("y holds NaN or None; drop the rows with unknown labels.")


def positive_mask(labels: NDArray[Any], pos_label: Any) -> NDArray[np.bool_]:
    """Return which labels are positive: ``pos_label``, one of several, or 1 and True.

    Labels other than 0 and 1, -1 and 1, and booleans need a ``pos_label``: which of two texts is
    positive is not to be guessed from some rows, since other rows may suggest the other one.
    """
    if pos_label is not None:
        named = label_list(pos_label) or [pos_label]
        matches = [np.broadcast_to(labels == label, labels.shape) for label in named]
        return np.asarray(np.logical_or.reduce(matches), dtype=bool)
    if labels.dtype == np.bool_:
        return labels
    positive = np.asarray(labels == 1)
    for other in (0, -1):
        if (positive | (labels == other)).all():
            return positive
    values = list(dict.fromkeys(labels.tolist()))
    shown = ", ".join(map(repr, values[:5])) + (", ..." if len(values) > 5 else "")
    raise SetpointError(
        f"y holds the labels {shown}; pass pos_label to name the positive one, or several in a "
        "list (all others are then negative), or labels that are 0/1, -1/1 or booleans."
    )


def check_number(value: Any, name: str) -> float:
    """Return the value as a float; raise SetpointError if it is not a number, or NaN."""
    if not isinstance(value, Real) or value != value:
        raise SetpointError(f"{name} must be a number, not {value!r}.")
    return float(value)


def check_fraction(value: Any, name: str) -> float:
    """Return the value as a float; raise SetpointError if it is not between 0 and 1."""
    if not isinstance(value, Real) or not 0 < float(value) < 1:
        raise SetpointError(f"{name} must lie between 0 and 1, not {value!r}.")
    return float(value)


def check_caution(value: Any) -> float:
    """Return the value as a float; raise SetpointError if it is not a number >= 0."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < np.inf:
        raise SetpointError(
            f"caution must be a number >= 0, the most of the objective to give up, not {value!r}."
        )
    return float(value)


def check_whole(
    value: Any,
    name: str,
    least: int = 1,
    most: float = float("inf"),
    error: type[SetpointError] = SetpointError,
) -> int:
    """Return the value as an int; raise ``error`` if it is not one from ``least`` to ``most``."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not least <= int(value) <= most:
        limits = f"of at least {least}" if most == float("inf") else f"from {least} to {most}"
        raise error(f"{name} must be a whole number {limits}, not {value!r}.")
    return int(value)


def check_groups(groups: Any, shape: tuple[int, ...]) -> NDArray[Any] | None:
    """Return the group of each row, or None if there are no groups."""
    if groups is None:
        return None
    found = np.asarray(groups)
    if found.shape != shape:
        raise SetpointError(
            f"groups must hold one entry per row, shape {shape}; it has {found.shape}."
        )
    missing = [g is None or g != g for g in found.tolist()]
    if any(missing):
        raise SetpointError(
            f"groups has {sum(missing)} missing entries, the first at row "
            f"{missing.index(True)}; give each such row its own group, or drop it."
        )
    return found


def one_row_per_group(groups: NDArray[Any], seed: int = 0) -> NDArray[np.intp]:
    """Return the indices, in ascending order, of one randomly chosen row per group.

    Rows of one group are not independent draws; one row of each group is.
    """
    shuffled = np.random.default_rng([seed, 20_212]).permutation(len(groups))
    return np.sort(shuffled[np.unique(groups[shuffled], return_index=True)[1]])
