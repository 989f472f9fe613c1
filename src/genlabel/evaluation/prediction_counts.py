"""Tallies of held-out predictions: which class was taken for which, and how often a probability came true."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

BINS = 10
"""Of probability, of equal width."""


@final
@dataclass(frozen=True, eq=False)
class PredictionCounts:
    """Counts of predictions, which add up over splits and can be kept as JSON.

    >>> tally = PredictionCounts.of(np.log([[0.9, 0.1], [0.3, 0.7], [0.6, 0.4]]), [0, 1, 1], ["no", "yes"])
    >>> tally.confusion.tolist(), tally.recall.tolist()
    ([[1, 0], [1, 1]], [1.0, 0.5])
    >>> (tally + tally).rows
    6
    """

    classes: tuple[str, ...]
    """Their names, (k,)."""
    confusion: NDArray[np.int64]
    """How often a row of a class (first axis) was taken for a class (second axis), (k, k)."""
    reliability: NDArray[np.float64]
    """By tenth of probability (10, 3): predictions, the sum of their probabilities, and how many came true. Of two
    classes the probability is that of the second; of more, that of the likeliest."""

    @classmethod
    def of(cls, log_proba: ArrayLike, y: ArrayLike, classes: Sequence[Any]) -> Self:
        """Count predictions.

        Parameters
        ----------
        log_proba : array (m, k)
        y : array (m,)
            Class indices.
        classes : sequence (k,)
        """
        logs, truth = np.asarray(log_proba, dtype=np.float64), np.asarray(y, dtype=np.intp)
        k, likeliest = len(classes), logs.argmax(1)
        confusion = np.bincount(truth * k + likeliest, minlength=k * k).reshape(k, k)
        asked = np.ones(len(truth), dtype=np.intp) if k == 2 else likeliest
        proba = np.exp(np.take_along_axis(logs, asked[:, None], 1)[:, 0])
        place = np.clip((proba * BINS).astype(np.intp), 0, BINS - 1)
        columns = [np.bincount(place, weights, BINS) for weights in (None, proba, (asked == truth).astype(np.float64))]
        return cls(tuple(map(str, classes)), confusion, np.stack(columns, axis=1).astype(np.float64))

    def __add__(self, other: PredictionCounts) -> PredictionCounts:
        if self.classes != other.classes:
            raise ValueError(
                f"tallies of classes {self.classes} and {other.classes} do not add up; they must be the same"
            )
        return PredictionCounts(self.classes, self.confusion + other.confusion, self.reliability + other.reliability)

    @property
    def rows(self) -> int:
        """Predictions; a row that is held out in several splits counts as often."""
        return int(self.confusion.sum())

    @property
    def support(self) -> NDArray[np.int64]:
        """Rows of each class, (k,)."""
        return np.asarray(self.confusion.sum(1))

    @property
    def recall(self) -> NDArray[np.float64]:
        """Share of the rows of each class that were taken for it, (k,); NaN for a class without rows."""
        return _share(self.confusion.diagonal(), self.support)

    @property
    def precision(self) -> NDArray[np.float64]:
        """Share of the rows that were taken for each class and are of it, (k,); NaN where none were."""
        return _share(self.confusion.diagonal(), self.confusion.sum(0))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, fit for JSON: of the confusion, those that are not zero as [row, column, count]."""
        places = np.argwhere(self.confusion)
        counts = [[int(i), int(j), int(self.confusion[i, j])] for i, j in places]
        return {"classes": list(self.classes), "confusion": counts, "reliability": self.reliability.round(4).tolist()}

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> Self:
        """Return what `to_dict` kept.

        >>> PredictionCounts.from_dict(PredictionCounts.of([[0.0, -9.0]], [0], ["a", "b"]).to_dict()).confusion.tolist()
        [[1, 0], [0, 0]]
        """
        confusion = np.zeros((len(kept["classes"]),) * 2, dtype=np.int64)
        for row, column, count in kept["confusion"]:
            confusion[row, column] = count
        return cls(tuple(kept["classes"]), confusion, np.array(kept["reliability"], dtype=np.float64))


def _share(part: NDArray[np.int64], whole: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
