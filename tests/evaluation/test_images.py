"""Training on images: reproducible, also after a resume; scores equal those of the predictions."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import accuracy_score, log_loss
from torch import nn
from typer.testing import CliRunner

from genlabel._progress import LambdaCallback
from genlabel.cli import app
from genlabel.cli.train_images import ImageMethodName, Network
from genlabel.data.datasets import ImageDataset, load_images
from genlabel.data.datasets.images import hold_out
from genlabel.evaluation.image_methods import IMAGE_METHODS, choose_network, make_image_method, pixel_moments
from genlabel.evaluation.images import TrainedImages, load_network, train_images
from genlabel.training import SGD
from genlabel.training.networks import LeNet5
from genlabel.training.networks.convolutional import IMAGE_NETWORKS

DIGITS = load_images("digits")
SMALL = ImageDataset(
    DIGITS.x_train[:300], DIGITS.y_train[:300], DIGITS.x_test[:60], DIGITS.y_test[:60], DIGITS.classes, "s"
)
FAST: dict[str, Any] = {"epochs": 3, "batch_size": 32, "device": "cpu"}


@cache
def trained_once(method: str = "genlabel") -> TrainedImages:
    """Train on the small dataset once for all tests, which must not change the result."""
    return train_images(SMALL, method=method, **FAST)


@cache
def accuracy_of_digits(seed: int) -> float:
    return train_images(DIGITS, epochs=2, device="cpu", seed=seed).test.accuracy


def same_state(first: Any, second: Any) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def proba(trained: TrainedImages, x: np.ndarray) -> np.ndarray:
    """Compute the probabilities of the network without the library."""
    with torch.no_grad():
        return torch.softmax(trained.network(torch.from_numpy(x).float() / 255.0).double(), 1).numpy()


@pytest.mark.parametrize("method", IMAGE_METHODS)
def test_every_method_learns(method: str) -> None:
    trained = train_images(DIGITS, method=method, **{**FAST, "epochs": 5})
    assert trained.test.accuracy > 0.3
    assert not trained.network.training
    assert [entry["epoch"] for entry in trained.history] == list(range(1, 6))


@pytest.mark.parametrize("method", IMAGE_METHODS)
def test_every_method_is_reproducible(method: str) -> None:
    first, second = trained_once(method), train_images(SMALL, method=method, **FAST)
    assert same_state(first.network.state_dict(), second.network.state_dict())
    assert first.test == second.test


@pytest.mark.parametrize("held_out", [0, 0.2, 50])
def test_scores_equal_those_of_the_predictions(held_out: float) -> None:
    trained = train_images(SMALL, held_out=held_out, **FAST)
    log_proba = proba(trained, SMALL.x_test)
    assert trained.test.accuracy == pytest.approx(accuracy_score(SMALL.y_test, log_proba.argmax(1)))
    assert trained.test.log_loss == pytest.approx(log_loss(SMALL.y_test, log_proba, labels=range(10)), rel=1e-5)
    if not held_out:
        assert (trained.best_epoch, trained.best_state, trained.best_test) == (None, None, None)
        assert all(np.isnan(entry["held_out_accuracy"]) for entry in trained.history)
        return
    count = 50 if held_out == 50 else 60
    rows = hold_out(SMALL.y_train, count, 0)[1]
    log_proba = proba(trained, SMALL.x_train[rows])
    assert trained.history[-1]["held_out_accuracy"] == pytest.approx(
        accuracy_score(SMALL.y_train[rows], log_proba.argmax(1))
    )
    best = max(trained.history, key=lambda entry: (entry["held_out_accuracy"], -entry["held_out_log_loss"]))
    assert trained.best_epoch == best["epoch"]


def test_best_state_has_the_measured_score() -> None:
    seen: list[float] = []
    trained = train_images(
        SMALL,
        callback=LambdaCallback(on_epoch_end=lambda epoch, entry: seen.append(entry["held_out_accuracy"])),
        **FAST,
    )
    assert seen == [entry["held_out_accuracy"] for entry in trained.history]
    assert trained.best_state is not None
    network = trained.network
    network.load_state_dict(trained.best_state)
    log_proba = proba(trained, SMALL.x_test)
    assert trained.best_test is not None
    assert trained.best_test.accuracy == pytest.approx(accuracy_score(SMALL.y_test, log_proba.argmax(1)))


def test_held_out_images_are_not_trained_on() -> None:
    rows = hold_out(SMALL.y_train, 60, 0)[1]
    other = SMALL.x_train.copy()
    other[rows] = 255 - other[rows]
    first = train_images(SMALL, held_out=60, **FAST)
    second = train_images(SMALL._replace(x_train=other), held_out=60, **FAST)
    assert same_state(first.network.state_dict(), second.network.state_dict())
    assert first.history[-1]["held_out_log_loss"] != second.history[-1]["held_out_log_loss"]


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("method", ["vanilla", "genlabel", "manifold-genlabel", "adamixup"])
def test_interrupted_run_resumes_exactly(tmp_path: Path, method: str) -> None:
    uninterrupted = trained_once(method)

    def stop(epoch: int, entry: dict[str, float]) -> None:
        if entry["epoch"] == 2:
            raise StoppedError

    path = tmp_path / "runs" / "checkpoint.pt"
    with pytest.raises(StoppedError):
        train_images(SMALL, method=method, checkpoint=path, callback=LambdaCallback(on_epoch_end=stop), **FAST)
    epochs: list[float] = []
    resumed = train_images(
        SMALL,
        method=method,
        checkpoint=path,
        callback=LambdaCallback(on_epoch_end=lambda epoch, entry: epochs.append(entry["epoch"])),
        **FAST,
    )
    finished = train_images(SMALL, method=method, checkpoint=path, **FAST)
    assert epochs == [2, 3]
    for run in (resumed, finished):
        assert same_state(uninterrupted.network.state_dict(), run.network.state_dict())
        assert same_state(uninterrupted.best_state, run.best_state)
        assert (uninterrupted.test, uninterrupted.best_epoch, uninterrupted.best_test) == (
            run.test,
            run.best_epoch,
            run.best_test,
        )
        frames = [pd.DataFrame(r.history).drop(columns="images_per_second") for r in (uninterrupted, run)]
        pd.testing.assert_frame_equal(*frames)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a run that has ended."""
    path = tmp_path_factory.mktemp("finished") / "checkpoint.pt"
    train_images(SMALL, checkpoint=path, **FAST)
    return path


