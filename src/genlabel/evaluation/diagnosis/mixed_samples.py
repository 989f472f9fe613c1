"""Mixed samples of every pair of classes: where they land, how typical they are, and the labels of both methods."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import beta, norm

from genlabel._arrays import as_rng
from genlabel.densities import StackedDensity
from genlabel.estimators.typicality import TYPICALITY_THRESHOLD, Typicality
from genlabel.evaluation.prediction_counts import wilson_interval
from genlabel.labeling import GenLabel, LinearLabel
from genlabel.mixing import MixParams, intrudes
from genlabel.mixing.base import blend
from genlabel.model_selection.splits import LabeledData

MIN_PER_PAIR = 20
"""Minimum number of mixed samples of a pair of classes."""
MAX_PAIRS = 200
"""Maximum number of pairs of classes; those that mixup draws most often are measured."""
MIN_EXCESS = 0.01
"""Share of mixed samples by which a clear intrusion exceeds the expected one, at least."""
PERMUTATIONS = 5
LAMBDA_BINS = 5
AVERAGED = ("intrusion", "typicality", "atypical", "total_variation")
"""Columns of the table of pairs that are averaged over the pairs of classes."""
MAX_LABEL_CLASSES = 3
"""Classes that `format_label` shows."""

Rows = NDArray[np.intp]
Values = NDArray[np.float64]


class MixedPairs(NamedTuple):
    """Pairs of rows with their mixing weights, sorted by their pair of classes."""

    first: Rows
    """Row indices (m,); the class is at most that of the second row."""
    second: Rows
    lam: Values
    """Weight of the first row, (m,)."""

    def batch(self) -> tuple[Rows, MixParams]:
        """Return a batch of 2 m rows, the first and then the second ones, and the draw that mixes the pairs."""
        m = len(self.lam)
        partner = np.concatenate([np.arange(m, 2 * m), np.arange(m)])
        lam = np.concatenate([self.lam, 1.0 - self.lam])
        return np.concatenate([self.first, self.second]), MixParams(partner, lam)


class MixedSamples(NamedTuple):
    """Mixed samples with the measurements at each."""

    pairs: MixedPairs
    intrudes: NDArray[np.bool_]
    """True where the class of the nearest row is that of neither parent, (m,)."""
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

    @property
    def clearest_pair(self) -> dict[Hashable, Any] | None:
        """The pair of classes with the clearest intrusion: its row of `pairs`, in which classes keep their type.

        None if no pair is `clear`: then the highest may be chance.
        """
        clear = self.pairs[self.pairs["clear"]]
        return None if clear.empty else clear.nlargest(1, "low").to_dict("records")[0]

    def to_frame(self, classes: NDArray[Any]) -> pd.DataFrame:
        """Return the mixed samples with their parents and labels, those first whose two labels differ most."""
        samples = self.samples
        first, second, lam = samples.pairs
        names = classes[self.class_index]
        frame = pd.DataFrame(
            {
                "row_1": self.rows[first],
                "row_2": self.rows[second],
                "class_1": names[first],
                "class_2": names[second],
                "lam": lam,
                "mixup_label": [format_label(label, classes) for label in samples.linear_labels],
                "density_label": [format_label(label, classes) for label in samples.density_labels],
                "total_variation": samples.total_variation,
                "intrudes": samples.intrudes,
                "typicality": samples.typicality,
            }
        )
        return frame.sort_values("total_variation", ascending=False, kind="stable", ignore_index=True)


def format_label(label: Values, names: Sequence[Any] | NDArray[Any]) -> str:
    """Return the three most probable classes of a soft label (k,).

    >>> format_label(np.array([0.0, 0.25, 0.75]), ["a", "b", "c"])
    'c 0.75, b 0.25'
    """
    order = np.argsort(-label, kind="stable")[:MAX_LABEL_CLASSES]
    return ", ".join(f"{names[c]} {label[c]:.2f}" for c in order if label[c] >= 0.005)


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

    def with_names(table: pd.DataFrame) -> pd.DataFrame:
        named = table.assign(first=data.classes[table["first"]], second=data.classes[table["second"]])
        return named.rename(columns={"first": "class_1", "second": "class_2"})

    pairs = with_names(pair_table(samples, index, by_pair))
    lambdas = with_names(lambda_table(samples, index))
    return MixedSampleStats(pairs, lambdas, tuple(permuted), samples, data.rows, index, data.X)


def evaluate_mixed_samples(
    density: StackedDensity, typicality: Typicality, points: Values, index: Rows, count: int, alpha: float, seed: int
) -> MixedSamples:
    """Draw about `count` mixed samples, the same number of each pair of classes, and measure them."""
    pairs = _draw_pairs(index, count, alpha, as_rng(seed))
    rows, params = pairs.batch()
    m = len(pairs.lam)
    mixed, classes = blend(points[rows], params), index[rows]
    intruding = intrudes(mixed, params, points[rows], classes, pool=(points, index))[:m]
    linear = LinearLabel().fit(points, index).label(mixed, classes, params)[:m]
    generated = GenLabel.from_fitted(density).label(mixed, classes, params)[:m]
    return MixedSamples(pairs, intruding, typicality(mixed[:m]), linear, generated)


def permuted_intrusion(
    points: Values, index: Rows, count: int, alpha: float, seed: int
) -> tuple[pd.DataFrame, list[float]]:
    """Return the intrusion of each pair of classes with permuted labels, and its overall share by permutation.

    This is the intrusion at chance level, where the classes occupy no regions of their own.
    """
    rng, shares, overall = as_rng([seed, 1]), [], []
    for _ in range(PERMUTATIONS):
        shuffled = rng.permutation(index)
        pairs = _draw_pairs(shuffled, max(1, count // PERMUTATIONS), alpha, rng)
        rows, params = pairs.batch()
        mixed = blend(points[rows], params)
        intruding = intrudes(mixed, params, points[rows], shuffled[rows], pool=(points, shuffled))
        classes = {"first": shuffled[pairs.first], "second": shuffled[pairs.second]}
        frame = pd.DataFrame(classes | {"permuted": intruding[: len(pairs.lam)]})
        shares.append(frame.groupby(["first", "second"])["permuted"].mean())  # sorted, as the pairs are
        overall.append(float(np.average(shares[-1], weights=_class_pairs(shuffled)[2])))
    return pd.concat(shares, axis=1).mean(axis=1).rename("permuted").reset_index(), overall


def pair_table(samples: MixedSamples, index: Rows, permuted: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each pair of classes: intrusion with its interval, typicality, distance of the labels.

    `weight` is the share of the pair among mixup's samples; `first` and `second` are class indices. A pair is `clear`
    if its intrusion, also the lower end of an interval that is corrected for the number of pairs, exceeds what the
    whole table makes expected: that of the pair with permuted labels, times the ratio of both shares over all pairs.
    """
    first, second, weight = _class_pairs(index)
    measured = (samples.intrudes, samples.typicality, samples.total_variation)
    intruding, typicality, distance = (values.reshape(len(first), -1) for values in measured)  # a row for each pair
    counts, n_mixed, share = np.bincount(index), intruding.shape[1], intruding.mean(1)
    sizes = [effective_size(n_mixed, counts[c], counts[d], same=c == d) for c, d in zip(first, second, strict=True)]
    low, high = zip(*map(wilson_interval, share, sizes), strict=True)
    table = {"first": first, "second": second, "weight": weight, "n_mixed": n_mixed, "intrusion": share}
    table |= {"low": low, "high": high, "typicality": np.median(typicality, 1)}
    table |= {"atypical": (typicality <= TYPICALITY_THRESHOLD).mean(1), "total_variation": distance.mean(1)}
    frame = pd.DataFrame(table).merge(permuted, on=["first", "second"], how="left")
    z = float(norm.isf(0.025 / len(first)))  # Bonferroni
    lowest = [wilson_interval(*pair, z)[0] for pair in zip(share, sizes, strict=True)]
    overall, chance = (float(np.average(frame[name].fillna(0.0), weights=weight)) for name in ("intrusion", "permuted"))
    expected = frame["permuted"].fillna(0.0) * (overall / chance if chance else 1.0)
    return frame.assign(clear=np.array(lowest) > expected + MIN_EXCESS)


