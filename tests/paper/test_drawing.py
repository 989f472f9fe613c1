"""Inline SVG figures: small, complete, in the colors of the theme, with unique ids."""

import re
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from matplotlib.figure import Figure

from genlabel.reporting.svg import inline_svg
from genlabel_paper.report.page import block
from genlabel_paper.report.results import CaptionedFigure


def make_figure() -> Figure:
    """Return a figure with lines, markers, text, a legend, an image and a scatter."""
    figure = Figure(figsize=(4.0, 3.0))
    ax = figure.subplots()
    ax.plot([0, 1], [0, 1], color="black", label="black <line>")
    ax.plot([0, 1], [1, 0], "o-", color="#0072b2", markeredgecolor="white", label="$\\theta$")
    ax.axvspan(0.2, 0.4, color="#eeeeee")
    ax.fill_between([0.5, 0.6], 0.0, 1.0, color="black", alpha=0.3)
    ax.imshow(np.arange(4.0).reshape(2, 2), extent=(0, 1, 0, 1), alpha=0.4)
    ax.scatter(np.linspace(0, 1, 50), np.linspace(0, 1, 50) ** 2, rasterized=True)
    ax.set(xlim=(0, 1), ylim=(0, 0.8), ylabel="up & down", title="words")
    ax.text(0.5, 0.5, "white", color="white")
    ax.legend()
    return figure


@pytest.fixture(scope="module")
def svg() -> str:
    return inline_svg(make_figure(), "first", 'what "it" <says>')


def parts(text: str) -> list[ET.Element]:
    return list(ET.fromstring(text).iter())


def test_it_says_what_it_shows_and_keeps_all_words(svg: str) -> None:
    root, title, *rest = parts(svg)
    assert (root.tag, root.get("role"), title.tag, title.text) == ("svg", "img", "title", 'what "it" <says>')
    words = ["".join(part.itertext()) for part in rest if part.tag == "text"]
    assert {"black <line>", "up & down", "words", "white"} <= set(words)
    assert any("θ" in word for word in words)
    assert not {part.tag for part in rest} & {"style", "metadata"}


def test_black_and_white_follow_the_theme(svg: str) -> None:
    drawn = [part for part in parts(svg) if part.tag not in ("text", "tspan")]
    styles = " ".join(part.get("style", "") for part in drawn)
    assert not re.search("#(000000|ffffff|eeeeee|cccccc|dddddd)", styles)
    assert {f"var(--{name})" for name in ("text", "card", "line")} <= set(re.findall(r"var\([^)]*\)", styles))
    assert "#0072b2" in styles
    assert "fill: var(--text)" in str(drawn[0].get("style"))  # elements without a color
    white = next(part for part in parts(svg) if part.text == "white")
    assert "#ffffff" in str(white.get("style"))  # on an element that is dark in any theme


def test_ids_are_unique_and_targets_exist(svg: str) -> None:
    other = inline_svg(make_figure(), "second", "the same")
    ids = [[part.attrib["id"] for part in parts(text) if "id" in part.attrib] for text in (svg, other)]
    assert ids[0]
    assert len(set(ids[0])) == len(ids[0]) == len(ids[1])
    assert not set(ids[0]) & set(ids[1])
    targets = re.findall(r'(?:url\(|href=")#([^)"]+)', svg)
    assert set(targets) == set(ids[0])


def test_same_figure_gives_the_same_svg(svg: str) -> None:
    assert inline_svg(make_figure(), "first", 'what "it" <says>') == svg
    shown = block("figure", CaptionedFigure("Caption & more.", make_figure(), 'what "it" <says>'), "first")
    assert svg in shown
    assert "<figcaption>Caption &amp; more.</figcaption>" in shown
