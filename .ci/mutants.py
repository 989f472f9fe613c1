"""Changes one operator, number or statement of a module at a time, and looks whether its tests notice.

    python .ci/mutants.py src/genlabel/posterior.py --tests tests/densities/test_posterior.py

The tests are collected once, by one process; each mutant is a fork of it, in which the code of the changed function is
put in the place of the old one, and the tests that call it run until one fails, the quickest first. What stands outside
of functions is not changed. It prints the survivors and the counts, and ends with 0 however many there are: a survivor
is something to look at, often a change that changes nothing. Without words on the command line it goes through `PARTS`.
"""

from __future__ import annotations

import argparse
import ast
import copy
import gc
import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

__all__ = ["changes", "main"]

SWAPPED: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div, ast.Mod: ast.Mult, ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
SOURCE = "src/genlabel"
PARTS: dict[str, tuple[str, str]] = {
    "posterior": (f"{SOURCE}/densities/posterior.py", "tests/densities/test_posterior.py"),
    "labeling": (
        " ".join(f"{SOURCE}/labeling/{name}.py" for name in ("base", "generative", "online")),
        "tests/labeling/test_labelers.py tests/labeling/test_sampler.py tests/labeling/test_online.py",
    ),
    "densities": (
        " ".join(f"{SOURCE}/densities/{name}.py" for name in ("gaussian", "kernel", "covariance")),
        "tests/densities/test_gaussian.py tests/densities/test_kernel.py tests/densities/test_covariance.py "
        "tests/fuzz/test_found.py",
    ),
    "mixing": (
        " ".join(f"{SOURCE}/mixing/{name}.py" for name in ("base", "mixup", "intrusion", "finders")),
        "tests/mixing/test_mixup.py tests/mixing/test_cutmix.py tests/contracts/test_mixer_contract.py "
        "tests/mixing/test_law.py tests/mixing/test_intrusion.py "
        "tests/mixing/test_genmix.py tests/mixing/test_segments.py",
    ),
}
"""Modules, and the tests that are to notice what is changed in them."""
CHEAP = "not VAE and not Flow and not StackedDensity and not PowerTransformed and not ten_classes and not memory"
"""Of these tests: those that train nothing."""
SAID = pytest.StashKey[list[str]]()
LIMIT = 20.0
"""Seconds for a mutant beyond thrice what its tests take: one that never ends is noticed."""


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may stand in the place of a node.

    >>> [ast.unparse(one) for one in changes(ast.parse("a < 2", mode="eval").body)]
    ['a <= 2']
    """
    if isinstance(node, ast.Compare):
        for place, found in enumerate(node.ops):
            yield _with(node, ops=[*node.ops[:place], SWAPPED[type(found)](), *node.ops[place + 1 :]])
    elif isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp) and type(node.op) in SWAPPED:
        yield _with(node, op=SWAPPED[type(node.op)]())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        yield _with(node, value=not node.value if isinstance(node.value, bool) else node.value + 1)
    elif isinstance(node, ast.Raise | ast.AugAssign) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield ast.copy_location(ast.Pass(), node)


def _with(node: ast.AST, **fields: Any) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _places(node: ast.AST, inside: bool = False) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Every place in the bodies of functions: a node, the field of it, and the place in that field if it is a list."""
    if isinstance(node, ast.JoinedStr | ast.arguments | ast.AnnAssign) or (isinstance(node, ast.Raise) and inside):
        return  # what an error says, defaults and types
    for field, value in ast.iter_fields(node):
        body = inside or (isinstance(node, ast.FunctionDef) and field == "body")
        for place, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST):
                if body:
                    yield node, field, place
                yield from _places(child, body)


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line, what is changed, and the text of the whole module, for each mutant."""
    tree = ast.parse(source)
    for node, field, place in list(_places(tree)):
        old = getattr(node, field) if place is None else getattr(node, field)[place]
        for new in changes(old):
            _put(node, field, place, new)
            yield old.lineno, f"{_short(old)}  ->  {_short(new)}", ast.unparse(ast.fix_missing_locations(tree))
            _put(node, field, place, old)


def _put(node: ast.AST, field: str, place: int | None, value: ast.AST) -> None:
    if place is None:
        setattr(node, field, value)
    else:
        getattr(node, field)[place] = value


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 70 else f"{text[:67]}..."


def _codes(code: CodeType) -> dict[str, CodeType]:
    """The code of every function of a module by its qualified name, nested ones within the others left out."""
    found: dict[str, CodeType] = {}
    for part in code.co_consts:
        if isinstance(part, CodeType) and "<" not in part.co_name:
            found |= {part.co_qualname: part} if part.co_flags & 0x1 else _codes(part)
    return found


class Hunt:
    """A plugin of pytest: instead of running the tests once, it runs those of each mutant."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = [path.resolve() for path in paths]
        self.counts: Counter[str] = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note what a part of a test says where it fails."""
        report = yield
        item.stash[SAID] += [str(report.longrepr)] if report.failed else []
        return report

    def pytest_collection(self) -> None:
        """Before the tests are imported: the same examples each time, none made smaller."""
        from hypothesis import Phase, settings

        settings.register_profile("mutants", settings(), phases=(Phase.explicit, Phase.generate), derandomize=True)
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Learn which test calls which function, then run the mutants."""
        session.config.pluginmanager.unregister(name="terminalreporter")
        callers, seconds = self._learn(session)
        for path in self.paths:
            source = path.read_text(encoding="utf-8")
            plain = _codes(compile(ast.unparse(ast.parse(source)), str(path), "exec"))
            for name in plain:  # nothing is changed, so nothing may be noticed
                if callers[str(path), name] and not _functions(str(path), name):
                    raise pytest.UsageError(f"{name} is called, but not found: its mutants would never run")
                if _noticed(session, sorted(callers[str(path), name]), path, plain, name, LIMIT + 3.0 * sum(seconds)):
                    raise pytest.UsageError(f"tests of {name} fail in a fork of their own")
            for line, said, text in mutants(source):
                changed = _codes(compile(text, str(path), "exec"))
                name = next((one for one in plain if changed[one] != plain[one]), None)
                tests = sorted(callers[str(path), name], key=seconds.__getitem__) if name else []
                limit = LIMIT + 3.0 * sum(seconds[place] for place in tests)
                outcome = "killed" if _noticed(session, tests, path, changed, name, limit) else "survived"
                self.counts[outcome] += 1
                if outcome == "survived":
                    print(
                        f"{path.parent.name}/{path.name}:{line}  {said}{'' if tests else '  (no test calls it)'}",
                        flush=True,
                    )
        print(f"{sum(self.counts.values())} mutants, {self.counts['killed']} killed, {self.counts['survived']} survive")
        return True

    def _learn(self, session: pytest.Session) -> tuple[dict[tuple[str, str | None], set[int]], list[float]]:
        """The tests that call a function, and the seconds of each test; all of them must pass."""
        callers: dict[tuple[str, str | None], set[int]] = defaultdict(set)
        ours, seconds = {str(path) for path in self.paths}, []
        for place, item in enumerate(session.items):

            def note(frame: FrameType, event: str, _: object, place: int = place) -> None:
                if frame.f_code.co_filename in ours:
                    callers[frame.f_code.co_filename, _outermost(frame.f_code.co_qualname)].add(place)

            start = time.perf_counter()
            sys.settrace(note)
            try:
                failed = _fails(item, session.items[place + 1] if place + 1 < len(session.items) else None)
            finally:
                sys.settrace(None)
            seconds.append(time.perf_counter() - start)
            if failed:
                raise pytest.UsageError(f"{item.nodeid} fails without a mutant: {failed}")
        return callers, seconds


