"""Models as an attack uses them: a network, all candidates of a fleet, a function, a fitted classifier; batched.

Shapes: points x (..., m, d), class indices y (..., m); the leading axes are models.
An image is a point of c h w pixels.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import prod
from typing import Any, ClassVar, final

import numpy as np
import pandas as pd
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from genlabel._arrays import Values, as_numpy, as_tensor, chunks, like, one_hot
from genlabel._validation import check_count
from genlabel.metrics import index_labels
from genlabel.training.fleet import Fleet, relu_scores

SPACES = ("standardized", "input")
MAX_BLOCK_VALUES = 1 << 18
"""Values of the widest layer, over all models, that are computed at once; a cache holds as many."""
MAX_IMAGE_BLOCK_VALUES = {"cpu": 1 << 22, "cuda": 1 << 26}
"""The same for images: a ResNet-18 takes 64 images of 32 x 32 at once, and 1,024 on a GPU."""
PIXEL_BOUNDS = (0.0, 1.0)
MIN_LOG_PROBA = -1e6
"""Substitute for the logarithm of 0 where a number must be finite."""
NO_CLASS = -1
"""Prediction for a point where the model gives NaN."""
DIFFERENCE_STEPS = (1e-2, 1e-1)
"""Larger steps of finite differences, in units of `scale`, for points where the function is flat over the first one."""


def predict(log_proba: Tensor) -> Tensor:
    """Return the class of the largest log-probability, (..., m, k) -> (..., m); `NO_CLASS` where one of them is NaN."""
    return log_proba.argmax(-1).masked_fill(log_proba.isnan().any(-1), NO_CLASS)


class AttackedModel(ABC):
    """Base class of attacked models, one or many at once; a subclass defines `log_proba` and `vjp`."""

    has_gradient: ClassVar[bool] = True
    batch_shape: tuple[int, ...] = ()
    """Leading axes of the points: () for one model, (C,) for C models."""
    image_shape: tuple[int, int, int] | None = None
    """Shape (c, h, w) of a point, if points are images of pixels in [0, 1]; otherwise None."""

    @final
    def read_points(self, X: Values) -> Tensor:
        """Return the caller's array as points (..., m, d), with the leading axes of the models, or raise."""
        x, models = self.to_points(X), self.batch_shape
        if x.ndim < 2 or 0 in x.shape:
            raise ValueError(f"X has shape {tuple(x.shape)}; an attack needs points (m, d), at least one")
        if not bool(x.isfinite().all()):
            raise ValueError("X contains NaN or infinity; an attack needs finite points")
        try:
            lead = np.broadcast_shapes(x.shape[:-2], models)
        except ValueError:
            lead = ()
        if lead[len(lead) - len(models) :] != models:
            raise ValueError(f"X has shape {tuple(x.shape)} for {models} models; pass (m, d) or {(*models, 'm', 'd')}")
        return x.expand(*lead, *x.shape[-2:])

    def to_points(self, X: Values) -> Tensor:
        """Return the caller's array as points."""
        return as_tensor(X).detach()

    def from_points(self, points: Tensor, X: Values) -> Any:
        """Return points as the kind of array that the caller's `X` is."""
        return like(points, X)

    @abstractmethod
    def log_proba(self, x: Tensor) -> Tensor:
        """Return the log-probability of each class, (..., m, k), at points (..., m, d)."""

    @abstractmethod
    def vjp(self, x: Tensor, weight: Tensor) -> Tensor:
        """Return the gradient (..., m, d) in x of the sum of `weight` (..., m, k) times the log-probabilities."""

    @final
    def misclassifies(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the mask of points whose prediction differs from y (..., m), as that of NaN always does."""
        return predict(self.log_proba(x)) != y

    @final
    def is_correct(self, x: Tensor, y: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return the mask of points (m, d) that are classified as y (m,)."""
        return as_numpy(~self.misclassifies(x, torch.from_numpy(y).to(x.device)))

    @final
    def log_odds_gradient(self, x: Tensor, y: Tensor, other: Tensor | None = None) -> Tensor:
        """Return the gradient of log p_other - log p_y; without another class, that of log (1 - p_y) - log p_y.

        The latter is the gradient of the cross-entropy divided by 1 - p_y, which does not vanish by rounding where the
        model is sure.
        """
        log_proba = self.log_proba(x)
        k = log_proba.shape[-1]
        true = one_hot(y, k, log_proba.dtype)
        if other is None:  # probabilities of the classes, given that the class is not y
            others = log_proba.clamp(min=MIN_LOG_PROBA).masked_fill(true.bool(), -torch.inf).softmax(-1)
        else:
            others = one_hot(other, k, log_proba.dtype)
        return self.vjp(x, others - true).nan_to_num(0.0, 0.0, 0.0)


class _DifferentiableModel(AttackedModel, ABC):
    """Base class of models with scores that torch can differentiate."""

    max_block: int
    """Largest number of points that are computed at once."""

    @abstractmethod
    def scores(self, x: Tensor) -> Tensor:
        """Return scores (..., m, k) at points (..., m, d)."""

    @final
    def log_proba(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            parts = [self.scores(x[..., block, :]).log_softmax(-1) for block in chunks(x.shape[-2], self.max_block)]
        return torch.cat(parts, -2).to(x)

    @final
    def vjp(self, x: Tensor, weight: Tensor) -> Tensor:
        parts: list[Tensor] = []
        for block in chunks(x.shape[-2], self.max_block):
            with torch.enable_grad():
                point = x[..., block, :].detach().requires_grad_()
                logs = self.scores(point).log_softmax(-1)
                parts += torch.autograd.grad((logs * weight[..., block, :].to(logs)).sum(), point)
        return torch.cat(parts, -2)


@final
class AttackedNetwork(_DifferentiableModel):
    """Torch module with scores (m, k) at points (m, d), in its own precision and on its own device.

    With the `shape` (c, h, w) of an image, the module takes images (m, c, h, w) of pixels in [0, 1]. An attack then
    takes images, uint8 or in [0, 1], or their pixels (m, c h w), moves them to the module's device in float32 (float64
    for a module in float64), stays in [0, 1], and returns them in the shape in which they came.
    """

    def __init__(self, module: nn.Module, shape: tuple[int, int, int] | None = None) -> None:
        names = [type(part).__name__ for part in module.modules() if part.training]
        if any(name.startswith(("Dropout", "BatchNorm")) for name in names):
            raise ValueError(f"the module is in training mode and has {', '.join(names)}; call module.eval()")
        if shape is not None and len(shape) != 3:
            raise ValueError(f"shape={shape} must be that of an image, (channels, height, width), or None")
        self.module, self.image_shape = module, None
        # Values per point are estimated by the longest side of a parameter; for images, by the first convolution.
        width = max((side for weight in module.parameters() for side in weight.shape), default=1)
        self.max_block = MAX_BLOCK_VALUES // width
        if shape is not None:
            channels, height, columns = self.image_shape = (int(shape[0]), int(shape[1]), int(shape[2]))
            first = next((len(weight) for weight in module.parameters() if weight.ndim == 4), channels)
            device = "cpu" if self._pixel_like().device.type == "cpu" else "cuda"
            self.max_block = MAX_IMAGE_BLOCK_VALUES[device] // max(width, height * columns * max(channels, first))

    def to_points(self, X: Values) -> Tensor:
        """Return images as rows of pixels on the module's device, in float32 or float64; other points as they are."""
        if self.image_shape is None:
            return super().to_points(X)
        array = X.detach() if isinstance(X, Tensor) else torch.from_numpy(np.array(X))
        is_image = array.ndim > 3 and array.shape[-3:] == self.image_shape
        if not is_image and not (array.ndim > 1 and array.shape[-1] == prod(self.image_shape)):
            raise ValueError(f"X has shape {tuple(array.shape)}; the network takes images {('m', *self.image_shape)}")
        pixels = array.to(self._pixel_like()) / (255 if array.dtype == torch.uint8 else 1)
        low, high = PIXEL_BOUNDS
        if pixels.numel() and not bool(((pixels >= low) & (pixels <= high) | ~pixels.isfinite()).all()):
            least, most = pixels.aminmax()
            raise ValueError(f"X has pixels from {least:g} to {most:g}; pass numbers in [0, 1], or uint8 from 0 to 255")
        return pixels.flatten(-3) if is_image else pixels

    def from_points(self, points: Tensor, X: Values) -> Any:
        """Return points in the shape and on the device of `X`."""
        result = points.reshape(np.shape(X))
        return like(result.to(X.device) if isinstance(X, Tensor) else result, X)

    def scores(self, x: Tensor) -> Tensor:
        """Return the module's output for any leading axes."""
        flat = x.flatten(0, -2).to(next(self.module.parameters(), x))
        scores: Tensor = self.module(flat if self.image_shape is None else flat.reshape(-1, *self.image_shape))
        if scores.ndim != 2 or scores.shape[1] < 2:
            raise ValueError(f"the module gave scores {tuple(scores.shape)}; an attack needs (m, k), k at least 2")
        return scores.reshape(*x.shape[:-1], -1)

    def _pixel_like(self) -> Tensor:
        """Return a tensor with the device and the precision of pixels."""
        weight = next(self.module.parameters(), torch.zeros(()))
        return weight.new_empty((), dtype=torch.float64 if weight.dtype == torch.float64 else torch.float32)


@final
class AttackedFleet(_DifferentiableModel):
    """All C candidates of the task `group` of a fleet at once, in float64, each with its own points: (C, m, d)."""

    def __init__(self, fleet: Fleet, group: int = 0) -> None:
        self.layers = fleet.layers(fleet.theta[group : group + 1].detach().double())
        self.batch_shape = (self.layers[0].W.shape[1],)
        self.max_block = MAX_BLOCK_VALUES // (self.batch_shape[0] * max(fleet.sizes))

    def scores(self, x: Tensor) -> Tensor:
        """Multiply layer by layer, over all candidates at once."""
        flat = x.to(self.layers[0].W).reshape(-1, *x.shape[-3:])
        return relu_scores(self.layers, flat)[:, 0].reshape(*x.shape[:-1], -1)


@final
class FunctionModel(AttackedModel):
    """Function from points (m, d) to log-probabilities (m, k), numpy arrays; gradients by central differences.

    Steps are fractions of `scale`, a number or (d,). Points where the function is flat over the smallest step are tried
    with the steps `DIFFERENCE_STEPS`: a tree is flat, and so are clipped probabilities.
    """

    def __init__(self, function: Callable[[NDArray[np.float64]], NDArray[Any]], scale: ArrayLike = 1.0) -> None:
        self.function = function
        self.scale = np.asarray(scale, dtype=np.float64)

    def log_proba(self, x: Tensor) -> Tensor:
        """Evaluate the function."""
        logs = torch.from_numpy(np.array(self.function(_as_rows(x)), dtype=np.float64))
        return logs.to(x).reshape(*x.shape[:-1], -1)

    def vjp(self, x: Tensor, weight: Tensor) -> Tensor:
        """Return central differences, which take 2 d values of the function a point."""
        X = _as_rows(x)
        class_weight = as_numpy(weight).reshape(len(X), -1).astype(np.float64)
        precision = float(np.finfo(self.function(X[:1]).dtype).eps)
        gradient, is_flat = np.zeros_like(X), np.ones(len(X), dtype=bool)
        for step in (precision ** (1 / 3), *DIFFERENCE_STEPS):
            rows = np.flatnonzero(is_flat)
            if not len(rows):
                break
            change = np.zeros(len(rows))  # largest difference of a point, in units of its rounding
            for j, h in enumerate(np.broadcast_to(step * self.scale, X.shape[1:])):
                up, down = X[rows], X[rows]
                up[:, j] += h
                down[:, j] -= h
                above, below = (np.maximum(self.function(points), MIN_LOG_PROBA) for points in (up, down))
                difference = ((above - below) * class_weight[rows]).sum(1)
                rounding = 64 * precision * (1.0 + np.where(class_weight[rows] != 0, np.abs(above), 0.0).max(1))
                change = np.maximum(change, np.abs(difference) / rounding)
                gradient[rows, j] = difference / (up[:, j] - down[:, j])
            is_flat[rows] = change <= 1.0
        return torch.from_numpy(gradient).to(x).reshape(x.shape)


@final
class DecisionModel(AttackedModel):
    """Function from points (m, d) to class indices (m,), -1 for none, without a gradient."""

    has_gradient = False

    def __init__(self, function: Callable[[NDArray[np.float64]], NDArray[Any]], num_classes: int) -> None:
        self.function = function
        self.num_classes = check_count("num_classes", num_classes, low=2)

    def log_proba(self, x: Tensor) -> Tensor:
        """Return 0 for the predicted class and minus infinity for the others; NaN for all where there is none."""
        predicted = np.asarray(self.function(_as_rows(x)), dtype=np.int64).reshape(x.shape[:-1])
        index = torch.from_numpy(predicted).to(x.device)
        logs = one_hot(index.clamp(min=0), self.num_classes, x.dtype).log()
        return logs.masked_fill((index == NO_CLASS)[..., None], torch.nan)

    def vjp(self, x: Tensor, weight: Tensor) -> Tensor:
        """Raise: there is no gradient."""
        raise TypeError("the model gives no probabilities, and so no gradient; use the boundary attack")


def _as_rows(x: Tensor) -> NDArray[np.float64]:
    """Return points (..., m, d) of all models as rows of one array."""
    return as_numpy(x).reshape(-1, x.shape[-1]).astype(np.float64)


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
    if space == "standardized":
        return *_in_standardized_space(classifier, X), index
    points = _as_numbers(X, "use space='standardized'")
    model: AttackedModel | None = _only_network(classifier, getattr(classifier, "scaler_", None))
    if model is None:
        unit = np.maximum(points.std(0), 1e-6 * np.abs(points).max(0))
        model = _function_model(classifier, lambda points: points, np.where(unit > 0, unit, 1.0))
    return model, points, index


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
