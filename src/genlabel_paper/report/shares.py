"""On which share of the datasets a method is higher than a rival, on par, or lower; and the 95 % filter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import pandas as pd

from genlabel_paper.paired import WinTieLoss, count_wins, pair_trials
from genlabel_paper.report.experiment import PrintedValues, of_cells
from genlabel_paper.report.pieces import FULL, NOTHING, Claim, Grid, Measured, Value
from genlabel_paper.runs.manifest import manifest, study_sets
from genlabel_paper.runs.methods import keys_of

FILTERED = "sets on which a generative model fits"
UNFILTERED = "all sets of the study"
STUDY_NOTES = (
    "Filtered: sets where Gaussians or the kernel estimator have over 95 % of training accuracy, mean over the splits; "
    "109 of 160 in the paper. It does not list them.",
    f"All: the {len(study_sets())} sets that the paper's authors name and that are at hand.",
    "The ± of a share is its standard error, from the number of sets.",
)
WIDTH = 0.5
"""Points within which two methods are on par, if not said otherwise."""
SHARES = ("higher", "on-par", "lower")
"""The lines of a table of shares."""
FIT = 95.0
"""Percent of training accuracy above which a generative model fits (arXiv Section 6)."""
ENOUGH = 0.9
"""Of the datasets, the share that must be measured before a statement about all is checked."""


def gains(records: pd.DataFrame, a: str, b: str, datasets: Sequence[str], metric: str = "accuracy") -> pd.Series[float]:
    """Return the mean difference of two methods for each dataset, over the splits and seeds that both have.

    The records are of one setting and alpha; a dataset without such a pair is left out.

    >>> records = pd.DataFrame({"dataset": "61", "method": ["a", "b"], "split": 0, "seed": 0, "accuracy": [90.0, 88.0]})
    >>> gains(records, "a", "b", ["61", "36"]).to_dict()
    {'61': 2.0}
    """
    chosen = records[records["method"].isin([a, b]) & records["dataset"].isin(list(datasets))]
    if metric not in chosen or not len(chosen):
        return pd.Series(dtype=float)
    pairs = pair_trials(chosen, metric, [a, b])
    groups = (pairs[a] - pairs[b]).groupby("dataset")
    found = groups.mean().reindex([name for name in datasets if name in groups.groups])
    found.attrs["trials"] = int(groups.size().min()) if len(found) else 0
    return found


def tell_shares(gain: pd.Series[float], width: float = WIDTH) -> str:
    """Say on which shares of the datasets a gain is above `width`, within it, and below.

    >>> tell_shares(pd.Series([0.6, 0.5, -0.1, -3.0]))
    'higher on 25.0 %, on par on 50.0 %, lower on 25.0 % of 4 sets'
    """
    found = count_wins(gain, width)
    if not found.sets:
        return NOTHING
    higher, on_par, lower = found.percent
    return f"higher on {higher:.1f} %, on par on {on_par:.1f} %, lower on {lower:.1f} % of {found.sets} sets"


def fitted_sets(records: pd.DataFrame) -> list[str]:
    """Return the datasets that pass the paper's filter: a generative model has over 95 % of training accuracy.

    NOTE[PAPER]: the mean over the splits counts; the paper does not say how many splits it takes.

    >>> records = pd.DataFrame({"dataset": ["61", "36"], "method": "generative-gm", "train_accuracy": [96, 90]})
    >>> fitted_sets(records.assign(setting="logistic", alpha=1.0))
    ['61']
    """
    fitted = of_cells(records, "logistic")
    fitted = fitted[fitted["method"].isin(keys_of("generative"))]
    if "train_accuracy" not in fitted or not len(fitted):
        return []
    best = fitted.groupby(["dataset", "method"])["train_accuracy"].mean().groupby("dataset").max()
    return [str(name) for name in best.index[best > FIT]]


@cache
def low_dimensional(classes: int = 2) -> list[str]:
    """Return the sets of the study with at most 20 features and at least so many classes.

    >>> len(low_dimensional()), len(low_dimensional(classes=3))
    (127, 16)
    """
    lines = manifest().loc[study_sets()]
    return [str(name) for name in lines.index[(lines["d"] <= 20) & (lines["k"] >= classes)]]


def share_grid(
    title: str,
    gain: Mapping[str, pd.Series[float]],
    paper: PrintedValues,
    width: float = WIDTH,
    titles: Mapping[str, str] | None = None,
    corner: str = "against",
) -> Grid:
    """Return a table of shares: higher, on par and lower, for each rival.

    The spread of ours is the standard error of a share of so many datasets.

    Parameters
    ----------
    title : str
    gain : dict of str -> Series
        For each rival, the differences by dataset.
    paper : dict of (share, rival) -> Printed
    width : float
        Differences within this many points are on par.
    titles : dict of str -> str, optional
        How the rivals are called.
    corner : str
        What the columns are.

    Examples
    --------
    >>> share_grid("Shares", {"mixup": pd.Series([1.0, -1.0])}, {}).rows[0][1][0].ours.mean
    50.0
    """
    within, below = (f"within {width:g}", f"-{width:g}") if width else ("= 0", "0")
    names = (f"Higher (> {width:g})", f"On par ({within})", f"Lower (< {below})")
    counts = {rival: count_wins(values, width) for rival, values in gain.items()}
    rows = [(name, [_value(counts[rival], line, paper, rival) for rival in gain]) for line, name in enumerate(names)]
    about = {(titles or {}).get(rival, rival): f"{found.sets} sets" for rival, found in counts.items()}
    return Grid(title, list(about), rows, "% of the datasets", corner=corner, digits=1, about=about)


def share_claim(
    text: str,
    printed: str,
    gain: pd.Series[float],
    enough: bool,
    test: Callable[[WinTieLoss], bool],
    width: float = WIDTH,
    *,
    brief: str = "",
) -> Claim:
    """Check a statement about shares; without enough datasets nothing can be said.

    >>> share_claim("More often higher.", "60 %", pd.Series([1.0, 2.0]), True, lambda found: found.better > 0).holds
    True
    """
    found = count_wins(gain, width)
    holds = test(found) if enough and found.sets else None
    return Claim(text, printed, tell_shares(gain, width), holds, gain.attrs.get("trials", FULL), brief=brief)


def are_enough(gain: pd.Series[float], datasets: Sequence[str]) -> bool:
    """Are nearly all of the datasets measured?

    >>> are_enough(pd.Series([1.0]), ["61", "36"])
    False
    """
    return len(gain) >= ENOUGH * len(datasets)


def _value(found: WinTieLoss, line: int, paper: PrintedValues, rival: str) -> Value:
    printed = paper.get((SHARES[line], rival))
    if not found.sets:
        return Value(None, printed, "not run")
    share = found.percent[line]
    pulled = (found[line] + 1) / (found.sets + 2)  # a share of none, or of all, is not certain
    return Value(Measured(share, 100 * (pulled * (1 - pulled) / found.sets) ** 0.5, 0, 0), printed)
