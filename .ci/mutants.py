"""Change one operator, number or statement of a module at a time, and check that its tests fail.

    python .ci/mutants.py src/genlabel/posterior.py --tests tests/densities/test_posterior.py

One process collects the tests. Each mutant runs in a fork, where the code of the changed function replaces the old one;
the tests that call it run until one fails, the fastest first. Code outside of functions is not changed. The script
prints survivors and counts, and exits with 0 even if mutants survive: many survivors are equivalent to the original.
Without arguments it runs all of `PARTS`.
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

SWAPPED_OPERATORS: dict[type, type] = {
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
        "tests/fuzz/test_regressions.py",
    ),
    "mixing": (
        " ".join(f"{SOURCE}/mixing/{name}.py" for name in ("base", "mixup", "intrusion", "finders")),
        "tests/mixing/test_mixup.py tests/mixing/test_cutmix.py tests/contracts/test_mixer_contract.py "
        "tests/mixing/test_law.py tests/mixing/test_intrusion.py "
        "tests/mixing/test_genmix.py tests/mixing/test_segments.py",
    ),
}
"""Modules, and the tests that should kill their mutants."""
FAST_TESTS = "not VAE and not Flow and not StackedDensity and not PowerTransformed and not ten_classes and not memory"
"""Selection of tests that do not train."""
FAILURES = pytest.StashKey[list[str]]()
EXTRA_SECONDS = 20.0
"""Time limit of a mutant beyond three times the duration of its tests; endless loops are killed."""


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the mutations of a node.

    >>> [ast.unparse(node) for node in changes(ast.parse("a < 2", mode="eval").body)]
    ['a <= 2']
    """
    if isinstance(node, ast.Compare):
        for index, operator in enumerate(node.ops):
            yield _copy_with(node, ops=[*node.ops[:index], SWAPPED_OPERATORS[type(operator)](), *node.ops[index + 1 :]])
    elif isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp) and type(node.op) in SWAPPED_OPERATORS:
        yield _copy_with(node, op=SWAPPED_OPERATORS[type(node.op)]())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        yield _copy_with(node, value=not node.value if isinstance(node.value, bool) else node.value + 1)
    elif isinstance(node, ast.Raise | ast.AugAssign) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ):
        yield ast.copy_location(ast.Pass(), node)


def _copy_with(node: ast.AST, **fields: Any) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _locations(node: ast.AST, inside: bool = False) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Yield the locations in bodies of functions: a node, its field, and the index in that field if it is a list."""
    if isinstance(node, ast.JoinedStr | ast.arguments | ast.AnnAssign) or (isinstance(node, ast.Raise) and inside):
        return  # messages, defaults and types
    for field, value in ast.iter_fields(node):
        body = inside or (isinstance(node, ast.FunctionDef) and field == "body")
        for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(child, ast.AST):
                if body:
                    yield node, field, index
                yield from _locations(child, body)


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the change, and the text of the whole module for each mutant."""
    tree = ast.parse(source)
    for node, field, index in list(_locations(tree)):
        old = getattr(node, field) if index is None else getattr(node, field)[index]
        for new in changes(old):
            _replace(node, field, index, new)
            yield old.lineno, f"{_short(old)}  ->  {_short(new)}", ast.unparse(ast.fix_missing_locations(tree))
            _replace(node, field, index, old)


def _replace(node: ast.AST, field: str, index: int | None, value: ast.AST) -> None:
    if index is None:
        setattr(node, field, value)
    else:
        getattr(node, field)[index] = value


