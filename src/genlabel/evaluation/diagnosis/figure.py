"""The picture of a diagnosis: trust, intrusion, labels along lambda and the paired run on one page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from genlabel.evaluation.diagnosis.mixed_samples import MixedSampleStats
from genlabel.evaluation.diagnosis.verdict import overall
from genlabel.reporting.figures import OKABE_ITO

if TYPE_CHECKING:
    from genlabel.evaluation.diagnosis.result import Diagnosis


DPI = 160
FEW = 8
"""Classes whose pairs are drawn as a table; of more, the worst pairs are drawn as bars."""
CURVES = 3
"""Pairs whose labels are followed along lambda."""
GREY = "#777777"
LONGEST = 18
"""Letters of a class's name."""


def plot_diagnosis(diagnosis: Diagnosis) -> Figure:
    """Draw a diagnosis: one panel where the stacked density is not trusted, else four."""
    blends = diagnosis.blends
    figure = Figure(figsize=(7.0, 3.6) if blends is None else (11.5, 8.4), dpi=DPI, layout="constrained")
    title = (
        f"{diagnosis.verdict.sentence}\n{diagnosis.n} rows, {diagnosis.d} features, {len(diagnosis.classes)} classes"
    )
    figure.suptitle(title, fontsize=12)
    if blends is None:
        _plot_trust(figure.subplots(), diagnosis)
        return figure
    (trust, intrusion), (labels, trial) = figure.subplots(2, 2)
    _plot_trust(trust, diagnosis)
    _plot_intrusion(figure, intrusion, diagnosis, blends)
    _plot_labels(labels, diagnosis, blends)
    _plot_trial(trial, diagnosis)
    return figure


def _plot_trust(ax: Axes, diagnosis: Diagnosis) -> None:
    """Log-losses of the stacked density and its rivals, with the intervals of how far they are from it."""
    trust = diagnosis.trust
    rows: list[tuple[str, float, Any]] = [
        ("stacked density", trust.label_model, None),
        ("logistic regression", trust.plain, trust.over_plain),
        ("class shares", trust.shares, trust.over_shares),
    ]
    for place, (_, value, gap) in enumerate(rows):
        ax.barh(place, value, color=OKABE_ITO[0] if gap is None else "#bbbbbb", height=0.6)
        end = value
        if gap is not None and np.isfinite(gap.low):
            end = max(value, trust.label_model + gap.high)
            ax.plot([trust.label_model + gap.low, end], [place, place], color="black", linewidth=1.5)
        ax.annotate(f"{value:.3f}", (end, place), xytext=(5, 0), textcoords="offset points", va="center", fontsize=9)
    ax.margins(x=0.14)
    ax.set_xlim(left=0.0)
    ax.axvline(trust.label_model, color=OKABE_ITO[0], linewidth=1.0, linestyle=":")
    ax.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    ax.invert_yaxis()
    ax.set_xlabel(
        f"← held-out log-loss (nats, {trust.rows} rows): lower is better\nlines: 95 % interval, from the stacked "
        f"density on"
    )
    said = "is trusted" if trust.trusted else "is not trusted"
    _dress(ax, f"The stacked density {said}")


def _plot_intrusion(figure: Figure, ax: Axes, diagnosis: Diagnosis, blends: MixedSampleStats) -> None:
    """How often blends land among another class: a table of the pairs, or bars of the worst of many."""
    pairs = diagnosis.to_frame("pairs", None)
    whole = overall(blends)["intrusion"]
    title = f"Blends among another class: {100 * whole:.1f} %\n({100 * blends.chance:.1f} % with permuted labels)"
    if len(diagnosis.classes) <= FEW:
        _plot_table(figure, ax, short_names(diagnosis.classes, LONGEST), pairs)
        ax.set_title(title, fontsize=10)
        return
    worst = pairs.head(10)
    place = np.arange(len(worst))
    ax.barh(place, worst["intrusion"], color=OKABE_ITO[1], height=0.6)
    ax.hlines(place, worst["low"], worst["high"], color="black", linewidth=1.5)
    ax.plot(worst["permuted"], place, "|", color=GREY, markersize=12, markeredgewidth=2)
    short = short_names(diagnosis.classes, LONGEST - 6)
    names = zip(worst["class_1"], worst["class_2"], strict=True)
    ax.set_yticks(place, [f"{short[one]} with {short[other]}" for one, other in names])
    ax.invert_yaxis()
    ax.set_xlabel("share of blends; line: 95 % interval;\ngrey: with permuted labels")
    _dress(ax, title)


