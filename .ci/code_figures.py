"""Print the figures of a source tree: lines, modules, private functions, class names, docstrings, public names.

    python .ci/code_figures.py [ROOT] [--json] [--list FIGURE]

ROOT is the folder that contains `src`, by default that of this script. It reads the sources and imports nothing.
`FIGURES` defines each figure; `--list` prints the entries of a figure, one per line.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["figures", "main"]

PACKAGES = ("genlabel", "genlabel_paper")
OPENINGS = re.compile(r"(What|How|Of|Those|Whether|Whose|That)\b")
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")
CLASSIFIER = "GenLabelClassifier"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DOCUMENTED = (ast.Module, ast.ClassDef, *FUNCTIONS)


class Module(NamedTuple):
    """A source file: path below `src`, text, syntax tree with all nodes, and the syntax tree of its stub."""

    path: str
    text: str
    tree: ast.Module
    nodes: tuple[ast.AST, ...]
    stub: ast.Module | None


def read_modules(root: Path, package: str) -> list[Module]:
    """Return the modules of a package, in the order of their paths."""
    source = root / "src"
    modules = []
    for path in sorted((source / package).rglob("*.py")):
        if path.name == "conftest.py":
            continue
        text, stub = path.read_text(encoding="utf-8"), path.with_suffix(".pyi")
        tree = ast.parse(text)
        stub_tree = ast.parse(stub.read_text(encoding="utf-8")) if stub.exists() else None
        modules.append(Module(path.relative_to(source).as_posix(), text, tree, tuple(ast.walk(tree)), stub_tree))
    return modules


def module_lines(modules: Sequence[Module]) -> Iterator[str]:
    """Yield one entry for each line, as `wc -l` counts them."""
    for module in modules:
        yield from [module.path] * module.text.count("\n")


def module_paths(modules: Sequence[Module]) -> Iterator[str]:
    """Yield the path of each module."""
    for module in modules:
        yield module.path


def long_modules(modules: Sequence[Module]) -> Iterator[str]:
    """Yield the modules of more than 400 lines."""
    for module in modules:
        if module.text.count("\n") > 400:
            yield module.path


def private_functions(modules: Sequence[Module]) -> Iterator[str]:
    """Yield functions and methods whose name starts with one underscore."""
    for module in modules:
        for name, line in _private(module):
            yield f"{module.path}:{line} {name}"


def single_use(modules: Sequence[Module]) -> Iterator[str]:
    """Yield private functions whose name occurs twice in their module: the definition and one use."""
    for module in modules:
        words = Counter(re.findall(r"\w+", module.text))
        for name, line in _private(module):
            if words[name] == 2:
                yield f"{module.path}:{line} {name}"


def single_callers(modules: Sequence[Module]) -> Iterator[str]:
    """Yield public functions and methods that are used once in the sources, in their own module."""
    counts = {module.path: Counter(re.findall(r"\w+", module.text)) for module in modules}
    total = sum(counts.values(), Counter[str]())
    stubs = {text.rpartition(".")[2] for text in public_names(modules)}
    for module in modules:
        for node in module.nodes:
            if not isinstance(node, FUNCTIONS) or node.name.startswith("_") or node.name in stubs:
                continue
            if total[node.name] == counts[module.path][node.name] == 2:
                yield f"{module.path}:{node.lineno} {node.name}"


def _private(module: Module) -> Iterator[tuple[str, int]]:
    for node in module.nodes:
        if isinstance(node, FUNCTIONS) and node.name.startswith("_") and not node.name.startswith("__"):
            yield node.name, node.lineno


def class_names(modules: Sequence[Module]) -> Iterator[str]:
    """Yield each class."""
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                yield f"{node.name} {module.path}:{node.lineno}"


def repeated_classes(modules: Sequence[Module]) -> Iterator[str]:
    """Yield each class name, public or private, that is defined more than once."""
    locations: dict[str, list[str]] = {}
    for text in class_names(modules):
        name, _, location = text.partition(" ")
        locations.setdefault(name, []).append(location)
    for name, where in sorted(locations.items()):
        if len(where) > 1:
            yield f"{name}: {' '.join(where)}"


def docstrings(modules: Sequence[Module]) -> Iterator[str]:
    """Yield docstrings of modules, classes and functions that start with a word of `OPENINGS`."""
    for module in modules:
        for node in module.nodes:
            if isinstance(node, DOCUMENTED):
                text = ast.get_docstring(node) or ""
                if OPENINGS.match(text):
                    yield f"{module.path}:{getattr(node, 'lineno', 1)} {text.splitlines()[0]}"


def attribute_docstrings(modules: Sequence[Module]) -> Iterator[str]:
    """Yield docstrings of attributes and constants that start with a word of `OPENINGS`."""
    for module in modules:
        for node in module.nodes:
            body = getattr(node, "body", None)
            for statement in body[isinstance(node, DOCUMENTED) :] if isinstance(body, list) else []:
                value = statement.value if isinstance(statement, ast.Expr) else None
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    text = value.value.strip()
                    if OPENINGS.match(text):
                        yield f"{module.path}:{statement.lineno} {text.splitlines()[0]}"


def all_openings(modules: Sequence[Module]) -> Iterator[str]:
    """Yield the entries of `docstrings` and `attribute_docstrings`."""
    yield from docstrings(modules)
    yield from attribute_docstrings(modules)


def public_names(modules: Sequence[Module]) -> Iterator[str]:
    """Yield the entries of `__all__` of each `__init__`, or of its stub if it has no list."""
    for module in modules:
        if module.path.endswith("__init__.py"):
            names = list(_exported(module.tree))
            if not names and module.stub is not None:
                names = list(_exported(module.stub)) or list(_imported(module.stub))
            for name in names:
                yield f"{module.path.removesuffix('/__init__.py').replace('/', '.')}.{name}"


def distinct_names(modules: Sequence[Module]) -> Iterator[str]:
    """Yield the names of `public_names`, each once."""
    yield from dict.fromkeys(text.rpartition(".")[2] for text in public_names(modules))


def module_exports(modules: Sequence[Module]) -> Iterator[str]:
    """Yield the entries of `__all__` of modules other than `__init__`."""
    for module in modules:
        if not module.path.endswith("__init__.py"):
            for name in _exported(module.tree):
                yield f"{module.path} {name}"


def _exported(tree: ast.Module) -> Iterator[str]:
    """Yield the strings that are assigned or added to `__all__`, as a list, a tuple, or a sum of them."""
    for statement in tree.body:
        targets = _targets(statement)
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            value = getattr(statement, "value", None)
            for node in ast.walk(value) if value is not None else ():
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value


def _imported(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a stub without `__all__` imports."""
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module != "__future__":
            yield from [alias.asname or alias.name for alias in statement.names]