def _short(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 70 else f"{text[:67]}..."


def _codes(code: CodeType) -> dict[str, CodeType]:
    """Return the code of every function of a module by its qualified name, without nested functions."""
    codes: dict[str, CodeType] = {}
    for part in code.co_consts:
        if isinstance(part, CodeType) and "<" not in part.co_name:
            codes |= {part.co_qualname: part} if part.co_flags & 0x1 else _codes(part)
    return codes


class MutantPlugin:
    """A pytest plugin that runs the tests of each mutant instead of all tests once."""

    def __init__(self, paths: list[Path]) -> None:
        self.paths = [path.resolve() for path in paths]
        self.counts: Counter[str] = Counter()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Record the failures of a test."""
        report = yield
        item.stash[FAILURES] += [str(report.longrepr)] if report.failed else []
        return report

    def pytest_collection(self) -> None:
        """Make hypothesis deterministic, without shrinking, before the tests are imported."""
        from hypothesis import Phase, settings

        settings.register_profile("mutants", settings(), phases=(Phase.explicit, Phase.generate), derandomize=True)
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Trace which test calls which function, then run the mutants."""
        session.config.pluginmanager.unregister(name="terminalreporter")
        callers, seconds = self._learn(session)
        for path in self.paths:
            source = path.read_text(encoding="utf-8")
            plain = _codes(compile(ast.unparse(ast.parse(source)), str(path), "exec"))
            limit = EXTRA_SECONDS + 3.0 * sum(seconds)
            for name in plain:  # unchanged code must pass
                tests = sorted(callers[str(path), name])
                if tests and not _functions(str(path), name):
                    raise pytest.UsageError(f"{name} is called but not found: its mutants would never run")
                if _is_killed(session, tests, path, plain, name, limit):
                    raise pytest.UsageError(f"the tests of {name} fail in a fork")
            for line, description, text in mutants(source):
                changed = _codes(compile(text, str(path), "exec"))
                name = next((function for function in plain if changed[function] != plain[function]), None)
                tests = sorted(callers[str(path), name], key=seconds.__getitem__) if name else []
                limit = EXTRA_SECONDS + 3.0 * sum(seconds[index] for index in tests)
                outcome = "killed" if _is_killed(session, tests, path, changed, name, limit) else "survived"
                self.counts[outcome] += 1
                if outcome == "survived":
                    note = "" if tests else "  (no test calls it)"
                    print(f"{path.parent.name}/{path.name}:{line}  {description}{note}", flush=True)
        print(f"{sum(self.counts.values())} mutants, {self.counts['killed']} killed, {self.counts['survived']} survive")
        return True

    def _learn(self, session: pytest.Session) -> tuple[dict[tuple[str, str | None], set[int]], list[float]]:
        """Return the tests that call each function, and the seconds of each test; all tests must pass."""
        callers: dict[tuple[str, str | None], set[int]] = defaultdict(set)
        sources, seconds = {str(path) for path in self.paths}, []
        for index, item in enumerate(session.items):

            def note(frame: FrameType, event: str, _: object, index: int = index) -> None:
                if frame.f_code.co_filename in sources:
                    callers[frame.f_code.co_filename, _outermost(frame.f_code.co_qualname)].add(index)

            start = time.perf_counter()
            sys.settrace(note)
            try:
                failed = _failure_of(item, session.items[index + 1] if index + 1 < len(session.items) else None)
            finally:
                sys.settrace(None)
            seconds.append(time.perf_counter() - start)
            if failed:
                raise pytest.UsageError(f"{item.nodeid} fails without a mutant: {failed}")
        return callers, seconds


def _outermost(name: str) -> str:
    return name.split(".<locals>")[0]


def _failure_of(item: pytest.Item, following: pytest.Item | None) -> str:
    """Return the failures of a test, empty if it passes."""
    failures: list[str] = []
    item.stash[FAILURES] = failures
    item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
    return " ".join(failures)


def _is_killed(
    session: pytest.Session, tests: list[int], path: Path, changed: dict[str, CodeType], name: str | None, limit: float
) -> bool:
    """Return whether a test fails, crashes or exceeds the limit in a fork with the changed function."""
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
    """Replace the function by its mutant and run the tests until one fails."""
    for function in _functions(path, name):
        function.__code__ = changed[name]
    items = [session.items[index] for index in tests]
    return any(_failure_of(item, items[i + 1] if i + 1 < len(items) else None) for i, item in enumerate(items))


def _functions(path: str, name: str) -> list[FunctionType]:
    """Return all function objects of a name and a file."""
    gc.unfreeze()  # tests/conftest.py freezes objects
    # `isinstance` would read `__class__` of every object, and some objects warn.
    functions = [item for item in gc.get_objects() if type(item) is FunctionType]
    return [item for item in functions if (item.__code__.co_filename, item.__code__.co_qualname) == (path, name)]


def run_mutants(paths: list[Path], tests: list[str], keyword: str) -> int:
    """Run all mutants of modules; return the exit code of pytest."""
    words = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", keyword]
    return int(pytest.main([*words, *tests], plugins=[MutantPlugin(paths)]))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="run the tests on small changes of modules")
    parser.add_argument("paths", nargs="*", type=Path, help="modules (default: those of PARTS)")
    parser.add_argument("--tests", nargs="+", help="tests of the modules")
    parser.add_argument("-k", default="", help="selection of tests, as in pytest")
    arguments = parser.parse_args()
    if arguments.paths:
        sys.exit(run_mutants(arguments.paths, arguments.tests or parser.error("modules need --tests"), arguments.k))
    for name, (paths, tests) in PARTS.items():  # a process each, so that tests do not interact
        print(f"== {name}", flush=True)
        words = [*paths.split(), "-k", FAST_TESTS, "--tests", *tests.split()]
        subprocess.run([sys.executable, __file__, *words], check=True)


if __name__ == "__main__":
    main()
