"""The page of a review band, its sentences and its picture."""

import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from html_pages import HOSTILE, Page
from setpoint import SetpointBand, SetpointError, certify_band
from setpoint.report import BandBaseline, BandReport, Rows, html, save_figures, write_report
from setpoint.report.bands import Cases, band_expected, out_of_round
from setpoint.report.goal_wording import goal_in_words
from setpoint.thresholds.bands import choose_band

GOAL = "min review_rate s.t. precision(alarm) >= 0.9, npv(clear) >= 0.98"
FRAUD = {"positive": "fraud", "positives": "frauds"}


def made(n=4000, seed=0, shift=3.0, share=0.1):
    rng = np.random.default_rng(seed)
    y = rng.random(n) < share
    return y, np.round(rng.normal(size=n) + shift * y, 2)


def counted(*counts, goal=GOAL, **more):
    """Return a report with these numbers of alarms, reviews and cleared cases, by class."""
    y = np.repeat([True, False] * 3, counts)
    scores = np.repeat([0.9, 0.9, 0.5, 0.5, 0.1, 0.1], counts)
    return BandReport(goal, Rows(y, scores, "the test rows"), 0.3, 0.7, **{**FRAUD, **more})


@pytest.fixture(scope="module")
def certified():
    certificate = certify_band(*made(), GOAL, confidence=0.9)
    assert certificate.certified
    rows = Rows(*made(3000, 2), "the test rows", unseen=True)
    band = certificate.low, certificate.high
    other = choose_band(rows.y, rows.scores, GOAL, on="the test rows")
    return BandReport(
        GOAL, rows, *band, certificate=certificate, tuned=BandBaseline("the old rules", other),
        facts={"seed": "7"}, notes=("Rows repeat.",), title="Payments", **FRAUD,
    )  # fmt: skip


# --- sentences -----------------------------------------------------------------------------------


def test_the_headline_says_what_becomes_of_a_thousand_cases():
    text = band_expected(counted(180, 20, 300, 700, 20, 18780))
    assert text == (
        "Of 1,000 cases, 10 raise an alarm (9 of 10 are real), 50 go to review, and 940 are "
        "cleared; 1 of 1,000 cleared cases is a fraud."
    )


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((0, 0, 30, 70, 2, 1898), "none raises an alarm, 50 go to review"),
        ((30, 2, 0, 0, 2, 1966), "none goes to review"),
        ((30, 2, 5, 1963, 0, 0), "go to review, and none is cleared."),
        ((1, 0, 5, 10, 2, 30), "Of the 48 cases, 1 raises an alarm (the only one were"),
        ((0, 1, 5, 10, 2, 30), "(not one"),
        ((5, 0, 5, 10, 0, 30), "none of the 30 cleared cases is a fraud"),
        ((1, 0, 5, 10, 0, 29999), "Of 100,000 cases, 3 raise an alarm"),
    ],
)
def test_bands_without_cases_and_few_cases(counts, expected):
    text = band_expected(counted(*counts))
    assert expected.replace("one were", "one was") in text


def test_a_label_is_quoted_and_has_its_article():
    report = counted(180, 20, 300, 700, 20, 18780, positive="alarm", positives=None)
    assert "is an “alarm” case" in band_expected(report)


@pytest.mark.parametrize("seed", range(20))
def test_the_parts_add_up_and_none_vanishes(seed):
    rng = np.random.default_rng(seed)
    cases = Cases(
        *(int(x) for x in 10 ** rng.uniform(0, 5, 3) * rng.integers(0, 2, 3)),
    )
    if sum(cases) == 0:
        return
    base, parts = out_of_round(cases)
    assert sum(parts) == base
    for count, part in zip(cases, parts, strict=True):
        assert (part > 0) == (count > 0) or base == 1_000_000
        assert abs(part - base * count / sum(cases)) < 1


def test_goals_in_words():
    terms = counted(1, 1, 1, 1, 1, 1).terms
    report = counted(1, 1, 1, 1, 1, 1, goal="max recall(alarm) s.t. review_rate <= 5%")
    assert goal_in_words(report.goal, terms) == (
        "Raise an alarm for as many frauds as possible, provided that at most 5 of 100 cases go "
        "to review."
    )
    amounts = {"amounts": {"loss": np.ones(6)}}
    rows = replace(report.rows, named=amounts)
    money = BandReport("min cost(fp=5, fn=2*loss, review=1)", rows, 0.3, 0.7, **FRAUD)
    text = goal_in_words(money.goal, terms)
    assert "A false alarm costs €5, a cleared fraud costs 200\xa0% of its loss and a review" in text
    assert "costs €1.50 on average" in band_expected(money)  # 5 + 2 + 1 + 1 of 6 rows
    assert "cost per 10,000 cases" in html(money)


# --- the page ------------------------------------------------------------------------------------


