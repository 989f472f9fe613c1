"""Runner of trials: kills lose and repeat no trial, failures are isolated, clusters give the same results."""

import contextlib
import importlib.util
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

import genlabel_paper
from genlabel._progress import LambdaCallback, RunPlan, TrialResult
from genlabel.evaluation.records import Record, RecordStore, open_store
from genlabel.evaluation.records import run as run_module
from genlabel.evaluation.records.run import check_dask_scheduler
from genlabel_paper.exports import load_records
from genlabel_paper.runs.cells import PAPER_SCHEMA, Cell, TrialKey, make_cells

SOURCES = Path(genlabel_paper.__file__).parents[1]
CELLS = make_cells("logistic", list("123456"), ["vanilla", "decay"], "quick")
SEEDS = make_cells("logistic", ["1"], ["vanilla", "decay"], "full")[:12]
"""Two cells for each of five seeds, and for the first seed of another split."""
needs_kill = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
needs_dask = pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="needs distributed")

WORK = '''
"""Train a linear network with torch; log a line for each call."""
import os, sys, time
import torch
from genlabel.evaluation.records import open_store, run_trials
from genlabel_paper.runs.cells import PAPER_SCHEMA, make_cells

def draw(cell):
    """Return three classes of 60 rows; the name of the dataset is the distance of their means."""
    y = torch.arange(3).repeat(60)
    means = float(cell.dataset) * torch.eye(3, 8)
    return torch.randn(180, 8, generator=torch.Generator().manual_seed(cell.split)) + means[y], y

def train(cell):
    X, y = draw(cell)
    weight = torch.randn(8, 3, generator=torch.Generator().manual_seed(cell.seed), requires_grad=True)
    for _ in range(20):
        loss = torch.nn.functional.cross_entropy(X[:90] @ weight, y[:90])
        loss = loss + 0.01 * (weight**2).sum() * (cell.method == "decay")
        weight = (weight - 0.5 * torch.autograd.grad(loss, weight)[0]).detach().requires_grad_()
    scores = X[90:] @ weight
    hit = (scores.argmax(1) == y[90:]).double().mean().item()
    return {"accuracy": hit, "log_loss": torch.nn.functional.cross_entropy(scores, y[90:]).item()}

def work(cells, log=None, pause=0.0):
    begin = time.perf_counter()
    time.sleep(pause)
    metrics = [train(cell) for cell in cells]
    if log is not None:
        with open(log, "a") as file:
            file.write("".join(f"{os.getpid()} {cell.id}\\n" for cell in cells))
    seconds = (time.perf_counter() - begin) / len(cells)
    return [
        {"key": cell, "parameters": {"threads": torch.get_num_threads()}, "metrics": scores, "seconds": seconds,
         "versions": {"torch": torch.__version__}}
        for cell, scores in zip(cells, metrics)
    ]

if __name__ == "__main__":
    cells = make_cells("logistic", list("123456"), ["vanilla", "decay"], "quick")
    with open_store(sys.argv[1], PAPER_SCHEMA) as store:
        slow_work = lambda cells: work(cells, pause=0.1)
        run_trials(cells, slow_work, store=store, fingerprint=lambda cell: "today", n_jobs=int(sys.argv[2]))
'''


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("script") / "work.py"
    path.write_text(WORK)
    return path


