"""Schema of the benchmark's records, importable without torch."""

from __future__ import annotations

from dataclasses import replace

from genlabel.evaluation.records import COMPARISON

BENCHMARK = replace(
    COMPARISON,
    name="benchmark",
    command="genlabel benchmark",
    fields={"dataset": "int64", "method": "str", "split": "int64"},
    metrics=("accuracy", "log_loss", "brier", "calibration_error"),
    facts={"name": "str", "n": "int64", "d": "int64", "k": "int64", "warnings": "int64", "device": "str"},
)
"""Records of the benchmark: those of `genlabel compare`, with OpenML ids, dataset sizes and a count of warnings."""
