"""Public names: those of the packages and modules that docs/api/index.rst lists."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

INDEX = Path(__file__).parents[1] / "api" / "index.rst"


@cache
def packages() -> list[str]:
    """Return the public packages and modules, inner ones first: a package may repeat their names."""
    listed = re.findall(r"^   (genlabel[\w.]*)$", INDEX.read_text(encoding="utf-8"), flags=re.M)
    return sorted(listed, key=lambda package: sum(other.startswith(f"{package}.") for other in listed))


@cache
def public_names(package: str) -> list[str]:
    """Return the names in `__all__`, or the functions and classes of a module that has none."""
    module = import_module(package)
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == package]
    return [name for name in getattr(module, "__all__", own) if not name.startswith("_")]


def documented_names() -> dict[str, list[str]]:
    """Return the names that the page of each package documents; other pages that list a name link to it."""
    values: dict[str, list[Any]] = {}
    documented: dict[str, list[str]] = {}
    for package in packages():
        for name in public_names(package):
            value = vars(import_module(package)).get(name)  # None if it is loaded when first used
            if name not in values or not (value is None or any(value is one for one in values[name])):
                documented.setdefault(package, []).append(name)
            values.setdefault(name, []).append(value)
    return documented


def public_name(name: str) -> str | None:
    """Return a public name, or a member of one, with its package; None if it is neither.

    >>> public_name("StackedDensity.fit"), public_name("genlabel.Mixup"), public_name("X")
    ('genlabel.densities.StackedDensity.fit', 'genlabel.mixing.Mixup', None)
    """
    for package in packages():
        short = name.removeprefix(f"{package}.").removeprefix("genlabel.")
        if short.split(".")[0] in public_names(package):
            return f"{package}.{short}"
    return None
