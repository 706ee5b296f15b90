"""``setpoint predict``: score a table of any size with a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from setpoint.cli import options as o
from setpoint.cli.app import first_imports
from setpoint.cli.output import Output

if TYPE_CHECKING:
    from setpoint.tables.label_model import LabelsTableModel
    from setpoint.tables.model import TableModel
    from setpoint.tables.scoring import Scored, Top

_MOST_LABELS = 8  # in a sentence


def predict(
    model: o.Model,
    data: o.DataOrFolder,
    out: Annotated[Path, o.option(help="Write the scores here; the ending determines the format.")],
    keep: Annotated[
        list[str] | None,
        o.option(
            help="Column to copy to the result, e.g. an identifier; several: a,b or several times."
        ),
    ] = None,
    top: Annotated[
        int | None,
        o.option(
            min=1,
            help="Raise alarms for this many of the highest scores, instead of using the "
            "threshold; of equal scores, earlier rows come first.",
        ),
    ] = None,
    per: Annotated[
        str | None, o.option(help="With --top: in each hour, day, week or month.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="With --per: column of times.", show_default="as in 'fit'")
    ] = None,
    ignore_extra: o.IgnoreExtra = False,
    batch_rows: Annotated[
        int, typer.Option(help="Number of rows in memory at a time.", min=1)
    ] = 131_072,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Score a table with a saved model; it may be larger than memory."""
    from setpoint.cli.output_paths import check_file
    from setpoint.data.file_formats import output_format
    from setpoint.data.table_reader import count_rows

    check_file(out, "table of scores", {"the table": data, "the model": model})
    output_format(out)
    _check_top(top, per)
    check_model_and_table(model, data)
    with first_imports():
        from setpoint.tables.scoring import score_file

    output = Output(as_json, quiet)
    with output.warnings_as_notes():
        loaded = load_table_model(model)
    highest = _top(top, per, time or loaded.time)
    total = count_rows(data)
    with output.progress(f"scoring {data.name or data}") as show:
        done = score_file(
            loaded,
            data,
            out,
            batch_rows=batch_rows,
            keep=tuple(o.column_names(keep or [], data)),
            ignore_extra=ignore_extra,
            progress=lambda rows: show(rows, total),
            top=highest,
        )
    for note in done.notes:
        output.note(note)
    fields = {"rows": done.rows, "alarms": done.alarms, "out": str(out)}
    if done.reviews is not None:
        fields["reviews"] = done.reviews
    if done.of_labels is not None:
        fields["labels"] = done.of_labels
    output.result(fields, f"{_alarms_in_words(done)}: {out}")


def _alarms_in_words(done: Scored) -> str:
    counted = f"{done.rows:,} rows, {done.alarms:,}"
    if done.reviews is not None:
        return f"{counted} alarms, {done.reviews:,} reviews"
    if done.of_labels is None:
        return f"{counted} alarms"
    often = sorted(done.of_labels.items(), key=lambda pair: -pair[1])
    shown = ", ".join(f"{name} {count:,}" for name, count in often[:_MOST_LABELS])
    more = f", and {len(often) - _MOST_LABELS:,} more labels" if len(often) > _MOST_LABELS else ""
    return f"{counted} of them with alarms ({shown}{more})"


def _check_top(count: int | None, per: str | None) -> None:
    """Raise SetpointError for a period without a number of alarms, or an unknown one."""
    from setpoint.errors import SetpointError
    from setpoint.goals.periods import PERIODS

    if per is not None and count is None:
        raise SetpointError("--per needs --top, the number of alarms in each period.")
    if per is not None and per not in PERIODS:
        raise SetpointError(f"--per {per}: a period is one of {', '.join(PERIODS)}.")


def _top(count: int | None, per: str | None, time: str | None) -> Top | None:
    """Return how many of the highest scores raise an alarm, if that is asked for."""
    from setpoint.errors import SetpointError
    from setpoint.tables.scoring import Top

    if count is None:
        return None
    if per is None:
        return Top(count)
    if time is None:
        raise SetpointError(f"--per {per} needs --time, the column of times.")
    return Top(count, per, time)


def check_model_and_table(model: Path, data: Path) -> None:
    """Raise an error if there is no such model or table, before torch is imported for them."""
    from setpoint.data.table_reader import TableFile
    from setpoint.saving.reading import check_model

    check_model(model)
    TableFile(data)


def load_table_model(path: Path) -> TableModel | LabelsTableModel:
    """Load a model of tables; raises SetpointError for a model of arrays."""
    with first_imports():
        from setpoint.errors import SetpointError
        from setpoint.model_files import load
        from setpoint.tables.label_model import LabelsTableModel
        from setpoint.tables.model import TableModel

    model = load(path)
    if not isinstance(model, TableModel | LabelsTableModel):
        raise SetpointError(
            f"{path} is a {type(model).__name__} saved from Python, which takes arrays, not "
            "tables. Use setpoint.load in Python, or train with 'setpoint fit'."
        )
    return model
