"""Runner of trials, in local processes or on a Dask cluster; runs with a record are skipped, one process writes."""

from __future__ import annotations

import platform
import re
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import ExitStack, closing, nullcontext
from importlib import import_module
from logging import CRITICAL, getLogger
from math import inf
from time import monotonic
from typing import Any, cast

from joblib import delayed, effective_n_jobs

from genlabel._processes import process_pool
from genlabel._progress import Callback, RunPlan, TrialResult, use_callback
from genlabel._runtime import limit_to_one_thread, one_thread
from genlabel._validation import check_count
from genlabel.evaluation.records.schema import Record, RunKey, make_row
from genlabel.evaluation.records.store import RecordStore

MAX_ERROR_LENGTH = 300
"""Characters of an error that are saved."""
TASKS_PER_THREAD = 4
"""Tasks in flight for each thread of a cluster: enough for workers that join, few enough for the memory."""
MAX_RETRIES = 3
"""Number of times that a task is submitted again after the cluster gave it up."""
RECOUNT_SECONDS, TIMEOUT_SECONDS = 1.0, 10
"""Interval after which workers are counted again; seconds in which a scheduler must answer."""

TrialFunction = Callable[[Sequence[Any]], list[Record]]
"""Function that trains and measures runs of one trial; picklable if there are several processes."""


def run_trials(
    keys: Iterable[RunKey],
    function: TrialFunction,
    *,
    store: RecordStore,
    fingerprint: Callable[[Any], str],
    n_jobs: int = 1,
    dask: str | None = None,
    order: Callable[[Any], Any] | None = None,
    may_start: Callable[[Sequence[Any]], bool] | None = None,
    callback: Callback | None = None,
) -> None:
    """Do the runs that have no record, trial by trial, and record each trial when it ends.

    Each trial has one thread, wherever it runs: results do not depend on the number of jobs. If a trial fails, its
    error is recorded, the other trials continue, and the next call tries it again. Records of other settings are
    replaced; errors of trials whose runs all have records are deleted.

    Parameters
    ----------
    keys : iterable of RunKey
    function : callable (keys of one trial) -> list of Record
        It receives only the keys without a record.
    store : RecordStore
    fingerprint : callable (key) -> str
        Fingerprint of the settings that make a record, see `genlabel.evaluation.records.fingerprint`.
    n_jobs : int
        Number of trials at the same time, each in its own process; 1 is this process, -1 is one for each processor.
    dask : str, optional
        Address of a scheduler, such as "tcp://host:8786". Its workers, which should have one thread each and may join
        and leave, replace `n_jobs`.
    order : callable (trial) -> sort key, optional
        Order of the trials; without it, that of the keys.
    may_start : callable (keys of one trial) -> bool, optional
        It is asked when a trial could start; the trials that it refuses are left for the next call.
    callback : Callback, optional
        It receives the plan of the run and the result of each trial; for trials in this process also their start and
        the progress of their fits.

    Examples
    --------
    >>> from genlabel.evaluation.records.schema import COMPARISON, Fit
    >>> from genlabel.evaluation.records import open_store
    >>> def function(keys):
    ...     return [{"key": key, "parameters": {}, "metrics": {"accuracy": 0.5}, "seconds": 0.1, "versions": {}}
    ...             for key in keys]
    >>> keys = [Fit("iris", name, split) for split in (0, 1) for name in ("vanilla", "mixup")]
    >>> with open_store(None, COMPARISON) as store:
    ...     run_trials(keys, function, store=store, fingerprint=lambda key: "current")
    ...     len(store.done)
    4
    """
    if n_jobs != -1:
        check_count("n_jobs", n_jobs)
    trials: dict[Any, list[RunKey]] = {}
    for key in dict.fromkeys(keys):
        trials.setdefault(key.trial, []).append(key)
    requested = [key for group in trials.values() for key in group]
    current = {key.id: fingerprint(key) for key in requested}
    ordered = trials if order is None else sorted(trials, key=order)
    missing = ([key for key in trials[trial] if store.done.get(key.id) != current[key.id]] for trial in ordered)
    todo = [keys for keys in missing if keys]
    store.request(requested)
    _delete_old_failures(store, current)
    if callback is not None:
        n_todo = sum(map(len, todo))
        cached = len(requested) - n_todo
        stale = sum(name in store.done for name in current) - cached
        callback.on_run_start(RunPlan(n_todo, cached, stale))
    if not todo:
        return
    due = todo if may_start is None else filter(may_start, todo)
    if dask is not None:
        results = _run_on_cluster(dask, function, due)
    else:
        results = _run_locally(function, due, effective_n_jobs(n_jobs), callback)
    with closing(results):
        for result in results:
            if result.error is None:
                store.write(result.records, current)
            else:
                store.write_failure(result.trial, result.error)
            if callback is not None:
                callback.on_trial_end(result)


