"""The page is self-contained, makes no requests, and escapes every text."""

import base64
import errno
import hashlib
import json
import os
import re
import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from html_pages import HOSTILE, Page
from report_rows import HOSTILE as SEGMENTS
from report_rows import of_names, report_of, scored
from setpoint import (
    SetpointError,
    SetpointThreshold,
    __version__,
    certify,
    choose_threshold,
    define_metric,
    evaluate_threshold,
)
from setpoint.certificates import ThresholdSet
from setpoint.report import Baseline, Costs, Report, Rows, html, write_report
from setpoint.report import data as data_module
from setpoint.report.page import report_of as report_of_classifier
from setpoint.report.sections import tiles
from setpoint.training.history import History


def data_of(text):
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(found[1])


@pytest.fixture(scope="module")
def full(certified, history, candidates):
    rng = np.random.default_rng(3)
    other = certified.rows.scores + rng.normal(size=len(certified.rows))
    return replace(
        certified, baseline=Baseline("the old rules", other, 2.0), costs=Costs(5, 200, -1),
        history=history, candidates=candidates, facts={"seed": "7", "made": "2025-01-31"},
        notes=("Rows repeat.",), title="Card payments",
    )  # fmt: skip


def test_the_page_is_well_formed_and_in_order(full):
    text = html(full)
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    assert page.named("html") == [{"lang": "en"}]
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    order = ["goal", "certificate", "explore", "histograms", "training", "candidates", "facts",
             "glossary"]  # fmt: skip
    assert [i for i in page.ids if i in order] == order
    for svg in page.named("svg"):
        assert svg.get("aria-hidden") == "true" or len(svg["aria-label"]) > 20
    fields = [f["id"] for f in page.named("input")]
    assert sorted(fields) == sorted(f["for"] for f in page.named("label"))
    shown = " ".join(page.text)
    for words in ("Card payments", "Rows repeat.", "2025-01-31", "Certified at 90 %", "★ chosen",
                  "Iteration 3 was kept", "saved vs. no model", "the old rules"):  # fmt: skip
        assert words in shown


def test_the_head_names_the_maker(full):
    """The command line recognises pages by it."""
    head = html(full).partition("</head>")[0]
    assert f'<meta name="generator" content="setpoint {__version__}">' in head


def test_sections_without_content_are_left_out(rows):
    page = Page(html(Report("max f1", rows, 1.5)))
    assert not {"training", "candidates"} & set(page.ids)
    assert "Costs" not in " ".join(page.text)
    assert "no certificate was requested" in " ".join(page.text)


def test_network_requests_are_impossible(full):
    text = html(full)
    page = Page(text)
    (policy,) = [m["content"] for m in page.named("meta") if "http-equiv" in m]
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        content = page.inside[tag][-1]  # the last script is the one that runs
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert not re.search(r"(?:src|href|action)\s*=\s*[\"'](?!data:,)", text)
    assert not re.search(r"https?:|url\(|@import|\bfetch\(|XMLHttpRequest| style=", text)


def test_the_users_texts_are_escaped(full):
    report = replace(
        full, title=HOSTILE, positive=HOSTILE, positives=HOSTILE, notes=(HOSTILE,),
        facts={HOSTILE: HOSTILE, "a": "b"}, rows=replace(full.rows, on=HOSTILE),
        baseline=replace(full.baseline, name=HOSTILE), costs=replace(full.costs, currency=HOSTILE),
    )  # fmt: skip
    text = html(report)
    page = Page(text)
    assert len(page.named("script")) == 2
    assert HOSTILE in " ".join(page.text)
    assert data_of(text)["plural"] == HOSTILE
    assert "alert(1)" not in "".join(page.inside["script"][-1:])
    assert len(page.elements) == len(Page(html(full)).elements)


def test_names_of_candidates_are_escaped(full, candidates):
    from setpoint.training.candidates import Candidate, Candidates

    named = Candidates([Candidate(HOSTILE, candidates[0].point, 0)])
    assert HOSTILE in " ".join(Page(html(replace(full, candidates=named))).text)


