"""GenMix in feature space: points between the features of two classes, inverted to inputs."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor

from genlabel._arrays import chunks
from genlabel._runtime import eval_mode
from genlabel._validation import check_count, check_positive
from genlabel.densities.transformed import encode_rows
from genlabel.mixing.genmix import GenMix
from genlabel.mixing.sampler import Sampler, Synthetic

BATCH_SIZE = 512
"""Points encoded or inverted at once."""


@final
class HiddenGenMix(Sampler):
    r"""GenMix on the features z = f(x) of a network; a point is inverted to :math:`\arg\min_x \lVert z - f(x) \rVert`.

    arXiv Section F.4. Features of an adversarially trained network can be inverted (Engstrom et al., 2019; see
    :func:`genlabel.attacks.train_robust`); those of other networks give points that look like noise. The label is that
    of the point between the features.

    Parameters
    ----------
    network : nn.Module with encode(x, depth)
        Trained network, such as a :class:`genlabel.training.networks.StagedNetwork`.
    depth : int or None
        Number of stages that compute the features; None is all but the last layer.
    genmix : GenMix or None
        Sampler of points between the features; None is `GenMix()`.
    shape : (c, h, w) or None
        Shape to which each row of `X` is reshaped for the network; None leaves rows.
    bounds : (low, high) or None
        Range of the inverted points; (0, 1) for pixels.
    steps, learning_rate : int, float
        Steps and rate of Adam, which starts from the row of the pair's first class with the nearest features.
    output : "hard", "soft" or "weighted"
        See :meth:`fit_resample`.
    random_state : int, Generator or None

    Attributes
    ----------
    genmix_ : GenMix
        Sampler fitted to the features.
    features_ : ndarray (s, q)
        Points between the features.
    misfit_ : ndarray (s,)
        Relative distance of the inverted points' features from them, |f(x) - z| / |z|.
    classes_, is_synthetic_, pair_, lam_, sample_weight_
        See :class:`Sampler`.

    Examples
    --------
    >>> from genlabel.training.networks import MLP
    >>> X = np.random.default_rng(0).normal(size=(40, 2)) + [[0.0, 0.0], [4.0, 0.0]] * 20
    >>> hidden = HiddenGenMix(MLP(2, 2, hidden=(8,), seed=0), genmix=GenMix(n_aug=5), random_state=0)
    >>> points, labels = hidden.fit_resample(X, [0, 1] * 20)
    >>> points.shape, hidden.misfit_.shape
    ((45, 2), (5,))
    """

    def __init__(
        self,
        network: Any,
        depth: int | None = None,
        genmix: GenMix | None = None,
        *,
        shape: tuple[int, ...] | None = None,
        bounds: tuple[float, float] | None = None,
        steps: int = 200,
        learning_rate: float = 0.05,
        output: str = "hard",
        random_state: Any = None,
    ) -> None:
        self.network = network
        self.depth = depth
        self.genmix = genmix
        self.shape = shape
        self.bounds = bounds
        self.steps = steps
        self.learning_rate = learning_rate
        self.output = output
        self.random_state = random_state

    def __sklearn_clone__(self) -> HiddenGenMix:
        """Return a copy that shares the network, weights included."""
        params = self.get_params(deep=False)
        return HiddenGenMix(**{**params, "genmix": None if self.genmix is None else clone(self.genmix)})

    def _synthesize(self, X: NDArray[np.float64], index: NDArray[np.int64], rng: np.random.Generator) -> Synthetic:
        check_count("steps", self.steps)
        check_positive("learning_rate", self.learning_rate, "0.05 is the usual choice")
        rows = torch.from_numpy(X.copy()).to(next(iter(self.network.parameters())))
        images = rows if self.shape is None else rows.reshape(len(rows), *self.shape)
        depth = self.network.depth if self.depth is None else self.depth
        with eval_mode(self.network), torch.no_grad():
            batches = [images[rows] for rows in chunks(len(X), BATCH_SIZE)]
            z = torch.cat([encode_rows(self.network, batch, depth).flatten(1) for batch in batches])
        features = z.double().cpu().numpy()
        self.genmix_ = clone(GenMix() if self.genmix is None else self.genmix)
        self.genmix_.set_params(output="soft", random_state=rng)
        between, labels = (part[len(X) :] for part in self.genmix_.fit_resample(features, self.classes_[index]))
        first_class, nearest = self.genmix_.pair_[:, 0], np.empty(len(between), dtype=np.int64)
        for c in np.unique(first_class):
            own, queries = np.flatnonzero(index == c), np.flatnonzero(first_class == c)
            distance = torch.cdist(torch.from_numpy(between[queries]), torch.from_numpy(features[own]))
            nearest[queries] = own[distance.argmin(1).numpy()]
        start = images[torch.from_numpy(nearest).to(images.device)]
        inverted, self.misfit_ = invert_features(
            self.network, depth, between, start, self.bounds, self.steps, self.learning_rate
        )
        self.features_ = between
        points = inverted.flatten(1).double().cpu().numpy()
        return Synthetic(points, labels, self.genmix_.pair_, self.genmix_.lam_)


def invert_features(
    network: Any,
    depth: int,
    features: NDArray[np.float64],
    start: Tensor,
    bounds: tuple[float, float] | None,
    steps: int,
    learning_rate: float,
) -> tuple[Tensor, NDArray[np.float64]]:
    """Return inputs (m, ...) with features near the given ones (m, q), and their misfit |f(x) - z| / |z|, (m,).

    Adam on x, from `start` (m, ...), with the network's features at `depth`; the best of all steps is returned.
    """
    points, misfits = [], []
    wanted = torch.from_numpy(features).to(start)
    with eval_mode(network):
        for rows in chunks(len(start), BATCH_SIZE):
            x = start[rows].detach().clone().requires_grad_()
            size = wanted[rows].norm(dim=1).clamp_min(torch.finfo(wanted.dtype).tiny)
            best, least = x.detach().clone(), torch.full_like(size, torch.inf)
            adam = torch.optim.Adam([x], lr=learning_rate)
            for _ in range(steps + 1):
                with torch.enable_grad():
                    misfit = (network.encode(x, depth).flatten(1) - wanted[rows]).norm(dim=1) / size
                    x.grad = torch.autograd.grad(misfit.square().sum(), x)[0]
                better = misfit.detach() < least
                best[better], least[better] = x.detach()[better], misfit.detach()[better]
                adam.step()
                if bounds is not None:
                    x.data.clamp_(*bounds)
            points.append(best)
            misfits.append(least.double().cpu().numpy())
    return torch.cat(points), np.concatenate(misfits)
