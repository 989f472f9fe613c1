"""Counts of held-out predictions: the confusion matrix, a reliability table, and the 95 % interval of a share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

N_BINS = 10
"""Number of probability bins, of equal width."""
Z_95, Z_90 = 1.96, 1.645
"""Standard errors to each side of a 95 % and of a 90 % interval."""


@final
@dataclass(frozen=True, eq=False)
class PredictionCounts:
    """Counts of predictions, which add up over splits and can be saved as JSON.

    >>> counts = PredictionCounts.of(np.log([[0.9, 0.1], [0.3, 0.7], [0.6, 0.4]]), [0, 1, 1], ["no", "yes"])
    >>> counts.confusion.tolist(), counts.recall.tolist()
    ([[1, 0], [1, 1]], [1.0, 0.5])
    >>> (counts + counts).rows
    6
    """

    classes: tuple[str, ...]
    """Names of the classes, (k,)."""
    confusion: NDArray[np.int64]
    """Confusion matrix (k, k): rows are true classes, columns predicted classes."""
    reliability: NDArray[np.float64]
    """Reliability table (10, 3) by tenth of probability: number of predictions, sum of their probabilities, and number
    that came true. With two classes the probability is that of the second; with more, that of the predicted class."""

    @classmethod
    def of(cls, log_proba: ArrayLike, y: ArrayLike, classes: Sequence[Any]) -> Self:
        """Count predictions from log-probabilities (m, k), class indices y (m,) and the names of the classes (k,)."""
        scores, truth = np.asarray(log_proba, dtype=np.float64), np.asarray(y, dtype=np.intp)
        k, predicted = len(classes), scores.argmax(1)
        confusion = np.bincount(truth * k + predicted, minlength=k * k).reshape(k, k)
        event = np.ones(len(truth), dtype=np.intp) if k == 2 else predicted
        proba = np.exp(np.take_along_axis(scores, event[:, None], 1)[:, 0])
        index = np.clip((proba * N_BINS).astype(np.intp), 0, N_BINS - 1)
        hits = (event == truth).astype(np.float64)
        columns = [np.bincount(index, weights, N_BINS) for weights in (None, proba, hits)]
        return cls(tuple(map(str, classes)), confusion, np.stack(columns, axis=1).astype(np.float64))

    def __add__(self, other: PredictionCounts) -> PredictionCounts:
        if self.classes != other.classes:
            raise ValueError(f"counts of the classes {self.classes} and {other.classes} cannot be added")
        return PredictionCounts(self.classes, self.confusion + other.confusion, self.reliability + other.reliability)

    @property
    def rows(self) -> int:
        """Number of predictions; a row that several splits hold out counts several times."""
        return int(self.confusion.sum())

    @property
    def class_counts(self) -> NDArray[np.int64]:
        """Number of rows of each class, (k,)."""
        return np.asarray(self.confusion.sum(1))

    @property
    def recall(self) -> NDArray[np.float64]:
        """Recall of each class, (k,); NaN for a class without rows."""
        return _divide(self.confusion.diagonal(), self.class_counts)

    @property
    def precision(self) -> NDArray[np.float64]:
        """Precision of each class, (k,); NaN for a class that is never predicted."""
        return _divide(self.confusion.diagonal(), self.confusion.sum(0))

    @property
    def calibration_gap(self) -> float:
        """Mean distance of probability and observed frequency over the bins, weighted by predictions, 0 to 1."""
        size, mass, hits = self.reliability.T
        return float(np.abs(mass - hits).sum() / max(size.sum(), 1.0))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, fit for JSON: the confusion matrix as [row, column, count] of its nonzero entries."""
        counts = [[int(i), int(j), int(self.confusion[i, j])] for i, j in np.argwhere(self.confusion)]
        return {"classes": list(self.classes), "confusion": counts, "reliability": self.reliability.round(4).tolist()}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Self:
        """Return the counts that `to_dict` made plain."""
        confusion = np.zeros((len(plain["classes"]),) * 2, dtype=np.int64)
        for row, column, count in plain["confusion"]:
            confusion[row, column] = count
        return cls(tuple(plain["classes"]), confusion, np.array(plain["reliability"], dtype=np.float64))


def _divide(part: NDArray[np.int64], whole: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)


def wilson_interval(share: float, size: float, z: float = Z_95) -> tuple[float, float]:
    """Return Wilson's interval of a share among `size` independent cases, which need not be a whole number.

    It reaches `z` standard errors to each side, for 95 % by default.
    """
    square = z**2 / size
    middle = (share + square / 2.0) / (1.0 + square)
    half = z / (1.0 + square) * np.sqrt(share * (1.0 - share) / size + square / (4.0 * size))
    return max(0.0, float(middle - half)), min(1.0, float(middle + half))
