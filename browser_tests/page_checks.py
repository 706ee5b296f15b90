"""Checks that every page of a report must pass in a browser."""


def assert_fits(browser, emulate, path):
    """Assert that a page loads without errors or requests, and is not wider than any screen."""
    browser.get(path.as_uri())
    assert browser.get_log("browser") == []
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert browser.title != "gone"
    for width, media in ((1280, ""), (390, ""), (375, ""), (320, ""), (680, "print")):
        emulate(browser, width=width, media=media)
        wide, seen = browser.execute_script(
            "const e = document.scrollingElement; return [e.scrollWidth, e.clientWidth]"
        )
        assert wide <= seen <= width, (width, media)


def clipped_tables(browser):
    """Return the beginnings of the tables that must be scrolled to be read."""
    return browser.execute_script("""
      return [...document.querySelectorAll(".scroll")]
        .filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.textContent.slice(0, 40));
    """)


def overlaps(browser, pictures):
    """Return the texts of pictures that leave them, or overlap another text or a marker."""
    return browser.execute_script(
        """
      const box = (e) => e.getBoundingClientRect(), found = [];
      for (const svg of document.querySelectorAll(arguments[0])) {
        const around = box(svg);
        const texts = [...svg.querySelectorAll("text")].filter((e) => e.textContent);
        const all = [...texts, ...svg.querySelectorAll(".mark")];
        texts.forEach((one, i) => {
          const a = box(one);
          if (a.left < around.left - 1 || a.right > around.right + 1) found.push(one.textContent);
          for (const other of all.slice(i + 1)) {
            const b = box(other);
            if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) {
              found.push([one.textContent, other.textContent || "marker"]);
            }
          }
        });
      }
      return found;
    """,
        pictures,
    )
