"""Mixup, manifold mixup, AdaMixup and plain training: the baselines of GenLabel, with the same search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, Self, cast, final

import numpy as np

from genlabel._validation import check_count, check_interval
from genlabel.estimators.base import CLEAN_FRACTIONS, NetworkClassifier, resolve_parts, table_mixers, with_networks
from genlabel.labeling import Labeler
from genlabel.mixing import ManifoldMixup, Mixer, Mixup
from genlabel.model_selection.options import GridSearch, TrainingOptions
from genlabel.model_selection.refit import FitResult
from genlabel.model_selection.search import SearchResult
from genlabel.model_selection.search_space import MixingConfig, SearchSpace, mixing_configs, parameter_grid
from genlabel.model_selection.splits import CVData
from genlabel.registry import LABELERS
from genlabel.training.adamixup import AdaMixupNetworks, policy_statistics, train_adamixup
from genlabel.training.batching import Hyperparameters
from genlabel.training.fleet import Fleet


@final
class MixupClassifier(NetworkClassifier):
    """A network trained on mixed samples with any mixer and labeler; plain training is `mixer=None`.

    Parameters
    ----------
    network : "mlp", "logistic", "auto" or sequence of int
        See :class:`GenLabelClassifier`; where hidden layers are mixed, "auto" is "mlp".
    mixer : "mixup", "manifold", another name, None, Mixer or sequence of them
        "mixup" is `Mixup(alpha=0.3)`, one lam for each sample; "manifold" mixes the input or one of the first two
        hidden layers, drawn for each batch (Verma et al., 2019); other names are those of registered mixers, such as
        "k-mixup" (:mod:`genlabel.mixing`); None is plain training. The search chooses among several.
    labeler : "linear", "logistic", another name, Labeler or sequence of them
        Mixup's labels, the logistic ones of arXiv Section 3.2, or another registered labeler; the search chooses among
        several.
    exclude_intrusion : bool
        Leave out mixed samples whose nearest training sample is of a third class (arXiv Section 3.1).
    clean_fraction : "auto", float in [0, 1] or sequence of float
        Share of the samples of a batch that are not mixed: 0 mixes all (the paper's), "auto" is 0.75 or 1.
    calibrate : bool
        Pool the network with the class priors, with weights from held-out rows.
    class_weight, search, training, random_state
        See :class:`GenLabelClassifier`; every method has the same search by default.

    Attributes
    ----------
    classes_, class_count_, best_params_, best_index_, best_score_, cv_results_, history_, n_iter_, network_
    pool_weights_, venn_abers_
        See :class:`GenLabelClassifier`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> plain = MixupClassifier(mixer=None, random_state=0).fit(X, y)
    >>> sorted(plain.best_params_)
    ['learning_rate', 'weight_decay']
    """

    def __init__(
        self,
        network: Any = "mlp",
        mixer: Any = "mixup",
        labeler: Any = "linear",
        exclude_intrusion: bool = False,
        *,
        clean_fraction: Any = "auto",
        calibrate: bool = True,
        class_weight: Any = None,
        search: Any = "halving",
        training: TrainingOptions | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(network, class_weight, search, training, random_state)
        self.mixer = mixer
        self.labeler = labeler
        self.exclude_intrusion = exclude_intrusion
        self.clean_fraction = clean_fraction
        self.calibrate = calibrate

    @classmethod
    def from_paper(cls, network: Any = "logistic", mixer: Any = "mixup", **params: Any) -> Self:
        """Return the classifier in the paper's own setting (arXiv Table 11 and Section E.2).

        It is that of :meth:`GenLabelClassifier.from_paper` without densities. `params` replace the paper's, as in
        `set_params`.

        Examples
        --------
        >>> MixupClassifier.from_paper("mlp").mixer
        Mixup(lam_per='batch')
        """
        model = cls(
            network,
            Mixup(lam_per="batch") if isinstance(mixer, str) and mixer == "mixup" else mixer,
            clean_fraction=0.0,
            calibrate=False,
            search=GridSearch(cv=6, scoring="accuracy", restore_best=True),
            training=TrainingOptions(weight_decay=1e-4, epochs=100),
        )
        return cast(Self, model.set_params(**params))

    def search_space(self, plain: SearchSpace) -> SearchSpace:
        """Check the parameters of the method and return its candidates, made from those of plain training."""
        known = LABELERS.factories()
        labelers = resolve_parts("labeler", self.labeler, Labeler, known, "LogisticLabel(sigma=0.3)")
        space = replace(
            plain,
            mixing=self._mixing(len(plain.hidden), labelers),
            labelers=labelers,
            exclude_intrusion=self.exclude_intrusion,
            calibrate=bool(self.calibrate),
        )
        if len(labelers) == 1:
            return space
        choices = list(product(plain.params, zip(self.labeler, np.eye(len(labelers)), strict=True)))
        candidates = [Hyperparameters(**plain_params, label=tuple(label)) for plain_params, (_, label) in choices]
        params = [{**plain_params, "labeler": labeler} for plain_params, (labeler, _) in choices]
        return replace(space, candidates=candidates, params=params, label_params=frozenset({"labeler"}))

    def _mixing(self, depth: int, labelers: Sequence[Labeler]) -> list[MixingConfig]:
        """Return the ways of mixing, for a network with `depth` hidden layers."""
        if self.mixer is None:
            has_default = {
                "exclude_intrusion": self.exclude_intrusion is False,
                "labeler": isinstance(self.labeler, str) and self.labeler == "linear",
                # 0 is the default of from_paper
                "clean_fraction": np.ndim(self.clean_fraction) == 0 and self.clean_fraction in ("auto", 0.0),
            }
            for name, is_default in has_default.items():
                if not is_default:
                    raise ValueError(f"{name}={getattr(self, name)!r} has no effect with mixer=None; use mixer='mixup'")
            return with_networks(self.network, [MixingConfig(None)])
        if isinstance(self.mixer, str) and self.mixer == "manifold" and depth == 0:
            raise ValueError(
                f"mixer='manifold' needs hidden layers, but network={self.network!r} has none; use network='mlp'"
            )
        known = table_mixers()
        known["manifold"] = partial(ManifoldMixup, depths=tuple(range(min(depth, 2) + 1)))
        mixers = resolve_parts("mixer", self.mixer, Mixer, known, "Mixup(alpha=0.5)")
        deepest = max(mixer.max_depth for mixer in mixers)
        if deepest > depth:
            raise ValueError(
                f"mixer={self.mixer!r} mixes at depth {deepest}, but network={self.network!r} has {depth} hidden "
                "layers; name depths within them"
            )
        if deepest and (self.exclude_intrusion or any(labeler.needs_inputs for labeler in labelers)):
            option = "exclude_intrusion=True" if self.exclude_intrusion else f"labeler={self.labeler!r}"
            raise ValueError(
                f"{option} needs mixed inputs, but mixer={self.mixer!r} mixes hidden layers; use mixer='mixup'"
            )
        fractions = parameter_grid("clean_fraction", self.clean_fraction, CLEAN_FRACTIONS, 0.0, 1.0)
        mixing = mixing_configs(mixers, fractions)
        return mixing if deepest else with_networks(self.network, mixing)


@final
class AdaMixupClassifier(NetworkClassifier):
    """A network trained on samples that a policy network mixes, off the manifold of the data (Guo et al., 2019).

    A baseline of arXiv Section 6. For a pair of samples the policy states a and delta, and lam is drawn from
    [a, a + delta]; a critic separates mixed samples from real ones. All three minimize one loss. Where the classifier's
    part of it dominates, the policy mixes nothing (`mixing_share_` is near 0): raise `intrusion_weight`.

    Parameters
    ----------
    network : "mlp", "logistic" or sequence of int
    policy_hidden : int
        Width of the one hidden layer of policy and critic.
    intrusion_weight : float
        Weight of the critic's loss.
    alternating : bool
        Train in steps of two halves: the critic's, then that of the classifier and the policy.
    search : "grid" or GridSearch
        The three networks train for all epochs at once, so there is no halving search, no time limit and no restored
        epoch, and networks trained on all rows predict.
    class_weight, training, random_state
        See :class:`GenLabelClassifier`; the options of training are those of all three networks.

    Attributes
    ----------
    policy_ : MLP
        Scores of (a, delta, rest) for a pair of standardized samples, (m, 2 d) to (m, 3).
    policy_range_ : tuple of float
        Mean a and mean a + delta over random pairs of the training set.
    mixing_share_ : float
        Mean of min(lam, 1 - lam) over these pairs: 1/4 for mixup with uniform lam, 0 if nothing is mixed.
    classes_, class_count_, best_params_, best_index_, best_score_, cv_results_, history_, n_iter_, network_
        See :class:`GenLabelClassifier`; `history_` is the loss of the three networks together.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> training = TrainingOptions(learning_rate=0.1)
    >>> model = AdaMixupClassifier("logistic", training=training, random_state=0).fit(*load_iris(return_X_y=True))
    >>> low, high = model.policy_range_
    >>> 0 < low < high < 1
    True
    """

    def __init__(
        self,
        network: Any = "mlp",
        *,
        policy_hidden: int = 32,
        intrusion_weight: float = 1.0,
        alternating: bool = False,
        class_weight: Any = None,
        search: Any = "grid",
        training: TrainingOptions | None = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(network, class_weight, search, training, random_state)
        self.policy_hidden = policy_hidden
        self.intrusion_weight = intrusion_weight
        self.alternating = alternating

    def search_space(self, plain: SearchSpace) -> SearchSpace:
        """Check the parameters of the method and return its candidates, made from those of plain training."""
        search = plain.search
        if search.is_halving or not search.refits or search.time_limit is not None:
            raise ValueError(
                f"search={self.search!r} is not available for AdaMixupClassifier; use a GridSearch without time_limit, "
                "restore_best and ensemble='cv'"
            )
        hint = "1 is the paper's, 0 lets the policy do without the critic"
        trainer = partial(
            AdaMixupTrainer,
            policy_hidden=check_count("policy_hidden", self.policy_hidden),
            intrusion_weight=check_interval("intrusion_weight", self.intrusion_weight, 0.0, 1e6, hint),
            alternating=bool(self.alternating),
        )
        return replace(plain, mixing=[MixingConfig(Mixup())], trainer=trainer)

    def _set_fitted_attributes(self, data: CVData, result: SearchResult, fit: FitResult, *args: Any) -> None:
        super()._set_fitted_attributes(data, result, fit, *args)
        policy, X = cast(AdaMixupTrainer, fit.trainer).networks.policy, data.whole.X
        low, high, share = policy_statistics(policy, X, seed=data.seed)[fit.trainer_index].tolist()
        self.policy_ = policy.network(0, fit.trainer_index)
        self.policy_range_, self.mixing_share_ = (low, high), share


@final
class AdaMixupTrainer:
    """The training of AdaMixup, all epochs at once: every candidate on every task, as :func:`train_adamixup` does."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._train = partial(train_adamixup, *args, **options)
        self.networks: AdaMixupNetworks

    @property
    def fleet(self) -> Fleet:
        """The classifiers."""
        return self.networks.classifier

    def advance(self, epochs: int) -> None:
        """Train for all epochs."""
        self.networks = self._train()

    def select(self, candidates: Sequence[int]) -> None:
        """Continue with all candidates: a grid search drops none."""