def test_the_page_is_well_formed_and_complete(certified):
    text = html(certified)
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    for part in ("goal", "decisions", "certificate", "facts", "glossary", "scores"):
        assert part in page.ids
    words = " ".join(page.text)
    expected = (
        "✓ goal met", "✓ certified at 90 %", "✓ Alarms:", "✓ Cleared cases:", "the old rules",
        "Rows repeat.", "do not contradict it", "lower threshold",
    )  # fmt: skip
    for said in expected:
        assert said in words, said
    assert "http" not in re.sub(r'http-equiv="Content-Security-Policy"', "", text)
    for name in ("alarm", "review", "clear"):
        assert f'class="band {name}"' in text
    picture = next(a for a in page.named("svg") if a.get("id") == "scores")
    assert "are reviewed" in picture["aria-label"]


def test_every_text_is_escaped(certified):
    report = replace(
        certified, title=HOSTILE, positive=HOSTILE, positives=HOSTILE, notes=(HOSTILE,),
        facts={HOSTILE: HOSTILE}, tuned=replace(certified.tuned, name=HOSTILE),
    )  # fmt: skip
    text = html(report)
    assert "<script>alert(1)" not in text
    Page(text)


def test_the_table_counts_all_rows(certified):
    point, words = certified.point, html(certified)
    for band in ("alarm", "review", "clear"):
        both = [getattr(point, f"{band}_{sign}") for sign in ("positives", "negatives")]
        assert f"<td>{sum(both):,.0f}</td>" in words
        assert f"<td>{both[0]:,.0f}</td>" in words
    assert f"{len(certified.rows):,} of the test rows" in words


def test_a_band_that_touches_has_no_review_area():
    text = html(replace(counted(180, 20, 300, 700, 20, 18780), low=0.7))
    assert "nothing is reviewed" in text
    assert 'path class="band review" d="M2 1' in text  # only in the legend
    assert text.count('class="band review"') == 1


@pytest.mark.parametrize(("low", "high"), [(-np.inf, 0.7), (0.3, np.inf), (-np.inf, np.inf)])
def test_infinite_thresholds(low, high, tmp_path):
    report = replace(counted(20, 2, 30, 70, 2, 1878), low=low, high=high)
    text = html(report)
    Page(text)
    assert "nan" not in text.lower().replace("financ", "")
    assert text.count('<path class="cut chosen"') == 1 + np.isfinite([low, high]).sum()
    assert len(save_figures(report, tmp_path)) == 2


def test_a_missed_goal_and_one_that_is_met_by_convention():
    missed = html(counted(2, 20, 30, 70, 2, 1878))
    assert "✗ goal not met" in missed
    assert "precision of alarms is 0.091 and should be at least 0.9" in missed
    empty = html(counted(0, 0, 30, 70, 2, 1878))
    assert "only because there are no alarms" in empty


def test_a_refused_certificate_names_the_side():
    y, scores = made(600, share=0.2)
    certificate = certify_band(y, scores, GOAL.replace("0.98", "0.9999"), confidence=0.9)
    assert not certificate.certified
    rows = Rows(*made(600, 1), "the test rows", unseen=True)
    band = certificate.low, certificate.high
    text = html(BandReport(certificate.goal, rows, *band, certificate=certificate))
    assert "✗ certification failed" in text
    assert "✗ Cleared cases: no lower threshold is certified" in text


def test_contradicted_certificates(certified):
    y, scores = made(3000, 2, shift=0.5)
    report = replace(certified, rows=Rows(y, scores, "later", unseen=True), tuned=None)
    assert report.broken
    text = html(report)
    assert "✗ certificate contradicted" in text
    assert "contradict the certificate of" in " ".join(Page(text).text)
    assert "✓ Alarms" not in text


def test_certificates_of_groups_are_not_checked_on_rows(certified):
    certificate = replace(certified.certificate, one_per_group=True)
    report = replace(certified, certificate=certificate)
    assert report.checked is None
    assert "it is about one case of each group" in html(report)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"low": 9.0}, "low must not be above high"),
        ({"high": 3.9}, "does not apply to the report's"),
        ({"goal": "min review_rate s.t. npv(clear) >= 0.9"}, "certificate is for the goal"),
        ({"notes": "one"}, "not a string"),
    ],
)
def test_inconsistent_content_is_refused(certified, change, expected):
    with pytest.raises(SetpointError, match=expected):
        replace(certified, **change)


def test_the_report_of_a_fitted_band(tmp_path):
    X = np.random.default_rng(0).normal(size=(2000, 3))
    y = X[:, 0] + np.random.default_rng(1).normal(0, 0.4, 2000) > 1
    band = SetpointBand(LogisticRegression(), GOAL, random_state=0).fit(X[:1500], y[:1500])
    chosen = band.report(tmp_path / "chosen.html").read_text("utf-8")
    assert "The band was chosen on these rows" in chosen
    new = band.report(tmp_path / "new.html", X[1500:], y[1500:], title="New").read_text("utf-8")
    assert "500 of the rows given" in new
    with pytest.raises(SetpointError, match="both X and y"):
        band.report(tmp_path / "x.html", X)


def test_the_file_is_written_at_once(certified, tmp_path):
    path = write_report(certified, tmp_path / "new" / "r.html")
    assert path.read_text("utf-8") == html(certified)
