"""`genlabel export`: a saved model as an ONNX file."""

from __future__ import annotations

from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from genlabel._progress import ProgressDisplay
from genlabel._text import count_of
from genlabel.cli import options
from genlabel.reporting.terminal import describe_costs, print_line

Precision = StrEnum("Precision", ["float64", "float32"])
"""Precision of a graph."""


def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder that `genlabel fit` has written.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE.onnx", help="File to write.", show_default="<MODEL>.onnx"),
    ] = None,
    dtype: Annotated[Precision, typer.Option(help="Precision of the numbers; float32 is smaller and faster.")] = (
        Precision.float64
    ),
    compress: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="File with rows such as those of training: write one small network that imitates the model there.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file.")] = False,
    debug: options.Debug = False,
) -> None:
    """Write a model as an ONNX file, which predicts without genlabel, in other languages too.

    The file holds the whole model, with what it does about missing values and categories. Its inputs are the columns
    that the command prints: amounts as numbers, dates as their parts. Its outputs are log_proba, the log-probability of
    each class, and class_index, the prediction by the costs or the threshold of the model. Exit codes: 0 success, 2
    invalid input, 3 a bug of genlabel, 130 interrupted.
    """
    with options.one_line_errors(debug=debug):
        from genlabel.persistence.files import read_document

        read_document(model)
        path = output or Path(f"{model.resolve().name}.onnx")
        if path.suffix.lower() != ".onnx":
            raise ValueError(f"output={str(path)!r} ends in {path.suffix!r}; end it in .onnx")
        if path.exists() and not force:
            raise ValueError(f"output={str(path)!r} exists; --force replaces it, or name another file")
        if find_spec("onnx") is None:
            raise ValueError("the package onnx is missing; install it: pip install 'genlabel[onnx]'")
        options.check_outputs(compress or "", output=path)
        with ProgressDisplay(f"exporting {model}"):
            import json

            import onnx

            from genlabel import export_onnx, load_model
            from genlabel.evaluation.table_models import NewRows

            loaded = load_model(model)
            rows = None if compress is None else NewRows.of(loaded, compress).X
            export_onnx(loaded, path, dtype=dtype.value, compress=rows)
            classifier = loaded.classifier
            properties = {entry.key: json.loads(entry.value) for entry in onnx.load(path).metadata_props}
        for name, columns in properties["columns"].items():
            shown = ", ".join(columns[:12]) + (f" and {len(columns) - 12} more" if len(columns) > 12 else "")
            print_line(f"input {name}: {shown}")
        for line in describe_costs(classifier):
            print_line(f"output class_index follows the costs of the model, log_proba does not; {line}")
        if errors := properties.get("compressed"):
            rows, agreement = errors["held_out_rows"], 100 * errors["agreement"]
            print_line(
                f"compressed: on {count_of(rows, 'row')} that the network did not see, it predicts the class of "
                f"the model in {agreement:.1f} %; its log-loss is larger by about {errors['kl_divergence']:.4f}"
            )
        print_line(f"wrote {path}, {path.stat().st_size / 1000:,.0f} kB")
