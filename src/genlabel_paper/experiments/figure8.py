"""Figure 8: the mixup, GenLabel and adversarial losses against the angle of a linear model, expanded and exact."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from genlabel.reporting.charts import DPI
from genlabel_paper.report.experiment import Experiment, no_cells
from genlabel_paper.report.figures import CLASS_STYLES, COLORS, style_axes
from genlabel_paper.report.results import CaptionedFigure, Claim, Grid, Rendering, computed
from genlabel_paper.theory import (
    GaussianPair,
    TheoremCheck,
    check_theorem,
    limit_coefficients,
    taylor_coefficients,
)
from genlabel_paper.theory.coefficients import MIXUP
from genlabel_paper.theory.theorem import C_RANGE

SIGMA_1, POINTS, LENGTH, SEED = 10.0, 20, 10.0, 0
"""Parameters of the figure: classes N(-+e_1, I / 100), points of each class, norm of theta. The seed is ours."""
ANGLES = np.linspace(-np.pi / 4, np.pi / 4, 91)
EXACT_ANGLES = ANGLES[::5]
NEAR = float(np.degrees(3.0 * np.sqrt(2.0 / POINTS) / SIGMA_1 / 2.0))
"""Degrees, 2.7: three standard deviations of the direction from one class mean to the other in such a sample."""
LOSSES = {"mix": COLORS["mixup"], "gen": COLORS["genlabel"], "adv": COLORS["adversarial"]}
NAMES = {"mix": "mixup", "gen": "GenLabel", "adv": "adversarial, radius $\\delta_{gen}$"}
UNEVEN = "5 and 35 points (all printed conditions hold)"
SAID = "for every angle in [-pi/4, pi/4]"


def render(records: pd.DataFrame) -> Rendering:
    """Compute the figure and check the statements of Section 5.3; no records are needed.

    >>> [claim.holds for claim in render(pd.DataFrame()).claims]
    [True, True, True, False]
    """
    expanded, exact = _curves(True), _curves(False)
    sample = f"One draw of {POINTS} points a class, seed {SEED}; A = {expanded[0].A:.4f}, B = {expanded[0].B:.4f}."
    notes = [
        sample,
        "The curves of the paper are second-order expansions around the data. At |theta| = 10 they say little of the "
        f"losses: mixup's is {_middle(expanded).mix:.4f} expanded and {_middle(exact).mix:.3f} exact at angle 0, "
        f"{expanded[-1].mix:.4f} and {exact[-1].mix:.3f} at 45 degrees: it is largest where the expansion is least.",
        "Second table: 20 points a class, theta = (10, 0), sigma_1 = 100 and c = 1 where nothing else is said; "
        "sigma_1 = 1.5 with theta = (1, 0).",
        "The losses in full, and all that the theorem needs: docs/theory.md.",
    ]
    figures = [_curve_figure(expanded, exact), _condition_figure()]
    return Rendering([_grid(expanded, exact), _counterexample_grid()], _claims(expanded), figures, notes)


@cache
def _curves(taylor: bool) -> list[TheoremCheck]:
    X, y = GaussianPair(SIGMA_1).sample(POINTS, rng=SEED)
    angles = ANGLES if taylor else EXACT_ANGLES
    thetas = LENGTH * np.column_stack([np.cos(angles), np.sin(angles)])
    return [check_theorem(theta, X, y, sigma_1=SIGMA_1, taylor=taylor) for theta in thetas]


def _middle(curves: Sequence[TheoremCheck]) -> TheoremCheck:
    return curves[len(curves) // 2]


def _values(curves: Sequence[TheoremCheck], name: str) -> NDArray[np.float64]:
    return np.array([getattr(one, name) for one in curves])


def _claims(expanded: Sequence[TheoremCheck]) -> list[Claim]:
    mix, gen, adv = (_values(expanded, name) for name in LOSSES)
    least = {name: float(np.degrees(ANGLES[_values(expanded, name).argmin()])) for name in LOSSES}
    places = ", ".join(f"{value:+.1f}" for value in least.values())
    return [
        Claim(
            "The expanded GenLabel loss is below the expanded mixup loss.",
            SAID,
            f"at {int((gen < mix).sum())} of {len(ANGLES)} angles; by a factor of {(mix / gen).min():.2f} at least",
            bool((gen < mix).all()),
            brief="GenLabel's loss below mixup's",
        ),
        Claim(
            "The expanded adversarial loss is no higher than the expanded GenLabel loss.",
            SAID,
            f"at {int((adv <= gen).sum())} of {len(ANGLES)} angles; by a factor of {(gen / adv).min():.2f} at least",
            bool((adv <= gen).all()),
            brief="the adversarial loss below GenLabel's",
        ),
        Claim(
            f"The model with angle 0 has the smallest of each expanded loss (here: within {NEAR:.1f} degrees).",
            "angle 0",
            f"mixup, GenLabel and adversarial at {places} degrees; the direction between two class means of such a "
            f"sample has three standard deviations of {NEAR:.1f}",
            all(abs(value) <= NEAR for value in least.values()),
            brief="least at angle 0",
        ),
        _theorem_claim(),
    ]


def _theorem_claim() -> Claim:
    check = _counterexamples()[UNEVEN]
    return Claim(
        "Theorem 1: this order holds for every theta without training error, whatever the sample.",
        "for any theta in Theta, in the regime of large sigma_1",
        f"not with 5 points against 35: GenLabel {1000 * check.gen:.2f}, adversarial {1000 * check.adv:.2f} "
        "(1/1000 nats); nor for theta = 0, where all three are log 2",
        check.holds,
        brief="Theorem 1 for every sample",
    )


def _grid(expanded: Sequence[TheoremCheck], exact: Sequence[TheoremCheck]) -> Grid:
    """Return the three losses at angle 0 and at both ends."""
    columns = {"-45 degrees": 0, "0 degrees": None, "+45 degrees": -1}
    rows = [
        (
            f"{title}, {kind}",
            [
                computed(getattr(_middle(curves) if place is None else curves[place], name))
                for place in columns.values()
            ],
        )
        for kind, curves in (("expanded", expanded), ("exact", exact))
        for name, title in (("mix", "mixup"), ("gen", "GenLabel"), ("adv", "adversarial"))
    ]
    return Grid("Losses", list(columns), rows, "nats", corner="angle", digits=4)


@cache
def _counterexamples() -> dict[str, TheoremCheck]:
    """Return samples on which mix > gen >= adv fails, outside and within the printed conditions of Theorem 1."""

    def check_sample(
        n: int | tuple[int, int] = 20, draw: float = 100.0, theta: float = LENGTH, c: float = 1.0
    ) -> TheoremCheck:
        X, y = GaussianPair(draw, c).sample(n, rng=SEED)
        return check_theorem([theta, 0.0], X, y, sigma_1=draw, c=c)

    return {
        "c = 1, 20 and 20 points (it holds)": check_sample(),
        "c = 5": check_sample(c=5.0),
        "sigma_1 = 1.5: the classes overlap": check_sample(draw=1.5, theta=1.0),
        "theta = (-1, 0): training errors": check_sample(theta=-1.0),
        UNEVEN: check_sample((5, 35)),
    }


def _counterexample_grid() -> Grid:
    checks = _counterexamples()
    titles = {"mix": "mixup", "gen": "GenLabel", "adv": "adversarial"}
    rows = [
        (title, [computed(1000.0 * getattr(one, name)) for one in checks.values()]) for name, title in titles.items()
    ]
    return Grid(
        "Where the order mixup > GenLabel >= adversarial fails", list(checks), rows, "1/1000 nats", corner="sample"
    )


def _curve_figure(expanded: Sequence[TheoremCheck], exact: Sequence[TheoremCheck]) -> CaptionedFigure:
    figure = Figure(figsize=(13.0, 4.2), dpi=DPI, layout="constrained")
    axes = figure.subplots(1, 3, width_ratios=[0.8, 1.0, 1.0])
    _plot_data(axes[0])
    for ax, curves, angles in ((axes[1], expanded, ANGLES), (axes[2], exact, EXACT_ANGLES)):
        for name, color in LOSSES.items():
            ax.plot(np.degrees(angles), _values(curves, name), color=color, linewidth=2.0, label=NAMES[name])
        ax.set(
            yscale="log",
            xlabel="angle $\\phi$ of $\\theta$ = 10 (cos $\\phi$, sin $\\phi$), degrees",
            ylabel="loss (nats)",
        )
        style_axes(ax)
    axes[1].set_title("second-order expansions, as in the paper")
    axes[2].set_title("the same losses, exact")
    figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    caption = (
        "Mixup, GenLabel and adversarial loss against the angle of a linear model. The order is the same exact and "
        "expanded; the mixup loss itself is largest where its expansion is least."
    )
    return CaptionedFigure(caption, figure)


def _plot_data(ax: Axes) -> None:
    X, y = GaussianPair(SIGMA_1).sample(POINTS, rng=SEED)
    for label, (color, marker) in ((0, CLASS_STYLES[1]), (1, CLASS_STYLES[0])):
        x, height = X[y == label].T
        ax.scatter(x, height, s=22, marker=marker, color=color, label=f"class {label} (the paper's {2 * label - 1:+d})")
    for phi, style in ((0.0, "-"), (np.pi / 4, "--"), (-np.pi / 4, "--")):
        normal = np.array([-np.sin(phi), np.cos(phi)])
        ax.plot(*np.outer(normal, [-0.9, 0.9]), color="#555555", linestyle=style, linewidth=1.0)
    ax.set(xlim=(-1.5, 1.5), ylim=(-1.1, 1.1), aspect=1.0, xlabel="$x^{(1)}$", ylabel="$x^{(2)}$")
    ax.set_title("the data; boundaries at 0, ±45 degrees")
    ax.legend(loc="lower right", fontsize=8, frameon=False)
    style_axes(ax)


def _condition_figure() -> CaptionedFigure:
    figure = Figure(figsize=(13.0, 3.9), dpi=DPI, layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    _plot_width(left)
    _plot_overlap(middle)
    _plot_balance(right)
    caption = (
        "What the theorem needs. Left and middle: A must be below mixup's 1/3, and A - B is 1/6 whatever the labels; "
        "B is then below 1/6. Right: the printed conditions leave out that the classes are balanced."
    )
    return CaptionedFigure(caption, figure)


def _plot_width(ax: Axes) -> None:
    c = np.geomspace(0.1, 10.0, 200)
    ax.plot(
        c,
        [limit_coefficients(ratio)[0] for ratio in c],
        color=LOSSES["gen"],
        linewidth=2.0,
        label="A, limit of large $\\sigma_1$",
    )
    ax.axvspan(*C_RANGE, color="#eeeeee", label="2 - √3 < c < 2 + √3")
    ax.set(xscale="log", xlabel="c: how much narrower class 1 is", ylabel="A", title="classes of different width")
    ax.set_xticks([0.1, 0.3, 1, 3, 10], ["0.1", "0.3", "1", "3", "10"])
    _finish_mixup(ax)


def _plot_overlap(ax: Axes) -> None:
    sigma = np.geomspace(0.2, 50.0, 60)
    ax.plot(
        sigma,
        [taylor_coefficients(1.0, 0.0, 2, width)[0] for width in sigma],
        color=LOSSES["gen"],
        linewidth=2.0,
        label="A, c = 1",
    )
    ax.axhline(0.25, color=LOSSES["gen"], linestyle=":", label="its limit, 1/4")
    ax.set(
        xscale="log",
        xlabel="$\\sigma_1 \\sqrt{c_d}$: how far apart the classes are",
        ylabel="A",
        title="overlapping classes",
    )
    ax.set_xticks([0.3, 1, 3, 10, 30], ["0.3", "1", "3", "10", "30"])
    _finish_mixup(ax)


def _finish_mixup(ax: Axes) -> None:
    ax.axhline(MIXUP[0], color=LOSSES["mix"], linestyle="--", label="mixup's 1/3")
    ax.set_ylim(0.2, 0.52)
    ax.legend(fontsize=8, facecolor="white", framealpha=1.0, edgecolor="none", loc="upper center")
    style_axes(ax)


@cache
def _balance() -> dict[int, TheoremCheck]:
    """Return checks by the number of points of class 0 among 40, without noise."""
    checks = {}
    for few in range(1, 21):
        X = np.array([[-1.0, 0.0]] * few + [[1.0, 0.0]] * (40 - few))
        checks[few] = check_theorem([LENGTH, 0.0], X, np.arange(40) >= few, sigma_1=np.inf)
    return checks


def _plot_balance(ax: Axes) -> None:
    checks = _balance()
    share = [few / 40 for few in checks]
    for name, color in LOSSES.items():
        ax.plot(share, _values(list(checks.values()), name), color=color, linewidth=2.0, label=NAMES[name])
    ax.set(
        yscale="log",
        xlabel="share of the smaller class",
        ylabel="expanded loss (nats)",
        title="classes of different size, $\\theta$ = (10, 0)",
    )
    ax.legend(fontsize=8, frameon=False, loc="lower right")
    style_axes(ax)


EXPERIMENT = Experiment(
    "figure8",
    "Mixup, GenLabel and adversarial loss of a linear model",
    "arXiv Figure 8, Section 5.3, Theorem 1",
    no_cells,
    render,
    section="toys",
)
