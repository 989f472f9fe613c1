"""Learning curves of a grid search: scores of every candidate at every epoch, on validation and test rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from genlabel.attacks import Attack
from genlabel.attacks.models import AttackedFleet
from genlabel.estimators.base import NetworkClassifier
from genlabel.metrics import accuracy, index_labels, log_loss
from genlabel.model_selection.refit import prepare_labelers
from genlabel.model_selection.scoring import Scoring
from genlabel.model_selection.search import EPOCHS_BETWEEN_ATTACKS
from genlabel.model_selection.search_space import SearchSpace
from genlabel.training.batching import TrainingTask
from genlabel.training.early_stopping import BestEpoch
from genlabel.training.fleet import Fleet

ChangeSearchSpace = Callable[[SearchSpace], SearchSpace]
"""Function that edits the search space of a classifier before training."""
ScoreNetworks = Callable[[Fleet, int], NDArray[np.float64]]
"""Function of a fleet and the index of a task that returns scores (candidates, m) of its networks."""


class LearningCurves(NamedTuple):
    """Scores of the candidates of a search by epoch; a score is the pair of accuracy and minus the log-loss."""

    params: list[dict[str, Any]]
    """Parameters of the candidates, as those of the classifier."""
    epochs: list[int]
    """Evaluated epochs, from 1."""
    valid: NDArray[np.float64]
    """Scores (epochs, folds, candidates, 2) of the networks of the folds on their validation rows."""
    test_of_fold: NDArray[np.float64]
    """Scores (epochs, candidates, 2) of the networks of the first fold on the test rows."""
    test_of_all: NDArray[np.float64]
    """Scores (epochs, candidates, 2) of the networks trained on all rows, on the test rows."""


def learning_curves(
    model: NetworkClassifier,
    X: Any,
    y: Any,
    test: tuple[Any, Any],
    selects: Callable[[dict[str, Any]], bool] = lambda params: True,
    change: ChangeSearchSpace = lambda space: space,
    attack: Attack | None = None,
) -> LearningCurves:
    """Train the candidates of a classifier on each fold and on all rows, and score them at every epoch.

    The curves show the effect of selecting the epoch and the candidate, also on test rows. With an attack, all rows are
    attacked, at every fifth epoch. For a single candidate, which needs no selection, only the first fold is trained.

    Parameters
    ----------
    model : MixupClassifier, GenLabelClassifier or AdaMixupClassifier
        Classifier with a grid search and one way of mixing, as `from_paper` returns it.
    X, y
        Training data, see `fit`; X is numeric.
    test : tuple of X (m, d) and y (m,)
        Test rows.
    selects : callable (params) -> bool
        Filter of the candidates.
    change : callable (SearchSpace) -> SearchSpace
    attack : Attack, optional
        Attack on the scored rows; by default that of the search.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from genlabel import MixupClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MixupClassifier.from_paper(training__epochs=5, random_state=0)
    >>> curves = learning_curves(model, X[::2], y[::2], (X[1::2], y[1::2]))
    >>> curves.valid.shape, curves.test_of_all.shape  # 5 epochs, 6 folds, 4 learning rates
    ((5, 6, 4, 2), (5, 4, 2))
    """
    with model._track_progress() as progress:
        space = change(model.search_space(model.plain_space()))
        if space.search.is_halving or len(space.mixing) > 1:
            raise ValueError("learning curves are those of a grid search with one way of mixing; use search='grid'")
        data = model._validated_folds(X, y, None, None, space, progress)
        progress.plan(space.stage_shares(searches=True, typicality=False))
        labelers, _ = prepare_labelers(space, data, progress)
        selected = [i for i, params in enumerate(space.params) if selects({**params, **space.mixing[0].params})]
        epochs = space.epochs(len(data.raw.X))[0]
        rule: Scoring = space.search.scoring if attack is None else attack
        every = 1 if isinstance(rule, str) else EPOCHS_BETWEEN_ATTACKS
        test_X, test_y = np.asarray(test[0], dtype=np.float64), index_labels(test[1], data.raw.classes)

        def score_fold(fleet: Fleet, fold: int) -> NDArray[np.float64]:
            valid = _rate(rule, fleet, data.valid[fold].X, data.valid[fold].y)
            on_test = _rate(rule, fleet, data.scalers[fold](test_X), test_y) if fold == 0 else np.zeros_like(valid)
            return np.hstack([valid, on_test])

        def score_all(fleet: Fleet, group: int) -> NDArray[np.float64]:
            return _rate(rule, fleet, data.scaler(test_X), test_y)

        def record(tasks: Sequence[TrainingTask], score: ScoreNetworks) -> NDArray[np.float64]:
            """Train the tasks completely, and return their scores (epochs, tasks, candidates, m)."""
            recorded: list[list[NDArray[np.float64]]] = [[] for _ in tasks]

            def score_and_record(fleet: Fleet, group: int) -> NDArray[np.float64]:
                scores = score(fleet, group)
                recorded[group].append(scores.reshape(-1, len(selected), scores.shape[-1]))
                return scores

            best = BestEpoch(score_and_record, every)
            trainer = space.make_trainer(tasks, 0, selected, epochs, restore_best=best, progress=progress)
            trainer.advance(epochs)
            return np.stack([np.concatenate(parts) for parts in recorded], 1)

        folds = [space.make_task(data, labelers, fold) for fold in range(len(data.folds))]
        if len(selected) < 2:
            folds = folds[:1]
        whole = space.make_task(data, labelers, None)
        fold_scores = record(folds, score_fold)
        scores_of_all = record([whole], score_all)
        return LearningCurves(
            params=[dict(space.params[i]) for i in selected],
            epochs=[epoch for epoch in range(1, epochs + 1) if epoch % every == 0 or epoch == epochs],
            valid=fold_scores[..., :2],
            test_of_fold=fold_scores[:, 0, :, 2:],
            test_of_all=scores_of_all[:, 0],
        )


def _rate(rule: Scoring, fleet: Fleet, X: NDArray[np.float64], y: NDArray[Any]) -> NDArray[np.float64]:
    """Return scores (candidates, 2) on rows, under attack if the rule is one."""
    if isinstance(rule, str):
        return fleet.score(0, X, y)
    target = AttackedFleet(fleet)
    attacked = rule(target, torch.from_numpy(X), y, seed=0)
    log_proba = target.log_proba(attacked).cpu().numpy()
    return np.stack([accuracy(log_proba, y), -log_loss(log_proba, y)], -1)
