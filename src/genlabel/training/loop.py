"""Training loop over one network, for any batches and any step."""

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
from genlabel._progress import Callback, combine_callbacks
from genlabel._runtime import broadcast_from_rank0
from genlabel.labeling import Labeler, LinearLabel
from genlabel.mixing import Mixer
from genlabel.mixing.base import check_within_batch
from genlabel.training.batching import Batch, check_depths
from genlabel.training.checkpoint import Checkpoint
from genlabel.training.compile import CompileConfig, Stepper, cudnn_autotune, resolve_compile_config
from genlabel.training.early_stopping import BestState, Validation
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
    compile_config: CompileConfig | str | None = None,
    callback: Callback | None = None,
    checkpoint: Checkpoint | str | PathLike[str] | None = None,
    restore_best: bool = False,
    valid: Validation | None = None,
) -> NDArray[np.float64]:
    """Train a network in place (arXiv Alg. 1) and return the mean training loss of each epoch.

    A step draws how its batch is mixed, mixes it, lets the labeler observe features if it learns from them (arXiv
    Alg. 3), labels the mixed points, and descends the cross-entropy. It never waits for a GPU. The network is trained
    in its dtype and on its device; its training mode is restored afterwards.

    Parameters
    ----------
    network : StagedNetwork
    batches : iterable of (x, y), (x, y, weight) or Batch
        Batches, iterated once per epoch: a `DataLoader`, a list, or a :class:`genlabel.training.BatchPlan`. y are class
        indices (n,) or soft labels (n, k); weights are those of the points (n,), blended like them, equal by default.
    mixer : Mixer or None
        None is plain training.
    labeler : Labeler or None
        Fitted labeler, or one that learns as the network trains; None is mixup's linear label.
    learning_rate, weight_decay : float
    class_weight : array (k,), optional
        Weight of each class in the cross-entropy.
    optimizer : Optimizer, optional
        Adam by default.
    epochs : int
    seed : int, Generator or None
        Seed of the draws of batches that bring none.
    compile_config : CompileConfig, "auto" or None
        Execution of steps. None is plain; "auto" is, on a GPU, bf16, compiled regions, and one CUDA graph per step.
    callback : Callback, optional
        Its `on_epoch_end` receives the mean loss, `logs["loss"]`, as a tensor on the device of the network.
    checkpoint : Checkpoint or path, optional
        File written after each epoch, from which a run resumes, on a CPU bit for bit. Batches with a state, such as
        :class:`ImageBatches`, belong in it: `Checkpoint(path, also={"batches": batches})`.
    restore_best : bool
        If True, restore the network of the best epoch at the end, of equally good ones the first.
    valid : (x, y) or callable (network) -> float or floats, optional
        Validation rows that choose the best epoch, by accuracy, then log-loss; or a score, the larger the better.

    Examples
    --------
    >>> from genlabel.mixing import Mixup
    >>> from genlabel.training.networks import MLP
    >>> x, y = torch.tensor([[0.0], [1.0], [4.0], [5.0]]), torch.tensor([0, 0, 1, 1])
    >>> loader = [(x[:2], y[:2]), (x[2:], y[2:])]
    >>> train_network(MLP(1, 2, seed=0), loader, mixer=Mixup(), epochs=5, seed=0).shape
    (5,)
    """
    if not isinstance(network, StagedNetwork):
        raise TypeError(f"network is a {type(network).__name__}; it must be a StagedNetwork, with encode and decode")
    if mixer is not None and not isinstance(mixer, Mixer):
        raise TypeError(f"mixer={mixer!r} must be None or a Mixer such as Mixup()")
    if labeler is not None and not isinstance(labeler, Labeler):
        raise TypeError(f"labeler={labeler!r} must be None or a Labeler such as GenLabel(KernelDensity()).fit(X, y)")
    if valid is not None and not restore_best:
        raise ValueError("valid has no effect without restore_best=True")
    if mixer is not None:
        check_within_batch(mixer)
    check_depths(mixer, network.depth)
    config = resolve_compile_config(compile_config, network)
    labeler = LinearLabel() if labeler is None else labeler
    step = NetworkStep(network, mixer, labeler, class_weight, as_rng(seed), config)
    best = BestState(network, valid) if restore_best else None
    if best is not None:
        step.modules["best"] = best
    losses = run_epochs(
        step,
        batches,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        optimizer=optimizer,
        epochs=epochs,
        callback=combine_callbacks(best, callback),
        checkpoint=checkpoint,
    )
    if best is not None and len(losses):
        best.restore()
    return losses


def run_epochs(
    step: Step,
    batches: Iterable[Batch | Sequence[Any]],
    *,
    learning_rate: float,
    weight_decay: float,
    optimizer: Optimizer | None,
    epochs: int,
    callback: Callback | None,
    checkpoint: Checkpoint | str | PathLike[str] | None,
) -> NDArray[np.float64]:
    """Take a step on each batch, once per epoch, and return the mean loss of each epoch; see :func:`train_network`."""
    config, rule = step.config, Adam() if optimizer is None else optimizer
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(checkpoint)
    for network in step.networks:
        config.prepare(network)
    graphs = config.graphs and step.capturable
    weights = [weight for network in step.networks for weight in network.parameters()]
    torch_optimizer = rule.for_network(weights, learning_rate, weight_decay, captured=graphs)
    losses: list[Tensor] = []
    if checkpoint is not None:
        losses = checkpoint.load(step.modules, torch_optimizer, step.rng, weights[0].device)
    broadcast_from_rank0([*weights, *(buffer for network in step.networks for buffer in network.buffers())])
    stepper = Stepper(step.loss, torch_optimizer, graphs)
    with _train_mode(step.networks), cudnn_autotune(config):
        for epoch in range(len(losses), epochs):
            rate = learning_rate * rule.factor(epoch, epochs)
            for group in torch_optimizer.param_groups:
                if isinstance(group["lr"], Tensor):  # read by a CUDA graph
                    group["lr"].fill_(rate)
                else:
                    group["lr"] = rate
            items = (item if isinstance(item, Batch) else Batch(*item) for item in batches)
            step_losses = [stepper(step.prepare(item)) for item in items]
            if not step_losses:
                raise ValueError("batches is empty; pass a list, a loader or a BatchPlan (an iterator lasts one epoch)")
            losses.append(torch.stack(step_losses).double().mean())
            step.check()
            if callback is not None:
                callback.on_epoch_end(epoch, {"loss": losses[-1]})
            if checkpoint is not None:
                checkpoint.save(step.modules, torch_optimizer, step.rng, losses, last=epoch + 1 == epochs)
    values = torch.stack(losses).cpu().double().numpy() if losses else np.empty(0)
    if not np.isfinite(values).all():
        epoch = int(np.isfinite(values).argmin())
        raise ValueError(f"the loss of epoch {epoch + 1} is {values[epoch]}; lower learning_rate, or remove NaN from x")
    return values


@contextmanager
def _train_mode(networks: Sequence[StagedNetwork]) -> Iterator[None]:
    """Put networks in training mode; restore their modes afterwards."""
    before = [network.training for network in networks]
    for network in networks:
        network.train()
    try:
        yield
    finally:
        for network, mode in zip(networks, before, strict=True):
            network.train(mode)
