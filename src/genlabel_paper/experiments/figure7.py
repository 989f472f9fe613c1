"""Figure 7: optimal angles of vanilla training, mixup and GenLabel on an imbalanced dataset, against the norm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.interpolate import PchipInterpolator
from scipy.optimize import brentq

from genlabel.reporting.charts import DPI
from genlabel_paper.paired import EXACT
from genlabel_paper.report.experiment import Experiment, no_cells
from genlabel_paper.report.figures import CLASS_STYLES, COLORS, style_axes
from genlabel_paper.report.results import CaptionedFigure, Claim, Grid, Printed, Rendering, agreement, computed
from genlabel_paper.theory import example3_angle, example3_limit, example3_order, example3_parameters, make_example3
from genlabel_paper.theory.example3 import PRINTED

NORM, COPIES, ALPHA, SIGMA, BETWEEN = 25.0, 30, 1.0, 0.1, 1.7
"""Parameters: the norm is printed; n, alpha and sigma are ours; BETWEEN is an alpha that gives 0.30 pi."""
SVM, HALF = 0.25, 0.005
"""Angle of the SVM, and half a unit of the last printed digit, in units of pi."""
NEAR = 0.01
"""Fraction of the SVM's margin that a scheme may lose to count as equal, as in figure 4."""
TITLES = {"vanilla": "vanilla", "mixup": "mixup", "genlabel": "GenLabel"}
PAPER = {(name, "angle"): Printed(PRINTED[name], min_difference=HALF) for name in TITLES}
ANGLE = "angle $\\phi$* (units of $\\pi$)"
NORMS: list[float] = np.geomspace(1.0, 1000.0, 46).tolist()
FREE = {"vanilla": "n", "mixup": "alpha", "genlabel": "sigma"}
"""Parameter of each scheme that is not printed, with our value, description and plotted values below."""
OURS = {"n": COPIES, "alpha": ALPHA, "sigma": SIGMA}
NAMES = {scheme: f"{title}, {FREE[scheme]} = {OURS[FREE[scheme]]:g}" for scheme, title in TITLES.items()}
ABOUT = {"n": "copies of the negative point", "alpha": "of Beta($\\alpha, \\alpha$)", "sigma": "width of the densities"}
VALUES = {
    "n": (1, 2, 3, 5, 10, 20, 30, 60, 100),
    "alpha": (0.2, 0.3, 0.5, 0.7, 1.0, BETWEEN, 2.0, 3.0, 5.0),
    "sigma": (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4),
}


def render(records: pd.DataFrame) -> Rendering:
    """Compute the angles of Example 3; no records are needed.

    >>> [claim.holds for claim in render(pd.DataFrame()).claims]
    [True, True, True, True, True, True, True, True]
    """
    notes = [
        f"The paper prints neither n nor alpha nor sigma. Here n = {COPIES}, alpha = {ALPHA:g} and sigma = {SIGMA:g} "
        "where nothing else is said. Printed angles agree if they are ours to two decimals.",
        "GenLabel's labels are those of the proof, for points at distance 1; other readings: docs/theory.md.",
        "The order of the margins depends on the norm: at small norms mixup has not turned far enough to lose, and at "
        "large ones vanilla training is nearer to pi/4 than GenLabel, which ends beyond it. Errata: docs/theory.md.",
    ]
    return Rendering([_grid()], [*map(_angle_claim, TITLES), *_margin_claims(), *_limit_claims()], [_figure()], notes)


@cache
def _angle(scheme: str, r: float = NORM, alpha: float = ALPHA, sigma: float = SIGMA, n: int = COPIES) -> float:
    """Return the angle in units of pi."""
    return example3_angle(scheme, r, n, alpha=alpha, sigma=sigma) / math.pi


@cache
def _limit(scheme: str, alpha: float = ALPHA, sigma: float = SIGMA) -> float:
    return example3_limit(scheme, alpha=alpha, sigma=sigma) / math.pi


_ranges = cache(partial(example3_parameters, NORM, COPIES))
_order = cache(partial(example3_order, COPIES, r=NORM, alpha=ALPHA, sigma=SIGMA))


@cache
def _norm_of(scheme: str, angle: float) -> float:
    """Return the norm at which a scheme passes an angle."""
    return float(brentq(lambda r: _angle(scheme, r) - angle, NORMS[0], NORMS[-1], xtol=1e-6))


def _margin(angle: float) -> float:
    return min(math.cos(math.pi * angle), math.sin(math.pi * angle))


def _grid() -> Grid:
    """Return the angle at the printed norm, its limit, and the margin."""
    cases = [("vanilla", ALPHA), ("mixup", 1.0), ("mixup", BETWEEN), ("mixup", 2.0), ("genlabel", ALPHA)]
    names = [NAMES["vanilla"], *(f"mixup, alpha = {alpha:g}" for _, alpha in cases[1:4]), NAMES["genlabel"], "SVM"]
    angles = [_angle(scheme, alpha=alpha) for scheme, alpha in cases] + [SVM]
    printed = [PAPER[scheme, "angle"] for scheme, _ in cases] + [None]
    rows = [
        ("angle / pi", [computed(angle, paper) for angle, paper in zip(angles, printed, strict=True)]),
        ("its limit / pi", [computed(_limit(scheme, alpha)) for scheme, alpha in cases] + [computed(SVM)]),
        ("margin", [computed(_margin(angle)) for angle in angles]),
    ]
    title = f"At |theta| = {NORM:g}, the limit of the angle for large |theta|, and the margin min(cos, sin)"
    return Grid(title, names, rows, "", corner="scheme", digits=4)


