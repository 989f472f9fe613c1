"""A small Gaussian mixture for each class, fitted by expectation maximisation (EM) for all classes at once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import as_rng
from genlabel._registry import DENSITIES
from genlabel._standardization import Standardization
from genlabel._validation import check_choice, check_count, check_positive
from genlabel.densities._em import fit_mixtures, mixture_terms
from genlabel.densities.base import ClassDensity
from genlabel.densities.covariance import FLOOR, group_by_class
from genlabel.densities.cross_validation import CrossValSample

LEAST_SCALE = 1e-100
"""Of a feature beside `reg`: of less, the square vanishes."""


@DENSITIES.register("mixture")
@final
class MixtureDensity(ClassDensity):
    r"""A mixture of a few Gaussians for each class.

    .. math:: p_c(x) = \sum_j \pi_{cj} N(x; \mu_{cj}, \Sigma_{cj})

    Parameters
    ----------
    components : int
        Gaussians in a class; a class of n_c points has at most max(1, n_c // 8) (with weights, n_c is their
        effective number).
    covariance : "tied" or "diagonal"
        One full covariance for the Gaussians of a class, or a diagonal one for each.
    reg : float
        Added to the variances; meant for standardised features (of features of large scale, 1e-4 of their variance is
        added at least). It keeps a lump of equal points from being a spike.
    max_iter : int
        Steps of EM at most; a class whose mean log-likelihood gains less than 3e-3 in a step is done.
    random_state : int, Generator or None
        For the seeds, which are drawn as in k-means++.

    NOTE[EM]: what EM never lowers is the likelihood with exp(-reg/2 tr Sigma^-1) beside each Gaussian, under which
    adding `reg` is the exact maximum.

    Attributes
    ----------
    weights_, means_ : ndarray (k, components), (k, components, d)
    covariances_ : ndarray (k, d, d) if tied, (k, components, d) if diagonal

    Examples
    --------
    >>> X = [[v] for v in [0.0, 0.2, 0.1, 0.3, 5.0, 5.2, 5.1, 5.3] * 4]
    >>> density = MixtureDensity(components=2).fit(X, [0] * 32)
    >>> sorted(density.means_[0, :, 0].round(2).tolist())
    [0.15, 5.15]
    """

    def __init__(
        self,
        components: int = 3,
        covariance: str = "tied",
        reg: float = 0.05,
        max_iter: int = 40,
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        self.components = components
        self.covariance = covariance
        self.reg = reg
        self.max_iter = max_iter
        self.random_state = random_state

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        self._check()
        self.standardisation_ = Standardization.fit(X, weight, keep_constant=True)
        groups = group_by_class(self.standardisation_(X), index, weight[None])
        draws = as_rng(self.random_state).random(self.components)
        reg = (self.reg / self.standardisation_.scale.clamp_min(LEAST_SCALE) ** 2).clamp_min(min(self.reg, FLOOR))
        fitted = fit_mixtures(groups, [self.components], self.covariance == "tied", reg, self.max_iter, draws)
        self.mixtures_ = fitted.pick(slice(None), 0, 0)
        self.terms_ = mixture_terms(self.mixtures_)

    def _check(self) -> None:
        check_count("components", self.components)
        check_count("max_iter", self.max_iter)
        check_choice("covariance", self.covariance, ["tied", "diagonal"])
        check_positive("reg", self.reg, "0.05 is the usual choice")

    def _log_prob(self, X: Tensor) -> Tensor:
        return self.terms_.log_prob(self.standardisation_(X).to(X)) - self.standardisation_.log_volume

    @property
    def cv_family(self) -> Hashable | None:
        """Those of any size share the steps of EM, if they draw the same seeds."""
        if not isinstance(self.random_state, int):
            return None
        return ("mixture", self.covariance, self.reg, self.max_iter, self.random_state)

    def held_out_log_prob(self, folds: CrossValSample, densities: Sequence[MixtureDensity]) -> Tensor:
        """All sizes and folds of classes of like size go through EM together, or as many folds as memory allows."""
        for density in densities:
            density._check()
        sizes = [density.components for density in densities]
        draws = as_rng(self.random_state).random(max(sizes))
        reg = torch.full_like(folds.X[0], self.reg)
        found = folds.empty_log_prob(len(densities))
        for classes in _of_like_size(folds.classes):
            inside = folds.of_classes(classes)
            for part in inside.split_folds(len(inside.X) * max(len(sizes) * max(sizes), inside.X.shape[1])):
                groups = group_by_class(part.X, part.classes, part.training_weight)
                mixtures = fit_mixtures(groups, sizes, self.covariance == "tied", reg, self.max_iter, draws)
                for f, rows in enumerate(part.valid):
                    for s in range(len(sizes)):
                        answer = mixture_terms(mixtures.pick(slice(None), f, s)).log_prob(folds.X[rows])
                        found[s, rows[:, None], classes] = answer
        return found

    @property
    def weights_(self) -> NDArray[np.float64]:
        """The shares pi_cj, (k, components); 0 for a component a class is too small for."""
        return self.mixtures_.log_weight.exp().numpy()

    @property
    def means_(self) -> NDArray[np.float64]:
        """The means mu_cj, (k, components, d)."""
        mean, scale, _ = self.standardisation_
        return (self.mixtures_.mean * scale + mean).numpy()

    @property
    def covariances_(self) -> NDArray[np.float64]:
        """The covariances, (k, d, d) if tied, the variances (k, components, d) if diagonal."""
        scale = self.standardisation_.scale
        square = torch.outer(scale, scale) if self.covariance == "tied" else scale**2
        return (self.mixtures_.covariance * square).numpy()


def _of_like_size(classes: Tensor) -> list[Tensor]:
    """The classes in groups, none with more than twice the points of another: groups are padded to the largest."""
    counts = torch.bincount(classes)
    found: list[list[int]] = []
    for c in counts.argsort().tolist():
        if not found or counts[c] > 2 * counts[found[-1][0]]:
            found.append([])
        found[-1].append(c)
    return [torch.tensor(sorted(group)) for group in found]
