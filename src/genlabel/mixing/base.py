"""What every mixer shares: one draw of all that is random, then a deterministic mix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from torch import Tensor

from genlabel._arrays import Array, as_tensor, to_device
from genlabel._validation import ignore_overflow


class MixParams(NamedTuple):
    """Everything random in mixing a batch of n points, and nothing else; a stretch of T batches is a stacked draw.

    `Mixer.draw` returns it, `Mixer.mix` and `Labeler.label` take it.

    The fields of a stretch have one axis more, in front: partner and lam are (T, n), depth is (T,). They are numpy
    arrays as they are drawn; tensors will do.
    """

    partner: Any
    """Row of the batch that each row is mixed with, (n,)."""
    lam: Any
    """Weight of the row itself, (n,); its partner has 1 - lam."""
    depth: Any = 0
    """Number of network stages before the mixing; 0 mixes the input."""
    box: Any = None
    """Where a mixer pastes: top, bottom, left, right as shares of height and width, (n, 4); None for other mixers."""

    def keep(self, count: int) -> MixParams:
        """The same draw, but the first `count` rows are left as they are: the order of a batch is random."""
        if not count:
            return self
        plain = identity_params(len(self.partner), like=self)
        kept = plain.partner < count
        box = None if self.box is None else np.where(kept[:, None], plain.box, self.box)
        return MixParams(np.where(kept, plain.partner, self.partner), np.where(kept, 1.0, self.lam), self.depth, box)

    def fill(self, size: int) -> MixParams:
        """The same draw for a batch of `size` rows: those that are added are mixed with nothing."""
        partner, lam, depth, box = self
        n = len(partner)
        if n == size:
            return self
        more = identity_params(size - n, like=self)
        boxes = None if box is None else np.concatenate([box, more.box])
        return MixParams(np.concatenate([partner, more.partner + n]), np.concatenate([lam, more.lam]), depth, boxes)

    def at(self, step: int, size: int | None = None) -> MixParams:
        """One batch of a stretch, or the first `size` rows of it: what remains if it was filled up."""
        box = None if self.box is None else self.box[step, :size]
        return MixParams(self.partner[step, :size], self.lam[step, :size], int(self.depth[step]), box)

    def flat(self) -> MixParams:
        """A stretch as one long batch of T n rows, for what is done row by row; the depths remain the stretch's."""
        steps, size = self.partner.shape
        partner = (np.arange(steps)[:, None] * size + self.partner).ravel()
        return MixParams(partner, self.lam.ravel(), 0, None if self.box is None else self.box.reshape(-1, 4))


class BatchInfo(NamedTuple):
    """What is known of a batch, and travels beside the draw: where its rows come from, and which are not mixed.

    `mix_batch` and `Labeler.label` take it.
    """

    clean: NDArray[np.bool_] | None = None
    """Rows that are left as they are and keep their own labels, (n,); None is none of them."""
    rows: NDArray[np.int64] | None = None
    """Row of the training set that each row of the batch is, (n,), where it is known: for labels by cross-fitting."""
    points: Any = None
    """The training set (N, d) of `rows`, where each mixed point is known to be the blend of two of its rows."""


class Mixer(BaseEstimator, ABC):
    """A way of pairing the points of a batch and of making one point of two.

    >>> class Heavier(Mixer):  # no blend: the parent that weighs more
    ...     def draw(self, n, rng=None):
    ...         return MixParams(np.roll(np.arange(n), 1), np.random.default_rng(rng).random(n))
    ...     def mix(self, X, draw):
    ...         return np.where(draw.lam[:, None] >= 0.5, X, X[draw.partner])
    >>> draw = Heavier().draw(3, rng=0)
    >>> draw.lam.round(2).tolist(), Heavier().mix(np.array([[0.0], [2.0], [6.0]]), draw).tolist()
    ([0.64, 0.27, 0.04], [[0.0], [0.0], [2.0]])
    """

    linear: ClassVar[bool] = False
    """Whether `mix` is the linear blend; a mixer says so by being a :class:`LinearMixer`."""

    @abstractmethod
    def draw(self, n: int, rng: Any = None) -> MixParams:
        """Draw partners, weights and depth for a batch of `n` points; `rng` is a numpy generator or a seed."""

    @abstractmethod
    def mix(self, X: Any, draw: MixParams) -> Any:
        """Mix the rows of `X` (n, ...) with their partners' rows; numpy or torch.

        Row by row: a stretch of many batches may be mixed in one call. A row with itself as partner and lam 1 (and an
        empty box) stays as it is.
        """

    @property
    def max_depth(self) -> int:
        """The largest depth that `draw` may name."""
        return 0

    @property
    def pairs_across_batches(self) -> bool:
        """Whether a plan of a whole pass is to pair rows of any batches, not those of one batch."""
        return False


