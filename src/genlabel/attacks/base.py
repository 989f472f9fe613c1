"""What every attack shares: input that is checked, a ball and bounds that are kept, the most harmful point."""

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
from genlabel.attacks.models import PIXELS, AttackedModel, chosen

NORMS = ("linf", "l2")


@dataclass(frozen=True, repr=False)
class Attack(ABC):
    """A search, within a ball around each point, for one that the model takes for another class.

    A model that gives NaN for a point is wrong there. A point that is wrong already stays wrong: the search returns
    what it found only where that is more harmful than the point itself.
    NOTE[PAPER]: a bare step of FGSM can also mend a point, which a plain count takes for robust; here it does not.

    Parameters
    ----------
    radius : float
        Of the ball; 0.2 on standardised features is the paper's (arXiv Table 12).
    norm : "linf" or "l2"
    bounds : None or (low, high)
        Values that a feature may take, numbers or arrays (d,); the points themselves must keep them. For images, None
        is (0, 1).
    """

    radius: float = 0.2
    norm: str = "linf"
    bounds: Any = field(default=None, kw_only=True)

    needs_gradient: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check the ball, and keep bounds as plain numbers."""
        object.__setattr__(self, "radius", check_positive("radius", self.radius, "0.2 is the paper's"))
        check_choice("norm", self.norm, NORMS)
        if self.bounds is not None:
            object.__setattr__(self, "bounds", _read_bounds(self.bounds))

    def __repr__(self) -> str:
        changed = [f for f in fields(self) if f.init and getattr(self, f.name) != f.default]
        return f"{type(self).__name__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in changed)})"

    @final
    def __call__(self, target: AttackedModel, X: Values, y: Values, *, rng: Seed = None) -> Any:
        """Return the most harmful point that was found for each point: the kind of array that `X` is.

        Parameters
        ----------
        target : Target
        X : array or tensor (m, d) or (..., m, d)
            With many models, either the same points for all, or each model's own; the result has each model's own.
            Images (m, c, h, w), uint8 or in [0, 1], for a target that has the shape of one; the result is in [0, 1].
        y : array (m,) or (..., m)
            The true classes, as indices.
        rng : generator, seed or None
        """
        if self.needs_gradient and not target.has_gradient:
            raise TypeError(f"{self!r} needs gradients, but the model gives no probabilities; use the boundary attack")
        if self.bounds is None and target.shape is not None:
            return replace(self, bounds=PIXELS)(target, X, y, rng=rng)
        x = _read_points(X, target)
        self._check_bounds(x)
        with torch.no_grad():
            index = _read_classes(y, x, target)
            worst = BestAdversarial(target, x, index)
            found = self.run(target, x, index, as_rng(rng))
            self._check_inside(x, found)
            return target.leave(worst.take(found).points, X)

    @abstractmethod
    def run(self, target: AttackedModel, x: Tensor, y: Tensor, rng: np.random.Generator) -> Tensor:
        """Points like x (..., m, d), in the ball and the bounds; y (..., m) are the true class indices."""

    @final
    def project(self, points: Tensor, x: Tensor) -> Tensor:
        """The nearest points in the ball around x, then in the bounds: x keeps them, so that this stays in the ball."""
        moved = points - x
        if self.norm == "linf":
            moved = moved.clamp(-self.radius, self.radius)
        else:
            moved = moved * (self.radius / lengths(moved, "l2").clamp(min=self.radius))[..., None]
        return self.clip(x + moved)

    @final
    def clip(self, points: Tensor) -> Tensor:
        """The nearest points in the bounds."""
        if self.bounds is None:
            return points
        low, high = (points.new_tensor(bound) for bound in self.bounds)
        return torch.minimum(torch.maximum(points, low), high)

    def _check_bounds(self, x: Tensor) -> None:
        sizes = [len(bound) for bound in self.bounds or () if isinstance(bound, tuple)]
        if any(size != x.shape[-1] for size in sizes):
            raise ValueError(f"bounds are for {sizes[0]} features, but X has {x.shape[-1]}; give numbers or (d,) each")
        if not bool((self.clip(x) == x).all()):
            raise ValueError(f"X has values outside bounds={self.bounds}; widen them, or clip X first")

    def _check_inside(self, x: Tensor, found: Tensor) -> None:
        """Raise unless the points are in the ball and the bounds, up to rounding."""
        rounding = 8 * torch.finfo(x.dtype).eps * (self.radius + x.abs().amax(-1))
        within = lengths(found - x, self.norm) <= self.radius + rounding * x.shape[-1] ** 0.5
        if found.shape != x.shape or not bool(within.all()) or not bool((self.clip(found) == found).all()):
            raise RuntimeError(f"{self!r} returned points outside its ball or bounds; a `run` must `project` them")


@final
class BestAdversarial:
    """The most harmful points so far: misclassified ones first, then those of the highest loss."""

    def __init__(self, target: AttackedModel, x: Tensor, y: Tensor) -> None:
        self.target, self.y, self.points = target, y, x
        self.wrong, self.loss = self._harm(x)

    def take(self, points: Tensor) -> BestAdversarial:
        """Keep those of `points` that do more harm."""
        wrong, loss = self._harm(points)
        more = (wrong & ~self.wrong) | ((wrong == self.wrong) & (loss > self.loss))
        self.points = torch.where(more[..., None], points, self.points)
        self.wrong, self.loss = wrong | self.wrong, torch.where(more, loss, self.loss)
        return self

    def _harm(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Whether y is not what is chosen, and log (1 - p_y) - log p_y, which grows with the cross-entropy."""
        logs = self.target.log_proba(points)
        true = self.y[..., None]
        others = logs.scatter(-1, true, -torch.inf).logsumexp(-1)
        return chosen(logs) != self.y, (others - logs.gather(-1, true)[..., 0]).nan_to_num(0.0)


