"""Builder of an ONNX graph, and its nodes of Bayes' rule and of pooled probabilities.

The graph is written by hand with `onnx` alone: the exporter of torch needs `onnxscript` as well, and cannot follow
densities that are evaluated in chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from torch import Tensor

from genlabel.model_selection.scoring import PoolWeights

MAX_BYTES = 2_000_000_000
"""Largest size of the constants of a graph; a protobuf file holds at most 2 GB."""
ML_DOMAIN = "ai.onnx.ml"
"""Operators of classical machine learning: trees, and numbers of strings."""


@final
class Graph:
    """Nodes, constants and inputs of a graph; an equal node or constant is added once.

    Parameters
    ----------
    onnx : module
    dtype : dtype
        Precision of all numbers that are not integers.
    """

    def __init__(self, onnx: Any, dtype: np.dtype[Any]) -> None:
        self._onnx, self.dtype = onnx, dtype
        self.inputs: dict[str, list[str]] = {}
        """Names of the columns of each input."""
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._values: list[Any] = []
        self._names: dict[Any, str] = {}
        self._size = 0

    def input(self, name: str, columns: Sequence[str], *, text: bool = False) -> str:
        """Add an input, numbers or strings (m, columns), and return its name."""
        helper, tensor = self._onnx.helper, self._onnx.TensorProto
        kind = tensor.STRING if text else helper.np_dtype_to_tensor_dtype(self.dtype)
        self._values.append(helper.make_tensor_value_info(name, kind, ["m", len(columns)]))
        self.inputs[name] = list(columns)
        return name

    def add(self, operation: str, *inputs: Any, domain: str = "", **attributes: Any) -> str:
        """Add a node, whose inputs are names or numbers, and return the name of its output."""
        names = [item if isinstance(item, str) else self.constant(item) for item in inputs]
        key = (operation, *names, repr(attributes))
        if key not in self._names:
            self._names[key] = f"{operation.lower()}_{len(self._nodes)}"
            node = self._onnx.helper.make_node(operation, names, [self._names[key]], domain=domain, **attributes)
            self._nodes.append(node)
        return self._names[key]

    def constant(self, values: Any) -> str:
        """Add numbers or truth values, integers as int64, and return their name."""
        array = values.detach().numpy() if isinstance(values, Tensor) else np.asarray(values)
        dtype = {"b": array.dtype, "i": np.dtype(np.int64)}.get(array.dtype.kind, self.dtype)
        array = array.astype(dtype, order="C")
        key = (array.dtype, array.shape, array.tobytes())
        if key not in self._names:
            self._size += array.nbytes
            if self._size > MAX_BYTES:
                raise ValueError(
                    f"the model has more than {MAX_BYTES / 1e9:g} GB of numbers, too many for an ONNX file; fit it "
                    "with fewer kernels, KernelDensity(max_points=1000), or pass compress=X with the training rows"
                )
            self._names[key] = f"constant_{len(self._constants)}"
            self._constants.append(self._onnx.numpy_helper.from_array(array, self._names[key]))
        return self._names[key]

    def without_nan(self, log_prob: str) -> str:
        """Add log-densities with -inf in place of NaN, where a distance overflows, as `ClassDensity.log_prob`."""
        return self.add("Where", self.add("IsNaN", log_prob), -np.inf, log_prob)

    def log_posterior(self, log_prob: str, log_prior: Any, temperature: float = 1.0) -> str:
        """Add log softmax_c(log p_c / T + log pi_c), as `genlabel.densities.posterior.log_posterior`."""
        prior = np.asarray(log_prior, dtype=np.float64)
        tempered = log_prob if temperature == 1.0 else self.add("Div", log_prob, temperature)
        scores = self.add("Add", tempered, prior)
        undefined = self.add("IsInf", self.add("ReduceMax", scores, axes=[1], keepdims=1))
        fallback = (prior - np.logaddexp.reduce(prior))[None]
        return self.add("Where", undefined, fallback, self.add("LogSoftmax", scores, axis=1))

    def mixed(self, values: Sequence[str], log_weight: Any) -> str:
        """Add log sum_m w_m exp(v_m) of matrices v_m of one shape, with log-weights (M,)."""
        stacked = self.add("Concat", *[self.add("Unsqueeze", name, np.array([0])) for name in values], axis=0)
        weighted = self.add("Add", stacked, np.asarray(log_weight, dtype=np.float64)[:, None, None])
        return self.add("ReduceLogSumExp", weighted, axes=[0], keepdims=0)

    def pooled(self, log_proba: str, density: str | None, log_prior: Any, weights: PoolWeights) -> str:
        """Add the pool of a network and a density, as `genlabel.model_selection.scoring.pool` without its bound."""
        prior = np.asarray(log_prior, dtype=np.float64)
        score = self.add("Mul", self.add("Sub", log_proba, prior), float(weights.network))
        if density is not None and weights.density is not None:
            score = self.add("Add", score, self.add("Mul", self.add("Sub", density, prior), float(weights.density)))
        result = self.add("LogSoftmax", self.add("Add", score, prior), axis=1)
        if weights.prior == 0.0:
            return result
        sure = self.add("Mul", self.add("Exp", result), 1.0 - weights.prior)
        return self.add("Log", self.add("Add", sure, weights.prior * np.exp(prior)))

    def model(self, log_proba: str, k: int, metadata: dict[str, str], costs: Any = None) -> Any:
        """Return the checked model of log-probabilities (m, k), with its metadata; `costs` (k,) choose the class."""
        helper, tensor = self._onnx.helper, self._onnx.TensorProto
        weighted = log_proba if costs is None else self.add("Add", log_proba, np.log(costs))
        index = self.add("ArgMax", weighted, axis=1, keepdims=0)
        outputs = []
        for name, source, kind, shape in (
            ("log_proba", log_proba, helper.np_dtype_to_tensor_dtype(self.dtype), ["m", k]),
            ("class_index", index, tensor.INT64, ["m"]),
        ):
            self._nodes.append(helper.make_node("Identity", [source], [name]))
            outputs.append(helper.make_tensor_value_info(name, kind, shape))
        graph = helper.make_graph(self._nodes, "genlabel", self._values, outputs, self._constants)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(ML_DOMAIN, 2)]
        # Runtimes of 2022 can read these operator sets and this IR version.
        model = helper.make_model(graph, producer_name="genlabel", opset_imports=opsets, ir_version=8)
        helper.set_model_props(model, metadata)
        self._onnx.checker.check_model(model)
        return model
