"""Test AdaMixup of staged networks against a fleet of one, and on images."""

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


def make_task(n: int = 60, seed: int = 0) -> TrainingTask:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return TrainingTask(rng.normal(size=(n, 4)) + 2 * np.eye(4)[y], y, 3, (), seed=[seed, 1])


def networks(task: TrainingTask, hidden: tuple[int, ...], width: int) -> list[MLP]:
    """Return the initial networks of a fleet of one."""
    children = np.random.default_rng(task.seed).spawn(3)
    sizes = [(4, 3, hidden), (8, 3, (width,)), (4, 2, (width,))]
    rngs = [children[0], *(weight_rng(child) for child in children[1:])]
    return [MLP(*size, seed=rng, dtype=torch.float64) for size, rng in zip(sizes, rngs, strict=True)]


class DrawnBatches:
    """The batches, pairs and u that a fleet of one draws."""

    def __init__(self, task: TrainingTask, batches: int) -> None:
        self.x, self.y = torch.from_numpy(task.X), torch.from_numpy(task.y)
        self.rng, self.edges = np.random.default_rng(task.seed), np.linspace(0, len(task.X), batches + 1).round()

    def __iter__(self) -> Iterator[Batch]:
        order = self.rng.permutation(len(self.x))
        for start, stop in pairwise(self.edges.astype(int)):
            rows = order[start:stop]
            yield Batch(self.x[rows], self.y[rows], None, Mixup().draw(stop - start, self.rng))


def for_halved_loss(optimizer: Optimizer) -> tuple[Optimizer, float]:
    """Return the optimizer and the factor of its rate that give the same steps for half of the loss."""
    return (replace(optimizer, eps=optimizer.eps / 2), 1.0) if isinstance(optimizer, Adam) else (optimizer, 2.0)


CASES: dict[str, tuple[tuple[int, ...], Optimizer, float, int]] = {
    "logistic, SGD": ((), SGD(), 1.0, 60),
    "network, SGD": ((7,), SGD(), 3.0, 60),
    "network, Adam": ((8, 6), Adam(), 0.5, 60),
    "several batches": ((5,), SGD(momentum=0.0), 1.0, 25),
    "no critic": ((5,), SGD(), 0.0, 60),
}


@pytest.mark.parametrize("case", CASES)
def test_staged_networks_equal_a_fleet_of_one(case: str) -> None:
    """The loss of a fleet sums over points and mixed points; the loss of the networks is their mean."""
    hidden, optimizer, weight, size = CASES[case]
    equivalent, rate_factor = for_halved_loss(optimizer)
    task = make_task()
    fleet = train_adamixup(
        [task],
        [Hyperparameters(0.02, 1e-3)],
        hidden=hidden,
        optimizer=optimizer,
        epochs=4,
        batch_size=size,
        dtype=torch.float64,
        policy_hidden=5,
        intrusion_weight=weight,
    )
    trio = networks(task, hidden, 5)
    losses = train_adamixup_network(
        trio[0],
        DrawnBatches(task, int(np.ceil(60 / size))),
        policy=trio[1],
        critic=trio[2],
        intrusion_weight=weight,
        learning_rate=0.02 * rate_factor,
        weight_decay=5e-4,
        optimizer=equivalent,
        epochs=4,
    )
    np.testing.assert_allclose(2.0 * losses, fleet.classifier.losses[:, 0, 0], rtol=1e-9)
    for fleet_part, network in zip(fleet, trio, strict=True):
        for fleet_value, network_value in zip(fleet_part.network().parameters(), network.parameters(), strict=True):
            torch.testing.assert_close(fleet_value, network_value, rtol=1e-7, atol=1e-9)


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
    before = [value.clone() for network in (policy, critic) for value in network.parameters()]
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
    after = [value for network in (policy, critic) for value in network.parameters()]
    assert all(value.dtype == torch.float32 for value in (*net.parameters(), *after))
    assert not any(torch.equal(old, new) for old, new in zip(before, after, strict=True))


def test_without_intrusion_weight_the_critic_does_not_change() -> None:
    task, trio = make_task(), networks(make_task(), (5,), 5)
    initial = [value.clone() for value in trio[2].parameters()]
    settings: dict[str, Any] = {"intrusion_weight": 0.0, "weight_decay": 0.0, "epochs": 2}
    train_adamixup_network(trio[0], DrawnBatches(task, 1), policy=trio[1], critic=trio[2], **settings)
    assert all(torch.equal(old, new) for old, new in zip(initial, trio[2].parameters(), strict=True))


def test_the_seed_pairs_a_loader_without_draws() -> None:
    task = make_task()
    loader, losses = [(torch.from_numpy(task.X), torch.from_numpy(task.y))], []
    for seed in (0, 0, 1):
        trio = networks(task, (), 5)
        run_losses = train_adamixup_network(trio[0], loader, policy=trio[1], critic=trio[2], epochs=3, seed=seed)
        losses.append(run_losses.tolist())
    assert losses[0] == losses[1] != losses[2]


def test_a_negative_intrusion_weight_raises() -> None:
    trio = networks(make_task(), (), 5)
    with pytest.raises(ValueError, match="intrusion_weight=-1"):
        train_adamixup_network(
            trio[0], DrawnBatches(make_task(), 1), policy=trio[1], critic=trio[2], intrusion_weight=-1
        )
