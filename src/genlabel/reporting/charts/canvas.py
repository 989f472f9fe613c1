"""The canvas of a chart: an SVG that says what it shows, axes with round numbers, words that fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import final

from genlabel.reporting.markup import Markup, element, join, shorten

LETTER = 7.0
"""About the width of a letter, in the units of a chart."""
COLORS = 8
"""Of the palette, as the style has them."""


def canvas(title: str, desc: str, width: float, height: float, *inside: str, wide: bool = False) -> Markup:
    """Return a drawing with its title and a description for those who do not see it.

    Parameters
    ----------
    title, desc : str
    width, height : float
        In its own units; a letter is 12 high.
    inside : str
        What is drawn.
    wide : bool
        Whether it keeps a width on narrow screens, and scrolls.

    Examples
    --------
    >>> canvas("Nothing", "An empty drawing.", 40, 20)[:34]
    '<svg viewBox="0 0 40 20" role="img'
    """
    return element(
        "svg",
        element("title", title),
        element("desc", desc),
        *inside,
        viewBox=f"0 0 {num(width)} {num(height)}",
        role="img",
        class_="wide" if wide else None,
        style=f"max-width:{num(1.15 * width)}px",
    )


def num(value: float) -> str:
    """Return a coordinate to a tenth.

    >>> num(12.04), num(-0.01), num(3)
    ('12', '0', '3')
    """
    text = f"{value:.1f}"
    text = text[:-2] if text.endswith(".0") else text
    return "0" if text == "-0" else text


def color(place: int, kind: str = "f") -> str:
    """Return the class of the colour of the place in a list: "f" fills, "s" strokes; from the ninth on they recur.

    >>> color(0), color(8, "s")
    ('f1', 's1')
    """
    return f"{kind}{place % COLORS + 1}"


def label(x: float, y: float, text: str, kind: str = "", longest: int = 60, **attributes: str | None) -> Markup:
    """Return words at a place; of more letters the beginning is shown, and all when the pointer rests there.

    >>> label(1, 2, "abcdef", "end", longest=4)
    '<text x="1" y="2" class="end">ab…f<title>abcdef</title></text>'
    """
    short = shorten(text, longest)
    more = [element("title", text)] if short != " ".join(text.split()) else []
    return element("text", short, *more, x=num(x), y=num(y), class_=kind or None, **attributes)


def segment(x1: float, y1: float, x2: float, y2: float, kind: str = "grid") -> Markup:
    """Return a straight line.

    >>> segment(0, 1, 2, 3)
    '<path d="M0 1L2 3" class="grid"></path>'
    """
    return element("path", d=f"M{num(x1)} {num(y1)}L{num(x2)} {num(y2)}", class_=kind)


def dot(x: float, y: float, radius: float, said: str, kind: str) -> Markup:
    """Return a disc that says its value.

    >>> dot(1, 2, 3, "0.5", "f1")
    '<circle cx="1" cy="2" r="3" class="f1"><title>0.5</title></circle>'
    """
    return element("circle", element("title", said), cx=num(x), cy=num(y), r=num(radius), class_=kind)


def marks(places: Sequence[tuple[float, float]], kind: str, size: float = 5.0, square: bool = False) -> Markup:
    """Return many discs or squares of one kind as a single path.

    >>> marks([(1, 2), (3, 4)], "s1")
    '<path d="M1 2h0M3 4h0" class="s1" stroke-width="5" stroke-linecap="round" fill="none"></path>'
    """
    path = "".join(f"M{num(x)} {num(y)}h0" for x, y in places)
    cap = "square" if square else "round"
    width = num(size * (0.8 if square else 1.0))
    return element("path", d=path, class_=kind, stroke_width=width, stroke_linecap=cap, fill="none")


def legend(entries: Sequence[tuple[str, str]], x: float, y: float, width: float) -> tuple[Markup, float]:
    """Return a legend in lines as wide as that, and the height that it takes; an entry has a name and a class.

    A class of strokes ("s1 dashed") is drawn as a line, one of fills as a disc.

    >>> legend([("mixup", "f1")], 0, 10, 100)[1]
    16.0
    """
    parts, left, line = [], x, y
    for name, kind in entries:
        text = shorten(name, 26)
        size = 20 + LETTER * len(text) + 12
        if left > x and left + size > x + width:
            left, line = x, line + 16
        sample = segment(left, line - 4, left + 14, line - 4, f"line {kind}")
        parts.append(
            sample
            if kind.startswith("s")
            else element("circle", cx=num(left + 7), cy=num(line - 4), r="5", class_=kind)
        )
        parts.append(label(left + 19, line, name, "small", 26))
        left += size
    return join(*parts), line - y + 16.0


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round numbers between two bounds, about so many.

    >>> ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    >>> ticks(0.13, 0.47, 4)
    [0.2, 0.3, 0.4]
    """
    span = high - low
    if not span > 0:
        return [low]
    power = 10.0 ** floor(log10(span / about))
    step = min((power * one for one in (1, 2, 5, 10)), key=lambda one: abs(span / one - about))
    first = ceil(low / step - 1e-9)
    return [round(step * place, 12) for place in range(first, floor(high / step + 1e-9) + 1)]


def shown_number(value: float) -> str:
    """Return a number of an axis in few letters.

    >>> shown_number(0.30000000000000004), shown_number(-2.0), shown_number(-1250000.0)
    ('0.3', '−2', '−1.25e+06')
    """
    sign = "\N{MINUS SIGN}" if value < 0 else ""
    return sign + (f"{abs(value):.6g}" if abs(value) < 1e6 else f"{abs(value):.3g}")


@final
@dataclass(frozen=True)
class Axes:
    """A rectangle of a chart with what lies along its sides."""

    left: float
    top: float
    width: float
    height: float
    x: tuple[float, float]
    """The numbers at its left and its right."""
    y: tuple[float, float] = (0.0, 1.0)
    """At its bottom and its top."""

    def across(self, value: float) -> float:
        """Where a number lies from left to right.

        >>> Axes(10, 0, 100, 50, (0, 2)).across(1)
        60.0
        """
        low, high = self.x
        return self.left + self.width * (value - low) / ((high - low) or 1.0)

    def up(self, value: float) -> float:
        """Where a number lies from bottom to top; the canvas counts from its top.

        >>> Axes(10, 0, 100, 50, (0, 2)).up(1.0)
        0.0
        """
        low, high = self.y
        return self.top + self.height * (1.0 - (value - low) / ((high - low) or 1.0))

    def below(self, words: str, about: int = 5) -> Markup:
        """Lines and numbers of the x axis, and what it is."""
        base, parts = self.top + self.height, []
        for value in ticks(*self.x, about):
            parts.append(segment(self.across(value), self.top, self.across(value), base))
            parts.append(label(self.across(value), base + 14, shown_number(value), "small dim mid"))
        parts.append(label(self.left + self.width / 2, base + 31, words, "mid", int(self.width / LETTER) + 12))
        return join(*parts)

    def beside(self, words: str, about: int = 5) -> Markup:
        """Lines and numbers of the y axis, and what it is."""
        parts = []
        for value in ticks(*self.y, about):
            parts.append(segment(self.left, self.up(value), self.left + self.width, self.up(value)))
            parts.append(label(self.left - 5, self.up(value) + 4, shown_number(value), "small dim end"))
        x, y = self.left - 36, self.top + self.height / 2
        turned = {"transform": f"rotate(-90 {num(x)} {num(y)})"}
        parts.append(label(x, y, words, "mid", int(self.height / LETTER) + 6, **turned))
        return join(*parts)
