"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_FILES = "CSV (also gzipped), Parquet or Arrow"

Data = Annotated[Path, typer.Argument(help=f"A table: {_FILES}.", show_default=False)]
Model = Annotated[
    Path,
    typer.Argument(
        help="A model: the folder or zip file of 'setpoint fit --out'.", show_default=False
    ),
]
Target = Annotated[str, typer.Option(help="The column with the label.", show_default=False)]
GoalText = Annotated[
    str,
    typer.Option("--goal", help="E.g. 'max recall s.t. precision >= 0.9'.", show_default=False),
]
Positive = Annotated[
    str | None,
    typer.Option(help="The label of the class to find.", show_default="1, True, or the rarer one"),
]
Confidence = Annotated[
    float | None,
    typer.Option(
        help="E.g. 0.9: certify that the goal's constraints will hold on new data.",
        show_default=False,
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        help="A column: rows of one group (patient, customer) are never parted.", show_default=False
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        help="A column: the newest rows are kept for judging and testing.", show_default=False
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        help="A column that is no feature; may be given several times.", show_default=False
    ),
]
Test = Annotated[float, typer.Option(help="Share of rows kept for the final test.")]
Seed = Annotated[int, typer.Option(help="All randomness follows from it.")]
Report = Annotated[
    Path | None, typer.Option(help="Write a report: one HTML file.", show_default=False)
]
Figures = Annotated[
    Path | None,
    typer.Option(
        help="Write the report's figures as PNG and SVG into this folder.", show_default=False
    ),
]
CostOfAlarm = Annotated[
    float | None,
    typer.Option("--cost-alarm", help="What handling an alarm costs.", show_default=False),
]
CostOfMiss = Annotated[
    float | None,
    typer.Option("--cost-miss", help="What a missed positive costs.", show_default=False),
]
Currency = Annotated[str, typer.Option(help="Written before amounts of money.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict", help="Exit with 3 if the goal is not met, or not certified where asked."
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where in the code an error came from.")]
