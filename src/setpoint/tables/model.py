"""A fitted model with all it needs to score a table: columns, encoder, classifier, labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.imports import OptionalModule
from setpoint._internal.validation import did_you_mean, listed
from setpoint.data.fingerprints import Fingerprints
from setpoint.data.label_columns import positive_rows
from setpoint.data.labels import Label, Labels
from setpoint.errors import ModelFileError, SchemaError, SetpointError
from setpoint.estimators.base import decisions_html
from setpoint.explain.coefficients import Coefficients
from setpoint.explain.column_summary import ColumnSummary
from setpoint.explain.drift import Drift
from setpoint.explain.importance import MAX_ROWS, REPEATS, Importances
from setpoint.explain.nearest import EACH_SIDE, NearestRows
from setpoint.goals.bands import AnyGoal
from setpoint.saving.values import Json, decode
from setpoint.saving.values import encode as encode_plain
from setpoint.tables.classifiers import Floats, above_threshold
from setpoint.tables.encoder import encode
from setpoint.tables.feature_columns import table_coefficients
from setpoint.tables.fitted_columns import (
    FittedColumns,
    check_numbers,
    check_parts,
    restored_columns,
)
from setpoint.tables.goal_columns import decision_values, goal_columns, named_columns
from setpoint.tables.rules import Rule, rule_of
from setpoint.tables.schema import Schema

if TYPE_CHECKING:
    from setpoint.estimators.band import SetpointBand
    from setpoint.estimators.classifier import SetpointClassifier
    from setpoint.estimators.threshold import SetpointThreshold

pd = OptionalModule("pandas", "cli", "a table")

_LABEL = (str, int, float)  # and so booleans


@dataclass(frozen=True, eq=False)
class TableModel(FittedColumns):
    """A classifier of the rows of a table.

    Attributes
    ----------
    schema : Schema
        The columns that it needs.
    encoder : ColumnTransformer
        Turns these columns into features.
    classifier : SetpointClassifier, SetpointThreshold or SetpointBand
        Classifies the features; its labels are False and True.
    target : str
        The column of the labels, which new rows need not have.
    negative, positive : str, int, float or bool
        The labels.
    facts : mapping
        Facts about training: numbers of rows, columns and features, seed, seconds and the like.
    positive_labels : tuple
        The labels that count as positive, if there are several of them or more than two labels;
        ``positive`` is then a text such as ``"1 or 2"``, and all other labels are ``negative``.
    summaries : tuple of ColumnSummary
        A short summary of each column of the training rows, with which later rows are compared;
        none in models that were saved by earlier versions.
    fingerprints : Fingerprints, optional
        Fingerprints of the rows that trained or certified it; of models saved by earlier versions,
        and of those trained on streams, there are none.
    """

    schema: Schema
    encoder: Any
    classifier: SetpointClassifier | SetpointThreshold | SetpointBand
    target: str
    negative: Label
    positive: Label
    facts: Mapping[str, Any] = field(default_factory=dict)
    positive_labels: tuple[Label, ...] = ()
    summaries: tuple[ColumnSummary, ...] = ()
    fingerprints: Fingerprints | None = None

    def _repr_html_(self) -> str:
        from sklearn.pipeline import Pipeline

        steps = Pipeline([("encoder", self.encoder), ("classifier", self.classifier)])
        diagram = steps._repr_mimebundle_().get("text/html")  # absent where sklearn shows text
        folded = f"<details><summary>Steps</summary>{diagram}</details>" if diagram else ""
        point, certificate = self.operating_point, self.certificate
        return decisions_html(point, certificate, self.positive, self.negative) + folded

    @property
    def goal(self) -> AnyGoal:
        """The goal that it was trained for."""
        return self.classifier.goal_

    @property
    def rule(self) -> Rule:
        """How scores are decided: by the threshold 0, or by the two of a review band."""
        return rule_of(self.classifier)

    @property
    def operating_point(self) -> Any:
        """The classifier's operating point for ``scores``: OperatingPoint or BandPoint."""
        return self.rule.point

    @property
    def certificate(self) -> Any:
        """The certificate for ``scores``, or None if no confidence was asked for."""
        return self.rule.certificate

    @property
    def labels(self) -> Labels:
        """The two labels, or two classes of labels."""
        return Labels.pair(
            self.negative, self.positive, positive_labels=tuple(self.positive_labels)
        )

    def scores(self, frame: Any, *, ignore_extra: bool = False, first_row: int = 0) -> Floats:
        """Return one score per row, relative to the threshold: > 0 is an alarm.

        Scores of a review band are the classifier's own. The score of a row is the same, bit for
        bit, whatever other rows are scored with it.

        Parameters
        ----------
        frame : DataFrame
            Rows with the model's columns.
        ignore_extra : bool
            Whether to ignore columns that the model does not know.
        first_row : int
            The number of earlier rows of the file, for messages.
        """
        checked = self.schema.check(frame, ignore_extra=ignore_extra, first_row=first_row)
        return self._scored(checked, first_row, self.decided_by(frame))

    @property
    def decision_columns(self) -> tuple[str, ...]:
        """The columns that decisions need besides the model's own: amounts, and segments."""
        return getattr(self.classifier, "decision_columns", ())

    def example_decision(self) -> dict[str, Any]:
        """Return amounts and segments of one made-up row, with which the model can be tried."""
        names = self.decision_columns
        return {
            "amounts": {name: np.ones(1) for name in self.goal.amounts if name in names},
            "segments": {name: np.array(["?"]) for name in self.goal.segments if name in names},
        }

    def decided_by(self, frame: Any) -> dict[str, Any]:
        """Return the amounts and segments that the decisions on rows need."""
        wanted = self.decision_columns
        if not wanted:
            return {}
        if missing := [name for name in wanted if name not in frame.columns]:
            raise SchemaError(
                f"decisions need the column {missing[0]!r}; the table has {listed(frame.columns)}."
            )
        return decision_values(frame, self.goal, wanted)

    def _scored(self, checked: Any, first_row: int, named: dict[str, Any]) -> Floats:
        scores = above_threshold(self.classifier, encode(self.encoder, checked), named)
        check_numbers(scores, first_row)
        return scores

    def predict(self, frame: Any, *, ignore_extra: bool = False, first_row: int = 0) -> Any:
        """Return a data frame with score, alarm and predicted label; see ``scores``.

        For a review band it has score and decision: "alarm", "review" or "clear".
        """
        checked = self.schema.check(frame, ignore_extra=ignore_extra, first_row=first_row)
        return self.predict_checked(checked, first_row, named=self.decided_by(frame))

    def predict_checked(
        self,
        checked: Any,
        first_row: int = 0,
        alarm: NDArray[np.bool_] | None = None,
        named: dict[str, Any] | None = None,
    ) -> Any:
        """Do the same as ``predict`` for rows that ``schema.check`` returned.

        ``alarm`` says which rows raise one, if that is not decided by the threshold; ``named`` is
        what :meth:`decided_by` returned.
        """
        scores = self._scored(checked, first_row, named or {})
        columns = self.rule.decide(scores, alarm, (self.negative, self.positive))
        return pd.DataFrame(columns, index=checked.index)

    def probabilities_of(self, scores: Floats) -> Floats | None:
        """Return the classifier's probabilities of rows with such scores, None if it has none."""
        found: Floats | None = self.classifier.probabilities_of(
            scores + getattr(self.classifier, "threshold_", 0.0)
        )
        return found

    def strangers(self, frame: Any, *, ignore_extra: bool = False) -> list[str]:
        """Return ``unseen_values``; deprecated."""
        warnings.warn(
            "TableModel.strangers is deprecated; use unseen_values.",
            DeprecationWarning,
            stacklevel=2,
        )
        return self.unseen_values(frame, ignore_extra=ignore_extra)

    def labelled_scores(
        self, frame: Any, *, ignore_extra: bool = False
    ) -> tuple[NDArray[np.bool_], Floats]:
        """Return which rows of a labelled table are positive, and their scores."""
        return self.positives(frame), self.scores(frame, ignore_extra=ignore_extra)

    def positives(self, frame: Any) -> NDArray[np.bool_]:
        """Return which rows of a labelled table are positive."""
        if self.target not in frame.columns:
            raise SchemaError(
                f"there is no column {self.target!r} with the labels; the table has "
                f"{listed(frame.columns)}.{did_you_mean(self.target, list(frame.columns))}"
            )
        return positive_rows(frame[self.target], self.labels)

    def evaluate(
        self, frame: Any, *, on: str = "the rows given", ignore_extra: bool = False
    ) -> Any:
        """Return the operating point on labelled rows: OperatingPoint or BandPoint."""
        y, scores = self.labelled_scores(frame, ignore_extra=ignore_extra)
        return self.rule.evaluate(y, scores, on, self.goal_columns(frame))

    def coefficients(self) -> Coefficients:
        """Return the coefficients of a linear model, in the units of the table's columns.

        Standardization is undone. A category has a coefficient for each value, against the most
        frequent one in training; dates and texts have those of the features made of them. An
        error says so if the model is not linear.

        Examples
        --------
        >>> import pandas as pd
        >>> from setpoint.tables import fit_table
        >>> table = pd.DataFrame({"age": range(200), "ill": [i > 120 for i in range(200)]})
        >>> model = fit_table(table, "ill", "max f1", model="logistic").model
        >>> [(c.feature, c.coefficient > 0) for c in model.coefficients()]
        [('age', True)]
        """
        return table_coefficients(self.encoder, self.classifier)

    def permutation_importance(
        self,
        frame: Any,
        sample_weight: Any = None,
        *,
        columns: Sequence[str] | None = None,
        together: Sequence[Sequence[str]] = (),
        repeats: int = REPEATS,
        max_rows: int | None = MAX_ROWS,
        random_state: int = 0,
        on: str = "the rows given",
        ignore_extra: bool = False,
        progress: Callable[[int, int], object] | None = None,
    ) -> Importances:
        """Return by how much the goal's metrics are worse if a column is shuffled.

        Parameters are as in :meth:`SetpointClassifier.permutation_importance`, but for these. The
        amounts, segments and times that the goal names are not shuffled, only what the model
        makes of them.

        Parameters
        ----------
        frame : DataFrame
            Labelled rows that the model has not seen, of both classes.
        ignore_extra : bool
            Whether to ignore columns that the model does not know.
        progress : callable, optional
            Called as ``progress(columns done, all columns)``.
        """
        from setpoint.tables.explanations import table_importance

        return table_importance(
            self, frame, sample_weight, columns, together, repeats=repeats, max_rows=max_rows,
            random_state=random_state, on=on, ignore_extra=ignore_extra, progress=progress,
        )  # fmt: skip

    def nearest_rows(
        self,
        frame: Any,
        *,
        each_side: int = EACH_SIDE,
        values: bool = False,
        on: str = "the rows given",
        ignore_extra: bool = False,
        numbers: NDArray[np.intp] | None = None,
    ) -> NearestRows:
        """Return the rows nearest to the threshold and, for linear models, what moved them.

        Parameters
        ----------
        frame : DataFrame
            Rows, with or without labels.
        each_side : int
            How many rows with an alarm, and how many without.
        values : bool
            Whether the values of the columns are given as well.
        on : str
            What to call the rows.
        ignore_extra : bool
            Whether to ignore columns that the model does not know.
        numbers : ndarray of int, optional
            The number of each row in its table, from 0 on, if these are only some of them.
        """
        from setpoint.tables.explanations import table_nearest_rows

        return table_nearest_rows(
            self, frame, each_side, values, on=on, ignore_extra=ignore_extra, numbers=numbers
        )

    def drift(self, frame: Any, *, on: str = "the rows given", ignore_extra: bool = False) -> Drift:
        """Return how each column of rows differs from the training rows.

        Parameters
        ----------
        frame : DataFrame
            Rows, with or without labels.
        on : str
            What to call the rows.
        ignore_extra : bool
            Whether to ignore columns that the model does not know.
        """
        if not self.summaries:
            raise SetpointError(
                "this model was saved by an earlier version and has no summary of its training "
                "rows; fit it again to compare rows with them."
            )
        return Drift.of(self.summaries, self.schema.check(frame, ignore_extra=ignore_extra), on)

    def goal_columns(self, frame: Any) -> dict[str, Any]:
        """Return the amounts, segments and times of labelled rows that the goal names."""
        return self.classifier.pooled(goal_columns(frame, self.goal, self.time))

    def _columns_to_read(self) -> set[str | None]:
        return {self.target, *named_columns(self.goal, self.time)}

    def _labels_to_json(self) -> Json:
        content: Json = {
            "kind": "TableModel",
            "target": self.target,
            "negative": encode_plain(self.negative),
            "positive": encode_plain(self.positive),
        }
        if self.positive_labels:
            content["positive_labels"] = encode_plain(list(self.positive_labels))
        if self.summaries:
            content["summaries"] = encode_plain([one.to_dict() for one in self.summaries])
        return content


