"""Test fleets against the loop with autograd, and against single models."""

import math
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np
import pytest
import torch

from genlabel._progress import LambdaCallback
from genlabel.densities import GaussianDensity, KernelDensity
from genlabel.labeling import GenLabel, LinearLabel
from genlabel.mixing import (
    FeatMix,
    KMixup,
    LocalMixup,
    ManifoldMixup,
    Mixer,
    MixParams,
    Mixup,
    RegMixup,
    SameClassMixup,
    SimilarityMixup,
    intrudes,
)
from genlabel.training import SGD, Adam
from genlabel.training.batching import BatchPlan, Hyperparameters, TrainingTask, batches_per_epoch
from genlabel.training.fleet import weight_rng
from genlabel.training.fleet_trainer import FleetTrainer, train_fleet
from genlabel.training.networks import MLP
from genlabel.training.optimizers import Optimizer
from genlabel_paper.runs.genmix import train_task

DOUBLE = torch.zeros((), dtype=torch.float64)


def make_task(n: int = 100, seed: int = 0, mixer: Mixer | None = None, **options: object) -> TrainingTask:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = rng.normal(size=(n, 4)) + 2 * np.eye(4)[y]
    labelers = (LinearLabel().fit(X, y), GenLabel(GaussianDensity()).fit(X, y))
    return TrainingTask(X, y, 3, labelers, mixer, seed=[seed, 1], **options)


class FirstRowMixer(Mixer):
    """A mixer whose partners are not a permutation: every row is paired with the first."""

    max_depth = 1

    def draw(self, n: int, rng: Any = None, x: Any = None, y: Any = None) -> MixParams:
        return MixParams(np.zeros(n, dtype=np.int64), np.linspace(0.2, 0.9, n), 1)


