"""AdaMixup: mixup whose weights are learned beside the classifier, with the same search and the same engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast, final

from genlabel._validation import check_count, check_interval
from genlabel.estimators.base import NetworkClassifier
from genlabel.labeling import LinearLabel
from genlabel.mixing import Mixup
from genlabel.model_selection.search import CandidateSearch
from genlabel.model_selection.search_space import FitResult, MixingConfig, SearchSpace, TrainerConfig
from genlabel.training import AdaMixupNetworks, Fleet, mixing_share, policy_range, train_adamixup


@final
class AdaMixupClassifier(NetworkClassifier):
    """A network trained on points that a policy network mixes, off the manifold of the data (Guo et al., 2019).

    A baseline of arXiv Section 6.

    The policy says of a pair between which a and a + delta lam is drawn; a critic tells mixed points from real ones.
    Classifier, policy and critic minimise one loss. Where the classifier's part of it rules, the policy ends up mixing
    nothing (`mixing_share_` is near 0): raise `intrusion_weight`.

    Parameters
    ----------
    network : "logistic", "mlp" or sequence of int
        Softmax regression, two hidden ReLU layers of 128, or the given hidden layers.
    learning_rate : "cv", float or sequence of float
        Of all three networks; "cv" chooses among 0.1, 0.01, 0.001, 0.0001.
    policy_hidden : int
        Width of the one hidden layer of policy and critic.
    intrusion_weight : float
        Weight of the critic's loss.
    alternating : bool
        Whether each step is two: the critic's, then that of the classifier and the policy.
    weight_decay : "cv", float or sequence of float
        Of all three networks; "cv" chooses among 1e-4, 1e-3, 1e-2.
    select, class_weight, cv, epochs, batch_size, optimizer, standardize, device, random_state, verbose
        As in :class:`GenLabelClassifier`: every method has the same search, by default.

    Attributes
    ----------
    policy_ : MLP
        Scores of (a, delta, rest) for a pair of standardised points, (m, 2 d) to (m, 3).
    policy_range_ : tuple of float
        Mean a and mean a + delta over random pairs of the training set.
    mixing_share_ : float
        Mean of min(lam, 1 - lam) over these pairs: 1/4 for mixup with uniform lam, 0 if nothing is mixed.
    classes_, class_count_, best_params_, best_index_, best_score_, cv_results_, history_, n_iter_, network_
        As in :class:`GenLabelClassifier`; `history_` is the loss of the three networks together.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> model = AdaMixupClassifier(learning_rate=0.1, random_state=0).fit(*load_iris(return_X_y=True))
    >>> low, high = model.policy_range_
    >>> 0 < low < high < 1
    True
    """

    def __init__(
        self,
        network: Any = "logistic",
        learning_rate: Any = "cv",
        *,
        policy_hidden: int = 32,
        intrusion_weight: float = 1.0,
        alternating: bool = False,
        weight_decay: Any = "cv",
        select: Any = "log-loss",
        class_weight: Any = None,
        cv: Any = 6,
        epochs: Any = 100,
        batch_size: int = 128,
        optimizer: Any = "adam",
        standardize: bool = True,
        device: Any = "auto",
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.network = network
        self.learning_rate = learning_rate
        self.policy_hidden = policy_hidden
        self.intrusion_weight = intrusion_weight
        self.alternating = alternating
        self.weight_decay = weight_decay
        self.select = select
        self.class_weight = class_weight
        self.cv = cv
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.standardize = standardize
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    def _method(self, settings: TrainerConfig) -> SearchSpace:
        hint = "1 is the paper's, 0 lets the policy do without the critic"
        start = partial(
            _WholeRun,
            policy_hidden=check_count("policy_hidden", self.policy_hidden),
            intrusion_weight=check_interval("intrusion_weight", self.intrusion_weight, 0.0, 1e6, hint),
            alternating=bool(self.alternating),
        )
        return replace(self._plain([MixingConfig(Mixup())], LinearLabel()), start=start)

    def _attributes(self, study: CandidateSearch, fitted: FitResult) -> dict[str, Any]:
        trio, X, place = cast(AdaMixupNetworks, fitted.trio), fitted.task.X, fitted.place
        low, high = policy_range(trio.policy, X, seed=study.seed)[place]
        return super()._attributes(study, fitted) | {
            "policy_": trio.policy.network(0, place),
            "policy_range_": (float(low), float(high)),
            "mixing_share_": float(mixing_share(trio.policy, X, seed=study.seed)[place]),
        }


class _WholeRun:
    """AdaMixup's training, all epochs at once: its search halves nothing."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self._train = partial(train_adamixup, *args, **settings)
        self._trio: AdaMixupNetworks | None = None

    @property
    def trio(self) -> AdaMixupNetworks:
        """The three networks of every model."""
        return cast(AdaMixupNetworks, self._trio)

    @property
    def fleet(self) -> Fleet:
        """The classifiers."""
        return self.trio.classifier

    def advance(self, epochs: int) -> None:
        """Train for all epochs."""
        self._trio = self._train()

    def keep(self, places: Sequence[int]) -> None:
        """All of them stay."""
