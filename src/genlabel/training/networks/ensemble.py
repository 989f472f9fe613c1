"""Several networks as one: the mean of their probabilities, drawn towards the frequencies of the classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from genlabel._arrays import chunks

ROWS_AT_ONCE = 65_536
"""Of a table that networks are asked of."""


@final
class Ensemble(nn.Module):
    """The mean p of networks, sharpened or softened, and mixed with the class frequencies pi: (1 - e) r + e pi.

    Here log r = log pi + a (log p - log pi), normalised. Scores like those of any network: their softmax is what is
    predicted. With weight a = 1 and doubt e = 0 it is the plain mean.

    Parameters
    ----------
    networks : sequence of Module
        Scores (m, k) of points (m, d).
    weight : float
    log_prior : Tensor (k,), optional
        Needed where the weight is not 1, or the doubt not 0.
    doubt : float

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
        """Scores (m, k)."""
        logs = torch.stack([torch.log_softmax(network(x), -1) for network in self.networks])
        mean = torch.logsumexp(logs, 0) - math.log(len(logs))
        if self.log_prior is None:
            return mean
        prior = cast(Tensor, self.log_prior).to(mean)
        scores = prior + self.weight * (mean - prior)
        if self.doubt == 0.0:
            return scores
        logs = torch.log_softmax(scores, -1)
        return torch.logaddexp(logs + math.log1p(-self.doubt), prior + math.log(self.doubt))


@torch.no_grad()
def log_proba_of(network: nn.Module, X: NDArray[Any]) -> NDArray[np.float64]:
    """Return the log-probability of each class, (m, k), at points (m, d), by a network on the CPU.

    >>> from genlabel.training.networks import MLP
    >>> log_proba_of(MLP(2, 3, seed=0, dtype=torch.float64), np.zeros((5, 2))).shape
    (5, 3)
    """
    parts = [network(torch.from_numpy(X[rows])) for rows in chunks(len(X), ROWS_AT_ONCE)]
    return np.asarray(torch.log_softmax(torch.cat(parts), dim=1).numpy())
