"""Training on images: reproducible, also when resumed; scores are those of the predictions."""

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
from typer.testing import CliRunner

from genlabel._progress import LambdaCallback
from genlabel.cli import app
from genlabel.cli.train_images import ImageMethodName, Network
from genlabel.data.datasets import ImageDataset, load_images
from genlabel.data.datasets.images import hold_out
from genlabel.evaluation.image_methods import IMAGE_METHODS, choose_network, make_image_method, pixel_moments
from genlabel.evaluation.images import TrainedImages, load_network, train_images
from genlabel.training import SGD
from genlabel.training.networks.convolutional import IMAGE_NETWORKS

DIGITS = load_images("digits")
SMALL = ImageDataset(
    DIGITS.x_train[:300], DIGITS.y_train[:300], DIGITS.x_test[:60], DIGITS.y_test[:60], DIGITS.classes, "s"
)
FAST: dict[str, Any] = {"epochs": 3, "batch_size": 32, "device": "cpu"}


@cache
def trained_once(method: str = "genlabel") -> TrainedImages:
    """Trained on the small set once for all tests, which must leave it as it is."""
    return train_images(SMALL, method=method, **FAST)


@cache
def accuracy_of_digits(seed: int) -> float:
    return train_images(DIGITS, epochs=2, device="cpu", seed=seed).test.accuracy


def same_state(one: Any, other: Any) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def proba(trained: TrainedImages, x: np.ndarray) -> np.ndarray:
    """What the network says, by hand."""
    with torch.no_grad():
        return torch.softmax(trained.network(torch.from_numpy(x).float() / 255.0).double(), 1).numpy()


@pytest.mark.parametrize("method", IMAGE_METHODS)
def test_every_method_learns(method: str) -> None:
    trained = train_images(DIGITS, method=method, **{**FAST, "epochs": 5})
    assert trained.test.accuracy > 0.5
    assert not trained.network.training
    assert [entry["epoch"] for entry in trained.history] == list(range(1, 6))


@pytest.mark.parametrize("method", IMAGE_METHODS)
def test_every_method_repeats_itself(method: str) -> None:
    first, again = trained_once(method), train_images(SMALL, method=method, **FAST)
    assert same_state(first.network.state_dict(), again.network.state_dict())
    assert first.test == again.test


@pytest.mark.parametrize("held_out", [0, 0.2, 50])
def test_scores_are_those_of_the_predictions(held_out: float) -> None:
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


