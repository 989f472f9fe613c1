"""Base class of attacks: checks of the input, the ball and its bounds, and the most harmful point."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import Seed, Values, as_numpy, as_rng
from genlabel._validation import check_choice, check_positive
from genlabel.attacks.models import PIXEL_BOUNDS, AttackedModel, predict

NORMS = ("linf", "l2")


@dataclass(frozen=True, repr=False)
class Attack(ABC):
    """Base class of attacks: a search, within a ball around each point, for a point that the model misclassifies.

    A model that gives NaN at a point misclassifies it. A point that is misclassified without the attack stays so: the
    attack moves it only to where the model is more wrong.
    NOTE[PAPER]: a plain step of FGSM can also correct a point, which a plain count takes for robust; here it does not.

    An attack is a dataclass that defines `run`; :func:`genlabel.testing.check_attack` checks it.

    Parameters
    ----------
    eps : float
        Radius of the ball; 0.2 on standardized features is the paper's (arXiv Table 12).
    norm : "linf" or "l2"
        Norm of the ball.
    bounds : None or (low, high)
        Values that a feature may take, numbers or arrays (d,); the points themselves must be within them. For images,
        None is (0, 1).
    """

    eps: float = 0.2
    norm: str = "linf"
    bounds: Any = field(default=None, kw_only=True)

    needs_gradient: ClassVar[bool] = True
    images_only: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "eps", check_positive("eps", self.eps, "0.2 is the paper's"))
        check_choice("norm", self.norm, NORMS)
        if self.bounds is not None:
            try:
                low, high = (np.asarray(bound, dtype=np.float64) for bound in self.bounds)
                valid = low.ndim < 2 and high.ndim < 2 and bool((low < high).all())
            except (TypeError, ValueError):
                valid = False
            if not valid:
                raise ValueError(f"bounds={self.bounds!r} must be None or (low, high), numbers or (d,), low below high")
            plain = tuple(float(bound) if bound.ndim == 0 else tuple(bound.tolist()) for bound in (low, high))
            object.__setattr__(self, "bounds", plain)

    def __repr__(self) -> str:
        changed = [f for f in fields(self) if f.init and getattr(self, f.name) != f.default]
        return f"{type(self).__name__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in changed)})"

    @final
    def __call__(self, model: AttackedModel, X: Values, y: Values, *, seed: Seed = None) -> Any:
        """Return the most harmful point that was found for each point, as the kind of array that `X` is.

        Parameters
        ----------
        model : AttackedModel
        X : array or tensor (m, d) or (..., m, d)
            With many models, either the same points for all, or each model's own; the result has each model's own.
            Images (m, c, h, w), uint8 or in [0, 1], for a model that has an `image_shape`; the result is in [0, 1].
        y : array (m,) or (..., m)
            True classes, as indices.
        seed : int, Generator or None
        """
        if self.needs_gradient and not model.has_gradient:
            raise TypeError(f"{self!r} needs gradients, but the model gives no probabilities; use the boundary attack")
        if self.bounds is None and model.image_shape is not None:
            return replace(self, bounds=PIXEL_BOUNDS)(model, X, y, seed=seed)
        x = model.read_points(X)
        sizes = [len(bound) for bound in self.bounds or () if isinstance(bound, tuple)]
        if any(size != x.shape[-1] for size in sizes):
            raise ValueError(f"bounds are for {sizes[0]} features, but X has {x.shape[-1]}; pass numbers or (d,) each")
        if not bool((self.clip(x) == x).all()):
            raise ValueError(f"X has values outside bounds={self.bounds}; widen them, or clip X first")
        with torch.no_grad():
            index = as_numpy(y)
            if index.shape not in (x.shape[-2:-1], x.shape[:-1]):
                raise ValueError(f"y has shape {index.shape}, but X has shape {tuple(x.shape)}; pass one class a point")
            num_classes = model.log_proba(x[..., :1, :]).shape[-1]
            checked = check_class_indices(index.ravel(), index.size, num_classes).reshape(index.shape)
            true = torch.from_numpy(checked).to(x.device).expand(x.shape[:-1])
            best = BestAdversarial(model, x, true)
            points = self.run(model, x, true, as_rng(seed))
            rounding = 8 * torch.finfo(x.dtype).eps * (self.eps + x.abs().amax(-1))
            within = row_norm(points - x, self.norm) <= self.eps + rounding * x.shape[-1] ** 0.5
            if points.shape != x.shape or not bool(within.all()) or not bool((self.clip(points) == points).all()):
                raise RuntimeError(f"{self!r} returned points outside its ball or bounds; `run` must `project` them")
            return model.from_points(best.update(points).points, X)

    @abstractmethod
    def run(self, model: AttackedModel, x: Tensor, y: Tensor, rng: np.random.Generator) -> Tensor:
        """Return points like x (..., m, d), in the ball and the bounds; y (..., m) are the true class indices."""

    @final
    def project(self, points: Tensor, x: Tensor) -> Tensor:
        """Return the nearest points in the ball around x, then in the bounds; the result is in both, because x is."""
        step = points - x
        if self.norm == "linf":
            step = step.clamp(-self.eps, self.eps)
        else:
            step = step * (self.eps / row_norm(step, "l2").clamp(min=self.eps))[..., None]
        return self.clip(x + step)

    @final
    def clip(self, points: Tensor) -> Tensor:
        """Return the nearest points in the bounds."""
        if self.bounds is None:
            return points
        low, high = (points.new_tensor(bound) for bound in self.bounds)
        return torch.minimum(torch.maximum(points, low), high)


@final
class BestAdversarial:
    """The most harmful points so far: misclassified ones first, then those of the highest loss."""

    def __init__(self, model: AttackedModel, x: Tensor, y: Tensor) -> None:
        self.model, self.y, self.points = model, y, x
        self.misclassified, self.loss = self._harm(x)

    def update(self, points: Tensor) -> BestAdversarial:
        """Keep those of `points` that are more harmful."""
        misclassified, loss = self._harm(points)
        worse = (misclassified & ~self.misclassified) | ((misclassified == self.misclassified) & (loss > self.loss))
        self.points = torch.where(worse[..., None], points, self.points)
        self.misclassified = misclassified | self.misclassified
        self.loss = torch.where(worse, loss, self.loss)
        return self

    def _harm(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mask of misclassified points, and log (1 - p_y) - log p_y, which grows with the cross-entropy."""
        log_proba = self.model.log_proba(points)
        true = self.y[..., None]
        others = log_proba.scatter(-1, true, -torch.inf).logsumexp(-1)
        return predict(log_proba) != self.y, (others - log_proba.gather(-1, true)[..., 0]).nan_to_num(0.0)


def row_norm(steps: Tensor, norm: str) -> Tensor:
    """Return the norm of each row, (..., m, d) -> (..., m)."""
    return steps.norm(dim=-1) if norm == "l2" else steps.abs().amax(-1)


def steepest_direction(gradient: Tensor, norm: str) -> Tensor:
    """Return the step of norm 1 along which a linear function with this gradient grows most; 0 where it is 0."""
    if norm == "linf":
        return gradient.sign()
    tiny = torch.finfo(gradient.dtype).tiny
    scaled = gradient / gradient.abs().amax(-1, keepdim=True).clamp(min=tiny)
    return scaled / scaled.norm(dim=-1, keepdim=True).clamp(min=tiny)


def check_class_indices(y: Values, m: int, num_classes: int) -> NDArray[np.int64]:
    """Return `y` as class indices (m,) below `num_classes`, or raise."""
    index = as_numpy(y)
    if index.shape != (m,):
        raise ValueError(f"y has shape {index.shape}; expected ({m},), one class a row of X")
    if m and (index.dtype.kind not in "iu" or index.min() < 0 or index.max() >= num_classes):
        raise ValueError(f"y must hold class indices, 0 to {num_classes - 1}: the positions of labels in classes_")
    return index.astype(np.int64)
