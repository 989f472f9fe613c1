"""Records of runs: keys and schemas, stores, exports, fingerprints, and the runner that skips recorded runs."""

from genlabel.evaluation.records.exports import export_records, load_records, read_records
from genlabel.evaluation.records.fingerprints import fingerprint
from genlabel.evaluation.records.run import TrialFunction, check_dask_scheduler, run_trials, software_versions
from genlabel.evaluation.records.schema import COMPARISON, Fit, Record, RecordSchema, RunKey
from genlabel.evaluation.records.sqlite_store import SQLiteStore
from genlabel.evaluation.records.store import STORES, RecordSet, RecordStore, check_store, make_frame, open_store

__all__ = [
    "COMPARISON",
    "STORES",
    "Fit",
    "Record",
    "RecordSchema",
    "RecordSet",
    "RecordStore",
    "RunKey",
    "SQLiteStore",
    "TrialFunction",
    "check_dask_scheduler",
    "check_store",
    "export_records",
    "fingerprint",
    "load_records",
    "make_frame",
    "open_store",
    "read_records",
    "run_trials",
    "software_versions",
]
