"""``setpoint export``: a saved model as ONNX or as a SQL statement."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from setpoint.cli import options as o
from setpoint.cli.app import first_imports
from setpoint.cli.output import Output

_FORMATS = ("onnx", "sql")


def export(
    model: o.Model,
    out: Annotated[Path, o.argument(help="File to write.")],
    form: Annotated[
        str | None,
        o.option("--format", help="onnx or sql; by default sql if the file ends in .sql."),
    ] = None,
    dialect: Annotated[
        str | None,
        o.option(help="Of SQL: duckdb (the default), postgres, bigquery or snowflake."),
    ] = None,
    table: Annotated[
        str | None, o.option(help="Table that the SQL statement reads; by default 'rows'.")
    ] = None,
    as_json: o.Json = False,
    quiet: o.Quiet = False,
    debug: o.Debug = False,
) -> None:
    """Write a saved model as ONNX, or as a SQL statement that scores the rows of a table.

    ONNX has the classifier and its thresholds; its inputs are the encoded features and, for
    decisions that need them, amounts or segments. SQL starts from the columns of the table.
    """
    from setpoint._internal.validation import did_you_mean
    from setpoint.cli.output_paths import check_file
    from setpoint.errors import SetpointError
    from setpoint.saving.reading import check_model

    chosen = form or ("sql" if out.suffix.lower() == ".sql" else "onnx")
    if chosen not in _FORMATS:
        raise SetpointError(
            f"there is no format {chosen!r}; choose one of {', '.join(_FORMATS)}."
            f"{did_you_mean(chosen, _FORMATS)}"
        )
    if chosen == "onnx" and (dialect is not None or table is not None):
        raise SetpointError("--dialect and --table are for SQL; add --format sql.")
    what = "SQL statement" if chosen == "sql" else "ONNX model"
    check_file(out, what, {"the model": model})
    check_model(model)
    with first_imports():
        from setpoint.model_files import load

    output = Output(as_json, quiet)
    with output.warnings_as_notes():
        loaded = load(model)
    if chosen == "sql":
        from setpoint.export.sql import export_sql

        export_sql(loaded, out, dialect=dialect or "duckdb", table=table or "rows")
    else:
        from setpoint.export.onnx import export_onnx

        export_onnx(getattr(loaded, "classifier", loaded), out)
    output.result({"out": str(out)}, f"{what}: {out}")
