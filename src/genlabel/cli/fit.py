"""`genlabel fit`: a model of a table in a folder, with its scores on held-out rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genlabel._progress import ProgressDisplay, use_callback
from genlabel._text import count_of
from genlabel.cli import options
from genlabel.reporting.terminal import (
    POOL_WEIGHTS,
    describe_costs,
    describe_table,
    print_line,
    table_dict,
    warning_lines,
)

if TYPE_CHECKING:
    from genlabel.data.tables import Table
    from genlabel.estimators.classifier import ProbabilityClassifier
    from genlabel.evaluation.table_models import ColumnEffect, FittedTable, HoldoutScores

MAX_CLASSES = 8
"""Maximum of classes whose shares are printed."""
MAX_COLUMNS = 3
"""Maximum of columns whose effect on the scores is printed."""


WEIGHTED = (
    "class weights: probabilities are those of a population with these weights, not of the table; --cost changes "
    "predictions and leaves probabilities as they are"
)
TableMethod = StrEnum("TableMethod", ["genlabel", "mixup", "vanilla", "stacked"])
"""Names of methods; a test compares them with those of `genlabel.evaluation.table_models`."""


def fit(
    source: options.Source,
    target: options.Target = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder of the model.", show_default="model-<name>")
    ] = None,
    method: Annotated[
        TableMethod,
        typer.Option(
            help="genlabel: a network pooled with its stacked density, which mixes only where that helps on held-out "
            "rows; mixup: a network with mixup's labels; vanilla: a network without mixing; stacked: the stacked "
            "density alone."
        ),
    ] = TableMethod.genlabel,
    network: options.NetworkName = "mlp",
    epochs: options.Epochs = None,
    time_limit: Annotated[
        float | None, typer.Option(min=1.0, metavar="SECONDS", help="Maximum time for training.")
    ] = None,
    test_size: Annotated[
        float,
        typer.Option(min=0.0, max=0.9, help="Share of the rows on which a first fit is measured; 0 skips it."),
    ] = 0.2,
    class_weight: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CLASS=WEIGHT",
            help="Weight of the rows of CLASS in training, 1 for other classes; can be repeated. balanced: inversely "
            "proportional to the class frequencies. Probabilities are then those of a population with these weights.",
        ),
    ] = None,
    cost: options.Costs = None,
    threshold: options.Threshold = None,
    pos_label: options.PosLabel = None,
    device: options.Device = "auto",
    groups: options.Groups = None,
    time: options.Time = None,
    drop: options.Drop = None,
    force_include: options.ForceInclude = None,
    na_values: options.NaValues = None,
    target_is_categorical: options.TargetIsCategorical = False,
    bins: options.Bins = None,
    min_class_size: options.MinClassSize = None,
    seed: options.Seed = 0,
    keep_rows: Annotated[
        bool,
        typer.Option(
            "--training-rows/--no-training-rows",
            help="Keep up to 500 training rows in the model, readable for all who have it; `genlabel explain` shows "
            "them.",
        ),
    ] = True,
    force: Annotated[bool, typer.Option("--force", help="Replace the model in the folder.")] = False,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Fit a model to a table and write it into a folder, for `genlabel predict`.

    A first fit is measured on held-out rows; the model in the folder is then fitted to all rows. The folder has a model
    card, README.md. Exit codes: 0 success, 2 invalid input, 3 a bug of genlabel, 130 interrupted.
    """
    reading = options.ReadOptions(
        na_values, drop, force_include, target_is_categorical, bins, groups, time, min_class_size
    )
    with options.one_line_errors(debug=debug), options.open_source(source) as path:
        hidden = options.read_network(network)
        network_options = (network, epochs, time_limit, device)
        if method is TableMethod.stacked and network_options != ("mlp", None, None, "auto"):
            names = "--network, --epochs, --time-limit and --device"
            raise ValueError(f"{names} are for methods with a network; leave them out, or choose another --method")
        name = options.check_source(path, target, reading)
        folder = output or Path(f"model-{name}")
        new = not folder.exists()
        if not new:
            from genlabel.persistence.files import check_folder

            check_folder(folder, force, "--force")
        options.check_outputs(output=folder / "model.json")
        if new:
            folder.rmdir()
        with ProgressDisplay(f"loading {source}"):
            import numpy as np

            from genlabel.evaluation import table_models

            table = options.load_source(path, target, reading, seed)
        classes = np.unique(table.y)
        weights = options.read_class_values("class_weight", class_weight, classes)
        class_costs = options.read_costs(cost, threshold, pos_label, classes)
        if not as_json:
            from genlabel.data.tables.columns import describe_columns

            counts = table.y.value_counts()
            shares = [f"{name} {100 * n / len(table.y):.1f} %" for name, n in counts.iloc[:MAX_CLASSES].items()]
            listed = ", ".join(shares) + (", ..." if len(counts) > MAX_CLASSES else "")
            columns = describe_columns(table.columns, table.X)
            notes = [f"note: {note}" for note in table.notes]
            for line in [describe_table(table), f"classes: {listed}", *columns, *notes]:
                print_line(line)
        classifier = table_models.make_classifier(method.value, hidden, epochs or "auto", weights, device)
        fitted = table_models.fit_table(
            table, classifier, test_size=test_size, seed=seed, time_limit=time_limit, costs=class_costs, stage=_stage
        )
        notes = [options.in_options(line) for line in warning_lines([fitted.warnings])]
        if weights is not None:
            notes.append(WEIGHTED)
        with_network = "" if method is TableMethod.stacked else f", network {network}"
        settings = f"method {method.value}{with_network}, seed {seed}"
        scores = _holdout_lines(fitted.held_out, fitted.model[-1])
        lines = [*scores, *_column_lines(fitted.columns), *describe_costs(fitted.model[-1])]
        card_notes = [f"{describe_table(table)}; {settings}", *lines, *table.notes, *notes]
        X = table.X if table.rows is None else table.X.set_axis(table.rows)
        fitted.save(folder, card_notes, (X, table.y) if keep_rows else None, overwrite=force)
    if as_json:
        typer.echo(json.dumps(_to_dict(table, fitted, folder, notes), indent=2, default=str))
        return
    chosen = [f"chosen: {describe_params(fitted.chosen)}"] if fitted.chosen else []
    no_intervals = [] if fitted.has_intervals else [f"no intervals: --method {method.value} made none"]
    for line in ["", *lines, *chosen, *no_intervals, *(f"note: {note}" for note in notes)]:
        print_line(line)
    print_line(f"wrote {folder}, its card is {folder / 'README.md'}; {fitted.seconds:.0f} s")
    print_line(f"next: genlabel predict {folder} NEW.csv -o predictions.csv")


