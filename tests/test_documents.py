"""Command line of the benchmarks."""

import runpy
import sys
from pathlib import Path

import pytest
import sklearn.datasets  # noqa: F401  numpy, which it imports, can be loaded only once in a process
import torch  # noqa: F401

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="needs the source tree")


@pytest.mark.parametrize(
    ("argument", "code", "keyword"),
    [("--help", 0, "two_circle"),
     ("speed", 2, "'speed'")],
)  # fmt: skip
def test_benchmarks_list_their_names(
    argument: str, code: int, keyword: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", argument])
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    with pytest.raises(SystemExit) as exit_info:
        runpy.run_path(str(ROOT / "benchmarks" / "run.py"), run_name="__main__")
    assert exit_info.value.code == code
    assert keyword in " ".join("".join(capsys.readouterr()).split())
