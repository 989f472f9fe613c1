"""Mixed samples of every pair of classes: where they land, how typical they are, and the labels of both methods."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import beta

from genlabel._arrays import as_rng
from genlabel.densities import StackedDensity
from genlabel.estimators.typicality import Typicality
from genlabel.evaluation.prediction_counts import wilson_interval
from genlabel.labeling import GenLabel, LinearLabel
from genlabel.mixing import MixParams, intrudes
from genlabel.mixing.base import blend
from genlabel.model_selection.splits import LabeledData

MIN_PER_PAIR, MAX_PAIRS = 20, 200
"""Mixed samples of a pair of classes, and pairs of classes: the ones that mixup draws most often."""
PERMUTATIONS = 5
MAX_ATYPICAL = 0.05
"""Typicality up to which a mixed sample counts as atypical: at most one training row in twenty is as odd."""
LAMBDA_BINS = 5
AVERAGED = ("intrusion", "typicality", "atypical", "total_variation")
"""Columns of the table of pairs that are averaged over the pairs of classes."""
MAX_LABEL_CLASSES = 3
"""Classes of a label that are written."""

Rows = NDArray[np.intp]
Values = NDArray[np.float64]


class MixedPairs(NamedTuple):
    """Drawn pairs of rows with their mixing weights, by pair of classes."""

    first: Rows
    """Row indices (m,); the class is at most that of the second row."""
    second: Rows
    lam: Values
    """Weight of the first row, (m,)."""

    def batch(self) -> tuple[Rows, MixParams]:
        """Return a batch of 2 m rows, the first and then the second ones, and how each is mixed with its partner."""
        m = len(self.lam)
        partner = np.concatenate([np.arange(m, 2 * m), np.arange(m)])
        return np.concatenate([self.first, self.second]), MixParams(partner, np.concatenate([self.lam, 1.0 - self.lam]))


class MixedSamples(NamedTuple):
    """Mixed samples with what was measured at each."""

    pairs: MixedPairs
    intrudes: NDArray[np.bool_]
    """True where the nearest row is of the class of neither parent, (m,)."""
    typicality: Values
    """Typicality among the training rows, (m,)."""
    linear_labels: Values
    """Labels of mixup (m, k)."""
    density_labels: Values
    """Labels of the stacked density (m, k)."""

    @property
    def total_variation(self) -> Values:
        """Distance of the two labels, (m,): half the sum of absolute differences, 0 to 1."""
        return np.asarray(0.5 * np.abs(self.linear_labels - self.density_labels).sum(1))


class MixedSampleStats(NamedTuple):
    """Measurements of the mixed samples of a table; the `mixed` of a :class:`Diagnosis`."""

    pairs: pd.DataFrame
    """One row for each pair of classes, see :func:`pair_table`, with the names of the classes."""
    lambdas: pd.DataFrame
    """One row for each pair of classes and fifth of lambda, see :func:`lambda_table`."""
    permuted: tuple[float, ...]
    """Share of mixed samples that intrude after each permutation of the labels."""
    samples: MixedSamples
    """The mixed samples themselves: parents, lambda, both labels."""
    rows: NDArray[np.int64]
    """Positions in the user's table of the rows that were mixed."""
    class_index: Rows
    """Class index of each of these rows."""
    points: Values
    """Features of these rows, not standardized, (n, d)."""

    @property
    def chance(self) -> float:
        """Mean share of mixed samples that intrude where labels are permuted."""
        return float(np.mean(self.permuted))

    @property
    def means(self) -> dict[str, float]:
        """Means over the pairs of classes, each weighted by how often mixup draws it."""
        return {name: float(np.average(self.pairs[name], weights=self.pairs["weight"])) for name in AVERAGED}

    def to_frame(self, classes: NDArray[Any]) -> pd.DataFrame:
        """Return the mixed samples with their parents and labels, those first whose two labels differ most."""

        def text(label: Values) -> str:
            top = np.argsort(-label, kind="stable")[:MAX_LABEL_CLASSES]
            return ", ".join(f"{classes[c]} {label[c]:.2f}" for c in top if label[c] >= 0.005)

        samples, (first, second, lam) = self.samples, self.samples.pairs
        order = np.argsort(-samples.total_variation, kind="stable")
        names = classes[self.class_index]
        return pd.DataFrame(
            {
                "row_1": self.rows[first[order]],
                "row_2": self.rows[second[order]],
                "class_1": names[first[order]],
                "class_2": names[second[order]],
                "lam": lam[order],
                "mixup_label": [text(label) for label in samples.linear_labels[order]],
                "density_label": [text(label) for label in samples.density_labels[order]],
                "total_variation": samples.total_variation[order],
                "intrudes": samples.intrudes[order],
                "typicality": samples.typicality[order],
            }
        )


