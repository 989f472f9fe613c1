"""What every candidate says of the points of every fold, fitted without them: one batch for all that can share work.

Discriminant analyses share the moments of the folds, kernel densities the distances, mixtures the steps of EM. Any
other density is cloned, fitted and asked fold by fold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from genlabel.arrays import as_rng, chunks
from genlabel.densities.base import ClassDensity, class_samples
from genlabel.densities.discriminant import DiscriminantDensity, discriminant_covariances
from genlabel.densities.expectation import fit_mixtures, mixture_log_prob
from genlabel.densities.groups import (
    AT_ONCE,
    Gaussians,
    Groups,
    group_by_class,
    group_moments,
    normal_log_prob,
    to_gaussians,
)
from genlabel.densities.kernel import KernelDensity, kernel_log_sums
from genlabel.densities.mixture import MixtureDensity
from genlabel.densities.warped import Warp, WarpedDensity

__all__ = ["Folds", "held_out_log_prob"]


class Folds(NamedTuple):
    """Weighted points with their classes, and the folds of a cross-validation."""

    X: Tensor
    """(n, d)"""
    classes: Tensor
    """(n,): the number of each row's class."""
    weight: Tensor
    """(n,)"""
    train: Tensor
    """(f, n): the rows a fold's models are fitted to, True or False; each class has one at least."""
    valid: Sequence[Tensor]
    """The rows they are asked of, for each fold."""

    @property
    def k(self) -> int:
        """Number of classes."""
        return int(self.classes.max()) + 1

    @property
    def honest(self) -> Tensor:
        """Rows (n,) that some fold holds out and does not train on; all that are held out if there are none."""
        held, asked = torch.zeros_like(self.classes, dtype=torch.bool), torch.zeros_like(self.classes, dtype=torch.bool)
        for train, rows in zip(self.train, self.valid, strict=True):
            asked[rows] = True
            held[rows] = ~train[rows]
        return held if bool(held.any()) else asked


_Evaluate = Callable[[Folds, Sequence[Any]], Tensor]


def held_out_log_prob(candidates: Sequence[ClassDensity], folds: Folds, warp: Warp | None) -> Tensor:
    """Return log p_c of every candidate (M, n, k), each row by models that were fitted without it.

    A warped candidate works with the given map. A row that no fold asks of is NaN.
    """
    found: dict[int, Tensor] = {}
    points, slopes = (None, None) if warp is None else warp(folds.X)
    spaces = {False: folds, True: folds if points is None else folds._replace(X=points)}
    jacobian = None if slopes is None else slopes[:, None]
    for members in _families(candidates, warp):
        warped = members[0].warped
        answer = members[0].evaluate(spaces[warped], [member.density for member in members])
        for member, values in zip(members, answer, strict=True):
            found[member.number] = values + jacobian if warped and jacobian is not None else values
    return torch.stack([found[number] for number in range(len(candidates))])


class _Member(NamedTuple):
    """A candidate, the work it belongs to, and its number."""

    number: int
    density: Any
    warped: bool
    evaluate: _Evaluate


def _families(candidates: Sequence[ClassDensity], warp: Warp | None) -> list[list[_Member]]:
    """Candidates by what they can share."""
    found: dict[Hashable, list[_Member]] = defaultdict(list)
    for number, candidate in enumerate(candidates):
        warped = isinstance(candidate, WarpedDensity) and (candidate.warp is None or candidate.warp is warp)
        density = candidate.density if warped and isinstance(candidate, WarpedDensity) else candidate
        key, evaluate = _family(density)
        found[warped, number if key is None else key].append(_Member(number, density, warped, evaluate))
    return list(found.values())


def _family(density: ClassDensity) -> tuple[Hashable, _Evaluate]:
    """Return what a density shares with others of equal key, None for nothing, and who evaluates them."""
    if isinstance(density, DiscriminantDensity):
        return "discriminant", _discriminants
    if isinstance(density, MixtureDensity) and isinstance(density.random_state, int):
        return ("mixture", density.covariance, density.reg, density.max_iter, density.random_state), _mixtures
    if isinstance(density, KernelDensity) and not isinstance(density.bandwidth, str) and not density.leave_one_out:
        return ("kernel", density.covariance), _kernels
    return None, _one_by_one


