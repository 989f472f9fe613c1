"""Cheaper ways for a fit that has little time: fewer rows, fewer candidates, fewer epochs; each of them is said."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic

import numpy as np

from genlabel._progress import FitProgress
from genlabel._validation import warn
from genlabel.densities._crossval import stratified_order
from genlabel.estimators.validation import LabeledData
from genlabel.model_selection.candidate_limit import Variants, progressively_fewer
from genlabel.model_selection.halving import Rung, union, work_of
from genlabel.model_selection.search_space import Run, SearchSpace
from genlabel.training import TrainingTask

NUMBERS_A_SECOND = 100_000
"""Features and classes of all rows, for each second of a limit: what is done once a row then takes half of it."""
LEAST_ROWS = 500
PROBED_ROWS = 512
"""Rows on which the pace of a training is measured."""
ASKED = 1.3
"""What a search takes beside its epochs, at most: the networks are asked of the held-out rows, and judged."""


def subsample_for_time_limit(sample: LabeledData, course: FitProgress) -> LabeledData:
    """Return the sample, or as many of its rows as the time allows for, each class in its share or with a few."""
    n, size = len(sample.X), sample.X.shape[1] + len(sample.classes)
    if not course.limited or n <= (most := max(LEAST_ROWS, int(NUMBERS_A_SECOND * course.left / size))):
        return sample
    some = sample.take(np.sort(stratified_order(sample.y)[:most]))
    if not some.standardisation(True).keep.any():
        return sample
    course.cut(f"it is fitted to {most:,} of {n:,} rows")
    return some


def measure_epoch_seconds(
    method: SearchSpace,
    used: Mapping[int, list[int]],
    tasks: Sequence[Sequence[TrainingTask]],
    start: Callable[..., Run],
) -> dict[int, float]:
    """Return about how many seconds an epoch of one candidate takes on all folds, for each recipe.

    Parameters
    ----------
    method : Method
    used : dict of recipe -> list of int
        The candidates that are trained under it.
    tasks : sequence of sequences of Task
        The folds under each recipe.
    start : callable (tasks, recipe, epochs, candidates) -> Run
    """
    found = {}
    for r, some in used.items():
        candidates = [method.candidates[c] for c in some]
        begin = partial(start, recipe=r, epochs=1, candidates=candidates)
        found[r] = _pace(begin, tasks[r]) / len(some)
    return found


def _pace(start: Callable[[Sequence[TrainingTask]], Run], tasks: Sequence[TrainingTask]) -> float:
    """Seconds of an epoch of a run on all tasks: it is tried on some rows of the first."""
    rows = stratified_order(tasks[0].y)[:PROBED_ROWS]
    weight = tasks[0].weight
    some = replace(tasks[0], X=tasks[0].X[rows], y=tasks[0].y[rows], weight=None if weight is None else weight[rows])
    seconds = []
    for _ in range(2):  # the first time is longer
        run, begin = start([some]), monotonic()
        run.advance(1)
        seconds.append(monotonic() - begin)
    return min(seconds) * sum(len(task.X) for task in tasks) / len(rows)


def fit_to_time_limit(
    method: SearchSpace,
    variants: Variants,
    epochs: int,
    rungs: Callable[[int], list[Rung]],
    paces: Mapping[int, float],
    course: FitProgress,
) -> tuple[Variants, int]:
    """Return the entries that each variant may try and the epochs that these may take, so that there is time for all.

    Fewer epochs come first, down to half of them, then fewer entries: those of middling parameters.

    Parameters
    ----------
    method : Method
    variants : sequence of sequences of int
    epochs : int
    rungs : callable (epochs) -> list of Rung
    paces : dict of recipe -> float
        Seconds that an epoch of one candidate takes under each recipe, at most.
    course : Course
    """
    tried, longest = len(union(variants)), epochs
    for some in progressively_fewer(method, variants):
        entries = union(some)
        an_epoch = max(paces[method.entries[e].recipe] for e in entries)
        work = work_of(rungs(longest), len(entries), len(some))
        epochs = min(longest, int(longest * course.stage_left / (ASKED * work * an_epoch)))
        if epochs >= longest // 2:
            break
    if len(entries) < tried:
        course.cut(f"it tries {len(entries)} of {tried} candidates")
    if epochs < longest:
        course.cut(f"networks are trained for at most {max(1, epochs)} of {longest} epochs")
    return some, max(1, epochs)


def warn_about_truncation(course: FitProgress) -> None:
    """Warn of what was left out for want of time, if anything was.

    >>> import warnings
    >>> course = FitProgress(time_limit=5.0)
    >>> course.cut("it tries 2 of 24 candidates")
    >>> with warnings.catch_warnings(record=True) as heard:
    ...     warnings.simplefilter("always")
    ...     warn_about_truncation(course)
    >>> print(heard[0].message)
    the fit would take longer than time_limit=5 s: it tries 2 of 24 candidates; give it more time, or None
    """
    if course.cuts:
        limit, cuts = f"time_limit={course.time_limit:g} s", ", ".join(course.cuts)
        warn("time", f"the fit would take longer than {limit}: {cuts}; give it more time, or None", UserWarning)
