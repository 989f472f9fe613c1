"""Figures with sliders: their data equal the library's values, and in a browser the sliders select among them."""

import doctest
import json
import math
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from genlabel_paper.theory import example3_angle, limit_coefficients, taylor_coefficients

DOCS = Path(__file__).parents[1] / "docs"
STATIC = DOCS / "_static"
pytestmark = pytest.mark.skipif(not STATIC.exists(), reason="needs the source tree")
pytest.importorskip("sphinx", reason="needs the extra docs")

N, R, ALPHA, SIGMA = (3, 30), (5.0, 25.0, 100.0), (1.0, 2.0), (0.1, 0.4)
UNIT = 1e-4
RIGHT, LEFT, HOME, END = "\ue014", "\ue012", "\ue011", "\ue010"


class SliderFigure(NamedTuple):
    """HTML of a figure and its data."""

    html: str
    data: dict[str, Any]

    def heights(self, name: str, indices: dict[str, int], panel: int = 0) -> np.ndarray:
        """Return the heights of a curve in the figure."""
        (low, high), (_, top, _, height) = self.data["panels"][panel]["y"], self.data["panels"][panel]["box"]
        return top + height - (np.array(self.curve(name, indices, panel)) - low) / (high - low) * height

    def curve(self, name: str, indices: dict[str, int], panel: int = 0) -> list[float]:
        """Return the values of a curve, indexed as the script indexes them."""
        record = next(record for record in self.data["panels"][panel]["curves"] if record["name"] == name)
        sizes = {control["name"]: len(control["texts"]) for control in self.data["controls"]}
        rows = np.reshape(record["values"], (*(sizes[axis] for axis in record["over"]), len(record["x"])))
        return list(rows[tuple(indices[axis] for axis in record["over"])] * UNIT)


def read(html: str) -> SliderFigure:
    (text,) = re.findall(r'<script type="application/json">(.*?)</script>', html, flags=re.S)
    return SliderFigure(html, json.loads(text))


@pytest.fixture(scope="module")
def extension() -> Any:
    """Import an extension of the site by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS))
        yield lambda name: import_module(f"_ext.{name}")


@pytest.fixture(scope="module")
def angles(extension: Any) -> SliderFigure:
    module = extension("angles")
    return read(module.figure(module.Settings(N, R, ALPHA, SIGMA)))


@pytest.fixture(scope="module")
def coefficients(extension: Any) -> SliderFigure:
    module = extension("coefficients")
    return read(module.figure(module.Settings([-2, 0, 2], [0, 2, 4])))


@pytest.mark.parametrize("indices", [(0, 0, 0), (1, 1, 0), (0, 1, 1)], ids=str)
def test_angles_equal_the_library(angles: SliderFigure, indices: tuple[int, int, int]) -> None:
    chosen = dict(zip(("n", "alpha", "sigma"), indices, strict=True))
    for scheme in ("vanilla", "mixup", "genlabel"):
        exact = [
            example3_angle(scheme, r, N[indices[0]], alpha=ALPHA[indices[1]], sigma=SIGMA[indices[2]]) / math.pi
            for r in R
        ]
        np.testing.assert_allclose(angles.curve(scheme, chosen, 1), exact, atol=0.51 * UNIT)


def test_coefficients_equal_the_library(extension: Any, coefficients: SliderFigure) -> None:
    step, c, sigma_1 = extension("coefficients").STEP, [0.5, 1.0, 2.0], [1.0, 2.0, 4.0]
    for i, j in ((0, 0), (0, 2), (1, 1), (2, 0)):
        for name, exact, limit in zip(
            "AB", taylor_coefficients(c[i], 0.0, 2, sigma_1[j]), limit_coefficients(c[i]), strict=True
        ):
            values = (
                coefficients.curve(name, {"sigma_1": j})[step * i],
                coefficients.curve(name, {"c": i}, 1)[step * j],
            )
            assert values == pytest.approx((exact, exact), abs=0.51 * UNIT)
            assert coefficients.curve(f"limit {name}", {"c": i}, 1) == pytest.approx([limit] * 2, abs=0.51 * UNIT)


def test_sliders_have_the_settings_of_the_text(extension: Any) -> None:
    module = extension("angles")
    assert all(module.START[name] in values for name, values in module.SETTINGS._asdict().items())
    assert {0, 2} <= set(extension("coefficients").SETTINGS.c)


def test_figure_has_a_caption_without_script(angles: SliderFigure, read_html: Callable[[str], Any]) -> None:
    assert [tag for tag, _ in read_html(angles.html).tags] == ["figure", "figcaption", "noscript", "script"]


def test_figures_of_the_page_exist(extension: Any) -> None:
    names = re.findall(r"^```\{sliders\} (\w+)\n```$", (DOCS / "theory.md").read_text(), flags=re.M)
    assert names == ["angles", "coefficients"]
    assert all(callable(extension(name).figure) for name in names)


@pytest.mark.parametrize("name", ["angles", "coefficients", "sliders"])
def test_doctests_of_the_figures_pass(extension: Any, name: str) -> None:
    result = doctest.testmod(extension(name))
    assert result.attempted > 0
    assert result.failed == 0


@pytest.fixture(scope="module")
def page(angles: SliderFigure, coefficients: SliderFigure, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a page with the two figures; return its path."""
    style = (STATIC / "sliders.css").read_text()
    body = f"{angles.html}{coefficients.html}"
    script = f"<script>{(STATIC / 'sliders.js').read_text()}</script>"
    path = tmp_path_factory.mktemp("page") / "page.html"
    head = f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Sliders</title><style>{style}</style>'
    path.write_text(head + body + script, encoding="utf-8")
    return path


