"""Report of the benchmark: means, cost, accidents, wins and losses, and the datasets of the largest losses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from genlabel_paper.benchmark.statistics import (
    ACCIDENT_RATIO,
    METRICS,
    complete_datasets,
    cost_ratios,
    count_worse_than_prior,
    dataset_means,
    mean_ranks,
    statement,
    wilcoxon_holm,
    wins,
)

MAX_WORST = 10
"""Datasets listed where the reference loses."""
SUBSETS: dict[str, Callable[[pd.DataFrame], pd.Series[Any]]] = {
    "d <= 5": lambda records: records["d"] <= 5,
    "d > 5": lambda records: records["d"] > 5,
    "k = 2": lambda records: records["k"] == 2,
    "k > 2": lambda records: records["k"] > 2,
    "n < 300": lambda records: records["n"] < 300,
    "n >= 300": lambda records: records["n"] >= 300,
}
"""Subsets of the datasets with results of their own: by features, classes and rows."""


@dataclass(frozen=True)
class Section:
    """Section of the report: a title, a table of strings, and lines below it.

    >>> print(as_markdown([Section("Failures", lines=["no fit failed"])]).strip())
    ## Failures
    <BLANKLINE>
    - no fit failed
    """

    title: str
    rows: pd.DataFrame | None = None
    lines: list[str] = field(default_factory=list)


def report(
    records: pd.DataFrame, reference: str = "default", settings: Mapping[str, Any] | None = None
) -> list[Section]:
    """Return the sections of the report.

    Only datasets with every split of every method count, so that all numbers are over the same datasets.

    Parameters
    ----------
    records : DataFrame
        Records as `genlabel_paper.exports.load_records` returns them.
    reference : str
        Method that is compared with the others; if it has no records, only means and cost are reported.
    settings : dict, optional
        Settings shared by all records, listed below the means.

    Returns
    -------
    list of Section

    Examples
    --------
    >>> scores = {"accuracy": 0.9, "log_loss": 0.3, "brier": 0.2, "calibration_error": 0.05, "seconds": 1.0}
    >>> records = pd.DataFrame([{"dataset": 1, "name": "t", "split": 0, "method": "a", **scores}])
    >>> report(records)[0].rows["log-loss"].tolist()
    ['0.3000']
    """
    complete, left_out = complete_datasets(records) if len(records) else (records, [])
    if not len(complete):
        raise ValueError("no dataset has every split of every method; continue the benchmark, or report fewer methods")
    ranks = mean_ranks(complete)
    complete = complete.sort_values("method", key=lambda names: names.map(ranks), kind="stable")
    sections = [_means(complete, left_out, settings or {}), _cost(complete, reference)]
    others = [name for name in complete["method"].unique() if name != reference]
    if len(others) < complete["method"].nunique() and others:
        sections += [_wins(complete, reference, metric) for metric in ("log_loss", "accuracy")]
        sections += [_subsets(complete, reference, others)] if all(_has(complete, name) for name in "ndk") else []
        sections += [_losses(complete, reference, "vanilla")] if "vanilla" in others else []
    return sections


def as_markdown(sections: list[Section]) -> str:
    """Return the report as Markdown.

    >>> print(as_markdown([Section("Means", pd.DataFrame({"a": ["1"]}, index=pd.Index(["m"], name="method")))]))
    ## Means
    <BLANKLINE>
    | method | a |
    |:--|--:|
    | m | 1 |
    <BLANKLINE>
    """
    blocks = []
    for section in sections:
        blocks.append(f"## {section.title}\n")
        if section.rows is not None:
            rows = [[str(section.rows.index.name), *section.rows.columns]]
            rows += [[str(name), *cells] for name, cells in zip(section.rows.index, section.rows.values, strict=True)]
            lines = ["| " + " | ".join(row) + " |" for row in rows]
            lines.insert(1, "|:--|" + "--:|" * len(section.rows.columns))
            blocks.append("\n".join(lines) + "\n")
        if section.lines:
            blocks.append("\n".join(f"- {line}" for line in section.lines) + "\n")
    return "\n".join(blocks)


def _means(complete: pd.DataFrame, left_out: list[int], settings: Mapping[str, Any]) -> Section:
    columns = {
        metric.title + (" (%)" if name == "accuracy" else ""): dataset_means(complete, name)
        .mean()
        .map(f"{{:.{metric.digits}f}}".format)
        for name, metric in METRICS.items()
    }
    rows = pd.DataFrame(columns)
    rows["rank"] = mean_ranks(complete, "log_loss").map("{:.2f}".format)
    rows["seconds"] = complete.groupby("method")["seconds"].median().map("{:.3g}".format)
    rows.index.name = "method"
    datasets, splits = complete["dataset"].nunique(), complete["split"].nunique()
    lines = [
        f"OpenML datasets: {datasets}; splits of each: {splits}",
        "rank: mean rank by log-loss; seconds: median CPU time of a fit",
    ]
    if left_out:
        named = ", ".join(map(str, left_out[:20])) + (", ..." if len(left_out) > 20 else "")
        lines.append(f"left out, because a split of a method is missing: {len(left_out)} ({named})")
    if settings:
        lines.append("settings: " + ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in settings.items()))
    return Section("Means over the datasets", rows, lines)


def _wins(complete: pd.DataFrame, reference: str, metric: str) -> Section:
    tests = wilcoxon_holm(complete, reference, metric)
    counts = {other: wins(complete, reference, other, metric) for other in tests.index}
    rows = pd.DataFrame(
        {
            "wins": [str(count.better) for count in counts.values()],
            "ties": [str(count.tie) for count in counts.values()],
            "losses": [str(count.worse) for count in counts.values()],
            "p (Holm)": [f"{p:.2g}" for p in tests["holm"]],
        },
        index=pd.Index(tests.index, name=f"{reference} against"),
    )
    unit = "points" if metric == "accuracy" else "nats"
    lines = [statement(reference, other, metric, count, tests["holm"][other]) for other, count in counts.items()]
    tie = f"a tie: means over the splits differ by at most {METRICS[metric].tie:g} {unit}"
    return Section(f"{reference} against the others: {METRICS[metric].title}", rows, [*lines, tie])


def _cost(complete: pd.DataFrame, reference: str) -> Section:
    """Return seconds, cost ratios and accidents, as far as the records have them."""
    groups = complete.groupby("method", sort=False)
    rows = pd.DataFrame({"fit (s)": groups["seconds"].median().map("{:.3g}".format)})
    lines = ["fit, predict: median seconds of a fit, and of the prediction of all held-out rows"]
    if _has(complete, "predict_seconds"):
        rows["predict (s)"] = groups["predict_seconds"].median().map("{:.2g}".format)
    if _has(complete, "shares_log_loss"):
        fits, percent = len(complete) // len(rows), 100 * (ACCIDENT_RATIO - 1)
        rows["accidents"] = count_worse_than_prior(complete).map(str)
        lines.append(
            f"accidents: of {fits} fits, those with a log-loss more than {percent:.0f} % above the class priors'"
        )
    if reference in rows.index and len(rows) > 1:
        ratios = cost_ratios(complete, reference).reindex(rows.index)
        rows["times, median"], rows["in total"] = (ratios[name].map("{:.3g}".format) for name in ratios)
        rows.loc[reference, ["times, median", "in total"]] = "1"
        lines.append(
            f"times: the time of a fit of {reference} over that of the method, median over the datasets and in total"
        )
    rows.index.name = "method"
    return Section("Cost and accidents", rows, lines)


def _has(complete: pd.DataFrame, column: str) -> bool:
    """Return whether all records have a column that older records lack."""
    return column in complete and bool(complete[column].notna().all())


def _subsets(complete: pd.DataFrame, reference: str, others: list[str]) -> Section:
    """Return how often the log-loss of the reference is lower and higher, on each subset of the datasets."""
    rows = pd.DataFrame(index=pd.Index(["(datasets)", *others], name=f"{reference} against"))
    for name, selects in SUBSETS.items():
        records = complete[selects(complete)]
        if len(records):
            counts = [wins(records, reference, other) for other in others]
            percent = [f"{100 * n.better / n.sets:.0f} / {100 * n.worse / n.sets:.0f}" for n in counts]
            rows[name] = [str(records["dataset"].nunique()), *percent]
    lines = [
        f"percent of the datasets (d features, k classes, n rows) on which {reference} has the lower / higher log-loss"
    ]
    return Section(f"{reference} against the others, by kind of dataset", rows, lines)


def _losses(complete: pd.DataFrame, reference: str, other: str) -> Section:
    """Return the datasets on which the reference loses most, reported with the wins."""
    metric = METRICS["log_loss"]
    means = dataset_means(complete, "log_loss", [reference, other])
    more = (means[reference] - means[other]).sort_values(ascending=False)
    worst = more[more > metric.tie].iloc[:MAX_WORST]
    names = complete.drop_duplicates("dataset").set_index("dataset")["name"]
    rows = pd.DataFrame(
        {
            "dataset": [str(names[number]) for number in worst.index],
            reference: [f"{means[reference][number]:.4f}" for number in worst.index],
            other: [f"{means[other][number]:.4f}" for number in worst.index],
            "difference": [f"+{value:.4f}" for value in worst],
        },
        index=pd.Index(worst.index.astype(str), name="id"),
    )
    count = int((more > metric.tie).sum())
    lines = [
        f"datasets with a {metric.title} of {reference} above that of {other} by more than {metric.tie:g}: {count}"
    ]
    title = f"Where {reference} loses most to {other}: {metric.title}"
    return Section(title, rows if count else None, lines)
