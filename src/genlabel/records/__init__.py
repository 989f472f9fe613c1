"""Records of what was trained: cells and the trials that hold them, one store, one runner, one export, one pivot."""

from genlabel.records.cells import AnyCell, Record, RecordKind, trials
from genlabel.records.exports import Kept, export_records, load_records, read_records
from genlabel.records.fingerprints import describe, fingerprint
from genlabel.records.fits import COMPARISON, SUITE, Fit
from genlabel.records.pairs import EXACT, Wins, count_wins, mean_scores, pair_trials
from genlabel.records.run import Counts, Outcome, Work, check_cluster, run_cells, software_versions
from genlabel.records.store import Store, check_store, make_frame, open_store

__all__ = [
    "COMPARISON",
    "EXACT",
    "SUITE",
    "AnyCell",
    "Counts",
    "Fit",
    "Kept",
    "Outcome",
    "Record",
    "RecordKind",
    "Store",
    "Wins",
    "Work",
    "check_cluster",
    "check_store",
    "count_wins",
    "describe",
    "export_records",
    "fingerprint",
    "load_records",
    "make_frame",
    "mean_scores",
    "open_store",
    "pair_trials",
    "read_records",
    "run_cells",
    "software_versions",
    "trials",
]