def measure_mixed_samples(
    data: LabeledData, density: StackedDensity, points: Values, count: int, alpha: float, seed: int
) -> MixedSampleStats:
    """Measure about `count` mixed samples of a table, and their intrusion with permuted labels.

    The density is fitted to `points` (n, d), the standardized features; mixing weights are lam ~ Beta(alpha, alpha).
    """
    index = data.y.astype(np.intp)
    typicality = Typicality(random_state=seed).fit(points, index)
    samples = evaluate_mixed_samples(density, typicality, points, index, count, alpha, seed)
    by_pair, permuted = permuted_intrusion(points, index, count, alpha, seed)
    pairs, lambdas = (
        table.assign(first=data.classes[table["first"]], second=data.classes[table["second"]]).rename(
            columns={"first": "class_1", "second": "class_2"}
        )
        for table in (pair_table(samples, index, by_pair), lambda_table(samples, index))
    )
    return MixedSampleStats(pairs, lambdas, tuple(permuted), samples, data.rows, index, data.X)


def evaluate_mixed_samples(
    density: StackedDensity, typicality: Typicality, points: Values, index: Rows, count: int, alpha: float, seed: int
) -> MixedSamples:
    """Draw about `count` mixed samples, as many of each pair of classes, and measure them."""
    pairs = _draw_pairs(index, count, alpha, as_rng(seed))
    (batch, params), m = pairs.batch(), len(pairs.lam)
    mixed, classes = blend(points[batch], params), index[batch]
    intruding = intrudes(mixed, params, points[batch], classes, pool=(points, index))[:m]
    linear = LinearLabel().fit(points, index).label(mixed, classes, params)[:m]
    generated = GenLabel.from_fitted(density).label(mixed, classes, params)[:m]
    return MixedSamples(pairs, intruding, typicality(mixed[:m]), linear, generated)


