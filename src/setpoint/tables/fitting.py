"""From a table in memory to a fitted model, evaluated on held-out test rows.

:mod:`setpoint.tables.stream_fitting` does the same for tables that do not fit into memory.
"""

from __future__ import annotations

import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.imports import OptionalModule
from setpoint._internal.renamed import renamed_parameters
from setpoint._internal.validation import check_fraction, did_you_mean, listed
from setpoint.data.label_columns import read_target
from setpoint.data.splits import (
    CERTIFICATION_FRACTION,
    FEWEST,
    VALIDATION_FRACTION,
    Rows,
    certification_split,
    newest_split,
    split_rows,
)
from setpoint.data.values import check_present, without_categories
from setpoint.errors import SchemaError, SetpointError, SplitError
from setpoint.goals.bands import AnyGoal, BandGoal, parse_any_goal
from setpoint.goals.periods import period_codes
from setpoint.tables.classifiers import (
    TRAINED,
    Floats,
    above_threshold,
    check_device,
    check_model,
    check_model_for,
    fit_band_baseline,
    fit_baselines,
    make_classifier,
    takes_raw_columns,
)
from setpoint.tables.encoder import TEXT_FEATURES, encode, fit_encoder, make_encoder
from setpoint.tables.fitted_columns import FittedColumns
from setpoint.tables.goal_columns import check_named, goal_columns, take
from setpoint.tables.kinds import times_of
from setpoint.tables.leakage import LeakageWarning, find_leakage
from setpoint.tables.model import TableModel
from setpoint.tables.rules import rule_of
from setpoint.tables.schema import Schema

if TYPE_CHECKING:
    from setpoint.report.band_content import BandBaseline
    from setpoint.report.content import Baseline
    from setpoint.thresholds.bands import BandPoint
    from setpoint.thresholds.operating_point import OperatingPoint

pd = OptionalModule("pandas", "cli", "a table")


@dataclass(frozen=True)
class TestRows:
    """Rows that played no part in training: their numbers, labels, scores and groups.

    ``named`` are the amounts, segments and times that the goal names.
    """

    rows: Rows
    y: NDArray[np.bool_]
    scores: Floats
    groups: NDArray[Any] | None = None
    named: dict[str, Any] = field(default_factory=dict)

    __test__ = False  # pytest would take it for a test


@renamed_parameters(smells="leakage")
@dataclass(frozen=True)
class FittedTable:
    """A model and its evaluation.

    Attributes
    ----------
    model : TableModel
        The model.
    test : TestRows or None
        The test rows and their scores; None if there are none.
    test_point : OperatingPoint, BandPoint or None
        The operating point on the test rows.
    baseline : Baseline or None
        Common practice: logistic regression with threshold 0.5; None for a review band.
    leakage : list of LeakageWarning
        Signs that a column or row reveals what will not be known of new cases.
    notes : list of str
        Notes on how the table was read and split.
    tuned : Baseline, BandBaseline or None
        The same regression with the best threshold or band for the goal on held-out training rows:
        those that set the model's threshold, if these are known. None if there are too few rows.
    """

    model: TableModel
    test: TestRows | None
    test_point: OperatingPoint | BandPoint | None
    baseline: Baseline | None
    leakage: list[LeakageWarning]
    notes: list[str]
    tuned: Baseline | BandBaseline | None = None


