"""Methods over all datasets: mean ranks with a critical difference, and Bayesian signed-rank tests."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import friedmanchisquare, studentized_range

from genlabel.reporting.charts import DPI
from genlabel.reporting.figures import OKABE_ITO, RIVALS
from genlabel_paper.experiments.table2 import EXPERIMENT as TABLE2
from genlabel_paper.experiments.table3 import EXPERIMENT as TABLE3
from genlabel_paper.paired import mean_scores, pair_trials
from genlabel_paper.report.experiment import Experiment, select_records
from genlabel_paper.report.results import CaptionedFigure, Grid, Rendering, computed
from genlabel_paper.runs.manifest import low_dimensional_datasets
from genlabel_paper.runs.methods import TITLES

REFERENCE = "genlabel-cv"
_TRAINED = {cell.method for table in (TABLE2, TABLE3) for cell in table.cells("smoke")}
ON_EVERY_SET = tuple(key for key in TITLES if key in _TRAINED)
"""Methods that tables 2 and 3 train on every low-dimensional dataset."""
ROPE = 0.5
"""Region of practical equivalence, in points of accuracy."""
SAMPLES = 10_000
TIE_DECIMALS = 9
"""Decimals of the means: equal accuracies summed in another order are ties, and share their mean rank."""
MIN_COVERAGE = 0.9
"""Fraction of the datasets of the reference that a method needs to be compared."""
MIN_DATASETS = 25
"""Smallest number of datasets of a test; the 20 of tables 1, 4 and 5 were chosen for what comes out on them."""


def study_means(records: pd.DataFrame) -> pd.DataFrame:
    """Return mean accuracies: a line for each low-dimensional dataset that every method has, a column for each method.

    Methods that are missing on many datasets are left out, to keep the datasets.

    >>> records = pd.DataFrame({"dataset": "36", "method": ["mixup", "genlabel-cv"], "accuracy": [90.0, 91.0]})
    >>> study_means(records.assign(setting="logistic", alpha=1.0, split=0, seed=0)).loc["36"].to_dict()
    {'mixup': 90.0, 'genlabel-cv': 91.0}
    """
    chosen = select_records(records, "logistic")
    chosen = chosen[chosen["dataset"].isin(low_dimensional_datasets())]
    known = len(pair_trials(chosen, "accuracy", [REFERENCE]))
    if not known:
        return pd.DataFrame()
    shared = {name: len(pair_trials(chosen, "accuracy", [REFERENCE, name])) for name in ON_EVERY_SET}
    methods = [name for name, count in shared.items() if count / known >= MIN_COVERAGE]
    means = mean_scores(pair_trials(chosen, "accuracy", methods))
    return means.round(TIE_DECIMALS)


def critical_difference(datasets: int, methods: int, level: float = 0.05) -> float:
    """Return the smallest significant difference of two mean ranks by Nemenyi's test (Demšar, 2006).

    >>> round(critical_difference(datasets=30, methods=4), 2)
    0.86
    """
    quantile = float(studentized_range.ppf(1.0 - level, methods, np.inf)) / np.sqrt(2.0)
    return float(quantile * np.sqrt(methods * (methods + 1) / (6.0 * datasets)))


def plot_ranks(means: pd.DataFrame) -> Figure:
    """Plot the critical-difference diagram: mean ranks, and bars over methods that do not differ by Nemenyi's test.

    Parameters
    ----------
    means : DataFrame
        One line per dataset, one column per method; higher is better.
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
    for line in ax.lines:  # the library draws bars in the order of a set, which differs between runs
        if np.ptp(np.asarray(line.get_ydata())) == 0.0:
            line.set_xdata(np.sort(np.asarray(line.get_xdata())))
    figure.suptitle(f"Mean rank of test accuracy over {len(means)} datasets: lower is better", fontsize=11)
    return figure


def signed_ranks(means: pd.DataFrame, samples: int | None = None, seed: int = 0) -> pd.DataFrame:
    """Compare GenLabel (CV) with each rival by the Bayesian signed-rank test (Benavoli et al., 2014).

    Returns
    -------
    DataFrame
        One line per rival: the probabilities, in percent, that "higher", "same" (within half a point) and "lower"
        is most likely on a dataset.
    """
    baycomp = _library("baycomp")
    draws = SAMPLES if samples is None else samples
    reference = means[REFERENCE].to_numpy(dtype=float)
    rivals = [name for name in means if name != REFERENCE]
    percent = [
        baycomp.SignedRankTest.probs(
            reference, means[name].to_numpy(dtype=float), ROPE, nsamples=draws, random_state=seed
        )
        for name in rivals
    ]
    return pd.DataFrame(100.0 * np.array(percent).reshape(-1, 3), index=rivals, columns=["higher", "same", "lower"])


