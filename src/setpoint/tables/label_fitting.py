"""From a table with several columns of labels to a fitted model, evaluated on test rows."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.validation import check_fraction, listed
from setpoint.certificates.multilabel import goals_to_certify
from setpoint.data.fingerprints import Fingerprints, row_hashes
from setpoint.data.several_targets import read_targets
from setpoint.data.splits import (
    Rows,
    Split,
    check_seed,
    newest_split,
)
from setpoint.errors import GoalError, SetpointError, SplitError
from setpoint.estimators.label_classifiers import LabelledMatrix
from setpoint.tables.classifiers import (
    label_scores,
    make_labels_classifier,
    takes_raw_columns,
)
from setpoint.tables.encoder import TEXT_FEATURES
from setpoint.tables.label_model import LabelsTableModel
from setpoint.tables.labelled_table import (
    LabelledTable,
    facts_of_fit,
    notes_on_fit,
    split_options,
)
from setpoint.tables.leakage import LeakageWarning, column_leakage, find_leakage
from setpoint.tables.model_options import check_label_goals
from setpoint.tables.schema import Schema, find_roles
from setpoint.thresholds.label_goals import Average, LabelGoals
from setpoint.thresholds.multilabel import MultilabelPoint

Matrix = NDArray[np.bool_]

_MOST_CHECKS = 1_000  # pairs of a column and a label that are checked for leakage


@dataclass(frozen=True)
class LabelTestRows:
    """Rows that played no part in training: their numbers, labels, scores and groups."""

    rows: Rows
    Y: Matrix
    scores: NDArray[np.float64]
    groups: NDArray[Any] | None = None


@dataclass(frozen=True)
class FittedLabels:
    """A model of several labels and its evaluation.

    Attributes
    ----------
    model : LabelsTableModel
        The model.
    test : LabelTestRows or None
        The test rows and their scores; None if there are none.
    test_point : MultilabelPoint or None
        The operating point of each label on the test rows.
    usual : MultilabelPoint or None
        The same at common thresholds, a probability of 0.5.
    leakage : list of LeakageWarning
        Signs that a column or row reveals what will not be known of new cases.
    notes : list of str
        Notes on how the table was read and split.
    """

    model: LabelsTableModel
    test: LabelTestRows | None
    test_point: MultilabelPoint | None
    usual: MultilabelPoint | None
    leakage: list[LeakageWarning]
    notes: list[str]


def check_label_options(
    targets: Sequence[str], goal: Any, average: Average, model: str, confidence: float | None
) -> LabelGoals:
    """Return the goals of the labels; raise an error if an option is invalid."""
    goals = check_label_goals(targets, goal, average, model)
    if confidence is not None:
        check_fraction(confidence, "confidence")
        goals_to_certify(goal, targets)
        if goals.average == "micro":
            raise GoalError(
                "a micro average is about the summed counts of all labels, which are not "
                "independent draws and cannot be certified; use --average macro, or leave out "
                "--confidence."
            )
    return goals


def fit_labels(
    frame: Any,
    targets: Sequence[str],
    goal: Any,
    *,
    average: Average = "macro",
    positive: Any = None,
    model: str = "logistic",
    confidence: float | None = None,
    group: str | None = None,
    time: str | None = None,
    test: float = 0.2,
    drop: Sequence[str] = (),
    text_features: int = TEXT_FEATURES,
    random_state: int = 0,
) -> FittedLabels:
    """Train a model of several labels on a table.

    The columns of the targets, groups and times are not features. With ``confidence``, some of the
    training rows are certification rows; neither the encoder nor a classifier is fitted on them.

    Parameters
    ----------
    frame : DataFrame
        Columns of any kind, including the labels.
    targets : sequence of str
        The columns of the labels; a row has the label of a column where it is positive there.
    goal : str, Goal, list or mapping
        The goal of all labels or of each, see :func:`setpoint.choose_thresholds`.
    average : {"macro", "micro", None}
        What is optimised, see :func:`setpoint.choose_thresholds`.
    positive : optional
        The positive label of all targets, or a list of them; see :func:`read_targets`.
    model : str
        One of ``MODELS`` that is not trained for the goal.
    confidence : float, optional
        Joint confidence of the certificates of all labels, e.g. 0.9; by default there are none.
    group, time, test, drop, text_features, random_state
        As in :func:`fit_table`.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> x = np.random.default_rng(0).normal(size=500)
    >>> table = pd.DataFrame({"x": x, "high": x > 1, "low": x < 0})
    >>> fitted = fit_labels(table, ["high", "low"], "max f1")
    >>> fitted.model.predict(table.head(2)).columns.tolist()
    ['high_score', 'high_alarm', 'low_score', 'low_alarm']
    """
    started = clock.perf_counter()
    targets = tuple(targets)
    check_label_options(targets, goal, average, model, confidence)
    roles = find_roles(list(frame.columns), targets, group, time, drop)
    found = read_targets(frame, targets, positive)
    Y = found.Y
    schema = Schema.of(frame, roles)
    table = LabelledTable.of(frame, np.asarray(Y.any(axis=1)), schema, group, time, random_state)
    split = _split_test(Y, test, table.groups, table.times, random_state)
    training, certification = table.split_certification(split.train, confidence)
    _check_classes(Y[training], targets)
    schema = schema.counted(table.rows.iloc[training])
    encoder = table.fitted_encoder(schema, training, text_features, takes_raw_columns(model))
    validation = table.split_validation(training, Y)
    classifier = make_labels_classifier(
        model, goal, schema, average=average, confidence=confidence,
        **split_options(split.train, training, certification, validation),
        random_state=random_state,
    )  # fmt: skip
    features = table.features(encoder, split.train)
    labelled = _named_matrix(Y[split.train], targets)
    classifier.fit(features, labelled, groups=table.groups_of(split.train))
    facts = facts_of_fit(
        model, {"rows": len(Y), "labels": len(targets)}, split, certification,
        schema, features, {"group": group, "time": time, "random_state": random_state}, started,
    )  # fmt: skip
    fitted = LabelsTableModel(
        schema, encoder, classifier, targets, found.labels, facts,
        Fingerprints.of(row_hashes(table.rows.iloc[split.train], Y[split.train])),
    )  # fmt: skip
    certified, by_time = certification is not None, validation is not None
    notes = [*found.notes, *notes_on_fit(fitted, "", certified, by_time)]
    threshold_rows = (training, certification) if certification is not None else validation
    leakage = list(_leakage(table, Y, targets, schema, split, threshold_rows, notes))
    if not len(split.test):
        return FittedLabels(fitted, None, None, None, leakage, notes)
    scores = label_scores(classifier, table.features(encoder, split.test))
    tested = LabelTestRows(
        split.test, Y[split.test], np.asarray(scores, dtype=np.float64),
        table.groups_of(split.test),
    )  # fmt: skip
    point = fitted.point_of(tested.Y, tested.scores, on="the test rows")
    usual = fitted.point_of(
        tested.Y, tested.scores, on="the test rows", thresholds=fitted.usual_thresholds
    )
    return FittedLabels(fitted, tested, point, usual, leakage, notes)


def _named_matrix(Y: Matrix, targets: Sequence[str]) -> Any:
    from setpoint._internal.imports import need

    return need("pandas", "cli", "a table").DataFrame(Y.astype(np.int64), columns=list(targets))


def _split_test(Y: Matrix, test: float, groups: Any, times: Any, seed: int) -> Split:
    """Hold out test rows: the newest, or random ones, stratified by the rarest label of a row."""
    n = len(Y)
    if not 0 <= test < 1:
        raise SplitError(
            f"the fraction of test rows must be at least 0 and less than 1, not {test}."
        )
    check_seed(seed)
    if test == 0:
        return Split(np.arange(n), np.arange(0))
    if times is not None:
        return newest_split(np.arange(n), times, groups, test)
    try:
        splits = LabelledMatrix(np.zeros((n, 1)), Y, None, groups, {}, None).splits(
            float(test), np.arange(n), seed
        )
    except (SetpointError, ValueError) as error:
        raise SplitError(
            f"{n:,} rows cannot be split into training and test rows: {error}"
        ) from error
    ((train, held_out),) = splits
    return Split(np.sort(train), np.sort(held_out))


def _check_classes(Y: Matrix, targets: Sequence[str]) -> None:
    """Raise SplitError unless some label has two positive and two negative training rows."""
    fewest = np.minimum(Y.sum(axis=0), (~Y).sum(axis=0))
    if fewest.max() < 2:
        raise SplitError(
            f"none of the targets {listed(targets)} has two positive and two negative rows among "
            f"the {len(Y):,} training rows; use more labelled rows, or smaller fractions of test "
            "and certification rows."
        )


def _leakage(
    table: LabelledTable,
    Y: Matrix,
    targets: Sequence[str],
    schema: Schema,
    split: Split,
    threshold_rows: tuple[Rows, Rows] | None,
    notes: list[str],
) -> Iterator[LeakageWarning]:
    """Yield signs of leakage about each label; those that concern all labels come once."""
    checked = max(1, min(len(targets), _MOST_CHECKS // len(schema.columns)))
    often = np.argsort(-Y.sum(axis=0), kind="stable")[:checked]
    if checked < len(targets):
        notes.append(
            f"Whether a column reveals a label was checked for the {checked:,} most frequent "
            f"of {len(targets):,} labels."
        )
    identifiers: set[str | None] = set()
    for i, place in enumerate(np.sort(often)):
        y = Y[:, place]
        # Equal rows and identifiers concern all labels and are found once.
        found = (
            find_leakage(table.rows, y, schema, split, threshold_rows, table.groups)
            if i == 0
            else column_leakage(table.rows, y, schema)
        )
        for sign in found:
            if sign.kind in ("label", "predictor", "missing"):
                yield replace(sign, message=f"For the label {targets[place]!r}: {sign.message}")
            elif sign.kind == "duplicates" or sign.column not in identifiers:
                identifiers.add(sign.column)
                yield sign
