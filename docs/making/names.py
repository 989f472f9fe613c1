"""The public names: what the rooms of the library offer, in groups, and where each is written."""

from __future__ import annotations

import ast
import inspect
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import genlabel

__all__ = [
    "FRONT", "GROUPS", "INNER", "data_docs", "file_of", "full_name", "home_of", "names_of", "owner", "rooms",
    "written_in",
]  # fmt: skip

GROUPS = {
    "A table and a question": ["estimators", "diagnosis", "comparison", "fitting", "tables", "keeping", "pages"],
    "The method": ["densities", "mixing", "labeling"],
    "Networks": ["networks", "training", "loops", "images", "attacks"],
    "The paper": ["datasets", "theory"],
    "Measuring": ["metrics", "plots", "suite", "records", "progress"],
}
"""The public rooms, those that most people need first; a bare name means that of the first room that has it."""

INNER = {
    "arrays", "bench", "checks", "cli", "folds", "lazy", "posterior", "ranks", "standardisation", "tallies", "threads",
    "whole",
}  # fmt: skip
"""Rooms that serve the others; they may change at any time."""
FRONT = [name for name in genlabel.__all__ if name != "__version__"]
"""What the front door offers."""


def rooms() -> list[str]:
    """Return all rooms in the order of the groups."""
    return [room for group in GROUPS.values() for room in group]


def names_of(room: str) -> list[str]:
    """Return what a room offers: classes, then functions, then constants, each in alphabetical order."""
    module = import_module(f"genlabel.{room}")
    return sorted(module.__all__, key=lambda name: (_rank(getattr(module, name)), name.lower()))


def home_of(name: str) -> str | None:
    """Return the room in which a name of the library is documented, or None.

    >>> home_of("StackedDensity"), home_of("tables.Table"), home_of("nothing")
    ('densities', 'tables', None)
    """
    room, _, last = name.rpartition(".")
    chosen = [room] if room in rooms() else rooms() if not room else []
    return next((owner(one, last) for one in chosen if last in _offered(one)), None)


def full_name(name: str) -> str | None:
    """Return a public name, or a member of one, with its room; None if it is neither.

    >>> full_name("StackedDensity.fit"), full_name("genlabel.Mixup"), full_name("X")
    ('genlabel.densities.StackedDensity.fit', 'genlabel.mixing.Mixup', None)
    """
    short = name.removeprefix("genlabel.")
    for base in (short, short.rpartition(".")[0]):
        room = home_of(base) if base else None
        if room is not None:
            return f"genlabel.{room}.{base.rpartition('.')[2]}{short[len(base) :]}"
    return None


def owner(room: str, name: str) -> str:
    """Return the room that shows a name: where it is written if that offers it, else the one that asks.

    >>> owner("datasets", "Table"), owner("datasets", "make_moon")
    ('tables', 'datasets')
    """
    other = written_in(f"genlabel.{room}", name).split(".")[1]
    return other if other in rooms() and name in _offered(other) else room


@cache
def written_in(module: str, name: str) -> str:
    """Return the module in which a name is written that another one offers.

    >>> written_in("genlabel.data.datasets", "NINE_CENTRES"), written_in("genlabel.integrations", "GenLabelTrainer")
    ('genlabel.data.datasets.synthetic', 'genlabel.integrations.trainer')
    """
    path = file_of(module)
    source = _imported(path).get(name) or _lazy(path, module).get(name)
    return written_in(source, name) if source else module


def file_of(module: str) -> Path:
    """Return the file of a module, which is not imported; raise if there is none."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ImportError(f"there is no module {module}")
    return Path(spec.origin)


def data_docs(module: str) -> dict[str, str]:
    """Return what is said below the constants of a module, by name."""
    body = _parse(file_of(module)).body
    found = {}
    for node, below in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(below, ast.Expr):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            said = below.value.value if isinstance(below.value, ast.Constant) else None
            targets = target.elts if isinstance(target, ast.Tuple) else [target]
            found |= {ast.unparse(one): inspect.cleandoc(said) for one in targets if isinstance(said, str)}
    return found


def _rank(value: Any) -> int:
    return 0 if inspect.isclass(value) else 1 if inspect.isroutine(value) else 2


@cache
def _offered(room: str) -> frozenset[str]:
    return frozenset(import_module(f"genlabel.{room}").__all__)


@cache
def _imported(path: Path) -> dict[str, str]:
    """The modules from which a file takes names, by name; also those that only a checker of types sees."""
    body = _parse(path).body
    inside = [node for one in body for node in (one.body if isinstance(one, ast.If) else [one])]
    taken = [node for node in inside if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: node.module or "" for node in taken for alias in node.names}


@cache
def _lazy(path: Path, module: str) -> dict[str, str]:
    """The modules from which a file takes names when they are first used, by name."""
    calls = [node.value for node in _parse(path).body if isinstance(node, ast.Assign)]
    found = [one.args[1] for one in calls if isinstance(one, ast.Call) and ast.unparse(one.func) == "lazy_getattr"]
    parts = [ast.literal_eval(one) for one in found if isinstance(one, ast.Dict)]
    return {name: f"{module}.{inner}" for part in parts for inner, names in part.items() for name in names}


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))
