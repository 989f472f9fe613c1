"""Metrics of classifiers: accuracy, log-loss, Brier score, AUC and calibration, for one model or many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genlabel._validation import check_count

RARE_RECALL = 0.2
"""Recall below which a class that is smaller than the mean class is rarely found."""
MIN_PROBABILITY = 1e-15
"""Probabilities are clipped here by `score`, so that a log-loss is finite."""


def score(model: Any, X: Any, y: Any) -> dict[str, float]:
    """Measure a fitted classifier on rows: accuracy, log-loss (in nats), Brier score, calibration error.

    Parameters
    ----------
    model : classifier
        With `predict_log_proba` or `predict_proba`; probabilities are clipped at 1e-15.
    X : array or DataFrame (m, d)
    y : array or Series (m,)
        Labels, as in `model.classes_`.

    Returns
    -------
    dict
        accuracy, log_loss, brier, calibration_error

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> score(DummyClassifier().fit([[0], [1], [2]], ["no", "yes", "yes"]), [[3], [4]], ["yes", "no"])["accuracy"]
    0.5
    """
    return score_log_proba(predict_log_proba(model, X), index_labels(y, model.classes_))


def predict_log_proba(model: Any, X: Any) -> NDArray[np.float64]:
    """Return the log-probabilities (m, k) of a fitted classifier, or the logarithms of its probabilities.

    >>> from sklearn.dummy import DummyClassifier
    >>> predict_log_proba(DummyClassifier(strategy="uniform").fit([[0], [1]], ["no", "yes"]), [[2]]).round(3)
    array([[-0.693, -0.693]])
    """
    with np.errstate(divide="ignore"):
        if hasattr(model, "predict_log_proba"):
            return np.asarray(model.predict_log_proba(X), dtype=np.float64)
        return np.log(np.asarray(model.predict_proba(X), dtype=np.float64))


def score_log_proba(log_proba: Any, y: Any) -> dict[str, float]:
    """Return the metrics of `score` for log-probabilities (m, k), clipped at log 1e-15, and class indices y (m,).

    >>> score_log_proba([[0.0, -np.inf], [0.0, -np.inf]], [0, 1])["accuracy"]
    0.5
    """
    clipped = np.maximum(log_proba, np.log(MIN_PROBABILITY))
    metrics = {"accuracy": accuracy, "log_loss": log_loss, "brier": brier_score, "calibration_error": calibration_error}
    return {name: float(metric(clipped, y)) for name, metric in metrics.items()}


def prior_log_loss(train: Any, test: Any) -> float:
    """Return the log-loss of predicting the class priors of the training rows for every test row.

    It is the baseline without features. `train` and `test` are class indices of rows.

    >>> round(prior_log_loss([0, 0, 0, 1], [0, 1]), 3)
    0.837
    """
    counts = np.bincount(train, minlength=int(np.max(test)) + 1)
    priors = np.maximum(counts / counts.sum(), MIN_PROBABILITY)
    return float(-np.log(priors)[np.asarray(test)].mean())


def index_labels(y: Any, classes: Any) -> NDArray[np.int64]:
    """Return the index of each label among the classes that a model was trained on, (m,).

    >>> index_labels(["no", "perhaps"], ["no", "yes"])
    Traceback (most recent call last):
    ValueError: y has labels ['perhaps'] that the model was not trained on; it knows ['no', 'yes']
    """
    labels, known = np.asarray(y), np.asarray(classes)
    as_index = [pd.Index(v.astype(np.int64) if v.dtype.kind == "b" else v) for v in (known, labels)]  # booleans: 0, 1
    index = as_index[0].get_indexer(as_index[1])
    if (index < 0).any():
        unknown = list(dict.fromkeys(labels[index < 0].tolist()))
        raise ValueError(f"y has labels {unknown[:5]} that the model was not trained on; it knows {known.tolist()}")
    return index.astype(np.int64)


def accuracy(log_proba: Any, y: Any, sample_weight: Any = None) -> NDArray[np.float64]:
    """Return the share of rows whose largest column is their class.

    Like the other metrics, it takes log-probabilities (..., m, k), of one model or of many along the leading axes,
    class indices (m,) and optional weights (m,), and returns an array (...).

    >>> float(accuracy(np.log([[0.9, 0.1], [0.6, 0.4]]), [0, 1]))
    0.5
    """
    scores, index = _check_input(log_proba, y)
    hit = (scores.argmax(-1) == index) & ~np.isnan(scores).any(-1)
    return np.asarray(np.average(hit, axis=-1, weights=sample_weight))


def log_loss(log_proba: Any, y: Any, sample_weight: Any = None) -> NDArray[np.float64]:
    """Return the mean negative log-probability of the true class, in nats; infinite for NaN.

    >>> float(log_loss(np.log([[0.5, 0.5], [0.25, 0.75]]), [0, 0]).round(3))
    1.04
    """
    scores, index = _check_input(log_proba, y)
    picked = np.take_along_axis(scores, np.broadcast_to(index[:, None], (*scores.shape[:-1], 1)), -1)[..., 0]
    loss = np.asarray(np.average(-picked, axis=-1, weights=sample_weight))
    return np.where(np.isnan(loss), np.inf, loss)


def row_losses(log_proba: NDArray[np.float64], y: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the loss of each row, (m,), of log-probabilities (m, k) and class indices; infinite for NaN.

    >>> row_losses(np.log([[0.5, 0.5], [0.1, 0.9]]), np.array([0, 1])).round(3)
    array([0.693, 0.105])
    """
    losses = -np.take_along_axis(log_proba, y[:, None], -1)[:, 0]
    return np.where(np.isnan(losses), np.inf, losses)


