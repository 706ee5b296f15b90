"""Permutation importance: samples of rows, groups of columns, metrics, results as an object."""

import json

import numpy as np
import pytest

from setpoint import Goal, SetpointError, evaluate_threshold
from setpoint.explain.importance import (
    Importance,
    Importances,
    column_groups,
    drop_text,
    goal_values,
    measure_importance,
    sample_rows,
)

Y = np.arange(1000) < 10


def test_few_rows_are_all_used():
    assert sample_rows(Y, None, 1000, 0).weight is None
    assert sample_rows(Y, None, None, 0).rows.tolist() == list(range(1000))


@pytest.mark.parametrize("positive", [Y, ~Y, np.arange(1000) < 500])
def test_a_sample_keeps_the_totals_of_both_classes(positive):
    sample = sample_rows(positive, None, 100, 0)
    assert len(sample.rows) == 100
    assert len(set(sample.rows.tolist())) == 100
    for label in (True, False):
        own = positive[sample.rows] == label
        assert sample.weight[own].sum() == pytest.approx((positive == label).sum())
    fewer = min(positive.sum(), 1000 - positive.sum())
    assert min(own.sum(), 100 - own.sum()) == min(fewer, 50)
    assert np.array_equal(sample.rows, sample_rows(positive, None, 100, 0).rows)


def test_a_sample_of_weighted_rows_has_none_without_weight():
    weight = np.where(np.arange(1000) % 2, 3.0, 0.0)
    sample = sample_rows(Y, weight, 100, 0)
    assert (sample.rows % 2 == 1).all()
    assert sample.weight.sum() == pytest.approx(weight.sum())
    assert len(sample_rows(Y, weight, None, 0).rows) == 500


def test_values_come_from_rows_as_often_as_these_count():
    sample = sample_rows(np.array([True, False, False]), np.array([8.0, 1.0, 1.0]), None, 0)
    rng = np.random.default_rng(0)
    drawn = np.concatenate([sample.donors(rng) for _ in range(2000)])
    assert np.bincount(drawn) / len(drawn) == pytest.approx([0.8, 0.1, 0.1], abs=0.02)
    alike = sample_rows(np.array([True, False, False]), np.full(3, 2.0), None, 0)
    assert sorted(alike.donors(rng)) == [0, 1, 2]


def test_groups_of_columns():
    names = ["a", "b", "c"]
    assert column_groups(names, None, ()) == [("a",), ("b",), ("c",)]
    assert column_groups(names, None, [["c", "a"]]) == [("c", "a"), ("b",)]
    assert column_groups(names, ["b"], [["c", "a"]]) == [("c", "a"), ("b",)]
    with pytest.raises(SetpointError, match="no column 'd' to shuffle"):
        column_groups(names, ["d"], ())
    with pytest.raises(SetpointError, match="'a' is in two groups"):
        column_groups(names, None, [["a", "b"], ["a", "c"]])
    with pytest.raises(SetpointError, match="list of names"):
        column_groups(names, "a", ())


def measured(goal, repeats=5, seed=0, names=("good", "bad")):
    """Return the importances for scores that are column 0 less column 1."""
    rng = np.random.default_rng(1)
    y = rng.random(400) < 0.3
    X = np.column_stack([2.0 * y + rng.normal(size=400), 0.2 * rng.normal(size=400)])
    columns = [0, 1]
    sample = sample_rows(y, None, None, 0)

    def score(group, donors):
        mixed = X.copy()
        for name in group:
            if name != "unused":
                i = columns[("good", "bad").index(name)]
                mixed[:, i] = X[donors, i]
        return mixed[:, 0] - mixed[:, 1]

    return measure_importance(
        [(name,) for name in names], sample, score,
        lambda scores: evaluate_threshold(y, scores, 1.0, goal, on="new rows"), 400,
        repeats=repeats, seed=seed,
    )  # fmt: skip


def test_the_column_that_decides_is_the_most_important():
    found = measured(
        "max recall s.t. precision >= 0.5, fpr <= 0.5", names=("bad", "unused", "good")
    )
    by_name = {one.name: one for one in found}
    assert found[0] is by_name["good"]
    assert found.metrics == ("recall", "precision", "fpr")
    assert min(found[0].drops) > 0.05  # fpr too: less is better, so more is worse
    assert min(found[0].deviations) > 0
    assert by_name["unused"].drops == by_name["unused"].deviations == (0, 0, 0)
    assert max(by_name["bad"].drops) < 0.05


def test_results_do_not_depend_on_other_columns_but_on_the_seed():
    alone = measured("max f1", names=("good",))[0]
    assert measured("max f1")[0] == alone
    assert measured("max f1", seed=1)[0] != alone
    assert measured("max f1", repeats=1, names=("good",))[0].deviations == (0,)
    with pytest.raises(SetpointError, match="at least 1"):
        measured("max f1", repeats=0)


def test_text_and_plain_values():
    found = measured("max recall s.t. precision >= 0.5")
    text = str(found)
    assert "on new rows (400 rows)" in text
    assert "shuffling 5 times" in text
    assert "worse recall" in text
    assert "±" in text
    assert found.text(1).endswith("… 1 more")
    fields = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert fields["columns"][0]["columns"] == ["good"]
    assert fields["columns"][0]["worse"]["recall"] == pytest.approx(found[0].drops[0])
    assert "good" in found._repr_html_()


def test_hostile_names_and_undefined_metrics():
    point = evaluate_threshold([1, 0], [1.0, 0.0], 0.5, "max recall")
    one = Importance(("<b>", "a,b"), (float("nan"),), (float("nan"),))
    found = Importances([one], ["recall"], point, 2, 100, 1)
    assert "<b> + a,b" in str(found)
    assert "a sample of 100" in str(found)
    assert "–" in str(found)
    assert "<b>" not in found._repr_html_().replace("<b>✓", "").replace("</b>", "")
    assert found.to_dict()["columns"][0]["worse"] == {"recall": None}
    assert str(Importances([], ["recall"], point, 2, 100, 1))


def test_drops_as_text():
    assert drop_text(0.1234, 0.01) == "+0.123 ± 0.010"
    assert drop_text(-0.00001, 0) == "0.000 ± 0.000"
    assert drop_text(-1234.5, 12) == "−1,234.5 ± 12.0"


def test_the_worst_segment_counts():
    goal = Goal.parse("max recall s.t. precision >= 0.5 for each place, fpr <= 0.9")
    y, alarm = [1, 0, 1, 1, 0, 0], [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]
    place = ["a", "a", "b", "b", "b", "b"]
    point = evaluate_threshold(y, alarm, 0.5, goal, segments={"place": place})
    assert goal_values(point) == {
        "recall": (1.0, 1.0), "precision for each place": (0.5, 1.0),
        "fpr": (pytest.approx(1 / 3), -1.0),
    }  # fmt: skip
