"""The page on tables: its block runs, and does what the page says."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"


@pytest.mark.skipif(not PAGE.exists(), reason="needs the source tree")
def test_the_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.S)
    space: dict[str, Any] = {}
    exec(block, space)
    assert space["table"].X.columns.tolist() == ["price"]
    assert any("left out column 'order'" in note for note in space["table"].notes)
