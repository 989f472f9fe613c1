"""The built site in a browser, wide and narrow, light and dark: no errors, no overflow, no accessibility faults.

The tests open build/site, which `make docs` writes. axe-core (`npm install --prefix build axe-core`) checks the
accessibility if it is installed.
"""

from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "site"
AXE = ROOT / "build" / "node_modules" / "axe-core" / "axe.min.js"
PAGES = [
    "index", "choosing", "theory", "densities", "paper-map", "installing", "auto_examples/index",
    "auto_examples/intrusion", "notebooks/tables", "api/index", "api/generated/genlabel.densities", "study",
]  # fmt: skip
SCREENS = {
    "wide light": (1280, False),
    "wide dark": (1280, True),
    "narrow light": (400, False),
    "narrow dark": (400, True),
}
RUN_AXE = "return axe.run({resultTypes: ['violations']}).then((found) => found.violations.map((one) => " \
    "[one.impact, one.id, one.nodes.length, one.nodes[0].target.join(' ')]))"  # fmt: skip

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="needs the site: make docs"),
]


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("page", PAGES)
def test_page_has_no_errors_and_fits_the_screen(browser: Any, page: str, screen: str) -> None:
    width, dark = SCREENS[screen]
    browser.open(SITE / f"{page}.html", width=width, dark=dark)
    assert browser.wait("document.readyState === 'complete'")
    assert browser.complaints() == []
    assert all(address.startswith(("file:", "data:", "blob:")) for address in browser.requests())
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.run("return document.querySelectorAll('h1').length") == 1


@pytest.mark.parametrize("screen", ["wide light", "narrow dark"])
@pytest.mark.parametrize("page", PAGES)
def test_page_has_no_serious_accessibility_fault(browser: Any, page: str, screen: str) -> None:
    if not AXE.exists():
        pytest.skip("needs axe-core: npm install --prefix build axe-core")
    width, dark = SCREENS[screen]
    browser.open(SITE / f"{page}.html", width=width, dark=dark)
    assert browser.wait("document.readyState === 'complete'")
    browser.run(AXE.read_text(encoding="utf-8"))
    assert [fault for fault in browser.run(RUN_AXE) if fault[0] in ("serious", "critical")] == []
