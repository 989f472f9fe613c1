"""Densities by name: those of a parameter `density`, and the candidates of the stacked density."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from genlabel._validation import check_choice, warn
from genlabel.densities.base import ClassDensity, DensityWarning
from genlabel.densities.forest import ForestDensity
from genlabel.densities.gaussian import DiscriminantDensity
from genlabel.densities.kernel import KernelDensity
from genlabel.densities.mixture import MixtureDensity
from genlabel.densities.transformed import PowerTransformedDensity
from genlabel.registry import DENSITIES

BANDWIDTHS = (0.15, 0.25, 0.4, 0.6, 0.9)
MAX_KERNELS = 1000  # kernels per class, to which the cost of labeling a mixed sample is proportional
COMPONENTS = (3, 6)
MAX_FOREST_ROWS = 10_000
MAX_FEATURES, MAX_FEATURES_OF_FEW_ROWS = 300, 100
"""Most features at which a default candidate may have a full covariance; the second holds for n < d."""
MAX_MIXTURE_FEATURES = 100
"""Most features at which a default candidate may be a tied mixture: every EM step inverts its covariances."""


def default_candidates() -> dict[str, ClassDensity]:
    """Return the 48 candidates by default: 27 on the given features, 21 on power-transformed ones, named "warped"."""
    shrunk, shared = (
        {f"kernel {h:g} {covariance}": KernelDensity(h, False, covariance, MAX_KERNELS) for h in BANDWIDTHS}
        for covariance in ("shrunk", "shared")
    )
    poolings = (0.0, 0.3, 1.0)
    spheres: dict[str, ClassDensity] = {
        f"discriminant pooling={pooling:g} shrinkage={shrinkage:g}": DiscriminantDensity(pooling, shrinkage)
        for pooling in poolings
        for shrinkage in (0.0, 0.1, 1.0)
    }
    diagonals = {f"discriminant pooling={p:g} diagonal": DiscriminantDensity(p, 0.5, "diagonal") for p in poolings}
    mixtures = {
        f"mixture {components} {covariance}": MixtureDensity(components, covariance)
        for covariance in ("tied", "diagonal")
        for components in COMPONENTS
    }
    with_and_without_transform = {**spheres, **diagonals, **shrunk, **mixtures}
    transformed = {f"warped {name}": PowerTransformedDensity(d) for name, d in with_and_without_transform.items()}
    forest = ForestDensity(max_points=MAX_FOREST_ROWS)
    return {**with_and_without_transform, **shared, "forest": forest, **transformed}


def affordable_candidates(candidates: dict[str, ClassDensity], n: int, d: int) -> dict[str, ClassDensity]:
    """Return the candidates that are fast enough for `n` rows of `d` features, with a warning about the others."""
    exclusions = {name: _exclusion(density, n, d) for name, density in candidates.items()}
    for exclusion in dict.fromkeys(exclusions.values()):
        if exclusion is not None:
            reason, kind = exclusion
            warn(kind, f"StackedDensity: X has {reason}; the candidates include no {kind}", DensityWarning)
    return {name: density for name, density in candidates.items() if exclusions[name] is None}


def _exclusion(density: ClassDensity, n: int, d: int) -> tuple[str, str] | None:
    """Return the reason why a density is too slow and the kind of such densities; None if it is fast enough."""
    is_wide = d > (MAX_FEATURES if n >= d else MAX_FEATURES_OF_FEW_ROWS)
    match density:
        case PowerTransformedDensity(density=inner):
            return _exclusion(inner, n, d)
        case KernelDensity(covariance="class" | "shrunk") if is_wide:
            return f"{n} rows of {d} features", "kernels of full covariance"
        case DiscriminantDensity(target="sphere", pooling=0 | 1):
            return None
        case DiscriminantDensity() if is_wide:
            return f"{n} rows of {d} features", "discriminants toward a diagonal or of partly pooled covariance"
        case MixtureDensity(covariance="tied") if d > MAX_MIXTURE_FEATURES:
            return f"{d} features, more than {MAX_MIXTURE_FEATURES}", "tied mixtures"
    return None


def named_candidates(candidates: Any) -> dict[str, ClassDensity]:
    """Return candidates by name from "default", a mapping of names, or a sequence of densities."""
    if isinstance(candidates, str):
        check_choice("candidates", candidates, ["default"], also="a list of densities, or a dict of names to them")
        return default_candidates()
    if isinstance(candidates, ClassDensity) or not isinstance(candidates, Iterable):
        raise ValueError(f"{candidates!r} is neither a list of densities nor a dict of names to them")
    named: dict[str, Any] = {}
    if isinstance(candidates, Mapping):
        named.update(candidates)
    else:  # the name is the repr; equal ones are numbered: "KernelDensity()", "KernelDensity() (2)"
        counts: Counter[str] = Counter()
        for density in candidates:
            name = " ".join(repr(density).split())
            counts[name] += 1
            named[name if counts[name] == 1 else f"{name} ({counts[name]})"] = density
    if not named:
        raise ValueError("the list or dict of densities is empty; give at least one density")
    for name, density in named.items():
        if not isinstance(density, ClassDensity):
            raise TypeError(f"candidate {name!r} is {density!r}; it must be a ClassDensity such as KernelDensity()")
    return named


def named_densities(density: Any) -> dict[str, ClassDensity]:
    """Return densities by name from a registered name, "auto" (Gaussian and kernel), a density, or a dict of densities.

    NOTE[PAPER]: "gaussian" is shrunk by the rule of Ledoit and Wolf, for small classes; the Gaussian of the paper is
    `GaussianDensity()`.

    >>> named_densities("mixture")
    {'mixture': MixtureDensity()}
    """
    if isinstance(density, ClassDensity):
        return {type(density).__name__: density}
    if isinstance(density, Mapping):
        return named_candidates(density)
    check_choice("density", density, [*DENSITIES.names(), "auto"], also="a ClassDensity such as GaussianDensity()")
    names = ["gaussian", "kernel"] if density == "auto" else [density]
    return {name: DENSITIES.create(name) for name in names}


def named_density(density: Any) -> ClassDensity:
    """Return the single density that `named_densities` returns, or raise."""
    densities = list(named_densities(density).values())
    if len(densities) > 1:
        raise ValueError(f"density={density!r} stands for several densities; choose one, such as 'stacked' or 'kernel'")
    return densities[0]
