"""What the pictures of the examples and theorems share: colours of the schemes and classes, and plain axes."""

from __future__ import annotations

from matplotlib.axes import Axes

from genlabel.reporting.figures import OKABE_ITO

COLORS = {
    "vanilla": OKABE_ITO[6],
    "mixup": OKABE_ITO[1],
    "mixup-without-mi": OKABE_ITO[2],
    "genlabel": OKABE_ITO[0],
    "svm": "#888888",
    "adversarial": OKABE_ITO[2],
}
"""Of the schemes and losses, in figures 2, 4, 7 and 8."""
CLASSES = ((OKABE_ITO[3], "o"), (OKABE_ITO[4], "^"), (OKABE_ITO[5], "s"))
"""Colour and marker of each class there."""


def finish(ax: Axes) -> None:
    """Take away the frame, and draw a pale grid below everything."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(color="#dddddd", linewidth=0.8)
    ax.set_axisbelow(True)
