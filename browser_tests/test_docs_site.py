"""The documentation site that ``make docs`` builds, opened as files on a desktop and a phone."""

import json
import re
from html import unescape
from pathlib import Path

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

SITE = Path(__file__).parent.parent / "site"
SCREENS = [(1280, "light"), (375, "dark")]
PAGES = ["index.html", "theory.html", "api/estimators.html", "results/index.html"]
# Elements that make requests by themselves; links do not.
LOADS = re.compile(r"<(?:link|script|img|iframe|source|video|audio|object|embed)\b[^>]*>")
OVERFLOWING = """
  const width = document.documentElement.clientWidth;
  const scrolls = (e) => e && (/auto|scroll|hidden/.test(getComputedStyle(e).overflowX)
    && e !== document.body || scrolls(e.parentElement));
  return [...document.querySelectorAll(".md-content *")].filter((e) => {
    const box = e.getBoundingClientRect();
    return box.width > 0 && box.right > width + 0.5 && !scrolls(e);
  }).map((e) => e.outerHTML.slice(0, 200));
"""


@pytest.fixture(scope="session", autouse=True)
def site():
    """Fail where there is no site; ``make test-browser`` builds it."""
    if not (SITE / "index.html").exists():
        pytest.fail("there is no site/index.html; build it with: make docs", pytrace=False)


def test_no_page_loads_anything_from_elsewhere():
    """Checked in the text of all pages."""
    pages = list(SITE.rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        loads = LOADS.findall(page.read_text(encoding="utf-8"))
        assert not [tag for tag in loads if re.search(r"""["'](?:https?:)?//""", tag)], page


def test_the_reference_renders_docstrings():
    """As docs/tooling/docstrings.py prepares them: links, types as written, defaults."""
    pages = {page.stem: page.read_text(encoding="utf-8") for page in SITE.glob("api/*.html")}
    assert not [name for name, text in pages.items() if re.search(r":(class|func|meth|mod):", text)]
    words = {
        name: re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", "", text)))
        for name, text in pages.items()
    }
    assert "random_state (int, RandomState or None, default: None )" in words["estimators"]
    assert "cache (str or path-like, default: None )" in words["features"]
    assert re.search(r"lam_max \(float, default: 1000.0 \)", words["training"])
    assert "scale ('smoke', 'small', 'full', default: 'small' )" in words["paper"]


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_complete_and_makes_no_network_requests(browser, emulate, page, width, scheme):
    """Checked on some pages in the browser; pictures load, and nothing overflows."""
    emulate(browser, width, scheme)
    browser.get((SITE / page).as_uri())
    events = [json.loads(e["message"])["message"] for e in browser.get_log("performance")]
    asked = [
        e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"
    ]
    assert asked
    assert not [url for url in asked if not url.startswith(("file:", "data:"))]
    assert browser.get_log("browser") == []
    broken = "return [...document.images].filter((i) => !i.naturalWidth).map((i) => i.src)"
    assert browser.execute_script(broken) == []
    assert browser.execute_script(OVERFLOWING) == []
    ground = "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    assert (max(browser.execute_script(ground)[:3]) < 90) == (scheme == "dark")


def test_search_works_on_pages_opened_as_files(browser):
    """It needs docs/assets/iframe-worker.js."""
    browser.get((SITE / "index.html").as_uri())
    browser.find_element(By.CSS_SELECTOR, "[data-md-component=search-query]").send_keys("certify")
    results = ".md-search-result__item a"
    WebDriverWait(browser, 20).until(lambda b: b.find_elements(By.CSS_SELECTOR, results))
    found = browser.find_elements(By.CSS_SELECTOR, results)
    assert any("certificates.html" in link.get_attribute("href") for link in found)
    assert browser.get_log("browser") == []
