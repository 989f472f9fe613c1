"""Diagnosis: whether mixing helps on a table, which labels the mixed samples should have, and why."""

from genlabel.evaluation.diagnosis.density_check import DensityCheck
from genlabel.evaluation.diagnosis.diagnose import diagnose
from genlabel.evaluation.diagnosis.mixed_samples import MixedSampleStats
from genlabel.evaluation.diagnosis.paired_experiment import PairedExperiment
from genlabel.evaluation.diagnosis.result import Diagnosis
from genlabel.evaluation.diagnosis.verdict import DiagnosisVerdict

__all__ = ["DensityCheck", "Diagnosis", "DiagnosisVerdict", "MixedSampleStats", "PairedExperiment", "diagnose"]
