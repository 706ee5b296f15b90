"""From a table that need not fit into memory to a fitted model, by one or several processes."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.devices import stream_device
from setpoint._internal.processes import (
    all_gather,
    broadcast,
    is_main_process,
    join_process_group,
    rank_and_world_size,
)
from setpoint._internal.validation import check_fraction
from setpoint.data.label_columns import choose_labels
from setpoint.data.rows import Block, RowSource
from setpoint.data.splits import CERTIFYING, JUDGING, TESTING, TRAINING, ByTime, Parting
from setpoint.data.table_stream import TableFiles
from setpoint.errors import SchemaError, SetpointError
from setpoint.estimators.stream_fitting import fit_stream
from setpoint.goals.goal import Goal
from setpoint.tables.classifiers import TRAINED, check_model, make_classifier
from setpoint.tables.encoder import TEXT_FEATURES, encode, fit_encoder, make_encoder
from setpoint.tables.fitting import notes_of_parts, roles_of
from setpoint.tables.leakage import Smell, find_smells
from setpoint.tables.model import TableModel, above_threshold
from setpoint.tables.parts import Parts, check_seed
from setpoint.tables.results import FittedTable, TestRows
from setpoint.tables.schema import Schema
from setpoint.tables.stream_rows import KeptRows, Roles, TableRows, has_room
from setpoint.tables.stream_survey import Look, look, parting_of, settled
from setpoint.thresholds.stream import stream_evaluate
from setpoint.training.stream_problem import StreamProblem

if TYPE_CHECKING:
    from setpoint.thresholds.operating_point import OperatingPoint


MOST_TESTED = 20_000_000  # rows whose scores are kept for a report: 260 MB


def fit_streamed(
    path: str | Path | TableFiles,
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

    Columns and features are learnt from about 200,000 rows, drawn by chance; all rows train, judge,
    certify or test. Under ``torchrun`` all processes train one model together, each on its share of
    the row groups, and all return the same.

    Parameters
    ----------
    path : path or TableFiles
        A file or a folder of files, all with the same columns.
    target, goal, positive, confidence, drop, text_features, random_state
        As of :func:`fit_table`.
    model : {"linear", "mlp"}
        What to train.
    group, time : str, optional
        As of :func:`fit_table`, but not both.
    test : float
        The share of rows, or groups, that are kept for a final test; 0 keeps none.
    device, callback, checkpoint : optional
        As of :class:`SetpointClassifier`.
    keep_in : path, optional
        A folder on a disk where features may lie during the training, in files without a name, if
        there is room. By default every pass makes them anew, which takes most of the time.
    """
    begun = clock.perf_counter()
    goal = Goal.parse(goal)
    check_streamable(model, group, time)
    check_seed(random_state)
    if confidence is not None:
        check_fraction(confidence, "confidence")
    join_process_group()
    stream_device(device)  # there is one
    files = path if isinstance(path, TableFiles) else TableFiles(path)
    _check_processes(files)
    _check_in_files(files, target, group, time)
    drop = [name for name in drop if name not in files.folder_columns]  # as if it were there
    aside = roles_of(files.names, target, group, time, drop)
    roles = Roles(target, group, time)
    roles.check(files)
    used = [name for name in files.names if name in roles.names or name not in aside]
    seen = look(files, used, roles, random_state)
    negative, chosen, note = choose_labels(target, seen.labels, positive)
    roles = replace(roles, negative=negative, positive=chosen)
    parting = parting_of(seen.times, test, confidence is not None, random_state)
    parting, counts = settled(files, roles, parting, test, random_state)
    # One process learns for all: several might round differently.
    learnt = broadcast(
        _learn(seen, files, roles, aside, parting, text_features, random_state)
        if is_main_process()
        else None
    )
    sampled = len(seen.number)
    del seen  # the sample's memory is of use elsewhere
    classifier = make_classifier(
        model, goal, learnt.schema, confidence=confidence, certification=0.3, judging=None,
        random_state=random_state, callback=callback,
    )  # fmt: skip
    classifier.device, classifier.checkpoint = device, checkpoint
    rows = TableRows(files, roles, learnt.schema, learnt.encoder, learnt.width)
    with _kept(rows, files.rows, learnt.width, keep_in) as source:
        fit_stream(classifier, source, None, parting)
        tested, point = None, None
        if test > 0:
            problem = StreamProblem(source, goal, parting, shards=4)
            count = int(counts[TESTING].sum())
            tested, point = _tested(classifier, problem, count, group is not None)
    # Both are of this machine, and not of the model.
    classifier.device, classifier.checkpoint = "auto", None
    facts = {
        "model": model, "rows": files.rows, "positives": int(counts[:, 1].sum()),
        "training rows": int(counts[[TRAINING, JUDGING, CERTIFYING]].sum()),
        "test rows": int(counts[TESTING].sum()),
        "certifying rows": int(counts[CERTIFYING].sum()),
        "columns": len(learnt.schema.columns), "features": learnt.width,
        "group": group, "time": time, "random_state": random_state,
        "processes": rank_and_world_size()[1],
        "seconds": round(clock.perf_counter() - begun, 1),
    }  # fmt: skip
    fitted = TableModel(learnt.schema, learnt.encoder, classifier, target, negative, chosen, facts)
    notes = [note] if note else []
    notes += [*learnt.schema.notes, *notes_of_parts(group, time, confidence is not None)]
    if sampled < files.rows:
        notes.append(
            f"The columns were learnt from {sampled:,} of {files.rows:,} rows, drawn by chance."
        )
    if time is not None and not isinstance(parting, ByTime):
        notes.append(
            "Too few rows of one label are new; the threshold was set on rows of all times."
        )
    return FittedTable(fitted, tested, point, None, learnt.smells, notes)