def _angle_claim(scheme: str) -> Claim:
    """Return the claim of a printed angle: it holds if some value of the unprinted parameter gives it."""
    printed, free = PAPER[scheme, "angle"], FREE[scheme]
    low, high = getattr(_ranges(), free)
    middle = _angle(scheme, **{free: type(high)((low + high) / 2)})
    quote, ours = f"{printed.mean:.2f} pi", f"{_angle(scheme):.4f} pi for {free} = {OURS[free]:g}"
    text = f"At |theta| = {NORM:g} the angle of {TITLES[scheme]} is {quote} (for some {free}: it is not printed)."
    result = f"{quote} for {free} from {_short(low)} to {_short(high)}; {ours}"
    brief = f"the printed angle of {TITLES[scheme]}"
    return Claim(text, quote, result, agreement(computed(middle, printed)) == "agrees", brief=brief)


def _margin_claims() -> list[Claim]:
    """Return the claims on the order of the margins, arXiv Eq. (2) and the proof for Example 3."""
    vanilla, mixup, genlabel = (_margin(_angle(scheme)) for scheme in NAMES)
    low, high = _order()
    return [
        Claim(
            f"GenLabel has a larger margin than vanilla training, that a larger one than mixup (|theta| = {NORM:g}).",
            "margin(GenLabel) > margin(vanilla) > margin(mixup)",
            f"{genlabel:.3f} > {vanilla:.3f} > {mixup:.3f}; for |theta| from {low:.1f} to {high:.0f}",
            genlabel > vanilla > mixup,
            brief="margins: GenLabel, vanilla, mixup",
        ),
        Claim(
            f"GenLabel has the margin of the SVM (|theta| = {NORM:g}; here: within {NEAR:.0%}).",
            "margin(SVM) = margin(GenLabel)",
            f"{_margin(SVM):.4f} and {genlabel:.4f}; equal only where the angle passes pi/4, at |theta| = "
            f"{_norm_of('genlabel', SVM):.1f}",
            abs(_margin(SVM) - genlabel) <= NEAR * _margin(SVM),
            brief="GenLabel has the SVM's margin",
        ),
    ]


def _limit_claims() -> list[Claim]:
    """Return the claims on large norms."""
    genlabel, mixup, vanilla = (_limit(scheme) for scheme in ("genlabel", "mixup", "vanilla"))
    fast, slow = (_norm_of(scheme, SVM - HALF) for scheme in ("genlabel", "vanilla"))
    return [
        Claim(
            "As |theta| grows, the angle of GenLabel approaches that of the SVM (here: to two decimals).",
            "0.25 pi",
            f"{genlabel:.5f} pi for sigma = {SIGMA:g}: it passes 0.25 pi and ends beyond it, by 2 pi^2 sigma^4 / 3 = "
            f"{2 * math.pi * SIGMA**4 / 3:.5f} pi and higher orders",
            abs(genlabel - SVM) <= HALF,
            brief="GenLabel tends to the SVM",
        ),
        Claim(
            "As |theta| grows, the angle of mixup does not converge to that of the SVM.",
            "not 0.25 pi",
            f"{mixup:.4f} pi for alpha = {ALPHA:g}, {_limit('mixup', 2.0):.4f} pi for alpha = 2",
            abs(mixup - SVM) > HALF,
            brief="mixup does not",
        ),
        Claim(
            "Vanilla training converges to the SVM slowly, GenLabel comes near it quickly.",
            "slowly, quickly",
            f"to {vanilla:.2f} pi; within {HALF:g} pi of it from |theta| = {slow:.0f} on, GenLabel from {fast:.1f} on",
            abs(vanilla - SVM) <= EXACT and slow > fast,
            brief="vanilla does so slowly",
        ),
    ]


def _figure() -> CaptionedFigure:
    figure = Figure(figsize=(13.0, 7.8), dpi=DPI, layout="constrained")
    axes = figure.subplots(2, 3).ravel()
    for ax, draw in zip(axes, (_plot_data, _plot_angles, _plot_margins), strict=False):
        draw(ax)
    for ax in axes[1:3]:
        _set_log(ax, (1, 3, 10, 25, 100, 300, 1000))
        ax.set(xlabel="norm |$\\theta$|", xlim=(NORMS[0], NORMS[-1]))
    for ax, letter, scheme in zip(axes[3:], "def", TITLES, strict=True):
        _plot_free(ax, letter, scheme)
    for ax in axes:
        style_axes(ax)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    caption = (
        f"Example 3. (a) The points and the boundaries at |theta| = {NORM:g}. (b) The angle against the norm; crosses: "
        "the printed angles, dotted: the limits. (c) The margin; shaded: the norms with the paper's "
        "order. (d)-(f) The parameters that give the printed angles (bands); dots: those taken here."
    )
    return CaptionedFigure(caption, figure)


