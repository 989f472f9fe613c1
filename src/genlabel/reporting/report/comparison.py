"""Section of the comparison: methods with intervals, all scores, and pairs on the same splits."""

from __future__ import annotations

from math import isnan

import pandas as pd

from genlabel.evaluation.comparison.run import PRIOR_BASELINE
from genlabel.evaluation.comparison.verdict import accuracy_in_percent
from genlabel.reporting.figures import plot_comparison
from genlabel.reporting.html import DataTable, Row, TableCell
from genlabel.reporting.report.data import Block, Chart, ReportData, ReportSection
from genlabel.reporting.words import count_of, list_names, signed

SCORES = {
    "log_loss": ("log-loss", 4),
    "accuracy": ("accuracy %", 2),
    "balanced_accuracy": ("balanced %", 1),
    "auc": ("AUC", 3),
    "brier": ("Brier", 3),
    "calibration_error": ("calibration error", 3),
    "seconds": ("s per fit", 2),
}
"""Title and digits of each score."""


def comparison_section(data: ReportData) -> ReportSection | None:
    """Return the section; None without a comparison."""
    if data.results is None:
        return None
    pairs: Block = (
        _pair_table(data) if data.comparison["pairs"] else "There is one method, and none to compare it with."
    )
    return ReportSection(
        "methods", "The methods side by side", [_chart(data, data.results), _score_table(data, data.results), pairs]
    )


def _chart(data: ReportData, results: pd.DataFrame) -> Chart:
    """Draw all methods but the prior baseline, which lies far from the others."""
    shown = [name for name in data.ranking if name != PRIOR_BASELINE] or data.ranking
    ordered = pd.concat([results[results["method"] == name] for name in shown])
    best, near, prior = data.best, data.near, data.mean(PRIOR_BASELINE, "log_loss")
    caption = f"{best} has the lowest log-loss, {data.mean(best, 'log_loss'):.3f} nats"
    noise = f"; {list_names(near)} {'is' if len(near) == 1 else 'are'} within noise of it. " if near else ", clearly. "
    caption += noise if data.n_splits > 1 else "; one split shows no noise. "
    if not isnan(prior):
        caption += f"The prior baseline, which does not use the features, has {prior:.3f}. "
    if data.n_splits > 1:
        caption += (
            f"Lines are 95 % intervals of the mean over {data.n_splits} splits; methods share the splits, so methods "
            "whose lines overlap may still differ: see the pairs below."
        )
    return Chart(plot_comparison(ordered, test_size=data.test_size), "Scores of the methods", caption)


def _score_table(data: ReportData, results: pd.DataFrame) -> DataTable:
    results = accuracy_in_percent(results)
    scores = [name for name in SCORES if name in results]
    rows: list[Row] = [[name, *(_score_cell(results, name, score) for score in scores)] for name in data.ranking]
    caption = (
        f"Mean over {count_of(data.n_splits, 'split')}, ± standard deviation; the marked row has the lowest log-loss"
    )
    head = ["method", *(SCORES[name][0] for name in scores)]
    return DataTable(caption, head, rows, best=[data.ranking.index(data.best)], sorted_by=1)


def _score_cell(results: pd.DataFrame, method: str, score: str) -> TableCell:
    values, digits = results.loc[results["method"] == method, score], SCORES[score][1]
    if values.isna().all():
        return TableCell("", float("nan"))
    spread = f" ± {values.std():.{digits}f}" if len(values) > 1 and score in ("log_loss", "accuracy") else ""
    return TableCell(f"{values.mean():.{digits}f}{spread}", float(values.mean()))


def _pair_table(data: ReportData) -> DataTable:
    rows: list[Row] = []
    for pair in data.comparison["pairs"]:
        low, high = pair["low"], pair["high"]
        known = low is not None and high is not None
        interval = f"{signed(low, 4)} to {signed(high, 4)}" if known else ""
        result = ("better" if low > 0 else "worse" if high < 0 else "within noise") if known else "unknown"
        better = TableCell(f"{pair['better']} of {pair['splits']}", pair["better"])
        gain = TableCell(signed(pair["gain"], 4), pair["gain"])
        rows.append([pair["method"], pair["other"], better, gain, TableCell(interval, low), result])
    head = ["method", "other", "better on", "gain, nats", "95 % interval", "result"]
    caption = "Pairs on the same splits; the gain is the log-loss of the other less that of the method"
    return DataTable(caption, head, rows, words=[1, 5])