@pytest.mark.parametrize(
    "change, keyword",
    [
        ({"gamma": 0.2}, "gamma"),
        ({"method": "mixup"}, "method"),
        ({"optimizer": SGD(momentum=0.5)}, "optimizer"),
        ({"epochs": 4}, "epochs"),
    ],
    ids=["gamma", "method", "optimizer", "epochs"],
)
def test_checkpoint_of_other_settings_is_refused(
    finished: Path, tmp_path: Path, change: dict[str, Any], keyword: str
) -> None:
    path = tmp_path / "run" / "checkpoint.pt"
    shutil.copytree(finished.parent, path.parent)
    with pytest.raises(ValueError, match=keyword):
        train_images(SMALL, checkpoint=path, **{**FAST, **change})
    other = SMALL._replace(y_train=SMALL.y_train[::-1].copy())
    with pytest.raises(ValueError, match="data"):
        train_images(other, checkpoint=path, **FAST)


@pytest.mark.parametrize("best", [False, True])
def test_saved_network_has_the_same_state(tmp_path: Path, best: bool) -> None:
    trained = trained_once()
    trained.save(tmp_path / "model.pt", best=best)
    network, classes = load_network(tmp_path / "model.pt")
    assert classes == SMALL.classes
    assert not network.training
    state = trained.best_state if best else trained.network.state_dict()
    assert same_state(network.state_dict(), state)