@contextmanager
def _stage(name: str) -> Iterator[None]:
    """Show the progress of a stage on the error stream."""
    with ProgressDisplay(name) as display, use_callback(display):
        yield


def _holdout_lines(held_out: HoldoutScores | None, classifier: ProbabilityClassifier) -> list[str]:
    """Return the scores on held-out rows next to those of the class priors, and the share found of each class.

    Without such rows the scores are those of the folds of the training, if it had any.
    """
    from genlabel.metrics import rarely_found
    from genlabel.persistence.card import fold_scores, prior_scores

    if held_out is None:
        folds = fold_scores(classifier)
        if folds is None:
            return ["no rows were held out: the quality of the model is unknown, measure it on new rows"]
        rule = ", with the most probable class as the prediction" if hasattr(classifier, "costs_") else ""
        return [
            f"right on {100 * folds['accuracy']:.1f} % of the rows that the folds of its training held out{rule}, "
            "which is slightly optimistic; always guessing the most frequent class: "
            f"{100 * prior_scores(classifier)['accuracy']:.1f} %. No other rows were set aside: measure it on new rows"
        ]
    from genlabel.evaluation.prediction_counts import wilson_interval

    scores, prior = held_out.scores, held_out.prior_scores
    low, high = wilson_interval(scores["accuracy"], held_out.cases)
    rows = count_of(held_out.rows, "row")
    rows += f" in {count_of(held_out.cases, 'group')}" if held_out.cases < held_out.rows else ""
    auc = "" if isnan(scores["auc"]) else f"; AUC {scores['auc']:.3f}"
    found = sorted(held_out.recall.items(), key=lambda item: item[1])
    shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in found[:MAX_CLASSES])
    lines = [
        f"right on {100 * scores['accuracy']:.1f} % of {rows} that a first fit did not see (95 % interval "
        f"{100 * low:.0f} to {100 * high:.0f} %); always guessing the most frequent class: "
        f"{100 * prior['accuracy']:.1f} %",
        f"right by class: {shares}{', ...' if len(found) > MAX_CLASSES else ''}; mean over the classes "
        f"{100 * scores['balanced_accuracy']:.1f} %",
        f"log-loss {scores['log_loss']:.3f}, that of the class priors {prior['log_loss']:.3f} (lower is better){auc}",
    ]
    counts = dict(zip(map(str, classifier.classes_.tolist()), classifier.class_count_.tolist(), strict=True))
    if missed := rarely_found(held_out.recall, counts):
        names = ", ".join(missed[:MAX_CLASSES])
        hint = "" if hasattr(classifier, "costs_") else "; --cost balanced predicts rare classes more often"
        lines.append(f"rarely found: {names}{hint}")
    return lines


