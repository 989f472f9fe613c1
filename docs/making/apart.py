"""What the site runs, runs in a process of its own, and again only if something that it may depend on has changed."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from hashlib import sha256
from importlib.metadata import distributions
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from making.stage import ROOT

__all__ = ["HEAVY", "LONGEST", "hide", "remember", "run_apart", "timed"]

HEAVY = ("pytorch_lightning", "lightning", "transformers")
"""Packages that the library does without; as if they were not there, they cost no time to import."""
ADAPTERS = ("genlabel.integrations.lightning", "genlabel.integrations.trainer")
"""Modules that remember whether they were there."""
LONGEST = 20.0
"""Seconds of a processor that an example may take."""


def hide() -> None:
    """Let the build do without the heavy packages."""
    for name in HEAVY:
        sys.modules[name] = None  # type: ignore[assignment]


def remember(work: Callable[[Path], list[str]], path: Path, memory: Path) -> list[str]:
    """Return what work makes of a file, as it was kept in a folder if file, library and packages are the same."""
    kept, key = memory / f"{path.name}.json", f"{_surroundings()} {_digest([path])}"
    if kept.exists() and (known := json.loads(kept.read_text(encoding="utf-8")))["key"] == key:
        return known["made"]
    made = run_apart(work, path)
    memory.mkdir(parents=True, exist_ok=True)
    fresh = kept.with_suffix(".part")  # a build that is stopped leaves nothing that the next one cannot read
    fresh.write_text(json.dumps({"key": key, "made": made}), encoding="utf-8")
    fresh.replace(kept)
    return made


@cache
def _surroundings() -> str:
    """A fingerprint of the library, of what runs and shows the files, and of all packages."""
    packages = sorted(f"{one.name} {one.version}" for one in distributions())
    here = [Path(__file__).with_name(f"{name}.py") for name in ("apart", "gallery", "notebooks")]
    code = _digest([*sorted((ROOT / "src").rglob("*.py")), *here])
    return f"{code} {sha256(' '.join([sys.version, *packages]).encode()).hexdigest()}"


def _digest(paths: list[Path]) -> str:
    return sha256(b"".join(f"{path} {path.stat().st_size} ".encode() + path.read_bytes() for path in paths)).hexdigest()


def run_apart(work: Callable[[Path], Any], path: Path) -> Any:
    """Return what work makes of a file, in a fork, which may import the heavy packages and leaves nothing behind."""
    with ProcessPoolExecutor(1, mp_context=get_context("fork"), initializer=_uncover) as pool:
        return pool.submit(work, path).result()


def _uncover() -> None:
    for name in (*HEAVY, *ADAPTERS):
        sys.modules.pop(name, None)


def timed(run: Callable[[], Any], path: Path) -> float:
    """Run something, and return the seconds of a processor that it took; more than an example may take is an error.

    >>> timed(lambda: None, Path("a.py")) < 1
    True
    """
    begin = time.process_time()
    run()
    took = time.process_time() - begin
    if took > LONGEST:
        raise RuntimeError(f"{path.name} took {took:.0f} s of a processor, and may take {LONGEST:.0f}: make it smaller")
    return took