def _delete_old_failures(store: RecordStore, current: Mapping[str, str]) -> None:
    """Delete the errors of the complete trials of this run, of which every run ever requested has a record."""
    content = store.read()
    if not content.failures:
        return
    keys = [store.schema.key(**fields) for fields in cast(Any, content.requested.to_dict("records"))]
    complete = {key.trial for key in keys if key.id in current}
    for key in keys:
        recorded = store.done.get(key.id)
        if recorded is None or recorded != current.get(key.id, recorded):
            complete.discard(key.trial)
    store.write_rows([], complete)


def software_versions() -> dict[str, str]:
    """Return the versions that are saved with a record: of genlabel, torch, scikit-learn and Python."""
    modules = {"genlabel": "genlabel", "torch": "torch", "scikit-learn": "sklearn"}
    versions = {name: str(import_module(module).__version__) for name, module in modules.items()}
    return versions | {"python": platform.python_version()}


def _run_trial(function: TrialFunction, keys: Sequence[RunKey]) -> TrialResult:
    """Do the runs of a trial; an exception becomes the error of the result."""
    try:
        records = function(keys)
        ids = sorted(str(make_row(record)["id"]) for record in records)
        if ids != sorted(key.id for key in keys):
            raise ValueError(f"{function!r} returned {len(ids)} records that do not match the {len(keys)} runs")
    except Exception as error:
        return TrialResult(keys, [], _shorten(error))
    return TrialResult(keys, records)


