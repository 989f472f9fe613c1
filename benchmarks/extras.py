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

__all__ = ["added", "main", "needed", "size"]

ITSELF = "genlabel"
PROJECT: dict[str, Any] = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def needed(name: str, extra: str = "", seen: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the packages that one needs, itself among them, as they are installed here."""
    seen = seen | {f"{name}[{extra}]"}
    for requirement in map(Requirement, _requires(name, extra)):
        for wish in {"", *requirement.extras} if _holds(requirement, extra) else set[str]():
            if f"{requirement.name}[{wish}]" not in seen:
                seen = needed(requirement.name, wish, seen)
    return seen


def _requires(name: str, extra: str) -> list[str]:
    if name != ITSELF:
        return distribution(name).requires or []
    return [*PROJECT["dependencies"], *(PROJECT["optional-dependencies"][extra] if extra else [])]


def _holds(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def added(extra: str) -> list[str]:
    """Return the packages that an extra adds to the library, in order."""
    plain = {_package(one) for one in needed(ITSELF)}
    return sorted({_package(one) for one in needed(ITSELF, extra)} - plain)


def _package(one: str) -> str:
    return one.split("[")[0].lower().replace("_", "-").replace(".", "-")


def size(name: str) -> float:
    """Return the megabytes of a package on the disk."""
    return sum(file.size or 0 for file in distribution(name).files or []) / 1e6


def main() -> None:
    """Print a line for the library and one for each extra."""
    plain = sorted({_package(one) for one in needed(ITSELF)} - {ITSELF})
    print(f"genlabel: {len(plain)} packages, {sum(map(size, plain)):.0f} MB")
    for extra in PROJECT["optional-dependencies"]:
        try:
            names = added(extra)
            largest = sorted(names, key=size, reverse=True)[:3]
            print(f"{extra}: {len(names)} packages, {sum(map(size, names)):.0f} MB; largest {', '.join(largest)}")
        except PackageNotFoundError as error:
            print(f"{extra}: {error.args[0]} is not installed here")


if __name__ == "__main__":
    main()
