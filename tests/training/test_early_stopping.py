"""Test early stopping of fleets against training epoch by epoch and against the loop."""

from pathlib import Path

import numpy as np
import pytest
import torch

from genlabel._progress import LambdaCallback
from genlabel.densities import GaussianDensity
from genlabel.labeling import GenLabel, LinearLabel
from genlabel.metrics import accuracy, log_loss
from genlabel.mixing import Mixup
from genlabel.training import train_network
from genlabel.training.adamixup import train_adamixup
from genlabel.training.batching import Hyperparameters, TrainingTask
from genlabel.training.early_stopping import BestEpoch
from genlabel.training.fleet import Fleet, weight_rng
from genlabel.training.fleet_trainer import FleetTrainer, train_fleet
from genlabel.training.networks import MLP
from genlabel_paper.runs.genmix import train_task

EPOCHS = 12
CANDIDATES = [Hyperparameters(rate, label=(1.0 - gamma, gamma)) for rate in (0.3, 0.02) for gamma in (0.0, 1.0)]


def rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    return rng.normal(size=(n, 4)) + np.eye(4)[y], y


def make_task(seed: int = 0, mixer: Mixup | None = None) -> TrainingTask:
    X, y = rows(90, seed)
    labelers = (LinearLabel().fit(X, y), GenLabel(GaussianDensity()).fit(X, y))
    return TrainingTask(X, y, 3, labelers, mixer, seed=[seed, 1], valid=rows(40, seed + 100))


