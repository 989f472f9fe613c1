"""What the page on the report shows must run."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "report.md"


@pytest.mark.skipif(not PAGE.exists(), reason="needs the source tree")
def test_the_block_writes_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S)
    exec(block, {})
    assert "the program that made it" in (tmp_path / "iris.html").read_text(encoding="utf-8")
    assert (PAGE.parent / "images" / "report.png").stat().st_size < 150_000
