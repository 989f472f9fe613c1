"""Densities by name, as the estimators and the command line take them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from genlabel._validation import check_choice
from genlabel.densities.base import ClassDensity
from genlabel.densities.candidates import named_candidates
from genlabel.densities.flow import FlowDensity
from genlabel.densities.forest import ForestDensity
from genlabel.densities.gan.density import GANDensity
from genlabel.densities.gaussian import GaussianDensity
from genlabel.densities.kernel import KernelDensity
from genlabel.densities.mixture import MixtureDensity
from genlabel.densities.stacked import StackedDensity
from genlabel.densities.vae import VAEDensity

NAMES = ("gaussian", "kernel", "mixture", "forest", "flow", "vae", "gan")
"""The densities that have a name of their own; "auto" and "stacked" choose among several."""


def named_densities(density: Any) -> dict[str, ClassDensity]:
    """Return the densities that a parameter names: "gaussian", "kernel", both for "auto", "mixture", "forest", "flow",
    "vae", "gan", "stacked", or those that are given, one alone or several in a dict by name.

    NOTE[PAPER]: by name, "gaussian" is shrunk by Ledoit and Wolf's rule, for classes of few points; the paper's own is
    `GaussianDensity()`.

    >>> list(named_densities("auto"))
    ['gaussian', 'kernel']
    >>> named_densities("mixture")
    {'mixture': MixtureDensity()}
    """
    if isinstance(density, ClassDensity):
        return {type(density).__name__: density}
    if isinstance(density, Mapping):
        return named_candidates(density)
    check_choice("density", density, [*NAMES, "auto", "stacked"], also="a ClassDensity such as GaussianDensity()")
    return {name: _KNOWN[name]() for name in (("gaussian", "kernel") if density == "auto" else (density,))}


def named_density(density: Any) -> ClassDensity:
    """Return the one density that a parameter names, as :func:`named_densities` does.

    >>> named_density("kernel")
    KernelDensity()
    >>> named_density("auto")
    Traceback (most recent call last):
    ValueError: density='auto' names several; give one, such as 'stacked' or 'kernel'
    """
    densities = list(named_densities(density).values())
    if len(densities) > 1:
        raise ValueError(f"density={density!r} names several; give one, such as 'stacked' or 'kernel'")
    return densities[0]


_KNOWN: dict[str, Callable[[], ClassDensity]] = {
    "gaussian": lambda: GaussianDensity(shrinkage="ledoit-wolf"),
    "kernel": KernelDensity,
    "mixture": MixtureDensity,
    "forest": ForestDensity,
    "flow": FlowDensity,
    "vae": VAEDensity,
    "gan": GANDensity,
    "stacked": StackedDensity,
}
