"""A density whose classes are told apart by a forest of random trees: for steps, thresholds and unequal features."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.tree import ExtraTreeClassifier
from sklearn.utils import check_random_state
from torch import Tensor

from genlabel._arrays import chunks, to_device
from genlabel._registry import DENSITIES
from genlabel._validation import check_count, ignore_overflow
from genlabel.densities.base import ClassDensity
from genlabel.densities.cross_validation import stratified_order

STEPS_AT_ONCE = 60_000
"""Trees times points that walk at once."""
FLATTEST = 1e-6
"""A feature that hardly varies has this share of the largest variance."""
FARTHEST = 1e30
"""Trees compare in single precision: what is farther than this counts as this."""


@DENSITIES.register("forest")
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

    normalized: ClassVar[bool] = False

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
            X, index, weight = (part[stratified_order(index.numpy())[: self.max_points]] for part in (X, index, weight))
        share = weight / weight.sum()
        self.mean_ = share @ X
        variance = share @ (X - self.mean_) ** 2
        largest = float(variance.max())
        self.variance_ = variance.clamp_min(FLATTEST * largest if largest > 0 else 1.0)
        prior = torch.zeros(len(self.classes_)).to(share).index_add_(0, index, share).numpy()
        # Trees take a feature that spans less than 1e-7 for constant: they grow in units, powers of 2, exactly.
        unit = torch.ldexp(torch.ones_like(variance), self.variance_.sqrt().frexp().exponent)
        grown = self._grow(X / unit, index, weight)
        self.trees_ = _joined([_nodes(tree, prior, unit.numpy()) for tree in grown], len(prior))

    def _grow(self, X: Tensor, index: Tensor, weight: Tensor) -> Iterator[Any]:
        """The trees of `ExtraTreesClassifier`, one at a time: each has room for all classes in every node."""
        points = np.ascontiguousarray(X.clamp(-FARTHEST, FARTHEST).float().numpy())  # as trees want them: no check
        rng = check_random_state(self.random_state)
        for seed in [rng.randint(np.iinfo(np.int32).max) for _ in range(self.trees)]:
            tree = ExtraTreeClassifier(
                min_samples_leaf=self.min_leaf,
                max_features=min(self.max_features, X.shape[1]),
                random_state=seed,
            )
            with config_context(assume_finite=True, skip_parameter_validation=True):  # an eighth of a small tree's time
                tree.fit(points, index.numpy(), weight.numpy(), check_input=False)
            yield tree.tree_

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
    rest: Tensor
    """(nodes,): P(c | node) / pi_c of a class without points there."""
    first: Tensor
    """(nodes + 1,): where the classes that have points in a node begin; none in one that is no leaf."""
    which: Tensor
    """(entries,): these classes, node after node."""
    more: Tensor
    """(entries,): by how much P(c | node) / pi_c is more than the rest."""
    depth: int
    widest: int
    """Classes in a leaf at most."""
    k: int

    def ratios(self, x: Tensor) -> Tensor:
        """The mean of the ratios of the leaves of points (m, d), (m, k)."""
        root, feature, child, threshold, rest, first, which, more = (to_device(part, x) for part in self[:8])
        start = torch.arange(len(x), dtype=torch.int32, device=x.device) * x.shape[1]
        start, values = start.repeat(len(root)), x.reshape(-1)
        node = root.repeat_interleave(len(x))
        for _ in range(self.depth):
            split = feature.index_select(0, node).add_(start)
            right = values.index_select(0, split) > threshold.index_select(0, node)
            node = child.index_select(0, 2 * node + right)
        total = rest.index_select(0, node).view(len(root), -1).sum(0)[:, None].repeat(1, self.k)
        place = torch.arange(len(x), device=x.device).mul_(self.k).repeat(len(root))
        entry, end = first.index_select(0, node), first.index_select(0, node + 1)
        for _ in range(self.widest):
            known = entry.clamp_max(len(which) - 1)
            value = more.index_select(0, known).mul_(entry < end)
            total.view(-1).index_add_(0, which.index_select(0, known) + place, value)
            entry += 1
        return total.div_(len(root))


class _Nodes(NamedTuple):
    """The nodes of one tree."""

    feature: NDArray[Any]
    child: NDArray[Any]
    """(nodes, 2)"""
    threshold: NDArray[np.float32]
    rest: NDArray[np.float64]
    inside: NDArray[Any]
    """Classes that have points in each; none in one that is no leaf."""
    which: NDArray[Any]
    more: NDArray[np.float64]
    depth: int


def _nodes(tree: Any, prior: NDArray[np.float64], unit: NDArray[np.float64]) -> _Nodes:
    """The nodes of a tree of scikit-learn, with one point more in each, shared out by the prior; in the units given."""
    leaf, own = tree.children_left < 0, np.arange(tree.node_count)
    child = np.stack([np.where(leaf, own, side) for side in (tree.children_left, tree.children_right)], 1)
    share, size = tree.value[:, 0], tree.weighted_n_node_samples
    inside = (share > 0) & leaf[:, None]
    node, which = inside.nonzero()
    more = (size / share.sum(1) / (size + 1.0))[node] * share[node, which] / prior[which]
    feature = np.where(leaf, 0, tree.feature)
    threshold = _rounded_down(tree.threshold * unit[feature])
    return _Nodes(feature, child, threshold, 1.0 / (size + 1.0), inside.sum(1), which, more, tree.max_depth)


def _joined(grown: Sequence[_Nodes], k: int) -> _Trees:
    """The nodes of all trees in one row, each tree numbered from that of its root."""
    root = np.cumsum([0, *(len(tree.feature) for tree in grown)])[:-1]
    child = np.concatenate([tree.child + start for tree, start in zip(grown, root, strict=True)]).reshape(-1)
    feature, threshold, rest, count, which, more = (
        np.concatenate([getattr(tree, name) for tree in grown])
        for name in ("feature", "threshold", "rest", "inside", "which", "more")
    )
    first = np.cumsum([0, *count])
    found = [root, feature, child, threshold, rest, first, which, more]
    numbers = [part.astype(np.int32) if part.dtype.kind == "i" else part for part in found]
    deepest, widest = max(tree.depth for tree in grown), int(count.max())
    return _Trees._make([*map(torch.from_numpy, numbers), deepest, widest, k])


def _rounded_down(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest number in single precision that is not above each: what is above the one is above the other."""
    with ignore_overflow():
        single = values.astype(np.float32)
    return np.where(single > values, np.nextafter(single, np.float32(-np.inf)), single)