def lambda_table(samples: MixedSamples, index: Rows) -> pd.DataFrame:
    """Return the mean distance of the two labels for each pair of classes and each fifth of lambda's range."""
    edges = np.linspace(0.0, 1.0, LAMBDA_BINS + 1)
    cell = np.minimum((samples.pairs.lam * LAMBDA_BINS).astype(np.intp), LAMBDA_BINS - 1)
    classes = {"first": index[samples.pairs.first], "second": index[samples.pairs.second]}
    cells = pd.DataFrame(classes | {"lam_low": edges[cell], "lam_high": edges[cell + 1]})
    grouped = pd.Series(samples.total_variation).groupby([cells[name] for name in cells])
    return grouped.agg(n_mixed="size", total_variation="mean").reset_index()


def effective_size(count: int, first: int, second: int, same: bool) -> float:
    """Return a lower bound of the effective sample size of `count` mixed samples of `first` and `second` rows.

    The share among all pairs of rows is a mean over arrangements of min(first, second) disjoint pairs (first / 2 within
    one class), so its variance is at most that of as many independent pairs (Hoeffding 1963, section 5). Drawing only
    `count` samples adds to the variance.
    """
    disjoint = first // 2 if same else min(first, second)
    return 1.0 / (1.0 / count + 1.0 / disjoint)


