"""Export of the network of a classifier as an ONNX graph, from features to log-probabilities.

The graph is written by hand with `onnx` alone: the exporter of torch needs `onnxscript` as well.
"""

from __future__ import annotations

import json
import math
import warnings
from os import PathLike
from pathlib import Path
from typing import Any, cast, final

import numpy as np
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from genlabel._validation import check_choice
from genlabel.estimators.base import NetworkClassifier
from genlabel.estimators.validation import FrameEncoder
from genlabel.model_selection.scoring import PoolWeights
from genlabel.model_selection.splits import MIN_LOG_PROBA
from genlabel.persistence.model import classifier_of
from genlabel.training.networks.staged import MLP, Ensemble


def export_onnx(model: Any, path: str | PathLike[str], *, dtype: str = "float64") -> Path:
    """Write the network of a fitted classifier as an ONNX file; it needs the package `onnx` (extra `onnx`).

    The graph takes the features of the classifier (m, d), not standardized and without missing values:
    `classifier.encode(X)`, for a pipeline the input of its last step, for a loaded model `LoadedModel.features(X)`. It
    returns `log_proba` (m, k) and `class_index` (m,). The names of classes and features are in the metadata of the
    file, "classes" and "features".

    A stacked density that is averaged with the network is *not* exported: the file then holds the network alone, with a
    UserWarning. `pool_with_density=None` trains a classifier that is a network and nothing else.

    Parameters
    ----------
    model : classifier, Pipeline or LoadedModel
        Its classifier has a network: GenLabelClassifier, MixupClassifier, AdaMixupClassifier.
    path : path
        Path of the file, by custom with the ending .onnx; it is returned.
    dtype : "float64" or "float32"
        Precision of the graph; float64 is that of the classifier.

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
    if not isinstance(classifier, NetworkClassifier):
        raise ValueError(f"{type(classifier).__name__} has no network; export a GenLabelClassifier or MixupClassifier")
    check_is_fitted(classifier, "scaler_")
    graph = _Graph(onnx, np.dtype(dtype))
    logs = graph.add("LogSoftmax", graph.network(classifier.network_, graph.standardized(classifier.scaler_)), axis=1)
    weights = classifier.pool_weights_
    if weights is not None and weights.density:
        message = (
            f"this {type(classifier).__name__} averages its network with a stacked density (weights "
            f"{weights.network:.3g} and {weights.density:.3g}); the ONNX file has the network alone, and gives other "
            "predictions; pool_with_density=None trains a network without a density"
        )
        warnings.warn(message, UserWarning, stacklevel=2)
    elif weights is not None and not classifier.predicts_by_network:
        logs = graph.pooled(graph.add("Max", logs, MIN_LOG_PROBA), classifier.log_prior_, weights)
    graph.add("Identity", logs, name="log_proba")
    graph.add("ArgMax", logs, name="class_index", axis=1, keepdims=0)
    if isinstance(classifier.encoder_, FrameEncoder):
        features = [str(name) for name in classifier.encoder_.columns.get_feature_names_out()]
    else:
        names = getattr(classifier, "feature_names_in_", None)
        features = [f"x{index}" for index in range(classifier.n_features_in_)] if names is None else names.tolist()
    classes = [str(name) for name in classifier.classes_.tolist()]
    metadata = {"classes": json.dumps(classes), "features": json.dumps(features)}
    exported = graph.model(len(classifier.scaler_.mean), len(classes), metadata)
    onnx.checker.check_model(exported)
    onnx.save(exported, str(path))
    return Path(path)


@final
class _Graph:
    """Nodes and constants of a graph, in the order in which they are added."""

    def __init__(self, onnx: Any, dtype: np.dtype[Any]) -> None:
        self._onnx, self._dtype = onnx, dtype
        self._nodes: list[Any] = []
        self._constants: list[Any] = []

    def add(self, operation: str, *inputs: Any, name: str = "", **attributes: Any) -> str:
        """Add a node, whose inputs are names or numbers, and return the name of its output."""
        names = [item if isinstance(item, str) else self.constant(item) for item in inputs]
        name = name or f"{operation.lower()}_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(operation, names, [name], **attributes))
        return name

    def constant(self, values: Any) -> str:
        """Add numbers, integers as int64, and return their name."""
        array = values.detach().numpy() if isinstance(values, Tensor) else np.asarray(values)
        array = array.astype(np.int64 if array.dtype.kind == "i" else self._dtype)
        self._constants.append(self._onnx.numpy_helper.from_array(array, f"constant_{len(self._constants)}"))
        return str(self._constants[-1].name)

    def standardized(self, scaler: Any) -> str:
        """Add the standardized features, without constant ones."""
        scaled = self.add("Div", self.add("Sub", "features", scaler.mean), scaler.scale)
        return scaled if scaler.mask.all() else self.add("Gather", scaled, np.flatnonzero(scaler.mask), axis=1)

    def network(self, network: nn.Module, points: str) -> str:
        """Add the scores of a network or an ensemble."""
        if isinstance(network, Ensemble):  # the mean of the networks, pooled with the class priors
            logs = [self.add("LogSoftmax", self.network(member, points), axis=1) for member in network.networks]
            stacked = self.add("Concat", *[self.add("Unsqueeze", name, np.array([0])) for name in logs], axis=0)
            total = self.add("ReduceLogSumExp", stacked, axes=[0], keepdims=0)
            mean = self.add("Sub", total, math.log(len(logs)))
            if network.log_prior is None:
                return mean
            return self.pooled(mean, network.log_prior, PoolWeights(network.weight, prior=network.prior_weight))
        for index, layer in enumerate(cast(MLP, network).layers):
            if index:
                points = self.add("Relu", points)
            weight, bias = (cast(Tensor, value) for value in (layer.weight, layer.bias))
            points = self.add("Add", self.add("MatMul", points, weight.T), bias)
        return points

    def pooled(self, logs: str, log_prior: Any, pooling: PoolWeights) -> str:
        """Add log of (1 - e) r + e pi, where log r = log pi + a (logs - log pi), normalized."""
        prior = np.asarray(log_prior, dtype=np.float64)
        far = self.add("Mul", self.add("Sub", logs, prior), float(pooling.network))
        tempered = self.add("LogSoftmax", self.add("Add", far, prior), axis=1)
        if pooling.prior == 0.0:
            return tempered
        sure = self.add("Mul", self.add("Exp", tempered), 1.0 - pooling.prior)
        return self.add("Log", self.add("Add", sure, pooling.prior * np.exp(prior)))

    def model(self, d: int, k: int, metadata: dict[str, str]) -> Any:
        """Return the model with its inputs, outputs and metadata."""
        helper, tensor = self._onnx.helper, self._onnx.TensorProto
        kind = helper.np_dtype_to_tensor_dtype(self._dtype)
        inputs = [helper.make_tensor_value_info("features", kind, ["m", d])]
        outputs = [
            helper.make_tensor_value_info("log_proba", kind, ["m", k]),
            helper.make_tensor_value_info("class_index", tensor.INT64, ["m"]),
        ]
        graph = helper.make_graph(self._nodes, "genlabel", inputs, outputs, self._constants)
        opsets = [helper.make_opsetid("", 17)]  # runtimes of 2022 can read this opset and the IR version below
        model = helper.make_model(graph, producer_name="genlabel", opset_imports=opsets, ir_version=8)
        helper.set_model_props(model, metadata)
        return model