@pytest.mark.parametrize("thinned", [False, True])
def test_the_script_gets_exact_counts_and_metrics(rows, thinned, monkeypatch):
    if thinned:
        monkeypatch.setattr(data_module, "MAX_DISTINCT", 200)
        monkeypatch.setattr(data_module, "THINNED", 60)
    goal = "max recall s.t. precision >= 0.8, fpr <= 0.02"
    chosen = choose_threshold(rows.y, rows.scores, goal).threshold
    data = data_of(html(Report(goal, rows, chosen)))
    assert (data["high"] is not None) == thinned
    assert data["at"][data["chosen"]] == chosen
    assert data["chosen"] in data["stops"]
    assert list(data["metrics"]) == ["precision", "recall", "f1", "fpr"]
    for i, at in enumerate(data["at"]):
        point = evaluate_threshold(rows.y, rows.scores, float(at), goal)
        assert (data["tp"][i], data["fp"][i]) == (point.tp, point.fp)
        assert bool(data["met"][i]) == point.feasible
        for name, values in data["metrics"].items():
            assert values[i] == pytest.approx(point.value(name), abs=1e-9)


def test_custom_metrics_reach_the_script(rows):
    define_metric("report_gain", lambda tp, fp, P, N: (tp - fp) / (P + N), bounds=(-1, 1))
    data = data_of(html(Report("max report_gain", rows, 1.5)))
    tp, fp, n = data["tp"][40], data["fp"][40], len(rows)
    assert data["metrics"]["report_gain"][40] == pytest.approx((tp - fp) / n, abs=1e-9)


def test_the_baselines_threshold_is_kept_if_it_has_the_same_scores(rows, monkeypatch):
    monkeypatch.setattr(data_module, "MAX_DISTINCT", 200)
    monkeypatch.setattr(data_module, "THINNED", 20)
    other = Baseline("a half", rows.scores, 0.515)
    data = data_of(html(Report("max f1", rows, 2.0, baseline=other)))
    kept = zip(data["low"], data["high"], strict=True)
    assert any(float(low) <= 0.515 < float(high) for low, high in kept)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_infinite_extreme_and_equal_scores(dtype):
    for scores in (
        [np.inf, -np.inf, 0.0, np.inf],
        [0.5] * 4,
        [1e308, -1e308, 1e307, 0],
        [0.0] * 4,
        [np.inf, np.inf, -np.inf, -np.inf],
        [1e-320, 0, 1e-310, 5e-324],
    ):
        rows = Rows(np.array([True, False, True, False]), np.array(scores).astype(dtype))
        for threshold in (0.0, np.inf, -np.inf):
            text = html(Report("max recall s.t. precision >= 0.9", rows, threshold))
            Page(text)
            shown = re.sub(r"<script.*?</script>|threshold</th>.*?<", "", text, flags=re.S)
            assert not re.search(r"\bnan\b|\binf\b(?!\w)", shown), (scores, threshold)


def test_two_rows_are_enough():
    Page(html(Report("max f1", Rows(np.array([1, 0]), np.array([1.0, 0.0])), 0.5)))


def test_certified_thresholds_are_marked_on_the_slider():
    rng = np.random.default_rng(5)
    y = rng.random(3000) < 0.2
    rows = Rows(y, rng.normal(size=3000) + 2.5 * y, on="May")
    goal = "max recall s.t. precision >= 0.8"
    certificate = certify(y, rows.scores, goal)
    text = html(Report(goal, rows, certificate.threshold, certificate=certificate))
    data, page = data_of(text), Page(text)
    thresholds = certificate.certified_thresholds
    assert [[float(end) for end in interval] for interval in data["certified"]] == [
        list(interval) for interval in thresholds
    ]
    bands = [(float(r["x"]), float(r["width"])) for r in page.named("rect")]
    for i, stop in enumerate(data["stops"]):
        marked = any(x <= i <= x + width for x, width in bands)
        assert marked == (data["at"][stop] in thresholds)
    shown = " ".join(page.text)
    assert "Green marks the certified thresholds. You may use any of them" in shown
    assert "✓ Certified: the guarantee holds at this threshold." in shown
    assert f"any of them may be used: {str(thresholds).replace('-', '−')}." in shown


