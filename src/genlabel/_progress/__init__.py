"""Progress of long fits, for whoever listens: a terminal, a log, a command, a test; and how long they may take."""

from genlabel._progress.display import epoch_callback_for, progress_bar, track_fit
from genlabel._progress.epoch_callback import EpochCallback, epoch_callback
from genlabel._progress.fit_progress import (
    FitProgress,
    ProgressCallback,
    ProgressEvent,
    out_of_time,
    progress_callback,
    report_progress,
    report_truncation,
)

__all__ = [
    "EpochCallback",
    "FitProgress",
    "ProgressCallback",
    "ProgressEvent",
    "epoch_callback",
    "epoch_callback_for",
    "out_of_time",
    "progress_bar",
    "progress_callback",
    "report_progress",
    "report_truncation",
    "track_fit",
]
