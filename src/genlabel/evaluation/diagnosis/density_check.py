"""Check of the stacked density on held-out rows against the class priors and a plain classifier."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from genlabel.data.folds import grouped_folds, round_robin_folds, training_rows
from genlabel.densities import StackedDensity
from genlabel.evaluation.diagnosis.intervals import MeanDifference, mean_difference
from genlabel.metrics import MIN_PROBABILITY

MAX_FOLDS = 6
MAX_LAG = 0.1
"""Share of the gain of logistic regression over the class priors that the stacked density may lag behind."""

Values = NDArray[np.float64]


class DensityCheck(NamedTuple):
    """Held-out log-loss of the stacked density, of logistic regression and of the class priors; all in nats.

    It is the `density_check` of a :class:`Diagnosis`.
    """

    trusted: bool
    reasons: list[str]
    rows: int
    """Number of rows that were held out, once each."""
    density: float
    """Log-loss of the stacked density."""
    logistic: float
    """Log-loss of logistic regression."""
    prior: float
    """Log-loss of the class priors."""
    over_prior: MeanDifference
    """Gain of the stacked density over the class priors."""
    over_logistic: MeanDifference
    """Gain of the stacked density over logistic regression."""


def check_density(
    density: StackedDensity, points: Values, index: NDArray[np.intp], seed: int, groups: NDArray[np.intp] | None = None
) -> DensityCheck:
    """Measure a fitted stacked density by its own held-out rows.

    It is trusted if it beats the class priors beyond the noise and is not clearly further behind logistic regression
    than `MAX_LAG` allows.

    Parameters
    ----------
    density : StackedDensity
        Fitted to `points` and `index`.
    points : array (n, d)
        Standardized features.
    index : array (n,)
        Class indices.
    seed : int
        Seed of the folds of logistic regression.
    groups : array (n,), optional
        Group indices; a group is held out as a whole.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> index = np.repeat([0, 1], 40)
    >>> points = rng.normal(size=(80, 2)) + 3 * index[:, None]
    >>> check_density(StackedDensity("default").fit(points, index), points, index, 0).trusted
    True
    """
    count = min(MAX_FOLDS, len(index))
    fold = round_robin_folds(index, count, seed) if groups is None else grouped_folds(index, groups, count, seed)
    logistic, prior = _baseline_losses(points, index, fold)
    rows = np.flatnonzero(~np.isnan(density.held_out_).any(1) & ~np.isnan(logistic))
    if len(rows) < 2:
        nan = float("nan")
        reason = f"only {len(rows)} rows could be held out; the stacked density cannot be checked"
        unknown = MeanDifference(nan, nan, nan)
        return DensityCheck(False, [reason], len(rows), nan, nan, nan, unknown, unknown)
    own = -np.maximum(density.held_out_[rows, index[rows]], np.log(MIN_PROBABILITY))
    logistic, prior = logistic[rows], prior[rows]
    over_prior, over_logistic = mean_difference(prior, own), mean_difference(logistic, own)
    means = float(own.mean()), float(logistic.mean()), float(prior.mean())
    beats_prior = over_prior.low > 0.0
    keeps_up = over_logistic.high >= -MAX_LAG * max(0.0, means[2] - means[1])
    reasons = []
    if beats_prior and keeps_up:
        reasons.append(
            f"the stacked density knows the classes: held-out log-loss {means[0]:.3f}, class priors {means[2]:.3f}"
        )
    if not beats_prior:
        reasons.append(
            f"the stacked density does not beat the class priors beyond the noise: held-out log-loss {means[0]:.3f} "
            f"against {means[2]:.3f}"
        )
    if not keeps_up:
        reasons.append(
            f"logistic regression is clearly better than the stacked density: held-out log-loss {means[1]:.3f} "
            f"against {means[0]:.3f}"
        )
    return DensityCheck(beats_prior and keeps_up, reasons, len(rows), *means, over_prior, over_logistic)


def _baseline_losses(points: Values, index: NDArray[np.intp], fold: NDArray[np.intp]) -> tuple[Values, Values]:
    """Return held-out losses (n,) of logistic regression and of the class priors; NaN for rows never held out."""
    k = int(index.max()) + 1
    logistic, prior = np.full(len(index), np.nan), np.full(len(index), np.nan)
    for number in np.unique(fold[fold >= 0]):
        train = training_rows(np.flatnonzero(fold != number), index)
        test = ~train
        if not test.any():
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(max_iter=1000).fit(points[train], index[train])
        log_proba = np.maximum(model.predict_log_proba(points[test]), np.log(MIN_PROBABILITY))
        logistic[test] = -log_proba[np.arange(test.sum()), index[test]]
        frequency = np.bincount(index[train], minlength=k) / train.sum()
        prior[test] = -np.log(frequency)[index[test]]
    return logistic, prior
