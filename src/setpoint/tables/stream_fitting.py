"""From a table that need not fit into memory to a fitted model, by one or several processes."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from setpoint._internal.devices import stream_device
from setpoint._internal.processes import (
    all_gather,
    broadcast,
    is_main_process,
    join_process_group,
    rank_and_world_size,
)
from setpoint.data.label_columns import labels_of_counts
from setpoint.data.parquet import Roles
from setpoint.data.splits import (
    CERTIFICATION,
    CERTIFICATION_FRACTION,
    TEST,
    TRAINING,
    VALIDATION,
    ByTime,
    Split,
    SplitRule,
    check_seed,
)
from setpoint.data.table_reader import TableFile
from setpoint.errors import SchemaError, SetpointError, SplitError
from setpoint.estimators.stream_fitting import fit_stream
from setpoint.explain.column_summary import ColumnSummary
from setpoint.goals.bands import BandGoal
from setpoint.goals.goal import Goal
from setpoint.tables.classifiers import above_threshold, make_classifier
from setpoint.tables.encoder import (
    TEXT_FEATURES,
    encode,
    fit_encoder,
    make_encoder,
    summaries_of,
)
from setpoint.tables.fitting import FittedTable, TestRows, check_options
from setpoint.tables.labelled_table import notes_on_fit
from setpoint.tables.leakage import LeakageWarning, find_leakage
from setpoint.tables.model import TableModel
from setpoint.tables.model_options import check_streamable
from setpoint.tables.schema import Schema, find_roles
from setpoint.tables.stream_rows import CachedRows, TableRows, has_room
from setpoint.tables.stream_survey import Survey, final_split, split_rule, survey
from setpoint.thresholds.stream import stream_evaluate
from setpoint.training.stream_problem import StreamProblem, check_goal

if TYPE_CHECKING:
    from setpoint.thresholds.operating_point import OperatingPoint

MOST_TESTED = 20_000_000  # test rows whose scores are kept for a report: 260 MB


def fit_streamed(
    path: str | Path | TableFile,
    target: str,
    goal: str | Goal,
    *,
    positive: Any = None,
    model: str = "linear",
    confidence: float | None = None,
    group: str | None = None,
    time: str | None = None,
    test: float = 0.2,
    drop: Sequence[str] = (),
    text_features: int = TEXT_FEATURES,
    random_state: int = 0,
    device: Any = "auto",
    callback: Any = None,
    checkpoint: str | Path | None = None,
    keep_in: str | Path | None = None,
) -> FittedTable:
    """Train a model on a table in Parquet or Arrow files, in bounded memory.

    Columns and features are learnt from a random sample of about 200,000 rows; all rows are used
    for training, validation, certification or test. Under ``torchrun`` all processes train one
    model, each on its shard of the row groups, and all return the same.

    Parameters are those of :func:`fit_table`, except for these.

    Parameters
    ----------
    path : path or TableFile
        A file or a folder of files, all with the same columns.
    model : {"linear", "mlp"}
        The model to train.
    group, time : str, optional
        As for :func:`fit_table`, but not both.
    test : float
        The fraction of test rows, or of groups of them; 0 for none.
    keep_in : path, optional
        A folder for a cache of the features during training, in unnamed temporary files, if there
        is space. By default every pass computes them, which takes most of the time.
    """
    started = clock.perf_counter()
    parsed = check_options(goal, model, confidence)
    if isinstance(parsed, BandGoal):
        raise SetpointError(
            f"'{parsed}' is the goal of a review band, for which the table must fit into memory; "
            "use a sample of it, and the models hgb, logistic or forest."
        )
    goal = parsed
    check_goal(goal)
    check_streamable(model, group, time)
    check_seed(random_state)
    join_process_group()
    stream_device(device)  # raises an error if it is not available
    table = path if isinstance(path, TableFile) else TableFile(path, streamed=True)
    rows = table.rows or 0
    _check_files(table, target, group, time)
    drop = [name for name in drop if name not in table.folder_columns]  # nothing to drop
    aside = find_roles(table.names, target, group, time, drop)
    roles = Roles(target, group, time)
    roles.check(table.types, SplitError)
    used = [name for name in table.names if name in roles.names or name not in aside]
    seen = survey(table, used, roles, random_state)
    labels = labels_of_counts(target, seen.labels, positive)
    roles = replace(
        roles,
        negative=labels.negative,
        positive=labels.positive,
        positive_labels=labels.positive_labels,
    )
    split = split_rule(seen.times, test, confidence is not None, random_state)
    split, counts = final_split(table, roles, split, test, random_state)
    # One process learns for all: several might round differently.
    learnt = broadcast(
        _learn_encoding(seen, table, roles, aside, split, text_features, random_state)
        if is_main_process()
        else None
    )
    sampled = len(seen.number)
    del seen  # its memory is needed elsewhere
    classifier = make_classifier(
        model, goal, learnt.schema, confidence=confidence, certification=CERTIFICATION_FRACTION,
        validation=None, random_state=random_state, callback=callback,
    )  # fmt: skip
    classifier.device, classifier.checkpoint = device, checkpoint
    encoded = TableRows(table, roles, learnt.schema, learnt.encoder, learnt.width)
    cached = keep_in is not None and has_room(keep_in, rows, learnt.width)
    with CachedRows(encoded, keep_in) if cached else nullcontext(encoded) as source:
        fit_stream(classifier, source, None, split)
        tested, point = None, None
        if test > 0:
            problem = StreamProblem(source, goal, split, shards=4)
            count = int(counts[TEST].sum())
            tested, point = _score_test_rows(classifier, problem, count, group is not None)
    # Both belong to this machine, not to the model.
    classifier.device, classifier.checkpoint = "auto", None
    facts = {
        "model": model, "rows": rows, "positives": int(counts[:, 1].sum()),
        "training rows": int(counts[[TRAINING, VALIDATION]].sum()),
        "test rows": int(counts[TEST].sum()),
        "certifying rows": int(counts[CERTIFICATION].sum()),
        "columns": len(learnt.schema.columns), "features": learnt.width,
        "group": group, "time": time, "random_state": random_state,
        "processes": rank_and_world_size()[1],
        "seconds": round(clock.perf_counter() - started, 1),
    }  # fmt: skip
    fitted = TableModel(
        learnt.schema, learnt.encoder, classifier, target, labels.negative, labels.positive, facts,
        labels.positive_labels, learnt.summaries,
    )  # fmt: skip
    notes = notes_on_fit(fitted, labels.note, confidence is not None, isinstance(split, ByTime))
    if sampled < rows:
        notes.append(f"Columns were learnt from a random sample of {sampled:,} of {rows:,} rows.")
    return FittedTable(fitted, tested, point, None, learnt.leakage, notes)


def _check_files(table: TableFile, *columns: str | None) -> None:
    """Raise an error if there are too few row groups, or columns exist only in folder names."""
    groups, processes = table.row_groups, rank_and_world_size()[1]
    if groups < processes:
        raise SetpointError(
            f"{table.path} has {groups} row group{'' if groups == 1 else 's'} with rows, too few "
            f"for {processes} processes; start fewer, or write smaller row groups."
        )
    for name in columns:
        if name in table.folder_columns:
            raise SchemaError(
                f"there is no column {name!r} in the files of {table.path}: it is part of the "
                "names of folders, and such columns are not read. Write it into the files as well."
            )


@dataclass(frozen=True, eq=False)
class _Encoding:
    """What is learnt from a sample of the rows."""

    schema: Schema
    encoder: Any
    width: int
    leakage: list[LeakageWarning]
    summaries: tuple[ColumnSummary, ...]


def _learn_encoding(
    seen: Survey,
    table: TableFile,
    roles: Roles,
    aside: dict[str, str],
    split: SplitRule,
    text_features: int,
    seed: int,
) -> _Encoding:
    """Learn columns from the sample, and features from its training and validation rows."""
    piece = seen.piece(table.path)
    frame = piece.frame()
    rows = replace(roles.block(piece), number=torch.from_numpy(seen.number))
    if roles.group is None:
        rows = replace(rows, unit=rows.number)
    split_of = split(rows).numpy()
    schema = Schema.of(frame, aside)
    checked = schema.check(frame)
    known = np.flatnonzero(np.isin(split_of, (TRAINING, VALIDATION)))
    schema = schema.counted(checked.iloc[known])
    encoder = make_encoder(schema, text_features=text_features, random_state=seed)
    fit_encoder(encoder, checked.iloc[known])
    width = encode(encoder, checked.iloc[known[:1]]).shape[1]
    leakage: list[LeakageWarning] = []
    y = rows.positive.numpy()
    if y.any() and not y.all():
        train_test = Split(np.flatnonzero(split_of != TEST), np.flatnonzero(split_of == TEST))
        grouped = bool((rows.unit != rows.number).any())
        groups = np.unique(rows.unit.numpy(), return_inverse=True)[1] if grouped else None
        leakage = find_leakage(checked, y, schema, train_test, None, groups)
    summaries = summaries_of(schema, checked.iloc[known])
    return _Encoding(schema, encoder, width, leakage, summaries)


def _score_test_rows(
    classifier: Any, problem: StreamProblem, rows: int, grouped: bool
) -> tuple[TestRows | None, OperatingPoint]:
    """Return the scores of the test rows, unless there are too many, and the operating point."""
    scored: list[tuple[NDArray[Any], ...]] = []

    def scan() -> Iterator[tuple[Any, Any, None]]:
        for block in problem.part(TEST):
            scores = np.empty(0, dtype=np.float32)
            if len(block):
                scores = above_threshold(classifier, block.X.numpy())
            positive = block.positive.numpy()
            if rows <= MOST_TESTED:
                units = block.unit.numpy() if grouped else np.empty(len(scores), dtype=np.int8)
                scored.append((block.number.numpy(), positive, scores, units))
            yield positive, scores, None

    point = stream_evaluate(scan, 0.0, problem.goal, on="the test rows")
    if rows > MOST_TESTED:
        return None, point
    local = [np.concatenate(fields) for fields in zip(*scored, strict=True)]
    gathered = [np.concatenate(fields) for fields in zip(*all_gather(local), strict=True)]
    order = np.argsort(gathered[0])
    number, positive, scores, units = (field[order] for field in gathered)
    return TestRows(number, positive, scores, units if grouped else None), point