@pytest.mark.parametrize("kind", ["checkpoint", "state", "empty", "text"])
def test_other_files_are_refused(finished: Path, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file.pt"
    if kind in ("empty", "text"):
        path.write_text("" if kind == "empty" else "hello")
    elif kind == "checkpoint":
        shutil.copy(finished, path)
    else:
        torch.save(trained_once().network.state_dict(), path)
    with pytest.raises(ValueError, match="TrainedImages"):
        load_network(path)


def test_saving_the_best_epoch_needs_held_out_images(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="best=True"):
        train_images(SMALL, held_out=0, **FAST).save(tmp_path / "model.pt", best=True)


@pytest.mark.parametrize(
    "shape, network", [((1, 28, 28), "lenet5"), ((1, 8, 8), "lenet5"), ((1, 64, 64), "resnet18"),
                       ((3, 32, 32), "resnet18"), ((1, 8, 12), "resnet18")]
)  # fmt: skip
def test_network_is_chosen_by_the_images(shape: tuple[int, ...], network: str) -> None:
    x = np.random.default_rng(0).integers(0, 256, (4, *shape), dtype=np.uint8)
    name, arguments = choose_network("auto", x, 3)
    assert name == network
    mean, std = x.mean((0, 2, 3)) / 255, x.std((0, 2, 3)) / 255
    np.testing.assert_allclose(arguments["mean"], mean)
    np.testing.assert_allclose(arguments["std"], std)
    if network == "lenet5":
        assert IMAGE_NETWORKS[name](**arguments)(torch.from_numpy(x) / 255.0).shape == (4, 3)


def test_constant_channel_is_not_scaled() -> None:
    assert pixel_moments(np.full((2, 1, 3, 3), 51, np.uint8)) == ([pytest.approx(0.2)], [1.0])


def test_pixels_are_normalized_by_the_training_images() -> None:
    trained = train_images(SMALL, held_out=60, **FAST)
    rows = hold_out(SMALL.y_train, 60, 0)[0]
    assert trained.architecture[1]["mean"] == [pytest.approx(SMALL.x_train[rows].mean() / 255)]


def test_genlabel_with_gamma_0_equals_mixup() -> None:
    mixup, genlabel = train_images(SMALL, method="mixup", **FAST), train_images(SMALL, gamma=0.0, **FAST)
    assert same_state(mixup.network.state_dict(), genlabel.network.state_dict())


def test_seeds_give_different_networks() -> None:
    one, other = trained_once(), train_images(SMALL, seed=1, **FAST)
    assert not same_state(one.network.state_dict(), other.network.state_dict())


@pytest.mark.parametrize("method", IMAGE_METHODS)
def test_image_methods_have_the_requested_mixer_and_labeler(method: str) -> None:
    recipe = make_image_method(method, 3, alpha=0.3, lam_per="batch", gamma=0.2, beta=0.5, statistics="clean")
    if method.endswith("genlabel"):
        assert recipe.labeler.gamma == 0.2
        assert (recipe.labeler.density.beta, recipe.labeler.update_source) == (0.5, "clean")
    if recipe.mixer is not None and not recipe.learns_to_mix:
        assert (recipe.mixer.alpha, recipe.mixer.lam_per) == (0.3, "batch")
    assert (recipe.mixer is None) == (method == "vanilla")


@pytest.mark.parametrize(
    "change, keyword",
    [
        ({"method": "cutmixup"}, "method='cutmixup'"),
        ({"network": "vgg"}, "network='vgg'"),
        ({"optimizer": "lamb"}, "optimizer='lamb'"),
        ({"precision": "fp8"}, "precision='fp8'"),
        ({"device": "cuda:99"}, "device='cuda:99'"),
        ({"device": "abacus"}, "device='abacus'"),
        ({"held_out": 0.9}, r"held_out=0.9"),
        ({"held_out": 299}, "299"),
        ({"epochs": 0}, "epochs=0"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"seed": -1}, "seed=-1"),
        ({"learning_rate": -1.0}, "learning_rate=-1.0"),
        ({"learning_rate": float("nan")}, "learning_rate=nan"),
        ({"learning_rate": 1e9}, "learning_rate"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_invalid_arguments_are_refused(change: dict[str, Any], keyword: str) -> None:
    with pytest.raises(ValueError, match=keyword):
        train_images(SMALL, **{**FAST, **change})


@pytest.mark.parametrize("images", ["digits", (SMALL.x_train, SMALL.y_train)], ids=["name", "arrays"])
def test_images_must_be_an_image_dataset(images: Any) -> None:
    with pytest.raises(TypeError, match="ImageDataset"):
        train_images(images, **FAST)


def test_pixels_are_bytes() -> None:
    with pytest.raises(TypeError, match="uint8"):
        train_images(SMALL._replace(x_train=SMALL.x_train / 255), **FAST)


def test_lenet_needs_square_images() -> None:
    with pytest.raises(ValueError, match="square"):
        choose_network("lenet5", np.zeros((2, 1, 8, 12), np.uint8), 2)


# The command


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["train-images", *arguments], prog_name="genlabel")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


FAST_OPTIONS = ["--epochs", "2", "--device", "cpu"]


def test_command_options_match_the_library() -> None:
    assert [method.value for method in ImageMethodName] == list(IMAGE_METHODS)
    assert [network.value for network in Network] == ["auto", *IMAGE_NETWORKS]


def test_command_prints_the_scores_of_the_library(here: Path) -> None:
    result = invoke("digits", *FAST_OPTIONS)
    assert result.exit_code == 0, result.output
    trained = train_images(DIGITS, epochs=2, device="cpu")
    assert f"last epoch (2): test accuracy {100 * trained.test.accuracy:.2f} %" in result.stdout
    assert f"best validation epoch ({trained.best_epoch}): test accuracy" in result.stdout
    assert re.search(r"epoch 2 of 2: loss [\d.]+, validation accuracy [\d.]+ %, [\d,]+ images/s", result.stderr)
    folder = here / "build" / "images" / "digits" / "genlabel"
    history = pd.read_csv(folder / "history.csv")
    assert history["epoch"].tolist() == [1, 2]
    assert history["loss"].tolist() == pytest.approx([entry["loss"] for entry in trained.history])
    network, _ = load_network(folder / "model.pt")
    assert same_state(network.state_dict(), trained.network.state_dict())
    network, _ = load_network(folder / "best.pt")
    assert same_state(network.state_dict(), trained.best_state)


def test_run_is_resumed_and_not_overwritten(here: Path) -> None:
    first = invoke("digits", *FAST_OPTIONS, "--output", "out")
    refused = invoke("digits", *FAST_OPTIONS, "--output", "out")
    assert refused.exit_code == 2
    assert "--resume" in refused.stderr
    resumed = invoke("digits", *FAST_OPTIONS, "--output", "out", "--resume")
    restarted = invoke("digits", *FAST_OPTIONS, "--output", "out", "--restart")
    scores = [re.findall(r"epoch \(\d\): .*", run.stdout) for run in (first, resumed, restarted)]
    assert scores[0] == scores[1] == scores[2]
    assert "epoch 1 of 2" not in resumed.stderr
    assert "epoch 1 of 2" in restarted.stderr


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_each_seed_has_its_folder(here: Path, jobs: str) -> None:
    result = invoke("digits", *FAST_OPTIONS, "--seeds", "2", "--seed", "3", "--jobs", jobs, "--output", "out")
    assert result.exit_code == 0, result.output
    accuracies = [100 * accuracy_of_digits(seed) for seed in (3, 4)]
    for seed, accuracy in zip((3, 4), accuracies, strict=True):
        assert f"seed {seed}, last epoch (2): test accuracy {accuracy:.2f} %" in result.stdout
        assert (here / "out" / f"seed-{seed}" / "model.pt").exists()
    mean, spread = np.mean(accuracies), np.std(accuracies, ddof=1)
    assert f"mean of 2 seeds, last epoch: test accuracy {mean:.2f} ± {spread:.2f} %" in result.stdout


@pytest.mark.parametrize(
    "arguments, keyword",
    [
        (["nowhere.npz"], "'nowhere.npz'"),
        (["mnist", "--data-home", "."], "mnist"),
        (["digits", "--size", "9"], "--size 9"),
        (["digits", "--jobs", "0"], "--jobs 0"),
        (["digits", "--device", "abacus"], "--device 'abacus'"),
        (["digits", "--learning-rate", "1e9", "--epochs", "3"], "--learning-rate"),
        (["digits", "--alpha", "0"], "--alpha 0.0"),
        (["digits", "--gamma", "2e0"], "--gamma 2.0"),
        (["digits", "--gamma", "best"], "--gamma 'best'"),
        (["digits", "--method", "vanilla", "--gamma", "0.7"], "--gamma 0.7"),
        (["digits", "--method", "adamixup", "--alpha", "3"], "--alpha 3.0"),
        (["digits", "--method", "vanilla", "--lam-per", "batch"], "--lam-per 'batch'"),
        (["digits", "--resume", "--restart"], "--restart"),
        (["digits", "--output", __file__], "--output"),
    ],
    ids=[
        "file",
        "home",
        "size",
        "jobs",
        "device",
        "rate",
        "alpha",
        "gamma",
        "gamma name",
        "vanilla",
        "adamixup",
        "lam",
        "both",
        "output",
    ],
)
def test_invalid_input_is_one_error_line(here: Path, arguments: list[str], keyword: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("Error: ")
    assert keyword in last


CHECK_ERRORS = """
import json, sys
from typer.testing import CliRunner
from genlabel.cli import app
for words in sys.argv[1:]:
    result = CliRunner().invoke(app, ["train-images", *words.split()])
    print(json.dumps([result.exit_code, "torch" in sys.modules, result.stderr]))
"""
INVALID = {
    "nowhere.npz": "nowhere.npz",
    "cifar10 --data-home .": "cifar10",
    "digits --jobs 0": "--jobs 0",
}


def test_invalid_input_is_reported_before_torch_is_imported(here: Path) -> None:
    result = subprocess.run([sys.executable, "-c", CHECK_ERRORS, *INVALID], capture_output=True, text=True, check=True)
    for keyword, line in zip(INVALID.values(), result.stdout.splitlines(), strict=True):
        code, loaded, stderr = json.loads(line)
        assert (code, loaded) == (2, False)
        assert keyword in stderr


def test_interrupt_names_the_output_folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("genlabel.evaluation.images.train_images", interrupt)
    result = invoke("digits", *FAST_OPTIONS, "--output", "out")
    assert result.exit_code == 130
    assert "interrupted" in result.stderr
    assert "out" in result.stderr


def train_as_one_of_two(rank: int) -> dict[str, Any]:
    result = invoke("digits", *FAST_OPTIONS, "--epochs", "4", "--output", "out")
    return {"code": result.exit_code, "stdout": result.stdout, "stderr": result.stderr}


def test_two_processes_train_one_network(here: Path, in_two_processes: Callable[..., Any]) -> None:
    first, second = in_two_processes(train_as_one_of_two, join=False)
    assert (first["code"], second["code"]) == (0, 0), first["stderr"] + second["stderr"]
    assert first["stdout"].count("last epoch (4)") == first["stderr"].count("epoch 4 of 4") == 1
    assert (second["stdout"], second["stderr"]) == ("", "")
    check_trained_network()


@pytest.mark.long
def test_torchrun_trains_one_network(here: Path) -> None:
    words = ["-m", "genlabel", "train-images", "digits", *FAST_OPTIONS, "--epochs", "4", "--output", "out"]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *words]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("last epoch (4)") == 1
    assert result.stderr.count("epoch 4 of 4") == 1
    check_trained_network()


def check_trained_network() -> None:
    history = pd.read_csv("out/history.csv")
    assert history["loss"].iloc[-1] < history["loss"].iloc[0]
    network, _ = load_network("out/model.pt")
    assert all(torch.isfinite(value).all() for value in network.state_dict().values())


def own_network(last: nn.Module | None = None) -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10)]
    return nn.Sequential(*layers, *([] if last is None else [last]))


