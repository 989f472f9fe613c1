"""Sections of the diagnosis: the paired experiment, the check of the stacked density, where mixed samples land."""

from __future__ import annotations

from math import isnan

from genlabel.evaluation.diagnosis import Diagnosis
from genlabel.evaluation.diagnosis.mixed_samples import MixedSampleStats
from genlabel.evaluation.diagnosis.paired_experiment import PairedExperiment
from genlabel.evaluation.diagnosis.verdict import overall_stats
from genlabel.reporting.charts import heat_map_figure
from genlabel.reporting.diagnosis_figures import (
    MAX_CLASSES,
    draw_density_check,
    draw_gains,
    draw_intrusion,
)
from genlabel.reporting.figures import ARM_COLORS, new_figure
from genlabel.reporting.html import DataTable, Row, TableCell
from genlabel.reporting.report.data import Block, Chart, ReportData, ReportSection
from genlabel.reporting.words import count_of, list_names, name_of, number_cell, percent

MAX_PAIR_ROWS = 200
INTRODUCTION = (
    "Three networks that differ in their training data: rows; rows and mixed samples with mixup's labels; the same "
    "with the stacked density's labels. All choose among the same settings, on the same folds."
)


def mixing_section(data: ReportData) -> ReportSection | None:
    """Return the section about the verdict; None without a diagnosis."""
    diagnosis = data.diagnosis
    if diagnosis is None:
        return None
    if diagnosis.experiment is None:
        return ReportSection("mixing", "Would mixing help", [diagnosis.verdict.reasons, _density_check(diagnosis)])
    experiment = diagnosis.experiment
    blocks: list[Block] = [INTRODUCTION, _gain_chart(experiment), _arm_table(experiment), _density_check(diagnosis)]
    return ReportSection("mixing", "Would mixing help: a paired experiment", blocks)


def _gain_chart(experiment: PairedExperiment) -> Chart:
    clear = [name for name, gain in experiment.gains.items() if gain.low > 0 or gain.high < 0]
    caption = (
        f"Right of zero is better: {list_names(clear)} {'is' if len(clear) == 1 else 'are'} clear of the noise. "
        if clear
        else "All intervals contain zero: no difference beyond the noise. "
    )
    caption += f"{count_of(experiment.rows, 'row')} were held out once each, in {experiment.folds} folds."
    figure = new_figure(7.2, 2.9)
    draw_gains(figure.subplots(), experiment)
    return Chart(figure, "Gains in the paired experiment", caption)


def _arm_table(experiment: PairedExperiment) -> DataTable:
    rows: list[Row] = []
    for arm in ARM_COLORS:
        mixed = [(one.get(arm, float("nan")), 2) for one in (experiment.affinity, experiment.diversity)]
        values = [(experiment.log_loss[arm], 4), (100 * experiment.accuracy[arm], 1), *mixed]
        rows.append([arm, *(number_cell(value, digits) for value, digits in values)])
    caption = (
        "Networks alone. Affinity: accuracy of vanilla on mixed samples over that on rows; diversity: training loss on "
        "mixed samples over that on rows. Neither alone predicts the gain."
    )
    return DataTable(caption, ["arm", "log-loss", "accuracy %", "affinity", "diversity"], rows)


def _density_check(diagnosis: Diagnosis) -> Block:
    check = diagnosis.density_check
    if isnan(check.density):
        return f"{'; '.join(check.reasons)}."
    figure = new_figure(7.2, 2.5)
    draw_density_check(figure.subplots(), check)
    caption = (
        f"The stacked density {'can' if check.trusted else 'cannot'} be trusted here: its held-out log-loss is "
        f"{check.density:.3f} on {count_of(check.rows, 'row')}, that of logistic regression {check.logistic:.3f}, that "
        f"of the class priors {check.prior:.3f}."
    )
    return Chart(figure, "Can the stacked density be trusted", caption)


def intrusion_section(data: ReportData) -> ReportSection | None:
    """Return the section about where mixed samples land; None where none were measured."""
    diagnosis = data.diagnosis
    if diagnosis is None or diagnosis.mixed is None:
        return None
    k = len(diagnosis.classes)
    figure = heat_map_figure(k) if k <= MAX_CLASSES else new_figure(7.2, 4.6)
    draw_intrusion(figure.subplots(), diagnosis, diagnosis.mixed)
    units = " Cells are in percent." if 8 < k <= MAX_CLASSES else ""
    caption = _intrusion_caption(diagnosis.mixed, k) + units
    title = "Share of mixed samples that land among another class, by pair of classes"
    blocks: list[Block] = [Chart(figure, title, caption), _pair_table(diagnosis)]
    return ReportSection("intrusion", "Where mixed samples land", blocks)


def _intrusion_caption(mixed: MixedSampleStats, k: int) -> str:
    mean, pairs = overall_stats(mixed), mixed.pairs
    worst = pairs.iloc[int(pairs["low"].argmax())]
    text = (
        f"{percent(mean['intrusion'])} of mixup's mixed samples land among another class; with permuted labels it is "
        f"{percent(mixed.chance)}. "
    )
    if worst["intrusion"] > 0:
        text += (
            f"The clearest pair is {name_of(worst['class_1'])} with {name_of(worst['class_2'])}: "
            f"{percent(worst['intrusion'], 0)} ({percent(worst['low'], 0)} to {percent(worst['high'], 0)}). "
        )
    if k <= 2:
        text += "With two classes, only mixed samples of a class with itself can intrude. "
    return text + f"{percent(mean['atypical'], 0)} of the mixed samples are unlike any row."


def _pair_table(diagnosis: Diagnosis) -> DataTable:
    rows: list[Row] = [
        [
            str(pair["class_1"]),
            str(pair["class_2"]),
            number_cell(100 * pair["weight"], 1),
            number_cell(pair["n_mixed"], 0),
            number_cell(100 * pair["intrusion"], 1),
            TableCell(f"{100 * pair['low']:.0f} to {100 * pair['high']:.0f}", pair["low"]),
            number_cell(100 * pair["permuted"], 1),
            number_cell(100 * pair["atypical"], 0),
            number_cell(pair["total_variation"], 2),
        ]
        for pair in diagnosis.to_frame("pairs", MAX_PAIR_ROWS).to_dict("records")
    ]
    head = [
        "class 1",
        "class 2",
        "% of mixup",
        "measured",
        "intrude %",
        "95 % interval",
        "permuted %",
        "unlike any row %",
        "label distance",
    ]
    caption = "Pairs of classes, the clearest intrusion first; label distance: total variation of both labels, 0 to 1"
    return DataTable(caption, head, rows, words=[1])
