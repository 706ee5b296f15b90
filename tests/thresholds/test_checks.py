import numpy as np
import pytest
import torch

from setpoint import (
    SetpointError,
    choose_threshold,
    evaluate_threshold,
)


@pytest.mark.parametrize(
    "y", [[0, 1, 0, 1], [False, True, False, True], [-1, 1, -1, 1], [0.0, 1.0, 0.0, 1.0]]
)
def test_common_labels(y):
    assert choose_threshold(y, [1, 2, 3, 4], "max f1").tp == 2


def test_any_labels_with_pos_label():
    y = np.array(["ham", "spam", "ham", "spam"], dtype=object)
    assert choose_threshold(y, [1, 3, 2, 4], "max f1", pos_label="spam").f1 == 1.0
    with pytest.raises(SetpointError, match="no positive samples"):
        choose_threshold(y, [1, 3, 2, 4], "max f1", pos_label="eggs")
    with pytest.raises(SetpointError, match="'ham', 'spam'; pass pos_label"):
        choose_threshold(y, [1, 3, 2, 4], "max f1")
    with pytest.raises(SetpointError, match="'ham', 'spam'; pass pos_label"):
        choose_threshold(y.astype(str), [1, 3, 2, 4], "max f1")


@pytest.mark.parametrize("kind", [list, tuple, set, np.array])
def test_several_positive_labels(kind):
    y, scores = np.array([0, 1, 2, 3, 0, 2]), np.array([1.0, 2.0, 5.0, 3.0, 4.0, 6.0])
    expected = choose_threshold(np.isin(y, [1, 2]), scores, "max f1")
    assert choose_threshold(y, scores, "max f1", pos_label=kind([1, 2])) == expected
    assert (
        evaluate_threshold(y, scores, expected.threshold, "max f1", pos_label=kind([2, 1]))
        == expected
    )
    assert choose_threshold(y, scores, "max f1", pos_label=2) == choose_threshold(
        y == 2, scores, "max f1"
    )
    with pytest.raises(SetpointError, match="0, 1, 2, 3; pass pos_label.*several in a list"):
        choose_threshold(y, scores, "max f1")
    with pytest.raises(SetpointError, match="pos_label is empty"):
        choose_threshold(y, scores, "max f1", pos_label=[])


@pytest.mark.parametrize(
    ("y", "scores", "weights", "expected"),
    [
        ([0, 1], [0.1, np.nan], None, "1 of 2 scores are NaN, the first at position 1"),
        ([1, 1], [0.1, 0.2], None, "no negative samples; a threshold needs both"),
        ([0, 0], [0.1, 0.2], None, "no positive samples; a threshold needs both"),
        ([], [], None, "no samples"),
        ([0, np.nan], [0.1, 0.2], None, "y holds NaN"),
        ([0, 1], [0.1, 0.2], [1e308, 1e308], "too large"),
        ([0, 1, 1], [0.1, 0.2], None, r"shapes \(3,\) and \(2,\)"),
        ([0, 1], [[0.1, 0.9], [0.2, 0.8]], None, r"proba\[:, 1\]"),
        ([0, 1], ["a", "b"], None, "must be numbers"),
        ([0, 2], [0.1, 0.2], None, "labels 0, 2; pass pos_label"),
        (range(5), range(5), None, "labels 0, 1, 2, 3, 4; pass pos_label"),
        (range(9), range(9), None, "labels 0, 1, 2, 3, 4, ...; pass pos_label"),
        ([0, 1], [0.1, 0.2], [1.0], "sample_weight has the shape"),
        ([0, 1], [0.1, 0.2], [1.0, -1.0], "not negative"),
        ([0, 1], [0.1, 0.2], [1.0, np.nan], "finite"),
        ([0, 1], [0.1, 0.2], [1.0, 0.0], "no positive samples of positive weight"),
    ],
)
def test_invalid_input_raises(y, scores, weights, expected):
    with pytest.raises(SetpointError, match=expected):
        choose_threshold(y, scores, "max f1", sample_weight=weights)


def test_labels_that_are_not_known_are_not_negative():
    for unknown in (np.nan, None):
        with pytest.raises(SetpointError, match="y holds NaN or None"):
            choose_threshold([1, 0, unknown], [3, 2, 1], "max f1", pos_label=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_torch_scores(dtype):
    scores = torch.tensor([1.0, 2.0, 3.0], dtype=dtype, requires_grad=True)
    assert choose_threshold(torch.tensor([0, 1, 1]), scores, "max f1").threshold == 1.5


def test_scores_may_be_a_column():
    assert choose_threshold([0, 1, 1], [[1.0], [2.0], [3.0]], "max f1").threshold == 1.5


def test_extended_precision_is_converted_to_double():
    scores = np.array([1, 2, 3], dtype=np.longdouble) / 3
    point = choose_threshold([0, 1, 1], scores, "max f1")
    assert (scores.astype(float) > point.threshold).sum() == 2