@pytest.mark.parametrize("method", ["genlabel", "cutmix", "adamixup"])
def test_a_network_of_ones_own(method: str, tmp_path: Path) -> None:
    module = own_network()
    trained = train_images(DIGITS, method=method, network=module, **{**FAST, "epochs": 4})
    assert trained.test.accuracy > 0.7
    trained.save(tmp_path / "model.pt")
    loaded, classes = load_network(tmp_path / "model.pt", own_network())
    assert classes == list(range(10))
    x = torch.from_numpy(DIGITS.x_test).float() / 255.0
    torch.testing.assert_close(loaded(x), module(x))
    torch.testing.assert_close(trained.network(x), module(x))


def test_a_staged_network_of_ones_own_is_mixed_in_its_stages() -> None:
    network = LeNet5(in_channels=1, size=8, seed=3)
    trained = train_images(DIGITS, method="manifold-genlabel", network=network, **{**FAST, "epochs": 8})
    assert trained.network is network
    assert trained.test.accuracy > 0.3


def test_networks_that_cannot_be_trained_are_refused(tmp_path: Path) -> None:
    for network, keyword, error in (
        (own_network(nn.Softmax(1)), "softmax", ValueError),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 7)), "10 outputs", ValueError),
        (LeNet5, "Module", TypeError),
    ):
        with pytest.raises(error, match=keyword):
            train_images(SMALL, network=network, **FAST)
    with pytest.raises(ValueError, match="depth"):
        train_images(SMALL, network=own_network(), method="manifold", **FAST)
    trained_once().save(tmp_path / "model.pt")
    with pytest.raises(ValueError, match="lenet5"):
        load_network(tmp_path / "model.pt", own_network())


def test_gamma_is_chosen_while_training() -> None:
    assert train_images(DIGITS, gamma="auto", **{**FAST, "epochs": 6}).test.accuracy > 0.6


@pytest.mark.parametrize("method", ["vanilla", "adamixup"])
@pytest.mark.parametrize(
    "options",
    [{"gamma": 0.7}, {"beta": 0.5}, {"statistics": "clean"}, {"alpha": 0.3}, {"lam_per": "batch"}],
    ids=str,
)
def test_options_without_effect_are_refused(options: dict[str, Any], method: str) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        train_images(SMALL, method=method, **options, **FAST)


def test_bad_weights_are_refused_before_training() -> None:
    for gamma in ("best", 1.5):
        with pytest.raises(ValueError, match="gamma"):
            train_images(SMALL, gamma=gamma, **FAST)
