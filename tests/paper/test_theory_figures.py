"""Figures 2, 4, 7 and 8, computed from the theory: their numbers, statements and panels."""

import math
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import beta

from genlabel_paper.experiments import figure2, figure4, figure7, figure8
from genlabel_paper.registry import find
from genlabel_paper.report.experiment import Experiment
from genlabel_paper.report.figures import COLORS
from genlabel_paper.report.results import Grid, Rendering, agreement

TEX = Path(__file__).parents[3] / "shared" / "paper" / "genlabel.tex"
TIGHT = {"xatol": 1e-7}
NAMES = ("figure2", "figure4", "figure7")
needs_tex = pytest.mark.skipif(not TEX.exists(), reason=f"the paper's source is not at {TEX}")
each_figure = pytest.mark.parametrize("name", NAMES)


def test_figure_8_has_the_counterexamples() -> None:
    holds = [one.holds for one in figure8._counterexamples().values()]
    assert holds == [True, False, False, False, False]
    assert all(list(figure8._counterexamples()[figure8.UNEVEN].conditions.values())[:4])
    exact = figure8._curves(False)
    assert len(exact) == 19  # as docs/theory.md has it
    assert all(one.holds for one in exact)
    orders = [one.gen >= one.adv for one in figure8._balance().values()]  # by points of the smaller class, 1 to 20
    assert orders == sorted(orders)
    assert orders[0] is False
    assert orders[-1] is True
    assert [claim.holds for claim in find(["figure8"])[0].render(pd.DataFrame()).claims] == [True, True, True, False]


@cache
def render_figure(name: str) -> Rendering:
    return find([name])[0].render(pd.DataFrame())


def column(grid: Grid, name: str) -> dict[str, float]:
    """Return a column of a grid by scheme."""
    values = next(row for title, row in grid.rows if title == name)
    return {scheme: value.ours.mean for scheme, value in zip(grid.columns, values, strict=True)}


def verdicts(name: str) -> dict[str, bool | None]:
    return {claim.text: claim.holds for claim in render_figure(name).claims}


def our_numbers(name: str, words: str) -> str:
    """Return our numbers of the only claim with these words."""
    (claim,) = [claim for claim in render_figure(name).claims if words in claim.text]
    return claim.ours


# Figure 2


def test_figure_2_has_the_fractions_of_the_example() -> None:
    grid = render_figure("figure2").grids[0]
    margins = [3 / 8, 7 / 16, 1 / 2, math.sqrt(3) / 4, math.sqrt(2) / 4]
    assert list(column(grid, "margin").values()) == pytest.approx(margins, abs=1e-12)
    assert column(grid, "theta*") == column(grid, "margin")  # none is above 1/2


def test_least_losses_of_figure_2_equal_integrals() -> None:
    """Twice the mean of (f - y)^2 over each pair, with u = |x| uniform on [0, 1]."""

    def loss(theta: float, *labels: str, weight: float = 2.0) -> float:
        y = {"linear": lambda u: u, "one": lambda u: 1.0, "step": lambda u: float(u > 0.5)}
        f = [lambda u, y=y[name]: (min(u / (2 * theta), 1.0) - y(u)) ** 2 for name in labels]
        parts = [quad(g, 0, 1, points=[0.5, min(2 * theta, 1.0)])[0] for g in f]
        return 2.0 * sum(parts[:2]) + weight * sum(parts[2:])

    linear, step = ("linear",) * 2, ("step",) * 2
    expected = [
        loss(3 / 8, *linear, "one"),
        loss(7 / 16, *linear, "one", weight=1.0),
        loss(1 / 2, *linear),
        loss(math.sqrt(3) / 4, *step, "step"),
        loss(math.sqrt(2) / 4, *step, "one"),
    ]
    assert list(column(render_figure("figure2").grids[0], "least loss").values()) == pytest.approx(expected, abs=1e-9)


def test_figure_2_contradicts_only_the_printed_margin() -> None:
    assert [claim.holds for claim in render_figure("figure2").claims] == [False, True, True]
    values = next(row for title, row in render_figure("figure2").grids[0].rows if title == "margin")
    assert [agreement(value) for value in values] == ["differs", "agrees", "agrees", "missing", "missing"]


# Figure 4


def smallest_margin(W: np.ndarray) -> float:
    """Return the smallest margin over the three points of Example 2 and all pairs of classes."""
    X = np.array([[-5.0, 5.0], [5.0, 5.0], [-5.0, -5.0]])
    gaps = [(W[c] - W[k]) @ X[c] / np.linalg.norm(W[c] - W[k]) for c in range(3) for k in range(3) if k != c]
    return float(min(gaps))