class LinearMixer(Mixer, ABC):
    """A mixer whose mix is the linear blend, which the fleet and the densities of blends exploit.

    >>> class Halfway(LinearMixer):  # it gives the draw, and nothing else
    ...     def draw(self, n, rng=None):
    ...         return MixParams(np.roll(np.arange(n), 1), np.full(n, 0.5))
    >>> Halfway().mix(np.array([[0.0], [2.0], [6.0]]), Halfway().draw(3)).tolist()
    [[3.0], [1.0], [4.0]]
    """

    linear: ClassVar[bool] = True

    @final
    def mix(self, X: Any, draw: MixParams) -> Any:
        """Return lam x_i + (1 - lam) x_j for the drawn pairs (arXiv Alg. 1, line 4); numpy or torch."""
        return blend(X, draw)


def check_within_batch(mixer: Mixer) -> None:
    """Raise where a mixer asks for partners of other batches, which a loop over batches does not have.

    >>> from genlabel.mixing import Mixup
    >>> check_within_batch(Mixup(pairs="set"))
    Traceback (most recent call last):
    ValueError: Mixup(pairs='set') pairs rows of different batches, ...
    """
    if mixer.pairs_across_batches:
        raise ValueError(
            f"{mixer!r} pairs rows of different batches, but here one batch is seen at a time; use pairs='batch', or "
            "train_fleet, or a classifier, which plan a pass over all rows at once"
        )


def blend(values: Any, draw: MixParams) -> Any:
    """Blend the rows of `values` (n, ...) with their partners' rows.

    >>> draw = MixParams(partner=np.array([1, 0]), lam=np.array([0.75, 0.5]))
    >>> blend(np.array([[0.0], [10.0]]), draw).tolist()
    [[2.5], [5.0]]
    """
    values = read_points(values, draw)
    if isinstance(values, Tensor):
        lam = to_device(draw.lam, values, values.dtype).reshape(-1, *[1] * (values.ndim - 1))
        return lam * values + (1.0 - lam) * values[to_device(draw.partner, values)]
    weight = np.asarray(draw.lam).reshape(-1, *[1] * (values.ndim - 1))
    with ignore_overflow():
        return weight * values + (1.0 - weight) * values[np.asarray(draw.partner)]


def read_points(X: Any, draw: MixParams) -> Array:
    """Return points to be mixed, a floating tensor or an array of double precision; raise unless the draw is for them.

    >>> read_points([[1, 2]], identity_params(1))
    array([[1., 2.]])
    """
    exact = type(X) is np.ndarray and X.dtype == np.float64
    points: Array = X if exact else as_tensor(X) if isinstance(X, Tensor) else as_tensor(X).numpy()
    rows, given = len(draw.partner), points.shape[0] if points.ndim else 0
    if given != rows:
        raise ValueError(f"the draw is for {rows} rows, but {given} were given; draw with n={given}")
    return points


def mix_batch(mixer: Mixer | None, values: Tensor, draw: MixParams, origin: BatchInfo) -> Tensor:
    """Mix the rows of a batch, (n, ...), but for those that are clean; without a mixer all are.

    >>> from genlabel.mixing import Mixup
    >>> draw = MixParams(partner=np.array([1, 0]), lam=np.array([0.75, 0.5]))
    >>> origin = BatchInfo(clean=np.array([False, True]))
    >>> mix_batch(Mixup(), torch.tensor([[0.0], [10.0]]), draw, origin).tolist()
    [[2.5], [10.0]]
    """
    if mixer is None:
        return values
    mixed: Tensor = mixer.mix(values, draw)
    if origin.clean is None:
        return mixed
    clean = to_device(origin.clean, values)
    return torch.where(clean.reshape(-1, *[1] * (values.ndim - 1)), values, mixed)


def identity_params(n: int, like: MixParams | None = None) -> MixParams:
    """The draw that mixes nothing: each row with itself, lam 1, and an empty box where `like` has boxes.

    >>> identity_params(2)
    MixParams(partner=array([0, 1]), lam=array([1., 1.]), depth=0, box=None)
    """
    return MixParams(np.arange(n), np.ones(n), 0, None if like is None or like.box is None else np.zeros((n, 4)))


def draw_on(draw: MixParams, like: Tensor) -> MixParams:
    """The draw as tensors on the device of `like`, but for the depth; nobody waits for the copy.

    >>> draw_on(identity_params(2), torch.zeros(1)).lam
    tensor([1., 1.])
    """
    lam = to_device(draw.lam, like, torch.float64 if like.dtype == torch.float64 else torch.float32)
    box = None if draw.box is None else to_device(draw.box, like, torch.float32)
    return MixParams(to_device(draw.partner, like), lam, draw.depth, box)


def stack_draws(draws: Sequence[MixParams]) -> MixParams:
    """Stack the draws of several batches, each filled up to the largest, as the draw of a stretch.

    >>> stretch = stack_draws([identity_params(2), identity_params(3)])
    >>> stretch.partner.tolist(), stretch.depth.tolist()
    ([[0, 1, 2], [0, 1, 2]], [0, 0])
    """
    size = max(len(draw.partner) for draw in draws)
    filled = [draw.fill(size) for draw in draws]
    shape = (len(filled), size)
    partner, lam = (np.concatenate([draw[field] for draw in filled]).reshape(shape) for field in (0, 1))
    box = None if filled[0].box is None else np.stack([draw.box for draw in filled])
    return MixParams(partner, lam, np.array([draw.depth for draw in filled]), box)
