"""The report of a suite: means, cost and accidents, wins beside losses, the sets on which the reference loses most."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from genlabel_paper.benchmark.statistics import (
    ACCIDENT,
    METRICS,
    complete_sets,
    cost_ratios,
    count_worse_than_prior,
    mean_ranks,
    set_means,
    statement,
    wilcoxon_holm,
    wins,
)

MOST = 10
"""Sets named where the reference loses."""
KINDS: dict[str, Callable[[pd.DataFrame], pd.Series[Any]]] = {
    "d <= 5": lambda records: records["d"] <= 5,
    "d > 5": lambda records: records["d"] > 5,
    "k = 2": lambda records: records["k"] == 2,
    "k > 2": lambda records: records["k"] > 2,
    "n < 300": lambda records: records["n"] < 300,
    "n >= 300": lambda records: records["n"] >= 300,
}
"""Kinds of sets whose results are told apart: by features, classes and rows."""


@dataclass(frozen=True)
class Section:
    """A part of the report: a table of texts, and lines below it.

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
    """Say what the records of a suite say, in tables and plain lines.

    Only sets on which every method has every split are counted, so that all numbers are of the same sets.

    Parameters
    ----------
    records : DataFrame
        As of `genlabel.evaluation.records.read_records`.
    reference : str
        The method that is held against the others; without it there are only the means.
    settings : dict, optional
        What all have in common; named below the means.

    Examples
    --------
    >>> scores = {"accuracy": 90.0, "log_loss": 0.3, "brier": 0.2, "calibration_error": 0.05, "seconds": 1.0}
    >>> records = pd.DataFrame([{"dataset": 1, "name": "t", "split": 0, "method": "a", **scores}])
    >>> report(records)[0].rows["log-loss"].tolist()
    ['0.3000']
    """
    complete, left_out = complete_sets(records) if len(records) else (records, [])
    if not len(complete):
        raise ValueError(
            "there is no set on which every method has every split; let the suite go on, or report fewer methods"
        )
    ranks = mean_ranks(complete)
    complete = complete.sort_values("method", key=lambda names: names.map(ranks), kind="stable")
    sections = [_means(complete, left_out, settings or {}), _cost(complete, reference)]
    others = [name for name in complete["method"].unique() if name != reference]
    if len(others) < complete["method"].nunique() and others:
        sections += [_wins(complete, reference, metric) for metric in ("log_loss", "accuracy")]
        sections += [_kinds(complete, reference, others)] if all(_is_told(complete, name) for name in "ndk") else []
        sections += [_losses(complete, reference, "vanilla")] if "vanilla" in others else []
    return sections


def as_markdown(sections: list[Section]) -> str:
    """Write a report as Markdown.

    >>> print(as_markdown([Section("Means", pd.DataFrame({"a": ["1"]}, index=pd.Index(["m"], name="method")))]))
    ## Means
    <BLANKLINE>
    | method | a |
    |:--|--:|
    | m | 1 |
    <BLANKLINE>
    """
    parts = []
    for section in sections:
        parts.append(f"## {section.title}\n")
        if section.rows is not None:
            rows = [[str(section.rows.index.name), *section.rows.columns]]
            rows += [[str(name), *cells] for name, cells in zip(section.rows.index, section.rows.values, strict=True)]
            lines = ["| " + " | ".join(row) + " |" for row in rows]
            lines.insert(1, "|:--|" + "--:|" * len(section.rows.columns))
            parts.append("\n".join(lines) + "\n")
        if section.lines:
            parts.append("\n".join(f"- {line}" for line in section.lines) + "\n")
    return "\n".join(parts)


def _means(complete: pd.DataFrame, left_out: list[int], settings: Mapping[str, Any]) -> Section:
    columns = {
        metric.title + (" (%)" if name == "accuracy" else ""): set_means(complete, name)
        .mean()
        .map(f"{{:.{metric.digits}f}}".format)
        for name, metric in METRICS.items()
    }
    rows = pd.DataFrame(columns)
    rows["rank"] = mean_ranks(complete, "log_loss").map("{:.2f}".format)
    rows["seconds"] = complete.groupby("method")["seconds"].median().map("{:.3g}".format)
    rows.index.name = "method"
    sets, splits = complete["dataset"].nunique(), complete["split"].nunique()
    lines = [
        f"OpenML sets: {sets}; splits of each: {splits}",
        "rank: mean, of the log-loss; seconds: the processor's, median of a fit",
    ]
    if left_out:
        named = ", ".join(map(str, left_out[:20])) + (", ..." if len(left_out) > 20 else "")
        lines.append(f"left out, because not every method has every split: {len(left_out)} ({named})")
    if settings:
        lines.append("settings: " + ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in settings.items()))
    return Section("Means over the sets", rows, lines)


