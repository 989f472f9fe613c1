"""Limits of a search in time and memory: fewer rows, candidates and epochs; a warning reports each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from time import monotonic

import numpy as np

from genlabel._progress import FitProgress
from genlabel._validation import warn
from genlabel.densities.cross_validation import stratified_order
from genlabel.model_selection.halving import Rung, candidates_by_mixing, count_epochs, union
from genlabel.model_selection.options import CandidateSearch, TrainerConfig
from genlabel.model_selection.search_space import SearchSpace, Trainer
from genlabel.model_selection.splits import LabeledData
from genlabel.training.batching import Hyperparameters, TrainingTask

Subsets = Sequence[Sequence[int]]
"""Indices of the configurations that each of several searches may choose."""
DENSITIES, FEATURES, SEARCH, REFIT, TYPICALITY = (
    "stacked density",
    "feature networks",
    "search",
    "final fit",
    "typicality",
)
"""Stages of a fit, in order."""
STAGE_DEADLINES = {DENSITIES: 0.35, FEATURES: 0.6, SEARCH: 0.9, REFIT: 0.95}
"""Share of a time limit that is spent when a stage should end."""
SEARCH_COST = 20
"""Final networks that take about as long as a search."""
MAX_PARAMETERS = 8_000_000
"""Parameters of all networks of a search, over candidates and folds; training stores six values for each."""
VALUES_PER_SECOND = 100_000
"""Features and classes of all rows, for each second of a limit: what is done once a row then takes half of it."""
MIN_ROWS = 500
EVALUATION_FACTOR = 1.3
"""Upper bound of the time of a search over that of its epochs: networks are also evaluated on held-out rows."""


def stage_shares(space: SearchSpace, config: TrainerConfig, searches: bool, typicality: bool) -> dict[str, float]:
    """Return the stages of a fit, with about how much of its time each takes."""
    shares = {
        DENSITIES: 1.0 if any(density.is_calibrated for density in space.densities) else 0.0,
        FEATURES: 0.0 if space.feature_space is None else 5.0,
        SEARCH: (10.0 if config.hidden else 1.0) if searches else 0.0,
        REFIT: 0.0 if config.search.predicts_with_folds else 3.0,
        TYPICALITY: 0.5 if typicality else 0.0,
    }
    return {name: share for name, share in shares.items() if share}


def search_deadline(search: CandidateSearch) -> float:
    """Return the share of a time limit that is spent when a search should end; final networks need some of it."""
    final_networks = 0 if search.predicts_with_folds else search.ensemble
    return STAGE_DEADLINES[SEARCH] * SEARCH_COST / (SEARCH_COST + final_networks)


def subsample_for_time_limit(data: LabeledData, progress: FitProgress) -> LabeledData:
    """Return the data, or as many rows as the time limit allows for: a stratified sample."""
    n, size = len(data.X), data.X.shape[1] + len(data.classes)
    if not progress.has_time_limit or n <= (count := max(MIN_ROWS, int(VALUES_PER_SECOND * progress.time_left / size))):
        return data
    sample = data.take(np.sort(stratified_order(data.y)[:count]))
    if not sample.fit_scaler(True).mask.any():
        return data
    progress.truncations.append(f"it is fitted to {count:,} of {n:,} rows")
    return sample


def cap_candidates(space: SearchSpace, subsets: Subsets, hidden: Sequence[int], d: int, k: int, folds: int) -> Subsets:
    """Return the subsets of configurations, smaller if their networks together have very many parameters.

    Weight decays go first, then the smallest and the largest learning rates; no subset becomes empty. `hidden` are the
    hidden layers where a mixing states none; d, k and folds are features, classes, and networks of each configuration.
    """
    layers = [(d, *(hidden if mixing.hidden is None else mixing.hidden), k) for mixing in space.mixing]
    sizes = [sum((n_in + 1) * n_out for n_in, n_out in pairwise(each)) for each in layers]
    result, before = subsets, union(subsets)
    for result in islice(progressively_fewer(space, subsets), 3):
        if folds * sum(sizes[space.configurations[e].mixing] for e in union(result)) <= MAX_PARAMETERS:
            break
    after = union(result)
    if len(after) < len(before):
        message = f"a network of {max(sizes):,} parameters: the search tries {len(after)} of {len(before)} candidates"
        warn("candidates", message, UserWarning)
    return result


def progressively_fewer(space: SearchSpace, subsets: Subsets) -> Iterator[Subsets]:
    """Yield the subsets, then smaller ones: of the middle weight decay, two learning rates, one; one configuration."""
    yield subsets
    decays = sorted({candidate.weight_decay for candidate in space.candidates})
    rates = sorted({candidate.learning_rate for candidate in space.candidates})
    middle: list[Callable[[Hyperparameters], bool]] = [lambda one: one.weight_decay == decays[len(decays) // 2]]
    for count in (2, 1):
        first = max(0, (len(rates) - count) // 2)
        some = rates[first : first + count]
        middle.append(lambda one, some=some: one.learning_rate in some)  # type: ignore[misc]
    for is_middle in middle:
        subsets = [
            [e for e in subset if is_middle(space.candidates[space.configurations[e].candidate])] or list(subset)
            for subset in subsets
        ]
        yield subsets
    yield [[subset[len(subset) // 2]] for subset in subsets]


def measure_epoch_seconds(
    space: SearchSpace,
    subsets: Subsets,
    tasks: Sequence[Sequence[TrainingTask]],
    make_trainer: Callable[[Sequence[TrainingTask], int, Sequence[Hyperparameters]], Trainer],
) -> dict[int, float]:
    """Return the seconds of an epoch of one candidate on all folds, for each mixing configuration."""
    result = {}
    for m, indices in candidates_by_mixing(space, subsets).items():
        candidates, task = [space.candidates[c] for c in indices], tasks[m][0]
        rows = stratified_order(task.y)[:512]
        weight = None if task.weight is None else task.weight[rows]
        probe, seconds = replace(task, X=task.X[rows], y=task.y[rows], weight=weight), []
        for _ in range(2):  # the first time is longer
            trainer, begin = make_trainer([probe], m, candidates), monotonic()
            trainer.advance(1)
            seconds.append(monotonic() - begin)
        result[m] = min(seconds) * sum(len(each.X) for each in tasks[m]) / len(rows) / len(indices)
    return result


def fit_to_time_limit(
    space: SearchSpace,
    subsets: Subsets,
    epochs: int,
    schedule: Callable[[int], list[Rung]],
    epoch_seconds: Mapping[int, float],
    progress: FitProgress,
) -> tuple[Subsets, int]:
    """Return subsets of configurations and a number of epochs for which there is time.

    Epochs become fewer first, down to half of them, then the configurations, to those of middle parameters.
    `epoch_seconds` are those of one candidate, by mixing index.
    """
    before, all_epochs = len(union(subsets)), epochs
    for smaller in progressively_fewer(space, subsets):
        tried = union(smaller)
        seconds = max(epoch_seconds[space.configurations[e].mixing] for e in tried)
        work = count_epochs(schedule(all_epochs), len(tried), len(smaller))
        epochs = min(all_epochs, int(all_epochs * progress.time_left / (EVALUATION_FACTOR * work * seconds)))
        if epochs >= all_epochs // 2:
            break
    if len(tried) < before:
        progress.truncations.append(f"it tries {len(tried)} of {before} candidates")
    if epochs < all_epochs:
        progress.truncations.append(f"networks are trained for at most {max(1, epochs)} of {all_epochs} epochs")
    return smaller, max(1, epochs)


def warn_about_truncation(progress: FitProgress) -> None:
    """Warn of everything that a time limit left out.

    >>> import warnings
    >>> progress = FitProgress(time_limit=5.0)
    >>> progress.truncations.append("it tries 2 of 24 candidates")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_about_truncation(progress)
    >>> print(caught[0].message)
    the fit would take longer than time_limit=5 s: it tries 2 of 24 candidates; give it more time, or None
    """
    if progress.truncations:
        limit, cuts = f"time_limit={progress.time_limit:g} s", ", ".join(progress.truncations)
        warn("time", f"the fit would take longer than {limit}: {cuts}; give it more time, or None", UserWarning)
