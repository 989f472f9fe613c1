"""What is attacked: a target, batched over models; one network, or all candidates of a fleet.

Shapes: points x (..., m, d), class indices y (..., m); the leading axes are models.
An image is a point of c h w numbers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import prod
from typing import Any, ClassVar, final

import numpy as np
import torch
from torch import Tensor, nn

from genlabel._arrays import Values, as_tensor, chunks, like, one_hot
from genlabel.training.batched.fleet import Fleet
from genlabel.training.batched.gradients import relu_scores

NUMBERS_AT_ONCE = 1 << 18
"""Of the widest layer of all models: what a cache holds."""
NUMBERS_OF_IMAGES = {"cpu": 1 << 22, "cuda": 1 << 26}
"""The same where points are images: a ResNet-18 takes 64 images of 32 x 32 at once, 1,024 on a GPU."""
PIXELS = (0.0, 1.0)
"""Values that a pixel may take."""
LOWEST = -1e6
"""Stands for the logarithm of 0 where a number is needed."""
NO_CLASS = -1
"""What a model that gives NaN for a point chooses there."""


def chosen(logs: Tensor) -> Tensor:
    """The class of the largest log-probability, (..., m, k) -> (..., m); `NO_CLASS` where one of them is NaN.

    >>> chosen(torch.tensor([[-2.0, -0.1], [-0.1, torch.nan]]))
    tensor([ 1, -1])
    """
    return logs.argmax(-1).masked_fill(logs.isnan().any(-1), NO_CLASS)


class AttackedModel(ABC):
    """One model or many, attacked at once; a subclass says its log-probabilities and how they change."""

    has_gradient: ClassVar[bool] = True

    @property
    def models(self) -> tuple[int, ...]:
        """The leading axes of the points: () is one model, (C,) are C of them."""
        return ()

    @property
    def shape(self) -> tuple[int, int, int] | None:
        """The shape (c, h, w) of a point, where points are images of pixels in [0, 1]; otherwise None."""
        return None

    def enter(self, X: Values) -> Tensor:
        """What a caller gives as points (..., m, d)."""
        return as_tensor(X).detach()

    def leave(self, points: Tensor, X: Values) -> Any:
        """Points (..., m, d) as the kind of array that the caller gave."""
        return like(points, X)

    @abstractmethod
    def log_proba(self, x: Tensor) -> Tensor:
        """Log-probability of each class, (..., m, k), at points (..., m, d)."""

    @abstractmethod
    def pull(self, x: Tensor, weight: Tensor) -> Tensor:
        """Gradient (..., m, d) in x of the sum of `weight` (..., m, k) times the log-probabilities."""

    @final
    def wrong(self, x: Tensor, y: Tensor) -> Tensor:
        """Where another class than y (..., m) is chosen, or none."""
        return chosen(self.log_proba(x)) != y

    @final
    def slope(self, x: Tensor, y: Tensor, other: Tensor | None = None) -> Tensor:
        """Gradient of log p_other - log p_y or, where no other class is named, of log (1 - p_y) - log p_y.

        The latter is the gradient of the cross-entropy over 1 - p_y: the same direction, but it is not lost in rounding
        where the model is sure.
        """
        logs = self.log_proba(x)
        k = logs.shape[-1]
        away = one_hot(y, k, logs.dtype)
        towards = _shares(logs, away) if other is None else one_hot(other, k, logs.dtype)
        return self.pull(x, towards - away).nan_to_num(0.0, 0.0, 0.0)

    @final
    def gradient(self, x: Tensor, y: Tensor) -> Tensor:
        """Gradient of each point's cross-entropy, - log p_y, like x."""
        logs = self.log_proba(x)
        true = one_hot(y, logs.shape[-1], logs.dtype).bool()
        mistaken = logs.masked_fill(true, -torch.inf).logsumexp(-1, keepdim=True).exp()
        return mistaken * self.slope(x, y)


