"""Win rates: percentage of datasets on which a method is higher than another, on par, or lower; the 95 % filter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genlabel_paper.paired import EXACT, WinTieLoss, count_wins, pair_trials
from genlabel_paper.report.experiment import select_records
from genlabel_paper.report.results import (
    FULL_TRIALS,
    NOTHING_MEASURED,
    Claim,
    Grid,
    Measured,
    PrintedValues,
    Value,
)
from genlabel_paper.report.verdicts import (
    CREDIT,
    FULL_COVERAGE,
    MIN_COVERAGE,
    central_interval,
    decide,
    resampled_means,
)
from genlabel_paper.runs.manifest import MAX_FEATURES, ROWS_LIMIT, copies, dataset_title, low_dimensional_datasets
from genlabel_paper.runs.methods import keys_of

FILTERED = "datasets on which a generative model fits"
UNFILTERED = "all low-dimensional datasets"
STUDY_NOTES = (
    "Filtered: datasets where Gaussians or the kernel estimator have over 95 % of training accuracy, mean over the "
    "splits; 109 of 160 in the paper. It does not list them.",
    f"All: the {len(low_dimensional_datasets())} classification datasets of the cache with at most {MAX_FEATURES} "
    f"features and fewer than {ROWS_LIMIT:,} rows, by the paper's rule (Section 6); 160 in the paper, which lists none "
    "of them. It removes no copies, so these are counted too: "
    + ", ".join(f"{dataset_title(name)} of {dataset_title(origin)}" for name, origin in copies().items())
    + ".",
    "The ± of a percentage is its standard error, from the number of datasets.",
)
TIE_WIDTH = 0.5
"""Largest difference, in points of accuracy, of methods that are on par by default."""
OUTCOMES = ("higher", "on-par", "lower")
"""Lines of a table of win rates."""
FITTED_ACCURACY = 95.0
"""Training accuracy in percent above which a generative model fits (arXiv Section 6)."""


def paired_gains(
    records: pd.DataFrame, a: str, b: str, datasets: Sequence[str], metric: str = "accuracy"
) -> pd.Series[float]:
    """Return the mean difference of two methods on each dataset, over the splits and seeds that both have.

    The records have one setting and alpha; datasets without such pairs are left out.

    >>> records = pd.DataFrame({"dataset": "61", "method": ["a", "b"], "split": 0, "seed": 0, "accuracy": [90.0, 88.0]})
    >>> paired_gains(records, "a", "b", ["61", "36"]).to_dict()
    {'61': 2.0}
    """
    chosen = records[records["method"].isin([a, b]) & records["dataset"].isin(list(datasets))]
    if metric not in chosen or not len(chosen):
        return pd.Series(dtype=float)
    pairs = pair_trials(chosen, metric, [a, b])
    groups = (pairs[a] - pairs[b]).groupby("dataset")
    gain = groups.mean().reindex([name for name in datasets if name in groups.groups])
    gain.attrs["trials"] = int(groups.size().min()) if len(gain) else 0
    return gain


def draw_gains(records: pd.DataFrame, a: str, b: str, datasets: Sequence[str]) -> NDArray[np.float64]:
    """Return the gains of `paired_gains` in each draw of splits and seeds: a row for each draw, a column a dataset."""
    means = resampled_means(records, "accuracy", [a, b], datasets)
    gains = [(drawn[a] - drawn[b]).to_numpy() for _, drawn in means]
    return np.stack(gains, 1) if gains else np.empty((0, 0))


def describe_win_rates(gain: pd.Series[float], tie_width: float = TIE_WIDTH) -> str:
    """Return on how many percent of the datasets a gain is above `tie_width`, within it, and below.

    >>> describe_win_rates(pd.Series([0.6, 0.5, -0.1, -3.0]))
    'higher on 25.0 %, on par on 50.0 %, lower on 25.0 % of 4 datasets'
    """
    counts = count_wins(gain, tie_width)
    if not counts.sets:
        return NOTHING_MEASURED
    higher, on_par, lower = counts.percent
    return f"higher on {higher:.1f} %, on par on {on_par:.1f} %, lower on {lower:.1f} % of {counts.sets} datasets"


def well_fitted_datasets(records: pd.DataFrame) -> list[str]:
    """Return the datasets that pass the paper's filter: training accuracy of a generative model over 95 %.

    NOTE[PAPER]: the number of splits of the filter is not printed; this is the mean over all splits.

    >>> records = pd.DataFrame({"dataset": ["61", "36"], "method": "generative-gm", "train_accuracy": [96, 90]})
    >>> well_fitted_datasets(records.assign(setting="logistic", alpha=1.0))
    ['61']
    """
    fitted = select_records(records, "logistic")
    fitted = fitted[fitted["method"].isin(keys_of("generative"))]
    if "train_accuracy" not in fitted or not len(fitted):
        return []
    best = fitted.groupby(["dataset", "method"])["train_accuracy"].mean().groupby("dataset").max()
    return [str(name) for name in best.index[best > FITTED_ACCURACY]]


def win_rate_grid(
    title: str,
    gain: Mapping[str, pd.Series[float]],
    paper: PrintedValues,
    tie_width: float = TIE_WIDTH,
    titles: Mapping[str, str] | None = None,
    corner: str = "against",
) -> Grid:
    """Return a table of win rates: percentages of higher, on par and lower, for each compared method.

    The spread of ours is the standard error of the percentage.

    Parameters
    ----------
    title : str
    gain : dict of str -> Series
        Differences by dataset for each compared method.
    paper : dict of (outcome, method) -> Printed
    tie_width : float
        Largest difference in points that is on par.
    titles : dict of str -> str, optional
        Titles of the compared methods.
    corner : str
        Title of the columns.

    Examples
    --------
    >>> win_rate_grid("Win rates", {"mixup": pd.Series([1.0, -1.0])}, {}).rows[0][1][0].ours.mean
    50.0
    """
    within, below = (f"within {tie_width:g}", f"-{tie_width:g}") if tie_width else ("= 0", "0")
    names = (f"Higher (> {tie_width:g})", f"On par ({within})", f"Lower (< {below})")
    counts = {other: count_wins(values, tie_width) for other, values in gain.items()}
    rows = [(name, [_value(counts[other], line, paper, other) for other in gain]) for line, name in enumerate(names)]
    about = {(titles or {}).get(other, other): f"{count.sets} datasets" for other, count in counts.items()}
    return Grid(title, list(about), rows, "% of the datasets", corner=corner, digits=1, about=about)


def win_rate_claim(
    text: str,
    printed: str,
    gain: pd.Series[float],
    draws: NDArray[np.float64],
    coverage: float,
    margin: Callable[[WinTieLoss], float],
    tie_width: float = TIE_WIDTH,
    *,
    brief: str = "",
) -> Claim:
    """Return the statement that a margin of win rates is above 0, with a verdict.

    `coverage` is the fraction of the datasets that is measured: a few are none, not all give a preliminary verdict.

    >>> gain = pd.Series([1.0] * 9 + [-1.0])
    >>> win_rate_claim("Often higher.", "60 %", gain, np.tile(gain, (5, 1)), 1.0, lead).holds
    True
    """
    counts = count_wins(gain, tie_width)
    if not counts.sets or coverage < MIN_COVERAGE:
        return Claim(text, printed, NOTHING_MEASURED, None, brief=brief)
    trials = int(gain.attrs.get("trials", FULL_TRIALS))
    better, worse = (draws > tie_width + EXACT).sum(1), (draws < -tie_width - EXACT).sum(1)
    outcomes = zip(better.tolist(), worse.tolist(), strict=True)
    margins = [margin(WinTieLoss(more, counts.sets - more - less, less)) for more, less in outcomes]
    low, high = central_interval(np.array(margins))
    holds = decide((low, high), EXACT, trials)
    words = f"margin {margin(counts):+.1f} points, {CREDIT}: {low:+.1f} to {high:+.1f}"
    ours, short = (
        f"{describe_win_rates(gain, tie_width)}; {words}",
        "{0:.0f} %, {2:.0f} %".format(*counts.percent),
    )
    complete = coverage >= FULL_COVERAGE
    return Claim(text, printed, ours, holds, trials, brief=brief, short=short, complete=complete)


def lead(counts: WinTieLoss) -> float:
    """Return by how many percent of the datasets a method is more often higher than lower.

    >>> lead(WinTieLoss(6, 2, 2))
    40.0
    """
    return counts.percent[0] - counts.percent[2]


def share_above(percent: float) -> Callable[[WinTieLoss], float]:
    """Return the margin by which the percentage of datasets with a higher accuracy is above a value.

    >>> share_above(50.0)(WinTieLoss(6, 2, 2))
    10.0
    """
    return lambda counts: counts.percent[0] - percent


def share_measured(gain: pd.Series[float], datasets: Sequence[str]) -> float:
    """Return the fraction of the datasets that is measured.

    >>> share_measured(pd.Series([1.0]), ["61", "36"])
    0.5
    """
    return len(gain) / len(datasets)


def _value(counts: WinTieLoss, line: int, paper: PrintedValues, other: str) -> Value:
    """Return a win rate with its standard error, smoothed because 0 % and 100 % are not certain."""
    printed = paper.get((OUTCOMES[line], other))
    if not counts.sets:
        return Value(None, printed, "not run")
    smoothed = (counts[line] + 1) / (counts.sets + 2)
    error = 100 * (smoothed * (1 - smoothed) / counts.sets) ** 0.5
    return Value(Measured(counts.percent[line], error, 0, 0), printed)
