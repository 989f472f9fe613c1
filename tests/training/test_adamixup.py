"""AdaMixup against autograd and one model at a time, and what its policy learns."""

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


def task(n: int = 60, seed: int = 0, **more: object) -> TrainingTask:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return TrainingTask(rng.normal(size=(n, 4)) + 2 * np.eye(4)[y], y, 3, (), seed=[seed, 1], **more)


def networks(one: TrainingTask, hidden: tuple[int, ...], width: int) -> list[MLP]:
    """The initial networks of one model, each on its own."""
    children = np.random.default_rng(one.seed).spawn(3)
    sizes = [(4, 3, hidden), (8, 3, (width,)), (4, 2, (width,))]
    rngs = [children[0], *(weight_rng(child) for child in children[1:])]
    return [MLP(*size, seed=rng, dtype=torch.float64) for size, rng in zip(sizes, rngs, strict=True)]


def mixed(policy: MLP, x: Tensor, partner: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    shares = torch.softmax(policy(torch.cat([x, x[partner]], 1)), 1)
    lam = (shares[:, 0] + u * shares[:, 1])[:, None]
    return lam, lam * x + (1 - lam) * x[partner]


def loss_of(
    trio: list[MLP], one: TrainingTask, rows: Tensor, partner: Tensor, u: Tensor, intrusion_weight: float
) -> Tensor:
    """One batch of one model as the method is stated, with the losses of torch."""
    classifier, policy, critic = trio
    x, y = torch.from_numpy(one.X)[rows], torch.from_numpy(one.y)[rows]
    w = torch.ones(len(x)).double() if one.weight is None else torch.from_numpy(one.weight)[rows]
    tilt = torch.ones(3).double() if one.class_weight is None else torch.from_numpy(one.class_weight)
    lam, x_mix = mixed(policy, x, partner, u)
    w_mix = (w + w[partner]) / 2

    def ce(scores: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(scores, target, reduction="none")

    own, other = tilt[y] * ce(classifier(x_mix), y), tilt[y[partner]] * ce(classifier(x_mix), y[partner])
    clean = tilt[y] * ce(classifier(x), y)
    critic_loss = w * ce(critic(x), torch.zeros_like(y)) + w_mix * ce(critic(x_mix), torch.ones_like(y))
    parts = w * clean + w_mix * (lam[:, 0] * own + (1 - lam[:, 0]) * other) + intrusion_weight * critic_loss
    return parts.sum() / w.sum()


def train_one(
    one: TrainingTask,
    candidate: Hyperparameters,
    hidden: tuple[int, ...],
    rule: Optimizer,
    epochs: int,
    batches: int,
    weight: float,
) -> tuple[list[MLP], list[float]]:
    """One model by autograd and torch.optim."""
    trio, rng = networks(one, hidden, 5), np.random.default_rng(one.seed)
    parameters = [p for network in trio for p in network.parameters()]
    update = rule.for_network(parameters, candidate.learning_rate, candidate.weight_decay)
    edges, losses = np.linspace(0, len(one.X), batches + 1).round().astype(int), []
    for epoch in range(epochs):
        update.param_groups[0]["lr"] = candidate.learning_rate * rule.factor(epoch, epochs)
        order = rng.permutation(len(one.X))
        for start, stop in pairwise(edges):
            draw = Mixup().draw(stop - start, rng)
            parts = (torch.from_numpy(part) for part in (order[start:stop], draw.partner, draw.lam))
            loss = loss_of(trio, one, *parts, weight)
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
    """SGD's first steps are the gradients themselves; Adam's path amplifies any error in them."""
    hidden, rule, weight, more = CASES[case]
    one, candidate = task(**more), Hyperparameters(0.02, 1e-3)
    settings = {"hidden": hidden, "optimizer": rule, "epochs": 4, "dtype": torch.float64}
    ours = train_adamixup([one], [candidate], batch_size=25, policy_hidden=5, intrusion_weight=weight, **settings)
    theirs, losses = train_one(one, candidate, hidden, rule, 4, 3, weight)
    np.testing.assert_allclose(ours.classifier.losses[:, 0, 0], losses, rtol=1e-10)
    for fleet, network in zip(ours, theirs, strict=True):
        for own, other in zip(fleet.network().parameters(), network.parameters(), strict=True):
            torch.testing.assert_close(own, other, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("hidden", [(), (6,)])
@pytest.mark.parametrize("rule", [Adam(), SGD()], ids=repr)
def test_a_model_does_not_depend_on_its_company(hidden: tuple[int, ...], rule: Optimizer) -> None:
    tasks = [task(n, seed) for seed, n in enumerate((60, 57, 51))]
    candidates = [Hyperparameters(0.1, 0.0), Hyperparameters(0.01, 1e-2)]
    settings = {"hidden": hidden, "optimizer": rule, "epochs": 3, "batch_size": 20, "dtype": torch.float64}
    together = train_adamixup(tasks, candidates, **settings)
    for g, single in enumerate(tasks):
        for c, candidate in enumerate(candidates):
            alone = train_adamixup([single], [candidate], **settings)
            for many, one in zip(together, alone, strict=True):
                torch.testing.assert_close(many.theta[g, c], one.theta[0, 0], rtol=1e-8, atol=1e-11)
                np.testing.assert_allclose(many.losses[:, g, c], one.losses[:, 0, 0], rtol=1e-9)


def test_the_classifiers_start_and_are_paired_as_those_of_a_fleet_with_mixup() -> None:
    """Rows, partners and u are rows, partners and lam of the plan; at rate 0 all is as it was drawn."""
    one = task(50)
    with_mixup = replace(one, mixer=Mixup(), labelers=(LinearLabel().fit(one.X, one.y),))
    (pairs,), steps = plan_pairs([one], 2, 3, DOUBLE), BatchPlan(with_mixup, 3, DOUBLE).steps(2)
    x = pairs.first[:, 0, :4].mT
    torch.testing.assert_close(pairs.ends[:, 0, 1], torch.where(steps.weight > 0, steps.draw.lam, 0.0))
    lam = pairs.ends[:, 0, 1, :, None]
    blend = lam * x + (1 - lam) * pairs.second[:, 0, :4].mT
    real = steps.weight > 0
    torch.testing.assert_close(blend[real], steps.x[real])
    torch.testing.assert_close(pairs.weight[:, 0, 0, : x.shape[1]], steps.weight)
    torch.testing.assert_close(pairs.weight[:, 0, 0].sum(1), torch.full((6,), 2.0).double())
    still = [Hyperparameters(1e-300, 0.0)]
    plain = train_fleet([with_mixup], still, epochs=1, dtype=torch.float64)
    assert torch.equal(train_adamixup([one], still, epochs=1, dtype=torch.float64).classifier.theta, plain.theta)


def test_lam_lies_between_a_and_a_plus_delta() -> None:
    one = task()
    trio = train_adamixup([one], [Hyperparameters(0.05)], epochs=20)
    (pairs,) = plan_pairs([one], 1, 1, DOUBLE)
    both = torch.cat([pairs.first[0, 0, :4], pairs.second[0, 0, :4]]).T.numpy()
    shares = np.exp(trio.policy.log_proba(0, both))[0]
    lam = (shares * pairs.ends[0, 0].T.numpy()).sum(1)
    a, top = shares[:, 0], shares[:, 0] + shares[:, 1]
    assert (a > 0).all()
    assert (a <= lam).all()
    assert (lam <= top).all()
    assert (top < 1 + 1e-12).all()
    low, high, _ = policy_statistics(trio.policy, one.X, seed=0)[0]
    assert 0 < low < high < 1


def test_the_reports_of_a_policy_are_means_over_pairs() -> None:
    """Against all pairs and a grid of u, for a policy that still mixes: of one that hardly does, few pairs count."""
    one = task()
    policy = train_adamixup([one], [Hyperparameters(0.01)], epochs=2).policy
    pairs = np.hstack([np.repeat(one.X, 60, axis=0), np.tile(one.X, (60, 1))])
    shares = np.exp(policy.log_proba(0, pairs))[0]
    lam = shares[:, :1] + np.linspace(0, 1, 51) * shares[:, 1:2]
    statistics = np.mean([policy_statistics(policy, one.X, rng)[0] for rng in range(50)], axis=0)
    np.testing.assert_allclose(statistics[:2], shares.mean(0).cumsum()[:2], rtol=0.02)
    np.testing.assert_allclose(statistics[2], np.minimum(lam, 1 - lam).mean(), rtol=0.02)


def intrusion_loss(trio: AdaMixupNetworks, one: TrainingTask) -> float:
    """Of a trained trio, over many pairs."""
    x, rng = torch.from_numpy(one.X), np.random.default_rng(5)
    partner, u = torch.from_numpy(rng.permutation(len(x))), torch.from_numpy(rng.random(len(x)))
    critic = trio.critic.network()
    _, x_mix = mixed(trio.policy.network(), x, partner, u)
    y = torch.zeros(len(x), dtype=torch.int64)
    return float((cross_entropy(critic(x), y) + cross_entropy(critic(x_mix), y + 1)).detach())


def test_all_networks_learn_and_the_critic_gets_better() -> None:
    one = task(120)
    start, end = (train_adamixup([one], [Hyperparameters(0.003, 0.0)], epochs=epochs) for epochs in (1, 150))
    for before, after in zip(start, end, strict=True):
        assert float((before.theta - after.theta).abs().max()) > 0.05
    assert intrusion_loss(end, one) < intrusion_loss(start, one) - 0.05
    assert end.classifier.losses[-1] < end.classifier.losses[0] - 0.5


def test_without_weight_the_critic_stays_as_it_was_drawn() -> None:
    one = task()
    idle = train_adamixup([one], [Hyperparameters(0.1, 0.0)], epochs=5, intrusion_weight=0.0, dtype=torch.float64)
    fresh = train_adamixup([one], [Hyperparameters(1e-300, 0.0)], epochs=1, dtype=torch.float64)
    assert torch.equal(idle.critic.theta, fresh.critic.theta)
    assert not torch.equal(idle.policy.theta, fresh.policy.theta)
    assert not torch.equal(idle.classifier.theta, fresh.classifier.theta)


def test_the_seed_is_all_that_is_random() -> None:
    first, second, other = (train_adamixup([task(seed=s)], [Hyperparameters(0.1)], epochs=3) for s in (0, 0, 1))
    for a, b, c in zip(first, second, other, strict=True):
        assert torch.equal(a.theta, b.theta)
        assert not torch.equal(a.theta, c.theta)


def test_the_pairs_do_not_depend_on_how_many_are_planned_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = [task(50), task(47, 1)]
    (whole,) = plan_pairs(tasks, 4, 3, DOUBLE)
    monkeypatch.setattr("genlabel.training.batching.MAX_CHUNK_VALUES", 1)
    parts = list(plan_pairs(tasks, 4, 3, DOUBLE))
    assert len(parts) == 4
    for field, pieces in zip(whole, zip(*parts, strict=True), strict=True):
        torch.testing.assert_close(field, torch.cat(pieces))
    assert isinstance(whole, Pairs)


def test_progress_counts_every_epoch() -> None:
    seen: list[int] = []
    fleet = train_adamixup(
        [task()],
        [Hyperparameters(0.1)],
        epochs=7,
        batch_size=20,
        callback=LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(epoch)),
    ).classifier
    assert len(seen) == 7
    assert fleet.losses.shape == (7, 1, 1)


def test_too_small_a_task_is_refused() -> None:
    with pytest.raises(ValueError, match="20 batches"):
        train_adamixup([task(100), task(15)], [Hyperparameters(0.1)], batch_size=5)


def three_clusters(seed: int) -> tuple[TrainingTask, np.ndarray]:
    """Clusters at -1, 0, 1 of the classes 0, 1, 0, as in arXiv Example 1: mixup of the outer two meets the third."""
    rng, cluster = np.random.default_rng(seed), np.arange(150) % 3
    X = cluster[:, None] - 1.0 + 0.08 * rng.normal(size=(150, 1))
    return TrainingTask(X / X.std(), (cluster == 1).astype(int), 2, (), seed=seed), cluster


def mixing(trio: AdaMixupNetworks, group: int, one: TrainingTask, cluster: np.ndarray) -> tuple[float, float]:
    """Share of the mixed points of the outer clusters that fall on the middle one; mean of min(lam, 1 - lam)."""
    rng = np.random.default_rng(3)
    hits, depths = [], []
    for _ in range(10):
        partner, u = rng.permutation(150), rng.random(150)
        shares = np.exp(trio.policy.log_proba(group, np.hstack([one.X, one.X[partner]])))[0]
        lam = shares[:, 0] + u * shares[:, 1]
        x = lam * one.X[:, 0] + (1 - lam) * one.X[partner, 0]
        outer = np.abs(cluster - cluster[partner]) == 2
        hits.append(np.abs(x[outer]) < 3 * one.X[cluster == 1].std())
        depths.append(np.minimum(lam, 1 - lam)[cluster != cluster[partner]])
    return float(np.concatenate(hits).mean()), float(np.concatenate(depths).mean())


@pytest.mark.parametrize("hidden", [(), (16,)])
def test_the_policy_keeps_mixed_points_off_the_cluster_between(hidden: tuple[int, ...]) -> None:
    """Plain mixup puts 24% of them there, with mean min(lam, 1 - lam) = 0.25.

    At weight 3 the policy mixes as much (0.2), elsewhere (0%). At weight 0 it mixes nothing: the lowest loss.
    """
    samples = [three_clusters(seed) for seed in range(4)]
    settings = {"hidden": hidden, "epochs": 150, "batch_size": 50}

    def measure(weight: float) -> np.ndarray:
        trio = train_adamixup(
            [one for one, _ in samples], [Hyperparameters(0.003)], intrusion_weight=weight, **settings
        )
        return np.mean([mixing(trio, group, *sample) for group, sample in enumerate(samples)], axis=0)

    (hit_share, depth), (_, idle) = measure(3.0), measure(0.0)
    assert hit_share < 0.05
    assert depth > 0.15
    assert idle < 0.1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_gpu_ends_in_the_same_place() -> None:
    settings = {"hidden": (6,), "epochs": 5, "dtype": torch.float64}
    runs = [train_adamixup([task()], [Hyperparameters(0.05)], device=device, **settings) for device in ("cpu", "cuda")]
    for cpu, gpu in zip(*runs, strict=True):
        torch.testing.assert_close(cpu.theta, gpu.theta.cpu(), rtol=1e-8, atol=1e-10)
