"""`genlabel compare`: vanilla training, mixup, GenLabel and the generative classifier on one table."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from genlabel.cli.terminal import (
    Dask,
    Epochs,
    Fresh,
    Jobs,
    NetworkName,
    Telling,
    check_jobs,
    check_outputs,
    check_picture,
    end,
    failed_lines,
    one_line_errors,
    print_line,
    read_network,
    show_progress,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas as pd

__all__ = ["compare"]

MOST_WARNINGS = 5
LETTERS = 6
"""Of the hash in the name of a file of records."""


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
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A .csv, .tsv or .parquet file, or a built-in table: iris, wine, breast_cancer, digits, circle, moon, "
            "two-circle, cube-2d, cube-3d, nine-gaussians.",
        ),
    ],
    target: Annotated[str | None, typer.Option(metavar="COLUMN", help="The label column of the file.")] = None,
    network: NetworkName = "mlp",
    density: Annotated[
        Density,
        typer.Option(
            help="Class densities of GenLabel: a label model selected and calibrated on held-out rows, or a single "
            "family; auto chooses between gaussian and kernel."
        ),
    ] = Density.label_model,
    repeats: Annotated[int, typer.Option(min=1, help="Number of random splits.")] = 10,
    test_size: Annotated[float, typer.Option(help="Share of the rows held out in each split.")] = 0.3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the splits, the training and the synthetic tables.")] = 0,
    epochs: Epochs = None,
    output: Annotated[
        Path | None, typer.Option(help="Where the picture goes.", show_default="compare-<name>.png")
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Also write the numbers of every split to this file.")] = None,
    drop_rare: Annotated[bool, typer.Option("--drop-rare", help="Drop classes of fewer than 4 rows.")] = False,
    jobs: Jobs = 1,
    dask: Dask = None,
    records: Annotated[
        Path | None,
        typer.Option(
            help="The file of records; a run goes on where it stopped.",
            show_default="build/compare-<name>-<hash of the settings>.sqlite",
        ),
    ] = None,
    fresh: Fresh = False,
) -> None:
    """Compare vanilla training, mixup, GenLabel and the generative classifier on the same splits of a table.

    Prints test accuracy and log-loss, mean and standard deviation over the splits, and draws a picture.
    """
    with one_line_errors():
        hidden = read_network(network)
        check_jobs(jobs, dask)
        check_picture("output", output)
        check_outputs(output=output, csv=csv)
        name = _check_input(source, target, test_size)
        file = records or _name_records(
            name,
            source,
            target=target,
            network=hidden,
            density=density.value,
            epochs=epochs or "auto",
            seed=seed,
            test_size=test_size,
            drop_rare=drop_rare,
        )
        _check_records(file, fresh)
    kept = f"what ended is kept in {file}, the same command goes on"
    with (
        one_line_errors(kept),
        warnings.catch_warnings(record=True) as heard,
        show_progress(f"loading {source}") as bar,
    ):
        warnings.simplefilter("always")
        from genlabel import bench, comparison, datasets, plots

        table = datasets.load_table(source, target, random_state=seed)
        if drop_rare:
            table = bench.drop_rare(table)
        tell = Telling(bar)
        found = comparison.run_comparison(
            table,
            comparison.default_methods(hidden, density.value, epochs or "auto"),
            repeats,
            test_size,
            seed,
            records=file,
            fresh=fresh,
            n_jobs=jobs,
            dask=dask,
            on_start=tell.start,
            on_trial=tell.trial,
            on_epoch=bar.epochs,
        )
        n, d = table.X.shape
        data = f"{table.name}: {n} rows, {d} columns, {table.y.nunique()} classes"
        settings = f"stratified splits: {repeats}, {test_size:.0%} of the rows held out, network {network}, seed {seed}"
    results = comparison.as_results(found.frame)
    notes = [
        f"note: {line}" for line in [*table.notes, *_once([comparison.count_warnings(heard), *found.frame["warnings"]])]
    ]
    said = "" if epochs is None else f", {epochs} epochs"
    if len(results):
        about = [f"{data}; {settings}{said}", *_choices(results)]
        _print(comparison.summarize(results), [*about, *notes, *failed_lines(found.failures)])
        with one_line_errors(kept):
            picture = output or Path(f"compare-{table.name}.png")
            plots.plot_comparison(results, f"{data}\n{settings}", test_size=test_size).savefig(picture)
            if csv is not None:
                results.assign(params=results["params"].map(json.dumps)).to_csv(csv, index=False)
        print_line(f"wrote {picture}" if csv is None else f"wrote {picture} and {csv}")
    end(len(found.failures))


def _check_input(source: str, target: str | None, test_size: float) -> str:
    """Find out what is wrong before anything heavy is imported; return the name of the table."""
    from genlabel.checks import check_interval
    from genlabel.datasets import find_source

    check_interval("test_size", test_size, 0.01, 0.99, "0.3 holds out three rows in ten")
    return find_source(source, target)[0]


def _name_records(name: str, source: str, **settings: Any) -> Path:
    """The file of a table with these settings; others have files of their own, and do not evict these records.

    >>> _name_records("iris", "iris", seed=0).as_posix()
    'build/compare-iris-0f4303.sqlite'
    """
    file = Path(source)
    place = str(file.resolve()) if file.is_file() else name
    text = json.dumps({"source": place, **settings}, sort_keys=True)
    return Path("build", f"compare-{name}-{sha256(text.encode()).hexdigest()[:LETTERS]}.sqlite")


def _check_records(file: Path, fresh: bool) -> None:
    from genlabel.records import COMPARISON, check_store

    check_store(file, COMPARISON, fresh)


def _once(heard: Iterable[dict[str, int]]) -> list[str]:
    """Each warning once, with the number of times it was given, the most frequent first."""
    counts: Counter[str] = Counter()
    for texts in heard:
        counts.update(texts)
    shown = [f"{text} ({times} times)" if times > 1 else text for text, times in counts.most_common(MOST_WARNINGS)]
    more = len(counts) - len(shown)
    return [*shown, f"other warnings of this kind: {more}"] if more > 0 else shown


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


def _print(summary: pd.DataFrame, lines: list[str]) -> None:
    """Print the table, the best mean of each column marked, and the lines below it."""
    grid = Grid(box=box.SIMPLE_HEAD, caption="* best mean; mean ± standard deviation over the splits")
    grid.add_column("method")
    columns = []
    for title, score, digits, sign in (("accuracy (%)", "accuracy", 2, -1), ("log-loss (nats)", "log_loss", 4, 1)):
        grid.add_column(title, justify="right")
        columns.append(_cells(summary[score], digits, sign))
    grid.add_column("seconds a fit", justify="right")
    columns.append([Text(f"{seconds:.2f}") for seconds in summary["seconds"]["mean"]])
    for name, *cells in zip(summary.index, *columns, strict=True):
        grid.add_row(Text(str(name)), *cells)
    Console(highlight=False).print(grid)
    for line in lines:
        print_line(line)


def _cells(scores: Any, digits: int, sign: int) -> list[Text]:
    means = [f"{mean:.{digits}f}" for mean in scores["mean"]]
    best = min(means, key=lambda mean: sign * float(mean))
    spreads = ["" if spread != spread else f" ± {spread:.{digits}f}" for spread in scores["std"]]
    return [
        Text(f"{'* ' if mean == best else ''}{mean}{spread}", style="bold" if mean == best else "")
        for mean, spread in zip(means, spreads, strict=True)
    ]
