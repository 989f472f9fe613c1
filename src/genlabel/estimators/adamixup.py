"""AdaMixup: mixup whose weights are learned together with the classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast, final

from genlabel._validation import check_count, check_interval
from genlabel.estimators.base import NetworkClassifier
from genlabel.labeling import LinearLabel
from genlabel.mixing import Mixup
from genlabel.model_selection.options import TrainerConfig, TrainingOptions
from genlabel.model_selection.search import FitResult
from genlabel.model_selection.search_space import MixingConfig, SearchSpace
from genlabel.model_selection.splits import CVData
from genlabel.training.adamixup import AdaMixupNetworks, policy_statistics, train_adamixup
from genlabel.training.fleet import Fleet


@final
class AdaMixupClassifier(NetworkClassifier):
    """A network trained on samples that a policy network mixes, off the manifold of the data (Guo et al., 2019).

    A baseline of arXiv Section 6. For a pair of samples the policy states a and delta, and lam is drawn from
    [a, a + delta]; a critic separates mixed samples from real ones. Classifier, policy and critic minimize one loss.
    Where the classifier's part of it dominates, the policy ends up mixing nothing (`mixing_share_` is near 0): raise
    `intrusion_weight`.

    Parameters
    ----------
    network : "mlp", "logistic" or sequence of int
        Two hidden ReLU layers of 128, softmax regression, or the given hidden layers.
    policy_hidden : int
        Width of the one hidden layer of policy and critic.
    intrusion_weight : float
        Weight of the critic's loss.
    alternating : bool
        Whether each step is two: the critic's, then that of the classifier and the policy.
    class_weight : None, "balanced" or dict
    search : "grid" or GridSearch
        The three networks train for all epochs at once, so there is no halving search, no time limit and no restored
        epoch, and networks trained on all rows predict.
    training : TrainingOptions, optional
        Of all three networks.
    random_state : None, int or RandomState

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
        self.network = network
        self.policy_hidden = policy_hidden
        self.intrusion_weight = intrusion_weight
        self.alternating = alternating
        self.class_weight = class_weight
        self.search = search
        self.training = training
        self.random_state = random_state

    def _search_space(self, config: TrainerConfig) -> SearchSpace:
        search = config.search
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
        space = self._single_label_space(config, [MixingConfig(Mixup())], LinearLabel())
        return replace(space, trainer=trainer)

    def _set_fitted_attributes(self, data: CVData, fit: FitResult, *args: Any) -> None:
        super()._set_fitted_attributes(data, fit, *args)
        trainer, X = cast(AdaMixupTrainer, fit.trainer), data.whole.X
        policy = cast(AdaMixupNetworks, trainer.networks).policy
        low, high, share = policy_statistics(policy, X, seed=data.seed)[fit.index].tolist()
        self.policy_ = policy.network(0, fit.index)
        self.policy_range_, self.mixing_share_ = (low, high), share


@final
class AdaMixupTrainer:
    """The training of AdaMixup, all epochs at once: every candidate on every task, as :func:`train_adamixup` does."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._train = partial(train_adamixup, *args, **options)
        self.networks: AdaMixupNetworks | None = None

    @property
    def fleet(self) -> Fleet:
        """The classifiers."""
        return cast(AdaMixupNetworks, self.networks).classifier

    def advance(self, epochs: int) -> None:
        """Train for all epochs."""
        self.networks = self._train()

    def select(self, candidates: Sequence[int]) -> None:
        """Continue with all candidates: a grid search drops none."""
