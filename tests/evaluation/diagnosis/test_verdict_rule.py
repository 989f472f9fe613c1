"""The command that measures verdicts: a planted rule is found on every second set and right on the others."""

import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "verdict.py"
pytestmark = pytest.mark.skipif(not SCRIPT.exists(), reason="needs the source tree")


def planted(count: int = 60) -> list[dict[str, Any]]:
    """Sets on which GenLabel helps where `odd` is above 0.5, mixup never; the paired run is noise; some not trusted."""
    rng, records = np.random.default_rng(0), []
    for number in range(1, count + 1):
        odd, noise = float(rng.random()), float(rng.normal())
        helps = odd > 0.5
        records.append(
            {
                "id": number,
                "name": f"{'fri_c' if number % 3 else 'set'}{number}",
                "n": 100,
                "d": 5,
                "k": 2,
                "verdict": "not trusted" if number % 10 == 0 else "GenLabel" if helps else "vanilla",
                "diagnosis seconds": 1.0,
                "seconds": 1.0,
                "signals": {"odd": odd, "GenLabel over vanilla": noise, "mixup over vanilla": noise},
                "gains": {
                    "GenLabel over vanilla": {"mean": 0.1 if helps else -0.1, "error": 0.01},
                    "mixup over vanilla": {"mean": -0.001, "error": 0.01},
                },
            }
        )
    return records


def lines_of(report: str, start: str) -> list[str]:
    return [line.strip() for line in report.splitlines() if line.strip().startswith(start)]


def test_a_planted_rule_is_right_on_new_datasets_and_the_trivial_one_is_not() -> None:
    space = runpy.run_path(str(SCRIPT))
    said = space["report"](planted())
    assert "60 datasets, 0 failed" in said
    assert "rules fitted on 30 datasets, asked on 24" in said
    found = lines_of(said, "one threshold: odd above 0.")
    assert len(found) == 1
    assert len(lines_of(said, "one threshold: none is better than the trivial rule")) == 1
    hits = int(found[0].split("right on ")[1].split(" of ")[0])
    assert hits >= 22
    trivial = [line for line in lines_of(said, "always") if "(trivial)" in line]
    assert int(trivial[0].split("right on ")[1].split(" of ")[0]) <= 18
    (spoken, _) = lines_of(said, "where it answers")
    assert "right on 54 of 54" in spoken
    assert trivial[1].startswith("always no")
    assert "right on 24 of 24" in trivial[1]
    assert trivial[1].endswith("where the test rows are clear, on 0 of 0")


def test_failures_are_counted_and_too_few_datasets_reported() -> None:
    space = runpy.run_path(str(SCRIPT))
    said = space["report"]([*planted(4), {"id": 7, "error": "ValueError: no"}])
    assert "4 datasets, 1 failed" in said
    assert "failed: 7: ValueError: no" in said
    assert "too few datasets to fit a rule" in said


def test_families_are_on_one_side() -> None:
    space = runpy.run_path(str(SCRIPT))
    records = planted(12)
    sides = space["_sides"]([{**one, "name": one["name"].replace("fri_c", "fri_c0_")} for one in records], True)
    assert len({sides[one["id"]] for one in records if one["name"].startswith("fri")}) == 1
    assert set(sides.values()) == {0, 1}


def test_the_page_says_what_the_records_say() -> None:
    root = SCRIPT.parents[1]
    space = runpy.run_path(str(SCRIPT))
    said = space["report"](json.loads((root / "results" / "verdict.json").read_text())["sets"])
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
        lines = [line for line in said.splitlines() if start in line.split(" right on ")[0] and " right on " in line]
        for line, cell in zip(lines, reversed(table[name]), strict=True):
            assert line.split("right on ")[1].split(" (")[0] in cell, name
    assert "a diagnosis took 11 s (median)" in said
    for told in ("no difference 104", "not trusted 29"):
        assert told in said
