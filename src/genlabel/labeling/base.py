"""What every labeler shares: labels of the batch before mixing in, rows on the simplex out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from torch import Tensor, nn

from genlabel._arrays import as_numpy, as_tensor, like, one_hot, to_device
from genlabel._validation import read_classes
from genlabel.mixing import BatchInfo, MixParams


class Labeler(BaseEstimator, ABC):
    """A rule that labels mixed points: `label(x_mix, y, draw)` has its rows on the simplex.

    `y` are the labels of the batch *before* mixing: class names (n,), or a matrix (n, k) with rows on the
    simplex, which is taken as it is. The columns are the sorted classes that `fit` saw, or else those in `y`.
    Rows that are `clean` by their origin keep their own labels.

    A labeler that learns while a network trains says from what in `update_source`, and does so in :meth:`observe`; it
    labels the penultimate features of a batch instead of its points. What it learns is a module, `state`.

    >>> from genlabel.mixing import blend
    >>> class Sharp(Labeler):  # mixup's label, sharpened
    ...     def _label(self, x_mix, targets, draw, origin):
    ...         return torch.softmax(9.0 * blend(targets, draw), dim=1)
    >>> draw = MixParams(partner=np.array([1, 0]), lam=np.array([0.75, 0.5]))
    >>> Sharp().label(np.zeros((2, 1)), np.array(["a", "b"]), draw).round(3).tolist()
    [[0.989, 0.011], [0.5, 0.5]]
    """

    @property
    def update_source(self) -> str | None:
        """Whose features `observe` is given in every step: the "mixed" points of the batch, or, by one more pass
        through the network, its "clean" ones; None is a labeler that does not learn."""
        return None

    @property
    def observed_fraction(self) -> float:
        """The share of the batch, its first rows, that goes through the network once more if it learns from them."""
        return 1.0

    @property
    def state(self) -> nn.Module | None:
        """What it learns while a network trains: moved with the network, and part of a checkpoint."""
        return None

    def check(self) -> None:
        """Warn of what goes wrong with the labels of a run; called after each epoch."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn what the rule needs from the training set: here, the classes."""
        self.classes_, _ = read_classes(as_numpy(y))
        return self

    @property
    def needs_inputs(self) -> bool:
        """Whether a label depends on the mixed point itself, not only on its parents' labels."""
        return False

    def allocate(self, features: Tensor) -> None:
        """See features of the kind that will be observed, before each step: what depends on their number is made."""

    def observe(self, features: Tensor, targets: Tensor, draw: MixParams) -> None:
        """Learn from the features (n, d) of a batch in training: the step calls it before it asks for labels.

        `targets` (n, k) are the labels before mixing. If the labeler learns from "mixed" points, `draw` tells how they
        were mixed; if from "clean" ones, it is the draw that the batch will be mixed with.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has update_source={self.update_source!r}, but no method observe"
        )

    @final
    def label(self, x_mix: Any, y: Any, draw: MixParams, origin: BatchInfo | None = None) -> Any:
        """Return the soft labels of the mixed points, shape (n, k); torch out if `x_mix` is torch.

        Parameters
        ----------
        x_mix : array or tensor (n, ...)
        y : array (n,) or (n, k)
            The labels of the batch before mixing.
        draw : Mix
        origin : Origin, optional
            What is known of the batch: which rows are clean, which rows of the training set they are.
        """
        x = as_tensor(x_mix)
        given = [tuple(part.shape if isinstance(part, Tensor) else np.shape(part)) for part in (x, y)]
        if any(shape[:1] != (len(draw.partner),) for shape in given):
            raise ValueError(
                f"x_mix has shape {given[0]}, y {given[1]}, and the draw pairs {len(draw.partner)} rows; pass one batch"
            )
        with torch.no_grad():
            targets, known = self._targets(y, x), origin or BatchInfo()
            labels = self._label(x, targets, draw, known)
            if known.clean is not None:
                labels = torch.where(to_device(known.clean, x)[:, None], targets, labels)
            return like(labels, x_mix)

    def to_cpu(self) -> Self:
        """The labeler with all that it has learned on the CPU."""
        return self

    @abstractmethod
    def _label(self, x_mix: Tensor, targets: Tensor, draw: MixParams, origin: BatchInfo) -> Tensor:
        """Label points (n, ...) whose parents have the labels `targets` (n, k)."""

    def _known_classes(self) -> NDArray[Any] | None:
        return getattr(self, "classes_", None)

    def _targets(self, y: Any, x: Tensor) -> Tensor:
        classes = self._known_classes()
        if (y.ndim if isinstance(y, Tensor) else np.ndim(y)) == 2:
            matrix = to_device(y, x, _precise(x.dtype))
            if classes is not None and matrix.shape[1] != len(classes):
                raise ValueError(f"y has {matrix.shape[1]} columns, but {len(classes)} classes are known; fit again")
            return matrix
        found, index = read_classes(as_numpy(y))
        if classes is not None and found.dtype.kind == classes.dtype.kind == "M":
            found = found.astype(classes.dtype)  # dates of another unit
        place = {name: column for column, name in enumerate((found if classes is None else classes).tolist())}
        unknown = [name for name in found.tolist() if name not in place]
        if unknown:
            raise ValueError(f"y contains {unknown}, but the known classes are {[*place]}; fit again")
        columns = torch.tensor([place[name] for name in found.tolist()], dtype=torch.int64)[torch.from_numpy(index)]
        return one_hot(columns.to(x.device), len(place), _precise(x.dtype))


def observe_and_label(
    labeler: Labeler,
    seen: Tensor,
    whose: Tensor,
    features: Tensor,
    targets: Tensor,
    draw: MixParams,
    origin: BatchInfo | None = None,
) -> Tensor:
    """Let a labeler learn from features that it has `seen`, of the labels `whose`, then label those of a mixed batch.

    All that a step does with a labeler that learns (arXiv Alg. 3), in one function that can be compiled.

    >>> from genlabel.densities import OnlineGaussianDensity
    >>> from genlabel.labeling import OnlineGenLabel
    >>> from genlabel.mixing import identity_params
    >>> x, y = torch.tensor([[0.0], [1.0], [4.0], [5.0]]), torch.eye(2)[[0, 0, 1, 1]]
    >>> labeler, mixed = OnlineGenLabel(OnlineGaussianDensity(2), gamma=1.0), x.mean(0).expand(4, 1)
    >>> observe_and_label(labeler, x, y, mixed, y, identity_params(4))[0].tolist()  # half way between the classes
    [0.5, 0.5]
    """
    with torch.no_grad():
        labeler.observe(seen.to(_precise(seen.dtype)), whose, draw)
        labels: Tensor = labeler.label(features.to(_precise(features.dtype)), targets, draw, origin)
    return labels


def _precise(dtype: torch.dtype) -> torch.dtype:
    """The precision of a label: that of the points, but never less than float32."""
    return dtype if dtype.itemsize >= torch.float32.itemsize else torch.float32
