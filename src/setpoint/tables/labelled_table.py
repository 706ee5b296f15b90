"""The rows of a table that is fitted: their roles, splits, features and facts."""

from __future__ import annotations

import time as clock
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.imports import OptionalModule
from setpoint.data.splits import (
    CERTIFICATION_FRACTION,
    FEWEST,
    VALIDATION_FRACTION,
    Rows,
    Split,
    certification_split,
    newest_split,
)
from setpoint.data.values import check_present, without_categories
from setpoint.errors import SplitError
from setpoint.tables.classifiers import Floats
from setpoint.tables.encoder import encode, fit_encoder, make_encoder
from setpoint.tables.fitted_columns import FittedColumns
from setpoint.tables.kinds import times_of
from setpoint.tables.schema import Schema

pd = OptionalModule("pandas", "cli", "a table")


@dataclass(frozen=True)
class LabelledTable:
    """The rows of a fit: labels, checked columns, groups and times.

    ``y`` is true for positive rows; where rows have several labels, for those with any.
    """

    y: NDArray[np.bool_]
    rows: Any
    groups: NDArray[np.intp] | None
    times: NDArray[np.float64] | None
    seed: int

    @classmethod
    def of(
        cls,
        frame: Any,
        y: NDArray[np.bool_],
        schema: Schema,
        group: str | None,
        time: str | None,
        seed: int,
    ) -> LabelledTable:
        """Check the columns of a data frame."""
        return cls(
            y,
            schema.check(frame),
            None if group is None else _group_codes(frame[group]),
            None if time is None else times_of(frame[time]),
            seed,
        )

    def split_certification(
        self, train: Rows, confidence: float | None
    ) -> tuple[Rows, Rows | None]:
        """Split training rows into those to train on and certification rows."""
        if confidence is None:
            return train, None
        split: Any = CERTIFICATION_FRACTION
        if self.times is not None:
            split = as_splitter(
                train, *newest_split(train, self.times, self.groups, CERTIFICATION_FRACTION)
            )
        first, second = certification_split(
            split, self.y[train], None, self.groups_of(train), self.seed
        )
        return train[first], train[second]

    def split_validation(
        self, rows: Rows, labels: NDArray[np.bool_] | None = None
    ) -> tuple[Rows, Rows] | None:
        """Return older training rows and newer validation rows; None if there are too few.

        Each of ``labels``, by default ``y``, needs rows of both classes in both sets. There may be
        a column for each of several labels; those of one class in all rows are not counted.
        """
        if self.times is None:
            return None
        labels = self.y if labels is None else labels
        split = newest_split(rows, self.times, self.groups, VALIDATION_FRACTION)
        if labels.ndim == 2:
            labels = labels[:, labels[rows].any(axis=0) & ~labels[rows].all(axis=0)]
        for half in split:
            positives = labels[half].sum(axis=0)
            if np.min(np.minimum(positives, len(half) - positives)) < FEWEST:
                return None
        return split

    def groups_of(self, rows: Rows) -> NDArray[np.intp] | None:
        """Return the groups of some rows, if there are groups."""
        return None if self.groups is None else self.groups[rows]

    def fitted_encoder(
        self, schema: Schema, rows: Rows, text_features: int, for_trees: bool
    ) -> Any:
        """Return an encoder of the columns that is fitted on some rows."""
        encoder = make_encoder(
            schema, text_features=text_features, for_trees=for_trees, random_state=self.seed
        )
        return fit_encoder(encoder, self.rows.iloc[rows])

    def features(self, encoder: Any, rows: Rows) -> Floats:
        """Return the features of some rows."""
        return encode(encoder, self.rows.iloc[rows])


def as_splitter(train: Rows, first: Rows, second: Rows) -> list[tuple[Rows, Rows]]:
    """Return two sets of rows by their positions in ``train``, as a splitter would yield them."""
    return [(np.searchsorted(train, first), np.searchsorted(train, second))]


def split_options(
    train: Rows, training: Rows, certification: Rows | None, validation: tuple[Rows, Rows] | None
) -> dict[str, Any]:
    """Return the splits of the training rows as parameters of an estimator."""
    return {
        "certification": (
            CERTIFICATION_FRACTION
            if certification is None
            else as_splitter(train, training, certification)
        ),
        "validation": None if validation is None else as_splitter(train, *validation),
    }


def facts_of_fit(
    model: str,
    counted: Mapping[str, int],
    split: Split,
    certification: Rows | None,
    schema: Schema,
    features: Floats,
    options: Mapping[str, Any],
    started: float,
) -> dict[str, Any]:
    """Return facts about training; ``counted`` are numbers of rows and labels."""
    return {
        "model": model, **counted,
        "training rows": len(split.train) - (0 if certification is None else len(certification)),
        "test rows": len(split.test),
        "certifying rows": 0 if certification is None else len(certification),
        "columns": len(schema.columns), "features": features.shape[1], **options,
        "seconds": round(clock.perf_counter() - started, 1),
    }  # fmt: skip


def notes_on_fit(
    fitted: FittedColumns, label_note: str, certified: bool, validated_by_time: bool
) -> list[str]:
    """Return notes on the labels, the columns and how the rows were split."""
    notes = [*filter(None, [label_note]), *fitted.schema.notes]
    group, time = fitted.facts["group"], fitted.facts["time"]
    if time is None:
        return notes
    if group is not None:
        notes.append(
            f"Whole groups of {group!r} are test rows: those whose last row, by {time!r}, is the "
            "newest."
        )
    if certified:
        notes.append(
            f"The certificate is based on the newest training rows by {time!r} and holds for cases "
            "like them. It does not cover changes over time; the test rows, which are newer still, "
            "show how large these were."
        )
    if not validated_by_time:
        notes.append(
            "There are too few new rows of one label; the threshold was set on rows of all times."
        )
    return notes


def _group_codes(series: Any) -> NDArray[np.intp]:
    """Return the number of each row's group; none may be missing."""
    remedy = "assign such rows to groups of their own, or drop them."
    check_present(series, "groups", SplitError, remedy)
    return np.asarray(pd.factorize(without_categories(series))[0], dtype=np.intp)
