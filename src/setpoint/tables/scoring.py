"""Scores for a file of any size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from setpoint.data.table_reader import BATCH_ROWS, TableFile
from setpoint.data.table_writer import TableWriter
from setpoint.errors import SchemaError, TableFileError
from setpoint.tables.model import TableModel
from setpoint.tables.unseen import Strangers

_OWN = ("score", "alarm", "predicted")


class Scored(NamedTuple):
    """How many rows were scored, how many of them are alarms, and what a person should know."""

    rows: int
    alarms: int
    notes: tuple[str, ...] = ()


def score_file(
    model: TableModel,
    source: str | Path,
    out: str | Path,
    *,
    batch_rows: int = BATCH_ROWS,
    keep: Sequence[str] = (),
    ignore_extra: bool = False,
    progress: Callable[[int], object] | None = None,
) -> Scored:
    """Score the rows of a file or a folder, in batches, and write them to another file.

    Parameters
    ----------
    model : TableModel
        The model.
    source, out : path
        Tables, by their endings; see :class:`TableFile`. Rows of a folder come in the order of its
        files. The result has the columns that are kept,
        and score (> 0 is an alarm), alarm and predicted, the label. It appears when it is complete.
    batch_rows : int
        How many rows are in memory at a time.
    keep : sequence of str
        Columns to copy to the result, e.g. an identifier.
    ignore_extra : bool
        Whether columns that the model does not know are passed over; those that are kept may be
        there in any case.
    progress : callable, optional
        ``progress(rows)`` after each batch, with the rows done so far.
    """
    file = TableFile(source)
    there = Path(out).resolve()
    if there == Path(source).resolve():
        raise TableFileError(f"{out} is the table to score; name another file for the result.")
    if Path(source).resolve() in there.parents:
        raise TableFileError(f"{out} lies in {source}, the table to score; name another place.")
    if taken := [name for name in keep if name in _OWN]:
        raise TableFileError(
            f"the column {taken[0]!r} cannot be kept, for the result has one of that name; rename "
            f"it in {source}."
        )
    model.schema.check_names(file.names, ignore_extra, known=keep)
    wanted = list(dict.fromkeys([*keep, *model.schema.names]))
    strangers = Strangers(model.schema, model.encoder)
    rows = alarms = 0
    with TableWriter(out) as writer:
        for frame in file.frames(batch_rows, wanted, model.schema.texts):
            try:
                checked = model.schema.check(frame, ignore_extra=True, first_row=rows)
            except SchemaError as error:
                raise SchemaError(f"{error}{file.where(rows)}") from error
            strangers.add(checked, frame)
            found = model.predict_checked(checked, rows)
            for position, name in enumerate(dict.fromkeys(keep)):
                found.insert(position, name, frame[name])
            writer.write(found)
            rows += len(found)
            alarms += int(found["alarm"].sum())
            if progress is not None:
                progress(rows)
    return Scored(rows, alarms, tuple(strangers.notes))
