"""`genlabel train-images`: one method on one dataset of images, on a CPU, a GPU or several."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from statistics import mean, median_high, stdev
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genlabel._atomic_io import atomic_writer
from genlabel._progress import LambdaCallback, ProgressDisplay
from genlabel._text import count_of
from genlabel.cli import options
from genlabel.reporting.terminal import print_line

if TYPE_CHECKING:
    from genlabel.data.datasets import ImageDataset


CHECKPOINT, MODEL, BEST = "checkpoint.pt", "model.pt", "best.pt"


ImageMethodName = StrEnum(
    "ImageMethodName",
    ["vanilla", "mixup", "genlabel", "manifold", "manifold-genlabel", "cutmix", "cutmix-genlabel", "adamixup"],
)
Network = StrEnum("Network", ["auto", "lenet5", "resnet18", "preact-resnet18"])
"""Names of methods and networks; a test compares them with those of `genlabel.evaluation`."""
Statistics = StrEnum("Statistics", ["near", "clean", "part"])
"""Points from which the Gaussians of GenLabel are estimated."""
LamPer = StrEnum("LamPer", ["sample", "batch"])
"""Unit that has a mixing weight of its own."""
Precision = StrEnum("Precision", ["auto", "float32", "bf16"])
SETTINGS = ("method", "network", "epochs", "batch_size", "learning_rate", "weight_decay", "alpha", "lam_per", "gamma",
            "beta", "statistics", "augment", "device", "precision")  # fmt: skip
"""Options that `genlabel.evaluation.train_images` has under the same name."""


def train_images(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="mnist, fashion-mnist, cifar10, cifar100, tinyimagenet or digits; an .npz file with x_train, y_train, "
            "x_test, y_test; or a folder with a folder for each class, or with such folders train and test.",
        ),
    ],
    method: Annotated[
        ImageMethodName, typer.Option(help="Mixing and labels of the mixed images.")
    ] = ImageMethodName.genlabel,
    network: Annotated[
        Network, typer.Option(help="auto: LeNet-5 for small gray images, ResNet-18 for others.")
    ] = Network.auto,
    epochs: Annotated[int, typer.Option(min=1, help="Training epochs.")] = 30,
    batch_size: Annotated[int, typer.Option(min=1, help="Images per step.")] = 128,
    learning_rate: Annotated[
        float, typer.Option(help="Learning rate of SGD, divided by 10 after 1/2 and 3/4 of the epochs.")
    ] = 0.1,
    weight_decay: Annotated[float, typer.Option(min=0.0, help="Weight decay of SGD.")] = 1e-4,
    alpha: Annotated[
        float | None,
        typer.Option(help="The mixing weights are drawn from Beta(alpha, alpha).", show_default="1, manifold 2"),
    ] = None,
    lam_per: Annotated[LamPer, typer.Option(help="A mixing weight for each image or for each batch.")] = LamPer.sample,
    gamma: Annotated[
        str | None,
        typer.Option(
            help="Weight of the generative label, 0 to 1; auto follows how well it predicts.",
            show_default="0.1",
        ),
    ] = None,
    beta: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Decay of the moving averages of the Gaussians.", show_default="0.95"),
    ] = None,
    statistics: Annotated[
        Statistics | None,
        typer.Option(
            help="Points of the Gaussians: nearly clean mixed points, all clean points, or some of these.",
            show_default="near",
        ),
    ] = None,
    augment: Annotated[
        bool | None,
        typer.Option("--augment/--no-augment", help="Random crops and flips.", show_default="for color images"),
    ] = None,
    val_fraction: Annotated[
        float, typer.Option(min=0.0, max=0.5, help="Share of the training images that choose the best epoch.")
    ] = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of weights, order, mixing and validation images.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds to train with, starting at --seed.")] = 1,
    jobs: options.Jobs = 1,
    device: options.Device = "auto",
    precision: Annotated[Precision, typer.Option(help="auto is bf16 on a GPU that supports it.")] = Precision.auto,
    size: Annotated[int | None, typer.Option(min=1, help="Width to which images of a folder are resized.")] = None,
    data_home: Annotated[
        Path | None, typer.Option(help="Folder with the files of a named dataset.", show_default="GENLABEL_DATA_HOME")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder of the results.", show_default="build/images/<name>/<method>")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume from the checkpoint in the folder.")] = False,
    restart: options.Restart = False,
) -> None:
    """Train a network on images, and print its test accuracy and log-loss.

    The folder gets model.pt (last epoch), best.pt (best epoch on validation images), history.csv and a checkpoint after
    each epoch. Under torchrun all processes train one network.
    """
    settings = {name: getattr(value, "value", value) for name, value in locals().items() if name in SETTINGS}
    settings["held_out"] = val_fraction
    with options.one_line_errors(), ProgressDisplay(f"loading {data}", quiet=_rank() > 0):
        with suppress(ValueError, TypeError):
            settings["gamma"] = float(gamma)  # type: ignore[arg-type]
        options.check_jobs(jobs)
        if resume and restart:
            raise ValueError("--resume continues a run and --restart deletes it; give one of them")
        if jobs != 1 and _under_torchrun():
            raise ValueError(f"jobs={jobs} and torchrun cannot be combined; leave --jobs out")
        from genlabel.data.datasets import load_images

        images = load_images(data, data_home, size=size)
        folder = output or Path("build", "images", images.name, method.value)
        folders = {n: folder if seeds == 1 else folder / f"seed-{n}" for n in range(seed, seed + seeds)}
        for path in folders.values():
            _prepare_folder(path, resume, restart)
    finished = f"finished epochs are in {folder}; --resume continues from there"
    with options.one_line_errors(finished), _process_group(device):
        results = _train_seeds(images, folders, settings, jobs)
        if _rank() == 0:
            _print_results(images, results, folders)


def _train_seeds(
    images: ImageDataset, folders: dict[int, Path], settings: dict[str, Any], jobs: int
) -> list[dict[str, Any]]:
    """Return the results of each seed: one after the other with a line per epoch, or in parallel processes."""
    name = f"{images.name}, {settings['method']}: {count_of(settings['epochs'], 'epoch')}"
    if jobs == 1:
        with ProgressDisplay(name, unit="epoch", quiet=_rank() > 0) as display:
            display.start(len(folders) * settings["epochs"])
            return [_train_seed(images, seed, folder, settings, display) for seed, folder in folders.items()]
    from joblib import delayed

    from genlabel._processes import process_pool

    with ProgressDisplay(f"{name}, {len(folders)} seeds", unit="seed", quiet=_rank() > 0) as display:
        display.start(len(folders))
        tasks = (delayed(_train_in_worker)(images, *item, settings) for item in folders.items())
        results = []
        for result in process_pool(jobs, max_nbytes=None)(tasks):
            results.append(result)
            display.step(f"seed {result['seed']}: test accuracy {100 * result['accuracy']:.2f} %")
    return sorted(results, key=lambda result: result["seed"])


def _train_in_worker(images: ImageDataset, seed: int, folder: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Train silently on one thread."""
    import torch

    torch.set_num_threads(1)
    return _train_seed(images, seed, folder, settings, ProgressDisplay("", quiet=True))


