"""Measure a run on a Dask cluster: cells per second, overhead per cell, and memory over time.

    python benchmarks/load.py --json build/load.json
    python benchmarks/load.py --cells 200 --soak 1000 --workers 2

A scheduler and workers of one thread each are started on this machine, as docs/reproduction.md says. The same cells,
fits of a small network to 60 rows, are done in one process and on the cluster, into stores of their own; then cells
that do nothing, whose seconds are all overhead; then, as a soak, many fits more. CPU seconds are those of all
processes together. Memory is the resident size of each process, looked at every second; its slope is that of a line
through the last three quarters of the soak, in MB for 1,000 cells. "parcel bytes" are sent for a cell. What was
measured is written after each part, so that a run that is stopped has told something.
"""

import argparse
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

from genlabel._atomic_io import atomic_write
from genlabel.evaluation.records import COMPARISON, Fit, Record, RecordStore, open_store, run_trials
from genlabel.evaluation.records.run import _make_packer

MEGA = 1e6
MOST_SAMPLES = 60
"""Of each process, that are kept."""
FEWEST = 8
"""Samples that say something of the memory."""
ROUND = 1000
"""Cells of a soak after which what was measured is written."""
PROFILER = {"DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False"}
"""Of a worker, which keeps what it has seen of the last hour: the environment may say True."""

Processes = dict[str, psutil.Process]
Samples = list[dict[str, float]]
Told = dict[str, Any]


def fit_network(cells: Sequence[Fit]) -> list[Record]:
    """Fit a small network with mixup, and measure it; the split is the seed of the rows."""
    from genlabel import MixupClassifier

    cell = cells[0]
    rng, y = np.random.default_rng(cell.split), np.arange(120) % 3
    X = rng.normal(size=(120, 4)) + y[:, None]
    once = {
        "calibrate": False,
        "clean_fraction": 0.0,
        "training__learning_rate": 0.1,
        "search__ensemble": 1,
        "training__weight_decay": 1e-4,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MixupClassifier((4,), random_state=0).set_params(training__epochs=5, **once).fit(X[:60], y[:60])
    return [_record(cell, accuracy=float(np.mean(model.predict(X[60:]) == y[60:])))]


def do_nothing(cells: Sequence[Fit]) -> list[Record]:
    return [_record(cell, accuracy=0.0) for cell in cells]


def _record(cell: Fit, **metrics: float) -> Record:
    return {"key": cell, "parameters": {}, "metrics": metrics, "seconds": 0.0, "versions": {}}


Work = Callable[[Sequence[Fit]], list[Record]]


def cells_of(count: int) -> list[Fit]:
    return [Fit("points", "mixup", split) for split in range(count)]


# The cluster


@contextmanager
def cluster(workers: int, folder: Path) -> Iterator[tuple[str, Processes]]:
    """A scheduler and its workers in processes of their own: the address, and the processes by name."""
    told = folder / "scheduler.json"
    scheduler = ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(told)]
    with _started(scheduler) as first:
        while not (told.exists() and told.read_text().endswith("}")):
            sleep(0.1)
        address = str(json.loads(told.read_text())["address"])
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
    """Those that are looked at; of the children of the nanny, the workers are those of much memory."""
    children = psutil.Process(nanny.pid).children(recursive=True)
    serious = sorted((one for one in children if one.num_threads() > 2), key=lambda one: one.pid)
    named = {"client": psutil.Process(), "scheduler": psutil.Process(scheduler.pid), "nanny": psutil.Process(nanny.pid)}
    return named | {f"worker {index + 1}": one for index, one in enumerate(serious)}


# Measuring


@contextmanager
def watched(processes: Processes, store: RecordStore) -> Iterator[Samples]:
    """Look at the memory of processes every second; each look says how many cells had been done."""
    samples: Samples = []
    ended = Event()

    def look() -> None:
        while not ended.wait(1.0):
            sizes = {name: one.memory_info().rss / MEGA for name, one in processes.items()}
            samples.append({"cells": float(len(store.done)), **sizes})

    watcher = Thread(target=look)
    watcher.start()
    try:
        yield samples
    finally:
        ended.set()
        watcher.join()


