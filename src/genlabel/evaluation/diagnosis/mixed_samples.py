"""Blends of every pair of classes: where they land, how typical they are, and what label each side gives them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import beta

from genlabel._arrays import as_rng
from genlabel.densities import StackedDensity, Typicality
from genlabel.evaluation.diagnosis.intervals import independent_blends, share_interval
from genlabel.labeling import GenLabel, LinearLabel
from genlabel.mixing import MixParams, blend, intrudes

FEWEST, MOST_PAIRS = 20, 200
"""Blends of a pair of classes, at least; and pairs, at most: those that mixup draws most often."""
PERMUTATIONS = 5
ODD = 0.05
"""A support of at most this is that of few training rows."""
BINS = 5
"""Of lambda."""

Rows = NDArray[np.intp]
Values = NDArray[np.float64]


class Blends(NamedTuple):
    """Drawn pairs of rows, by pair of classes."""

    first: Rows
    """(m,); its class is at most that of the second."""
    second: Rows
    lam: Values
    """Weight of the first, (m,)."""

    @property
    def draw(self) -> MixParams:
        """The draw of a batch of 2 m rows, the firsts and then the seconds, each mixed with the other."""
        m = len(self.lam)
        return MixParams(
            np.concatenate([np.arange(m, 2 * m), np.arange(m)]), np.concatenate([self.lam, 1.0 - self.lam])
        )

    @property
    def batch(self) -> Rows:
        """The rows of that batch."""
        return np.concatenate([self.first, self.second])


class Seen(NamedTuple):
    """What was seen at blends."""

    blends: Blends
    intrudes: NDArray[np.bool_]
    """Whether the nearest row is of the class of neither parent, (m,)."""
    support: Values
    """(m,)"""
    mixup: Values
    """Mixup's labels (m, k)."""
    model: Values
    """The stacked density's, (m, k)."""

    @property
    def total_variation(self) -> Values:
        """Half the sum of the differences of the two labels, (m,), 0 to 1."""
        return np.asarray(0.5 * np.abs(self.mixup - self.model).sum(1))


class MixedSampleStats(NamedTuple):
    """All that was seen at the blends of a table.

    It is the `blends` of what `diagnose` returns.
    """

    pairs: pd.DataFrame
    """A row for each pair of classes, as of :func:`pair_frame`, with the names of the classes."""
    lambdas: pd.DataFrame
    """A row for each pair of classes and fifth of lambda, as of :func:`lambda_frame`."""
    permuted: tuple[float, ...]
    """Share of blends that intrude where labels were permuted, each time."""
    seen: Seen
    """The blends themselves: parents, lambda, both labels."""
    rows: NDArray[np.int64]
    """The row of your table that each of the rows that were mixed is."""
    class_number: Rows
    """Of each of these."""
    points: Values
    """Their numbers, not standardised, (n, d); a blend is one of points."""

    @property
    def chance(self) -> float:
        """The mean of the permuted shares."""
        return float(np.mean(self.permuted))


class _Pair(NamedTuple):
    """Two classes, which may be the same, and how often mixup pairs them."""

    first: int
    second: int
    weight: float


def evaluate_mixed_samples(
    model: StackedDensity, support: Typicality, points: Values, index: Rows, count: int, alpha: float, seed: int
) -> Seen:
    """Draw about `count` blends, as many of each pair of classes, and look at them.

    Parameters
    ----------
    model, support : StackedDensity, Support
        Fitted to `points` and `index`.
    points : array (n, d)
        Standardised.
    index : array (n,)
        Class numbers.
    count : int
    alpha : float
        Of lam ~ Beta(alpha, alpha).
    seed : int
    """
    blends = _draw(index, count, alpha, as_rng(seed))
    draw, batch, m = blends.draw, blends.batch, len(blends.lam)
    mixed, names = blend(points[batch], draw), index[batch]
    hit = intrudes(mixed, draw, points[batch], names, pool=(points, index))[:m]
    linear = LinearLabel().fit(points, index).label(mixed, names, draw)[:m]
    learned = GenLabel.from_fitted(model).label(mixed, names, draw)[:m]
    return Seen(blends, hit, support(mixed[:m]), linear, learned)


