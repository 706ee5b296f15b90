"""The values of the paper's tables.

Source: Peng, Travadi, He, Cui and Sun, "Exact Reformulation and Optimization for Direct Metric
Optimization in Binary Imbalanced Classification". Every number of its result tables is in
``paper_values.csv``, one per line, as printed.

- A value is the mean of ten trials with the population standard deviation (divided by n, not
  n - 1): eight ones and two zeros are printed as 0.800 ± 0.400.
- ``adjusted`` tells whether the threshold was adjusted after training: on the training rows, and in
  the three-split tables on the validation rows. The ablation table has no adjusted values.
- In the FROP half of the ablation table the columns named precision and recall contain recall and
  precision, as the main table shows; here every number has its correct name.
- The full method of the ablation is ``ero``; ``ssa`` replaces the indicator by a sigmoid, ``rcr``
  drops the regulariser, ``eq`` uses equality constraints for s.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

from setpoint.errors import SetpointError

KNOWN: dict[str, tuple[str, ...]] = {
    "table": ("fpor", "frop", "ofos", "fpor-alpha", "frop-alpha", "ablation", "three-split-fpor",
              "three-split-frop"),
    "kind": ("fpor", "frop", "ofos"),
    "part": ("train", "validation", "test"),
    "metric": ("precision", "recall", "f1"),
}  # fmt: skip

_Key = tuple[str, str, str, float | None, str, str, str, bool]


@dataclass(frozen=True)
class PaperValue:
    """Mean and standard deviation over the paper's ten trials."""

    mean: float
    deviation: float


@dataclass(frozen=True)
class PaperEntry:
    """One value of the paper's tables and its position; ``alpha`` is None for OFOS."""

    table: str
    dataset: str
    kind: str
    alpha: float | None
    method: str
    part: str
    metric: str
    adjusted: bool
    value: PaperValue


def paper_values() -> list[PaperEntry]:
    """Return all values of the paper's tables, in order."""
    return [PaperEntry(*key, value) for key, value in _index().items()]


def paper_value(
    table: str,
    dataset: str,
    kind: str,
    alpha: float | None,
    method: str,
    part: str,
    metric: str,
    adjusted: bool,
) -> PaperValue | None:
    """Return one value of the paper's tables.

    Returns None for data sets, methods and levels that the paper does not have; raises
    SetpointError for an unknown table, kind, part or metric.

    Parameters
    ----------
    table, kind, part, metric : str
        One of ``KNOWN[...]``.
    dataset : str
        ``"creditcard"``, ``"eyepacs"``, ``"ade"`` or ``"mura"``.
    alpha : float or None
        The goal's level, 0.9, 0.95 or 0.99; None for OFOS.
    method : str
        E.g. ``"wce"``, ``"tfco"``, ``"ero"``.
    adjusted : bool
        Before (False) or after (True) threshold adjustment.

    Examples
    --------
    >>> paper_value("fpor", "mura", "fpor", 0.9, "ero", "test", "recall", adjusted=True)
    PaperValue(mean=0.256, deviation=0.02)
    """
    given = {"table": table, "kind": kind, "part": part, "metric": metric}
    for name, value in given.items():
        if value not in KNOWN[name]:
            raise SetpointError(
                f"the paper has no {name} {value!r}; known: {', '.join(KNOWN[name])}."
            )
    # 1 - 0.05 is not exactly 0.95.
    level = None if alpha is None else round(float(alpha), 9)
    return _index().get((table, dataset, kind, level, method, part, metric, bool(adjusted)))


@cache
def _index() -> dict[_Key, PaperValue]:
    file = resources.files("setpoint.paper").joinpath("paper_values.csv")
    found: dict[_Key, PaperValue] = {}
    for row in csv.reader(file.read_text(encoding="utf-8").splitlines()[1:]):
        table, dataset, kind, alpha, method, part, metric, adjusted, mean, deviation = row
        level = float(alpha) if alpha else None
        key = (table, dataset, kind, level, method, part, metric, adjusted == "1")
        found[key] = PaperValue(float(mean), float(deviation))
    return found
