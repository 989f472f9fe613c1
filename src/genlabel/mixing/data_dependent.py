"""Mixers whose draw depends on the points or labels of the batch: partners, weights and losses by distance or class."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import betaincinv
from torch import Tensor

from genlabel._arrays import as_numpy, as_rng, as_tensor, like, to_device
from genlabel._validation import check_count, check_positive
from genlabel.mixing.base import Mixer, MixParams, as_points
from genlabel.mixing.mixup import draw_lam, draw_pairs
from genlabel.registry import MIXERS

MAX_WARP = 1e3
"""Bound on the parameter of a warped Beta distribution, which is close to 1/2 or to 0 and 1 beyond it."""


@final
@MIXERS.register("k-mixup")
class KMixup(Mixer):
    r"""Mixup of optimally assigned rows: distant rows are seldom mixed (Greenewald et al., 2021, arXiv 2106.02933).

    Two random orders of the batch are cut into blocks of k rows; in each pair of blocks,

    .. math:: \sigma = \arg\min_\sigma \sum_i |x_i - x'_{\sigma(i)}|^2, \quad x_{mix} = \lambda x_i
        + (1 - \lambda) x'_{\sigma(i)}.

    A row is its own partner only if its block has no other.

    Parameters
    ----------
    alpha, lam_per
        As in :class:`genlabel.Mixup`; "pair" is not available, because partners are not mutual.
    k : int
        Rows in a block; 1 is mixup with random partners, a large k mixes with near rows only.

    Examples
    --------
    >>> x = np.array([[0.0], [1.0], [10.0], [11.0]])
    >>> KMixup(k=4).draw(4, rng=0, x=x).partner
    array([1, 0, 3, 2])
    """

    data_dependent = True

    def __init__(self, alpha: float = 1.0, lam_per: str = "sample", k: int = 16) -> None:
        self.alpha = alpha
        self.lam_per = lam_per
        self.k = k

    def draw(self, n: int, rng: Any = None, x: Any = None, y: Any = None) -> MixParams:
        """Assign partners within blocks, and draw their weights."""
        generator, k = as_rng(rng), check_count("k", self.k)
        points = _rows(x, n, self)
        distance = torch.cdist(points, points).square().double().cpu().numpy()  # on the device of the points
        distance.flat[:: n + 1] = 2.0 * n * (distance.max(initial=0.0) + 1.0)  # more than any other assignment costs
        rows, candidates = generator.permutation(n), generator.permutation(n)
        partner = np.empty(n, dtype=np.int64)
        for start in range(0, n, k):
            block, others = rows[start : start + k], candidates[start : start + k]
            first, second = linear_sum_assignment(distance[np.ix_(block, others)])
            partner[block[first]] = others[second]
        return MixParams(partner, draw_lam(self.alpha, self.lam_per, n, generator))


@final
@MIXERS.register("similarity-mixup")
class SimilarityMixup(Mixer):
    r"""Mixup whose lam depends on the distance of the pair (Bouniot et al., 2025, arXiv 2311.01434).

    .. math:: \lambda = I^{-1}_{u}(\tau, \tau), \quad \tau = \tau_{max} \exp(-(\bar d - 1) / (2 \tau_{std}^2)),

    with u uniform, the inverse I^{-1} of the regularized incomplete beta function, and the squared distance d of the
    pair relative to the mean of the batch: lam has the distribution Beta(tau, tau), so near rows are mixed half and
    half, while distant rows stay close to one parent.

    Parameters
    ----------
    tau_max : float
        Parameter of the Beta distribution at the mean distance.
    tau_std : float
        Width of the kernel; with a large one lam is distributed as in mixup.

    Examples
    --------
    >>> x = np.array([[0.0], [0.1], [10.0], [10.1]])
    >>> lam = SimilarityMixup(tau_std=0.3).draw(4, rng=3, x=x).lam
    >>> lam.shape
    (4,)
    """

    data_dependent = True

    def __init__(self, tau_max: float = 1.0, tau_std: float = 0.5) -> None:
        self.tau_max = tau_max
        self.tau_std = tau_std

    def draw(self, n: int, rng: Any = None, x: Any = None, y: Any = None) -> MixParams:
        """Draw partners by a permutation, and weights by their distance."""
        tau_max = check_positive("tau_max", self.tau_max, "it is the alpha of mixup at the mean distance")
        width = check_positive("tau_std", self.tau_std, "it is the width of the similarity kernel")
        partner, quantile = draw_pairs(1.0, "sample", n, as_rng(rng))
        exponent = (1.0 - relative_distances(_rows(x, n, self), partner)) / (2.0 * width**2)
        log_tau = np.clip(np.log(tau_max) + exponent, -np.log(MAX_WARP), np.log(MAX_WARP))
        return MixParams(partner, betaincinv(np.exp(log_tau), np.exp(log_tau), quantile))


@final
@MIXERS.register("local-mixup")
class LocalMixup(Mixer):
    r"""Mixup that weights the loss of a mixed sample by the distance of its parents (Baena et al., 2022).

    .. math:: w = \exp(-\text{decay} \cdot |x_i - x_j| / \bar d)

    with the mean distance d of the pairs of the batch (arXiv 2201.04368, the decreasing exponential). Batches are
    weighted means, so the length of a step does not depend on the decay.

    Parameters
    ----------
    alpha, lam_per
        As in :class:`genlabel.Mixup`.
    decay : float
        0 is mixup; a large decay trains on near pairs only.

    Examples
    --------
    >>> x = np.array([[0.0], [1.0], [9.0]])
    >>> drawn = LocalMixup(decay=2.0).draw(3, rng=1, x=x)
    >>> bool((drawn.weight <= 1.0).all())
    True
    """

    data_dependent = True
    optional_fields = frozenset({"weight"})

    def __init__(self, alpha: float = 1.0, lam_per: str = "sample", decay: float = 1.0) -> None:
        self.alpha = alpha
        self.lam_per = lam_per
        self.decay = decay

    def draw(self, n: int, rng: Any = None, x: Any = None, y: Any = None) -> MixParams:
        """Draw partners and lam as mixup does, and weight each row by the distance to its partner."""
        decay = check_positive("decay", self.decay, "use Mixup() for equal weights")
        partner, lam = draw_pairs(self.alpha, self.lam_per, n, as_rng(rng))
        distance = np.sqrt(relative_distances(_rows(x, n, self), partner))
        return MixParams(partner, lam, weight=np.exp(-decay * distance / max(distance.mean(), 1e-300)))


@final
@MIXERS.register("same-class")
class SameClassMixup(Mixer):
    """Mixup within the classes: each row is mixed with a row of the same class, so labels stay hard.

    Zhang et al. (2018, Section 3) report that this alone does not bring the gain of mixup; it is a baseline that
    separates the effect of new points from that of soft labels. Rows with soft labels belong to their largest class.

    Parameters
    ----------
    alpha, lam_per
        As in :class:`genlabel.Mixup`; "pair" is not available, because partners are not mutual.

    Examples
    --------
    >>> SameClassMixup().draw(4, rng=3, x=np.zeros((4, 1)), y=[0, 1, 1, 0]).partner
    array([3, 1, 2, 0])
    """

    data_dependent = True

    def __init__(self, alpha: float = 1.0, lam_per: str = "sample") -> None:
        self.alpha = alpha
        self.lam_per = lam_per

    def draw(self, n: int, rng: Any = None, x: Any = None, y: Any = None) -> MixParams:
        """Draw a permutation of the rows of each class, and their weights."""
        generator, classes = as_rng(rng), _classes(y, n, self)
        partner = np.empty(n, dtype=np.int64)
        for c in np.unique(classes):
            rows = np.flatnonzero(classes == c)
            partner[rows] = generator.permutation(rows)
        return MixParams(partner, draw_lam(self.alpha, self.lam_per, n, generator))


@final
@MIXERS.register("feat-mix")
class FeatMix(Mixer):
    r"""Swap whole features of a table; lam is the information that remains (Chen et al., 2024, arXiv 2301.02819).

    .. math:: x_{mix} = s \odot x_i + (1 - s) \odot x_j, \quad \lambda = \sum_f s_f I_f / \sum_f I_f

    with s in {0, 1}^d, whose share of ones is Beta(alpha, alpha), and the mutual information I of feature and label:
    Feat-Mix of ExcelFormer. Tables (n, d) only.

    Parameters
    ----------
    alpha : float
        Parameter of the Beta distribution.
    importance : array (d,), optional
        Mutual information of each feature and the label, such as `sklearn.feature_selection.mutual_info_classif(X, y)`;
        by default that of Gaussian features, -log(1 - eta^2) / 2, in each batch, where eta^2 is the share of the
        variance of a feature that lies between the classes.

    Examples
    --------
    >>> x, y = np.array([[0.0, 1.0], [0.1, 2.0], [5.0, 1.5], [5.1, 0.5]]), np.array([0, 0, 1, 1])
    >>> drawn = FeatMix().draw(4, rng=0, x=x, y=y)
    >>> FeatMix().mix(x, drawn).shape
    (4, 2)
    """

    data_dependent = True
    optional_fields = frozenset({"mask"})

    def __init__(self, alpha: float = 1.0, importance: Any = None) -> None:
        self.alpha = alpha
        self.importance = importance

    def draw(self, n: int, rng: Any = None, x: Any = None, y: Any = None) -> MixParams:
        """Draw partners, and the features that come from them; lam is the information of the others."""
        points, generator = _rows(x, n, self), as_rng(rng)
        if len(shape := tuple(as_tensor(x).shape)) != 2:
            raise ValueError(f"FeatMix swaps the columns of a table (n, d); x has shape {shape}")
        d = points.shape[1]
        if self.importance is None:
            importance = class_information(points, _classes(y, n, self)).cpu().numpy()
        else:
            importance = np.asarray(self.importance, dtype=np.float64)
        if importance.shape != (d,) or not (importance >= 0.0).all():
            raise ValueError(f"importance={self.importance!r} must be {d} numbers of at least 0, one for each feature")
        partner, kept = draw_pairs(self.alpha, "sample", n, generator)
        ranks = generator.random((n, d)).argsort(1).argsort(1)
        mask = ranks >= np.round(kept * d)[:, None]  # arXiv 2301.02819: the number of features that remain is lam d
        total = importance.sum()
        share = np.full(d, 1.0 / d) if total == 0.0 else importance / total
        return MixParams(partner, np.clip((~mask).astype(np.float64) @ share, 0.0, 1.0), mask=mask)

    def mix(self, X: Any, draw: MixParams) -> Any:
        """Return the rows with the masked features of their partners; numpy or torch, (n, d)."""
        points = as_points(X, draw)
        return like(torch.where(to_device(draw.mask, points), points[to_device(draw.partner, points)], points), X)


def relative_distances(points: Tensor, partner: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the squared distance of each row to its partner, relative to the mean over the batch."""
    squares = (points - points[to_device(partner, points)]).square().sum(1).double().cpu().numpy()
    mean = squares.mean()
    return squares / mean if mean > 0.0 else np.ones(len(squares))


