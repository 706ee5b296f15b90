"""A fitted model and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from setpoint.tabular.model import Floats, TableModel
from setpoint.tabular.parts import Rows
from setpoint.tabular.smells import Smell

if TYPE_CHECKING:
    from setpoint.operating_point import OperatingPoint


@dataclass(frozen=True)
class TestRows:
    """Rows that no part of a model has seen: their numbers, labels, scores and groups."""

    rows: Rows
    y: NDArray[np.bool_]
    scores: Floats
    groups: NDArray[Any] | None = None

    __test__ = False  # no test, whatever its name begins with


@dataclass(frozen=True)
class Ordinary:
    """Logistic regression on the same columns, and where its probabilities are cut.

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
        What most people would do: logistic regression, cut at 0.5.
    tuned : Ordinary or None
        The same regression, cut where it is best for the goal on training rows that were kept from
        it: those that set the model's threshold, where these are known. None also where there are
        too few rows for that.
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
    tuned: Ordinary | None = None
