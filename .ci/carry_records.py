"""Carry committed records over to a tree that computes other fingerprints for the same settings.

    python .ci/carry_records.py list OLD.json             # in the old tree, with its environment
    python .ci/carry_records.py list NEW.json             # in the new tree
    python .ci/carry_records.py carry OLD.json NEW.json   # in the new tree: rewrites fingerprints in results/

`list` writes the fingerprint of every setting that has records, under a key that both trees share. `carry` replaces a
fingerprint of OLD.json by that of NEW.json for the same key; a record that was stale in the old tree keeps its own. It
raises if the new tree would merge two settings of the old one. It was run once, for version 0.3.0:
fingerprints of version 0.2.0 (97806aa) covered the names of classes and parameters.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

RESULTS = Path("results")
KEYS = ("setting", "dataset", "method", "alpha")
BASELINES = ("catboost", "lightgbm", "forest", "xgboost", "tabm", "realmlp", "tabm-log-loss", "realmlp-log-loss")
OLD_METHODS = {"label model": "stacked density"}


def list_fingerprints() -> dict[str, str]:
    """Return the fingerprint of each setting that has records."""
    try:
        from genlabel.evaluation.records import load_records
        from genlabel_paper.runs.cells import PAPER_SCHEMA, Cell
        from genlabel_paper.runs.trials import fingerprint_cell
    except ImportError:  # version 0.2.0
        from genlabel.records import load_records
        from genlabel_paper.study.cells import STUDY as PAPER_SCHEMA
        from genlabel_paper.study.cells import Cell
        from genlabel_paper.study.trials import (
            fingerprint_cell,
        )
    records = load_records(RESULTS / "paper", PAPER_SCHEMA).frame
    cells = records[list(PAPER_SCHEMA.fields)].drop_duplicates(list(KEYS))
    rows = cells.to_dict("records")
    fingerprints = {"|".join(str(row[key]) for key in KEYS): fingerprint_cell(Cell(**row)) for row in rows}
    return fingerprints | {f"benchmark|{name}": make() for name, make in _benchmark().items()}


def _benchmark() -> dict[str, Any]:
    """Return a function for each method of the benchmark that computes its fingerprint."""
    try:
        from genlabel.data.datasets import load_openml
        from genlabel.evaluation.runner import FitRunner
        from genlabel_paper.benchmark import BaselineClassifier, default_methods
        from genlabel_paper.benchmark.run import describe_table
    except ImportError:
        from genlabel.bench import Bench as FitRunner
        from genlabel.datasets import load_openml
        from genlabel.suite import (
            PeerClassifier as BaselineClassifier,
        )
        from genlabel.suite import (
            default_suite as default_methods,
        )
        from genlabel.suite.run import (
            describe_set as describe_table,
        )
    methods = default_methods("mlp", "auto") | {name: BaselineClassifier(name) for name in BASELINES}
    runner = FitRunner(methods, 1, 0.3, 0, load_openml, describe_table)
    return {OLD_METHODS.get(name, name): lambda name=name: runner.fingerprint(name) for name in methods}


def carry(old: dict[str, str], new: dict[str, str]) -> dict[str, str]:
    """Return the new fingerprint of each old one; raise if settings would be merged or split."""
    pairs = {(old[key], new[key]) for key in old.keys() & new.keys()}
    result = dict(pairs)
    if len(result) != len(pairs) or len(set(result.values())) != len(pairs):
        raise ValueError("the two trees do not distinguish the same settings")
    return result


def main() -> None:
    """Run one of the two commands."""
    command, *paths = sys.argv[1:]
    warnings.simplefilter("ignore")
    if command == "list":
        Path(paths[0]).write_text(json.dumps(list_fingerprints(), indent=1))
        return
    table = carry(*(json.loads(Path(path).read_text()) for path in paths))
    for path in sorted([*RESULTS.glob("benchmark*.json"), *RESULTS.glob("paper/*.json")]):
        text = path.read_text()
        before, after = text.split('"fingerprints": [', 1)
        listed, after = after.split("]", 1)
        names = json.loads(f"[{listed}]")
        carried = json.dumps([table.get(name, name) for name in names], separators=(",", ":"))
        path.write_text(f'{before}"fingerprints": {carried}{after}')
        print(f"{path}: {sum(n in table for n in names)} of {len(names)} fingerprints replaced")


if __name__ == "__main__":
    main()
