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
from genlabel.densities.covariance import effective_size
from genlabel.densities.gaussian import DiscriminantDensity
from genlabel.densities.kernel import KernelDensity
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
MAX_CV_ROWS = 2000
"""Tables of up to this size are cross-validated; larger ones have one training part and one held-out part."""
MAX_PART_ROWS = 5000
"""Largest size of the training part and of the held-out part of a large table."""
SCORE_TOLERANCE = 1e-8
"""Relative difference below which two scores are equal: equal rows in different batches differ by rounding."""
RANGE_PENALTY = 20.0
"""Nats that a row loses for each doubling of a column's range."""
COMMON_QUANTILES = (0.1, 0.3, 0.5, 0.7, 0.9)
"""Quantiles whose values stand for the common values of a column."""
MIN_RELATIVE_LOG_DENSITY = -50.0
"""Bound on a density's deficit to the best density at a row, when densities are weighted."""
MIN_LOG_DENSITY = -1e6
MAX_NEW_VALUES = 0.02
"""Largest share of rows with a value of their own in the discrete columns together."""
MAX_FEATURES = 100
"""Number of features above which densities are fitted to random projections."""
MAX_PROJECTIONS, MIN_ROWS_PER_PROJECTION = 50, 3


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
        ordered = X.sort(0).values
        step = (ordered[1:] != ordered[:-1]).numpy()
        edge = np.ones((1, X.shape[1]), dtype=bool)
        unique = (np.concatenate([edge, step]) & np.concatenate([step, edge])).sum(0)
        # Columns in which almost every value repeats; rows with a value of their own are few in all of them together.
        order = np.argsort(unique, kind="stable")
        discrete = np.sort(order[np.cumsum(unique[order]) <= MAX_NEW_VALUES * len(X)])
        columns = [(int(column), torch.unique(X[:, column])) for column in discrete]
        return cls(scaler, X.amin(0), X.amax(0), columns, projection, fitted, transform)

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
        """Return log2(1 + distance beyond the range / range) of points (m, d), the largest over columns, (m,).

        A density with long tails, or of power-transformed features, hardly notices an extreme value.
        """
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

    A value beyond the range of its column costs 20 nats for each doubling of that range, so that densities with long
    tails do not hide it. A column is discrete if almost every value of it repeats (levels, counts, constants); a row
    with an unseen value in such a column is less typical than any density can express. Above 100 features the densities
    are fitted to 50 random projections, the length of a row and its largest absolute feature. Up to 2,000 rows are
    cross-validated; larger tables have one training part and one held-out part of at most 5,000 rows each.

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
        cv, rng = check_count("cv", self.cv, low=2), as_rng(self.random_state)
        if isinstance(self.density, str):
            check_choice("density", self.density, ["auto"], also="a ClassDensity such as GaussianDensity()")
            candidates = AUTO_DENSITIES
        elif isinstance(self.density, ClassDensity) and self.density.normalized:
            candidates = {type(self.density).__name__: self.density}
        else:
            raise ValueError(
                f"density={self.density!r} is not a normalized density; use 'auto' or, for example, GaussianDensity()"
            )
        points, index, weight = _read_sample(X, y, sample_weight)
        if len(index) <= MAX_CV_ROWS:
            number = round_robin_folds(index, min(cv, len(index)), rng)
            folds = [Fold(np.flatnonzero(number != f), np.flatnonzero(number == f)) for f in np.unique(number)]
        else:
            number = round_robin_folds(index, max(2, -(-len(index) // MAX_PART_ROWS)), rng)
            folds = [Fold(np.flatnonzero(number == 0), np.flatnonzero(number == 1))]
        models = [
            TypicalityModel.fit(list(candidates.values()), points[rows], index[rows], weight[rows]) for rows, _ in folds
        ]
        held_out, counts = ([values[fold.valid] for fold in folds] for values in (points, weight))
        evidence = torch.cat([model.evidence(part) for model, part in zip(models, held_out, strict=True)], 1)
        relative = (evidence - evidence.amax(0)).clamp_min(MIN_RELATIVE_LOG_DENSITY)
        weights = stacking_weights(relative, torch.cat(counts))
        selected = weights.nonzero()[:, 0].tolist()
        self.n_features_in_ = int(points.shape[1])
        self.common_values_ = np.quantile(torch.cat(held_out).numpy(), COMMON_QUANTILES, axis=0, method="nearest")
        self.log_weight_ = weights[selected].log()
        self.size_ = effective_size(torch.cat(counts))
        self.folds_ = []
        for fitted, part, count in zip(models, held_out, counts, strict=True):
            model = fitted._replace(members=[fitted.members[m] for m in selected])
            scores = self._score(model, part)
            order = np.argsort(scores, kind="stable")
            mass = np.concatenate([[0.0], np.cumsum(count.numpy()[order])])
            self.folds_.append(ConformalScores(model, scores[order], mass))
        held_out_scores, names = np.concatenate([fold.scores for fold in self.folds_]), list(candidates)
        self.report_ = {
            "weights": {names[m]: float(weights[m]) for m in selected},
            "folds": len(self.folds_),
            "rows": len(held_out_scores),
            "log_density": float(np.median(held_out_scores)),
            "least": 1.0 / (1.0 + self.size_),
        }
        return self

    def __call__(self, X: Any) -> NDArray[np.float64]:
        """Return the typicality of the rows of `X` (m, d), (m,), in (0, 1]; 0.05 or less is rare for training rows."""
        points = self._check_query(X)
        below = np.zeros(len(points))
        for fold in self.folds_:
            scores = self._score(fold.model, points)
            upper = scores + SCORE_TOLERANCE * (1.0 + np.abs(scores))
            below += fold.mass[np.searchsorted(fold.scores, upper, side="right")]
        share = np.minimum(below / sum(fold.mass[-1] for fold in self.folds_), 1.0)
        return np.asarray((1.0 + self.size_ * share) / (1.0 + self.size_))

    def columns(self, X: Any) -> NDArray[np.float64]:
        """Return the gain in log-density of each row of `X` (m, d) from replacing the value of each column, (m, d).

        The best of five common values of the column counts. The column with the largest gain is the one to check first;
        if two columns contradict each other, both have a gain.
        """
        points, model = self._check_query(X), self.folds_[0].model
        scores, best = self._score(model, points), np.full(points.shape, -np.inf)
        for column, values in enumerate(self.common_values_.T):
            for value in values.tolist():
                replaced = points.clone()
                replaced[:, column] = value
                best[:, column] = np.maximum(best[:, column], self._score(model, replaced))
        return best - scores[:, None]

    def _score(self, model: TypicalityModel, points: Tensor) -> NDArray[np.float64]:
        """Return scores of points (m, d), (m,): log-densities, penalized for new values and for extreme values."""
        log_density = (model.evidence(points) + self.log_weight_[:, None]).logsumexp(0).clamp_min(MIN_LOG_DENSITY)
        penalized = log_density - RANGE_PENALTY * model.range_excess(points)
        return (penalized + 2.0 * MIN_LOG_DENSITY * model.count_new_values(points)).numpy()

    def _check_query(self, X: Any) -> Tensor:
        check_is_fitted(self, "folds_")
        points = as_tensor(X).detach().cpu().double().numpy()
        if points.ndim != 2 or points.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has shape {points.shape}, but Typicality was fitted with {self.n_features_in_} features; "
                f"pass an array of shape (m, {self.n_features_in_})"
            )
        if not np.isfinite(points).all():
            raise ValueError("X contains NaN or infinity; impute or drop those rows")
        return torch.from_numpy(points)


def _read_sample(X: Any, y: Any, sample_weight: Any) -> tuple[Tensor, NDArray[np.intp], Tensor]:
    """Return points (n, d), class indices (n,) and positive weights (n,)."""
    points, labels = as_tensor(X).detach().cpu().double().contiguous(), as_numpy(y)
    if points.ndim != 2 or labels.shape != points.shape[:1]:
        raise ValueError(f"X {tuple(points.shape)} and y {labels.shape} must have shapes (n, d) and (n,)")
    check_points(points)
    weight = np.ones(len(points)) if sample_weight is None else check_weights(sample_weight, len(points))
    rows = np.flatnonzero(weight)
    if len(rows) < 2:
        raise ValueError(f"X has {len(rows)} rows of positive weight; typicality needs at least 2")
    return points[rows], read_classes(labels[rows])[1], torch.from_numpy(weight[rows])