@pytest.fixture(scope="module")
def work(script: Path) -> Callable[..., list[Record]]:
    """Return the work of a module that workers cannot import: it is sent to them by value."""
    spec = importlib.util.spec_from_file_location("work", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    result: Callable[..., list[Record]] = module.work
    return result


run_trials = partial(run_module.run_trials, fingerprint=lambda cell: "today")


def comparable(path: Path) -> pd.DataFrame:
    return load_records(path, PAPER_SCHEMA).frame.drop(columns="seconds")


@pytest.fixture(scope="module")
def expected_frame(work: Callable[..., list[Record]], tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    path = tmp_path_factory.mktemp("undisturbed") / "study.sqlite"
    with open_store(path, PAPER_SCHEMA) as store:
        run_trials(CELLS, work, store=store)
    frame = comparable(path)
    assert len(frame) == len(CELLS) == 24
    assert frame["accuracy"].nunique() > 5
    return frame


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RecordStore]:
    with open_store(tmp_path / "study.sqlite", PAPER_SCHEMA) as opened:
        yield opened


def record_calls(cells: Sequence[Cell], calls: list[list[str]]) -> list[Record]:
    """Return empty records; append the ids of the cells to `calls`."""
    calls.append([cell.id for cell in cells])
    return [Record(key=cell, parameters={}, metrics={}, seconds=0.0, versions={}) for cell in cells]


# Processes


def test_trials_run_with_one_thread(expected_frame: pd.DataFrame) -> None:
    assert [parameters["threads"] for parameters in expected_frame["parameters"]] == [1] * 24
    assert set(expected_frame["id"]) == {cell.id for cell in CELLS}


def test_number_of_threads_is_restored(store: RecordStore) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        run_trials(CELLS, partial(record_calls, calls=[]), store=store)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_two_processes_give_the_results_of_one(
    work: Callable[..., list[Record]], expected_frame: pd.DataFrame, store: RecordStore, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    run_trials(CELLS, partial(work, log=str(log), pause=0.05), store=store, n_jobs=2)
    pd.testing.assert_frame_equal(comparable(store.path), expected_frame)
    workers = {int(line.split()[0]) for line in log.read_text().splitlines()}
    assert len(workers) == 2
    assert os.getpid() not in workers


def test_only_missing_trials_are_run(store: RecordStore) -> None:
    calls: list[list[str]] = []
    starts: list[RunPlan] = []
    outcomes: list[TrialResult] = []

    def run_again(cells: Sequence[Cell], order: Callable[[TrialKey], Any] | None = None) -> None:
        work = partial(record_calls, calls=calls)
        recorder = LambdaCallback(on_run_start=starts.append, on_trial_end=outcomes.append)
        run_trials(cells, work, store=store, order=order, callback=recorder)

    vanilla = [cell for cell in SEEDS if cell.method == "vanilla"]
    run_again(vanilla[:3])
    run_again(SEEDS + SEEDS[:2], order=lambda trial: (trial.split, trial.seed))
    run_again(SEEDS)
    assert starts == [(3, 0, 0), (9, 3, 0), (0, 12, 0)]
    assert sorted(name for names in calls for name in names) == sorted(cell.id for cell in SEEDS)
    assert [len(names) for names in calls] == [1] * 3 + [1, 1, 1, 2, 2, 2]
    assert [len(outcome.records) for outcome in outcomes] == [len(names) for names in calls]
    assert len(store.read().requested) == 12


def test_records_of_other_settings_are_rerun(store: RecordStore) -> None:
    starts: list[RunPlan] = []
    calls: list[list[str]] = []
    for edited in ("", "vanilla", "vanilla"):
        run_module.run_trials(
            SEEDS,
            partial(record_calls, calls=calls),
            store=store,
            fingerprint=lambda cell, edited=edited: "edited" if cell.method == edited else "as before",
            callback=LambdaCallback(on_run_start=starts.append),
        )
    assert starts == [(12, 0, 0), (6, 6, 6), (0, 12, 0)]
    assert [len(names) for names in calls] == [2] * 6 + [1] * 6
    assert set(store.read().frame.groupby("method")["fingerprint"].unique().map(tuple)) == {("edited",), ("as before",)}


def test_trials_run_in_order(store: RecordStore) -> None:
    cells = [replace(cell, dataset=name) for name in ("1", "3", "2") for cell in SEEDS[:4]]
    outcomes: list[TrialResult] = []
    run_trials(
        cells,
        partial(record_calls, calls=[]),
        store=store,
        order=lambda trial: (trial.seed, -float(trial.dataset)),
        callback=LambdaCallback(on_trial_end=outcomes.append),
    )
    seeds = sorted({cell.seed for cell in cells})
    expected = [(seed, name) for seed in seeds for name in ("3", "2", "1")]
    assert [(outcome.trial.seed, outcome.trial.dataset) for outcome in outcomes] == expected


def test_failed_trial_is_retried(store: RecordStore) -> None:
    fixed = False

    def work_or_fail(cells: Sequence[Cell]) -> list[Record]:
        seed = -1 if fixed else cells[0].seed
        if seed == 0:
            raise OSError(f"set {cells[0].dataset} is not there\nor is it?")
        if seed == 1:
            raise RuntimeError("long " * 100)
        records = record_calls(cells, [])
        if seed == 2:
            records[0]["metrics"] = {"log_loss": float("nan")}
        return records[1:] if seed == 3 else records

    outcomes: list[TrialResult] = []
    run_trials(SEEDS[:10], work_or_fail, store=store, callback=LambdaCallback(on_trial_end=outcomes.append))
    assert len(outcomes) == 5
    assert len(store.done) == 2
    first, second, third, fourth = store.read().failures.values()
    assert first == "OSError: set 1 is not there or is it?"
    assert second.startswith("RuntimeError: long long")
    assert len(second) == 300
    assert third.startswith("ValueError: log_loss=nan of 'logistic/1/vanilla")
    assert "1 records" in fourth
    assert [outcome.error for outcome in outcomes] == [first, second, third, fourth, None]
    fixed = True
    run_trials(SEEDS[:10], work_or_fail, store=store)
    assert len(store.done) == 10
    assert load_records(store.path, PAPER_SCHEMA).failures == {}


def test_failure_ends_with_its_settings(store: RecordStore) -> None:
    """A succeeds, B fails, back to A: all records exist, and the failure belongs to B."""

    def failing(cells: Sequence[Cell]) -> list[Record]:
        raise OSError("not there")

    first, second = SEEDS[:2], SEEDS[2:4]
    for settings, work in (("A", partial(record_calls, calls=[])), ("B", failing)):
        run_module.run_trials([*first, *second], work, store=store, fingerprint=lambda cell, now=settings: now)
    assert set(store.read().failures) == {first[0].trial, second[0].trial}
    run_module.run_trials(first, failing, store=store, fingerprint=lambda cell: "A")
    assert set(store.read().failures) == {second[0].trial}
    run_module.run_trials(second, failing, store=store, fingerprint=lambda cell: "B")
    assert set(store.read().failures) == {second[0].trial}
    run_module.run_trials(second, failing, store=store, fingerprint=lambda cell: "A")
    assert load_records(store.path, PAPER_SCHEMA).failures == {}


def test_failure_stays_while_a_cell_is_missing(store: RecordStore) -> None:
    def failing(cells: Sequence[Cell]) -> list[Record]:
        raise OSError("not there")

    run_trials(SEEDS[:1], partial(record_calls, calls=[]), store=store)
    run_trials(SEEDS[:2], failing, store=store)
    run_trials(SEEDS[:1], failing, store=store)
    assert set(store.read().failures) == {SEEDS[0].trial}


def test_callback_error_ends_the_run_and_keeps_finished_trials(
    work: Callable[..., list[Record]], store: RecordStore
) -> None:
    def stop(outcome: TrialResult) -> None:
        raise KeyboardInterrupt

    for jobs in (1, 2):
        before = len(store.done)
        with pytest.raises(KeyboardInterrupt):
            run_trials(CELLS, work, store=store, n_jobs=jobs, callback=LambdaCallback(on_trial_end=stop))
        assert len(load_records(store.path, PAPER_SCHEMA).frame) == before + 2


@pytest.mark.parametrize("n_jobs", [0, -2, 1.5])
def test_invalid_n_jobs_is_refused(store: RecordStore, n_jobs: Any) -> None:
    with pytest.raises(ValueError, match="n_jobs"):
        run_trials(CELLS, partial(record_calls, calls=[]), store=store, n_jobs=n_jobs)


@needs_kill
@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.long)])
def test_killed_run_keeps_its_records_and_resumes(
    script: Path, tmp_path: Path, expected_frame: pd.DataFrame, jobs: int
) -> None:
    path = tmp_path / "study.sqlite"
    environment = os.environ | {"PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script), str(path), str(jobs)]
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    while process.poll() is None and not (
        path.exists() and path.stat().st_size and len(load_records(path, PAPER_SCHEMA).frame) >= 6
    ):
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    before = load_records(path, PAPER_SCHEMA).frame
    assert 6 <= len(before) < 24
    assert len(before) % 2 == 0
    subprocess.run(command, env=environment, check=True)  # orphaned workers may still run
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    after = load_records(path, PAPER_SCHEMA).frame
    saved = after[after["id"].isin(before["id"])].reset_index(drop=True)
    pd.testing.assert_frame_equal(saved, before)  # equal seconds: no trial was repeated
    pd.testing.assert_frame_equal(comparable(path), expected_frame)


@needs_kill
def test_killed_process_is_an_error(store: RecordStore) -> None:
    def deadly(cells: Sequence[Cell]) -> list[Record]:
        os.kill(os.getpid(), signal.SIGKILL)
        return []

    with pytest.raises(OSError, match="killed"):
        run_trials(CELLS, deadly, store=store, n_jobs=2)


# On a cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Start a scheduler and two worker processes, which are restarted if they die."""
    distributed = pytest.importorskip("distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=logging.CRITICAL
        ) as made:
            yield made


@needs_dask
def test_cluster_gives_the_results_of_one_process(
    cluster: Any, work: Callable[..., list[Record]], expected_frame: pd.DataFrame, store: RecordStore, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    run_trials(CELLS, partial(work, log=str(log), pause=0.05), store=store, dask=cluster.scheduler_address)
    pd.testing.assert_frame_equal(comparable(store.path), expected_frame)
    assert {int(line.split()[0]) for line in log.read_text().splitlines()} == {
        worker.pid for worker in cluster.workers.values()
    }


@needs_dask
@needs_kill
@pytest.mark.parametrize("allowed", [0, pytest.param(3, marks=pytest.mark.long)])
def test_killed_worker_loses_no_trial(
    cluster: Any, work: Callable[..., list[Record]], expected_frame: pd.DataFrame, store: RecordStore, allowed: int
) -> None:
    """This holds even if the scheduler gives up the tasks of a worker at its first death."""
    cluster.scheduler.allowed_failures = allowed
    victim = next(iter(cluster.workers.values())).pid
    outcomes: list[TrialResult] = []

    def kill(outcome: TrialResult) -> None:
        outcomes.append(outcome)
        if len(outcomes) == 3:
            os.kill(victim, signal.SIGKILL)

    run_trials(
        CELLS,
        partial(work, pause=0.1),
        store=store,
        dask=cluster.scheduler_address,
        callback=LambdaCallback(on_trial_end=kill),
    )
    assert [outcome.error for outcome in outcomes] == [None] * 12
    assert store.read().failures == {}
    pd.testing.assert_frame_equal(comparable(store.path), expected_frame)


@needs_dask
def test_failures_on_a_cluster_are_recorded(cluster: Any, store: RecordStore) -> None:
    def work_or_fail(cells: Sequence[Cell]) -> list[Record]:
        if cells[0].seed == 0:
            raise OSError("not there")
        return [Record(key=cell, parameters={}, metrics={}, seconds=0.0, versions={}) for cell in cells]

    run_trials(SEEDS[:10], work_or_fail, store=store, dask=cluster.scheduler_address)
    assert store.read().failures == {SEEDS[0].trial: "OSError: not there"}
    assert len(store.done) == 8


@needs_dask
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_worker_out_of_memory_fails_its_trial_alone(cluster: Any, store: RecordStore) -> None:
    def greedy(cells: Sequence[Cell]) -> list[Record]:
        """Allocate more memory than a worker may have for one of the seeds."""
        import resource

        import numpy as np

        before = resource.getrlimit(resource.RLIMIT_AS)
        in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + 2**26, before[1]))
        try:
            np.ones(2**30 if cells[0].seed == 2 else 1)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)
        return [Record(key=cell, parameters={}, metrics={}, seconds=0.0, versions={}) for cell in cells]

    run_trials(SEEDS[:10], greedy, store=store, dask=cluster.scheduler_address)
    (failed,) = store.read().failures.items()
    assert (failed[0], "MemoryError" in failed[1]) == (SEEDS[4].trial, True)
    assert len(store.done) == 8


