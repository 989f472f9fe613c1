"""The section of the comparison: methods by log-loss with intervals, all scores, and who is better than whom."""

from __future__ import annotations

from math import isnan

import pandas as pd

from genlabel.evaluation.comparison import PRIOR_BASELINE, interval
from genlabel.reporting.blocks import data_table, figure
from genlabel.reporting.charts import Interval, interval_plot
from genlabel.reporting.html import Cell
from genlabel.reporting.markup import Markup, element
from genlabel.reporting.report.given import ARMS, ReportData, ReportSection, count, listed, signed

SCORES = {
    "log_loss": ("log-loss", 4),
    "accuracy": ("accuracy %", 2),
    "balanced_accuracy": ("balanced %", 1),
    "auc": ("AUC", 3),
    "brier": ("Brier", 3),
    "calibration_error": ("calibration error", 3),
    "seconds": ("s a fit", 2),
}
OTHERS = 7
"""The colour of methods that are none of the three arms."""


def method_part(given: ReportData) -> ReportSection | None:
    """Return the section; None without a comparison."""
    if given.results is None:
        return None
    inside = [_figure(given, given.results), _scores(given, given.results), _pairs(given)]
    return ReportSection("methods", "The methods side by side", inside)


def method_color(name: str) -> int:
    """Return the place of a method's colour."""
    return ARMS.index(name) if name in ARMS else OTHERS


def _figure(given: ReportData, results: pd.DataFrame) -> Markup:
    """Log-losses, without the class shares, which lie far from the others."""
    shown = [name for name in given.ranking if name != PRIOR_BASELINE] or given.ranking
    rows = []
    for name in shown:
        values = results.loc[results["method"] == name, "log_loss"]
        low, high = interval(values, given.test_size) if len(values) > 1 else (float("nan"), float("nan"))
        rows.append(Interval(name, float(values.mean()), low, high, method_color(name)))
    said = _said(given)
    drawn = interval_plot("Held-out log-loss of the methods", said, rows, "held-out log-loss in nats, lower is better")
    return figure(drawn, said)


def _said(given: ReportData) -> str:
    best, near = given.best, given.near
    shares = given.mean(PRIOR_BASELINE, "log_loss")
    words = f"{best} has the lowest log-loss, {given.mean(best, 'log_loss'):.3f} nats"
    noise = f"; {listed(near)} {'is' if len(near) == 1 else 'are'} within noise of it. " if near else ", clearly. "
    words += noise if given.splits > 1 else "; one split tells no noise. "
    if not isnan(shares):
        words += f"The class shares, which do not look at the features, have {shares:.3f}. "
    if given.splits > 1:
        words += (
            f"Lines are 95 % intervals of the mean over {given.splits} splits; methods share the splits, so lines that "
            "overlap may still differ: the pairs below tell."
        )
    return words


def _scores(given: ReportData, results: pd.DataFrame) -> Markup:
    names = [name for name in SCORES if name in results]
    rows: list[list[str | Cell]] = [
        [name, *(_score(given, results, name, score) for score in names)] for name in given.ranking
    ]
    best = [given.ranking.index(given.best)]
    head = ["method", *(SCORES[name][0] for name in names)]
    caption = f"Mean over {count(given.splits, 'split')}, ± standard deviation; the marked row has the lowest log-loss"
    return data_table(caption, head, rows, best=best, sorted_by=1)


def _score(given: ReportData, results: pd.DataFrame, method: str, score: str) -> Cell:
    values, digits = results.loc[results["method"] == method, score], SCORES[score][1]
    if values.isna().all():
        return Cell("", float("nan"))
    spread = f" ± {values.std():.{digits}f}" if len(values) > 1 and score in ("log_loss", "accuracy") else ""
    return Cell(f"{values.mean():.{digits}f}{spread}", float(values.mean()))


def _pairs(given: ReportData) -> Markup:
    pairs = given.plain["pairs"]
    if not pairs:
        return element("p", "There is one method, and nothing to pair it with.")
    rows = [
        [
            pair["method"],
            pair["other"],
            Cell(f"{pair['better']} of {pair['splits']}", pair["better"]),
            Cell(signed(pair["gain"], 4), pair["gain"]),
            Cell("" if pair["low"] is None else f"{signed(pair['low'], 4)} to {signed(pair['high'], 4)}", pair["low"]),
            _verdict(pair["low"], pair["high"]),
        ]
        for pair in pairs
    ]
    head = ["method", "against", "better on", "gain, nats", "95 % interval", "so it is"]
    caption = "Pairs on the same splits: the gain is how much lower the log-loss of the first is"
    return data_table(caption, head, rows, words=[1, 5])


def _verdict(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "not to be told"
    return "better" if low > 0 else "worse" if high < 0 else "within noise"
