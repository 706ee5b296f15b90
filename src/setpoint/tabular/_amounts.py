"""Numbers as people write them: with thousands, decimal commas, a currency or a per cent sign.

How a column writes them is kept as an example, such as ``€1,234.5`` or ``1.234,5``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import cache

_MONEY = "€$£¥"
_SEPARATORS = {"1,234.5": (",", "."), "1.234,5": (".", ",")}  # of thousands and of decimals
_DRESSED = re.compile(rf"[+-]?\s*([{_MONEY}]?)\s*[+-]?[\d.,]+\s*([%{_MONEY}]?)")
_LIKE_NUMBERS = re.compile(
    rf"[+-]?\s*[{_MONEY}]?\s*[+-]?(?:(?:\d{{1,3}}(?:[.,'\s]\d{{3}})+|\d+)(?:[.,]\d+)?|[.,]\d+)"
    rf"(?:[eE][+-]?\d+)?\s*[%{_MONEY}]?"
)


def looks_like_number(text: str) -> bool:
    """Whether a text is perhaps a number, in whatever way it is written.

    Examples
    --------
    >>> [looks_like_number(t) for t in ("1'234,50 €", "-7e3", "10.0.0.1", "12kg")]
    [True, True, False, False]
    """
    return _LIKE_NUMBERS.fullmatch(text) is not None


def formats_like(texts: Iterable[str]) -> list[str]:
    """Return in which ways numbers may be written, by the first text that has a clear unit.

    Examples
    --------
    >>> formats_like(["12.5 %"])
    ['1,234.5%', '1.234,5%']
    """
    found = next((m for t in texts if (m := _DRESSED.fullmatch(t))), None)
    before, after = found.groups() if found else ("", "")
    return [f"{before}{core}{after}" for core in _SEPARATORS]


def amount(text: str, how: str) -> float:
    """Return the number that a text stands for, NaN where it is written in another way.

    Examples
    --------
    >>> amount("-€1,234.50", "€1,234.5"), amount("1.234,5", "1.234,5"), amount("7", "1,234.5%")
    (-1234.5, 1234.5, nan)
    """
    pattern, thousands, decimal = _pattern(how)
    found = pattern.fullmatch(text.strip())
    if found is None or (found[1] and found[2]):  # two signs
        return math.nan
    return float(found[1] + found[2] + found[3].replace(thousands, "").replace(decimal, "."))


@cache
def _pattern(how: str) -> tuple[re.Pattern[str], str, str]:
    cores = [core for core in _SEPARATORS if core in how]
    if len(cores) != 1:
        raise ValueError(f"numbers are not written like {how!r}")
    before, _, after = how.partition(cores[0])
    thousands, decimal = _SEPARATORS[cores[0]]
    # Money has no three decimals: before three digits the mark is one of thousands.
    short = r"(?!\d{3}(?!\d))" if any(c in _MONEY for c in before + after) else ""
    number = (
        rf"(?:[1-9]\d{{0,2}}(?:{re.escape(thousands)}\d{{3}})+|\d+)"
        rf"(?:{re.escape(decimal)}{short}\d+)?(?:[eE][+-]?\d+)?"
    )
    pattern = rf"([+-]?)\s*{re.escape(before)}\s*([+-]?)({number})\s*{re.escape(after)}"
    return re.compile(pattern), thousands, decimal