def _train_seed(
    images: ImageDataset, seed: int, folder: Path, settings: dict[str, Any], display: ProgressDisplay
) -> dict[str, Any]:
    """Train with one seed, write the models and the history, and return the scores."""
    import pandas as pd

    from genlabel.evaluation.images import train_images as train

    epochs = settings["epochs"]
    lines = LambdaCallback(on_epoch_end=lambda _, logs: display.step(f"seed {seed}, {epoch_line(logs, epochs)}"))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trained = train(images, seed=seed, checkpoint=folder / CHECKPOINT, callback=lines, **settings)
    if _rank() == 0:
        trained.save(folder / MODEL)
        if trained.best_state is not None:
            trained.save(folder / BEST, best=True)
        with atomic_writer(folder / "history.csv") as temporary:
            pd.DataFrame(trained.history).to_csv(temporary, index=False)
    best = {} if trained.best_test is None else {"best_epoch": trained.best_epoch, **trained.best_test._asdict()}
    return {
        "seed": seed,
        "network": trained.architecture[0],
        **trained.test._asdict(),
        "best": best,
        "epochs": len(trained.history),
        "seconds": trained.seconds,
        "rate": median_high(entry["images_per_second"] for entry in trained.history),
        "warnings": sorted({str(warning.message) for warning in caught}),
    }


