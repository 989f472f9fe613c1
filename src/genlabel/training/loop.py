"""The loop over one network: any batches, a table's or images', and whatever a step makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import as_rng
from genlabel._distributed import broadcast_from_rank0
from genlabel._progress import Callback, CallbackList
from genlabel._validation import check_choice
from genlabel.labeling import Labeler, LinearLabel, WeightedLabel
from genlabel.mixing import Mixer
from genlabel.mixing.base import check_within_batch
from genlabel.training.batched.best_epoch import EPOCH_CHOICES
from genlabel.training.batching import Batch, BatchPlan, Hyperparameters, TrainingTask, batches_per_epoch, check_task
from genlabel.training.checkpoint import Checkpoint
from genlabel.training.compile import CompileConfig, Stepper, cudnn_autotune, resolve_acceleration
from genlabel.training.early_stopping import BestState, Valid
from genlabel.training.networks import StagedNetwork
from genlabel.training.optimizers import Adam, Optimizer
from genlabel.training.step import NetworkStep, Step


def train_network(
    network: StagedNetwork,
    batches: Iterable[Batch | Sequence[Any]],
    *,
    mixer: Mixer | None = None,
    labeler: Labeler | None = None,
    learning_rate: float = 0.1,
    weight_decay: float = 1e-4,
    class_weight: NDArray[np.float64] | None = None,
    optimizer: Optimizer | None = None,
    epochs: int = 100,
    seed: Any = None,
    acceleration: CompileConfig | str | None = None,
    callback: Callback | None = None,
    checkpoint: Checkpoint | str | PathLike[str] | None = None,
    keep: str = "last",
    valid: Valid | None = None,
) -> NDArray[np.float64]:
    """Train a network in place (arXiv Alg. 1) and return the mean training loss of each epoch.

    A step draws how its batch is mixed, mixes it, lets the labeler observe features if it learns from them (arXiv
    Alg. 3), labels the mixed points, and goes down the cross-entropy. It never waits for a GPU. The network is in
    training mode meanwhile, and in its former mode afterwards; dtype and device are its own.

    Parameters
    ----------
    network : StagedNetwork
    batches : iterable of (x, y), (x, y, weight) or Batch
        Gone through once an epoch: a `DataLoader`, a list, or a :class:`genlabel.training.BatchPlan`. y are class
        indices
        (n,) or soft labels (n, k); weights are those of the points (n,), blended as they are; without any, every point
        counts alike.
    mixer : Mixer or None
        None mixes nothing.
    labeler : Labeler or None
        Fitted, or one that learns as the network trains; None is mixup's linear label.
    learning_rate, weight_decay : float
    class_weight : array (k,), optional
        Weight of each class in the cross-entropy.
    optimizer : Optimizer, optional
        Adam if not given.
    epochs : int
    seed : int, Generator or None
        Of the draws; a batch that brings its own needs none.
    acceleration : Acceleration, "auto" or None
        How steps are computed. None is plainly; "auto" is, on a GPU, bf16, compiled regions, and each step as one CUDA
        graph.
    callback : Callback, optional
        Its `on_epoch_end` receives the mean loss as a tensor on the device of the network, `logs["loss"]`.
    checkpoint : Checkpoint or path, optional
        A file that is written after each epoch, and from which a run goes on, on a CPU bit for bit. Batches with a
        state of their own, such as :class:`ImageBatches`, belong in it: `Checkpoint(path, also={"batches": batches})`.
    keep : "last" or "best"
        Whether the network ends as it was at the last epoch, or at the best one, of equal ones the first.
    valid : (x, y) or callable (network) -> float or floats, optional
        What the best epoch is chosen by: accuracy, and where that is equal log-loss, on rows that are not trained on;
        or a score, the larger the better.

    Examples
    --------
    >>> from genlabel.mixing import Mixup
    >>> from genlabel.training.networks import MLP
    >>> x, y = torch.tensor([[0.0], [1.0], [4.0], [5.0]]), torch.tensor([0, 0, 1, 1])
    >>> loader = [(x[:2], y[:2]), (x[2:], y[2:])]
    >>> train_network(MLP(1, 2, seed=0), loader, mixer=Mixup(), epochs=5, seed=0).shape
    (5,)
    """
    _check_kinds(network, mixer, labeler)
    how = resolve_acceleration(acceleration, network)
    labels = LinearLabel() if labeler is None else labeler
    step = NetworkStep(network, mixer, labels, class_weight, as_rng(seed), how)
    best = _best_state(network, keep, valid)
    losses = run_epochs(
        step,
        batches,
        optimizer=Adam() if optimizer is None else optimizer,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        epochs=epochs,
        acceleration=how,
        callback=CallbackList([best, callback]),
        checkpoint=checkpoint if best is None or checkpoint is None else _with(checkpoint, best),
    )
    if best is not None and len(losses):
        best.restore()
    return losses


def train_task(
    network: StagedNetwork,
    task: TrainingTask,
    candidate: Hyperparameters,
    *,
    optimizer: Optimizer | None = None,
    epochs: int = 100,
    batch_size: int = 128,
    callback: Callback | None = None,
    keep: str = "last",
) -> NDArray[np.float64]:
    """Train a network on a task, with the draws that a fleet would have; return the mean loss of each epoch.

    A :class:`genlabel.training.networks.MLP` trained here and a fleet of one, from the same weights and the same
    seed, end in
    the same place. With `keep="best"` it is the best epoch on the `valid` rows of the task.

    Examples
    --------
    >>> from genlabel.labeling import LinearLabel
    >>> from genlabel.mixing import Mixup
    >>> from genlabel.training.networks import MLP
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0, 0, 1, 1])
    >>> task = TrainingTask(X, y, 2, (LinearLabel().fit(X, y),), Mixup(), seed=0)
    >>> train_task(MLP(1, 2, seed=0), task, Hyperparameters(0.1), epochs=5).shape
    (5,)
    """
    check_task(task, network.depth, [candidate])
    return train_network(
        network,
        BatchPlan(task, batches_per_epoch(len(task.X), batch_size), next(network.parameters())),
        mixer=task.mixer,
        labeler=WeightedLabel(task.labelers, candidate.label),
        learning_rate=candidate.learning_rate,
        weight_decay=candidate.weight_decay,
        class_weight=task.class_weight,
        optimizer=optimizer,
        epochs=epochs,
        callback=callback,
        keep=keep,
        valid=task.valid if keep == "best" else None,
    )


def run_epochs(
    step: Step,
    batches: Iterable[Batch | Sequence[Any]],
    *,
    optimizer: Optimizer,
    learning_rate: float,
    weight_decay: float,
    epochs: int,
    acceleration: CompileConfig,
    callback: Callback | None = None,
    checkpoint: Checkpoint | str | PathLike[str] | None = None,
) -> NDArray[np.float64]:
    """Go through the batches once an epoch, a step each, and return the mean loss of each epoch.

    Parameters
    ----------
    step : Step
        What is made of a batch: :class:`NetworkStep`, or AdaMixup's.
    batches, optimizer, learning_rate, weight_decay, epochs, acceleration, callback, checkpoint
        As of :func:`train_network`.
    """
    for network in step.trained:
        acceleration.prepare(network)
    graphs = acceleration.graphs and step.capturable
    weights = [weight for network in step.trained for weight in network.parameters()]
    update = optimizer.for_network(weights, learning_rate, weight_decay, captured=graphs)
    file = checkpoint if isinstance(checkpoint, Checkpoint) or checkpoint is None else Checkpoint(checkpoint)
    losses = [] if file is None else file.load(step.learned, update, step.rng, weights[0].device)
    broadcast_from_rank0([*weights, *(buffer for network in step.trained for buffer in network.buffers())])
    stepper = Stepper(step.loss, update, graphs)
    with _training(step.trained), cudnn_autotune(acceleration):
        for epoch in range(len(losses), epochs):
            _set_rate(update, learning_rate * optimizer.factor(epoch, epochs))
            losses.append(_train_epoch(step, stepper, batches))
            step.check()
            if callback is not None:
                callback.on_epoch_end(epoch, {"loss": losses[-1]})
            if file is not None:
                file.save(step.learned, update, step.rng, losses, last=epoch + 1 == epochs)
    return _finite(torch.stack(losses).cpu().double().numpy() if losses else np.empty(0))


def _check_kinds(network: StagedNetwork, mixer: Mixer | None, labeler: Labeler | None) -> None:
    """Raise where something else is given than the loop can train, mix or label with."""
    if not isinstance(network, StagedNetwork):
        raise TypeError(f"network is a {type(network).__name__}; it must be a StagedNetwork, with encode and decode")
    if mixer is not None and not isinstance(mixer, Mixer):
        raise TypeError(f"mixer={mixer!r} must be None or a Mixer such as Mixup()")
    if labeler is not None and not isinstance(labeler, Labeler):
        raise TypeError(f"labeler={labeler!r} must be None or a Labeler such as GenLabel(KernelDensity()).fit(X, y)")
    if mixer is not None:
        check_within_batch(mixer)
    if mixer is not None and mixer.max_depth > network.depth:
        raise ValueError(
            f"{mixer!r} mixes at depth {mixer.max_depth}, but the network has {network.depth} hidden stages; name "
            "depths within them"
        )


def _best_state(network: StagedNetwork, keep: str, valid: Valid | None) -> BestState | None:
    """What keeps the best epoch, if it is to be kept."""
    check_choice("keep", keep, EPOCH_CHOICES)
    if keep == "last" and valid is not None:
        raise ValueError("valid has no effect where the last epoch is kept; use keep='best'")
    return BestState(network, valid) if keep == "best" else None


def _with(checkpoint: Checkpoint | str | PathLike[str], best: BestState) -> Checkpoint:
    """The checkpoint, with the best epoch so far in it."""
    given = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
    return Checkpoint(given.path, {**given.also, "best": best}, given.every)


def _finite(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """The losses, if they are numbers."""
    if not np.isfinite(losses).all():
        epoch = int(np.isfinite(losses).argmin()) + 1
        raise ValueError(f"the loss of epoch {epoch} is {losses[epoch - 1]}; lower learning_rate, or look for NaN in x")
    return losses


def _train_epoch(step: Step, stepper: Stepper, batches: Iterable[Batch | Sequence[Any]]) -> Tensor:
    """Go through the batches once; the mean loss stays where the network is."""
    losses = [stepper(step.ready(item if isinstance(item, Batch) else Batch(*item))) for item in batches]
    if not losses:
        raise ValueError("there are no batches: an iterator is used up after an epoch; give a list, a loader or a Plan")
    return torch.stack(losses).double().mean()


@contextmanager
def _training(networks: Sequence[StagedNetwork]) -> Iterator[None]:
    """Training mode inside, the former modes afterwards."""
    before = [network.training for network in networks]
    for network in networks:
        network.train()
    try:
        yield
    finally:
        for network, mode in zip(networks, before, strict=True):
            network.train(mode)


def _set_rate(update: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate; one that a graph reads stays where it is."""
    for group in update.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
