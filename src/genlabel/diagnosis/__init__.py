"""Diagnosis: would mixing help on a table, whose labels should the blends have, and why."""

from genlabel.diagnosis.blends import Blended
from genlabel.diagnosis.examination import diagnose
from genlabel.diagnosis.result import Diagnosis
from genlabel.diagnosis.trial import Trial
from genlabel.diagnosis.trust import Trust
from genlabel.diagnosis.verdict import Verdict

__all__ = ["Blended", "Diagnosis", "Trial", "Trust", "Verdict", "diagnose"]
