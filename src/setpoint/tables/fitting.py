"""From a table to a fitted model, tested on rows that were kept apart."""

from __future__ import annotations

import time as clock
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.imports import need
from setpoint._internal.validation import check_fraction, did_you_mean, listed
from setpoint.data.label_columns import read_target
from setpoint.data.splits import certifying_split
from setpoint.data.values import given, uncategorised
from setpoint.errors import PartsError, SchemaError, SetpointError
from setpoint.goals.goal import Goal
from setpoint.tables.classifiers import (
    TRAINED,
    check_device,
    check_model,
    make_classifier,
    takes_raw_columns,
)
from setpoint.tables.encoder import TEXT_FEATURES, encode, fit_encoder, make_encoder
from setpoint.tables.leakage import find_smells
from setpoint.tables.model import TableModel, above_threshold
from setpoint.tables.parts import Rows, newest, part_rows, times_of
from setpoint.tables.results import FittedTable, TestRows, ordinary
from setpoint.tables.schema import Schema

if TYPE_CHECKING:
    from setpoint.thresholds.operating_point import OperatingPoint


_CERTIFYING, _JUDGING = 0.3, 0.25
_FEWEST = 10  # of either class; with fewer, chance would choose


def fit_table(
    frame: Any,
    target: str,
    goal: str | Goal,
    *,
    positive: Any = None,
    model: str = "linear",
    confidence: float | None = None,
    group: str | None = None,
    time: str | None = None,
    test: float = 0.2,
    drop: Sequence[str] = (),
    text_features: int = TEXT_FEATURES,
    random_state: int = 0,
    device: Any = "auto",
    callback: Any = None,
    checkpoint: str | Path | None = None,
) -> FittedTable:
    """Train a model on a table.

    Columns of the target, the groups and the times are no features. With ``confidence`` some of the
    training rows certify, and neither the features nor the classifier are fitted on them.

    Parameters
    ----------
    frame : DataFrame
        Columns of any kind, the labels among them.
    target : str
        The column of the labels.
    goal : str or Goal
        What to train for, e.g. ``"max recall s.t. precision >= 0.9"``.
    positive : optional
        The positive label; see :func:`read_target`.
    model : str
        One of ``MODELS``.
    confidence : float, optional
        How surely the constraints must hold on new data.
    group : str, optional
        A column; rows of one group are never parted.
    time : str, optional
        A column of dates or growing numbers: later rows test and certify, and set the threshold.
    test : float
        The share of rows that are kept for a final test; 0 keeps none.
    drop : sequence of str
        Columns that are not to be used.
    text_features : int
        How many features a column of free text becomes.
    random_state : int
        Seed of all randomness.
    device, callback, checkpoint : optional
        For the models that are trained for the goal; as of :class:`SetpointClassifier`.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.datasets import load_breast_cancer
    >>> table = load_breast_cancer(as_frame=True).frame
    >>> fitted = fit_table(table, "target", "max recall s.t. precision >= 0.95", positive=0)
    >>> fitted.model.predict(table.head(2))["alarm"].tolist()
    [True, True]
    """
    begun = clock.perf_counter()
    goal = Goal.parse(goal)
    check_model(model)
    check_device(device, model)
    if checkpoint is not None and model not in TRAINED:
        raise SetpointError(
            f"a checkpoint is for the models {' and '.join(TRAINED)}, not for {model!r}."
        )
    if confidence is not None:
        check_fraction(confidence, "confidence")
    aside = roles_of(list(frame.columns), target, group, time, drop)
    labels = read_target(frame[target], positive)
    schema = Schema.of(frame, aside)
    table = _Table(
        labels.y,
        schema.check(frame),
        None if group is None else _groups(frame[group]),
        None if time is None else times_of(frame[time]),
        random_state,
    )
    parts = part_rows(
        len(table.y), table.y, test=test, group=table.groups, time=table.times,
        random_state=random_state,
    )  # fmt: skip
    seen, certifying = table.certifying(parts.train, confidence)
    _check_counts(table.y[seen])
    schema = schema.counted(table.rows.iloc[seen])
    encoder = make_encoder(
        schema, text_features=text_features, for_trees=takes_raw_columns(model),
        random_state=random_state,
    )  # fmt: skip
    fit_encoder(encoder, table.rows.iloc[seen])
    place, judging = _Places(parts.train), table.judging(seen)
    classifier = make_classifier(
        model, goal, schema, confidence=confidence,
        certification=0.3 if certifying is None else place.pair(seen, certifying),
        judging=None if judging is None else place.pair(*judging),
        random_state=random_state, callback=callback,
    )  # fmt: skip
    groups = None if table.groups is None else table.groups[parts.train]
    features = encode(encoder, table.rows.iloc[parts.train])
    if model in TRAINED:
        classifier.device, classifier.checkpoint = device, checkpoint
    classifier.fit(features, table.y[parts.train], groups=groups)
    if model in TRAINED:  # both are of this machine, and not of the model
        classifier.device, classifier.checkpoint = "auto", None
    facts = {
        "model": model, "rows": len(table.y), "positives": int(table.y.sum()),
        "training rows": len(parts.train), "test rows": len(parts.test),
        "certifying rows": 0 if certifying is None else len(certifying),
        "columns": len(schema.columns), "features": features.shape[1],
        "group": group, "time": time, "random_state": random_state,
        "seconds": round(clock.perf_counter() - begun, 1),
    }  # fmt: skip
    fitted = TableModel(
        schema, encoder, classifier, target, labels.negative, labels.positive, facts
    )
    notes = [labels.note] if labels.note else []
    notes += [*schema.notes, *notes_of_parts(group, time, certifying is not None)]
    if time is not None and judging is None:
        notes.append(
            "Too few rows of one label are new; the threshold was set on rows of all times."
        )
    judged = (seen, certifying) if certifying is not None else judging
    smells = find_smells(table.rows, table.y, schema, parts, judged, table.groups)
    if not len(parts.test):
        return FittedTable(fitted, None, None, None, smells, notes)
    scores = above_threshold(classifier, encode(encoder, table.rows.iloc[parts.test]))
    tested = TestRows(
        parts.test,
        table.y[parts.test],
        scores,
        None if table.groups is None else table.groups[parts.test],
    )
    if takes_raw_columns(model):  # whose features logistic regression cannot take
        encoder = make_encoder(schema, text_features=text_features, random_state=random_state)
        fit_encoder(encoder, table.rows.iloc[seen])
        features = encode(encoder, table.rows.iloc[parts.train])
    baseline, tuned = ordinary(
        features, table.y[parts.train], groups, encode(encoder, table.rows.iloc[parts.test]), goal,
        None if judged is None else place.pair(*judged), random_state,
    )  # fmt: skip
    return FittedTable(fitted, tested, _point(tested, goal), baseline, smells, notes, tuned)