def fit_table(
    frame: Any,
    target: str,
    goal: str | AnyGoal,
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
    decision: str = "threshold",
    thresholds: str = "one",
    caps: Mapping[str, float] | None = None,
) -> FittedTable:
    """Train a model on a table.

    The columns of the target, groups and times are not features. With ``confidence``, some of the
    training rows are certification rows; neither the encoder nor the classifier is fitted on them.

    Parameters
    ----------
    frame : DataFrame
        Columns of any kind, including the labels.
    target : str
        The column of the labels.
    goal : str, Goal or BandGoal
        The goal to train for, e.g. ``"max recall s.t. precision >= 0.9"``. One of a review band
        needs a model that is not trained for one threshold.
    positive : optional
        The positive label, or a list of labels that count as positive; see :func:`read_target`.
    model : str
        One of ``MODELS``.
    confidence : float, optional
        Confidence level of the certificate, e.g. 0.9; by default there is no certificate.
    group : str, optional
        A column; rows of one group stay in the same split.
    time : str, optional
        A column of dates or growing numbers: later rows are test, certification and validation
        rows.
    test : float
        The fraction of test rows; 0 for none.
    drop : sequence of str
        Columns to leave out.
    text_features : int
        The number of features of a column of free text.
    random_state : int
        Seed of all randomness.
    device, callback, checkpoint : optional
        As for :class:`SetpointClassifier`; only for models that are trained for the goal.
    decision, thresholds : optional
        As for :class:`SetpointThreshold`; only for the other models.
    caps : mapping of str to float, optional
        The largest amounts that rows can have, for certified bounds on costs.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.datasets import load_breast_cancer
    >>> table = load_breast_cancer(as_frame=True).frame
    >>> fitted = fit_table(table, "target", "max recall s.t. precision >= 0.95", positive=0)
    >>> fitted.model.predict(table.head(2))["alarm"].tolist()
    [True, True]
    """
    started = clock.perf_counter()
    goal = check_options(goal, model, confidence)
    check_device(device, model)
    check_model_for(goal, model, decision, thresholds, caps)
    if checkpoint is not None and model not in TRAINED:
        raise SetpointError(
            f"checkpoints are only for the models {' and '.join(TRAINED)}, not for {model!r}."
        )
    roles = find_roles(list(frame.columns), target, group, time, drop)
    check_named(goal, time, list(frame.columns))
    labels = read_target(frame[target], positive)
    schema = Schema.of(frame, roles)
    named = goal_columns(frame, goal, time)
    table = LabelledTable(
        labels.y,
        schema.check(frame),
        None if group is None else group_codes(frame[group]),
        None if time is None else _whole_periods(times_of(frame[time]), goal, named),
        random_state,
    )
    split = split_rows(
        len(table.y), table.y, test=test, group=table.groups, time=table.times,
        random_state=random_state,
    )  # fmt: skip
    training, certification = table.split_certification(split.train, confidence)
    _check_counts(table.y[training])
    schema = schema.counted(table.rows.iloc[training])

    def fitted_encoder(for_trees: bool) -> Any:
        encoder = make_encoder(
            schema, text_features=text_features, for_trees=for_trees, random_state=random_state
        )
        return fit_encoder(encoder, table.rows.iloc[training])

    encoder = fitted_encoder(takes_raw_columns(model))
    validation = table.split_validation(training)
    classifier = make_classifier(
        model, goal, schema, confidence=confidence,
        certification=(
            CERTIFICATION_FRACTION
            if certification is None
            else as_splitter(split.train, training, certification)
        ),
        validation=None if validation is None else as_splitter(split.train, *validation),
        random_state=random_state, callback=callback, decision=decision, thresholds=thresholds,
        caps=caps,
    )  # fmt: skip
    groups = None if table.groups is None else table.groups[split.train]
    features = encode(encoder, table.rows.iloc[split.train])
    if model in TRAINED:
        classifier.device, classifier.checkpoint = device, checkpoint
    train_named = take(named, split.train)
    classifier.fit(features, table.y[split.train], groups=groups, **train_named)
    if model in TRAINED:  # both belong to this machine, not to the model
        classifier.device, classifier.checkpoint = "auto", None
    facts = {
        "model": model, "rows": len(table.y), "positives": int(table.y.sum()),
        "training rows": len(split.train), "test rows": len(split.test),
        "certifying rows": 0 if certification is None else len(certification),
        "columns": len(schema.columns), "features": features.shape[1],
        "group": group, "time": time, "random_state": random_state,
        "seconds": round(clock.perf_counter() - started, 1),
    }  # fmt: skip
    fitted = TableModel(
        schema, encoder, classifier, target, labels.negative, labels.positive, facts,
        labels.positive_labels,
    )  # fmt: skip
    notes = notes_on_fit(fitted, labels.note, certification is not None, validation is not None)
    threshold_rows = (training, certification) if certification is not None else validation
    leakage = find_leakage(table.rows, table.y, schema, split, threshold_rows, table.groups)
    if not len(split.test):
        return FittedTable(fitted, None, None, None, leakage, notes)
    test_named = classifier.pooled(take(named, split.test))
    tested = TestRows(
        split.test,
        table.y[split.test],
        above_threshold(classifier, encode(encoder, table.rows.iloc[split.test]), test_named),
        None if table.groups is None else table.groups[split.test],
        test_named,
    )
    point = fitted.rule.evaluate(tested.y, tested.scores, "the test rows", tested.named)
    if takes_raw_columns(model):  # logistic regression does not accept such features
        encoder = fitted_encoder(for_trees=False)
        features = encode(encoder, table.rows.iloc[split.train])
    tuning = None if threshold_rows is None else as_splitter(split.train, *threshold_rows)
    test_features = encode(encoder, table.rows.iloc[split.test])
    if isinstance(goal, BandGoal):
        band = None
        if model != "logistic" or confidence is not None:  # otherwise it is the same
            band = fit_band_baseline(
                features, table.y[split.train], groups,
                lambda other: rule_of(other).evaluate(
                    tested.y, above_threshold(other, test_features), "the test rows", tested.named
                ),
                goal, tuning, random_state, train_named,
            )  # fmt: skip
        return FittedTable(fitted, tested, point, None, leakage, notes, band)
    baseline, tuned = fit_baselines(
        features, table.y[split.train], groups, test_features, goal, tuning, random_state,
        train_named,
    )  # fmt: skip
    return FittedTable(fitted, tested, point, baseline, leakage, notes, tuned)


