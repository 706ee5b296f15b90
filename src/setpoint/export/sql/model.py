"""Write a fitted model as a SQL statement that scores the rows of a table."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from setpoint._internal.files import new_folder, write_atomically
from setpoint._internal.provenance import made_by
from setpoint.errors import ModelFileError, SqlError
from setpoint.estimators.band import SetpointBand
from setpoint.estimators.classifier import SetpointClassifier
from setpoint.estimators.threshold import SetpointThreshold
from setpoint.export.sql.classifiers import check_kind, is_exact, own_scores, wrapped_scores
from setpoint.export.sql.columns import array_features, table_features
from setpoint.export.sql.decisions import (
    band_outputs,
    decision_inputs,
    relative_scores,
    threshold_outputs,
)
from setpoint.export.sql.dialects import Dialect, dialect_of
from setpoint.export.sql.statement import Statement, table_name
from setpoint.tables.model import TableModel

_CLASSIFIERS = (SetpointClassifier, SetpointThreshold, SetpointBand)


def export_sql(
    model: Any, path: str | Path, *, dialect: str = "duckdb", table: str = "rows"
) -> None:
    """Write a fitted model as a SELECT statement over a table.

    The result has all columns of the table and, like that of ``setpoint predict``, ``score``
    (above 0 is an alarm), ``alarm`` and ``predicted``; for a review band ``score`` and
    ``decision``. See `docs/sql.md` for what the columns of the table must hold, and how exact the
    scores are.

    Parameters
    ----------
    model : TableModel, SetpointClassifier, SetpointThreshold or SetpointBand
        A fitted model: linear, logistic regression, gradient-boosted trees, a forest or a tree. The
        columns of a classifier of arrays are its ``feature_names_in_``, or f0, f1 and so on.
    path : str or Path
        The file to write.
    dialect : {"duckdb", "postgres", "bigquery", "snowflake"}
        The database.
    table : str
        The table, as the database's SQL writes it.
    """
    text = sql_statement(model, dialect=dialect, table=table)
    path = Path(path).expanduser()
    real = Path(os.path.realpath(path))  # a link stays; the file it points to is replaced
    try:
        with new_folder(real.parent):
            write_atomically(real, text)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be written: {error.strerror or error}.") from error


def sql_statement(model: Any, *, dialect: str = "duckdb", table: str = "rows") -> str:
    """Return the statement that :func:`export_sql` writes."""
    chosen = dialect_of(dialect)
    name = table_name(table, chosen)
    classifier = model.classifier if isinstance(model, TableModel) else model
    if not isinstance(classifier, _CLASSIFIERS):
        raise SqlError(
            f"{type(classifier).__name__} cannot be exported to SQL, only a TableModel, a "
            "SetpointClassifier, a SetpointThreshold or a SetpointBand."
        )
    check_is_fitted(classifier)
    check_kind(classifier)
    columns = _columns(model, classifier)
    names = [*columns, *decision_inputs(classifier), name.strip(chosen.quote("")[0])]
    statement = Statement(chosen, names)
    if isinstance(model, TableModel):
        features = table_features(statement, model.schema, model.encoder)
        labels = model.negative, model.positive
    else:
        features = array_features(statement, columns)
        labels = classifier._labels.negative, classifier._labels.positive
    if isinstance(classifier, SetpointClassifier):
        scores = own_scores(statement, features, classifier)
        outputs = threshold_outputs(statement, scores, labels)
    elif isinstance(classifier, SetpointBand):
        outputs = band_outputs(
            statement, classifier, wrapped_scores(statement, features, classifier)
        )
    else:
        scores = wrapped_scores(statement, features, classifier)
        schema = model.schema if isinstance(model, TableModel) else None
        scores = relative_scores(statement, classifier, scores, schema)
        outputs = threshold_outputs(statement, scores, labels)
    body = statement.write(name, outputs)
    text = _header(model, classifier, chosen, body) + body
    if chosen.most_bytes is not None and len(text.encode()) > chosen.most_bytes:
        raise SqlError(
            f"the statement is {len(text.encode()):,} bytes long, and {chosen.title} accepts "
            f"{chosen.most_bytes:,}; fit fewer or smaller trees, or another model."
        )
    return text


def _columns(model: Any, classifier: Any) -> list[str]:
    """Return the names of the table's columns that become features."""
    if isinstance(model, TableModel):
        return model.schema.names
    count = getattr(classifier, "n_features_in_", None)
    if count is None:
        raise SqlError("the classifier does not take an array of numbers.")
    names = getattr(classifier, "feature_names_in_", None)
    return [f"f{i}" for i in range(count)] if names is None else [str(name) for name in names]


def _header(model: Any, classifier: Any, dialect: Dialect, body: str) -> str:
    """Return the comment above the statement: goal, threshold, certificate and precision."""
    point, certificate = classifier.operating_point_, classifier.certificate_
    if isinstance(model, TableModel):
        point, certificate = model.operating_point, model.certificate
    lines = [f"generator: {made_by()}", f"Dialect: {dialect.title}", f"Goal: {classifier.goal_}"]
    if isinstance(classifier, SetpointBand):
        lines.append(f"Thresholds: {classifier.low_!r} and {classifier.high_!r}")
    elif isinstance(classifier, SetpointClassifier):
        lines.append(
            f"Threshold: {float(classifier.logit_threshold_)!r}, subtracted from the score"
        )
    else:
        lines.append(f"Threshold: {float(classifier.threshold_)!r}, subtracted from the score")
    lines += ["Operating point:", str(point)]
    lines += ["Certificate:", "none" if certificate is None else str(certificate)]
    lines.append(
        "Scores are the model's own up to the last bits of 64-bit floats."
        if is_exact(classifier)
        else "The model adds up its scores in 32-bit floats, and this statement in 64-bit ones: "
        "scores agree to about six digits, and decisions differ only within that of the threshold."
    )
    digest = hashlib.sha256(body.encode()).hexdigest()
    lines.append(f"SHA-256 of the statement below: {digest}")
    return "".join(f"-- {line}\n" for text in lines for line in _comment(text)) + "\n"


def _comment(text: str) -> list[str]:
    """Return the lines of a comment, none of which can end it."""
    lines = text.splitlines() or [""]
    return ["".join(c if c.isprintable() else "?" for c in line) for line in lines]
