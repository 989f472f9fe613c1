"""The paths of a full search: how every candidate does at every epoch, on its fold, on all rows, and on rows apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from genlabel._runtime import one_thread
from genlabel.attacks import Attack, AttackedFleet
from genlabel.estimators.base import NetworkClassifier
from genlabel.metrics import accuracy, index_labels, log_loss
from genlabel.model_selection.labelers import prepare_labelers
from genlabel.model_selection.scoring import Scoring
from genlabel.model_selection.search import EPOCHS_BETWEEN_ATTACKS
from genlabel.model_selection.search_space import SearchSpace
from genlabel.model_selection.tasks import NETWORK_STREAM, fold_tasks, make_task, make_trainer
from genlabel.model_selection.time_budget import stage_shares
from genlabel.training import BestEpoch, Fleet, TrainingTask

Changed = Callable[[SearchSpace], SearchSpace]
"""Changes the search space of a classifier before it is trained."""
Look = Callable[[Fleet, int], NDArray[np.float64]]
"""Scores (candidates, m) of the networks of a task, by a fleet and the index of the task."""


class Paths(NamedTuple):
    """What was seen of the candidates of a search, epoch after epoch; scores are accuracy and minus the log-loss."""

    params: list[dict[str, Any]]
    """Of the candidates, in the words of the classifier's parameters."""
    epochs: list[int]
    """Those that were looked at, from 1."""
    valid: NDArray[np.float64]
    """Scores (looks, folds, candidates, 2) of the networks of the folds on the rows that these hold out."""
    apart: NDArray[np.float64]
    """Scores (looks, candidates, 2) of the networks of the first fold on the rows apart."""
    whole: NDArray[np.float64]
    """Scores (looks, candidates, 2) of the networks that were trained on all rows, on the rows apart."""


def learning_curves(
    model: NetworkClassifier,
    X: Any,
    y: Any,
    apart: tuple[Any, Any],
    wanted: Callable[[dict[str, Any]], bool] = lambda params: True,
    changed: Changed = lambda method: method,
    attack: Attack | None = None,
) -> Paths:
    """Train the candidates of a classifier, on each fold and on all rows, and look at them at every epoch.

    It is for those who ask what a choice is worth: of the epoch, of the candidate, on rows that a choice must not see.
    Under an attack, all rows are attacked, at every fifth epoch. Where there is
    one candidate alone, and so nothing to choose, only the first fold is trained.

    Parameters
    ----------
    model : MixupClassifier, GenLabelClassifier or AdaMixupClassifier
        With a grid search and one way of mixing, as `from_paper` makes it.
    X, y
        As of `fit`; numbers.
    apart : tuple of X (m, d) and y (m,)
        Rows that are neither trained on nor held out.
    wanted : callable (params) -> bool
        Which candidates.
    changed : callable (method) -> method
    attack : Attack, optional
        That of the search if not given.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from genlabel import MixupClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MixupClassifier.from_paper(training__epochs=5, random_state=0)
    >>> paths = learning_curves(model, X[::2], y[::2], (X[1::2], y[1::2]))
    >>> paths.valid.shape, paths.whole.shape  # 5 epochs, 6 folds, 4 learning rates
    ((5, 6, 4, 2), (5, 4, 2))
    """
    with one_thread(), model._track_progress() as progress:
        config = model._trainer_config()
        space = changed(model._search_space(config))
        if config.search.is_halving or len(space.mixing) > 1:
            raise ValueError("learning curves are those of a grid search with one way of mixing; use search='grid'")
        data = model._training_data(X, y, None, None, config, progress)
        progress.plan(stage_shares(space, config, searches=True, typicality=False))
        labelers = prepare_labelers(space, data, config, progress)
        indices = [i for i, params in enumerate(space.params) if wanted({**params, **space.mixing[0].params})]
        candidates, epochs = [space.candidates[i] for i in indices], config.max_epochs(len(data.raw.X))
        rule: Scoring = config.search.scoring if attack is None else attack
        every = 1 if isinstance(rule, str) else EPOCHS_BETWEEN_ATTACKS
        test = np.asarray(apart[0], dtype=np.float64), index_labels(apart[1], data.raw.classes)

        def on_fold(fleet: Fleet, fold: int) -> NDArray[np.float64]:
            held = _rate(rule, fleet, data.valid[fold].X, data.valid[fold].y)
            on_test = _rate(rule, fleet, data.scalers[fold](test[0]), test[1]) if fold == 0 else np.zeros_like(held)
            return np.hstack([held, on_test])

        def on_whole(fleet: Fleet, group: int) -> NDArray[np.float64]:
            return _rate(rule, fleet, data.scaler(test[0]), test[1])

        def record(tasks: Sequence[TrainingTask], look: Look) -> NDArray[np.float64]:
            """Train tasks to the end; return what was seen of them, (looks, tasks, candidates, m)."""
            seen: list[list[NDArray[np.float64]]] = [[] for _ in tasks]

            def score(fleet: Fleet, group: int) -> NDArray[np.float64]:
                scores = look(fleet, group)
                seen[group].append(scores.reshape(-1, len(indices), scores.shape[-1]))
                return scores

            keep = BestEpoch(score, every)
            trainer = make_trainer(space, config, tasks, 0, epochs, candidates, keep=keep, progress=progress)
            trainer.advance(epochs)
            return np.stack([np.concatenate(parts) for parts in seen], 1)

        folds = fold_tasks(space, data, labelers, NETWORK_STREAM)[0][: None if len(indices) > 1 else 1]
        whole = space.mixing[0].apply(make_task(space, data, labelers, None, NETWORK_STREAM))
        of_folds, of_whole = record(folds, on_fold), record([whole], on_whole)
        looks = [e for e in range(1, epochs + 1) if e % every == 0 or e == epochs]
        params = [dict(space.params[i]) for i in indices]
        return Paths(params, looks, of_folds[..., :2], of_folds[:, 0, :, 2:], of_whole[:, 0])


def _rate(rule: Scoring, fleet: Fleet, X: NDArray[np.float64], y: NDArray[Any]) -> NDArray[np.float64]:
    """Return scores (candidates, 2) on rows; on attacked ones if candidates are chosen so."""
    if isinstance(rule, str):
        return fleet.rate(0, X, y)
    target = AttackedFleet(fleet)
    attacked = rule(target, torch.from_numpy(X), y, rng=0)
    log_proba = target.log_proba(attacked).cpu().numpy()
    return np.stack([accuracy(log_proba, y), -log_loss(log_proba, y)], -1)
