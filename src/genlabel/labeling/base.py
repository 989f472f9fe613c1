"""Base class of labelers, and labels from the parents alone: linear (mixup), logistic, and weighted sums."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from torch import Tensor, nn

from genlabel._arrays import as_numpy, as_tensor, like, one_hot, to_device
from genlabel._validation import check_positive, read_classes
from genlabel.metrics import index_labels
from genlabel.mixing import MixParams
from genlabel.mixing.base import BatchInfo, blend
from genlabel.registry import LABELERS


class Labeler(BaseEstimator, ABC):
    """Base class of rules that label mixed points: `label(x_mix, y, draw)` returns rows on the simplex.

    `y` are the labels of the batch *before* mixing: class names (n,), or a matrix (n, k) with rows on the simplex,
    which is used as it is. The columns are the sorted classes that `fit` saw, or else those in `y`. Rows that
    `BatchInfo.clean` marks keep their own labels.

    A labeler that learns while a network trains defines `update_source` and :meth:`observe`; it then labels the
    penultimate features of a batch instead of its points. Its `state` is a module.

    >>> class Sharp(Labeler):  # mixup's label, sharpened
    ...     def _label(self, x_mix, targets, draw, info):
    ...         return torch.softmax(9.0 * blend(targets, draw), dim=1)
    >>> draw = MixParams(partner=np.array([1, 0]), lam=np.array([0.75, 0.5]))
    >>> Sharp().label(np.zeros((2, 1)), np.array(["a", "b"]), draw).round(3).tolist()
    [[0.989, 0.011], [0.5, 0.5]]
    """

    @property
    def needs_inputs(self) -> bool:
        """True if a label depends on the mixed point itself, not only on its parents' labels."""
        return False

    @property
    def update_source(self) -> str | None:
        """Features that `observe` receives: "mixed", "clean" (one more pass), or None if nothing is learned."""
        return None

    @property
    def observed_fraction(self) -> float:
        """Fraction of the batch, its first rows, that makes the additional pass with update_source="clean"."""
        return 1.0

    @property
    def state(self) -> nn.Module | None:
        """Module with everything learned while a network trains; it moves with the network and is in its checkpoint."""
        return None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the rule to the training set; the base class learns the classes."""
        self.classes_, _ = read_classes(as_numpy(y))
        return self

    def allocate(self, features: Tensor) -> None:
        """Allocate buffers that depend on the feature dimension; called before every step."""

    def observe(self, features: Tensor, targets: Tensor, draw: MixParams) -> None:
        """Learn from the features (n, d) of a training batch with labels `targets` (n, k) before mixing.

        Called before the labels of the batch are computed. `draw` is how the batch is mixed; with
        update_source="mixed", the features are those of the mixed points.
        """
        raise NotImplementedError(f"{type(self).__name__} has an update_source, but no method observe")

    def observe_and_label(
        self,
        observed: Tensor,
        observed_targets: Tensor,
        features: Tensor,
        targets: Tensor,
        draw: MixParams,
        info: BatchInfo | None = None,
    ) -> Tensor:
        """Learn from the features `observed`, then return the labels of the mixed `features` (arXiv Alg. 3).

        Features in half precision are those of float32.
        """
        with torch.no_grad():
            self.observe(observed.to(label_dtype(observed)), observed_targets, draw)
            labels: Tensor = self.label(features.to(label_dtype(features)), targets, draw, info)
        return labels

    def check(self) -> None:
        """Warn about faulty labels; called after each epoch."""

    @final
    def label(self, x_mix: Any, y: Any, draw: MixParams, info: BatchInfo | None = None) -> Any:
        """Return the soft labels of the mixed points, (n, k); a tensor if `x_mix` is one, else an array.

        `x_mix` (n, ...) are the mixed points, or their features for a labeler that learns, `y` (n,) or (n, k) the
        labels of the batch before mixing, `draw` how it was mixed, and `info` its clean rows and rows of the training
        set, if known.
        """
        x, n = as_tensor(x_mix), len(draw.partner)
        batch = info or BatchInfo()
        x_shape, y_shape = tuple(x.shape), tuple(y.shape if isinstance(y, Tensor) else np.shape(y))
        if x_shape[:1] != (n,) or y_shape[:1] != (n,):
            raise ValueError(f"x_mix has shape {x_shape}, y {y_shape}, but the draw pairs {n} rows; pass one batch")
        known, dtype = self._known_classes(), label_dtype(x)
        with torch.no_grad():
            if len(y_shape) == 2:
                targets = to_device(y, x, dtype)
                if known is not None and targets.shape[1] != len(known):
                    columns = targets.shape[1]
                    raise ValueError(f"y has {columns} columns, but the labeler has {len(known)} classes; fit it again")
            else:
                names = as_numpy(y)
                classes, index = read_classes(names) if known is None else (known, index_labels(names, known))
                targets = one_hot(torch.from_numpy(index).to(x.device), len(classes), dtype)
            labels = self._label(x, targets, draw, batch)
            return like(keep_clean(labels, targets, batch), x_mix)

    def to_cpu(self) -> Self:
        """Move everything learned to the CPU, and return the labeler."""
        return self

    @abstractmethod
    def _label(self, x_mix: Tensor, targets: Tensor, draw: MixParams, info: BatchInfo) -> Tensor:
        """Label points (n, ...) mixed from rows with the labels `targets` (n, k)."""

    def _known_classes(self) -> NDArray[Any] | None:
        """Return the classes that `fit` saw; None before it."""
        return getattr(self, "classes_", None)


@final
@LABELERS.register("linear")
class LinearLabel(Labeler):
    """Mixup's label, y_mix = lam y_i + (1 - lam) y_j (arXiv Alg. 1, line 4, and Eq. (3)).

    >>> LinearLabel().label([[0.0], [0.0]], ["a", "b"], MixParams(np.array([1, 0]), np.array([0.25, 1.0])))
    array([[0.25, 0.75],
           [0.  , 1.  ]])
    """

    def _label(self, x_mix: Tensor, targets: Tensor, draw: MixParams, info: BatchInfo) -> Tensor:
        return blend(targets, draw)


@final
@LABELERS.register("logistic")
class LogisticLabel(Labeler):
    r"""Logistic curve in lam: y = rho y_i + (1 - rho) y_j with rho = 1 / (1 + exp(-2 (lam - 1/2) / sigma^2)).

    arXiv Section 3.2. NOTE[PAPER]: Proposition 1 gives GenLabel's label of two Gaussians of width s without
    the factor 2, so that `sigma` here is sqrt(2) s.

    Parameters
    ----------
    sigma : float
        Width of the curve, above 0; a small one labels with the nearer parent, a large one weights both equally.

    Examples
    --------
    >>> draw = MixParams(np.array([1, 0]), np.array([0.5, 0.75]))
    >>> LogisticLabel(sigma=0.5).label([[0.0], [0.0]], ["a", "b"], draw).round(3)
    array([[0.5  , 0.5  ],
           [0.119, 0.881]])
    """

    def __init__(self, sigma: float = 0.5) -> None:
        self.sigma = sigma

    def _label(self, x_mix: Tensor, targets: Tensor, draw: MixParams, info: BatchInfo) -> Tensor:
        sigma = check_positive("sigma", self.sigma, "it is the width of the logistic curve")
        rho = torch.sigmoid(torch.as_tensor(2.0 * (draw.lam - 0.5) / sigma**2))
        return blend(targets, draw._replace(lam=rho))


@final
class WeightedLabel(Labeler):
    """Weighted sum of several labelers' labels, such as gamma y_gen + (1 - gamma) y_mix.

    Parameters
    ----------
    labelers : sequence of Labeler
        Fitted labelers, none of which learns while a network trains.
    shares : sequence of float
        Weight of each.
    """

    def __init__(self, labelers: Sequence[Labeler], shares: Sequence[float]) -> None:
        self.labelers = labelers
        self.shares = shares

    @property
    def needs_inputs(self) -> bool:
        """True if any of the labelers needs inputs."""
        return any(labeler.needs_inputs for labeler in self.labelers)

    def _label(self, x_mix: Tensor, targets: Tensor, draw: MixParams, info: BatchInfo) -> Tensor:
        for labeler in self.labelers:
            if labeler.update_source is not None:
                raise ValueError(f"{labeler!r} learns while a network trains and cannot be summed; use it alone")
        labels = torch.stack([labeler.label(x_mix, targets, draw, info) for labeler in self.labelers], -1)
        result: Tensor = labels @ to_device(np.asarray(self.shares), labels, labels.dtype)
        return result


def observe_and_label(
    labeler: Labeler,
    observed: Tensor,
    observed_targets: Tensor,
    features: Tensor,
    targets: Tensor,
    draw: MixParams,
    info: BatchInfo | None = None,
) -> Tensor:
    """Update a labeler with the features `observed`, then return the labels of the mixed `features`.

    One function, which can be compiled, for all that a step does with a labeler that learns (arXiv Alg. 3).
    """
    return labeler.observe_and_label(observed, observed_targets, features, targets, draw, info)


def keep_clean(labels: Tensor, targets: Tensor, info: BatchInfo | None) -> Tensor:
    """Return the labels, with the given ones for the clean rows of a batch."""
    if info is None or info.clean is None:
        return labels
    return torch.where(to_device(info.clean, labels)[:, None], targets, labels)


def label_dtype(x: Tensor) -> torch.dtype:
    """Return the precision of the labels of points: theirs, but at least float32."""
    return x.dtype if x.dtype.itemsize >= torch.float32.itemsize else torch.float32
