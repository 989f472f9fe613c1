"""Options of a search and of a training: what the classifiers take as `search` and as `training`."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar, final

import numpy as np
import torch
from sklearn.base import BaseEstimator

from genlabel._arrays import named_device
from genlabel._validation import check_choice, check_count, check_positive
from genlabel.attacks import Attack
from genlabel.training.batching import batches_per_epoch
from genlabel.training.optimizers import resolve_optimizer

SCORINGS = ("log-loss", "accuracy")
"""Held-out log-loss with the one-standard-error rule, or held-out accuracy (the paper's)."""
MAX_HALVING_EPOCHS = 50
"""Largest number of epochs of a halving search."""
MAX_BATCHES = 256
"""Largest number of optimizer steps of an epoch in a halving search; where a pass has more, it takes several epochs."""
HALVING_STEPS = 320.0
"""Number of epochs of a halving search times the square root of the steps of an epoch."""
HALVING_SCHEDULE = ((1 / 10, 8), (1 / 4, 5), (1 / 2, 3))
"""Shares of the epochs after which candidates are compared, each with the number of candidates that continue."""
HALVING_SCHEDULE_LARGE = ((1 / 20, 4), (1 / 8, 2), (1 / 3, 1))
"""Schedule of a table whose passes take several epochs; its many held-out rows show differences early."""
STAGE_DEADLINES = {"stacked density": 0.35, "feature networks": 0.6, "search": 0.9, "final fit": 0.95}
"""Stages of a fit, with the share of its time limit that is spent when each should end; typicality comes last."""
SEARCH_COST = 20
"""Approximate time of a search, in units of the time of one final network."""
Rung = tuple[int, int | None]
"""Number of epochs after which candidates are compared, and the number that continue; None is all of them."""


class CandidateSearch(BaseEstimator):
    """Base class of the searches; its schedule is that of a grid search."""

    learning_rates: ClassVar[Sequence[float]] = (0.1, 0.01, 0.001, 0.0001)  # arXiv Table 11
    """Candidates for `learning_rate="auto"`."""
    is_halving: ClassVar[bool] = False
    restore_best: bool = False

    def __init__(
        self,
        cv: Any = "auto",
        scoring: Any = "log-loss",
        *,
        ensemble: Any = "cv",
        time_limit: float | None = None,
        verbose: int = 0,
    ) -> None:
        self.cv = cv
        self.scoring = scoring
        self.ensemble = ensemble
        self.time_limit = time_limit
        self.verbose = verbose

    @property
    def predicts_with_folds(self) -> bool:
        """True if the networks of all folds predict."""
        return isinstance(self.ensemble, str) and self.ensemble == "cv"

    @property
    def refits(self) -> bool:
        """True if the networks that predict are trained on all rows, after the search."""
        return not self.predicts_with_folds and not self.restore_best

    @property
    def ranked_by(self) -> str:
        """Name of the score that ranks candidates; under an attack it is accuracy."""
        return self.scoring if isinstance(self.scoring, str) else "accuracy"

    @property
    def deadline(self) -> float:
        """Share of the time limit that is spent when the search should end; final networks need part of the rest."""
        final_networks = 0 if self.predicts_with_folds else self.ensemble
        return STAGE_DEADLINES["search"] * SEARCH_COST / (SEARCH_COST + final_networks)

    def auto_epochs(self, rows: int, batch_size: int) -> tuple[int, int]:
        """Return the largest number of epochs of a network, and the number of epochs that make a pass over the rows."""
        return 100, 1  # arXiv Table 11

    def schedule(self, epochs: int, many_rows: bool = False) -> list[Rung]:
        """Return the rungs of the search; the last one is its end."""
        return [(epochs, None)]


@final
class HalvingSearch(CandidateSearch):
    """Successive halving: all candidates train for a few epochs, the best of them for longer.

    After a tenth of the epochs the best 8 candidates continue, after a quarter 5, after a half 3; on large tables, a
    pass over which takes several epochs, 4 after a twentieth, 2 after an eighth and 1 after a third. The parameters of
    a network are averaged over its steps; a candidate may be chosen as it was at any of these points: early stopping.

    Parameters
    ----------
    cv : "auto", int, splitter or iterable of (train, test) rows
        Folds. "auto" is 6 folds below 600 rows, 4 below 20,000, and the first 2 of 10 from there on. An int makes
        stratified, shuffled folds. A class of few rows is held out in as few folds; a single row is always trained on,
        with a warning.
    scoring : "log-loss", "accuracy" or Attack
        The best candidate has the lowest held-out log-loss, by the one-standard-error rule (of the candidates that are
        not worse than the best by more than the noise, the one of the largest weight decay); the highest held-out
        accuracy, ties by log-loss (the paper's); or that of the network alone under an attack such as FGSM(0.2).
    ensemble : "cv" or int
        Networks that predict, as the mean of their probabilities: those of the folds, or as many trained on all rows.
    time_limit : float or None
        Seconds that a fit may take. A fit that would take longer uses fewer rows, candidates, densities and epochs, and
        warns; its result then depends on the speed of the machine. A density that you name takes the time it needs.
    verbose : int
        Above 0, show stage, progress, time left and held-out log-loss on the error stream: a bar on a terminal, else a
        line every few seconds.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from genlabel import MixupClassifier
    >>> model = MixupClassifier(search=HalvingSearch(cv=3, time_limit=60.0), random_state=0)
    >>> model.fit(*load_iris(return_X_y=True)).score(*load_iris(return_X_y=True)) > 0.9
    True
    """

    learning_rates = (0.1, 0.03, 0.01, 0.003)  # averaged parameters and few steps suit large rates
    is_halving = True

    def auto_epochs(self, rows: int, batch_size: int) -> tuple[int, int]:
        """Return 50 epochs, or fewer if an epoch has many steps."""
        per_pass = -(-batches_per_epoch(rows, batch_size) // MAX_BATCHES)
        batches = batches_per_epoch(rows, batch_size * per_pass)
        return int(min(MAX_HALVING_EPOCHS, round(HALVING_STEPS / batches**0.5))), per_pass

    def schedule(self, epochs: int, many_rows: bool = False) -> list[Rung]:
        """Return the rungs at the shares of the epochs, and the end."""
        shares = HALVING_SCHEDULE_LARGE if many_rows else HALVING_SCHEDULE
        survivors = {max(1, int(share * epochs)): count for share, count in shares}
        rungs: list[Rung] = [(end, count) for end, count in survivors.items() if end < epochs]
        return [*rungs, (epochs, None)]


@final
class GridSearch(CandidateSearch):
    """Grid search: every candidate trains for all epochs on every fold (the paper's search).

    Parameters
    ----------
    cv, scoring, time_limit, verbose
        See :class:`HalvingSearch`.
    ensemble : int or "cv"
        Networks that predict: as many are trained on all rows; "cv" takes those of the folds.
    restore_best : bool
        Take each network from its best epoch on the rows that its fold holds out (by `scoring`; under an attack, of
        every fifth epoch). The networks of the first folds then predict, as many as `ensemble` states.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from genlabel import MixupClassifier, TrainingOptions
    >>> search = GridSearch(cv=3, scoring="accuracy", restore_best=True)
    >>> model = MixupClassifier(search=search, training=TrainingOptions(epochs=30), random_state=0)
    >>> model.fit(*load_iris(return_X_y=True)).n_iter_ <= 30
    True
    """

    def __init__(
        self,
        cv: Any = "auto",
        scoring: Any = "log-loss",
        *,
        ensemble: Any = 1,
        restore_best: bool = False,
        time_limit: float | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(cv, scoring, ensemble=ensemble, time_limit=time_limit, verbose=verbose)
        self.restore_best = restore_best


SEARCHES: dict[str, type[CandidateSearch]] = {"halving": HalvingSearch, "grid": GridSearch}
"""The searches by name."""


def default_options(search: Any, training: Any) -> dict[str, BaseEstimator]:
    """Return the default options for which the name of a search, or `training=None`, stands."""
    is_name = isinstance(search, str) and search in SEARCHES
    options: dict[str, BaseEstimator] = {"search": SEARCHES[search]()} if is_name else {}
    return options if training is not None else {**options, "training": TrainingOptions()}


def resolve_search(search: Any) -> CandidateSearch:
    """Return a checked search, but for `cv`; a name stands for a search with default parameters."""
    if isinstance(search, str):
        check_choice("search", search, SEARCHES, also="a HalvingSearch or GridSearch")
        return SEARCHES[search]()
    if not isinstance(search, CandidateSearch):
        raise ValueError(f'search={search!r} must be "halving", "grid", a HalvingSearch or a GridSearch')
    if not isinstance(search.scoring, Attack):
        check_choice("scoring", search.scoring, SCORINGS, also="an Attack such as FGSM(0.2)")
    if isinstance(search.ensemble, str):
        check_choice("ensemble", search.ensemble, ["cv"], also="a number of networks")
    else:
        check_count("ensemble", search.ensemble)
    if search.time_limit is not None:
        check_positive("time_limit", search.time_limit, "None is no limit")
    if not isinstance(search.restore_best, bool | np.bool_):
        raise ValueError(f"restore_best={search.restore_best!r} must be True or False")
    return search


@final
class TrainingOptions(BaseEstimator):
    """Options of the training of a network.

    Parameters
    ----------
    learning_rate : float, "auto" or sequence of float
        "auto" chooses among 0.1, 0.03, 0.01, 0.003 in a halving search and 0.1, 0.01, 0.001, 0.0001 in a grid search; a
        sequence is a grid of its own.
    weight_decay : float, "auto" or sequence of float
        "auto" chooses among 1e-4, 1e-3, 1e-2.
    epochs : int or "auto"
        Largest number of epochs. "auto" is 100 in a grid search, 50 in a halving search, and fewer where an epoch has
        many steps; from 32,768 rows on, a pass over them then takes several epochs.
    batch_size : int
    optimizer : "adam", "sgd" or Optimizer
        "sgd" has momentum 0.9 and multi-step decay.
    standardize : bool
        Standardize the features inside; constant ones are left out.
    device : "auto", "cpu", "cuda" or torch.device
        "auto" is the GPU, where there is one and the network has hidden layers.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from genlabel import MixupClassifier
    >>> training = TrainingOptions(learning_rate=(0.1, 0.01), epochs=20)
    >>> model = MixupClassifier(training=training, random_state=0).fit(*load_iris(return_X_y=True))
    >>> model.best_params_["learning_rate"] in (0.1, 0.01)
    True
    """

    def __init__(
        self,
        learning_rate: Any = "auto",
        weight_decay: Any = "auto",
        *,
        epochs: Any = "auto",
        batch_size: int = 128,
        optimizer: Any = "adam",
        standardize: bool = True,
        device: Any = "auto",
    ) -> None:
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.standardize = standardize
        self.device = device


def resolve_training(training: Any, hidden: tuple[int, ...], device: torch.device | None = None) -> TrainingOptions:
    """Return checked options with an optimizer and a device in place of their names; None has default options.

    `hidden` are the hidden layers of the network; a given `device` replaces that of the options.
    """
    training = TrainingOptions() if training is None else training
    if not isinstance(training, TrainingOptions):
        raise ValueError(f"training={training!r} must be TrainingOptions or None")
    if not isinstance(training.standardize, bool | np.bool_):
        raise ValueError(f"standardize={training.standardize!r} must be True or False")
    if device is None:
        # Softmax regression takes small steps, which a CPU does faster.
        auto = isinstance(training.device, str) and training.device == "auto"
        device = torch.device("cpu") if auto and not hidden else named_device(training.device)
    auto_epochs = isinstance(training.epochs, str) and training.epochs == "auto"
    return copy(training).set_params(
        epochs="auto" if auto_epochs else check_count("epochs", training.epochs),
        batch_size=check_count("batch_size", training.batch_size),
        optimizer=resolve_optimizer(training.optimizer),
        device=device,
    )
