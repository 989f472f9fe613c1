"""Records of runs: keys and schemas, stores, exports, fingerprints, and the runner that skips recorded runs."""

from genlabel.evaluation.records.exports import export_records, load_records, read_records
from genlabel.evaluation.records.fingerprints import fingerprint
from genlabel.evaluation.records.run import run_trials
from genlabel.evaluation.records.schema import Record, RecordSchema, RunKey
from genlabel.evaluation.records.sqlite_store import SQLiteStore
from genlabel.evaluation.records.store import STORES, RecordSet, RecordStore, open_store

__all__ = [
    "STORES",
    "Record",
    "RecordSchema",
    "RecordSet",
    "RecordStore",
    "RunKey",
    "SQLiteStore",
    "export_records",
    "fingerprint",
    "load_records",
    "open_store",
    "read_records",
    "run_trials",
]
