"""The classifier: mixup whose labels come from class densities, in the paper's setting or in our default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Self, final

import numpy as np

from genlabel._validation import check_choice, check_interval
from genlabel.attacks import Attack
from genlabel.densities import ClassDensity, GaussianDensity, KernelDensity, StackedDensity, named_densities
from genlabel.estimators.base import ALPHAS, CLEAN_FRACTIONS, NetworkClassifier, grid, over_networks, recipes
from genlabel.labeling import LinearLabel
from genlabel.mixing import Mixup
from genlabel.model_selection.pooling import Pooling
from genlabel.model_selection.search import CandidateSearch
from genlabel.model_selection.search_space import Average, FitResult, MixingConfig, SearchSpace, TrainerConfig
from genlabel.training import Hyperparameters

GAMMAS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Among which `gamma="cv"` chooses (arXiv Section E.2, "Training setting")."""


@final
class GenLabelClassifier(NetworkClassifier):
    """A network trained on real points and on blends that a stacked density labels, fitted with its own
    cross-validation.

    A blend of two points is labelled with gamma times its posterior under the class densities plus (1 - gamma) times
    mixup's label (arXiv Alg. 1; in latent space Alg. 2). By default the densities are a :class:`StackedDensity`,
    selected
    and calibrated on held-out rows; a quarter of the points of a batch is mixed, or none, whichever did better on
    held-out rows; and what is predicted is the network pooled with its stacked density, with weights from held-out
    rows.
    :meth:`from_paper` is the paper's own setting. All models of the search train together as one batched program.

    It hurts on about one set in five: few features with a boundary that no density has, or many equal rows. See
    `density_.report_` and `average_`, and docs/stacked-density.md for the sets where it loses.

    Parameters
    ----------
    *The network*

    network : "mlp", "logistic", "auto" or sequence of int
        Two hidden ReLU layers of 128, softmax regression, or the given hidden layers; "auto" lets the search choose
        among the first two, which costs more and did not help on the sets where it was tried.

    *Labels*

    density : str, ClassDensity or dict of ClassDensity
        "stacked", "gaussian", "kernel", "mixture", "forest", "flow", "vae", "gan" or "auto".
        "auto", or a dict, also chooses between several by cross-validation: the paper's mixup+GenLabel (CV).
        By name, "gaussian" is shrunk by Ledoit and Wolf's rule; the paper's own is `GaussianDensity()`.
        A stacked density is chosen over the folds of `cv` (its own `cv` and `random_state` do not count), for each
        fold by
        the held-out rows of the others; not in latent space, whose features have seen the labels.
    gamma : float in [0, 1], "cv" or sequence of them
        Share of the generative label; "cv" chooses among 0, 0.2, ..., 1.
    space : "input" or "latent"
        Where the densities live: the (standardised) features, or the penultimate layer of a twin network
        trained without mixing.
    priors : "auto", "uniform", "empirical" or array (k,)
        Class priors in the generative label; "auto" is empirical for a stacked density and uniform for any other
        density.

    *Mixing*

    alpha : float, "cv" or sequence of float
        Of lam ~ Beta(alpha, alpha); "cv" chooses among 0.3 and 1.
    lam_per : "sample" or "batch"
        One lam for each point, or for each batch (the paper's).
    clean_fraction : "cv", float in [0, 1] or sequence of them
        Share of the points of a batch that stay as they are: 0 is the paper's Alg. 1, 1 is vanilla training. "cv"
        chooses among 0.75 and 1, so that `best_params_["clean_fraction"] == 1` says that mixing did not help.

    *Training*

    learning_rate : "cv", float or sequence of float
        "cv" chooses among 0.1, 0.03, 0.01, 0.003; in a full search among 0.1, 0.01, 0.001, 0.0001.
    weight_decay : "cv", float or sequence of float
        "cv" chooses among 1e-4, 1e-3, 1e-2.
    epochs : "auto" or int
        At most. "auto" is 50, and fewer where an epoch has many steps; of more than 32,768 rows an epoch is then a part
        of a pass over them. In a full search it is 100.
    batch_size : int
    optimizer : "adam", "sgd" or Optimizer
        "sgd" has momentum 0.9 and multi-step decay.

    *The choice, and what is predicted*

    search : "halving" or "full"
        How the candidates are tried. "halving" trains all of them for an eighth of the epochs, the best quarter of them
        for another eighth, and so on, with averaged parameters, and may choose a network as it was on the way; "full"
        trains all of them to the end (the paper's).
    members : "folds" or int
        What predicts: the mean of the networks of the folds, which the search has trained anyway, each on the rows of
        the other folds; or that of so many networks which are trained on all rows.
    keep : "last" or "best"
        Of a full search, whether a network is that of its last epoch, or of the best one on the rows that its fold
        holds out (by `select`; under an attack every fifth epoch is looked at). With "best" the networks that predict
        are those of the first folds, as many as there are `members`; none is trained on all rows.
    cv : "auto", int, splitter or iterable of (train, test) rows
        "auto" is 6 folds below 600 rows, 4 below 20,000, and of more the first 2 of 10. Stratified and shuffled if a
        number. A class of few rows is in as few folds; a single row is always trained on, with a warning.
    select : "log-loss", "accuracy" or Attack
        How the best candidate is chosen: by held-out log-loss and the one-standard-error rule (of the candidates that
        are not worse than the best by more than the noise, the one of the largest weight decay), or by held-out
        accuracy, ties by log-loss (the paper's); or by held-out accuracy under an attack, say FGSM(0.2) (the paper's
        robust runs), of the network alone.
    average : "auto", "cv", None, or two or three floats
        Weights (a, b) of the network and of its stacked density in what is predicted, log pi + a (log p - log pi)
        + b (log q - log pi), normalised, pi being the frequencies of the classes; and the share of pi that is mixed in
        at last. "cv" takes those of the lowest held-out log-loss; None is the network alone;
        "auto" is "cv" for a stacked density alone, and else, where the search halves, a network that is drawn towards
        pi as
        far as held-out rows say.

    *Data and machine*

    class_weight : None, "balanced" or dict
    standardize : bool
        Standardise the features inside; constant ones are left out.
    device : "auto", "cpu", "cuda" or torch.device
        "auto" is the GPU, where there is one and the network has hidden layers.
    random_state : None, int or RandomState
    time_limit : float or None
        Seconds that a fit may take. One that would take longer is fitted to fewer rows, chooses among fewer densities
        and candidates, and trains for fewer epochs, as far as it must, and says so in a warning; the seed alone no
        longer fixes what it comes to. A density that you name takes the time it takes.
    verbose : int
        Above 0, show stage, progress, time left and held-out log-loss on the error stream: a bar on a terminal, else a
        line now and then.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
    class_count_ : ndarray (k,)
        Training rows of each class.
    best_params_ : dict
        What was chosen: learning rate, weight decay, gamma; clean_fraction, alpha and density where there was a choice;
        and the weights of the average.
    best_index_ : int
        Its row in `cv_results_`; with the one-standard-error rule not always the row of rank 1.
    best_score_ : float
        Its mean held-out accuracy (absent if there was nothing to choose); with an average, that of the average.
    cv_results_ : dict
        Held-out accuracy and log-loss of every candidate's network, in the form of `GridSearchCV`; where there is an
        average also those of the pool with the stacked density, by which it is ranked: `mean_test_pooled_score`,
        `mean_test_pooled_log_loss`.
    density_ : StackedDensity
        What it chose, and how well it does on held-out rows, is in `density_.report_`; fitted to `scaler_(X)`
        (absent for other densities).
    average_ : pair of float or None
        The weights of the network and the stacked density in what is predicted.
    pool_weights_ : Pooling or None
        The same weights, and the share of pi ("doubt").
    history_ : dict
        Training loss of each epoch of the networks that predict, in the mean over them.
    n_iter_ : int
        Their epochs.
    network_ : MLP or Ensemble
        The trained network (float64), or the mean of several, which takes `scaler_(X)`.
    labeler_ : Labeler
        The fitted labeler of the chosen density; its `density_` takes `scaler_(X)`. At gamma = 0, mixup's.
    typicality_ : Support
        What :meth:`support` asks.
    venn_abers_ : Calibration
        What :meth:`predict_proba_interval` asks: the held-out rows of the search, and what was said of them (absent
        if none
        were held out, or if they were attacked).

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
        learning_rate: Any = "cv",
        space: str = "input",
        alpha: Any = 0.3,
        *,
        clean_fraction: Any = "cv",
        weight_decay: Any = "cv",
        average: Any = "auto",
        select: Any = "log-loss",
        lam_per: str = "sample",
        priors: Any = "auto",
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
        self.density = density
        self.gamma = gamma
        self.learning_rate = learning_rate
        self.space = space
        self.alpha = alpha
        self.clean_fraction = clean_fraction
        self.weight_decay = weight_decay
        self.average = average
        self.select = select
        self.lam_per = lam_per
        self.priors = priors
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

    supported = True
    density_: StackedDensity

    @classmethod
    def from_paper(cls, network: Any = "logistic", density: Any = "auto", **params: Any) -> Self:
        """Return the classifier in the paper's own setting (arXiv Table 11 and Section E.2).

        Every point is mixed, lam ~ Beta(1, 1) once a batch; gamma and the learning rate (and with "auto" the density,
        the paper's mixup+GenLabel (CV)) are chosen by held-out accuracy over 6 folds; weight decay is 1e-4; uniform
        priors; the network alone predicts.

        Parameters
        ----------
        network : "logistic", "mlp" or sequence of int
        density : "auto", "gaussian", "kernel" or ClassDensity
            Here "gaussian" is the paper's unshrunk GM, "kernel" its KDE, "auto" the choice between the two.
        **params
            Any other parameter of the class, instead of the paper's value.

        Examples
        --------
        >>> GenLabelClassifier.from_paper("mlp", "gaussian", epochs=50).density
        GaussianDensity()
        """
        known: dict[str, ClassDensity] = {"gaussian": GaussianDensity(), "kernel": KernelDensity()}
        if isinstance(density, str):
            check_choice("density", density, [*known, "auto"], also="a ClassDensity such as GaussianDensity()")
            density = known if density == "auto" else known[density]
        setting = {
            "gamma": "cv",
            "alpha": 1.0,
            "clean_fraction": 0.0,
            "weight_decay": 1e-4,
            "average": None,
            "select": "accuracy",
            "lam_per": "batch",
            "priors": "uniform",
            "search": "full",
            "members": 1,
            "cv": 6,
            "epochs": 100,
        }
        return cls(network, density, **{**setting, **params})

    def _method(self, settings: TrainerConfig) -> SearchSpace:
        check_choice("space", self.space, ["input", "latent"])
        if self.space == "latent" and not settings.hidden:
            raise ValueError(
                f"space='latent' needs hidden layers, but network={self.network!r} has none; use network='mlp'"
            )
        gammas = grid("gamma", self.gamma, GAMMAS, 0.0, 1.0)
        densities = named_densities(self.density) if any(gammas) else {}
        latent = self.space == "latent" and bool(densities)
        if latent and not all(density.supports_latent_space for density in densities.values()):
            raise ValueError(
                f"density={self.density!r} cannot be chosen in latent space: the twin's features have seen the labels, "
                "so no row is held out there; use density='gaussian' or 'kernel'"
            )
        params, candidates = self._candidates(gammas, densities)
        average = self._average(densities)
        return SearchSpace(
            self._recipes() if latent else over_networks(self.network, self._recipes()),
            [LinearLabel()],
            candidates,
            params,
            densities=list(densities.values()),
            priors=self.priors,
            twin=self._plain([MixingConfig(None)], LinearLabel()) if latent else None,
            average=average,
            calibrated=average is None and self.search == "halving" and isinstance(self.average, str),
            about_labels=frozenset({"gamma", "density"}),
        )

    def _recipes(self) -> list[MixingConfig]:
        check_choice("lam_per", self.lam_per, ["sample", "batch"])
        alphas = grid("alpha", self.alpha, ALPHAS, 1e-6, 1e6)
        return recipes(
            Mixup(lam_per=self.lam_per), alphas, grid("clean_fraction", self.clean_fraction, CLEAN_FRACTIONS, 0.0, 1.0)
        )

    def _candidates(
        self, gammas: Sequence[float], densities: Mapping[str, ClassDensity]
    ) -> tuple[list[dict[str, Any]], list[Hyperparameters]]:
        """Every learning rate and weight decay with every gamma and density; at gamma = 0 there is no density."""
        params, candidates, names = [], [], list(densities)
        for pair, gamma in product(self._optimisation(), gammas):
            for name in names if gamma else [None]:
                chosen: dict[str, Any] = {}
                if len(names) > 1 and name is not None:
                    chosen["density"] = name if isinstance(self.density, str) else densities[name]
                params.append({**pair, "gamma": gamma, **chosen})
                shares = (gamma if name == other else 0.0 for other in names)
                candidates.append(Hyperparameters(**pair, label=(1.0 - gamma, *shares)))
        return params, candidates

    def _average(self, densities: Mapping[str, ClassDensity]) -> Average:
        """The weights of the average: None, "cv", or given ones."""
        if isinstance(self.average, str):
            check_choice("average", self.average, ["auto", "cv"], also="None, or a pair of weights such as (0.5, 0.5)")
        if isinstance(self.average, str) and self.average == "auto":
            alone = len(densities) == 1 and all(density.is_calibrated for density in densities.values())
            average: Average = "cv" if alone else None
        else:
            average = self._given_average(densities)
        if average is not None and isinstance(self.select, Attack):
            raise ValueError(f"select={self.select!r} attacks the network alone; use average=None")
        return average

    def _given_average(self, densities: Mapping[str, ClassDensity]) -> Average:
        if self.average is None:
            return None
        if len(densities) != 1:
            raise ValueError(
                f"average={self.average!r} needs one density to average with, but there are {len(densities)}: "
                f"density={self.density!r}, gamma={self.gamma!r}; use average=None, or one density and a gamma above 0"
            )
        if isinstance(self.average, str):
            return "cv"
        if np.shape(self.average) not in [(2,), (3,)]:
            raise ValueError(f"average={self.average!r} must be 'auto', 'cv', None or two numbers, say (0.5, 0.5)")
        a, b, *doubt = self.average
        weights = (check_interval("average", weight, 0.0, 10.0, "the weights are not negative") for weight in (a, b))
        return Pooling(*weights, *(check_interval("average", e, 0.0, 0.99, "the third is a share") for e in doubt))

    def _attributes(self, study: CandidateSearch, fitted: FitResult) -> dict[str, Any]:
        found = super()._attributes(study, fitted)
        return found if study.label_model is None else found | {"density_": study.label_model}
