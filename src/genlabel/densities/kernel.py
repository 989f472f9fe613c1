"""A kernel density for each class, with the class covariance times h^2 as kernel: the paper's KDE."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from genlabel.arrays import chunks
from genlabel.checks import check_choice, check_positive
from genlabel.densities.base import ClassSample, PerClassDensity
from genlabel.densities.covariance import (
    Whitening,
    effective_size,
    ledoit_wolf,
    moments,
    shrink,
    usable_covariance,
    whitening,
)

__all__ = ["KernelDensity", "KernelModel", "kernel_log_sums"]

BLOCK, GPU_BLOCK = 1 << 19, 1 << 26
"""Kernels evaluated at once: on a CPU so that they stay in the cache, on a GPU so that it is kept busy."""
LOG2_E = math.log2(math.e)
SINGLE_ERROR = 1e-3
"""Error of an exponent above which a class is evaluated in float64, whatever the query is."""


class _Kernels(NamedTuple):
    """The kernels of one class in whitened coordinates, scaled so that 2^(-|a - b|^2 / 2) is a kernel's value."""

    centre: Tensor
    matrix: Tensor
    points: Tensor
    """(n, d + 2): [b, -|b|^2 / 2 + log2 weight, 1]."""


@final
class KernelModel:
    """The weighted sum of Gaussian kernels of one class, each with covariance h^2 Sigma_c."""

    def __init__(self, sample: ClassSample, white: Whitening, h: float, leave_one_out: bool) -> None:
        n, d = sample.X.shape
        self.h = h
        self.weight = sample.weight / sample.weight.sum()
        self.own = sample.X.numpy() if leave_one_out else None
        matrix = white.matrix * (math.sqrt(LOG2_E) / h)
        b = (sample.X - white.centre) @ matrix
        lift = self.weight.log2() - 0.5 * (b * b).sum(1)
        points = torch.cat([b, lift[:, None], torch.ones(n, 1, dtype=b.dtype)], 1)
        self.kernels = _Kernels(white.centre, matrix, points)
        # In float32 the exponent of a kernel is off by about |b|^2 times the rounding: with narrow kernels, too much.
        self.single = float((b * b).sum(1).max()) * torch.finfo(torch.float32).eps < SINGLE_ERROR
        self.log_norm = -0.5 * (white.log_det + d * math.log(2.0 * math.pi)) - d * math.log(h)

    def log_prob(self, x: Tensor) -> Tensor:
        """Log-sum of the kernels: one matrix product a block, base 2 inside (exp2 is the faster instruction)."""
        if not self.single and x.dtype != torch.float64:
            return self.log_prob(x.double()).to(x)
        centre, matrix, points = (part.to(x.device) for part in self.kernels)
        points, a = points.to(x), ((x.double() - centre) @ matrix).to(x)
        queries = torch.cat([a, torch.ones_like(a[:, :1]), -0.5 * (a * a).sum(1, keepdim=True)], dim=1)
        own = self._own_kernel(x) if self.own is not None else None
        size = max(1, (BLOCK if x.device.type == "cpu" else GPU_BLOCK) // len(points))
        room = x.new_empty(min(size, len(x)), len(points))
        total = x.new_empty(len(x))
        for rows in chunks(len(x), size):
            exponents = torch.mm(queries[rows], points.T, out=room[: rows.stop - rows.start])
            total[rows] = self._block(exponents, None if own is None else own[rows])
        return total / LOG2_E + self.log_norm

    def _block(self, exponents: Tensor, own: Tensor | None) -> Tensor:
        """Return log2 of the sum of 2^exponents for each row, without the row's own kernel where it has one."""
        if own is None:
            return _log2_sum(exponents)
        rows = (own >= 0).nonzero()[:, 0]
        exponents[rows, own[rows]] = -math.inf
        left = torch.zeros_like(exponents[:, 0])
        left[rows] = torch.log2(1.0 - self.weight.to(exponents)[own[rows]])
        return torch.where(left.isinf(), left, _log2_sum(exponents) - left)

    def _own_kernel(self, x: Tensor) -> Tensor:
        """Index of a training point equal to each row; -1 where there is none."""
        assert self.own is not None
        queries = x.cpu().numpy()
        keys, known = _row_keys(queries), _row_keys(self.own.astype(queries.dtype))
        order = np.argsort(known)
        place = order[np.searchsorted(known, keys, sorter=order).clip(max=len(known) - 1)]
        return torch.from_numpy(np.where(known[place] == keys, place, -1)).to(x.device)


@final
class KernelDensity(PerClassDensity):
    r"""A Gaussian kernel density for each class.

    .. math:: p_c(x) = \frac{1}{n_c} \sum_{i: y_i = c} N(x; x_i, h^2 \Sigma_c)

    (arXiv, Preliminaries, "Kernel density estimator"): what `scipy.stats.gaussian_kde` computes for the
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

    A class with at most d points, or with a singular covariance, is regularised, with a
    :class:`DensityWarning` that names it. Evaluation takes time in proportion to queries times training points:
    labelling the mixed points of 100 epochs on 20,000 rows means 10^11 kernels.

    Examples
    --------
    >>> density = KernelDensity().fit([[0.0], [2.0], [5.0], [7.0]], [0, 0, 1, 1])
    >>> density.log_prob([[1.0]]).round(3)
    array([[-1.457, -7.097]])
    """

    native = True

    def __init__(self, bandwidth: Any = "scott", leave_one_out: bool = False, covariance: str = "class") -> None:
        self.bandwidth = bandwidth
        self.leave_one_out = leave_one_out
        self.covariance = covariance

    def _fit_class(self, sample: ClassSample) -> KernelModel:
        white = self.whitening_of(sample)
        return KernelModel(sample, white, self._factor(sample, white), self.leave_one_out)

    def whitening_of(self, sample: ClassSample) -> Whitening:
        """Return the whitening of the kernels of a class, at bandwidth 1."""
        check_choice("covariance", self.covariance, ["class", "shrunk", "shared"])
        mean, covariance = moments(sample.X, sample.weight, unbiased=len(sample.X) > 1)
        if self.covariance == "shared":
            covariance = sample.pooled.diagonal().diag()
        elif self.covariance == "shrunk" and sample.has_spread:
            biased = moments(sample.X, sample.weight, unbiased=False)[1]
            covariance = shrink(covariance, ledoit_wolf(sample.X, sample.weight, mean, biased))
        else:
            covariance = usable_covariance(sample, covariance, "KernelDensity")
        return whitening(sample, mean, covariance, "KernelDensity")

    def check_bandwidth(self) -> float:
        """Return the bandwidth that was given as a number."""
        return check_positive("bandwidth", self.bandwidth, "or choose 'scott', 'silverman' or 'likelihood'")

    def _factor(self, sample: ClassSample, white: Whitening) -> float:
        if not isinstance(self.bandwidth, str):
            return self.check_bandwidth()
        known = ["scott", "silverman", "likelihood"]
        check_choice("bandwidth", self.bandwidth, known, also="a number above 0")
        d = sample.X.shape[1]
        n = effective_size(sample.weight)
        scott = (n * (d + 2) / 4.0 if self.bandwidth == "silverman" else n) ** (-1.0 / (d + 4))
        return _likeliest(sample, white, scott) if self.bandwidth == "likelihood" and len(sample.X) > 1 else scott


def kernel_log_sums(X: Tensor, sample: ClassSample, white: Whitening, bandwidths: Sequence[float]) -> Tensor:
    """Log-densities (number of bandwidths, m) of points (m, d) in float64, from one matrix of distances a block."""
    share = sample.weight / sample.weight.sum()
    d = X.shape[1]
    a, b = (X - white.centre) @ white.matrix, (sample.X - white.centre) @ white.matrix
    found = X.new_empty(len(bandwidths), len(X))
    for rows in chunks(len(X), max(1, BLOCK // len(b))):
        distance = torch.addmm((b * b).sum(1), a[rows], b.T, alpha=-2.0)
        nearest = distance.amin(1, keepdim=True)
        distance -= nearest
        nearest = (nearest[:, 0] + (a[rows] ** 2).sum(1)).clamp_min(0)
        for found_row, h in zip(found, bandwidths, strict=True):
            sums = (distance * (-0.5 * LOG2_E / h**2)).exp2_() @ share
            found_row[rows] = sums.log() - 0.5 * nearest / h**2 - d * math.log(h)
    return found - 0.5 * (white.log_det + d * math.log(2.0 * math.pi))


def _likeliest(sample: ClassSample, white: Whitening, scott: float) -> float:
    """Return the factor under which the class's points, each left out in turn, are most likely.

    The factors go from Scott's times 2 down to Scott's over 32, in steps of sqrt 2; at most 2,000 of the points
    are asked.
    """
    rows = slice(None, None, -(-len(sample.X) // 2000))
    weight = sample.weight[rows] / sample.weight[rows].sum()
    factors = [scott * 2.0 ** (1 - step / 2) for step in range(13)]
    models = (KernelModel(sample, white, h, leave_one_out=True) for h in factors)
    return factors[int(np.argmax([float(weight @ model.log_prob(sample.X[rows])) for model in models]))]


def _log2_sum(exponents: Tensor) -> Tensor:
    """Return log2 of the row sums of 2^exponents, in place."""
    top = exponents.amax(1, keepdim=True).clamp_min(torch.finfo(exponents.dtype).min)
    return exponents.sub_(top).exp2_().sum(1).log2_() + top[:, 0]


def _row_keys(X: np.ndarray) -> np.ndarray:
    """Each row as one comparable value; -0.0 counts as 0.0."""
    rows = np.ascontiguousarray(X + 0.0)
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))[:, 0]
