"""Estimates of the time that trials take, from the seconds on record, and a limit of the minutes of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from time import monotonic
from typing import TypeAlias, final

import pandas as pd

from genlabel_paper.runs.cells import Cell
from genlabel_paper.runs.settings import SETTINGS

Estimator: TypeAlias = Callable[[Sequence[Cell]], float | None]
"""Function of the cells of a trial that returns its seconds, or None if they are unknown."""


def make_estimator(records: pd.DataFrame) -> Estimator:
    """Return a function that estimates the seconds of a trial.

    A method takes the longest time on record for it on the dataset. Without a record, the median rate of other methods
    on the dataset, or else of similar settings, is multiplied by the cost of the setting (`Setting.cost`).

    Parameters
    ----------
    records : DataFrame
        Frame of `genlabel_paper.exports.load_records`.

    Examples
    --------
    >>> cell = Cell("images-clean-200", "cifar10", "mixup", split=0, seed=0)
    >>> records = pd.DataFrame([cell.fields | {"seconds": 100.0}])
    >>> estimate = make_estimator(records)
    >>> estimate([cell]), round(estimate([Cell("images-clean-30", "cifar10", "vanilla", split=0, seed=1)]))
    (100.0, 15)
    """
    known: dict[tuple[str, str, str, float], float] = {}
    rates: dict[str | tuple[str, str], list[float]] = {}
    columns = (records.get(name, pd.Series(dtype=object)) for name in ("setting", "dataset", "method", "alpha"))
    for setting, dataset, method, alpha, seconds in zip(
        *columns, records.get("seconds", pd.Series(dtype=float)), strict=True
    ):
        key = (setting, dataset, method, alpha)
        known[key] = max(known.get(key, 0.0), seconds)
        if setting in SETTINGS:
            rate = seconds / SETTINGS[setting].cost(dataset)
            for group in ((setting, dataset), _family(setting)):
                rates.setdefault(group, []).append(rate)

    def estimate(cells: Sequence[Cell]) -> float | None:
        total = 0.0
        for cell in cells:
            seconds = known.get((cell.setting, cell.dataset, cell.method, cell.alpha))
            if seconds is None:
                similar = rates.get((cell.setting, cell.dataset)) or rates.get(_family(cell.setting))
                if similar is None:
                    return None
                seconds = median(similar) * SETTINGS[cell.setting].cost(cell.dataset)
            total += seconds
        return total

    return estimate


def _family(setting: str) -> str:
    """Return the first word of the name of a setting: similar settings share it."""
    return setting.replace("@", "-").split("-")[0]


@final
class TimeBudget:
    """Rule that starts a trial only if it ends in time; `may_start` of `genlabel.evaluation.records.run_trials`.

    A trial of unknown length may start as long as time is left.

    >>> budget = TimeBudget(minutes=1.0, estimate=lambda cells: 100.0)
    >>> budget([Cell("images-clean-200", "cifar10", "mixup", split=0, seed=0)]), len(budget.refused)
    (False, 1)
    """

    def __init__(self, minutes: float, estimate: Estimator) -> None:
        self._end, self._estimate = monotonic() + 60.0 * minutes, estimate
        self.refused: list[Sequence[Cell]] = []
        """Trials that were refused."""

    def __call__(self, cells: Sequence[Cell]) -> bool:
        """Return whether the trial ends in time, as far as is known."""
        fits = monotonic() + (self._estimate(cells) or 0.0) < self._end
        if not fits:
            self.refused.append(cells)
        return fits


def describe_time(trials: Sequence[Sequence[Cell]], estimate: Estimator, n_jobs: int) -> str:
    """Return the number of trials and their estimated time.

    >>> cell = Cell("images-clean-200", "cifar10", "mixup", split=0, seed=0)
    >>> describe_time([[cell]] * 4, lambda cells: 90.0, n_jobs=3), describe_time([[cell]], lambda cells: None, 1)
    ('4 trials, about 2.0 minutes with 3 jobs', '1 trial of unknown length')
    """
    seconds = [estimate(cells) for cells in trials]
    known = [one for one in seconds if one is not None]
    count = f"{len(trials)} trial{'' if len(trials) == 1 else 's'}"
    if not known:
        return f"{count} of unknown length"
    jobs = f"{n_jobs} job{'' if n_jobs == 1 else 's'}"
    unknown = f", {len(seconds) - len(known)} more of unknown length" if len(known) < len(seconds) else ""
    return f"{count}, about {sum(known) / n_jobs / 60.0:.1f} minutes with {jobs}{unknown}"
