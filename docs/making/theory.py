"""The page on the theory: as it is in the repository, and figures with sliders where it has room for them."""

from __future__ import annotations

import re
from collections.abc import Callable

from genlabel.reporting.markup import Markup
from making.angles import angle_figure
from making.coefficients import coefficient_figure
from making.stage import ROOT, Stage, relink

__all__ = ["FIGURES", "fill", "write_theory"]

FIGURES: dict[str, Callable[[], Markup]] = {"angles": angle_figure, "coefficients": coefficient_figure}
"""By their names in the page, where a comment that nobody sees keeps their places."""


def write_theory(stage: Stage) -> None:
    """Write the page."""
    text = relink((ROOT / "docs" / "theory.md").read_text(encoding="utf-8"), "docs/theory.md")
    tight = re.sub(r"\n\n```$", "\n```", text, flags=re.M)  # an empty line ends what doctest expects, in the plain file
    stage.write("theory.md", fill(tight, FIGURES))


def fill(text: str, figures: dict[str, Callable[[], Markup]]) -> str:
    """Return a page with its figures in place.

    >>> print(fill("<!-- sliders: a -->", {"a": lambda: Markup("<figure></figure>")}))
    ```{raw} html
    <div class="records"><figure></figure></div>
    ```
    """
    for name, draw in figures.items():
        place = f"<!-- sliders: {name} -->"
        if text.count(place) != 1:
            raise ValueError(f"the page has {text.count(place)} places for the figure {name!r}; write {place} once")
        text = text.replace(place, f'```{{raw}} html\n<div class="records">{draw()}</div>\n```')
    return text