def _shares(logs: Tensor, true: Tensor) -> Tensor:
    """Probabilities of the classes, given that it is not the true one (a row of the identity for each point)."""
    return logs.clamp(min=LOWEST).masked_fill(true.bool(), -torch.inf).softmax(-1)


class _Scored(AttackedModel, ABC):
    """A target with scores that torch can differentiate."""

    @abstractmethod
    def scores(self, x: Tensor) -> Tensor:
        """Scores (..., m, k) at points (..., m, d)."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Numbers that one point takes."""

    @property
    def room(self) -> int:
        """Numbers that one block of points may take."""
        return NUMBERS_AT_ONCE

    @final
    def log_proba(self, x: Tensor) -> Tensor:
        """Log-softmax of the scores."""
        with torch.no_grad():
            parts = [self.scores(x[..., block, :]).log_softmax(-1) for block in self._blocks(x)]
        return torch.cat(parts, -2).to(x)

    @final
    def pull(self, x: Tensor, weight: Tensor) -> Tensor:
        """By automatic differentiation; the parameters' own gradients are not touched."""
        parts: list[Tensor] = []
        for block in self._blocks(x):
            with torch.enable_grad():
                point = x[..., block, :].detach().requires_grad_()
                logs = self.scores(point).log_softmax(-1)
                parts += torch.autograd.grad((logs * weight[..., block, :].to(logs)).sum(), point)
        return torch.cat(parts, -2)

    def _blocks(self, x: Tensor) -> list[slice]:
        return chunks(x.shape[-2], self.room // self.width)


@final
class AttackedNetwork(_Scored):
    """Any torch module that gives scores (m, k) at points (m, d), in its own precision and on its own device.

    Parameters
    ----------
    module : nn.Module
        Call `module.eval()` first, if it has dropout or batch normalisation.
    shape : (c, h, w) or None
        For a module that takes images (m, c, h, w) of pixels in [0, 1], that of an image. An attack then takes images,
        uint8 or in [0, 1], or their pixels (m, c h w), puts them on the module's device in float32 (float64 for a
        module in float64), stays in [0, 1], and returns them in the shape in which they came.

    Examples
    --------
    >>> target = AttackedNetwork(nn.Linear(2, 3))
    >>> target.gradient(torch.zeros(5, 2), torch.zeros(5, dtype=torch.int64)).shape
    torch.Size([5, 2])
    >>> AttackedNetwork(nn.Conv2d(1, 2, 8), shape=(1, 8, 8)).enter(np.full((5, 1, 8, 8), 255, dtype=np.uint8)).shape
    torch.Size([5, 64])
    """

    def __init__(self, module: nn.Module, shape: tuple[int, int, int] | None = None) -> None:
        fickle = [type(part).__name__ for part in module.modules() if part.training]
        if any(name.startswith(("Dropout", "BatchNorm")) for name in fickle):
            raise ValueError(f"the module trains: {', '.join(fickle)} would change under attack; call module.eval()")
        if shape is not None and len(shape) != 3:
            raise ValueError(f"shape={shape} must be that of an image, (channels, height, width), or None")
        self.module = module
        self._shape = None if shape is None else (int(shape[0]), int(shape[1]), int(shape[2]))

    @property
    def shape(self) -> tuple[int, int, int] | None:
        """That of an image, or None."""
        return self._shape

    @property
    def width(self) -> int:
        """A guess: the numbers of its widest parameter's longest side; for images those of the first convolution."""
        widest = max((side for weight in self.module.parameters() for side in weight.shape), default=1)
        if self._shape is None:
            return widest
        channels, height, width = self._shape
        first = next((len(weight) for weight in self.module.parameters() if weight.ndim == 4), channels)
        return max(widest, height * width * max(channels, first))

    @property
    def room(self) -> int:
        """More for images: a convolution wants many at once."""
        if self._shape is None:
            return NUMBERS_AT_ONCE
        return NUMBERS_OF_IMAGES["cpu" if self._pixel_like().device.type == "cpu" else "cuda"]

    def enter(self, X: Values) -> Tensor:
        """Images as rows of pixels where the module is, float32 or float64; all else as it is."""
        if self._shape is None:
            return super().enter(X)
        given = X.detach() if isinstance(X, Tensor) else torch.from_numpy(np.array(X))
        whole = given.ndim > 3 and given.shape[-3:] == self._shape
        if not whole and not (given.ndim > 1 and given.shape[-1] == prod(self._shape)):
            raise ValueError(f"X has shape {tuple(given.shape)}; the network takes images {('m', *self._shape)}")
        pixels = given.to(self._pixel_like()) / (255 if given.dtype == torch.uint8 else 1)
        if pixels.numel() and not bool(((pixels >= PIXELS[0]) & (pixels <= PIXELS[1]) | ~pixels.isfinite()).all()):
            low, high = pixels.aminmax()
            raise ValueError(f"X has pixels from {low:g} to {high:g}; give numbers in [0, 1], or uint8 from 0 to 255")
        return pixels.flatten(-3) if whole else pixels

    def leave(self, points: Tensor, X: Values) -> Any:
        """In the shape of `X`, and on its device."""
        if self._shape is None:
            return super().leave(points, X)
        given = X if isinstance(X, Tensor) else torch.from_numpy(np.array(X))
        return like(points.reshape(given.shape).to(given.device), X)

    def scores(self, x: Tensor) -> Tensor:
        """The module's output, whatever the leading axes."""
        flat = x.flatten(0, -2).to(next(self.module.parameters(), x))
        scores: Tensor = self.module(flat if self._shape is None else flat.reshape(-1, *self._shape))
        if scores.ndim != 2 or scores.shape[1] < 2:
            raise ValueError(f"the module gave {tuple(scores.shape)}; an attack needs scores (m, k), k at least 2")
        return scores.reshape(*x.shape[:-1], -1)

    def _pixel_like(self) -> Tensor:
        """A number where the module is, in the precision of pixels."""
        weight = next(self.module.parameters(), torch.zeros(()))
        return weight.new_empty((), dtype=torch.float64 if weight.dtype == torch.float64 else torch.float32)


@final
class AttackedFleet(_Scored):
    """All C candidates of a fleet's group at once, in float64: points (C, m, d), each model attacked with its own.

    Parameters
    ----------
    fleet : Fleet
    group : int

    Examples
    --------
    >>> target = AttackedFleet(Fleet((2, 3), [0], 4, torch.float32, torch.device("cpu")))
    >>> target.log_proba(torch.zeros(4, 5, 2)).shape
    torch.Size([4, 5, 3])
    """

    def __init__(self, fleet: Fleet, group: int = 0) -> None:
        groups = len(fleet.theta)
        if not 0 <= group < groups:
            raise ValueError(f"group={group} is outside 0..{groups - 1}, the tasks of this fleet")
        self.sizes = fleet.sizes
        self.layers = fleet.layers(fleet.theta[group : group + 1].detach().double())

    @property
    def models(self) -> tuple[int, ...]:
        """(C,)"""
        return (self.layers[0].W.shape[1],)

    @property
    def width(self) -> int:
        """Numbers of the widest layer, of all candidates."""
        return self.models[0] * max(self.sizes)

    def scores(self, x: Tensor) -> Tensor:
        """Batched products over all candidates, layer by layer."""
        if x.shape[-1] != self.sizes[0]:
            raise ValueError(f"the points have {x.shape[-1]} features; the networks of the fleet take {self.sizes[0]}")
        flat = x.to(self.layers[0].W).reshape(-1, *x.shape[-3:])
        return relu_scores(self.layers, flat)[:, 0].reshape(*x.shape[:-1], -1)