def by_hand(tasks: list[TrainingTask], hidden: tuple[int, ...], every: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the best epochs and the parameters of a run that is scored after every epoch in float64."""
    run = FleetTrainer(tasks, CANDIDATES, hidden=hidden, epochs=EPOCHS, batch_size=32, dtype=torch.float64)
    scores, thetas = [], []
    for _ in range(EPOCHS):
        run.advance(1)
        outputs = [(run.fleet.log_proba(g, task.valid[0]), task.valid[1]) for g, task in enumerate(tasks)]
        scores.append([list(zip(accuracy(*output), -log_loss(*output), strict=True)) for output in outputs])
        thetas.append(run.fleet.theta.clone().numpy())
    checked = [e for e in range(1, EPOCHS + 1) if e % every == 0 or e == EPOCHS]
    best = np.array(
        [
            [max(checked, key=lambda e: (scores[e - 1][g][c], -e)) for c in range(len(CANDIDATES))]
            for g in range(len(tasks))
        ]
    )
    return best, np.stack(thetas)


@pytest.mark.parametrize("every", [1, 5])
@pytest.mark.parametrize("hidden", [(), (8, 6)])
@pytest.mark.parametrize("at_once", [1, 1 << 19])
def test_each_network_is_restored_to_its_best_epoch(
    hidden: tuple[int, ...], every: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("genlabel.training.early_stopping.MAX_CHUNK_VALUES", at_once)
    tasks = [make_task(seed, Mixup()) for seed in (0, 1)]
    settings = {"hidden": hidden, "epochs": EPOCHS, "batch_size": 32, "dtype": torch.float64}
    fleet = train_fleet(tasks, CANDIDATES, restore_best=BestEpoch(every=every), **settings)
    best, thetas = by_hand(tasks, hidden, every)
    assert fleet.best_epochs.tolist() == best.tolist()
    assert len(set(best.ravel())) > 1
    for g, c in np.ndindex(*best.shape):
        np.testing.assert_allclose(fleet.theta[g, c], thetas[best[g, c] - 1, g, c], atol=1e-12)


def test_a_score_receives_the_networks_of_every_fourth_epoch() -> None:
    task, scores = make_task(mixer=Mixup()), []

    def score(fleet: Fleet, group: int) -> np.ndarray:
        scores.append(fleet.score(0, *task.valid))
        return scores[-1]

    train_fleet([task], CANDIDATES, epochs=EPOCHS, restore_best=BestEpoch(score, every=4), dtype=torch.float64)
    epochs = np.concatenate(scores).reshape(-1, len(CANDIDATES), 2)
    assert len(epochs) == 3
    last = train_fleet([task], CANDIDATES, epochs=EPOCHS, dtype=torch.float64)
    log_proba = last.log_proba(0, task.valid[0])
    expected = np.stack([accuracy(log_proba, task.valid[1]), -log_loss(log_proba, task.valid[1])], -1)
    np.testing.assert_allclose(epochs[-1], expected, atol=1e-12)


def test_selected_candidates_keep_their_best_epoch() -> None:
    task, settings = make_task(mixer=Mixup()), {"epochs": EPOCHS, "dtype": torch.float64, "restore_best": True}
    run = FleetTrainer([task], CANDIDATES, **settings)
    run.advance(5)
    run.select([2, 0])
    run.advance(EPOCHS - 5)
    whole = train_fleet([task], CANDIDATES, **settings)
    assert run.fleet.best_epochs.tolist() == whole.best_epochs[:, [2, 0]].tolist()
    torch.testing.assert_close(run.fleet.theta, whole.theta[:, [2, 0]], atol=1e-12, rtol=0.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_are_accuracy_and_log_loss(dtype: torch.dtype) -> None:
    task, weight = make_task(), np.random.default_rng(0).uniform(size=40)
    fleet = train_fleet([task], CANDIDATES, hidden=(5,), epochs=3, dtype=dtype)
    log_proba = fleet.log_proba(0, task.valid[0])
    for sample_weight in (None, weight):
        scores = fleet.score(0, *task.valid, sample_weight)
        np.testing.assert_allclose(scores[:, 0], accuracy(log_proba, task.valid[1], sample_weight), atol=1e-12)
        np.testing.assert_allclose(-scores[:, 1], log_loss(log_proba, task.valid[1], sample_weight), rtol=1e-5)


def test_ties_predict_the_first_class_and_nan_is_never_correct() -> None:
    task = make_task()
    fleet = train_fleet([task], CANDIDATES, epochs=1)
    equal, broken = (fleet.with_theta(torch.full_like(fleet.theta, value)) for value in (0.0, torch.nan))
    assert np.allclose(equal.score(0, *task.valid)[:, 0], (task.valid[1] == 0).mean())
    assert broken.score(0, *task.valid).tolist() == [[0.0, -np.inf]] * len(CANDIDATES)


def test_the_loop_restores_the_weights_of_the_fleet() -> None:
    task, candidate = make_task(mixer=Mixup()), CANDIDATES[1]
    network = MLP(4, 3, (8,), dtype=torch.float64, seed=weight_rng(task.seed))
    train_task(network, task, candidate, epochs=EPOCHS, restore_best=True, valid=task.valid)
    fleet = train_fleet([task], [candidate], hidden=(8,), epochs=EPOCHS, dtype=torch.float64, restore_best=True)
    for loop_value, fleet_value in zip(network.parameters(), fleet.network().parameters(), strict=True):
        torch.testing.assert_close(loop_value, fleet_value, atol=1e-9, rtol=0.0)


def test_a_custom_score_chooses_the_epoch() -> None:
    x, y = (torch.from_numpy(part) for part in rows(60, 0))
    values = iter([1.0, 3.0, float("nan"), 3.0, 2.0])
    network, states = MLP(4, 3, seed=0, dtype=torch.float64), []

    def note(epoch: int, logs: object) -> None:
        states.append(next(network.parameters()).detach().clone())

    train_network(
        network,
        [(x, y)],
        epochs=5,
        seed=0,
        restore_best=True,
        valid=lambda network: next(values),
        callback=LambdaCallback(on_epoch_end=note),
    )
    assert torch.equal(next(network.parameters()), states[1])


def test_a_resumed_run_knows_the_best_epoch(tmp_path: Path) -> None:
    x, y = (torch.from_numpy(part) for part in rows(60, 0))
    scores = [5.0, 1.0, 2.0, 3.0]
    whole, stopped = (MLP(4, 3, seed=0, dtype=torch.float64) for _ in range(2))

    def train(network: MLP, epochs: int, values: list[float], **more: object) -> None:
        score = iter(values)
        valid = {"restore_best": True, "valid": lambda network: next(score)}
        train_network(network, [(x, y)], mixer=Mixup(), epochs=epochs, seed=0, **valid, **more)

    train(whole, 4, scores)
    train(stopped, 2, scores[:2], checkpoint=tmp_path / "run.pt")
    stopped = MLP(4, 3, seed=1, dtype=torch.float64)
    train(stopped, 4, scores[2:], checkpoint=tmp_path / "run.pt")
    for resumed, expected in zip(stopped.parameters(), whole.parameters(), strict=True):
        assert torch.equal(resumed, expected)


@pytest.mark.parametrize("alternating", [False, True])
def test_adamixup_restores_the_best_classifiers(alternating: bool) -> None:
    task, thetas, accuracies = make_task(), [], []

    def score(fleet: object, group: int) -> np.ndarray:
        scores = fleet.score(0, *task.valid)
        accuracies.append(scores[:, :1])
        thetas.append(fleet.theta[0].clone())
        return scores[:, :1]

    settings = {"epochs": EPOCHS, "alternating": alternating}
    best = train_adamixup([task], CANDIDATES[:2], restore_best=BestEpoch(score), **settings)
    accuracy_by_epoch, theta = np.concatenate(accuracies).reshape(EPOCHS, 2), torch.cat(thetas).view(EPOCHS, 2, -1)
    assert best.classifier.best_epochs.tolist() == [(accuracy_by_epoch.argmax(0) + 1).tolist()]
    for c in range(2):
        assert torch.equal(best.classifier.theta[0, c], theta[accuracy_by_epoch[:, c].argmax(), c])
    last = train_adamixup([task], CANDIDATES[:2], **settings)
    assert torch.equal(last.classifier.theta[0], theta[-1])


def test_alternating_steps_update_the_critic_first() -> None:
    """After one SGD step the critic equals that of the joint step; only the policy has seen the new critic."""
    from genlabel.training import SGD

    task, settings = make_task(), {"epochs": 1, "optimizer": SGD(momentum=0.0, milestones=())}
    joint, turns = (train_adamixup([task], CANDIDATES[:1], alternating=flag, **settings) for flag in (False, True))
    assert torch.equal(joint.critic.theta, turns.critic.theta)
    assert torch.equal(joint.classifier.theta, turns.classifier.theta)  # its loss does not depend on the critic
    assert not torch.equal(joint.policy.theta, turns.policy.theta)


@pytest.mark.parametrize(
    ("call", "keyword"),
    [
        (
            lambda: train_fleet(
                [TrainingTask(*rows(9, 0), 3, ())], [Hyperparameters(0.1, label=())], restore_best=True
            ),
            "valid",
        ),
        (lambda: train_fleet([make_task()], CANDIDATES, restore_best="first"), "restore_best='first'"),
        (lambda: train_network(MLP(4, 3, seed=0), [], restore_best=True), "valid"),
        (lambda: train_network(MLP(4, 3, seed=0), [], valid=rows(9, 0)), "valid"),
        (lambda: train_network(MLP(4, 3, seed=0), [], mixer=Mixup(pairs="set")), "pairs='batch'"),
        (lambda: train_task(MLP(4, 3, seed=0), make_task(mixer=Mixup(pairs="set")), CANDIDATES[0]), "pairs='batch'"),
    ],
)
def test_bad_settings_raise(call: object, keyword: str) -> None:
    with pytest.raises(ValueError, match=keyword):
        call()
