"""Run bandit over the sources and pip-audit over the pinned packages.

    python .ci/audit.py

It exits with 1 if either finds something. An unreachable database of vulnerabilities is reported, and is not an error.
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
    """Return whether the output of pip-audit has no vulnerability, and the lines to print.

    >>> judge('{"dependencies": [{"name": "a", "version": "1", "vulns": []}, {"name": "b", "skip_reason": "no"}]}')
    (True, ['pip-audit: 1 packages looked up, 0 with known faults', 'not looked up: b'])
    >>> judge("")
    (True, ['pip-audit: its database cannot be reached from here; nothing was looked up'])
    """
    try:
        packages: list[dict[str, Any]] = json.loads(output)["dependencies"]
    except (ValueError, LookupError):
        packages = []
    audited = [package for package in packages if "skip_reason" not in package]
    if not audited:
        return True, ["pip-audit: its database cannot be reached from here; nothing was looked up"]
    vulnerable = [package for package in audited if package["vulns"]]
    lines = [f"pip-audit: {len(audited)} packages looked up, {len(vulnerable)} with known faults"]
    for package in vulnerable:
        for vulnerability in package["vulns"]:
            fix = ", ".join(vulnerability["fix_versions"]) or "no version yet"
            lines.append(f"{package['name']} {package['version']}: {vulnerability['id']}, mended in {fix}")
    skipped = [package["name"] for package in packages if package not in audited]
    return not vulnerable, [*lines, *([f"not looked up: {', '.join(skipped)}"] if skipped else [])]


def main() -> None:
    """Run both and print their findings."""
    sources = subprocess.run([sys.executable, "-m", *SOURCES], cwd=ROOT)
    print("bandit: clean" if sources.returncode == 0 else "bandit: fix the findings, or explain them in a comment")
    audit = subprocess.run([sys.executable, "-m", *PACKAGES], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    clean, lines = judge(audit.stdout)
    print("\n".join(lines))
    sys.exit(bool(sources.returncode) or not clean)


if __name__ == "__main__":
    main()
