"""`genlabel compare`: networks with and without mixing, and what they are held against, on one table."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, final

import typer
from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from genlabel.cli.diagnose import try_diagnosis
from genlabel.cli.reading import (
    Bins,
    Classes,
    Drop,
    Groups,
    Keep,
    NaValues,
    Reading,
    Source,
    Target,
    Time,
    check_source,
    load_source,
    open_source,
    place_of,
    plain_table,
    say_size,
)
from genlabel.cli.reporting import ReportPath, check_report, command_line, numbers_of
from genlabel.cli.terminal import (
    Dask,
    Debug,
    Epochs,
    Fresh,
    NetworkName,
    Telling,
    check_jobs,
    check_outputs,
    check_picture,
    each_once,
    end,
    failed_lines,
    one_line_errors,
    plus_minus,
    print_line,
    read_network,
    show_progress,
    spare_source,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from genlabel.diagnosis import Diagnosis
    from genlabel.records import Kept
    from genlabel.tables import Table

__all__ = ["compare"]

LETTERS = 6
"""Of the hash in the name of a file of records."""
MOST_JOBS = 4
"""Processes, if their number is not given: each needs the memory of a Python with torch."""
WIDTH = 120
"""Letters of a line where there is no terminal."""
COLUMNS = (
    ("log-loss", "log_loss", 4, True),
    ("accuracy %", "accuracy", 2, True),
    ("balanced %", "balanced_accuracy", 1, False),
    ("AUC", "auc", 3, False),
    ("Brier", "brier", 3, False),
    ("calibration", "calibration_error", 3, False),
    ("s a fit", "seconds", 2, False),
)
"""Title, score, digits, and whether the spread is shown."""


class Density(StrEnum):
    """The densities that `--density` names."""

    label_model = "label-model"
    gaussian = "gaussian"
    kernel = "kernel"
    mixture = "mixture"
    forest = "forest"
    flow = "flow"
    vae = "vae"
    gan = "gan"
    auto = "auto"


def compare(
    context: typer.Context,
    source: Source,
    target: Target = None,
    network: NetworkName = "mlp",
    density: Annotated[
        Density,
        typer.Option(
            help="Class densities of GenLabel: a label model selected and calibrated on held-out rows, or a single "
            "family; auto chooses between gaussian and kernel."
        ),
    ] = Density.label_model,
    paper: Annotated[
        bool,
        typer.Option("--paper", help="Also GenLabel and mixup in the paper's setting, which takes ten times as long."),
    ] = False,
    repeats: Annotated[int, typer.Option(min=1, help="Number of splits.")] = 10,
    test_size: Annotated[float, typer.Option(help="Share of the rows held out in each split.")] = 0.3,
    groups: Groups = None,
    time: Time = None,
    drop: Drop = None,
    keep: Keep = None,
    na_values: NaValues = None,
    classes: Classes = False,
    bins: Bins = None,
    drop_rare: Annotated[bool, typer.Option("--drop-rare", help="Drop classes of fewer than 4 rows.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the splits, the training and the synthetic tables.")] = 0,
    epochs: Epochs = None,
    output: Annotated[
        Path | None, typer.Option(help="Where the picture goes.", show_default="compare-<name>.png")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Also write the numbers of every split to this file.")] = None,
    report: ReportPath = None,
    diagnosis: Annotated[
        bool,
        typer.Option(
            "--diagnosis/--no-diagnosis",
            help="Whether the report says if and why mixing helps here, which takes about as long as a few splits.",
        ),
    ] = True,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, for machines, instead of the table.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            help="Processes that train, one thread each; -1 is one for each processor.",
            show_default="one for each processor, at most 4",
        ),
    ] = None,
    dask: Dask = None,
    records: Annotated[
        Path | None,
        typer.Option(
            help="The file of records; a run goes on where it stopped.",
            show_default="build/compare-<name>-<hash of the settings>.sqlite",
        ),
    ] = None,
    fresh: Fresh = False,
    debug: Debug = False,
) -> None:
    """Compare vanilla training, mixup, GenLabel, its label model, logistic regression and boosting on a table.

    Prints test scores, mean and standard deviation over the same splits for all, a verdict in words, and what was found
    in the table: leaks, duplicates, how columns were read. Draws a picture. Exit codes: 0 done, 1 some fits failed,
    2 something is wrong with the input, 3 a fault of genlabel, 130 interrupted.
    """
    reading = Reading(na_values or (), drop or (), keep or (), classes, bins, groups, time)
    with one_line_errors(debug=debug), open_source(source) as place:
        hidden = read_network(network)
        check_jobs(1 if jobs is None else jobs, dask)
        check_picture("output", output)
        _check_share(test_size)
        name = check_source(place, target, reading)
        picture = output or Path(f"compare-{name}.png")
        spare_source(place, csv=csv)
        check_outputs(output=picture, csv=csv)
        check_report(report, place)
        settings = {"network": hidden, "density": density.value, "epochs": epochs or "auto", "paper": paper}
        cut = {"seed": seed, "test_size": test_size, "drop_rare": drop_rare}
        file = records or _name_records(
            name, place_of(name, place), target=target, **reading.settings(), **settings, **cut
        )
        _check_records(file, fresh)
        kept = f"what ended is kept in {file}, the same command goes on"
        with (
            one_line_errors(kept, debug),
            warnings.catch_warnings(record=True) as heard,
            show_progress(f"loading {source}") as bar,
        ):
            warnings.simplefilter("always")
            from genlabel import comparison, tables

            table = load_source(place, target, reading, seed)
            table = tables.drop_rare(table) if drop_rare else table
            tell = Telling(bar)
            found = comparison.run_comparison(
                table,
                comparison.default_methods(hidden, density.value, epochs or "auto", paper),
                repeats,
                test_size,
                seed,
                records=file,
                fresh=fresh,
                n_jobs=_count_jobs(jobs),
                dask=dask,
                on_start=tell.start,
                on_trial=tell.trial,
                on_epoch=bar.epochs,
            )
    if not len(found.frame):
        for line in failed_lines(found.failures):
            print_line(line)
        end(len(found.failures))
    settled = f"network {network}, seed {seed}" + ("" if epochs is None else f", {epochs} epochs")
    outcome = _Outcome.of(table, found, test_size, settled, comparison.count_warnings(heard))
    if as_json:
        typer.echo(json.dumps(outcome.as_plain(), indent=2))
    else:
        outcome.print([] if paper else ["not compared: the paper's setting, which --paper adds"])
    with one_line_errors(kept, debug):
        if report is not None:
            found_out = try_diagnosis(table, reading, seed, as_json) if diagnosis else (None, [])
            outcome.write(report, *found_out, command_line(context))
        outcome.draw().savefig(picture)
        if csv is not None:
            plain = outcome.results.drop(columns="held_out")
            plain.assign(params=plain["params"].map(json.dumps)).to_csv(csv, index=False)
    if as_json:
        raise typer.Exit(1 if outcome.failed else 0)
    written = [picture, *([csv] if csv else []), *([report, numbers_of(report)] if report else [])]
    print_line(f"wrote {', '.join(map(str, written[:-1]))}{' and ' * (len(written) > 1)}{written[-1]}")
    end(len(found.failures))


@final
@dataclass(frozen=True)
class _Outcome:
    """What a comparison came to, to be shown."""

    table: Table
    results: pd.DataFrame
    """As of `genlabel.comparison.compare`."""
    share: float
    """Of the rows that are held out in a split, for intervals."""
    settled: str
    """The splits and the settings, in words."""
    notes: list[str]
    failed: list[str]

    @classmethod
    def of(cls, table: Table, found: Kept, test_size: float, settled: str, heard: dict[str, int]) -> _Outcome:
        """From the records of a comparison, and the warnings that were heard beside it."""
        from genlabel import comparison, tables

        results = comparison.as_results(found.frame)
        splits = results["split"].nunique()
        cutting = f"{tables.name_splits(table)}: {splits}, {test_size:.0%} of the rows held out"
        return cls(
            table,
            results,
            test_size if table.time is None else test_size / splits,
            f"{cutting}, {settled}",
            [*table.notes, *each_once([heard, *found.frame["warnings"]])],
            failed_lines(found.failures),
        )

    def as_plain(self) -> dict[str, Any]:
        """All of it, for machines."""
        from genlabel import comparison

        said = {"splits": self.settled, "notes": self.notes, "failed": self.failed}
        return plain_table(self.table) | said | comparison.as_plain(self.results, self.share)

    def print(self, left: list[str]) -> None:
        """Print the table, the verdict, and what is to be known beside it; `left` are lines on what was left out."""
        from genlabel import comparison, tables

        _print(comparison.summarize(self.results), comparison.rank_methods(self.results))
        columns = tables.tell_columns(self.table.columns, self.table.X)
        about = [f"{say_size(self.table)}; {self.settled}", *columns, *_choices(self.results)]
        notes = [f"note: {text}" for text in self.notes]
        for line in [*comparison.verdict(self.results, self.share), "", *about, *notes, *left, *self.failed]:
            print_line(line)

    def write(self, path: Path, diagnosis: Diagnosis | None, notes: list[str], command: str) -> None:
        """Write the report, with a diagnosis if there is one."""
        from genlabel.pages import write_report

        chosen = {"choices": "; ".join(_choices(self.results)), "failed": "; ".join(self.failed)}
        write_report(
            path,
            self.table,
            self.results,
            diagnosis,
            test_size=self.share,
            notes=[*self.notes, *notes],
            settings={"splits": self.settled, **chosen},
            command=command,
        )

    def draw(self) -> Figure:
        """The picture, without the class shares, which lie far from the others."""
        from genlabel import comparison, plots

        drawn = self.results[self.results["method"] != comparison.SHARES]
        title = f"{say_size(self.table)}\n{self.settled}".replace("$", r"\$")  # no mathematics in the name of a file
        return plots.plot_comparison(drawn if len(drawn) else self.results, title, test_size=self.share)


def _check_share(test_size: float) -> None:
    from genlabel.checks import check_interval

    check_interval("test_size", test_size, 0.01, 0.99, "0.3 holds out three rows in ten")


def _count_jobs(jobs: int | None) -> int:
    """The processes: those asked for, or one for each processor, a few at most."""
    from joblib import cpu_count

    return min(int(cpu_count()), MOST_JOBS) if jobs is None else jobs


def _name_records(name: str, place: str, **settings: Any) -> Path:
    """The file of a table with these settings; others have files of their own, and do not evict these records.

    >>> _name_records("iris", "iris", seed=0).as_posix()
    'build/compare-iris-0f4303.sqlite'
    """
    text = json.dumps({"source": place, **settings}, sort_keys=True)
    return Path("build", f"compare-{name}-{sha256(text.encode()).hexdigest()[:LETTERS]}.sqlite")


def _check_records(file: Path, fresh: bool) -> None:
    from genlabel.records import COMPARISON, check_store

    check_store(file, COMPARISON, fresh)


def _choices(results: pd.DataFrame) -> list[str]:
    """How often each method chose what, a line for each, and how it averaged; at gamma = 0 there is no density."""
    lines = []
    for name, group in results.groupby("method", sort=False):
        chosen: dict[str, Counter[Any]] = {}
        for params in group["params"]:
            for key, value in params.items():
                if key != "average" and (key != "density" or params.get("gamma")):
                    chosen.setdefault(key, Counter())[value] += 1
        parts = [f"{key.replace('_', ' ')} {_tally(counts)}" for key, counts in chosen.items()]
        averages = [params["average"] for params in group["params"] if "average" in params]
        if averages:
            network, model, doubt = (sum(column) / len(averages) for column in zip(*averages, strict=True))
            said = f"{network:.2f} network, {model:.2f} label model, {doubt:.2f} class shares"
            parts.append(f"average {said} (mean weights)")
        if parts:
            lines.append(f"{name} chose {'; '.join(parts)}")
    return lines


def _tally(counts: Counter[Any]) -> str:
    return ", ".join(f"{value} ({times}x)" for value, times in counts.most_common())


def _print(summary: pd.DataFrame, ranking: list[str]) -> None:
    """Print the table, a row for each method in the order of its log-loss."""
    console = Console(highlight=False)
    sign = plus_minus()
    order = "the lowest log-loss first"
    grid = Grid(box=box.SIMPLE_HEAD, caption=f"{order}; mean {sign} standard deviation over the splits")
    grid.add_column("method")
    for title, *_ in COLUMNS:
        grid.add_column(title, justify="right")
    for name in ranking:
        row = summary.loc[name]
        grid.add_row(Text(name), *(_cell(row[score], digits, sign * spread) for _, score, digits, spread in COLUMNS))
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH)
    console.print(grid)


def _cell(score: Any, digits: int, sign: str) -> str:
    """A mean, and its spread if a sign is given and there is one; nothing where the score does not apply."""
    if score["mean"] != score["mean"]:
        return ""
    spread = f" {sign} {score['std']:.{digits}f}" if sign and score["std"] == score["std"] else ""
    return f"{score['mean']:.{digits}f}{spread}"
