"""Learning curves of a full search: scores of every candidate at every epoch, on validation and test rows."""

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
from genlabel.model_selection.search import LOOKS_UNDER_ATTACK, NETWORK, WHOLE, CandidateSearch
from genlabel.model_selection.search_space import Rule, SearchSpace
from genlabel.model_selection.stages import shares_of
from genlabel.training import BestEpoch, Fleet, TrainingTask

ChangeSearchSpace = Callable[[SearchSpace], SearchSpace]
"""Function that edits the search space of a classifier before training."""


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
        Classifier with `search="full"` and one way of mixing, as `from_paper` returns it.
    X, y
        Training data, see `fit`; X is numeric.
    test : tuple of X (m, d) and y (m,)
        Test rows.
    selects : callable (params) -> bool
        Filter of the candidates.
    change : callable (SearchSpace) -> SearchSpace
    attack : Attack, optional
        Attack on the scored rows; by default that of `select`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from genlabel import MixupClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MixupClassifier.from_paper(epochs=5, random_state=0)
    >>> curves = learning_curves(model, X[::2], y[::2], (X[1::2], y[1::2]))
    >>> curves.valid.shape, curves.test_of_all.shape  # 5 epochs, 6 folds, 4 learning rates
    ((5, 6, 4, 2), (5, 4, 2))
    """
    with one_thread(), model._followed() as course:
        settings = model._settings()
        space = change(model._method(settings))
        if settings.halving or len(space.recipes) > 1:
            raise ValueError("learning curves need a full search with one way of mixing; use search='full'")
        study = model._open((X, y, None, None), settings, course)
        mixing = space.recipes[0].params
        chosen = [index for index, params in enumerate(space.params) if selects({**params, **mixing})]
        return _CurveRecorder(study, space, model.select if attack is None else attack, test, chosen).record()


class _CurveRecorder:
    """Training of candidates that records their scores at every epoch."""

    def __init__(
        self, study: CandidateSearch, space: SearchSpace, rule: Rule, test: tuple[Any, Any], chosen: Sequence[int]
    ) -> None:
        self.study, self.space, self.rule, self.chosen = study, space, rule, list(chosen)
        self.test = np.asarray(test[0], dtype=np.float64), index_labels(test[1], study.dealt.sample.classes)
        self.every = 1 if isinstance(rule, str) else LOOKS_UNDER_ATTACK
        study.course.plan(shares_of(space, study.settings, searches=True, supported=False))

    def record(self) -> LearningCurves:
        """Train the candidates on the folds and on all rows, and return their scores."""
        study, space = self.study, self.space
        sources = study._sources(space, self.rule)
        folds = study._tasks(space, sources, NETWORK)[0][: None if len(self.chosen) > 1 else 1]
        whole = study._task(space, space.recipes[0], study.dealt.whole, WHOLE, sources, NETWORK)
        of_folds, of_all = self._train(folds, self._score_fold), self._train([whole], self._score_all)
        epochs = [e for e in range(1, study.epochs + 1) if e % self.every == 0 or e == study.epochs]
        params = [dict(space.params[index]) for index in self.chosen]
        return LearningCurves(params, epochs, of_folds[..., :2], of_folds[:, 0, :, 2:], of_all[:, 0])

    def _train(
        self, tasks: Sequence[TrainingTask], score: Callable[[Fleet, int], NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Train the tasks completely, and return their scores (epochs, tasks, candidates, m)."""
        recorded: list[list[NDArray[np.float64]]] = [[] for _ in tasks]

        def record(fleet: Fleet, group: int) -> NDArray[np.float64]:
            scores = score(fleet, group)
            recorded[group].append(scores.reshape(-1, len(self.chosen), scores.shape[-1]))
            return scores

        candidates = [self.space.candidates[index] for index in self.chosen]
        study = self.study
        run = study._start(self.space, tasks, 0, study.epochs, candidates, kept=BestEpoch(record, self.every))
        run.advance(study.epochs)
        return np.stack([np.concatenate(parts) for parts in recorded], 1)

    def _score_fold(self, fleet: Fleet, fold: int) -> NDArray[np.float64]:
        part = self.study.dealt.parts[fold]
        valid = self._rate(fleet, part.valid.X, part.valid.y)
        test = self._rate(fleet, part.scaler(self.test[0]), self.test[1]) if fold == 0 else np.zeros_like(valid)
        return np.hstack([valid, test])

    def _score_all(self, fleet: Fleet, group: int) -> NDArray[np.float64]:
        return self._rate(fleet, self.study.dealt.scaler(self.test[0]), self.test[1])

    def _rate(self, fleet: Fleet, X: NDArray[np.float64], y: NDArray[Any]) -> NDArray[np.float64]:
        """Return scores (candidates, 2) on rows, under attack if the rule is one."""
        if isinstance(self.rule, str):
            return fleet.rate(0, X, y)
        target = AttackedFleet(fleet)
        attacked = self.rule(target, torch.from_numpy(X), y, rng=0)
        log_proba = target.log_proba(attacked).cpu().numpy()
        return np.stack([accuracy(log_proba, y), -log_loss(log_proba, y)], -1)