def _summaries(fields: Any) -> tuple[ColumnSummary, ...]:
    """Return the summaries of columns from their values in a model file."""
    try:
        return tuple(ColumnSummary.from_dict(one) for one in fields)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(
            f"the summaries of the model's columns are damaged: {error}"
        ) from error


def restore_table(content: Json, parts: dict[str, bytes], module: Any) -> TableModel:
    """Return the table model that :meth:`TableModel.save` described."""
    model = TableModel(
        **restored_columns(content, parts, module),
        target=content["target"],
        negative=decode(content["negative"]),
        positive=decode(content["positive"]),
        positive_labels=tuple(decode(content.get("positive_labels", []))),
        summaries=_summaries(decode(content.get("summaries", []))),
    )
    wanted: dict[str, Any] = {"target": str, "negative": _LABEL, "positive": _LABEL}
    for label in model.positive_labels:
        if not isinstance(label, _LABEL):
            raise ModelFileError(f"a positive label of the model is {label!r}.")
    for name, kind in wanted.items():
        if not isinstance(getattr(model, name), kind):
            raise ModelFileError(f"the {name} of the model is {getattr(model, name)!r}.")
    check_parts(model, lambda row: model._scored(row, 0, model.example_decision()))
    kinds = [(c.name, c.kind) for c in model.schema.columns]
    if model.summaries and [(one.name, one.kind) for one in model.summaries] != kinds:
        raise ModelFileError("the summaries of the model's columns are those of other columns.")
    return model
