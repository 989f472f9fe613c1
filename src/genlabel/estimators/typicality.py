"""Typicality: conformal p-values of rows under class densities, and the column that makes a row atypical."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from genlabel._arrays import Standardization, as_numpy, as_rng, as_tensor
from genlabel._validation import check_choice, check_count, check_weights, read_classes, suppress_own_warnings
from genlabel.data.folds import Fold, round_robin_folds
from genlabel.densities.base import ClassDensity, check_points
from genlabel.densities.gaussian import DiscriminantDensity
from genlabel.densities.kernel import KernelDensity
from genlabel.densities.samples import effective_size
from genlabel.densities.stacking import stacking_weights
from genlabel.densities.transformed import (
    PowerTransform,
    PowerTransformedDensity,
    log_prob_of_members,
    share_transform,
)

AUTO_DENSITIES: dict[str, ClassDensity] = {
    "discriminant": DiscriminantDensity(0.3),
    "warped discriminant": PowerTransformedDensity(DiscriminantDensity(0.3)),
    "kernel": KernelDensity(0.15, covariance="shared"),
    "warped kernel": PowerTransformedDensity(KernelDensity(0.4, covariance="shrunk")),
}
"""Candidates of `density="auto"`. Those of the stacked density find no more unusual rows in `benchmarks/typicality.py`
and take much longer."""
TYPICALITY_THRESHOLD = 0.05
"""Typicality at or below which a row is unusual; about this share of rows like those of training is."""
MAX_CV_ROWS = 2000
"""Tables of up to this size are cross-validated; larger ones have one training part and one held-out part."""
MAX_PART_ROWS = 5000
"""Largest size of the training part and of the held-out part of a large table."""
SCORE_TOLERANCE = 1e-8
"""Relative difference below which two scores are equal: equal rows in different batches differ by rounding."""
RANGE_PENALTY = 20.0
"""Nats that a row loses for each doubling of a column's range."""
COMMON_QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Quantiles whose values stand for the common values of a column of numbers."""
MAX_COMMON_CATEGORIES = 5
"""Number of categories that stand for the common values of a column of text."""
MIN_RELATIVE_LOG_DENSITY = -50.0
"""Lowest log-density of a density, relative to the best density at the same row, when densities are weighted."""
MIN_LOG_DENSITY = -1e6
"""Log-densities are clipped here."""
MAX_NEW_VALUES = 0.02
"""Largest share of rows with a value of their own in the discrete columns together."""
MAX_FEATURES = 100
"""Number of features above which densities are fitted to random projections."""
MAX_PROJECTIONS = 50
MIN_ROWS_PER_PROJECTION = 3
"""Bounds on the number of random projections."""


class RandomProjection(NamedTuple):
    """Random projections of points, with their length and their largest absolute feature.

    The directions are not learned: learned ones would show training points as more (or less) typical than new points.
    """

    basis: Tensor
    """(d, q)"""
    scaler: Standardization

    @classmethod
    def fit(cls, x: Tensor) -> RandomProjection:
        """Draw directions for standardized points (n, d), the same in every fold, and learn the scales along them."""
        count = min(MAX_PROJECTIONS, max(1, len(x) // MIN_ROWS_PER_PROJECTION))
        basis = np.random.default_rng(0).normal(size=(x.shape[1], count)) / x.shape[1] ** 0.5
        unscaled = cls(torch.from_numpy(basis), Standardization.identity(x.new_zeros(1, count + 2)))
        return unscaled._replace(scaler=Standardization.fit(unscaled(x), keep_constant=True))

    def __call__(self, x: Tensor) -> Tensor:
        """Return the standardized features (m, q + 2) of standardized points (m, d)."""
        lengths = torch.stack([x.square().mean(1).sqrt(), x.abs().amax(1)], 1).clamp(1e-4, 1e100).log()
        return self.scaler(torch.cat([x @ self.basis, lengths], 1))


class TypicalityModel(NamedTuple):
    """Densities fitted to the same rows, with the ranges and the discrete columns of these rows."""

    scaler: Standardization
    minimum: Tensor
    """(d,)"""
    maximum: Tensor
    """(d,)"""
    discrete: Sequence[tuple[int, Tensor]]
    """Discrete columns with their sorted values."""
    projection: RandomProjection | None
    """None if the densities are fitted to the features themselves."""
    members: Sequence[ClassDensity]
    transform: PowerTransform | None
    """Power transform that is shared by some of the members."""

    @classmethod
    def fit(cls, candidates: Sequence[ClassDensity], X: Tensor, y: NDArray[np.intp], weight: Tensor) -> TypicalityModel:
        """Fit every candidate to points (n, d) with classes (n,) and weights (n,)."""
        scaler = Standardization.fit(X, weight, keep_constant=True)
        x = scaler(X)
        projection = RandomProjection.fit(x) if x.shape[1] > MAX_FEATURES else None
        x = x if projection is None else projection(x)
        with suppress_own_warnings():  # a candidate that does not suit a small class gets little weight
            members = [clone(candidate) for candidate in candidates]
            transform = share_transform(members, x, weight)
            fitted = [member.fit(x, y, weight) for member in members]
        discrete = [(column, torch.unique(X[:, column])) for column in _discrete_columns(X)]
        return cls(scaler, X.amin(0), X.amax(0), discrete, projection, fitted, transform)

    def evidence(self, X: Tensor) -> Tensor:
        """Return log sum_c pi_c p_c(x) of points (m, d) under each member, (M, m)."""
        x = self.scaler(X)
        x = x if self.projection is None else self.projection(x)
        with torch.no_grad():
            log_prob = log_prob_of_members(self.members, x, self.transform)
        log_prior = [torch.from_numpy(member.class_prior_).log() for member in self.members]
        logs = [(values + prior).logsumexp(1) for values, prior in zip(log_prob, log_prior, strict=True)]
        return torch.stack(logs).nan_to_num(nan=MIN_LOG_DENSITY).clamp_min(MIN_LOG_DENSITY)

    def range_excess(self, X: Tensor) -> Tensor:
        """Return log2(1 + distance beyond the range / range) of points (m, d), the largest over columns, (m,)."""
        width = torch.where(self.maximum > self.minimum, self.maximum - self.minimum, torch.ones_like(self.minimum))
        outside = torch.maximum((self.minimum - X) / width, (X - self.maximum) / width).amax(1)
        return outside.clamp(0.0, 1e300).log1p() / math.log(2.0)

    def count_new_values(self, X: Tensor) -> Tensor:
        """Return the number of discrete columns in which a point (m, d) has an unseen value, (m,)."""
        count = X.new_zeros(len(X))
        for column, values in self.discrete:
            queries = X[:, column].contiguous()
            nearest = torch.searchsorted(values, queries).clamp_max(len(values) - 1)
            count += values[nearest] != queries
        return count


def _discrete_columns(X: Tensor) -> list[int]:
    """Return the columns in which almost every value repeats; rows with a value of their own are few in all of them."""
    count = np.array([int((torch.unique(column, return_counts=True)[1] == 1).sum()) for column in X.T])
    order = np.argsort(count, kind="stable")
    discrete: list[int] = np.sort(order[np.cumsum(count[order]) <= MAX_NEW_VALUES * len(X)]).tolist()
    return discrete


class ConformalScores(NamedTuple):
    """A model, and the scores of the rows that it was not fitted to."""

    model: TypicalityModel
    scores: NDArray[np.float64]
    """Sorted, (r,)"""
    mass: NDArray[np.float64]
    """Cumulative weight of the first 0, 1, ..., r of these rows, (r + 1,)"""


@final
class Typicality(BaseEstimator):
    r"""Typicality of a row with respect to the training rows, as a conformal p-value in (0, 1].

    .. math:: \operatorname{typicality}(x) = \frac{1 + \#\{i : s_{-i}(x_i) \le s_{-i}(x)\}}{1 + n}, \qquad
              s(x) = \log \sum_m w_m \sum_c \pi_c\, p_{mc}(x)

    with s_{-i} from densities that were fitted without the fold of row i (cross-conformal prediction, Vovk 2015). A
    share of about a of exchangeable new rows has a typicality of at most a, whatever the densities; better densities
    give smaller values to other rows. The weights w maximize the likelihood of the held-out rows.

    A value beyond the range of its column costs 20 nats for each doubling of that range. A column is discrete if almost
    every value of it repeats; an unseen value in such a column is less typical than any density can express. Above 100
    features the densities are fitted to 50 random projections, the length of a row and its largest absolute feature. Up
    to 2,000 rows are cross-validated; larger tables have one training and one held-out part of at most 5,000 rows.

    Parameters
    ----------
    density : "auto" or ClassDensity
        "auto" is a weighted set of two discriminant analyses and two kernel densities. A density of your own must be
        normalized; it is fitted to standardized features once for each fold.
    cv : int
        Number of folds.
    random_state : int, Generator or None
        Seed of the folds.

    Attributes
    ----------
    report_ : dict
        "weights" of the densities by name, number of "folds", number of held-out "rows", "log_density" (median of their
        scores, in nats) and "least" (the smallest possible typicality).
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> typicality = Typicality().fit(X, y)
    >>> (typicality([[5.1, 3.5, 1.4, 0.2], [5.1, 3.5, 1.4, 2.5]]) > 0.05).tolist()
    [True, False]
    >>> typicality.columns([[5.1, 3.5, 1.4, 2.5]]).argmax(1)  # the column to check first
    array([3])
    """

    def __init__(self, density: Any = "auto", *, cv: int = 5, random_state: Any = 0) -> None:
        self.density = density
        self.cv = cv
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the densities of each fold to rows `X` (n, d) with labels `y` (n,), and score its held-out rows.

        `sample_weight` (n,) are weights in the p-value; its n is the effective number of rows, (sum w)^2 / sum w^2.
        """
        candidates = self._candidates()
        cv = check_count("cv", self.cv, low=2)
        points, index, weight = _read_sample(X, y, sample_weight)
        folds = _make_folds(index, cv, as_rng(self.random_state))
        densities = list(candidates.values())
        models = [TypicalityModel.fit(densities, points[f.train], index[f.train], weight[f.train]) for f in folds]
        valid_points, valid_weight = [points[f.valid] for f in folds], [weight[f.valid] for f in folds]
        all_weight = torch.cat(valid_weight)
        evidence = torch.cat([model.evidence(x) for model, x in zip(models, valid_points, strict=True)], 1)
        relative = (evidence - evidence.amax(0)).clamp_min(MIN_RELATIVE_LOG_DENSITY)
        weights = stacking_weights(relative, all_weight)
        selected = weights.nonzero()[:, 0].tolist()
        self.n_features_in_ = int(points.shape[1])
        values = torch.cat(valid_points).numpy()
        self.common_values_ = np.quantile(values, COMMON_QUANTILES, axis=0, method="nearest")
        self.log_weight_ = weights[selected].log()
        self.size_ = float(effective_size(all_weight))
        self.folds_ = []
        for model, x, row_weight in zip(models, valid_points, valid_weight, strict=True):
            model = model._replace(members=[model.members[m] for m in selected])
            scores = self._score(model, x)
            order = np.argsort(scores, kind="stable")
            mass = np.concatenate([[0.0], np.cumsum(row_weight.numpy()[order])])
            self.folds_.append(ConformalScores(model, scores[order], mass))
        names, scores = list(candidates), np.concatenate([fold.scores for fold in self.folds_])
        self.report_ = {
            "weights": {names[m]: float(weights[m]) for m in selected},
            "folds": len(self.folds_),
            "rows": len(scores),
            "log_density": float(np.median(scores)),
            "least": 1.0 / (1.0 + self.size_),
        }
        return self

    def _candidates(self) -> dict[str, ClassDensity]:
        """Return the densities that `density` stands for, by name."""
        if isinstance(self.density, str):
            check_choice("density", self.density, ["auto"], also="a ClassDensity such as GaussianDensity()")
            return AUTO_DENSITIES
        if isinstance(self.density, ClassDensity) and self.density.normalized:
            return {type(self.density).__name__: self.density}
        raise ValueError(
            f"density={self.density!r} is not a normalized density; use 'auto' or, for example, GaussianDensity()"
        )

    def __call__(self, X: Any) -> NDArray[np.float64]:
        """Return the typicality of the rows of `X` (m, d), (m,), in (0, 1]; few training rows have 0.05 or less."""
        points = self._check_query(X)
        below = np.zeros(len(points))
        for fold in self.folds_:
            scores = self._score(fold.model, points)
            upper = scores + SCORE_TOLERANCE * (1.0 + np.abs(scores))
            below += fold.mass[np.searchsorted(fold.scores, upper, side="right")]
        share = np.minimum(below / sum(fold.mass[-1] for fold in self.folds_), 1.0)
        return np.asarray((1.0 + self.size_ * share) / (1.0 + self.size_))

    def columns(self, X: Any, features: Sequence[Sequence[int]] | None = None) -> NDArray[np.float64]:
        """Return the gain in log-density of each row of `X` (m, d) from replacing the value of each column, (m, d).

        The best of five common values of the column counts. The column with the largest gain is the one to check first;
        if two columns contradict each other, both have a gain. `features` are the features of each column of a table,
        several for the indicators of its categories: the gains are then (m, number of columns). A classifier passes
        them: its `atypical_columns` takes the rows and the names of the table.
        """
        points, model = self._check_query(X), self.folds_[0].model
        features = [[column] for column in range(self.n_features_in_)] if features is None else features
        scores, best = self._score(model, points), np.full((len(points), len(features)), -np.inf)
        share = torch.as_tensor(model.scaler.mean).flatten()
        for column, members in enumerate(map(list, features)):
            common = torch.from_numpy(self.common_values_[:, members])
            if len(members) > 1:
                common = torch.eye(len(members), dtype=points.dtype)[share[members].argsort(descending=True)]
            for values in common[:MAX_COMMON_CATEGORIES]:
                replaced = points.clone()
                replaced[:, members] = values
                best[:, column] = np.maximum(best[:, column], self._score(model, replaced))
        return best - scores[:, None]

    def _score(self, model: TypicalityModel, points: Tensor) -> NDArray[np.float64]:
        """Return scores of points (m, d), (m,): log-densities, penalized for new values and for extreme values."""
        log_density = (model.evidence(points) + self.log_weight_[:, None]).logsumexp(0).clamp_min(MIN_LOG_DENSITY)
        penalized = log_density - RANGE_PENALTY * model.range_excess(points)
        return (penalized + 2.0 * MIN_LOG_DENSITY * model.count_new_values(points)).numpy()

    def _check_query(self, X: Any) -> Tensor:
        check_is_fitted(self, "folds_")
        points, d = as_tensor(X).detach().cpu().double().contiguous(), self.n_features_in_
        if points.ndim != 2 or points.shape[1] != d:
            raise ValueError(
                f"X has shape {tuple(points.shape)}, but Typicality was fitted with {d} features; "
                f"pass an array of shape (m, {d})"
            )
        if not points.isfinite().all():
            raise ValueError("X contains NaN or infinity; impute or drop those rows")
        return points


def _read_sample(X: Any, y: Any, sample_weight: Any) -> tuple[Tensor, NDArray[np.intp], Tensor]:
    """Return points (n, d), class indices (n,) and weights (n,), without rows of weight zero."""
    points, labels = as_tensor(X).detach().cpu().double().contiguous(), as_numpy(y)
    if points.ndim != 2 or labels.shape != points.shape[:1]:
        raise ValueError(f"X {tuple(points.shape)} and y {labels.shape} must have shapes (n, d) and (n,)")
    check_points(points)
    weight = np.ones(len(points)) if sample_weight is None else check_weights(sample_weight, len(points))
    rows = np.flatnonzero(weight)
    if len(rows) < 2:
        raise ValueError(f"X has {len(rows)} rows of positive weight; typicality needs at least 2")
    return points[rows], read_classes(labels[rows])[1], torch.from_numpy(weight[rows])


def _make_folds(index: NDArray[np.intp], cv: int, rng: np.random.Generator) -> list[Fold]:
    """Return the folds of a table; a large one has a single fold, of a training part and a held-out part."""
    n, large = len(index), len(index) > MAX_CV_ROWS
    number = round_robin_folds(index, max(2, math.ceil(n / MAX_PART_ROWS)) if large else min(cv, n), rng)
    if large:
        return [Fold(np.flatnonzero(number == 0), np.flatnonzero(number == 1))]
    return [Fold(np.flatnonzero(number != f), np.flatnonzero(number == f)) for f in np.unique(number)]
