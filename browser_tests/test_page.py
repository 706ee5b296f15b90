"""The report in a browser: requests, numbers, keyboard, print, phone and dark theme."""

import base64
import json
import re

import numpy as np
import pytest
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from setpoint import evaluate_threshold
from setpoint.report.data import ReportData

GOALS = ["regions", "shops", "days", "amounts"]  # with segments, periods and amounts
ALL = [
    "certified",
    "broken",
    "close",
    "chosen",
    "infeasible",
    "large",
    "hostile",
    "explained",
    *GOALS,
]
OVERFLOWING = """
  const width = document.documentElement.clientWidth;
  return [...document.body.querySelectorAll("*")].filter((e) => {
    if (e.closest(".scroll") && !e.matches(".scroll")) return false;
    const box = e.getBoundingClientRect();
    return box.width > 0 && (box.right > width + 0.5 || box.left < -0.5);
  }).map((e) => e.outerHTML.slice(0, 200));
"""
CLOSE_CELLS = """
  const found = [], inside = document.createRange();
  const box = (e) => { inside.selectNodeContents(e); return inside.getBoundingClientRect(); };
  for (const row of document.querySelectorAll(".scroll tbody tr")) {
    const cells = [...row.cells].filter((e) => e.offsetWidth && e.textContent);
    cells.slice(1).forEach((e, i) => {
      if (box(e).left - box(cells[i]).right < 5) found.push([cells[i].textContent, e.textContent]);
    });
  }
  return found;
"""


def read(browser):
    """Return all numbers that the slider changes."""
    script = "return Object.fromEntries([...document.querySelectorAll('[data-out]')].map("
    return browser.execute_script(script + "(e) => [e.dataset.out, e.textContent]))")


def threshold_now(browser):
    """Return the threshold in the number box."""
    return browser.execute_script("return document.getElementById('box').valueAsNumber")


def assert_shows(browser, report, threshold):
    """Compare everything shown with what the raw rows give at a threshold."""
    y, scores = report.rows.y, report.rows.scores
    alarm = scores > threshold
    tp, fp = int((alarm & y).sum()), int((alarm & ~y).sum())
    fn, tn = int((~alarm & y).sum()), int((~alarm & ~y).sum())
    seen = read(browser)
    assert {k: seen[k] for k in ("tp", "fp", "fn", "tn")} == {
        "tp": f"{tp:,}", "fp": f"{fp:,}", "fn": f"{fn:,}", "tn": f"{tn:,}"
    }  # fmt: skip
    point = evaluate_threshold(y, scores, threshold, report.goal, **report.rows.named)
    for line in ReportData(report).lines:
        assert seen[f"metric-{line.key}"] == line.text(point)
    for name in ("precision", "recall", "f1"):
        assert float(seen[f"metric-{name}"]) == pytest.approx(point.value(name), abs=5.1e-4)
    if report.goal.constraints:
        met = "✓ met" if tp + fp else "✓ met: no alarms"
        assert seen["met"] == (met if point.feasible else "✗ not met")
    per = 10_000 / len(y)
    cases = {name: number(seen[f"cases-{name}"]) for name in ("alarms", "tp", "fp", "fn")}
    for name, count in {"alarms": tp + fp, "tp": tp, "fp": fp, "fn": fn}.items():
        assert cases[name] == pytest.approx(per * count, abs=1)
        assert (seen[f"cases-{name}"].strip("0.") == "") == (count == 0)
    assert cases["tp"] + cases["fp"] == pytest.approx(cases["alarms"], abs=0.051)  # "<0.1"
    assert f"{tp:,} of {tp + fn:,}" in seen["summary"]
    if "money-total" in seen:
        total = report.costs.total(point)
        assert number(seen["money-total"]) == pytest.approx(per * total, abs=1.5)
        items = [seen[f"money-{name}"] for name in ("alarms", "misses", "catches")
                 if f"money-{name}" in seen]  # fmt: skip
        assert sum(map(number, items)) == pytest.approx(number(seen["money-total"]))
        saved = report.costs.miss * (tp + fn) - total
        assert number(seen["money-saved"]) == pytest.approx(per * saved, abs=2)
        for i, (_, baseline) in enumerate(report.baselines):
            gained = report.costs.total(baseline) - total
            assert number(seen[f"money-gained{i}"]) == pytest.approx(per * gained, abs=3)


