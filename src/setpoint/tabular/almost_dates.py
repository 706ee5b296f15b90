"""Columns of texts, most of which are dates.

As among numbers, a few strangers are missing values by another name, or typing errors such as
31.02.2024. Which they are is kept, so that later rows are read in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setpoint.tabular._values import MARKERS, MISSING, dates, zone_of
from setpoint.tabular.almost_numbers import not_numbers, percent, where

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
