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
from genlabel.model_selection.search import LOOKS_UNDER_ATTACK, NETWORK, WHOLE, CandidateSearch
from genlabel.model_selection.search_space import Rule, SearchSpace
from genlabel.model_selection.stages import shares_of
from genlabel.training import BestEpoch, Fleet, TrainingTask

Changed = Callable[[SearchSpace], SearchSpace]
"""What is made of the method of a classifier before it is followed."""


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
        With `search="full"`, and one recipe for mixing, as `from_paper` makes it.
    X, y
        As of `fit`; numbers.
    apart : tuple of X (m, d) and y (m,)
        Rows that are neither trained on nor held out.
    wanted : callable (params) -> bool
        Which candidates.
    changed : callable (method) -> method
    attack : Attack, optional
        That of `select` if not given.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from genlabel import MixupClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MixupClassifier.from_paper(epochs=5, random_state=0)
    >>> paths = learning_curves(model, X[::2], y[::2], (X[1::2], y[1::2]))
    >>> paths.valid.shape, paths.whole.shape  # 5 epochs, 6 folds, 4 learning rates
    ((5, 6, 4, 2), (5, 4, 2))
    """
    with one_thread(), model._followed() as course:
        settings = model._settings()
        method = changed(model._method(settings))
        if settings.halving or len(method.recipes) > 1:
            raise ValueError("paths are those of a full search with one way of mixing; use search='full'")
        study = model._open((X, y, None, None), settings, course)
        places = [place for place, params in enumerate(method.params) if wanted({**params, **method.recipes[0].params})]
        return _LearningCurves(study, method, model.select if attack is None else attack, apart, places).paths()


class _LearningCurves:
    """The training of candidates, and what is seen of it."""

    def __init__(
        self, study: CandidateSearch, method: SearchSpace, rule: Rule, apart: tuple[Any, Any], places: Sequence[int]
    ) -> None:
        self.study, self.method, self.rule, self.places = study, method, rule, list(places)
        self.apart = np.asarray(apart[0], dtype=np.float64), index_labels(apart[1], study.dealt.sample.classes)
        self.every = 1 if isinstance(rule, str) else LOOKS_UNDER_ATTACK
        study.course.plan(shares_of(method, study.settings, searches=True, supported=False))

    def paths(self) -> Paths:
        study, method = self.study, self.method
        sources = study._sources(method, self.rule)
        folds = study._tasks(method, sources, NETWORK)[0][: None if len(self.places) > 1 else 1]
        whole = study._task(method, method.recipes[0], study.dealt.whole, WHOLE, sources, NETWORK)
        of_folds, of_whole = self._seen(folds, self._on_fold), self._seen([whole], self._on_whole)
        looks = [e for e in range(1, study.epochs + 1) if e % self.every == 0 or e == study.epochs]
        params = [dict(method.params[place]) for place in self.places]
        return Paths(params, looks, of_folds[..., :2], of_folds[:, 0, :, 2:], of_whole[:, 0])

    def _seen(
        self, tasks: Sequence[TrainingTask], look: Callable[[Fleet, int], NDArray[np.float64]]
    ) -> NDArray[np.float64]:
        """Train tasks to the end; what was seen of them, (looks, tasks, candidates, m)."""
        seen: list[list[NDArray[np.float64]]] = [[] for _ in tasks]

        def score(fleet: Fleet, group: int) -> NDArray[np.float64]:
            found = look(fleet, group)
            seen[group].append(found.reshape(-1, len(self.places), found.shape[-1]))
            return found

        chosen = [self.method.candidates[place] for place in self.places]
        study = self.study
        run = study._start(self.method, tasks, 0, study.epochs, chosen, kept=BestEpoch(score, self.every))
        run.advance(study.epochs)
        return np.stack([np.concatenate(parts) for parts in seen], 1)

    def _on_fold(self, fleet: Fleet, fold: int) -> NDArray[np.float64]:
        part = self.study.dealt.parts[fold]
        held = self._rate(fleet, part.valid.X, part.valid.y)
        apart = self._rate(fleet, part.scaler(self.apart[0]), self.apart[1]) if fold == 0 else np.zeros_like(held)
        return np.hstack([held, apart])

    def _on_whole(self, fleet: Fleet, group: int) -> NDArray[np.float64]:
        return self._rate(fleet, self.study.dealt.scaler(self.apart[0]), self.apart[1])

    def _rate(self, fleet: Fleet, X: NDArray[np.float64], y: NDArray[Any]) -> NDArray[np.float64]:
        """Scores (C, 2) on rows; attacked ones if candidates are chosen so."""
        if isinstance(self.rule, str):
            return fleet.rate(0, X, y)
        target = AttackedFleet(fleet)
        attacked = self.rule(target, torch.from_numpy(X), y, rng=0)
        said = target.log_proba(attacked).cpu().numpy()
        return np.stack([accuracy(said, y), -log_loss(said, y)], -1)