def lengths(moved: Tensor, norm: str) -> Tensor:
    """Length of each row, (..., m, d) -> (..., m).

    >>> lengths(torch.tensor([[3.0, -4.0]]), "l2"), lengths(torch.tensor([[3.0, -4.0]]), "linf")
    (tensor([5.]), tensor([4.]))
    """
    return moved.norm(dim=-1) if norm == "l2" else moved.abs().amax(-1)


def direction(slope: Tensor, norm: str) -> Tensor:
    """The step of length 1 along which a linear function with these slopes grows most; none where they are 0.

    >>> direction(torch.tensor([[3.0, -4.0]]), "linf")
    tensor([[ 1., -1.]])
    """
    if norm == "linf":
        return slope.sign()
    tiny = torch.finfo(slope.dtype).tiny
    scaled = slope / slope.abs().amax(-1, keepdim=True).clamp(min=tiny)
    return scaled / scaled.norm(dim=-1, keepdim=True).clamp(min=tiny)


def _read_bounds(bounds: Any) -> tuple[float | tuple[float, ...], float | tuple[float, ...]]:
    """Numbers or tuples of numbers, low below high."""
    try:
        low, high = (np.asarray(bound, dtype=np.float64) for bound in bounds)
        fine = low.ndim < 2 and high.ndim < 2 and bool((low < high).all())
    except (TypeError, ValueError):
        fine = False
    if not fine:
        raise ValueError(f"bounds={bounds!r} must be None or (low, high), low below high, numbers or arrays (d,)")
    return _plain(low), _plain(high)


def _plain(values: NDArray[np.float64]) -> float | tuple[float, ...]:
    return float(values) if values.ndim == 0 else tuple(values.tolist())


def _read_points(X: Values, target: AttackedModel) -> Tensor:
    """Points with each model's own axis."""
    x = target.enter(X)
    if x.ndim < 2 or 0 in x.shape:
        raise ValueError(f"X has shape {tuple(x.shape)}; an attack needs points (m, d), at least one")
    if not bool(x.isfinite().all()):
        raise ValueError("X contains NaN or infinity; an attack needs finite points")
    models = target.models
    try:
        lead = np.broadcast_shapes(x.shape[:-2], models)
    except ValueError:
        lead = ()
    if lead[len(lead) - len(models) :] != models:
        raise ValueError(f"X has shape {tuple(x.shape)} for {models} models; give (m, d) or {(*models, 'm', 'd')}")
    return x.expand(*lead, *x.shape[-2:])


def _read_classes(y: Values, x: Tensor, target: AttackedModel) -> Tensor:
    """Class indices like the points, checked against what the target knows."""
    index, k = as_numpy(y), target.log_proba(x[..., :1, :]).shape[-1]
    if index.shape not in (x.shape[-2:-1], x.shape[:-1]):
        raise ValueError(f"y has shape {index.shape}, but X has shape {tuple(x.shape)}; give one class a point")
    if index.dtype.kind not in "iu" or index.min() < 0 or index.max() >= k:
        raise ValueError(
            f"y must hold class indices, 0 to {k - 1}; turn labels into them with index_labels(y, model.classes_)"
        )
    return torch.from_numpy(index.astype(np.int64)).to(x.device).expand(x.shape[:-1])
