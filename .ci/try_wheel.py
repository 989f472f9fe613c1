"""Install a wheel with its dependencies into a new environment and run the first commands of a user.

    python .ci/try_wheel.py dist/genlabel-0.2.0-py3-none-any.whl

The versions are those of constraints.txt. The script prints the seconds of each command and stops at the first failure.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

__all__ = ["main", "steps", "table_block"]

ROOT = Path(__file__).parents[1]
CHECK_IMPORT = """
from importlib.resources import files
import genlabel, genlabel_paper
assert (files("genlabel") / "py.typed").is_file(), "py.typed is not in the wheel"
assert not genlabel.__file__.startswith({root!r}), "this is the source tree, not the wheel"
print("genlabel", genlabel.__version__, "of", genlabel.__file__)
"""


def table_block() -> str:
    """Return the first Python block of README, which fits a table."""
    return next(iter(re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.S)))


def steps(wheel: Path, folder: Path) -> dict[str, list[str]]:
    """Return the commands by name: create the environment, install the wheel, use it."""
    scripts = folder / "environment" / ("Scripts" if os.name == "nt" else "bin")
    python = str(scripts / "python")
    quiet = ["--quiet", "--disable-pip-version-check", "--constraint", str(ROOT / "constraints.txt")]
    return {
        "environment": [sys.executable, "-m", "venv", str(folder / "environment")],
        "install": [python, "-m", "pip", "install", *quiet, str(wheel.resolve())],
        "consistent": [python, "-m", "pip", "check"],
        "location": [python, "-c", CHECK_IMPORT.format(root=str(ROOT))],
        "version": [str(scripts / "genlabel"), "--version"],
        "compare": [str(scripts / "genlabel"), "compare", "iris", "--n-splits", "2"],
        "paper commands": [str(scripts / "genlabel"), "reproduce", "--list"],
        "README example": [python, "-c", table_block()],
    }


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path, help="the wheel to try")
    wheel = parser.parse_args().wheel
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PIP_CONSTRAINT")}
    with tempfile.TemporaryDirectory() as folder:
        for name, words in steps(wheel, Path(folder)).items():
            start = time.perf_counter()
            subprocess.run(words, cwd=folder, env=environment, check=True)
            print(f"-- {name}: {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
