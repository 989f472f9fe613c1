"""Helpers of several benchmarks: timing, generated tables, processes of their own, OpenML ids and files of records."""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from statistics import median
from time import perf_counter
from typing import Any

from sklearn.datasets import make_classification

BYTES_PER_UNIT = 1 if sys.platform == "darwin" else 1024
"""Unit in which the system states the peak memory of a process."""


def seconds(call: Callable[[], object]) -> float:
    """Return the wall-clock time of one call."""
    start = perf_counter()
    call()
    return perf_counter() - start


def alternate(first: Callable[[], object], second: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Return the median seconds of two calls, run in turn after one warm-up each: a busy machine slows down both."""
    first(), second()
    pairs = [(seconds(first), seconds(second)) for _ in range(repeats)]
    return median(a for a, _ in pairs), median(b for _, b in pairs)


def make_table(size: str) -> tuple[Any, Any]:
    """Return generated rows and classes of a size such as "1000x10x3": rows x columns x classes."""
    n, d, k = (int(number) for number in size.split("x"))
    return make_classification(
        n,
        d,
        n_informative=max(2, min(d // 2, 10)),
        n_redundant=0,
        n_classes=k,
        n_clusters_per_class=1 if k > 8 or d < 6 else 2,
        random_state=0,
    )


def peak_megabytes() -> float:
    """Return the peak memory of this process so far."""
    return getrusage(RUSAGE_SELF).ru_maxrss * BYTES_PER_UNIT / 1e6


def run_in_process(script: str, *arguments: str, limit: float | None = None) -> dict[str, Any]:
    """Run a script with `--one` on one thread, and return the JSON of its last line, or its "failure"."""
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [sys.executable, script, "--one", *arguments]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=os.environ | threads, check=False, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return {"failure": f"longer than {limit:g} s"}
    if done.returncode:
        return {"failure": (done.stderr.strip().splitlines() or ["no message"])[-1][:200]}
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help shows the docstring of a benchmark as it is written."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def add_data_home(parser: argparse.ArgumentParser) -> None:
    """Add the option for the folder of the OpenML datasets."""
    parser.add_argument("--data-home", type=Path, help="folder of the manifest; default: GENLABEL_DATA_HOME")


def dataset_ids(data_home: Path | None, *, max_features: int, min_rows: int, max_rows: int) -> list[int]:
    """Return the ids of the datasets of the manifest within limits; end the program if there is no manifest."""
    from genlabel.data.datasets.catalog import openml_manifest
    from genlabel_paper.benchmark.command import manifest_ids

    manifest = openml_manifest(data_home)
    if manifest is None:
        raise SystemExit("there is no manifest.csv; name its folder with --data-home or GENLABEL_DATA_HOME")
    return manifest_ids(manifest, max_features, min_rows=min_rows, max_rows=max_rows)


def read_records(path: Path | None, settings: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the records of a file, none if there is none; end the program if they have other settings."""
    if path is None or not path.exists():
        return []
    document = json.loads(path.read_text())
    if {name: document.get(name) for name in settings} != dict(settings):
        raise SystemExit(f"{path} holds records with other settings than {dict(settings)}; name another file")
    records: list[dict[str, Any]] = document["sets"]
    return records


def write_records(path: Path | None, settings: Mapping[str, Any], records: Iterable[Mapping[str, Any]]) -> None:
    """Write settings and records, each record in a line; without a path do nothing."""
    if path is not None:
        lines = ",\n".join(json.dumps(record) for record in records)
        path.write_text(f'{{{json.dumps(settings)[1:-1]}, "sets": [\n{lines}\n]}}\n')