def _column_lines(columns: dict[str, ColumnEffect]) -> list[str]:
    """Return a line on the columns without which the log-loss on held-out rows rises most."""
    effects = {name: effect for name, effect in columns.items() if effect.matters}
    largest = sorted(effects, key=lambda name: -effects[name].loss_if_blank)[:MAX_COLUMNS]
    shares = [
        f"{name} {100 * effects[name].accuracy_if_blank:.1f} % (log-loss {effects[name].loss_if_blank:.3f})"
        for name in largest
    ]
    return [f"right if all values of one column were missing: {', '.join(shares)}"] if shares else []


def describe_params(params: dict[str, Any]) -> str:
    """Return the parameters that a search chose, in words.

    >>> describe_params({"learning_rate": 0.03, "clean_fraction": 1.0, "pool_weights": (0.5, 0.4, 0.1)})
    'learning rate 0.03; no mixing; weights in the prediction: network 0.50, stacked density 0.40, class priors 0.10'
    """
    omitted = (*POOL_WEIGHTS, "clean_fraction", "density")
    shown = {key: f"{value:g}" if isinstance(value, float) else value for key, value in params.items()}
    parts = [f"{key.replace('_', ' ')} {value}" for key, value in shown.items() if key not in omitted]
    if "clean_fraction" in params:
        clean = params["clean_fraction"]
        parts.append("no mixing" if clean == 1 else f"{100 * (1 - clean):.0f} % of the points mixed")
    if "pool_weights" in params:
        network, density, prior = params["pool_weights"]
        shares = f"network {network:.2f}, stacked density {density or 0:.2f}, class priors {prior:.2f}"
        parts.append(f"weights in the prediction: {shares}")
    return "; ".join(parts)


def _to_dict(table: Table, fitted: FittedTable, folder: Path, notes: list[str]) -> dict[str, Any]:
    held_out = None
    if fitted.held_out is not None:
        scores = {name: None if isnan(value) else value for name, value in fitted.held_out.scores.items()}
        sizes = {"rows": fitted.held_out.rows, "cases": fitted.held_out.cases}
        held_out = {**sizes, **scores, "recall": fitted.held_out.recall, "class_priors": fitted.held_out.prior_scores}
    return {
        **table_dict(table),
        "notes": [*table.notes, *notes],
        "held_out": held_out,
        "column_effects": {
            name: {key: None if isnan(value) else value for key, value in effect._asdict().items()}
            for name, effect in fitted.columns.items()
        },
        "chosen": fitted.chosen,
        "intervals": fitted.has_intervals,
        "model": str(folder),
        "card": str(folder / "README.md"),
        "seconds": fitted.seconds,
    }