@pytest.mark.long
@needs_dask
def test_worker_killed_for_memory_fails_its_trial_alone(store: RecordStore, tmp_path: Path) -> None:
    def hungry(cells: Sequence[Cell]) -> list[Record]:
        """Allocate memory until the worker is killed for one of the seeds."""
        with open(log, "a") as file:
            file.write(f"{cells[0].seed}\n")
        held = []
        while cells[0].seed == 2:
            held.append(bytearray(2**24))
            time.sleep(0.01)
        return [Record(key=cell, parameters={}, metrics={}, seconds=0.0, versions={}) for cell in cells]

    distributed = pytest.importorskip("distributed")
    log = str(tmp_path / "log")
    quiet = {"dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    alone = {"distributed.scheduler.worker-saturation": 1.0}  # no other trial waits at the worker and dies with it
    with warnings.catch_warnings(), pytest.importorskip("dask").config.set(alone):
        warnings.simplefilter("ignore")
        with distributed.LocalCluster(n_workers=1, threads_per_worker=1, memory_limit="1GB", **quiet) as small:
            small.scheduler.allowed_failures = 0
            run_trials(SEEDS[:10], hungry, store=store, dask=small.scheduler_address)
    assert list(store.read().failures.items()) == [
        (SEEDS[4].trial, "KilledWorker: all workers that had the trial died; see their logs")
    ]
    assert len(store.done) == 8
    assert Path(log).read_text().count("2\n") == run_module.MAX_RETRIES + 1


@needs_dask
def test_workers_without_a_module_are_an_error(
    cluster: Any, store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("only_here")
    exec("def work(cells): ...", vars(module))
    monkeypatch.setitem(sys.modules, "only_here", module)
    with pytest.raises(ValueError, match="ModuleNotFoundError"):
        run_trials(CELLS, vars(module)["work"], store=store, dask=cluster.scheduler_address)
    assert store.read().failures == {}


@contextmanager
def started_scheduler(folder: Path, port: int = 0) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """Start a scheduler without workers in its own process; yield the process and its address."""
    scheduler_file = folder / "scheduler.json"
    options = ["--host", "127.0.0.1", "--port", str(port), "--no-dashboard", "--scheduler-file", str(scheduler_file)]
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", *options]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as scheduler:
        while scheduler.poll() is None and not (scheduler_file.exists() and scheduler_file.read_text().endswith("}")):
            time.sleep(0.05)
        try:
            yield scheduler, json.loads(scheduler_file.read_text())["address"]
        finally:
            scheduler.kill()


@contextmanager
def started_worker(address: str) -> Iterator[None]:
    command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard"]
    environment = os.environ | {"PYTHONPATH": str(SOURCES)}
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, env=environment) as worker:
        try:
            yield
        finally:
            worker.terminate()


@needs_dask
@needs_kill
def test_lost_scheduler_is_an_error(
    work: Callable[..., list[Record]], store: RecordStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "TIMEOUT_SECONDS", 5)
    with started_scheduler(tmp_path) as (scheduler, address):
        killer = threading.Timer(1.0, scheduler.kill)
        killer.start()
        with pytest.raises(OSError, match="lost"):
            run_trials(CELLS, work, store=store, dask=address)
        killer.join()


@pytest.mark.long
@needs_dask
@needs_kill
def test_restarted_scheduler_loses_and_repeats_no_trial(
    work: Callable[..., list[Record]], expected_frame: pd.DataFrame, store: RecordStore, tmp_path: Path
) -> None:
    """Kill the scheduler with trials in flight; then start another at the same address."""
    outcomes: list[TrialResult] = []
    with started_scheduler(tmp_path) as (scheduler, address), started_worker(address):

        def kill(outcome: TrialResult) -> None:
            outcomes.append(outcome)
            if len(outcomes) == 3:
                scheduler.kill()

        with pytest.raises(OSError, match="lost"):
            run_trials(
                CELLS, partial(work, pause=0.2), store=store, dask=address, callback=LambdaCallback(on_trial_end=kill)
            )
    before = load_records(store.path, PAPER_SCHEMA).frame
    assert 6 <= len(before) == 2 * len(outcomes) < 24
    (tmp_path / "again").mkdir()
    port = int(address.rpartition(":")[2])
    with started_scheduler(tmp_path / "again", port) as (_, new_address), started_worker(new_address):
        assert new_address == address
        run_trials(CELLS, work, store=store, dask=address, callback=LambdaCallback(on_trial_end=outcomes.append))
    assert len(outcomes) == 12
    after = load_records(store.path, PAPER_SCHEMA).frame
    saved = after[after["id"].isin(before["id"])].reset_index(drop=True)
    pd.testing.assert_frame_equal(saved, before)  # equal seconds: no trial was repeated
    pd.testing.assert_frame_equal(comparable(store.path), expected_frame)


@needs_dask
def test_scheduler_without_workers_is_an_error(
    store: RecordStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_module, "TIMEOUT_SECONDS", 2)
    with started_scheduler(tmp_path) as (_, address):
        with pytest.raises(ValueError, match="workers"):
            run_trials(CELLS, partial(record_calls, calls=[]), store=store, dask=address)
        check_dask_scheduler(address)
    assert store.done == {}


@needs_dask
def test_missing_scheduler_is_an_error(store: RecordStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "TIMEOUT_SECONDS", 1)
    with pytest.raises(OSError, match="dask="):
        run_trials(CELLS, partial(record_calls, calls=[]), store=store, dask="tcp://127.0.0.1:9")
    assert store.done == {}


def test_missing_distributed_is_an_error(store: RecordStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match="cluster"):
        run_trials(CELLS, partial(record_calls, calls=[]), store=store, dask="tcp://127.0.0.1:9")
