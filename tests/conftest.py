"""Shared settings: hypothesis without deadlines (the machines are noisy); GENLABEL_EXAMPLES asks for more examples."""

import os

from hypothesis import HealthCheck, settings

EXAMPLES = int(os.environ.get("GENLABEL_EXAMPLES", "40"))
settings.register_profile(
    "genlabel", deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("genlabel")
