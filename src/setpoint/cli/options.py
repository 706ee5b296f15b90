"""Options of the commands; most are shared."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from setpoint.cli.output import Output
    from setpoint.goals.bands import AnyGoal

_FILES = "CSV or TSV (also gzipped), Parquet, Arrow or Excel"
_MAX_TEST = 0.9

# Arguments and options without a default to show.
argument = partial(typer.Argument, show_default=False)
option = partial(typer.Option, show_default=False)


def _fraction(text: str | float) -> float:
    """Return a number, which may be written as a percentage: 0.9, 90% or 90 %."""
    number = str(text).strip()
    try:
        if number.endswith("%"):
            return float(Decimal(number.removesuffix("%")) / 100)
        return float(number)
    except (ValueError, InvalidOperation):
        raise typer.BadParameter(f"{text!r} is not a number, such as 0.9 or 90%.") from None


def _check_confidence(value: float | None) -> float | None:
    if value is not None and not 0 < value < 1:
        percent = f" Is {value:g}% meant?" if 1 < value < 100 else ""
        raise typer.BadParameter(f"{value} is not between 0 and 1; 0.9 is usual.{percent}")
    return value


def _check_test(value: float) -> float:
    if not 0 <= value <= _MAX_TEST:
        raise typer.BadParameter(
            f"{value} is not between 0 and {_MAX_TEST}; it is a fraction of the rows, and --test 0 "
            "keeps no test rows."
        )
    return value


def _check_prevalence(value: float | None) -> float | None:
    if value is not None and not 0 < value < 1:
        raise typer.BadParameter(f"{value} is not between 0 and 1.")
    return value


def _check_seed(value: int) -> int:
    if not 0 <= value < 2**32:
        raise typer.BadParameter(f"{value} is not a whole number from 0 to {2**32 - 1:,}.")
    return value


def _check_threshold(value: float | None) -> float | None:
    if value is not None and math.isnan(value):
        raise typer.BadParameter("nan is not a number.")
    return value


def _check_time_limit(value: float | None) -> float | None:
    if value is not None and not value > 0:
        raise typer.BadParameter(f"{value} is not a number of seconds above 0.")
    return value


def _check_cost(value: float | None) -> float | None:
    if value is not None and not 0 <= value < math.inf:
        raise typer.BadParameter(f"{value} is not an amount of at least 0.")
    return value


def _check_called(value: str | None) -> str | None:
    names = [] if value is None else [name.strip() for name in value.split(",")]
    if value is not None and (len(names) != 2 or not all(names)):
        raise typer.BadParameter(f"{value!r} is not singular,plural, such as fraud,frauds.")
    return value


def _check_decision(value: str) -> str:
    if value not in ("threshold", "expected-value"):
        raise typer.BadParameter(f"{value!r} is neither threshold nor expected-value.")
    return value


def _check_thresholds(value: str) -> str:
    if value not in ("one", "per-group"):
        raise typer.BadParameter(f"{value!r} is neither one nor per-group.")
    return value


def _check_average(value: str | None) -> str | None:
    if value not in (None, "macro", "micro"):
        raise typer.BadParameter(f"{value!r} is neither macro nor micro.")
    return value


def caps_of(texts: list[str] | None) -> dict[str, float]:
    """Return the caps of amounts by name, from texts such as amount=5000."""
    found = {}
    for text in texts or ():
        name, _, number = text.rpartition("=")
        try:
            found[name.strip()] = float(number)
        except ValueError:
            name = ""
        if not name.strip():
            raise typer.BadParameter(f"--cap {text!r} is not name=number, such as amount=5000.")
    return found


_FRACTION: Any = {"parser": _fraction, "metavar": "FRACTION"}

Data = Annotated[Path, argument(help=f"Table: {_FILES}.")]
DataOrFolder = Annotated[
    Path, argument(help=f"Table: {_FILES}, or a folder of Parquet or Arrow files.")
]
Model = Annotated[
    Path, argument(help="Model: the folder or zip file written by 'setpoint fit --out'.")
]
Target = Annotated[str, option(help="Column with the label.")]
Targets = Annotated[
    list[str],
    option(
        "--target",
        help="Column with the label. Several labels: a list, as in spam,urgent, or the option "
        "several times.",
    ),
]
GoalText = Annotated[str, option("--goal", help="E.g. 'max recall s.t. precision >= 0.9'.")]
Positive = Annotated[
    str | None,
    typer.Option(
        help="Label of the class to find, or several, as in 1,2; all others are negative.",
        show_default="1, True, yes, or the rarer label",
    ),
]
Confidence = Annotated[
    float | None,
    option(
        help="Confidence level, e.g. 0.9: certify that the constraints hold on new data.",
        callback=_check_confidence,
        **_FRACTION,
    ),
]
CertifyConfidence = Annotated[
    float,
    typer.Option(
        "--confidence", help="Confidence level, e.g. 0.9.", callback=_check_confidence, **_FRACTION
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        help="Certify this threshold, which was chosen on other rows.",
        show_default="the best that can be certified",
        callback=_check_threshold,
    ),
]
Cap = Annotated[
    list[str] | None,
    option(
        help="Largest amount that a row can have, e.g. amount=5000, for certified bounds on costs; "
        "may be given several times."
    ),
]
Group = Annotated[
    str | None,
    option(help="Column of groups, e.g. patients; rows of one group stay in the same split."),
]
CertifiedGroup = Annotated[
    str | None,
    option(help="Column of groups, e.g. patients; one row of each group is used."),
]
Time = Annotated[
    str | None, option(help="Column of times; the newest rows are used for validation and testing.")
]
Drop = Annotated[
    list[str] | None, option(help="Column that is not a feature; several: a,b or several times.")
]
Test = Annotated[
    float,
    typer.Option(
        help="Fraction of rows kept for the final test.", callback=_check_test, **_FRACTION
    ),
]
Prevalence = Annotated[
    float | None,
    option(
        help="Fraction of positives, for --known-positives and precision.",
        callback=_check_prevalence,
        **_FRACTION,
    ),
]
SkipUnlabelled = Annotated[
    bool, typer.Option("--skip-unlabelled", help="Leave out rows without a label.")
]
Stream = Annotated[
    bool | None,
    typer.Option(
        "--stream/--no-stream",
        help="Read the table in pieces, in bounded memory.",
        show_default="for folders, and for Parquet and Arrow files over 2 GiB",
    ),
]
Checkpoint = Annotated[
    Path | None, option(help="File from which an interrupted training resumes (linear, mlp).")
]
Device = Annotated[
    str, typer.Option(help="Device to train linear and mlp on: auto, cpu, cuda or cuda:1.")
]
Seed = Annotated[int, typer.Option(help="Seed of all random choices.", callback=_check_seed)]
IgnoreExtra = Annotated[
    bool, typer.Option("--ignore-extra", help="Ignore columns that the model does not know.")
]
After = Annotated[
    Path | None, option(help="Output of 'evaluate --json' for earlier rows, to continue its check.")
]
TimeLimit = Annotated[
    float | None,
    option(
        help="Seconds after which auto fits no further kind of model.", callback=_check_time_limit
    ),
]
Decision = Annotated[
    str,
    typer.Option(
        help="How rows are decided (hgb, logistic, forest): threshold, or expected-value, which "
        "raises an alarm where it is expected to save money.",
        callback=_check_decision,
    ),
]
Thresholds = Annotated[
    str,
    typer.Option(
        help="One threshold, or one per-group for a goal 'for each' group (hgb, logistic, forest).",
        callback=_check_thresholds,
    ),
]
LabelAverage = Annotated[
    str | None,
    typer.Option(
        "--average",
        help="With several targets, what is optimised: macro, the mean over the labels, or micro, "
        "the metric of all labels together.",
        show_default="macro",
        callback=_check_average,
    ),
]
Report = Annotated[Path | None, option(help="Write a report to this HTML file.")]
Prometheus = Annotated[
    Path | None,
    option("--prometheus", help="Write metrics and verdict to this file, for Prometheus."),
]
Figures = Annotated[
    Path | None, option(help="Write the report's figures as PNG and SVG into this folder.")
]
AlarmCost = Annotated[
    float | None, option("--cost-alarm", help="Cost of handling an alarm.", callback=_check_cost)
]
MissCost = Annotated[
    float | None, option("--cost-miss", help="Cost of a missed positive.", callback=_check_cost)
]
Currency = Annotated[str, typer.Option(help="Currency, written before amounts.")]
Title = Annotated[
    str | None, typer.Option(help="Title of the report.", show_default="the table and the goal")
]
Called = Annotated[
    str | None,
    typer.Option(
        help="Singular and plural of the positives in reports, e.g. fraud,frauds.",
        show_default="the label",
        callback=_check_called,
    ),
]
BaselineScores = Annotated[
    str | None,
    typer.Option(
        "--baseline-scores",
        help="Column with the scores of today's model, which is compared at its own best "
        "threshold and is not a feature.",
        show_default=False,
    ),
]
Importance = Annotated[
    bool,
    typer.Option(
        "--importance",
        help="Measure by how much the goal's metrics are worse if a column is shuffled.",
    ),
]
FitImportance = Annotated[
    bool | None,
    typer.Option(
        "--importance/--no-importance",
        help="Measure by how much the goal's metrics are worse on the test rows if a column is "
        "shuffled.",
        show_default="with a report",
    ),
]
Nearest = Annotated[
    int | None,
    option(min=1, help="Show so many rows nearest to the threshold on each side."),
]
ShowValues = Annotated[
    bool,
    typer.Option(
        "--show-values",
        help="Show the values of the rows nearest to the threshold, also in reports.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Exit with code 3 if the goal is not met, not certified although requested, or a "
        "certificate is broken.",
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


# How several values are given to options that take one, by command and option.
_SEVERAL = {
    ("fit", "--goal"): "'setpoint compare' compares several goals.",
    ("fit", "--model"): "'setpoint compare' compares several models, and '--model auto' chooses.",
    **dict.fromkeys(
        [(command, "--positive") for command in ("fit", "certify", "compare")],
        "Several labels that count as positive are a list: --positive a,b.",
    ),
}


class Command(TyperCommand):
    """A command that refuses options of one value that are given several times.

    Otherwise the last value would count, and the others would be ignored.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; raise BadParameter for repeated options of one value."""
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        counts: Counter[Any] = Counter(given)
        for option, count in counts.items():
            repeatable = option.multiple if option.param_type_name == "option" else True
            is_plain_flag = getattr(option, "is_flag", False) and not option.secondary_opts
            if count > 1 and not repeatable and not is_plain_flag:
                several = _SEVERAL.get((str(ctx.info_name), option.opts[0]), "")
                raise typer.BadParameter(
                    f"it is given {count} times and takes one value. {several}".rstrip(),
                    ctx=ctx,
                    param=option,
                )
        return list(super().parse_args(ctx, args))


def column_names(given: list[str], data: Path) -> list[str]:
    """Return the columns of a list a,b; a column whose name has a comma comes before a list."""
    if not any("," in name for name in given):
        return given
    from setpoint.data.table_reader import TableFile

    names = TableFile(data).names
    found: list[str] = []
    for name in given:
        parts = [name] if name in names else [part.strip() for part in name.split(",")]
        found += [part for part in parts if part or part in names]
    return found or given


def check_columns(
    data: Path,
    target: str | Sequence[str],
    group: str | None,
    time: str | None,
    drop: Sequence[str],
    goal: AnyGoal | None = None,
) -> str:
    """Raise an error if there is no such table, or not all columns that options name are in it.

    Return a sentence if its header looks like data.
    """
    from setpoint.data.table_reader import TableFile
    from setpoint.tables.goal_columns import check_named, check_named_roles
    from setpoint.tables.schema import find_roles

    file = TableFile(data)
    with file.explaining():
        find_roles(file.names, target, group, time, drop)
        if goal is not None:
            check_named(goal, time, file.names)
            check_named_roles(goal, time, {str(target): "the target"})
    return file.header_hint(surely=True)


def only_labelled(frame: Any, targets: Sequence[str], output: Output) -> Any:
    """Return the rows of a table that have these labels, with a note on the others."""
    from setpoint.data.label_columns import labelled_rows

    frame, note = labelled_rows(frame, targets)
    if note:
        output.note(note)
    return frame
