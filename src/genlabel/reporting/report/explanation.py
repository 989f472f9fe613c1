"""Section of the report on the columns that move the predictions for held-out rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from genlabel._text import count_of
from genlabel.evaluation.explanation import Explanation
from genlabel.reporting.charts import GRAY, Bar, draw_bars, new_figure
from genlabel.reporting.html import name_of
from genlabel.reporting.report.data import Chart, ReportSection

MAX_BARS = 12
"""Columns with a bar of their own; the others have one together."""


def explanation_section(explanation: Explanation) -> ReportSection:
    """Return the section with the mean absolute contribution of each column, on the probability scale."""
    points = 100.0 * explanation.mean_absolute
    order = np.argsort(-points, kind="stable")
    shown, rest = order[:MAX_BARS], order[MAX_BARS:]
    bars = [Bar(explanation.columns[j], float(points[j]), f"{points[j]:.1f}") for j in shown]
    if len(rest):
        total = float(points[rest].sum())
        bars.append(Bar(count_of(len(rest), "other column"), total, f"{total:.1f}", GRAY))
    n_rows = count_of(len(explanation.values), "row")
    first, background = explanation.columns[order[0]], count_of(explanation.n_background, "training row")
    text = (
        f"For {n_rows} that {explanation.model} was not trained on: how many points of "
        f"probability each column moves between the classes on average, compared with {background}. "
        f"{name_of(first)} moves most: {points[order[0]]:.1f} points."
    )
    limits = (
        "A bar says what the model uses, not what causes the outcome. Columns that say the same share their bars. "
        "If a column with a long bar is known only after the outcome, the scores above are too good. "
        "For the reasons behind single predictions: genlabel explain."
    )
    figure = new_figure(4.2, 0.9 + 0.27 * len(bars))
    draw_bars(figure.subplots(), bars, "percentage points")
    chart = Chart(figure, "Which columns move the predictions", "Mean absolute contribution (Shapley values).")
    return ReportSection("columns", "Which columns move the predictions?", [text, chart, limits])


def explanation_dict(explanation: Explanation) -> dict[str, Any]:
    """Return the values of the section as plain values."""
    shares = dict(zip(explanation.columns, explanation.mean_absolute.tolist(), strict=True))
    return {
        "model": explanation.model,
        "rows": len(explanation.values),
        "background_rows": explanation.n_background,
        "mean_absolute": shares,
    }