def number(text):
    """Read a number as the page writes it."""
    digits = re.sub(r"[^\d.−]", "", text).replace("−", "-")
    return 0.0 if re.fullmatch(r"<[\d.]+", text) else float(digits)


def wait_for(browser, check):
    """Wait until a check passes: a change of medium reaches the page's script a little later."""

    def passes(_):
        check()
        return True

    WebDriverWait(browser, 10, 0.05, ignored_exceptions=[AssertionError]).until(passes)


# --- loading -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_it_loads_without_errors_and_makes_no_network_requests(browser, opened, reports, name):
    """Only the file itself is read."""
    report = opened(name)
    assert browser.get_log("browser") == []
    events = [json.loads(e["message"])["message"] for e in browser.get_log("performance")]
    asked = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
    addresses = [a["request"]["url"] for a in asked]
    assert reports[name][1].as_uri() in addresses  # proves that the log works
    assert {a for a in addresses if a != reports[name][1].as_uri()} <= {"data:,"}
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert browser.title.split() == report.title.split()
    assert_shows(browser, report, report.threshold)


def test_the_security_policy_blocks_requests_and_scripts(browser, opened):
    """A picture from a server and a script in the page are both refused by the browser."""
    opened("certified")
    refused = browser.execute_async_script("""
      const done = arguments[0], seen = [];
      document.addEventListener("securitypolicyviolation", (e) => {
        seen.push(e.effectiveDirective);
        if (seen.length === 2) done(seen);
      });
      new Image().src = "http://127.0.0.1:9/x.png";
      const script = document.createElement("script");
      script.textContent = "document.title = 'gone'";
      document.body.append(script);
    """)
    assert sorted(refused) == ["img-src", "script-src-elem"]
    assert browser.title == "Card payments"
    assert any("violates" in e["message"] for e in browser.get_log("browser"))


def test_labels_are_escaped(browser, opened):
    """No script of theirs runs, and no element of theirs exists."""
    report = opened("hostile")
    assert browser.title == report.title
    assert browser.find_elements(By.CSS_SELECTOR, "img, main script, main b") == []
    assert report.plural in browser.find_element(By.TAG_NAME, "main").text
    ActionChains(browser).click(browser.find_element(By.ID, "slider")).perform()
    assert report.plural in read(browser)["summary"]
    assert browser.title == report.title


def test_without_scripts_all_numbers_are_shown_and_controls_are_hidden(browser, opened, reports):
    """The page is complete before any script runs."""
    browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    report = opened("certified")
    text = browser.find_element(By.TAG_NAME, "main").text
    for count in (report.point.tp, report.point.fp, report.point.fn, report.point.tn):
        assert f"{count:,.0f}" in text
    assert not browser.find_element(By.ID, "slider").is_displayed()


# --- the slider ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_the_slider_shows_exact_counts_at_three_thresholds(browser, opened, name):
    """Pointed at with the mouse, and compared with the raw rows."""
    report = opened(name)
    slider = browser.find_element(By.ID, "slider")
    width = slider.size["width"]
    seen = set()
    for part in (-0.3, 0.1, 0.4):
        ActionChains(browser).move_to_element_with_offset(slider, part * width, 0).click().perform()
        threshold = threshold_now(browser)
        assert_shows(browser, report, threshold)
        seen.add(threshold)
    assert len(seen) == 3
    assert sorted(seen) == sorted(seen, key=lambda t: (report.rows.scores > t).sum())[::-1]


