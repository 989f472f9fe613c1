"""Which lines and branches of the library the tests reach, for a few percent of their time.

    PYTHONPATH=.ci/reach GENLABEL_REACHED=build/reached python -m pytest
    python .ci/reach/reached.py build/reached --missed --least 95 --rooms densities mixing

Where a module of the library is imported, a mark is put before each of its statements, and where a condition or a loop
may go on without its body: a call that sets one byte. The bytes of a module are a file that all processes map, so that
forks, workers, commands and those that are killed leave their marks too, and nothing has to be put together. A tracer,
as coverage.py is one, is called for every line of every package instead. Counted as by coverage.py, which is the oracle
of tests/test_reached.py, but for decorators and the heads of `except` and `case`, whose blocks alone are counted here.
"""

from __future__ import annotations

import argparse
import ast
import copyreg
import marshal
import mmap
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import NamedTuple

__all__ = ["Probe", "install", "instrument", "main"]

PACKAGE = "genlabel"
FOLDER = "GENLABEL_REACHED"
MARK = "__mark__"
IGNORED: set[Callable[[int, int], None]] = set()
"""The marks of all modules, which torch.compile leaves out of its graphs."""


class Probe(NamedTuple):
    """A place that may be reached: a statement, or a way that a condition or a loop may go."""

    line: int
    way: str = ""

    def __str__(self) -> str:
        return f"{self.line} {self.way}" if self.way else str(self.line)


class Instrumented(NamedTuple):
    """A module with its marks, what each of them stands for, and which marks say that a way was gone."""

    tree: ast.Module
    statements: dict[int, int]
    """The line of each mark of a statement."""
    ways: list[tuple[Probe, int]]
    """Ways, each with the mark that says of it."""
    size: int


def _is_idle(node: ast.stmt) -> bool:
    """Tell whether a statement is a text or `...`, which computes nothing."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _counts(node: ast.stmt) -> bool:
    """Tell whether a statement is to be reached: not what computes nothing, is for the type checker, or abstract."""
    if isinstance(node, ast.If):
        return not ast.unparse(node.test).endswith("TYPE_CHECKING")
    if isinstance(node, ast.FunctionDef):
        return not any(ast.unparse(one).endswith(("abstractmethod", "overload")) for one in node.decorator_list)
    if isinstance(node, ast.ImportFrom):
        return node.module != "__future__"
    return not isinstance(node, ast.Global | ast.Nonlocal) and not _is_idle(node)


class _Marker:
    """Puts the marks into a tree, in the order of its lines."""

    def __init__(self) -> None:
        self.statements: dict[int, int] = {}
        self.ways: list[tuple[Probe, int]] = []
        self.size = 0

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """Return a block with a mark before each statement."""
        marked: list[ast.stmt] = []
        for node in body:
            if _counts(node):
                self.statements[self.size] = node.lineno
                marked.append(self._mark(node))
                self._inside(node)
            marked.append(node)
        return marked

    def _mark(self, near: ast.AST) -> ast.stmt:
        """Return a new mark, at the place of a node."""
        call = ast.Call(ast.Name(MARK, ast.Load()), [ast.Constant(self.size), ast.Constant(1)], [])
        self.size += 1
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(call), near))

    def _inside(self, node: ast.stmt) -> None:
        if isinstance(node, ast.If | ast.While | ast.For) and not self._always(node):
            node.body = self._way(node.body, node, "in")
            node.orelse = self._way(node.orelse, node, "past")
            return
        for name in ("body", "orelse", "finalbody"):
            if getattr(node, name, None):
                setattr(node, name, self.block(getattr(node, name)))
        for part in (*getattr(node, "handlers", []), *getattr(node, "cases", [])):
            part.body = self.block(part.body)

    @staticmethod
    def _always(node: ast.If | ast.While | ast.For) -> bool:
        return not isinstance(node, ast.For) and isinstance(node.test, ast.Constant)

    def _way(self, body: list[ast.stmt], of: ast.stmt, name: str) -> list[ast.stmt]:
        """Return the block of a way that may be gone; its first mark says that it was."""
        self.ways.append((Probe(of.lineno, name), self.size))
        own = [] if body and _counts(body[0]) else [self._mark(of)]
        return own + self.block(body)


def instrument(source: str, name: str = "<source>") -> Instrumented:
    """Return a module with its marks.

    >>> ready = instrument("if a:\\n    b = 1")
    >>> print(ast.unparse(ready.tree))
    __mark__(0, 1)
    if a:
        __mark__(1, 1)
        b = 1
    else:
        __mark__(2, 1)
    >>> ready.statements, [(str(probe), mark) for probe, mark in ready.ways]
    ({0: 1, 1: 2}, [('1 in', 1), ('1 past', 2)])
    """
    tree, marker = ast.parse(source, name), _Marker()
    tree.body = marker.block(tree.body)
    return Instrumented(tree, marker.statements, marker.ways, marker.size)


class _Marked(SourceFileLoader):
    """Loads a module of the library with its marks."""

    def exec_module(self, module: ModuleType) -> None:
        size, code = self._compiled(module.__name__)
        path = _beside(Path(os.environ[FOLDER]), module.__name__, Path(self.path), "marks")
        module.__dict__[MARK] = mark = _open_marks(path, size).__setitem__
        IGNORED.add(mark)
        exec(code, module.__dict__)

    def _compiled(self, name: str) -> tuple[int, CodeType]:
        """Return the number of marks and the code, which are kept beside the marks until the source changes."""
        kept = _beside(Path(os.environ[FOLDER]), name, Path(self.path), "code")
        try:
            return marshal.loads(kept.read_bytes())
        except (OSError, ValueError, EOFError):
            ready = instrument(self.get_source(name), self.path)
            made = ready.size, compile(ready.tree, self.path, "exec", dont_inherit=True)
            beside = kept.with_suffix(f".{os.getpid()}")
            beside.write_bytes(marshal.dumps(made))
            beside.replace(kept)
            return made


def _beside(folder: Path, name: str, source: Path, kind: str) -> Path:
    """Return where the marks or the code of a module are kept: of this source, by this file."""
    times = [f"{one.stat().st_mtime_ns:x}" for one in (source, Path(__file__))]
    return folder / f"{name}-{'-'.join(times)}.{kind}"


def _open_marks(path: Path, size: int) -> mmap.mmap:
    """Map the marks of a module, which all processes share."""
    with path.open("a+b") as file:
        file.truncate(max(size, 1))
        return mmap.mmap(file.fileno(), max(size, 1))


class _Settings(SourceFileLoader):
    """Loads the settings of torch.compile, to which marks are calls that it may leave out."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        module.ignore_logging_functions = IGNORED


