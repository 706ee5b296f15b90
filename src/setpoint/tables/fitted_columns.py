"""What models of tables share: their columns, encoder and facts, and checks of their parts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from setpoint._internal.imports import OptionalModule
from setpoint.errors import ModelFileError, SetpointError
from setpoint.tables.classifiers import Floats
from setpoint.tables.encoder import encode
from setpoint.tables.schema import Schema
from setpoint.tables.scoring import UnseenValues

pd = OptionalModule("pandas", "cli", "a table")


class FittedColumns:
    """The columns of a fitted model, the encoder of its features, and facts about training."""

    schema: Schema
    encoder: Any
    facts: Mapping[str, Any]

    @property
    def group(self) -> str | None:
        """The column of the groups, if there was one."""
        name = self.facts.get("group")
        return None if name is None else str(name)

    @property
    def time(self) -> str | None:
        """The column of the times, if there was one."""
        name = self.facts.get("time")
        return None if name is None else str(name)

    def features(self, frame: Any, *, ignore_extra: bool = False, first_row: int = 0) -> Floats:
        """Return the features of rows; parameters as in :meth:`Schema.check`."""
        checked = self.schema.check(frame, ignore_extra=ignore_extra, first_row=first_row)
        return encode(self.encoder, checked)

    def unseen_values(self, frame: Any, *, ignore_extra: bool = False) -> list[str]:
        """Return a sentence for each column with values that training has not seen.

        These are new levels of categories and new texts for missing values, with their counts, and
        columns that are missing much more often than in training.
        """
        found = UnseenValues(self.schema, self.encoder)
        found.add(self.schema.check(frame, ignore_extra=ignore_extra), frame)
        return found.notes


def check_numbers(scores: Floats, first_row: int) -> None:
    """Raise SetpointError if some scores of a model are NaN."""
    missing = np.isnan(scores) if scores.ndim == 1 else np.isnan(scores).any(axis=1)
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise SetpointError(
            f"the model has no score for row {first_row + row + 1:,} "
            f"({int(missing.sum()):,} such): it is not a number. The model is damaged; fit it "
            "again."
        )


def check_parts(model: FittedColumns, score: Callable[[Any], object]) -> None:
    """Raise ModelFileError unless the parts of a loaded model can score a row of missing values.

    ``score`` takes the row as :meth:`Schema.check` returns it.
    """
    row = pd.DataFrame({name: [None] for name in model.schema.names})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.unseen_values(row)
            score(model.schema.check(row))
    except ImportError:  # a missing extra, which it names
        raise
    except Exception as error:  # anything that mismatched parts may raise
        raise ModelFileError(
            f"the columns, encoder and classifier of the model do not fit each other "
            f"({type(error).__name__}: {error}); the file is damaged, or was written with other "
            "versions of libraries."
        ) from error
