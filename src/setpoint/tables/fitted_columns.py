"""What models of tables share: columns, encoder, facts and files, and checks of their parts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from setpoint._internal.imports import OptionalModule
from setpoint.data.fingerprints import Fingerprints, Hashes, row_hashes
from setpoint.data.table_reader import TableFile
from setpoint.errors import ModelFileError, SetpointError
from setpoint.estimators.saving import describe, restore
from setpoint.saving.document import Described
from setpoint.saving.skops_files import estimator_from_bytes, estimator_to_bytes
from setpoint.saving.storage import save
from setpoint.saving.values import Json, decode
from setpoint.saving.values import encode as encode_plain
from setpoint.tables.classifiers import Floats
from setpoint.tables.encoder import encode
from setpoint.tables.schema import Schema
from setpoint.tables.scoring import UnseenValues

_ENCODER = "encoder.skops"

pd = OptionalModule("pandas", "cli", "a table")


class FittedColumns:
    """The columns of a fitted model, the encoder of its features, and facts about training."""

    schema: Schema
    encoder: Any
    classifier: Any
    facts: Mapping[str, Any]
    fingerprints: Fingerprints | None

    def save(self, path: str | Path) -> None:
        """Write the model to a folder, or to one file if the path ends in ``.zip``.

        The folder holds ``model.json`` (schema, labels, goal, thresholds, certificate, facts), the
        weights and the fitted encoder; loading it runs no code from it. The path appears when the
        model is complete, and replaces an earlier model. :func:`setpoint.load` reads it.

        Parameters
        ----------
        path : path
            A folder that is new or holds a model, or a file that ends in ``.zip``.
        """
        save(self, path, _describe)

    def _labels_to_json(self) -> Json:
        """Return the kind of the model, its targets and their labels."""
        raise NotImplementedError

    def _columns_to_read(self) -> set[str | None]:
        """Return the columns of labels, and those that the goal names."""
        raise NotImplementedError

    def read(
        self, path: str | Path, *, ignore_extra: bool = False, also: Sequence[str] = ()
    ) -> Any:
        """Return the rows of a file or a folder as a data frame.

        It has the model's columns, and those of labels and groups if present. Unlike
        :func:`read_table`, this reads columns of texts as texts, even if those of a CSV file look
        like numbers. Columns named by ``also`` are read as well, if the file has them.
        """
        file = TableFile(path)
        with file.explaining():
            self.schema.check_names(file.names, ignore_extra=ignore_extra, known=also)
        wanted = {*self.schema.names, self.group, *self._columns_to_read(), *also}
        return file.read([name for name in file.names if name in wanted], self.schema.texts)

    @property
    def group(self) -> str | None:
        """The column of the groups, if there was one."""
        name = self.facts.get("group")
        return None if name is None else str(name)

    @property
    def time(self) -> str | None:
        """The column of the times, if there was one."""
        name = self.facts.get("time")
        return None if name is None else str(name)

    def features(self, frame: Any, *, ignore_extra: bool = False, first_row: int = 0) -> Floats:
        """Return the features of rows; parameters as in :meth:`Schema.check`."""
        checked = self.schema.check(frame, ignore_extra=ignore_extra, first_row=first_row)
        return encode(self.encoder, checked)

    def row_hashes(self, frame: Any, labels: Any, *, ignore_extra: bool = False) -> Hashes:
        """Return hashes of labelled rows, to compare them with ``fingerprints``."""
        return row_hashes(self.schema.check(frame, ignore_extra=ignore_extra), labels)

    def unseen_values(self, frame: Any, *, ignore_extra: bool = False) -> list[str]:
        """Return a sentence for each column with values that training has not seen.

        These are new levels of categories and new texts for missing values, with their counts, and
        columns that are missing much more often than in training; and segments that the goal does
        not cover, since they are new or were too small in training.
        """
        found = UnseenValues(self.schema, self.encoder, self.classifier)
        found.add(self.schema.check(frame, ignore_extra=ignore_extra), frame)
        return found.notes


def _describe(model: FittedColumns) -> Described:
    """Return the JSON of a model, and the content of its files."""
    classifier, parts = describe(model.classifier)
    content: Json = {
        "schema": encode_plain(model.schema.to_dict()),
        "classifier": classifier,
        "facts": encode_plain(dict(model.facts)),
        **model._labels_to_json(),
    }
    if model.fingerprints is not None:
        content["fingerprints"] = model.fingerprints.to_dict()
    return content, {**parts, _ENCODER: estimator_to_bytes(model.encoder, "The encoder")}


def restored_columns(content: Json, parts: dict[str, bytes], module: Any) -> Json:
    """Return the fields of a saved model that do not depend on its labels."""
    facts = decode(content["facts"])
    if not isinstance(facts, dict):
        raise ModelFileError(f"the facts of the model are {facts!r}.")
    try:
        found = content.get("fingerprints")
        fingerprints = None if found is None else Fingerprints.from_dict(found)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError("the fingerprints of the model's rows are damaged.") from error
    return {
        "schema": Schema.from_dict(decode(content["schema"])),
        "encoder": estimator_from_bytes(parts[_ENCODER]),
        "classifier": restore(content["classifier"], parts, module),
        "facts": facts,
        "fingerprints": fingerprints,
    }


def check_numbers(scores: Floats, first_row: int) -> None:
    """Raise SetpointError if some scores of a model are NaN."""
    missing = np.isnan(scores) if scores.ndim == 1 else np.isnan(scores).any(axis=1)
    if missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise SetpointError(
            f"the model has no score for row {first_row + row + 1:,} "
            f"({int(missing.sum()):,} such): it is not a number. The model is damaged; fit it "
            "again."
        )


def check_parts(model: FittedColumns, score: Callable[[Any], object]) -> None:
    """Raise ModelFileError unless the parts of a loaded model can score a row of missing values.

    ``score`` takes the row as :meth:`Schema.check` returns it.
    """
    row = pd.DataFrame({name: [None] for name in model.schema.names})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.unseen_values(row)
            score(model.schema.check(row))
    except ImportError:  # a missing extra, which it names
        raise
    except Exception as error:  # anything that mismatched parts may raise
        raise ModelFileError(
            f"the columns, encoder and classifier of the model do not fit each other "
            f"({type(error).__name__}: {error}); the file is damaged, or was written with other "
            "versions of libraries."
        ) from error