def brier_score(log_proba: Any, y: Any, sample_weight: Any = None) -> NDArray[np.float64]:
    """Return the mean squared distance of the probabilities from the true class, summed over the classes: 0 to 2.

    For two classes it is twice the Brier score of one of them. A row with NaN counts 2.

    >>> float(brier_score(np.log([[0.5, 0.5], [0.25, 0.75]]), [0, 1]).round(4))
    0.3125
    """
    scores, index = _check_input(log_proba, y)
    proba = np.exp(scores)
    distance = ((proba - np.eye(proba.shape[-1])[index]) ** 2).sum(-1)
    return np.asarray(np.average(np.where(np.isnan(distance), 2.0, distance), axis=-1, weights=sample_weight))


def balanced_accuracy(log_proba: Any, y: Any) -> NDArray[np.float64]:
    """Return the mean over the classes of the share of their rows whose largest column is their class.

    A class without rows does not count. Always guessing one of k classes gives 1 / k.

    >>> float(balanced_accuracy(np.log([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]]), [0, 0, 1]))
    0.5
    """
    scores, index = _check_input(log_proba, y)
    hit = (scores.argmax(-1) == index) & ~np.isnan(scores).any(-1)
    return np.asarray(np.mean([hit[..., index == c].mean(-1) for c in np.unique(index)], axis=0))


def roc_auc(log_proba: Any, y: Any) -> float:
    """Return the area under the ROC curve: how often a row of a class ranks above one of the others; ties count half.

    With more than two classes it is the mean over the classes, each against the rest. A class without rows, or without
    other rows, does not count; the result is NaN if none does. A row of `log_proba` (m, k) with NaN ranks last.

    >>> roc_auc(np.log([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]]), [0, 0, 1, 1])
    0.75
    """
    scores, index = _check_input(log_proba, y)
    areas = []
    k = scores.shape[-1]
    for c in [1] if k == 2 else range(k):  # the areas of two classes are equal
        positive = index == c
        n_positive, n_negative = int(positive.sum()), int((~positive).sum())
        if n_positive and n_negative:  # the rank sum of Mann and Whitney, normalized to [0, 1]
            ranks = pd.Series(np.nan_to_num(scores[:, c], nan=-np.inf)).rank().to_numpy()
            areas.append((ranks[positive].sum() - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative))
    return float(np.mean(areas)) if areas else float("nan")


