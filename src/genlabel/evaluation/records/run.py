"""Run cells, here or on a Dask cluster: a trial is a task, what is on record is skipped, only this process writes."""

from __future__ import annotations

import os
import platform
import re
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import closing, contextmanager, nullcontext
from functools import cache
from importlib import import_module
from logging import CRITICAL, getLogger
from math import inf
from threading import Thread
from time import monotonic, sleep
from typing import Any

from joblib import Parallel, delayed, effective_n_jobs, parallel_config

from genlabel._progress import Callback, RunPlan, TrialResult, use_callback
from genlabel._runtime import limit_to_one_thread, one_thread
from genlabel._validation import check_count
from genlabel.evaluation.records.schema import Record, RunKey, trials
from genlabel.evaluation.records.store import Store, make_row

LONGEST = 300
"""Letters of an error that are kept."""
AHEAD = 4
"""Tasks in flight for each thread of a cluster: enough for workers that join, few enough for the memory."""
RETRIES = 3
"""How often a task is given to a cluster again after the cluster gave it up."""
LOOK = 1.0
"""Seconds after which the workers are counted again."""
TIMEOUT_SECONDS = 10
"""Seconds in which a scheduler must answer."""

WATCH = 0.5
"""Seconds from one look for the parent to the next."""

TrialFunction = Callable[[Sequence[Any]], list[Record]]
"""Trains and measures cells of one trial; can be pickled if there are several processes."""

_Task = tuple[Sequence[RunKey], int]
"""The cells of a trial, and how often the cluster gave them up."""


def run_trials(
    cells: Iterable[RunKey],
    work: TrialFunction,
    *,
    store: Store,
    fingerprint: Callable[[Any], str],
    n_jobs: int = 1,
    dask: str | None = None,
    order: Callable[[Any], Any] | None = None,
    callback: Callback | None = None,
) -> None:
    """Do the cells that are not on record, trial by trial, and record each trial when it ends.

    Each trial has one thread, wherever it runs: the number of jobs does not change a number. A trial that fails is
    recorded with its error, and tried again in the next run; the others go on. A record that was made with other
    settings counts as missing, and is replaced; an error that was had with other settings is forgotten where nothing is
    missing.

    Parameters
    ----------
    cells : iterable of cells
    work : callable (cells of one trial) -> list of Record
        Of a trial that is partly on record it is given the missing cells only.
    store : Store
        Open.
    fingerprint : callable (cell) -> str
        Of the settings that make its record, see `genlabel.evaluation.records.fingerprint`.
    n_jobs : int
        Trials at once, each in its own process; 1 is this process, -1 is one for each processor.
    dask : str, optional
        Address of a scheduler, such as "tcp://host:8786"; its workers, best of one thread each, take the place of
        `n_jobs`, and may come and go.
    order : callable (trial) -> sort key, optional
        The trials are done in the order of their keys; without it, in that of the cells.
    callback : Callback, optional
        It receives the plan of the run and the result of each trial, and of trials in this process their begin and the
        progress of their fits.

    Examples
    --------
    >>> from genlabel.evaluation.records import COMPARISON, Fit, open_store
    >>> def work(cells):
    ...     return [{"cell": cell, "parameters": {}, "metrics": {"accuracy": 50.0}, "seconds": 0.1, "versions": {}}
    ...             for cell in cells]
    >>> cells = [Fit("iris", name, split) for split in (0, 1) for name in ("vanilla", "mixup")]
    >>> with open_store(None, COMPARISON) as store:
    ...     run_trials(cells, work, store=store, fingerprint=lambda cell: "as today")
    ...     len(store.done)
    4
    """
    if n_jobs != -1:
        check_count("n_jobs", n_jobs)
    asked = trials(cells)
    made = {cell.id: fingerprint(cell) for group in asked.values() for cell in group}
    todo = _missing(asked, made, store.done, order)
    store.ask(cell for group in asked.values() for cell in group)
    store.forget_failures(made)
    if callback is not None:
        callback.on_run_start(_count(made, store.done))
    if todo:
        results = (
            _on_cluster(dask, work, todo) if dask is not None else _here(work, todo, effective_n_jobs(n_jobs), callback)
        )
        with closing(results):
            _record(results, made, store, callback)


def software_versions() -> dict[str, str]:
    """Return the versions that are kept beside a record: of genlabel, torch, scikit-learn and Python.

    >>> list(software_versions())
    ['genlabel', 'torch', 'scikit-learn', 'python']
    """
    modules = {"genlabel": "genlabel", "torch": "torch", "scikit-learn": "sklearn"}
    found = {name: str(import_module(module).__version__) for name, module in modules.items()}
    return found | {"python": platform.python_version()}


