"""What every candidate says of the points of every fold, fitted without them; those that can share work do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from genlabel._progress import out_of_time, report_progress
from genlabel.densities._crossval import CrossValSample

if TYPE_CHECKING:
    from genlabel.densities.base import ClassDensity
    from genlabel.densities.power_transform import PowerTransform


def held_out_log_prob(
    candidates: Sequence[ClassDensity], warp: PowerTransform | None, folds: CrossValSample
) -> Iterator[tuple[list[int], Tensor]]:
    """Yield the numbers of candidates and their log p_c (m, n, k), each row by models that were fitted without it.

    Those that share work come together; where a fit is out of time the others do not come. One of warped features works
    with the given map. A row that no fold asks of is NaN.
    """
    warped = None if warp is None else warp(folds.X)
    families = _families(candidates, warp)
    for place, members in enumerate(families):
        densities = [member.density for member in members]
        if warped is None or not members[0].behind:
            answer = densities[0].held_out_log_prob(folds, densities)
        else:
            answer = densities[0].held_out_log_prob(folds._replace(X=warped.points), densities)
            answer += warped.log_jacobian[:, None]
        yield [member.number for member in members], answer
        report_progress(place + 1, len(families))
        if out_of_time():
            break


class _Member(NamedTuple):
    """A candidate's number, the density that does its work, and whether that is behind the map of the features."""

    number: int
    density: ClassDensity
    behind: bool


def _families(candidates: Sequence[ClassDensity], warp: PowerTransform | None) -> list[list[_Member]]:
    """Candidates by what they can share."""
    found: dict[Hashable, list[_Member]] = defaultdict(list)
    for number, candidate in enumerate(candidates):
        behind = None if warp is None else candidate.behind(warp)
        member = _Member(number, candidate if behind is None else behind, behind is not None)
        family = member.density.family
        found[member.behind, number if family is None else family].append(member)
    return list(found.values())