def epoch_line(entry: Mapping[str, Any], epochs: int) -> str:
    """Return the values of an epoch in words.

    >>> epoch_line({"epoch": 2, "loss": 0.5, "held_out_accuracy": 0.9, "images_per_second": 1234.0}, 30)
    'epoch 2 of 30: loss 0.5000, validation accuracy 90.00 %, 1,234 images/s'
    """
    accuracy = entry["held_out_accuracy"]
    validation = "" if accuracy != accuracy else f", validation accuracy {100 * accuracy:.2f} %"
    rate = f"{entry['images_per_second']:,.0f} images/s"
    return f"epoch {entry['epoch']:.0f} of {epochs}: loss {entry['loss']:.4f}{validation}, {rate}"


def _print_results(images: ImageDataset, results: list[dict[str, Any]], folders: dict[int, Path]) -> None:
    """Print the data, the scores of each seed and their mean, warnings, and how to load the model."""
    n, *shape = images.x_train.shape
    sizes = f"{n} training and {len(images.x_test)} test images, {' x '.join(map(str, shape))}"
    print_line(f"{images.name}: {sizes}, {len(images.classes)} classes; {results[0]['network']}")
    for result in results:
        seed, best = f"seed {result['seed']}, ", result["best"]
        print_line(f"{seed}last epoch ({result['epochs']}): {_scores([result])}")
        if best:
            print_line(f"{seed}best validation epoch ({best['best_epoch']}): {_scores([best])}")
        print_line(f"{seed}{result['seconds']:.1f} s of training, {result['rate']:,.0f} images/s")
    if len(results) > 1:
        print_line(f"mean of {len(results)} seeds, last epoch: {_scores(results)}")
        if results[0]["best"]:
            best_scores = _scores([result["best"] for result in results])
            print_line(f"mean of {len(results)} seeds, best validation epoch: {best_scores}")
    for warning in dict.fromkeys(text for result in results for text in result["warnings"]):
        print_line(f"note: {' '.join(warning.split())}")
    last = folders[results[-1]["seed"]] / MODEL
    files = f"{MODEL}, {BEST}" if results[0]["best"] else MODEL
    print_line(f"wrote {files} and history.csv to {', '.join(map(str, folders.values()))}")
    load = f"from genlabel.evaluation import load_network; network, classes = load_network({str(last)!r})"
    print_line(f"load it with: {load}")


def _scores(results: list[dict[str, Any]]) -> str:
    """Return the scores of a seed, or mean and standard deviation over several."""
    accuracy = [result["accuracy"] for result in results]
    loss = [result["log_loss"] for result in results]
    if len(results) == 1:
        return f"test accuracy {100 * accuracy[0]:.2f} %, log-loss {loss[0]:.4f}"
    return (
        f"test accuracy {100 * mean(accuracy):.2f} ± {100 * stdev(accuracy):.2f} %, log-loss {mean(loss):.4f} ± "
        f"{stdev(loss):.4f}"
    )


def _prepare_folder(folder: Path, resume: bool, restart: bool) -> None:
    """Create the folder; raise if it has a run and neither `resume` nor `restart` is set."""
    checkpoint = folder / CHECKPOINT
    if checkpoint.exists() and restart:
        checkpoint.unlink(missing_ok=True)
    elif checkpoint.exists() and not resume:
        raise ValueError(
            f"{str(checkpoint)!r} is from an earlier run; continue it with --resume, delete it with --restart, or name "
            "another folder with --output"
        )
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"output={str(folder)!r} is a file; name a folder with --output")
    options.check_outputs(output=folder / MODEL)


def _under_torchrun() -> bool:
    """Return whether torchrun started this process."""
    return "WORLD_SIZE" in os.environ and "RANK" in os.environ


def _rank() -> int:
    return int(os.environ["RANK"]) if _under_torchrun() else 0


@contextmanager
def _process_group(device: str) -> Iterator[None]:
    """Join the processes that torchrun started; without torchrun do nothing."""
    if not _under_torchrun():
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
