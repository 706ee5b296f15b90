"""Credit-card fraud."""

import hashlib
import re

import numpy as np
import pytest

from setpoint import SetpointError
from setpoint.paper.datasets import (
    CorruptDataError,
    MissingDataError,
    creditcard,
    load_creditcard,
)
from setpoint.paper.datasets.files import Expected

COLUMNS = ["Time", *(f"V{i}" for i in range(1, 29)), "Amount", "Class"]
ROWS, POSITIVES = 40, 3


def table():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(ROWS, 30)).round(6)
    values[:, 0] = np.arange(ROWS)
    return values, np.arange(ROWS) % 16 == 5


def write(folder, columns=COLUMNS, quotes=True):
    """Write a file like the original: quoted header, quoted class."""
    values, y = table()
    q = '"' if quotes else ""
    lines = [",".join(f"{q}{c}{q}" for c in columns)]
    for row, label in zip(values, y, strict=True):
        cells = dict(zip(COLUMNS, [*(f"{v:g}" for v in row), f"{q}{int(label)}{q}"], strict=True))
        lines.append(",".join(cells[c] for c in columns))
    path = folder / "creditcard.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def load(monkeypatch):
    """Return a loader to which files like those of ``write`` are the published ones."""

    def load(columns="pca", exact=False, md5=None):
        monkeypatch.setattr(creditcard, "PUBLISHED", Expected(ROWS, POSITIVES, md5))
        return load_creditcard(columns, exact=exact)

    return load


def test_columns(folder, load):
    values, y = table()
    for quotes in (True, False):
        write(folder, quotes=quotes)
        data = load()
        np.testing.assert_allclose(data.X, values[:, 1:29], rtol=1e-4)
        assert (data.y == y).all()
        assert (data.name, data.groups, data.part) == ("creditcard", None, None)
        np.testing.assert_allclose(load("all").X, values, rtol=1e-4)


def test_order_and_unused_columns_do_not_matter(folder, load):
    write(folder, columns=[c for c in reversed(COLUMNS) if c != "Time"])
    np.testing.assert_allclose(load().X, table()[0][:, 1:29], rtol=1e-4)
    with pytest.raises(CorruptDataError, match="has no column Time"):
        load("all")


def test_the_source_distinguishes_the_original_from_other_exports(folder, load):
    md5 = hashlib.md5(write(folder).read_bytes()).hexdigest()
    assert load(md5=md5).source == f"creditcard.csv (md5 {md5}, the original)"
    assert load(md5="0" * 32).source == f"creditcard.csv (md5 {md5}, another export of the table)"
    assert load(exact=True, md5=md5).positives == POSITIVES
    with pytest.raises(CorruptDataError, match=f"has the md5 {md5} instead of the published 0000"):
        load(exact=True, md5="0" * 32)


def test_missing(folder):
    with pytest.raises(MissingDataError, match=r"creditcard\.csv not found in .*kaggle\.com.*SETP"):
        load_creditcard()


def test_unknown_columns(folder):
    with pytest.raises(SetpointError, match="columns must be 'pca' or 'all', not 'most'"):
        load_creditcard("most")


def test_the_published_counts_are_the_default(folder):
    assert Expected(284_807, 492, "e90efcb83d69faf99fcab8b0255024de") == creditcard.PUBLISHED
    write(folder)
    with pytest.raises(CorruptDataError, match="40 rows instead of 284,807: it is truncated"):
        load_creditcard()


def test_a_file_truncated_anywhere_raises(folder, load):
    path = write(folder)
    content = path.read_bytes()
    advice = "Replace it: download creditcard.csv from https://"
    for fraction in (0.3, 0.5, 0.9, 0.999):
        path.write_bytes(content[: int(len(content) * fraction)])
        with pytest.raises(CorruptDataError, match=advice):
            load()


def replace(path, row, column, value):
    lines = path.read_text().splitlines()
    cells = lines[row].split(",")
    cells[COLUMNS.index(column)] = value
    lines[row] = ",".join(cells)
    path.write_text("\n".join(lines) + "\n")


def test_damage(folder, load):
    for row, column, value, message in (
        (7, "V3", "n/a?", "column V3: row 7 holds 'n/a?', not a number"),
        (40, "V28", "", "column V28: row 40 is empty (the last row"),
        (2, "Class", '"2"', "labels other than 0, 1 in the column Class: 2, first in row 2"),
        (1, "Class", '"fraud"', "column Class: row 1 holds 'fraud', not a number"),
        (1, "Class", '"1"', "has 4 positives instead of 3"),
        (0, "V9", '"v9"', "has no column V9"),
    ):
        replace(write(folder), row, column, value)
        with pytest.raises(CorruptDataError, match=re.escape(message)):
            load()


def test_empty(folder, load):
    (folder / "creditcard.csv").touch()
    with pytest.raises(CorruptDataError, match=r"creditcard\.csv is empty"):
        load()


def test_instructions_for_the_original_do_not_suggest_writing_the_table(folder):
    with pytest.raises(MissingDataError) as missing:
        load_creditcard(exact=True)
    write(folder)
    with pytest.raises(CorruptDataError, match="has the md5") as wrong:
        load_creditcard(exact=True)
    for caught in (missing, wrong):
        message = str(caught.value)
        assert "download creditcard.csv from https://www.kaggle.com/datasets/mlg-ulb" in message
        assert "a copy saved by another program is rejected" in message
        assert "openml" not in message
