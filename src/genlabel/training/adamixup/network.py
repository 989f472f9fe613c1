"""AdaMixup (Guo, Mao and Zhang, 2019) for any staged network, such as those for images.

Three networks minimize one loss, as in `fleet.py`: the classifier; a policy that outputs how a pair is mixed; a critic
that tells mixed points from real ones.
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
from genlabel.training.compile import CompileConfig, StepInputs, resolve_compile_config
from genlabel.training.loop import run_epochs
from genlabel.training.networks import StagedNetwork
from genlabel.training.optimizers import Adam, Optimizer
from genlabel.training.step import InputPreparer, soft_cross_entropy


class AdaMixupRun(NamedTuple):
    """Losses, policy and critic of a run: the result of :func:`train_adamixup_network`."""

    losses: NDArray[np.float64]
    """Mean loss of each epoch: the classifier's on points and mixed points, plus the critic's."""
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
    compile_config: CompileConfig | str | None = None,
    callback: Callback | None = None,
    checkpoint: Checkpoint | str | None = None,
) -> AdaMixupRun:
    """Train a network in place by AdaMixup, with a policy and a critic.

    A pair is mixed with lam = a + u delta, u uniform: the policy outputs (a, delta, rest). The classifier is trained on
    points and mixed points alike; the policy moves to where both the classifier and the critic are right.

    Parameters
    ----------
    network : StagedNetwork
    batches, learning_rate, weight_decay, optimizer, epochs, compile_config, callback, checkpoint
        See :func:`train_network`; the lam of a batch's own draw is u.
    policy : StagedNetwork
        Network from pairs, concatenated along the second axis (n, 2 c, ...), to 3 scores, such as a
        :class:`genlabel.training.networks.SmallConvNet`.
    critic : StagedNetwork
        Network from points to 2 scores, real or mixed.
    intrusion_weight : float
        Weight of the critic's loss.
    seed : int, Generator or None
        Seed of the pairs of batches that bring none.

    Examples
    --------
    >>> from genlabel.training.networks import SmallConvNet, LeNet5
    >>> x, y = torch.rand(8, 1, 8, 8), torch.arange(8) % 2
    >>> policy, critic = SmallConvNet(2, 3, seed=1), SmallConvNet(1, 2, seed=2)
    >>> net = LeNet5(2, size=8, seed=0)
    >>> train_adamixup_network(net, [(x, y)], policy=policy, critic=critic, epochs=2, seed=0).losses.shape
    (2,)
    """
    config = resolve_compile_config(compile_config, network)
    weight = check_interval("intrusion_weight", intrusion_weight, 0.0, np.inf, "1 is the usual choice")
    step = _AdaMixupStep(network, policy, critic, weight, as_rng(seed), config)
    file = checkpoint if isinstance(checkpoint, Checkpoint) or checkpoint is None else Checkpoint(checkpoint)
    losses = run_epochs(
        step,
        batches,
        optimizer=Adam() if optimizer is None else optimizer,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        epochs=epochs,
        config=config,
        callback=callback,
        checkpoint=file,
    )
    return AdaMixupRun(losses, policy, critic)


@final
class _AdaMixupStep:
    """The loss that the three networks minimize."""

    capturable = True

    def __init__(
        self,
        network: StagedNetwork,
        policy: StagedNetwork,
        critic: StagedNetwork,
        intrusion_weight: float,
        rng: np.random.Generator,
        config: CompileConfig,
    ) -> None:
        self.network, self.policy, self.critic = network, policy, critic
        self.intrusion_weight, self.config, self.rng = intrusion_weight, config, rng
        self.inputs = InputPreparer(network, Mixup(), rng, config, tensors=True)
        self.prepare = self.inputs.prepare

    @property
    def networks(self) -> list[StagedNetwork]:
        return [self.network, self.policy, self.critic]

    @property
    def modules(self) -> dict[str, nn.Module]:
        return {"network": self.network, "policy": self.policy, "critic": self.critic}

    def check(self) -> None:
        """Do nothing."""

    def loss(self, batch: StepInputs) -> Tensor:
        """Return the mean cross-entropy of points and mixed points, plus that of the critic.

        NOTE[PAPER]: a mean over both, where `fleet.py` has their sum: a learning rate for SGD then means what it
        means for mixup.
        """
        x, n, u = batch.x, len(batch.x), batch.draw.lam
        other = x[batch.draw.partner]
        with self.config.autocast(x.device):
            shares = torch.softmax(self.policy(torch.cat([x, other], 1)).to(u.dtype), 1)
            lam = shares[:, 0] + u * shares[:, 1]
            mixed = torch.lerp(other, x, lam.to(x.dtype).view(-1, *[1] * (x.ndim - 1)))
            both = torch.cat([x, mixed])
            scores, critic_scores = self.network(both), self.critic(both)
        labels = self.inputs.targets(batch.labels, scores)
        target = torch.cat([labels, torch.lerp(labels[batch.draw.partner], labels, lam[:, None])])
        weight = torch.cat([batch.weight, batch.weight]) / 2.0
        is_mixed = torch.eye(2, dtype=labels.dtype, device=x.device).repeat_interleave(n, 0)
        intrusion = soft_cross_entropy(critic_scores.to(labels.dtype), is_mixed, weight)
        return soft_cross_entropy(scores.to(labels.dtype), target, weight) + self.intrusion_weight * intrusion
