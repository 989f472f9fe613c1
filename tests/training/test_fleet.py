"""The fleet against the loop with autograd, and against itself in other company."""

import math
from dataclasses import replace
from operator import itemgetter

import numpy as np
import pytest
import torch

from genlabel._progress import LambdaCallback
from genlabel.densities import GaussianDensity, KernelDensity
from genlabel.labeling import GenLabel, LinearLabel
from genlabel.mixing import ManifoldMixup, Mixer, MixParams, Mixup, intrudes
from genlabel.training import SGD, Adam
from genlabel.training.batching import BatchPlan, Hyperparameters, TrainingTask, batches_per_epoch
from genlabel.training.fleet import weight_rng
from genlabel.training.fleet_trainer import FleetTrainer, train_fleet
from genlabel.training.networks import MLP
from genlabel.training.optimizers import Optimizer
from genlabel_paper.runs.genmix import train_task

DOUBLE = torch.zeros((), dtype=torch.float64)


def task(n: int = 100, seed: int = 0, mixer: Mixer | None = None, **more: object) -> TrainingTask:
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = rng.normal(size=(n, 4)) + 2 * np.eye(4)[y]
    labelers = (LinearLabel().fit(X, y), GenLabel(GaussianDensity()).fit(X, y))
    return TrainingTask(X, y, 3, labelers, mixer, seed=[seed, 1], **more)


class Neighbour(Mixer):
    """A mixer whose partners are no permutation: every row meets the first."""

    max_depth = 1

    def draw(self, n: int, rng: object = None) -> MixParams:
        return MixParams(np.zeros(n, dtype=np.int64), np.linspace(0.2, 0.9, n), 1)


