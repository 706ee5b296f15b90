"""Tallies: which rows a metric counts, and with what weight.

Every metric is a function of TP, FP, P and N. A tally says how these are counted: all rows alike,
each row with its amount (*how much money* was caught), or only the rows of a segment or a period.
A goal whose metrics use several tallies has a short vector of counts, one entry for each; one sort
of the scores gives all of them at every cut.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from setpoint.errors import GoalError

_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*")
_PLAIN_VALUE = re.compile(r"[^\s,=\[\]()'\"]+")


@dataclass(frozen=True)
class Tally:
    """A way to count rows; without any attribute, all rows count alike.

    Attributes
    ----------
    amount : str
        The amounts with which rows count, by the name of their column or array.
    segment : str
        The column of segments; only the rows in which it is ``value`` count.
    period : str
        The kind of period, e.g. "day"; only the rows of the period ``value`` count.
    value : str
        The value of the segment or period, as text.
    """

    amount: str = ""
    segment: str = ""
    period: str = ""
    value: str = ""

    def __str__(self) -> str:
        where = f"{quoted_name(self.segment)}={quoted_value(self.value)}" if self.segment else ""
        if self.period:  # "day 17" and "week of 2024-02-26" name their kind themselves
            named = self.value.startswith(f"{self.period} ")
            where = self.value if named else f"{self.period} {self.value}"
        amount = quoted_name(self.amount) if self.amount else ""
        return ", ".join(filter(None, [amount, where]))

    @property
    def rows(self) -> Tally:
        """The tally that counts the same rows alike."""
        return replace(self, amount="")

    def within(self, other: Tally) -> Tally:
        """Return the tally of the rows that both count, with the amounts of either."""
        if (self.amount and other.amount) or (self.value and other.value):
            raise GoalError(f"[{self}] and [{other}] cannot be combined; keep one of them.")
        return Tally(
            self.amount or other.amount,
            self.segment or other.segment,
            self.period or other.period,
            self.value or other.value,
        )


PLAIN = Tally()


def quoted_name(name: str) -> str:
    """Return the name of a column as the goal language writes it."""
    return name if _PLAIN_NAME.fullmatch(name) else _in_quotes(name)


def quoted_value(value: str) -> str:
    """Return the value of a segment as the goal language writes it."""
    return value if _PLAIN_VALUE.fullmatch(value) else _in_quotes(value)


def unquoted(text: str) -> str:
    """Return a name or value without its quotes; a quote inside them is doubled."""
    text = text.strip()
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1].replace(2 * text[0], text[0])
    return text


def split_outside_quotes(text: str, separator: str) -> list[str]:
    """Return the parts of a text between separators that are not in quotes."""
    parts, quote = [""], ""
    for character in text:
        if character == separator and not quote:
            parts.append("")
            continue
        if character in "'\"" and quote in ("", character):
            quote = "" if quote else character
        parts[-1] += character
    return parts


def parse_tally(text: str) -> Tally:
    """Return the tally in brackets after a metric: ``amount``, ``region=north``, or both."""
    found = PLAIN
    for part in split_outside_quotes(text, ","):
        name, *value = (unquoted(p) for p in split_outside_quotes(part, "="))
        if not name or len(value) > 1 or (value and not value[0]):
            raise GoalError(
                f"[{text}]: write the name of the amounts, or column=value, e.g. "
                "recall[amount] or precision[region=north]."
            )
        own = Tally(segment=name, value=value[0]) if value else Tally(amount=name)
        found = found.within(own)
    return found


def _in_quotes(text: str) -> str:
    quote = "'" if '"' in text and "'" not in text else '"'
    return f"{quote}{text.replace(quote, 2 * quote)}{quote}"
