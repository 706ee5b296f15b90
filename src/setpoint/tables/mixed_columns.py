"""Columns of texts, most of which are numbers.

A few strangers among them are missing values by another name, or typing errors, and must not turn
a column of numbers into one of categories. Which they are is kept, so that later rows are read in
the same way. Others say something: G0439 is a code, 44-45 a range, <0.5 a limit, 5+ and 12% are not
what they stand beside. With these the column is one of categories.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.imports import need
from setpoint.data.values import (
    MARKERS,
    MISSING,
    amount,
    dates,
    formats_like,
    has_unit,
    looks_like_number,
    unit_in_words,
    without_units,
    zone_of,
)

_MOST = 0.9  # of the values must be numbers
_FEW_BESIDE_WHOLE = 0.01  # where all numbers are whole, more strangers than this mean codes
_MOST_STRANGERS = 20  # different ones
_LOOKED_AT = 1_000  # distinct values, for a first look
_SHOWN = 4
_MOST_UNITS = 2
_FEWEST_WITH_UNITS = 10  # different ones; 10kg and 20kg alone are two sorts of something
# A number that was mistyped: 1.2.3, 1O.5, --7.
_SLIP = re.compile(r"[+-]*\s*[\d.,][\d.,'\sOolI]*")
_PLAIN = "Write plain numbers such as 1234.5 for it to be numbers."


class AlmostNumbers(NamedTuple):
    """What a column of texts, most of which are numbers, is taken for.

    Attributes
    ----------
    taken : bool
        Whether it is taken as numbers, and not as categories.
    how : str or None
        An example of how the numbers are written, where it is not the plain way.
    missing : tuple of str
        The texts that count as missing.
    note : str
        What a person should know.
    """

    taken: bool
    how: str | None
    missing: tuple[str, ...]
    note: str


def almost_numbers(name: str, texts: Any, rows: NDArray[np.intp]) -> AlmostNumbers | None:
    """Return what a column of texts is taken for, or None where few of them are numbers.

    Parameters
    ----------
    name : str
        The column's.
    texts : Series of str
        The values that are there, without blanks around them.
    rows : ndarray of int
        In which rows of the table they are.
    """
    counts: dict[str, int] = texts.value_counts(sort=False).to_dict()
    values = {t: n for t, n in counts.items() if t.casefold() not in MARKERS}
    few = _some(values)
    if not values or max(_like_numbers(few), _in_words(few)) < 0.5:
        return None
    found = _reading(values)
    if isinstance(found, str):
        return AlmostNumbers(False, None, (), _left(name, found))
    if found is None:
        why = _why_not(values)
        return None if why is None else AlmostNumbers(False, None, (), _left(name, why))
    strangers = [t for t in values if t not in found.numbers]
    total, lost = sum(values.values()), sum(values[t] for t in strangers)
    telling = [t for t in strangers if _says_something(t, found.how)]
    if telling:
        like = "numbers" if found.how is None else f"numbers like {found.how}"
        return AlmostNumbers(
            False, None, (),
            f"The column {name!r} is taken as categories, though {percent(1 - lost / total)} of "
            f"its values are {like}; others are codes, ranges, limits or numbers of another make: "
            f"{where(texts, rows, telling)}. For it to be numbers, write these like the others, "
            "or leave them empty.",
        )  # fmt: skip
    whole = all(float(v).is_integer() for v in found.numbers.values())
    allowed = max(1.0, _FEW_BESIDE_WHOLE * total) if whole else total
    if len(strangers) > _MOST_STRANGERS or lost > allowed:
        return AlmostNumbers(
            False, None, (),
            f"The column {name!r} is taken as categories, though {percent(1 - lost / total)} of "
            f"its values are numbers; others are not: {where(texts, rows, strangers)}. If these "
            "are mistakes, correct them or leave them empty for it to be numbers.",
        )  # fmt: skip
    missing = [t for t in counts if t not in found.numbers and t not in MISSING]
    note = f"The column {name!r} is taken as numbers"
    note += "" if found.how is None else f" that are written like {found.how}"
    if missing:
        lost = sum(counts[t] for t in missing)
        note += f"; {not_numbers(lost, 'number')} as missing: {where(texts, rows, missing)}"
    return AlmostNumbers(True, found.how, tuple(missing), note + ".")


def several_ways(name: str, texts: Any) -> AlmostNumbers:
    """Return that a column of texts is taken as categories, for numbers are written differently."""
    why = f"they are written in several ways, e.g. {_examples(texts.value_counts().to_dict())}"
    return AlmostNumbers(False, None, (), _left(name, why))


class _Reading(NamedTuple):
    """One way to read texts, and those that are numbers in it."""

    how: str | None
    numbers: dict[str, float]

    def agrees(self, other: _Reading) -> bool:
        """Whether no text is another number in the other way."""
        both = self.numbers.keys() & other.numbers.keys()
        return all(self.numbers[t] == other.numbers[t] for t in both)


def _reading(values: dict[str, int]) -> _Reading | str | None:
    """Return in which way most texts are numbers; why it is not clear; or None."""

    def size(reading: _Reading) -> int:
        return sum(values[t] for t in reading.numbers)

    enough = _MOST * sum(values.values())
    plain, *others = (
        _Reading(h, _numbers(values, h)) for h in (None, *formats_like(_some(values)))
    )
    if size(plain) >= enough:  # then ornaments may add to what is plain, and not change it
        others = [o for o in others if o.agrees(plain)]
    best = max([plain, *others], key=size)  # the first of those that read the most
    if size(best) < enough:
        return None
    for other in others:
        if best is not plain and size(other) == size(best) and not other.agrees(best):
            odd = next(t for t, v in best.numbers.items() if other.numbers.get(t, v) != v)
            return f"{odd!r} may be {best.numbers[odd]:.15g} or {other.numbers[odd]:.15g}"
    return best


def _some(values: dict[str, int]) -> dict[str, int]:
    """Return not too many of the values, for a first look."""
    return dict(list(values.items())[:: max(1, len(values) // _LOOKED_AT)])


def _numbers(values: dict[str, int], how: str | None) -> dict[str, float]:
    """Return the texts that are numbers, read in one way."""
    pd = need("pandas", "cli", "a table")
    if how is None:
        found = pd.to_numeric(pd.Series(list(values), dtype=object), errors="coerce").tolist()
    else:
        found = [amount(text, how) for text in values]
    return {t: v for t, v in zip(values, found, strict=True) if not math.isnan(v)}


def _like_numbers(values: dict[str, int]) -> float:
    """Return which share of the values are perhaps numbers."""
    return sum(n for t, n in values.items() if looks_like_number(t)) / sum(values.values())


def _in_words(values: dict[str, int]) -> float:
    """Return which share of the values are perhaps numbers with a unit in letters, or brackets."""
    told = sum(n for t, n in values.items() if unit_in_words(t) is not None)
    return told / sum(values.values())


def _why_not(values: dict[str, int]) -> str | None:
    """Return why texts that look like numbers are not read as such; None where they do not."""
    if _like_numbers(values) >= _MOST:
        return f"they are written in several ways, e.g. {_examples(values)}"
    units = {unit_in_words(t) for t in values} - {None, ""}
    many = len(units) > _MOST_UNITS or len(values) < _FEWEST_WITH_UNITS
    if many or _in_words(values) < _MOST:
        return None
    if units == {"("}:
        return f"some stand in brackets, e.g. {_examples(values)}; (12.50) may be -12.50"
    return f"they have a unit in letters, e.g. {_examples(values)}"


def _says_something(text: str, how: str | None) -> bool:
    """Whether a text among numbers is more than a missing value or a typing error."""
    if not any(c.isdigit() for c in text):
        return text[0] in "<>≤≥" and not text.endswith(">")  # <LOD, but not <none>
    if has_unit(how):
        if looks_like_number(text):  # without the unit, or with another one
            return True
        text = without_units(text)
    return _SLIP.fullmatch(text) is None


def percent(share: float) -> str:
    """Return a share in per cent, rounded down so that it is 100 for all alone."""
    return f"{math.floor(100 * share)} %"


def not_numbers(count: int, what: str) -> str:
    """Return how many values are not what they should be, and the begin of what that means.

    Examples
    --------
    >>> not_numbers(1, "number"), not_numbers(1_200, "date")
    ('1 value is not a number and counts', '1,200 values are not dates and count')
    """
    if count == 1:
        return f"1 value is not a {what} and counts"
    return f"{count:,} values are not {what}s and count"


def _left(name: str, why: str) -> str:
    return (
        f"The column {name!r} is taken as categories, though its values look like numbers: {why}. "
        f"{_PLAIN}"
    )


def _examples(values: dict[str, int]) -> str:
    """Return texts of different make."""
    makes = {"".join("1" if c.isdigit() else c for c in t).replace("11", "1"): t for t in values}
    return ", ".join(map(repr, list(makes.values())[:_SHOWN]))


def where(texts: Any, rows: NDArray[np.intp], which: list[str]) -> str:
    """Return some texts, and the first row of each, for a note."""
    values = texts.to_numpy(dtype=object)
    told = []
    for text in which[:_SHOWN]:
        found = rows[values == text]
        again = f"{len(found):,} times, first in " if len(found) > 1 else ""
        told.append(f"{text!r} ({again}row {found[0] + 1:,})")
    return ", ".join(told) + (", ..." if len(which) > _SHOWN else "")


_MOST = 0.9  # of the values must be dates
_FEW = 0.01  # more strangers than this are no typing errors
_MOST_STRANGERS = 20  # different ones
_FEWEST = 10  # dates; of fewer, that they are some is not clear
_TRIED = 200  # values, for a first look


class AlmostDates(NamedTuple):
    """What a column of texts, most of which are dates, is taken for.

    Attributes
    ----------
    taken : bool
        Whether it is taken as dates, and not as categories.
    how : str
        How they are written.
    zone : str or None
        Their time zone.
    missing : tuple of str
        The texts that count as missing.
    note : str
        What a person should know.
    """

    taken: bool
    how: str
    zone: str | None
    missing: tuple[str, ...]
    note: str


def almost_dates(
    name: str, texts: Any, rows: NDArray[np.intp], formats: Sequence[str]
) -> AlmostDates | None:
    """Return what a column of texts is taken for, or None where few of them are dates.

    Parameters
    ----------
    name : str
        The column's.
    texts : Series of str
        The values that are there, without blanks around them.
    rows : ndarray of int
        In which rows of the table they are.
    formats : sequence of str
        In which ways dates may be written.
    """
    # Most of the categories that there are go no further than a first look.
    few = texts.iloc[:: max(1, len(texts) // _TRIED)].unique()
    tried = [t for t in few if t.casefold() not in MARKERS]
    if 2 * sum(6 <= len(t) <= 40 and any(map(str.isdigit, t)) for t in tried) <= len(tried):
        return None
    formats = [how for how in formats if 2 * sum(fits(t, how) for t in tried) > len(tried)]
    if not formats:
        return None
    counts: dict[str, int] = texts.value_counts(sort=False).to_dict()
    values = texts[texts.isin([t for t in counts if t.casefold() not in MARKERS])]
    found = None
    for how in formats:
        zone = zone_of(values)
        bad = dates(values, how, zone).bad
        # The fewest strangers decide: where most days are below 13, a wrong order reads most.
        if found is None or bad.sum() < found[2].sum():
            found = how, zone, bad
    assert found is not None
    how, zone, bad = found
    lost, total = int(bad.sum()), len(values)
    if total - lost < max(_FEWEST, _MOST * total):
        return None
    strangers = list(dict.fromkeys(values[bad]))
    if lost > max(1.0, _FEW * total) or len(strangers) > _MOST_STRANGERS:
        return AlmostDates(
            False, how, zone, (),
            f"The column {name!r} is taken as categories, though {percent(1 - lost / total)} of "
            f"its values are dates; others are not: {where(texts, rows, strangers)}. If these are "
            "mistakes, correct them or leave them empty for it to be dates.",
        )  # fmt: skip
    missing = [t for t in counts if t in strangers or t.casefold() in MARKERS]
    missing = [t for t in missing if t not in MISSING]
    note = f"The column {name!r} is taken as dates"
    if missing:
        count = not_numbers(sum(counts[t] for t in missing), "date")
        note += f"; {count} as missing: {where(texts, rows, missing)}"
    return AlmostDates(True, how, zone, tuple(missing), note + ".")


def fits(text: str, how: str) -> bool:
    """Whether one text may be a date in a format.

    Examples
    --------
    >>> fits("2024-12-31", "ISO8601"), fits("31.12.2024", "%m/%d/%Y")
    (True, False)
    """
    if how == "ISO8601":
        return text[:4].isdigit()
    try:
        datetime.strptime(text, how)
    except ValueError:
        return False
    return True


# DOC of tabular.almost_dates: Columns of texts, most of which are dates.
#
# As among numbers, a few strangers are missing values by another name, or typing errors such as
# 31.02.2024. Which they are is kept, so that later rows are read in the same way.
#
