"""The section of the verdict on mixing: the paired run, and whether the stacked density is trusted."""

from __future__ import annotations

from math import isnan

from genlabel.evaluation.diagnosis import Diagnosis, PairedExperiment
from genlabel.reporting.blocks import data_table, figure, item_list
from genlabel.reporting.charts import Bar, Interval, bar_chart, interval_plot
from genlabel.reporting.html import Cell
from genlabel.reporting.markup import Markup, element
from genlabel.reporting.report.given import ARMS, ReportData, ReportSection, count, listed, number_cell

PAIRED = (
    "Three networks that differ in what they are trained on: rows; rows and blends with mixup's labels; the same with "
    "the stacked density's labels. All choose among the same settings, on the same folds."
)


def mixing_part(given: ReportData) -> ReportSection | None:
    """Return the section of the verdict on mixing and its reasons; None without a diagnosis."""
    diagnosis = given.diagnosis
    if diagnosis is None:
        return None
    if diagnosis.trial is None:
        return ReportSection("mixing", "Would mixing help", [item_list(diagnosis.verdict.reasons), _trust(diagnosis)])
    inside = [element("p", PAIRED), _trial_figure(diagnosis.trial), _trial_table(diagnosis.trial), _trust(diagnosis)]
    return ReportSection("mixing", "Would mixing help: a paired run", inside)


def _trial_figure(trial: PairedExperiment) -> Markup:
    rows = [
        Interval(name, gap.mean, gap.low, gap.high, ARMS.index(name.split(" over ")[0]))
        for name, gap in trial.gains.items()
    ]
    clear = [name for name, gap in trial.gains.items() if gap.low > 0 or gap.high < 0]
    said = (
        f"Right of zero is better: {listed(clear)} {'is' if len(clear) == 1 else 'are'} clear of the noise. "
        if clear
        else "All intervals hold zero: nothing differs beyond the noise. "
    )
    said += f"{count(trial.rows, 'row')} were held out once each, in {trial.folds} folds; "
    said += f"vanilla has log-loss {trial.log_loss['vanilla']:.3f}."
    drawn = interval_plot("Gains of the paired run", said, rows, "gain in held-out log-loss, nats", zero=True)
    return figure(drawn, said)


def _trial_table(trial: PairedExperiment) -> Markup:
    rows: list[list[str | Cell]] = []
    for name in ARMS:
        more = [trial.affinity.get(name, float("nan")), trial.diversity.get(name, float("nan"))]
        numbers = [(trial.log_loss[name], 4), (100 * trial.accuracy[name], 1), *((value, 2) for value in more)]
        rows.append([name, *(number_cell(value, digits) for value, digits in numbers)])
    caption = (
        "Networks alone. Affinity: accuracy of vanilla on blends over that on rows; diversity: training loss on blends "
        "over that on rows. Neither alone tells the gain."
    )
    return data_table(caption, ["arm", "log-loss", "accuracy %", "affinity", "diversity"], rows)


def _trust(diagnosis: Diagnosis) -> Markup:
    trust = diagnosis.trust
    if isnan(trust.label_model):
        return element("p", f"{'; '.join(trust.reasons)}.")
    bars = [
        Bar("stacked density", trust.label_model, f"{trust.label_model:.3f}", 2),
        Bar("logistic regression", trust.plain, f"{trust.plain:.3f}", 7),
        Bar("class shares", trust.shares, f"{trust.shares:.3f}", 7),
    ]
    word = "can be trusted" if trust.trusted else "cannot be trusted"
    said = (
        f"The stacked density {word} here: its held-out log-loss is {trust.label_model:.3f} on "
        f"{count(trust.rows, 'row')}, that of logistic regression {trust.plain:.3f}, "
        f"that of the class shares {trust.shares:.3f}."
    )
    return figure(
        bar_chart("Can the stacked density be trusted", said, bars, "held-out log-loss in nats, lower is better"), said
    )
