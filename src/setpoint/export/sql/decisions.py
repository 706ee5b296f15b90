"""From scores to decisions as SQL: prices, thresholds, review bands and labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from setpoint.data.values import LARGEST
from setpoint.errors import SqlError
from setpoint.estimators.band import SetpointBand
from setpoint.estimators.threshold import SetpointThreshold
from setpoint.export.decisions import amounts_of
from setpoint.export.sql.segments import threshold_of_segment
from setpoint.export.sql.statement import Sql, Statement, constant, expression
from setpoint.goals.money import prices_of
from setpoint.tables.schema import Schema
from setpoint.thresholds.bands import ALARM, CLEAR, REVIEW

Outputs = list[tuple[str, Sql]]


def decision_inputs(classifier: Any) -> list[str]:
    """Return the columns that decisions need besides features."""
    return list(getattr(classifier, "decision_columns", ()))


def relative_scores(
    statement: Statement, model: SetpointThreshold, scores: Sql, schema: Schema | None
) -> Sql:
    """Return scores relative to the threshold, after prices and thresholds of segments.

    ``schema`` are the columns of a model of tables.
    """
    number = statement.dialect.number
    if model.decision == "expected_value":
        scores = _savings(statement, model, scores)
    if model.segment_thresholds_ is not None:
        threshold = threshold_of_segment(statement, model, schema)
        text = f"({scores.text} - {threshold.text})"
        scores = expression(text, scores, threshold)
    if np.isinf(model.threshold_):  # the same decision for all rows
        return constant(number(-model.threshold_), scores)
    return expression(f"{scores.text} - {number(model.threshold_)}", scores)


def _savings(statement: Statement, model: SetpointThreshold, probability: Sql) -> Sql:
    """Return what alarms are expected to save (``thresholds/expected_value.py``)."""
    dialect = statement.dialect
    amounts = {}
    for name in amounts_of(model):
        given = dialect.finite_or_infinite(statement.input(name).text)
        # Python refuses other amounts; here such rows have no score.
        allowed = f"{given} >= 0e0 AND {given} <= {dialect.number(LARGEST)}"
        amounts[name] = statement.define(
            f"{name}_amount", Sql(f"CASE WHEN {allowed} THEN {given} END")
        )
    price = {}
    for outcome, (factor, amount) in prices_of(model.goal_.objective).items():
        factored = dialect.number(float(factor))
        price[outcome] = f"{factored} * {amounts[amount].text}" if amount else factored
    p = probability.text
    saving = (
        f"{p} * ({price['fn']} - {price['tp']}) - (1e0 - {p}) * ({price['fp']} - {price['tn']})"
    )
    sign = "-" if model.goal_.objective.sign > 0 else ""
    return expression(f"{sign}({saving})", probability, *amounts.values())


def threshold_outputs(statement: Statement, scores: Sql, labels: tuple[Any, Any]) -> Outputs:
    """Return score, alarm and predicted label; ``labels`` are the negative and the positive one."""
    score = statement.define("score", scores)
    negative, positive = (_literal(statement, label, labels) for label in labels)
    chosen = (
        f"CASE WHEN {score.text} > 0e0 THEN {positive} WHEN {score.text} <= 0e0 THEN {negative} END"
    )
    return [
        ("score", score),
        ("alarm", expression(f"{score.text} > 0e0", score)),
        ("predicted", expression(chosen, score)),
    ]


def band_outputs(statement: Statement, model: SetpointBand, scores: Sql) -> Outputs:
    """Return score and decision: alarm, review or clear."""
    score = statement.define("score", scores)
    low, high = statement.dialect.number(model.low_), statement.dialect.number(model.high_)
    s = score.text
    chosen = (
        f"CASE WHEN {s} > {high} THEN '{ALARM}' WHEN {s} > {low} THEN '{REVIEW}' "
        f"WHEN {s} <= {low} THEN '{CLEAR}' END"
    )
    return [("score", score), ("decision", expression(chosen, score))]


def _literal(statement: Statement, label: Any, labels: tuple[Any, Any]) -> str:
    plain = [value.item() if isinstance(value, np.generic) else value for value in (label, *labels)]
    one, *both = plain
    if not isinstance(one, (bool, int, float, str)):
        raise SqlError(f"the label {one!r} is neither a text nor a number or boolean.")
    # A CASE has one type, so labels of two kinds are texts.
    return statement.dialect.literal(one if type(both[0]) is type(both[1]) else str(one))
