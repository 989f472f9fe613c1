"""Mixup and manifold mixup: partners by permutation, weights from a Beta distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from genlabel._arrays import as_rng
from genlabel._validation import check_choice, check_count, check_positive
from genlabel.mixing.base import LinearMixer, MixParams
from genlabel.registry import MIXERS


@final
@MIXERS.register("mixup")
class Mixup(LinearMixer):
    """Mixup of the input: x_mix = lam x_i + (1 - lam) x_j, lam ~ Beta(alpha, alpha) (arXiv Section 1.2, Eq. (3)).

    Parameters
    ----------
    alpha : float
        Parameter of the Beta distribution, above 0; 1 is uniform, a small alpha stays close to one of the two points.
    lam_per : "sample" or "batch"
        One lam per row, or one per batch (the paper's setting).
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

    def draw(self, n: int, rng: Any = None) -> MixParams:
        """Draw a permutation of the batch and its weights."""
        generator = as_rng(rng)
        return MixParams(generator.permutation(n), draw_lam(self.alpha, self.lam_per, n, generator))


@final
@MIXERS.register("manifold")
class ManifoldMixup(LinearMixer):
    """Mixup of a hidden layer drawn for each batch (Verma et al., 2019; a baseline of arXiv Table 7).

    Parameters
    ----------
    alpha : float
        Parameter of the Beta distribution; 2 is the usual choice.
    depths : sequence of int
        Network stages to draw from; 0 is the input.
    lam_per : "batch" or "sample"
        One lam per batch or per row.

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
    def max_depth(self) -> int:
        """Largest of `depths`."""
        return max(self.depths, default=0)

    def draw(self, n: int, rng: Any = None) -> MixParams:
        """Draw a permutation of the batch, its weights and the depth."""
        generator = as_rng(rng)
        if not len(self.depths):
            raise ValueError("depths is empty; name at least one stage, for example depths=(0, 1, 2)")
        depth = check_count("depths", self.depths[int(generator.integers(len(self.depths)))], low=0)
        return MixParams(generator.permutation(n), draw_lam(self.alpha, self.lam_per, n, generator), depth)


def draw_lam(alpha: float, lam_per: str, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw n weights from Beta(alpha, alpha), (n,); with lam_per="batch", one weight repeated.

    >>> draw_lam(1.0, "batch", 2, np.random.default_rng(0)).round(2)
    array([0.64, 0.64])
    """
    check_positive("alpha", alpha, "mixup needs Beta(alpha, alpha); use mixer=None for no mixing")
    check_choice("lam_per", lam_per, ["sample", "batch"])
    size = 1 if lam_per == "batch" else n
    lam = rng.random(size) if alpha == 1.0 else rng.beta(alpha, alpha, size)
    return lam if size == n else np.full(n, lam[0])