@pytest.mark.parametrize("name", ALL)
def test_the_script_rounds_as_the_page_does(browser, opened, name):
    """At the chosen threshold its column and the slider's are the same, to the last digit."""
    opened(name)
    pairs = browser.execute_script("""
      return [...document.querySelectorAll(".compare tbody tr")]
        .map((row) => [row.cells[1].textContent, row.cells[2].textContent]);
    """)
    assert len(pairs) >= 7
    assert [slider for slider, _ in pairs] == [chosen for _, chosen in pairs]


def test_the_markers_follow_the_slider(browser, opened):
    """The ring lies at recall and precision of the slider's threshold."""
    opened("certified")
    slider = browser.find_element(By.ID, "slider")
    ActionChains(browser).move_to_element_with_offset(slider, -80, 0).click().perform()
    seen, frame = read(browser), "JSON.parse(document.getElementById('data').textContent).frames"
    moved = browser.find_element(By.ID, "curve-here").get_attribute("transform")
    x, y = (float(v) for v in re.findall(r"[\d.]+", moved))
    left, right, bottom, top, *_ = browser.execute_script(f"return {frame}.curve")
    assert (x - left) / (right - left) == pytest.approx(float(seen["metric-recall"]), abs=1e-3)
    assert (bottom - y) / (bottom - top) == pytest.approx(float(seen["metric-precision"]), abs=1e-3)


def test_the_page_says_at_each_threshold_whether_it_is_certified(browser, opened):
    """With the slider at its ends and with typed thresholds, at the ends of the intervals."""
    report = opened("certified")
    thresholds = report.certificate.certified_thresholds
    slider, box = browser.find_element(By.ID, "slider"), browser.find_element(By.ID, "box")
    shown = browser.find_element(By.CSS_SELECTOR, "p.certified")
    seen = []

    def compare():
        now = threshold_now(browser)
        expected = "✓ Certified:" if now in thresholds else "✗ Not certified:"
        assert shown.text.startswith(expected)
        assert shown.get_attribute("class") == f"certified {'yes' if now in thresholds else 'no'}"
        seen.append(now in thresholds)

    compare()
    for key in (Keys.HOME, Keys.ARROW_RIGHT, Keys.END):
        slider.send_keys(key)
        compare()
    low, high = thresholds.intervals[0]
    for value in (low, high, (low + high) / 2, low - 1e-9):
        box.clear()
        box.send_keys(repr(float(value)), Keys.ENTER)
        compare()
    assert {True, False} == set(seen)


