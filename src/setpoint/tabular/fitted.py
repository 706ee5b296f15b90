"""A fitted model and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from setpoint.tabular.model import Floats, TableModel
from setpoint.tabular.parts import Rows
from setpoint.tabular.smells import Smell

if TYPE_CHECKING:
    from setpoint.operating_point import OperatingPoint


@dataclass(frozen=True)
class TestRows:
    """Rows that no part of a model has seen: their numbers, labels and scores."""

    rows: Rows
    y: NDArray[np.bool_]
    scores: Floats

    __test__ = False  # no test, whatever its name begins with


@dataclass(frozen=True)
class Ordinary:
    """What most people would do: logistic regression on the same columns, cut at 0.5.

    ``scores`` are its probabilities for the test rows.
    """

    name: str
    scores: Floats
    threshold: float


@dataclass(frozen=True)
class FittedTable:
    """A model, and what is known of it.

    Attributes
    ----------
    model : TableModel
        The model.
    test : TestRows or None
        The rows that were kept apart, and their scores; None where none were.
    test_point : OperatingPoint or None
        What the threshold does on them.
    baseline : Ordinary or None
        Ordinary logistic regression on them.
    smells : list of Smell
        Signs that a column or row tells what will not be known of new cases.
    notes : list of str
        What a person should know.
    """

    model: TableModel
    test: TestRows | None
    test_point: OperatingPoint | None
    baseline: Ordinary | None
    smells: list[Smell]
    notes: list[str]
