"""The loop for one staged network: draw, mix, observe, label, loss, in every step, for a table or for images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel.arrays import as_rng, one_hot, to_device
from genlabel.checks import check_choice
from genlabel.labeling import Labeler, LinearLabel
from genlabel.mixing import Mix, Mixer, Origin, blend, mix_batch, no_mix
from genlabel.networks import StagedNetwork
from genlabel.progress import Listener
from genlabel.training.optimizers import Adam, Optimizer
from genlabel.training.plan import Batch, Candidate, Plan, Task, batches_per_epoch, check_task

__all__ = ["SharedLabel", "soft_cross_entropy", "train_network", "train_task"]


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
    rng: Any = None,
    progress: Listener | None = None,
) -> NDArray[np.float64]:
    """Train a network in place (arXiv Alg. 1) and return the mean training loss of each epoch.

    A step draws how its batch is mixed, mixes it, lets the labeler observe features if it learns from them, labels the
    mixed points, and goes down the cross-entropy. It never waits for a GPU. The network is in training mode meanwhile,
    and in its former mode afterwards; dtype and device are its own.

    Parameters
    ----------
    network : StagedNetwork
    batches : iterable of (x, y), (x, y, weight) or Batch
        Gone through once an epoch: a `DataLoader`, a list, or a :class:`genlabel.training.Plan`. y are class indices
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
    rng : generator, seed or None
        Of the draws; a batch that brings its own needs none.
    progress : callable, optional
        Told of each epoch.

    Examples
    --------
    >>> from genlabel.mixing import Mixup
    >>> from genlabel.networks import MLP
    >>> x, y = torch.tensor([[0.0], [1.0], [4.0], [5.0]]), torch.tensor([0, 0, 1, 1])
    >>> loader = [(x[:2], y[:2]), (x[2:], y[2:])]
    >>> train_network(MLP(1, 2, rng=0), loader, mixer=Mixup(), epochs=5, rng=0).shape
    (5,)
    """
    _check_kinds(network, mixer, labeler)
    rule = Adam() if optimizer is None else optimizer
    update = rule.for_network(network.parameters(), learning_rate, weight_decay)
    step = _Step(network, mixer, LinearLabel() if labeler is None else labeler, class_weight, as_rng(rng))
    losses: list[Tensor] = []
    with _training(network):
        for epoch in range(epochs):
            _set_rate(update, learning_rate * rule.factor(epoch, epochs))
            losses.append(_train_epoch(step, batches, update))
            if progress is not None:
                progress(1)
    return _finite(torch.stack(losses).cpu().double().numpy() if losses else np.empty(0))


def train_task(
    network: StagedNetwork,
    task: Task,
    candidate: Candidate,
    *,
    optimizer: Optimizer | None = None,
    epochs: int = 100,
    batch_size: int = 128,
    progress: Listener | None = None,
) -> NDArray[np.float64]:
    """Train a network on a task, with the draws that a fleet would have; return the mean loss of each epoch.

    A :class:`genlabel.networks.MLP` trained here and a fleet of one, from the same weights and the same seed, end in
    the same place.

    Examples
    --------
    >>> from genlabel.labeling import LinearLabel
    >>> from genlabel.mixing import Mixup
    >>> from genlabel.networks import MLP
    >>> X, y = np.array([[0.0], [1.0], [4.0], [5.0]]), np.array([0, 0, 1, 1])
    >>> task = Task(X, y, 2, (LinearLabel().fit(X, y),), Mixup(), seed=0)
    >>> train_task(MLP(1, 2, rng=0), task, Candidate(0.1), epochs=5).shape
    (5,)
    """
    check_task(task, network.depth, [candidate])
    return train_network(
        network,
        Plan(task, batches_per_epoch(len(task.X), batch_size), next(network.parameters())),
        mixer=task.mixer,
        labeler=SharedLabel(task.labelers, candidate.label),
        learning_rate=candidate.learning_rate,
        weight_decay=candidate.weight_decay,
        class_weight=task.class_weight,
        optimizer=optimizer,
        epochs=epochs,
        progress=progress,
    )


def _check_kinds(network: StagedNetwork, mixer: Mixer | None, labeler: Labeler | None) -> None:
    """Raise where something else is given than the loop can train, mix or label with."""
    if not isinstance(network, StagedNetwork):
        raise TypeError(f"network is a {type(network).__name__}; it must be a StagedNetwork, with encode and decode")
    if mixer is not None and not isinstance(mixer, Mixer):
        raise TypeError(f"mixer={mixer!r} must be None or a Mixer such as Mixup()")
    if labeler is not None and not isinstance(labeler, Labeler):
        raise TypeError(f"labeler={labeler!r} must be None or a Labeler such as GenLabel(KernelDensity()).fit(X, y)")
    if mixer is not None and mixer.max_depth > network.depth:
        raise ValueError(
            f"{mixer!r} mixes at depth {mixer.max_depth}, but the network has {network.depth} hidden stages; name "
            "depths within them"
        )


def _finite(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """The losses, if they are numbers."""
    if not np.isfinite(losses).all():
        epoch = int(np.isfinite(losses).argmin()) + 1
        raise ValueError(f"the loss of epoch {epoch} is {losses[epoch - 1]}; lower learning_rate, or look for NaN in x")
    return losses


def soft_cross_entropy(scores: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """sum_i w_i sum_c -y_ic log softmax(s_i)_c: linear in the target, so one matrix serves every method."""
    return -(weight * (target * torch.log_softmax(scores, dim=-1)).sum(-1)).sum()


@final
class SharedLabel(Labeler):
    """The blend of several labelers' labels, with a fixed share of each: gamma y_gen + (1 - gamma) y_mix, say.

    Parameters
    ----------
    labelers : sequence of Labeler
        Fitted; none that learns while a network trains.
    shares : sequence of float

    Examples
    --------
    >>> halves = SharedLabel([LinearLabel(), LinearLabel()], [0.5, 0.5])
    >>> halves.label([[0.0], [0.0]], [0, 1], Mix(np.array([1, 0]), np.array([0.25, 1.0])))
    array([[0.25, 0.75],
           [0.  , 1.  ]])
    """

    def __init__(self, labelers: Sequence[Labeler], shares: Sequence[float]) -> None:
        self.labelers = labelers
        self.shares = shares

    @property
    def looks_at_points(self) -> bool:
        """Whether any of them does."""
        return any(labeler.looks_at_points for labeler in self.labelers)

    def _label(self, x_mix: Tensor, targets: Tensor, draw: Mix, origin: Origin) -> Tensor:
        for labeler in self.labelers:
            if labeler.learns_from is not None:
                raise ValueError(f"{labeler!r} learns while a network trains, and cannot share a label; use it alone")
        labels = torch.stack([labeler.label(x_mix, targets, draw, origin) for labeler in self.labelers], -1)
        shares: Tensor = labels @ to_device(np.asarray(self.shares), labels, labels.dtype)
        return shares


class _Passed(NamedTuple):
    """What a batch is after its way through the network."""

    points: Tensor
    """The mixed inputs."""
    features: Tensor
    """Those of the penultimate layer."""
    scores: Tensor


class _Step:
    """The loss of a batch: everything in a step but the update of the weights."""

    def __init__(
        self,
        network: StagedNetwork,
        mixer: Mixer | None,
        labeler: Labeler,
        class_weight: NDArray[np.float64] | None,
        rng: np.random.Generator,
    ) -> None:
        if labeler.learns_from is not None:
            check_choice("learns_from", labeler.learns_from, ["clean", "mixed"])
        self.network, self.mixer, self.labeler, self.rng = network, mixer, labeler, rng
        self.like = next(network.parameters())
        self.tilt = None if class_weight is None else to_device(class_weight, self.like, self.like.dtype)

    def loss(self, batch: Batch) -> Tensor:
        x = to_device(batch.x, self.like, self.like.dtype)
        draw = batch.draw or (no_mix(len(x)) if self.mixer is None else self.mixer.draw(len(x), self.rng))
        passed = self._forward(x, draw, batch.origin)
        targets = self._targets(batch.y, passed.scores)
        target = self._label(x, passed, targets, draw, batch.origin)
        if target.shape != passed.scores.shape:
            raise ValueError(
                f"{self.labeler!r} gave labels {tuple(target.shape)} for scores {tuple(passed.scores.shape)}; it must "
                "know the classes of the network"
            )
        if self.tilt is not None:
            target = target * self.tilt
        return soft_cross_entropy(passed.scores, target, self._weights(batch, x, draw))

    def _weights(self, batch: Batch, x: Tensor, draw: Mix) -> Tensor:
        """Weights in the loss, (n,), of sum 1; those that come with a draw are final."""
        if batch.weight is None:
            return x.new_full((len(x),), 1.0 / len(x))
        weight = to_device(batch.weight, x, x.dtype)
        if batch.draw is not None:
            return weight
        blended: Tensor = blend(weight, draw)
        return blended / blended.sum()

    def _forward(self, x: Tensor, draw: Mix, origin: Origin) -> _Passed:
        """Mix at the depth of the draw, and go on; a labeler of points sees the mixed inputs at any depth."""
        net, depth = self.network, int(draw.depth)
        asked = depth == 0 or self.labeler.looks_at_points
        points = mix_batch(self.mixer, x, draw, origin) if asked else x
        h = points if depth == 0 else mix_batch(self.mixer, net.encode(x, depth), draw, origin)
        features = net.encode(h, net.depth, start=depth)
        return _Passed(points, features, net.decode(features, net.depth))

    def _label(self, x: Tensor, passed: _Passed, targets: Tensor, draw: Mix, origin: Origin) -> Tensor:
        """Labels (n, k); a labeler that learns is shown features first, and labels features (arXiv Alg. 3)."""
        if self.labeler.learns_from is None:
            labels: Tensor = self.labeler.label(passed.points, targets, draw, origin)
            return labels
        features = passed.features.detach()
        with torch.no_grad():
            clean = self.labeler.learns_from == "clean"
            self.labeler.observe(self.network.encode(x, self.network.depth) if clean else features, targets, draw)
        return self.labeler.label(features, targets, draw, origin)

    def _targets(self, y: Any, scores: Tensor) -> Tensor:
        """Labels before mixing, (n, k); what lives on a GPU is not checked, for to know would be to wait."""
        given = torch.as_tensor(y)
        if not given.is_cuda:
            _check_labels(given, scores.shape[1])
        labels = to_device(given, scores)
        return one_hot(labels.long(), scores.shape[1], scores.dtype) if labels.ndim == 1 else labels.to(scores.dtype)


def _check_labels(y: Tensor, k: int) -> None:
    """Raise unless labels are class indices (n,) or rows on the simplex (n, k)."""
    if y.ndim == 1:
        if y.is_floating_point() or not bool(((y >= 0) & (y < k)).all()):
            raise ValueError(f"y must hold class indices, 0 to {k - 1}, the outputs of the network; it has {_some(y)}")
    elif y.shape[1:] != (k,) or not bool((y >= 0).all()) or not bool(((y.sum(1) - 1.0).abs() < 1e-3).all()):
        raise ValueError(f"soft labels must be (n, {k}), not negative, each row of sum 1; y has shape {tuple(y.shape)}")


def _some(y: Tensor) -> list[float]:
    return np.unique(y.numpy())[:5].tolist()


def _train_epoch(step: _Step, batches: Iterable[Batch | Sequence[Any]], update: torch.optim.Optimizer) -> Tensor:
    """Go through the batches once; the mean loss stays where the network is."""
    losses = []
    for item in batches:
        loss = step.loss(item if isinstance(item, Batch) else Batch(*item))
        update.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        update.step()
        losses.append(loss.detach())
    if not losses:
        raise ValueError("there are no batches: an iterator is used up after an epoch; give a list, a loader or a Plan")
    return torch.stack(losses).double().mean()


@contextmanager
def _training(network: StagedNetwork) -> Iterator[None]:
    """Training mode inside, the former mode afterwards."""
    before = network.training
    network.train()
    try:
        yield
    finally:
        network.train(before)


def _set_rate(update: torch.optim.Optimizer, rate: float) -> None:
    for group in update.param_groups:
        group["lr"] = rate
