"""Diagnosis: whether mixing helps on a table, which labels the mixed samples should have, and why."""

from genlabel.evaluation.diagnosis.diagnose import Diagnosis, diagnose

__all__ = ["Diagnosis", "diagnose"]