def test_without_a_certificate_or_for_one_threshold_nothing_else_is_promised(certified):
    chosen = ThresholdSet.of_points([certified.threshold])
    only = replace(certified.certificate, certified_thresholds=chosen)
    assert "Only the chosen threshold is certified." in html(replace(certified, certificate=only))
    without = html(Report(certified.goal, certified.rows, 1.8))
    assert data_of(without)["certified"] == []
    assert "Green marks" not in without


def test_a_contradicted_certificate_and_another_prevalence_are_shown(certified):
    rng = np.random.default_rng(9)
    y = rng.random(4000) < 0.02
    rows = Rows(y, rng.normal(size=4000) + 0.5 * y, "later data", unseen=True)
    text = " ".join(Page(html(replace(certified, rows=rows))).text)
    assert "These rows contradict the certificate: precision is 0." in text
    assert "✗ certificate contradicted" in text
    assert "✓ certified" not in text
    assert "A certificate is not permanent" not in text
    assert "Green marks" not in text
    assert "The fraction of positives differs: " in text
    same = " ".join(Page(html(certified)).text)
    assert "do not contradict it" in same
    assert "A certificate is not permanent" in same
    assert "The fraction of positives differs" not in same


def test_rows_that_may_be_the_certification_rows_are_not_compared(certified):
    rows = replace(certified.rows, unseen=False)
    text = html(replace(certified, rows=rows))
    assert "do not contradict" not in text
    assert "contradict the certificate" not in text
    assert "✓ certified at 90 %" in text