def test_figure_4_gives_vanilla_the_margins_of_gradient_descent() -> None:
    X, W = np.array([[-5.0, 5.0], [5.0, 5.0], [-5.0, -5.0]]), np.zeros((3, 2))
    expected = {}
    for step in range(1, 10_001):
        share = np.exp(X @ W.T)
        W = W - 0.1 / 3.0 * (share / share.sum(1, keepdims=True) - np.eye(3)).T @ X
        expected[step] = smallest_margin(W) if step in (1, 10, 100, 1000, 10_000) else 0.0
    smallest = column(render_figure("figure4").grids[0], "smallest")
    for step in (1, 10, 100, 1000, 10_000):
        assert smallest[f"vanilla, {step:,} step{'s' * (step > 1)}"] == pytest.approx(expected[step], abs=1e-9)


def test_smallest_margin_of_figure_4_is_the_minimum_over_classes() -> None:
    grid = render_figure("figure4").grids[0]
    classes = np.array([[value.ours.mean for value in row] for _, row in grid.rows[:3]])
    assert list(column(grid, "smallest").values()) == classes.min(axis=0).tolist()
    assert classes[1] == pytest.approx(classes[2], abs=1e-9)  # mirror images in the line x2 = -x1
    assert np.allclose(classes[:, -2:], 5.0, rtol=0, atol=1e-9)  # GenLabel and the SVM


def test_statements_of_figure_4_follow_from_the_margins() -> None:
    least = column(render_figure("figure4").grids[0], "smallest")
    vanilla, mixup, largest = least["vanilla, 1,000 steps"], least["mixup, linear labels"], least["SVM"]
    assert list(verdicts("figure4").values()) == [
        least["GenLabel"] == pytest.approx(largest, abs=1e-9),
        least["GenLabel"] > vanilla,
        None,  # vanilla and mixup: it depends on settings that are not printed
        mixup < 0.9 * largest,
        least["mixup, logistic labels"] > 0.99 * largest,
        False,  # p_2 of the SVM and the logistic label
    ]
    assert vanilla < mixup < least["vanilla, 10,000 steps"] < largest


def test_svm_score_differs_from_the_logistic_label_by_one_sixth() -> None:
    lam = np.linspace(0.0, 1.0, 201)
    u = 2 * 5 * (2 * lam - 1)  # w_2 x, -w_3 x; w_1 x is 0 on the line
    gap = np.exp(u) / (1 + np.exp(u) + np.exp(-u)) - 1 / (1 + np.exp(-8 * 5 * (lam - 0.5)))
    assert abs(gap[100]) == pytest.approx(1 / 6)
    words = our_numbers("figure4", "the score of the SVM")
    assert f"off by {1 / 6:.3f} at lam = 1/2" in words
    assert f"by {np.abs(gap).max():.3f} at lam = {lam[np.abs(gap).argmax()]:.2f}" in words


# Figure 7


def softplus(t: float) -> float:
    return float(np.logaddexp(0.0, t))


def logistic_loss(scheme: str, phi: float, *, r: float = 25.0, n: int = 30, alpha: float = 1.0, sigma: float = 0.1):
    """Compute the vanilla and the mixup loss of the proof for arXiv Example 3, integral by integral."""
    c, s = r * math.cos(phi), r * math.sin(phi)
    if scheme == "vanilla":
        return (n + 1) * softplus(-c) + softplus(-s)

    def rho(lam: float) -> float:
        return lam if scheme == "mixup" else 1.0 / (1.0 + math.exp(-(lam - 0.5) / sigma**2))

    def density(lam: float) -> float:
        return 1.0 if alpha == 1.0 else float(beta.pdf(lam, alpha, alpha))

    def first(lam: float) -> float:  # L_1
        t = lam * c - (1 - lam) * s
        return ((1 - rho(lam)) * softplus(t) + rho(lam) * softplus(-t)) * density(lam)

    def second(lam: float) -> float:  # L_2
        t = (2 * lam - 1) * c
        return ((1 - rho(lam)) * softplus(t) + rho(lam) * softplus(-t)) * density(lam)

    def third(lam: float) -> float:  # L_3
        return softplus(-(1 - lam) * c - lam * s) * density(lam)

    L_1, L_2, L_3 = (quad(part, 0, 1, points=[0.5], epsabs=1e-11)[0] for part in (first, second, third))
    return 2 * n * (L_1 + L_2) + n**2 * softplus(-c) + 2 * L_3 + softplus(-c) + softplus(-s)


