"""Measure a run on a Dask cluster: trials per second, overhead per trial, and memory over time.

    python benchmarks/dask_load.py --json build/load.json
    python benchmarks/dask_load.py --cells 200 --soak 1000 --workers 2

A scheduler and workers of one thread each are started on this machine, as docs/reproduction.md describes. The same
trials, fits of a small network to 60 rows, are done in one process and on the cluster, into stores of their own; then
trials that do nothing, whose time is all overhead; then, as a soak test, many more fits. CPU seconds are those of all
processes together. Memory is the resident size of each process, read every second; its slope is that of a line through
the last three quarters of the soak test, in MB for 1,000 trials. "parcel bytes" are sent for a trial. The measurements
are written after each part, so that an interrupted run leaves a result.
"""

import json
import os
import platform
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from time import perf_counter, sleep
from typing import Any

import numpy as np
import psutil
from common import make_parser

from genlabel._atomic_io import atomic_write
from genlabel.evaluation.records import Record, RecordStore, open_store, run_trials
from genlabel.evaluation.records.run import _make_packer
from genlabel.evaluation.records.schema import COMPARISON, Fit

MEGA = 1e6
MAX_SAMPLES = 60
"""Samples of the memory of each process that are written."""
MIN_SAMPLES = 8
"""Samples that a slope of the memory needs."""
ROUND = 1000
"""Trials of the soak test between two results."""
PROFILER = {"DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False"}
"""Setting of a worker, whose profiler fills memory for an hour; the environment may set it to True."""

Processes = dict[str, psutil.Process]
Samples = list[dict[str, float]]
Result = dict[str, Any]