def _missing(
    asked: Mapping[Any, list[RunKey]],
    made: Mapping[str, str],
    done: Mapping[str, str],
    order: Callable[[Any], Any] | None,
) -> list[list[RunKey]]:
    """The cells of each trial that are not on record, in the order in which they are done."""
    ordered = list(asked) if order is None else sorted(asked, key=order)
    left = [[cell for cell in asked[trial] if done.get(cell.id) != made[cell.id]] for trial in ordered]
    return [cells for cells in left if cells]


def _count(made: Mapping[str, str], done: Mapping[str, str]) -> RunPlan:
    same = sum(done.get(name) == now for name, now in made.items())
    stale = sum(name in done for name in made) - same
    return RunPlan(len(made) - same, same, stale)


def _record(
    results: Iterable[TrialResult],
    made: Mapping[str, str],
    store: Store,
    callback: Callback | None,
) -> None:
    for outcome in results:
        if outcome.error is None:
            store.write(outcome.records, made)
        else:
            store.write_failure(outcome.trial, outcome.error)
        if callback is not None:
            callback.on_trial_end(outcome)


def _perform(work: TrialFunction, cells: Sequence[RunKey]) -> TrialResult:
    """Do the cells of a trial; whatever goes wrong is its error."""
    try:
        records = work(cells)
        kept = sorted(str(make_row(record)["id"]) for record in records)
        if kept != sorted(cell.id for cell in cells):
            raise ValueError(f"{work!r} returned {len(kept)} records, which are not those of the {len(cells)} cells")
    except Exception as error:
        return TrialResult(cells, [], _shorten(error))
    return TrialResult(cells, records)


def _perform_elsewhere(work: TrialFunction, cells: Sequence[RunKey], parent: int | None = None) -> TrialResult:
    """Do the cells of a trial in a worker, which keeps to one thread from now on, and ends when its parent does."""
    limit_to_one_thread()
    if parent is not None:
        exit_with_parent(parent)
    return _perform(work, cells)


@cache
def exit_with_parent(parent: int) -> None:
    """Let this process end when its parent does, of this number: a worker of joblib would wait minutes for more to do.

    Where a launcher stands between them, as on Windows, nothing is done.
    """

    def watch() -> None:
        while os.getppid() == parent:
            sleep(WATCH)
        os._exit(1)

    if os.getppid() == parent:
        Thread(target=watch, name="genlabel-parent", daemon=True).start()


def _shorten(error: BaseException) -> str:
    name, text = type(error).__name__, " ".join(str(error).split())
    return (f"{name}: {text}" if text else name)[:LONGEST]


# Here