@pytest.mark.parametrize(
    "name, scheme, alpha",
    [
        ("vanilla, n = 30", "vanilla", 1.0),
        ("mixup, alpha = 1", "mixup", 1.0),
        ("mixup, alpha = 1.7", "mixup", 1.7),
        ("mixup, alpha = 2", "mixup", 2.0),
        ("GenLabel, sigma = 0.1", "genlabel", 1.0),
    ],
)
def test_angles_of_figure_7_equal_a_direct_search(name: str, scheme: str, alpha: float) -> None:
    best = minimize_scalar(
        lambda phi: logistic_loss(scheme, phi, alpha=alpha),
        bounds=(0.4, 1.3),
        method="bounded",
        options=TIGHT,
    ).x
    grid = render_figure("figure7").grids[0]
    assert column(grid, "angle / pi")[name] == pytest.approx(best / math.pi, abs=1e-5)
    assert column(grid, "margin")[name] == pytest.approx(min(math.cos(best), math.sin(best)), abs=3e-5)


def test_figure_7_ends_at_the_svm_for_vanilla_training_only() -> None:
    limits = column(render_figure("figure7").grids[0], "its limit / pi")
    assert limits["vanilla, n = 30"] == limits["SVM"] == 0.25
    assert limits["GenLabel, sigma = 0.1"] - 0.25 == pytest.approx(2 * math.pi * 0.1**4 / 3, rel=0.02)
    assert limits["mixup, alpha = 1"] > limits["mixup, alpha = 1.7"] > limits["mixup, alpha = 2"] > 0.29


def test_all_statements_of_figure_7_hold() -> None:
    assert list(verdicts("figure7").values()) == [True] * 8
    margins = column(render_figure("figure7").grids[0], "margin")
    order = ["SVM", "GenLabel, sigma = 0.1", "vanilla, n = 30", "mixup, alpha = 2", "mixup, alpha = 1.7"]
    assert [margins[name] for name in order] == sorted((margins[name] for name in order), reverse=True)


def test_norms_of_figure_7_equal_a_sign_change() -> None:
    """Where GenLabel passes pi/4, and where it and vanilla training come within 0.005 pi: a slope changes sign."""

    def slope(scheme: str, angle: float, r: float) -> float:
        ends = [logistic_loss(scheme, math.pi * angle + step, r=r) for step in (-1e-4, 1e-4)]
        return ends[1] - ends[0]

    passes = float(re.search(r"\|theta\| = ([\d.]+)$", our_numbers("figure7", "the margin of the SVM"))[1])
    slow, fast = map(
        float, re.search(r"= (\d+) on, GenLabel from ([\d.]+) on", our_numbers("figure7", "slowly")).groups()
    )
    for scheme, angle, r in (("genlabel", 0.25, passes), ("genlabel", 0.245, fast), ("vanilla", 0.245, slow)):
        assert slope(scheme, angle, 0.98 * r) > 0 > slope(scheme, angle, 1.02 * r)


# The paper's source


@needs_tex
def test_printed_margins_equal_the_source() -> None:
    text = TEX.read_text()
    for scheme, name in (("mixup", "mixup"), ("mixup-without-mi", "mixup-without-MI")):
        pattern = rf"margin\}}\(\\theta_\{{\\op\{{{name}\}}\}}\) = \\frac\{{(\d+)\}}\{{(\d+)\}}"
        numerator, denominator = map(int, re.search(pattern, text).groups())
        assert figure2.PAPER[scheme, "margin"].mean == numerator / denominator


@needs_tex
def test_printed_angles_equal_the_source() -> None:
    text = TEX.read_text()
    norm = re.search(r"When \$\\lVert \\bm\{\\theta\} \\rVert =(\d+)\$", text)
    assert norm is not None
    assert float(norm[1]) == figure7.NORM
    for scheme, name in (("vanilla", "vanilla"), ("mixup", "mixup"), ("genlabel", "GenLabel")):
        printed = re.search(rf"\\phi\^\{{\\star\}}_\{{\\op\{{{name}\}}\}} = ([\d.]+) \\pi", text)
        assert printed is not None
        assert figure7.PAPER[scheme, "angle"].mean == float(printed[1])
        assert figure7.PAPER[scheme, "angle"].min_difference == 0.5 * 10 ** -len(printed[1].split(".")[1])