@contextmanager
def _kept(
    source: RowSource, rows: int, width: int, place: str | Path | None
) -> Iterator[RowSource]:
    """Keep features on disk, where that is wanted and there is room."""
    if place is None or not has_room(place, rows, width):
        yield source
        return
    with closing(KeptRows(source, place)) as kept:
        yield kept


def check_streamable(model: str, group: str | None, time: str | None) -> None:
    """Refuse what needs the whole table in memory."""
    check_model(model)
    if model not in TRAINED:
        raise SetpointError(
            f"the model {model!r} needs the whole table in memory; of one that is read in pieces "
            f"only {' and '.join(TRAINED)} can learn."
        )
    if group is not None and time is not None:
        raise SetpointError(
            "groups and times together need the whole table in memory; name one of both."
        )


def _check_in_files(files: TableFiles, *columns: str | None) -> None:
    for name in columns:
        if name in files.folder_columns:
            raise SchemaError(
                f"there is no column {name!r} in the files of {files.path}: it is part of the "
                "names of folders, and such columns are not read. Write it into the files as well."
            )


def _check_processes(files: TableFiles) -> None:
    _, processes = rank_and_world_size()
    if files.row_groups < processes:
        raise SetpointError(
            f"{files.path} has {files.row_groups} row group"
            f"{'' if files.row_groups == 1 else 's'} with rows, too few for {processes} processes; "
            "start fewer, or write smaller row groups."
        )


@dataclass(frozen=True, eq=False)
class _Learnt:
    """What is learnt from a sample of the rows."""

    schema: Schema
    encoder: Any
    width: int
    smells: list[Smell]


def _learn(
    seen: Look,
    files: TableFiles,
    roles: Roles,
    aside: dict[str, str],
    parting: Parting,
    text_features: int,
    seed: int,
) -> _Learnt:
    """Learn columns from the sample, and features from those of its rows that a model may see."""
    piece = seen.piece(files.path)
    frame = piece.frame()
    rows = replace(roles.block(piece, frame), number=seen.tensor)
    if roles.group is None:
        rows = replace(rows, unit=rows.number)
    part = parting(rows).numpy()
    schema = Schema.of(frame, aside)
    checked = schema.check(frame)
    y = rows.positive.numpy()
    known = np.flatnonzero(np.isin(part, (TRAINING, JUDGING)))
    schema = schema.counted(checked.iloc[known])
    encoder = make_encoder(schema, text_features=text_features, random_state=seed)
    fit_encoder(encoder, checked.iloc[known])
    width = encode(encoder, checked.iloc[known[:1]]).shape[1]
    return _Learnt(schema, encoder, width, _smells(checked, y, schema, part, rows))


def _smells(
    checked: Any, y: NDArray[np.bool_], schema: Schema, part: NDArray[np.int64], rows: Block
) -> list[Smell]:
    """Look for what gives the label away, as far as a sample can tell."""
    if y.all() or not y.any():
        return []
    train, test = (np.flatnonzero(own) for own in (part != TESTING, part == TESTING))
    grouped = bool((rows.unit != rows.number).any())
    groups = np.unique(rows.unit.numpy(), return_inverse=True)[1] if grouped else None
    return find_smells(checked, y, schema, Parts(train, test), None, groups)


def _tested(
    classifier: Any, problem: StreamProblem, rows: int, grouped: bool
) -> tuple[TestRows | None, OperatingPoint]:
    """Return the scores of the test rows, if there are not too many, and what becomes of them."""
    kept: list[tuple[NDArray[Any], ...]] = []

    def scan() -> Iterator[tuple[Any, Any, None]]:
        for block in problem.part(TESTING):
            scores = np.empty(0, dtype=np.float32)
            if len(block):
                scores = above_threshold(classifier, block.X.numpy())
            positive = block.positive.numpy()
            if rows <= MOST_TESTED:
                units = block.unit.numpy() if grouped else np.empty(len(scores), dtype=np.int8)
                kept.append((block.number.numpy(), positive, scores, units))
            yield positive, scores, None

    point = stream_evaluate(scan, 0.0, problem.goal, on="the test rows")
    if rows > MOST_TESTED:
        return None, point
    own = [np.concatenate(fields) for fields in zip(*kept, strict=True)]
    every = [np.concatenate(fields) for fields in zip(*all_gather(own), strict=True)]
    order = np.argsort(every[0])
    number, positive, scores, units = (field[order] for field in every)
    return TestRows(number, positive, scores, units if grouped else None), point
