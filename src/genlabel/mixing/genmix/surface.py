"""Points on the likelihood-ratio surfaces between all pairs of classes: trials, checks and quotas (arXiv Alg. 4)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from genlabel.mixing.sampler import Synthetic

MOST_TRIALS = 1 << 14
"""Lines that are tried at once."""


class Candidates(NamedTuple):
    """Points that may lie on a surface, with what their density says of them; NaN where none was found."""

    points: NDArray[np.float64]
    """(m, d)"""
    log_prob: NDArray[np.float64]
    """(m, k)"""


class Missing(NamedTuple):
    """Pairs of classes that were given up, and how near to their lambda the points came that were found."""

    pairs: NDArray[np.int64]
    """(q, 2)"""
    nearest: float
    """The smallest distance to lambda among those that were too far from it; infinity if none was."""


class Finder(ABC):
    """A way of finding points with log p_j - log p_i = logit(lambda)."""

    patience: ClassVar[int]
    """A pair is given up when fewer than one trial in so many succeeds."""

    @abstractmethod
    def find(self, pair: NDArray[np.int64], height: NDArray[np.float64], rng: np.random.Generator) -> Candidates:
        """Seek one point for each pair of classes (m, 2), where log p_j - log p_i is its `height` (m,)."""


class _Tally:
    """How many points each pair of classes wants, has, and has been tried for."""

    def __init__(self, wanted: NDArray[np.int64], patience: int) -> None:
        self.wanted, self.patience = wanted, patience
        self.found, self.tried = np.zeros_like(wanted), np.zeros_like(wanted)
        self.given_up = np.zeros(len(wanted), dtype=bool)

    def trials(self) -> NDArray[np.int64]:
        """The pairs to try next, each as often as it needs by its rate of success so far, sorted."""
        lacking = self.wanted - self.found
        needed = np.ceil(1.1 * lacking * (self.tried + 1) / (self.found + 1)).astype(np.int64)
        left = self.patience * (self.found + 1) - self.tried  # trials until it is given up, if all of them fail
        number = np.where(lacking > 0, np.minimum(needed + 4, left), 0)
        if number.sum() > MOST_TRIALS:
            number = -(-number * MOST_TRIALS // number.sum())
        return np.repeat(np.arange(len(number)), number)

    def add(self, which: NDArray[np.int64], good: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Count trials of pairs and those that succeeded; return which of these are wanted."""
        nth = np.cumsum(good)
        first = np.searchsorted(which, which)  # `which` is sorted: the first trial of the same pair
        rank = nth - nth[first] + good[first]
        keep = good & (rank <= (self.wanted - self.found)[which])
        self.tried += np.bincount(which, minlength=len(self.tried))
        self.found += np.bincount(which[keep], minlength=len(self.found))
        return keep

    def pass_on(self, rng: np.random.Generator) -> None:
        """Give up the pairs that succeed too rarely: what they lack goes to the others."""
        lacking = self.wanted - self.found
        now = (lacking > 0) & (self.tried >= self.patience * (self.found + 1))
        self.given_up |= now
        others = np.flatnonzero(~self.given_up)
        self.wanted = np.where(now, self.found, self.wanted)
        self.wanted[others] += share_out(int(lacking[now].sum()), len(others), rng)


def share_out(count: int, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Share a number among n as evenly as can be, (n,); what is left over goes to some at random.

    >>> sorted(share_out(7, 3, np.random.default_rng(0)).tolist())
    [2, 2, 3]
    """
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    return count // n + (rng.permutation(n) < count % n)


def sample_surfaces(
    finder: Finder,
    k: int,
    count: int,
    draw_lam: Callable[[int, np.random.Generator], NDArray[np.float64]],
    eps: float,
    rng: np.random.Generator,
) -> tuple[Synthetic, Missing]:
    """Find `count` points between k classes, spread over their pairs; fewer if every pair is given up.

    arXiv Alg. 4, with all pairs at once. NOTE[PAPER]: a pair for which there is no point would keep its loop for ever;
    here it is given up.
    """
    pairs = np.stack(np.triu_indices(k, 1), 1)
    tally = _Tally(share_out(count, len(pairs), rng), finder.patience)
    parts: list[Synthetic] = []
    nearest = np.inf
    while len(which := tally.trials()):
        lam = draw_lam(len(which), rng)
        found = finder.find(pairs[which], logit(lam), rng)
        share = _share_of_second(found.log_prob, pairs[which])
        error = np.abs(share - lam)
        good = (error <= eps) & ~intrude(found.log_prob, pairs[which])  # arXiv Alg. 4 and Eq. (37), and its test
        nearest = min(nearest, float(np.min(error, initial=np.inf, where=error > eps)))
        keep = tally.add(which, good)
        labels = _on_the_pair(share[keep], pairs[which[keep]], k)
        parts.append(Synthetic(found.points[keep], labels, pairs[which[keep]], lam[keep]))
        tally.pass_on(rng)
    made = Synthetic.join(parts)
    order = np.lexsort((made.pair[:, 1], made.pair[:, 0]))
    return made.take(order), Missing(pairs[tally.given_up], nearest)


def _share_of_second(log_prob: NDArray[np.float64], pair: NDArray[np.int64]) -> NDArray[np.float64]:
    """p_j / (p_i + p_j), (m,); NaN where nothing was found, or both vanish."""
    rows = np.arange(len(pair))
    with np.errstate(invalid="ignore"):
        return np.asarray(expit(log_prob[rows, pair[:, 1]] - log_prob[rows, pair[:, 0]]))


def intrude(log_prob: NDArray[np.float64], pair: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether a third class is more likely than one of the pair, (m,)."""
    rows = np.arange(len(pair))[:, None]
    others = log_prob.copy()
    others[rows, pair] = -np.inf
    return np.asarray(others.max(1) > log_prob[rows, pair].min(1))


def _on_the_pair(share: NDArray[np.float64], pair: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """Labels p_i / (p_i + p_j) e_i + p_j / (p_i + p_j) e_j, (m, k) (arXiv Alg. 4)."""
    labels = np.zeros((len(share), k))
    labels[np.arange(len(share))[:, None], pair] = np.stack([1.0 - share, share], 1)
    return labels
