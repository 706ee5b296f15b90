"""What a notebook shows of both estimators: what they do, above scikit-learn's own diagram."""

import re

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils import estimator_html_repr

from setpoint import SetpointClassifier, SetpointThreshold, certify, choose_threshold
from setpoint.estimators.base import decisions_html

GOAL = "max recall s.t. precision >= 0.5"
HOSTILE = "<script>alert('fraud')</script>"


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    y = rng.random(400) < 0.3
    return rng.normal(size=(400, 2)) + 2 * y[:, None], np.where(y, HOSTILE, "fine")


def make(kind, **kwargs):
    options = {"goal": GOAL, "pos_label": HOSTILE, "random_state": 0, **kwargs}
    if kind == "classifier":
        return SetpointClassifier(solver="cross_entropy", **options)
    return SetpointThreshold(LogisticRegression(), cv=2, **options)


def shown(estimator):
    """Return what a notebook gets; its two ways of asking agree, but for the numbers in ids."""
    bundle = estimator._repr_mimebundle_(include=None, exclude=None)
    assert bundle["text/plain"] == repr(estimator)
    assert unnumbered(estimator._repr_html_()) == unnumbered(bundle["text/html"])
    return bundle["text/html"]


def unnumbered(html):
    return re.sub(r"-id-\d+", "", html)


def above(estimator):
    """Return what stands above scikit-learn's diagram, of which the style sheet comes first."""
    return shown(estimator).partition("<style>")[0]


@pytest.mark.parametrize("kind", ["classifier", "threshold"])
def test_before_a_fit_only_the_diagram_is_shown(kind):
    assert above(make(kind)) == ""
    assert "sk-container" in shown(make(kind))


@pytest.mark.parametrize("kind", ["classifier", "threshold"])
@pytest.mark.parametrize("confidence", [None, 0.8])
def test_after_a_fit_the_operating_point_and_the_certificate_come_first(rows, kind, confidence):
    clf = make(kind, confidence=confidence).fit(*rows)
    first = above(clf)
    assert clf.operating_point_.message.partition("'")[0] in first
    assert f"{clf.operating_point_.tp:g}</td>" in first
    assert "sk-container" in shown(clf)
    assert first.endswith("</div>" if confidence is None else clf.certificate_._repr_html_())
    assert ("Certified at 80 % confidence" in first) == (confidence is not None)
    assert above(clone(clf)) == ""


@pytest.mark.parametrize("kind", ["classifier", "threshold"])
def test_labels_and_texts_are_escaped(rows, kind):
    clf = make(kind, confidence=0.8).fit(*rows)
    assert "<script>alert" not in shown(clf)
    assert "&lt;script&gt;alert" in above(clf)
    assert "<script" not in above(clf)
    assert "http" not in above(clf)  # nothing is loaded from elsewhere


@pytest.mark.parametrize("kind", ["classifier", "threshold"])
def test_the_text_display_of_scikit_learn_is_respected(rows, kind):
    clf = make(kind).fit(*rows)
    with config_context(display="text"):
        assert set(clf._repr_mimebundle_()) == {"text/plain"}
        assert not hasattr(clf, "_repr_html_")


def test_estimator_html_repr_draws_the_diagram_only(rows):
    clf = make("classifier").fit(*rows)
    assert clf.operating_point_.message not in estimator_html_repr(clf)


@pytest.mark.parametrize(
    ("positive", "negative", "heads"),
    [
        (np.int64(0), 1, ("positive: 0", "negative: 1")),
        (np.True_, False, ("positive: True", "negative: False")),
        ("fraud", "fine", ("positive: fraud", "negative: fine")),
        ("<script>", "x" * 99, ("positive: &lt;script&gt;", f"negative: {'x' * 39}…")),
    ],
)
def test_classes_are_named_by_their_labels(positive, negative, heads):
    point = choose_threshold([0, 0, 0, 1, 1], [1.0, 2.0, 5.0, 4.0, 6.0], "max f1")
    assert (point.tp, point.tn) == (2, 2)
    html = decisions_html(point, None, positive, negative)
    texts = [text.strip() for text in re.findall(r">([^<]+)<", html)]
    counts = [f"{count:g}" for count in (point.tp, point.fn, point.fp, point.tn)]
    first = texts.index(heads[0])  # as in a confusion matrix, the positive class comes first
    assert [t for t in texts[first:] if t][:6] == [heads[0], *counts[:2], heads[1], *counts[2:]]
    assert "<script" not in html


def test_the_certificate_follows_the_operating_point():
    certificate = certify([0, 1] * 200, list(range(400)), "max f1", threshold=100)
    point = certificate.operating_point
    alone = decisions_html(point, None, 1, 0)
    assert decisions_html(point, certificate, 1, 0) == alone + certificate._repr_html_()


@pytest.mark.parametrize("kind", ["classifier", "threshold"])
def test_best_threshold_is_the_one_that_decides(rows, kind):
    clf = make(kind)
    assert not hasattr(clf, "best_threshold_")
    X, y = rows
    clf.fit(X, y)
    alarm = clf.positive_scores(X) > clf.best_threshold_
    assert (alarm == (clf.predict(X) == HOSTILE)).all()
    assert clf.best_threshold_ == getattr(clf, "threshold_", 0.0)
