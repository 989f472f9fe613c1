"""CutMix: a box of one image pasted into another (Yun et al., 2019). Experimental."""

from __future__ import annotations

from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from genlabel._arrays import as_rng, to_device
from genlabel._validation import check_count, ignore_overflow
from genlabel.mixing.base import Mixer, MixParams, as_points
from genlabel.mixing.mixup import draw_lam
from genlabel.registry import MIXERS


@final
@MIXERS.register("cutmix")
class CutMix(Mixer):
    """Paste a box of the partner into each image; lam is the fraction of the image that remains. Experimental.

    The box has the image's proportions, sides of sqrt(1 - lam') with lam' ~ Beta(alpha, alpha), and a center anywhere
    in the image. It is clipped to the image, and lam is the fraction outside of it. Labels are blended by lam, as in
    mixup. Input only: images (n, c, h, w).

    Parameters
    ----------
    alpha : float
        Parameter of the Beta distribution, above 0; 1 is the usual choice.
    lam_per : "sample" or "batch"
        One box per image or per batch.
    pixels : int or None
        Side of the (square) images, to cut at whole pixels as Yun et al. do. With None, a box ends anywhere, a pixel
        on its edge is blended by the covered fraction, and lam is exact for images of every size.

    Examples
    --------
    >>> images = np.zeros((2, 1, 8, 8)); images[1] = 1.0
    >>> draw = CutMix(pixels=8).draw(2, rng=0)
    >>> mixed = CutMix().mix(images, draw)
    >>> expected = draw.lam * [0, 1] + (1 - draw.lam) * (draw.partner == 1)
    >>> bool(np.allclose(mixed.mean((1, 2, 3)), expected))
    True
    """

    def __init__(self, alpha: float = 1.0, lam_per: str = "sample", pixels: int | None = None) -> None:
        self.alpha = alpha
        self.lam_per = lam_per
        self.pixels = pixels

    def draw(self, n: int, rng: Any = None) -> MixParams:
        """Draw a permutation of the batch and its boxes; lam is the fraction outside the box."""
        generator = as_rng(rng)
        partner, lam = generator.permutation(n), draw_lam(self.alpha, self.lam_per, n, generator)
        center = generator.random((1 if self.lam_per == "batch" else n, 2, 1))
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
        if isinstance(images, Tensor):
            mask = _mask(to_device(draw.box, images), *images.shape[2:]).to(images.dtype)
            return (1.0 - mask) * images + mask * images[to_device(draw.partner, images)]
        weight = _mask(torch.as_tensor(draw.box), *images.shape[2:]).numpy()
        with ignore_overflow():
            return (1.0 - weight) * images + weight * images[np.asarray(draw.partner)]


def _mask(box: Tensor, h: int, w: int) -> Tensor:
    """Return the covered fraction of each pixel, (n, 1, h, w)."""
    rows, columns = _coverage(box[:, 0], box[:, 1], h), _coverage(box[:, 2], box[:, 3], w)
    return (rows[:, :, None] * columns[:, None, :])[:, None]


def _coverage(low: Tensor, high: Tensor, n: int) -> Tensor:
    """Return the fraction of each of n pixels between low and high (fractions of the side), (len(low), n)."""
    pixel, below = torch.arange(n, dtype=low.dtype, device=low.device), []
    for edge in (low * n, high * n):
        near = edge.round()
        snapped = torch.where((edge - near).abs() < 1e-6, near, edge)  # rounding must not split a pixel
        below.append((snapped[:, None] - pixel).clamp(0.0, 1.0))
    return below[1] - below[0]
