"""Ensemble: the mean of several networks' probabilities, shrunk towards the class priors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from genlabel._arrays import chunks

MAX_CHUNK_ROWS = 65_536
"""Rows evaluated at once."""


@final
class Ensemble(nn.Module):
    """Mean p of networks, sharpened or softened to r, and mixed with the class priors pi: (1 - e) r + e pi.

    Here log r = log pi + a (log p - log pi), normalized. The outputs are scores, whose softmax are the probabilities.
    With weight a = 1 and doubt e = 0 it is the plain mean.

    Parameters
    ----------
    networks : sequence of Module
        Networks from points (m, d) to scores (m, k).
    weight : float
        Exponent a.
    log_prior : Tensor (k,), optional
        Log class priors; needed unless the weight is 1 and the doubt 0.
    doubt : float
        Weight e of the class priors.

    Examples
    --------
    >>> from genlabel.training.networks import MLP
    >>> networks = [MLP(2, 3, seed=seed) for seed in (0, 1)]
    >>> x = torch.ones(1, 2)
    >>> mean = sum(torch.softmax(network(x), 1) for network in networks) / 2
    >>> bool(torch.allclose(torch.softmax(Ensemble(networks)(x), 1), mean))
    True
    """

    def __init__(
        self,
        networks: Sequence[nn.Module],
        weight: float = 1.0,
        log_prior: Tensor | None = None,
        doubt: float = 0.0,
    ) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)
        self.weight, self.doubt = weight, doubt
        self.register_buffer("log_prior", log_prior)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores (m, k)."""
        log_proba = torch.stack([torch.log_softmax(network(x), -1) for network in self.networks])
        mean = torch.logsumexp(log_proba, 0) - math.log(len(log_proba))
        if self.log_prior is None:
            return mean
        prior = cast(Tensor, self.log_prior).to(mean)
        scores = prior + self.weight * (mean - prior)
        if self.doubt == 0.0:
            return scores
        log_r = torch.log_softmax(scores, -1)
        return torch.logaddexp(log_r + math.log1p(-self.doubt), prior + math.log(self.doubt))


@torch.no_grad()
def log_proba_of(network: nn.Module, X: NDArray[Any]) -> NDArray[np.float64]:
    """Return the log-probabilities (m, k) of points (m, d) under a network on the CPU.

    >>> from genlabel.training.networks import MLP
    >>> log_proba_of(MLP(2, 3, seed=0, dtype=torch.float64), np.zeros((5, 2))).shape
    (5, 3)
    """
    scores = [network(torch.from_numpy(X[rows])) for rows in chunks(len(X), MAX_CHUNK_ROWS)]
    return np.asarray(torch.log_softmax(torch.cat(scores), dim=1).numpy())
