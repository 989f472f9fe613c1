"""Matplotlib figures within a page: small SVG in the colors of the theme, with unique ids and tips of the marks."""

from __future__ import annotations

import json
import re
import warnings
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from functools import partial
from io import BytesIO
from xml.etree import ElementTree as ET  # reads what matplotlib wrote  # nosec B405

import matplotlib
from markupsafe import Markup
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from PIL import Image

from genlabel.reporting.html import clean_text

RASTER_DPI, MAX_IMAGE_COLORS = 120, 96
"""Resolution and maximum of colors of the rasterized parts."""
CSS_PIXELS = 96
"""Pixels of an inch in CSS."""
MIN_ZOOM = 0.75
"""Share of its size to which a figure shrinks on a narrow screen, where it may grow on a wide one."""
DECIMALS = {"d": 1, "x": 1, "y": 1, "width": 1, "height": 1, "transform": 4}
"""Decimals of the numbers in an attribute."""
PNG = "data:image/png;base64,"
TIP, DECORATION = "tip:", "decoration"
"""Prefix of the id (`gid`) of an artist with tips, and id of an artist that the pointer ignores."""
REFERENCES = ("href", "clip-path", "style")
"""Attributes that may refer to an id."""
COLOR = re.compile(r"(fill|stroke): (#[0-9a-f]{6})")
FONT_FAMILY = re.compile(r"font-family: [^;]*(; |$)")
"""Fonts in a style attribute; the CSS of the page sets them once."""
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
ID = re.compile(r"#([\w.-]+)")


def set_tips(artist: Artist, texts: Sequence[str]) -> None:
    """Give each part of an artist (points of a collection, or one bar) a tip, which a page shows under the pointer."""
    artist.set_gid(TIP + json.dumps([clean_text(text) for text in texts]))


def inline_svg(
    figure: Figure,
    name: str,
    title: str,
    description: str = "",
    theme_colors: Mapping[str, str] | None = None,
    zoom: float = 1.0,
) -> Markup:
    """Return a figure as an `svg` element; black, white and pale grays become the theme's text, background and lines.

    Its ids start with `name`, which must be unique in the page. The title (a name, or a sentence that says what it
    shows) and the longer description are for screen readers. `theme_colors` are CSS variables by color, such as
    {"#0072b2": "c1"}; other colors are the same in both themes. The figure grows to `zoom` times its size, and
    shrinks to `MIN_ZOOM` times, below which its box scrolls.

    >>> "<title>a &lt; b</title>" in inline_svg(Figure(), "a", "a < b")
    True
    """
    file = BytesIO()
    rc = matplotlib.rc_context({"svg.hashsalt": "genlabel", "svg.fonttype": "none"})
    with rc, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # a browser has other fonts
        no_metadata = {"Date": None, "Creator": None, "Format": None, "Type": None}
        figure.savefig(file, format="svg", metadata=no_metadata, transparent=True, dpi=RASTER_DPI)
    root = ET.fromstring(file.getvalue())  # matplotlib's, of this moment  # nosec B314
    for part in root.iter():
        part.tag = part.tag.rpartition("}")[2]  # without its namespace
        part.attrib = {key.rpartition("}")[2]: value for key, value in part.attrib.items()}
        part.text, part.tail = ((words or "").strip() or None for words in (part.text, part.tail))
    for part in list(root.iter()):
        for child in list(part):
            if child.tag in ("metadata", "style"):  # matplotlib's style would be that of the whole page
                part.remove(child)
    _add_tips(root)
    _rename_ids(root, name)
    for part in root.iter():
        _compress(part)
        if part.tag in ("text", "tspan") and "style" in part.attrib:
            part.set("style", FONT_FAMILY.sub("", part.attrib["style"]))
        elif "style" in part.attrib:
            part.set("style", COLOR.sub(lambda match: _theme_color(match, theme_colors or {}), part.attrib["style"]))
    width, height = (inches * CSS_PIXELS for inches in figure.get_size_inches())
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "class": "matplotlib"}
    root.attrib["style"] = (
        f"fill: var(--text); max-width: {zoom * width:.0f}px; aspect-ratio: {width:.0f} / {height:.0f}"
    )
    if zoom > 1.0:
        root.attrib["style"] += f"; min-width: {MIN_ZOOM * width:.0f}px"
    for position, (tag, text) in enumerate({"title": title, "desc": description}.items()):
        if text:
            element = ET.Element(tag)
            element.text = clean_text(text)
            root.insert(position, element)
    return Markup(ET.tostring(root, encoding="unicode"))


def _add_tips(root: ET.Element) -> None:
    """Turn the texts of `set_tips` into a `title` of each mark."""
    for group in list(root.iter("g")):
        if group.get("id") == DECORATION:
            group.set("pointer-events", "none")
        if group.get("id", "").startswith(TIP):
            defined = {part for defs in group.iter("defs") for part in defs.iter()}
            marks = [part for part in group.iter() if part.tag in ("use", "path") and part not in defined]
            for mark, text in zip(marks, json.loads(group.attrib["id"].removeprefix(TIP)), strict=True):
                ET.SubElement(mark, "title").text = text


def _rename_ids(root: ET.Element, name: str) -> None:
    """Give new ids to the elements that others refer to, and remove all other ids."""
    values = [(part, key, part.get(key, "")) for part in root.iter() for key in REFERENCES]
    references = [value for value in values if value[2].startswith("#") or "url(#" in value[2]]
    targets = dict.fromkeys(target for *_, text in references for target in ID.findall(text))
    new = {old: f"{name}-{number}" for number, old in enumerate(targets, 1)}
    for part, key, text in references:
        part.set(key, ID.sub(lambda match: f"#{new[match[1]]}", text))
    for part in root.iter():
        old = part.attrib.pop("id", "")
        if old in new:
            part.set("id", new[old])


def _compress(part: ET.Element) -> None:
    """Round numbers, shrink images, drop rotations by zero."""
    for key, digits in DECIMALS.items():
        if key in part.attrib:
            part.set(key, NUMBER.sub(partial(_round, digits=digits), part.attrib[key]))
    if "d" in part.attrib:
        part.set("d", re.sub(r"\s*([A-Za-z])\s*", r"\1", part.attrib["d"]))
    if part.get("href", "").startswith(PNG):
        file = BytesIO()
        with Image.open(BytesIO(b64decode(part.attrib["href"].removeprefix(PNG)))) as image:
            image.convert("RGBA").quantize(MAX_IMAGE_COLORS, Image.Quantize.FASTOCTREE).save(file, "png", optimize=True)
        with_palette = PNG + b64encode(file.getvalue()).decode()
        part.set("href", min(part.attrib["href"], with_palette, key=len))
    if re.fullmatch(r"rotate\(-?0 [^)]*\)", part.get("transform", "")):
        del part.attrib["transform"]


def _round(match: re.Match[str], digits: int) -> str:
    return f"{round(float(match[0]), digits) + 0.0:.{digits}f}".rstrip("0").rstrip(".")


def _theme_color(match: re.Match[str], theme_colors: Mapping[str, str]) -> str:
    """Return a CSS variable for a color of the theme and for black, white and near grays; other colors stay."""
    if match[2] in theme_colors:
        return f"{match[1]}: var(--{theme_colors[match[2]]})"
    red, green, blue = (int(match[2][at : at + 2], 16) for at in (1, 3, 5))
    if max(red, green, blue) - min(red, green, blue) > 8 or 0x60 < green < 0xC0:
        return match[0]
    return f"{match[1]}: var(--{'text' if green <= 0x60 else 'line' if green < 0xFF else 'card'})"