def _discriminants(folds: Folds, densities: Sequence[DiscriminantDensity]) -> Tensor:
    """All settings, classes and folds are one batch of covariances, or as many as memory allows."""
    for density in densities:
        density.check()
    found = _empty(folds, len(densities))
    numbers = folds.k * folds.X.shape[1] ** 2
    for part in _parts(folds, numbers):
        moments = group_moments(_groups(part))
        at_once = max(1, AT_ONCE // (numbers * len(part.valid)))
        for own in chunks(len(densities), at_once):
            covariance = torch.stack([discriminant_covariances(moments, density) for density in densities[own]])
            gaussians, _ = to_gaussians(moments.mean.expand(len(covariance), -1, -1, -1), covariance)
            for f, rows in enumerate(part.valid):
                each = Gaussians(*(values[:, :, f].flatten(0, 1) for values in gaussians))
                answer = normal_log_prob(folds.X[rows], each).view(len(rows), len(covariance), -1)
                found[own, rows] = answer.transpose(0, 1)
    return found


def _mixtures(folds: Folds, densities: Sequence[MixtureDensity]) -> Tensor:
    """All sizes and folds of classes of like size go through EM together, or as many folds as memory allows."""
    for density in densities:
        density.check()
    first, sizes = densities[0], [density.components for density in densities]
    draws = as_rng(first.random_state).random(max(sizes))
    reg = torch.full_like(folds.X[0], first.reg)
    found = _empty(folds, len(densities))
    for classes in _of_like_size(folds.classes):
        own = _of_classes(folds, classes)
        for part in _parts(own, len(own.X) * len(sizes) * max(sizes)):
            mixtures = fit_mixtures(_groups(part), sizes, first.covariance == "tied", reg, first.max_iter, draws)
            for f, rows in enumerate(part.valid):
                for s in range(len(sizes)):
                    answer = mixture_log_prob(folds.X[rows], mixtures.pick(slice(None), f, s))
                    found[s, rows[:, None], classes] = answer
    return found


def _kernels(folds: Folds, densities: Sequence[KernelDensity]) -> Tensor:
    """All bandwidths of a fold share the distances."""
    bandwidths = [density.check_bandwidth() for density in densities]
    found = _empty(folds, len(densities))
    for train, rows in zip(folds.train, folds.valid, strict=True):
        samples = class_samples(np.arange(folds.k), folds.X[train], folds.classes[train], folds.weight[train])
        for c, sample in enumerate(samples):
            white = densities[0].whitening_of(sample)
            found[:, rows, c] = kernel_log_sums(folds.X[rows], sample, white, bandwidths)
    return found


def _one_by_one(folds: Folds, densities: Sequence[ClassDensity]) -> Tensor:
    """Any density, cloned and fitted for each fold."""
    found = _empty(folds, len(densities))
    for train, rows in zip(folds.train, folds.valid, strict=True):
        for m, density in enumerate(densities):
            fitted = clone(density).fit(folds.X[train], folds.classes[train].numpy(), folds.weight[train])
            found[m, rows] = fitted.log_prob(folds.X[rows])
    return found


def _of_like_size(classes: Tensor) -> list[Tensor]:
    """The classes in groups, none with more than twice the points of another: groups are padded to the largest."""
    counts = torch.bincount(classes)
    found: list[list[int]] = []
    for c in counts.argsort().tolist():
        if not found or counts[c] > 2 * counts[found[-1][0]]:
            found.append([])
        found[-1].append(c)
    return [torch.tensor(sorted(own)) for own in found]


def _of_classes(folds: Folds, classes: Tensor) -> Folds:
    """The points of some classes, numbered anew; asked of the same rows of all points."""
    rows = torch.isin(folds.classes, classes)
    number = torch.searchsorted(classes, folds.classes[rows])
    return Folds(folds.X[rows], number, folds.weight[rows], folds.train[:, rows], folds.valid)


def _parts(folds: Folds, numbers: int) -> Iterator[Folds]:
    """The folds in parts, each of as many as can be worked on at once, one needing so many numbers."""
    for own in chunks(len(folds.valid), max(1, AT_ONCE // numbers)):
        yield folds._replace(train=folds.train[own], valid=folds.valid[own])


def _groups(folds: Folds) -> Groups:
    return group_by_class(folds.X, folds.classes, folds.train * folds.weight)


def _empty(folds: Folds, count: int) -> Tensor:
    return folds.X.new_full((count, len(folds.X), folds.k), torch.nan)
