"""Mixup, manifold mixup and vanilla training: the baselines, with the same search and the same engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Self, final

import numpy as np

from genlabel._validation import check_choice
from genlabel.estimators.base import ALPHAS, CLEAN_FRACTIONS, NetworkClassifier, grid, over_networks, recipes
from genlabel.labeling import Labeler, LinearLabel, LogisticLabel
from genlabel.mixing import ManifoldMixup, Mixer, Mixup
from genlabel.model_selection.search_space import MixingConfig, SearchSpace, TrainerConfig
from genlabel.training import Hyperparameters


@final
class MixupClassifier(NetworkClassifier):
    """A network trained on mixed points with any mixer and labeler; vanilla training is `mixer=None`.

    Parameters
    ----------
    *The network*

    network : "mlp", "logistic", "auto" or sequence of int
        Two hidden ReLU layers of 128, softmax regression, or the given hidden layers; "auto" lets the search choose
        among the first two (where hidden layers are mixed, it is the first).

    *Mixing and labels*

    mixer : "mixup", "manifold", None or Mixer
        Mix the input, or a layer drawn anew for each batch among the input and the first two hidden layers
        (Verma et al., 2019), or nothing.
    alpha : None, float, "cv" or sequence of float
        Of lam ~ Beta(alpha, alpha); None is 0.3 for mixup and 2 for manifold mixup, "cv" chooses among 0.3 and 1.
    lam_per : "sample", "batch" or None
        One lam for each point, or for each batch; None is "sample" for mixup and "batch" for manifold mixup.
    clean_fraction : float in [0, 1], "cv" or sequence of them
        Share of the points of a batch that stay as they are; 0 mixes all (the paper's), "cv" chooses among 0.75 and 1,
        as it does for GenLabel.
    labeler : "linear", "logistic", Labeler or sequence of them
        Mixup's labels, the logistic ones of arXiv Section 3.2, or any other, fitted to the training set; of several,
        cross-validation chooses.
    exclude_intrusion : bool
        Leave out mixed points whose nearest training point is of a third class (arXiv Section 3.1).

    *Training, the choice, data and machine*

    learning_rate : "cv", float or sequence of float
        "cv" chooses among 0.1, 0.03, 0.01, 0.003; in a full search among 0.1, 0.01, 0.001, 0.0001.
    weight_decay : "cv", float or sequence of float
        "cv" chooses among 1e-4, 1e-3, 1e-2.
    calibrate : bool
        Whether the network is drawn towards the frequencies of the classes, as far as held-out rows say.
    select, class_weight, search, members, keep, cv, epochs, batch_size, optimizer, standardize
    device, time_limit, random_state, verbose
        As in :class:`GenLabelClassifier`: every method has the same search, by default.

    Attributes
    ----------
    classes_, class_count_, best_params_, best_index_, best_score_, cv_results_, history_, n_iter_, network_
    venn_abers_
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
        network: Any = "mlp",
        mixer: Any = "mixup",
        labeler: Any = "linear",
        exclude_intrusion: bool = False,
        learning_rate: Any = "cv",
        alpha: Any = None,
        *,
        clean_fraction: Any = "cv",
        weight_decay: Any = "cv",
        calibrate: bool = True,
        select: Any = "log-loss",
        lam_per: str | None = None,
        class_weight: Any = None,
        search: str = "halving",
        members: Any = "folds",
        keep: str = "last",
        cv: Any = "auto",
        epochs: Any = "auto",
        batch_size: int = 128,
        optimizer: Any = "adam",
        standardize: bool = True,
        device: Any = "auto",
        time_limit: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.network = network
        self.mixer = mixer
        self.labeler = labeler
        self.exclude_intrusion = exclude_intrusion
        self.learning_rate = learning_rate
        self.alpha = alpha
        self.clean_fraction = clean_fraction
        self.weight_decay = weight_decay
        self.calibrate = calibrate
        self.select = select
        self.lam_per = lam_per
        self.class_weight = class_weight
        self.search = search
        self.members = members
        self.keep = keep
        self.cv = cv
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.standardize = standardize
        self.device = device
        self.time_limit = time_limit
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def from_paper(cls, network: Any = "logistic", mixer: Any = "mixup", **params: Any) -> Self:
        """Return the classifier in the paper's own setting (arXiv Table 11 and Section E.2).

        Every point is mixed, lam ~ Beta(1, 1) once a batch; the learning rate is chosen by held-out accuracy over 6
        folds, each candidate trained to the end; weight decay is 1e-4; one network predicts.

        Parameters
        ----------
        network : "logistic", "mlp" or sequence of int
        mixer : "mixup", "manifold", None or Mixer
        **params
            Any other parameter of the class, instead of the paper's value.

        Examples
        --------
        >>> MixupClassifier.from_paper("mlp").mixer
        Mixup(lam_per='batch')
        """
        setting = {
            "clean_fraction": 0.0,
            "weight_decay": 1e-4,
            "calibrate": False,
            "select": "accuracy",
            "search": "full",
            "members": 1,
            "cv": 6,
            "epochs": 100,
        }
        way = Mixup(lam_per="batch") if isinstance(mixer, str) and mixer == "mixup" else mixer
        return cls(network, way, **{**setting, **params})

    def _method(self, settings: TrainerConfig) -> SearchSpace:
        mixer, labelers = self._mixer(len(settings.hidden)), self._labelers()
        looks = any(labeler.needs_inputs for labeler in labelers)
        if mixer is not None and mixer.max_depth and (self.exclude_intrusion or looks):
            what = "exclude_intrusion=True" if self.exclude_intrusion else f"labeler={self.labeler!r}"
            raise ValueError(f"{what} looks at mixed inputs, but mixer={self.mixer!r} mixes hidden layers")
        shares = grid("clean_fraction", self.clean_fraction, CLEAN_FRACTIONS, 0.0, 1.0)
        alphas = [None] if self.alpha is None else grid("alpha", self.alpha, ALPHAS, 1e-6, 1e6)
        ways = [MixingConfig(None)] if mixer is None else recipes(mixer, alphas, shares)
        if mixer is None or not mixer.max_depth:
            ways = over_networks(self.network, ways)
        if len(labelers) == 1:
            found = self._plain(ways, labelers[0], self.exclude_intrusion)
        else:
            found = self._choosing(ways, labelers)
        return replace(found, calibrated=bool(self.calibrate))

    def _choosing(self, ways: Sequence[MixingConfig], labelers: Sequence[Labeler]) -> SearchSpace:
        """Every learning rate and weight decay with every labeler."""
        places = list(product(self._optimisation(), range(len(labelers))))
        basis = np.eye(len(labelers))
        return SearchSpace(
            ways,
            labelers,
            [Hyperparameters(**pair, label=tuple(basis[place])) for pair, place in places],
            [{**pair, "labeler": self.labeler[place]} for pair, place in places],
            about_labels=frozenset({"labeler"}),
            exclude_intrusion=self.exclude_intrusion,
        )

    def _mixer(self, depth: int) -> Mixer | None:
        if self.mixer is None:
            unused = ("alpha", "lam_per", "exclude_intrusion", "labeler", "clean_fraction")
            self._check_unused("mixes nothing; use mixer='mixup'", *unused)
            return None
        if isinstance(self.mixer, Mixer):
            self._check_unused("has its own; set it there", "alpha", "lam_per")
            if self.mixer.max_depth > depth:
                raise ValueError(
                    f"mixer={self.mixer!r} mixes at depth {self.mixer.max_depth}, but network={self.network!r} has "
                    f"{depth} hidden layers; name depths within them"
                )
            return self.mixer
        known = {"mixup": Mixup(0.3), "manifold": ManifoldMixup(depths=tuple(range(min(depth, 2) + 1)))}
        check_choice("mixer", self.mixer, known, also="None, or a Mixer such as Mixup(alpha=0.5)")
        if self.mixer == "manifold" and depth == 0:
            raise ValueError(
                f"mixer='manifold' needs hidden layers, but network={self.network!r} has none; use network='mlp'"
            )
        return known[self.mixer] if self.lam_per is None else known[self.mixer].set_params(lam_per=self.lam_per)

    def _check_unused(self, why: str, *names: str) -> None:
        """Raise if a parameter that has no effect here is not at its default."""
        idle: dict[str, tuple[Any, ...]] = {
            "alpha": (None,),
            "lam_per": (None,),
            "exclude_intrusion": (False,),
            "labeler": ("linear",),
            "clean_fraction": ("cv", 0.0),  # by default, and in the paper's setting
        }
        for name in names:
            value = getattr(self, name)
            if not any(value is one or (np.ndim(value) == 0 and value == one) for one in idle[name]):
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
