"""Measure what each extra adds to an installation: further packages and their megabytes.

    python benchmarks/extras.py

reads the environment that runs it: an extra that is not installed there has no figure.
"""

from __future__ import annotations

import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

PACKAGE = "genlabel"
PROJECT: dict[str, Any] = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def required_packages(name: str, extra: str = "", seen: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the packages that a package needs, itself included, as they are installed here."""
    seen = seen | {f"{name}[{extra}]"}
    for requirement in map(Requirement, _requires(name, extra)):
        for wanted in {"", *requirement.extras} if _applies(requirement, extra) else set[str]():
            if f"{requirement.name}[{wanted}]" not in seen:
                seen = required_packages(requirement.name, wanted, seen)
    return seen


def _requires(name: str, extra: str) -> list[str]:
    if name != PACKAGE:
        return distribution(name).requires or []
    return [*PROJECT["dependencies"], *(PROJECT["optional-dependencies"][extra] if extra else [])]


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def packages_of_extra(extra: str) -> list[str]:
    """Return the packages that an extra adds to the library, in order."""
    plain = {_package(name) for name in required_packages(PACKAGE)}
    return sorted({_package(name) for name in required_packages(PACKAGE, extra)} - plain)


def _package(name: str) -> str:
    return name.split("[")[0].lower().replace("_", "-").replace(".", "-")


def size(name: str) -> float:
    """Return the size of a package on the disk in megabytes."""
    return sum(file.size or 0 for file in distribution(name).files or []) / 1e6


def main() -> None:
    """Print a line for the library and one for each extra."""
    plain = sorted({_package(name) for name in required_packages(PACKAGE)} - {PACKAGE})
    print(f"genlabel: {len(plain)} packages, {sum(map(size, plain)):.0f} MB")
    for extra in PROJECT["optional-dependencies"]:
        try:
            names = packages_of_extra(extra)
            largest = sorted(names, key=size, reverse=True)[:3]
            print(f"{extra}: {len(names)} packages, {sum(map(size, names)):.0f} MB; largest {', '.join(largest)}")
        except PackageNotFoundError as error:
            print(f"{extra}: {error.args[0]} is not installed here")


if __name__ == "__main__":
    main()