def _targets(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, ast.Assign):
        return statement.targets
    return [statement.target] if isinstance(statement, ast.AnnAssign | ast.AugAssign) else []


def constants(modules: Sequence[Module]) -> Iterator[str]:
    """Yield uppercase names that are assigned at module level, type variables excepted."""
    for module in modules:
        for statement in module.tree.body:
            value = getattr(statement, "value", None)
            if isinstance(value, ast.Call) and ast.unparse(value.func).endswith(("TypeVar", "ParamSpec")):
                continue
            for target in [] if isinstance(statement, ast.AugAssign) else _targets(statement):
                for node in ast.walk(target):
                    if isinstance(node, ast.Name) and CONSTANT.fullmatch(node.id):
                        yield f"{module.path}:{statement.lineno} {node.id}"


def classifier_parameters(modules: Sequence[Module]) -> Iterator[str]:
    """Yield the parameters of `GenLabelClassifier.__init__` without self."""
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef) and node.name == CLASSIFIER:
                for method in node.body:
                    if isinstance(method, FUNCTIONS) and method.name == "__init__":
                        parameters = [*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs]
                        yield from [parameter.arg for parameter in parameters[1:]]


FIGURES: dict[str, tuple[str, Callable[[Sequence[Module]], Iterator[str]]]] = {
    "lines": ("lines of .py (wc -l)", module_lines),
    "modules": ("modules", module_paths),
    "long_modules": ("modules of more than 400 lines", long_modules),
    "private": ("private functions and methods (_name)", private_functions),
    "single_use": ("private functions, name used once in its module", single_use),
    "single_callers": ("public functions, used once, in their module", single_callers),
    "classes": ("classes", class_names),
    "repeated_classes": ("class names defined more than once", repeated_classes),
    "docstrings": ("docstrings that start with What, How, Of, ...", docstrings),
    "attribute_docstrings": ("attribute docstrings that start so", attribute_docstrings),
    "openings": ("both kinds of docstrings", all_openings),
    "public": ("names in __all__ of packages", public_names),
    "distinct_public": ("distinct names in __all__ of packages", distinct_names),
    "module_exports": ("names in __all__ of other modules", module_exports),
    "constants": ("module constants (UPPERCASE)", constants),
    "parameters": (f"parameters of {CLASSIFIER}.__init__", classifier_parameters),
}
"""Title and generator of each figure; a figure is the number of entries."""
OTHER_SUFFIXES = (".j2", ".html", ".css", ".js", ".pyi")
"""Suffixes of other files whose lines are counted."""


def figures(root: Path) -> dict[str, dict[str, int]]:
    """Return each figure for genlabel, genlabel_paper, and both together.

    Class names and distinct names of both are counted over both packages, so they are not the sum.
    """
    parts = {package: read_modules(root, package) for package in PACKAGES}
    parts["both"] = [module for modules in parts.values() for module in modules]
    result = {name: {part: sum(1 for _ in find(parts[part])) for part in parts} for name, (_, find) in FIGURES.items()}
    for ending in OTHER_SUFFIXES:
        lines = {package: _lines_of(root / "src" / package, ending) for package in PACKAGES}
        result[f"lines{ending}"] = lines | {"both": sum(lines.values())}
    return result


def _lines_of(folder: Path, ending: str) -> int:
    return sum(path.read_text(encoding="utf-8").count("\n") for path in folder.rglob(f"*{ending}"))


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Print the figures of a source tree.")
    parser.add_argument("root", nargs="?", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--list", metavar="FIGURE", choices=FIGURES, help="print the entries of a figure")
    arguments = parser.parse_args(words)
    if not (arguments.root / "src" / PACKAGES[0]).is_dir():
        parser.error(f"{str(arguments.root)!r} has no src/{PACKAGES[0]}; name the root of a tree")
    if arguments.list:
        modules = [module for package in PACKAGES for module in read_modules(arguments.root, package)]
        print("\n".join(FIGURES[arguments.list][1](modules)))
        return 0
    result = figures(arguments.root)
    if arguments.json:
        print(json.dumps(result, indent=1))
        return 0
    titles = {name: title for name, (title, _) in FIGURES.items()}
    print(f"{'':50}" + "".join(f"{part:>16}" for part in (*PACKAGES, "both")))
    for name, counts in result.items():
        title = titles.get(name, f"lines of {name.removeprefix('lines')}")
        print(f"{title:50}" + "".join(f"{counts[part]:>16,}" for part in (*PACKAGES, "both")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
