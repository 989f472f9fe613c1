"""`genlabel train-images`: one method on one set of images, on a CPU, a GPU or several."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genlabel._atomic_io import atomic_writer
from genlabel._progress import Callback
from genlabel._progress_display import ProgressDisplay, display_progress
from genlabel.cli.console import (
    Jobs,
    Restart,
    check_jobs,
    check_outputs,
    one_line_errors,
    print_line,
)

if TYPE_CHECKING:
    from genlabel.data.datasets import ImageDataset
    from genlabel.evaluation.images import TrainedImages


CHECKPOINT, MODEL, BEST = "checkpoint.pt", "model.pt", "best.pt"


class Method(StrEnum):
    """The methods that `--method` names."""

    vanilla = "vanilla"
    mixup = "mixup"
    genlabel = "genlabel"
    manifold = "manifold"
    manifold_genlabel = "manifold-genlabel"
    cutmix = "cutmix"
    cutmix_genlabel = "cutmix-genlabel"
    adamixup = "adamixup"


class Network(StrEnum):
    """The networks that `--network` names."""

    auto = "auto"
    lenet5 = "lenet5"
    resnet18 = "resnet18"
    preact_resnet18 = "preact-resnet18"


class Statistics(StrEnum):
    """Whose features GenLabel's Gaussians learn from."""

    near = "near"
    clean = "clean"
    part = "part"


class LamPer(StrEnum):
    """What has a mixing weight of its own."""

    sample = "sample"
    batch = "batch"


class Precision(StrEnum):
    """The precisions that `--precision` names."""

    auto = "auto"
    float32 = "float32"
    bf16 = "bf16"


def train_images(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="mnist, fashion-mnist, cifar10, cifar100, tinyimagenet or digits; an .npz file with x_train, y_train, "
            "x_test, y_test; or a folder with a folder for each class, or with train and test folders of such.",
        ),
    ],
    method: Annotated[Method, typer.Option(help="How points are mixed and labelled.")] = Method.genlabel,
    network: Annotated[
        Network, typer.Option(help="auto: LeNet-5 for small grey images, ResNet-18 for others.")
    ] = Network.auto,
    epochs: Annotated[int, typer.Option(min=1, help="Training epochs.")] = 30,
    batch_size: Annotated[int, typer.Option(min=1, help="Images of a step.")] = 128,
    learning_rate: Annotated[float, typer.Option(help="Of SGD, a tenth after half and after 3/4 of the epochs.")] = 0.1,
    weight_decay: Annotated[float, typer.Option(min=0.0)] = 1e-4,
    alpha: Annotated[
        float | None,
        typer.Option(help="Of Beta(alpha, alpha), the mixing weight.", show_default="1, manifold 2"),
    ] = None,
    lam_per: Annotated[
        LamPer, typer.Option(help="Whether each image or each batch has a mixing weight.")
    ] = LamPer.sample,
    gamma: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of the generated label.")] = 0.1,
    beta: Annotated[float, typer.Option(min=0.0, max=1.0, help="Memory of the Gaussians.")] = 0.95,
    statistics: Annotated[
        Statistics,
        typer.Option(help="The Gaussians learn from nearly clean mixed points, from all clean points, or from a part."),
    ] = Statistics.near,
    augment: Annotated[
        bool | None,
        typer.Option("--augment/--no-augment", help="Random crops and flips.", show_default="for colour images"),
    ] = None,
    held_out: Annotated[
        float, typer.Option(min=0.0, max=0.5, help="Share of the training images that choose the best epoch.")
    ] = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="Of weights, order, mixing and held-out images.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Train with so many seeds, from --seed on.")] = 1,
    jobs: Jobs = 1,
    device: Annotated[str, typer.Option(help="auto is a GPU if there is one; cpu, cuda, cuda:1.")] = "auto",
    precision: Annotated[Precision, typer.Option(help="auto is bf16 on a GPU that has it.")] = Precision.auto,
    size: Annotated[int | None, typer.Option(min=1, help="Side to which pictures of a folder are scaled.")] = None,
    data_home: Annotated[
        Path | None, typer.Option(help="Where the files of a named set lie.", show_default="GENLABEL_DATA_HOME")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder of the results.", show_default="build/images/<name>/<method>")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in the folder.")] = False,
    restart: Restart = False,
) -> None:
    """Train a network on images, and print its test accuracy and log-loss.

    The folder gets model.pt (last epoch), best.pt (best held-out epoch), history.csv and a checkpoint after each epoch.
    Under torchrun all processes train one network.
    """
    settings = {
        "method": method.value,
        "network": network.value,
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "alpha": alpha,
        "lam_per": lam_per.value,
        "gamma": gamma,
        "beta": beta,
        "statistics": statistics.value,
        "augment": augment,
        "held_out": held_out,
        "device": device,
        "precision": precision.value,
    }
    with one_line_errors(), _progress(f"loading {data}"):
        check_jobs(jobs)
        if resume and restart:
            raise ValueError("--resume goes on with a run and --restart begins again; give one of them")
        if jobs != 1 and _in_group():
            raise ValueError(f"jobs={jobs} and torchrun cannot be combined; leave --jobs out")
        from genlabel.data.datasets import load_images

        images = load_images(data, data_home, size=size)
        folder = output or Path("build", "images", images.name, method.value)
        folders = {n: folder if seeds == 1 else folder / f"seed-{n}" for n in range(seed, seed + seeds)}
        for place in folders.values():
            _prepare(place, resume, restart)
    with one_line_errors(f"epochs that ended are kept in {folder}, --resume goes on"), _process_group(device):
        results = _train_all(images, folders, settings, jobs)
        if _rank() == 0:
            _report(images, results, folders)


