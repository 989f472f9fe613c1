"""The methods over all datasets at once: mean ranks with a critical difference, and Bayesian signed ranks."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import friedmanchisquare, studentized_range

from genlabel.reporting.figures import DPI, OKABE_ITO, RIVALS
from genlabel_paper.experiments.table2 import EXPERIMENT as TABLE2
from genlabel_paper.experiments.table3 import EXPERIMENT as TABLE3
from genlabel_paper.paired import mean_scores, pair_trials
from genlabel_paper.report.experiment import Experiment, of_cells
from genlabel_paper.report.pieces import Grid, Picture, Shown, computed
from genlabel_paper.runs.manifest import study_sets
from genlabel_paper.runs.methods import TITLES

REFERENCE = "genlabel-cv"
_TRAINED = {cell.method for table in (TABLE2, TABLE3) for cell in table.cells("smoke")}
ON_EVERY_SET = tuple(key for key in TITLES if key in _TRAINED)
"""The methods that tables 2 and 3 train on each set of the study."""
ROPE = 0.5
"""Points of accuracy within which two methods are practically the same."""
SAMPLES = 10_000
COVERED = 0.9
"""A method takes part if it has this share of the datasets that the reference has."""
FEWEST = 10
"""Datasets below which nothing is tested."""


def study_means(records: pd.DataFrame) -> pd.DataFrame:
    """Return mean accuracies: a line for each set of the study that every method has, a column for each method.

    A method that is missing on many of the sets is left out, so that the sets remain.

    >>> records = pd.DataFrame({"dataset": "36", "method": ["mixup", "genlabel-cv"], "accuracy": [90.0, 91.0]})
    >>> study_means(records.assign(setting="logistic", alpha=1.0, split=0, seed=0)).loc["36"].to_dict()
    {'mixup': 90.0, 'genlabel-cv': 91.0}
    """
    chosen = of_cells(records, "logistic")
    chosen = chosen[chosen["dataset"].isin(study_sets())]
    known = len(pair_trials(chosen, "accuracy", [REFERENCE]))
    if not known:
        return pd.DataFrame()
    shared = {name: len(pair_trials(chosen, "accuracy", [REFERENCE, name])) for name in ON_EVERY_SET}
    kept = [name for name, count in shared.items() if count / known >= COVERED]
    return mean_scores(pair_trials(chosen, "accuracy", kept))


def critical_difference(sets: int, methods: int, level: float = 0.05) -> float:
    """Return how far two mean ranks must lie apart to differ by Nemenyi's test (Demšar, 2006).

    >>> round(critical_difference(sets=30, methods=4), 2)
    0.86
    """
    quantile = float(studentized_range.ppf(1.0 - level, methods, np.inf)) / np.sqrt(2.0)
    return float(quantile * np.sqrt(methods * (methods + 1) / (6.0 * sets)))


def plot_ranks(means: pd.DataFrame) -> Figure:
    """Draw the critical-difference diagram: mean ranks, and bars over methods that Nemenyi's test does not tell apart.

    Parameters
    ----------
    means : DataFrame
        A line for each dataset, a column for each method; higher is better.
    """
    posthocs = _library("scikit_posthocs")
    titled = means.rename(columns=TITLES).reset_index(drop=True).rename_axis(columns=None)
    ranks = _mean_ranks(titled)
    figure = Figure(figsize=(9.6, 1.6 + 0.3 * len(ranks)), dpi=DPI, layout="constrained")
    ax = figure.subplots()
    palette = {name: OKABE_ITO[0] if name == TITLES[REFERENCE] else "black" for name in ranks.index}
    posthocs.critical_difference_diagram(
        ranks,
        posthocs.posthoc_nemenyi_friedman(titled),
        ax=ax,
        color_palette=palette,
        label_fmt_left="{label} ({rank:.2f}) ",
        label_fmt_right=" ({rank:.2f}) {label}",
        label_props={"fontsize": 9},
        text_h_margin=0.15,
    )
    for bar in (line for line in ax.lines if np.ptp(np.asarray(line.get_ydata())) == 0.0):
        bar.set_xdata(np.sort(np.asarray(bar.get_xdata())))  # the library's order is that of a set, another in each run
    figure.suptitle(f"Mean rank of test accuracy over {len(means)} sets: lower is better", fontsize=11)
    return figure


def signed_ranks(means: pd.DataFrame, samples: int | None = None, seed: int = 0) -> pd.DataFrame:
    """Compare GenLabel (CV) with each rival by the Bayesian signed-rank test (Benavoli et al., 2014).

    Returns
    -------
    DataFrame
        A line for each rival: the probabilities, in percent, that "higher", "same" (within half a point) and "lower"
        is the likeliest on a dataset.
    """
    baycomp = _library("baycomp")
    draws = SAMPLES if samples is None else samples
    reference = means[REFERENCE].to_numpy(dtype=float)
    rivals = [name for name in means if name != REFERENCE]
    found = [
        baycomp.SignedRankTest.probs(
            reference, means[name].to_numpy(dtype=float), ROPE, nsamples=draws, random_state=seed
        )
        for name in rivals
    ]
    return pd.DataFrame(100.0 * np.array(found).reshape(-1, 3), index=rivals, columns=["higher", "same", "lower"])


def plot_signed_ranks(shares: pd.DataFrame) -> Figure:
    """Draw the probabilities of `signed_ranks` as bars, one for each rival.

    >>> shares = pd.DataFrame([[90.0, 8.0, 2.0]], index=["mixup"], columns=["higher", "same", "lower"])
    >>> [tick.get_text() for tick in plot_signed_ranks(shares).axes[0].get_yticklabels()]
    ['Mixup']
    """
    figure = Figure(figsize=(8.4, 1.5 + 0.42 * len(shares)), dpi=DPI, layout="constrained")
    ax = figure.subplots()
    left = np.zeros(len(shares))
    labels = {"higher": "GenLabel (CV) higher", "same": f"within {ROPE:g} points", "lower": "rival higher"}
    for color, (name, label) in zip(RIVALS, labels.items(), strict=True):
        widths = shares[name].to_numpy(dtype=float)
        bars = ax.barh(np.arange(len(shares)), widths, left=left, color=color, edgecolor="white", label=label)
        words = [f"{width:.0f}" if width >= 6.0 else "" for width in widths]
        ax.bar_label(bars, words, label_type="center", color="#111111" if name == "same" else "white", fontsize=9)
        left = left + widths
    ax.set_yticks(range(len(shares)), [TITLES[str(name)] for name in shares.index], fontsize=9)
    ax.invert_yaxis()
    ax.set(xlim=(0, 100), xlabel="posterior probability (%)")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.suptitle("GenLabel (CV) against each rival: Bayesian signed-rank test", fontsize=11)
    return figure


def render(records: pd.DataFrame) -> Shown:
    """Show ranks and probabilities over all sets of the study; a part whose library is missing says so.

    >>> render(pd.DataFrame()).notes
    ['Fewer than 10 sets have every method: nothing is tested.']
    """
    means = study_means(records)
    if len(means) < FEWEST or means.shape[1] < 3:
        return Shown(notes=[f"Fewer than {FEWEST} sets have every method: nothing is tested."])
    grids, notes = [_rank_grid(means)], [_friedman(means)]
    pictures: list[Picture] = []
    for part in (_ranks, _bayes):
        try:
            more, picture, note = part(means)
        except ImportError as error:
            notes.append(f"Left out: {error}")
            continue
        grids, pictures, notes = grids + more, [*pictures, picture], [*notes, note]
    return Shown(grids, pictures=pictures, notes=notes)


def _ranks(means: pd.DataFrame) -> tuple[list[Grid], Picture, str]:
    gap = critical_difference(len(means), means.shape[1])
    caption = "Critical-difference diagram: a bar joins methods that Nemenyi's test does not tell apart at 5 %."
    note = f"Critical difference of the mean ranks at 5 % (Nemenyi): {gap:.2f}."
    ranks = _mean_ranks(means)
    alt = "Mean ranks: " + ", ".join(f"{TITLES[str(name)]} {rank:.2f}" for name, rank in ranks.items())
    return [], Picture(caption, plot_ranks(means), alt), note


def _bayes(means: pd.DataFrame) -> tuple[list[Grid], Picture, str]:
    shares = signed_ranks(means)
    titles = {"higher": "GenLabel (CV) higher", "same": f"Within {ROPE:g} points", "lower": "Rival higher"}
    columns = [TITLES[str(name)] for name in shares.index]
    rows = [(title, [computed(share) for share in shares[name]]) for name, title in titles.items()]
    grid = Grid("Bayesian signed-rank test of GenLabel (CV)", columns, rows, corner="against", digits=1)
    caption = (
        f"Probability that each outcome is the likeliest on a dataset; differences within {ROPE:g} points are none."
    )
    note = f"Bayesian signed-rank test: {SAMPLES:,} draws with seed 0, on the mean accuracy of each set."
    return [grid], Picture(caption, plot_signed_ranks(shares)), note


def _rank_grid(means: pd.DataFrame) -> Grid:
    """Mean rank and mean accuracy of each method, the best rank first."""
    ranks = _mean_ranks(means)
    columns = [TITLES[str(name)] for name in ranks.index]
    accuracy = [computed(float(means[name].mean())) for name in ranks.index]
    rows = [("Mean rank", [computed(float(rank)) for rank in ranks]), ("Mean accuracy (%)", accuracy)]
    return Grid(f"Ranks over {len(means)} sets", columns, rows, "", corner="method")


def _mean_ranks(means: pd.DataFrame) -> pd.Series[float]:
    """The mean rank of each method over the sets, the best first."""
    return means.rank(axis=1, ascending=False).mean().sort_values(kind="stable")


def _friedman(means: pd.DataFrame) -> str:
    p = float(friedmanchisquare(*(means[name].to_numpy() for name in means)).pvalue)
    sets, methods = means.shape
    return f"{sets} sets have each of the {methods} methods. Friedman's test that all are equal: p = {p:.2g}."


def _library(name: str) -> Any:
    """Import a library of the extra `stats`, or say how to get it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f'{name} is not installed; pip install "genlabel[stats]"') from error


EXPERIMENT = Experiment(
    "statistics",
    "Over all datasets",
    "not in the paper: Table 3's records, tested",
    TABLE3.cells,
    render,
    part="ours",
)
