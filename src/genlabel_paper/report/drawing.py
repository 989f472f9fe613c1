"""Pictures within the page: matplotlib's SVG made small, in the colours of the theme, with ids of its own."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from io import BytesIO
from itertools import count
from xml.etree import ElementTree as ET  # reads what matplotlib wrote  # nosec B405

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.path import Path
from PIL import Image

from genlabel.reporting import Markup, figure
from genlabel_paper.report.pieces import Picture

PIXELS = 120
"""Of an inch, in what is drawn point by point; letters and lines have none."""
COLORS = 96
"""Of an image, at the most."""
SCREEN = 96
"""Pixels of an inch on a screen, in CSS."""
PNG = "data:image/png;base64,"
FAMILY = re.compile(r"font-family: [^;]*(; |$)")
"""Of letters; it stands in the style of the page, once."""
COLOR = re.compile(r"(fill|stroke): (#[0-9a-f]{6})")
DIGITS = {"d": 1, "x": 1, "y": 1, "width": 1, "height": 1, "transform": 4}
"""Decimals of what is drawn, whose unit is a 72nd of an inch."""
FINEST = 0.2
"""How far a line may go astray, in that unit."""
SUBPATH = re.compile("M[^M]*")
UNTURNED = re.compile(r"rotate\(-?0 [^)]*\)")
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
TARGET = re.compile(r"#([\w.-]+)")
DROPPED = {"metadata", "style"}
"""What matplotlib writes and a page does without; its style would be that of the whole page."""


def picture(shown: Picture, name: str) -> Markup:
    """Return a figure that opens larger, with its caption; the same picture gives the same text.

    Parameters
    ----------
    shown : Picture
    name : str
        With which its ids begin, unlike those of any other picture of the page.

    Examples
    --------
    >>> picture(Picture("Nothing.", Figure()), "a")[:45]
    '<figure><div class="drawn"><svg viewBox="0 0 '
    """
    return figure(inline_svg(shown.figure, name, shown.alt or shown.caption), shown.caption)


def inline_svg(drawn: Figure, name: str, title: str) -> Markup:
    """Return a figure as an `svg` element: black and white are the theme's text and ground, pale greys its lines.

    Parameters
    ----------
    drawn : Figure
    name : str
        With which its ids begin.
    title : str
        What it says, for readers who do not see it.

    Examples
    --------
    >>> "<title>a &lt; b</title>" in inline_svg(Figure(), "a", "a < b")
    True
    """
    root = ET.fromstring(_write(drawn))  # matplotlib's, of this moment  # nosec B314
    _strip(root)
    _rename(root, name)
    for part in root.iter():
        _restyle(part)
    width, height = (inches * SCREEN for inches in drawn.get_size_inches())
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "class": "matplotlib"}
    root.attrib["style"] = f"fill: var(--text); max-width: {width:.0f}px; aspect-ratio: {width:.0f} / {height:.0f}"
    words = ET.Element("title")
    words.text = title
    root.insert(0, words)
    return Markup(ET.tostring(root, encoding="unicode"))


def _write(drawn: Figure) -> bytes:
    """A figure without a ground as SVG, with letters as letters."""
    file = BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "genlabel", "svg.fonttype": "none"}):
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        drawn.savefig(file, format="svg", metadata=nothing, transparent=True, dpi=PIXELS)
    return file.getvalue()


def _strip(root: ET.Element) -> None:
    """Take away namespaces, blanks, and what a page does without."""
    for part in root.iter():
        part.tag = _local(part.tag)
        part.attrib = {_local(key): value for key, value in part.attrib.items()}
        part.text, part.tail = ((words or "").strip() or None for words in (part.text, part.tail))
    for part in list(root.iter()):
        for inside in [inside for inside in part if inside.tag in DROPPED]:
            part.remove(inside)


def _local(name: str) -> str:
    return name.rpartition("}")[2]


def _rename(root: ET.Element, name: str) -> None:
    """Give new names to the parts that others refer to; others need none."""
    places = ("href", "clip-path", "style")
    targets = [found for part in root.iter() for key in places for found in _targets(part.get(key, ""))]
    numbers = count(1)
    new = {old: f"{name}-{next(numbers)}" for old in dict.fromkeys(targets)}
    for part in root.iter():
        old = part.attrib.pop("id", "")
        if old in new:
            part.set("id", new[old])
        for key in places:
            words = part.get(key, "")
            if _targets(words):
                part.set(key, TARGET.sub(lambda found: f"#{new[found[1]]}", words))


def _targets(words: str) -> list[str]:
    """The ids that an attribute refers to."""
    return TARGET.findall(words) if words.startswith("#") or "url(#" in words else []


def _restyle(part: ET.Element) -> None:
    """Round numbers, shrink images, and let black, white and pale grey be those of the theme."""
    if "d" in part.attrib:
        thin = "fill: none" in part.get("style", "")
        part.set("d", "".join(_thin(one) if thin else one for one in SUBPATH.findall(part.attrib["d"])))
    for key, digits in DIGITS.items():
        if key in part.attrib:
            part.set(key, _round(part.attrib[key], digits))
    if part.get("href", "").startswith(PNG):
        part.set("href", _shrink(part.attrib["href"]))
    if "d" in part.attrib:
        part.set("d", re.sub(r"\s*([A-Za-z])\s*", r"\1", part.attrib["d"]))
    if "style" in part.attrib:
        words = part.attrib["style"]
        part.set("style", FAMILY.sub("", words) if part.tag in ("text", "tspan") else COLOR.sub(_themed, words))
    if UNTURNED.fullmatch(part.get("transform", "")):
        del part.attrib["transform"]


def _thin(line: str) -> str:
    """A line of straight pieces without the points that nobody would miss; other lines as they are."""
    if set(re.findall("[A-Za-z]", line)) - set("MLz"):
        return line
    path = Path(np.array(re.findall(r"[-\d.]+", line), dtype=float).reshape(-1, 2))
    path.simplify_threshold = FINEST
    thin = path.cleaned(simplify=True)
    points = np.asarray(thin.vertices)[np.asarray(thin.codes) != Path.STOP]
    return "M" + "L".join(f"{x:.3f} {y:.3f}" for x, y in points) + "z" * line.rstrip().endswith("z")


def _round(words: str, digits: int) -> str:
    """The words with every number in them rounded, without zeros at its end."""

    def short(found: re.Match[str]) -> str:
        return f"{round(float(found[0]), digits) + 0.0:.{digits}f}".rstrip("0").rstrip(".")

    return NUMBER.sub(short, words)


def _themed(found: re.Match[str]) -> str:
    """The colour of the theme for black, white and greys that are nearly so; others stay."""
    red, green, blue = (int(found[2][at : at + 2], 16) for at in (1, 3, 5))
    if max(red, green, blue) - min(red, green, blue) > 8 or 0x60 < green < 0xC0:
        return found[0]
    return f"{found[1]}: var(--{'text' if green <= 0x60 else 'line' if green < 0xFF else 'card'})"


def _shrink(source: str) -> str:
    """An image with a palette, if that is smaller."""
    with Image.open(BytesIO(b64decode(source.removeprefix(PNG)))) as image:
        file = BytesIO()
        image.convert("RGBA").quantize(COLORS, Image.Quantize.FASTOCTREE).save(file, "png", optimize=True)
    small = PNG + b64encode(file.getvalue()).decode()
    return min(source, small, key=len)
