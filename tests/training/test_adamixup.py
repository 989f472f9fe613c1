"""Test AdaMixup against autograd and single models, and its learned policy."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from genlabel._progress import LambdaCallback
from genlabel.labeling import LinearLabel
from genlabel.mixing import Mixup
from genlabel.training import SGD, Adam
from genlabel.training.adamixup import AdaMixupNetworks, Pairs, plan_pairs, policy_statistics, train_adamixup
from genlabel.training.batching import BatchPlan, Hyperparameters, TrainingTask
from genlabel.training.fleet import weight_rng
from genlabel.training.fleet_trainer import train_fleet
from genlabel.training.networks import MLP
from genlabel.training.optimizers import Optimizer

DOUBLE = torch.zeros((), dtype=torch.float64)


def make_task(n: int = 60, seed: int = 0, **options: object) -> TrainingTask:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return TrainingTask(rng.normal(size=(n, 4)) + 2 * np.eye(4)[y], y, 3, (), seed=[seed, 1], **options)


def networks(task: TrainingTask, hidden: tuple[int, ...], width: int) -> list[MLP]:
    """Return the initial classifier, policy and critic of one model."""
    children = np.random.default_rng(task.seed).spawn(3)
    sizes = [(4, 3, hidden), (8, 3, (width,)), (4, 2, (width,))]
    rngs = [children[0], *(weight_rng(child) for child in children[1:])]
    return [MLP(*size, seed=rng, dtype=torch.float64) for size, rng in zip(sizes, rngs, strict=True)]


def mixed(policy: MLP, x: Tensor, partner: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    proba = torch.softmax(policy(torch.cat([x, x[partner]], 1)), 1)
    lam = (proba[:, 0] + u * proba[:, 1])[:, None]
    return lam, lam * x + (1 - lam) * x[partner]


def loss_of(
    trio: list[MLP], task: TrainingTask, rows: Tensor, partner: Tensor, u: Tensor, intrusion_weight: float
) -> Tensor:
    """Return the loss of one batch of one model, from its definition."""
    classifier, policy, critic = trio
    x, y = torch.from_numpy(task.X)[rows], torch.from_numpy(task.y)[rows]
    weights = torch.ones(len(task.X)).double() if task.weight is None else torch.from_numpy(task.weight)
    class_weight = torch.ones(3).double() if task.class_weight is None else torch.from_numpy(task.class_weight)
    w = (weights / (weights * class_weight[task.y]).mean())[rows]
    lam, x_mix = mixed(policy, x, partner, u)
    w_mix = (w + w[partner]) / 2

    def ce(scores: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(scores, target, reduction="none")

    own, other = (
        class_weight[y] * ce(classifier(x_mix), y),
        class_weight[y[partner]] * ce(classifier(x_mix), y[partner]),
    )
    clean = class_weight[y] * ce(classifier(x), y)
    critic_loss = w * ce(critic(x), torch.zeros_like(y)) + w_mix * ce(critic(x_mix), torch.ones_like(y))
    losses = w * clean + w_mix * (lam[:, 0] * own + (1 - lam[:, 0]) * other) + intrusion_weight * critic_loss
    return losses.mean()


def train_one(
    task: TrainingTask,
    candidate: Hyperparameters,
    hidden: tuple[int, ...],
    optimizer: Optimizer,
    epochs: int,
    batches: int,
    weight: float,
) -> tuple[list[MLP], list[float]]:
    """Train one model by autograd and torch.optim."""
    trio, rng = networks(task, hidden, 5), np.random.default_rng(task.seed)
    parameters = [p for network in trio for p in network.parameters()]
    update = optimizer.for_network(parameters, candidate.learning_rate, candidate.weight_decay)
    edges, losses = np.linspace(0, len(task.X), batches + 1).round().astype(int), []
    for epoch in range(epochs):
        update.param_groups[0]["lr"] = candidate.learning_rate * optimizer.factor(epoch, epochs)
        order = rng.permutation(len(task.X))
        for start, stop in pairwise(edges):
            draw = Mixup().draw(stop - start, rng)
            arguments = (torch.from_numpy(part) for part in (order[start:stop], draw.partner, draw.lam))
            loss = loss_of(trio, task, *arguments, weight)
            update.zero_grad()
            loss.backward()
            update.step()
            losses.append(float(loss.detach()))
    return trio, np.array(losses).reshape(epochs, batches).mean(1).tolist()


CASES = {
    "logistic": ((), Adam(), 1.0, {}),
    "logistic SGD": ((), SGD(), 1.0, {}),
    "network": ((8, 6), Adam(), 1.0, {}),
    "network SGD": ((7,), SGD(), 3.0, {}),
    "no critic": ((), Adam(), 0.0, {}),
    "class weights": ((), Adam(), 1.0, {"class_weight": np.array([0.2, 1.0, 3.0])}),
    "sample weights": ((5,), Adam(), 0.5, {"weight": np.random.default_rng(0).uniform(0, 2, 60)}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_fleet_of_one_is_three_networks_by_autograd(case: str) -> None:
    """SGD compares the gradients directly; Adam amplifies any error in them."""
    hidden, optimizer, weight, options = CASES[case]
    task, candidate = make_task(**options), Hyperparameters(0.02, 1e-3)
    settings = {"hidden": hidden, "optimizer": optimizer, "epochs": 4, "dtype": torch.float64}
    ours = train_adamixup([task], [candidate], batch_size=25, policy_hidden=5, intrusion_weight=weight, **settings)
    theirs, losses = train_one(task, candidate, hidden, optimizer, 4, 3, weight)
    np.testing.assert_allclose(ours.classifier.losses[:, 0, 0], losses, rtol=1e-10)
    for fleet, network in zip(ours, theirs, strict=True):
        for fleet_value, network_value in zip(fleet.network().parameters(), network.parameters(), strict=True):
            torch.testing.assert_close(fleet_value, network_value, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("hidden", [(), (6,)])
@pytest.mark.parametrize("optimizer", [Adam(), SGD()], ids=repr)
def test_a_model_is_independent_of_the_other_models(hidden: tuple[int, ...], optimizer: Optimizer) -> None:
    tasks = [make_task(n, seed) for seed, n in enumerate((60, 57, 51))]
    candidates = [Hyperparameters(0.1, 0.0), Hyperparameters(0.01, 1e-2)]
    settings = {"hidden": hidden, "optimizer": optimizer, "epochs": 3, "batch_size": 20, "dtype": torch.float64}
    together = train_adamixup(tasks, candidates, **settings)
    for g, single in enumerate(tasks):
        for c, candidate in enumerate(candidates):
            alone = train_adamixup([single], [candidate], **settings)
            for fleet, single_fleet in zip(together, alone, strict=True):
                torch.testing.assert_close(fleet.theta[g, c], single_fleet.theta[0, 0], rtol=1e-8, atol=1e-11)
                np.testing.assert_allclose(fleet.losses[:, g, c], single_fleet.losses[:, 0, 0], rtol=1e-9)


def test_initial_weights_and_pairs_equal_those_of_mixup() -> None:
    """Rows, partners and u equal rows, partners and lam of the plan; at rate 0 the initial weights are equal."""
    task = make_task(50)
    with_mixup = replace(task, mixer=Mixup(), labelers=(LinearLabel().fit(task.X, task.y),))
    (pairs,), steps = plan_pairs([task], 2, 3, DOUBLE), BatchPlan(with_mixup, 3, DOUBLE).steps(2)
    x = pairs.first[:, 0, :4].mT
    torch.testing.assert_close(pairs.ends[:, 0, 1], torch.where(steps.weight > 0, steps.draw.lam, 0.0))
    lam = pairs.ends[:, 0, 1, :, None]
    mixed_x = lam * x + (1 - lam) * pairs.second[:, 0, :4].mT
    real = steps.weight > 0
    torch.testing.assert_close(mixed_x[real], steps.x[real])
    torch.testing.assert_close(pairs.weight[:, 0, 0, : x.shape[1]], steps.weight)
    torch.testing.assert_close(pairs.weight[:, 0, 0].sum(1), torch.full((6,), 2.0).double())
    candidates = [Hyperparameters(1e-300, 0.0)]
    plain = train_fleet([with_mixup], candidates, epochs=1, dtype=torch.float64)
    assert torch.equal(train_adamixup([task], candidates, epochs=1, dtype=torch.float64).classifier.theta, plain.theta)


def test_lam_lies_between_a_and_a_plus_delta() -> None:
    task = make_task()
    trio = train_adamixup([task], [Hyperparameters(0.05)], epochs=20)
    (pairs,) = plan_pairs([task], 1, 1, DOUBLE)
    both_rows = torch.cat([pairs.first[0, 0, :4], pairs.second[0, 0, :4]]).T.numpy()
    proba = np.exp(trio.policy.log_proba(0, both_rows))[0]
    lam = (proba * pairs.ends[0, 0].T.numpy()).sum(1)
    a, top = proba[:, 0], proba[:, 0] + proba[:, 1]
    assert (a > 0).all()
    assert (a <= lam).all()
    assert (lam <= top).all()
    assert (top < 1 + 1e-12).all()
    low, high, _ = policy_statistics(trio.policy, task.X, seed=0)[0]
    assert 0 < low < high < 1


def test_policy_statistics_are_means_over_pairs() -> None:
    """Against all pairs and a grid of u, for a policy that still mixes."""
    task = make_task()
    policy = train_adamixup([task], [Hyperparameters(0.01)], epochs=2).policy
    pairs = np.hstack([np.repeat(task.X, 60, axis=0), np.tile(task.X, (60, 1))])
    proba = np.exp(policy.log_proba(0, pairs))[0]
    lam = proba[:, :1] + np.linspace(0, 1, 51) * proba[:, 1:2]
    statistics = np.mean([policy_statistics(policy, task.X, rng)[0] for rng in range(50)], axis=0)
    np.testing.assert_allclose(statistics[:2], proba.mean(0).cumsum()[:2], rtol=0.02)
    np.testing.assert_allclose(statistics[2], np.minimum(lam, 1 - lam).mean(), rtol=0.02)


def intrusion_loss(trio: AdaMixupNetworks, task: TrainingTask) -> float:
    """Return the intrusion loss of a trained trio over many pairs."""
    x, rng = torch.from_numpy(task.X), np.random.default_rng(5)
    partner, u = torch.from_numpy(rng.permutation(len(x))), torch.from_numpy(rng.random(len(x)))
    critic = trio.critic.network()
    _, x_mix = mixed(trio.policy.network(), x, partner, u)
    y = torch.zeros(len(x), dtype=torch.int64)
    return float((cross_entropy(critic(x), y) + cross_entropy(critic(x_mix), y + 1)).detach())


def test_all_networks_learn() -> None:
    task = make_task(120)
    start, end = (train_adamixup([task], [Hyperparameters(0.003, 0.0)], epochs=epochs) for epochs in (1, 150))
    for before, after in zip(start, end, strict=True):
        assert float((before.theta - after.theta).abs().max()) > 0.05
    assert intrusion_loss(end, task) < intrusion_loss(start, task) - 0.05
    assert end.classifier.losses[-1] < end.classifier.losses[0] - 0.5


def test_without_intrusion_weight_the_critic_does_not_change() -> None:
    task = make_task()
    without_critic = train_adamixup(
        [task], [Hyperparameters(0.1, 0.0)], epochs=5, intrusion_weight=0.0, dtype=torch.float64
    )
    initial = train_adamixup([task], [Hyperparameters(1e-300, 0.0)], epochs=1, dtype=torch.float64)
    assert torch.equal(without_critic.critic.theta, initial.critic.theta)
    assert not torch.equal(without_critic.policy.theta, initial.policy.theta)
    assert not torch.equal(without_critic.classifier.theta, initial.classifier.theta)


def test_the_seed_determines_the_result() -> None:
    first, second, other = (train_adamixup([make_task(seed=s)], [Hyperparameters(0.1)], epochs=3) for s in (0, 0, 1))
    for a, b, c in zip(first, second, other, strict=True):
        assert torch.equal(a.theta, b.theta)
        assert not torch.equal(a.theta, c.theta)


def test_pairs_do_not_depend_on_the_chunk_size(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [make_task(50), make_task(47, 1)]
    (whole,) = plan_pairs(tasks, 4, 3, DOUBLE)
    monkeypatch.setattr("genlabel.training.batching.MAX_CHUNK_VALUES", 1)
    chunks = list(plan_pairs(tasks, 4, 3, DOUBLE))
    assert len(chunks) == 4
    for field, chunk_fields in zip(whole, zip(*chunks, strict=True), strict=True):
        torch.testing.assert_close(field, torch.cat(chunk_fields))
    assert isinstance(whole, Pairs)


def test_progress_counts_every_epoch() -> None:
    epochs: list[int] = []
    fleet = train_adamixup(
        [make_task()],
        [Hyperparameters(0.1)],
        epochs=7,
        batch_size=20,
        callback=LambdaCallback(on_epoch_end=lambda epoch, logs: epochs.append(epoch)),
    ).classifier
    assert len(epochs) == 7
    assert fleet.losses.shape == (7, 1, 1)


def test_a_task_with_too_few_rows_raises() -> None:
    with pytest.raises(ValueError, match="20"):
        train_adamixup([make_task(100), make_task(15)], [Hyperparameters(0.1)], batch_size=5)


def three_clusters(seed: int) -> tuple[TrainingTask, np.ndarray]:
    """Clusters at -1, 0, 1 of the classes 0, 1, 0, as in arXiv Example 1: mixup of the outer two hits the third."""
    rng, cluster = np.random.default_rng(seed), np.arange(150) % 3
    X = cluster[:, None] - 1.0 + 0.08 * rng.normal(size=(150, 1))
    return TrainingTask(X / X.std(), (cluster == 1).astype(int), 2, (), seed=seed), cluster


def mixing(trio: AdaMixupNetworks, group: int, task: TrainingTask, cluster: np.ndarray) -> tuple[float, float]:
    """Return the share of mixed points of the outer clusters near the middle one, and the mean of min(lam, 1 - lam)."""
    rng = np.random.default_rng(3)
    near_middle, mixing_depths = [], []
    for _ in range(10):
        partner, u = rng.permutation(150), rng.random(150)
        proba = np.exp(trio.policy.log_proba(group, np.hstack([task.X, task.X[partner]])))[0]
        lam = proba[:, 0] + u * proba[:, 1]
        x = lam * task.X[:, 0] + (1 - lam) * task.X[partner, 0]
        outer = np.abs(cluster - cluster[partner]) == 2
        near_middle.append(np.abs(x[outer]) < 3 * task.X[cluster == 1].std())
        mixing_depths.append(np.minimum(lam, 1 - lam)[cluster != cluster[partner]])
    return float(np.concatenate(near_middle).mean()), float(np.concatenate(mixing_depths).mean())


@pytest.mark.parametrize("hidden", [(), (16,)])
def test_the_policy_avoids_intrusion(hidden: tuple[int, ...]) -> None:
    """Plain mixup puts 24% of them there, with mean min(lam, 1 - lam) = 0.25.

    At weight 3 the policy mixes about as much (0.2) without intrusion (0%). At weight 0 it does not mix.
    """
    samples = [three_clusters(seed) for seed in range(4)]
    settings = {"hidden": hidden, "epochs": 150, "batch_size": 50}

    def measure(weight: float) -> np.ndarray:
        trio = train_adamixup(
            [cluster_task for cluster_task, _ in samples], [Hyperparameters(0.003)], intrusion_weight=weight, **settings
        )
        return np.mean([mixing(trio, group, *sample) for group, sample in enumerate(samples)], axis=0)

    (hit_share, depth), (_, idle) = measure(3.0), measure(0.0)
    assert hit_share < 0.05
    assert depth > 0.15
    assert idle < 0.1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_gpu_gives_the_same_weights() -> None:
    settings = {"hidden": (6,), "epochs": 5, "dtype": torch.float64}
    runs = [
        train_adamixup([make_task()], [Hyperparameters(0.05)], device=device, **settings) for device in ("cpu", "cuda")
    ]
    for cpu, gpu in zip(*runs, strict=True):
        torch.testing.assert_close(cpu.theta, gpu.theta.cpu(), rtol=1e-8, atol=1e-10)
