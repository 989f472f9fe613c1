"""AdaMixup for any staged network: against the fleet of one, and images that it learns."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from genlabel.mixing import Mixup
from genlabel.training import SGD, Adam, CompileConfig, ImageBatches
from genlabel.training.adamixup import train_adamixup, train_adamixup_network
from genlabel.training.batching import Batch, Hyperparameters, TrainingTask
from genlabel.training.fleet import weight_rng
from genlabel.training.image_batches import predict_scores
from genlabel.training.networks import MLP, LeNet5
from genlabel.training.networks.convolutional import SmallConvNet
from genlabel.training.optimizers import Optimizer


def task(n: int = 60, seed: int = 0) -> TrainingTask:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return TrainingTask(rng.normal(size=(n, 4)) + 2 * np.eye(4)[y], y, 3, (), seed=[seed, 1])


def networks(one: TrainingTask, hidden: tuple[int, ...], width: int) -> list[MLP]:
    """The initial networks of a fleet of one, each on its own."""
    children = np.random.default_rng(one.seed).spawn(3)
    sizes = [(4, 3, hidden), (8, 3, (width,)), (4, 2, (width,))]
    rngs = [children[0], *(weight_rng(child) for child in children[1:])]
    return [MLP(*size, seed=rng, dtype=torch.float64) for size, rng in zip(sizes, rngs, strict=True)]


class Drawn:
    """The batches, the pairs and the u that a fleet of one draws."""

    def __init__(self, one: TrainingTask, batches: int) -> None:
        self.x, self.y = torch.from_numpy(one.X), torch.from_numpy(one.y)
        self.rng, self.edges = np.random.default_rng(one.seed), np.linspace(0, len(one.X), batches + 1).round()

    def __iter__(self) -> Iterator[Batch]:
        order = self.rng.permutation(len(self.x))
        for start, stop in pairwise(self.edges.astype(int)):
            rows = order[start:stop]
            yield Batch(self.x[rows], self.y[rows], None, Mixup().draw(stop - start, self.rng))


def halved(rule: Optimizer) -> tuple[Optimizer, float]:
    """The rule, and the factor on its rate, that go the same way down half of a loss."""
    return (replace(rule, eps=rule.eps / 2), 1.0) if isinstance(rule, Adam) else (rule, 2.0)


CASES: dict[str, tuple[tuple[int, ...], Optimizer, float, int]] = {
    "logistic, SGD": ((), SGD(), 1.0, 60),
    "network, SGD": ((7,), SGD(), 3.0, 60),
    "network, Adam": ((8, 6), Adam(), 0.5, 60),
    "several batches": ((5,), SGD(momentum=0.0), 1.0, 25),
    "no critic": ((5,), SGD(), 0.0, 60),
}


@pytest.mark.parametrize("case", CASES)
def test_three_networks_end_where_a_fleet_of_one_ends(case: str) -> None:
    """The fleet's loss is a sum over points and mixed points, that of the networks their mean."""
    hidden, rule, weight, size = CASES[case]
    same, faster = halved(rule)
    one = task()
    fleet = train_adamixup(
        [one],
        [Hyperparameters(0.02, 1e-3)],
        hidden=hidden,
        optimizer=rule,
        epochs=4,
        batch_size=size,
        dtype=torch.float64,
        policy_hidden=5,
        intrusion_weight=weight,
    )
    trio = networks(one, hidden, 5)
    losses = train_adamixup_network(
        trio[0],
        Drawn(one, int(np.ceil(60 / size))),
        policy=trio[1],
        critic=trio[2],
        intrusion_weight=weight,
        learning_rate=0.02 * faster,
        weight_decay=5e-4,
        optimizer=same,
        epochs=4,
    )
    np.testing.assert_allclose(2.0 * losses, fleet.classifier.losses[:, 0, 0], rtol=1e-9)
    for many, network in zip(fleet, trio, strict=True):
        for own, other in zip(many.network().parameters(), network.parameters(), strict=True):
            torch.testing.assert_close(own, other, rtol=1e-7, atol=1e-9)


def digits() -> tuple[np.ndarray, np.ndarray]:
    data = load_digits()
    return (data.images[:, None] * (255 / 16)).astype(np.uint8), data.target


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_images_are_learned(precision: str) -> None:
    """600 digits, 4 epochs; chance is 10 %."""
    x, y = digits()
    net, policy, critic = (
        LeNet5(size=8, seed=0),
        SmallConvNet(2, 3, width=8, seed=1),
        SmallConvNet(1, 2, width=8, seed=2),
    )
    before = [value.clone() for judge in (policy, critic) for value in judge.parameters()]
    losses = train_adamixup_network(
        net,
        ImageBatches(x[:600], y[:600], batch_size=50, mixer=Mixup(), seed=0),
        policy=policy,
        critic=critic,
        learning_rate=0.005,
        epochs=4,
        compile_config=CompileConfig(precision=precision),
    )
    assert losses[-1] < losses[0] - 0.5
    accuracy = (predict_scores(net, x[600:]).argmax(1).numpy() == y[600:]).mean()
    assert accuracy > 0.6
    after = [value for judge in (policy, critic) for value in judge.parameters()]
    assert all(value.dtype == torch.float32 for value in (*net.parameters(), *after))
    assert not any(torch.equal(old, new) for old, new in zip(before, after, strict=True))


def test_without_weight_the_critic_stays_as_it_was_drawn() -> None:
    one, trio = task(), networks(task(), (5,), 5)
    fresh = [value.clone() for value in trio[2].parameters()]
    settings: dict[str, Any] = {"intrusion_weight": 0.0, "weight_decay": 0.0, "epochs": 2}
    train_adamixup_network(trio[0], Drawn(one, 1), policy=trio[1], critic=trio[2], **settings)
    assert all(torch.equal(old, new) for old, new in zip(fresh, trio[2].parameters(), strict=True))


def test_a_loader_without_draws_is_paired_by_the_seed() -> None:
    one = task()
    loader, losses = [(torch.from_numpy(one.X), torch.from_numpy(one.y))], []
    for seed in (0, 0, 1):
        trio = networks(one, (), 5)
        run = train_adamixup_network(trio[0], loader, policy=trio[1], critic=trio[2], epochs=3, seed=seed)
        losses.append(run.tolist())
    assert losses[0] == losses[1] != losses[2]


def test_a_weight_below_zero_is_named() -> None:
    trio = networks(task(), (), 5)
    with pytest.raises(ValueError, match="intrusion_weight=-1"):
        train_adamixup_network(trio[0], Drawn(task(), 1), policy=trio[1], critic=trio[2], intrusion_weight=-1)
