"""What every candidate says of the points of every fold, fitted without them; those that can share work do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from genlabel.arrays import chunks

if TYPE_CHECKING:
    from genlabel.densities.base import ClassDensity
    from genlabel.densities.warped import Warp

__all__ = ["AT_ONCE", "FoldedSample", "held_out_log_prob"]

AT_ONCE = 1 << 24
"""Numbers that are worked on at once, so that memory stays bounded."""


class FoldedSample(NamedTuple):
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
    def training_weight(self) -> Tensor:
        """The weights of the rows in each fold, (f, n), 0 for those that it does not train on."""
        return self.train * self.weight

    @property
    def honest(self) -> Tensor:
        """Rows (n,) that some fold holds out and does not train on; all that are held out if there are none."""
        held, asked = torch.zeros_like(self.classes, dtype=torch.bool), torch.zeros_like(self.classes, dtype=torch.bool)
        for train, rows in zip(self.train, self.valid, strict=True):
            asked[rows] = True
            held[rows] = ~train[rows]
        return held if bool(held.any()) else asked

    def of_classes(self, classes: Tensor) -> FoldedSample:
        """The points of some classes, numbered anew; asked of the same rows of all points."""
        inside = torch.isin(self.classes, classes)
        number = torch.searchsorted(classes, self.classes[inside])
        return FoldedSample(self.X[inside], number, self.weight[inside], self.train[:, inside], self.valid)

    def parts(self, numbers: int) -> Iterator[FoldedSample]:
        """The folds in parts, each of as many as can be worked on at once, one needing so many numbers."""
        for some in chunks(len(self.valid), max(1, AT_ONCE // numbers)):
            yield self._replace(train=self.train[some], valid=self.valid[some])

    def unanswered(self, count: int) -> Tensor:
        """Room for the log-densities of so many candidates, (count, n, k), all NaN."""
        return self.X.new_full((count, len(self.X), self.k), torch.nan)


def held_out_log_prob(candidates: Sequence[ClassDensity], warp: Warp | None, folds: FoldedSample) -> Tensor:
    """Return log p_c of every candidate (M, n, k), each row by models that were fitted without it.

    A candidate of warped features works with the given map. A row that no fold asks of is NaN.
    """
    warped = None if warp is None else warp(folds.X)
    found: dict[int, Tensor] = {}
    for members in _families(candidates, warp):
        densities = [member.density for member in members]
        if warped is None or not members[0].behind:
            answer = densities[0].held_out_log_prob(folds, densities)
        else:
            answer = densities[0].held_out_log_prob(folds._replace(X=warped.points), densities)
            answer = answer + warped.log_jacobian[:, None]
        found.update(zip((member.number for member in members), answer, strict=True))
    return torch.stack([found[number] for number in range(len(candidates))])


class _Member(NamedTuple):
    """A candidate's number, the density that does its work, and whether that is behind the map of the features."""

    number: int
    density: ClassDensity
    behind: bool


def _families(candidates: Sequence[ClassDensity], warp: Warp | None) -> list[list[_Member]]:
    """Candidates by what they can share."""
    found: dict[Hashable, list[_Member]] = defaultdict(list)
    for number, candidate in enumerate(candidates):
        behind = None if warp is None else candidate.behind(warp)
        member = _Member(number, candidate if behind is None else behind, behind is not None)
        family = member.density.family
        found[member.behind, number if family is None else family].append(member)
    return list(found.values())