def permuted_intrusion(
    points: Values, index: Rows, count: int, alpha: float, seed: int
) -> tuple[pd.DataFrame, list[float]]:
    """Return the intrusion of each pair of classes where labels are permuted, and the overall share each time.

    This is the intrusion at chance level: the classes occupy no regions of their own.
    """
    rng, shares, overall = as_rng([seed, 1]), [], []
    for _ in range(PERMUTATIONS):
        shuffled = rng.permutation(index)
        pairs = _draw_pairs(shuffled, max(1, count // PERMUTATIONS), alpha, rng)
        batch, params = pairs.batch()
        mixed = blend(points[batch], params)
        hits = intrudes(mixed, params, points[batch], shuffled[batch], pool=(points, shuffled))
        frame = pd.DataFrame(
            {"first": shuffled[pairs.first], "second": shuffled[pairs.second], "permuted": hits[: len(pairs.lam)]}
        )
        means = frame.groupby(["first", "second"])["permuted"].mean()
        weights = pd.Series({(first, second): weight for first, second, weight in _class_pairs(shuffled)})
        overall.append(float(np.average(means, weights=weights[means.index])))
        shares.append(means)
    return pd.concat(shares, axis=1).mean(axis=1).rename("permuted").reset_index(), overall


def pair_table(samples: MixedSamples, index: Rows, permuted: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each pair of classes: intrusion with its interval, typicality, distance of the labels.

    `weight` is the share of mixup's samples that are of the pair; `first` and `second` are class indices.
    """
    first, second = index[samples.pairs.first], index[samples.pairs.second]
    counts, distance, rows = np.bincount(index), samples.total_variation, []
    for one, other, weight in _class_pairs(index):
        here = (first == one) & (second == other)
        share = float(samples.intrudes[here].mean())
        size = effective_size(int(here.sum()), int(counts[one]), int(counts[other]), same=one == other)
        low, high = wilson_interval(share, size)
        rows.append(
            {
                "first": one,
                "second": other,
                "weight": weight,
                "n_mixed": int(here.sum()),
                "intrusion": share,
                "low": low,
                "high": high,
                "typicality": float(np.median(samples.typicality[here])),
                "atypical": float((samples.typicality[here] <= MAX_ATYPICAL).mean()),
                "total_variation": float(distance[here].mean()),
            }
        )
    return pd.DataFrame(rows).merge(permuted, on=["first", "second"], how="left")


def lambda_table(samples: MixedSamples, index: Rows) -> pd.DataFrame:
    """Return the mean distance of the two labels for each pair of classes and each fifth of lambda's range."""
    edges = np.linspace(0.0, 1.0, LAMBDA_BINS + 1)
    cell = np.minimum((samples.pairs.lam * LAMBDA_BINS).astype(np.intp), LAMBDA_BINS - 1)
    frame = pd.DataFrame(
        {
            "first": index[samples.pairs.first],
            "second": index[samples.pairs.second],
            "lam_low": edges[cell],
            "lam_high": edges[cell + 1],
            "total_variation": samples.total_variation,
        }
    )
    grouped = frame.groupby(["first", "second", "lam_low", "lam_high"])["total_variation"]
    return grouped.agg(["size", "mean"]).rename(columns={"size": "n_mixed", "mean": "total_variation"}).reset_index()


def effective_size(count: int, first: int, second: int, same: bool) -> float:
    """Return a lower bound of how many independent cases `count` mixed samples of `first` and `second` rows are worth.

    The share among all pairs of rows is a mean over arrangements of min(first, second) disjoint pairs (first / 2 within
    one class), so its variance is at most that of as many independent pairs (Hoeffding 1963, section 5); the `count`
    samples that were drawn add theirs.
    """
    disjoint = first // 2 if same else min(first, second)
    return 1.0 / (1.0 / count + 1.0 / disjoint)


def _class_pairs(index: Rows) -> list[tuple[int, int, float]]:
    """Return the pairs of classes that mixup draws most often, with weights of sum 1."""
    counts = np.bincount(index)
    pairs: list[tuple[int, int, float]] = []
    for first in range(len(counts)):
        if counts[first] > 1:
            pairs.append((first, first, float(counts[first] * (counts[first] - 1))))
        pairs += [(first, other, 2.0 * counts[first] * counts[other]) for other in range(first + 1, len(counts))]
    frequent = sorted(sorted(pairs, key=lambda pair: -pair[2])[:MAX_PAIRS])
    total = sum(weight for *_, weight in frequent)
    return [(first, second, weight / total) for first, second, weight in frequent]


def _draw_pairs(index: Rows, count: int, alpha: float, rng: np.random.Generator) -> MixedPairs:
    """Draw as many pairs of rows of each pair of classes: rows are used evenly, weights are stratified quantiles."""
    pairs = _class_pairs(index)
    size = max(MIN_PER_PAIR, count // len(pairs))
    of_class = [np.flatnonzero(index == c) for c in range(int(index.max()) + 1)]
    drawn = []
    for first_class, second_class, _ in pairs:
        rows = of_class[first_class]
        first = _cycle_shuffled(rows, size, rng)
        if first_class == second_class:
            position = np.searchsorted(rows, first)
            second = rows[(position + rng.integers(1, len(rows), size)) % len(rows)]
        else:
            second = _cycle_shuffled(of_class[second_class], size, rng)
        lam = beta.ppf((rng.permutation(size) + rng.random(size)) / size, alpha, alpha)
        drawn.append((first, second, lam))
    return MixedPairs(*map(np.concatenate, zip(*drawn, strict=True)))


def _cycle_shuffled(rows: Rows, size: int, rng: np.random.Generator) -> Rows:
    """Return `size` of the rows in random order, each as often as any other, or once less."""
    times = -(-size // len(rows))
    return np.concatenate([rng.permutation(rows) for _ in range(times)])[:size]
