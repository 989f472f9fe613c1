"""Looks for what is dangerous: bandit over the sources, pip-audit over the pinned packages.

    python .ci/audit.py

It ends with an error where either finds something. Where the database of known faults cannot be reached, it says so and
that nothing was looked up; that alone is no error.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["judge", "main"]

ROOT = Path(__file__).parents[1]
SOURCES = ["bandit", "--quiet", "--configfile", "pyproject.toml", "--recursive", "src"]
PACKAGES = ["pip_audit", "--requirement", "constraints.txt", "--no-deps", "--disable-pip", "--format", "json"]


def judge(output: str) -> tuple[bool, list[str]]:
    """Return whether the packages are clean, and the lines to print, of what pip-audit has written.

    >>> judge('{"dependencies": [{"name": "a", "version": "1", "vulns": []}, {"name": "b", "skip_reason": "no"}]}')
    (True, ['pip-audit: 1 packages looked up, 0 with known faults', 'not looked up: b'])
    >>> judge("")
    (True, ['pip-audit: its database cannot be reached from here; nothing was looked up'])
    """
    try:
        found: list[dict[str, Any]] = json.loads(output)["dependencies"]
    except (ValueError, LookupError):
        found = []
    seen = [one for one in found if "skip_reason" not in one]
    if not seen:
        return True, ["pip-audit: its database cannot be reached from here; nothing was looked up"]
    bad = [one for one in seen if one["vulns"]]
    lines = [f"pip-audit: {len(seen)} packages looked up, {len(bad)} with known faults"]
    lines += [f"{one['name']} {one['version']}: {_said(fault)}" for one in bad for fault in one["vulns"]]
    missed = [one["name"] for one in found if one not in seen]
    return not bad, [*lines, *([f"not looked up: {', '.join(missed)}"] if missed else [])]


def _said(fault: dict[str, Any]) -> str:
    return f"{fault['id']}, mended in {', '.join(fault['fix_versions']) or 'no version yet'}"


def main() -> None:
    """Run both, print what they found."""
    sources = subprocess.run([sys.executable, "-m", *SOURCES], cwd=ROOT)
    print("bandit: clean" if sources.returncode == 0 else "bandit: mend what it names, or say beside the line why not")
    looked = subprocess.run([sys.executable, "-m", *PACKAGES], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    clean, lines = judge(looked.stdout)
    print("\n".join(lines))
    sys.exit(bool(sources.returncode) or not clean)


if __name__ == "__main__":
    main()