def caption(browser: Any, name: str) -> str:
    return str(browser.run(f"return document.querySelector('#sliders-{name} > p').textContent"))


def attribute(browser: Any, selector: str, name: str) -> str:
    return str(browser.run("return document.querySelector(arguments[0]).getAttribute(arguments[1])", selector, name))


def move(browser: Any, slider: str, *keys: str) -> None:
    browser.run("document.getElementById(arguments[0]).focus()", slider)
    for key in keys:
        browser.press(key)


def test_sliders_select_the_curves_in_a_browser(browser: Any, page: Path, angles: SliderFigure) -> None:
    browser.open(page)
    assert caption(browser, "angles").startswith(
        "At n = 30, r = 25, \u03b1 = 1, \u03c3 = 0.1: the angle of vanilla 0.2207 "
    )
    move(browser, "angles-n", LEFT)
    move(browser, "angles-r", END)
    move(browser, "angles-alpha", RIGHT)
    move(browser, "angles-sigma", RIGHT)
    chosen = {"n": 0, "alpha": 1, "sigma": 1}
    values = {name: angles.curve(name, chosen, 1) for name in ("vanilla", "mixup", "genlabel")}
    text = caption(browser, "angles")
    assert text.startswith("At n = 3, r = 100, \u03b1 = 2, \u03c3 = 0.4: ")
    exact = [example3_angle(name, 100.0, 3, alpha=2.0, sigma=0.4) / math.pi for name in values]
    assert [float(value) for value in re.findall(r"(0\.\d{4}) \u03c0", text)] == pytest.approx(exact, abs=0.51 * UNIT)
    margins = sorted((min(math.cos(math.pi * value), math.sin(math.pi * value)) for value in exact), reverse=True)
    printed_margins = [float(value) for value in re.findall(r"0\.\d{3}(?= [>\u2248]|, the)", text)]
    assert printed_margins == pytest.approx(margins, abs=2e-3)
    for name, curve in values.items():
        heights = angles.heights(name, chosen, 1)
        path = attribute(browser, f"[data-curve={name}]", "d")
        drawn = [float(point.split()[1]) for point in path.removeprefix("M").split("L")]
        np.testing.assert_allclose(drawn, heights, atol=0.06)
        dot = browser.run("return document.querySelector(arguments[0]).getAttribute('cy')", f"[data-dot={name}]")
        assert float(dot) == pytest.approx(heights[2], abs=0.06)
        line = browser.run(
            "return document.querySelector(arguments[0]).getAttribute('transform')", f"[data-turns={name}]"
        )
        assert float(line.removeprefix("rotate(").split()[0]) == pytest.approx(90 - 180 * curve[2], abs=0.01)
    assert browser.complaints() == []


def test_coefficients_follow_the_sliders_on_a_narrow_screen(browser: Any, page: Path) -> None:
    browser.open(page, width=400, dark=True)
    move(browser, "coefficients-c", HOME)
    move(browser, "coefficients-sigma_1", RIGHT)
    A, B = taylor_coefficients(0.5, 0.0, 2, 4.0)
    limits = limit_coefficients(0.5)
    expected = f"At c = 0.5, \u03c3\u2081 = 4: A = {A:.4f} and B = {B:.4f}. Below mixup's 1/3 and 1/6."
    assert caption(browser, "coefficients").startswith(expected)
    assert caption(browser, "coefficients").endswith(f"A = {limits[0]:.4f} and B = {limits[1]:.4f}.")
    move(browser, "coefficients-sigma_1", HOME)
    assert "Not below mixup's" in caption(browser, "coefficients")
    values = browser.run(
        "return [...document.querySelectorAll('input')].map((one) => one.getAttribute('aria-valuetext'))"
    )
    assert values == ["30", "25", "1", "0.1", "0.5", "1"]
    assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
    assert browser.complaints() == []
    assert all(address.startswith("file:") for address in browser.requests())