def permuted_shares(
    points: Values, index: Rows, count: int, alpha: float, seed: int
) -> tuple[pd.DataFrame, list[float]]:
    """Return the intrusion of each pair of classes where the labels are permuted, and the whole share of each time.

    It is what blends do where classes have no place of their own.
    """
    rng, found, whole = as_rng([seed, 1]), [], []
    for _ in range(PERMUTATIONS):
        shuffled = rng.permutation(index)
        blends = _draw(shuffled, max(1, count // PERMUTATIONS), alpha, rng)
        batch = blends.batch
        mixed = blend(points[batch], blends.draw)
        hit = intrudes(mixed, blends.draw, points[batch], shuffled[batch], pool=(points, shuffled))[: len(blends.lam)]
        frame = pd.DataFrame({"first": shuffled[blends.first], "second": shuffled[blends.second], "permuted": hit})
        means = frame.groupby(["first", "second"])["permuted"].mean()
        weights = pd.Series({(pair.first, pair.second): pair.weight for pair in _pairs(shuffled)})[means.index]
        whole.append(float(np.average(means, weights=weights)))
        found.append(means)
    return pd.concat(found, axis=1).mean(axis=1).rename("permuted").reset_index(), whole


def pair_frame(seen: Seen, index: Rows, permuted: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each pair of classes: intrusion with its interval, the permuted share, support, labels apart.

    `weight` is the share of mixup's blends that are of the pair; classes are numbers here.
    """
    first, second = index[seen.blends.first], index[seen.blends.second]
    counts, apart, rows = np.bincount(index), seen.total_variation, []
    for pair in _pairs(index):
        here = (first == pair.first) & (second == pair.second)
        share = float(seen.intrudes[here].mean())
        sizes = int(counts[pair.first]), int(counts[pair.second])
        worth = independent_blends(int(here.sum()), *sizes, same=pair.first == pair.second)
        rows.append(
            (pair.first, pair.second, pair.weight, int(here.sum()), share, *share_interval(share, worth),
             float(np.median(seen.support[here])), float((seen.support[here] <= ODD).mean()), float(apart[here].mean()))
        )  # fmt: skip
    names = ["first", "second", "weight", "blends", "intrusion", "low", "high", "support", "odd", "total_variation"]
    return pd.DataFrame(rows, columns=names).merge(permuted, on=["first", "second"], how="left")


def lambda_frame(seen: Seen, index: Rows) -> pd.DataFrame:
    """Return the mean distance of the two labels for each pair of classes and each fifth of lambda's range."""
    edges = np.linspace(0.0, 1.0, BINS + 1)
    cell = np.minimum((seen.blends.lam * BINS).astype(np.intp), BINS - 1)
    frame = pd.DataFrame(
        {
            "first": index[seen.blends.first],
            "second": index[seen.blends.second],
            "lam_low": edges[cell],
            "lam_high": edges[cell + 1],
            "total_variation": seen.total_variation,
        }
    )
    grouped = frame.groupby(["first", "second", "lam_low", "lam_high"])["total_variation"]
    return grouped.agg(["size", "mean"]).rename(columns={"size": "blends", "mean": "total_variation"}).reset_index()


def _pairs(index: Rows) -> list[_Pair]:
    """The pairs of classes that mixup draws most often, with weights of sum 1."""
    counts = np.bincount(index)
    found = []
    for first in range(len(counts)):
        if counts[first] > 1:
            found.append(_Pair(first, first, float(counts[first] * (counts[first] - 1))))
        found += [_Pair(first, other, 2.0 * counts[first] * counts[other]) for other in range(first + 1, len(counts))]
    kept = sorted(sorted(found, key=lambda pair: -pair.weight)[:MOST_PAIRS])
    total = sum(pair.weight for pair in kept)
    return [pair._replace(weight=pair.weight / total) for pair in kept]


def _draw(index: Rows, count: int, alpha: float, rng: np.random.Generator) -> Blends:
    """As many blends of each pair of classes."""
    pairs = _pairs(index)
    size = max(FEWEST, count // len(pairs))
    parts = list(_draw_pairs(index, pairs, size, alpha, rng))
    return Blends(*(np.concatenate([part[field] for part in parts]) for field in range(3)))


def _draw_pairs(index: Rows, pairs: list[_Pair], size: int, alpha: float, rng: np.random.Generator) -> Iterator[Blends]:
    """For each pair, rows that are used evenly, and weights that are spread evenly over their distribution."""
    of_class = [np.flatnonzero(index == c) for c in range(int(index.max()) + 1)]
    for pair in pairs:
        rows, others = of_class[pair.first], of_class[pair.second]
        first = _evenly(rows, size, rng)
        if pair.first == pair.second:
            place = np.searchsorted(rows, first)
            second = rows[(place + rng.integers(1, len(rows), size)) % len(rows)]
        else:
            second = _evenly(others, size, rng)
        lam = beta.ppf((rng.permutation(size) + rng.random(size)) / size, alpha, alpha)
        yield Blends(first, second, lam)


def _evenly(rows: Rows, size: int, rng: np.random.Generator) -> Rows:
    """So many of the rows in random order, each as often as any other, or once less."""
    times = -(-size // len(rows))
    return np.concatenate([rng.permutation(rows) for _ in range(times)])[:size]
