"""Training, validation, certification and test rows."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.model_selection import (
    GroupShuffleSplit,
    KFold,
    PredefinedSplit,
    StratifiedShuffleSplit,
)

from setpoint import SetpointError
from setpoint._internal.validation import check_groups, one_row_per_group
from setpoint.data import ArrayRows, Block, ByChance, ByTime
from setpoint.data.splits import (
    CERTIFICATION,
    TEST,
    TRAINING,
    VALIDATION,
    certification_split,
    given_split,
    has_validation,
    newest_split,
    rule_key,
    split_rows,
    validation_split,
)
from setpoint.errors import SplitError

# --- validation ---------------------------------------------------------------------------------


def labels(n=400, fraction=0.2, seed=0):
    return np.random.default_rng(seed).random(n) < fraction


def halves(validation, y, *, included=None, groups=None, seed=0):
    included = np.ones(len(y), dtype=bool) if included is None else included
    return validation_split(validation, y, included, groups, seed)


@pytest.mark.parametrize("validation", ["auto", 0.25, 0.4, np.float32(0.25)])
def test_a_fraction_is_split_off_at_random_and_stratified(validation):
    y = labels()
    train, held_out = halves(validation, y)
    fraction = 0.25 if validation == "auto" else validation
    assert sorted([*train, *held_out]) == list(range(len(y)))
    assert len(held_out) == pytest.approx(fraction * len(y), abs=1)
    assert y[held_out].mean() == pytest.approx(y.mean(), abs=0.01)
    again, other = halves(validation, y), halves(validation, y, seed=1)
    assert (again[1] == held_out).all()
    assert set(other[1]) != set(held_out)


def test_rows_of_one_group_stay_in_one_set():
    y = labels(1000)
    groups = np.random.default_rng(1).integers(0, 90, len(y)).astype(str)
    train, held_out = halves("auto", y, groups=groups)
    assert not set(groups[train]) & set(groups[held_out])
    assert len(held_out) == pytest.approx(250, abs=25)
    assert y[held_out].mean() == pytest.approx(y.mean(), abs=0.03)
    for fraction in (0.1, 0.6):
        assert len(halves(fraction, y, groups=groups)[1]) == pytest.approx(1000 * fraction, abs=40)


def test_a_large_group_is_not_always_held_out():
    y = labels(400)
    groups = np.where(np.arange(400) < 200, 0, np.arange(400))  # half of the rows are one group
    held = [len(halves("auto", y, groups=groups, seed=seed)[1]) for seed in range(6)]
    assert max(held) < 150
    one_has_most = np.zeros(400, dtype=bool)
    one_has_most[:40] = one_has_most[300:302] = True
    found = halves("auto", one_has_most, groups=groups)
    assert found is None  # nothing in between: forty positives in one group, two in others


def test_rows_without_weight_are_in_neither_set():
    y = labels()
    included = np.arange(len(y)) % 3 > 0
    for validation in ("auto", PredefinedSplit(np.where(np.arange(len(y)) < 300, -1, 0))):
        train, held_out = halves(validation, y, included=included)
        assert included[train].all()
        assert included[held_out].all()
        assert len(train) + len(held_out) == included.sum()


def test_there_is_no_split_if_a_class_is_too_rare():
    assert halves(None, labels()) is None
    assert halves(False, labels()) is None
    y = np.arange(1000) < 39  # a quarter would be nine
    assert halves("auto", y) is None
    assert halves("auto", ~y) is None
    assert halves("auto", np.arange(1000) < 40) is not None
    assert halves(0.25, y) is not None  # but a fraction is used as given
    assert halves("auto", labels(), groups=np.zeros(400)) is None  # one group cannot be split


def test_splitters_and_iterables_choose_validation_rows():
    y = labels()
    fold = np.where(np.arange(len(y)) % 4 == 0, 0, -1)
    for validation in (
        PredefinedSplit(fold),
        [(np.flatnonzero(fold == -1), np.flatnonzero(fold == 0))],
        [(fold == -1, fold == 0)],
    ):
        train, held_out = halves(validation, y)
        assert (held_out == np.flatnonzero(fold == 0)).all()
        assert (train == np.flatnonzero(fold == -1)).all()
    assert halves(StratifiedShuffleSplit(1, random_state=0), y) is not None


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ("automatic", "is not 'auto', a fraction"),
        (0.0, "between 0 and 1"),
        (1.5, "between 0 and 1"),
        (3, "validation 3 is not 'auto', a fraction, None or a splitter"),
        ([(np.arange(200), np.zeros(0, dtype=int))], "validation rows.*lack"),
    ],
)
def test_invalid_validation(validation, message):
    with pytest.raises(SetpointError, match=message):
        halves(validation, labels())


def test_invalid_groups():
    with pytest.raises(SetpointError, match=r"groups must hold one entry per row.*\(3,\)"):
        halves("auto", labels(), groups=[1, 2, 3])
    with pytest.raises(SetpointError, match="cannot be split"):
        halves(0.25, labels(), groups=np.zeros(400))
    for nothing in (None, np.nan):
        groups = np.arange(400).astype(object)
        groups[7] = nothing
        with pytest.raises(SetpointError, match="1 missing entries, the first at row 7"):
            halves("auto", labels(), groups=groups)
    with pytest.raises(SetpointError, match="rows of one group on both sides"):
        halves([(np.arange(200), np.arange(200, 400))], labels(), groups=np.arange(400) // 3)


def test_a_split_without_one_of_the_classes():
    y = np.zeros(100, dtype=bool)
    y[:1] = True
    with pytest.raises(SetpointError, match="cannot be split|lack one of the classes"):
        halves(0.25, y)


PAIR = r"{name} must yield one pair, e.g. \[\(training_rows, {name}_rows\)\]"


@pytest.mark.parametrize("name", ["validation", "certification"])
@pytest.mark.parametrize(
    ("splitter", "message"),
    [
        (KFold, "{name} is the class KFold; give an instance"),
        (KFold(3), "{name} yields 3 splits"),
        ([], PAIR),
        ([(1, 2, 3)], PAIR),
        ((np.arange(5), np.arange(5, 9)), PAIR),
        ([([0, 1], [1, 2])], "training and the {name} rows overlap"),
        ([([0, 1], [400])], "{name} names rows 400 to 400, but there are 400; was the split made"),
        ([([0, 1], [-1])], "{name} names rows -1 to -1"),
        ([([0.5], [1.5])], "{name} must yield indices of rows"),
        ([([0, 1], [2, 3, 2])], "{name} names rows twice"),
        (GroupShuffleSplit(1), "cannot be split for {name}.*groups"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_invalid_splitters(name, splitter, message):
    split = {"validation": halves, "certification": certified}[name]
    with pytest.raises(SetpointError, match=message.format(name=name)):
        split(splitter, labels())


def test_given_splits_may_omit_rows_and_keep_their_order():
    first, second = given_split([([5, 3, 1], np.array([8, 2]))], labels(), None, "validation")
    assert first.tolist() == [5, 3, 1]
    assert second.tolist() == [8, 2]
    mask = np.arange(400) < 7
    first, second = given_split([(mask, ~mask)], labels(), np.arange(400), "certification")
    assert first.tolist() == list(range(7))
    assert len(second) == 393


def test_groups_of_any_kind_are_checked():
    assert check_groups(None, (3,)) is None
    for groups in (["a", "b", "a"], (1, 2, 1), np.array([0.5, 1.5, 0.5])):
        assert check_groups(groups, (3,)).tolist() == list(groups)
    with pytest.raises(SetpointError, match=r"shape \(3,\); it has \(3, 1\)"):
        check_groups([[1], [2], [3]], (3,))
    with pytest.raises(SetpointError, match="2 missing entries, the first at row 1"):
        check_groups(["a", None, None], (3,))


# --- certification ------------------------------------------------------------------------------


QUARTER = np.arange(200) % 4 == 0


def certified(certification, y=QUARTER, *, weight=None, groups=None, seed=0):
    return certification_split(certification, y, weight, groups, seed)


@pytest.mark.parametrize("fraction", [0.3, 0.5, np.float32(0.1)])
def test_a_fraction_is_drawn_at_random(fraction):
    train, held_out = certified(fraction)
    assert len(held_out) == round(float(fraction) * 200)
    assert sorted([*train, *held_out]) == list(range(200))
    assert (certified(fraction)[1] == held_out).all()
    assert set(certified(fraction, seed=1)[1]) != set(held_out)
    # whatever the labels are
    assert (certified(fraction, y=np.arange(200) < 3)[1] == held_out).all()


def test_every_row_is_equally_likely_and_classes_are_not_balanced():
    drawn = np.array(
        [np.isin(np.arange(40), certified(0.3, QUARTER[:40], seed=s)[1]) for s in range(600)]
    )
    assert (drawn.sum(axis=1) == 12).all()
    deviation = np.sqrt(0.3 * 0.7 / 600)
    assert np.abs(drawn.mean(axis=0) - 0.3).max() < 4 * deviation
    positives = drawn[:, ::4].sum(axis=1)  # hypergeometric, not the same each time
    assert positives.mean() == pytest.approx(3.0, abs=0.2)
    assert positives.var() == pytest.approx(12 * 0.25 * 0.75 * 28 / 39, rel=0.25)


def test_rows_without_weight_do_not_certify():
    weight = (np.arange(200) % 5 > 0) * 2.0  # equal weights do not matter
    held = PredefinedSplit(np.where(np.arange(200) < 120, -1, 0))
    for certification in (0.3, held):
        train, held_out = certified(certification, weight=weight)
        assert sorted([*train, *held_out]) == np.flatnonzero(weight).tolist()
    assert len(certified(0.25, weight=weight)[1]) == 40
    weight[7] = 1.0
    with pytest.raises(SetpointError, match=r"independent rows.* different weights; leave"):
        certified(0.3, weight=weight)


def test_one_row_of_each_group_certifies_and_no_other_trains():
    groups = np.random.default_rng(0).integers(0, 50, 200).astype(str)
    train, held_out = certified(0.3, groups=groups)
    assert len(held_out) == 15
    assert len(set(groups[held_out])) == 15
    assert not set(groups[train]) & set(groups[held_out])
    assert set(groups[train]) | set(groups[held_out]) == set(groups)
    others = ~np.isin(groups, groups[held_out])
    assert train.tolist() == np.flatnonzero(others).tolist()


def test_every_row_of_a_group_is_equally_likely_to_certify():
    groups = np.arange(12) // 4
    rows = np.arange(12)
    drawn = np.array([np.isin(rows, one_row_per_group(groups, seed)) for seed in range(800)])
    assert (drawn.reshape(800, 3, 4).sum(axis=2) == 1).all()
    assert np.abs(drawn.mean(axis=0) - 0.25).max() < 4 * np.sqrt(0.25 * 0.75 / 800)


def test_splitters_iterables_and_masks_choose_certification_rows():
    fold = np.where(np.arange(200) % 4 == 1, 0, -1)
    expected = [np.flatnonzero(fold == -1).tolist(), np.flatnonzero(fold == 0).tolist()]
    for certification in (PredefinedSplit(fold), [expected], [(fold == -1, fold == 0)]):
        assert [rows.tolist() for rows in certified(certification)] == expected
    groups = np.arange(200) // 4 * 4
    halves = [(np.arange(100), np.arange(100, 200))]
    train, held_out = certified(halves, groups=groups)
    assert train.tolist() == list(range(100))
    assert (groups[held_out] == np.arange(100, 200, 4)).all()
    grouped = certified(GroupShuffleSplit(1, test_size=0.4, random_state=0), groups=groups)
    assert len(grouped[0]) == 120
    assert len(grouped[1]) == 20


@pytest.mark.parametrize(
    ("certification", "message"),
    [
        (0.0, "fraction between 0 and 1, not 0.0"),
        (1.0, "fraction between 0 and 1"),
        (-0.1, "fraction between 0 and 1"),
        (float("nan"), "fraction between 0 and 1"),
        (1, "certification 1 is not a fraction or a splitter"),
        (True, "certification True is not a fraction"),
        (None, "certification None is not a fraction"),
        ("auto", "certification 'auto' is not a fraction or a splitter"),
        ([(np.arange(100), np.arange(0))], "certification leaves no rows"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_invalid_certification(certification, message):
    with pytest.raises(SetpointError, match=message):
        certified(certification, labels())


def test_groups_that_cannot_be_split():
    with pytest.raises(SetpointError, match="all rows belong to one group"):
        certified(0.3, groups=np.zeros(200))
    with pytest.raises(SetpointError, match="rows of one group on both sides"):
        certified([(np.arange(101), np.arange(101, 200))], groups=np.arange(200) // 2)


def test_a_fraction_that_leaves_no_group_to_train_on():
    with pytest.raises(SetpointError, match="group"):
        certified(0.9, groups=np.arange(200) % 2)


# --- test rows ----------------------------------------------------------------------------------

N = 1_000
Y = np.random.default_rng(0).random(N) < 0.05


def check(sets, n=N):
    assert np.array_equal(np.sort(np.concatenate(sets)), np.arange(n))
    assert all((np.diff(rows) > 0).all() for rows in sets)


def test_random_test_rows_are_stratified_and_repeatable():
    sets = split_rows(N, Y, test=0.2)
    check(sets)
    assert len(sets.test) == 200
    assert abs(Y[sets.test].sum() - 0.2 * Y.sum()) <= 1
    assert np.array_equal(sets.test, split_rows(N, Y, test=0.2).test)
    assert not np.array_equal(sets.test, split_rows(N, Y, test=0.2, random_state=1).test)


def test_no_test_rows():
    sets = split_rows(N, Y, test=0)
    assert len(sets.train) == N
    assert len(sets.test) == 0


def test_the_newest_rows_are_the_test_rows():
    time = np.random.default_rng(1).integers(0, 20, N).astype(float)
    sets = split_rows(N, Y, test=0.2, time=time)
    check(sets)
    assert time[sets.train].max() < time[sets.test].min()
    assert 200 <= len(sets.test) <= 280


def test_groups_stay_together():
    group = np.random.default_rng(1).integers(0, 100, N).astype(str)
    sets = split_rows(N, Y, test=0.2, group=group)
    check(sets)
    assert not set(group[sets.train]) & set(group[sets.test])
    assert abs(len(sets.test) / N - 0.2) < 0.05
    assert abs(Y[sets.test].sum() / Y.sum() - 0.2) < 0.1


def test_groups_and_time():
    rng = np.random.default_rng(1)
    group, time = rng.integers(0, 300, N), rng.integers(0, 1_000, N).astype(float)
    sets = split_rows(N, Y, test=0.3, group=group, time=time)
    check(sets)
    assert not set(group[sets.train]) & set(group[sets.test])
    last = pd.Series(time).groupby(group).transform("max").to_numpy()
    assert last[sets.train].max() < last[sets.test].min()


def test_many_rows_of_one_time():
    time = np.r_[np.zeros(990), np.arange(1, 11)]
    y = np.arange(N) % 2 == 0
    sets = split_rows(N, y, test=0.2, time=time)
    assert len(sets.test) == 10  # the fraction begins among rows of one time
    with pytest.raises(SplitError, match="the same time"):
        split_rows(N, y, test=0.2, time=np.zeros(N))


def test_newest_of_some_rows():
    rows = np.array([1, 3, 5, 7])
    sets = newest_split(rows, np.array([0, 9.0, 0, 1, 0, 2, 0, 3]), None, 0.25)
    assert sets.train.tolist() == [3, 5, 7]
    assert sets.test.tolist() == [1]


def test_invalid_test_splits():
    with pytest.raises(SplitError, match="not 1.5"):
        split_rows(N, Y, test=1.5)
    with pytest.raises(SplitError, match="has 1 row, too few"):
        split_rows(10, np.arange(10) == 3)
    with pytest.raises(
        SplitError, match="4 rows cannot be split: .* 1 for the test and 3 for training"
    ):
        split_rows(4, np.arange(4) % 2 == 0)
    with pytest.raises(SplitError, match="0 for training, .*Choose another fraction"):
        split_rows(N, Y, test=0.9999)
    with pytest.raises(SplitError, match="2 groups cannot be split"):
        split_rows(N, Y, test=0.999, group=np.arange(N) % 2)
    for seed in (-1, 2**32, 0.5, None):
        with pytest.raises(SplitError, match="the seed must be a whole number"):
            split_rows(N, Y, random_state=seed)
    with pytest.raises(SplitError, match="one group"):
        split_rows(N, Y, group=np.zeros(N))
    with pytest.raises(SetpointError, match="missing entries"):
        split_rows(3, np.array([True, False, True]), group=["a", None, "b"])
    with pytest.raises(SplitError, match="200 test rows, and none of them is positive"):
        split_rows(N, np.arange(N) < 100, time=np.arange(N))


# --- rows that come in blocks -------------------------------------------------------------------


def block(unit, time=None):
    unit = torch.as_tensor(unit)
    n = len(unit)
    ones = torch.ones(n, dtype=torch.float64)
    return Block(torch.zeros(n, 1), ones > 0, ones, torch.arange(n), unit, time)


def test_random_fractions():
    part = ByChance(validation=0.25, certification=0.1, test=0.05, seed=3)(block(range(40_000)))
    found = part.bincount(minlength=4) / 40_000
    expected = {TRAINING: 0.6, VALIDATION: 0.25, CERTIFICATION: 0.1, TEST: 0.05}
    for which, fraction in expected.items():
        deviation = math.sqrt(fraction * (1 - fraction) / 40_000)
        assert found[which] == pytest.approx(fraction, abs=4 * deviation)


@pytest.mark.parametrize(
    ("fractions", "sets"),
    [
        ({}, {TRAINING}),
        ({"validation": 0.5}, {TRAINING, VALIDATION}),
        ({"certification": 0.5}, {TRAINING, CERTIFICATION}),
        ({"validation": 0.3, "test": 0.3}, {TRAINING, VALIDATION, TEST}),
    ],
)
def test_sets_without_a_fraction_are_empty(fractions, sets):
    split = ByChance(**fractions)
    assert set(split(block(range(500))).tolist()) == sets
    assert split.has_validation == (VALIDATION in sets)


def test_groups_stay_together_in_every_block_order():
    rng = np.random.default_rng(0)
    names = np.array([f"patient {i}" for i in rng.integers(0, 50, 900)])
    source = ArrayRows(rng.normal(size=(900, 2)), rng.random(900) < 0.2, groups=names, block_rows=7)
    split, seen = ByChance(validation=0.4, seed=1), {}
    for shard in (2, 0, 1):
        for rows in source.blocks(shard, 3):
            for number, part in zip(rows.number.tolist(), split(rows).tolist(), strict=True):
                seen.setdefault(names[number], set()).add(part)
    assert all(len(sets) == 1 for sets in seen.values())
    assert {part for sets in seen.values() for part in sets} == {TRAINING, VALIDATION}


def test_another_seed_is_another_split():
    rows = block(range(1000))
    first, again, other = (ByChance(validation=0.5, seed=s)(rows) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert 400 < (first == other).sum() < 600


@pytest.mark.parametrize(
    "fractions",
    [
        {"validation": -0.1},
        {"validation": 1.0},
        {"validation": 0.5, "certification": 0.3, "test": 0.2},
        {"test": 7.0},
        {"validation": math.nan},
    ],
    ids=str,
)
def test_invalid_fractions(fractions):
    with pytest.raises(SetpointError, match="leave rows to train on"):
        ByChance(**fractions)


def test_sets_by_time():
    time = torch.tensor([5.0, 1.0, 2.0, 3.0, 4.0, 2.5], dtype=torch.float64)
    split = ByTime(since=(2.0, 3.0, 4.0))
    assert split.has_validation
    assert split(block(range(6), time)).tolist() == [
        TEST, TRAINING, VALIDATION, CERTIFICATION, TEST, VALIDATION
    ]  # fmt: skip


def test_sets_by_time_that_are_not_wanted():
    time = torch.tensor([1.0, 3.0, 9e18], dtype=torch.float64)
    only_validation = ByTime(since=(2.0, math.inf, math.inf))
    assert only_validation(block(range(3), time)).tolist() == [TRAINING, VALIDATION, VALIDATION]
    certify = ByTime(since=(2.0, 2.0, math.inf))
    assert not certify.has_validation
    assert certify(block(range(3), time)).tolist() == [TRAINING, CERTIFICATION, CERTIFICATION]


def test_times_are_checked():
    with pytest.raises(SetpointError, match="not in order"):
        ByTime(since=(3.0, 2.0, 4.0))
    with pytest.raises(SetpointError, match="rows have times"):
        ByTime(since=(1.0, 2.0, 3.0))(block(range(3)))


def test_former_names_are_accepted_with_a_warning():
    with pytest.warns(DeprecationWarning, match="judging is deprecated; it is now validation"):
        assert ByChance(judging=0.25, seed=3) == ByChance(0.25, seed=3)

    class OldRule:
        judges = True

    with pytest.warns(DeprecationWarning, match="has_validation"):
        assert has_validation(OldRule())
    assert not has_validation(None)


def test_checkpoints_recognise_rules_by_the_text_of_version_0_1():
    rule = ByChance(validation=0.25, certification=0.1, seed=3)
    assert rule_key(rule) == "ByChance(judging=0.25, certifying=0.1, testing=0.0, seed=3)"
    assert rule_key(ByTime((1.0, 2.0, math.inf))) == "ByTime(since=(1.0, 2.0, inf))"
    assert rule_key(None) == "None"
