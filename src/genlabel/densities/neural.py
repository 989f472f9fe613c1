"""What densities share whose classes are described by one network that is trained by gradient steps."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, final
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from genlabel._arrays import Seed, as_rng, chunks, named_device, one_hot
from genlabel._progress import Callback, training_callback
from genlabel._standardization import Standardization
from genlabel._validation import check_count, check_interval, check_positive, suppress_own_warnings, warn
from genlabel.densities._fit_network import Points, Schedule, initialise
from genlabel.densities.base import ClassDensity, DensityWarning
from genlabel.densities.gaussian import GaussianDensity

FEWEST = 20
"""A class of fewer distinct points is no training set for a network."""
ROOM, GPU_ROOM = 1 << 18, 1 << 24
"""Numbers that a layer may have for the rows that are asked together."""


class NeuralDensity(ClassDensity):
    """Class densities by one network of (standardised point, one-hot class), trained by gradient steps.

    What it offers: points are standardised (the log-determinant is added back, so the density is that of `X`) and are
    in float32 on the `device`; every random number comes from `random_state`; columns do not depend on the names of the
    classes; epochs are told to whoever listens (:mod:`genlabel._progress`); what is learned is kept as plain
    tensors on the CPU, `weights_`, and answers are computed in float64 (on the GPU where the query is, or where
    `device` says). A class of fewer than 20 distinct points is described by a Gaussian instead, with a
    :class:`DensityWarning` that names it.

    A subclass has the parameters below, and gives `_build`, `_train`, `_class_log_prob` and `_draw`; training by one
    loss is :func:`genlabel.densities._fit_network.train_until_plateau`, with :meth:`_schedule`.

    Attributes
    ----------
    weights_ : dict of str -> Tensor
        The network's state; empty if every class was too small for it.
    places_ : ndarray (k,)
        The place of each class in the network's one-hot input; -1 for those that are Gaussian.
    losses_ : list of float
        What `_train` returned: the held-out loss after each epoch.
    """

    gain: ClassVar[float] = 1.0
    """Of the weights before training, see :func:`genlabel.densities._fit_network.initialise`."""
    epochs: int
    batch_size: int
    learning_rate: float
    held_out: float
    patience: int
    jitter: float
    device: Any
    verbose: int
    random_state: Any

    @abstractmethod
    def _check(self) -> None:
        """Raise if a parameter cannot be used."""

    @abstractmethod
    def _build(self, d: int, k: int) -> nn.Module:
        """Return an untrained network for `d` features and `k` classes; its linear layers are drawn anew."""

    @abstractmethod
    def _train(
        self, network: nn.Module, points: Points, rng: np.random.Generator, callback: Callback | None
    ) -> list[float]:
        """Train the network in place; what is returned is `losses_`."""

    @abstractmethod
    def _class_log_prob(self, network: Any, x: Tensor, place: int) -> Tensor:
        """Log-density (m,) of standardised points (m, d) in float64, in the class of that place; differentiable."""

    @abstractmethod
    def _draw(self, network: Any, n: int, place: int, rng: np.random.Generator) -> Tensor:
        """Draw `n` standardised points (n, d) of a class."""

    @property
    @abstractmethod
    def _row_size(self) -> int:
        """Numbers that the largest layer has for one row."""

    @final
    def sample(self, n: int, class_index: int, rng: Seed = None) -> NDArray[np.float64]:
        """Draw `n` points (n, d) of the class `classes_[class_index]`."""
        check_is_fitted(self, "classes_")
        check_count("n", n)
        if not 0 <= class_index < len(self.classes_):
            raise ValueError(f"class_index={class_index!r} is no class; there are {len(self.classes_)}, the first is 0")
        generator = as_rng(rng)
        place = int(self.places_[class_index])
        if self.gaussian_ is not None and place < 0:
            mean, covariance = self.gaussian_.means_[class_index], self.gaussian_.covariances_[class_index]
            drawn = torch.from_numpy(generator.multivariate_normal(mean, covariance, n))
        else:
            with torch.no_grad():
                drawn = self._draw(self._network(named_device(self.device)), n, place, generator).cpu()
        found: NDArray[np.float64] = self.standardisation_.inverse(drawn).numpy()
        return found

    @final
    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        self._check()
        device, rng = named_device(self.device), as_rng(self.random_state)
        self.standardisation_ = Standardization.fit(X, weight, keep_constant=True)
        x = self.standardisation_(X)
        self.places_ = self._places(x, index)
        self.gaussian_ = self._gaussian(x, index, weight)
        self.weights_: dict[str, Tensor] = {}
        self.losses_: list[float] = []
        if (self.places_ >= 0).any():
            network = self._new_network()
            initialise(network, rng, self.gain)
            with training_callback(self.verbose, type(self).__name__) as callback:
                points = self._points(x, index, weight, device)
                self.losses_ = self._train(network.to(device), points, rng, callback)
            self.weights_ = {name: value.detach().cpu() for name, value in network.state_dict().items()}

    @final
    def _log_prob(self, X: Tensor) -> Tensor:
        x = self.standardisation_(X.double())
        if not x.is_cuda:
            x = x.to(named_device(self.device))
        network = self._network(x.device) if self.weights_ else None
        gaussian = self.gaussian_._log_prob(x) if self.gaussian_ is not None else None
        rows = chunks(len(x), max(1, (GPU_ROOM if x.is_cuda else ROOM) // self._row_size))
        columns = []
        for c, place in enumerate(self.places_.tolist()):
            if gaussian is not None and place < 0:
                columns.append(gaussian[:, c])
            else:
                columns.append(torch.cat([self._class_log_prob(network, x[some], place) for some in rows]))
        return (torch.stack(columns, 1) - self.standardisation_.log_volume).to(X)

    def _places(self, x: Tensor, index: Tensor) -> NDArray[np.int64]:
        """The place of each class: in the order in which they appear, so that their names do not matter."""
        first = [int((index == c).nonzero()[0]) for c in range(len(self.classes_))]
        small = [len(torch.unique(x[index == c], dim=0)) < FEWEST for c in range(len(first))]
        trained = [c for c in np.argsort(first).tolist() if not small[c]]
        places = np.full(len(first), -1, dtype=np.int64)
        places[trained] = np.arange(len(trained))
        return places

    def _gaussian(self, x: Tensor, index: Tensor, weight: Tensor) -> GaussianDensity | None:
        """The Gaussians of the classes that are too small, if there are any."""
        small = self.classes_[self.places_ < 0]
        for name in small.tolist():
            about = f"class {name!r} has fewer than {FEWEST} distinct points, too few for a {type(self).__name__}"
            warn((type(self), name), f"{about}; a Gaussian stands in for it", DensityWarning)
        if not len(small):
            return None
        with suppress_own_warnings():
            return GaussianDensity("ledoit-wolf", reg=1e-2).fit(x, index.numpy(), weight)

    def _points(self, x: Tensor, index: Tensor, weight: Tensor, device: torch.device) -> Points:
        place = torch.from_numpy(self.places_)[index]
        kept = place >= 0
        mass = weight[kept] / weight[kept].mean()
        classes = one_hot(place[kept], int(self.places_.max()) + 1, torch.float32)
        return Points(x[kept].float().to(device), classes.to(device), mass.float().to(device))

    def _new_network(self) -> nn.Module:
        with torch.random.fork_rng(devices=[]):  # what layers draw for themselves is drawn again
            return self._build(self.n_features_in_, int(self.places_.max()) + 1)

    def _network(self, device: torch.device) -> nn.Module:
        """The network with the weights that are kept, in float64; it is built again when it is not at hand."""
        known = _BUILT.get(self)
        if known is None or known[0] is not self.weights_ or known[1] != device:
            network = self._new_network()
            network.load_state_dict(self.weights_)
            known = (self.weights_, device, network.double().to(device).eval().requires_grad_(False))
            _BUILT[self] = known
        return known[2]

    @final
    def _schedule(self) -> Schedule:
        """How it is trained, by its parameters, or raise."""
        return Schedule(
            check_count("epochs", self.epochs),
            check_count("batch_size", self.batch_size),
            check_positive("learning_rate", self.learning_rate, "0.01 is the usual choice"),
            check_interval("held_out", self.held_out, 0.01, 0.5, "0.1 is the usual choice"),
            check_count("patience", self.patience),
            check_interval("jitter", self.jitter, 0.0, 1.0, "it is a share of the standard deviation of a feature"),
        )


_BUILT: WeakKeyDictionary[NeuralDensity, tuple[dict[str, Tensor], torch.device, nn.Module]] = WeakKeyDictionary()
"""Networks at hand: not part of a density, whose state is plain arrays."""


def hidden_sizes(hidden: Any) -> tuple[int, ...]:
    """Return the sizes of hidden layers, or raise.

    >>> hidden_sizes([64, 64])
    (64, 64)
    """
    if isinstance(hidden, str | bytes) or not hasattr(hidden, "__iter__"):
        raise ValueError(f"hidden={hidden!r} must be a sequence of layer sizes such as (64, 64)")
    return tuple(check_count("hidden", size) for size in hidden)