def test_the_keyboard_moves_the_slider(browser, opened):
    """Arrows go to the next threshold, Home and End to the ends; the way back is a button."""
    report = opened("certified")
    slider = browser.find_element(By.ID, "slider")
    assert slider.accessible_name.startswith("Threshold")
    slider.send_keys(Keys.ARROW_RIGHT)
    above = threshold_now(browser)
    assert above > report.threshold
    assert_shows(browser, report, above)
    slider.send_keys(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
    below = threshold_now(browser)
    assert below < report.threshold
    assert_shows(browser, report, below)
    assert slider.get_attribute("aria-valuetext").startswith("threshold 0.")
    slider.send_keys(Keys.HOME)
    assert read(browser)["fn"] == "0"
    assert read(browser)["tn"] == "0"
    slider.send_keys(Keys.END)
    assert read(browser)["tp"] == "0"
    assert read(browser)["metric-precision"] == "1.000"
    slider.send_keys(Keys.TAB)
    box = browser.switch_to.active_element
    assert box.get_attribute("id") == "box"
    box.send_keys(Keys.TAB)
    reset = browser.switch_to.active_element
    assert reset.get_attribute("id") == "reset"
    outline = reset.value_of_css_property("outline-style")
    assert outline == "solid"  # focus is seen
    reset.send_keys(Keys.ENTER)
    assert_shows(browser, report, report.threshold)
    assert "chosen threshold" in read(browser)["summary"]


def test_a_typed_threshold_is_used_exactly(browser, opened):
    """Also one that is a row's own score: such a row raises no alarm."""
    report = opened("certified")
    box = browser.find_element(By.ID, "box")
    own = float(np.sort(report.rows.scores)[-40])
    for typed in (own, float(np.nextafter(own, 0)), 0.3333, -5.0, 17.0):
        box.clear()
        box.send_keys(repr(typed), Keys.ENTER)
        assert_shows(browser, report, typed)
        assert threshold_now(browser) == typed
    box.clear()
    box.send_keys(repr(own), Keys.ENTER, Keys.ARROW_DOWN)
    assert_shows(browser, report, float(np.nextafter(own, 0)))
    box.clear()
    box.send_keys(Keys.ENTER)
    assert browser.find_element(By.ID, "snapped").text == "Enter a number."


def test_of_many_scores_the_nearest_stored_threshold_is_shown(browser, opened):
    """Counts are those of the threshold that is shown, not of the one typed."""
    report = opened("large")
    box = browser.find_element(By.ID, "box")
    snapped = 0
    for typed in np.linspace(0.02, 0.2, 12):
        box.clear()
        box.send_keys(repr(float(typed)), Keys.ENTER)
        assert_shows(browser, report, threshold_now(browser))
        if "is the nearest" in browser.find_element(By.ID, "snapped").text:
            snapped += 1
            assert threshold_now(browser) == pytest.approx(typed, rel=0.1)
    assert snapped
    browser.find_element(By.ID, "reset").click()
    assert_shows(browser, report, report.threshold)


# --- segments, periods and money -----------------------------------------------------------------


def test_segments_with_hostile_names_are_shown_as_text(browser, opened):
    """In the table and in the picture."""
    report = opened("regions")
    assert browser.find_elements(By.CSS_SELECTOR, "main b, main i, main img, main script") == []
    names = [
        e.text for e in browser.find_elements(By.CSS_SELECTOR, ".segments tbody th[scope=row]")
    ]
    assert "<b>north</b>" in names
    assert "{{ 7 * 7 }}" in names
    assert len(names) == 8
    drawn = browser.find_element(By.ID, "segments-1-0")
    assert "[a=b](c)" in drawn.text
    assert report.goal.segments == ("<i>re gion</i>",)


@pytest.mark.parametrize("name", ["regions", "shops", "days"])
@pytest.mark.parametrize("width", [375, 1280])
def test_texts_of_the_new_pictures_stay_inside_and_apart(browser, opened, emulate, name, width):
    """Names and values have the space they need, and ticks do not overlap."""
    emulate(browser, width=width)
    opened(name)
    wrong = browser.execute_script("""
      const box = (e) => e.getBoundingClientRect(), found = [];
      for (const svg of document.querySelectorAll("svg[id^=segments], svg[id^=periods]")) {
        const frame = box(svg);
        const texts = [...svg.querySelectorAll("text")].filter((e) => e.textContent);
        texts.forEach((e, i) => {
          const a = box(e);
          if (a.left < frame.left - 1 || a.right > frame.right + 1) {
            found.push([svg.id, e.textContent]);
          }
          for (const other of texts.slice(i + 1)) {
            const b = box(other);
            const across = a.left < b.right - 1 && b.left < a.right - 1;
            const down = a.top < b.bottom - 3 && b.top < a.bottom - 3;
            if (across && down) found.push([svg.id, e.textContent, other.textContent]);
          }
        });
      }
      return found;
    """)
    assert wrong == []


def test_bars_of_many_days_are_drawn_in_both_themes(browser, opened, emulate):
    """Real alarms, all alarms and the marks above the budget differ from the ground."""
    colours = set()
    for scheme in ("light", "dark"):
        emulate(browser, scheme=scheme)
        opened("days")
        for kind in ("bar.others", "bar.positives", "over"):
            shape = browser.find_element(By.CSS_SELECTOR, f"#periods-1 .{kind}")
            assert shape.size["width"] > 100
            colours.add((scheme, shape.value_of_css_property("fill")))
    assert len(colours) == 6


def test_the_money_of_the_goal_is_the_only_one(browser, opened):
    """Costs that the command line was given besides are not shown as well."""
    report = opened("amounts")
    assert report.costs is not None
    text = browser.find_element(By.TAG_NAME, "main").text
    assert "Profit per 1,000 cases" in text
    assert "Costs per 10,000" not in text
    assert "Ways to decide" in text


# --- phone, print, dark --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize(
    ("width", "media"),
    [(375, ""), (320, ""), (820, ""), (1280, ""), (680, "print"), (375, "print")],
)
def test_nothing_overflows_the_page(browser, opened, emulate, name, width, media):
    """Neither on a phone nor on paper; wide tables scroll in their boxes."""
    emulate(browser, width=width, media=media)
    opened(name)
    wide, seen = browser.execute_script(
        "const e = document.scrollingElement; return [e.scrollWidth, e.clientWidth]"
    )
    assert seen <= width
    assert wide <= seen
    assert browser.execute_script(OVERFLOWING) == []
    if media == "print":  # a box cannot be scrolled on paper
        assert (
            width < 680
            or browser.execute_script(
                "return [...document.querySelectorAll('.scroll')]"
                ".filter((e) => e.scrollWidth > e.clientWidth + 1).length"
            )
            == 0
        )


