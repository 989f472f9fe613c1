"""ONNX nodes of the fitted parts of a model: preprocessing, networks, densities, and the classifiers made of them."""

from __future__ import annotations

from functools import singledispatch
from typing import Any, cast

import numpy as np
import torch
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from genlabel._arrays import Standardization
from genlabel.densities.base import PerClassDensity, SphericalGaussian
from genlabel.densities.covariance import LOG_2_PI, Gaussians, LowRankGaussians
from genlabel.densities.forest import MAX_MAGNITUDE, ForestDensity, Trees
from genlabel.densities.gaussian import DiscriminantDensity, GaussianDensity
from genlabel.densities.kernel import LOG2_E, KernelModel
from genlabel.densities.mixture import MixtureDensity, Terms
from genlabel.densities.stacked import StackedDensity, WeightedDensities
from genlabel.densities.transformed import (
    MAX_TRANSFORMED,
    POWER_TOLERANCE,
    LatentDensity,
    PowerTransform,
    PowerTransformedDensity,
)
from genlabel.estimators.base import NetworkClassifier
from genlabel.estimators.generative import GenerativeClassifier
from genlabel.estimators.validation import FrameEncoder, NumericEncoder
from genlabel.labeling.generative import GenLabel
from genlabel.model_selection.scoring import PoolWeights
from genlabel.model_selection.splits import MIN_LOG_PROBA
from genlabel.persistence.objects import preprocessing_state
from genlabel.persistence.onnx_graph import ML_DOMAIN, Graph
from genlabel.training.networks.staged import MLP, Ensemble


@singledispatch
def to_onnx(part: Any, graph: Graph, x: str) -> str:
    """Add the nodes that compute a fitted part of a model at points `x` (m, d), and return the name of their output.

    A step of the preprocessing gives features, a network class scores (m, k), a density log-densities (m, k), a model
    of one class its log-density (m, 1), a classifier log-probabilities (m, k). A part of one's own is registered:

    >>> from genlabel.densities import PerClassDensity
    >>> class Laplace(PerClassDensity):
    ...     def _fit_class(self, sample):
    ...         return torch.distributions.Independent(torch.distributions.Laplace(sample.X.mean(0), 1.0), 1)
    >>> @to_onnx.register
    ... def _(part: Laplace, graph, x):
    ...     columns = []
    ...     for model in part.models_:
    ...         far = graph.add("Abs", graph.add("Sub", x, model.mean))
    ...         columns.append(graph.add("Neg", graph.add("ReduceSum", far, np.array([1]), keepdims=1)))
    ...     return graph.add("Concat", *columns, axis=1)
    """
    raise ValueError(
        f"{type(part).__name__} cannot be written as ONNX; pass compress=X with the training rows for a network that "
        "imitates the model, or register the nodes with genlabel.persistence.to_onnx"
    )


# Preprocessing


@to_onnx.register
def _(part: ColumnTransformer, graph: Graph, x: str) -> str:
    """Add the inputs "numbers" and "text" of a table, imputed and one-hot encoded."""
    state = preprocessing_state(part)
    blocks = []
    if medians := state["numbers"]:
        blocks.append(_imputed(graph, graph.input("numbers", list(medians)), np.array(list(medians.values()))))
    if state["text"]:
        text = graph.input("text", list(state["text"]), text=True)
        for index, (frequent, rare) in enumerate(state["text"].values()):
            width = len(frequent) + bool(rare)
            keys = [*frequent, *rare]
            code = graph.add(
                "LabelEncoder",
                graph.add("Gather", text, np.array(index), axis=1),
                domain=ML_DOMAIN,
                keys_strings=keys,
                values_int64s=[min(position, len(frequent)) for position in range(len(keys))],
                default_int64=len(frequent),  # the column of rare values, or no column
            )
            blocks.append(graph.add("Gather", np.eye(len(frequent) + 1, width), code, axis=0))
    return graph.add("Concat", *blocks, axis=1)


@to_onnx.register
def _(part: FrameEncoder, graph: Graph, x: str) -> str:
    return to_onnx(part.columns.steps[0][1], graph, x)


@to_onnx.register
def _(part: NumericEncoder, graph: Graph, x: str) -> str:
    return _imputed(graph, x, part.medians)


@to_onnx.register
def _(part: StandardScaler, graph: Graph, x: str) -> str:
    centered = graph.add("Sub", x, part.mean_) if part.with_mean else x
    return graph.add("Div", centered, part.scale_) if part.with_std else centered