def test_a_given_verdict_is_shown_whether_or_not_the_rows_are_unseen(certified):
    rng = np.random.default_rng(9)
    y = rng.random(4000) < 0.02
    rows = Rows(y, rng.normal(size=4000) + 0.5 * y, "later data")
    by_group = replace(certified.certificate, one_per_group=True)
    verdict = by_group.check(rows.y, rows.scores, groups=np.arange(4000) // 2)
    page = Page(html(replace(certified, rows=rows, certificate=by_group, verdict=verdict)))
    text = " ".join(page.text)
    assert "✗ certificate contradicted" in text
    assert "One row of each group was used" in text
    assert "The fraction of positives differs" in text
    assert "✓ certified" not in text


def test_a_failed_certification_is_explained_once(rows):
    goal = "max recall s.t. precision >= 0.999"
    certificate = certify(rows.y, rows.scores, goal, threshold=1.8)
    assert not certificate.certified
    text = " ".join(Page(html(Report(goal, rows, 1.8, certificate=certificate))).text)
    assert len(re.findall("not certified", text, re.I)) == 1
    assert "✗ certification failed" in text


def test_rows_on_which_the_threshold_was_chosen_show_no_long_run(counted):
    report = counted(164, 18, 36, 9782)
    text = " ".join(Page(html(replace(report, rows=replace(report.rows, chose=True)))).text)
    assert "The threshold was chosen on these rows" in text
    assert "long run" not in text


def test_empty_and_repeated_facts_are_left_out(rows):
    facts = {"seed": "7", "group": None, "time": "None", "random_state": 7, "Seed": "7",
             "rows": "6000", "threshold": "0.1", "note": ""}  # fmt: skip
    text = html(Report("max f1", rows, 1.5, facts=facts))
    found = re.search(r"Data and run.*?</table>", text, re.S)[0]
    names = re.findall(r'<th scope="row">(.*?)</th>', found)
    assert names == ["rows of this report", "goal", "threshold", "seed", "rows"]
    assert "<td>1.5</td>" in found


def test_the_tuned_baseline_is_shown_next_to_the_baseline(full):
    tuned = Baseline("the old rules, tuned", full.baseline.scores, 3.1)
    text = html(replace(full, tuned=tuned))
    page = Page(text)
    assert text.count('<th scope="col">the old rules, tuned</th>') == 3
    shown = " ".join(page.text)
    assert "saved vs. the old rules, tuned" in shown
    point = evaluate_threshold(full.rows.y, tuned.scores, 3.1, full.goal)
    assert data_of(text)["baselines"][1] == [point.tp, point.fp]
    assert "the old rules, tuned, threshold 3.1" in shown
    assert len([c for t, c in page.elements if "mark tuned" in c.get("class", "")]) == 2


def test_candidates_are_folded(full):
    folded = re.search(r"<details.*?</details>", html(full), re.S)[0]
    assert "<summary>2 candidates were compared; ordinary was chosen</summary>" in folded
    assert "★ chosen" in folded


# --- sums ----------------------------------------------------------------------------------------


def test_rounded_counts_add_up(counted):
    # 542.5 real and 616.67 false of 1158.3 alarms, of 1,183.3 positives
    text = html(counted(65, 74, 77, 984))
    assert "542 real, 616 false" in text
    cells = dict(re.findall(r'data-out="cases-(\w+)"[^>]*>([\d,.]+)<', text))
    found = {name: float(value.replace(",", "")) for name, value in cells.items()}
    assert found["tp"] + found["fp"] == found["alarms"] == 1158
    assert found["tp"] + found["fn"] == 1183
    assert "Per 10,000 such cases (1,183 frauds)" in text


@pytest.mark.parametrize("costs", [Costs(5, 120), Costs(0.37, 1.9, -0.4), Costs(0.001, 0.01)])
def test_rounded_money_adds_up(counted, costs):
    for counts in ((65, 74, 77, 984), (7, 3, 4, 20_003), (1, 0, 999, 6)):
        check_sums(counted, costs, counts)


def check_sums(counted, costs, counts):
    n = sum(counts)
    other = Baseline("rules", np.arange(n) % 7.0, 3.0)
    text = html(counted(*counts, costs=costs, baseline=other))
    found = {}
    for name, *cells in re.findall(
        r'data-out="money-(\w+)"[^>]*>([^<]+)</output></td><td>([^<]+)</td><td>([^<]+)<', text
    ):
        found[name] = [round(float(re.sub("[€,]", "", c.replace("−", "-"))), 2) for c in cells]
    nothing = float(re.search(r"which costs €([\d,.]+?)\.?<", text)[1].replace(",", ""))
    baselines_total = found["total"][2]
    for i in range(3):
        parts = sum(found[name][i] for name in ("alarms", "misses", "catches") if name in found)
        assert parts == pytest.approx(found["total"][i], abs=1e-9)
        assert found["saved"][i] == pytest.approx(nothing - found["total"][i], abs=1e-9)
        assert found["gained0"][i] == pytest.approx(baselines_total - found["total"][i], abs=1e-9)


def test_size_stays_small_with_many_rows():
    rng = np.random.default_rng(0)
    y = rng.random(200_000) < 0.01
    text = html(Report("max f1", Rows(y, rng.normal(size=200_000) + 2 * y), 2.0))
    assert len(text) < 400_000


# --- the file ------------------------------------------------------------------------------------


def test_the_file_is_written_and_its_path_returned(rows, tmp_path):
    report = Report("max f1", rows, 1.5, title="Übersicht \udcff")  # not valid UTF-8
    path = write_report(report, tmp_path / "new" / "report.html")
    assert path.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert os.listdir(path.parent) == ["report.html"]


def test_a_link_stays_and_its_target_is_written(rows, tmp_path):
    link, page = tmp_path / "link.html", tmp_path / "there" / "page.html"
    link.symlink_to(page)
    assert write_report(Report("max f1", rows, 1.5), link) == link
    assert link.is_symlink()
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert os.listdir(page.parent) == ["page.html"]


def full_disk(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_leaves_the_old_report(rows, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(SetpointError, match=r"report.html: No space left on device"):
        write_report(Report("max f1", rows, 1.5), path)
    assert os.listdir(tmp_path) == ["report.html"]
    assert path.read_text() == "old"


def test_a_read_only_folder_is_named(rows, tmp_path, monkeypatch):
    opened = os.open

    def read_only(path, *args, **more):
        if Path(path).parent == tmp_path:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, *args, **more)

    monkeypatch.setattr(os, "open", read_only)  # root may write to any folder
    with pytest.raises(SetpointError, match="report.html: Permission denied. Choose another"):
        write_report(Report("max f1", rows, 1.5), tmp_path / "report.html")
    assert os.listdir(tmp_path) == []


def test_a_folder_or_a_file_in_the_way_is_named(rows, tmp_path):
    with pytest.raises(SetpointError, match="which is a folder"):
        write_report(Report("max f1", rows, 1.5), tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(SetpointError, match="cannot be written"):
        write_report(Report("max f1", rows, 1.5), tmp_path / "file" / "report.html")


# --- goals with amounts, segments and periods ----------------------------------------------------


@pytest.mark.parametrize(
    "goal",
    [
        'max recall s.t. precision >= 0.5 for each "<i>re gion</i>"',
        'max recall s.t. precision["<i>re gion</i>"="<b>north</b>"] >= 0.5',
        'min cost(fp=5, fn="</script>") s.t. recall["</script>"] >= 0.5, alarms <= 9 per day',
        "max precision@9 per week",
    ],
)
def test_names_of_columns_and_segments_are_escaped(goal):
    y, scores = scored(800)
    named = {
        "segments": {"<i>re gion</i>": of_names(SEGMENTS, 800)},
        "amounts": {"</script>": np.arange(800.0)},
        "times": np.datetime64("2024-01-30") + np.arange(800) % 40,
    }
    report = report_of(goal, y, scores, currency="<u>", **named)
    text = html(report)
    page = Page(text)
    assert len(page.ids) == len(set(page.ids))
    assert len(page.named("script")) == 2
    assert not {"b", "i", "u"} & {tag for tag, _ in page.elements}
    for svg in page.named("svg"):
        assert svg.get("aria-hidden") == "true" or len(svg["aria-label"]) > 20
    data_of(text)
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_sections_appear_only_for_goals_about_them(rows):
    page = Page(html(Report("max f1", rows, 1.5)))
    assert not {"segments1", "periods1", "money"} & set(page.ids)
    y, scores = scored(300)
    goal = "max profit(tp=5, fp=-1) s.t. precision >= 0.1 for each region, alarms <= 99 per day"
    report = report_of(
        goal, y, scores, segments={"region": of_names("ab", 300)}, times=np.arange(300) % 3
    )
    assert {"segments1", "periods1", "money"} <= set(Page(html(report)).ids)


def test_the_level_of_each_segment_is_not_drawn_for_all_rows(rows):
    y, scores = scored(300)
    report = report_of("max recall s.t. precision >= 0.5 for each region", y, scores,
                       segments={"region": of_names("ab", 300)})  # fmt: skip
    curve = re.search(r'<svg id="curve".*?</svg>', html(report), re.S)[0]
    assert "floor" not in curve


def test_two_budgets_have_a_tile_and_a_section_each():
    y, scores = scored(300)
    goal = "max recall s.t. alarms <= 9 per day, alarms <= 40 per week"
    report = report_of(goal, y, scores, times=np.arange(300) % 21)
    found = {name: (value, lines) for name, value, lines in tiles(report)}
    assert found["alarms on the busiest day"][1][0] == "allowed: 9"
    assert found["alarms in the busiest week"][1][0] == "allowed: 40"
    page = html(report)
    for period in ("day", "week"):
        assert f"Alarms per {period}</h2>" in page
    assert "on every day at most 9 alarms are raised and in every week at most 40" in page


def test_tiles_show_what_the_goal_is_about():
    y, scores = scored(300)
    named = {"amounts": {"amount": 2.0 * np.ones(300)}, "times": np.arange(300) % 3,
             "segments": {"region": of_names("ab", 300)}}  # fmt: skip
    goal = (
        "min cost(fp=5, fn=amount) s.t. recall[amount] >= 0.5, alarms <= 9 per day, "
        "precision >= 0.5 for each region"
    )
    report = report_of(goal, y, scores, **named)
    found = {name: (value, lines) for name, value, lines in tiles(report)}
    tp, fp, P, _ = report.point.counts
    cost = (5 * fp + 2 * (P - tp)) / 300
    assert found["cost per 1,000 cases"][1][0] == f"€{cost:.2f} per case"
    assert found["amount caught"][0] == f"€{2 * tp:,.0f} of €{2 * P:,.0f}"
    assert found["alarms on the busiest day"][1][0] == "allowed: 9"
    assert found["lowest precision in any region"][1][0].endswith("required: ≥\xa00.5")


def test_labels_that_name_nothing_are_positives(counted):
    for label in ("1", "True"):
        text = html(counted(8, 2, 1, 89, positive=label, positives=None))
        assert "8 of 9 positives caught" in text
        assert f"“{label}”" not in text
    assert "“yes” cases" in html(counted(8, 2, 1, 89, positive="yes", positives=None))


def test_a_shortfall_that_is_always_0_is_not_drawn(certified, history):
    text = html(replace(certified, history=history))
    assert not history.violation.any()
    assert 'id="history-objective"' in text
    assert 'id="history-violation"' not in text
    assert "after each iteration: recall; the goal was always met." in " ".join(text.split())
    missed = History([replace(record, violation=0.1) for record in history])
    text = html(replace(certified, history=missed))
    assert 'id="history-violation"' in text
    assert "and the shortfall from the goal (0: goal met)." in " ".join(text.split())


def test_a_cheaper_baseline_says_what_speaks_against_it(counted, certified):
    def page(report, scores, **more):
        other = Baseline("the old rules", scores, 0.5)
        return " ".join(html(replace(report, baseline=other, costs=Costs(1, 100), **more)).split())

    report = counted(80, 10, 20, 890)
    scores = np.where(report.rows.y, 0.9, np.arange(1000) % 2)
    text = page(report, scores)
    assert re.search(r"“the old rules” costs €15,\d00 less, but does not meet the goal\.", text)
    assert "goal, which is not about these costs" in text
    missed = page(counted(10, 90, 90, 810), (np.arange(1000) % 2).astype(float))
    assert "less, but does not meet the goal either." in missed
    text = page(report, report.rows.y.astype(float))
    assert "less, and meets the goal on these rows as well." in text
    text = page(certified, certified.rows.y.astype(float))
    assert "less, but is not certified." in text
    assert "costs" not in page(report, np.zeros(1000)).partition("“the old rules” ")[2]


def test_a_better_baseline_is_named(counted):
    def page(report, scores, name="tuned"):
        other = Baseline("the old rules", np.asarray(scores, dtype=float), 0.5)
        return " ".join(html(replace(report, **{name: other})).split())

    report = counted(80, 10, 20, 890)
    better = "On the test rows, the old rules meets the goal too: recall is 1.000 instead of 0.800."
    assert better in page(report, report.rows.y)
    assert better in page(report, report.rows.y, "current")
    assert "meets the goal" not in page(report, np.arange(1000) % 2)
    missed = counted(10, 90, 90, 810)
    text = page(missed, missed.rows.y)
    assert (
        "On the test rows, the old rules meets the goal: recall is 1.000 instead of 0.100." in text
    )


def test_the_margin_of_caution_is_explained(counted):
    assert "leaves a margin (caution=0.2)" in html(counted(80, 10, 20, 890, caution=0.2))
    assert "leaves a margin" not in html(counted(80, 10, 20, 890))


def test_no_alarms_meet_a_goal_only_by_convention(counted):
    page = html(counted(0, 0, 100, 900, goal="max recall s.t. precision >= 0.8"))
    assert "✓ met: no alarms" in page


def test_an_infeasible_goal_is_the_headline():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), rng.random(400) < 0.2
    goal = "max recall s.t. precision >= 0.9, recall >= 0.9"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = SetpointThreshold(LogisticRegression(), goal).fit(X, y)
    report = report_of_classifier(fitted, X, y)
    page = html(report)
    first = page.index("No threshold meets this goal; the closest one was taken.")
    assert first < page.index("At this threshold")
    feasible = SetpointThreshold(LogisticRegression(), "max f1").fit(X, y)
    assert report_of_classifier(feasible, X, y).closest is None
