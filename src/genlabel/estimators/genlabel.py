"""GenLabel: a network trained on mixed samples whose labels come from class densities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from typing import Any, Self, cast, final

import numpy as np

from genlabel._validation import check_choice, check_interval
from genlabel.attacks import Attack
from genlabel.densities import ClassDensity, GaussianDensity, KernelDensity, StackedDensity
from genlabel.densities.candidates import named_densities
from genlabel.estimators.base import CLEAN_FRACTIONS, NetworkClassifier, resolve_parts, table_mixers, with_networks
from genlabel.mixing import Mixer, Mixup
from genlabel.model_selection.options import GridSearch, TrainingOptions
from genlabel.model_selection.scoring import Pooling, PoolWeights
from genlabel.model_selection.search_space import SearchSpace, mixing_configs, parameter_grid
from genlabel.training.batching import Hyperparameters

GAMMAS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Candidates for `gamma="auto"` (arXiv Section E.2, "Training setting")."""


@final
class GenLabelClassifier(NetworkClassifier):
    """A network trained on clean and mixed samples; class densities label the mixed ones.

    A mixed sample has the label gamma times its posterior under the class densities plus (1 - gamma) times mixup's
    label (arXiv Alg. 1; in latent space Alg. 2). By default a :class:`StackedDensity` is selected and calibrated on
    held-out rows; a quarter of the samples of a batch is mixed, or none; and the network is pooled with its density, as
    held-out rows decide. :meth:`from_paper` is the paper's own setting. All networks of the search train together.

    On about one dataset in five it does worse than plain training (docs/stacked-density.md): few features with a
    boundary that no density has, or many equal rows. See `density_.report_` and `pool_weights_`.

    Parameters
    ----------
    network : "mlp", "logistic", "auto" or sequence of int
        Two hidden ReLU layers of 128, softmax regression, or the given hidden layers; "auto" lets the search choose
        between the first two, at a higher cost.
    density : str, ClassDensity or dict of ClassDensity
        "stacked", "discriminant", "gaussian", "kernel", "mixture", "forest", "flow", "vae", "gan", another registered
        name or "auto". "auto", or a dict, chooses between several by cross-validation: the paper's mixup+GenLabel (CV).
        By name, "gaussian" is shrunk by the rule of Ledoit and Wolf; the paper's own is `GaussianDensity()`. A stacked
        density is chosen over the folds of the search (its own `cv` and `random_state` have no effect); it is not
        available in latent space.
    gamma : float in [0, 1], "auto" or sequence of float
        Share of the generative label; "auto" chooses among 0, 0.2, ..., 1.
    mixer : "mixup", another name, Mixer or sequence of them
        "mixup" is `Mixup(alpha=0.3)`, one lam for each sample; other names are those of registered mixers, such as
        "k-mixup"; the search chooses among several. It mixes inputs.
    clean_fraction : "auto", float in [0, 1] or sequence of float
        Share of the samples of a batch that are not mixed: 0 is the paper's Alg. 1, 1 is plain training. "auto" chooses
        between 0.75 and 1, so that `best_params_["clean_fraction"] == 1` states that mixing did not help.
    space : "input" or "latent"
        Where the densities live: the (standardized) features, or the penultimate layer of a second network that is
        trained without mixing.
    priors : "auto", "uniform", "empirical" or array (k,)
        Class priors of the generative label; "auto" is empirical for a stacked density, uniform for any other.
    pool_with_density : "auto", "cv", None, or two or three floats
        Weights (a, b) of the network and of its density in what is predicted, log pi + a (log p - log pi) + b (log q -
        log pi), normalized, where pi are the class priors; and the share of pi that is mixed in last. "cv" takes the
        weights of the lowest held-out log-loss; None is the network alone; "auto" is "cv" for a single stacked density,
        and otherwise, in a halving search, a network that is pooled with pi, with weights from held-out rows.
    class_weight : None, "balanced" or dict
    search : "halving", "grid", HalvingSearch or GridSearch
        A name is a search with default options; `set_params(search__cv=5)` changes them.
    training : TrainingOptions, optional
        `set_params(training__epochs=20)` changes the defaults.
    random_state : None, int or RandomState

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
    class_count_ : ndarray (k,)
        Training rows of each class.
    best_params_ : dict
        The chosen learning rate, weight decay and gamma; clean_fraction, mixer, network and density where there was a
        choice; and the pooling weights.
    best_index_ : int
        Its row in `cv_results_`; with the one-standard-error rule not always the row of rank 1.
    best_score_ : float
        Its mean held-out accuracy (absent if there was nothing to choose), of the pool if there is one.
    cv_results_ : dict
        Held-out accuracy and log-loss of every candidate's network, in the form of `GridSearchCV`; also those of the
        pool with the density, by which it is then ranked: `mean_test_pooled_score`, `mean_test_pooled_log_loss`.
    density_ : StackedDensity
        Fitted to `scaler_(X)`, with its choice and held-out scores in `density_.report_` (absent for other densities).
    pool_weights_ : PoolWeights or None
        Weights of the network, its density and the class priors in what is predicted.
    history_, n_iter_ : dict, int
        Training loss of each epoch, the mean over the networks that predict; number of their epochs.
    network_, labeler_ : MLP or Ensemble, Labeler
        For `scaler_(X)`: the trained network (float64), or the mean of several; the fitted labeler of the chosen
        density (at gamma = 0, mixup's).
    typicality_, venn_abers_
        For :meth:`typicality` and :meth:`predict_proba_interval`; the latter, held-out rows of the search, is absent if
        there are none or if they were attacked.

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
        network: Any = "mlp",
        density: Any = "stacked",
        gamma: Any = 1.0,
        mixer: Any = "mixup",
        *,
        clean_fraction: Any = "auto",
        space: str = "input",
        priors: Any = "auto",
        pool_with_density: Any = "auto",
        class_weight: Any = None,
        search: Any = "halving",
        training: TrainingOptions | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(network, class_weight, search, training, random_state)
        self.density = density
        self.gamma = gamma
        self.mixer = mixer
        self.clean_fraction = clean_fraction
        self.space = space
        self.priors = priors
        self.pool_with_density = pool_with_density

    fits_typicality = True
    density_: StackedDensity

    @classmethod
    def from_paper(cls, network: Any = "logistic", density: Any = "auto", alpha: float = 1.0, **params: Any) -> Self:
        """Return the classifier in the paper's own setting (arXiv Table 11 and Section E.2).

        Every sample is mixed, lam ~ Beta(alpha, alpha) once a batch; gamma, the learning rate and with "auto" the
        density are chosen by held-out accuracy over 6 folds; weight decay is 1e-4; priors are uniform. One network
        predicts: that of the first fold, trained for 100 epochs, at its best epoch by accuracy on the rows that the
        fold holds out. The density "gaussian" is the paper's unshrunk GM, "kernel" its KDE, "auto" the choice between
        the two. `params` replace the paper's, as in `set_params`; with `search__restore_best=False` the last epoch of
        a network trained on all rows predicts.

        NOTE[PAPER]: the paper does not say which rows validate; these are a sixth of the training rows.

        Examples
        --------
        >>> model = GenLabelClassifier.from_paper("mlp", "gaussian", training__epochs=50)
        >>> model.density, model.training
        (GaussianDensity(), TrainingOptions(epochs=50, weight_decay=0.0001))
        """
        known: dict[str, ClassDensity] = {"gaussian": GaussianDensity(), "kernel": KernelDensity()}
        if isinstance(density, str):
            check_choice("density", density, [*known, "auto"], also="a ClassDensity such as GaussianDensity()")
            density = known if density == "auto" else known[density]
        model = cls(
            network,
            density,
            gamma="auto",
            mixer=Mixup(alpha, lam_per="batch"),
            clean_fraction=0.0,
            priors="uniform",
            pool_with_density=None,
            search=GridSearch(cv=6, scoring="accuracy", restore_best=True),
            training=TrainingOptions(weight_decay=1e-4, epochs=100),
        )
        return cast(Self, model.set_params(**params))

    def search_space(self, plain: SearchSpace) -> SearchSpace:
        """Check the parameters of the method and return its candidates, made from those of plain training."""
        check_choice("space", self.space, ["input", "latent"])
        if self.space == "latent" and not plain.hidden:
            raise ValueError(
                f"space='latent' needs hidden layers, but network={self.network!r} has none; use network='mlp'"
            )
        gammas = parameter_grid("gamma", self.gamma, GAMMAS, 0.0, 1.0)
        densities = named_densities(self.density) if any(gammas) else {}
        latent = self.space == "latent" and bool(densities)
        if latent and not all(density.supports_latent_space for density in densities.values()):
            raise ValueError(
                f"density={self.density!r} cannot be used in latent space, whose features were learned from the labels "
                "of all rows; use density='gaussian' or 'kernel'"
            )
        mixers = resolve_parts("mixer", self.mixer, Mixer, table_mixers(), "Mixup(alpha=0.5)")
        if any(mixer.max_depth for mixer in mixers):
            raise ValueError(f"mixer={self.mixer!r} mixes hidden layers; densities label inputs, so use Mixup()")
        fractions = parameter_grid("clean_fraction", self.clean_fraction, CLEAN_FRACTIONS, 0.0, 1.0)
        mixing, pooling = mixing_configs(mixers, fractions), self._pooling(plain, densities)
        params, candidates = [], []
        for plain_params, gamma in product(plain.params, gammas):
            for name in densities if gamma else [None]:  # gamma = 0 needs no density
                chosen = {**plain_params, "gamma": gamma}
                if len(densities) > 1 and name is not None:
                    chosen["density"] = name if isinstance(self.density, str) else densities[name]
                params.append(chosen)
                density_shares = (gamma if name == other else 0.0 for other in densities)
                candidates.append(Hyperparameters(**plain_params, label=(1.0 - gamma, *density_shares)))
        return replace(
            plain,
            mixing=mixing if latent else with_networks(self.network, mixing),
            candidates=candidates,
            params=params,
            densities=list(densities.values()),
            priors=self.priors,
            feature_space=replace(plain, stream=1) if latent else None,
            pooling=pooling,
            calibrate=pooling is None and plain.search.is_halving and isinstance(self.pool_with_density, str),
            label_params=frozenset({"gamma", "density"}),
        )

    def _pooling(self, plain: SearchSpace, densities: Mapping[str, ClassDensity]) -> Pooling:
        """Return the weights that `pool_with_density` states, "cv" to fit them, or None."""
        value = self.pool_with_density
        if isinstance(value, str):
            check_choice("pool_with_density", value, ["auto", "cv"], also="None, or weights such as (0.5, 0.5)")
            if value == "auto":
                stacked = len(densities) == 1 and all(density.is_calibrated for density in densities.values())
                value = "cv" if stacked else None
        if value is None:
            return None
        if len(densities) != 1:
            raise ValueError(
                f"pool_with_density={value!r} needs one density, but there are {len(densities)}: density="
                f"{self.density!r}, gamma={self.gamma!r}; use None, or one density and a gamma above 0"
            )
        if isinstance(plain.search.scoring, Attack):
            raise ValueError(f"scoring={plain.search.scoring!r} attacks the network alone; use pool_with_density=None")
        if isinstance(value, str):
            return "cv"
        if np.shape(value) not in [(2,), (3,)]:
            raise ValueError(f"pool_with_density={value!r} must be 'auto', 'cv', None or weights such as (0.5, 0.5)")
        a, b, *prior = value
        weights = [check_interval("pool_with_density", w, 0.0, 10.0, "weights are not negative") for w in (a, b)]
        shares = [check_interval("pool_with_density", e, 0.0, 0.99, "the third is a share") for e in prior]
        return PoolWeights(*weights, *shares)
