"""Adversarial training: batches whose points an attack has moved, against the network as it is at that step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import Seed, as_rng
from genlabel._runtime import eval_mode
from genlabel.attacks.base import Attack
from genlabel.attacks.models import AttackedNetwork
from genlabel.training import train_network
from genlabel.training.networks import StagedNetwork


@final
class AttackedBatches:
    """Batches of a loader, each attacked when it is drawn (Madry et al., 2018).

    Parameters
    ----------
    network : StagedNetwork
        Network in training; it is attacked in evaluation mode, as it is when the batch is drawn.
    batches : iterable of (x, y)
        Points and class indices (n,).
    attack : Attack
        Attack, such as `PGD(0.1, steps=5)`.
    shape : (c, h, w) or None
        Shape of an image, for a network that takes images.
    seed : int, Generator or None
        Seed of the attack.

    Examples
    --------
    >>> import torch
    >>> from genlabel.attacks import FGSM
    >>> from genlabel.training.networks import MLP
    >>> network, x = MLP(1, 2, seed=0), torch.zeros(3, 1)
    >>> moved, y = next(iter(AttackedBatches(network, [(x, torch.tensor([0, 1, 0]))], FGSM(0.5))))
    >>> moved.abs().max()
    tensor(0.5000)
    """

    def __init__(
        self,
        network: StagedNetwork,
        batches: Iterable[Sequence[Any]],
        attack: Attack,
        shape: tuple[int, int, int] | None = None,
        seed: Seed = None,
    ) -> None:
        self.network, self.batches, self.attack, self.shape = network, batches, attack, shape
        self.rng = as_rng(seed)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for x, y, *_ in self.batches:
            with eval_mode(self.network):
                moved: Tensor = self.attack(AttackedNetwork(self.network, self.shape), x, y, seed=self.rng)
            yield moved, y


def train_robust(
    network: StagedNetwork,
    batches: Iterable[Sequence[Any]],
    attack: Attack,
    *,
    shape: tuple[int, int, int] | None = None,
    seed: Seed = None,
    **settings: Any,
) -> NDArray[np.float64]:
    """Train a network on attacked points, in place, and return the mean loss of each epoch.

    The features of such a network can be inverted, which :class:`genlabel.mixing.HiddenGenMix` needs (Engstrom et al.,
    2019; arXiv Section F.4).

    Parameters
    ----------
    network, batches, attack, shape, seed
        As in :class:`AttackedBatches`.
    **settings
        Parameters of :func:`genlabel.training.train_network`: learning_rate, epochs, optimizer, ...

    Examples
    --------
    >>> import torch
    >>> from genlabel.attacks import FGSM
    >>> from genlabel.training.networks import MLP
    >>> batches = [(torch.tensor([[0.0], [4.0]]), torch.tensor([0, 1]))]
    >>> train_robust(MLP(1, 2, seed=0), batches, FGSM(0.5), seed=0, epochs=3).shape
    (3,)
    """
    rng = as_rng(seed)
    return train_network(network, AttackedBatches(network, batches, attack, shape, rng), seed=rng, **settings)
