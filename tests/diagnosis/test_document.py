"""The page on diagnosis: its blocks run one after the other, and say what the page says."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "diagnosis.md"


@pytest.mark.skipif(not PAGE.exists(), reason="needs the source tree")
def test_the_blocks_run_and_the_verdict_is_the_one_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from genlabel.diagnosis.verdict import WORDS

    text = PAGE.read_text()
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.S):
        exec(block, space)
    said = re.search(r'verdict\.word  # "(.*)"', text)
    assert said is not None
    assert space["diagnosis"].verdict.word == said[1]
    assert space["diagnosis"].verdict.sentence in capsys.readouterr().out
    assert (tmp_path / "diagnosis.png").stat().st_size > 20_000
    worst = space["diagnosis"].to_frame("blends", 5)
    assert set(worst["class_1"]) == {"setosa"}
    assert set(worst["class_2"]) == {"virginica"}
    assert all(label.startswith("versicolor") for label in worst["model_label"])
    assert set(re.findall(r"^\| `([\w ]+)` \|", text, flags=re.M)) == set(WORDS)
