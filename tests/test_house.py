"""The shape of the house: imports follow the arrow, modules open with a sentence and `__all__`."""

import ast
from pathlib import Path

import pytest

import genlabel
import genlabel_paper

ROOT = Path(genlabel.__file__).parent
PAPER = Path(genlabel_paper.__file__).parent
ROOMS = [
    "datasets", "densities", "mixing", "labeling", "networks", "training", "attacks", "theory", "estimators",
    "records", "bench", "comparison", "suite", "plots", "cli",
]  # fmt: skip
OPEN = {"arrays", "checks", "metrics", "progress"}
MODULES = sorted(ROOT.rglob("*.py"))
ALL_MODULES = [*MODULES, *sorted(PAPER.rglob("*.py"))]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT.parent))


def room(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        found |= {name.split(".")[1] for name in names if name.startswith("genlabel.")}
    return found


@pytest.mark.parametrize("path", [p for p in MODULES if not room(p).startswith("__")], ids=name_of)
def test_imports_follow_the_arrow(path: Path) -> None:
    here = room(path)
    if here in OPEN:
        assert imported_rooms(path) <= OPEN
        return
    allowed = set(ROOMS[: ROOMS.index(here) + 1]) | OPEN
    assert imported_rooms(path) <= allowed


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_the_library_does_not_know_the_study(path: Path) -> None:
    assert "genlabel_paper" not in path.read_text()


@pytest.mark.parametrize("path", ALL_MODULES, ids=name_of)
def test_a_module_opens_with_a_sentence_and_says_what_it_offers(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    doc = ast.get_docstring(tree)
    assert doc is not None
    assert doc.split("\n\n")[0].rstrip().endswith(".")
    assert text.count("\n") <= 450
    if path.name != "__main__.py":
        assert any(_defines_all(node) for node in tree.body)


def _defines_all(node: ast.stmt) -> bool:
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
    return getattr(target, "id", "") == "__all__"


def test_everything_in_all_exists() -> None:
    for path in ALL_MODULES:
        if path.name == "__main__.py":
            continue
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        module = __import__(name, fromlist=["_"])
        assert all(hasattr(module, item) for item in module.__all__), name