@pytest.mark.parametrize(
    "name", ["certified", "broken", "close", "chosen", "infeasible", "large", "days", "amounts"]
)
def test_tables_fit_on_a_phone_without_scrolling(browser, opened, emulate, name):
    """The last column is often the one that matters."""
    emulate(browser, width=375)
    opened(name)
    browser.execute_script(
        "document.querySelectorAll('details').forEach((e) => { e.open = true; })"
    )
    clipped = browser.execute_script("""
      return [...document.querySelectorAll(".scroll")]
        .filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.textContent.slice(0, 40));
    """)
    assert clipped == []


def test_a_phone_shows_what_matters_most_of_every_table(browser, opened, emulate):
    """Which candidate was chosen, all groups of scores, and how much columns differ."""
    emulate(browser, width=390)
    opened("explained")
    browser.execute_script(
        "document.querySelectorAll('details').forEach((e) => { e.open = true; })"
    )

    def shown(selector):
        return [
            e.text for e in browser.find_elements(By.CSS_SELECTOR, selector) if e.is_displayed()
        ]

    assert "★ chosen" in shown(".candidates td")
    assert "iteration" not in shown(".candidates thead th")
    groups = browser.find_elements(By.CSS_SELECTOR, ".calibration tbody tr")
    assert len(groups) > 5
    assert all(e.is_displayed() for e in groups)
    assert shown(".calibration thead th")[-2:] == ["observed", "predicted"]
    assert "large" in shown(".drift td")
    assert browser.execute_script("""
      return [...document.querySelectorAll(".drift")]
        .every((e) => e.scrollWidth <= e.parentElement.clientWidth);
    """)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_of_cells_do_not_touch_those_beside_them(browser, opened, emulate, scheme):
    """On a phone, and where a column aligned left follows one aligned right."""
    for width in (390, 1280):
        emulate(browser, width=width, scheme=scheme)
        for name in ("certified", "broken", "infeasible"):
            opened(name)
            assert browser.execute_script(CLOSE_CELLS) == []


def test_coloured_boxes_are_as_wide_as_tables_and_their_text_as_other_text(browser, opened):
    """On a desktop there are no more than two widths: of text, and of everything else."""
    opened("certified")
    widths = browser.execute_script("""
      return [...document.querySelectorAll("p.good, p.bad, .note")].map(
        (e) => [e.offsetWidth, e.closest("section").clientWidth]
      );
    """)
    assert widths
    assert all(inside - own == 40 for own, inside in widths)


