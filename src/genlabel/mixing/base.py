"""Base classes of mixers: everything random in a batch is drawn once, then the mix is deterministic."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from torch import Tensor

from genlabel._arrays import as_tensor, like, to_device


class MixParams(NamedTuple):
    """Everything random in mixing a batch of n rows: what `Mixer.draw` returns and `Mixer.mix` takes.

    A stack of T batches has one more axis in front: partner and lam are (T, n), depth is (T,). The fields are numpy
    arrays as drawn; tensors work as well.
    """

    partner: Any
    """Row of the batch that each row is mixed with, (n,)."""
    lam: Any
    """Weight of the row itself, (n,); its partner has 1 - lam."""
    depth: Any = 0
    """Number of network stages before mixing; 0 mixes the input."""
    box: Any = None
    """Pasted box as fractions of the sides (top, bottom, left, right), (n, 4); None for mixers that do not paste."""
    mask: Any = None
    """Features that come from the partner, (n, d); None for mixers that do not swap features."""
    weight: Any = None
    """Weight of each row in the loss, (n,); None weights all rows equally."""

    def row_fields(self) -> dict[str, Any]:
        """Return the fields with a value for each row, by name, without those that are None."""
        names = ("partner", "lam", *UNMIXED)
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def leave_clean(self, count: int) -> MixParams:
        """Return the same draw with the first `count` rows left unmixed."""
        return self.leave_unmixed(np.arange(len(self.partner)) < count) if count else self

    def leave_unmixed(self, clean: NDArray[np.bool_]) -> MixParams:
        """Return the same draw with the rows of a mask (n,) left unmixed."""
        identity = identity_params(len(self.partner), like=self).row_fields()
        mixed = self.row_fields().items()
        return self._replace(**{k: np.where(clean[:, None] if v.ndim > 1 else clean, identity[k], v) for k, v in mixed})

    def batch(self, step: int, size: int | None = None) -> MixParams:
        """Return the draw of one batch of a stack, without its padding if `size` is given."""
        fields = {name: values[step, :size] for name, values in self.row_fields().items()}
        return self._replace(depth=int(self.depth[step]), **fields)

    def flatten(self) -> MixParams:
        """Return a stack as one batch of T n rows, for operations on single rows; its depth is 0."""
        steps, size = self.partner.shape
        fields = {name: values.reshape(-1, *values.shape[2:]) for name, values in self.row_fields().items()}
        fields["partner"] = (np.arange(steps)[:, None] * size + self.partner).ravel()
        return self._replace(depth=0, **fields)


UNMIXED = {"box": 0.0, "mask": False, "weight": 1.0}
"""Optional fields of :class:`MixParams`, with their values for a row that is not mixed."""


class BatchInfo(NamedTuple):
    """Facts about a batch that are not random: which rows stay clean, and where its rows come from."""

    clean: NDArray[np.bool_] | Tensor | None = None
    """Mask of rows that are not mixed and keep their labels, (n,); None means no such rows."""
    rows: NDArray[np.int64] | None = None
    """Row of the training set that each row of the batch is, (n,), if known; cross-fitted densities need it."""
    points: Any = None
    """Training set (N, d) that `rows` index; set only if every mixed point is the blend of two of its rows."""


class Mixer(BaseEstimator, ABC):
    """Base class of mixers: `draw` pairs the rows of a batch, `mix` combines each row with its partner.

    A subclass that blends linearly defines `draw` only.

    >>> class Halfway(Mixer):
    ...     def draw(self, n, rng=None, x=None, y=None):
    ...         return MixParams(np.roll(np.arange(n), 1), np.full(n, 0.5))
    >>> Halfway().mix(np.array([[0.0], [2.0], [6.0]]), Halfway().draw(3)).tolist()
    [[3.0], [1.0], [4.0]]
    """

    supports_tables: ClassVar[bool] = True
    """False if the default instance mixes images only; the table classifiers then do not take its registered name."""

    @abstractmethod
    def draw(self, n: int, rng: Any = None, x: Any = None, y: Any = None) -> MixParams:
        """Draw partners, weights and depth for a batch of `n` rows; `rng` is a numpy generator or a seed.

        A mixer that is :attr:`data_dependent` needs the points x (n, ...) and the labels y, class indices (n,) or soft
        labels (n, k); both may be arrays or tensors.
        """

    def mix(self, X: Any, draw: MixParams) -> Any:
        """Mix each row of `X` (n, ...), numpy or torch, with its partner's row: lam x_i + (1 - lam) x_j.

        arXiv Alg. 1, line 4. A subclass may combine them otherwise: rows are independent, so that many batches may be
        mixed in one call, and a row whose partner is itself with lam 1 (and an empty box) is returned unchanged.
        """
        return blend(X, draw)

    @property
    def linear(self) -> bool:
        """True if `mix` is the linear blend of the base class."""
        return type(self).mix is Mixer.mix

    @property
    def data_dependent(self) -> bool:
        """True if `draw` needs the points and labels of the batch."""
        return False

    @property
    def optional_fields(self) -> frozenset[str]:
        """Optional fields of :class:`MixParams` that every draw has, such as "box"."""
        return frozenset()

    @property
    def min_depth(self) -> int:
        """Smallest depth that `draw` may return; above 0, the input is never mixed."""
        return 0

    @property
    def max_depth(self) -> int:
        """Largest depth that `draw` may return."""
        return 0

    @property
    def pairs_across_batches(self) -> bool:
        """True if partners may come from any batch of the epoch instead of the same batch."""
        return False


def check_within_batch(mixer: Mixer) -> None:
    """Raise if a mixer pairs rows across batches, which a loop over single batches cannot do."""
    if mixer.pairs_across_batches:
        raise ValueError(f"{mixer!r} pairs rows of different batches; a loop over batches needs pairs='batch'")


def blend(values: Any, draw: MixParams) -> Any:
    """Return the linear blend of each row of `values` (n, ...) with its partner's row; numpy or torch.

    >>> draw = MixParams(partner=np.array([1, 0]), lam=np.array([0.75, 0.5]))
    >>> blend(np.array([[0.0], [10.0]]), draw).tolist()
    [[2.5], [5.0]]
    """
    points = as_points(values, draw)
    lam = to_device(draw.lam, points, points.dtype).reshape(-1, *[1] * (points.ndim - 1))
    partner = to_device(draw.partner, points)
    others = points.index_select(0, partner) if points.is_contiguous() else points[partner]  # keeps channels last
    return like((lam * points).add_(others.mul_(1.0 - lam)), values)  # in place: half of the memory


def as_points(X: Any, draw: MixParams) -> Tensor:
    """Return `X` as a floating tensor; raise unless it has as many rows as the draw."""
    points, expected = as_tensor(X), len(draw.partner)
    n = len(points) if points.ndim else 0
    if n != expected:
        raise ValueError(f"the draw is for {expected} rows, but X has {n}; draw with n={n}")
    return points


def mix_batch(mixer: Mixer | None, values: Tensor, draw: MixParams, info: BatchInfo) -> Tensor:
    """Mix the rows of a batch (n, ...) except the clean ones; without a mixer, return the batch."""
    if mixer is None:
        return values
    mixed: Tensor = mixer.mix(values, draw)
    if info.clean is None:
        return mixed
    clean = to_device(info.clean, values)
    return torch.where(clean.reshape(-1, *[1] * (values.ndim - 1)), values, mixed)


def identity_params(n: int, like: MixParams | None = None) -> MixParams:
    """Return the draw that mixes nothing: each row with itself and lam 1, with the optional fields of `like`."""
    result = MixParams(np.arange(n), np.ones(n))
    if like is None:
        return result
    optional = {name: value for name, value in like.row_fields().items() if name in UNMIXED}
    return result._replace(**{name: np.full((n, *v.shape[1:]), UNMIXED[name]) for name, v in optional.items()})


def draw_to_device(draw: MixParams, like: Tensor) -> MixParams:
    """Return the draw as tensors on the device of `like`, without waiting for the copy; the depth stays an int."""
    lam_dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
    dtypes = (None, lam_dtype, torch.float32, torch.bool, lam_dtype)
    partner, lam, box, mask, weight = (
        None if values is None else to_device(values, like, dtype)
        for values, dtype in zip((draw.partner, draw.lam, *draw[3:]), dtypes, strict=True)
    )
    return MixParams(partner, lam, draw.depth, box, mask, weight)


def stack_draws(draws: Sequence[MixParams]) -> MixParams:
    """Stack the draws of T batches, each padded to the largest batch by rows that are not mixed."""
    size = max(len(draw.partner) for draw in draws)
    padding = identity_params(size, like=draws[0]).row_fields()
    fields = {name: np.stack([values] * len(draws)) for name, values in padding.items()}
    for t, draw in enumerate(draws):
        for name, values in fields.items():
            values[t, : len(draw.partner)] = getattr(draw, name)
    return MixParams(**fields, depth=np.array([draw.depth for draw in draws]))
