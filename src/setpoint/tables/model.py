"""A fitted model with all it needs to score a table: columns, features, classifier, labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.imports import need
from setpoint._internal.validation import did_you_mean, listed
from setpoint.data.label_columns import Label, labels_of
from setpoint.data.table_reader import TableFile
from setpoint.errors import SchemaError, SetpointError
from setpoint.estimators.outputs import decisions_html
from setpoint.goals.goal import Goal
from setpoint.tables.classifiers import is_tree_model
from setpoint.tables.encoder import encode
from setpoint.tables.schema import Schema
from setpoint.tables.unseen import Strangers

if TYPE_CHECKING:
    from setpoint.certificates.certificate import Certificate
    from setpoint.estimators.classifier import SetpointClassifier
    from setpoint.estimators.threshold import SetpointThreshold
    from setpoint.thresholds.operating_point import OperatingPoint


Floats = NDArray[np.floating]

# Products of matrices round otherwise for one row than for many. In blocks of one size, filled up
# with zeros, the score of a row depends neither on the rows around it nor on how a file is cut.
# Trees multiply nothing, and lose much time to threads in small blocks.
_BLOCK = 8_192


@dataclass(frozen=True, eq=False)
class TableModel:
    """A classifier of the rows of a table.

    Attributes
    ----------
    schema : Schema
        The columns that it wants.
    encoder : ColumnTransformer
        What makes features of them.
    classifier : SetpointClassifier or SetpointThreshold
        What decides by the features; its labels are False and True.
    target : str
        The column of the labels, which new rows need not have.
    negative, positive : str, int, float or bool
        The labels.
    facts : mapping
        How it came about, in plain values.
    """

    schema: Schema
    encoder: Any
    classifier: SetpointClassifier | SetpointThreshold
    target: str
    negative: Label
    positive: Label
    facts: Mapping[str, Any] = field(default_factory=dict)

    def save(self, path: str | Path) -> None:
        """Write the model to a folder, or to one file if the path ends in ``.zip``."""
        from setpoint.saving.storage import save
        from setpoint.tables.saving import describe_table

        save(self, path, describe_table)

    def _repr_html_(self) -> str:
        from sklearn.pipeline import Pipeline

        steps = Pipeline([("encoder", self.encoder), ("classifier", self.classifier)])
        diagram = steps._repr_mimebundle_().get("text/html")  # absent where sklearn shows text
        folded = f"<details><summary>Steps</summary>{diagram}</details>" if diagram else ""
        point, certificate = self.operating_point, self.certificate
        return decisions_html(point, certificate, self.positive, self.negative) + folded

    @property
    def goal(self) -> Goal:
        """What it was trained for."""
        return self.classifier.goal_

    @property
    def operating_point(self) -> OperatingPoint:
        """What the threshold does on the rows that set it; of ``scores``, and so it is 0."""
        return replace(self.classifier.operating_point_, threshold=0.0)

    @property
    def certificate(self) -> Certificate | None:
        """What is promised on new data, of ``scores``; None where no confidence was asked for."""
        found = self.classifier.certificate_
        if found is None:
            return None
        return replace(found, threshold=0.0, operating_point=self.operating_point)

    @property
    def group(self) -> str | None:
        """The column of the groups, where there was one."""
        name = self.facts.get("group")
        return None if name is None else str(name)

    def features(self, frame: Any, *, ignore_extra: bool = False, first_row: int = 0) -> Floats:
        """Return the features of rows; parameters as in :meth:`Schema.check`."""
        checked = self.schema.check(frame, ignore_extra=ignore_extra, first_row=first_row)
        return encode(self.encoder, checked)

    def scores(self, frame: Any, *, ignore_extra: bool = False, first_row: int = 0) -> Floats:
        """Return one score per row, measured from the threshold: > 0 is an alarm.

        The score of a row is the same, bit for bit, whichever rows it comes with.

        Parameters
        ----------
        frame : DataFrame
            Rows with the model's columns.
        ignore_extra : bool
            Whether columns that the model does not know are passed over.
        first_row : int
            How many rows of the file came before these, for messages.
        """
        checked = self.schema.check(frame, ignore_extra=ignore_extra, first_row=first_row)
        return self._scored(checked, first_row)

    def _scored(self, checked: Any, first_row: int) -> Floats:
        scores = above_threshold(self.classifier, encode(self.encoder, checked))
        if np.isnan(scores).any():
            row = int(np.flatnonzero(np.isnan(scores))[0])
            raise SetpointError(
                f"the model has no score for row {first_row + row + 1:,} "
                f"({int(np.isnan(scores).sum()):,} such): it is not a number. The model is "
                "damaged; fit it again."
            )
        return scores

    def predict(self, frame: Any, *, ignore_extra: bool = False, first_row: int = 0) -> Any:
        """Return a data frame with score, alarm and predicted label; parameters as in scores."""
        checked = self.schema.check(frame, ignore_extra=ignore_extra, first_row=first_row)
        return self.predict_checked(checked, first_row)

    def predict_checked(self, checked: Any, first_row: int = 0) -> Any:
        """Return what ``predict`` does, of rows that ``schema.check`` returned."""
        pd = need("pandas", "cli", "a table")
        scores = self._scored(checked, first_row)
        alarm = scores > 0
        labels = pd.Series([self.negative, self.positive]).take(alarm.astype(int))
        columns = {"score": scores, "alarm": alarm, "predicted": labels.array}
        return pd.DataFrame(columns, index=checked.index)

    def strangers(self, frame: Any, *, ignore_extra: bool = False) -> list[str]:
        """Return a sentence for each column that holds what training did not know, or nothing.

        Unseen levels of categories and new texts for missing values, with their counts, and columns
        that are missing much more often than in training.
        """
        found = Strangers(self.schema, self.encoder)
        found.add(self.schema.check(frame, ignore_extra=ignore_extra), frame)
        return found.notes

    def labelled_scores(
        self, frame: Any, *, ignore_extra: bool = False
    ) -> tuple[NDArray[np.bool_], Floats]:
        """Return which rows are positive, and the scores, of a table with the target column."""
        if self.target not in frame.columns:
            raise SchemaError(
                f"there is no column {self.target!r} with the labels; the table has "
                f"{listed(frame.columns)}.{did_you_mean(self.target, list(frame.columns))}"
            )
        y = labels_of(frame[self.target], self.negative, self.positive)
        return y, self.scores(frame, ignore_extra=ignore_extra)

    def evaluate(
        self, frame: Any, *, on: str = "the rows given", ignore_extra: bool = False
    ) -> OperatingPoint:
        """Return what the threshold does on labelled rows."""
        from setpoint.thresholds.operating_point import evaluate_threshold

        y, scores = self.labelled_scores(frame, ignore_extra=ignore_extra)
        return evaluate_threshold(y, scores, 0.0, self.goal, on=on)

    def read(self, path: str | Path, *, ignore_extra: bool = False) -> Any:
        """Return the rows of a table: the model's columns, and those of labels and groups if there.

        It is a file or a folder, as of :class:`TableFile`. Unlike :func:`read_table` this knows
        which columns are texts, even if those of a CSV file look like numbers.
        """
        file = TableFile(path)
        self.schema.check_names(file.names, ignore_extra=ignore_extra)
        wanted = {*self.schema.names, self.target, self.group}
        return file.read([name for name in file.names if name in wanted], self.schema.texts)


def above_threshold(classifier: Any, features: Floats) -> Floats:
    """Return the classifier's scores of the positive class, measured from its threshold."""
    trees = is_tree_model(getattr(classifier, "estimator_", None))
    score = classifier.positive_scores
    scores = np.asarray(score(features)) if trees else in_blocks(score, features)
    if not hasattr(classifier, "threshold_"):  # measured from the threshold already
        return scores
    # In 64 bits, as the classifier compares, a difference has the sign of the comparison.
    return np.asarray(scores.astype(np.float64, copy=False) - classifier.threshold_)


def in_blocks(score: Callable[[Floats], Floats], features: Floats) -> Floats:
    """Return the scores of rows that do not depend on how many rows there are."""
    found = []
    for start in range(0, len(features), _BLOCK):
        block = features[start : start + _BLOCK]
        rows = len(block)
        if rows < _BLOCK:
            block = np.concatenate([block, np.zeros((_BLOCK - rows, block.shape[1]), block.dtype)])
        found.append(score(block)[:rows])
    return np.concatenate(found) if found else np.zeros(0)
