"""Tables of ``setpoint label``: the pool, batches for labellers, and their answers."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from setpoint._internal.validation import did_you_mean, listed, quoted
from setpoint.errors import SetpointError

if TYPE_CHECKING:
    from setpoint.labelling import LabellingSession

LABEL = "label"  # the column that labellers fill in
ROW = "row"  # the identifier of rows without one: their number, from 1


class Pool(NamedTuple):
    """The scored rows.

    Attributes
    ----------
    scores : ndarray
        Their scores.
    ids : list of str
        Their identifiers.
    id_column : str
        The name of that column.
    shown : dict of str to list
        Other columns for the labellers.
    guess : ndarray or None
        A guess of the probability that each row is positive.
    """

    scores: Any
    ids: list[str]
    id_column: str
    shown: dict[str, list[str]]
    guess: Any

    def digest(self) -> str:
        """Return a digest of the identifiers in their order."""
        return hashlib.sha256("\0".join(self.ids).encode()).hexdigest()


def read_pool(
    path: Path, score: str, id_column: str | None, keep: Sequence[str], guess: str | None
) -> Pool:
    """Read the scored rows; raise SetpointError if an identifier is missing or occurs twice."""
    from setpoint._internal.validation import as_text
    from setpoint.data.label_columns import scores_of
    from setpoint.data.table_reader import TableFile

    names = dict.fromkeys(c for c in (score, id_column, guess, *keep) if c is not None)
    if LABEL in keep or id_column == LABEL:
        raise SetpointError(f"a column named {LABEL!r} is for the labellers; rename it.")
    texts = [c for c in (id_column, *keep) if c is not None and c not in (score, guess)]
    frame = TableFile(path).read(list(names), texts=texts)
    scores = scores_of(frame[score])
    ids = [str(row) for row in range(1, len(frame) + 1)]
    if id_column is not None:
        ids = _identifiers(frame[id_column], path)
    shown = {name: ["" if v != v or v is None else as_text(v) for v in frame[name].astype(object)]
             for name in keep}  # fmt: skip
    return Pool(
        scores, ids, id_column or ROW, shown, None if guess is None else scores_of(frame[guess])
    )


def _identifiers(column: Any, path: Path) -> list[str]:
    from setpoint._internal.validation import as_text

    missing = column.isna().to_numpy()
    if missing.any():
        first = int(missing.argmax()) + 1
        raise SetpointError(
            f"{path}: the identifier {column.name!r} is missing in row {first:,} "
            f"({int(missing.sum()):,} such); give every row its own."
        )
    ids = [as_text(value) for value in column.tolist()]
    seen: dict[str, int] = {}
    for row, name in enumerate(ids):
        if name in seen:
            raise SetpointError(
                f"{path}: rows {seen[name] + 1:,} and {row + 1:,} have the same identifier "
                f"{quoted(name)} in {column.name!r}; give every row its own."
            )
        seen[name] = row
    return ids


# --- batches --------------------------------------------------------------------------------------


def is_batch(path: Path, pool: Pool) -> bool:
    """Return whether a file is a batch of this pool, by its columns."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = next(csv.reader(file), [])
    except (OSError, UnicodeDecodeError, csv.Error):
        return False
    return len(header) > 1 and header[0] == pool.id_column and LABEL in header