@needs_tex
def test_order_of_margins_equals_the_source() -> None:
    text = TEX.read_text()
    equation = text[: text.index(r"\label{eqn:margin_compare}") + 300].rsplit(r"\begin{align}", 1)[1]
    names = re.findall(r"margin\}\(\{?\\op\{(\w+)\}", equation)
    assert names == ["SVM", "GenLabel", "vanilla", "mixup"]
    printed = [claim.printed for claim in render_figure("figure4").claims[:3]]
    signs = re.findall(r"[=>]", equation[: equation.index(r"\end{align}")])
    assert printed == [f"margin({a}) {sign} margin({b})" for a, sign, b in zip(names, signs, names[1:], strict=False)]


# The panels


@pytest.mark.parametrize("name, letters", [("figure2", "abcd"), ("figure4", "abcdefghijkl"), ("figure7", "abcdef")])
def test_every_panel_is_lettered_and_named_in_the_caption(name: str, letters: str) -> None:
    (figure,) = render_figure(name).figures
    titles = [ax.get_title() for ax in figure.figure.axes]
    assert sorted(title[:3] for title in titles) == [f"({letter})" for letter in letters]
    assert all(len(title) > 4 for title in titles)
    assert figure.caption.startswith(f"Example {NAMES.index(name) + 1}. (a)")


def test_panels_show_the_computed_values() -> None:
    loss = render_figure("figure2").figures[0].figure.axes[3]
    minima = [line.get_xydata()[0].tolist() for line in loss.get_lines() if len(line.get_xydata()) == 1]
    grid = render_figure("figure2").grids[0]
    expected = list(zip(column(grid, "theta*").values(), column(grid, "least loss").values(), strict=True))[:4]
    np.testing.assert_allclose(minima, expected)
    for line in [line for line in loss.get_lines() if len(line.get_xydata()) > 1]:
        lowest = line.get_xydata()[line.get_ydata().argmin()]
        assert np.abs(np.array(expected) - lowest).max(axis=1).min() < 0.01
    written = [text.get_text() for ax in render_figure("figure4").figures[0].figure.axes[1:6] for text in ax.texts]
    margins = [row for _, row in render_figure("figure4").grids[0].rows[:3]]
    assert written == [f"{row[column_index].ours.mean:.3f}" for column_index in (3, 5, 6, 7, 8) for row in margins]


def test_scheme_has_one_color_in_all_figures() -> None:
    def colors(name: str, panel: int) -> dict[str, str]:
        ax = render_figure(name).figures[0].figure.axes[panel]
        return {line.get_label().split(",")[0]: to_hex(line.get_color()) for line in ax.get_lines()}

    assert colors("figure7", 0) == {
        name: to_hex(COLORS[scheme])
        for name, scheme in (("vanilla", "vanilla"), ("mixup", "mixup"), ("GenLabel", "genlabel"), ("SVM", "svm"))
    }
    two = colors("figure2", 3)
    assert (two["mixup"], two["GenLabel"]) == (COLORS["mixup"].lower(), COLORS["genlabel"].lower())
    assert (figure8.LOSSES["mix"], figure8.LOSSES["gen"]) == (COLORS["mixup"], COLORS["genlabel"])
    steps = {to_hex(line.get_color()) for line in render_figure("figure4").figures[0].figure.axes[6].get_lines()}
    assert steps == {to_hex(COLORS[scheme]) for scheme in ("vanilla", "mixup", "genlabel", "svm")}


@each_figure
def test_text_is_at_least_8_points(name: str) -> None:
    for ax in render_figure(name).figures[0].figure.axes:
        labels = [ax.title, ax.xaxis.label, ax.yaxis.label, *ax.get_xticklabels(), *ax.get_yticklabels(), *ax.texts]
        labels += ax.get_legend().get_texts() if ax.get_legend() else []
        assert min(label.get_fontsize() for label in labels) >= 8.0


@each_figure
def test_every_verdict_is_a_python_bool(name: str) -> None:
    """The page compares with `is`, which fails for a NumPy bool."""
    assert {type(claim.holds) for claim in render_figure(name).claims} <= {bool, type(None)}


@each_figure
def test_notes_name_the_errata_and_no_number_is_cut(
    name: str, as_text: Callable[[Experiment, Rendering, int], str]
) -> None:
    assert any("docs/theory.md" in note for note in render_figure(name).notes)
    text = as_text(*find([name]), render_figure(name), 80)
    assert "…" not in text
    assert max(map(len, text.split("\n"))) <= 80


def test_notes_give_the_unprinted_settings() -> None:
    assert any("neither steps nor rate" in note for note in render_figure("figure4").notes)
    assert f"{figure4.STEPS:,} steps" in render_figure("figure4").figures[0].caption
    settings = f"n = {figure7.COPIES}, alpha = {figure7.ALPHA:g} and sigma = {figure7.SIGMA:g}"
    assert any(settings in note for note in render_figure("figure7").notes)
