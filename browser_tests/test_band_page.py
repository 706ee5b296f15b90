"""The report of a review band in a browser: requests, phone, picture and dark theme."""

from dataclasses import replace

import numpy as np
import pytest
from page_checks import assert_fits, clipped_tables, overlaps
from selenium.webdriver.common.by import By

from setpoint import certify_band
from setpoint.report import BandBaseline, BandReport, Rows, write_report

GOAL = "min review_rate s.t. precision(alarm) >= 0.9, npv(clear) >= 0.99"
COSTS = "min cost(fp=5, fn=100, review=2) s.t. review_rate <= 5%"
HOSTILE = "</script><script>document.title='gone'</script>" * 3


def drawn(n, seed=0):
    """Return rows of two classes with normal scores."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.06
    return y, rng.normal(size=n) + 3 * y


def certified(goal=GOAL, n=8000):
    """Return a report with everything in it; few rows are not certified."""
    certificate = certify_band(*drawn(n), goal)
    band = certificate.low, certificate.high
    rows = Rows(*drawn(4000, 1), "the test rows", unseen=True)
    report = BandReport(
        goal, rows, *band, certificate=certificate, title="Payments", positive="fraud",
        positives="frauds", facts={"data": "/a/very/long/path" * 9},
    )  # fmt: skip
    other = BandBaseline("logistic regression, tuned band", report.point)
    return replace(report, tuned=other)


def hostile():
    """Return a report in which every text is malicious HTML."""
    report = certified()
    return replace(
        report, title=HOSTILE, positive=HOSTILE, positives=HOSTILE, notes=(HOSTILE,),
        tuned=replace(report.tuned, name=HOSTILE), rows=replace(report.rows, on=HOSTILE),
    )  # fmt: skip


@pytest.fixture(scope="module")
def bands(tmp_path_factory):
    """Return the files of all reports."""
    folder = tmp_path_factory.mktemp("bands")
    touching = replace(certified(), certificate=None, low=1.5, high=1.5)
    made = {
        "certified": certified(), "refused": certified(n=300), "costs": certified(COSTS),
        "touching": touching, "hostile": hostile(),
        "endless": replace(touching, low=-np.inf, high=np.inf),
    }  # fmt: skip
    return {name: write_report(r, folder / f"{name}.html") for name, r in made.items()}


ALL = ["certified", "refused", "costs", "touching", "endless", "hostile"]


@pytest.mark.parametrize("name", ALL)
def test_it_loads_without_errors_and_fits(browser, bands, emulate, name):
    """On a desktop, a phone and paper, without requests."""
    assert_fits(browser, emulate, bands[name])


@pytest.mark.parametrize("name", [name for name in ALL if name != "hostile"])
def test_tables_fit_on_a_phone_without_scrolling(browser, bands, emulate, name):
    """The last column is often the one that matters."""
    emulate(browser, width=375)
    browser.get(bands[name].as_uri())
    assert clipped_tables(browser) == []


@pytest.mark.parametrize("name", ALL)
def test_texts_of_the_picture_stay_inside_and_apart(browser, bands, name):
    """Also those of a narrow band."""
    browser.get(bands[name].as_uri())
    assert overlaps(browser, "#scores") == []


def test_dark_and_light(browser, bands, emulate):
    """The bands have other colours in the dark."""

    def fill():
        area = browser.find_element(By.CSS_SELECTOR, "#scores .band.review")
        return area.value_of_css_property("fill")

    browser.get(bands["certified"].as_uri())
    light = fill()
    emulate(browser, scheme="dark")
    dark = fill()
    assert dark != light
    browser.find_element(By.ID, "theme").click()
    assert fill() == light
