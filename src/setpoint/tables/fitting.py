"""From a table in memory to a fitted model, evaluated on held-out test rows.

:mod:`setpoint.tables.stream_fitting` does the same for tables that do not fit into memory.
"""

from __future__ import annotations

import time as clock
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.imports import OptionalModule
from setpoint._internal.renamed import renamed_parameters
from setpoint._internal.validation import check_fraction
from setpoint.data.fingerprints import Fingerprints, row_hashes
from setpoint.data.label_columns import read_target
from setpoint.data.splits import (
    Rows,
    split_rows,
)
from setpoint.errors import SetpointError, SplitError
from setpoint.estimators.base import take_features
from setpoint.estimators.stacking import OnColumns, StackedModels
from setpoint.goals.bands import AnyGoal, BandGoal, parse_any_goal
from setpoint.goals.periods import longest_of, period_codes
from setpoint.tables.classifiers import (
    Floats,
    above_threshold,
    computes_in_64_bits,
    fit_band_baseline,
    fit_baselines,
    make_classifier,
    takes_raw_columns,
)
from setpoint.tables.encoder import TEXT_FEATURES, side_by_side, summaries_of
from setpoint.tables.goal_columns import (
    check_group,
    check_named,
    check_named_roles,
    check_todays_model,
    goal_columns,
    take,
)
from setpoint.tables.labelled_table import (
    LabelledTable,
    as_splitter,
    facts_of_fit,
    notes_on_fit,
    split_options,
)
from setpoint.tables.leakage import LeakageWarning, find_leakage
from setpoint.tables.model import TableModel
from setpoint.tables.model_options import (
    AUTO,
    TRAINED,
    check_device,
    check_model,
    check_model_for,
    check_time_limit,
    default_model,
)
from setpoint.tables.rules import rule_of
from setpoint.tables.schema import Schema, find_roles
from setpoint.tables.todays_model import (
    COLUMN,
    ROLE,
    THRESHOLD,
    todays_model,
    todays_scores,
    todays_threshold,
)
from setpoint.thresholds.choose import evaluate_threshold

