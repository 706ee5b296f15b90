"""Fingerprints of rows: overlaps are found, coincidences are not, and rows cannot be read."""

import json

import numpy as np
import pandas as pd
import pytest

from setpoint.data import fingerprints
from setpoint.data.fingerprints import Fingerprints, row_hashes, table_digest
from setpoint.data.table_reader import read_table
from setpoint.tables.schema import Schema


def rows_of(n, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "k": rng.integers(0, 50, n).astype(float),
            "where": pd.Series(rng.choice(["home", "away", ""], n), dtype="str"),
        }
    )


def hashes_of(n, seed=0):
    return row_hashes(rows_of(n, seed), np.random.default_rng(seed).random(n) < 0.3)


def test_equal_values_have_equal_hashes_however_they_are_stored(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "f": rng.normal(size=200),
            "single": rng.normal(size=200).astype(np.float32),
            "i": rng.integers(-5, 5, 200),
            "gaps": pd.array([None if i % 7 == 0 else i for i in range(200)], dtype="Int64"),
            "flag": rng.random(200) < 0.5,
            "where": rng.choice(["home", "away", None], 200),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 9**6, 200), "s"),
            "zero": np.where(rng.random(200) < 0.5, 0.0, -0.0) * rng.integers(0, 2, 200),
        }
    )
    frame.loc[::5, "f"] = np.nan
    frame.loc[0, "zero"] = 1.0
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    frame.astype({"where": "category", "i": "float32", "f": "object"}).to_parquet(
        tmp_path / "other.parquet"
    )
    y = rng.random(200) < 0.5
    schema = Schema.of(frame)
    read = [read_table(tmp_path / name) for name in ("t.csv", "t.parquet", "other.parquet")]
    first, *others = [row_hashes(schema.check(table), y) for table in (frame, *read)]
    for other in others:
        np.testing.assert_array_equal(first, other)
    shuffled = rng.permutation(200)
    moved = schema.check(frame.iloc[shuffled, ::-1].reset_index(drop=True))
    np.testing.assert_array_equal(row_hashes(moved, y[shuffled]), first[shuffled])
    assert table_digest(first[shuffled]) == table_digest(first)
    assert not (row_hashes(schema.check(frame), ~y) == first).any()
    assert len(np.unique(first)) == 200


def test_small_tables_are_compared_exactly():
    hashes = hashes_of(1_000)
    known = Fingerprints.of(hashes[:600])
    found = known.overlap(hashes)
    assert (found.known, found.compared, found.rows) == (600, 1_000, 1_000)
    assert found.is_notable
    assert str(found) == "600 of 1,000 rows (60%)"
    fresh = known.overlap(hashes_of(1_000, seed=1))
    assert (fresh.known, fresh.is_notable) == (0, False)
    assert not known.overlap(hashes[:0]).is_notable


def test_large_tables_are_compared_by_a_sample(monkeypatch):
    monkeypatch.setattr(fingerprints, "_MOST", 500)
    for hashed in (1 << 21, 5_000):
        monkeypatch.setattr(fingerprints, "_HASHED", hashed)
        hashes = hashes_of(20_000)
        known = Fingerprints.of(hashes[:10_000])
        assert len(known.values) == 500
        assert (known.level > 0) == (hashed == 5_000)
        found = known.overlap(hashes)
        assert 600 < found.compared < 1_500
        assert abs(found.fraction - 0.5) < 0.07
        assert found.is_notable
        assert str(found).startswith("about ")
        assert known.overlap(hashes_of(20_000, seed=1)).known == 0


def test_rows_that_are_equal_by_coincidence_are_not_notable():
    rng = np.random.default_rng(0)
    for levels, notable in ((3, False), (2_000, True)):
        table = pd.DataFrame({"a": rng.integers(0, levels, 2_000).astype(float), "b": 1.0})
        hashes = row_hashes(table, rng.random(2_000) < 0.1)
        known = Fingerprints.of(hashes[:1_000])
        fresh = known.overlap(hashes[1_000:])
        assert fresh.known > 100
        assert not fresh.is_notable
        assert known.overlap(hashes[:1_000]).is_notable == notable


def test_fingerprints_of_several_tables(monkeypatch):
    monkeypatch.setattr(fingerprints, "_MOST", 700)
    tables = [hashes_of(500, seed) for seed in range(4)]
    known = Fingerprints.of(tables[0])
    for table in tables[1:3]:
        assert not known.overlap(table).is_notable
        known = known.joined(table)
    assert known.rows == 1_500
    assert len(known.values) == 700
    assert [known.overlap(table).is_notable for table in tables] == [True, True, True, False]
    assert known.overlap(tables[1]).fraction == 1


def test_fingerprints_are_plain_values_and_the_same_each_time():
    hashes = hashes_of(300)
    known = Fingerprints.of(hashes)
    fields = json.loads(json.dumps(known.to_dict()))
    again = Fingerprints.from_dict(fields)
    assert again.to_dict() == known.to_dict() == Fingerprints.of(hashes[::-1]).to_dict()
    assert again.overlap(hashes).known == 300
    assert len(json.dumps(fields)) < 300 * 9 + 300
    for damage in (
        {"key": "00"}, {"values": "abc"}, {"limit": -1}, {"rows": -1}, {"level": 99},
        {"repeated": 2}, {"key": "zz"},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="fingerprints|base64|hex|padding"):
            Fingerprints.from_dict(fields | damage)


def test_tables_have_keys_of_their_own():
    one, other = Fingerprints.of(hashes_of(100)), Fingerprints.of(hashes_of(101))
    assert one.key != other.key
    assert not np.isin(one.values, other.values).any()
