"""Which labels of a column in files are positive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from setpoint.streams._columns import kind_of
from setpoint.streams._table_files import Part
from setpoint.tabular.errors import TargetError, listed, nearest
from setpoint.tabular.target import same

_ROWS = 1 << 20


class TableLabels:
    """The two labels of a target column.

    Without a name for the positive one they are 0 and 1, or booleans, and need not be looked for.
    Otherwise the whole column is read once, so that every process knows both.
    """

    def __init__(self, parts: Sequence[Part], target: str, positive: Any) -> None:
        self.target = target
        self.positive: Any = 1 if positive is None else positive
        self.negative: Any = None
        self._named = positive is not None
        if not self._named:
            self.negative = 0
        elif kind_of(parts[0].types[target]) == "boolean":
            self._choose([False, True])
        else:
            self._choose(self._search(parts))

    def is_positive(self, label: Any) -> bool | None:
        """Whether a label is positive; None where it is neither of the two."""
        if same(label, self.positive):
            return True
        return False if self.negative is not None and same(label, self.negative) else None

    @property
    def known(self) -> str:
        """What to say of a label that is neither."""
        if self._named:
            return f"the labels are {self.negative!r} and {self.positive!r}."
        return "labels are 0 and 1, or else name the positive one (positive=...)."

    def _search(self, parts: Sequence[Part]) -> list[Any]:
        """Return all labels; three are enough to know that there are too many."""
        found: list[Any] = []
        for part in parts:
            every = range(len(part.group_rows))
            for _, batch in part.batches(every, [self.target], _ROWS):
                for label in batch.column(0).unique().to_pylist():
                    # Missing labels are refused with their row when it is read.
                    missing = label is None or label != label or str(label).strip() == ""
                    if not missing and not any(same(label, other) for other in found):
                        found.append(label.strip() if isinstance(label, str) else label)
                if len(found) > 2:
                    return found
        return found

    def _choose(self, labels: list[Any]) -> None:
        if len(labels) > 2:
            raise TargetError(
                f"the target {self.target!r} holds more than two different values: "
                f"{listed(labels)}. If one of them is the important one, make a column that says "
                "whether a row is of it; drop rows that are of neither kind."
            )
        match = [label for label in labels if same(label, self.positive)]
        if not match:
            raise TargetError(
                f"the positive label {self.positive!r} does not occur in {self.target!r}; "
                f"{listed(labels)} do.{nearest(self.positive, labels)}"
            )
        self.positive = match[0]
        self.negative = next((label for label in labels if label != match[0]), None)