class _Finder:
    """Finds the modules of the library for `_Marked`."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return how to load a module; None leaves it to the others."""
        loader = _Settings if name == "torch._dynamo.config" else _Marked if name.split(".")[0] == PACKAGE else None
        spec = PathFinder.find_spec(name, path, target) if loader else None
        if loader is None or spec is None or not isinstance(spec.loader, SourceFileLoader):
            return None
        spec.loader = loader(spec.loader.name, spec.loader.path)
        return spec


def install() -> None:
    """Mark what is imported from now on, if the environment names the folder of the marks."""
    if os.environ.get(FOLDER):
        os.environ[FOLDER] = os.path.abspath(os.environ[FOLDER])
        os.makedirs(os.environ[FOLDER], exist_ok=True)
        copyreg.pickle(mmap.mmap, lambda marks: (bytearray, (len(marks),)))  # of a function that is sent by its value
        sys.meta_path.insert(0, _Finder)


class Reached(NamedTuple):
    """What was reached of a file."""

    path: Path
    statements: int
    ways: int
    missed: list[Probe]

    @property
    def total(self) -> int:
        """Statements and ways."""
        return self.statements + self.ways


def look(path: Path, marks: bytes) -> Reached:
    """Return what the marks of a file say."""
    ready = instrument(path.read_text(), str(path))
    marks = marks.ljust(ready.size, b"\0")
    places = [*((Probe(line), mark) for mark, line in ready.statements.items()), *ready.ways]
    missed = sorted(probe for probe, mark in places if not marks[mark])
    return Reached(path, len(ready.statements), len(ready.ways), missed)


def look_at_all(source: Path, folder: Path) -> list[Reached]:
    """Return what was reached of every file below a folder; one that was never imported counts in full."""
    found = []
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        marks = _beside(folder, name, path, "marks")
        found.append(look(path, marks.read_bytes() if marks.exists() else b""))
    return found


def _room(path: Path, source: Path) -> str:
    """Return the room that a file belongs to: a folder of the library, or a file of its own."""
    return path.relative_to(source).parts[0].removesuffix(".py")


def main(words: Sequence[str] | None = None) -> int:
    """Print what was reached, by room; 1 if a room that is named has less than asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="of the marks")
    parser.add_argument("--source", type=Path, default=Path("src", PACKAGE), help="the library (src/genlabel)")
    parser.add_argument("--missed", action="store_true", help="the lines too that were not reached")
    parser.add_argument("--least", type=float, default=0.0, help="percent that each of the rooms is to have")
    parser.add_argument("--rooms", nargs="+", default=[], help="for --least")
    asked = parser.parse_args(words)
    if not asked.folder.is_dir():
        parser.error(f"there are no marks in {asked.folder}: run the tests with {FOLDER} set, as `make test` does")
    files = look_at_all(asked.source, asked.folder)
    rooms: dict[str, list[Reached]] = defaultdict(list)
    for one in files:
        rooms[_room(one.path, asked.source)].append(one)
    shares = {name: _share(found) for name, found in rooms.items()}
    if asked.missed:
        print(*(f"{one.path}: {', '.join(map(str, one.missed))}" for one in files if one.missed), sep="\n")
    print(f"{'reached':24} {'statements':>11} {'branches':>9} {'missed':>7}    both")
    for name, found in [*sorted(rooms.items()), ("all", files)]:
        print(_line(name, found))
    poor = [name for name in asked.rooms if shares.get(name, 0.0) < asked.least]
    if poor:
        print(f"less than {asked.least:g} % is reached of {', '.join(poor)}; --missed has the lines", file=sys.stderr)
    return 1 if poor else 0


def _share(files: Sequence[Reached]) -> float:
    """Return the percentage of statements and ways together that was reached."""
    total = sum(one.total for one in files)
    return 100.0 * (1 - sum(len(one.missed) for one in files) / max(total, 1))


def _line(name: str, files: Sequence[Reached]) -> str:
    count: Counter[str] = Counter()
    for one in files:
        count.update(statements=one.statements, ways=one.ways, missed=len(one.missed))
    return f"{name:24} {count['statements']:11,} {count['ways']:9,} {count['missed']:7,} {_share(files):6.1f} %"


if __name__ == "__main__":
    sys.exit(main())
