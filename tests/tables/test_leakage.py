"""Leakage is found, and clean tables have no warnings."""

import importlib

import numpy as np
import pandas as pd
import pytest

from setpoint import tables
from setpoint.data import Split, split_rows
from setpoint.tables.leakage import find_leakage
from setpoint.tables.schema import Schema

N = 1_000


def clean(n=N, seed=0, fraction=0.1):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < fraction
    frame = pd.DataFrame(
        {
            "strong": rng.normal(size=n) + 2.5 * y,  # area under the curve: 0.96
            "noise": rng.normal(size=n),
            "count": rng.poisson(3, n),
            "cents": np.round(np.exp(rng.normal(9, 1.5, n))),
            "level": rng.choice(list("abcde"), n),
            "shop": [f"s{i}" for i in rng.integers(0, 400, n)],
            "flag": rng.random(n) < 0.5,
            "gaps": np.where(rng.random(n) < 0.3, np.nan, rng.normal(size=n)),
            "when": pd.Timestamp("2024") + pd.to_timedelta(rng.integers(0, 10**6, n), "s"),
            "text": [f"this is some text number {i}, {bad}" for i, bad in enumerate(y)],
        }
    )
    return frame, y, rng


def leakage_in(frame, y, split=None):
    schema = Schema.of(frame)
    return find_leakage(schema.check(frame), y, schema, split or split_rows(len(y), y))


@pytest.mark.parametrize("seed", range(3))
def test_tables_without_leakage_have_no_warnings(seed):
    frame, y, _ = clean(seed=seed)
    assert leakage_in(frame, y) == []


def test_the_former_name_of_a_parameter_is_accepted():
    frame, y, _ = clean()
    schema = Schema.of(frame)
    with pytest.warns(DeprecationWarning, match="parts is deprecated; it is now split"):
        assert find_leakage(schema.check(frame), y, schema, parts=split_rows(N, y)) == []


def test_small_tables_without_leakage_have_no_warnings():
    for seed in range(4):
        frame, y, _ = clean(n=150, seed=seed, fraction=0.2)
        assert leakage_in(frame, y) == []


def leak(kind, y, rng):
    return {
        "number": np.where(y, 100.0, 1.0) + rng.normal(size=len(y)),
        "band": np.where(y, 0.0, rng.choice([-12.0, 12.0], len(y))) + rng.normal(size=len(y)),
        "category": np.where(y, rng.choice(["x", "y"], len(y)), rng.choice(["a", "b"], len(y))),
        "many levels": [f"{p}{rng.integers(60)}" for p in y],
        "date": pd.Timestamp("2024") + pd.to_timedelta(500 * y + rng.random(len(y)), "D"),
        "infinite": np.where(y, np.inf, rng.normal(size=len(y))),
    }[kind]  # fmt: skip


@pytest.mark.parametrize("kind", ["number", "band", "category", "many levels", "date", "infinite"])
def test_column_that_reveals_the_label(kind):
    frame, y, rng = clean()
    (found,) = leakage_in(frame.assign(leak=leak(kind, y, rng)), y)
    assert (found.kind, found.column) == ("predictor", "leak")
    assert "alone reveals the label" in found.message


def test_missingness_that_reveals_the_label():
    frame, y, rng = clean()
    values = np.where(y, rng.normal(size=N), np.nan)
    (found,) = leakage_in(frame.assign(closed=values), y)
    assert (found.kind, found.column) == ("missing", "closed")
    texts = pd.Series(rng.choice(["a", "b", "c"], N)).where(y, None)
    (found,) = leakage_in(frame.assign(closed=texts), y)
    assert found.kind == "missing"


@pytest.mark.parametrize(
    "rename", [lambda y: y, lambda y: np.where(y, "no", "yes"), lambda y: np.where(y, 3, 7)]
)
def test_label_by_another_name(rename):
    frame, y, _ = clean()
    (found,) = leakage_in(frame.assign(status=rename(y)), y)
    assert (found.kind, found.column) == ("label", "status")


@pytest.mark.parametrize(
    "values",
    [
        np.arange(N),
        np.random.default_rng(0).permutation(N) + 10**6,
        np.cumsum(np.random.default_rng(0).integers(1, 10**6, N)),
        [f"uuid-{i:x}" for i in np.random.default_rng(0).permutation(N)],
        np.random.default_rng(0).choice(10**9, N, replace=False),
        np.random.default_rng(0).choice(2**31, N, replace=False).astype(float),
        4_000_000_000 + np.random.default_rng(0).permutation(N) ** 2,  # numbers of one length
    ],
)
def test_identifiers(values):
    frame, y, _ = clean()
    (found,) = leakage_in(frame.assign(of=values), y)
    assert (found.kind, found.column) == ("identifier", "of")


