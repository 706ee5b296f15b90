"""A fitted model of several labels with all it needs to score a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.imports import OptionalModule
from setpoint.data.fingerprints import Fingerprints
from setpoint.data.labels import Labels
from setpoint.data.several_targets import indicators
from setpoint.errors import ModelFileError, SetpointError
from setpoint.estimators.multilabel import SetpointMultilabel
from setpoint.saving.values import Json, decode
from setpoint.saving.values import encode as encode_plain
from setpoint.tables.classifiers import label_scores
from setpoint.tables.encoder import encode
from setpoint.tables.fitted_columns import (
    FittedColumns,
    check_numbers,
    check_parts,
    restored_columns,
)
from setpoint.tables.rules import LabelsRule
from setpoint.tables.schema import Schema
from setpoint.thresholds.multilabel import MultilabelPoint, evaluate_thresholds

if TYPE_CHECKING:
    from setpoint.certificates.multilabel import MultilabelCertificate
    from setpoint.thresholds.label_goals import LabelGoals

pd = OptionalModule("pandas", "cli", "a table")

_LABEL = (str, int, float, type(None))  # and so booleans


@dataclass(frozen=True, eq=False)
class LabelsTableModel(FittedColumns):
    """A classifier of the rows of a table, of which each may have several labels.

    Attributes
    ----------
    schema : Schema
        The columns that it needs.
    encoder : ColumnTransformer
        Turns these columns into features.
    classifier : SetpointMultilabel
        Classifies the features.
    targets : tuple of str
        The columns of the labels, which new rows need not have.
    labels : tuple of Labels
        The labels of each of these columns.
    facts : mapping
        Facts about training: numbers of rows, columns and features, seed, seconds and the like.
    fingerprints : Fingerprints, optional
        Fingerprints of the rows that trained or certified it; of models saved by earlier versions,
        and of those trained on streams, there are none.
    """

    schema: Schema
    encoder: Any
    classifier: SetpointMultilabel
    targets: tuple[str, ...]
    labels: tuple[Labels, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)
    fingerprints: Fingerprints | None = None

    @property
    def goals(self) -> LabelGoals:
        """The goals of the labels that it was trained for."""
        return self.classifier.goals_

    @property
    def operating_point(self) -> MultilabelPoint:
        """Counts and metrics of each label on the rows that set the thresholds."""
        return self.classifier.operating_point_

    @property
    def certificate(self) -> MultilabelCertificate | None:
        """What is certified for each label, or None if no confidence was asked for."""
        return self.classifier.certificate_

    @property
    def rule(self) -> LabelsRule:
        """How scores are decided: by the threshold of each label."""
        return LabelsRule(self.targets, self.classifier.thresholds_)

    @property
    def decision_columns(self) -> tuple[str, ...]:
        """The columns that decisions need besides the model's own: none."""
        return ()

    def decided_by(self, frame: Any) -> dict[str, Any]:
        """Return the amounts and segments that decisions need: none."""
        return {}

    def label_scores(
        self, frame: Any, *, ignore_extra: bool = False, first_row: int = 0
    ) -> NDArray[np.float64]:
        """Return a score for each row and label, to which the classifier's thresholds apply.

        The scores of a row are the same, bit for bit, whatever other rows are scored with it.

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
        return self._scored(checked, first_row)

    def _scored(self, checked: Any, first_row: int) -> NDArray[np.float64]:
        scores = label_scores(self.classifier, encode(self.encoder, checked))
        check_numbers(scores, first_row)
        return np.asarray(scores, dtype=np.float64)

    def predict(self, frame: Any, *, ignore_extra: bool = False, first_row: int = 0) -> Any:
        """Return a data frame with two columns for each label, such as spam_score and spam_alarm.

        Scores are relative to the threshold of the label: > 0 is an alarm. A label that is never
        predicted, since there were no positives to learn from, has the score -inf.
        """
        checked = self.schema.check(frame, ignore_extra=ignore_extra, first_row=first_row)
        return self.predict_checked(checked, first_row)

    def predict_checked(
        self, checked: Any, first_row: int = 0, alarm: Any = None, named: Any = None
    ) -> Any:
        """Do the same as ``predict`` for rows that ``schema.check`` returned.

        Neither ``alarm`` nor ``named`` of :meth:`TableModel.predict_checked` can be given.
        """
        if alarm is not None or named:
            raise SetpointError("alarms of several labels are decided by their thresholds.")
        columns = self.rule.decide(self._scored(checked, first_row))
        return pd.DataFrame(columns, index=checked.index)

    def labelled_scores(
        self, frame: Any, *, ignore_extra: bool = False
    ) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
        """Return the labels of the rows of a labelled table as a matrix, and ``label_scores``."""
        Y = indicators(frame, self.targets, self.labels)
        return Y, self.label_scores(frame, ignore_extra=ignore_extra)

    def evaluate(
        self, frame: Any, *, on: str = "the rows given", ignore_extra: bool = False
    ) -> MultilabelPoint:
        """Return the operating point of each label on labelled rows."""
        return self.point_of(*self.labelled_scores(frame, ignore_extra=ignore_extra), on=on)

    def point_of(
        self, Y: NDArray[np.bool_], scores: NDArray[np.float64], *, on: str, thresholds: Any = None
    ) -> MultilabelPoint:
        """Return the operating point on rows with these labels and ``label_scores``.

        ``thresholds`` are the classifier's unless others are given.
        """
        point = evaluate_thresholds(
            Y, scores, self.classifier.thresholds_ if thresholds is None else thresholds,
            list(self.goals.goals), average=None, names=self.targets, on=on,
        )  # fmt: skip
        return replace(point, goals=self.goals)

    @property
    def usual_thresholds(self) -> NDArray[np.float64]:
        """The threshold of each label at which its probability is 0.5, as classifiers have it."""
        several = self.classifier.estimators_ or [self.classifier.estimator_] * len(self.targets)
        usual = [0.0 if hasattr(each, "decision_function") else 0.5 for each in several]
        fixed = np.isinf(self.classifier.thresholds_)
        return np.where(fixed, self.classifier.thresholds_, usual)

    def _columns_to_read(self) -> set[str | None]:
        return {*self.targets}

    def _labels_to_json(self) -> Json:
        targets = [
            {
                "name": name,
                "negative": encode_plain(_plain(labels.negative)),
                "positive": encode_plain(_plain(labels.positive)),
                "positive_labels": encode_plain([_plain(p) for p in labels.positive_labels]),
            }
            for name, labels in zip(self.targets, self.labels, strict=True)
        ]
        return {"kind": "LabelsTableModel", "targets": targets}


def restore_labels_table(content: Json, parts: dict[str, bytes], module: Any) -> LabelsTableModel:
    """Return the model that :meth:`LabelsTableModel.save` described."""
    targets = [dict(target) for target in content["targets"]]
    model = LabelsTableModel(
        **restored_columns(content, parts, module),
        targets=tuple(target["name"] for target in targets),
        labels=tuple(_labels_from_json(target) for target in targets),
    )
    if not isinstance(model.classifier, SetpointMultilabel):
        raise ModelFileError(
            f"the classifier of several labels is a {type(model.classifier).__name__}."
        )
    if model.targets != tuple(model.classifier.label_names_):
        raise ModelFileError("the targets of the model are not the labels of its classifier.")
    check_parts(model, lambda row: model._scored(row, 0))
    return model


def _labels_from_json(target: Json) -> Labels:
    negative, positive = decode(target["negative"]), decode(target["positive"])
    several = tuple(decode(target["positive_labels"]))
    if not isinstance(target["name"], str):
        raise ModelFileError(f"the name of a target is {target['name']!r}.")
    for label in (negative, positive, *several):
        if not isinstance(label, _LABEL):
            raise ModelFileError(f"a label of {target['name']!r} is {label!r}.")
    return Labels.pair(negative, positive, positive_labels=several)


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