@dataclass(frozen=True)
class _Table:
    """The rows of a fit: labels, checked columns, groups and times."""

    y: NDArray[np.bool_]
    rows: Any
    groups: NDArray[np.intp] | None
    times: NDArray[np.float64] | None
    seed: int

    def certifying(self, train: Rows, confidence: float | None) -> tuple[Rows, Rows | None]:
        """Return the training rows that a model may see, and those that certify it."""
        if confidence is None:
            return train, None
        own = None if self.groups is None else self.groups[train]
        split: Any = _CERTIFYING
        if self.times is not None:
            place = _Places(train)
            split = place.pair(*newest(train, self.times, self.groups, _CERTIFYING))
        seen, certifying = certifying_split(split, self.y[train], None, own, self.seed)
        return train[seen], train[certifying]

    def judging(self, seen: Rows) -> tuple[Rows, Rows] | None:
        """Return older rows that train and newer ones that set the threshold, if enough."""
        if self.times is None:
            return None
        parts = newest(seen, self.times, self.groups, _JUDGING)
        counts = [np.bincount(self.y[rows], minlength=2).min() for rows in parts]
        return parts if min(counts) >= _FEWEST else None


class _Places:
    """Where rows of the table are among the training rows."""

    def __init__(self, train: Rows) -> None:
        self._train = train

    def pair(self, first: Rows, second: Rows) -> list[tuple[Rows, Rows]]:
        """Return a pair of rows, as a splitter would yield it."""
        return [(np.searchsorted(self._train, first), np.searchsorted(self._train, second))]


def roles_of(
    names: list[str], target: str, group: str | None, time: str | None, drop: Sequence[str]
) -> dict[str, str]:
    """Return which columns are no features, and why."""
    roles: dict[str, Sequence[str | None]] = {
        "the target": [target],
        "the group": [group],
        "the time": [time],
        "dropped": drop,
    }
    aside: dict[str, str] = {}
    for role, columns in roles.items():
        for name in columns:
            if name is None:
                continue
            if name not in names:
                raise SchemaError(
                    f"there is no column {name!r} ({role}); the table has {listed(names)}."
                    f"{did_you_mean(name, names)}"
                )
            if aside.get(name) == "the target":
                raise SchemaError(f"the column {name!r} is the target and cannot be {role} too.")
            aside.setdefault(name, role)
    return aside


def _groups(series: Any) -> NDArray[np.intp]:
    pd = need("pandas", "cli", "a table")
    told = given(series)
    if not told.all():
        row = int(np.flatnonzero(~told)[0])
        raise PartsError(
            f"{int((~told).sum()):,} groups in {str(series.name)!r} are missing, the first in row "
            f"{row + 1:,}; give such rows groups of their own, or drop them."
        )
    return np.asarray(pd.factorize(uncategorised(series))[0], dtype=np.intp)


def _check_counts(y: NDArray[np.bool_]) -> None:
    for count, name in ((int(y.sum()), "positive"), (int((~y).sum()), "negative")):
        if count < 2:
            raise PartsError(
                f"of the {len(y):,} rows to train on, {count} {'is' if count == 1 else 'are'} "
                f"{name}, and there must be 2 or more; use more labelled rows, or keep fewer for "
                "the test and the certificate."
            )


def notes_of_parts(group: str | None, time: str | None, certified: bool) -> list[str]:
    """Return what a person should know of how rows were parted."""
    notes = []
    if time is not None and group is not None:
        notes.append(
            f"Whole groups of {group!r} were kept for the test: those whose last row, by {time!r}, "
            "is the newest."
        )
    if time is not None and certified:
        notes.append(
            f"The certificate comes from the newest training rows by {time!r}. It holds for cases "
            "like those; if things change with time, nothing is promised, and the test rows, which "
            "are newer still, show how much they did."
        )
    return notes


def _point(tested: TestRows, goal: Goal) -> OperatingPoint:
    from setpoint.thresholds.operating_point import evaluate_threshold

    return evaluate_threshold(tested.y, tested.scores, 0.0, goal, on="the test rows")
