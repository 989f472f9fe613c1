"""Mixup, manifold mixup and vanilla training: the baselines, with the same search and the same engine."""

from __future__ import annotations

from typing import Any, final

from genlabel.checks import check_choice, check_positive
from genlabel.estimators.base import NetworkClassifier
from genlabel.estimators.study import Recipe, Settings
from genlabel.labeling import GenLabel, Labeler, LinearLabel, LogisticLabel
from genlabel.mixing import ManifoldMixup, Mixer, Mixup

__all__ = ["MixupClassifier"]


@final
class MixupClassifier(NetworkClassifier):
    """A network trained on mixed points with any mixer and labeler; vanilla training is `mixer=None`.

    Parameters
    ----------
    network : "logistic", "mlp" or sequence of int
        Softmax regression, two hidden ReLU layers of 128, or the given hidden layers.
    mixer : "mixup", "manifold", None or Mixer
        Mix the input, or a layer drawn anew for each batch among the input and the first two hidden layers
        (Verma et al., 2019), or nothing.
    labeler : "linear", "logistic" or Labeler
        Mixup's labels, the logistic ones of arXiv section 3.2, or any other, fitted to the training set.
    exclude_intrusion : bool
        Leave out mixed points whose nearest training point is of a third class (arXiv section 3.1).
    learning_rate : "cv", float or sequence of float
        "cv" chooses among 0.1, 0.01, 0.001, 0.0001.
    alpha : float or None
        Of lam ~ Beta(alpha, alpha); None is 1 for mixup and 2 for manifold mixup.
    per : "sample", "batch" or None
        One lam for each point, or for each batch; None is "sample" for mixup and "batch" for manifold mixup.
    class_weight, cv, epochs, batch_size, weight_decay, optimizer, standardize, device, random_state, verbose
        As in :class:`GenLabelClassifier`.

    Attributes
    ----------
    classes_, best_params_, best_score_, cv_results_, history_, n_iter_, network_
        As in :class:`GenLabelClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> vanilla = MixupClassifier(mixer=None, random_state=0).fit(X, y)
    >>> sorted(vanilla.best_params_)
    ['learning_rate']
    """

    def __init__(
        self,
        network: Any = "logistic",
        mixer: Any = "mixup",
        labeler: Any = "linear",
        exclude_intrusion: bool = False,
        learning_rate: Any = "cv",
        alpha: float | None = None,
        *,
        per: str | None = None,
        class_weight: Any = None,
        cv: Any = 6,
        epochs: int = 100,
        batch_size: int = 128,
        weight_decay: float = 1e-4,
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
        self.per = per
        self.class_weight = class_weight
        self.cv = cv
        self.epochs = epochs
        self.batch_size = batch_size
        self.weight_decay = weight_decay
        self.optimizer = optimizer
        self.standardize = standardize
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def _recipe(self, settings: Settings) -> Recipe:
        mixer, labeler = self._mixer(len(settings.hidden)), self._labeler()
        if mixer is not None and mixer.max_depth and (self.exclude_intrusion or isinstance(labeler, GenLabel)):
            what = "exclude_intrusion=True" if self.exclude_intrusion else f"labeler={labeler!r}"
            raise ValueError(f"{what} looks at mixed inputs, but mixer={self.mixer!r} mixes hidden layers")
        return self._plain(mixer, labeler, self.exclude_intrusion)

    def _mixer(self, depth: int) -> Mixer | None:
        if self.mixer is None:
            self._check_unused("mixes nothing; use mixer='mixup'", "alpha", "per", "exclude_intrusion", "labeler")
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
        if self.alpha is not None:
            check_positive("alpha", self.alpha, "mixup needs Beta(alpha, alpha); mixer=None is no mixing")
        given = {name: getattr(self, name) for name in ("alpha", "per") if getattr(self, name) is not None}
        return known[self.mixer].set_params(**given)

    def _check_unused(self, why: str, *names: str) -> None:
        """Raise if a parameter that has no effect here is not at its default."""
        defaults = {"alpha": None, "per": None, "exclude_intrusion": False, "labeler": "linear"}
        for name in names:
            value = getattr(self, name)
            if not (isinstance(value, type(defaults[name])) and value == defaults[name]):
                raise ValueError(f"{name}={value!r} has no effect: mixer={self.mixer!r} {why}")

    def _labeler(self) -> Labeler:
        if isinstance(self.labeler, Labeler):
            return self.labeler
        known: dict[str, Labeler] = {"linear": LinearLabel(), "logistic": LogisticLabel()}
        check_choice("labeler", self.labeler, known, also="a Labeler such as LogisticLabel(sigma=0.3)")
        return known[self.labeler]
