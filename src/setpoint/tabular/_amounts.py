"""Numbers as people write them: with thousands, decimal commas, a currency or a per cent sign.

How a column writes them is kept as an example, such as ``€1,234.5`` or ``1.234,5``.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache

_MONEY = "€$£¥"
_SEPARATORS = {"1,234.5": (",", "."), "1.234,5": (".", ",")}  # of thousands and of decimals
_DRESSED = re.compile(rf"[+-]?\s*([{_MONEY}]?)\s*[+-]?[\d.,]+\s*([%{_MONEY}]?)")
_BARE = r"(?:(?:\d{1,3}(?:[.,'\s]\d{3})+|\d+)(?:[.,]\d+)?|[.,]\d+)(?:[eE][+-]?\d+)?"
_LIKE_NUMBERS = re.compile(rf"[+-]?\s*[{_MONEY}]?\s*[+-]?{_BARE}\s*[%{_MONEY}]?")
_ZERO = re.compile(r"[+-]?0(?:[.,]0+)?")  # the same in every unit
_CURRENCIES = (
    "USD|EUR|GBP|CHF|JPY|CNY|SEK|NOK|DKK|PLN|CZK|HUF|RON|TRY|RUB|UAH|ILS|INR|KRW|SGD|HKD|THB|IDR|"
    "AUD|NZD|CAD|MXN|BRL|ZAR|NGN|KES|EGP|AED|SAR|Rs\\.?|kr\\.?|R\\$|US\\$"
)
_IN_WORDS = re.compile(
    rf"[+-]?\s*({_CURRENCIES})?\s*[+-]?{_BARE}\s*([^\W\d_]{{1,8}}[²³]?(?:/[^\W\d_]{{1,4}})?|°[CF]?)?"
    rf"|(\()\s*[{_MONEY}]?\s*{_BARE}\s*\)"
)


def looks_like_number(text: str) -> bool:
    """Whether a text is perhaps a number, in whatever way it is written.

    Examples
    --------
    >>> [looks_like_number(t) for t in ("1'234,50 €", "-7e3", "10.0.0.1", "12kg")]
    [True, True, False, False]
    """
    return _LIKE_NUMBERS.fullmatch(text) is not None


def unit_in_words(text: str) -> str | None:
    """Return the unit that a number has in letters, ``(`` for brackets, or None if it is no number.

    Examples
    --------
    >>> [unit_in_words(t) for t in ("USD 9.12", "12.5 kg", "(12.50)", "7", "E885.9")]
    ['USD', 'kg', '(', '', None]
    """
    found = _IN_WORDS.fullmatch(text)
    return None if found is None else "".join(part or "" for part in found.groups())


def has_unit(how: str | None) -> bool:
    """Whether numbers are written with a currency or a per cent sign.

    Examples
    --------
    >>> has_unit("1,234.5%"), has_unit("1,234.5"), has_unit(None)
    (True, False, False)
    """
    return how is not None and any(c in _MONEY + "%" for c in how)


def without_units(text: str) -> str:
    """Return a text without the signs of currencies and per cent."""
    return "".join(c for c in text if c not in _MONEY + "%").strip()


def formats_like(texts: Iterable[str]) -> list[str]:
    """Return in which ways numbers may be written, by the unit that most texts have.

    Examples
    --------
    >>> formats_like(["12.5 %"])
    ['1,234.5%', '1.234,5%']
    """
    found = (_DRESSED.fullmatch(t) for t in texts if not _ZERO.fullmatch(t))
    units = Counter(m.groups() for m in found if m)
    before, after = units.most_common(1)[0][0] if units else ("", "")
    return [f"{before}{core}{after}" for core in _SEPARATORS]


def amount(text: str, how: str) -> float:
    """Return the number that a text stands for, NaN where it is written in another way.

    A plain 0 is 0 in every way.

    Examples
    --------
    >>> amount("-€1,234.50", "€1,234.5"), amount("1.234,5", "1.234,5"), amount("7", "1,234.5%")
    (-1234.5, 1234.5, nan)
    """
    pattern, thousands, decimal = _pattern(how)
    found = pattern.fullmatch(text := text.strip())
    if found is None or (found[1] and found[2]):  # two signs
        return 0.0 if _ZERO.fullmatch(text) else math.nan
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
