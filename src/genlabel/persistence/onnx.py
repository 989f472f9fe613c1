"""Export of a fitted classifier as one ONNX graph, from the columns of a table to log-probabilities."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from genlabel._atomic_io import atomic_write
from genlabel._validation import check_choice
from genlabel.estimators.classifier import MAX_DEVIATION
from genlabel.persistence.compression import compress_classifier
from genlabel.persistence.model import LoadedModel, classifier_of
from genlabel.persistence.onnx_graph import Graph
from genlabel.persistence.onnx_nodes import to_onnx
from genlabel.persistence.schema import Schema


def export_onnx(model: Any, path: str | PathLike[str], *, dtype: str = "float64", compress: Any = None) -> Path:
    """Write a fitted classifier as an ONNX file, which predicts without genlabel; needs `onnx` (extra `onnx`).

    The graph is the whole model: medians and categories of the table, the networks, the densities, their weights and
    the priors. It returns `log_proba` (m, k) and `class_index` (m,). Its inputs are those of the model:

    - of a model of numbers `features` (m, d); a missing value is NaN;
    - of a model of a table `numbers` (m, columns) and `text` (m, columns), strings, where a missing value is
      "(missing)"; an input without columns is absent.

    The metadata of the file, as JSON, name the classes ("classes") and the columns of each input ("columns").

    Parameters
    ----------
    model : classifier, Pipeline or LoadedModel
        What `save_model` takes, or `load_model` returns.
    path : path
        Path of the file, by custom with the ending .onnx; it is returned.
    dtype : "float64" or "float32"
        Precision of the graph; float64 is that of the classifier.
    compress : table or array, optional
        Rows without labels, such as the training rows. One network is trained to imitate the model at these and is
        written in its place: for a small and fast file, or for a density that has no ONNX nodes. The metadata have
        its errors on a fifth of the rows ("compressed"): the expected increase of the log-loss ("kl_divergence"), the
        share of equal classes ("agreement") and the mean difference of probabilities ("mean_difference").

    Examples
    --------
    >>> import tempfile
    >>> import onnx
    >>> from sklearn.datasets import load_iris
    >>> from genlabel import MixupClassifier
    >>> model = MixupClassifier.from_paper(training__epochs=2).fit(*load_iris(return_X_y=True))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     graph = onnx.load(export_onnx(model, f"{folder}/iris.onnx")).graph
    >>> [value.name for value in graph.input], [value.name for value in graph.output]
    (['features'], ['log_proba', 'class_index'])
    """
    check_choice("dtype", dtype, ["float64", "float32"])
    try:
        import onnx
    except ImportError as error:
        raise ImportError("export_onnx needs the package onnx; pip install 'genlabel[onnx]'") from error
    classifier = classifier_of(model)
    check_is_fitted(classifier, "scaler_")
    model = model.model if isinstance(model, LoadedModel) else model
    schema, graph = Schema.of(model), Graph(onnx, np.dtype(dtype))
    steps = [step for _, step in model.steps[:-1]] if isinstance(model, Pipeline) else []
    x = "" if schema.table else graph.input("features", [column.name for column in schema.columns])
    for part in (*steps, classifier.encoder_, classifier.scaler_):
        x = to_onnx(part, graph, x)
    bound = min(MAX_DEVIATION, float(np.finfo(dtype).max) ** 0.455)  # squares of larger values overflow
    x = graph.add("Clip", x, -bound, bound)
    metadata = {"classes": classifier.classes_.tolist(), "columns": graph.inputs}
    if compress is None:
        log_proba = to_onnx(classifier, graph, x)
    else:
        points = classifier.scaler_(LoadedModel(model, schema).features(compress))
        network, metadata["compressed"] = compress_classifier(classifier, points)
        log_proba = graph.add("LogSoftmax", to_onnx(network, graph, x), axis=1)
    text = {name: json.dumps(value, default=str) for name, value in metadata.items()}
    costs = getattr(classifier, "costs_", None)
    atomic_write(path, graph.model(log_proba, len(classifier.classes_), text, costs).SerializeToString())
    return Path(path)
