"""Density whose classes are separated by a forest of random trees: for steps, thresholds and irrelevant features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.tree import ExtraTreeClassifier
from sklearn.utils import check_random_state
from torch import Tensor

from genlabel._arrays import chunks, to_device
from genlabel._validation import check_count, ignore_overflow
from genlabel.densities.base import ClassDensity
from genlabel.densities.covariance import LOG_2_PI
from genlabel.densities.samples import stratified_order
from genlabel.registry import DENSITIES

CHUNK_STEPS = 60_000  # trees times points per chunk
MIN_RELATIVE_VARIANCE = 1e-6  # lower bound on the variance of a feature, relative to the largest
MAX_MAGNITUDE = 1e30  # bound on features: trees compare in single precision


@DENSITIES.register("forest")
@final
@dataclass(eq=False, repr=False)
class ForestDensity(ClassDensity):
    r"""A Gaussian of all points, times the class histograms of random trees.

    .. math:: p_c(x) = N(x; \mu, \operatorname{diag} \sigma^2) \, P(c \mid x) / \pi_c

    where P(c | x) is the mean over extremely randomized trees (Geurts et al., 2006) of the class frequencies in the
    leaf of x, with one additional point that is distributed like all points. p_c integrates to 1 as far as the mean of
    P(c | x) over the Gaussian is pi_c. Irrelevant features, steps and unequal scales do no harm.

    Parameters
    ----------
    n_estimators, min_samples_leaf, max_features : int
        Number of trees, minimal number of points in a leaf, and maximal number of features tried at each split.
    max_points : int or None
        Size of the stratified subsample that the trees are fitted to; None is all points.
    random_state : int
        Seed of the splits.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]
    >>> density = ForestDensity().fit(X, [0, 0, 1, 1, 0, 0])
    >>> density.log_prob([[0.5], [2.5], [4.5]]).argmax(1)
    array([0, 1, 0])
    """

    n_estimators: int = 30
    min_samples_leaf: int = 1
    max_features: int = 64
    max_points: int | None = None
    random_state: int = 0

    normalized = False

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        for name in ("n_estimators", "min_samples_leaf", "max_features"):
            check_count(name, getattr(self, name))
        if self.max_points is not None and len(X) > check_count("max_points", self.max_points):
            rows = stratified_order(index.numpy())[: self.max_points]
            X, index, weight = X[rows], index[rows], weight[rows]
        share = weight / weight.sum()
        self.mean_ = share @ X
        variance = share @ (X - self.mean_) ** 2
        largest = float(variance.max())
        self.variance_ = variance.clamp_min(MIN_RELATIVE_VARIANCE * largest if largest > 0 else 1.0)
        prior = torch.zeros(len(self.classes_)).to(share).index_add_(0, index, share).numpy()
        # Trees take a feature with a range below 1e-7 for constant: they grow in units that are exact powers of 2.
        unit = torch.ldexp(torch.ones_like(variance), self.variance_.sqrt().frexp().exponent)
        points = np.ascontiguousarray((X / unit).clamp(-MAX_MAGNITUDE, MAX_MAGNITUDE).float().numpy())
        rng = check_random_state(self.random_state)
        parts = []
        for seed in [rng.randint(np.iinfo(np.int32).max) for _ in range(self.n_estimators)]:
            # One tree at a time, not ExtraTreesClassifier: scikit-learn's trees store all classes in every node.
            max_features = min(self.max_features, X.shape[1])
            tree = ExtraTreeClassifier(
                min_samples_leaf=self.min_samples_leaf, max_features=max_features, random_state=seed
            )
            with config_context(assume_finite=True, skip_parameter_validation=True):  # these take 1/8 of a small fit
                tree.fit(points, index.numpy(), weight.numpy(), check_input=False)
            parts.append(_tree_nodes(tree.tree_, prior, unit.numpy()))
        self.trees_ = Trees.of(parts, len(prior))

    def _log_prob(self, X: Tensor) -> Tensor:
        x = X.detach().clamp(-MAX_MAGNITUDE, MAX_MAGNITUDE).float()
        size = max(1, CHUNK_STEPS // len(self.trees_.root))
        ratio = torch.cat([self.trees_.ratios(x[rows]) for rows in chunks(len(x), size)])
        mean, variance = to_device(self.mean_, X), to_device(self.variance_, X)
        distance = ((X.double() - mean) ** 2 / variance).sum(1, keepdim=True)
        height = -0.5 * (variance.log().sum() + X.shape[1] * LOG_2_PI)
        return (ratio.log() + height - 0.5 * distance).to(X)


def _tree_nodes(tree: Any, prior: NDArray[np.float64], unit: NDArray[np.float64]) -> tuple[Any, ...]:
    """Return the nodes of a scikit-learn tree in the given units; each leaf has one more point, of the prior.

    They are `feature`, `child`, `threshold`, `base_ratio`, the number of entries, the entries, and `depth` of `Trees`.
    """
    is_leaf, itself = tree.children_left < 0, np.arange(tree.node_count)
    child = np.stack([np.where(is_leaf, itself, side) for side in (tree.children_left, tree.children_right)], 1)
    share, size = tree.value[:, 0], tree.weighted_n_node_samples
    has_entry = (share > 0) & is_leaf[:, None]
    node, entry_class = has_entry.nonzero()
    excess = (size / share.sum(1) / (size + 1.0))[node] * share[node, entry_class] / prior[entry_class]
    feature = np.where(is_leaf, 0, tree.feature)
    threshold = tree.threshold * unit[feature]
    with ignore_overflow():
        single = threshold.astype(np.float32)
    # Rounded down, so that a point above the threshold is above the rounded one.
    single = np.where(single > threshold, np.nextafter(single, np.float32(-np.inf)), single)
    return feature, child, single, 1.0 / (size + 1.0), has_entry.sum(1), entry_class, excess, tree.max_depth


class Trees(NamedTuple):
    """Nodes of all trees, concatenated; a leaf is its own child.

    A leaf has an entry for each class with points in it, so that memory does not grow with the number of classes.
    """

    root: Tensor  # (trees,)
    feature: Tensor  # (nodes,)
    child: Tensor  # left and right child of each node, (2 nodes,)
    threshold: Tensor  # points with a larger value of the feature go right, (nodes,)
    base_ratio: Tensor  # P(c | node) / pi_c of a class without points in the node, (nodes,)
    first_entry: Tensor  # index of the first entry of each node, (nodes + 1,); inner nodes have none
    entry_class: Tensor  # class of each entry, leaf after leaf, (entries,)
    entry_excess: Tensor  # excess of P(c | node) / pi_c over `base_ratio`, (entries,)
    depth: int
    max_entries: int  # largest number of entries of a leaf
    k: int

    @classmethod
    def of(cls, parts: list[tuple[Any, ...]], k: int) -> Trees:
        """Concatenate the results of :func:`_tree_nodes`."""
        features, children, *others, depths = zip(*parts, strict=True)
        root = np.cumsum([0, *map(len, features)])[:-1]
        child = np.concatenate([part + start for part, start in zip(children, root, strict=True)]).reshape(-1)
        feature, threshold, base_ratio, n_entries, entry_class, entry_excess = map(np.concatenate, (features, *others))
        first_entry = np.cumsum([0, *n_entries])
        arrays = [root, feature, child, threshold, base_ratio, first_entry, entry_class, entry_excess]
        compact = [part.astype(np.int32) if part.dtype.kind == "i" else part for part in arrays]
        return cls._make([*map(torch.from_numpy, compact), max(depths), int(n_entries.max()), k])

    def ratios(self, x: Tensor) -> Tensor:
        """Return the mean over trees of P(c | leaf) / pi_c at points (m, d), (m, k)."""
        root, feature, child, threshold, base_ratio, first_entry, entry_class, entry_excess = (
            to_device(part, x) for part in self[:8]
        )
        # All points descend all trees at once: the leaf of each pair of tree and point, tree after tree.
        row_start = torch.arange(len(x), dtype=torch.int32, device=x.device) * x.shape[1]
        row_start, values = row_start.repeat(len(root)), x.reshape(-1)
        node = root.repeat_interleave(len(x))
        for _ in range(self.depth):
            position = feature.index_select(0, node).add_(row_start)
            goes_right = values.index_select(0, position) > threshold.index_select(0, node)
            node = child.index_select(0, 2 * node + goes_right)
        # Then the entries of each leaf are added, the first of every leaf, the second, and so on.
        total = base_ratio.index_select(0, node).view(len(root), -1).sum(0)[:, None].repeat(1, self.k)
        row_offset = torch.arange(len(x), device=x.device).mul_(self.k).repeat(len(root))
        entry, end = first_entry.index_select(0, node), first_entry.index_select(0, node + 1)
        for _ in range(self.max_entries):
            in_range = entry.clamp_max(len(entry_class) - 1)
            excess = entry_excess.index_select(0, in_range).mul_(entry < end)
            total.view(-1).index_add_(0, entry_class.index_select(0, in_range) + row_offset, excess)
            entry += 1
        return total.div_(len(root))
