"""Check of the stacked density on held-out rows against the class priors and a plain classifier."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from genlabel._text import count_of
from genlabel.data.folds import grouped_folds, round_robin_folds, training_rows
from genlabel.densities import StackedDensity
from genlabel.evaluation.prediction_counts import Z_90, Z_95
from genlabel.metrics import MIN_PROBABILITY, row_losses

MAX_FOLDS = 6
MAX_LAG = 0.1
"""Share of the gain of logistic regression over the class priors that the stacked density may lag behind."""

Values = NDArray[np.float64]


class MeanDifference(NamedTuple):
    """Mean difference over the same rows, with its interval: 90 % of training methods, 95 % of fixed models."""

    mean: float
    low: float
    high: float


def mean_difference(first: Values, second: Values, fold: NDArray[np.intp] | None = None) -> MeanDifference:
    """Return the mean of `first - second`, losses (n,) of the same held-out rows, with its interval.

    Without `fold` the rows are taken as independent and the models as fixed, and the interval has 95 %. With `fold`
    (n,), it is the 90 % interval of the training methods, which is rather too wide: the variance of the mean over K
    folds is s^2 (1/K + 1/(K - 1)), because their training rows overlap (Nadeau and Bengio, 2003). Here s^2 is the
    larger of two variances of the fold means: the observed one, and the one that follows from the variance of the rows.
    """
    difference = first - second
    mean, variance = float(difference.mean()), float("inf")
    if fold is None and len(difference) > 1:
        variance = float(difference.var(ddof=1)) / len(difference)
    elif fold is not None and len(np.unique(fold)) > 1:
        fold_means = np.array([difference[fold == number].mean() for number in np.unique(fold)])
        count = len(fold_means)
        spread = max(float(fold_means.var(ddof=1)), float(difference.var(ddof=1)) * count / len(difference))
        variance = spread * (1.0 / count + 1.0 / (count - 1))
    half_width = (Z_95 if fold is None else Z_90) * float(np.sqrt(variance))
    return MeanDifference(mean, mean - half_width, mean + half_width)


class DensityCheck(NamedTuple):
    """Held-out log-loss of the stacked density, of logistic regression and of the class priors, in nats."""

    trusted: bool
    reasons: list[str]
    rows: int
    """Number of rows that were held out, once each."""
    density: float
    logistic: float
    prior: float
    over_prior: MeanDifference
    """Gain of the stacked density over the class priors."""
    over_logistic: MeanDifference
    """Gain of the stacked density over logistic regression."""


def check_density(
    density: StackedDensity, points: Values, index: NDArray[np.intp], seed: int, groups: NDArray[np.intp] | None = None
) -> DensityCheck:
    """Compare a fitted stacked density, on the rows that its folds held out, with two baselines.

    It is trusted if it beats the class priors beyond the noise and is not clearly further behind logistic regression
    than `MAX_LAG` allows. It was fitted to the standardized `points` (n, d) with class indices `index` (n,); groups
    (n,) are held out as a whole.
    """
    count = min(MAX_FOLDS, len(index))
    fold = round_robin_folds(index, count, seed) if groups is None else grouped_folds(index, groups, count, seed)
    baselines = _baseline_losses(points, index, fold)
    rows = np.flatnonzero(~np.isnan(density.held_out_).any(1) & ~np.isnan(baselines["logistic"]))
    if len(rows) < 2:
        reason = f"only {count_of(len(rows), 'row')} could be held out; the stacked density cannot be checked"
        unknown = MeanDifference(np.nan, np.nan, np.nan)
        return DensityCheck(False, [reason], len(rows), np.nan, np.nan, np.nan, unknown, unknown)
    loss = {"density": -np.maximum(density.held_out_[rows, index[rows]], np.log(MIN_PROBABILITY))}
    loss |= {name: values[rows] for name, values in baselines.items()}
    mean = {name: float(values.mean()) for name, values in loss.items()}
    over_prior, over_logistic = (mean_difference(loss[name], loss["density"]) for name in ("prior", "logistic"))
    beats_prior = over_prior.low > 0.0
    keeps_up = over_logistic.high >= -MAX_LAG * max(0.0, mean["prior"] - mean["logistic"])
    own, logistic, prior = (f"{mean[name]:.3f}" for name in ("density", "logistic", "prior"))
    reasons = []
    if beats_prior and keeps_up:
        start = "the stacked density (a model of the rows of each class) tells the classes apart"
        reasons.append(f"{start}: log-loss {own} on unseen rows, class priors {prior}")
    if not beats_prior:
        problem = "the stacked density (a model of the rows of each class) is not clearly better than the class priors"
        reasons.append(f"{problem}: log-loss {own} against {prior} on unseen rows")
    if not keeps_up:
        problem = "logistic regression is clearly better than the stacked density"
        reasons.append(f"{problem}: log-loss {logistic} against {own} on unseen rows")
    losses = (mean["density"], mean["logistic"], mean["prior"])
    return DensityCheck(beats_prior and keeps_up, reasons, len(rows), *losses, over_prior, over_logistic)


def _baseline_losses(points: Values, index: NDArray[np.intp], fold: NDArray[np.intp]) -> dict[str, Values]:
    """Return held-out losses (n,) of logistic regression and of the class priors; NaN for rows never held out."""
    models = {"logistic": LogisticRegression(max_iter=1000), "prior": DummyClassifier(strategy="prior")}
    losses = {name: np.full(len(index), np.nan) for name in models}
    for number in np.unique(fold[fold >= 0]):
        train = training_rows(np.flatnonzero(fold != number), index)
        if train.all():
            continue
        for name, model in models.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                log_proba = model.fit(points[train], index[train]).predict_log_proba(points[~train])
            losses[name][~train] = row_losses(np.maximum(log_proba, np.log(MIN_PROBABILITY)), index[~train])
    return losses
