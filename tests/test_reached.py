"""What the tests reach (`.ci/reach`): the lines and branches of coverage.py, from every process, whatever its end."""

import os
import runpy
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

REACH = Path(__file__).parents[1] / ".ci" / "reach"
TOOL: Any = ModuleType("reached")
TOOL.__dict__.update(runpy.run_path(str(REACH / "reached.py"), run_name="reached"))

BRANCHES = '''
"""A docstring is no statement."""

from __future__ import annotations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from os import PathLike

total = 0
"""Nor a text below what it tells of."""


def decorate(function):
    return function


@decorate
def way(n):
    """Nor this."""
    global total
    if n > 2:
        total += 1
    elif n > 1:
        total += 2
    if n == 1:
        total += 3
    for i in range(n):
        if i == 7:
            break
        total += 4
    else:
        total += 5
    while True:
        n -= 1
        if n < 0:
            return total
'''
ERRORS = """
def f(n):
    try:
        if n:
            raise ValueError
        return 1
    except ValueError as said:
        return 2
    except (TypeError,
            KeyError):
        return 3
    finally:
        n = 0
"""
CLOSURES = '''
from contextlib import suppress


class A:
    """Text."""

    n = 1

    def f(self):
        def inside():
            nonlocal m
            m = 2

        m = 1
        with suppress(ValueError):
            inside()
            raise ValueError(
                m
            )
        return [
            m for m in range(3)
            if m
        ]
'''
SNIPPETS = {
    "a way that is gone": (BRANCHES, "way(3)"),
    "loops with and without a turn": (BRANCHES, "way(0); way(9)"),
    "every way": (BRANCHES, "way(1); way(2); way(3); way(9)"),
    "never called": (BRANCHES, ""),
    "errors": (ERRORS, "f(0); f(1)"),
    "contexts and closures": (CLOSURES, "A().f()"),
    "a while that ends": ("def f(n):\n    while n:\n        n -= 1\n        continue\n    return n\n", "f(2)"),
    "a while that does not": ("def f(n):\n    while n:\n        return 1\n    return n\n", "f(2)"),
    "a function without a name": ("f = lambda n: n\nif f(0):\n    f = None\n", "f(1)"),
}


@pytest.mark.parametrize("name", SNIPPETS)
def test_the_lines_and_branches_are_those_of_coverage(name: str, tmp_path: Path) -> None:
    coverage = pytest.importorskip("coverage")
    source, calls = SNIPPETS[name]
    path = tmp_path / "snippet.py"
    path.write_text(source)
    theirs = coverage.Coverage(branch=True, data_file=None, config_file=False, include=[str(path)])
    theirs.exclude("if TYPE_CHECKING:")
    theirs.start()
    exec(calls, runpy.run_path(str(path)))
    theirs.stop()
    _, statements, _, missing, _ = theirs.analysis2(str(path))

    ready = TOOL.instrument(source, str(path))
    marks = bytearray(ready.size)
    space: dict[str, Any] = {"__mark__": marks.__setitem__}
    exec(compile(ready.tree, str(path), "exec"), space)
    exec(calls, space)
    ours = TOOL.look(path, bytes(marks))
    lines = dict(enumerate(source.splitlines(), 1))
    heads = {
        line for line, text in lines.items() if text.strip().startswith(("except", "from __future__", "@", '"""Nor'))
    }
    assert sorted(ready.statements.values()) == sorted(set(statements) - heads)
    assert [probe.line for probe in ours.missed if not probe.way] == sorted(set(missing) - heads)
    ways: dict[int, list[bool]] = {}
    for probe, mark in ready.ways:
        ways.setdefault(probe.line, []).append(bool(marks[mark]))
    assert {line: (len(gone), sum(gone)) for line, gone in ways.items()} == theirs.branch_stats(str(path))


LIBRARY = '''
"""A library of one module."""
import os
import signal


def killed():
    child = os.fork()
    if child == 0:
        forked = 1
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def never():
    return 0
'''


def test_all_processes_mark_and_the_report_tells_what_is_missing(tmp_path: Path) -> None:
    package = tmp_path / "src" / "genlabel"
    package.mkdir(parents=True)
    package.joinpath("__init__.py").write_text('"""Nothing."""\n')
    package.joinpath("room.py").write_text(LIBRARY)
    package.joinpath("apart.py").write_text("left = 1\n")
    places = os.pathsep.join(map(str, (REACH, package.parent)))
    said = {**os.environ, "PYTHONPATH": places, "GENLABEL_REACHED": str(tmp_path / "marks")}
    for _ in range(2):  # the second process takes the code that the first one kept
        subprocess.run(
            [sys.executable, "-c", "import genlabel.room as r; r.killed()"], env=said, check=True, cwd=tmp_path
        )

    def told(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(REACH / "reached.py"), "marks", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = told("--missed", "--least", "50", "--rooms", "room")
    assert done.returncode == 0, done.stderr
    assert f"{Path('src/genlabel/room.py')}: 16\n" in done.stdout
    assert f"{Path('src/genlabel/apart.py')}: 1\n" in done.stdout
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line.endswith("%")}
    assert rows["room"][:3] == ["10", "2", "1"]
    assert rows["all"][:3] == ["11", "2", "2"]
    poor = told("--least", "95", "--rooms", "room", "apart")
    assert poor.returncode == 1
    assert "room, apart" in poor.stderr
    package.joinpath("room.py").write_text(LIBRARY + "\nnew = 1\n")
    assert (
        f"{Path('src/genlabel/room.py')}: 3, 4, 7, " in told("--missed").stdout
    )  # marks of another source say nothing
    (tmp_path / "marks").rename(tmp_path / "moved")
    nothing = told()
    assert nothing.returncode == 2
    assert "there are no marks in marks" in nothing.stderr


def test_compiled_functions_leave_marks_out_of_their_graphs(tmp_path: Path) -> None:
    package = tmp_path / "genlabel"
    package.mkdir()
    package.joinpath("__init__.py").write_text("def double(x):\n    y = x + x\n    return y\n")
    places = os.pathsep.join(map(str, (REACH, tmp_path)))
    said = {**os.environ, "PYTHONPATH": places, "GENLABEL_REACHED": str(tmp_path / "marks")}
    code = (
        "import torch, genlabel; f = torch.compile(genlabel.double, fullgraph=True, backend='eager'); "
        "assert f(torch.ones(2)).tolist() == [2, 2]"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], env=said, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