def _style(scheme: str) -> dict[str, Any]:
    """Return the line style of a scheme; the SVM is dashed, broad and behind the others."""
    style, width, order = ("--", 3.0, 1.5) if scheme == "svm" else ("-", 2.0, 2.0)
    return {"color": COLORS[scheme], "linestyle": style, "linewidth": width, "zorder": order}


def _plot_data(ax: Axes) -> None:
    X, y = make_example3(1)
    for scheme, angle in [*((scheme, _angle(scheme)) for scheme in NAMES), ("svm", SVM)]:
        ends = 1.6 * np.array([[math.sin(math.pi * angle)], [-math.cos(math.pi * angle)]]) * [-1.0, 1.0]
        ax.plot(*ends, label=NAMES.get(scheme, "SVM"), **_style(scheme))
    for (x, height), label in zip(X, y, strict=True):
        color, marker = CLASS_STYLES[0 if label > 0 else 1]
        ax.scatter(x, height, s=110, color=color, marker=marker, edgecolors="black", zorder=5)
        ax.text(x, height + 0.14, "+1" if label > 0 else "$-1$, n copies", ha="center")
    ax.set(xlim=(-1.5, 1.5), ylim=(-1.35, 1.35), aspect=1.0, xlabel="$x^{(1)}$", ylabel="$x^{(2)}$")
    ax.set_title(f"(a) boundaries at |$\\theta$| = {NORM:g}")


def _plot_angles(ax: Axes) -> None:
    for scheme in NAMES:
        ax.plot(NORMS, [_angle(scheme, r) for r in NORMS], **_style(scheme))
        ax.axhline(_limit(scheme), color=COLORS[scheme], linestyle=":", linewidth=1.3)
        ax.plot(NORM, PAPER[scheme, "angle"].mean, "X", color=COLORS[scheme], markersize=9, markeredgecolor="white")
    ax.axhline(SVM, **_style("svm"))
    ax.set(ylabel=ANGLE, title=f"(b) angle; crosses: printed at |$\\theta$| = {NORM:g}")


def _plot_margins(ax: Axes) -> None:
    low, high = _order()
    ax.axvspan(low, NORMS[-1], color="#eeeeee", zorder=0)
    norms = sorted([*NORMS, _norm_of("mixup", SVM)])  # with the peak of mixup's margin
    for scheme in NAMES:
        ax.plot(norms, [_margin(_angle(scheme, r)) for r in norms], **_style(scheme))
    ax.axhline(_margin(SVM), **_style("svm"))
    ax.text(1.15 * low, 0.06, f"GenLabel > vanilla > mixup\nfrom |$\\theta$| = {low:.1f} to {high:,.0f}")
    ax.set(ylabel="margin min(cos $\\phi$*, sin $\\phi$*)", title="(c) margin; shaded: the paper's order")


def _plot_free(ax: Axes, letter: str, scheme: str) -> None:
    """Plot the angle against the parameter, the printed angle, and the values of the parameter that give it."""
    free, angle, color = FREE[scheme], PAPER[scheme, "angle"].mean, COLORS[scheme]
    (low, high), values = getattr(_ranges(), free), VALUES[free]
    symbol = "n" if free == "n" else f"$\\{free}$"
    fine = np.geomspace(values[0], values[-1], 101)
    curve = PchipInterpolator(np.log(values), [_angle(scheme, **{free: value}) for value in values])
    ax.plot(fine, curve(np.log(fine)), **_style(scheme))
    ax.plot(OURS[free], _angle(scheme), "o", color=color, markersize=8, markeredgecolor="white", zorder=5)
    ax.axhspan(angle - HALF, angle + HALF, color=color, alpha=0.15, linewidth=0)
    ax.axvspan(max(low, values[0]), high, color=color, alpha=0.15, linewidth=0)
    ax.set(xlabel=f"{symbol}, {ABOUT[free]}", ylabel=ANGLE, xlim=(values[0], values[-1]))
    ax.set_title(f"({letter}) {TITLES[scheme]}: {angle:.2f} for {symbol} from {_short(low)} to {_short(high)}")
    _set_log(ax, [tick for tick in (0.02, 0.05, 0.1, 0.2, 0.4, 0.5, 1, 2, 5, 10, 30, 100) if tick in values])


def _short(value: float) -> str:
    """Return at most three decimals, without trailing zeros."""
    return f"{value:.3f}".rstrip("0").rstrip(".") if value % 1 else f"{value:g}"


def _set_log(ax: Axes, ticks: Sequence[float]) -> None:
    ax.set_xscale("log")
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_xticks([], minor=True)


EXPERIMENT = Experiment(
    "figure7",
    "Angles of vanilla training, mixup and GenLabel on an uneven dataset",
    "arXiv Figure 7, Example 3, Section 5.2",
    no_cells,
    render,
    PAPER,
    section="toys",
)