def calibration_error(log_proba: Any, y: Any, sample_weight: Any = None, bins: int = 15) -> NDArray[np.float64]:
    """Return the expected calibration error of the largest probability: confidence against accuracy, 0 to 1.

    The rows are sorted by confidence and cut into bins of nearly equal count, and the distance of accuracy from mean
    confidence is averaged over the bins. Rows of equal confidence share their accuracy. A row with NaN counts as
    certain and wrong. With few rows in a bin the error is above 0 even for a calibrated model.

    >>> float(calibration_error(np.log([[0.9, 0.1], [0.6, 0.4]]), [0, 1], bins=2).round(3))
    0.35
    """
    scores, index = _check_input(log_proba, y)
    broken = np.isnan(scores).any(-1)
    confidence = np.where(broken, 1.0, np.exp(scores.max(-1)))
    hit = (scores.argmax(-1) == index) & ~broken
    m = hit.shape[-1]
    weight = np.ones(m) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    order = np.argsort(confidence, axis=-1, kind="stable")
    gap = np.take_along_axis(weight * (hit - confidence), order, -1)
    confidence, sorted_weight = np.take_along_axis(confidence, order, -1), weight[order]
    # Rows of equal confidence form a group, and get the mean gap of the group.
    starts_group = np.ones(confidence.shape, dtype=bool)
    starts_group[..., 1:] = confidence[..., 1:] != confidence[..., :-1]
    group = np.cumsum(starts_group.ravel()) - 1
    total, mass = np.bincount(group, gap.ravel()), np.bincount(group, sorted_weight.ravel())
    mean = np.divide(total, mass, out=np.zeros_like(total), where=mass > 0)
    shared_gap = sorted_weight * mean[group].reshape(gap.shape)
    bin_starts = [rows[0] for rows in np.array_split(np.arange(m), min(check_count("bins", bins), m))]
    return np.asarray(np.abs(np.add.reduceat(shared_gap, bin_starts, axis=-1)).sum(-1) / weight.sum())


def _check_input(log_proba: Any, y: Any) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return checked log-probabilities (..., m, k) and class indices (m,)."""
    scores, index = np.asarray(log_proba, dtype=np.float64), np.asarray(y)
    if scores.ndim < 2 or index.shape != scores.shape[-2:-1]:
        raise ValueError(
            f"log_proba has shape {scores.shape} and y has shape {index.shape}; they must be (..., m, k) and (m,)"
        )
    if len(index) == 0:
        raise ValueError("log_proba has no rows; give at least one")
    whole = index.dtype.kind in "iubf" and (index == np.floor(index)).all()
    if not whole or index.min() < 0 or index.max() >= scores.shape[-1]:
        raise ValueError(
            f"y must hold class indices, 0 to {scores.shape[-1] - 1}, the columns of log_proba; convert labels with "
            "index_labels(y, model.classes_)"
        )
    if (scores > 1e-6).any():
        raise ValueError("log_proba has values above 0; give log-probabilities, np.log(proba)")
    return scores, index.astype(np.int64)


def rarely_found(recall: Mapping[str, float], class_counts: Mapping[str, int]) -> list[str]:
    """Return the classes of which a model finds too little, by their recall and numbers of rows.

    These are classes whose recall is 0, and those smaller than the mean class whose recall is below `RARE_RECALL`: the
    classes that weights, costs or a threshold would let a model find more often.

    >>> rarely_found({"a": 0.15, "b": 0.15, "c": 0.0, "d": 0.9}, {"a": 10, "b": 80, "c": 40, "d": 30})
    ['a', 'c']
    """
    mean = sum(class_counts.values()) / len(class_counts)
    small = {name for name in recall if class_counts.get(name, 0) < mean}
    return [name for name, share in recall.items() if share == 0 or (share < RARE_RECALL and name in small)]
