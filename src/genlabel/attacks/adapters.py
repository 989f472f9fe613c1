"""Adapters: a fitted classifier or a network as an attacked model, and the points in the coordinates of the attack."""

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
    """Return a fitted classifier as a model, its points (m, d), "standardized" or "input", and their class indices.

    Standardized are the features that a classifier of genlabel standardizes itself, inside a pipeline too; for any
    other classifier, those that the last step of a pipeline receives, in units of their standard deviations in `X` (of
    the training set, where a `StandardScaler` comes right before it).
    """
    if not hasattr(classifier, "fit"):
        raise TypeError(f"model is a {type(classifier).__name__}; give a torch module or a fitted classifier")
    check_is_fitted(classifier)
    if not hasattr(classifier, "classes_"):
        raise ValueError(f"{type(classifier).__name__} has no classes_; give a fitted classifier")
    labels, n = np.asarray(y), len(classifier.predict(X))
    if labels.shape != (n,):
        raise ValueError(f"y has shape {labels.shape}; expected ({n},), one label a row of X")
    index = index_labels(labels, classifier.classes_)
    if space == "input":
        points = _as_numbers(X, space)
        network = _only_network(classifier, getattr(classifier, "scaler_", None))
        if network is not None:
            return network, points, index
        unit = np.maximum(points.std(0), 1e-6 * np.abs(points).max(0))
        return _function_model(classifier, lambda points: points, np.where(unit > 0, unit, 1.0)), points, index
    just_scaled = False
    while isinstance(classifier, Pipeline) or hasattr(classifier, "best_estimator_"):
        if not isinstance(classifier, Pipeline):
            classifier = classifier.best_estimator_
            continue
        steps = [step for _, step in classifier.steps[:-1] if step not in (None, "passthrough")]
        for step in steps:
            X = step.transform(X)
        just_scaled = isinstance(steps[-1], StandardScaler) if steps else just_scaled
        classifier = classifier.steps[-1][1]
    if hasattr(classifier, "scaler_"):
        named = isinstance(X, pd.DataFrame) and hasattr(classifier, "feature_names_in_")
        points = classifier.scaler_(classifier.encode(X) if named else _as_numbers(X, space))
        network = _only_network(classifier)
        return network or FunctionModel(classifier.predict_log_proba_scaled), points, index
    points = _as_numbers(X, space)
    mean, scale = (0.0, np.ones(points.shape[1])) if just_scaled else (points.mean(0), points.std(0))
    unit = np.where(scale > 0, scale, 1.0)
    return _function_model(classifier, lambda points: points * unit + mean, 1.0), (points - mean) / unit, index


def wrap_network(network: nn.Module, X: Values) -> tuple[AttackedNetwork, Tensor]:
    """Return a torch network as a model, and its points (m, d): images (m, c, h, w), or rows as they are."""
    given = X if isinstance(X, Tensor) else np.asarray(X)
    if given.ndim not in (2, 4):
        raise ValueError(f"X has shape {tuple(given.shape)}; a network takes images (m, c, h, w) or points (m, d)")
    model = AttackedNetwork(network, tuple(given.shape[1:]) if given.ndim == 4 else None)
    return model, model.read_points(given)


def _only_network(classifier: Any, scaler: Any = None) -> AttackedNetwork | None:
    """Return the network of a classifier, after its scaler if one is given; None unless it alone predicts."""
    if not getattr(classifier, "predicts_by_network", False):
        return None
    return AttackedNetwork(classifier.network_ if scaler is None else _ScaledNetwork(scaler, classifier.network_))


def _function_model(
    classifier: Any, to_input: Callable[[NDArray[np.float64]], NDArray[Any]], scale: ArrayLike
) -> AttackedModel:
    """Return a model of the classifier's log-probabilities, else probabilities, else classes."""
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


def _as_numbers(X: Any, space: str) -> NDArray[np.float64]:
    """Return `X` as float64, (m, d)."""
    dense = X.toarray() if hasattr(X, "toarray") else X
    try:
        points = np.asarray(dense, dtype=np.float64)
    except (TypeError, ValueError) as error:
        hint = "use space='standardized'" if space == "input" else "encode them before the classifier"
        raise ValueError(f"X has columns of text, which an attack cannot move ({error}); {hint}") from error
    if not np.isfinite(points).all():
        raise ValueError("X contains NaN or infinity; an attack needs finite points")
    return points