def test_the_state_of_the_best_epoch_is_the_one_that_was_measured() -> None:
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
def test_an_interrupted_run_continues_exactly(tmp_path: Path, method: str) -> None:
    whole = trained_once(method)

    def stop(epoch: int, entry: dict[str, float]) -> None:
        if entry["epoch"] == 2:
            raise StoppedError

    path = tmp_path / "runs" / "checkpoint.pt"
    with pytest.raises(StoppedError):
        train_images(SMALL, method=method, checkpoint=path, callback=LambdaCallback(on_epoch_end=stop), **FAST)
    messages: list[float] = []
    resumed = train_images(
        SMALL,
        method=method,
        checkpoint=path,
        callback=LambdaCallback(on_epoch_end=lambda epoch, entry: messages.append(entry["epoch"])),
        **FAST,
    )
    finished = train_images(SMALL, method=method, checkpoint=path, **FAST)
    assert messages == [2, 3]
    for run in (resumed, finished):
        assert same_state(whole.network.state_dict(), run.network.state_dict())
        assert same_state(whole.best_state, run.best_state)
        assert (whole.test, whole.best_epoch, whole.best_test) == (run.test, run.best_epoch, run.best_test)
        frames = [pd.DataFrame(r.history).drop(columns="images_per_second") for r in (whole, run)]
        pd.testing.assert_frame_equal(*frames)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a run that has ended."""
    path = tmp_path_factory.mktemp("finished") / "checkpoint.pt"
    train_images(SMALL, checkpoint=path, **FAST)
    return path


@pytest.mark.parametrize(
    "change, message",
    [
        ({"gamma": 0.2}, "was made with gamma=0.1, not 0.2"),
        ({"method": "mixup"}, "was made with method='genlabel', not 'mixup'"),
        ({"optimizer": SGD(momentum=0.5)}, "was made with optimizer="),
        ({"epochs": 4}, "was made with epochs=3, not 4"),
    ],
    ids=["gamma", "method", "optimizer", "epochs"],
)
def test_a_checkpoint_of_other_settings_is_an_error(
    finished: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    path = tmp_path / "run" / "checkpoint.pt"
    shutil.copytree(finished.parent, path.parent)
    with pytest.raises(ValueError, match=message):
        train_images(SMALL, checkpoint=path, **{**FAST, **change})
    other = SMALL._replace(y_train=SMALL.y_train[::-1].copy())
    with pytest.raises(ValueError, match="was made with data="):
        train_images(other, checkpoint=path, **FAST)


@pytest.mark.parametrize("best", [False, True])
def test_a_saved_network_predicts_the_same(tmp_path: Path, best: bool) -> None:
    trained = trained_once()
    trained.save(tmp_path / "model.pt", best=best)
    network, classes = load_network(tmp_path / "model.pt")
    assert classes == SMALL.classes
    assert not network.training
    state = trained.best_state if best else trained.network.state_dict()
    assert same_state(network.state_dict(), state)


@pytest.mark.parametrize("kind", ["checkpoint", "state", "empty", "text"])
def test_other_files_are_not_networks(finished: Path, tmp_path: Path, kind: str) -> None:
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
    with pytest.raises(ValueError, match="best=True needs held-out images"):
        train_images(SMALL, held_out=0, **FAST).save(tmp_path / "model.pt", best=True)


@pytest.mark.parametrize(
    "shape, network", [((1, 28, 28), "lenet5"), ((1, 8, 8), "lenet5"), ((1, 64, 64), "resnet18"),
                       ((3, 32, 32), "resnet18"), ((1, 8, 12), "resnet18")]
)  # fmt: skip
def test_the_network_suits_the_images(shape: tuple[int, ...], network: str) -> None:
    x = np.random.default_rng(0).integers(0, 256, (4, *shape), dtype=np.uint8)
    name, arguments = choose_network("auto", x, 3)
    assert name == network
    mean, std = x.mean((0, 2, 3)) / 255, x.std((0, 2, 3)) / 255
    np.testing.assert_allclose(arguments["mean"], mean)
    np.testing.assert_allclose(arguments["std"], std)
    if network == "lenet5":
        assert IMAGE_NETWORKS[name](**arguments)(torch.from_numpy(x) / 255.0).shape == (4, 3)


def test_a_constant_channel_is_not_scaled() -> None:
    assert pixel_moments(np.full((2, 1, 3, 3), 51, np.uint8)) == ([pytest.approx(0.2)], [1.0])


def test_pixels_are_normalized_by_the_training_images() -> None:
    trained = train_images(SMALL, held_out=60, **FAST)
    rows = hold_out(SMALL.y_train, 60, 0)[0]
    assert trained.architecture[1]["mean"] == [pytest.approx(SMALL.x_train[rows].mean() / 255)]


def test_genlabel_without_its_label_is_mixup() -> None:
    mixup, genlabel = (train_images(SMALL, method=method, gamma=0.0, **FAST) for method in ("mixup", "genlabel"))
    assert same_state(mixup.network.state_dict(), genlabel.network.state_dict())


def test_seeds_differ() -> None:
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
    "change, message",
    [
        ({"method": "cutmixup"}, "method='cutmixup' is not known"),
        ({"network": "vgg"}, "network='vgg' is not known"),
        ({"optimizer": "lamb"}, "optimizer='lamb' is not known"),
        ({"precision": "fp8"}, "precision='fp8' is not known"),
        ({"device": "cuda:99"}, "device='cuda:99' cannot be used"),
        ({"device": "abacus"}, "device='abacus' cannot be used"),
        ({"held_out": 0.9}, r"held_out=0.9 must be a number in \[0, 0.5\]"),
        ({"held_out": 299}, "299 images of 300 cannot be held out"),
        ({"epochs": 0}, "epochs=0 must be"),
        ({"batch_size": 0}, "batch_size=0 must be"),
        ({"seed": -1}, "seed=-1 must be"),
        ({"learning_rate": -1.0}, "learning_rate=-1.0 must be a finite number above 0"),
        ({"learning_rate": float("nan")}, "learning_rate=nan must be"),
        ({"learning_rate": 1e9}, "the loss of epoch . is .*lower learning_rate"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_bad_arguments_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train_images(SMALL, **{**FAST, **change})


@pytest.mark.parametrize("images", ["digits", (SMALL.x_train, SMALL.y_train)], ids=["name", "arrays"])
def test_images_must_be_an_image_dataset(images: Any) -> None:
    with pytest.raises(TypeError, match="ImageDataset"):
        train_images(images, **FAST)


def test_pixels_are_bytes() -> None:
    with pytest.raises(TypeError, match="images has pixels of float64 and uint8; give uint8, 0 to 255"):
        train_images(SMALL._replace(x_train=SMALL.x_train / 255), **FAST)


def test_lenet_takes_square_images() -> None:
    with pytest.raises(ValueError, match="takes square images"):
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


FAST_WORDS = ["--epochs", "2", "--device", "cpu"]


def test_command_options_match_the_library() -> None:
    assert [method.value for method in ImageMethodName] == list(IMAGE_METHODS)
    assert [network.value for network in Network] == ["auto", *IMAGE_NETWORKS]


def test_the_command_prints_what_the_library_measures(here: Path) -> None:
    result = invoke("digits", *FAST_WORDS)
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


def test_a_run_is_not_overwritten_and_resumes(here: Path) -> None:
    first = invoke("digits", *FAST_WORDS, "--output", "out")
    again = invoke("digits", *FAST_WORDS, "--output", "out")
    assert again.exit_code == 2
    assert "continue it with --resume, delete it with --restart" in again.stderr
    resumed = invoke("digits", *FAST_WORDS, "--output", "out", "--resume")
    fresh = invoke("digits", *FAST_WORDS, "--output", "out", "--restart")
    scores = [re.findall(r"epoch \(\d\): .*", run.stdout) for run in (first, resumed, fresh)]
    assert scores[0] == scores[1] == scores[2]
    assert "epoch 1 of 2" not in resumed.stderr
    assert "epoch 1 of 2" in fresh.stderr


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_several_seeds_have_folders_of_their_own(here: Path, jobs: str) -> None:
    result = invoke("digits", *FAST_WORDS, "--seeds", "2", "--seed", "3", "--jobs", jobs, "--output", "out")
    assert result.exit_code == 0, result.output
    found = [100 * accuracy_of_digits(seed) for seed in (3, 4)]
    for seed, accuracy in zip((3, 4), found, strict=True):
        assert f"seed {seed}, last epoch (2): test accuracy {accuracy:.2f} %" in result.stdout
        assert (here / "out" / f"seed-{seed}" / "model.pt").exists()
    mean, spread = np.mean(found), np.std(found, ddof=1)
    assert f"mean of 2 seeds, last epoch: test accuracy {mean:.2f} ± {spread:.2f} %" in result.stdout


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["nowhere.npz"], "no file or folder 'nowhere.npz'"),
        (["mnist", "--data-home", "."], "mnist is not in '.'"),
        (["digits", "--size", "9"], "size=9 is for folders"),
        (["digits", "--jobs", "0"], "jobs=0 must be at least 1"),
        (["digits", "--device", "abacus"], "device='abacus' cannot be used"),
        (["digits", "--learning-rate", "1e9", "--epochs", "3"], "lower learning_rate"),
        (["digits", "--alpha", "0"], "alpha=0.0 must be"),
        (["digits", "--resume", "--restart"], "give one of them"),
        (["digits", "--output", __file__], "is a file; name a folder with --output"),
    ],
    ids=["file", "home", "size", "jobs", "device", "rate", "alpha", "both", "output"],
)
def test_wrong_input_is_one_line(here: Path, arguments: list[str], message: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("Error: ")
    assert message in last


AT_ONCE = """
import json, sys
from typer.testing import CliRunner
from genlabel.cli import app
for words in sys.argv[1:]:
    done = CliRunner().invoke(app, ["train-images", *words.split()])
    print(json.dumps([done.exit_code, "torch" in sys.modules, done.stderr]))
