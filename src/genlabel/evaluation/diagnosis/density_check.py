"""Trust: whether the stacked density knows more of the classes than their shares, and no less than a plain
classifier."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from genlabel._splits import grouped_folds, round_robin_folds, training_rows
from genlabel.densities import StackedDensity
from genlabel.evaluation.diagnosis.intervals import Gap, mean_gap
from genlabel.metrics import LEAST_PROBABILITY

FOLDS = 6
PART = 0.1
"""The part of what a plain classifier has gained over the class shares that the stacked density may be behind it."""

Values = NDArray[np.float64]


class DensityCheck(NamedTuple):
    """Held-out log-loss of the stacked density, beside that of the class shares and of logistic regression.

    It is the `trust` of what `diagnose` returns.
    """

    trusted: bool
    reasons: list[str]
    rows: int
    """Rows that were held out, once each."""
    label_model: float
    plain: float
    """Of logistic regression."""
    shares: float
    over_shares: Gap
    """How much lower the stacked density's log-loss is than that of the class shares."""
    over_plain: Gap
    """How much lower it is than that of the plain classifier."""


def measure_trust(
    model: StackedDensity, points: Values, index: NDArray[np.intp], seed: int, groups: NDArray[np.intp] | None = None
) -> DensityCheck:
    """Measure a fitted stacked density by its own held-out rows.

    Parameters
    ----------
    model : StackedDensity
        Fitted to `points` and `index`.
    points : array (n, d)
        Standardised.
    index : array (n,)
        Class numbers.
    seed : int
        Of the folds of the plain classifier.
    groups : array (n,), optional
        Numbers of groups that are held out together.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> index = np.repeat([0, 1], 40)
    >>> points = rng.normal(size=(80, 2)) + 3 * index[:, None]
    >>> measure_trust(StackedDensity("default").fit(points, index), points, index, 0).trusted
    True
    """
    count = min(FOLDS, len(index))
    number = round_robin_folds(index, count, seed) if groups is None else grouped_folds(index, groups, count, seed)
    plain, shares = _rivals(points, index, number)
    seen = np.flatnonzero(~np.isnan(model.held_out_).any(1) & ~np.isnan(plain))
    if len(seen) < 2:
        reason = f"only {len(seen)} rows could be held out; the stacked density cannot be judged"
        nan = float("nan")
        return DensityCheck(False, [reason], len(seen), nan, nan, nan, Gap(nan, nan, nan), Gap(nan, nan, nan))
    own = -np.maximum(model.held_out_[seen, index[seen]], np.log(LEAST_PROBABILITY))
    plain, shares = plain[seen], shares[seen]
    over_shares, over_plain = mean_gap(shares, own), mean_gap(plain, own)
    means = float(own.mean()), float(plain.mean()), float(shares.mean())
    return DensityCheck(*_judge(means, over_shares, over_plain), len(seen), *means, over_shares, over_plain)


def _judge(means: tuple[float, float, float], over_shares: Gap, over_plain: Gap) -> tuple[bool, list[str]]:
    """Trusted if it beats the shares beyond the noise, and is not clearly far behind the plain classifier."""
    own, plain, shares = means
    allowed = PART * max(0.0, shares - plain)
    knows, keeps_up = over_shares.low > 0.0, over_plain.high >= -allowed
    if knows and keeps_up:
        return True, [f"the stacked density knows the classes: held-out log-loss {own:.3f}, class shares {shares:.3f}"]
    reasons = []
    if not knows:
        reasons.append(
            f"the stacked density does not beat the class shares beyond the noise: held-out log-loss {own:.3f} against "
            f"{shares:.3f}"
        )
    if not keeps_up:
        reasons.append(
            f"a plain logistic regression is clearly better than the stacked density: held-out log-loss {plain:.3f} "
            f"against {own:.3f}"
        )
    return False, reasons


def _rivals(points: Values, index: NDArray[np.intp], number: NDArray[np.intp]) -> tuple[Values, Values]:
    """Held-out losses (n,) of logistic regression and of the class shares; NaN for a row that had to be trained on."""
    k = int(index.max()) + 1
    plain, shares = np.full(len(index), np.nan), np.full(len(index), np.nan)
    for fold in np.unique(number[number >= 0]):
        train = training_rows(np.flatnonzero(number != fold), index)
        asked = ~train
        if not asked.any():
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = LogisticRegression(max_iter=1000).fit(points[train], index[train])
        logs = np.maximum(fitted.predict_log_proba(points[asked]), np.log(LEAST_PROBABILITY))
        plain[asked] = -logs[np.arange(asked.sum()), index[asked]]
        share = np.bincount(index[train], minlength=k) / train.sum()
        shares[asked] = -np.log(share)[index[asked]]
    return plain, shares
