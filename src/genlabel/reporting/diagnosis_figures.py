"""Figures of a diagnosis: each chart on axes of its own, for a page, and four of them as one figure."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from genlabel.evaluation.diagnosis import DensityCheck, Diagnosis, MixedSampleStats, PairedExperiment
from genlabel.evaluation.diagnosis.verdict import overall_stats
from genlabel.reporting.charts import Bar, HeatCell, Interval, draw_bars, draw_heat_map, draw_intervals
from genlabel.reporting.figures import ARM_COLORS, GRAY, PALETTE, finish_axes, new_figure, plain_text
from genlabel.reporting.words import name_of, percent

MAX_CLASSES_PANEL, MAX_CLASSES = 8, 26
"""Classes whose pairs are a heat map, in a panel and in a figure of its own; of more, the worst pairs are listed."""
MAX_PAIRS = 12
MAX_CURVES = 3


def plot_diagnosis(diagnosis: Diagnosis) -> Figure:
    """Draw a diagnosis: one panel where the stacked density is not trusted, else four.

    Parameters
    ----------
    diagnosis : Diagnosis
        Result of :func:`genlabel.diagnose`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from genlabel import diagnose
    >>> len(plot_diagnosis(diagnose(*load_iris(return_X_y=True), cv=2)).axes)
    4
    """
    mixed, experiment = diagnosis.mixed, diagnosis.experiment
    figure = new_figure(7.0, 3.6) if mixed is None else new_figure(11.5, 8.4)
    size = f"{diagnosis.n} rows, {diagnosis.d} features, {len(diagnosis.classes)} classes"
    figure.suptitle(f"{diagnosis.verdict.sentence}\n{size}", fontsize=12)
    if mixed is None:
        draw_density_check(figure.subplots(), diagnosis.density_check)
        return figure
    (check, intrusion), (labels, gains) = figure.subplots(2, 2)
    draw_density_check(check, diagnosis.density_check)
    draw_intrusion(intrusion, diagnosis, mixed, MAX_CLASSES_PANEL)
    draw_label_distance(labels, diagnosis, mixed)
    if experiment is None:
        gains.set_axis_off()
    else:
        draw_gains(gains, experiment)
    return figure


def draw_density_check(ax: Axes, check: DensityCheck) -> None:
    """Draw the log-losses of the stacked density, of logistic regression and of the class priors, with intervals."""
    gains = {"logistic regression": check.over_logistic, "class priors": check.over_prior}
    losses = {"stacked density": check.density, "logistic regression": check.logistic, "class priors": check.prior}
    high = {name: check.density + gain.high for name, gain in gains.items() if np.isfinite(gain.low)}
    bars = [
        Bar(name, value, f"{value:.3f}", *((GRAY, 0.4) if name in gains else (PALETTE[2], 1.0)), high.get(name, value))
        for name, value in losses.items()
    ]
    axis = f"← held-out log-loss (nats, {check.rows} rows): lower is better"
    draw_bars(ax, bars, f"{axis}\nlines: 95 % interval of the difference to the stacked density")
    for place, (name, gain) in enumerate(gains.items(), 1):
        if name in high:
            ax.plot([check.density + gain.low, high[name]], [place, place], color="black", linewidth=1.5)
    if np.isfinite(check.density):
        ax.axvline(check.density, color=PALETTE[2], linewidth=1.0, linestyle=":")
    ax.set_title(f"The stacked density is {'' if check.trusted else 'not '}trusted", fontsize=10)


def draw_intrusion(ax: Axes, diagnosis: Diagnosis, mixed: MixedSampleStats, max_classes: int = MAX_CLASSES) -> None:
    """Draw how often mixed samples land among another class: a heat map of the pairs, or the worst of many."""
    pairs, k = mixed.pairs, len(diagnosis.classes)
    overall = overall_stats(mixed)["intrusion"]
    chance = f"{100 * mixed.chance:.1f} % with permuted labels"
    title = f"Mixed samples among another class: {100 * overall:.1f} %\n({chance})"
    names = short_names(diagnosis.classes, 18 if k <= 4 else 12)
    if k > max_classes:
        worst = diagnosis.to_frame("pairs", MAX_PAIRS)
        rows = [
            Interval(f"{names[one]} with {names[other]}", share, low, high, PALETTE[1])
            for one, other, share, low, high in worst[["class_1", "class_2", "intrusion", "low", "high"]].to_numpy()
        ]
        draw_intervals(ax, rows, "share of mixed samples; line: 95 % interval", digits=2)
        ax.set_title(title, fontsize=10)
        return
    place = {name: number for number, name in enumerate(diagnosis.classes.tolist())}
    top = max(0.3, float(pairs["intrusion"].max()))
    cells = []
    for pair in pairs.to_dict("records"):
        share, low, high = (100 * float(pair[name]) for name in ("intrusion", "low", "high"))
        text = f"{share:.0f} %\n{low:.0f} to {high:.0f}" if k <= 8 else f"{share:.0f}"
        tip = (
            f"{name_of(pair['class_1'])} with {name_of(pair['class_2'])}: {percent(pair['intrusion'])} of "
            f"{pair['n_mixed']} mixed samples (95 % interval {percent(pair['low'], 0)} to {percent(pair['high'], 0)})\n"
            f"with permuted labels {percent(pair['permuted'], 0)}, unlike any row {percent(pair['atypical'], 0)}"
        )
        cells.append(HeatCell(place[pair["class_2"]], place[pair["class_1"]], share / 100 / top, text, tip))
    shown = list(names.values())
    draw_heat_map(ax, shown, shown, cells, across="class of one parent", down="class of the other")
    if k <= 8:
        ax.set_xlabel(f"{ax.get_xlabel()}\nbelow the share: 95 % interval, in %")
    ax.set_title(title, fontsize=10)


def draw_label_distance(ax: Axes, diagnosis: Diagnosis, mixed: MixedSampleStats) -> None:
    """Draw the distance of the two labels along lambda, for all mixed samples and for the pairs where it is largest."""
    lambdas, names = mixed.lambdas, short_names(diagnosis.classes, 12)
    weighted = lambdas.merge(mixed.pairs[["class_1", "class_2", "weight"]], on=["class_1", "class_2"])
    mass, cells = weighted["weight"] * weighted["n_mixed"], [weighted["lam_low"], weighted["lam_high"]]
    overall = (mass * weighted["total_variation"]).groupby(cells).sum() / mass.groupby(cells).sum()
    middles = [(low + high) / 2 for low, high in overall.index]
    ax.plot(middles, overall, "o-", color="black", linewidth=2, label="all mixed samples")
    worst = mixed.pairs.sort_values("total_variation", ascending=False).head(MAX_CURVES)
    for color, one, other in zip(PALETTE, worst["class_1"], worst["class_2"], strict=False):
        here = lambdas[(lambdas["class_1"] == one) & (lambdas["class_2"] == other)]
        middle = (here["lam_low"] + here["lam_high"]) / 2
        ax.plot(middle, here["total_variation"], "o--", color=color, label=f"{names[one]} with {names[other]}")
    ax.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="lambda: weight of the first class")
    ax.set_ylabel("total variation: 0 same, 1 disjoint")
    ax.legend(fontsize=8, frameon=False, loc="best")
    finish_axes(ax, "Distance of mixup's label to the stacked density's")


def draw_gains(ax: Axes, experiment: PairedExperiment) -> None:
    """Draw the gains of the paired experiment with their intervals, affinity and diversity in words."""
    rows = []
    for name, gain in experiment.gains.items():
        arm, _, rival = name.partition(" over ")
        note = f"affinity {experiment.affinity[arm]:.2f}, diversity {experiment.diversity[arm]:.2f}"
        rows.append(Interval(name, *gain, ARM_COLORS[arm], note if rival == "vanilla" else ""))
    draw_intervals(ax, rows, "gain in held-out log-loss (nats): higher is better →\nline: 95 % interval", zero=True)
    reach = 1.15 * max(abs(end) for end in ax.get_xlim())
    if np.isfinite(reach):
        ax.set_xlim(-reach, reach)
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.set_title(f"Paired experiment: vanilla has log-loss {experiment.log_loss['vanilla']:.3f}", fontsize=10)


def short_names(classes: Any, length: int) -> dict[Any, str]:
    """Return the name of each class in at most `length` characters, with its number where two begin alike.

    >>> short_names(["lily", "lily of the valley", "lily of the Nile"], 12)
    {'lily': 'lily', 'lily of the valley': '2: lily of …', 'lily of the Nile': '3: lily of …'}
    """
    cut = [name if len(name) <= length else name[: length - 1] + "…" for name in map(str, classes)]
    return {
        key: plain_text(name if cut.count(name) == 1 else f"{number}: {name[: length - 4]}…")
        for number, (key, name) in enumerate(zip(classes, cut, strict=True), 1)
    }
