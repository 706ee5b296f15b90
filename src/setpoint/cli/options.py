"""Options that several commands share."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

_FILES = "CSV (also gzipped), Parquet or Arrow"
_LARGEST_TEST = 0.9
_LARGEST_SEED = 2**32 - 1


# What a number may be is said in our words, and before any work.


def _surely(value: float | None) -> float | None:
    if value is not None and not 0 < value < 1:
        raise typer.BadParameter(f"{value} is not between 0 and 1; 0.9 is usual.")
    return value


def _test_share(value: float) -> float:
    if not 0 <= value <= _LARGEST_TEST:
        raise typer.BadParameter(
            f"{value} is not between 0 and {_LARGEST_TEST}; it is a share of the rows, and with "
            "--test 0 none are kept."
        )
    return value


def _seed(value: int) -> int:
    if not 0 <= value <= _LARGEST_SEED:
        raise typer.BadParameter(f"{value} is not a whole number from 0 to {_LARGEST_SEED:,}.")
    return value


def _number(value: float | None) -> float | None:
    if value is not None and math.isnan(value):
        raise typer.BadParameter("nan is no number.")
    return value


def _one_and_many(value: str | None) -> str | None:
    words = [] if value is None else [word.strip() for word in value.split(",")]
    if value is not None and (len(words) != 2 or not all(words)):
        raise typer.BadParameter(f"{value!r} is not one and many, with a comma: fraud,frauds.")
    return value


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
        callback=_surely,
    ),
]
Surely = Annotated[float, typer.Option("--confidence", help="How surely.", callback=_surely)]
Threshold = Annotated[
    float | None,
    typer.Option(
        help="Certify this threshold, chosen beforehand on other rows.",
        show_default="the best that can be promised",
        callback=_number,
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
Test = Annotated[
    float, typer.Option(help="Share of rows kept for the final test.", callback=_test_share)
]
DataOrFolder = Annotated[
    Path,
    typer.Argument(
        help=f"A table: {_FILES}, or a folder of Parquet or Arrow files.", show_default=False
    ),
]
Stream = Annotated[
    bool | None,
    typer.Option(
        "--stream/--no-stream",
        help="Whether the table is read in pieces, in bounded memory.",
        show_default="for folders, and for Parquet and Arrow files beyond 2 GiB",
    ),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        help="A file from which an interrupted training goes on (linear, mlp).", show_default=False
    ),
]
Device = Annotated[
    str, typer.Option(help="Where linear and mlp are trained: auto, cpu, cuda or cuda:1.")
]
Seed = Annotated[int, typer.Option(help="All randomness follows from it.", callback=_seed)]
IgnoreExtra = Annotated[
    bool, typer.Option("--ignore-extra", help="Pass over columns that the model does not know.")
]
After = Annotated[
    Path | None,
    typer.Option(
        help="What 'evaluate --json' printed for the rows before these: the check goes on from "
        "there.",
        show_default=False,
    ),
]
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
Title = Annotated[
    str | None, typer.Option(help="The report's title.", show_default="the table and the goal")
]
Called = Annotated[
    str | None,
    typer.Option(
        help="What a report calls one positive and many, e.g. fraud,frauds.",
        show_default="after the label",
        callback=_one_and_many,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Exit with 3 if the goal is not met, not certified where asked, or a promise broken.",
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where in the code an error came from.")]