def _train_all(
    images: ImageDataset, folders: dict[int, Path], settings: dict[str, Any], jobs: int
) -> list[dict[str, Any]]:
    """What each seed comes to: one after the other, and each epoch is told of; or side by side."""
    what = f"{images.name}, {settings['method']}: {settings['epochs']} epochs"
    if jobs == 1:
        with _progress(what, "epoch") as display:
            display.start(len(folders) * settings["epochs"])
            return [_train_one(images, seed, folder, settings, display) for seed, folder in folders.items()]
    from joblib import Parallel, delayed

    with _progress(f"{what}, {len(folders)} seeds", "seed") as display:
        display.start(len(folders))
        work = (delayed(_train_beside)(images, seed, folder, settings, os.getpid()) for seed, folder in folders.items())
        results = []
        for result in Parallel(n_jobs=jobs, return_as="generator_unordered", max_nbytes=None)(work):
            results.append(result)
            display.step(f"seed {result['seed']}: test accuracy {_percent(result['accuracy'])}")
    return sorted(results, key=lambda result: result["seed"])


def _train_beside(
    images: ImageDataset, seed: int, folder: Path, settings: dict[str, Any], parent: int
) -> dict[str, Any]:
    """Train in a process of its own, which ends with its parent, on one thread, and say nothing."""
    import torch

    from genlabel.evaluation.records.run import exit_with_parent

    exit_with_parent(parent)
    torch.set_num_threads(1)
    return _train_one(images, seed, folder, settings, ProgressDisplay("", quiet=True))


class _EpochLines(Callback):
    """Callback that displays a line for each epoch."""

    def __init__(self, display: ProgressDisplay, seed: int, epochs: int) -> None:
        self.display, self.seed, self.epochs = display, seed, epochs

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any]) -> None:
        self.display.step(f"seed {self.seed}, {_entry_line(logs, self.epochs)}")


