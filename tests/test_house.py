"""The shape of the house: imports follow the arrow, modules open with a sentence and `__all__`."""

import ast
from pathlib import Path

import pytest

import genlabel
import genlabel_paper

ROOT = Path(genlabel.__file__).parent
PAPER = Path(genlabel_paper.__file__).parent
ROOMS = [
    "tables", "datasets", "densities", "mixing", "labeling", "networks", "training", "loops", "attacks", "theory",
    "estimators", "keeping", "images", "records", "bench", "comparison", "fitting", "suite", "plots", "diagnosis",
    "pages", "cli",
]  # fmt: skip
OPEN = {
    "arrays", "checks", "folds", "lazy", "metrics", "posterior", "progress", "ranks", "standardisation", "tallies",
    "threads", "whole",
}  # fmt: skip
PAPER_ROOMS = ["study", "report", "experiments", "registry", "cli"]
MODULES = sorted(ROOT.rglob("*.py"))
PAPER_MODULES = sorted(PAPER.rglob("*.py"))
ALL_MODULES = [*MODULES, *PAPER_MODULES]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT.parent))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)


def room(path: Path) -> str:
    return module_of(path).split(".")[1]


def imported_names(code: str, module: str) -> set[str]:
    """All that code of a module imports, at its top or inside: dotted names of modules, and of what is in them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            start = ".".join([*above, *([node.module] if node.module else [])])
            found |= {start if alias.name == "*" else f"{start}.{alias.name}" for alias in node.names}
    return found


def rooms_in(names: set[str], package: str = "genlabel") -> set[str]:
    """The rooms of a package that names are in; `from genlabel import GenLabel` is in labeling."""
    seconds = {name.split(".")[1] for name in names if name.startswith(f"{package}.")}
    offered = (
        {name: room for room, inside in genlabel._ROOMS.items() for name in inside} if package == "genlabel" else {}
    )
    return {offered.get(second, second) for second in seconds} - {"__version__"}


def imported_rooms(path: Path, package: str = "genlabel") -> set[str]:
    return rooms_in(imported_names(path.read_text(), module_of(path)), package)


@pytest.mark.parametrize(
    "code, names",
    [
        ("import genlabel.mixing", {"genlabel.mixing"}),
        ("import genlabel.mixing.draw as d, numpy as np", {"genlabel.mixing.draw", "numpy"}),
        ("from genlabel import mixing", {"genlabel.mixing"}),
        ("from genlabel.mixing import Mixup as M, intrudes", {"genlabel.mixing.Mixup", "genlabel.mixing.intrudes"}),
        ("from genlabel.mixing import *", {"genlabel.mixing"}),
        ("from . import folds", {"genlabel.estimators.folds"}),
        ("from .folds import cut", {"genlabel.estimators.folds.cut"}),
        ("from .. import suite", {"genlabel.suite"}),
        ("from ..suite.run import run_suite", {"genlabel.suite.run.run_suite"}),
        ("def f():\n    from genlabel import cli\n    import genlabel.plots as p", {"genlabel.cli", "genlabel.plots"}),
        ("if TYPE_CHECKING:\n    from genlabel.suite import report", {"genlabel.suite.report"}),
        ("try:\n    import genlabel.suite\nexcept ImportError:\n    pass", {"genlabel.suite"}),
    ],
)
def test_every_way_to_import_is_seen(code: str, names: set[str]) -> None:
    assert imported_names(code, "genlabel.estimators.base") == names


def test_a_relative_import_of_a_package_begins_at_the_package() -> None:
    assert imported_names("from .base import x", "genlabel.estimators.__init__") == {"genlabel.estimators.base.x"}


def test_what_the_front_door_offers_is_in_its_room() -> None:
    names = {
        "genlabel.GenLabel",
        "genlabel.mixing.Mixup",
        "genlabel.__version__",
        "numpy.ndarray",
        "genlabel_paper.cli",
    }
    assert rooms_in(names) == {"labeling", "mixing"}
    assert rooms_in(names, "genlabel_paper") == {"cli"}


@pytest.mark.parametrize("path", [p for p in MODULES if not room(p).startswith("__")], ids=name_of)
def test_imports_follow_the_arrow(path: Path) -> None:
    here = room(path)
    if here in OPEN:
        assert imported_rooms(path) <= OPEN
        return
    allowed = set(ROOMS[: ROOMS.index(here) + 1]) | OPEN
    assert imported_rooms(path) <= allowed


@pytest.mark.parametrize("path", [p for p in PAPER_MODULES if not room(p).startswith("__")], ids=name_of)
def test_imports_of_the_study_follow_its_arrow(path: Path) -> None:
    here = room(path)
    assert imported_rooms(path, "genlabel_paper") <= set(PAPER_ROOMS[: PAPER_ROOMS.index(here) + 1])
    assert here == "cli" or "cli" not in imported_rooms(path)


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