def _here(
    work: TrialFunction, todo: Sequence[Sequence[RunKey]], jobs: int, callback: Callback | None
) -> Generator[TrialResult]:
    """Do trials in this process or in some of its own, and give each as soon as it is done."""
    if jobs == 1:
        for cells in todo:
            if callback is not None:
                callback.on_trial_start(cells[0].trial)
            with one_thread(), use_callback(callback) if callback is not None else nullcontext():
                outcome = _perform(work, cells)
            yield outcome
        return
    with parallel_config(backend="loky", n_jobs=jobs, inner_max_num_threads=1):
        pool = Parallel(return_as="generator_unordered", batch_size=1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\d+ tasks (have been|which were)")  # joblib's, where the caller stops
        warnings.filterwarnings("ignore", "A worker stopped while some jobs")  # and where it renews a process
        try:
            yield from pool(delayed(_perform_elsewhere)(work, cells, os.getpid()) for cells in todo)
        except BrokenExecutor as error:
            if "un-serialize" in str(error):
                reason = _shorten(error.__cause__ or error)
                hint = "what it needs must be importable there, or be defined in the script that is run"
                raise ValueError(f"a process of its own cannot do a trial ({reason}); {hint}") from error
            hint = "what ended is on record: go on with the same command, with fewer jobs if memory is short"
            raise OSError(f"one of {jobs} processes was killed; {hint}") from error


# On a cluster


def _on_cluster(address: str, work: TrialFunction, todo: Iterable[Sequence[RunKey]]) -> Generator[TrialResult]:
    """Do trials on the workers of a scheduler, a bounded number in flight, and give each as soon as it is done."""
    distributed = _import_distributed()
    with _quiet(), _connect(distributed, address) as client:
        try:
            _await_workers(client, address)
            yield from _submit_and_collect(distributed, client, work, deque((cells, 0) for cells in todo))
        except (OSError, CancelledError) as error:
            hint = "what ended is on record: start a scheduler and go on with the same command"
            raise ConnectionError(f"the scheduler at {address!r} was lost; {hint}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Let a lost scheduler be told in our one line, not also in tracebacks of the client's."""
    logger = getLogger("distributed.client")
    level = logger.level
    logger.setLevel(CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def check_dask_scheduler(address: str) -> None:
    """Raise unless a scheduler answers at the address.

    >>> check_dask_scheduler("tcp://127.0.0.1:9")  # doctest: +SKIP
    Traceback (most recent call last):
    ConnectionError: no scheduler answers at 'tcp://127.0.0.1:9' ...
    """
    _connect(_import_distributed(), address).close()


def _await_workers(client: Any, address: str) -> None:
    """Raise if nobody is there to work; a scheduler that is lost meanwhile is told by the caller."""
    try:
        client.wait_for_workers(1, timeout=TIMEOUT_SECONDS)
    except TimeoutError as error:
        if client.status != "running":
            raise
        hint = f"start some with: dask worker {address} --nthreads 1"
        raise ValueError(f"the scheduler at {address!r} has no workers; {hint}") from error


def _submit_and_collect(
    distributed: Any, client: Any, work: TrialFunction, waiting: deque[_Task]
) -> Generator[TrialResult]:
    """Send tasks, receive outcomes; a task that the cluster gave up, its workers being killed, is sent again, last."""
    landed = distributed.as_completed(loop=client.loop)
    flying: dict[str, _Task] = {}
    pack, most, looked = _make_packer(work), 0, -inf
    while waiting or flying:
        if monotonic() - looked > LOOK:
            most, looked = AHEAD * max(1, sum(client.nthreads().values())), monotonic()
        while waiting and len(flying) < most:
            future = client.submit(*pack(waiting[0][0]), pure=False, retries=RETRIES)
            flying[future.key] = waiting.popleft()
            landed.add(future)
        future = next(landed)
        cells, sent = flying.pop(future.key)
        outcome = _receive(distributed, future)
        if outcome is not None or sent == RETRIES:
            yield outcome or TrialResult(cells, [], "KilledWorker: all workers that had the trial died; see their logs")
        else:
            waiting.append((cells, sent + 1))


def _make_packer(work: TrialFunction) -> Callable[[Sequence[RunKey]], tuple[Callable[..., TrialResult], bytes, bytes]]:
    """Return what makes tasks of cells: a function that travels by value, the work, pickled once, and the cells.

    A cluster can hang on a message that it cannot unpickle; here a package that it lacks is an error of the task.
    """

    def unpack(packed: bytes, cells: bytes) -> TrialResult:
        from pickle import loads  # as is said below  # nosec B403

        # What is packed below, sent by Dask, which unpickles its tasks itself: a scheduler is trusted.
        perform, work = loads(packed)  # ours, as above  # nosec B301
        outcome: TrialResult = perform(work, loads(cells))  # ours, as above  # nosec B301
        return outcome

    dumps = import_module("cloudpickle").dumps
    packed: bytes = dumps((_perform_elsewhere, work))
    return lambda cells: (unpack, packed, dumps(cells))


def _receive(distributed: Any, future: Any) -> TrialResult | None:
    """Return what came of a task, or None if its workers were killed again and again, perhaps for another task."""
    try:
        outcome: TrialResult = future.result()
    except CancelledError:
        raise
    except distributed.KilledWorker:
        return None
    except Exception as error:  # errors of the work are in its outcome; this is one of the cluster
        hint = "its workers need the genlabel, and the packages, that are here"
        raise ValueError(f"the cluster cannot do a trial ({_shorten(error.__cause__ or error)}); {hint}") from error
    return outcome


def _import_distributed() -> Any:
    try:
        return import_module("distributed")
    except ImportError as error:
        raise ValueError('dask needs distributed; install it with pip install "genlabel[cluster]"') from error


def _connect(distributed: Any, address: str) -> Any:
    if not re.fullmatch(r"[a-z]+://[^/\s]+:\d+", address):
        raise ValueError(f"dask={address!r} is no address of a scheduler; write it as tcp://host:8786")
    try:
        return distributed.Client(address, timeout=TIMEOUT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        hint = 'start one with "dask scheduler", or check the address, such as "tcp://host:8786"'
        raise ConnectionError(f"dask={address!r}: no scheduler answers within {TIMEOUT_SECONDS} s; {hint}") from error
