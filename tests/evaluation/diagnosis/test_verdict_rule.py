"""benchmarks/diagnosis_verdict.py: a planted rule is fitted on half of the datasets and is right on the others."""

import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "diagnosis_verdict.py"
pytestmark = pytest.mark.skipif(not SCRIPT.parent.exists(), reason="needs the source tree")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run the script as a module; return its namespace."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    return runpy.run_path(str(SCRIPT))


def planted_records(count: int = 60) -> list[dict[str, Any]]:
    """Return records: GenLabel helps where `odd` > 0.5, mixup never; the paired run shows it; some are not trusted."""
    rng, records = np.random.default_rng(0), []
    names = ["mixup labels over no mixing", "GenLabel labels over no mixing", "GenLabel labels over mixup labels"]
    for number in range(1, count + 1):
        odd = float(rng.random())
        helps = odd > 0.5
        gains = dict(zip(names, [0.0, *[0.1 if helps else -0.1] * 2], strict=True))
        errors = {f"{name}, in standard errors": 50.0 * gain for name, gain in gains.items()}
        records.append(
            {
                "id": number,
                "name": f"{'fri_c' if number % 3 else 'set'}{number}",
                "n": 100,
                "d": 5,
                "k": 2,
                "trusted": number % 10 != 0,
                "diagnosis seconds": 1.0,
                "seconds": 1.0,
                "signals": {"odd": odd, **gains, **errors},
                "gains": {
                    names[1]: {"mean": 0.1 if helps else -0.1, "error": 0.01},
                    names[0]: {"mean": -0.001, "error": 0.01},
                },
            }
        )
    return records


def lines_of(report: str, start: str) -> list[str]:
    return [line.strip() for line in report.splitlines() if line.strip().startswith(start)]


def test_planted_rule_beats_the_trivial_rule(script: dict[str, Any]) -> None:
    report = script["report"](planted_records())
    assert "60 datasets, 0 failed" in report
    assert "rules fitted on 30 datasets, tested on 24" in report
    threshold_lines = lines_of(report, "one threshold: odd above 0.")
    assert len(threshold_lines) == 1
    assert len(lines_of(report, "one threshold: none is better than the trivial rule")) == 1
    correct = int(threshold_lines[0].split("right on ")[1].split(" of ")[0])
    assert correct >= 22
    trivial = [line for line in lines_of(report, "always") if "(trivial)" in line]
    assert int(trivial[0].split("right on ")[1].split(" of ")[0]) <= 18
    (answered, _) = lines_of(report, "where it answers")
    assert "right on 54 of 54" in answered
    assert trivial[1].startswith("always no")
    assert "right on 24 of 24" in trivial[1]
    assert trivial[1].endswith("where the test rows are clear, on 0 of 0")


def test_failures_and_too_few_datasets_are_reported(script: dict[str, Any]) -> None:
    report = script["report"]([*planted_records(4), {"id": 7, "error": "ValueError: no"}])
    assert "4 datasets, 1 failed" in report
    assert "failed: 7: ValueError: no" in report
    assert "too few datasets to fit a rule" in report


def test_dataset_families_are_not_split(script: dict[str, Any]) -> None:
    records = planted_records(12)
    sides = script["_sides"](
        [{**record, "name": record["name"].replace("fri_c", "fri_c0_")} for record in records], True
    )
    assert len({sides[record["id"]] for record in records if record["name"].startswith("fri")}) == 1
    assert set(sides.values()) == {0, 1}


def test_page_equals_the_records(script: dict[str, Any]) -> None:
    root = SCRIPT.parents[1]
    report = script["report"](json.loads((root / "results" / "verdict.json").read_text())["sets"])
    page = (root / "docs" / "diagnosis.md").read_text().replace("**", "")
    cells = [line.split("|") for line in page.splitlines() if line.startswith("|")]
    table = {row[1].strip(): row[2:4] for row in cells}
    rows = {
        "the verdict, where it answers": "where it answers",
        "the trivial rule on the same sets": "there",
        "always the more frequent answer (the trivial rule)": "(trivial)",
        "the sign of the paired run, noise or not": "sign of the paired run",
        "one signal with one threshold": "one threshold",
        "logistic regression on all signals": "logistic regression",
    }
    for name, start in rows.items():
        lines = [line for line in report.splitlines() if start in line.split(" right on ")[0] and " right on " in line]
        for line, cell in zip(lines, reversed(table[name]), strict=True):
            assert line.split("right on ")[1].split(" (")[0] in cell, name
    assert "a diagnosis took 11 s (median)" in report
    counts = ("unclear 84", "negligible 23", "not trusted 19", "within 0.02 on 22 of 23")
    for count in counts:
        assert count in report
    assert "22 of 23" in page
