"""Scores for files of any size, with notes on values that training has not seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setpoint._internal.imports import OptionalModule
from setpoint._internal.validation import listed
from setpoint.data.table_reader import BATCH_ROWS, TableFile
from setpoint.data.table_writer import TableWriter
from setpoint.data.values import MISSING, is_present, is_text_like, without_categories
from setpoint.errors import SchemaError, SetpointError, TableFileError
from setpoint.goals.periods import period_codes
from setpoint.tables.encoder import CATEGORIES, encoder_parts
from setpoint.tables.goal_columns import calendar_times
from setpoint.tables.kinds import Column
from setpoint.tables.schema import Schema, absent
from setpoint.tables.uncovered_segments import UncoveredSegments

if TYPE_CHECKING:
    from setpoint.tables.label_model import LabelsTableModel
    from setpoint.tables.model import TableModel

pd = OptionalModule("pandas", "cli", "a table")

_SHOWN = 3
_OFTEN = 0.05  # of the rows; a lower fraction of missing values is not reported
_TIMES = 10  # as often as in training


class Top(NamedTuple):
    """The highest scores of each period raise an alarm, whatever the threshold.

    Attributes
    ----------
    alarms : int
        How many, in each period.
    period : str or None
        "hour", "day", "week" or "month"; None: in the whole table.
    time : str or None
        The column of the times.
    """

    alarms: int
    period: str | None = None
    time: str | None = None


class Scored(NamedTuple):
    """Numbers of rows and of alarms, and notes on unseen values.

    For a review band, ``reviews`` is the number of reviews. For a model of several labels,
    ``alarms`` is the number of rows with an alarm, and ``of_labels`` has the number of each label.
    """

    rows: int
    alarms: int
    notes: tuple[str, ...] = ()
    reviews: int | None = None
    of_labels: dict[str, int] | None = None


def score_file(
    model: TableModel | LabelsTableModel,
    source: str | Path,
    out: str | Path,
    *,
    batch_rows: int = BATCH_ROWS,
    keep: Sequence[str] = (),
    ignore_extra: bool = False,
    progress: Callable[[int], object] | None = None,
    top: Top | None = None,
) -> Scored:
    """Score the rows of a file or a folder, in batches, and write them to another file.

    Parameters
    ----------
    model : TableModel or LabelsTableModel
        The model.
    source, out : path
        Tables; see :class:`TableFile`. Rows of a folder come in the order of its files. The result
        has the columns to keep, and score (> 0 is an alarm), alarm and predicted, the label; or
        score and decision of a review band; or score and alarm of each of several labels. It
        appears when it is complete.
    batch_rows : int
        The number of rows in memory at a time.
    keep : sequence of str
        Columns to copy to the result, e.g. an identifier.
    ignore_extra : bool
        Whether to ignore columns that the model does not know; those to keep are always allowed.
    progress : callable, optional
        Called as ``progress(rows)`` after each batch, with the number of rows done so far.
    top : Top, optional
        Raise alarms for the highest scores of each period instead. Of equal scores, the earlier
        rows of the table come first. The table is then read twice, and all scores are in memory.
    """
    file = TableFile(source)
    there = Path(out).resolve()
    if there == Path(source).resolve():
        raise TableFileError(f"{out} is the table to score; name another file for the result.")
    if Path(source).resolve() in there.parents:
        raise TableFileError(f"{out} is inside {source}, the table to score; name another path.")
    if taken := [name for name in keep if name in model.rule.columns]:
        raise TableFileError(
            f"the column {taken[0]!r} cannot be kept, since the result has one of that name; "
            f"rename it in {source}."
        )
    if top is not None and model.rule.labels:
        raise SetpointError(
            "the highest scores can raise the alarms of one label only; this model has a threshold "
            "for each of several labels, and decides by these."
        )
    if top is not None and "alarm" not in model.rule.columns:
        raise SetpointError(
            "the highest scores cannot raise the alarms of a review band, since all else would be "
            "cleared without a review; the model decides by its two thresholds."
        )
    timed = [] if top is None or top.time is None else [top.time]
    if missing := [name for name in timed if name not in file.names]:
        raise TableFileError(
            f"there is no column {missing[0]!r} with the times; the table has {listed(file.names)}."
        )
    known = [*keep, *timed, *model.decision_columns]
    with file.explaining():
        model.schema.check_names(file.names, ignore_extra, known=known)
    decided = [name for name in model.decision_columns if name in file.names]
    segments = [n for n in UncoveredSegments(model.classifier).columns if n in file.names]
    wanted = list(dict.fromkeys([*keep, *model.schema.names, *decided, *segments]))
    unseen = UnseenValues(model.schema, model.encoder, model.classifier)
    chosen = None if top is None else _top_rows(model, file, batch_rows, top)
    rows, counts = 0, Counter(dict.fromkeys(model.rule.counts, 0))
    with TableWriter(out) as writer:
        for frame in file.frames(batch_rows, wanted, model.schema.texts):
            try:
                checked = model.schema.check(frame, ignore_extra=True, first_row=rows)
            except SchemaError as error:
                raise SchemaError(f"{error}{file.where(rows)}") from error
            unseen.add(checked, frame)
            alarm = None if chosen is None else chosen[rows : rows + len(checked)]
            found = model.predict_checked(checked, rows, alarm, model.decided_by(frame))
            for position, name in enumerate(dict.fromkeys(keep)):
                found.insert(position, name, frame[name])
            writer.write(found)
            rows += len(found)
            counts.update(model.rule.counted(found))
            if progress is not None:
                progress(rows)
    of_labels = {name: counts[f"{name}_alarm"] for name in model.rule.labels} or None
    return Scored(rows, counts["alarms"], tuple(unseen.notes), counts.get("reviews"), of_labels)


def _top_rows(model: Any, file: TableFile, batch_rows: int, top: Top) -> NDArray[np.bool_]:
    """Return which rows of a file have the highest scores of their period."""
    timed = [] if top.time is None else [top.time]
    decided = [name for name in model.decision_columns if name in file.names]
    wanted = list(dict.fromkeys([*model.schema.names, *timed, *decided]))
    scores: list[Any] = []
    times: list[Any] = []
    for frame in file.frames(batch_rows, wanted, model.schema.texts):
        done = sum(map(len, scores))
        try:
            scores.append(model.scores(frame, ignore_extra=True, first_row=done))
        except SchemaError as error:
            raise SchemaError(f"{error}{file.where(done)}") from error
        if top.time is not None:
            times.append(frame[top.time])
    if not scores:
        return np.zeros(0, dtype=bool)
    periods = None
    if top.period is not None:
        # All at once: the format of times and the numbers of rows are those of the whole table.
        whole = calendar_times(pd.concat(times, ignore_index=True))
        periods = period_codes(whole, top.period).codes
    return highest_of_each(np.concatenate(scores), periods, top.alarms)


def highest_of_each(
    scores: NDArray[np.floating], periods: NDArray[Any] | None, count: int
) -> NDArray[np.bool_]:
    """Return which rows are among the ``count`` highest of their period; the earlier of equal ones.

    Examples
    --------
    >>> scores = np.array([0.2, 0.9, 0.9, 0.1, 0.3])
    >>> highest_of_each(scores, np.array(["mon", "mon", "mon", "tue", "tue"]), 1).tolist()
    [False, True, False, False, True]
    """
    codes = np.zeros(len(scores), dtype=np.intp)
    if periods is not None:
        _, codes = np.unique(periods, return_inverse=True)
    order = np.lexsort((np.arange(len(scores)), -scores, codes))
    ordered = codes[order]
    first = np.searchsorted(ordered, ordered, side="left")  # of each row's period
    chosen = np.zeros(len(scores), dtype=bool)
    chosen[order[np.arange(len(scores)) - first < count]] = True
    return chosen


class UnseenValues:
    """Counts levels of categories that training has not seen, and unusually many missing values.

    Rows may be added in batches. Categories that the encoder represents by their letters, since
    they have many levels, have no unseen values. Schema and encoder are those of the model. With
    the model's classifier, rows of segments that the goal does not cover are counted as well.
    """

    def __init__(self, schema: Schema, encoder: Any, classifier: Any = None) -> None:
        self._rows = 0
        self._segments = UncoveredSegments(classifier)
        self._columns = schema.columns
        self._missing_counts: Counter[str] = Counter()
        self._known: dict[str, set[str]] = {}
        steps = [step for part in encoder_parts(encoder) for step in part.transformers_]
        for part, transformer, columns in steps:
            if part in CATEGORIES:
                levels = getattr(transformer, "steps", [("", transformer)])[-1][1].categories_
                self._known |= {n: {"", *seen} for n, seen in zip(columns, levels, strict=True)}
        self._unseen: dict[str, Counter[str]] = {name: Counter() for name in self._known}
        self._markers: dict[str, Counter[str]] = {name: Counter() for name in schema.names}

    def add(self, checked: Any, original: Any) -> None:
        """Count rows, as :meth:`Schema.check` returned them and as they were before."""
        self._rows += len(checked)
        self._segments.add(original)
        for column in self._columns:
            name = column.name
            missing = absent(checked[name]).to_numpy(dtype=bool)
            self._missing_counts[name] += int(missing.sum())
            if column.kind in ("number", "date"):
                self._markers[name].update(_markers(original[name], missing, column))
        for name, known in self._known.items():
            counts = checked[name].value_counts()
            self._unseen[name].update({t: int(n) for t, n in counts.items() if t not in known})

    @property
    def notes(self) -> list[str]:
        """A sentence for each column with unseen, uncovered or unusually many missing values."""
        found = self._segments.notes
        for name, counts in self._unseen.items():
            if counts:
                found.append(
                    f"In {name!r}, {counts.total():,} of {self._rows:,} values did not occur in "
                    f"training ({_most_common(counts)}) and are ignored by the model."
                )
        for column in self._columns:
            if counts := self._markers[column.name]:
                what, one = column.kind, counts.total() == 1
                found.append(
                    f"In {column.name!r}, {counts.total():,} value{'' if one else 's'} "
                    f"count{'s' if one else ''} as missing ({_most_common(counts)}), since "
                    f"{f'it is not a {what}' if one else f'they are not {what}s'}."
                )
        return found + list(self._missing())

    def _missing(self) -> Iterator[str]:
        """Yield a sentence for each column that is missing much more often than in training."""
        for column in self._columns:
            count = self._missing_counts[column.name]
            if self._rows < 2 or count < 2:  # in one row it may well be missing
                continue
            rows = f"all {count:,}" if count == self._rows else f"{count:,} of {self._rows:,}"
            before, total = column.absent or (0, 0)  # not recorded by older models
            if count == self._rows and before == 0:
                yield f"{column.name!r} is missing in {rows} rows; in training it never was."
            elif total and count >= self._rows * _reported_from(before / total):
                yield (
                    f"{column.name!r} is missing in {rows} rows; in training it was missing in "
                    f"{before:,} of {total:,}."
                )


def _reported_from(before: float) -> float:
    """Return the fraction of missing values to report, given the fraction in training."""
    return 1.0 if _TIMES * before > 1 > before else max(_OFTEN, _TIMES * before)


def _markers(series: Any, missing: Any, column: Column) -> Iterator[str]:
    """Yield the texts that count as missing and did not occur in training."""
    series = without_categories(series)
    if is_text_like(series):
        known = {*MISSING, *column.missing}
        texts = (str(v).strip() for v in series[missing & is_present(series)])
        yield from (text for text in texts if text not in known)


def _most_common(counts: Counter[str]) -> str:
    often = listed(text for text, _ in counts.most_common(_SHOWN))
    return often + (", ..." if len(counts) > _SHOWN else "")
