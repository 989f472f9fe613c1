"""A fit: one method on one split of one table, by itself; the records of `genlabel compare`."""

from __future__ import annotations

from typing import Any, NamedTuple

from genlabel.evaluation.records.schema import RecordSchema

SCORES = ("accuracy", "log_loss", "brier", "calibration_error")
"""As of `genlabel.metrics.score`."""
DIGITS = 7
"""Of a number in an export, which is more than it is worth."""


class Fit(NamedTuple):
    """One method on one split of one table.

    >>> Fit(61, "stacked density", 0).id
    '61/stacked density/split=0'
    """

    dataset: int | str
    """The OpenML id, or the name of a table."""
    method: str
    split: int

    @property
    def id(self) -> str:
        """The name of the fit, which is the key of its record."""
        return f"{self.dataset}/{self.method}/split={self.split}"

    @property
    def trial(self) -> Fit:
        """The fit itself: no other is trained together with it."""
        return self

    @property
    def fields(self) -> dict[str, Any]:
        """Its fields, by name."""
        return self._asdict()


def _seven_digits(metric: str, value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


COMPARISON = RecordSchema(
    "compare",
    "genlabel compare",
    Fit,
    Fit,
    {"dataset": "str", "method": "str", "split": "int64"},
    (*SCORES, "balanced_accuracy", "auc"),
    facts={"warnings": "object", "held_out": "object"},
    rounded=_seven_digits,
)
"""The records of a comparison; "warnings" are how often each text was heard, "held_out" counts predictions."""