def plot_signed_ranks(probabilities: pd.DataFrame) -> Figure:
    """Plot the probabilities of `signed_ranks` as bars, one for each rival.

    >>> shares = pd.DataFrame([[90.0, 8.0, 2.0]], index=["mixup"], columns=["higher", "same", "lower"])
    >>> [tick.get_text() for tick in plot_signed_ranks(shares).axes[0].get_yticklabels()]
    ['Mixup']
    """
    figure = Figure(figsize=(8.4, 1.5 + 0.42 * len(probabilities)), dpi=DPI, layout="constrained")
    ax = figure.subplots()
    left = np.zeros(len(probabilities))
    labels = {"higher": "GenLabel (CV) higher", "same": f"within {ROPE:g} points", "lower": "rival higher"}
    for color, (name, label) in zip(RIVALS, labels.items(), strict=True):
        widths = probabilities[name].to_numpy(dtype=float)
        bars = ax.barh(np.arange(len(probabilities)), widths, left=left, color=color, edgecolor="white", label=label)
        words = [f"{width:.0f}" if width >= 6.0 else "" for width in widths]
        ax.bar_label(bars, words, label_type="center", color="#111111" if name == "same" else "white", fontsize=9)
        left = left + widths
    ax.set_yticks(range(len(probabilities)), [TITLES[str(name)] for name in probabilities.index], fontsize=9)
    ax.invert_yaxis()
    ax.set(xlim=(0, 100), xlabel="posterior probability (%)")
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.suptitle("GenLabel (CV) against each rival: Bayesian signed-rank test", fontsize=11)
    return figure


def render(records: pd.DataFrame) -> Rendering:
    """Show ranks and probabilities over the low-dimensional datasets, with a note where a package is missing.

    >>> render(pd.DataFrame()).notes
    ['Fewer than 25 datasets have every method: nothing is tested.']
    """
    means = study_means(records)
    if len(means) < MIN_DATASETS or means.shape[1] < 3:
        return Rendering(notes=[f"Fewer than {MIN_DATASETS} datasets have every method: nothing is tested."])
    grids, notes = [_rank_grid(means)], [_friedman(means)]
    figures: list[CaptionedFigure] = []
    for test in (_nemenyi, _bayes):
        try:
            new_grids, figure, note = test(means)
        except ImportError as error:
            notes.append(f"Left out: {error}")
            continue
        grids += new_grids
        figures.append(figure)
        notes.append(note)
    return Rendering(grids, figures=figures, notes=notes)


def _nemenyi(means: pd.DataFrame) -> tuple[list[Grid], CaptionedFigure, str]:
    difference = critical_difference(len(means), means.shape[1])
    caption = "Critical-difference diagram: a bar joins methods that Nemenyi's test does not tell apart at 5 %."
    note = f"Critical difference of the mean ranks at 5 % (Nemenyi): {difference:.2f}."
    ranks = _mean_ranks(means)
    alt = "Mean ranks: " + ", ".join(f"{TITLES[str(name)]} {rank:.2f}" for name, rank in ranks.items())
    return [], CaptionedFigure(caption, plot_ranks(means), alt), note


def _bayes(means: pd.DataFrame) -> tuple[list[Grid], CaptionedFigure, str]:
    probabilities = signed_ranks(means)
    titles = {"higher": "GenLabel (CV) higher", "same": f"Within {ROPE:g} points", "lower": "Rival higher"}
    columns = [TITLES[str(name)] for name in probabilities.index]
    rows = [(title, [computed(share) for share in probabilities[name]]) for name, title in titles.items()]
    grid = Grid("Bayesian signed-rank test of GenLabel (CV)", columns, rows, corner="against", digits=1)
    caption = f"Probability that each outcome is most likely on a dataset; differences within {ROPE:g} points are none."
    note = f"Bayesian signed-rank test: {SAMPLES:,} draws with seed 0, on the mean accuracy of each dataset."
    return [grid], CaptionedFigure(caption, plot_signed_ranks(probabilities)), note


def _rank_grid(means: pd.DataFrame) -> Grid:
    """Return mean rank and mean accuracy of each method, the best rank first."""
    ranks = _mean_ranks(means)
    columns = [TITLES[str(name)] for name in ranks.index]
    accuracy = [computed(float(means[name].mean())) for name in ranks.index]
    rows = [("Mean rank", [computed(float(rank)) for rank in ranks]), ("Mean accuracy (%)", accuracy)]
    return Grid(f"Ranks over {len(means)} datasets", columns, rows, "", corner="method")


def _mean_ranks(means: pd.DataFrame) -> pd.Series[float]:
    """Return the mean rank of each method over the datasets, the best first."""
    return means.rank(axis=1, ascending=False).mean().sort_values(kind="stable")


def _friedman(means: pd.DataFrame) -> str:
    p = float(friedmanchisquare(*(means[name].to_numpy() for name in means)).pvalue)
    datasets, methods = means.shape
    return f"{datasets} datasets have each of the {methods} methods. Friedman's test that all are equal: p = {p:.2g}."


def _library(name: str) -> Any:
    """Import a package of the extra `stats`, or raise with a hint."""
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
    section="ours",
)