CASES = {
    "vanilla logistic": ((), None, Adam(), {}),
    "mixup logistic": ((), Mixup(), Adam(), {}),
    "mixup logistic SGD": ((), Mixup(lam_per="batch"), SGD(), {}),
    "mixup network": ((8, 6), Mixup(), Adam(), {}),
    "manifold network": ((8, 6), ManifoldMixup(), Adam(), {}),
    "wide network": ((20, 16), ManifoldMixup(), Adam(), {}),
    "manifold deep SGD": ((8, 6, 5), ManifoldMixup(depths=(1, 2, 3)), SGD(), {}),
    "partners that repeat": ((8, 6), FirstRowMixer(), Adam(), {}),
    "class weights": ((), Mixup(), Adam(), {"class_weight": np.array([0.2, 1.0, 3.0])}),
    "class weights network": ((7,), Mixup(), SGD(), {"class_weight": np.array([0.2, 1.0, 3.0])}),
    "sample weights": ((), Mixup(), Adam(), {"weight": np.random.default_rng(0).uniform(0, 2, 100)}),
    "without intrusion": ((5,), Mixup(), Adam(), {"exclude_intrusion": True}),
    "k-mixup": ((), KMixup(k=8), Adam(), {}),
    "similarity mixup network": ((8,), SimilarityMixup(), Adam(), {}),
    "local mixup, weights": ((8,), LocalMixup(), Adam(), {"weight": np.random.default_rng(0).uniform(0, 2, 100)}),
    "same class": ((), SameClassMixup(), Adam(), {}),
    "feat-mix": ((8,), FeatMix(), Adam(), {"clean_fraction": 0.3}),
    "regmixup": ((), RegMixup(eta=0.5), Adam(), {}),
    "part clean logistic": ((), Mixup(), Adam(), {"clean_fraction": 0.7}),
    "part clean network": ((8, 6), Mixup(0.3), Adam(), {"clean_fraction": 0.3}),
    "part clean manifold": ((8, 6), ManifoldMixup(), SGD(), {"clean_fraction": 0.5}),
    "part clean weights": (
        (),
        Mixup(),
        Adam(),
        {"clean_fraction": 0.5, "weight": np.random.default_rng(0).uniform(0, 2, 100)},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_fleet_of_one_is_the_loop_over_one_network(case: str) -> None:
    hidden, mixer, optimizer, options = CASES[case]
    task, candidate = make_task(mixer=mixer, **options), Hyperparameters(0.05, 1e-3, (0.4, 0.6))
    settings = {"optimizer": optimizer, "epochs": 6, "batch_size": 30}
    fleet = train_fleet([task], [candidate], hidden=hidden, dtype=torch.float64, **settings)
    network = MLP(4, 3, hidden, seed=weight_rng(task.seed), dtype=torch.float64)
    losses = train_task(network, task, candidate, **settings)
    np.testing.assert_allclose(fleet.losses[:, 0, 0], losses, rtol=1e-10)
    for fleet_value, network_value in zip(fleet.network().parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(fleet_value, network_value, rtol=1e-9, atol=1e-10)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("hidden", [(), (6,)])
@pytest.mark.parametrize("optimizer", [Adam(), SGD()], ids=repr)
def test_a_model_is_independent_of_the_other_models(hidden: tuple[int, ...], optimizer: Optimizer) -> None:
    """A candidate in a fleet of tasks of three sizes has the same weights as alone."""
    tasks = [make_task(n, seed, Mixup()) for seed, n in enumerate((100, 97, 91))]
    candidates = [
        Hyperparameters(0.1, 0.0, (1.0, 0.0)),
        Hyperparameters(0.01, 1e-2, (0.5, 0.5)),
        Hyperparameters(0.001, 1e-4, (0.0, 1.0)),
    ]
    settings = {"hidden": hidden, "optimizer": optimizer, "epochs": 4, "batch_size": 34, "dtype": torch.float64}
    together = train_fleet(tasks, candidates, **settings)
    for g, own in enumerate(tasks):
        assert batches_per_epoch(len(own.X), 34) == 3
        for c, candidate in enumerate(candidates):
            alone = train_fleet([own], [candidate], **settings)
            torch.testing.assert_close(together.theta[g, c], alone.theta[0, 0], rtol=1e-9, atol=1e-11)
            np.testing.assert_allclose(together.losses[:, g, c], alone.losses[:, 0, 0], rtol=1e-9)


@pytest.mark.parametrize("hidden", [(), (6,)])
@pytest.mark.parametrize("optimizer", [Adam(), SGD()], ids=repr)
def test_selected_candidates_equal_candidates_trained_alone(hidden: tuple[int, ...], optimizer: Optimizer) -> None:
    """The candidates that survive halving have the same weights as without halving."""
    tasks = [make_task(n, seed, Mixup()) for seed, n in enumerate((100, 97))]
    candidates = [Hyperparameters(0.1 / 2**c, 1e-3, (0.5, 0.5)) for c in range(5)]
    settings = {"hidden": hidden, "optimizer": optimizer, "epochs": 9, "batch_size": 34, "dtype": torch.float64}
    run = FleetTrainer(tasks, candidates, **settings)
    for epochs, indices in ((1, [4, 1, 2]), (3, [2, 0]), (5, [0, 1])):
        run.advance(epochs)
        run.select(indices)
    alone = train_fleet(tasks, [candidates[2], candidates[4]], **settings)
    torch.testing.assert_close(run.fleet.theta, alone.theta, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(run.fleet.losses, alone.losses, rtol=1e-9)


def test_averaged_parameters_are_a_weighted_mean_over_steps() -> None:
    settings = {"epochs": 6, "batch_size": 200, "dtype": torch.float64}
    task, candidate = make_task(mixer=Mixup()), Hyperparameters(0.1, label=(1.0, 0.0))
    runs = [FleetTrainer([task], [candidate], averaged=averaged, **settings) for averaged in (False, True)]
    thetas = []
    for _ in range(6):  # of one step each
        for run in runs:
            run.advance(1)
        thetas.append(runs[0].fleet.theta.clone())
    weights = np.array([math.prod(range(t, t + 8)) for t in range(1, 7)], dtype=np.float64)  # about t to the power of 8
    mean = (torch.stack(thetas) * torch.from_numpy(weights / weights.sum())[:, None, None, None]).sum(0)
    torch.testing.assert_close(runs[1].fleet.theta, mean, rtol=1e-9, atol=1e-11)


def test_single_precision_is_close_to_double() -> None:
    runs = [train_fleet([make_task(mixer=Mixup())], [Hyperparameters(0.05, label=(0.5, 0.5))], epochs=10, dtype=t)
            for t in (torch.float32, torch.float64)]  # fmt: skip
    torch.testing.assert_close(runs[0].theta.double(), runs[1].theta, rtol=1e-3, atol=1e-4)


def test_plans_do_not_depend_on_the_chunk_size() -> None:
    task = make_task(50, mixer=ManifoldMixup())
    plans = [(BatchPlan(task, 3, DOUBLE), parts) for parts in ((1,) * 6, (4, 2), (6,))]
    runs = [[plan.steps(epochs) for epochs in parts] for plan, parts in plans]
    for read in (itemgetter(0), itemgetter(1), itemgetter(2), lambda s: s.draw.partner, lambda s: s.draw.lam):
        joined = [torch.cat([read(steps) for steps in run]) for run in runs]
        torch.testing.assert_close(joined[0], joined[1])
        torch.testing.assert_close(joined[0], joined[2])
    depths = [np.concatenate([steps.draw.depth for steps in run]).tolist() for run in runs]
    assert depths[0] == depths[1] == depths[2]


def test_epochs_of_a_pass_visit_every_point_once() -> None:
    X, y = np.arange(50.0)[:, None], np.arange(50) % 2
    task = TrainingTask(X, y, 2, (LinearLabel().fit(X, y),), None, seed=1)
    plan = BatchPlan(task, 4, DOUBLE, epochs_per_pass=3)
    steps_drawn = [plan.steps(epochs) for epochs in (1, 2, 2, 1)]
    x, real = (torch.cat([getattr(steps, name) for steps in steps_drawn]).flatten(1) for name in ("x", "weight"))
    assert x.shape == (4 * 6, 5)
    for first in (0, 12):
        visited = x[first : first + 12][real[first : first + 12] > 0]
        assert sorted(visited.tolist()) == X[:, 0].tolist()
    together = BatchPlan(task, 4, DOUBLE, epochs_per_pass=3).steps(6)
    torch.testing.assert_close(together.x.flatten(1), x)


def test_epochs_per_pass_do_not_change_the_weights() -> None:
    tasks = [make_task(n, seed, Mixup()) for seed, n in enumerate((120, 118))]
    candidates = [Hyperparameters(0.05, label=(0.5, 0.5))]
    settings = {"hidden": (6,), "dtype": torch.float64, "batch_size": 10}
    whole = train_fleet(tasks, candidates, epochs=2, **settings)
    parts = train_fleet(tasks, candidates, epochs=8, epochs_per_pass=4, **settings)
    torch.testing.assert_close(parts.theta, whole.theta, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(parts.losses.reshape(2, 4, 2).mean(1), whole.losses[..., 0], rtol=1e-9)


def test_epochs_visit_every_point_once_and_pair_within_batches() -> None:
    X = np.arange(23.0)[:, None]
    y = np.arange(23) % 2
    steps = BatchPlan(TrainingTask(X, y, 2, (LinearLabel().fit(X, y),), None, seed=1), 4, DOUBLE).steps(5)
    real = steps.weight > 0
    for epoch in range(5):
        rows = slice(4 * epoch, 4 * epoch + 4)
        assert sorted(steps.x[rows][real[rows]][:, 0].tolist()) == list(range(23))
    sizes = real.sum(1)
    assert int(sizes.max() - sizes.min()) <= 1
    torch.testing.assert_close(steps.weight.sum(1), torch.ones(20, dtype=torch.float64))
    mixed = BatchPlan(make_task(50, mixer=Mixup()), 3, DOUBLE).steps(2)
    by_hand = torch.take_along_dim(mixed.weight, mixed.draw.partner, 1)
    assert bool((by_hand > 0)[mixed.weight > 0].all())


def test_points_and_labels_of_the_plan_are_mixers_and_labelers() -> None:
    """The plan of one batch, by hand with the public classes."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 2)), np.arange(20) % 2
    labeler = GenLabel(KernelDensity(), gamma=0.7).fit(X, y)
    steps = BatchPlan(TrainingTask(X, y, 2, (labeler,), Mixup(0.5), seed=9), 1, DOUBLE).steps(1)
    again = np.random.default_rng(9)
    order = again.permutation(20)
    draw = Mixup(0.5).draw(20, again)
    X_mix = Mixup().mix(X[order], draw)
    np.testing.assert_allclose(steps.x[0].numpy(), X_mix, rtol=1e-12)
    np.testing.assert_allclose(steps.target[0, :, :, 0].numpy(), labeler.label(X_mix, y[order], draw), rtol=1e-9)


def test_intruding_points_have_no_weight() -> None:
    task = make_task(mixer=Mixup(), exclude_intrusion=True)
    steps = BatchPlan(task, 1, DOUBLE).steps(1)
    rng = np.random.default_rng(task.seed)
    order = rng.permutation(100)
    draw = Mixup().draw(100, rng)
    intruding = intrudes(steps.x[0], draw, task.X[order], task.y[order], pool=(task.X, task.y))
    assert 0 < intruding.sum() < 100
    np.testing.assert_array_equal(steps.weight[0].numpy() == 0, intruding)


class MidpointMixer(Mixer):
    """A mixer that overrides mix: the midpoint for any lam."""

    def draw(self, n: int, rng: Any = None, x: Any = None, y: Any = None) -> MixParams:
        return Mixup().draw(n, rng)

    def mix(self, X: torch.Tensor, draw: MixParams) -> torch.Tensor:
        return (X + X[torch.from_numpy(draw.partner)]) / 2


def test_plans_use_the_mix_method_of_a_mixer() -> None:
    task = make_task(20, mixer=MidpointMixer())
    steps = BatchPlan(task, 1, DOUBLE).steps(1)
    rng = np.random.default_rng(task.seed)
    order = rng.permutation(20)
    draw = Mixup().draw(20, rng)
    np.testing.assert_allclose(steps.x[0].numpy(), (task.X[order] + task.X[order][draw.partner]) / 2)


def test_mixers_that_do_not_fit_the_network_raise() -> None:
    deep = MidpointMixer()
    deep.__class__ = type("DeepMidpointMixer", (MidpointMixer,), {"max_depth": 1})
    for mixer, hidden, match in (
        (ManifoldMixup(depths=(0, 2)), (6,), "depth 2"),
        (deep, (6,), "linearly"),
    ):
        with pytest.raises(ValueError, match=match):
            train_fleet([make_task(mixer=mixer)], [Hyperparameters(0.1, label=(1.0, 0.0))], hidden=hidden)
    with pytest.raises(ValueError, match="depth"):
        train_task(
            MLP(4, 3, (6,)), make_task(mixer=ManifoldMixup(depths=(0, 2))), Hyperparameters(0.1, label=(1.0, 0.0))
        )
    inconsistent = FirstRowMixer()
    inconsistent.__class__ = type("InconsistentMixer", (FirstRowMixer,), {"max_depth": 0})
    with pytest.raises(ValueError, match="max_depth"):
        train_fleet([make_task(mixer=inconsistent)], [Hyperparameters(0.1, label=(1.0, 0.0))])


def test_scores_in_chunks_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    task = make_task(mixer=Mixup())
    fleet = train_fleet([task], [Hyperparameters(0.1, label=(1.0, 0.0))] * 3, hidden=(5,), epochs=2)
    whole = fleet.log_proba(0, task.X)
    monkeypatch.setattr("genlabel.training.fleet.MAX_CHUNK_VALUES", 100)
    np.testing.assert_allclose(fleet.log_proba(0, task.X), whole, rtol=1e-12)


def test_tasks_with_too_few_rows_raise() -> None:
    with pytest.raises(ValueError, match="20"):
        train_fleet(
            [make_task(100, 0, Mixup()), make_task(15, 1, Mixup())],
            [Hyperparameters(0.1, label=(1.0, 0.0))],
            batch_size=5,
        )


def test_progress_counts_every_epoch() -> None:
    epochs: list[int] = []
    train_fleet(
        [make_task(mixer=Mixup())],
        [Hyperparameters(0.1, label=(1.0, 0.0))],
        epochs=7,
        callback=LambdaCallback(on_epoch_end=lambda epoch, logs: epochs.append(epoch)),
    )
    assert len(epochs) == 7


def test_scores_equal_the_extracted_network() -> None:
    task = make_task(mixer=Mixup())
    fleet = train_fleet(
        [task], [Hyperparameters(0.1, label=(1.0, 0.0)), Hyperparameters(0.01, label=(0.0, 1.0))], hidden=(5,), epochs=3
    )
    for c in (0, 1):
        expected = torch.log_softmax(fleet.network(0, c)(torch.from_numpy(task.X)), 1).detach().numpy()
        np.testing.assert_allclose(fleet.log_proba(0, task.X)[c], expected, atol=1e-10)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("hidden", [(), (6,)])
def test_the_gpu_gives_the_same_weights(hidden: tuple[int, ...]) -> None:
    mixer = ManifoldMixup(depths=(0, 1)) if hidden else Mixup()
    task = make_task(mixer=mixer, exclude_intrusion=not hidden)
    settings = {"hidden": hidden, "epochs": 5, "dtype": torch.float64}
    runs = [
        train_fleet([task], [Hyperparameters(0.05, label=(0.5, 0.5))], device=d, **settings) for d in ("cpu", "cuda")
    ]
    torch.testing.assert_close(runs[0].theta, runs[1].theta.cpu(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("mixer", [Mixup(), Mixup(0.3, "batch"), ManifoldMixup(depths=(1,))], ids=repr)
@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_clean_rows_are_not_mixed(mixer: Mixer, share: float) -> None:
    """Clean rows are training points with their own labels; labelers label the other rows."""
    task = make_task(96, mixer=mixer, clean_fraction=share)
    steps = BatchPlan(task, 3, DOUBLE).steps(2)
    count = round(share * 32)
    own = {tuple(row): c for row, c in zip(task.X.tolist(), task.y.tolist(), strict=True)}
    for x, target, partner, lam in zip(steps.x, steps.target, *steps.draw[:2], strict=True):
        classes = [own[tuple(row)] for row in x[:count].tolist()]
        expected = np.eye(3)[classes][:, :, None].repeat(2, 2)
        np.testing.assert_array_equal(target[:count], expected)
        assert (lam[:count] == 1).all()
        assert (partner[:count] == torch.arange(count)).all()
        if mixer.max_depth == 0:
            mixed = (partner != torch.arange(32)) & (lam != 1)
            assert mixed[count:].float().mean() > 0.8 or share == 1.0
            assert not any(tuple(row) in own for row in x[mixed].tolist())


def test_the_clean_fraction_is_the_weight_of_the_clean_loss() -> None:
    """The mean loss of a fixed network is the weighted mean of its clean and its mixed loss."""
    network = MLP(4, 3, (), seed=0, dtype=torch.float64)

    def loss(share: float) -> float:
        steps = BatchPlan(make_task(mixer=Mixup(), clean_fraction=share), 2, DOUBLE).steps(400)
        logs = torch.log_softmax(network(steps.x), -1).detach()
        return float(-(steps.weight[..., None] * steps.target[..., 0] * logs).sum() / len(steps.x))

    assert loss(0.3) == pytest.approx(0.3 * loss(1.0) + 0.7 * loss(0.0), abs=0.01)


@pytest.mark.parametrize("mixer", [Mixup(), ManifoldMixup(depths=(1,))], ids=repr)
def test_blocks_of_tasks_give_the_same_weights(mixer: Mixer, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU, fleets train in blocks that fit the cache; progress still counts whole epochs."""
    tasks = [make_task(n, seed, mixer) for seed, n in enumerate((90, 89, 91, 90, 88))]
    candidates = [Hyperparameters(0.05, 1e-3, (0.4, 0.6)), Hyperparameters(0.01, 0.0, (1.0, 0.0))]
    settings = {"hidden": (6,), "epochs": 7, "batch_size": 31, "dtype": torch.float64}
    whole = train_fleet(tasks, candidates, **settings)
    for max_parameters in (1, 200):  # one task, or two, at a time
        epochs: list[int] = []
        monkeypatch.setattr("genlabel.training.fleet_trainer.MAX_PARAMETERS_PER_BLOCK", max_parameters)
        blocked = train_fleet(
            tasks,
            candidates,
            callback=LambdaCallback(on_epoch_end=lambda epoch, logs, epochs=epochs: epochs.append(epoch)),
            **settings,
        )
        torch.testing.assert_close(blocked.theta, whole.theta, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(blocked.losses, whole.losses, rtol=1e-9)
        assert len(epochs) == 7


def test_clean_rows_do_not_intrude() -> None:
    """A clean training point keeps its weight even if it lies among another class."""
    task = make_task(96, mixer=Mixup(), clean_fraction=0.5, exclude_intrusion=True)
    y = task.y.copy()
    y[::7] = (y[::7] + 1) % 3
    steps = BatchPlan(replace(task, y=y), 3, DOUBLE).steps(3)
    assert (steps.weight[:, :16] > 0).all()
    assert (steps.weight[:, 16:] == 0).any()


@pytest.mark.parametrize("clean", [0.0, 0.5])
def test_pairs_of_the_set_come_from_the_same_pass(clean: float) -> None:
    """Points are one-hot rows, so a mixed point shows its parents and their weights."""
    n, batches = 60, 3
    y = np.arange(n) % 3
    task = TrainingTask(
        np.eye(n), y, 3, (LinearLabel().fit(np.eye(n), y),), Mixup(pairs="set"), clean_fraction=clean, seed=0
    )
    steps = BatchPlan(task, batches, DOUBLE).steps(4)
    x, labels = steps.x.numpy().reshape(4, n, n), steps.target.numpy().reshape(4, n, 3)
    np.testing.assert_allclose(labels, x @ np.eye(3)[y], atol=1e-12)
    np.testing.assert_allclose(x.sum(-1), 1.0)
    assert ((x > 0).sum(-1) <= 2).all()
    assert (x > 0).any(1).all()  # every row is in every pass
    size = n // batches
    parents_seen = [(x[0, size * b : size * (b + 1)] > 0).any(0).sum() for b in range(batches)]
    assert min(parents_seen) > size  # a batch has partners from other batches


def test_pairs_of_the_set_do_not_depend_on_the_chunk_size() -> None:
    task = make_task(n=300, mixer=Mixup(pairs="set"))
    plan, chunked_plan = (BatchPlan(task, 3, DOUBLE) for _ in range(2))
    together, chunks = plan.steps(5), [chunked_plan.steps(epochs) for epochs in (2, 1, 2)]
    for field in ("x", "target", "weight"):
        assert torch.equal(getattr(together, field), torch.cat([getattr(chunk, field) for chunk in chunks]))
    settings = {"epochs": 6, "dtype": torch.float64}
    alone = train_fleet([task], [Hyperparameters(0.1, label=(1.0, 0.0))], **settings)
    with_another = train_fleet(
        [task, make_task(n=290, seed=1, mixer=Mixup())], [Hyperparameters(0.1, label=(1.0, 0.0))], **settings
    )
    torch.testing.assert_close(alone.theta[0], with_another.theta[0], atol=1e-12, rtol=0.0)