@to_onnx.register
def _(part: Standardization, graph: Graph, x: str) -> str:
    scaled = graph.add("Div", graph.add("Sub", x, part.mean), part.scale)
    mask = np.asarray(part.mask)
    return scaled if mask.all() else graph.add("Gather", scaled, np.flatnonzero(mask), axis=1)


def _imputed(graph: Graph, x: str, medians: Any) -> str:
    """Add the columns with medians in place of missing values."""
    return graph.add("Where", graph.add("IsNaN", x), medians, x)


# Networks


@to_onnx.register
def _(part: MLP, graph: Graph, x: str) -> str:
    return _encoded(part, graph, x, len(part.layers))


@to_onnx.register
def _(part: Ensemble, graph: Graph, x: str) -> str:
    logs = [graph.add("LogSoftmax", to_onnx(network, graph, x), axis=1) for network in part.networks]
    mean = graph.mixed(logs, np.full(len(logs), -np.log(len(logs))))
    if part.log_prior is None:
        return mean
    return graph.pooled(mean, None, part.log_prior, PoolWeights(part.weight, prior=part.prior_weight))


def _encoded(network: MLP, graph: Graph, x: str, n_layers: int) -> str:
    """Add the first layers of a network, with a ReLU after each but the last of all."""
    for index, layer in enumerate(network.layers[:n_layers]):
        weight, bias = (cast(Tensor, value) for value in (layer.weight, layer.bias))
        x = graph.add("Add", graph.add("MatMul", x, weight.T), bias)
        x = graph.add("Relu", x) if index < network.depth else x
    return x


# Densities


@to_onnx.register
def _(part: StackedDensity, graph: Graph, x: str) -> str:
    return to_onnx(part.stack_, graph, x)


@to_onnx.register
def _(part: WeightedDensities, graph: Graph, x: str) -> str:
    points, log_prior = to_onnx(part.scaler_, graph, x), np.log(part.class_prior_)
    log_prob = [graph.without_nan(to_onnx(member, graph, points)) for member in part.members_]
    tempered = zip(log_prob, part.temperature_, strict=True)
    posterior = graph.mixed([graph.log_posterior(values, log_prior, T) for values, T in tempered], part.log_weight_)
    joint = [graph.add("Add", values, log_prior) for values in log_prob]
    evidence = [graph.add("ReduceLogSumExp", values, axes=[1], keepdims=1) for values in joint]
    total = graph.add("Sub", graph.mixed(evidence, part.log_weight_), part.scaler_.log_volume)
    return graph.add("Add", graph.add("Sub", posterior, log_prior), total)


@to_onnx.register
def _(part: PowerTransformedDensity, graph: Graph, x: str) -> str:
    points, log_jacobian = _power_transformed(part.transform_, graph, x)
    return graph.add("Add", to_onnx(part.density_, graph, points), log_jacobian)


def _power_transformed(part: PowerTransform, graph: Graph, x: str) -> tuple[str, str]:
    """Add the transformed points, and their log-Jacobians (m, 1)."""
    sign, log = graph.add("Sign", x), graph.add("Log", graph.add("Add", graph.add("Abs", x), 1.0))
    # ((1 + |x|)^e - 1) / e by the exponent e = p of positive and 2 - p of negative values; the logarithm at e = 0.
    sides = []
    for exponent in (part.power, 2.0 - part.power):
        is_zero = exponent.abs() < POWER_TOLERANCE
        exponent = torch.where(is_zero, torch.ones_like(exponent), exponent)
        half = graph.add("Tanh", graph.add("Mul", log, 0.5 * exponent))
        power = graph.add("Add", graph.add("Exp", graph.add("Mul", log, exponent)), 1.0)
        side = graph.add("Div", graph.add("Mul", half, power), exponent)  # expm1(z) = tanh(z / 2) (exp(z) + 1)
        sides.append(graph.add("Where", is_zero, log, side) if bool(is_zero.any()) else side)
    absolute = graph.add("Where", graph.add("Less", x, 0.0), sides[1], sides[0])
    transformed = graph.add("Mul", sign, absolute)
    transformed = graph.add("Div", graph.add("Sub", transformed, part.center), part.scale)
    points = graph.add("Clip", transformed, -MAX_TRANSFORMED, MAX_TRANSFORMED)
    slope = graph.add("Mul", graph.add("Mul", sign, log), part.power - 1.0)
    excess = graph.add("Abs", graph.add("Sub", transformed, points))
    log_jacobian = graph.add("Sub", graph.add("Sub", slope, part.scale.log()), excess)
    return points, graph.add("ReduceSum", log_jacobian, np.array([1]), keepdims=1)


