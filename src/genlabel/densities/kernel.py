"""Kernel density of each class, with h^2 times the class covariance as kernel: the KDE of the paper."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import as_rng, chunks, to_device
from genlabel._validation import check_choice, check_count, check_positive
from genlabel.densities.base import MIN_STACK_WEIGHT, PerClassDensity
from genlabel.densities.covariance import LOG_2_PI, Whitening, moments, usable_covariance, whiten
from genlabel.densities.samples import ClassSample, CrossValSample, class_samples, effective_size
from genlabel.registry import DENSITIES

CHUNK_KERNELS, GPU_CHUNK_KERNELS = 1 << 19, 1 << 26
"""Kernels per chunk: on a CPU few enough for the cache, on a GPU enough to keep it busy."""
LOG2_E = math.log2(math.e)
BANDWIDTH_HINT = "or choose 'scott', 'silverman' or 'likelihood'"
MAX_SINGLE_ERROR = 1e-3  # error of an exponent in single precision above which a class is always evaluated in float64
MAX_BANDWIDTH_ROWS = 2000  # points of a class on which bandwidths are compared by likelihood


class KernelModel(NamedTuple):
    """Weighted sum of Gaussian kernels of one class, each with covariance h^2 Sigma_c.

    Coordinates a are whitened and scaled so that 2^(-|a - b|^2 / 2) is the value of the kernel at b.
    """

    h: float  # bandwidth
    center: Tensor  # (d,)
    matrix: Tensor  # (d, d) with a = (x - center) @ matrix, or the diagonal (d,)
    points: Tensor  # (n, d + 2): [b, -|b|^2 / 2 + log2 weight, 1]
    weight: Tensor  # (n,), of sum 1
    log_norm: float  # logarithm of the height of a kernel
    single: bool  # True if queries in float32 are evaluated in float32
    left_out: NDArray[np.float64] | None  # points (n, d) that exclude their own kernel; None for leave_one_out=False

    @classmethod
    def of(cls, sample: ClassSample, white: Whitening, h: float, leave_one_out: bool) -> KernelModel:
        """Return the kernels at the points of a sample."""
        n, d = sample.X.shape
        weight = sample.weight / sample.weight.sum()
        matrix = white.matrix * (math.sqrt(LOG2_E) / h)
        b = whiten(sample.X, white.center, matrix)
        lift = weight.log2() - 0.5 * (b * b).sum(1)
        points = torch.cat([b, lift[:, None], torch.ones(n, 1, dtype=b.dtype)], 1)
        log_norm = -0.5 * (white.log_det + d * LOG_2_PI) - d * math.log(h)
        # In float32 the error of an exponent is about |b|^2 times the rounding: too large for narrow kernels.
        single = float((b * b).sum(1).max()) * torch.finfo(torch.float32).eps < MAX_SINGLE_ERROR
        left_out = sample.X.numpy() if leave_one_out else None
        return cls(h, white.center, matrix, points, weight, log_norm, single, left_out)

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the log-sum of the kernels: one matrix product per chunk, in base 2 (exp2 is faster than exp)."""
        if not self.single and x.dtype != torch.float64:
            return self.log_prob(x.double()).to(x)
        center, matrix, points = (to_device(part, x) for part in (self.center, self.matrix, self.points))
        points, a = points.to(x), whiten(x.double(), center, matrix).to(x)
        queries = torch.cat([a, torch.ones_like(a[:, :1]), -0.5 * (a * a).sum(1, keepdim=True)], dim=1)
        own: Tensor | None = None  # index of the point that equals each query, -1 if none does
        if self.left_out is not None:
            own = torch.from_numpy(index_of_equal_rows(x.detach().cpu().numpy(), self.left_out)).to(x.device)
        size = max(1, (CHUNK_KERNELS if x.device.type == "cpu" else GPU_CHUNK_KERNELS) // len(points))
        buffer = None if queries.requires_grad else x.new_empty(min(size, len(x)), len(points))
        total = x.new_empty(len(x))
        for rows in chunks(len(x), size):
            out = None if buffer is None else buffer[: rows.stop - rows.start]
            exponents = torch.mm(queries[rows], points.T, out=out)
            if own is not None:
                left_out = (own[rows] >= 0).nonzero()[:, 0]  # queries whose own kernel is left out
                exponents[left_out, own[rows][left_out]] = -math.inf
            top = exponents.detach().amax(1, keepdim=True).clamp_min(torch.finfo(exponents.dtype).min)
            total[rows] = exponents.sub_(top).exp2_().sum(1).log2_() + top[:, 0]
            if own is not None:
                remaining = torch.zeros_like(top[:, 0])  # log2 of the weight of all other kernels
                remaining[left_out] = torch.log2(1.0 - self.weight.to(top)[own[rows][left_out]])
                total[rows] = torch.where(remaining.isinf(), remaining, total[rows] - remaining)
        return total / LOG2_E + self.log_norm


def index_of_equal_rows(queries: NDArray[Any], points: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the index of the point (n, d) that equals each query (m, d) in its precision, (m,); -1 if none does.

    >>> index_of_equal_rows(np.array([[0.5], [2.0]]), np.array([[1.0], [2.0]])).tolist()
    [-1, 1]
    """
    # Rows are compared as bytes, by a binary search; adding 0.0 turns -0.0 into 0.0, which has other bytes.
    row_type = np.dtype((np.void, queries.itemsize * queries.shape[1]))
    arrays = (np.ascontiguousarray(rows.astype(queries.dtype) + 0.0) for rows in (queries, points))
    keys, known = (array.view(row_type)[:, 0] for array in arrays)
    order = np.argsort(known)
    index = order[np.searchsorted(known, keys, sorter=order).clip(max=len(known) - 1)]
    return np.where(known[index] == keys, index, -1)


@DENSITIES.register("kernel")
@final
@dataclass(eq=False, repr=False)
class KernelDensity(PerClassDensity):
    r"""A Gaussian kernel density for each class.

    .. math:: p_c(x) = \frac{1}{n_c} \sum_{i: y_i = c} N(x; x_i, h^2 \Sigma_c)

    (arXiv Section 1.2, "Kernel density estimator"): `scipy.stats.gaussian_kde` of each class, but in log space, faster,
    and in bounded memory.

    Parameters
    ----------
    bandwidth : "scott", "silverman", "likelihood" or float
        Factor h: n^(-1/(d+4)), (n (d+2)/4)^(-1/(d+4)), the maximum of the leave-one-out likelihood, or a number. With
        weights, n is the effective sample size. The rules of Scott and Silverman suit unimodal classes; use
        "likelihood" for rings and several clusters. Many equal rows bias the likelihood toward a small h.
    leave_one_out : bool
        Whether a query that *is* a training point excludes its own kernel.
    covariance : "class", "shrunk" or "shared"
        Sigma_c: the class covariance, the same after Ledoit-Wolf shrinkage, or the diagonal of the within-class
        covariance.
    max_points, random_state : int or None
        Maximal number of kernels per class, at points drawn without replacement, and the seed of the draw; Sigma_c and
        h are those of all points.

    A class with at most d points, or with a singular covariance, is regularized, with a
    :class:`DensityWarning` that names it. The cost of a query is proportional to the number of kernels.

    Examples
    --------
    >>> density = KernelDensity().fit([[0.0], [2.0], [5.0], [7.0]], [0, 0, 1, 1])
    >>> density.log_prob([[1.0]]).round(3)
    array([[-1.457, -7.097]])
    """

    bandwidth: str | float = "scott"
    leave_one_out: bool = False
    covariance: str = "class"
    max_points: int | None = None
    random_state: int | np.random.Generator | None = 0

    native = True
    min_stack_weight = 2.5 * MIN_STACK_WEIGHT  # queries are by far the slowest

    def _fit_class(self, sample: ClassSample) -> KernelModel:
        white = self._whitening(sample)
        d, n = sample.X.shape[1], float(effective_size(sample.weight))
        if isinstance(self.bandwidth, str):
            check_choice("bandwidth", self.bandwidth, ["scott", "silverman", "likelihood"], also="a number above 0")
            h = (n * (d + 2) / 4.0 if self.bandwidth == "silverman" else n) ** (-1.0 / (d + 4))
        else:
            h = check_positive("bandwidth", self.bandwidth, BANDWIDTH_HINT)
        if self.bandwidth == "likelihood" and len(sample.X) > 1:
            rows = slice(None, None, -(-len(sample.X) // MAX_BANDWIDTH_ROWS))
            weight = sample.weight[rows] / sample.weight[rows].sum()
            grid = [h * 2.0 ** (1 - step / 2) for step in range(13)]  # from twice the rule down to a 32nd of it
            models = (KernelModel.of(sample, white, bandwidth, leave_one_out=True) for bandwidth in grid)
            h = grid[int(np.argmax([float(weight @ model.log_prob(sample.X[rows])) for model in models]))]
        return KernelModel.of(self._subsample(sample), white, h, self.leave_one_out)

    def _whitening(self, sample: ClassSample) -> Whitening:
        """Return the whitening of the kernels of a class, at bandwidth 1."""
        check_choice("covariance", self.covariance, ["class", "shrunk", "shared"])
        if self.covariance == "shared":
            return Whitening.of_variances(sample.X.mean(0), sample.within.variance)
        mean, covariance = moments(sample.X, sample.weight, unbiased=len(sample.X) > 1)
        shrinkage = "ledoit-wolf" if self.covariance == "shrunk" else None
        covariance = usable_covariance(sample, covariance, "KernelDensity", shrinkage)
        return Whitening.of(sample, mean, covariance, "KernelDensity")

    def _subsample(self, sample: ClassSample) -> ClassSample:
        """Return the points of a class that have a kernel."""
        n = len(sample.X)
        if self.max_points is None or n <= check_count("max_points", self.max_points):
            return sample
        rows = torch.from_numpy(np.sort(as_rng(self.random_state).permutation(n)[: self.max_points]))
        return replace(sample, X=sample.X[rows], weight=sample.weight[rows])

    @property
    def cv_family(self) -> Hashable | None:
        """Densities with numeric bandwidths share the distances."""
        if isinstance(self.bandwidth, str) or self.leave_one_out or not isinstance(self.random_state, int):
            return None
        return ("kernel", self.covariance, self.max_points, self.random_state)

    def held_out_log_prob(self, sample: CrossValSample, densities: Sequence[KernelDensity]) -> Tensor:
        """Return held-out log-densities (M, n, k); all bandwidths of a fold share the distances."""
        bandwidths = [check_positive("bandwidth", density.bandwidth, BANDWIDTH_HINT) for density in densities]
        log_prob, d = sample.empty_log_prob(len(densities)), sample.X.shape[1]
        for train, rows in zip(sample.train, sample.valid, strict=True):
            parts = class_samples(np.arange(sample.k), sample.X[train], sample.classes[train], sample.weight[train])
            for c, whole_class in enumerate(parts):
                white, part = self._whitening(whole_class), self._subsample(whole_class)
                share = part.weight / part.weight.sum()
                a, b = (whiten(points, white.center, white.matrix) for points in (sample.X[rows], part.X))
                for chunk in chunks(len(rows), max(1, CHUNK_KERNELS // len(b))):
                    # Squared distances |a - b|^2 less that of the nearest kernel, so that no sum underflows.
                    distance = torch.addmm((b * b).sum(1), a[chunk], b.T, alpha=-2.0)
                    least = distance.amin(1, keepdim=True)
                    distance -= least
                    nearest = (least[:, 0] + (a[chunk] ** 2).sum(1)).clamp_min(0)
                    for m, h in enumerate(bandwidths):
                        sums = (distance * (-0.5 * LOG2_E / h**2)).exp2_() @ share
                        log_prob[m, rows[chunk], c] = sums.log() - 0.5 * nearest / h**2 - d * math.log(h)
                log_prob[:, rows, c] -= 0.5 * (white.log_det + d * LOG_2_PI)
        return log_prob
