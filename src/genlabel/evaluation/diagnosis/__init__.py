"""Diagnosis: whether mixing helps on a table, which labels the mixed samples should have, and why."""

from genlabel.evaluation.diagnosis.diagnose import diagnose
from genlabel.evaluation.diagnosis.result import Diagnosis

__all__ = ["Diagnosis", "diagnose"]