@to_onnx.register
def _(part: LatentDensity, graph: Graph, x: str) -> str:
    if not isinstance(part.encoder, MLP):
        return to_onnx(part.encoder, graph, x)  # raises, with advice
    return to_onnx(part.density_, graph, _encoded(part.encoder, graph, x, part.depth))


@to_onnx.register
def _(part: GaussianDensity, graph: Graph, x: str) -> str:
    return to_onnx(part.gaussians(), graph, x)


@to_onnx.register
def _(part: DiscriminantDensity, graph: Graph, x: str) -> str:
    return to_onnx(part.gaussians_, graph, x)


@to_onnx.register
def _(part: Gaussians, graph: Graph, x: str) -> str:
    (r, d), middle = part.mean.shape, part.mean.mean(0)
    shift = ((middle - part.mean)[:, None] @ part.matrix).view(r * d)
    stacked = part.matrix.mT.reshape(r * d, d).T
    whitened = graph.add("Add", graph.add("MatMul", graph.add("Sub", x, middle), stacked), shift)
    whitened = graph.add("Reshape", whitened, np.array([0, r, d]))
    distance = graph.add("ReduceSumSquare", whitened, axes=[2], keepdims=0)
    return graph.add("Mul", graph.add("Add", distance, part.log_det + d * LOG_2_PI), -0.5)


@to_onnx.register
def _(part: LowRankGaussians, graph: Graph, x: str) -> str:
    columns, d = [], part.mean.shape[1]
    for c, mean in enumerate(part.mean):
        axes = part.axes[c if len(part.axes) > 1 else 0]
        rest, variance = part.variances(axes)
        centered = graph.add("Sub", x, mean)
        distance = graph.add("ReduceSumSquare", centered, axes=[1], keepdims=1)
        projected = graph.add("MatMul", centered, axes.vectors.T)
        along = graph.add("Mul", projected, projected)
        beyond = graph.add("Sub", distance, graph.add("ReduceSum", along, np.array([1]), keepdims=1))
        beyond = graph.add("Div", graph.add("Max", beyond, 0.0), rest)
        scaled = graph.add("MatMul", along, variance.reciprocal()[:, None])
        log_det = float(variance.log().sum() + (d - len(variance)) * rest.log())
        columns.append(graph.add("Add", graph.add("Add", scaled, beyond), log_det + d * LOG_2_PI))
    return graph.add("Mul", graph.add("Concat", *columns, axis=1), -0.5)


@to_onnx.register
def _(part: MixtureDensity, graph: Graph, x: str) -> str:
    values = to_onnx(part.terms_, graph, to_onnx(part.scaler_, graph, x))
    return graph.add("Sub", values, part.scaler_.log_volume)


@to_onnx.register
def _(part: Terms, graph: Graph, x: str) -> str:
    r, q, d = part.linear.shape
    logits = graph.add("MatMul", x, part.linear.view(r * q, d).T)
    if part.square is not None:
        squares = graph.add("MatMul", graph.add("Mul", x, x), part.square.view(r * q, d).T)
        logits = graph.add("Add", logits, squares)
    logits = graph.add("Reshape", graph.add("Add", logits, part.constant.view(r * q)), np.array([0, r, q]))
    values = graph.add("ReduceLogSumExp", logits, axes=[2], keepdims=0)
    if part.precision is None:
        return values
    products = graph.add("Mul", graph.add("MatMul", x, part.precision), x)  # (r, m, d)
    squares = graph.add("Transpose", graph.add("ReduceSum", products, np.array([2]), keepdims=0), perm=[1, 0])
    return graph.add("Sub", values, graph.add("Mul", squares, 0.5))


@to_onnx.register
def _(part: PerClassDensity, graph: Graph, x: str) -> str:
    return graph.add("Concat", *[to_onnx(model, graph, x) for model in part.models_], axis=1)


@to_onnx.register
def _(part: KernelModel, graph: Graph, x: str) -> str:
    if part.left_out is not None:
        raise ValueError(
            "KernelDensity(leave_one_out=True) cannot be written as ONNX; use leave_one_out=False, or pass compress=X "
            "with the training rows"
        )
    centered, d = graph.add("Sub", x, part.center), len(part.center)
    a = graph.add("Mul" if part.matrix.dim() == 1 else "MatMul", centered, part.matrix)
    b, lift = part.points[:, :d], part.points[:, d]
    exponents = graph.add("Add", graph.add("MatMul", a, b.T / LOG2_E), lift / LOG2_E)
    total = graph.add("ReduceLogSumExp", exponents, axes=[1], keepdims=1)
    square = graph.add("ReduceSumSquare", a, axes=[1], keepdims=1)
    return graph.add("Add", graph.add("Sub", total, graph.add("Mul", square, 0.5 / LOG2_E)), part.log_norm)


