"""Densities of all classes by one neural network: base class, training with early stopping, normalizing flow."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple, final
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from genlabel._arrays import Seed, Standardization, as_rng, chunks, named_device, one_hot
from genlabel._progress import training_callback
from genlabel._validation import check_choice, check_count, check_interval, check_positive, suppress_own_warnings, warn
from genlabel.densities.base import ClassDensity, DensityWarning
from genlabel.densities.gaussian import GaussianDensity
from genlabel.registry import DENSITIES

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
        return TrainingPoints(*(part[rows] for part in self))

    def mean_loss(self, loss: PointLoss, rng: np.random.Generator) -> Tensor:
        """Return the weighted mean of a loss."""
        return (self.weight * loss(self.x, self.c, rng)).sum() / self.weight.sum()

    def split(self, fraction: float, rng: np.random.Generator) -> tuple[TrainingPoints, TrainingPoints]:
        """Return training and validation points; the latter are a fraction of each class, at least one point."""
        classes = self.c.argmax(1).cpu().numpy()
        held_out = torch.zeros(len(classes), dtype=torch.bool, device=self.x.device)
        for c in range(self.c.shape[1]):
            rows = rng.permutation(np.flatnonzero(classes == c))
            held_out[rows[: max(1, round(fraction * len(rows)))]] = True
        return self.select(~held_out), self.select(held_out)


def initialize(network: nn.Module, rng: np.random.Generator, gain: float = 1.0) -> None:
    """Draw the linear layers: weights uniform within gain / sqrt(fan-in), biases with a gain of 1."""
    with torch.no_grad():
        for layer in network.modules():
            if isinstance(layer, nn.Linear):
                bound = layer.in_features**-0.5
                for part in layer.parameters(recurse=False):
                    values = rng.uniform(-bound, bound, part.shape) * (gain if part.ndim > 1 else 1.0)
                    part.copy_(torch.from_numpy(values))


@dataclass(eq=False, repr=False, kw_only=True)
class NeuralDensity(ClassDensity):
    """Base class of the densities by one network of (standardized point, one-hot class).

    Points are standardized and in float32 on the `device`; results do not depend on the names of the classes. The
    fitted state is plain tensors on the CPU; queries use float64, on the GPU of the query or on `device`. A class with
    fewer than 20 distinct points gets a Gaussian, with a :class:`DensityWarning` that names it. A subclass implements
    the abstract methods. The parameters are described in :class:`FlowDensity`.

    Attributes
    ----------
    weights_ : dict of str -> Tensor
        State of the network; empty if every class is too small for it.
    class_inputs_ : ndarray (k,)
        Index of each class in the one-hot input of the network; -1 for those with a Gaussian.
    losses_ : list of float
        Validation loss of standardized points after each epoch.
    """

    epochs: int = 100
    batch_size: int = 256
    learning_rate: float = 1e-2
    validation_fraction: float = 0.1
    patience: int = 30
    jitter: float = 0.02
    device: Any = "auto"
    verbose: int = 0
    random_state: int | np.random.Generator | None = 0

    gain: ClassVar[float] = 1.0
    """Gain of the initial weights, see :func:`initialize`."""

    def _check_parameters(self) -> None:
        """Raise if a parameter is invalid."""
        for name in ("epochs", "batch_size", "patience"):
            check_count(name, getattr(self, name))
        check_positive("learning_rate", self.learning_rate, "0.01 is the usual choice")
        check_interval("validation_fraction", self.validation_fraction, 0.01, 0.5, "0.1 is the usual choice")
        check_interval("jitter", self.jitter, 0.0, 1.0, "it is relative to the standard deviation of a feature")

    @abstractmethod
    def _build(self, d: int, k: int) -> nn.Module:
        """Return a network for `d` features and `k` classes; its linear layers are initialized afterwards."""

    @abstractmethod
    def _point_loss(self, network: Any, rng: np.random.Generator) -> PointLoss:
        """Return the loss that trains the network."""

    @abstractmethod
    def _class_log_prob(self, network: Any, x: Tensor, c: Tensor) -> Tensor:
        """Return the differentiable log-density (m,) of standardized points (m, d) in the class of a one-hot (k,)."""

    @abstractmethod
    def _draw(self, network: Any, n: int, c: Tensor, rng: np.random.Generator) -> Tensor:
        """Draw `n` standardized points (n, d) of the class of a one-hot (k,)."""

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
            network, one_hots = self._network(named_device(self.device))
            with torch.no_grad():
                points = self._draw(network, n, one_hots[class_input], generator).cpu()
        return np.asarray(self.scaler_.inverse(points))

    @final
    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        self._check_parameters()
        device, rng = named_device(self.device), as_rng(self.random_state)
        self.scaler_ = Standardization.fit(X, weight, keep_constant=True)
        x = self.scaler_(X)
        k = len(self.classes_)
        is_small = np.array([len(torch.unique(x[index == c], dim=0)) < MIN_CLASS_POINTS for c in range(k)])
        # Inputs are in the order of appearance, so that class names do not matter.
        trained = [c for c in dict.fromkeys(index.tolist()) if not is_small[c]]
        self.class_inputs_ = np.full(k, -1, dtype=np.int64)
        self.class_inputs_[trained] = np.arange(len(trained))
        for name in self.classes_[is_small].tolist():
            reason = f"class {name!r} has fewer than {MIN_CLASS_POINTS} distinct points, too few for a"
            warn((type(self), name), f"{reason} {type(self).__name__}; using a Gaussian", DensityWarning)
        with suppress_own_warnings():
            gaussian = GaussianDensity("ledoit-wolf", reg=1e-2)
            self.gaussian_ = gaussian.fit(x, index.numpy(), weight) if is_small.any() else None
        self.weights_: dict[str, Tensor] = {}
        self.losses_: list[float] = []
        if trained:
            network = self._new_network()
            initialize(network, rng, self.gain)
            inputs = torch.from_numpy(self.class_inputs_)[index]
            mask = inputs >= 0
            classes = one_hot(inputs[mask], len(trained), torch.float32)
            mass = (weight[mask] / weight[mask].mean()).float()
            points = TrainingPoints(*(part.to(device) for part in (x[mask].float(), classes, mass)))
            self.losses_ = self._train(network.to(device), points, rng)
            self.weights_ = {name: value.detach().cpu() for name, value in network.state_dict().items()}

    def _train(self, network: nn.Module, points: TrainingPoints, rng: np.random.Generator) -> list[float]:
        """Train a network in place, with early stopping and the best weights; return the validation losses."""
        loss = self._point_loss(network, rng)
        train, valid = points.split(float(self.validation_fraction), rng)
        valid_seed, learning_rate = int(rng.integers(2**31)), float(self.learning_rate)
        optimizer = torch.optim.Adam(network.parameters(), learning_rate)
        losses: list[float] = []
        best: dict[str, Tensor] = {}
        with training_callback(self.verbose, type(self).__name__) as callback:
            for epoch in range(self.epochs):
                rate = 0.5 * learning_rate * (1.0 + math.cos(math.pi * epoch / self.epochs))
                optimizer.param_groups[0]["lr"] = rate
                order = torch.from_numpy(rng.permutation(len(train.x))).to(train.x.device)
                for rows in chunks(len(order), self.batch_size):
                    optimizer.zero_grad()
                    batch = train.select(order[rows])
                    noise = torch.from_numpy(rng.standard_normal(batch.x.shape, np.float32)).to(batch.x)
                    batch = batch._replace(x=batch.x + float(self.jitter) * noise)
                    batch.mean_loss(loss, rng).backward()  # type: ignore[no-untyped-call]
                    nn.utils.clip_grad_norm_(network.parameters(), MAX_GRADIENT_NORM)
                    optimizer.step()
                with torch.no_grad():
                    losses.append(float(valid.mean_loss(loss, np.random.default_rng(valid_seed))))
                if callback is not None:
                    callback.on_epoch_end(epoch, {"loss": losses[-1]})
                if losses[-1] <= np.nanmin(np.array([*losses, math.inf])):  # never for NaN
                    best = {name: value.detach().clone() for name, value in network.state_dict().items()}
                    best_epoch = epoch
                if not best or epoch - best_epoch >= self.patience:
                    break
        if not best:
            raise ValueError(f"the loss is {losses[-1]} after an epoch; try a learning_rate below {learning_rate}")
        network.load_state_dict(best)
        return losses

    @final
    def _log_prob(self, X: Tensor) -> Tensor:
        x = self.scaler_(X.double())
        if not x.is_cuda:
            x = x.to(named_device(self.device))
        network, one_hots = self._network(x.device) if self.weights_ else (None, x)
        gaussian = self.gaussian_._log_prob(x) if self.gaussian_ is not None else None
        parts = chunks(len(x), max(1, (GPU_MAX_LAYER_VALUES if x.is_cuda else MAX_LAYER_VALUES) // self._row_values))
        columns = [
            gaussian[:, c]
            if gaussian is not None and class_input < 0
            else torch.cat([self._class_log_prob(network, x[rows], one_hots[class_input]) for rows in parts])
            for c, class_input in enumerate(self.class_inputs_.tolist())
        ]
        return (torch.stack(columns, 1) - self.scaler_.log_volume).to(X)

    def _new_network(self) -> nn.Module:
        """Return an untrained network, without drawing from the global generator of torch."""
        with torch.random.fork_rng(devices=[]):  # layers draw weights when they are made
            return self._build(self.n_features_in_, int(self.class_inputs_.max()) + 1)

    def _network(self, device: torch.device) -> tuple[nn.Module, Tensor]:
        """Return the network with the fitted weights, in float64, from the cache, and the one-hot inputs."""
        cached = _NETWORKS.get(self)
        if cached is None or cached[0] is not self.weights_ or cached[1] != device:
            network = self._new_network()
            network.load_state_dict(self.weights_)
            cached = (self.weights_, device, network.double().to(device).eval().requires_grad_(False))
            _NETWORKS[self] = cached
        return cached[2], torch.eye(int(self.class_inputs_.max()) + 1, dtype=torch.float64, device=device)


_NETWORKS: WeakKeyDictionary[NeuralDensity, tuple[dict[str, Tensor], torch.device, nn.Module]] = WeakKeyDictionary()
"""Cache of built networks; it is not part of a density, whose state is plain arrays."""


def hidden_sizes(hidden: Any) -> tuple[int, ...]:
    """Return the checked sizes of hidden layers."""
    if isinstance(hidden, str | bytes) or not hasattr(hidden, "__iter__"):
        raise ValueError(f"hidden={hidden!r} must be a sequence of layer sizes such as (64, 64)")
    return tuple(check_count("hidden", size) for size in hidden)


@DENSITIES.register("flow")
@final
@dataclass(eq=False, repr=False)
class FlowDensity(NeuralDensity):
    r"""A normalizing flow, conditional on the class: p_c(x) = N(f_c(x); 0, I) |det df_c/dx|.

    One network of the point and the one-hot class defines an autoregressive map f_c for every class: rational-quadratic
    splines (Durkan et al., arXiv 1906.04032) or affine maps (Papamakarios et al., arXiv 1705.07057), from `zuko`
    (`pip install "genlabel[flows]"`). Beyond 5 standard deviations a spline is the identity, so that far points have
    Gaussian tails.

    In GenMix it spares the inversion of a generator (arXiv Section F.6).

    Choose another density for classes of less than a few hundred points, and for classes in several pieces, which a
    flow connects by thin bridges.

    Parameters
    ----------
    kind : "spline" or "maf"
    transforms, bins : int
        Number of successive maps, and of pieces of a spline.
    hidden : sequence of int
        Hidden layers of the network of each map.
    epochs, batch_size, learning_rate : int, int, float
        Training settings; the rate is the initial one of Adam, which decays to 0.
    validation_fraction, patience : float in [0.01, 0.5], int
        Validation fraction of each class, and epochs without improvement before training stops. The weights of the best
        epoch are used.
    jitter : float in [0, 1]
        Standard deviation of the normal noise on the training points, relative to that of a feature. It bounds the
        density at discrete and constant features.
    device : "auto", "cpu" or "cuda"
    verbose : int
        1 shows the progress of the epochs.
    random_state : int, Generator or None

    Examples
    --------
    >>> from genlabel.data.datasets.synthetic import make_moon
    >>> X, y = make_moon(200, random_state=0)
    >>> density = FlowDensity(transforms=2, epochs=20).fit(X, y)
    >>> density.sample(5, class_index=1, rng=0).shape
    (5, 2)
    """

    kind: str = "spline"
    transforms: int = 3
    bins: int = 16
    hidden: Sequence[int] = (64, 64)

    def _check_parameters(self) -> None:
        check_choice("kind", self.kind, ["spline", "maf"])
        check_count("transforms", self.transforms)
        check_count("bins", self.bins, low=2)
        hidden_sizes(self.hidden)
        super()._check_parameters()

    def _build(self, d: int, k: int) -> nn.Module:
        try:
            from zuko import flows
        except ImportError as error:
            raise ImportError('FlowDensity needs zuko: pip install "genlabel[flows]"') from error
        flow = flows.MAF if self.kind == "maf" else partial(flows.NSF, bins=self.bins)
        hidden = hidden_sizes(self.hidden)
        # SiLU is smooth, so that the gradients of the density are continuous.
        network: nn.Module = flow(d, k, transforms=self.transforms, hidden_features=hidden, activation=nn.SiLU)
        return network

    def _point_loss(self, network: Any, rng: np.random.Generator) -> PointLoss:
        return lambda x, c, rng: -network(c).log_prob(x)

    def _class_log_prob(self, network: Any, x: Tensor, c: Tensor) -> Tensor:
        return torch.as_tensor(network(c).log_prob(x))

    def _draw(self, network: Any, n: int, c: Tensor, rng: np.random.Generator) -> Tensor:
        z = torch.from_numpy(rng.standard_normal((n, self.n_features_in_))).to(c)
        return torch.as_tensor(network(c).transform.inv(z))

    @property
    def _row_values(self) -> int:
        return max(4 * self.bins * self.n_features_in_, *hidden_sizes(self.hidden), 1)
