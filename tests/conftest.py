"""Shared settings: one thread a test, and hypothesis without deadlines (the machines are noisy).

A second thread buys these small problems nothing, and it starves a second worker (`pytest -n`). The variables are read
when numpy and torch are imported; workers and the commands that tests start inherit them. GENLABEL_EXAMPLES asks for
more examples.
"""

import os

from hypothesis import HealthCheck, settings

for library in ("OMP", "MKL", "OPENBLAS"):
    os.environ[f"{library}_NUM_THREADS"] = "1"

EXAMPLES = int(os.environ.get("GENLABEL_EXAMPLES", "40"))
settings.register_profile(
    "genlabel", deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("genlabel")