def _wins(complete: pd.DataFrame, reference: str, metric: str) -> Section:
    tests = wilcoxon_holm(complete, reference, metric)
    counts = {other: wins(complete, reference, other, metric) for other in tests.index}
    rows = pd.DataFrame(
        {
            "wins": [str(found.better) for found in counts.values()],
            "ties": [str(found.tie) for found in counts.values()],
            "losses": [str(found.worse) for found in counts.values()],
            "p (Holm)": [f"{p:.2g}" for p in tests["holm"]],
        },
        index=pd.Index(tests.index, name=f"{reference} against"),
    )
    how = METRICS[metric]
    unit = "points" if metric == "accuracy" else "nats"
    lines = [statement(reference, other, metric, found, tests["holm"][other]) for other, found in counts.items()]
    tie = f"a tie: means over the splits no further apart than {how.same:g} {unit}"
    return Section(f"{reference} against the others: {how.title}", rows, [*lines, tie])


def _cost(complete: pd.DataFrame, reference: str) -> Section:
    """Seconds, how many times those of the others the reference takes, and accidents; older records have less."""
    groups = complete.groupby("method", sort=False)
    rows = pd.DataFrame({"fit (s)": groups["seconds"].median().map("{:.3g}".format)})
    lines = ["fit, predict: medians of a fit, and of a prediction of all held-out rows"]
    if _is_told(complete, "predict_seconds"):
        rows["predict (s)"] = groups["predict_seconds"].median().map("{:.2g}".format)
    if _is_told(complete, "shares_log_loss"):
        fits, more = len(complete) // len(rows), 100 * (ACCIDENT - 1)
        rows["accidents"] = count_worse_than_prior(complete).map(str)
        lines.append(f"accidents: of {fits} fits, those with a log-loss more than {more:.0f} % above the class shares'")
    if reference in rows.index and len(rows) > 1:
        ratios = cost_ratios(complete, reference).reindex(rows.index)
        rows["times, median"], rows["in total"] = (ratios[name].map("{:.3g}".format) for name in ratios)
        rows.loc[reference, ["times, median", "in total"]] = "1"
        lines.append(f"times: as long as a fit of the method one of {reference} takes, over the sets")
    rows.index.name = "method"
    return Section("Cost and accidents", rows, lines)


def _is_told(complete: pd.DataFrame, column: str) -> bool:
    """Whether all records have what those of older versions have not."""
    return column in complete and bool(complete[column].notna().all())


def _kinds(complete: pd.DataFrame, reference: str, others: list[str]) -> Section:
    """How often the log-loss of the reference is lower and higher, on sets of each kind."""
    found = {name: complete[of(complete)] for name, of in KINDS.items()}
    rows = pd.DataFrame(index=pd.Index(["(sets)", *others], name=f"{reference} against"))
    for name, records in found.items():
        if len(records):
            counts = [wins(records, reference, other) for other in others]
            shares = [f"{100 * n.better / n.sets:.0f} / {100 * n.worse / n.sets:.0f}" for n in counts]
            rows[name] = [str(records["dataset"].nunique()), *shares]
    lines = [
        f"percent of the sets of d features, k classes, n rows on which {reference} has the lower / higher log-loss"
    ]
    return Section(f"{reference} against the others, by kind of set", rows, lines)


def _losses(complete: pd.DataFrame, reference: str, other: str) -> Section:
    """The sets on which the reference is worst, so that they are published beside the wins."""
    how = METRICS["log_loss"]
    means = set_means(complete, "log_loss", [reference, other])
    more = (means[reference] - means[other]).sort_values(ascending=False)
    worst = more[more > how.same].iloc[:MOST]
    names = complete.drop_duplicates("dataset").set_index("dataset")["name"]
    rows = pd.DataFrame(
        {
            "set": [str(names[number]) for number in worst.index],
            reference: [f"{means[reference][number]:.4f}" for number in worst.index],
            other: [f"{means[other][number]:.4f}" for number in worst.index],
            "difference": [f"+{value:.4f}" for value in worst],
        },
        index=pd.Index(worst.index.astype(str), name="id"),
    )
    count = int((more > how.same).sum())
    lines = [f"sets on which {reference} has higher {how.title} than {other}, by more than {how.same:g}: {count}"]
    title = f"Where {reference} loses most to {other}: {how.title}"
    return Section(title, rows if count else None, lines)
