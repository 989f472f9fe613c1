"""Densities by name, as the estimators and the command line take them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genlabel.checks import check_choice
from genlabel.densities.base import ClassDensity
from genlabel.densities.candidates import named_candidates
from genlabel.densities.gaussian import GaussianDensity
from genlabel.densities.kernel import KernelDensity
from genlabel.densities.label_model import LabelModel

__all__ = ["named_densities"]


def named_densities(density: Any) -> dict[str, ClassDensity]:
    """Return the densities that a parameter names: "gaussian", "kernel", both for "auto", "label-model",
    or those that are given, one alone or several in a dict by name.

    NOTE[PAPER]: by name, "gaussian" is shrunk by Ledoit and Wolf's rule, for classes of few points; the paper's own is
    `GaussianDensity()`.

    >>> list(named_densities("auto"))
    ['gaussian', 'kernel']
    """
    if isinstance(density, ClassDensity):
        return {type(density).__name__: density}
    if isinstance(density, Mapping):
        return named_candidates(density)
    if density == "label-model":
        return {"label-model": LabelModel()}
    known: dict[str, ClassDensity] = {"gaussian": GaussianDensity(shrinkage="ledoit-wolf"), "kernel": KernelDensity()}
    check_choice("density", density, [*known, "auto", "label-model"], also="a ClassDensity such as GaussianDensity()")
    return known if density == "auto" else {density: known[density]}
