"""Densities by name, as the parameters of the estimators and the options of the command line accept them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genlabel._registry import DENSITIES
from genlabel._validation import check_choice
from genlabel.densities.base import ClassDensity
from genlabel.densities.candidates import named_candidates

AUTO = ("gaussian", "kernel")
"""Densities that "auto" stands for."""


def named_densities(density: Any) -> dict[str, ClassDensity]:
    """Return densities by name from a registered name, "auto" (Gaussian and kernel), a density, or a dict of densities.

    NOTE[PAPER]: "gaussian" is shrunk by the rule of Ledoit and Wolf, for small classes; `GaussianDensity()` is that of
    the paper.

    >>> list(named_densities("auto"))
    ['gaussian', 'kernel']
    >>> named_densities("mixture")
    {'mixture': MixtureDensity()}
    """
    if isinstance(density, ClassDensity):
        return {type(density).__name__: density}
    if isinstance(density, Mapping):
        return named_candidates(density)
    check_choice("density", density, [*DENSITIES.names(), "auto"], also="a ClassDensity such as GaussianDensity()")
    return {name: DENSITIES.create(name) for name in (AUTO if density == "auto" else (density,))}


def named_density(density: Any) -> ClassDensity:
    """Return the single density that `named_densities` returns.

    >>> named_density("kernel")
    KernelDensity()
    >>> named_density("auto")
    Traceback (most recent call last):
    ValueError: density='auto' stands for several densities; choose one, such as 'stacked' or 'kernel'
    """
    densities = list(named_densities(density).values())
    if len(densities) > 1:
        raise ValueError(f"density={density!r} stands for several densities; choose one, such as 'stacked' or 'kernel'")
    return densities[0]
