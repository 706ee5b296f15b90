import numpy as np
import pytest
from sklearn.model_selection import (
    GroupShuffleSplit,
    KFold,
    PredefinedSplit,
    StratifiedShuffleSplit,
)

from setpoint import SetpointError
from setpoint._internal.validation import check_groups
from setpoint.data.splits import given_split, split


def labels(n=400, share=0.2, seed=0):
    return np.random.default_rng(seed).random(n) < share


def halves(validation, y, *, kept=None, groups=None, seed=0):
    kept = np.ones(len(y), dtype=bool) if kept is None else kept
    return split(validation, y, kept, groups, seed)


@pytest.mark.parametrize("validation", ["auto", 0.25, 0.4, np.float32(0.25)])
def test_a_share_is_split_off_at_random_and_stratified(validation):
    y = labels()
    train, judge = halves(validation, y)
    share = 0.25 if validation == "auto" else validation
    assert sorted([*train, *judge]) == list(range(len(y)))
    assert len(judge) == pytest.approx(share * len(y), abs=1)
    assert y[judge].mean() == pytest.approx(y.mean(), abs=0.01)
    again, other = halves(validation, y), halves(validation, y, seed=1)
    assert (again[1] == judge).all()
    assert set(other[1]) != set(judge)


def test_groups_are_not_parted():
    y = labels(1000)
    groups = np.random.default_rng(1).integers(0, 90, len(y)).astype(str)
    train, judge = halves("auto", y, groups=groups)
    assert not set(groups[train]) & set(groups[judge])
    assert len(judge) == pytest.approx(250, abs=25)
    assert y[judge].mean() == pytest.approx(y.mean(), abs=0.03)
    for share in (0.1, 0.6):
        assert len(halves(share, y, groups=groups)[1]) == pytest.approx(1000 * share, abs=40)


def test_a_large_group_is_not_always_held_out():
    y = labels(400)
    groups = np.where(np.arange(400) < 200, 0, np.arange(400))  # half of the rows are one group
    held = [len(halves("auto", y, groups=groups, seed=seed)[1]) for seed in range(6)]
    assert max(held) < 150
    one_has_most = np.zeros(400, dtype=bool)
    one_has_most[:40] = one_has_most[300:302] = True
    found = halves("auto", one_has_most, groups=groups)
    assert found is None  # nothing in between: forty positives in one group, two in others


def test_rows_without_weight_are_in_neither_part():
    y = labels()
    kept = np.arange(len(y)) % 3 > 0
    for validation in ("auto", PredefinedSplit(np.where(np.arange(len(y)) < 300, -1, 0))):
        train, judge = halves(validation, y, kept=kept)
        assert kept[train].all()
        assert kept[judge].all()
        assert len(train) + len(judge) == kept.sum()


def test_selection_is_off_where_asked_or_where_a_class_is_too_rare():
    assert halves(None, labels()) is None
    assert halves(False, labels()) is None
    y = np.arange(1000) < 39  # a quarter would be nine
    assert halves("auto", y) is None
    assert halves("auto", ~y) is None
    assert halves("auto", np.arange(1000) < 40) is not None
    assert halves(0.25, y) is not None  # but a share is a share
    assert halves("auto", labels(), groups=np.zeros(400)) is None  # one group cannot be parted


def test_splitters_and_iterables_say_which_rows():
    y = labels()
    fold = np.where(np.arange(len(y)) % 4 == 0, 0, -1)
    for validation in (
        PredefinedSplit(fold),
        [(np.flatnonzero(fold == -1), np.flatnonzero(fold == 0))],
        [(fold == -1, fold == 0)],
    ):
        train, judge = halves(validation, y)
        assert (judge == np.flatnonzero(fold == 0)).all()
        assert (train == np.flatnonzero(fold == -1)).all()
    assert halves(StratifiedShuffleSplit(1, random_state=0), y) is not None


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ("automatic", "is not 'auto', a share"),
        (0.0, "between 0 and 1"),
        (1.5, "between 0 and 1"),
        (3, "is not 'auto', a share, None or a splitter"),
        (KFold(3), "yields 3 splits"),
        ([(1, 2, 3)], "one pair"),
        ([], "one pair"),
        ([([0, 1], [1, 2])], "share rows"),
        ([([0, 1], [400])], "rows 400 to 400, but there are 400; was the split made for other"),
        (KFold, "is the class KFold; give an instance"),
        (GroupShuffleSplit(1), "cannot be split for validation.*groups"),
        ((np.arange(5), np.arange(5, 9)), r"one pair, e.g. \[\(training_rows"),
        ([([0.5], [1.5])], "indices of rows"),
        ([(np.arange(200), np.zeros(0, dtype=int))], "validation part.*lacks"),
    ],
)
def test_bad_splits_are_named(validation, message):
    with pytest.raises(SetpointError, match=message):
        halves(validation, labels())


def test_groups_must_be_one_per_row():
    with pytest.raises(SetpointError, match=r"groups must hold one entry per row.*\(3,\)"):
        halves("auto", labels(), groups=[1, 2, 3])
    with pytest.raises(SetpointError, match="cannot be split"):
        halves(0.25, labels(), groups=np.zeros(400))
    for nothing in (None, np.nan):
        groups = np.arange(400).astype(object)
        groups[7] = nothing
        with pytest.raises(SetpointError, match="1 missing entries, the first at row 7"):
            halves("auto", labels(), groups=groups)
    with pytest.raises(SetpointError, match="parts rows of one group"):
        halves([(np.arange(200), np.arange(200, 400))], labels(), groups=np.arange(400) // 3)


def test_a_share_that_leaves_a_class_out_is_refused():
    y = np.zeros(100, dtype=bool)
    y[:1] = True
    with pytest.raises(SetpointError, match="cannot be split|lacks one of the classes"):
        halves(0.25, y)


@pytest.mark.parametrize("name", ["validation", "certification"])
@pytest.mark.parametrize(
    ("splitter", "message"),
    [
        (3, "{name} 3 is not "),
        (KFold, "{name} is the class KFold"),
        (KFold(3), "{name} yields 3 splits"),
        ([], r"\[\(training_rows, {name}_rows\)\]"),
        ([([0, 1], [1, 2])], "training and the {name} part share rows"),
        ([([0, 1], [400])], "{name} names rows 400 to 400"),
        ([([0, 1], [-1])], "{name} names rows -1 to -1"),
        ([([0.5], [1.5])], "{name} must yield indices"),
        (GroupShuffleSplit(1), "cannot be split for {name}"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_split_that_cannot_be_used_is_called_by_its_parameter(name, splitter, message):
    with pytest.raises(SetpointError, match=message.format(name=name)):
        given_split(splitter, labels(), None, name)


def test_a_word_is_no_certification():
    with pytest.raises(SetpointError, match="certification 'auto' is not a share or a splitter"):
        given_split("auto", labels(), None, "certification")


def test_given_splits_may_leave_rows_out_and_keep_their_order():
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
