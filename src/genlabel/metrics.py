"""What is reported of a classifier: accuracy and log-loss, from log-probabilities, for one model or many."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["accuracy", "log_loss"]


def accuracy(log_proba: Any, y: Any, sample_weight: Any = None) -> NDArray[np.float64]:
    """Share of points whose largest column is their class.

    Parameters
    ----------
    log_proba : array (..., m, k)
        Log-probabilities of one model, or of many along the leading axes.
    y : array (m,)
        Class indices.
    sample_weight : array (m,), optional

    Returns
    -------
    array (...)

    Examples
    --------
    >>> float(accuracy(np.log([[0.9, 0.1], [0.6, 0.4]]), [0, 1]))
    0.5
    """
    scores = np.asarray(log_proba)
    hit = (scores.argmax(-1) == np.asarray(y)) & ~np.isnan(scores).any(-1)
    return np.asarray(np.average(hit, axis=-1, weights=sample_weight))


def log_loss(log_proba: Any, y: Any, sample_weight: Any = None) -> NDArray[np.float64]:
    """Mean negative log-probability of the true class, in nats; infinite where a model gives no number.

    >>> float(log_loss(np.log([[0.5, 0.5], [0.25, 0.75]]), [0, 0]).round(3))
    1.04
    """
    scores, index = np.asarray(log_proba, dtype=np.float64), np.asarray(y)
    picked = np.take_along_axis(scores, np.broadcast_to(index[:, None], (*scores.shape[:-1], 1)), -1)[..., 0]
    loss = np.asarray(np.average(-picked, axis=-1, weights=sample_weight))
    return np.where(np.isnan(loss), np.inf, loss)
