"""Densities of all classes by one neural network: base class, training loop with early stopping."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, final
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from genlabel._arrays import Seed, Standardization, as_rng, chunks, named_device, one_hot
from genlabel._progress import Callback, training_callback
from genlabel._validation import check_count, check_interval, check_positive, suppress_own_warnings, warn
from genlabel.densities.base import ClassDensity, DensityWarning
from genlabel.densities.gaussian import GaussianDensity

MIN_CLASS_POINTS = 20  # distinct points of a class below which a Gaussian replaces the network
MAX_LAYER_VALUES, GPU_MAX_LAYER_VALUES = 1 << 18, 1 << 24  # values of the largest layer for the rows of one chunk
MAX_GRADIENT_NORM = 10.0

PointLoss = Callable[[Tensor, Tensor, np.random.Generator], Tensor]
"""Loss of each point, (n,), from points (n, d), one-hot classes (n, k) and a generator."""


class TrainingPoints(NamedTuple):
    """Training data of a network, in float32 on its device."""

    x: Tensor  # standardized points (n, d)
    c: Tensor  # one-hot classes (n, k)
    weight: Tensor  # weights (n,) of mean 1

    def select(self, rows: Tensor) -> TrainingPoints:
        """Return some of the rows."""
        return TrainingPoints(self.x[rows], self.c[rows], self.weight[rows])

    def mean_loss(self, loss: PointLoss, rng: np.random.Generator) -> Tensor:
        """Return the weighted mean of a loss."""
        return (self.weight * loss(self.x, self.c, rng)).sum() / self.weight.sum()

    def jittered(self, scale: float, rng: np.random.Generator) -> TrainingPoints:
        """Return the points with normal noise of the given standard deviation."""
        noise = torch.from_numpy(rng.standard_normal(self.x.shape, np.float32)).to(self.x)
        return self._replace(x=self.x + scale * noise)

    def split(self, fraction: float, rng: np.random.Generator) -> tuple[TrainingPoints, TrainingPoints]:
        """Return training and validation points; the latter are a fraction of each class, at least one point."""
        classes = self.c.argmax(1).cpu().numpy()
        mask = np.zeros(len(classes), dtype=bool)
        for c in range(self.c.shape[1]):
            rows = rng.permutation(np.flatnonzero(classes == c))
            mask[rows[: max(1, round(fraction * len(rows)))]] = True
        held_out = torch.from_numpy(mask).to(self.x.device)
        return self.select(~held_out), self.select(held_out)


class TrainingSchedule(NamedTuple):
    """Settings of the training loop."""

    epochs: int
    batch_size: int
    learning_rate: float  # initial rate of Adam; it follows a cosine to 0
    validation_fraction: float  # fraction of each class for validation
    patience: int  # epochs without improvement before training stops
    jitter: float  # standard deviation of the noise on the training points


def train_until_plateau(
    network: nn.Module,
    loss: PointLoss,
    points: TrainingPoints,
    schedule: TrainingSchedule,
    rng: np.random.Generator,
    callback: Callback | None = None,
) -> list[float]:
    """Train a network in place with early stopping; return the validation loss after each epoch.

    The network ends with the weights of its best epoch.

    >>> x = torch.tensor([[0.0], [1.0]]).repeat(50, 1)
    >>> points = TrainingPoints(x, torch.ones(100, 1), torch.ones(100))
    >>> network = nn.Linear(1, 1)
    >>> loss = lambda x, c, rng: (network(x) - 3.0 * x)[:, 0] ** 2
    >>> schedule = TrainingSchedule(200, 20, 0.05, 0.1, 50, 0.0)
    >>> losses = train_until_plateau(network, loss, points, schedule, np.random.default_rng(0))
    >>> round(network.weight.item(), 2)
    3.0
    """
    train, valid = points.split(schedule.validation_fraction, rng)
    valid_seed = int(rng.integers(2**31))
    optimizer = torch.optim.Adam(network.parameters(), schedule.learning_rate)
    losses: list[float] = []
    best: dict[str, Tensor] = {}
    for epoch in range(schedule.epochs):
        rate = 0.5 * schedule.learning_rate * (1.0 + math.cos(math.pi * epoch / schedule.epochs))
        optimizer.param_groups[0]["lr"] = rate
        order = torch.from_numpy(rng.permutation(len(train.x))).to(train.x.device)
        for rows in chunks(len(order), schedule.batch_size):
            optimizer.zero_grad()
            batch = train.select(order[rows]).jittered(schedule.jitter, rng)
            batch.mean_loss(loss, rng).backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(network.parameters(), MAX_GRADIENT_NORM)
            optimizer.step()
        with torch.no_grad():
            losses.append(float(valid.mean_loss(loss, np.random.default_rng(valid_seed))))
        if callback is not None:
            callback.on_epoch_end(epoch, {"loss": losses[-1]})
        if losses[-1] <= np.nanmin(np.array([*losses, math.inf])):
            best = {name: value.detach().clone() for name, value in network.state_dict().items()}
            best_epoch = epoch
        if not best or epoch - best_epoch >= schedule.patience:
            break
    if not best:
        raise ValueError(f"the loss is {losses[-1]} after an epoch; try a learning_rate below {schedule.learning_rate}")
    network.load_state_dict(best)
    return losses


def initialize(network: nn.Module, rng: np.random.Generator, gain: float = 1.0) -> None:
    """Draw the linear layers: weights uniform within gain / sqrt(fan-in), biases with a gain of 1."""
    with torch.no_grad():
        for layer in network.modules():
            if isinstance(layer, nn.Linear):
                bound = layer.in_features**-0.5
                for part in layer.parameters(recurse=False):
                    values = rng.uniform(-bound, bound, part.shape) * (gain if part.ndim > 1 else 1.0)
                    part.copy_(torch.from_numpy(values))


class NeuralDensity(ClassDensity):
    """Base class of the densities by one network of (standardized point, one-hot class).

    Points are standardized (log-densities are those of `X`) and in float32 on the `device`; all random numbers come
    from `random_state`; results do not depend on the names of the classes; epochs are reported to
    :mod:`genlabel._progress`. The fitted state is plain tensors on the CPU, `weights_`; queries use float64,
    on the GPU of the query or on `device`. A class with fewer than 20 distinct points gets a Gaussian, with a
    :class:`DensityWarning` that names it.

    A subclass has the parameters below and implements `_build`, `_train`, `_class_log_prob` and `_draw`; for training
    by one loss see :func:`train_until_plateau` with :meth:`_schedule`.

    Attributes
    ----------
    weights_ : dict of str -> Tensor
        State of the network; empty if every class is too small for it.
    class_inputs_ : ndarray (k,)
        Index of each class in the one-hot input of the network; -1 for those with a Gaussian.
    losses_ : list of float
        Validation loss after each epoch.
    """

    gain: ClassVar[float] = 1.0
    """Gain of the initial weights, see :func:`initialize`."""
    epochs: int
    batch_size: int
    learning_rate: float
    validation_fraction: float
    patience: int
    jitter: float
    device: Any
    verbose: int
    random_state: Any

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise if a parameter is invalid."""

    @abstractmethod
    def _build(self, d: int, k: int) -> nn.Module:
        """Return a network for `d` features and `k` classes; its linear layers are initialized afterwards."""

    @abstractmethod
    def _train(
        self, network: nn.Module, points: TrainingPoints, rng: np.random.Generator, callback: Callback | None
    ) -> list[float]:
        """Train the network in place and return `losses_`."""

    @abstractmethod
    def _class_log_prob(self, network: Any, x: Tensor, class_input: int) -> Tensor:
        """Return the differentiable log-density (m,) of standardized points (m, d) in float64 in one class."""

    @abstractmethod
    def _draw(self, network: Any, n: int, class_input: int, rng: np.random.Generator) -> Tensor:
        """Draw `n` standardized points (n, d) of a class."""

    @property
    @abstractmethod
    def _row_values(self) -> int:
        """Number of values of the largest layer for one row."""

    @final
    def sample(self, n: int, class_index: int, rng: Seed = None) -> NDArray[np.float64]:
        """Draw `n` points (n, d) of the class `classes_[class_index]`."""
        check_is_fitted(self, "classes_")
        check_count("n", n)
        if not 0 <= class_index < len(self.classes_):
            raise ValueError(f"class_index={class_index!r} must be at least 0 and below {len(self.classes_)}")
        generator = as_rng(rng)
        class_input = int(self.class_inputs_[class_index])
        if self.gaussian_ is not None and class_input < 0:
            mean, covariance = self.gaussian_.means_[class_index], self.gaussian_.covariances_[class_index]
            points = torch.from_numpy(generator.multivariate_normal(mean, covariance, n))
        else:
            with torch.no_grad():
                points = self._draw(self._network(named_device(self.device)), n, class_input, generator).cpu()
        result: NDArray[np.float64] = self.scaler_.inverse(points).numpy()
        return result

    @final
    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        self._check_parameters()
        device, rng = named_device(self.device), as_rng(self.random_state)
        self.scaler_ = Standardization.fit(X, weight, keep_constant=True)
        x = self.scaler_(X)
        # Inputs are in the order of appearance, so that class names do not matter.
        first = [int((index == c).nonzero()[0]) for c in range(len(self.classes_))]
        small = np.array([len(torch.unique(x[index == c], dim=0)) < MIN_CLASS_POINTS for c in range(len(first))])
        trained = [c for c in np.argsort(first).tolist() if not small[c]]
        self.class_inputs_ = np.full(len(first), -1, dtype=np.int64)
        self.class_inputs_[trained] = np.arange(len(trained))
        for name in self.classes_[small].tolist():
            reason = f"class {name!r} has fewer than {MIN_CLASS_POINTS} distinct points, too few for a"
            warn((type(self), name), f"{reason} {type(self).__name__}; using a Gaussian", DensityWarning)
        self.gaussian_ = None
        if small.any():
            with suppress_own_warnings():
                self.gaussian_ = GaussianDensity("ledoit-wolf", reg=1e-2).fit(x, index.numpy(), weight)
        self.weights_: dict[str, Tensor] = {}
        self.losses_: list[float] = []
        if trained:
            network = self._new_network()
            initialize(network, rng, self.gain)
            with training_callback(self.verbose, type(self).__name__) as callback:
                inputs = torch.from_numpy(self.class_inputs_)[index]
                mask = inputs >= 0
                classes = one_hot(inputs[mask], int(self.class_inputs_.max()) + 1, torch.float32)
                mass = (weight[mask] / weight[mask].mean()).float()
                points = TrainingPoints(*(part.to(device) for part in (x[mask].float(), classes, mass)))
                self.losses_ = self._train(network.to(device), points, rng, callback)
            self.weights_ = {name: value.detach().cpu() for name, value in network.state_dict().items()}

    @final
    def _log_prob(self, X: Tensor) -> Tensor:
        x = self.scaler_(X.double())
        if not x.is_cuda:
            x = x.to(named_device(self.device))
        network = self._network(x.device) if self.weights_ else None
        gaussian = self.gaussian_._log_prob(x) if self.gaussian_ is not None else None
        parts = chunks(len(x), max(1, (GPU_MAX_LAYER_VALUES if x.is_cuda else MAX_LAYER_VALUES) // self._row_values))
        columns = []
        for c, class_input in enumerate(self.class_inputs_.tolist()):
            if gaussian is not None and class_input < 0:
                columns.append(gaussian[:, c])
            else:
                columns.append(torch.cat([self._class_log_prob(network, x[rows], class_input) for rows in parts]))
        return (torch.stack(columns, 1) - self.scaler_.log_volume).to(X)

    def _new_network(self) -> nn.Module:
        with torch.random.fork_rng(devices=[]):  # the initialization by the layers is replaced
            return self._build(self.n_features_in_, int(self.class_inputs_.max()) + 1)

    def _network(self, device: torch.device) -> nn.Module:
        """Return the network with the fitted weights, in float64, from a cache outside of the density."""
        cached = _NETWORKS.get(self)
        if cached is None or cached[0] is not self.weights_ or cached[1] != device:
            network = self._new_network()
            network.load_state_dict(self.weights_)
            cached = (self.weights_, device, network.double().to(device).eval().requires_grad_(False))
            _NETWORKS[self] = cached
        return cached[2]

    @final
    def _schedule(self) -> TrainingSchedule:
        """Return the checked settings of the training loop."""
        return TrainingSchedule(
            check_count("epochs", self.epochs),
            check_count("batch_size", self.batch_size),
            check_positive("learning_rate", self.learning_rate, "0.01 is the usual choice"),
            check_interval("validation_fraction", self.validation_fraction, 0.01, 0.5, "0.1 is the usual choice"),
            check_count("patience", self.patience),
            check_interval("jitter", self.jitter, 0.0, 1.0, "it is relative to the standard deviation of a feature"),
        )


_NETWORKS: WeakKeyDictionary[NeuralDensity, tuple[dict[str, Tensor], torch.device, nn.Module]] = WeakKeyDictionary()
"""Built networks: not part of a density, whose state is plain arrays."""


def hidden_sizes(hidden: Any) -> tuple[int, ...]:
    """Return the checked sizes of hidden layers.

    >>> hidden_sizes([64, 64])
    (64, 64)
    """
    if isinstance(hidden, str | bytes) or not hasattr(hidden, "__iter__"):
        raise ValueError(f"hidden={hidden!r} must be a sequence of layer sizes such as (64, 64)")
    return tuple(check_count("hidden", size) for size in hidden)
