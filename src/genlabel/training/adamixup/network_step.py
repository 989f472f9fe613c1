"""AdaMixup (Guo, Mao and Zhang, 2019) for any staged network, images too: networks that learn how to mix.

Three networks minimise one loss, as in `adamixup.py`, which has the fleet of small ones: the classifier; a policy that
says of a pair how it is mixed; a critic that tells mixed points from real ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from genlabel._arrays import as_rng
from genlabel._progress import Callback
from genlabel._validation import check_interval
from genlabel.mixing import Mixup
from genlabel.training.batching import Batch
from genlabel.training.checkpoint import Checkpoint
from genlabel.training.compile import CompileConfig, StepInputs, resolve_acceleration
from genlabel.training.loop import run_epochs
from genlabel.training.networks import StagedNetwork
from genlabel.training.optimizers import Adam, Optimizer
from genlabel.training.step import Batches, soft_cross_entropy


class AdaMixupRun(NamedTuple):
    """What a run of AdaMixup leaves beside the classifier, which is trained in place.

    `train_adamixup_network` returns it.
    """

    losses: NDArray[np.float64]
    """Mean loss of each epoch: the classifier's on points and on mixed points, and the critic's."""
    policy: StagedNetwork
    critic: StagedNetwork


def train_adamixup_network(
    network: StagedNetwork,
    batches: Iterable[Batch | Sequence[Any]],
    *,
    policy: StagedNetwork,
    critic: StagedNetwork,
    intrusion_weight: float = 1.0,
    learning_rate: float = 0.1,
    weight_decay: float = 1e-4,
    optimizer: Optimizer | None = None,
    epochs: int = 100,
    seed: Any = None,
    acceleration: CompileConfig | str | None = None,
    callback: Callback | None = None,
    checkpoint: Checkpoint | str | None = None,
) -> AdaMixupRun:
    """Train a network in place by AdaMixup, with a policy and a critic that are trained beside it.

    A pair is mixed with lam = a + u delta, u uniform: the policy gives the shares (a, delta, rest). The classifier sees
    points and mixed points alike; the policy moves to where both the classifier and the critic are right.

    Parameters
    ----------
    network : StagedNetwork
    batches, learning_rate, weight_decay, optimizer, epochs, acceleration, callback, checkpoint
        As of :func:`train_network`; a batch that brings a draw brings u as its lam.
    policy : StagedNetwork
        Pairs, one behind the other in the second axis (n, 2 c, ...), to 3 scores;
        :class:`genlabel.training.networks.SmallConvNet`.
    critic : StagedNetwork
        Points to 2 scores, real or mixed.
    intrusion_weight : float
        Weight of the critic's loss.
    seed : int, Generator or None
        Of the pairs, where batches bring none.

    Examples
    --------
    >>> from genlabel.training.networks import SmallConvNet, LeNet5
    >>> x, y = torch.rand(8, 1, 8, 8), torch.arange(8) % 2
    >>> judges = SmallConvNet(2, 3, seed=1), SmallConvNet(1, 2, seed=2)
    >>> net = LeNet5(2, size=8, seed=0)
    >>> train_adamixup_network(net, [(x, y)], policy=judges[0], critic=judges[1], epochs=2, seed=0).losses.shape
    (2,)
    """
    how = resolve_acceleration(acceleration, network)
    weight = check_interval("intrusion_weight", intrusion_weight, 0.0, np.inf, "1 is the usual choice")
    step = _Joint(network, policy, critic, weight, as_rng(seed), how)
    losses = run_epochs(
        step,
        batches,
        optimizer=Adam() if optimizer is None else optimizer,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        epochs=epochs,
        acceleration=how,
        callback=callback,
        checkpoint=checkpoint,
    )
    return AdaMixupRun(losses, policy, critic)


@final
class _Joint:
    """The one loss that the three networks minimise."""

    capturable = True

    def __init__(
        self,
        network: StagedNetwork,
        policy: StagedNetwork,
        critic: StagedNetwork,
        intrusion_weight: float,
        rng: np.random.Generator,
        acceleration: CompileConfig,
    ) -> None:
        self.network, self.policy, self.critic = network, policy, critic
        self.intrusion_weight, self.acceleration, self.rng = intrusion_weight, acceleration, rng
        self.batches = Batches(network, Mixup(), rng, acceleration, tensors=True)

    @property
    def trained(self) -> list[StagedNetwork]:
        return [self.network, self.policy, self.critic]

    @property
    def learned(self) -> dict[str, nn.Module]:
        return {"network": self.network, "policy": self.policy, "critic": self.critic}

    def ready(self, batch: Batch) -> StepInputs:
        return self.batches.ready(batch)

    def check(self) -> None:
        """Nothing is watched."""

    def loss(self, batch: StepInputs) -> Tensor:
        """Mean cross-entropy of points and mixed points, plus that of the critic, that tells them apart.

        NOTE[PAPER]: a mean over both, where `adamixup.py` has their sum: a learning rate for SGD then means what it
        means for mixup.
        """
        x, n = batch.x, len(batch.x)
        other = x[batch.draw.partner]
        with self.acceleration.arithmetic(x.device):
            lam = self._lam(x, other, batch.draw.lam)
            mixed = torch.lerp(other, x, lam.to(x.dtype).view(-1, *[1] * (x.ndim - 1)))
            both = torch.cat([x, mixed])
            scores, judged = self.network(both), self.critic(both)
        labels = self.batches.targets(batch.labels, scores)
        target = torch.cat([labels, torch.lerp(labels[batch.draw.partner], labels, lam[:, None])])
        weight = torch.cat([batch.weight, batch.weight]) / 2.0
        kind = torch.eye(2, dtype=labels.dtype, device=x.device).repeat_interleave(n, 0)
        intrusion = soft_cross_entropy(judged.to(labels.dtype), kind, weight)
        return soft_cross_entropy(scores.to(labels.dtype), target, weight) + self.intrusion_weight * intrusion

    def _lam(self, x: Tensor, other: Tensor, u: Tensor) -> Tensor:
        """lam = a + u delta, (n,)."""
        shares = torch.softmax(self.policy(torch.cat([x, other], 1)).to(u.dtype), 1)
        return shares[:, 0] + u * shares[:, 1]
