"""The benchmarks have a front door. Blocks of the pages: test_blocks.py; the map of the paper: test_paper_map.py."""

import runpy
import sys
from pathlib import Path

import pytest
import sklearn.datasets  # noqa: F401  numpy, which it imports, is loaded once in a process
import torch  # noqa: F401

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="needs the source tree")


@pytest.mark.parametrize(
    ("word", "code", "told"),
    [("--help", 0, "which of search, kernel, labels, default, two_circle"),
     ("speed", 2, "unknown benchmark 'speed'; choose among search")],
)  # fmt: skip
def test_the_benchmarks_say_what_there_is(
    word: str, code: int, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", word])
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "benchmarks" / "run.py"), run_name="__main__")
    assert ended.value.code == code
    assert told in " ".join("".join(capsys.readouterr()).split())
