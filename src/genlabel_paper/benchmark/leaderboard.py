"""Leaderboard of the benchmark: records of others next to ours, checked to be of the same held-out rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from genlabel._atomic_io import atomic_write
from genlabel.evaluation.records.schema import RecordSet
from genlabel_paper.benchmark.schema import BENCHMARK
from genlabel_paper.benchmark.sections import Section
from genlabel_paper.benchmark.statistics import METRICS, count_worse_than_prior, dataset_means
from genlabel_paper.exports import load_records
from genlabel_paper.paired import count_wins

SAME_ROWS = ("n", "d", "k", "shares_log_loss")
"""Columns that are equal if two records have the same table and the same training and held-out labels."""
ROUNDING = 1e-3
"""Largest difference of equal values in two exports, which round them."""
LIMITS = {"accuracy": (0.0, 1.0), "log_loss": (0.0, np.inf), "brier": (0.0, 2.0), "calibration_error": (0.0, 1.0)}


def add_record(path: Path, folder: Path, reference: RecordSet) -> list[str]:
    """Check an export of others against the reference, copy it into the folder, and return its methods."""
    export = load_records(path, BENCHMARK)
    present = pd.concat([reference.frame, load_leaderboard(folder)])
    check_record(export, reference._replace(frame=present))
    if (folder / path.name).exists():
        raise ValueError(f"the leaderboard has a file {path.name!r}; give the export another name")
    atomic_write(folder / path.name, path.read_bytes())
    return list(export.frame["method"].unique())


def load_leaderboard(folder: Path) -> pd.DataFrame:
    """Return the records of all exports of a folder; none if it has no export."""
    return load_records(folder, BENCHMARK).frame if list(folder.glob("*.json")) else pd.DataFrame()


def check_record(export: RecordSet, reference: RecordSet) -> None:
    """Raise unless the records have new methods, possible scores, and the held-out rows of the reference."""
    frame = export.frame
    for name in ("seed", "test_size"):
        if export.settings.get(name) != reference.settings.get(name):
            value, ours = export.settings.get(name), reference.settings.get(name)
            raise ValueError(f"the record has {name} {value}, the benchmark {ours}; make it with the benchmark's")
    taken = set(frame["method"]) & set(reference.frame["method"])
    if taken:
        raise ValueError(f"the leaderboard has a method {sorted(taken)[0]!r}; give yours another name")
    for name, (low, high) in LIMITS.items():
        wrong = frame[~(np.isfinite(frame[name]) & frame[name].between(low, high))]
        if len(wrong):
            raise ValueError(f"{wrong['id'].iloc[0]!r} has {name} {wrong[name].iloc[0]}, which is not possible")
    rows = {(row["dataset"], row["split"]): row for row in reference.frame.to_dict("records")}
    for row in frame.to_dict("records"):
        fit = row["dataset"], row["split"]
        if fit not in rows:
            raise ValueError(f"{row['id']!r} is not a fit of the benchmark; leave it out")
        for name in SAME_ROWS:
            value, ours = float(row[name]), float(rows[fit][name])
            if not abs(value - ours) <= ROUNDING:
                hint = "fit it on the rows of make_splits, see the page of the leaderboard"
                raise ValueError(f"{row['id']!r} has {name} {value:g}, the benchmark {ours:g}; {hint}")


def leaderboard(records: pd.DataFrame, reference: str = "default") -> Section:
    """Return the methods by their mean log-loss above that of the reference on the datasets that both have.

    >>> scores = {"log_loss": [0.3, 0.2], "accuracy": [0.8, 0.9], "shares_log_loss": 0.7}
    >>> fits = {"dataset": 1, "split": 0, "method": ["default", "mine"], "seconds": 1.0, "predict_seconds": 0.0}
    >>> records = pd.DataFrame(fits | scores)
    >>> leaderboard(records).rows["log-loss"].to_dict()
    {'mine': '-0.1000', 'default': '0'}
    """
    lines = [
        f"log-loss, accuracy: means over the datasets that a method and {reference} have, less those of {reference}",
        f"lower, same, higher: datasets by log-loss; the same is within {METRICS['log_loss'].tie:g} nats",
        "seconds: median of fit and prediction, on the machine of who sent the record",
    ]
    accidents, rows = count_worse_than_prior(records), {}
    for method, fits in records.groupby("method", sort=False):
        name = str(method)
        pair = list(dict.fromkeys([reference, name]))
        common = records[records["method"].isin(pair)].merge(fits[["dataset", "split"]])
        losses, accuracies = (dataset_means(common, metric, pair) for metric in ("log_loss", "accuracy"))
        loss, accuracy = (float((means[name] - means[reference]).mean()) for means in (losses, accuracies))
        counts = count_wins(losses[reference] - losses[name], METRICS["log_loss"].tie)
        rows[name] = {
            "datasets": str(len(losses)),
            "log-loss": f"{loss:+.4f}",
            "accuracy": f"{accuracy:+.2f}",
            "lower": str(counts.better),
            "same": str(counts.tie),
            "higher": str(counts.worse),
            "accidents": f"{accidents[name]} of {len(fits)}",
            "seconds": f"{(fits['seconds'] + fits['predict_seconds']).median():.3g}",
            "order": loss,
        }
    table = pd.DataFrame.from_dict(rows, orient="index").sort_values("order", kind="stable").drop(columns="order")
    table.loc[reference, ["log-loss", "accuracy", "lower", "same", "higher"]] = ["0", "0", "", "", ""]
    table.index.name = "method"
    return Section("Leaderboard", table, lines)
