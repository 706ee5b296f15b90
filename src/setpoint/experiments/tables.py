"""The paper's tables: what is in them, and their cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from setpoint.experiments.data import paper_name
from setpoint.experiments.jobs import OFOS_TARGET, Job, Target, jobs_of
from setpoint.experiments.methods import ABLATIONS, COMPETITORS, OURS, Method
from setpoint.experiments.paper_values import paper_value
from setpoint.experiments.scale import SCALES

SLACK = 0.001  # the paper's, for what is feasible and what is best
METRICS = {"fpor": ("precision", "recall"), "frop": ("recall", "precision"), "ofos": ("f1",)}
MAIN = ("creditcard", "ade", "eyepacs")
STRESSED = ("ade", "eyepacs")  # the paper's second one is MURA


@dataclass(frozen=True)
class Table:
    """One of the paper's tables.

    Attributes
    ----------
    name, title : str
        In commands and files; above the table.
    targets : tuple of Target
        Its goals, all of one kind.
    methods : tuple of Method
        Its rows.
    datasets : tuple of str
        Its blocks, where no others are asked for.
    three : bool
        Whether there is a validation part, on which thresholds are adjusted.
    adjusts : bool
        Whether values after threshold adjustment stand in parentheses.
    """

    name: str
    title: str
    targets: tuple[Target, ...]
    methods: tuple[Method, ...] = (*COMPETITORS, *OURS)
    datasets: tuple[str, ...] = MAIN
    three: bool = False
    adjusts: bool = True
    printed_as: str = ""

    def chosen(self, datasets: tuple[str, ...]) -> tuple[str, ...]:
        """Return which of these data sets it is about; without any, its own."""
        known = {*self.datasets, "mura"}
        return tuple(d for d in datasets or self.datasets if paper_name(d) in known)

    @property
    def kind(self) -> str:
        """The goals' kind."""
        return self.targets[0].kind

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Part and metric of every column."""
        metrics = METRICS[self.kind]
        parts = ["train", *(["validation"] if self.three else []), "test"]
        columns = [(part, metric) for part in parts for metric in metrics]
        return columns if "f1" in metrics else [*columns, ("test", "f1")]

    def jobs(self, datasets: tuple[str, ...], split: str, scale: str, trials: int) -> list[Job]:
        """Return all that must be trained for it on these data sets."""
        return [
            job
            for dataset in self.chosen(datasets)
            for method in self.methods
            for job in jobs_of(method, dataset, split, self.three, trials, self.targets, scale)
        ]


def _targets(kind: str, *alphas: float) -> tuple[Target, ...]:
    return tuple(Target(kind, alpha) for alpha in alphas)


# They are about what training reaches on its rows; what selects keeps some of them back.
_ABLATED = (*ABLATIONS, *(m for m in OURS if not m.selects))
TABLES = {
    table.name: table
    for table in (
        Table("fpor", "FPOR: max recall s.t. precision >= 0.9", _targets("fpor", 0.9)),
        Table("frop", "FROP: max precision s.t. recall >= 0.9", _targets("frop", 0.9)),
        Table("ofos", "OFOS: max F1", (OFOS_TARGET,)),
        Table(
            "fpor-alpha",
            "FPOR, stricter levels",
            _targets("fpor", 0.95, 0.99),
            datasets=STRESSED,
        ),
        Table(
            "frop-alpha",
            "FROP, stricter levels",
            _targets("frop", 0.95, 0.99),
            datasets=STRESSED,
        ),
        Table(
            "ablation-fpor",
            "Ablations, FPOR",
            _targets("fpor", 0.9),
            _ABLATED,
            STRESSED,
            printed_as="ablation",
        ),
        Table(
            "ablation-frop",
            "Ablations, FROP",
            _targets("frop", 0.9),
            _ABLATED,
            STRESSED,
            printed_as="ablation",
        ),
        Table(
            "three-split-fpor",
            "Three splits, FPOR: thresholds adjusted on validation rows",
            _targets("fpor", 0.9, 0.95, 0.99),
            datasets=STRESSED,
            three=True,
        ),
        Table(
            "three-split-frop",
            "Three splits, FROP: thresholds adjusted on validation rows",
            _targets("frop", 0.9, 0.95, 0.99),
            datasets=STRESSED,
            three=True,
        ),
    )
}


@dataclass(frozen=True)
class Value:
    """Mean and deviation over trials, and how it stands among its rivals."""

    mean: float
    deviation: float
    feasible: bool = False
    best: bool = False


@dataclass(frozen=True)
class Line:
    """A row: a method on a data set for a goal; cells are before, after, paper before, after."""

    dataset: str
    target: Target
    method: Method
    label: str
    cells: dict[tuple[str, str], dict[str, Value | None]] = field(default_factory=dict)


def lines_of(table: Table, frame: Any, datasets: tuple[str, ...], split: str) -> list[list[Line]]:
    """Return the blocks of a table, one per data set and goal, from selected results."""
    own = frame[(frame["split"] == split) & (frame["three"] == table.three)]
    blocks = []
    for dataset in table.chosen(datasets):
        for target in table.targets:
            alpha = -1.0 if target.alpha is None else target.alpha
            here = own[
                (own["dataset"] == dataset) & (own["kind"] == target.kind) & (own["alpha"] == alpha)
            ]
            block = list(_block(table, here, dataset, target))
            if block:
                blocks.append(_marked(block, target))
    return blocks


def _block(table: Table, here: Any, dataset: str, target: Target) -> Iterator[Line]:
    adjusted = "validation" if table.three else "train"
    groups = dict(list(here.groupby(["method", "variant", "threshold", "part"])))
    for method in table.methods:
        for variant in method.variants:
            if (method.name, variant, "own", "train") not in groups:
                continue
            line = Line(dataset, target, method, method.label_of(variant))
            for part, metric in table.columns:
                before, after = (
                    _value(groups[method.name, variant, rule, part][metric])
                    for rule in ("own", adjusted)
                )
                # What selects has set its threshold on rows that it was not trained on.
                settled = method.selects and not table.three
                line.cells[part, metric] = {
                    "before": before,
                    "after": None if settled else after,
                    "paper before": _printed(table, dataset, target, method, part, metric, False),
                    "paper after": _printed(table, dataset, target, method, part, metric, True),
                }
            yield line


def _value(values: Any) -> Value:
    # The paper's deviations are those of the population.
    return Value(float(values.mean()), float(values.std(ddof=0)))


def _printed(
    table: Table,
    dataset: str,
    target: Target,
    method: Method,
    part: str,
    metric: str,
    adjusted: bool,
) -> Value | None:
    if method.paper is None:
        return None
    found = paper_value(
        table.printed_as or table.name,
        paper_name(dataset),
        target.kind,
        target.alpha,
        method.paper,
        part,
        metric,
        adjusted,
    )
    return None if found is None else Value(found.mean, found.deviation)


def _marked(block: list[Line], target: Target) -> list[Line]:
    """Mark what is feasible and, among that, the best objective; and the best F1 on test rows."""
    constraint, objective = (*METRICS[target.kind], None)[:2] if target.alpha else (None, "f1")
    for when in ("before", "after"):
        for part in ("train", "validation", "test"):
            if (part, objective) not in block[0].cells:
                continue
            able = block
            if constraint is not None:
                able = [x for x in block if _meets(x.cells[part, constraint][when], target)]
                for line in able:
                    _mark(line, (part, constraint), when, feasible=True)
            _mark_best(able, (part, str(objective)), when)
        if constraint is not None:
            _mark_best(block, ("test", "f1"), when)
    return block


def _meets(value: Value | None, target: Target) -> bool:
    assert target.alpha is not None
    return value is not None and value.mean >= target.alpha - SLACK


def _mark_best(lines: list[Line], column: tuple[str, str], when: str) -> None:
    values = [v.mean for line in lines if (v := line.cells[column][when]) is not None]
    for line in lines:
        value = line.cells[column][when]
        if value is not None and value.mean >= max(values) - SLACK:
            _mark(line, column, when, best=True)


def _mark(line: Line, column: tuple[str, str], when: str, **marks: bool) -> None:
    value = line.cells[column][when]
    assert value is not None
    line.cells[column][when] = replace(value, **marks)


def all_jobs(
    tables: tuple[Table, ...],
    scale: str,
    split: str,
    datasets: tuple[str, ...] = (),
    trials: int | None = None,
    methods: tuple[str, ...] = (),
) -> list[Job]:
    """Return the jobs of several tables, each once."""
    jobs: dict[Job, None] = {}
    for table in tables:
        for job in table.jobs(datasets, split, scale, trials or SCALES[scale].trials):
            if not methods or job.method in methods:
                jobs[job] = None
    return list(jobs)
