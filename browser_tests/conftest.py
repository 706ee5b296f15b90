"""A headless Chromium, and reports to open in it.

These tests are separate because they need a browser: ``make test-browser`` runs them. Without
Chromium they fail; they are never skipped.
"""

import os
import shutil
from dataclasses import replace

import numpy as np
import pytest
from goal_reports import GOAL_REPORTS
from selenium import webdriver

from setpoint import certify, choose_threshold
from setpoint.explain import (
    Coefficient,
    Coefficients,
    ColumnDrift,
    Drift,
    Explanations,
    Importance,
    Importances,
    NearestRows,
    NearRow,
)
from setpoint.report import Baseline, Costs, Report, Rows, write_report
from setpoint.training.candidates import Candidate, Candidates
from setpoint.training.history import History, Record

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
)  # fmt: skip
GOAL = "max recall s.t. precision >= 0.8"
HOSTILE = (
    "</script><script>document.title='gone'</script><img src=x onerror=\"document.title='gone'\">"
)


def found(*names):
    """Return the path of the first of these programs, or fail."""
    paths = [path for name in names if (path := shutil.which(name))]
    if not paths:
        pytest.fail(
            f"{names[0]} is not installed, and these tests need it: "
            "apt-get install chromium chromium-driver",
            pytrace=False,
        )
    return paths[0]


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    """Start a browser with a fresh profile, and keep it for all tests."""
    options = webdriver.ChromeOptions()
    options.binary_location = found("chromium", "chromium-browser", "google-chrome")
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(found("chromedriver"), log_output=os.devnull)
    browser = webdriver.Chrome(options=options, service=service)
    yield browser
    browser.quit()


@pytest.fixture
def browser(driver):
    """Return the browser with a desktop screen, the light theme and empty logs."""
    driver.get("about:blank")  # so that nothing else, such as a new tab's page, is still loading
    for name in ("browser", "performance"):
        driver.get_log(name)
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    emulate(driver)
    return driver


def emulate(driver, width=1280, scheme="light", media=""):
    """Set the width of the screen, its colours and its medium."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": features})
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


@pytest.fixture(name="emulate")
def emulate_fixture():
    """Return the function, for tests."""
    return emulate


# --- reports -------------------------------------------------------------------------------------


def drawn(n, prevalence, gap, seed=0):
    """Return rows of two classes with normal scores as probabilities."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < prevalence
    return y, 1 / (1 + np.exp(-(rng.normal(size=n) + gap * y - gap)))


def certified():
    """Return a report with everything in it."""
    y, scores = drawn(4000, 0.05, 3.2)
    certificate = certify(y[:2000], scores[:2000], GOAL)
    assert certificate.certified
    rows = Rows(y[2000:], scores[2000:], "the test rows", unseen=True)
    point = choose_threshold(rows.y, rows.scores, GOAL, on="validation data")
    history = History([Record.of(i, point, 1.0, 0.0) for i in range(30)], best_iteration=20)
    candidates = Candidates([Candidate("ordinary", point, 0), Candidate("ours", point, 9, "x")])
    other = Baseline("logistic regression at 0.5", drawn(4000, 0.05, 2.6)[1][2000:], 0.5)
    tuned = Baseline("logistic regression, tuned threshold", other.scores, 0.42)
    return Report(
        GOAL, rows, certificate.threshold, certificate=certificate, baseline=other, tuned=tuned,
        history=history, candidates=candidates, costs=Costs(12, 450, -20), title="Card payments",
        positive="fraud", positives="frauds", facts={"data": "/a/very/long/path" * 9, "seed": "0"},
    )  # fmt: skip


def broken():
    """Return a report on rows that contradict the certificate."""
    report = certified()
    y, scores = drawn(3000, 0.03, 1.2, seed=2)
    rows = Rows(y, scores, "the cases of June", unseen=True)
    return replace(report, rows=rows, baseline=None, tuned=None)


