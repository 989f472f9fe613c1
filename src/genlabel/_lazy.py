"""Names of a package that are loaded when they are first used, so that a command can check its input at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module


def lazy_getattr(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package that offers names of its modules.

    Parameters
    ----------
    package : str
    modules : dict of module -> names

    Examples
    --------
    >>> lazy_getattr("genlabel", {"mixing": ["Mixup"]})("Mixup")
    <class 'genlabel.mixing.mixup.Mixup'>
    >>> lazy_getattr("genlabel", {})("Mixup")
    Traceback (most recent call last):
    AttributeError: module 'genlabel' has no attribute 'Mixup'
    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def load(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{module_of[name]}"), name)

    return load
