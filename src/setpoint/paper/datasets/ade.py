"""Adverse drug events: sentences of case reports (ADE corpus, version 2).

The corpus repeats a sentence for each pair of drug and effect: 20,896 distinct texts make 23,516
rows, so a random split of the rows, as in the paper, has the same text on both sides; see
:func:`setpoint.paper.datasets.leaks`. The corpus has 6,821 positive rows; the paper's data table
has 6,793.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from setpoint.paper.datasets.dataset import Dataset, check_rows
from setpoint.paper.datasets.files import (
    Expected,
    check_counts,
    check_labels,
    corrupt,
    find,
    lines,
    named,
    read_parquet,
    read_quantized,
)

PUBLISHED = Expected(rows=23_516, positives=6_821)
_CORPUS = ("DRUG-AE.rel", "ADE-NEG.txt")
_JSONL = ("ade_corpus_v2_classification/train.jsonl", "ade_corpus_v2_classification/test.jsonl")
_TABLE = ("ade_v2.parquet",)
_VECTORS = ("ade_v2_mpnet.npz",)
_ORIGINAL = (
    "DRUG-AE.rel and ADE-NEG.txt of the ADE-Corpus-V2 from https://sites.google.com/site/adecorpus"
)
HOW = (
    "download train.jsonl and test.jsonl from "
    "https://huggingface.co/datasets/SetFit/ade_corpus_v2_classification into a subfolder "
    f"ade_corpus_v2_classification, or {_ORIGINAL}"
)
_HOW_TABLE = (
    f"download {_ORIGINAL}; write what setpoint.paper.datasets.load_ade_texts reads from them as "
    "ade_v2.parquet with the columns text, label (0 or 1), pmid and text_id (from 0, in order of "
    "first occurrence)"
)
_HOW_VECTORS = (
    "embed the distinct texts with https://huggingface.co/sentence-transformers/all-mpnet-base-v2 "
    "(mean pooling), in the order of text_id, and store them in ade_v2_mpnet.npz as q (uint8), "
    "scale and offset: X = q * scale + offset"
)
_NEGATIVE = re.compile(r"(\d+)\s+NEG\s+(\S.*)")


@dataclass(frozen=True, eq=False)
class Texts:
    """Texts with labels, from which features are extracted.

    Attributes
    ----------
    texts : tuple of str
        One per row; a text may occur in several rows.
    y : ndarray of bool
        The labels.
    groups : ndarray of int64
        The number of the distinct text, from 0 in order of first occurrence.
    articles : ndarray of int64 or None
        The PubMed number of the article, if the files contain it.
    source : str
        The files that were read.
    """

    texts: tuple[str, ...]
    y: NDArray[np.bool_]
    groups: NDArray[np.int64]
    articles: NDArray[np.int64] | None
    source: str

    def __post_init__(self) -> None:
        check_rows("texts", len(self.texts), self.y, self.groups, None)

    def __len__(self) -> int:
        return len(self.texts)


def load_ade_texts() -> Texts:
    """Return the sentences, from the first form of the corpus that is found.

    The forms are the corpus as published (``DRUG-AE.rel``, ``ADE-NEG.txt``), the files of
    ``SetFit/ade_corpus_v2_classification`` on Hugging Face (``train.jsonl``, ``test.jsonl``; as in
    the paper, their split is not used) and the table ``ade_v2.parquet``.
    """
    first, *others = find(_CORPUS, _JSONL, _TABLE, how=HOW)
    if first.suffix == ".rel":
        return _read_corpus(first, others[0])
    if first.suffix == ".jsonl":
        return _read_jsonl((first, *others))
    return _read_table(first)


def load_ade_features() -> Dataset:
    """Return the sentence embeddings (768 numbers), one row per row of the corpus.

    They are read from ``ade_v2.parquet`` and ``ade_v2_mpnet.npz``; rows of one text are a group.
    """
    (table,) = find(_TABLE, how=f"{_HOW_TABLE}; {_HOW_VECTORS}")
    (vectors,) = find(_VECTORS, how=_HOW_VECTORS)
    texts = _read_table(table)
    X = read_quantized(vectors, (), _HOW_VECTORS)["X"]
    distinct = int(texts.groups.max()) + 1
    if len(X) != distinct:
        raise corrupt(
            vectors, f"has {len(X):,} rows, but {table.name} has {distinct:,} texts", _HOW_VECTORS
        )
    source = f"{texts.source}, {named(vectors)}"
    return Dataset("ade", X[texts.groups], texts.y, groups=texts.groups, source=source)


def _read_table(path: Path) -> Texts:
    table = read_parquet(path, ("label", "text_id", "pmid"), ("text",), _HOW_TABLE)
    labels, numbers = table["label"], table["text_id"]
    check_labels(path, "label", labels, (0, 1), _HOW_TABLE)
    check_counts(path, len(labels), int(labels.sum()), PUBLISHED, _HOW_TABLE)
    texts = _texts((path,), table["text"].tolist(), labels == 1, table["pmid"].astype(np.int64))
    wrong = np.flatnonzero(texts.groups != numbers)
    if len(wrong):  # the embeddings are stored by this number
        row = int(wrong[0])
        raise corrupt(
            path,
            f"has text_id {numbers[row]:g} in row {row + 1:,} instead of {texts.groups[row]}: the "
            "texts are not numbered in order of first occurrence",
            _HOW_TABLE,
        )
    return texts


def _read_corpus(positive: Path, negative: Path) -> Texts:
    positives = [_related(positive, *line) for line in lines(positive, HOW)]
    negatives = [_unrelated(negative, *line) for line in lines(negative, HOW)]
    assert PUBLISHED.positives is not None
    published_negatives = PUBLISHED.rows - PUBLISHED.positives
    check_counts(positive, len(positives), 0, Expected(PUBLISHED.positives), HOW)
    check_counts(negative, len(negatives), 0, Expected(published_negatives), HOW)
    articles, texts = zip(*positives, *negatives, strict=True)
    y = np.arange(len(texts)) < len(positives)
    return _texts((positive, negative), texts, y, np.array(articles, dtype=np.int64))


def _related(path: Path, number: int, line: str) -> tuple[int, str]:
    """Return article and sentence of a line of ``DRUG-AE.rel``."""
    article, *rest = line.split("|")
    sentence = "|".join(rest[:-6])  # six fields follow; the sentence may contain a bar
    if not article.isdecimal() or not sentence.strip():
        raise corrupt(
            path,
            f"has {line[:40]!r} in line {number:,} ({len(rest) + 1} fields), where "
            "pmid|sentence|effect|begin|end|drug|begin|end is expected",
            HOW,
        )
    return int(article), sentence


def _unrelated(path: Path, number: int, line: str) -> tuple[int, str]:
    """Return article and sentence of a line of ``ADE-NEG.txt``."""
    match = _NEGATIVE.fullmatch(line)
    if match is None:
        raise corrupt(
            path,
            f"has {line[:40]!r} in line {number:,}, where 'pmid NEG sentence' is expected",
            HOW,
        )
    return int(match[1]), match[2]


def _read_jsonl(paths: Sequence[Path]) -> Texts:
    rows = [_json_row(path, *line) for path in paths for line in lines(path, HOW)]
    texts, labels = zip(*rows, strict=True)
    # The positives of this copy are not checked: the paper, which used it, counts 28 fewer than
    # the corpus has. ``source`` names their number.
    both = " with ".join(map(str, paths))
    check_counts(both, len(rows), 0, Expected(PUBLISHED.rows), HOW)
    return _texts(paths, texts, np.array(labels), None)


def _json_row(path: Path, number: int, line: str) -> tuple[str, bool]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise corrupt(path, f"has incomplete JSON in line {number:,} ({error})", HOW) from error
    fields = row if isinstance(row, dict) else {}
    text, label = fields.get("text"), fields.get("label")
    is_label = not isinstance(label, bool) and label in (0, 1)
    if not isinstance(text, str) or not text.strip() or not is_label:
        raise corrupt(
            path,
            f"has {line[:60]!r} in line {number:,}, where a text and a label of 0 or 1 are "
            "expected",
            HOW,
        )
    return text, label == 1


def _texts(
    paths: Sequence[Path],
    texts: Sequence[str],
    y: NDArray[np.bool_],
    articles: NDArray[np.int64] | None,
) -> Texts:
    stripped = tuple(text.strip() for text in texts)
    numbers: dict[str, int] = {}
    groups = np.array([numbers.setdefault(t, len(numbers)) for t in stripped], dtype=np.int64)
    source = f"{named(*paths)}: {int(y.sum()):,} positives, {int(groups.max()) + 1:,} texts"
    return Texts(stripped, y, groups, articles, source)
