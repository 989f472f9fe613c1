"""Shared settings: one thread a test, and hypothesis without deadlines (the machines are noisy).

A second thread buys these small problems nothing, and it starves a second worker (`pytest -n`). The variables are read
when numpy and torch are imported; workers and the commands that tests start inherit them. GENLABEL_EXAMPLES asks for
more examples.
"""

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

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


_IN_A_PROCESS = """
import sys
import torch
folder, rank = sys.argv[1], int(sys.argv[2])
torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
given, left = torch.load(f"{folder}/given.pt"), {}
"""
_AT_ITS_END = """
torch.save(left, f"{folder}/left{rank}.pt")
torch.distributed.destroy_process_group()
"""


@pytest.fixture
def in_two_processes(tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Runs a text of Python in two processes that are joined by gloo, and returns what each put into `left`.

    In the text, `rank` is 0 or 1, and `given` what the call was given by name.
    """
    import torch

    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("needs torch.distributed with gloo")

    def run(text: str, **given: Any) -> list[dict[str, Any]]:
        torch.save(given, tmp_path / "given.pt")
        code = _IN_A_PROCESS + dedent(text) + _AT_ITS_END
        words = [[sys.executable, "-c", code, str(tmp_path), str(rank)] for rank in range(2)]
        running = [subprocess.Popen(word, stderr=subprocess.PIPE, text=True) for word in words]
        said = [process.communicate(timeout=120)[1] for process in running]
        assert [process.returncode for process in running] == [0, 0], "\n".join(said)
        return [torch.load(tmp_path / f"left{rank}.pt") for rank in range(2)]

    return run