@pytest.mark.parametrize(("width", "most"), [(1280, 3), (1001, 4), (900, 3), (375, 5)])
def test_row_labels_of_a_comparison_have_enough_space(browser, opened, emulate, width, most):
    """They do not break into single words."""
    emulate(browser, width=width)
    opened("certified")
    lines = browser.execute_script("""
      return [...document.querySelectorAll(".compare th[scope=row]")].map((e) => {
        const style = getComputedStyle(e), inside = document.createRange();
        inside.selectNodeContents(e);
        const height = inside.getBoundingClientRect().height;
        return [e.textContent, Math.round(height / parseFloat(style.lineHeight))];
      });
    """)
    assert any("tuned threshold" in text for text, _ in lines)
    assert {text: n for text, n in lines if n > most} == {}


def test_axis_labels_do_not_overlap_ticks(browser, opened):
    """Also where the numbers are long."""
    opened("certified")
    overlaps = browser.execute_script("""
      const box = (e) => e.getBoundingClientRect(), found = [];
      for (const svg of document.querySelectorAll("figure svg:not(.swatch)")) {
        for (const label of svg.querySelectorAll(".label")) {
          for (const tick of svg.querySelectorAll(".tick")) {
            const a = box(label), b = box(tick);
            if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) {
              found.push([svg.id, label.textContent, tick.textContent]);
            }
          }
        }
      }
      return found;
    """)
    assert overlaps == []


def test_print_shows_the_chosen_threshold_and_no_controls(browser, opened, emulate):
    """Whatever the slider shows, which is restored afterwards."""
    emulate(browser, scheme="dark")
    report = opened("certified")
    slider = browser.find_element(By.ID, "slider")
    slider.send_keys(Keys.HOME)
    tried = threshold_now(browser)
    candidates = browser.find_element(By.CSS_SELECTOR, "details table")
    assert not candidates.is_displayed()
    emulate(browser, width=680, scheme="dark", media="print")
    wait_for(browser, lambda: assert_shows(browser, report, report.threshold))
    assert candidates.is_displayed()  # paper cannot be unfolded
    for name in ("slider", "box", "reset", "theme", "curve-here"):
        assert not browser.find_element(By.ID, name).is_displayed()
    ground = browser.find_element(By.TAG_NAME, "body").value_of_css_property("background-color")
    assert ground in ("rgb(255, 255, 255)", "rgba(255, 255, 255, 1)")
    emulate(browser)
    wait_for(browser, lambda: assert_shows(browser, report, tried))
    assert not candidates.is_displayed()


def test_it_prints(browser, opened):
    """As a few pages of paper."""
    opened("certified")
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True})
    pdf = base64.b64decode(printed["data"])
    assert pdf.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 8


def test_dark_and_light(browser, opened, emulate):
    """The system's setting applies, and a button switches."""

    def brightness():
        color = browser.find_element(By.TAG_NAME, "body").value_of_css_property("background-color")
        return sum(int(x) for x in re.findall(r"\d+", color)[:3])

    opened("certified")
    button = browser.find_element(By.ID, "theme")
    assert brightness() > 600
    assert button.text == "Dark mode"
    emulate(browser, scheme="dark")

    def is_dark():
        assert brightness() < 150
        assert button.text == "Light mode"

    wait_for(browser, is_dark)
    button.click()
    assert brightness() > 600
    assert button.text == "Dark mode"
    button.click()
    assert brightness() < 150


def test_an_exact_threshold_fits_its_box(browser, opened):
    """No digit is cut off."""
    opened("certified")
    browser.execute_script("document.getElementById('box').value = '-1.2345678901234567e-05'")
    box = browser.find_element(By.ID, "box")
    assert box.get_property("scrollWidth") <= box.get_property("clientWidth")
