"""ADE-Corpus-V2."""

import json

import numpy as np
import pandas as pd
import pytest

from setpoint.paper.datasets import (
    CorruptDataError,
    MissingDataError,
    ade,
    load_ade_features,
    load_ade_texts,
)
from setpoint.paper.datasets.ade import PUBLISHED
from setpoint.paper.datasets.files import Expected

# The first sentence is in two rows, once per drug; one has a bar, one a separator of lines.
POSITIVE = [
    (11, "Rash after penicillin and ibuprofen.", "Rash|0|4|penicillin|11|21"),
    (11, "Rash after penicillin and ibuprofen.", "Rash|0|4|ibuprofen|26|35"),
    (12, "Levels of |A| rose\u2028after the drug.", "rose|14|18|drug|29|33"),
]
NEGATIVE = [(11, "The NEG sign was absent."), (13, "She recovered."), (13, "No event.")]
TEXTS = [row[1] for row in (*POSITIVE, *NEGATIVE)]
GROUPS = [0, 0, 1, 2, 3, 4]


@pytest.fixture(autouse=True)
def published(monkeypatch):
    """Let these six rows be the published ones."""
    monkeypatch.setattr(ade, "PUBLISHED", Expected(rows=6, positives=3))


def write_corpus(folder):
    rel = [f"{pmid}|{text}|{rest}" for pmid, text, rest in POSITIVE]
    neg = [f"{pmid} NEG {text}" for pmid, text in NEGATIVE]
    (folder / "DRUG-AE.rel").write_text("\n".join(rel) + "\n", encoding="utf-8")
    (folder / "ADE-NEG.txt").write_text("\n".join(neg) + "\n", encoding="utf-8")


def write_jsonl(folder, labels=(1, 1, 1, 0, 0, 0)):
    below = folder / "ade_corpus_v2_classification"
    below.mkdir()
    rows = [
        json.dumps({"text": text, "label": label, "label_text": "any"}, ensure_ascii=False)
        for text, label in zip(TEXTS, labels, strict=True)
    ]
    (below / "train.jsonl").write_text("\n".join(rows[:4]) + "\n", encoding="utf-8")
    (below / "test.jsonl").write_text("\n".join(rows[4:]) + "\n", encoding="utf-8")
    return below


def write_table(folder, **changes):
    columns = {
        "text": TEXTS,
        "label": [1, 1, 1, 0, 0, 0],
        "pmid": ["11", "11", "12", "11", "13", "13"],
        "text_id": GROUPS,
    } | changes
    pd.DataFrame(columns).to_parquet(folder / "ade_v2.parquet")


def write_vectors(folder, n=5):
    q = np.arange(n * 2, dtype=np.uint8).reshape(n, 2)
    scale, offset = np.array([1.0, 0.5], np.float32), np.array([0.0, -1.0], np.float32)
    np.savez(folder / "ade_v2_mpnet.npz", q=q, scale=scale, offset=offset)
    return q * scale + offset


@pytest.mark.parametrize("write", [write_corpus, write_jsonl, write_table])
def test_all_forms_give_the_same(folder, write):
    write(folder)
    found = load_ade_texts()
    assert list(found.texts) == TEXTS
    assert found.y.tolist() == [True] * 3 + [False] * 3
    assert found.groups.tolist() == GROUPS
    if write is write_jsonl:
        assert found.articles is None
    else:
        assert found.articles.tolist() == [11, 11, 12, 11, 13, 13]
    assert "md5" in found.source
    assert found.source.endswith("3 positives, 5 texts")
    assert len(found) == 6


def test_space_around_a_text_does_not_make_it_another(folder):
    write_corpus(folder)
    path = folder / "DRUG-AE.rel"
    path.write_text(path.read_text(encoding="utf-8").replace("|Rash", "| Rash", 1), "utf-8")
    found = load_ade_texts()
    assert list(found.texts) == TEXTS
    assert found.groups.tolist() == GROUPS


def test_missing_names_all_forms_and_pages(folder):
    with pytest.raises(MissingDataError) as caught:
        load_ade_texts()
    message = str(caught.value)
    for part in ("DRUG-AE.rel and ADE-NEG.txt, or ade_corpus_v2_classification/train.jsonl",
                 "ade_v2.parquet", "https://huggingface.co/datasets/SetFit/ade_corpus_v2",
                 "https://sites.google.com/site/adecorpus", str(folder)):  # fmt: skip
        assert part in message


def test_the_counts_of_the_corpus_are_checked(folder, monkeypatch):
    assert (PUBLISHED.rows, PUBLISHED.positives) == (23_516, 6_821)
    monkeypatch.setattr(ade, "PUBLISHED", PUBLISHED)
    write_corpus(folder)
    with pytest.raises(CorruptDataError, match="DRUG-AE.rel has 3 rows instead of 6,821"):
        load_ade_texts()


@pytest.mark.parametrize("name", ["DRUG-AE.rel", "ADE-NEG.txt"])
def test_a_truncated_file_is_named(folder, name):
    write_corpus(folder)
    path = folder / name
    content = path.read_bytes().rstrip(b"\n")
    path.write_bytes(content[: content.rindex(b"\n") + 1])
    with pytest.raises(CorruptDataError, match=f"{name} has 2 rows instead of 3: it is truncated"):
        load_ade_texts()