"""
WRONG = {
    "nowhere.npz": "no file or folder",
    "cifar10 --data-home .": "cifar10 is not in",
    "digits --jobs 0": "jobs=0",
}


def test_wrong_input_is_reported_before_torch_is_imported(here: Path) -> None:
    done = subprocess.run([sys.executable, "-c", AT_ONCE, *WRONG], capture_output=True, text=True, check=True)
    for message, line in zip(WRONG.values(), done.stdout.splitlines(), strict=True):
        code, loaded, messages = json.loads(line)
        assert (code, loaded) == (2, False)
        assert message in messages


def test_an_interrupt_names_what_is_saved(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("genlabel.evaluation.images.train_images", interrupt)
    result = invoke("digits", *FAST_WORDS, "--output", "out")
    assert result.exit_code == 130
    assert "interrupted; finished epochs are in out" in result.stderr


def train_as_one_of_two(rank: int) -> dict[str, Any]:
    result = invoke("digits", *FAST_WORDS, "--epochs", "4", "--output", "out")
    return {"code": result.exit_code, "stdout": result.stdout, "stderr": result.stderr}


def test_two_processes_train_one_network(here: Path, in_two_processes: Callable[..., Any]) -> None:
    first, second = in_two_processes(train_as_one_of_two, join=False)
    assert (first["code"], second["code"]) == (0, 0), first["stderr"] + second["stderr"]
    assert first["stdout"].count("last epoch (4)") == first["stderr"].count("epoch 4 of 4") == 1
    assert (second["stdout"], second["stderr"]) == ("", "")
    check_what_was_trained()


@pytest.mark.long
def test_torchrun_trains_one_network(here: Path) -> None:
    words = ["-m", "genlabel", "train-images", "digits", *FAST_WORDS, "--epochs", "4", "--output", "out"]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *words]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("last epoch (4)") == 1
    assert done.stderr.count("epoch 4 of 4") == 1
    check_what_was_trained()


def check_what_was_trained() -> None:
    history = pd.read_csv("out/history.csv")
    assert history["loss"].iloc[-1] < history["loss"].iloc[0]
    network, _ = load_network("out/model.pt")
    assert all(torch.isfinite(value).all() for value in network.state_dict().values())