if TYPE_CHECKING:
    from setpoint.report.bands import BandBaseline
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
    current : Baseline or None
        Today's model, if a column has its scores, with the best threshold on all training rows.
    current_point : OperatingPoint or None
        The operating point of today's model on the test rows.
    """

    model: TableModel
    test: TestRows | None
    test_point: OperatingPoint | BandPoint | None
    baseline: Baseline | None
    leakage: list[LeakageWarning]
    notes: list[str]
    tuned: Baseline | BandBaseline | None = None
    current: Baseline | None = None
    current_point: OperatingPoint | None = None


def fit_table(
    frame: Any,
    target: str,
    goal: str | AnyGoal,
    *,
    positive: Any = None,
    model: str | None = None,
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
    time_limit: float | None = None,
    baseline_scores: str | None = None,
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
    model : str, optional
        One of ``MODELS``; by default ``"auto"``, or ``"hgb"`` for a review band.
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
    time_limit : float, optional
        Seconds after which ``"auto"`` fits no further kind of model.
    baseline_scores : str, optional
        A column with the scores of today's model. It is not a feature, and is compared at the
        threshold that is the best for the goal on all training rows.

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
    goal = parse_any_goal(goal)
    model = default_model(goal) if model is None else model
    check_options(goal, model, confidence)
    check_device(device, model)
    check_time_limit(model, time_limit)
    check_model_for(goal, model, decision, thresholds, caps)
    check_group(goal, group)
    check_todays_model(goal, baseline_scores)
    if checkpoint is not None and model not in TRAINED:
        raise SetpointError(
            f"checkpoints are only for the models {' and '.join(TRAINED)}, not for {model!r}."
        )
    roles = find_roles(list(frame.columns), target, group, time, drop, baseline_scores)
    check_named(goal, time, list(frame.columns))
    taken = {target: "the target"}
    if baseline_scores is not None:
        taken[baseline_scores] = ROLE
        todays = todays_scores(frame, baseline_scores)
    check_named_roles(goal, time, taken)
    labels = read_target(frame[target], positive)
    schema = Schema.of(frame, roles)
    named = goal_columns(frame, goal, time)
    table = LabelledTable.of(frame, labels.y, schema, group, time, random_state)
    if goal.periods:  # whole periods stay in the same split
        codes = period_codes(named["times"], longest_of(goal.periods)).codes
        table = replace(table, times=codes.astype(np.float64))
    split = split_rows(
        len(table.y), table.y, test=test, group=table.groups, time=table.times,
        random_state=random_state,
    )  # fmt: skip
    training, certification = table.split_certification(split.train, confidence)
    _check_counts(table.y[training])
    schema = schema.counted(table.rows.iloc[training])

    def fitted_encoder(for_trees: bool) -> Any:
        return table.fitted_encoder(schema, training, text_features, for_trees)

    encoders = {
        for_trees: fitted_encoder(for_trees)
        for for_trees in ((True, False) if model == AUTO else (takes_raw_columns(model),))
    }
    encoded = {kind: table.features(own, split.train) for kind, own in encoders.items()}
    features = np.hstack([*encoded.values()]) if model == AUTO else next(iter(encoded.values()))
    if computes_in_64_bits(model):
        features = features.astype(np.float64)
    validation = table.split_validation(training)
    classifier = make_classifier(
        model, goal, schema, confidence=confidence,
        **split_options(split.train, training, certification, validation),
        random_state=random_state, callback=callback, decision=decision, thresholds=thresholds,
        caps=caps, time_limit=time_limit,
        widths=(encoded[True].shape[1], encoded[False].shape[1]) if model == AUTO else None,
        rows=len(training),
    )  # fmt: skip
    groups = table.groups_of(split.train)
    if model in TRAINED:
        classifier.device, classifier.checkpoint = device, checkpoint
    train_named = take(named, split.train)
    classifier.fit(features, table.y[split.train], groups=groups, **train_named)
    if model == AUTO:
        classifier.estimator.callback = None  # of this process, not of the model
    if model in TRAINED:  # both belong to this machine, not to the model
        classifier.device, classifier.checkpoint = "auto", None
    encoder, features = _used(classifier, encoders, encoded)
    facts = facts_of_fit(
        _name_of(model, classifier), {"rows": len(table.y), "positives": int(table.y.sum())},
        split, certification, schema, features,
        {"group": group, "time": time, "random_state": random_state}, started,
    )  # fmt: skip
    if baseline_scores is not None:
        chosen = todays_threshold(
            table.y[split.train], todays[split.train], goal, classifier.pooled(train_named)
        )
        facts |= {COLUMN: baseline_scores, THRESHOLD: chosen}
    fitted = TableModel(
        schema, encoder, classifier, target, labels.negative, labels.positive, facts,
        labels.positive_labels, summaries_of(schema, table.rows.iloc[training]),
        Fingerprints.of(row_hashes(table.rows.iloc[split.train], table.y[split.train])),
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
        above_threshold(classifier, table.features(encoder, split.test), test_named),
        table.groups_of(split.test),
        test_named,
    )
    point = fitted.rule.evaluate(tested.y, tested.scores, "the test rows", tested.named)
    # Logistic regression does not accept features for trees.
    encoder = encoders[False] if False in encoders else fitted_encoder(for_trees=False)
    features = encoded[False] if False in encoded else table.features(encoder, split.train)
    tuning = None if threshold_rows is None else as_splitter(split.train, *threshold_rows)
    test_features = table.features(encoder, split.test)
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
    current, current_point = None, None
    if baseline_scores is not None:
        current = todays_model(baseline_scores, todays[split.test], chosen)
        on = f"the test rows, {current.name}"
        current_point = evaluate_threshold(
            tested.y, current.scores, chosen, goal, on=on, **tested.named
        )
    return FittedTable(
        fitted, tested, point, baseline, leakage, notes, tuned, current, current_point
    )


def _used(
    classifier: Any, encoders: Mapping[bool, Any], encoded: Mapping[bool, Floats]
) -> tuple[Any, Floats]:
    """Return the encoder of the features that a fitted classifier takes, and these features.

    A model that was chosen among several took its part of the features for trees and for other
    models; from now on it takes that part alone.
    """
    fitted = getattr(classifier, "estimator_", None)
    if isinstance(fitted, StackedModels) and len(fitted.members) > 1:
        return side_by_side(*encoders.values()), np.hstack([*encoded.values()])
    if isinstance(fitted, StackedModels | OnColumns):  # one model
        if isinstance(fitted, OnColumns):
            classifier.estimator_, columns = fitted.classifier, fitted.columns
        else:
            member, columns = fitted.members[0], fitted.members[0].columns
            fitted.members = [member._replace(columns=None)]
        take_features(classifier, classifier.estimator_)
        for_trees = columns[0] == 0
        return encoders[for_trees], encoded[for_trees]
    ((for_trees, encoder),) = encoders.items()
    return encoder, encoded[for_trees]


def _name_of(model: str, classifier: Any) -> str:
    """Return the name of the model, with the one that was chosen."""
    return f"{model} ({classifier.candidates_.winner.name})" if model == AUTO else model


def check_options(goal: str | AnyGoal, model: str, confidence: float | None) -> AnyGoal:
    """Return the parsed goal; raise an error if the goal, model or confidence is invalid."""
    goal = parse_any_goal(goal)
    check_model(model)
    if confidence is not None:
        check_fraction(confidence, "confidence")
    return goal


def _check_counts(y: NDArray[np.bool_]) -> None:
    for count, name in ((int(y.sum()), "positive"), (int((~y).sum()), "negative")):
        if count < 2:
            raise SplitError(
                f"of the {len(y):,} training rows, {count} {'is' if count == 1 else 'are'} "
                f"{name}, and at least 2 are needed; use more labelled rows, or smaller fractions "
                "of test and certification rows."
            )
