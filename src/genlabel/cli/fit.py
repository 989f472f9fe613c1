"""`genlabel fit`: a model of a table, in a folder, with how good it is on rows that it has not seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genlabel._progress import use_callback
from genlabel._progress_display import display_progress
from genlabel.cli.console import (
    Debug,
    Epochs,
    NetworkName,
    check_outputs,
    count_messages,
    one_line_errors,
    print_line,
    read_network,
)
from genlabel.cli.table_options import (
    Bins,
    Classes,
    Drop,
    ForceInclude,
    Groups,
    NaValues,
    ReadOptions,
    Source,
    TargetOption,
    Time,
    check_source,
    describe_table,
    load_source,
    open_source,
    plain_table,
)

if TYPE_CHECKING:
    from genlabel.data.tables import Table
    from genlabel.evaluation.table_models import FittedTable, HoldoutScores


class Method(StrEnum):
    """The methods that `--method` names."""

    genlabel = "genlabel"
    mixup = "mixup"
    vanilla = "vanilla"
    label_model = "stacked"


def fit(
    source: Source,
    target: TargetOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder of the model.", show_default="model-<name>")
    ] = None,
    method: Annotated[
        Method,
        typer.Option(
            help="genlabel: a network pooled with its stacked density, which mixes only where held-out rows speak "
            "for it; "
            "mixup or vanilla: a network with mixup's labels, or without mixing; stacked: class densities alone."
        ),
    ] = Method.genlabel,
    network: NetworkName = "mlp",
    epochs: Epochs = None,
    time_limit: Annotated[
        float | None, typer.Option(min=1.0, metavar="SECONDS", help="Time for training, at most.")
    ] = None,
    test_size: Annotated[
        float,
        typer.Option(min=0.0, max=0.9, help="Share of the rows that a first fit does not see; 0 leaves it out."),
    ] = 0.2,
    groups: Groups = None,
    time: Time = None,
    drop: Drop = None,
    force_include: ForceInclude = None,
    na_values: NaValues = None,
    classes: Classes = False,
    bins: Bins = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the rows held out, the training, a synthetic table.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace the model that is in the folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, for machines.")] = False,
    debug: Debug = False,
) -> None:
    """Fit a model to a table and write it into a folder, for `genlabel predict`.

    First it is fitted without some rows and measured on them; the model that is kept is then fitted to all rows. The
    folder has a model card, README.md. Exit codes: 0 done, 2 something is wrong with the input, 3 a fault of genlabel,
    130 interrupted.
    """
    reading = ReadOptions(na_values or (), drop or (), force_include or (), classes, bins, groups, time)
    with one_line_errors(debug=debug), open_source(source) as place:
        hidden = read_network(network)
        _check_method(method, network, epochs, time_limit)
        name = check_source(place, target, reading)
        folder = output or Path(f"model-{name}")
        _check_folder(folder, force)
        with display_progress(f"loading {source}"):
            from genlabel.evaluation import table_models as fitting

            table = load_source(place, target, reading, seed)
        if not as_json:
            _tell_table(table)
        estimator = fitting.make_classifier(method.value, hidden, epochs or "auto")
        fitted = fitting.fit_table(
            table, estimator, test_size=test_size, seed=seed, time_limit=time_limit, stage=_shown
        )
        notes = count_messages([fitted.warnings])
        settled = f"method {method.value}{_network(method, network)}, seed {seed}"
        said = [f"{describe_table(table)}; {settled}", _tell_held_out(fitted.held_out), *table.notes, *notes]
        fitted.save(folder, said)
    if as_json:
        typer.echo(json.dumps(_as_plain(table, fitted, folder, notes), indent=2))
        return
    chosen = [f"chosen: {_choice(fitted.chosen)}"] if fitted.chosen else []
    without = [] if fitted.has_intervals else ["no intervals: this method holds no rows out by itself"]
    lines = [_tell_held_out(fitted.held_out), *chosen, *without, *(f"note: {text}" for text in notes)]
    for line in ["", *lines, f"wrote {folder}, its card is {folder / 'README.md'}; {fitted.seconds:.0f} s"]:
        print_line(line)
    print_line(f"next: genlabel predict {folder} NEW.csv -o predictions.csv")


def _check_method(method: Method, network: str, epochs: int | None, time_limit: float | None) -> None:
    given = {"network": network != "mlp", "epochs": epochs is not None, "time-limit": time_limit is not None}
    for option, used in given.items():
        if used and method is Method.label_model:
            raise ValueError(f"--{option} is for methods with a network; leave it out, or choose another --method")


def _network(method: Method, network: str) -> str:
    return "" if method is Method.label_model else f", network {network}"


def _check_folder(folder: Path, force: bool) -> None:
    """Raise unless the model can be written, and nothing else is lost by that."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"output={str(folder)!r} is a file; name a folder for the model")
    if folder.exists() and any(folder.iterdir()):
        from genlabel.persistence.files import is_model

        if not is_model(folder):
            raise ValueError(f"output={str(folder)!r} has files, and none is a model of genlabel; name another folder")
        if not force:
            raise ValueError(f"output={str(folder)!r} has a model; --force replaces it, or name another folder")
    new = not folder.exists()
    check_outputs(output=folder / "model.json")
    if new:
        folder.rmdir()


