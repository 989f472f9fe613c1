"""Protocols of the tabular study: the paper's own, and that of the last epoch, under which the tables are shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from genlabel_paper.runs.cells import BUDGETS, READING_MARK, Cell, join_reading
from genlabel_paper.runs.readings import BASES, MAX_SEEDS, OURS, READINGS, SELECTION_RULES, has_text


class Protocol(NamedTuple):
    """Protocol of training and selection."""

    key: str
    title: str
    about: str
    trials: int
    """Splits times seeds of the full budget."""


_SPLITS, _SEEDS = BUDGETS["full"].splits, BUDGETS["full"].seeds
PAPER = Protocol(
    "paper",
    "the paper's own protocol",
    "the best epoch by accuracy on validation rows, a sixth of the training rows (under attack every fifth epoch), and "
    "strings as codes",
    _SPLITS * MAX_SEEDS,
)
"""Protocol of the text.

"We measured the clean validation accuracy at each epoch and choose the best model" and "the robust validation accuracy
at every 5 epochs" (arXiv Section E.2). The data are those of OpenML's Python API (the same section), whose `get_data`
encoded categorical columns as numbers until its version 0.11 (openml-python issues 408 and 973); of all readings of the
records it is the nearest to print (docs/multiverse.md).

NOTE[PAPER]: which rows validate is not printed; a test part would be the other reading, which nothing here needs.
"""
LAST = Protocol(
    "last",
    "an honest protocol of today",
    "the last epoch of networks trained on all training rows, learning rate, gamma and density by 6 folds, and strings "
    "one-hot",
    _SPLITS * _SEEDS,
)
"""Protocol of the settings of `genlabel_paper.runs.table_settings`: no row chooses an epoch."""
PROTOCOLS = (PAPER, LAST)
_RULE = next(rule for rule in SELECTION_RULES if (rule.epoch, rule.choice) == ("validation", "cv"))


def depends_on_protocol(cells: Iterable[Cell]) -> bool:
    """Return whether cells differ between the protocols: those of tables and points, without a reading.

    >>> depends_on_protocol([Cell("logistic", "61", "mixup", 0, 0)]), depends_on_protocol([])
    (True, False)
    """
    return any(cell.setting in BASES for cell in cells)


def paper_cells(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells of the paper's own protocol that belong to cells of the last epoch.

    >>> [cell.id for cell in paper_cells([Cell("mlp", "804", "mixup", 0, seed) for seed in (2, 3)])]
    ['mlp@codes/804/mixup/alpha=1/split=0/seed=2']
    """
    return [
        replace(cell, setting=join_reading(cell.setting, _reading(cell.dataset)))
        for cell in cells
        if cell.setting in BASES and cell.seed < MAX_SEEDS
    ]


def with_paper_cells(cells: Iterable[Cell]) -> list[Cell]:
    """Return cells with those of the paper's own protocol, each once."""
    every = list(cells)
    return list(dict.fromkeys(every + paper_cells(every)))


def under_protocol(records: pd.DataFrame, protocol: Protocol) -> pd.DataFrame:
    """Return records as those of the last epoch are: under the paper's protocol its accuracies take their place.

    Records of other settings, such as images, stay as they are. A generative classifier has no epochs; its accuracy on
    training rows is that of the last-epoch records where the others lack it.

    >>> rows = [("mlp", 0.7, np.nan), ("mlp@ours", np.nan, 0.8)]
    >>> records = pd.DataFrame(rows, columns=["setting", "accuracy", "validation/cv"]).assign(dataset="61", alpha=1.0)
    >>> under_protocol(records.assign(method="mixup", split=0, seed=0), PAPER)[["setting", "accuracy"]].values.tolist()
    [['mlp', 0.8]]
    """
    if protocol == LAST or "setting" not in records or _RULE.key not in records:
        return records if protocol == LAST else records.iloc[:0]
    base, _, reading = (records["setting"].str.partition(READING_MARK)[part] for part in range(3))
    readings = records["dataset"].map({name: _reading(name) for name in records["dataset"].unique()})
    chosen = records[(reading == readings) & base.isin(BASES) & records[_RULE.key].notna()]
    robust = base[chosen.index].str.endswith("-robust")
    accuracy = chosen[_RULE.key]
    chosen = chosen.assign(
        setting=base[chosen.index],
        accuracy=accuracy.where(~robust, np.nan),
        robust_accuracy=accuracy.where(robust, np.nan),
        train_accuracy=_training_accuracies(records, chosen.assign(setting=base[chosen.index])),
    )
    return pd.concat([chosen, records[~base.isin(BASES)]], ignore_index=True)


def records_by_protocol(records: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the records under each protocol, by its key.

    >>> list(records_by_protocol(pd.DataFrame()))
    ['paper', 'last']
    """
    return {protocol.key: under_protocol(records, protocol) for protocol in PROTOCOLS}


def _training_accuracies(records: pd.DataFrame, chosen: pd.DataFrame) -> pd.Series[float]:
    """Return the accuracies on training rows of chosen records, or of the last-epoch records of the same trials."""
    own = chosen.get("train_accuracy", pd.Series(np.nan, chosen.index))
    if "train_accuracy" not in records:
        return own
    keys = ["setting", "dataset", "method", "split", "seed"]
    known = records[records["train_accuracy"].notna() & (records["alpha"] == 1.0)].drop_duplicates(keys)
    others = known.set_index(keys)["train_accuracy"].reindex(pd.MultiIndex.from_frame(chosen[keys]))
    return own.fillna(pd.Series(others.to_numpy(), chosen.index))


def _reading(dataset: str) -> str:
    """Return the reading under which the paper's protocol trains a dataset: codes change only those with strings."""
    return READINGS["codes"].name if has_text(dataset) else OURS.name
