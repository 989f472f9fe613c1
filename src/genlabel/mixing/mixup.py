"""Mixup, manifold mixup and CutMix: partners by permutation, weights from a Beta distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import as_rng, like, to_device
from genlabel._validation import check_choice, check_count, check_positive
from genlabel.mixing.base import Mixer, MixParams, as_points, blend
from genlabel.registry import MIXERS


@final
@MIXERS.register("mixup")
class Mixup(Mixer):
    """Mixup of the input: x_mix = lam x_i + (1 - lam) x_j, lam ~ Beta(alpha, alpha) (arXiv Section 1.2, Eq. (3)).

    Parameters
    ----------
    alpha : float
        Parameter of the Beta distribution, above 0; 1 is uniform, a small alpha stays close to one of the two points.
    lam_per : "sample", "pair" or "batch"
        One lam per row; one per pair of rows, which are each other's partners; or one per batch (the paper's setting).
        NOTE[PAPER]: the default is one per row; it varies the points of a small table more.
    pairs : "batch" or "set"
        Source of partners: the same batch, or any batch of the same epoch. "set" needs `train_fleet` or a classifier,
        which plan an epoch at once.

    Examples
    --------
    >>> draw = Mixup(alpha=1.0).draw(3, rng=0)
    >>> Mixup().mix(np.array([[0.0], [1.0], [2.0]]), draw).shape
    (3, 1)
    """

    def __init__(self, alpha: float = 1.0, lam_per: str = "sample", pairs: str = "batch") -> None:
        self.alpha = alpha
        self.lam_per = lam_per
        self.pairs = pairs

    @property
    def pairs_across_batches(self) -> bool:
        """True with pairs="set"."""
        check_choice("pairs", self.pairs, ["batch", "set"])
        return self.pairs == "set"

    def draw(self, n: int, rng: Any = None, x: Any = None, y: Any = None) -> MixParams:
        """Draw the partners of the batch and their weights."""
        return MixParams(*draw_pairs(self.alpha, self.lam_per, n, as_rng(rng)))


@final
@MIXERS.register("manifold")
class ManifoldMixup(Mixer):
    """Mixup of a hidden layer drawn for each batch (Verma et al., 2019; a baseline of arXiv Table 7).

    Parameters
    ----------
    alpha, lam_per
        As in :class:`Mixup`; 2 and one lam per batch are the usual choice.
    depths : sequence of int
        Network stages to draw from; 0 is the input.

    Examples
    --------
    >>> ManifoldMixup(depths=(1,)).draw(3, rng=0).depth
    1
    """

    def __init__(self, alpha: float = 2.0, depths: Sequence[int] = (0, 1, 2), lam_per: str = "batch") -> None:
        self.alpha = alpha
        self.depths = depths
        self.lam_per = lam_per

    @property
    def min_depth(self) -> int:
        """Smallest of `depths`."""
        return min(self.depths, default=0)

    @property
    def max_depth(self) -> int:
        """Largest of `depths`."""
        return max(self.depths, default=0)

    def draw(self, n: int, rng: Any = None, x: Any = None, y: Any = None) -> MixParams:
        """Draw the partners of the batch, their weights and the depth."""
        generator = as_rng(rng)
        if not len(self.depths):
            raise ValueError("depths is empty; name at least one stage, for example depths=(0, 1, 2)")
        depth = check_count("depths", self.depths[int(generator.integers(len(self.depths)))], low=0)
        return MixParams(*draw_pairs(self.alpha, self.lam_per, n, generator), depth)


@final
@MIXERS.register("regmixup")
class RegMixup(Mixer):
    r"""Mixup as a regularizer: the loss of clean samples plus eta times that of mixed ones (Pinto et al., 2022).

    .. math:: \ell(f(x), y) + \eta \, \ell(f(x_{mix}), y_{mix}), \quad \lambda \sim Beta(\alpha, \alpha)

    (arXiv 2206.14502). Half of the rows of a batch, drawn at random, stay clean; the others are mixed, with weight
    eta in the loss. NOTE: the paper takes both losses of every row, by two passes of the network; this has the same
    expected gradient from twice as many rows, at the cost of mixup.

    Parameters
    ----------
    alpha, lam_per
        As in :class:`Mixup`; 10 or 20 in the paper, which mixes nearly half and half.
    eta : float
        Weight of the mixed rows, above 0.

    Examples
    --------
    >>> draw = RegMixup(eta=0.5).draw(4, rng=0)
    >>> int((draw.weight < 1.0).sum()), int((draw.lam == 1.0).sum())
    (2, 2)
    """

    optional_fields = frozenset({"weight"})

    def __init__(self, alpha: float = 10.0, lam_per: str = "sample", eta: float = 1.0) -> None:
        self.alpha = alpha
        self.lam_per = lam_per
        self.eta = eta

    def draw(self, n: int, rng: Any = None, x: Any = None, y: Any = None) -> MixParams:
        """Draw the clean half of the batch, and partners and weights of the others."""
        generator = as_rng(rng)
        eta = check_positive("eta", self.eta, "use mixer=None for the loss of clean samples alone")
        mixed = MixParams(*draw_pairs(self.alpha, self.lam_per, n, generator), weight=np.full(n, eta))
        return mixed.leave_unmixed(generator.permutation(n) < n // 2)


@final
@MIXERS.register("cutmix")
class CutMix(Mixer):
    """Paste a box of the partner into each image; lam is the fraction that remains (Yun et al., 2019). Experimental.

    The box has the image's proportions, sides of sqrt(1 - lam') with lam' ~ Beta(alpha, alpha), and a center anywhere
    in the image. It is clipped to the image, and lam is the fraction outside of it. Labels are blended by lam, as in
    mixup. Input only: images (n, c, h, w).

    Parameters
    ----------
    alpha, lam_per
        As in :class:`Mixup`: one box per image, per pair or per batch.
    pixels : int or None
        Side of the (square) images, to cut at whole pixels as Yun et al. do. With None, a box ends anywhere, a pixel
        on its edge is blended by the covered fraction, and lam is exact for images of every size.

    Examples
    --------
    >>> draw = CutMix(pixels=8).draw(2, rng=0)
    >>> CutMix().mix(np.zeros((2, 1, 8, 8)), draw).shape
    (2, 1, 8, 8)
    """

    supports_tables = False
    optional_fields = frozenset({"box"})

    def __init__(self, alpha: float = 1.0, lam_per: str = "sample", pixels: int | None = None) -> None:
        self.alpha = alpha
        self.lam_per = lam_per
        self.pixels = pixels

    def draw(self, n: int, rng: Any = None, x: Any = None, y: Any = None) -> MixParams:
        """Draw the partners of the batch and their boxes; lam is the fraction outside the box."""
        generator = as_rng(rng)
        partner, lam = draw_pairs(self.alpha, self.lam_per, n, generator)
        center = generator.random((1 if self.lam_per == "batch" else n, 2, 1))
        if self.lam_per == "pair":
            center = center[np.minimum(np.arange(n), partner)]
        half = np.sqrt(1.0 - lam)[:, None, None] / 2.0
        box = (center + half * np.array([-1.0, 1.0])).clip(0.0, 1.0).reshape(n, 4)
        if self.pixels is not None:
            side = check_count("pixels", self.pixels)
            box = np.round(box * side) / side
        return MixParams(partner, 1.0 - (box[:, 1] - box[:, 0]) * (box[:, 3] - box[:, 2]), box=box)

    def mix(self, X: Any, draw: MixParams) -> Any:
        """Return the images with the boxes of their partners; numpy or torch, (n, c, h, w)."""
        images = as_points(X, draw)
        if images.ndim != 4:
            raise ValueError(f"CutMix needs images (n, c, h, w); X has shape {tuple(images.shape)}; use Mixup instead")
        top, bottom, left, right = to_device(draw.box, images).T
        rows, columns = _coverage(top, bottom, images.shape[2]), _coverage(left, right, images.shape[3])
        mask = (rows[:, :, None] * columns[:, None, :])[:, None].to(images.dtype)  # fractions of pixels, (n, 1, h, w)
        return like((1.0 - mask) * images + mask * images[to_device(draw.partner, images)], X)


@final
@MIXERS.register("random-choice")
class RandomChoice(Mixer):
    """One of several mixers for each batch, such as mixup or CutMix (`RandomChoice` of torchvision, as timm mixes).

    Parameters
    ----------
    mixers : sequence of Mixer, optional
        Mixers that blend linearly, and CutMix; `(Mixup(), CutMix())` by default.
    p : sequence of float, optional
        Probability of each; equal by default.

    Examples
    --------
    >>> mixer = RandomChoice([Mixup(0.8), CutMix()], p=[0.25, 0.75])
    >>> images = np.arange(32.0).reshape(2, 1, 4, 4)
    >>> mixer.mix(images, mixer.draw(2, rng=0)).shape
    (2, 1, 4, 4)
    """

    supports_tables = False  # by default it draws CutMix

    def __init__(self, mixers: Sequence[Mixer] | None = None, p: Sequence[float] | None = None) -> None:
        self.mixers = mixers
        self.p = p

    @property
    def linear(self) -> bool:
        """True if all of the mixers blend linearly."""
        return all(mixer.linear for mixer in self._choices())

    @property
    def data_dependent(self) -> bool:
        """True if any of the mixers needs the points and labels of the batch."""
        return any(mixer.data_dependent for mixer in self._choices())

    @property
    def optional_fields(self) -> frozenset[str]:
        """Optional fields of all mixers."""
        return frozenset().union(*(mixer.optional_fields for mixer in self._choices()))

    @property
    def min_depth(self) -> int:
        """Smallest depth of the mixers."""
        return min(mixer.min_depth for mixer in self._choices())

    @property
    def max_depth(self) -> int:
        """Largest depth of the mixers."""
        return max(mixer.max_depth for mixer in self._choices())

    @property
    def pairs_across_batches(self) -> bool:
        """True if any of the mixers pairs rows across batches."""
        return any(mixer.pairs_across_batches for mixer in self._choices())

    def draw(self, n: int, rng: Any = None, x: Any = None, y: Any = None) -> MixParams:
        """Draw a mixer, then its draw, with empty values of the optional fields of the others."""
        generator, mixers = as_rng(rng), self._choices()
        if others := [mixer for mixer in mixers if not (mixer.linear or isinstance(mixer, CutMix))]:
            raise ValueError(f"RandomChoice chooses among mixers that blend, and CutMix; {others[0]!r} is neither")
        p = np.full(len(mixers), 1.0 / len(mixers)) if self.p is None else np.asarray(self.p, dtype=np.float64)
        if p.shape != (len(mixers),) or not (p >= 0).all() or abs(p.sum() - 1.0) > 1e-9:
            raise ValueError(f"p={self.p!r} must be {len(mixers)} probabilities of sum 1, one for each mixer")
        drawn = mixers[generator.choice(len(mixers), p=p)].draw(n, generator, x, y)
        empty = {"box": np.zeros((n, 4)), "weight": np.ones(n)}
        return drawn._replace(**{name: empty[name] for name in self.optional_fields - drawn.row_fields().keys()})

    def mix(self, X: Any, draw: MixParams) -> Any:
        """Return the mixed rows: those with a box are pasted, the others blended."""
        if draw.box is None or draw.depth:
            return blend(X, draw)
        if np.ndim(X) != 4 and not bool((torch.as_tensor(draw.box) != 0.0).any()):
            return blend(X, draw)
        top, bottom, left, right = torch.as_tensor(draw.box).T
        lam = torch.where((bottom - top) * (right - left) == 0, torch.as_tensor(draw.lam), 1.0)
        return CutMix().mix(blend(X, draw._replace(lam=lam)), draw)

    def _choices(self) -> Sequence[Mixer]:
        if self.mixers is None:
            return Mixup(), CutMix()
        if not len(self.mixers):
            raise ValueError("mixers is empty; name at least one, such as Mixup()")
        return self.mixers


def draw_pairs(
    alpha: float, lam_per: str, n: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Draw partners (n,) by a permutation, and weights (n,) from Beta(alpha, alpha)."""
    check_choice("lam_per", lam_per, ["sample", "pair", "batch"])
    order = rng.permutation(n)
    if lam_per != "pair":
        return order, draw_lam(alpha, lam_per, n, rng)
    lam, partner = draw_lam(alpha, "sample", n, rng), np.empty_like(order)
    partner[order] = order[::-1]  # the first row of the permutation with the last, and so on
    return partner, lam[np.minimum(np.arange(n), partner)]


def draw_lam(alpha: float, lam_per: str, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw weights (n,) from Beta(alpha, alpha): one per row, or one per batch."""
    check_positive("alpha", alpha, "mixup needs Beta(alpha, alpha); use mixer=None for no mixing")
    check_choice("lam_per", lam_per, ["sample", "batch"])
    size = 1 if lam_per == "batch" else n
    lam = rng.random(size) if alpha == 1.0 else rng.beta(alpha, alpha, size)
    return lam if size == n else np.full(n, lam[0])


def _coverage(low: Tensor, high: Tensor, n: int) -> Tensor:
    """Return the fraction of each of n pixels between low and high (fractions of the side), (len(low), n)."""
    pixel, edges = torch.arange(n, dtype=low.dtype, device=low.device), torch.stack([low, high]) * n
    near = edges.round()
    snapped = torch.where((edges - near).abs() < 1e-6, near, edges)  # rounding must not split a pixel
    below_low, below_high = (snapped[..., None] - pixel).clamp(0.0, 1.0)
    return below_high - below_low
