"""The report on several labels in a browser: requests, phone, pictures and dark theme."""

from dataclasses import replace

import numpy as np
import pytest
from page_checks import assert_fits, clipped_tables, overlaps
from selenium.webdriver.common.by import By

from setpoint import certify_labels, choose_thresholds
from setpoint.report import write_report
from setpoint.report.labels import LabelsReport
from setpoint.thresholds.multilabel import evaluate_thresholds

GOAL = "max recall s.t. precision >= 0.8"
NAMES = ["spam", "urgent", "legal advice", "a label with a long name", "rare"]
RATES = (0.3, 0.2, 0.1, 0.05, 0.004)
HOSTILE = "</script><script>document.title='gone'</script>"


def drawn(n=3000, rates=RATES, seed=0):
    """Return labels and scores; those of the last label say nothing."""
    rng = np.random.default_rng(seed)
    Y = rng.random((n, len(rates))) < rates
    gaps = np.linspace(3, 0, len(rates))
    return Y, rng.normal(size=Y.shape) + gaps * Y


def measured(thresholds, goal=GOAL, names=NAMES):
    """Return the results of thresholds on test rows."""
    return evaluate_thresholds(*drawn(seed=2), thresholds, goal, names=names, on="the test rows")


def certified(names=NAMES):
    """Return a report with everything in it; rare labels are not certified."""
    certificate = certify_labels(*drawn(seed=1), GOAL, names=names)
    point = measured([found.threshold for found in certificate.certificates], names=names)
    usual = measured([1.0] * len(names), names=names)
    return LabelsReport(
        point, certificate, certificate.check(*drawn(seed=2)), usual, "Messages",
        {"data": "/a/very/long/path" * 9}, ("A column was empty.",),
    )  # fmt: skip


def zero():
    """Return a report of labels of which some have a precision or recall of 0, others of 1."""
    Y, scores = np.tile(np.eye(4, dtype=bool), (30, 1)), np.tile(np.eye(4), (30, 1))
    scores[:, 1] = 1 - scores[:, 1]  # all alarms are false
    scores[:, 2] *= 0.4  # no alarms
    goal = "max recall s.t. precision >= 0.8"
    return LabelsReport(
        evaluate_thresholds(
            Y, scores, [0.5] * 4, goal, names=["label " * 9, "every alarm is false", "none", "Ω"]
        )
    )


def many():
    """Return a report of 60 labels, for the best F1 of each."""
    Y, scores = drawn(800, (0.2,) * 60)
    names = [f"topic {i}" for i in range(60)]
    return LabelsReport(choose_thresholds(Y, scores, "max f1", names=names))


def hostile():
    """Return a report in which every text is malicious HTML."""
    report = certified([HOSTILE, *NAMES[1:]])
    return replace(report, title=HOSTILE, notes=(HOSTILE,), facts={HOSTILE: HOSTILE})


MADE = {f.__name__: f for f in (certified, zero, many, hostile)}
ALL = list(MADE)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Return the files of all reports."""
    folder = tmp_path_factory.mktemp("labels")
    return {name: write_report(make(), folder / f"{name}.html") for name, make in MADE.items()}


@pytest.mark.parametrize("name", ALL)
def test_it_loads_without_errors_and_fits(browser, pages, emulate, name):
    """On a desktop, a phone and paper, without requests."""
    assert_fits(browser, emulate, pages[name])


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["certified", "zero", "many"])
def test_tables_fit_without_scrolling(browser, pages, emulate, name, width):
    """The last column says whether a label is certified."""
    emulate(browser, width=width)
    browser.get(pages[name].as_uri())
    assert clipped_tables(browser) == []


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ALL)
def test_markers_and_texts_of_the_pictures_are_apart(browser, pages, emulate, name, width):
    """Also those of a metric that is 0 or 1."""
    emulate(browser, width=width)
    browser.get(pages[name].as_uri())
    assert browser.find_elements(By.CSS_SELECTOR, "svg[id^=labels-]")
    assert overlaps(browser, "svg[id^=labels-]") == []


@pytest.mark.parametrize("width", [1280, 390])
def test_dark_and_light(browser, pages, emulate, width):
    """Markers have other colours in the dark, and the button returns to the light ones."""

    def fill():
        mark = browser.find_element(By.CSS_SELECTOR, "#labels-0 .mark.met")
        return mark.value_of_css_property("fill")

    emulate(browser, width=width)
    browser.get(pages["certified"].as_uri())
    light = fill()
    emulate(browser, width=width, scheme="dark")
    assert fill() != light
    browser.find_element(By.ID, "theme").click()
    assert fill() == light