def _plot_table(figure: Figure, ax: Axes, short: dict[Any, str], pairs: pd.DataFrame) -> None:
    """A cell for each pair of classes: its share and interval."""
    names = list(short)
    place = {name: number for number, name in enumerate(names)}
    shares = np.full((len(names), len(names)), np.nan)
    size, top = 9 if len(names) <= 4 else 7, max(0.3, float(pairs["intrusion"].max()))
    columns = ["class_1", "class_2", "intrusion", "low", "high"]
    for one, other, share, low, high in pairs[columns].to_numpy(dtype=object).tolist():
        i, j = place[other], place[one]
        shares[i, j] = share
        text, color = (
            f"{100 * share:.0f} %\n{100 * low:.0f} to {100 * high:.0f}",
            "white" if share > 0.6 * top else "#111111",  # and not black, which a dark page would turn white
        )
        ax.text(j, i, text, ha="center", va="center", fontsize=size, color=color)
    image = ax.imshow(shares, cmap="Oranges", vmin=0.0, vmax=top, aspect="auto")
    figure.colorbar(image, ax=ax, label="share of blends", shrink=0.8)
    ax.set_xticks(
        range(len(names)), short.values(), rotation=0 if max(map(len, short.values())) * len(names) < 45 else 20
    )
    ax.set_yticks(range(len(names)), short.values())
    ax.set_xlabel("class of one parent, and of the other (rows);\nbelow the share: 95 % interval, in %")


def _plot_labels(ax: Axes, diagnosis: Diagnosis, blends: MixedSampleStats) -> None:
    """How far the two labels are apart along lambda, for the pairs where they are furthest."""
    lambdas, pairs, short = blends.lambdas, blends.pairs, short_names(diagnosis.classes, LONGEST - 6)
    worst = pairs.sort_values("total_variation", ascending=False).head(CURVES)
    weighed = lambdas.merge(pairs[["class_1", "class_2", "weight"]], on=["class_1", "class_2"])
    mass = weighed["weight"] * weighed["blends"]
    cells = [weighed["lam_low"], weighed["lam_high"]]
    every = (mass * weighed["total_variation"]).groupby(cells).sum() / mass.groupby(cells).sum()
    middles = [(low + high) / 2 for low, high in every.index]
    ax.plot(middles, every, "o-", color="black", linewidth=2, label="all blends")
    for color, one, other in zip(OKABE_ITO, worst["class_1"], worst["class_2"], strict=False):
        here = lambdas[(lambdas["class_1"] == one) & (lambdas["class_2"] == other)]
        middle = (here["lam_low"] + here["lam_high"]) / 2
        ax.plot(middle, here["total_variation"], "o--", color=color, label=f"{short[one]} with {short[other]}")
    ax.set(
        xlim=(0, 1),
        ylim=(0, 1.02),
        xlabel="lambda: weight of the first class",
        ylabel="total variation: 0 same, 1 disjoint",
    )
    ax.legend(fontsize=8, frameon=False, loc="best")
    _dress(ax, "How far mixup's label is from the stacked density's")


def _plot_trial(ax: Axes, diagnosis: Diagnosis) -> None:
    """Gains over vanilla, with intervals; affinity and diversity in words."""
    trial = diagnosis.trial
    if trial is None:
        ax.set_axis_off()
        return
    for place, name in enumerate(("mixup", "GenLabel")):
        gap = trial.gains[f"{name} over vanilla"]
        color = OKABE_ITO[0] if gap.low > 0 else OKABE_ITO[1] if gap.high < 0 else GREY
        ax.plot([gap.low, gap.high], [place, place], color=color, linewidth=3, solid_capstyle="round")
        ax.plot([gap.mean], [place], "D", color=color, markeredgecolor="white", markersize=8)
        text = f"affinity {trial.affinity[name]:.2f}, diversity {trial.diversity[name]:.2f}"
        ax.annotate(text, (gap.mean, place), xytext=(0, 10), textcoords="offset points", ha="center", fontsize=8,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0})  # fmt: skip
    ax.axvline(0.0, color="black", linewidth=1.0)
    ax.set_yticks([0, 1], ["mixup", "GenLabel"])
    ax.set_ylim(1.5, -0.6)
    reach = 1.15 * max(abs(end) for end in ax.get_xlim())
    ax.set_xlim(-reach, reach)
    ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.set_xlabel("gain in held-out log-loss over vanilla (nats):\nhigher is better →; line: 95 % interval")
    _dress(ax, f"Paired run: vanilla has log-loss {trial.log_loss['vanilla']:.3f}")


def _dress(ax: Axes, title: str) -> None:
    ax.set_title(title, fontsize=10)
    ax.grid(axis="x", color="#dddddd", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def short_names(classes: Any, longest: int) -> dict[Any, str]:
    """Return for each class its name in at most so many letters; with its number, where two begin alike.

    >>> short_names(["lily", "lily of the valley", "lily of the Nile"], 12)
    {'lily': 'lily', 'lily of the valley': '2: lily of …', 'lily of the Nile': '3: lily of …'}
    """
    cut = [name if len(name) <= longest else name[: longest - 1] + "…" for name in map(str, classes)]
    found = {}
    for place, (key, name) in enumerate(zip(classes, cut, strict=True)):
        text = name if cut.count(name) == 1 else f"{place + 1}: {name[: longest - 4]}…"
        found[key] = text.replace("$", r"\$")
    return found
