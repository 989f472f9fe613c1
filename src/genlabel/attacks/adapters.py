"""What a fitted classifier shows to an attack: the points in the coordinates of the attack, and the target there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from genlabel._arrays import Values, as_numpy, as_tensor
from genlabel.attacks.black_box import DecisionModel, FunctionModel
from genlabel.attacks.models import AttackedModel, AttackedNetwork
from genlabel.metrics import index_labels

Function = Callable[[NDArray[np.float64]], NDArray[Any]]


class ModelView(NamedTuple):
    """Points (m, d) in the coordinates of an attack, and the model as a function of them."""

    points: NDArray[np.float64]
    target: AttackedModel

    def right(self, y: NDArray[np.int64], points: Tensor | None = None) -> NDArray[np.bool_]:
        """Which points, those of the view if none are given, are taken for the class y (m,)."""
        wrong = self.target.wrong(as_tensor(self.points) if points is None else points, torch.from_numpy(y))
        return as_numpy(~wrong)


def view(model: Any, X: Values, space: str) -> ModelView:
    """The model and the points, "standardised" or as they are in the "input".

    Standardised are the features that a classifier of ours standardises itself, inside a pipeline too; for any other
    one those that the last step of a pipeline sees, in units of their standard deviations in `X` (of the training set,
    where a `StandardScaler` comes right before it).
    """
    if space == "input":
        return _in_input(model, X)
    last, seen, scaled = _last_step(model, X)
    if hasattr(last, "scaler_"):
        return _in_standard_units(last, seen)
    points = _numbers(seen, space)
    mean, spread = (0.0, np.ones(points.shape[1])) if scaled else (points.mean(0), points.std(0))
    unit = np.where(spread > 0, spread, 1.0)
    return ModelView((points - mean) / unit, _function_target(last, lambda points: points * unit + mean, 1.0))


def class_indices(model: Any, y: Values, n: int) -> NDArray[np.int64]:
    """The place of each label in the model's `classes_`, (n,)."""
    if not hasattr(model, "classes_"):
        raise ValueError(f"{type(model).__name__} has no classes_; give a fitted classifier")
    labels = np.asarray(y)
    if labels.shape != (n,):
        raise ValueError(f"y has shape {labels.shape}; expected ({n},), one label a row of X")
    return index_labels(labels, model.classes_)


def network_view(network: nn.Module, X: Values) -> tuple[AttackedNetwork, Tensor]:
    """A torch network as a target, and the points (m, d) that it takes: images (m, c, h, w), or rows as they are."""
    given = X if isinstance(X, Tensor) else np.asarray(X)
    if given.ndim not in (2, 4) or 0 in given.shape:
        raise ValueError(f"X has shape {tuple(given.shape)}; a network takes images (m, c, h, w) or points (m, d)")
    target = AttackedNetwork(network, tuple(given.shape[1:]) if given.ndim == 4 else None)
    x = target.enter(given)
    if not bool(x.isfinite().all()):
        raise ValueError("X contains NaN or infinity; an attack needs finite points")
    return target, x


def check_indices(y: Values, m: int, k: int) -> NDArray[np.int64]:
    """Class indices (m,), checked."""
    index = as_numpy(y)
    if index.shape != (m,):
        raise ValueError(f"y has shape {index.shape}; expected ({m},), one class a row of X")
    if m and (index.dtype.kind not in "iu" or index.min() < 0 or index.max() >= k):
        raise ValueError(
            f"y must hold class indices, 0 to {k - 1}; turn labels into them with index_labels(y, model.classes_)"
        )
    return index.astype(np.int64)


def _last_step(model: Any, X: Any) -> tuple[Any, Any, bool]:
    """The classifier inside searches and pipelines, what it sees of `X`, and whether that was just standardised."""
    scaled = False
    while isinstance(model, Pipeline) or hasattr(model, "best_estimator_"):
        if not isinstance(model, Pipeline):
            model = model.best_estimator_
            continue
        steps = [step for _, step in model.steps[:-1] if step not in (None, "passthrough")]
        for step in steps:
            X = step.transform(X)
        scaled = isinstance(steps[-1], StandardScaler) if steps else scaled
        model = model.steps[-1][1]
    return model, X, scaled


def _in_standard_units(model: Any, X: Values) -> ModelView:
    """A classifier of ours, as a function of `scaler_(X)`: its network, where that alone predicts."""
    named = isinstance(X, pd.DataFrame) and hasattr(model, "feature_names_in_")
    points = model.scaler_(model.encode(X) if named else _numbers(X, "standardised"))
    if getattr(model, "predicts_by_network", False):
        return ModelView(points, AttackedNetwork(model.network_))
    return ModelView(points, FunctionModel(model.predict_log_proba_scaled))


def _in_input(model: Any, X: Values) -> ModelView:
    """Any classifier as a function of `X`."""
    points = _numbers(X, "input")
    if getattr(model, "predicts_by_network", False):
        return ModelView(points, AttackedNetwork(_Standardised(model.scaler_, model.network_)))
    spread, reach = points.std(0), np.abs(points).max(0)
    unit = np.maximum(spread, 1e-6 * reach)
    return ModelView(points, _function_target(model, lambda same: same, np.where(unit > 0, unit, 1.0)))


def _function_target(model: Any, to_input: Function, scale: ArrayLike) -> AttackedModel:
    """A model by what it can: log-probabilities, probabilities or classes; columns bear the names that it knows."""
    names = getattr(model, "feature_names_in_", None)

    def ask(method: str, points: NDArray[np.float64]) -> NDArray[Any]:
        X = to_input(points)
        return np.asarray(getattr(model, method)(X if names is None else pd.DataFrame(X, columns=names)))

    if hasattr(model, "predict_log_proba"):
        return FunctionModel(lambda points: ask("predict_log_proba", points), scale)
    if hasattr(model, "predict_proba"):
        return FunctionModel(lambda points: np.log(ask("predict_proba", points)), scale)
    classes = pd.Index(model.classes_)
    return DecisionModel(lambda points: classes.get_indexer(pd.Index(ask("predict", points))), len(classes))


class _Standardised(nn.Module):
    """A network that takes raw features: standardised, without the constant ones, as by a `Standardization`."""

    mean: Tensor
    scale: Tensor
    keep: Tensor

    def __init__(self, scaler: Any, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        for name in ("mean", "scale", "keep"):
            self.register_buffer(name, torch.from_numpy(getattr(scaler, name)))

    def forward(self, x: Tensor) -> Tensor:
        return self.network(((x - self.mean) / self.scale)[:, self.keep])


def _numbers(X: Any, space: str) -> NDArray[np.float64]:
    """`X` as float64, (m, d)."""
    dense = X.toarray() if hasattr(X, "toarray") else X
    try:
        points = np.asarray(dense, dtype=np.float64)
    except (TypeError, ValueError) as error:
        hint = "use space='standardised'" if space == "input" else "encode them before the classifier"
        raise ValueError(f"an attack moves numbers, but X has columns that are none ({error}); {hint}") from error
    if not np.isfinite(points).all():
        raise ValueError("X contains NaN or infinity; an attack needs finite points")
    return points