@contextmanager
def _shown(name: str) -> Iterator[None]:
    """A part of the work, shown on the error stream from its begin."""
    with display_progress(name) as display, use_callback(display):
        yield


def _tell_table(table: Table) -> None:
    """Print what was read, and what was found in it."""
    from genlabel.data.tables import describe_columns

    counts = table.y.value_counts()
    shares = ", ".join(f"{name} {100 * count / len(table.y):.1f} %" for name, count in counts.iloc[:8].items())
    lines = [
        describe_table(table),
        f"classes: {shares}{', ...' * (len(counts) > 8)}",
        *describe_columns(table.columns, table.X),
    ]
    for line in [*lines, *(f"note: {text}" for text in table.notes)]:
        print_line(line)


def _tell_held_out(found: HoldoutScores | None) -> str:
    if found is None:
        return "held out: nothing; what is known of its quality stands in the model card"
    from genlabel.evaluation.diagnosis.intervals import wilson_interval

    scores, shares = found.scores, found.prior_scores
    low, high = wilson_interval(scores["accuracy"] / 100.0, found.cases)
    hits = f"accuracy {scores['accuracy']:.1f} % ({100 * low:.0f} to {100 * high:.0f} %)"
    beside = f"class shares: {shares['accuracy']:.1f} %, {shares['log_loss']:.3f}"
    more = f"balanced accuracy {scores['balanced_accuracy']:.1f} %"
    more += "" if isnan(scores["auc"]) else f", AUC {scores['auc']:.3f}"
    groups = f" in {found.cases} groups" if found.cases < found.rows else ""
    first = f"held out: {found.rows} rows{groups} that a first fit did not see"
    return f"{first}: {hits}, log-loss {scores['log_loss']:.3f} ({beside}); {more}"


def _choice(params: dict[str, Any]) -> str:
    """What a search chose, in words.

    >>> _choice({"learning_rate": 0.03, "clean_fraction": 1.0, "pool_weights": (0.5, 0.4, 0.1)})
    'learning rate 0.03; no mixing; weights: network 0.50, stacked density 0.40, class shares 0.10'
    """
    parts = [
        f"{key.replace('_', ' ')} {value:g}" if isinstance(value, float) else f"{key.replace('_', ' ')} {value}"
        for key, value in params.items()
        if key not in ("pool_weights", "clean_fraction", "density")
    ]
    if "clean_fraction" in params:
        clean = params["clean_fraction"]
        parts.append("no mixing" if clean == 1 else f"{100 * (1 - clean):.0f} % of the points mixed")
    if "pool_weights" in params:
        network, model, doubt = params["pool_weights"]
        parts.append(f"weights: network {network:.2f}, stacked density {model or 0:.2f}, class shares {doubt:.2f}")
    return "; ".join(parts)


def _as_plain(table: Table, fitted: FittedTable, folder: Path, notes: list[str]) -> dict[str, Any]:
    found = fitted.held_out
    return {
        **plain_table(table),
        "notes": [*table.notes, *notes],
        "held_out": None if found is None else _plain_held_out(found),
        "chosen": {name: _plain(value) for name, value in fitted.chosen.items()},
        "intervals": fitted.has_intervals,
        "model": str(folder),
        "card": str(folder / "README.md"),
        "seconds": fitted.seconds,
    }


def _plain_held_out(found: HoldoutScores) -> dict[str, Any]:
    scores = {name: None if isnan(value) else value for name, value in found.scores.items()}
    return {"rows": found.rows, "cases": found.cases, **scores, "class_shares": found.prior_scores}


def _plain(value: Any) -> Any:
    """Numbers as JSON knows them; anything else by name.

    >>> _plain((0.5, None, True))
    [0.5, None, True]
    """
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value if isinstance(value, int | float) or value is None else str(value)
