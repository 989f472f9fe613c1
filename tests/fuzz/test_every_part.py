"""Test that the fuzz tests construct or call every public class that takes a table."""

import ast
import inspect
from pathlib import Path
from typing import Any

import pytest
from sklearn.base import BaseEstimator

import genlabel
from genlabel import densities, estimators, labeling, mixing

HERE = Path(__file__).parent
PACKAGES = (genlabel, densities, estimators, labeling, mixing)
PARTS = sorted(
    {
        part
        for package in PACKAGES
        for part in (getattr(package, name) for name in package.__all__)
        if inspect.isclass(part)
        and issubclass(part, BaseEstimator)
        and not inspect.isabstract(part)
        and not part.__module__.startswith("genlabel.model_selection")  # options do not take a table
    },
    key=lambda part: part.__name__,
)
MADE_BY = {"FixedDensity": "fixed_gaussians"}
"""Classes that a function constructs."""


def called_in(path: Path) -> set[str]:
    """Return the names that a file calls."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    return {node.func.id for node in calls if isinstance(node.func, ast.Name)}


CALLED = set().union(*(called_in(path) for path in HERE.glob("test_*.py")))


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_every_public_class_is_fuzzed(part: Any) -> None:
    assert MADE_BY.get(part.__name__, part.__name__) in CALLED