CASES = {
    "vanilla logistic": ((), None, Adam(), {}),
    "mixup logistic": ((), Mixup(), Adam(), {}),
    "mixup logistic SGD": ((), Mixup(lam_per="batch"), SGD(), {}),
    "mixup network": ((8, 6), Mixup(), Adam(), {}),
    "manifold network": ((8, 6), ManifoldMixup(), Adam(), {}),
    "wide network": ((20, 16), ManifoldMixup(), Adam(), {}),
    "manifold deep SGD": ((8, 6, 5), ManifoldMixup(depths=(1, 2, 3)), SGD(), {}),
    "partners that repeat": ((8, 6), Neighbour(), Adam(), {}),
    "class weights": ((), Mixup(), Adam(), {"class_weight": np.array([0.2, 1.0, 3.0])}),
    "class weights network": ((7,), Mixup(), SGD(), {"class_weight": np.array([0.2, 1.0, 3.0])}),
    "sample weights": ((), Mixup(), Adam(), {"weight": np.random.default_rng(0).uniform(0, 2, 100)}),
    "without intrusion": ((5,), Mixup(), Adam(), {"exclude_intrusion": True}),
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
    hidden, mixer, rule, more = CASES[case]
    one, candidate = task(mixer=mixer, **more), Hyperparameters(0.05, 1e-3, (0.4, 0.6))
    settings = {"optimizer": rule, "epochs": 6, "batch_size": 30}
    fleet = train_fleet([one], [candidate], hidden=hidden, dtype=torch.float64, **settings)
    network = MLP(4, 3, hidden, seed=weight_rng(one.seed), dtype=torch.float64)
    losses = train_task(network, one, candidate, **settings)
    np.testing.assert_allclose(fleet.losses[:, 0, 0], losses, rtol=1e-10)
    for ours, theirs in zip(fleet.network().parameters(), network.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-10)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("hidden", [(), (6,)])
@pytest.mark.parametrize("rule", [Adam(), SGD()], ids=repr)
def test_a_model_does_not_depend_on_its_company(hidden: tuple[int, ...], rule: Optimizer) -> None:
    """A candidate in a fleet of tasks of three sizes ends where it ends alone."""
    tasks = [task(n, seed, Mixup()) for seed, n in enumerate((100, 97, 91))]
    candidates = [
        Hyperparameters(0.1, 0.0, (1.0, 0.0)),
        Hyperparameters(0.01, 1e-2, (0.5, 0.5)),
        Hyperparameters(0.001, 1e-4, (0.0, 1.0)),
    ]
    settings = {"hidden": hidden, "optimizer": rule, "epochs": 4, "batch_size": 34, "dtype": torch.float64}
    together = train_fleet(tasks, candidates, **settings)
    for g, own in enumerate(tasks):
        assert batches_per_epoch(len(own.X), 34) == 3
        for c, candidate in enumerate(candidates):
            alone = train_fleet([own], [candidate], **settings)
            torch.testing.assert_close(together.theta[g, c], alone.theta[0, 0], rtol=1e-9, atol=1e-11)
            np.testing.assert_allclose(together.losses[:, g, c], alone.losses[:, 0, 0], rtol=1e-9)


@pytest.mark.parametrize("hidden", [(), (6,)])
@pytest.mark.parametrize("rule", [Adam(), SGD()], ids=repr)
def test_a_candidate_that_survives_is_the_one_that_trains_alone(hidden: tuple[int, ...], rule: Optimizer) -> None:
    """Halving: whichever candidates leave on the way, those that stay end where they end without any stop."""
    tasks = [task(n, seed, Mixup()) for seed, n in enumerate((100, 97))]
    candidates = [Hyperparameters(0.1 / 2**c, 1e-3, (0.5, 0.5)) for c in range(5)]
    settings = {"hidden": hidden, "optimizer": rule, "epochs": 9, "batch_size": 34, "dtype": torch.float64}
    run = FleetTrainer(tasks, candidates, **settings)
    for epochs, indices in ((1, [4, 1, 2]), (3, [2, 0]), (5, [0, 1])):
        run.advance(epochs)
        run.select(indices)
    alone = train_fleet(tasks, [candidates[2], candidates[4]], **settings)
    torch.testing.assert_close(run.fleet.theta, alone.theta, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(run.fleet.losses, alone.losses, rtol=1e-9)


def test_averaged_parameters_are_the_mean_over_the_steps_that_favours_late_ones() -> None:
    settings = {"epochs": 6, "batch_size": 200, "dtype": torch.float64}
    one, candidate = task(mixer=Mixup()), Hyperparameters(0.1, label=(1.0, 0.0))
    runs = [FleetTrainer([one], [candidate], averaged=averaged, **settings) for averaged in (False, True)]
    seen = []
    for _ in range(6):  # of one step each
        for run in runs:
            run.advance(1)
        seen.append(runs[0].fleet.theta.clone())
    share = np.array([math.prod(range(t, t + 8)) for t in range(1, 7)], dtype=np.float64)  # about t to the power of 8
    mean = (torch.stack(seen) * torch.from_numpy(share / share.sum())[:, None, None, None]).sum(0)
    torch.testing.assert_close(runs[1].fleet.theta, mean, rtol=1e-9, atol=1e-11)


def test_single_precision_is_close_to_double() -> None:
    runs = [train_fleet([task(mixer=Mixup())], [Hyperparameters(0.05, label=(0.5, 0.5))], epochs=10, dtype=t)
            for t in (torch.float32, torch.float64)]  # fmt: skip
    torch.testing.assert_close(runs[0].theta.double(), runs[1].theta, rtol=1e-3, atol=1e-4)


def test_the_plan_does_not_depend_on_how_much_of_it_is_made_at_once() -> None:
    one = task(50, mixer=ManifoldMixup())
    plans = [(BatchPlan(one, 3, DOUBLE), parts) for parts in ((1,) * 6, (4, 2), (6,))]
    runs = [[plan.steps(epochs) for epochs in parts] for plan, parts in plans]
    for read in (itemgetter(0), itemgetter(1), itemgetter(2), lambda s: s.draw.partner, lambda s: s.draw.lam):
        joined = [torch.cat([read(steps) for steps in run]) for run in runs]
        torch.testing.assert_close(joined[0], joined[1])
        torch.testing.assert_close(joined[0], joined[2])
    depths = [np.concatenate([steps.draw.depth for steps in run]).tolist() for run in runs]
    assert depths[0] == depths[1] == depths[2]


def test_epochs_that_are_parts_of_a_pass_visit_every_point_once_in_it() -> None:
    X, y = np.arange(50.0)[:, None], np.arange(50) % 2
    one = TrainingTask(X, y, 2, (LinearLabel().fit(X, y),), None, seed=1)
    plan = BatchPlan(one, 4, DOUBLE, epochs_per_pass=3)
    seen = [plan.steps(epochs) for epochs in (1, 2, 2, 1)]
    x, real = (torch.cat([getattr(steps, name) for steps in seen]).flatten(1) for name in ("x", "weight"))
    assert x.shape == (4 * 6, 5)
    for first in (0, 12):
        visited = x[first : first + 12][real[first : first + 12] > 0]
        assert sorted(visited.tolist()) == X[:, 0].tolist()
    together = BatchPlan(one, 4, DOUBLE, epochs_per_pass=3).steps(6)
    torch.testing.assert_close(together.x.flatten(1), x)


def test_a_run_of_parts_of_passes_ends_where_one_of_whole_passes_ends() -> None:
    tasks = [task(n, seed, Mixup()) for seed, n in enumerate((120, 118))]
    candidates = [Hyperparameters(0.05, label=(0.5, 0.5))]
    settings = {"hidden": (6,), "dtype": torch.float64, "batch_size": 10}
    whole = train_fleet(tasks, candidates, epochs=2, **settings)
    parts = train_fleet(tasks, candidates, epochs=8, epochs_per_pass=4, **settings)
    torch.testing.assert_close(parts.theta, whole.theta, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(parts.losses.reshape(2, 4, 2).mean(1), whole.losses[..., 0], rtol=1e-9)


def test_every_epoch_visits_every_point_once_and_pairs_stay_in_their_batch() -> None:
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
    mixed = BatchPlan(task(50, mixer=Mixup()), 3, DOUBLE).steps(2)
    by_hand = torch.take_along_dim(mixed.weight, mixed.draw.partner, 1)
    assert bool((by_hand > 0)[mixed.weight > 0].all())


def test_points_and_labels_of_the_plan_are_mixers_and_labelers() -> None:
    """The plan of one batch, redone with the public parts."""
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
    one = task(mixer=Mixup(), exclude_intrusion=True)
    steps = BatchPlan(one, 1, DOUBLE).steps(1)
    rng = np.random.default_rng(one.seed)
    order = rng.permutation(100)
    draw = Mixup().draw(100, rng)
    hit = intrudes(steps.x[0], draw, one.X[order], one.y[order], pool=(one.X, one.y))
    assert 0 < hit.sum() < 100
    np.testing.assert_array_equal(steps.weight[0].numpy() == 0, hit)


class Halfway(Mixer):
    """A mixer with a mix of its own: the midpoint, whatever lam is."""

    def draw(self, n: int, rng: object = None) -> MixParams:
        return Mixup().draw(n, rng)

    def mix(self, X: torch.Tensor, draw: MixParams) -> torch.Tensor:
        return (X + X[torch.from_numpy(draw.partner)]) / 2


def test_a_mixers_own_mix_is_used() -> None:
    one = task(20, mixer=Halfway())
    steps = BatchPlan(one, 1, DOUBLE).steps(1)
    rng = np.random.default_rng(one.seed)
    order = rng.permutation(20)
    draw = Mixup().draw(20, rng)
    np.testing.assert_allclose(steps.x[0].numpy(), (one.X[order] + one.X[order][draw.partner]) / 2)


def test_tasks_that_do_not_suit_the_network_are_refused() -> None:
    deep = Halfway()
    deep.__class__ = type("DeepHalfway", (Halfway,), {"max_depth": 1})
    for mixer, hidden, match in (
        (ManifoldMixup(depths=(0, 2)), (6,), "at depth 2"),
        (deep, (6,), "linearly"),
    ):
        with pytest.raises(ValueError, match=match):
            train_fleet([task(mixer=mixer)], [Hyperparameters(0.1, label=(1.0, 0.0))], hidden=hidden)
    with pytest.raises(ValueError, match="at depth 2"):
        train_task(MLP(4, 3, (6,)), task(mixer=ManifoldMixup(depths=(0, 2))), Hyperparameters(0.1, label=(1.0, 0.0)))
    lying = Neighbour()
    lying.__class__ = type("Lying", (Neighbour,), {"max_depth": 0})
    with pytest.raises(ValueError, match="max_depth"):
        train_fleet([task(mixer=lying)], [Hyperparameters(0.1, label=(1.0, 0.0))])


def test_scoring_in_chunks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    one = task(mixer=Mixup())
    fleet = train_fleet([one], [Hyperparameters(0.1, label=(1.0, 0.0))] * 3, hidden=(5,), epochs=2)
    whole = fleet.log_proba(0, one.X)
    monkeypatch.setattr("genlabel.training.fleet.MAX_CHUNK_VALUES", 100)
    np.testing.assert_allclose(fleet.log_proba(0, one.X), whole, rtol=1e-12)


def test_tasks_too_small_for_the_common_number_of_batches_are_refused() -> None:
    with pytest.raises(ValueError, match="20 batches"):
        train_fleet(
            [task(100, 0, Mixup()), task(15, 1, Mixup())], [Hyperparameters(0.1, label=(1.0, 0.0))], batch_size=5
        )


def test_progress_counts_every_epoch() -> None:
    seen: list[int] = []
    train_fleet(
        [task(mixer=Mixup())],
        [Hyperparameters(0.1, label=(1.0, 0.0))],
        epochs=7,
        callback=LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(epoch)),
    )
    assert len(seen) == 7


def test_scores_equal_the_extracted_network() -> None:
    one = task(mixer=Mixup())
    fleet = train_fleet(
        [one], [Hyperparameters(0.1, label=(1.0, 0.0)), Hyperparameters(0.01, label=(0.0, 1.0))], hidden=(5,), epochs=3
    )
    for c in (0, 1):
        expected = torch.log_softmax(fleet.network(0, c)(torch.from_numpy(one.X)), 1).detach().numpy()
        np.testing.assert_allclose(fleet.log_proba(0, one.X)[c], expected, atol=1e-10)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("hidden", [(), (6,)])
def test_the_gpu_sees_the_same_pairs_and_ends_in_the_same_place(hidden: tuple[int, ...]) -> None:
    mixer = ManifoldMixup(depths=(0, 1)) if hidden else Mixup()
    one = task(mixer=mixer, exclude_intrusion=not hidden)
    settings = {"hidden": hidden, "epochs": 5, "dtype": torch.float64}
    runs = [
        train_fleet([one], [Hyperparameters(0.05, label=(0.5, 0.5))], device=d, **settings) for d in ("cpu", "cuda")
    ]
    torch.testing.assert_close(runs[0].theta, runs[1].theta.cpu(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("mixer", [Mixup(), Mixup(0.3, "batch"), ManifoldMixup(depths=(1,))], ids=repr)
@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_the_clean_share_of_a_batch_is_left_alone(mixer: Mixer, share: float) -> None:
    """Clean rows are training points with their own labels under every labeler; the others are labelled as ever."""
    one = task(96, mixer=mixer, clean_fraction=share)
    steps = BatchPlan(one, 3, DOUBLE).steps(2)
    count = round(share * 32)
    own = {tuple(row): c for row, c in zip(one.X.tolist(), one.y.tolist(), strict=True)}
    for x, target, partner, lam in zip(steps.x, steps.target, *steps.draw[:2], strict=True):
        classes = [own[tuple(row)] for row in x[:count].tolist()]
        expected = np.eye(3)[classes][:, :, None].repeat(2, 2)
        np.testing.assert_array_equal(target[:count], expected)
        assert (lam[:count] == 1).all()
        assert (partner[:count] == torch.arange(count)).all()
        if mixer.max_depth == 0:
            apart = (partner != torch.arange(32)) & (lam != 1)
            assert apart[count:].float().mean() > 0.8 or share == 1.0
            assert not any(tuple(row) in own for row in x[apart].tolist())


def test_the_clean_share_is_a_weight_in_the_loss() -> None:
    """Over many epochs the mean loss of a fixed network is the blend of the clean and the mixed loss."""
    network = MLP(4, 3, (), seed=0, dtype=torch.float64)

    def loss(share: float) -> float:
        steps = BatchPlan(task(mixer=Mixup(), clean_fraction=share), 2, DOUBLE).steps(400)
        logs = torch.log_softmax(network(steps.x), -1).detach()
        return float(-(steps.weight[..., None] * steps.target[..., 0] * logs).sum() / len(steps.x))

    assert loss(0.3) == pytest.approx(0.3 * loss(1.0) + 0.7 * loss(0.0), abs=0.01)


@pytest.mark.parametrize("mixer", [Mixup(), ManifoldMixup(depths=(1,))], ids=repr)
def test_tasks_that_train_in_blocks_end_where_they_end_together(mixer: Mixer, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a CPU, as many networks train together as its cache holds; progress counts whole epochs all the same."""
    tasks = [task(n, seed, mixer) for seed, n in enumerate((90, 89, 91, 90, 88))]
    candidates = [Hyperparameters(0.05, 1e-3, (0.4, 0.6)), Hyperparameters(0.01, 0.0, (1.0, 0.0))]
    settings = {"hidden": (6,), "epochs": 7, "batch_size": 31, "dtype": torch.float64}
    whole = train_fleet(tasks, candidates, **settings)
    for at_once in (1, 200):  # one task, or two, at a time
        heard: list[int] = []
        monkeypatch.setattr("genlabel.training.fleet_trainer.MAX_PARAMETERS_PER_BLOCK", at_once)
        cut = train_fleet(
            tasks,
            candidates,
            callback=LambdaCallback(on_epoch_end=lambda epoch, logs, heard=heard: heard.append(epoch)),
            **settings,
        )
        torch.testing.assert_close(cut.theta, whole.theta, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(cut.losses, whole.losses, rtol=1e-9)
        assert len(heard) == 7


def test_clean_rows_are_no_intruders() -> None:
    """A training point that lies among another class keeps its weight where it is not mixed."""
    one = task(96, mixer=Mixup(), clean_fraction=0.5, exclude_intrusion=True)
    y = one.y.copy()
    y[::7] = (y[::7] + 1) % 3
    steps = BatchPlan(replace(one, y=y), 3, DOUBLE).steps(3)
    assert (steps.weight[:, :16] > 0).all()
    assert (steps.weight[:, 16:] == 0).any()


@pytest.mark.parametrize("clean", [0.0, 0.5])
def test_partners_of_the_set_are_rows_of_the_same_pass_and_labels_are_theirs(clean: float) -> None:
    """Points are one-hot rows, so that a mixed point says who its parents are, and how much of each."""
    n, batches = 60, 3
    y = np.arange(n) % 3
    one = TrainingTask(
        np.eye(n), y, 3, (LinearLabel().fit(np.eye(n), y),), Mixup(pairs="set"), clean_fraction=clean, seed=0
    )
    steps = BatchPlan(one, batches, DOUBLE).steps(4)
    x, labels = steps.x.numpy().reshape(4, n, n), steps.target.numpy().reshape(4, n, 3)
    np.testing.assert_allclose(labels, x @ np.eye(3)[y], atol=1e-12)
    np.testing.assert_allclose(x.sum(-1), 1.0)
    assert ((x > 0).sum(-1) <= 2).all()
    assert (x > 0).any(1).all()  # every row is in every pass
    size = n // batches
    met = [(x[0, size * b : size * (b + 1)] > 0).any(0).sum() for b in range(batches)]
    assert min(met) > size  # a batch meets rows of others


def test_partners_of_the_set_do_not_depend_on_how_epochs_are_parted() -> None:
    one = task(n=300, mixer=Mixup(pairs="set"))
    whole, parts = (BatchPlan(one, 3, DOUBLE) for _ in range(2))
    together, apart = whole.steps(5), [parts.steps(some) for some in (2, 1, 2)]
    for field in ("x", "target", "weight"):
        assert torch.equal(getattr(together, field), torch.cat([getattr(one, field) for one in apart]))
    settings = {"epochs": 6, "dtype": torch.float64}
    alone = train_fleet([one], [Hyperparameters(0.1, label=(1.0, 0.0))], **settings)
    beside = train_fleet(
        [one, task(n=290, seed=1, mixer=Mixup())], [Hyperparameters(0.1, label=(1.0, 0.0))], **settings
    )
    torch.testing.assert_close(alone.theta[0], beside.theta[0], atol=1e-12, rtol=0.0)
