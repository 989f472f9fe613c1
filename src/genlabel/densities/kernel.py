"""A kernel density for each class, with the class covariance times h^2 as kernel: the paper's KDE."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import as_rng, chunks, to_device
from genlabel._registry import DENSITIES
from genlabel._validation import check_choice, check_count, check_positive
from genlabel.densities.base import MIN_STACK_WEIGHT
from genlabel.densities.covariance import (
    Whitening,
    diagonal_whitening,
    effective_size,
    ledoit_wolf,
    moments,
    shrink,
    usable_covariance,
    whiten,
    whitening,
)
from genlabel.densities.cross_validation import CrossValSample
from genlabel.densities.per_class import ClassSample, PerClassDensity, class_samples

BLOCK, GPU_BLOCK = 1 << 19, 1 << 26
"""Kernels evaluated at once: on a CPU so that they stay in the cache, on a GPU so that it is kept busy."""
LOG2_E = math.log2(math.e)
SINGLE_ERROR = 1e-3
"""Error of an exponent above which a class is evaluated in float64, whatever the query is."""


class KernelModel(NamedTuple):
    """The weighted sum of Gaussian kernels of one class, each with covariance h^2 Sigma_c.

    In whitened coordinates, scaled so that 2^(-|a - b|^2 / 2) is a kernel's value.
    """

    h: float
    """The bandwidth."""
    centre: Tensor
    """(d,)"""
    matrix: Tensor
    """(d, d): a = (x - centre) @ matrix; or the diagonal of one, (d,)."""
    points: Tensor
    """(n, d + 2): [b, -|b|^2 / 2 + log2 weight, 1]."""
    weight: Tensor
    """(n,), of sum 1."""
    log_norm: float
    """Logarithm of a kernel's height."""
    single: bool
    """Whether a query in float32 may be answered in float32."""
    left_out: NDArray[np.float64] | None
    """The points (n, d) that do not count their own kernel; None if all do."""

    def log_prob(self, x: Tensor) -> Tensor:
        """Log-sum of the kernels: one matrix product a block, base 2 inside (exp2 is the faster instruction)."""
        if not self.single and x.dtype != torch.float64:
            return self.log_prob(x.double()).to(x)
        centre, matrix, points = (to_device(part, x) for part in (self.centre, self.matrix, self.points))
        points, a = points.to(x), whiten(x.double(), centre, matrix).to(x)
        queries = torch.cat([a, torch.ones_like(a[:, :1]), -0.5 * (a * a).sum(1, keepdim=True)], dim=1)
        known = None if self.left_out is None else _places(x, self.left_out)
        size = max(1, (BLOCK if x.device.type == "cpu" else GPU_BLOCK) // len(points))
        room = None if queries.requires_grad else x.new_empty(min(size, len(x)), len(points))
        total = x.new_empty(len(x))
        for some in chunks(len(x), size):
            exponents = torch.mm(queries[some], points.T, out=None if room is None else room[: some.stop - some.start])
            total[some] = self._block(exponents, None if known is None else known[some])
        return total / LOG2_E + self.log_norm

    def _block(self, exponents: Tensor, known: Tensor | None) -> Tensor:
        """Return log2 of the sum of 2^exponents for each row, without the kernel of the point that it is, if any."""
        if known is None:
            return _log2_sum(exponents)
        rows = (known >= 0).nonzero()[:, 0]
        exponents[rows, known[rows]] = -math.inf
        left = torch.zeros_like(exponents[:, 0])
        left[rows] = torch.log2(1.0 - self.weight.to(exponents)[known[rows]])
        return torch.where(left.isinf(), left, _log2_sum(exponents) - left)


@DENSITIES.register("kernel")
@final
class KernelDensity(PerClassDensity):
    r"""A Gaussian kernel density for each class.

    .. math:: p_c(x) = \frac{1}{n_c} \sum_{i: y_i = c} N(x; x_i, h^2 \Sigma_c)

    (arXiv Section 1.2, "Kernel density estimator"): what `scipy.stats.gaussian_kde` computes for the
    points of a class, in log space, several times faster, in bounded memory.

    Parameters
    ----------
    bandwidth : "scott", "silverman", "likelihood" or float
        The factor h: n^(-1/(d+4)), (n (d+2)/4)^(-1/(d+4)), the one of the largest leave-one-out likelihood, or
        a number. With weights, n is the effective size (sum w)^2 / sum w^2. Scott's and Silverman's factors
        suit classes that are single lumps; a ring or several lumps ask for "likelihood". Many equal rows
        mislead the likelihood towards a small h.
    leave_one_out : bool
        A query that *is* a training point does not count its own kernel; other queries are unchanged.
    covariance : "class", "shrunk" or "shared"
        What stands for Sigma_c: the covariance of the class, the same after Ledoit and Wolf's shrinkage, or the
        diagonal of the covariance within all classes.
    max_points : int or None
        A class of more points keeps so many kernels, at points that are drawn without replacement; Sigma_c and h are
        still those of all of its points. None keeps all.
    random_state : int, Generator or None
        For that draw.

    A class with at most d points, or with a singular covariance, is regularised, with a
    :class:`DensityWarning` that names it. Evaluation takes time in proportion to queries times training points:
    labelling the mixed points of 100 epochs on 20,000 rows means 10^11 kernels, unless there are `max_points`.

    Examples
    --------
    >>> density = KernelDensity().fit([[0.0], [2.0], [5.0], [7.0]], [0, 0, 1, 1])
    >>> density.log_prob([[1.0]]).round(3)
    array([[-1.457, -7.097]])
    """

    native = True

    fingerprint_defaults: ClassVar[dict[str, Any]] = {"max_points": None, "random_state": 0}
    """Parameters that came later, and the values at which it is what it was without them: for fingerprints."""

    def __init__(
        self,
        bandwidth: str | float = "scott",
        leave_one_out: bool = False,
        covariance: str = "class",
        max_points: int | None = None,
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        self.bandwidth = bandwidth
        self.leave_one_out = leave_one_out
        self.covariance = covariance
        self.max_points = max_points
        self.random_state = random_state

    def _fit_class(self, sample: ClassSample) -> KernelModel:
        white = self._whitening(sample)
        return _kernel_model(self._thinned(sample), white, self._factor(sample, white), self.leave_one_out)

    @property
    def cv_family(self) -> Hashable | None:
        """Those of given bandwidths share the distances."""
        if isinstance(self.bandwidth, str) or self.leave_one_out or not isinstance(self.random_state, int):
            return None
        return ("kernel", self.covariance, self.max_points, self.random_state)

    def held_out_log_prob(self, folds: CrossValSample, densities: Sequence[KernelDensity]) -> Tensor:
        """All bandwidths of a fold share the distances."""
        bandwidths = [density._check_bandwidth() for density in densities]
        found = folds.empty_log_prob(len(densities))
        for train, rows in zip(folds.train, folds.valid, strict=True):
            samples = class_samples(np.arange(folds.k), folds.X[train], folds.classes[train], folds.weight[train])
            for c, sample in enumerate(samples):
                white = self._whitening(sample)
                found[:, rows, c] = _log_sums(folds.X[rows], self._thinned(sample), white, bandwidths)
        return found

    @property
    def min_stack_weight(self) -> float:
        """More than that of others: it is by far the slowest to answer."""
        return 2.5 * MIN_STACK_WEIGHT

    def _thinned(self, sample: ClassSample) -> ClassSample:
        """The points of a class that have kernels."""
        n = len(sample.X)
        if self.max_points is None or n <= check_count("max_points", self.max_points):
            return sample
        kept = torch.from_numpy(np.sort(as_rng(self.random_state).permutation(n)[: self.max_points]))
        return replace(sample, X=sample.X[kept], weight=sample.weight[kept])

    def _whitening(self, sample: ClassSample) -> Whitening:
        """The whitening of the kernels of a class, at bandwidth 1."""
        check_choice("covariance", self.covariance, ["class", "shrunk", "shared"])
        if self.covariance == "shared":
            return diagonal_whitening(sample.X.mean(0), sample.within.variance)
        mean, covariance = moments(sample.X, sample.weight, unbiased=len(sample.X) > 1)
        if self.covariance == "shrunk" and sample.has_spread:
            biased = moments(sample.X, sample.weight, unbiased=False)[1]
            covariance = shrink(covariance, ledoit_wolf(sample.X, sample.weight, mean, biased))
        else:
            covariance = usable_covariance(sample, covariance, "KernelDensity")
        return whitening(sample, mean, covariance, "KernelDensity")

    def _check_bandwidth(self) -> float:
        return check_positive("bandwidth", self.bandwidth, "or choose 'scott', 'silverman' or 'likelihood'")

    def _factor(self, sample: ClassSample, white: Whitening) -> float:
        if not isinstance(self.bandwidth, str):
            return self._check_bandwidth()
        known = ["scott", "silverman", "likelihood"]
        check_choice("bandwidth", self.bandwidth, known, also="a number above 0")
        d = sample.X.shape[1]
        n = effective_size(sample.weight)
        scott = (n * (d + 2) / 4.0 if self.bandwidth == "silverman" else n) ** (-1.0 / (d + 4))
        return _likeliest(sample, white, scott) if self.bandwidth == "likelihood" and len(sample.X) > 1 else scott


def _kernel_model(sample: ClassSample, white: Whitening, h: float, leave_one_out: bool) -> KernelModel:
    n, d = sample.X.shape
    weight = sample.weight / sample.weight.sum()
    matrix = white.matrix * (math.sqrt(LOG2_E) / h)
    b = whiten(sample.X, white.centre, matrix)
    lift = weight.log2() - 0.5 * (b * b).sum(1)
    points = torch.cat([b, lift[:, None], torch.ones(n, 1, dtype=b.dtype)], 1)
    log_norm = -0.5 * (white.log_det + d * math.log(2.0 * math.pi)) - d * math.log(h)
    # In float32 the exponent of a kernel is off by about |b|^2 times the rounding: with narrow kernels, too much.
    single = float((b * b).sum(1).max()) * torch.finfo(torch.float32).eps < SINGLE_ERROR
    left_out = sample.X.numpy() if leave_one_out else None
    return KernelModel(h, white.centre, matrix, points, weight, log_norm, single, left_out)


def _log_sums(X: Tensor, sample: ClassSample, white: Whitening, bandwidths: Sequence[float]) -> Tensor:
    """Log-densities (number of bandwidths, m) of points (m, d) in float64, from one matrix of distances a block."""
    share = sample.weight / sample.weight.sum()
    d = X.shape[1]
    a, b = (whiten(points, white.centre, white.matrix) for points in (X, sample.X))
    found = X.new_empty(len(bandwidths), len(X))
    for some in chunks(len(X), max(1, BLOCK // len(b))):
        distance = torch.addmm((b * b).sum(1), a[some], b.T, alpha=-2.0)
        nearest = distance.amin(1, keepdim=True)
        distance -= nearest
        nearest = (nearest[:, 0] + (a[some] ** 2).sum(1)).clamp_min(0)
        for found_row, h in zip(found, bandwidths, strict=True):
            sums = (distance * (-0.5 * LOG2_E / h**2)).exp2_() @ share
            found_row[some] = sums.log() - 0.5 * nearest / h**2 - d * math.log(h)
    return found - 0.5 * (white.log_det + d * math.log(2.0 * math.pi))


def _likeliest(sample: ClassSample, white: Whitening, scott: float) -> float:
    """Return the factor under which the class's points, each left out in turn, are most likely.

    The factors go from Scott's times 2 down to Scott's over 32, in steps of sqrt 2; at most 2,000 of the points
    are asked.
    """
    some = slice(None, None, -(-len(sample.X) // 2000))
    weight = sample.weight[some] / sample.weight[some].sum()
    factors = [scott * 2.0 ** (1 - step / 2) for step in range(13)]
    models = (_kernel_model(sample, white, h, leave_one_out=True) for h in factors)
    return factors[int(np.argmax([float(weight @ model.log_prob(sample.X[some])) for model in models]))]


def _log2_sum(exponents: Tensor) -> Tensor:
    """Return log2 of the row sums of 2^exponents, in place."""
    top = exponents.detach().amax(1, keepdim=True).clamp_min(torch.finfo(exponents.dtype).min)
    return exponents.sub_(top).exp2_().sum(1).log2_() + top[:, 0]


def _places(x: Tensor, points: NDArray[np.float64]) -> Tensor:
    """Index of a point equal to each row; -1 where there is none."""
    queries = x.detach().cpu().numpy()
    keys, known = _row_keys(queries), _row_keys(points.astype(queries.dtype))
    order = np.argsort(known)
    place = order[np.searchsorted(known, keys, sorter=order).clip(max=len(known) - 1)]
    return torch.from_numpy(np.where(known[place] == keys, place, -1)).to(x.device)


def _row_keys(X: NDArray[np.floating]) -> NDArray[np.void]:
    """Each row as one comparable value; -0.0 counts as 0.0."""
    plain = np.ascontiguousarray(X + 0.0)
    return plain.view(np.dtype((np.void, plain.dtype.itemsize * plain.shape[1])))[:, 0]
