"""Checks of the contracts of genlabel: run them on your own classes in the tests of your package.

A check raises an AssertionError that names the violated part of the contract; otherwise it returns None.

>>> from genlabel.densities import KernelDensity
>>> check_density(KernelDensity(bandwidth=0.5))
"""

from genlabel.testing.densities import check_density
from genlabel.testing.methods import check_attack, check_labeler, check_mixer, check_sampler

__all__ = ["check_attack", "check_density", "check_labeler", "check_mixer", "check_sampler"]
