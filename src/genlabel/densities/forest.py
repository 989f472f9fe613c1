"""A density whose classes are told apart by a forest of random trees: for steps, thresholds and unequal features."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier
from torch import Tensor

from genlabel.arrays import chunks, to_device
from genlabel.checks import check_count
from genlabel.densities.base import ClassDensity
from genlabel.densities.folded import judging_order

__all__ = ["ForestDensity"]

STEPS_AT_ONCE = 60_000
"""Trees times points that walk at once."""
FLATTEST = 1e-6
"""A feature that hardly varies has this share of the largest variance."""
FARTHEST = 1e30
"""Trees compare in single precision: what is farther than this counts as this."""


@final
class ForestDensity(ClassDensity):
    r"""A Gaussian of all points, bent towards each class by the histograms of random trees.

    .. math:: p_c(x) = N(x; \mu, \operatorname{diag} \sigma^2) \, P(c \mid x) / \pi_c

    where P(c | x) is the mean over trees of the shares of the classes in the leaf of x, with one point more that is
    shared out like all points. Each tree is a partition of space into boxes, grown by extremely randomised splits
    (Geurts et al., 2006): a histogram whose bins follow the classes. The posterior is what counts; the Gaussian only
    says how far from everything x is, and p_c integrates to 1 as far as the mean of P(c | x) over it is pi_c.

    Unlike kernels and Gaussians it needs no distance: features that say nothing, steps and unequal scales do not
    trouble it. It is constant in each box: its gradient is that of the Gaussian, the same for all classes.

    Parameters
    ----------
    trees : int
    min_leaf : int
        Points of a leaf at least.
    max_features : int
        Features that are tried at each split, at most.
    max_points : int or None
        Of more points the trees see so many, each class in its share. None is all.
    random_state : int
        Of the splits.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]
    >>> density = ForestDensity().fit(X, [0, 0, 1, 1, 0, 0])
    >>> density.log_prob([[0.5], [2.5], [4.5]]).argmax(1)
    array([0, 1, 0])
    """

    normalised: ClassVar[bool] = False

    def __init__(
        self,
        trees: int = 30,
        min_leaf: int = 1,
        max_features: int = 64,
        max_points: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.trees = trees
        self.min_leaf = min_leaf
        self.max_features = max_features
        self.max_points = max_points
        self.random_state = random_state

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        for name in ("trees", "min_leaf", "max_features"):
            check_count(name, getattr(self, name))
        if self.max_points is not None and len(X) > check_count("max_points", self.max_points):
            X, index, weight = (part[judging_order(index.numpy())[: self.max_points]] for part in (X, index, weight))
        share = weight / weight.sum()
        self.mean_ = share @ X
        variance = share @ (X - self.mean_) ** 2
        largest = float(variance.max())
        self.variance_ = variance.clamp_min(FLATTEST * largest if largest > 0 else 1.0)
        forest = ExtraTreesClassifier(
            self.trees,
            min_samples_leaf=self.min_leaf,
            max_features=min(self.max_features, X.shape[1]),
            random_state=self.random_state,
        ).fit(X.clamp(-FARTHEST, FARTHEST).float().numpy(), index.numpy(), weight.numpy())
        prior = torch.zeros(len(self.classes_)).to(share).index_add_(0, index, share).numpy()
        self.trees_ = _trees([grown.tree_ for grown in forest.estimators_], prior)

    def _log_prob(self, X: Tensor) -> Tensor:
        x = X.detach().clamp(-FARTHEST, FARTHEST).float()
        size = max(1, STEPS_AT_ONCE // len(self.trees_.root))
        ratio = torch.cat([self.trees_.ratios(x[some]) for some in chunks(len(x), size)])
        mean, variance = to_device(self.mean_, X), to_device(self.variance_, X)
        distance = ((X.double() - mean) ** 2 / variance).sum(1, keepdim=True)
        height = -0.5 * (variance.log().sum() + X.shape[1] * math.log(2.0 * math.pi))
        return (ratio.log() + height - 0.5 * distance).to(X)


class _Trees(NamedTuple):
    """The nodes of all trees in one row; a leaf is its own child."""

    root: Tensor
    """(trees,)"""
    feature: Tensor
    """(nodes,)"""
    child: Tensor
    """(2 nodes,): the left and the right one of each node."""
    threshold: Tensor
    """(nodes,): points of a feature above it go right."""
    ratio: Tensor
    """(nodes, k): P(c | node) / pi_c."""
    depth: int

    def ratios(self, x: Tensor) -> Tensor:
        """The mean of the ratios of the leaves of points (m, d), (m, k)."""
        root, feature, child, threshold, ratio = (to_device(part, x) for part in self[:5])
        start = torch.arange(len(x), dtype=torch.int32, device=x.device) * x.shape[1]
        start, values = start.repeat(len(root)), x.reshape(-1)
        node = root.repeat_interleave(len(x))
        for _ in range(self.depth):
            split = feature.index_select(0, node).add_(start)
            right = values.index_select(0, split) > threshold.index_select(0, node)
            node = child.index_select(0, 2 * node + right)
        return ratio.index_select(0, node).view(len(root), len(x), -1).mean(0)


def _trees(grown: Sequence[Any], prior: NDArray[np.float64]) -> _Trees:
    """The trees of scikit-learn as plain arrays, with one point more in each node, shared out by the prior."""
    root = np.cumsum([0, *(tree.node_count for tree in grown)])[:-1]
    feature, threshold, child, ratio = (
        np.concatenate(parts) for parts in zip(*map(partial(_nodes, prior), grown, root), strict=True)
    )
    return _Trees(
        torch.from_numpy(root.astype(np.int32)),
        torch.from_numpy(feature.astype(np.int32)),
        torch.from_numpy(child.astype(np.int32)),
        torch.from_numpy(threshold),
        torch.from_numpy(ratio),
        max(tree.max_depth for tree in grown),
    )


def _nodes(prior: NDArray[np.float64], tree: Any, root: int) -> tuple[NDArray[Any], ...]:
    """Feature, threshold, children and ratios of the nodes of a tree, numbered from that of its root."""
    leaf = tree.children_left < 0
    own = np.arange(tree.node_count)
    child = np.stack([np.where(leaf, own, side) for side in (tree.children_left, tree.children_right)], 1) + root
    share, size = tree.value[:, 0], tree.weighted_n_node_samples[:, None]
    counts = size * share / share.sum(1, keepdims=True)
    ratio = (counts + prior) / (size + 1.0) / prior
    return np.where(leaf, 0, tree.feature), _rounded_down(tree.threshold), child.reshape(-1), ratio


def _rounded_down(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest number in single precision that is not above each: what is above the one is above the other."""
    single = values.astype(np.float32)
    return np.where(single > values, np.nextafter(single, np.float32(-np.inf)), single)
