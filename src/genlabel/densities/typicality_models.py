"""What judges how typical a row is: densities of some rows, and the values that their columns have had."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor

from genlabel._standardization import Standardization
from genlabel._validation import suppress_own_warnings
from genlabel.densities.base import ClassDensity
from genlabel.densities.discriminant import DiscriminantDensity
from genlabel.densities.kernel import KernelDensity
from genlabel.densities.power_transform import PowerTransform, PowerTransformedDensity, share_transform

FARTHEST = -1e6
"""No log-density counts as less."""
NEW_VALUES = 0.02
"""In the closed columns together, at most this share of the rows has a value of its own."""
MOST_FEATURES = 100
"""With more features the densities are of what is seen along random directions."""
MOST_DIRECTIONS, ROWS_A_DIRECTION = 50, 3
"""So many of them at most, and so many rows for each at least."""


class Directions(NamedTuple):
    """Points seen along random directions, with the largest deviation of a feature and their length.

    Directions that were learned from the points would show these nearer, or farther, than others of their kind.
    """

    basis: Tensor
    """(d, q)"""
    scaler: Standardization

    @classmethod
    def fit(cls, x: Tensor) -> Directions:
        """Draw directions for standardised points (n, d), the same for every fold, and learn the scales along them."""
        count = min(MOST_DIRECTIONS, max(1, len(x) // ROWS_A_DIRECTION))
        drawn = np.random.default_rng(0).normal(size=(x.shape[1], count)) / x.shape[1] ** 0.5
        found = cls(torch.from_numpy(drawn), Standardization.identity(x.new_zeros(1, count + 2)))
        return found._replace(scaler=Standardization.fit(found(x), keep_constant=True))

    def __call__(self, x: Tensor) -> Tensor:
        """The features (m, q + 2) of standardised points (m, d), standardised."""
        lengths = torch.stack([x.square().mean(1).sqrt(), x.abs().amax(1)], 1).clamp(1e-4, 1e100).log()
        return self.scaler(torch.cat([x @ self.basis, lengths], 1))


class TypicalityModel(NamedTuple):
    """Densities that were fitted to the same rows, and the columns in which these have next to no value once only."""

    scaler: Standardization
    low: Tensor
    """The smallest value of each column, (d,)."""
    high: Tensor
    """The largest, (d,)."""
    closed: Sequence[tuple[int, Tensor]]
    """Closed columns, and the values they have had, sorted."""
    directions: Directions | None
    """None where the densities are of the features themselves."""
    members: Sequence[ClassDensity]
    warp: PowerTransform | None
    """The map that some of the members share."""

    def evidence(self, X: Tensor) -> Tensor:
        """Log sum_c pi_c p_c(x) of points (m, d) under each member, (M, m)."""
        x = self.scaler(X)
        x = x if self.directions is None else self.directions(x)
        warped = None if self.warp is None else self.warp(x)
        with torch.no_grad():
            found = [_log_density(member, member.log_prob_from_transformed(x, warped)) for member in self.members]
        return torch.stack(found).nan_to_num(nan=FARTHEST).clamp_min(FARTHEST)

    def excess(self, X: Tensor) -> Tensor:
        """How far a point (m, d) is beyond what its columns have had, (m,): log2(1 + distance over range), the largest.

        A density whose tails are long, or which was learned after a map that shortens them, hardly sees a wild value.
        """
        reach = torch.where(self.high > self.low, self.high - self.low, torch.ones_like(self.low))
        outside = torch.maximum((self.low - X) / reach, (X - self.high) / reach).amax(1)
        return outside.clamp(0.0, 1e300).log1p() / math.log(2.0)

    def novelties(self, X: Tensor) -> Tensor:
        """In how many closed columns a point (m, d) has a value that was never seen, (m,)."""
        found = X.new_zeros(len(X))
        for column, values in self.closed:
            asked = X[:, column].contiguous()
            place = torch.searchsorted(values, asked).clamp_max(len(values) - 1)
            found += values[place] != asked
        return found

    def keeping(self, places: Sequence[int]) -> TypicalityModel:
        """The judge with some of its members."""
        return self._replace(members=[self.members[place] for place in places])


def default_judges() -> dict[str, ClassDensity]:
    """Return the densities among which held-out likelihood chooses the judges of typicality, by name.

    Few, and of different kinds: among those of the stacked density more did not find more odd rows, and took longer.

    >>> list(default_judges())
    ['discriminant', 'warped discriminant', 'kernel', 'warped kernel']
    """
    return {
        "discriminant": DiscriminantDensity(0.3),
        "warped discriminant": PowerTransformedDensity(DiscriminantDensity(0.3)),
        "kernel": KernelDensity(0.15, covariance="shared"),
        "warped kernel": PowerTransformedDensity(KernelDensity(0.4, covariance="shrunk")),
    }


def fit_judge(candidates: Sequence[ClassDensity], X: Tensor, y: NDArray[np.intp], weight: Tensor) -> TypicalityModel:
    """Fit every candidate to points (n, d) with classes (n,) and weights (n,)."""
    scaler = Standardization.fit(X, weight, keep_constant=True)
    x = scaler(X)
    directions = Directions.fit(x) if x.shape[1] > MOST_FEATURES else None
    x = x if directions is None else directions(x)
    with suppress_own_warnings():  # what does not suit a small class is not likely, and has little weight
        members, warp = share_transform([clone(candidate) for candidate in candidates], x, weight)
        fitted = [member.fit(x, y, weight) for member in members]
    return TypicalityModel(scaler, X.amin(0), X.amax(0), _closed_columns(X), directions, fitted, warp)


def _closed_columns(X: Tensor) -> list[tuple[int, Tensor]]:
    """Columns that have next to no value once only: what is new in them is news, as in one of whole numbers or levels.

    Taken in the order of their values of one row, as long as these are at most `NEW_VALUES` of the rows.
    """
    ordered = X.sort(0).values
    step = (ordered[1:] != ordered[:-1]).numpy()
    edge = np.ones((1, X.shape[1]), dtype=bool)
    alone = (np.concatenate([edge, step]) & np.concatenate([step, edge])).sum(0)
    order = np.argsort(alone, kind="stable")
    closed = order[np.cumsum(alone[order]) <= NEW_VALUES * len(X)]
    return [(int(column), torch.unique(X[:, column])) for column in np.sort(closed)]


def _log_density(member: ClassDensity, log_prob: Tensor) -> Tensor:
    return (log_prob + torch.from_numpy(member.class_prior_).log()).logsumexp(1)