@to_onnx.register
def _(part: SphericalGaussian, graph: Graph, x: str) -> str:
    centered = graph.add("Sub", x, np.array(part.mean))
    distance = graph.add("Div", graph.add("ReduceSumSquare", centered, axes=[1], keepdims=1), part.variance)
    constant = len(part.mean) * (LOG_2_PI + np.log(part.variance))
    return graph.add("Mul", graph.add("Add", distance, constant), -0.5)


@to_onnx.register
def _(part: ForestDensity, graph: Graph, x: str) -> str:
    height = -0.5 * float(part.variance_.log().sum() + len(part.mean_) * LOG_2_PI)
    scaled = graph.add("Div", graph.add("Sub", x, part.mean_), part.variance_.sqrt())
    distance = graph.add("ReduceSumSquare", scaled, axes=[1], keepdims=1)
    logs = graph.add("Log", to_onnx(part.trees_, graph, graph.add("Clip", x, -MAX_MAGNITUDE, MAX_MAGNITUDE)))
    return graph.add("Add", graph.add("Sub", logs, graph.add("Mul", distance, 0.5)), height)


@to_onnx.register
def _(part: Trees, graph: Graph, x: str) -> str:
    """Add the mean ratios of the trees: each tree gives the row of its leaf in a table of ratios (rows, k)."""
    n_trees, n_nodes = len(part.root), len(part.feature)
    root, child = part.root.numpy(), part.child.numpy().reshape(-1, 2)
    tree = np.repeat(np.arange(n_trees), np.diff([*root, n_nodes]))
    node, is_leaf = np.arange(n_nodes) - root[tree], child[:, 0] == np.arange(n_nodes)
    leaves = np.flatnonzero(is_leaf)
    n_entries = np.diff(part.first_entry.numpy())
    ratios = np.repeat(part.base_ratio.numpy()[:, None], part.k, axis=1)
    np.add.at(ratios, (np.repeat(np.arange(n_nodes), n_entries), part.entry_class.numpy()), part.entry_excess.numpy())
    table, row = np.unique(ratios[leaves], axis=0, return_inverse=True)
    rows = graph.add(
        "TreeEnsembleRegressor",
        graph.add("Cast", x, to=1),  # single precision, in which the trees compare
        domain=ML_DOMAIN,
        n_targets=n_trees,
        nodes_treeids=tree.tolist(),
        nodes_nodeids=node.tolist(),
        nodes_featureids=part.feature.tolist(),
        nodes_values=part.threshold.tolist(),
        nodes_modes=np.where(is_leaf, "LEAF", "BRANCH_LEQ").tolist(),
        nodes_truenodeids=np.where(is_leaf, 0, child[:, 0] - root[tree]).tolist(),
        nodes_falsenodeids=np.where(is_leaf, 0, child[:, 1] - root[tree]).tolist(),
        target_treeids=tree[leaves].tolist(),
        target_nodeids=node[leaves].tolist(),
        target_ids=tree[leaves].tolist(),
        target_weights=row.reshape(-1).astype(np.float32).tolist(),
    )
    ratio = graph.add("Gather", table, graph.add("Cast", rows, to=7), axis=0)  # (m, trees, k)
    return graph.add("ReduceMean", ratio, axes=[1], keepdims=0)


# Classifiers


@to_onnx.register
def _(part: NetworkClassifier, graph: Graph, x: str) -> str:
    logs = graph.add("LogSoftmax", to_onnx(part.network_, graph, x), axis=1)
    weights = part.pool_weights_
    if weights is None or weights.density is None:
        return logs
    density = None
    if weights.density:
        labeler = cast(GenLabel, part.labeler_)
        log_prob = graph.without_nan(to_onnx(labeler.density_, graph, x))
        posterior = graph.log_posterior(log_prob, labeler.log_prior(part.class_weight_))
        density = graph.add("Max", posterior, MIN_LOG_PROBA)
    return graph.pooled(graph.add("Max", logs, MIN_LOG_PROBA), density, part.log_prior_, weights)


@to_onnx.register
def _(part: GenerativeClassifier, graph: Graph, x: str) -> str:
    log_prob = graph.without_nan(to_onnx(part.density_, graph, x))
    return graph.log_posterior(log_prob, part.log_priors_)
