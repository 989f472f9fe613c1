"""Adapters: from a fitted classifier or a network to an attacked model, with points in the space of the attack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from genlabel._arrays import Values
from genlabel.attacks.models import AttackedModel, AttackedNetwork, DecisionModel, FunctionModel
from genlabel.metrics import index_labels

SPACES = ("standardized", "input")


def wrap_classifier(
    classifier: Any, X: Values, y: Values, space: str
) -> tuple[AttackedModel, NDArray[np.float64], NDArray[np.int64]]:
    """Return a fitted classifier as an attacked model, the points (m, d) in a space, and their class indices.

    The space "input" is that of `X`. The space "standardized" is that of the features that a classifier of genlabel
    standardizes itself, also as the last step of a pipeline. For any other classifier it is that of the features which
    the last step receives, in units of their standard deviations in `X`; if a `StandardScaler` is the step before it,
    those of the training set.
    """
    if not hasattr(classifier, "fit"):
        raise TypeError(f"model is a {type(classifier).__name__}; pass a torch module or a fitted classifier")
    check_is_fitted(classifier)
    if not hasattr(classifier, "classes_"):
        raise ValueError(f"{type(classifier).__name__} has no classes_; pass a fitted classifier")
    labels, n = np.asarray(y), len(classifier.predict(X))
    if labels.shape != (n,):
        raise ValueError(f"y has shape {labels.shape}; expected ({n},), one label a row of X")
    index = index_labels(labels, classifier.classes_)
    wrapped, points = _in_input_space(classifier, X) if space == "input" else _in_standardized_space(classifier, X)
    return wrapped, points, index


def _in_input_space(classifier: Any, X: Values) -> tuple[AttackedModel, NDArray[np.float64]]:
    """Return the model and its points in the features of `X`."""
    points = _as_numbers(X, "use space='standardized'")
    network = _only_network(classifier, getattr(classifier, "scaler_", None))
    if network is not None:
        return network, points
    unit = np.maximum(points.std(0), 1e-6 * np.abs(points).max(0))
    return _function_model(classifier, lambda points: points, np.where(unit > 0, unit, 1.0)), points


def _in_standardized_space(classifier: Any, X: Any) -> tuple[AttackedModel, NDArray[np.float64]]:
    """Return the last step of a pipeline or search as a model, and its points in standardized features."""
    is_scaled = False
    while isinstance(classifier, Pipeline) or hasattr(classifier, "best_estimator_"):
        if not isinstance(classifier, Pipeline):
            classifier = classifier.best_estimator_
            continue
        steps = [step for _, step in classifier.steps[:-1] if step not in (None, "passthrough")]
        for step in steps:
            X = step.transform(X)
        is_scaled = isinstance(steps[-1], StandardScaler) if steps else is_scaled
        classifier = classifier.steps[-1][1]
    if isinstance(X, pd.DataFrame) and hasattr(classifier, "scaler_") and hasattr(classifier, "feature_names_in_"):
        points = classifier.encode(X)
    else:
        points = _as_numbers(X, "encode them before the classifier")
    if hasattr(classifier, "scaler_"):
        model = _only_network(classifier) or FunctionModel(classifier.predict_log_proba_scaled)
        return model, classifier.scaler_(points)
    mean, scale = (0.0, np.ones(points.shape[1])) if is_scaled else (points.mean(0), points.std(0))
    unit = np.where(scale > 0, scale, 1.0)
    return _function_model(classifier, lambda points: points * unit + mean, 1.0), (points - mean) / unit


def wrap_network(network: nn.Module, X: Values) -> tuple[AttackedNetwork, Tensor]:
    """Return a torch network as an attacked model, and its points (m, d), the pixels of images (m, c, h, w)."""
    array = X if isinstance(X, Tensor) else np.asarray(X)
    if array.ndim not in (2, 4):
        raise ValueError(f"X has shape {tuple(array.shape)}; a network takes images (m, c, h, w) or points (m, d)")
    model = AttackedNetwork(network, tuple(array.shape[1:]) if array.ndim == 4 else None)
    return model, model.read_points(array)


def _only_network(classifier: Any, scaler: Any = None) -> AttackedNetwork | None:
    """Return the network of a classifier, after its scaler if one is passed; None unless it predicts alone."""
    if not getattr(classifier, "predicts_by_network", False):
        return None
    return AttackedNetwork(classifier.network_ if scaler is None else _ScaledNetwork(scaler, classifier.network_))


def _function_model(
    classifier: Any, to_input: Callable[[NDArray[np.float64]], NDArray[Any]], scale: ArrayLike
) -> AttackedModel:
    """Return a model of the classifier's log-probabilities; without these of its probabilities, or of its classes."""
    names = getattr(classifier, "feature_names_in_", None)

    def call(method: str, points: NDArray[np.float64]) -> NDArray[Any]:
        X = to_input(points)
        return np.asarray(getattr(classifier, method)(X if names is None else pd.DataFrame(X, columns=names)))

    if hasattr(classifier, "predict_log_proba"):
        return FunctionModel(lambda points: call("predict_log_proba", points), scale)
    if hasattr(classifier, "predict_proba"):
        return FunctionModel(lambda points: np.log(call("predict_proba", points)), scale)
    classes = pd.Index(classifier.classes_)
    return DecisionModel(lambda points: classes.get_indexer(pd.Index(call("predict", points))), len(classes))


class _ScaledNetwork(nn.Module):
    """Network of raw features, which a `Standardization` scales and whose constant ones it drops."""

    def __init__(self, scaler: Any, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.mean, self.scale, self.mask = (torch.from_numpy(x) for x in (scaler.mean, scaler.scale, scaler.mask))

    def forward(self, x: Tensor) -> Tensor:
        return self.network(((x - self.mean) / self.scale)[:, self.mask])


def _as_numbers(X: Any, hint: str) -> NDArray[np.float64]:
    """Return `X` as float64, (m, d), or raise; the hint says what to do with columns of text."""
    dense = X.toarray() if hasattr(X, "toarray") else X
    try:
        points = np.asarray(dense, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X has columns of text, which an attack cannot move ({error}); {hint}") from error
    if not np.isfinite(points).all():
        raise ValueError("X contains NaN or infinity; an attack needs finite points")
    return points