def batch_text(pool: Pool, rows: Sequence[int]) -> str:
    """Return a batch for labellers as CSV.

    Scores are left out, and rows are in the order of the table, so that neither biases them.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([pool.id_column, *pool.shown, LABEL])
    for row in sorted(rows):
        writer.writerow([pool.ids[row], *(values[row] for values in pool.shown.values()), ""])
    return text.getvalue()


# --- answers --------------------------------------------------------------------------------------


class AnswerFile(NamedTuple):
    """Answers in a file: rows of the pool and their labels, as texts."""

    path: Path
    rows: list[int]
    labels: list[str]
    lines: list[int]  # row numbers in the file, from 1


def read_answers(path: Path, pool: Pool, column: str) -> AnswerFile:
    """Read answers; rows without a label are skipped. Raise SetpointError for unknown rows."""
    from setpoint._internal.validation import as_text
    from setpoint.data.table_reader import TableFile

    table = TableFile(path)
    for name in (pool.id_column, column):
        if name not in table.names:
            raise SetpointError(
                f"{path} has no column {name!r}; it has {listed(table.names)}. Answers need the "
                f"columns {pool.id_column!r} and {column!r}."
            )
    names = [pool.id_column, column]
    frame = table.read(names, texts=names)
    row_of = {name: row for row, name in enumerate(pool.ids)}
    rows, labels, lines = [], [], []
    for line, (name, label) in enumerate(frame.astype(object).itertuples(index=False), start=1):
        if label is None or label != label or not as_text(label):
            continue
        if name is None or name != name or as_text(name) not in row_of:
            raise SetpointError(
                f"{path}, row {line:,}: {quoted(name)} in {pool.id_column!r} is not a row of the "
                "pool. Is the file from another session? Nothing was read from it."
            )
        rows.append(row_of[as_text(name)])
        labels.append(as_text(label))
        lines.append(line)
    return AnswerFile(path, rows, labels, lines)


def add_answers(
    session: LabellingSession, found: AnswerFile, pool: Pool, positive: str | None, replace: bool
) -> int:
    """Add answers to a session; return how many are new. If one is invalid, none is added."""
    before = session.labelled
    negative = session.details.get("negative")
    values: list[int] = []
    known: dict[int, int] = {}
    for row, label, line in zip(found.rows, found.labels, found.lines, strict=True):
        value, negative = _value(label, positive, negative, f"{found.path}, row {line:,}")
        if known.setdefault(row, value) != value:
            raise SetpointError(
                f"{found.path}, row {line:,}: {quoted(pool.ids[row])} was labelled both positive "
                "and negative in this file; keep the right label. Nothing was read from it."
            )
        values.append(value)
    try:
        session.add(found.rows, values, replace=replace)
    except SetpointError:
        raise SetpointError(_what_is_wrong(session, found, values, pool)) from None
    session.details["negative"] = negative
    return session.labelled - before


def _value(
    label: str, positive: str | None, negative: str | None, where: str
) -> tuple[int, str | None]:
    """Return 1 or 0 for a label, and the label of the negative class if it is known now."""
    from setpoint.data.labels import same_label

    if positive is None:
        for value in (0, 1):
            if same_label(label, value) or same_label(label, bool(value)):
                return value, None
        raise SetpointError(
            f"{where}: the label {quoted(label)} is not 0 or 1. Use these, or name the label of "
            "positives with --positive. Nothing was read from the file."
        )
    if same_label(label, positive):
        return 1, negative
    if negative is None and did_you_mean(label, [positive]):
        raise SetpointError(
            f"{where}: is {quoted(label)} a misspelling of {quoted(positive)}? If it is the label "
            "of negatives, name it with --negative. Nothing was read from the file."
        )
    if negative is None or same_label(label, negative):
        return 0, label if negative is None else negative
    raise SetpointError(
        f"{where}: the label {quoted(label)} is neither {quoted(positive)} (positive) nor "
        f"{quoted(negative)}, as in earlier answers. Nothing was read from the file."
    )


def _what_is_wrong(
    session: LabellingSession, found: AnswerFile, values: Sequence[int], pool: Pool
) -> str:
    """Return which answer cannot be added, with its place in the file."""
    for row, value, line in zip(found.rows, values, found.lines, strict=True):
        where = f"{found.path}, row {line:,}: {quoted(pool.ids[row])}"
        if not session.may_ask(row):
            return (
                f"{where} was not selected for labelling; only answers to rows of the batches can "
                "be used. Remove it. Nothing was read from the file."
            )
        if session.label_of(row) not in (None, value):
            now, before = ("positive", "negative") if value else ("negative", "positive")
            return (
                f"{where} is {now} here and was {before} in an earlier answer. Correct the file, "
                "or pass --replace if the new label is right. Nothing was read from the file."
            )
    return f"{found.path}: the answers cannot be added."