def test_broken_lines_of_the_corpus(folder):
    for name, line, message in (
        ("DRUG-AE.rel", "12|Too few.|few|4|7|too", "in line 2 (6 fields), where pmid|sentence|"),
        ("DRUG-AE.rel", "12||few|4|7|too|0|3", "in line 2 (8 fields)"),  # no sentence
        ("DRUG-AE.rel", "PM12|A text.|few|4|7|too|0|3", "has 'PM12|A text.|few|4|7|too|0|3' in"),
        ("DRUG-AE.rel", "<html>", "has '<html>' in line 2 (1 fields)"),
        ("ADE-NEG.txt", "13 She recovered.", "has '13 She recovered.' in line 2, where 'pmid NEG"),
        ("ADE-NEG.txt", "13 NEG ", "in line 2, where 'pmid NEG sentence' is expected"),
        ("ADE-NEG.txt", "x NEG She recovered.", "in line 2, where"),
    ):
        write_corpus(folder)
        lines = (folder / name).read_text(encoding="utf-8").split("\n")
        lines[1] = line
        (folder / name).write_text("\n".join(lines), encoding="utf-8")
        with pytest.raises(CorruptDataError) as caught:
            load_ade_texts()
        assert str(folder / name) in str(caught.value)
        assert message in str(caught.value)


def test_broken_jsonl(folder):
    path = write_jsonl(folder) / "test.jsonl"
    first = path.read_text().split("\n")[0]
    expected = "where a text and a label of 0 or 1 are expected"
    broken = {
        '{"text": "cut o': "test.jsonl has incomplete JSON in line 2",
        "": r"train.jsonl with .*test.jsonl has 5 rows instead of 6: it is truncated",
        '["a text", 1]': f"in line 2, {expected}",
        '{"text": "no label"}': expected,
        '{"text": " ", "label": 1}': expected,
        '{"text": null, "label": 1}': expected,
    }
    for label in ("2", '"1"', "true", "[1]"):
        broken[f'{{"text": "a", "label": {label}}}'] = expected
    for line, message in broken.items():
        path.write_text(f"{first}\n{line}\n")
        with pytest.raises(CorruptDataError, match=message):
            load_ade_texts()


def test_an_empty_jsonl(folder):
    (write_jsonl(folder) / "train.jsonl").write_text("")
    with pytest.raises(CorruptDataError, match="train.jsonl is empty"):
        load_ade_texts()


def test_the_positives_of_the_jsonl_copy_are_recorded_not_checked(folder):
    write_jsonl(folder, labels=(1, 1, 0, 0, 0, 0))
    assert load_ade_texts().source.endswith("2 positives, 5 texts")


def test_broken_tables(folder):
    for changes, message in (
        ({"label": [1, 1, 1, 0, 0, 2]}, "labels other than 0, 1 in the column label: 2, first in"),
        ({"label": [1, 1, 0, 0, 0, 0]}, "has 2 positives instead of 3"),
        ({"text_id": [0, 0, 2, 1, 3, 4]}, "has text_id 2 in row 3 instead of 1: the texts are not"),
        ({"pmid": ["11", "x", "12", "11", "13", "13"]}, "column pmid: row 2 holds 'x'"),
        ({"text": [*TEXTS[:5], None]}, "column text: row 6 is empty"),
    ):
        write_table(folder, **changes)
        with pytest.raises(CorruptDataError) as caught:
            load_ade_texts()
        assert message in str(caught.value)


def test_features_are_one_row_per_row_of_the_corpus(folder):
    write_table(folder)
    vectors = write_vectors(folder)
    data = load_ade_features()
    assert (vectors[GROUPS] == data.X).all()
    assert data.groups.tolist() == GROUPS
    assert data.y.tolist() == [True] * 3 + [False] * 3
    assert data.name == "ade"
    assert "ade_v2.parquet (md5" in data.source
    assert "ade_v2_mpnet.npz (md5" in data.source


def test_features_of_other_texts(folder):
    write_table(folder)
    write_vectors(folder, n=4)
    with pytest.raises(CorruptDataError, match="has 4 rows, but ade_v2.parquet has 5 texts"):
        load_ade_features()


def test_missing_features(folder):
    """The error names all missing files at once."""
    with pytest.raises(MissingDataError, match=r"^ade_v2\.parquet not found") as caught:
        load_ade_features()
    message = str(caught.value)
    for part in ("DRUG-AE.rel and ADE-NEG.txt", "https://sites.google.com/site/adecorpus",
                 "load_ade_texts", "ade_v2_mpnet.npz",
                 "https://huggingface.co/sentence-transformers/all-mpnet-base-v2"):  # fmt: skip
        assert part in message
    assert "jsonl" not in message  # they have no pmid, which the table must have
    write_table(folder)
    with pytest.raises(MissingDataError, match=r"^ade_v2_mpnet\.npz not found.*all-mpnet-base-v2"):
        load_ade_features()
