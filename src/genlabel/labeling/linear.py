"""Labels that look at the parents alone: mixup's linear ones, and a logistic curve in lam."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from genlabel._validation import check_positive
from genlabel.labeling.base import Labeler
from genlabel.mixing import BatchInfo, MixParams, blend


@final
class LinearLabel(Labeler):
    """Mixup's label, y_mix = lam y_i + (1 - lam) y_j (arXiv Alg. 1, line 4, and Eq. (3)).

    >>> import numpy as np
    >>> from genlabel.mixing import MixParams
    >>> LinearLabel().label([[0.0], [0.0]], ["a", "b"], MixParams(np.array([1, 0]), np.array([0.25, 1.0])))
    array([[0.25, 0.75],
           [0.  , 1.  ]])
    """

    def _label(self, x_mix: Tensor, targets: Tensor, draw: MixParams, origin: BatchInfo) -> Tensor:
        return blend(targets, draw)


@final
class LogisticLabel(Labeler):
    r"""A logistic curve in lam: y = rho y_i + (1 - rho) y_j with rho = 1 / (1 + exp(-2 (lam - 1/2) / sigma^2)).

    arXiv Section 3.2. NOTE[PAPER]: Proposition 1 gives GenLabel's label of two Gaussians of width s without
    the factor 2, so that `sigma` here is sqrt(2) s.

    Parameters
    ----------
    sigma : float
        Above 0; a small one labels with the nearer parent, a large one gives every pair equal shares.

    Examples
    --------
    >>> import numpy as np
    >>> from genlabel.mixing import MixParams
    >>> draw = MixParams(np.array([1, 0]), np.array([0.5, 0.75]))
    >>> LogisticLabel(sigma=0.5).label([[0.0], [0.0]], ["a", "b"], draw).round(3)
    array([[0.5  , 0.5  ],
           [0.119, 0.881]])
    """

    def __init__(self, sigma: float = 0.5) -> None:
        self.sigma = sigma

    def _label(self, x_mix: Tensor, targets: Tensor, draw: MixParams, origin: BatchInfo) -> Tensor:
        sigma = check_positive("sigma", self.sigma, "it is the width of the logistic curve")
        rho = torch.sigmoid(torch.as_tensor(2.0 * (draw.lam - 0.5) / sigma**2))
        return blend(targets, draw._replace(lam=rho))