def _call_in_worker(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a worker process, which has one thread from now on."""
    limit_to_one_thread()
    return function(*arguments)


def _shorten(error: BaseException) -> str:
    name, text = type(error).__name__, " ".join(str(error).split())
    return (f"{name}: {text}" if text else name)[:MAX_ERROR_LENGTH]


def _run_locally(
    function: TrialFunction, todo: Iterable[Sequence[RunKey]], n_jobs: int, callback: Callback | None
) -> Generator[TrialResult]:
    """Do trials in this process or in several others, and yield each result when it is ready.

    An iterator is asked for a trial only when a process is free; a sequence is sent ahead.
    """
    if n_jobs == 1:
        for keys in todo:
            if callback is not None:
                callback.on_trial_start(keys[0].trial)
            with one_thread(), use_callback(callback) if callback is not None else nullcontext():
                result = _run_trial(function, keys)
            yield result
        return
    ahead = "2*n_jobs" if isinstance(todo, Sequence) else "n_jobs"
    yield from map_in_processes(_run_trial, ((function, keys) for keys in todo), n_jobs, pre_dispatch=ahead)


def map_in_processes(
    function: Callable[..., Any], calls: Iterable[tuple[Any, ...]], n_jobs: int, **options: Any
) -> Generator[Any]:
    """Call a function with each tuple of arguments in one of several processes, and yield results when they are ready.

    Each process has one thread and exits with this one; calls with the same `n_jobs` share their processes. `options`
    are those of `joblib.Parallel`.
    """
    pool = process_pool(n_jobs, **options)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\d+ tasks (have been|which were)")  # of joblib, when the caller stops
        warnings.filterwarnings("ignore", "A worker stopped while some jobs")  # of joblib, when it replaces a process
        try:
            yield from pool(delayed(_call_in_worker)(function, *arguments) for arguments in calls)
        except BrokenExecutor as error:
            if "un-serialize" in str(error):
                reason = _shorten(error.__cause__ or error)
                hint = "everything it uses must be importable there, or be defined in the script that is run"
                raise ValueError(f"a worker process cannot load a trial ({reason}); {hint}") from error
            hint = "finished trials are saved: run the same command again, with fewer jobs if memory is short"
            raise OSError(f"one of {n_jobs} processes was killed; {hint}") from error


# Dask


def check_dask_scheduler(address: str) -> None:
    """Raise unless a scheduler answers at the address."""
    _connect(address).close()


def _connect(address: str) -> Any:
    """Return a client of the scheduler at an address."""
    try:
        distributed = import_module("distributed")
    except ImportError as error:
        raise ValueError('dask needs distributed; install it with pip install "genlabel[cluster]"') from error
    if not re.fullmatch(r"[a-z]+://[^/\s]+:\d+", address):
        raise ValueError(f"dask={address!r} is not the address of a scheduler; write it as tcp://host:8786")
    try:
        return distributed.Client(address, timeout=TIMEOUT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        hint = 'start one with "dask scheduler", or check the address, such as "tcp://host:8786"'
        raise ConnectionError(f"dask={address!r}: no scheduler answers within {TIMEOUT_SECONDS} s; {hint}") from error


def _run_on_cluster(address: str, function: TrialFunction, todo: Iterable[Sequence[RunKey]]) -> Generator[TrialResult]:
    """Do trials on the workers of a scheduler, a bounded number in flight, and yield each result as it arrives."""
    with ExitStack() as stack:
        logger = getLogger("distributed.client")
        stack.callback(logger.setLevel, logger.level)
        logger.setLevel(CRITICAL)  # it logs tracebacks when the scheduler is lost
        client = stack.enter_context(_connect(address))
        try:
            try:
                client.wait_for_workers(1, timeout=TIMEOUT_SECONDS)
            except TimeoutError as error:
                if client.status != "running":  # the scheduler was lost meanwhile
                    raise
                hint = f"start some with: dask worker {address} --nthreads 1"
                raise ValueError(f"the scheduler at {address!r} has no workers; {hint}") from error
            yield from _submit_and_collect(client, function, todo)
        except (OSError, CancelledError) as error:
            hint = "finished trials are saved: start a scheduler and run the same command again"
            raise ConnectionError(f"the scheduler at {address!r} was lost; {hint}") from error


def _submit_and_collect(
    client: Any, function: TrialFunction, todo: Iterable[Sequence[RunKey]]
) -> Generator[TrialResult]:
    """Submit tasks and yield results; a task is sent again if its workers were killed, perhaps by another task."""
    distributed = import_module("distributed")
    finished = distributed.as_completed(loop=client.loop)
    waiting = deque((keys, 0) for keys in todo)  # with the number of attempts
    in_flight: dict[str, tuple[Sequence[RunKey], int]] = {}
    pack = _make_packer(function)
    max_in_flight, last_count = 0, -inf
    while waiting or in_flight:
        if monotonic() - last_count > RECOUNT_SECONDS:
            max_in_flight = TASKS_PER_THREAD * max(1, sum(client.nthreads().values()))
            last_count = monotonic()
        while waiting and len(in_flight) < max_in_flight:
            future = client.submit(*pack(waiting[0][0]), pure=False, retries=MAX_RETRIES)
            in_flight[future.key] = waiting.popleft()
            finished.add(future)
        future = next(finished)
        keys, attempts = in_flight.pop(future.key)
        try:
            result: TrialResult = future.result()
        except distributed.KilledWorker:
            if attempts < MAX_RETRIES:
                waiting.append((keys, attempts + 1))
            else:
                yield TrialResult(keys, [], "KilledWorker: all workers that had the trial died; see their logs")
        except CancelledError:
            raise
        except Exception as error:  # of the cluster: an error of the function is in its result
            reason = _shorten(error.__cause__ or error)
            hint = "its workers need the same packages, genlabel included"
            raise ValueError(f"the cluster cannot do a trial ({reason}); {hint}") from error
        else:
            yield result


def _make_packer(
    function: TrialFunction,
) -> Callable[[Sequence[RunKey]], tuple[Callable[..., TrialResult], bytes, bytes]]:
    """Return a function that turns keys into a task: a function that is pickled by value, and pickled bytes.

    A cluster can hang on a message that it cannot unpickle. With bytes, a missing package becomes an error of the task.
    """

    def unpack(packed: bytes, keys: bytes) -> TrialResult:
        from pickle import loads  # of our own bytes, see below  # nosec B403

        # The bytes are packed below and sent by Dask, which unpickles its tasks itself: a scheduler is trusted.
        call, run, function = loads(packed)  # our own bytes  # nosec B301
        result: TrialResult = call(run, function, loads(keys))  # our own bytes  # nosec B301
        return result

    dumps = import_module("cloudpickle").dumps
    packed: bytes = dumps((_call_in_worker, _run_trial, function))
    return lambda keys: (unpack, packed, dumps(keys))