def sweep(work: Work, count: int, folder: Path, processes: Processes, **where: Any) -> tuple[Told, Samples]:
    """Do cells, and say what that took, and what memory was seen."""
    with ExitStack() as stack:
        store = stack.enter_context(open_store(folder / "run.sqlite", COMPARISON, restart=True))
        samples = stack.enter_context(watched(processes, store))
        before, begin = _processor(processes), perf_counter()
        run_trials(cells_of(count), work, store=store, fingerprint=lambda cell: "load", **where)
        seconds, used = perf_counter() - begin, _processor(processes)
        saved = store.read()
    assert (len(saved.frame), len(saved.failures)) == (count, 0), saved.failures
    print(f"{work.__name__}, {', '.join(where) or 'one process'}: {count} cells in {seconds:.1f} s", flush=True)
    spent = {name: used[name] - before[name] for name in used}
    ours = spent["client"] + spent.get("scheduler", 0.0) + spent.get("nanny", 0.0)
    told = {
        "cells": count,
        "cells a second": round(count / seconds, 1),
        "ms a cell": round(1e3 * seconds / count, 2),
        "cpu ms a cell": round(1e3 * sum(spent.values()) / count, 2),
        "cpu ms a cell, not of workers": round(1e3 * ours / count, 2),
        "accuracy": round(float(saved.frame["accuracy"].mean()), 8),
    }
    return told, samples


def _processor(processes: Processes) -> dict[str, float]:
    return {name: sum(one.cpu_times()[:2]) for name, one in processes.items()}


def slopes(samples: Samples) -> dict[str, dict[str, float]]:
    """Of each process: MB at the begin and the end of the last three quarters, the most, and MB for 1,000 cells."""
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
    """Give what was measured so far, after each part; the soak goes in rounds."""
    alone, result = {"client": psutil.Process()}, _about(workers)
    with TemporaryDirectory(prefix="genlabel-") as index, cluster(workers, Path(index)) as (address, processes):
        folder, there = Path(index), {"dask": address}
        for name, work in {"fits": fit_network, "nothing": do_nothing}.items():
            sweep(work, 8 * workers, folder, processes, **there)  # every worker has imported what it needs
            sweep(work, 2, folder, alone)
            result[name] = {"cluster": sweep(work, cells, folder, processes, **there)[0]}
            result[name] |= {"one process": sweep(work, cells, folder, alone)[0]}
            yield result
        assert result["fits"]["one process"]["accuracy"] == result["fits"]["cluster"]["accuracy"]
        samples: Samples = []
        for done in range(0, soak, ROUND):
            more = sweep(fit_network, min(ROUND, soak - done), folder, processes, **there)[1]
            samples += [sample | {"cells": sample["cells"] + done} for sample in more]
            yield result | {"soak": {"cells": min(done + ROUND, soak), **remembered(samples)}}


def _about(workers: int) -> Told:
    import cloudpickle
    import distributed

    from genlabel.evaluation.records import software_versions

    versions = software_versions() | {"distributed": distributed.__version__}
    function, *content = _make_packer(fit_network)(cells_of(1))
    size = len(cloudpickle.dumps(function)) + sum(map(len, content))
    about = {"processors": os.cpu_count(), "machine": platform.machine(), "load before": round(os.getloadavg()[0], 1)}
    return {**about, "workers": workers, "versions": versions, "parcel bytes": size}


def remembered(samples: Samples) -> dict[str, Any]:
    """The slopes, and a few of the samples."""
    few = samples[:: max(1, len(samples) // MOST_SAMPLES)]
    plain = [{name: round(value, 1) for name, value in sample.items()} for sample in few]
    return {"memory": slopes(samples) if len(samples) >= FEWEST else {}, "samples": plain}


def report(result: dict[str, Any]) -> str:
    lines = [f"{result['workers']} workers on {result['processors']} processors"]
    for part in [part for part in ("fits", "nothing") if part in result]:
        for where, told in result[part].items():
            rate = f"{told['cells a second']} cells/s, {told['cpu ms a cell']} ms of processors a cell"
            beside = f" ({told['cpu ms a cell, not of workers']} not of workers)" if where == "cluster" else ""
            lines.append(f"{part}, {where}: {told['cells']} cells, {rate}{beside}")
        one, many = (result[part][where]["cpu ms a cell"] for where in ("one process", "cluster"))
        lines.append(f"{part}: the cluster costs {many - one:.2f} ms of processors a cell")
    soak = result.get("soak", {"cells": 0, "memory": {}})
    lines.append(f"soak: {soak['cells']} cells; MB:")
    for name, told in soak["memory"].items():
        lines.append(f"  {name}: {told['from']} to {told['to']}, {told['for 1,000 cells']:+.3f} for 1,000 cells")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=int, default=2000, help="of each sweep")
    parser.add_argument("--soak", type=int, default=10_000, help="cells of the soak")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--json", type=Path, help="also write what was measured to this file")
    parser.add_argument("--report", type=Path, help="only print what is in such a file")
    given = parser.parse_args()
    if given.report:
        print(report(json.loads(given.report.read_text())))
        return
    for result in measure(given.cells, given.soak, given.workers):
        print(report(result), flush=True)
        if given.json:
            atomic_write(given.json, json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
