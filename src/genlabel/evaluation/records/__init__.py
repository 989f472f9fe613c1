"""Records of what was trained: cells and the trials that hold them, one store, one runner, one export, one pivot."""

from genlabel.evaluation.records.exports import RecordSet, export_records, load_records, read_records
from genlabel.evaluation.records.fingerprints import describe, fingerprint
from genlabel.evaluation.records.fits import COMPARISON, Fit
from genlabel.evaluation.records.run import TrialFunction, check_dask_scheduler, run_trials, software_versions
from genlabel.evaluation.records.schema import Record, RecordSchema, RunKey, trials
from genlabel.evaluation.records.store import Store, check_store, make_frame, open_store

__all__ = [
    "COMPARISON",
    "Fit",
    "Record",
    "RecordSchema",
    "RecordSet",
    "RunKey",
    "Store",
    "TrialFunction",
    "check_dask_scheduler",
    "check_store",
    "describe",
    "export_records",
    "fingerprint",
    "load_records",
    "make_frame",
    "open_store",
    "read_records",
    "run_trials",
    "software_versions",
    "trials",
]
