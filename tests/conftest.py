"""Shared settings: one thread a test, and hypothesis without deadlines (the machines are noisy).

A second thread buys these small problems nothing, and it starves a second worker (`pytest -n`). The variables are read
when numpy and torch are imported; workers and the commands that tests start inherit them. GENLABEL_EXAMPLES asks for
more examples.
"""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from hypothesis import HealthCheck, settings

for library in ("OMP", "MKL", "OPENBLAS"):
    os.environ[f"{library}_NUM_THREADS"] = "1"

EXAMPLES = int(os.environ.get("GENLABEL_EXAMPLES", "40"))
settings.register_profile(
    "genlabel", deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("genlabel")


@contextmanager
def _refuse_to_wait() -> Iterator[None]:
    """Make every wait for the GPU inside an error."""
    import torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Synchronization debug mode")
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.fixture
def nothing_waits() -> Callable[[], AbstractContextManager[None]]:
    """A context in which to wait for the GPU is an error; skips where there is none."""
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    return _refuse_to_wait