def _train_one(
    images: ImageDataset, seed: int, folder: Path, settings: dict[str, Any], display: ProgressDisplay
) -> dict[str, Any]:
    """Train with one seed, write the models and the history, and return what is reported."""
    from genlabel.evaluation.images import train_images as train

    lines = _EpochLines(display, seed, settings["epochs"])
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        trained = train(
            images,
            seed=seed,
            checkpoint=folder / CHECKPOINT,
            callback=lines,
            **settings,
        )
    if _rank() == 0:
        _write(trained, folder)
    best = {} if trained.best_test is None else {"best_epoch": trained.best_epoch, **trained.best_test._asdict()}
    rates = [entry["images_per_second"] for entry in trained.history]
    return {
        "seed": seed,
        "network": trained.architecture[0],
        **trained.test._asdict(),
        "best": best,
        "epochs": len(trained.history),
        "seconds": trained.seconds,
        "rate": sorted(rates)[len(rates) // 2],
        "warnings": sorted({str(warning.message) for warning in heard}),
    }


def _write(trained: TrainedImages, folder: Path) -> None:
    import pandas as pd

    trained.save(folder / MODEL)
    if trained.best_state is not None:
        trained.save(folder / BEST, best=True)
    with atomic_writer(folder / "history.csv") as beside:
        pd.DataFrame(trained.history).to_csv(beside, index=False)


def _entry_line(entry: Mapping[str, Any], epochs: int) -> str:
    """An epoch in words.

    >>> _entry_line({"epoch": 2, "loss": 0.5, "held_out_accuracy": 0.9, "images_per_second": 1234.0}, 30)
    'epoch 2 of 30: loss 0.5000, held-out accuracy 90.00 %, 1,234 images a second'
    """
    held_out = entry["held_out_accuracy"]
    chosen = "" if held_out != held_out else f", held-out accuracy {_percent(held_out)}"
    rate = f"{entry['images_per_second']:,.0f} images a second"
    return f"epoch {entry['epoch']:.0f} of {epochs}: loss {entry['loss']:.4f}{chosen}, {rate}"


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _report(images: ImageDataset, results: list[dict[str, Any]], folders: dict[int, Path]) -> None:
    """Print what was trained, its scores, and how to load it."""
    (n, c, height, width), m = images.x_train.shape, len(images.x_test)
    print_line(
        f"{images.name}: {n} training and {m} test images, {c} x {height} x {width}, {len(images.classes)} classes; "
        f"{results[0]['network']}"
    )
    for result in results:
        seed = f"seed {result['seed']}, "
        print_line(f"{seed}last epoch ({result['epochs']}): {_scores(result)}")
        if result["best"]:
            print_line(f"{seed}best held-out epoch ({result['best']['best_epoch']}): {_scores(result['best'])}")
        print_line(f"{seed}{result['seconds']:.1f} s of training, {result['rate']:,.0f} images a second")
    if len(results) > 1:
        print_line(f"mean of {len(results)} seeds, last epoch: {_mean(results)}")
        if results[0]["best"]:
            print_line(f"mean of {len(results)} seeds, best held-out epoch: {_mean([r['best'] for r in results])}")
    for warning in dict.fromkeys(text for result in results for text in result["warnings"]):
        print_line(f"note: {' '.join(warning.split())}")
    last = folders[results[-1]["seed"]] / MODEL
    best = f", {BEST}" if results[0]["best"] else ""
    print_line(f"wrote {MODEL}{best} and history.csv to {', '.join(str(folder) for folder in folders.values())}")
    print_line(
        f"load it with: from genlabel.evaluation.images import load_network; network, classes = "
        f"load_network({str(last)!r})"
    )


def _scores(result: dict[str, Any]) -> str:
    return f"test accuracy {_percent(result['accuracy'])}, log-loss {result['log_loss']:.4f}"


def _mean(results: list[dict[str, Any]]) -> str:
    """Mean and standard deviation over the seeds."""
    from statistics import mean, stdev

    accuracy, loss = ([result[name] for result in results] for name in ("accuracy", "log_loss"))
    return (
        f"test accuracy {100 * mean(accuracy):.2f} ± {100 * stdev(accuracy):.2f} %, "
        f"log-loss {mean(loss):.4f} ± {stdev(loss):.4f}"
    )


def _prepare(folder: Path, resume: bool, restart: bool) -> None:
    """Make the folder, and see that no run in it is lost by mistake."""
    checkpoint = folder / CHECKPOINT
    if checkpoint.exists() and restart:
        checkpoint.unlink(missing_ok=True)
    elif checkpoint.exists() and not resume:
        raise ValueError(
            f"{str(checkpoint)!r} is there from an earlier run; go on from it with --resume, begin again with "
            "--restart, or name another folder with --output"
        )
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"output={str(folder)!r} is a file; name a folder with --output")
    check_outputs(output=folder / MODEL)


@contextmanager
def _progress(name: str, unit: str = "fit") -> Iterator[ProgressDisplay]:
    """Display progress, in the first process only."""
    with nullcontext(ProgressDisplay("", quiet=True)) if _rank() else display_progress(name, unit=unit) as display:
        yield display


def _in_group() -> bool:
    """Whether torchrun started this process."""
    return "WORLD_SIZE" in os.environ and "RANK" in os.environ


def _rank() -> int:
    return int(os.environ["RANK"]) if _in_group() else 0


@contextmanager
def _process_group(device: str) -> Iterator[None]:
    """The processes that torchrun started as one group; without torchrun, nothing."""
    if not _in_group():
        yield
        return
    import torch

    on_gpu = torch.cuda.is_available() and device != "cpu"
    if on_gpu:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    torch.distributed.init_process_group("nccl" if on_gpu else "gloo")
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()
