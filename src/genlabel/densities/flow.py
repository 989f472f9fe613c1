"""Normalizing flow of all classes: exact, normalized densities of any connected shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from genlabel._progress import Callback
from genlabel._validation import check_choice, check_count
from genlabel.densities.neural import NeuralDensity, TrainingPoints, hidden_sizes, train_until_plateau
from genlabel.registry import DENSITIES


@DENSITIES.register("flow")
@final
class FlowDensity(NeuralDensity):
    r"""A normalizing flow, conditional on the class: p_c(x) = N(f_c(x); 0, I) |det df_c/dx|.

    One network of the point and the one-hot class defines an autoregressive map f_c for every class: rational-quadratic
    splines (Durkan et al., arXiv 1906.04032) or affine maps (Papamakarios et al., arXiv 1705.07057), from `zuko`
    (`pip install "genlabel[flows]"`). The neural autoregressive flow of zuko is not offered: its map is integrated and
    inverted numerically, and its likelihoods are implausible. Beyond 5 standard deviations a spline is the identity, so
    that far points have Gaussian tails.

    Choose another density for small classes (a Gaussian replaces the flow below 20 distinct points; below a few hundred
    points, a mixture or a kernel density is as good and far cheaper) and for classes in several pieces, which a flow
    connects by thin bridges.

    Parameters
    ----------
    kind : "spline" or "maf"
    transforms, bins : int
        Number of successive maps, and of pieces of a spline.
    hidden : sequence of int
        Hidden layers of the network of each map.
    epochs, batch_size : int
    learning_rate : float
        Initial rate of Adam; it decays to 0 over the epochs.
    validation_fraction : float in [0.01, 0.5]
        Validation fraction of each class; the weights of the epoch with the best validation likelihood are used.
    patience : int
        Epochs without improvement before training stops.
    jitter : float in [0, 1]
        Standard deviation of the normal noise on the training points, relative to that of a feature. It bounds the
        density at discrete and constant features.
    device : "auto", "cpu" or "cuda"
    verbose : int
        1 shows the progress of the epochs.
    random_state : int, Generator or None

    Attributes
    ----------
    losses_ : list of float
        Validation negative log-likelihood of standardized points after each epoch.

    Examples
    --------
    >>> from genlabel.data.datasets import make_moon
    >>> X, y = make_moon(200, random_state=0)
    >>> density = FlowDensity(transforms=2, epochs=20).fit(X, y)
    >>> bool((density.log_prob(X).argmax(1) == y).mean() > 0.8)
    True
    >>> density.sample(5, class_index=1, rng=0).shape
    (5, 2)
    """

    def __init__(
        self,
        kind: str = "spline",
        transforms: int = 3,
        bins: int = 16,
        hidden: Sequence[int] = (64, 64),
        *,
        epochs: int = 100,
        batch_size: int = 256,
        learning_rate: float = 1e-2,
        validation_fraction: float = 0.1,
        patience: int = 30,
        jitter: float = 0.02,
        device: Any = "auto",
        verbose: int = 0,
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        self.kind = kind
        self.transforms = transforms
        self.bins = bins
        self.hidden = hidden
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.jitter = jitter
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_choice("kind", self.kind, ["spline", "maf"])
        check_count("transforms", self.transforms)
        check_count("bins", self.bins, low=2)
        hidden_sizes(self.hidden)
        self._schedule()
        _zuko()

    def _build(self, d: int, k: int) -> nn.Module:
        flows = _zuko().flows
        common = {
            "features": d,
            "context": k,
            "transforms": self.transforms,
            "hidden_features": hidden_sizes(self.hidden),
            "activation": nn.SiLU,  # smooth, so that the gradients of the density are continuous
        }
        built: nn.Module = flows.MAF(**common) if self.kind == "maf" else flows.NSF(bins=self.bins, **common)
        return built

    def _train(
        self, network: nn.Module, points: TrainingPoints, rng: np.random.Generator, callback: Callback | None
    ) -> list[float]:
        def loss(x: Tensor, c: Tensor, rng: np.random.Generator) -> Tensor:
            log_prob: Tensor = network(c).log_prob(x)
            return -log_prob

        return train_until_plateau(network, loss, points, self._schedule(), rng, callback)

    def _class_log_prob(self, network: Any, x: Tensor, class_input: int) -> Tensor:
        log_prob: Tensor = network(self._context(class_input, x)).log_prob(x)
        return log_prob

    def _draw(self, network: Any, n: int, class_input: int, rng: np.random.Generator) -> Tensor:
        weights: Tensor = next(network.parameters())
        z = torch.from_numpy(rng.standard_normal((n, self.n_features_in_))).to(weights)
        points: Tensor = network(self._context(class_input, weights)).transform.inv(z)
        return points

    def _context(self, class_input: int, like: Tensor) -> Tensor:
        """Return the one-hot vector of a class."""
        return torch.eye(int(self.class_inputs_.max()) + 1, dtype=like.dtype, device=like.device)[class_input]

    @property
    def _row_values(self) -> int:
        return max(4 * self.bins * self.n_features_in_, *hidden_sizes(self.hidden), 1)


def _zuko() -> Any:
    try:
        import zuko
    except ImportError as error:
        raise ImportError('FlowDensity needs zuko: pip install "genlabel[flows]"') from error
    return zuko