def close():
    """Return a report on rows that miss the goal without contradicting the certificate."""
    report = certified()
    threshold = report.threshold
    y = np.repeat([True, False, True, False], [28, 12, 20, 940])
    scores = np.repeat([threshold + 0.01, threshold + 0.005, threshold - 0.1, 0.1],
                       [28, 12, 20, 940])  # fmt: skip
    rows = Rows(y, scores, "the cases of May", unseen=True)
    return replace(report, rows=rows, baseline=None, tuned=None, notes=("A column was empty.",))


def chosen():
    """Return a report on the rows on which the threshold was chosen, without a certificate."""
    y, scores = drawn(3001, 0.004, 4.0, seed=5)
    rows = Rows(y, scores, "the validation rows", chose=True)
    return Report(GOAL, rows, choose_threshold(y, scores, GOAL).threshold)


def infeasible():
    """Return a report of a goal that no threshold meets."""
    y, scores = drawn(900, 0.05, 0.8, seed=3)
    goal = "max precision s.t. recall >= 0.95, precision >= 0.5"
    certificate = certify(y, scores, goal, threshold=0.4)
    assert not certificate.certified
    return Report(goal, Rows(y, scores, "the study"), 0.4, certificate=certificate)


def large():
    """Return a report with so many scores that some steps are left out."""
    y, scores = drawn(30_000, 0.01, 2.9, seed=7)
    return Report("max f1", Rows(y, scores), 0.41, costs=Costs(12, 450, currency="CHF"))


def hostile():
    """Return a report in which every text is malicious HTML."""
    report = certified()
    return replace(
        report, title=HOSTILE, positive=HOSTILE, positives=HOSTILE, facts={HOSTILE: "x" * 300},
        notes=(HOSTILE,), rows=replace(report.rows, on=HOSTILE),
        baseline=replace(report.baseline, name=HOSTILE),
        costs=replace(report.costs, currency="<b>"),
    )  # fmt: skip


def explained():
    """Return a report with the model's reasons, of columns with hostile and long names."""
    report = certified()
    names = [HOSTILE, "a_column_whose_name_is_very_long_" * 4, *(f"column {i}" for i in range(28))]
    coefficients = Coefficients(
        [
            Coefficient(name, "= far", (-0.5) ** i, (-0.7) ** i, "far", HOSTILE, 1.0, 2.0)
            for i, name in enumerate(names)
        ],
        -3.0,
    )
    importances = Importances(
        [Importance((name,), (0.5**i, -(0.4**i)), (0.1, 0.01)) for i, name in enumerate(names)],
        ["recall", "precision"], report.point, 2000, 90_000, 5,
    )  # fmt: skip
    near = NearestRows(
        [NearRow(10**i, 0.1**i, HOSTILE, {names[0]: 1.0, names[1]: -2.0}) for i in range(9)],
        "the test rows", -3.0,
    )  # fmt: skip
    drift = Drift(
        [ColumnDrift(name, "category", 0.9**i, 0, 0.5, 0.1, 0.1, HOSTILE[:20], "x" * 20, 0.3)
         for i, name in enumerate(names)], "the test rows", 2000,
    )  # fmt: skip
    return replace(
        report, rows=replace(report.rows, probability=report.rows.scores),
        current=Baseline("today's model (score)", report.baseline.scores**2, 0.3),
        why=Explanations(coefficients, importances, near, drift),
    )  # fmt: skip


REPORTS = {
    f.__name__: f for f in (certified, broken, close, chosen, infeasible, large, hostile, explained)
}


@pytest.fixture(scope="session")
def reports(tmp_path_factory):
    """Return all reports and their files."""
    folder = tmp_path_factory.mktemp("reports")
    made = {name: make() for name, make in {**REPORTS, **GOAL_REPORTS}.items()}
    return {name: (r, write_report(r, folder / f"{name}.html")) for name, r in made.items()}


@pytest.fixture
def opened(browser, reports):
    """Open a report by its name and return it."""

    def open_one(name):
        report, path = reports[name]
        browser.get(path.as_uri())
        return report

    return open_one
