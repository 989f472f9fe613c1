"""Mixup, manifold mixup and vanilla training: the baselines, with the same search and the same engine."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, final

import numpy as np

from genlabel.checks import check_choice
from genlabel.estimators.base import ALPHAS, CLEAN_WEIGHTS, NetworkClassifier, grid, recipes
from genlabel.estimators.methods import Method, Recipe, Settings
from genlabel.labeling import Labeler, LinearLabel, LogisticLabel
from genlabel.mixing import ManifoldMixup, Mixer, Mixup
from genlabel.training import Candidate

__all__ = ["MixupClassifier"]


@final
class MixupClassifier(NetworkClassifier):
    """A network trained on mixed points with any mixer and labeler; vanilla training is `mixer=None`.

    Parameters
    ----------
    *The network*

    network : "logistic", "mlp" or sequence of int
        Softmax regression, two hidden ReLU layers of 128, or the given hidden layers.

    *Mixing and labels*

    mixer : "mixup", "manifold", None or Mixer
        Mix the input, or a layer drawn anew for each batch among the input and the first two hidden layers
        (Verma et al., 2019), or nothing.
    alpha : None, float, "cv" or sequence of float
        Of lam ~ Beta(alpha, alpha); None is 1 for mixup and 2 for manifold mixup, "cv" chooses among 0.3 and 1.
    per : "sample", "batch" or None
        One lam for each point, or for each batch; None is "sample" for mixup and "batch" for manifold mixup.
    clean_weight : float in [0, 1], "cv" or sequence of them
        Share of the points of a batch that stay as they are; 0 mixes all, "cv" chooses among 0.75 and 1.
    labeler : "linear", "logistic", Labeler or sequence of them
        Mixup's labels, the logistic ones of arXiv section 3.2, or any other, fitted to the training set; of several,
        cross-validation chooses.
    exclude_intrusion : bool
        Leave out mixed points whose nearest training point is of a third class (arXiv section 3.1).

    *Training, the choice, data and machine*

    learning_rate : "cv", float or sequence of float
        "cv" chooses among 0.1, 0.01, 0.001, 0.0001.
    weight_decay : "cv", float or sequence of float
        "cv" chooses among 1e-4, 1e-3, 1e-2.
    select, class_weight, cv, epochs, batch_size, optimizer, standardize, device, random_state, verbose
        As in :class:`GenLabelClassifier`: every method has the same search, by default.

    Attributes
    ----------
    classes_, best_params_, best_index_, best_score_, cv_results_, history_, n_iter_, network_
        As in :class:`GenLabelClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> vanilla = MixupClassifier(mixer=None, random_state=0).fit(X, y)
    >>> sorted(vanilla.best_params_)
    ['learning_rate', 'weight_decay']
    """

    def __init__(
        self,
        network: Any = "logistic",
        mixer: Any = "mixup",
        labeler: Any = "linear",
        exclude_intrusion: bool = False,
        learning_rate: Any = "cv",
        alpha: Any = None,
        *,
        clean_weight: Any = 0.0,
        weight_decay: Any = "cv",
        select: Any = "log-loss",
        per: str | None = None,
        class_weight: Any = None,
        cv: Any = 6,
        epochs: int = 100,
        batch_size: int = 128,
        optimizer: Any = "adam",
        standardize: bool = True,
        device: Any = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.network = network
        self.mixer = mixer
        self.labeler = labeler
        self.exclude_intrusion = exclude_intrusion
        self.learning_rate = learning_rate
        self.alpha = alpha
        self.clean_weight = clean_weight
        self.weight_decay = weight_decay
        self.select = select
        self.per = per
        self.class_weight = class_weight
        self.cv = cv
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.standardize = standardize
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def _method(self, settings: Settings) -> Method:
        mixer, labelers = self._mixer(len(settings.hidden)), self._labelers()
        looks = any(labeler.looks_at_points for labeler in labelers)
        if mixer is not None and mixer.max_depth and (self.exclude_intrusion or looks):
            what = "exclude_intrusion=True" if self.exclude_intrusion else f"labeler={self.labeler!r}"
            raise ValueError(f"{what} looks at mixed inputs, but mixer={self.mixer!r} mixes hidden layers")
        shares = grid("clean_weight", self.clean_weight, CLEAN_WEIGHTS, 0.0, 1.0)
        alphas = [None] if self.alpha is None else grid("alpha", self.alpha, ALPHAS, 1e-6, 1e6)
        ways = [Recipe(None)] if mixer is None else recipes(mixer, alphas, shares)
        if len(labelers) == 1:
            return self._plain(ways, labelers[0], self.exclude_intrusion)
        return self._choosing(ways, labelers)

    def _choosing(self, ways: Sequence[Recipe], labelers: Sequence[Labeler]) -> Method:
        """Every learning rate and weight decay with every labeler."""
        places = list(product(self._optimisation(), range(len(labelers))))
        basis = np.eye(len(labelers))
        return Method(
            ways,
            labelers,
            [Candidate(**pair, label=tuple(basis[place])) for pair, place in places],
            [{**pair, "labeler": self.labeler[place]} for pair, place in places],
            about_labels=frozenset({"labeler"}),
            exclude_intrusion=self.exclude_intrusion,
        )

    def _mixer(self, depth: int) -> Mixer | None:
        if self.mixer is None:
            unused = ("alpha", "per", "exclude_intrusion", "labeler", "clean_weight")
            self._check_unused("mixes nothing; use mixer='mixup'", *unused)
            return None
        if isinstance(self.mixer, Mixer):
            self._check_unused("has its own; set it there", "alpha", "per")
            if self.mixer.max_depth > depth:
                raise ValueError(
                    f"mixer={self.mixer!r} mixes at depth {self.mixer.max_depth}, but network={self.network!r} has "
                    f"{depth} hidden layers; name depths within them"
                )
            return self.mixer
        known = {"mixup": Mixup(), "manifold": ManifoldMixup(depths=tuple(range(min(depth, 2) + 1)))}
        check_choice("mixer", self.mixer, known, also="None, or a Mixer such as Mixup(alpha=0.5)")
        if self.mixer == "manifold" and depth == 0:
            raise ValueError(
                f"mixer='manifold' needs hidden layers, but network={self.network!r} has none; use network='mlp'"
            )
        return known[self.mixer] if self.per is None else known[self.mixer].set_params(per=self.per)

    def _check_unused(self, why: str, *names: str) -> None:
        """Raise if a parameter that has no effect here is not at its default."""
        defaults = {
            "alpha": None,
            "per": None,
            "exclude_intrusion": False,
            "labeler": "linear",
            "clean_weight": 0.0,
        }
        for name in names:
            value = getattr(self, name)
            if value is not defaults[name] and not (np.ndim(value) == 0 and value == defaults[name]):
                raise ValueError(f"{name}={value!r} has no effect: mixer={self.mixer!r} {why}")

    def _labelers(self) -> list[Labeler]:
        several = isinstance(self.labeler, Sequence) and not isinstance(self.labeler, str)
        if several and not len(self.labeler):
            raise ValueError("labeler is an empty sequence; name at least one, for example 'linear'")
        return [_labeler(given) for given in (self.labeler if several else [self.labeler])]


def _labeler(labeler: Any) -> Labeler:
    if isinstance(labeler, Labeler):
        return labeler
    known: dict[str, Labeler] = {"linear": LinearLabel(), "logistic": LogisticLabel()}
    check_choice("labeler", labeler, known, also="a Labeler such as LogisticLabel(sigma=0.3)")
    return known[labeler]