def class_information(points: Tensor, classes: NDArray[np.int64]) -> Tensor:
    """Return the mutual information of each feature and the class, (d,), in nats, as if features were Gaussian."""
    one_hot = torch.nn.functional.one_hot(to_device(classes, points)).to(points.dtype)
    centered = points - points.mean(0)
    means = (one_hot.mT @ centered) / one_hot.sum(0).clamp(min=1.0)[:, None]
    between = (one_hot.sum(0)[:, None] * means.square()).sum(0)
    share = between / centered.square().sum(0).clamp(min=torch.finfo(points.dtype).tiny)
    return -0.5 * torch.log1p(-share.clamp(0.0, 1.0 - 1e-6))


def _rows(x: Any, n: int, mixer: Mixer) -> Tensor:
    """Return the points of a batch as floating rows (n, d), scaled to at most 1, so that no square overflows."""
    points = as_tensor(_check_batch("x", x, n, mixer)).detach()
    dtype = points.dtype if points.dtype.itemsize >= torch.float32.itemsize else torch.float32
    rows = (points if points.ndim > 1 else points[:, None]).flatten(1).to(dtype)
    largest = float(rows.abs().max()) if rows.numel() else 0.0
    if not np.isfinite(largest):
        raise ValueError(f"x has missing or infinite values, and {mixer!r} needs distances; fill the gaps first")
    return rows / largest if largest > 0.0 else rows


def _classes(y: Any, n: int, mixer: Mixer) -> NDArray[np.int64]:
    """Return the class index of each row of a batch, (n,)."""
    labels = as_numpy(_check_batch("y", y, n, mixer))
    classes: NDArray[np.int64] = np.unique(labels, return_inverse=True)[1] if labels.ndim == 1 else labels.argmax(1)
    return classes.astype(np.int64)


def _check_batch(name: str, values: Any, n: int, mixer: Mixer) -> Any:
    """Return the points x or the labels y of a batch, or raise if they are missing or of another size."""
    if values is None:
        part = {"x": "points", "y": "labels"}[name]
        raise ValueError(f"{mixer!r} depends on the {part} of the batch; call draw(n, rng, x, y)")
    if np.shape(values)[:1] != (n,):
        raise ValueError(f"{name} has shape {tuple(np.shape(values))}, but n={n}; pass one batch")
    return values
