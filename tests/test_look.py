"""The built site as a browser shows it: wide and narrow, light and dark; nothing to complain of, nothing out of reach.

It looks at build/site, which `make docs` writes. axe-core, where it is installed (`npm install --prefix build
axe-core`), says what is hard to reach for people who do not see, or do not use a mouse.
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
ASK = "return axe.run({resultTypes: ['violations']}).then((found) => found.violations.map((one) => " \
    "[one.impact, one.id, one.nodes.length, one.nodes[0].target.join(' ')]))"  # fmt: skip

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="needs the site: make docs"),
]


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_quiet_and_fits_its_screen(browser: Any, page: str, screen: str) -> None:
    width, dark = SCREENS[screen]
    browser.open(SITE / f"{page}.html", width=width, dark=dark)
    assert browser.wait("document.readyState === 'complete'")
    assert browser.complaints() == []
    assert all(address.startswith(("file:", "data:", "blob:")) for address in browser.requests())
    assert browser.run("return document.documentElement.scrollWidth") <= width
    assert browser.run("return document.querySelectorAll('h1').length") == 1


@pytest.mark.parametrize("screen", ["wide light", "narrow dark"])
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_no_serious_fault(browser: Any, page: str, screen: str) -> None:
    if not AXE.exists():
        pytest.skip("needs axe-core: npm install --prefix build axe-core")
    width, dark = SCREENS[screen]
    browser.open(SITE / f"{page}.html", width=width, dark=dark)
    assert browser.wait("document.readyState === 'complete'")
    browser.run(AXE.read_text(encoding="utf-8"))
    assert [fault for fault in browser.run(ASK) if fault[0] in ("serious", "critical")] == []
