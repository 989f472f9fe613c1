"""Shared settings: hypothesis without deadlines (the machines are noisy)."""

from hypothesis import HealthCheck, settings

settings.register_profile("genlabel", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("genlabel")