@pytest.mark.parametrize("name", ["id", "customer_id", "customerId", "Row ID", "key", "index"])
def test_distinct_whole_numbers_with_the_name_of_an_identifier(name):
    frame, y, rng = clean()
    values = (3 + rng.permutation(N)) ** 2  # as different as amounts are
    assert leakage_in(frame.assign(paid=values), y) == []
    (found,) = leakage_in(frame.assign(**{name: values}), y)
    assert (found.kind, found.column) == ("identifier", name)


@pytest.mark.parametrize("name", ["Unnamed: 0", "Unnamed: 0.1", "", "__index_level_0__"])
def test_row_numbers_that_pandas_wrote(name):
    frame, y, _ = clean()
    for values in (np.arange(N), np.arange(N) % 300):  # of one table, and of several
        (found,) = leakage_in(frame.assign(**{name: values}), y)
        assert (found.kind, found.column) == ("identifier", name)
        assert "row numbers" in found.message
    assert leakage_in(frame.assign(**{name: frame["noise"]}), y) == []


@pytest.mark.parametrize("ids", ["random", "dense", "texts"])
def test_identifiers_do_not_hide_duplicates(ids):
    frame, y = doubled()
    n = len(frame)
    values = {
        "random": np.random.default_rng(1).choice(10**9, n, replace=False),
        "dense": np.random.default_rng(1).permutation(n),
        "texts": [f"case {i:05x}" for i in np.random.default_rng(1).permutation(n)],
    }[ids]
    split = Split(np.arange(N), np.arange(N, N + 100))
    first, second = leakage_in(frame.assign(case=values), y, split)
    assert (first.kind, first.column) == ("identifier", "case")
    assert second.kind == "duplicates"
    assert "100 of 100 test rows" in second.message
    assert "compared without 'case'" in second.message


def test_few_coarse_columns_besides_an_identifier_are_no_duplicates():
    _, y, rng = clean()
    coarse = pd.DataFrame({"a": rng.integers(0, 5, N), "b": rng.choice(list("xyz"), N)})
    found = leakage_in(coarse.assign(id=rng.choice(10**9, N, replace=False)), y)
    assert [sign.kind for sign in found] == ["identifier"]
    alone = pd.DataFrame({"id": rng.choice(10**9, N, replace=False), "k": rng.permutation(N)})
    assert {sign.kind for sign in leakage_in(alone, y)} == {"identifier"}


def test_rows_in_both_sets():
    frame, y, _ = clean()
    frame, y = pd.concat([frame, frame[:100]], ignore_index=True), np.r_[y, y[:90], ~y[90:100]]
    split = Split(np.arange(N), np.arange(N, N + 100))
    (found,) = leakage_in(frame, y, split)
    assert found.kind == "duplicates"
    assert "100 of 100 test rows" in found.message
    assert "90 of them with the same label" in found.message


def doubled(n=100):
    frame, y, _ = clean()
    return pd.concat([frame, frame[:n]], ignore_index=True), np.r_[y, y[:n]]


def test_rows_that_certify_and_were_trained_on():
    frame, y = doubled()
    split = Split(np.arange(N + 100), np.arange(0))
    schema = Schema.of(frame)
    judged = np.arange(N - 100), np.arange(N - 100, N + 100)
    (found,) = find_leakage(schema.check(frame), y, schema, split, judged)
    assert found.kind == "duplicates"
    assert "100 of 200 rows that set the threshold are among those trained on" in found.message
    assert "test rows" not in found.message
    apart = np.arange(100, N), np.r_[:100, N : N + 100]  # twins, but all of them certify
    assert find_leakage(schema.check(frame), y, schema, split, apart) == []


def test_duplicates_among_training_rows():
    frame, y = doubled()
    split = Split(np.arange(N + 100), np.arange(0))
    (found,) = leakage_in(frame, y, split)
    assert "200 of 1,100 training rows occur more than once" in found.message
    schema = Schema.of(frame)
    together = np.r_[:N, :100]  # a twin is of the same group, which is never parted
    assert find_leakage(schema.check(frame), y, schema, split, None, together) == []
    apart = np.arange(N + 100)
    (found,) = find_leakage(schema.check(frame), y, schema, split, None, apart)
    assert "200 of 1,100" in found.message


def test_equal_rows_of_a_coarse_table_are_no_surprise():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.integers(0, 3, N), "b": rng.choice(list("xy"), N)})
    assert leakage_in(frame, rng.random(N) < 0.2) == []


def test_too_few_positives_to_judge():
    frame, _, rng = clean()
    y = np.arange(N) < 5
    assert leakage_in(frame.assign(leak=leak("number", y, rng)), y) == []


@pytest.mark.parametrize(
    ("former", "name"),
    [
        ("Smell", "setpoint.tables.LeakageWarning"),
        ("find_smells", "setpoint.tables.find_leakage"),
        ("Ordinary", "setpoint.report.Baseline"),
    ],
)
def test_former_names_are_deprecated(former, name):
    with pytest.warns(DeprecationWarning, match=f"tables.{former} is deprecated; it is now {name}"):
        found = getattr(tables, former)
    package, _, own = name.rpartition(".")
    assert found is getattr(importlib.import_module(package), own)