@dataclass(frozen=True)
class LabelledTable:
    """The rows of a fit: labels, checked columns, groups and times."""

    y: NDArray[np.bool_]
    rows: Any
    groups: NDArray[np.intp] | None
    times: NDArray[np.float64] | None
    seed: int

    def split_certification(
        self, train: Rows, confidence: float | None
    ) -> tuple[Rows, Rows | None]:
        """Split training rows into those to train on and certification rows."""
        if confidence is None:
            return train, None
        groups = None if self.groups is None else self.groups[train]
        split: Any = CERTIFICATION_FRACTION
        if self.times is not None:
            split = as_splitter(
                train, *newest_split(train, self.times, self.groups, CERTIFICATION_FRACTION)
            )
        first, second = certification_split(split, self.y[train], None, groups, self.seed)
        return train[first], train[second]

    def split_validation(self, rows: Rows) -> tuple[Rows, Rows] | None:
        """Return older training rows and newer validation rows; None if there are too few."""
        if self.times is None:
            return None
        split = newest_split(rows, self.times, self.groups, VALIDATION_FRACTION)
        counts = [np.bincount(self.y[half], minlength=2).min() for half in split]
        return split if min(counts) >= FEWEST else None


def as_splitter(train: Rows, first: Rows, second: Rows) -> list[tuple[Rows, Rows]]:
    """Return two sets of rows by their positions in ``train``, as a splitter would yield them."""
    return [(np.searchsorted(train, first), np.searchsorted(train, second))]


def check_options(goal: str | AnyGoal, model: str, confidence: float | None) -> AnyGoal:
    """Return the parsed goal; raise an error if the goal, model or confidence is invalid."""
    goal = parse_any_goal(goal)
    check_model(model)
    if confidence is not None:
        check_fraction(confidence, "confidence")
    return goal


def find_roles(
    names: list[str],
    target: str | Sequence[str],
    group: str | None,
    time: str | None,
    drop: Sequence[str],
) -> dict[str, str]:
    """Return the columns that are not features, and why; there may be several targets."""
    columns_of: Mapping[str, Sequence[str | None]] = {
        "the target": [target] if isinstance(target, str) else target,
        "the group": [group],
        "the time": [time],
        "dropped": drop,
    }
    roles: dict[str, str] = {}
    for role, columns in columns_of.items():
        for name in columns:
            if name is None:
                continue
            if name not in names:
                raise SchemaError(
                    f"there is no column {name!r} ({role}); the table has {listed(names)}."
                    f"{did_you_mean(name, names)}"
                )
            if roles.get(name) == "the target":
                raise SchemaError(f"the column {name!r} is the target and cannot be {role} too.")
            roles.setdefault(name, role)
    return roles


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


def _whole_periods(
    times: NDArray[np.float64], goal: AnyGoal, named: Mapping[str, Any]
) -> NDArray[np.float64]:
    """Return the number of each row's period, if the goal has a budget per period, else its time.

    Whole periods then stay in the same split.
    """
    for period in goal.periods[:1]:
        return period_codes(named["times"], period).codes.astype(np.float64)
    return times


def group_codes(series: Any) -> NDArray[np.intp]:
    """Return the number of each row's group; none may be missing."""
    remedy = "assign such rows to groups of their own, or drop them."
    check_present(series, "groups", SplitError, remedy)
    return np.asarray(pd.factorize(without_categories(series))[0], dtype=np.intp)


def _check_counts(y: NDArray[np.bool_]) -> None:
    for count, name in ((int(y.sum()), "positive"), (int((~y).sum()), "negative")):
        if count < 2:
            raise SplitError(
                f"of the {len(y):,} training rows, {count} {'is' if count == 1 else 'are'} "
                f"{name}, and at least 2 are needed; use more labelled rows, or smaller fractions "
                "of test and certification rows."
            )