def _class_pairs(index: Rows) -> tuple[Rows, Rows, Values]:
    """Return the pairs of classes that mixup draws most often, (p,) each, and their weights of sum 1."""
    counts = np.bincount(index)
    first, second = np.triu_indices(len(counts))
    weight = np.where(first == second, counts[first] * (counts[first] - 1), 2 * counts[first] * counts[second])
    frequent = np.argsort(-weight, kind="stable")[: min(MAX_PAIRS, np.count_nonzero(weight))]
    frequent.sort()
    return first[frequent], second[frequent], weight[frequent] / weight[frequent].sum()


def _draw_pairs(index: Rows, count: int, alpha: float, rng: np.random.Generator) -> MixedPairs:
    """Draw the same number of pairs of rows of each pair of classes.

    The rows of a class are used equally often, and the weights are stratified quantiles of their distribution.
    """
    first_classes, second_classes, _ = _class_pairs(index)
    size = max(MIN_PER_PAIR, count // len(first_classes))
    rows_of_class = [np.flatnonzero(index == c) for c in range(int(index.max()) + 1)]
    drawn = []
    for c, d in zip(first_classes, second_classes, strict=True):
        rows = rows_of_class[c]
        first = _cycle_shuffled(rows, size, rng)
        if c == d:  # any other row of the class
            second = rows[(np.searchsorted(rows, first) + rng.integers(1, len(rows), size)) % len(rows)]
        else:
            second = _cycle_shuffled(rows_of_class[d], size, rng)
        drawn.append((first, second, beta.ppf((rng.permutation(size) + rng.random(size)) / size, alpha, alpha)))
    return MixedPairs(*map(np.concatenate, zip(*drawn, strict=True)))


def _cycle_shuffled(rows: Rows, size: int, rng: np.random.Generator) -> Rows:
    """Return `size` of the rows in random order; the numbers of times that rows appear differ by at most one."""
    n_cycles = -(-size // len(rows))  # rounded up
    return np.concatenate([rng.permutation(rows) for _ in range(n_cycles)])[:size]