def _outermost(name: str) -> str:
    return name.split(".<locals>")[0]


def _fails(item: pytest.Item, following: pytest.Item | None) -> str:
    """What a test that fails says; nothing if it passes."""
    said: list[str] = []
    item.stash[SAID] = said
    item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
    return " ".join(said)


def _noticed(
    session: pytest.Session, tests: list[int], path: Path, changed: dict[str, CodeType], name: str | None, limit: float
) -> bool:
    """Whether a test fails, dies or goes on for too long in a fork with the changed function."""
    if not tests or name is None:
        return False
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        try:
            os._exit(int(_run(session, tests, str(path), changed, name)))
        except BaseException:
            os._exit(1)
    waiting = os.pidfd_open(child)
    if not select.select([waiting], [], [], limit)[0]:
        os.kill(child, signal.SIGKILL)
    os.close(waiting)
    return os.waitpid(child, 0)[1] != 0


def _run(session: pytest.Session, tests: list[int], path: str, changed: dict[str, CodeType], name: str) -> bool:
    """Put the changed function in its place, and run the tests until one fails."""
    for function in _functions(path, name):
        function.__code__ = changed[name]
    items = [session.items[place] for place in tests]
    return any(_fails(item, items[at + 1] if at + 1 < len(items) else None) for at, item in enumerate(items))


def _functions(path: str, name: str) -> list[FunctionType]:
    """All functions of a name in a file, wherever they are kept."""
    gc.unfreeze()  # what was there before the tests, too (tests/conftest.py)
    # By their type: to ask `isinstance` is to ask the object, and some warn.
    known = [one for one in gc.get_objects() if type(one) is FunctionType]
    return [one for one in known if (one.__code__.co_filename, one.__code__.co_qualname) == (path, name)]


def hunt(paths: list[Path], tests: list[str], some: str) -> int:
    """Run all mutants of some modules; return the exit code of pytest."""
    words = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", some]
    return int(pytest.main([*words, *tests], plugins=[Hunt(paths)]))


def main() -> None:
    """Read the command line, and hunt."""
    parser = argparse.ArgumentParser(description="changes modules in every small way, and looks whether tests notice")
    parser.add_argument("paths", nargs="*", type=Path, help="modules; without, all of the parts")
    parser.add_argument("--tests", nargs="+", help="what pytest is to run for them")
    parser.add_argument("-k", default="", help="which of these, as for pytest")
    given = parser.parse_args()
    if given.paths:
        sys.exit(hunt(given.paths, given.tests or parser.error("--tests is needed with modules"), given.k))
    for name, (paths, tests) in PARTS.items():  # a process each: the tests of one know nothing of the others'
        print(f"== {name}", flush=True)
        words = [*paths.split(), "-k", CHEAP, "--tests", *tests.split()]
        subprocess.run([sys.executable, __file__, *words], check=True)


if __name__ == "__main__":
    main()
