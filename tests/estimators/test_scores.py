"""Scores of the positive class of any classifier."""

import numpy as np
import pytest

from setpoint import SetpointError
from setpoint.data.labels import Labels
from setpoint.estimators.scores import positive_scores

CLASSES = np.array(["a", "b"])
DECISIONS = np.array([-1.0, 0.0, 2.0])
PROBABILITIES = np.array([[0.9, 0.1], [0.5, 0.5], [0.2, 0.8]])
BOTH = {"decision_function": DECISIONS, "predict_proba": PROBABILITIES}


class Fixed:
    """A classifier that is nothing but its classes and scores."""

    def __init__(self, *, classes=None, **responses):
        if classes is not None:
            self.classes_ = np.array(classes)
        for name, values in responses.items():
            setattr(self, name, lambda X, values=values: values)


@pytest.mark.parametrize(
    ("responses", "method", "positive", "expected"),
    [
        (BOTH, "auto", 1, DECISIONS),
        (BOTH, "auto", 0, -DECISIONS),
        (BOTH, "predict_proba", 1, PROBABILITIES[:, 1]),
        (BOTH, "predict_proba", 0, PROBABILITIES[:, 0]),
        ({"predict_proba": PROBABILITIES}, "auto", 0, PROBABILITIES[:, 0]),
        ({"decision_function": DECISIONS[:, None]}, "auto", 0, -DECISIONS),
        ({"decision_function": np.array([1, 2, 3])}, "auto", 1, [1, 2, 3]),
    ],
)
def test_scores_are_larger_for_likely_positives(responses, method, positive, expected):
    for classes in (CLASSES, None):  # a classifier that does not tell is believed
        found = positive_scores(
            Fixed(classes=classes, **responses), None, Labels(CLASSES, positive), method
        )
        assert found.tolist() == list(expected)


@pytest.mark.parametrize(
    ("classifier", "method", "message"),
    [
        (Fixed(), "auto", "Fixed has neither decision_function nor predict_proba"),
        (Fixed(**BOTH), "scores", "one of .*, not 'scores'"),
        (Fixed(predict_proba=PROBABILITIES), "decision_function", "has no decision_function"),
        (Fixed(decision_function=np.array([1.0, np.nan, np.nan])), "auto", "2 scores .*are NaN"),
        (Fixed(classes=["b", "c"], **BOTH), "auto", r"\['b', 'c'\], the labels are \['a', 'b'\]"),
        (Fixed(classes=["a", "c"], **BOTH), "auto", r"\['a', 'c'\], the labels are \['a', 'b'\]"),
        (Fixed(classes=[0, 1], **BOTH), "auto", r"knows the classes \[0, 1\]"),
        (Fixed(classes=["a", "b", "c"], **BOTH), "auto", "knows the classes"),
        (Fixed(classes=["a"], **BOTH), "auto", "knows the classes"),
    ],
)
def test_missing_scores(classifier, method, message):
    with pytest.raises(SetpointError, match=message):
        positive_scores(classifier, None, Labels(CLASSES, 1), method)