def fit_network(keys: Sequence[Fit]) -> list[Record]:
    """Fit a small network with mixup, and measure it; the split is the seed of the rows."""
    from genlabel import MixupClassifier

    key = keys[0]
    rng, y = np.random.default_rng(key.split), np.arange(120) % 3
    X = rng.normal(size=(120, 4)) + y[:, None]
    settings = {
        "calibrate": False,
        "clean_fraction": 0.0,
        "training__learning_rate": 0.1,
        "search__ensemble": 1,
        "training__weight_decay": 1e-4,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MixupClassifier((4,), random_state=0).set_params(training__epochs=5, **settings).fit(X[:60], y[:60])
    return [_record(key, accuracy=float(np.mean(model.predict(X[60:]) == y[60:])))]


def do_nothing(keys: Sequence[Fit]) -> list[Record]:
    return [_record(key, accuracy=0.0) for key in keys]


def _record(key: Fit, **metrics: float) -> Record:
    return {"key": key, "parameters": {}, "metrics": metrics, "seconds": 0.0, "versions": {}}


Work = Callable[[Sequence[Fit]], list[Record]]


def make_keys(count: int) -> list[Fit]:
    return [Fit("points", "mixup", split) for split in range(count)]


# The cluster


@contextmanager
def cluster(workers: int, folder: Path) -> Iterator[tuple[str, Processes]]:
    """Start a scheduler and workers in processes of their own; give the address, and the processes by name."""
    file = folder / "scheduler.json"
    scheduler = ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    with _started(scheduler) as first:
        while not (file.exists() and file.read_text().endswith("}")):
            sleep(0.1)
        address = str(json.loads(file.read_text())["address"])
        worker = ["worker", address, "--nthreads", "1", "--nworkers", str(workers), "--no-dashboard"]
        with _started([*worker, "--local-directory", str(folder)]) as nanny:
            _wait_for(address, workers)
            yield address, _processes(first, nanny)


@contextmanager
def _started(words: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    settings = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", **PROFILER}
    command = [sys.executable, "-m", f"distributed.cli.dask_{words[0]}", *words[1:]]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, env=settings | os.environ) as process:
        try:
            yield process
        finally:
            process.terminate()


def _wait_for(address: str, workers: int) -> None:
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(workers, timeout=120)


def _processes(scheduler: Any, nanny: Any) -> Processes:
    """Return the processes to measure by name; the workers are the children of the nanny with several threads."""
    children = psutil.Process(nanny.pid).children(recursive=True)
    workers = sorted((child for child in children if child.num_threads() > 2), key=lambda child: child.pid)
    named = {"client": psutil.Process(), "scheduler": psutil.Process(scheduler.pid), "nanny": psutil.Process(nanny.pid)}
    return named | {f"worker {index + 1}": child for index, child in enumerate(workers)}


# Measuring


@contextmanager
def sample_memory(processes: Processes, store: RecordStore) -> Iterator[Samples]:
    """Sample the memory of processes every second, with the number of trials done."""
    samples: Samples = []
    ended = Event()

    def sample() -> None:
        while not ended.wait(1.0):
            sizes = {name: process.memory_info().rss / MEGA for name, process in processes.items()}
            samples.append({"cells": float(len(store.done)), **sizes})

    thread = Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        ended.set()
        thread.join()


def sweep(work: Work, count: int, folder: Path, processes: Processes, **where: Any) -> tuple[Result, Samples]:
    """Run trials; return their costs, and the samples of memory."""
    with ExitStack() as stack:
        store = stack.enter_context(open_store(folder / "run.sqlite", COMPARISON, restart=True))
        samples = stack.enter_context(sample_memory(processes, store))
        before, begin = _cpu_seconds(processes), perf_counter()
        run_trials(make_keys(count), work, store=store, fingerprint=lambda key: "load", **where)
        seconds, used = perf_counter() - begin, _cpu_seconds(processes)
        saved = store.read()
    assert (len(saved.frame), len(saved.failures)) == (count, 0), saved.failures
    print(f"{work.__name__}, {', '.join(where) or 'one process'}: {count} cells in {seconds:.1f} s", flush=True)
    spent = {name: used[name] - before[name] for name in used}
    overhead = spent["client"] + spent.get("scheduler", 0.0) + spent.get("nanny", 0.0)
    result = {
        "cells": count,
        "cells a second": round(count / seconds, 1),
        "ms a cell": round(1e3 * seconds / count, 2),
        "cpu ms a cell": round(1e3 * sum(spent.values()) / count, 2),
        "cpu ms a cell, not of workers": round(1e3 * overhead / count, 2),
        "accuracy": round(float(saved.frame["accuracy"].mean()), 8),
    }
    return result, samples


def _cpu_seconds(processes: Processes) -> dict[str, float]:
    return {name: sum(process.cpu_times()[:2]) for name, process in processes.items()}


def slopes(samples: Samples) -> dict[str, dict[str, float]]:
    """Return for each process the first, last and largest MB of the last three quarters, and MB for 1,000 trials."""
    saved = samples[len(samples) // 4 :]
    done = np.array([sample["cells"] for sample in saved]) / 1e3
    result = {}
    for name in [name for name in saved[0] if name != "cells"]:
        sizes = np.array([sample[name] for sample in saved])
        result[name] = {
            "from": round(sizes[0], 1),
            "to": round(sizes[-1], 1),
            "most": round(sizes.max(), 1),
            "for 1,000 cells": round(float(np.polyfit(done, sizes, 1)[0]), 3),
        }
    return result


def measure(cells: int, soak: int, workers: int) -> Iterator[dict[str, Any]]:
    """Yield the measurements so far, after each part and each round of the soak test."""
    alone, result = {"client": psutil.Process()}, _about(workers)
    with TemporaryDirectory(prefix="genlabel-") as index, cluster(workers, Path(index)) as (address, processes):
        folder, there = Path(index), {"dask": address}
        for name, work in {"fits": fit_network, "nothing": do_nothing}.items():
            sweep(work, 8 * workers, folder, processes, **there)  # every worker has imported its libraries
            sweep(work, 2, folder, alone)
            result[name] = {"cluster": sweep(work, cells, folder, processes, **there)[0]}
            result[name] |= {"one process": sweep(work, cells, folder, alone)[0]}
            yield result
        assert result["fits"]["one process"]["accuracy"] == result["fits"]["cluster"]["accuracy"]
        samples: Samples = []
        for done in range(0, soak, ROUND):
            more = sweep(fit_network, min(ROUND, soak - done), folder, processes, **there)[1]
            samples += [sample | {"cells": sample["cells"] + done} for sample in more]
            yield result | {"soak": {"cells": min(done + ROUND, soak), **summarize(samples)}}


def _about(workers: int) -> Result:
    import cloudpickle
    import distributed

    from genlabel.evaluation.records.run import software_versions

    versions = software_versions() | {"distributed": distributed.__version__}
    function, *content = _make_packer(fit_network)(make_keys(1))
    size = len(cloudpickle.dumps(function)) + sum(map(len, content))
    about = {"processors": os.cpu_count(), "machine": platform.machine(), "load before": round(os.getloadavg()[0], 1)}
    return {**about, "workers": workers, "versions": versions, "parcel bytes": size}


def summarize(samples: Samples) -> dict[str, Any]:
    """Return the slopes, and a few of the samples."""
    selected = samples[:: max(1, len(samples) // MAX_SAMPLES)]
    plain = [{name: round(value, 1) for name, value in sample.items()} for sample in selected]
    return {"memory": slopes(samples) if len(samples) >= MIN_SAMPLES else {}, "samples": plain}


def report(result: dict[str, Any]) -> str:
    lines = [f"{result['workers']} workers on {result['processors']} processors"]
    for part in [part for part in ("fits", "nothing") if part in result]:
        for where, values in result[part].items():
            rate = f"{values['cells a second']} cells/s, {values['cpu ms a cell']} ms of processors a cell"
            beside = f" ({values['cpu ms a cell, not of workers']} not of workers)" if where == "cluster" else ""
            lines.append(f"{part}, {where}: {values['cells']} cells, {rate}{beside}")
        alone, together = (result[part][where]["cpu ms a cell"] for where in ("one process", "cluster"))
        lines.append(f"{part}: the cluster costs {together - alone:.2f} ms of processors a cell")
    soak = result.get("soak", {"cells": 0, "memory": {}})
    lines.append(f"soak: {soak['cells']} cells; MB:")
    for name, values in soak["memory"].items():
        lines.append(f"  {name}: {values['from']} to {values['to']}, {values['for 1,000 cells']:+.3f} for 1,000 cells")
    return "\n".join(lines)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--cells", type=int, default=2000, help="trials of each sweep")
    parser.add_argument("--soak", type=int, default=10_000, help="trials of the soak test")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--json", type=Path, help="also write the measurements to this file")
    parser.add_argument("--report", type=Path, help="measure nothing, print such a file")
    args = parser.parse_args()
    if args.report:
        print(report(json.loads(args.report.read_text())))
        return
    for result in measure(args.cells, args.soak, args.workers):
        print(report(result), flush=True)
        if args.json:
            atomic_write(args.json, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
