"""The classifier of the paper: mixup whose labels come from class densities."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, final

from genlabel.checks import check_choice, check_positive
from genlabel.densities import LatentDensity, named_densities
from genlabel.densities.latent import Encoder
from genlabel.estimators.base import NetworkClassifier, grid
from genlabel.estimators.study import Choice, Recipe, Settings, Study
from genlabel.labeling import GenLabel, Labeler, LinearLabel
from genlabel.mixing import Mixup
from genlabel.training import Candidate, Fleet

__all__ = ["GAMMAS", "GenLabelClassifier"]

GAMMAS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Among which `gamma="cv"` chooses (arXiv, "Detailed experiments setup")."""


@final
class GenLabelClassifier(NetworkClassifier):
    """Mixup with generative labels (arXiv Alg. 1; in latent space Alg. 2), fitted with its own cross-validation.

    A blend of two points is labelled with gamma times its posterior under the class densities plus
    (1 - gamma) times mixup's label. All candidates of the search, (gamma x learning rate x fold), train
    together as one batched tensor program.

    Parameters
    ----------
    network : "logistic", "mlp" or sequence of int
        Softmax regression, two hidden ReLU layers of 128, or the given hidden layers.
    density : "gaussian", "kernel", "auto" or ClassDensity
        "auto" also chooses between the two by cross-validation: the paper's mixup+GenLabel (CV).
        By name, "gaussian" is shrunk by Ledoit and Wolf's rule; the paper's own is `GaussianDensity()`.
    gamma : "cv", float in [0, 1] or sequence of them
        Share of the generative label; "cv" chooses among 0, 0.2, ..., 1.
    learning_rate : "cv", float or sequence of float
        "cv" chooses among 0.1, 0.01, 0.001, 0.0001.
    space : "input" or "latent"
        Where the densities live: the (standardised) features, or the penultimate layer of a twin network
        trained without mixing.
    alpha : float
        Of lam ~ Beta(alpha, alpha).
    per : "sample" or "batch"
        One lam for each point, or for each batch (the paper's).
    priors : "uniform", "empirical" or array (k,)
        Class priors in the generative label.
    class_weight : None, "balanced" or dict
    cv : int, splitter or iterable of (train, test) rows
        Stratified and shuffled if a number; fewer folds, with a warning, where a class is smaller.
    epochs, batch_size : int
    weight_decay : float
    optimizer : "adam", "sgd" or Optimizer
        "sgd" has momentum 0.9 and multi-step decay.
    standardize : bool
        Standardise the features inside; constant ones are left out.
    device : "auto", "cpu", "cuda" or torch.device
        "auto" is the GPU, where there is one and the network has hidden layers.
    random_state : None, int or RandomState
    verbose : int
        Above 0, show progress.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
    best_params_ : dict
        The learning rate and gamma that were chosen, and the density where there was a choice.
    best_score_ : float
        Their mean held-out accuracy (absent if there was nothing to choose).
    cv_results_ : dict
        Held-out accuracy and log-loss of every candidate, in the form of `GridSearchCV`.
    history_ : dict
        Training loss of each epoch of the final fit.
    n_iter_ : int
        Epochs of the final fit.
    network_ : MLP
        The trained network (float64), which takes `scaler_(X)`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = GenLabelClassifier(random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    """

    def __init__(
        self,
        network: Any = "logistic",
        density: Any = "gaussian",
        gamma: Any = "cv",
        learning_rate: Any = "cv",
        space: str = "input",
        alpha: float = 1.0,
        *,
        per: str = "sample",
        priors: Any = "uniform",
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
        self.density = density
        self.gamma = gamma
        self.learning_rate = learning_rate
        self.space = space
        self.alpha = alpha
        self.per = per
        self.priors = priors
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
        check_positive("alpha", self.alpha, "mixup needs Beta(alpha, alpha)")
        check_choice("per", self.per, ["sample", "batch"])
        check_choice("space", self.space, ["input", "latent"])
        if self.space == "latent" and not settings.hidden:
            raise ValueError(
                f"space='latent' needs hidden layers, but network={self.network!r} has none; use network='mlp'"
            )
        gammas = grid("gamma", self.gamma, GAMMAS, 0.0, 1.0)
        densities = named_densities(self.density) if any(gammas) else {}
        params, candidates = self._candidates(gammas, list(densities))

        def labelers(encoder: Encoder | None) -> Sequence[Labeler]:
            models = list(densities.values())
            if encoder is not None:
                models = [LatentDensity(encoder, len(settings.hidden), density) for density in models]
            return [LinearLabel(), *(GenLabel(density, priors=self.priors) for density in models)]

        return Recipe(Mixup(self.alpha, self.per), labelers, params, candidates)

    def _candidates(
        self, gammas: Sequence[float], names: Sequence[str]
    ) -> tuple[list[dict[str, Any]], list[Candidate]]:
        """Every learning rate with every gamma and density; at gamma = 0 there is no density to choose."""
        params, candidates = [], []
        for rate, gamma in product(self._rates(), gammas):
            for name in names if gamma else [None]:
                chosen = {"density": name} if len(names) > 1 else {}
                params.append({"learning_rate": rate, "gamma": gamma, **chosen})
                shares = (gamma if name == own else 0.0 for own in names)
                candidates.append(Candidate(rate, float(self.weight_decay), (1.0 - gamma, *shares)))
        return params, candidates

    def _train(self, study: Study, recipe: Recipe) -> tuple[Choice, Fleet]:
        if self.space == "input" or not any(candidate.label[1:] for candidate in recipe.candidates):
            return super()._train(study, recipe)
        twins, twin = study.twins(self._plain(None, LinearLabel()), of_folds=len(recipe.candidates) > 1)
        choice = study.choose(recipe, twins)
        return choice, study.train(recipe, choice.best, twin)
