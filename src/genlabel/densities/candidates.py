"""The densities a stacked density chooses from, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from genlabel._validation import check_choice
from genlabel.densities.base import ClassDensity
from genlabel.densities.discriminant import DiscriminantDensity
from genlabel.densities.forest import ForestDensity
from genlabel.densities.kernel import KernelDensity
from genlabel.densities.mixture import MixtureDensity
from genlabel.densities.power_transform import PowerTransformedDensity

BANDWIDTHS = (0.15, 0.25, 0.4, 0.6, 0.9)
POINTS = 1000
"""Kernels of a class at most: labels of blends take time in proportion to them."""
COMPONENTS = (3, 6)
FOREST_POINTS = 10_000
"""That the trees of the forest see at most."""


def default_candidates() -> dict[str, ClassDensity]:
    """Return the 48 densities of the default search: 27 on the features as they are, and 21 on warped ones.

    >>> names = list(default_candidates())
    >>> len(names), names[1], names[-1]
    (48, 'discriminant pooling=0 shrinkage=0.1', 'warped mixture 6 diagonal')
    """
    both = {**_discriminants(), **_kernels("shrunk"), **_mixtures()}
    return {
        **both,
        **_kernels("shared"),
        "forest": ForestDensity(max_points=FOREST_POINTS),
        **{f"warped {name}": PowerTransformedDensity(density) for name, density in both.items()},
    }


def named_candidates(candidates: Any) -> dict[str, ClassDensity]:
    """Return the candidates that a parameter names: "default", a mapping of names, or a sequence of densities.

    >>> list(named_candidates([KernelDensity(0.4), KernelDensity(0.4)]))
    ['KernelDensity(bandwidth=0.4)', 'KernelDensity(bandwidth=0.4) (2)']
    """
    if isinstance(candidates, str):
        check_choice("candidates", candidates, ["default"], also="a list of densities, or a dict of names to them")
        return default_candidates()
    if isinstance(candidates, ClassDensity) or not isinstance(candidates, Iterable):
        raise ValueError(f"{candidates!r} is neither a list of densities nor a dict of names to them")
    found = dict(candidates) if isinstance(candidates, Mapping) else _numbered(list(candidates))
    if not found:
        raise ValueError("a list or dict of densities is empty; give at least one density")
    for name, density in found.items():
        if not isinstance(density, ClassDensity):
            raise TypeError(f"candidate {name!r} is {density!r}; it must be a ClassDensity such as KernelDensity()")
    return found


def _discriminants() -> dict[str, ClassDensity]:
    found: dict[str, ClassDensity] = {}
    for pooling in (0.0, 0.3, 1.0):
        for shrinkage in (0.0, 0.1, 1.0):
            name = f"discriminant pooling={pooling:g} shrinkage={shrinkage:g}"
            found[name] = DiscriminantDensity(pooling, shrinkage)
    for pooling in (0.0, 0.3, 1.0):
        found[f"discriminant pooling={pooling:g} diagonal"] = DiscriminantDensity(pooling, 0.5, target="diagonal")
    return found


def _kernels(covariance: str) -> dict[str, ClassDensity]:
    return {
        f"kernel {bandwidth:g} {covariance}": KernelDensity(bandwidth, covariance=covariance, max_points=POINTS)
        for bandwidth in BANDWIDTHS
    }


def _mixtures() -> dict[str, ClassDensity]:
    return {
        f"mixture {components} {covariance}": MixtureDensity(components, covariance)
        for covariance in ("tied", "diagonal")
        for components in COMPONENTS
    }


def _numbered(densities: Sequence[Any]) -> dict[str, Any]:
    """Densities by their representation, with a number where several read the same."""
    found: dict[str, Any] = {}
    for density in densities:
        name = " ".join(repr(density).split())
        same = sum(other == name or other.startswith(f"{name} (") for other in found)
        found[f"{name} ({same + 1})" if same else name] = density
    return found
