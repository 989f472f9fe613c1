"""Records of runs: keys and schemas, stores, fingerprints, and the runner that skips recorded runs."""

from genlabel.evaluation.records.fingerprints import fingerprint
from genlabel.evaluation.records.run import run_trials
from genlabel.evaluation.records.schema import Record, RecordSchema
from genlabel.evaluation.records.store import RecordStore, open_store

__all__ = ["Record", "RecordSchema", "RecordStore", "fingerprint", "open_store", "run_trials"]
