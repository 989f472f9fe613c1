"""Pool of worker processes that end when the process that started them is gone, even if it was killed."""

from __future__ import annotations

import os
from functools import cache
from multiprocessing import parent_process
from threading import Thread
from time import sleep
from typing import Any, cast

POLL_SECONDS = 0.5


def process_pool(n_jobs: int, **options: Any) -> Any:
    """Return a pool of joblib, called with an iterable of `delayed` tasks, that yields each result when it is ready.

    Its workers watch their parent before they import anything for a task. Idle workers would otherwise linger for
    minutes after a kill. The watch is a thread: Linux's parent-death signal comes at the end of the *thread* that
    started a worker, and joblib starts workers in several.
    """
    from joblib import Parallel, parallel_config

    watch = {"initializer": exit_with_parent, "initargs": (os.getpid(),)}
    with parallel_config(backend="loky", n_jobs=n_jobs, inner_max_num_threads=1, **watch):
        return Parallel(batch_size=1, **{"return_as": "generator_unordered", **options})


@cache
def exit_with_parent(parent: int) -> None:
    """Exit when the parent process (PID `parent`) is gone, at once if it was gone before this call."""

    def watch() -> None:
        if os.name == "nt":  # a process keeps the PID of its parent there; multiprocessing has a handle of it
            cast(Any, parent_process()).join()
        while os.name != "nt" and os.getppid() == parent:
            sleep(POLL_SECONDS)
        os._exit(1)

    Thread(target=watch, name="genlabel-parent", daemon=True).start()
