"""Support: how typical a row is of the training rows, as the share of held-out ones that are less typical."""

from __future__ import annotations

from typing import Any, NamedTuple, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from genlabel._arrays import as_numpy, as_rng, as_tensor
from genlabel._splits import Fold, round_robin_folds
from genlabel._validation import check_choice, check_count, check_weights, read_classes
from genlabel.densities.base import ClassDensity, check_points
from genlabel.densities.covariance import effective_size
from genlabel.densities.stacking import stacking_weights
from genlabel.densities.typicality_models import FARTHEST, TypicalityModel, default_judges, fit_judge

FEW = 2000
"""Up to so many rows all are held out, in folds; of more, some are held out once."""
MOST = 5000
"""Rows that judges are fitted to, and rows that are held out, where there are many."""
EQUAL = 1e-8
"""Scores that differ by this share are the same: of equal rows in different batches the last digits differ."""
EXCESS = 20.0
"""Nats that a row loses for a value that is a whole range beyond those of its column."""
COMMON = (0.1, 0.3, 0.5, 0.7, 0.9)
"""The quantiles that are common values of a column."""
WORST = -50.0
"""How far a density is behind the best at a row, at most, when densities are weighed."""


class ConformalScores(NamedTuple):
    """A judge, and the scores of the rows it has not seen."""

    judge: TypicalityModel
    scores: NDArray[np.float64]
    """Sorted, (r,)"""
    mass: NDArray[np.float64]
    """Weight of the first 0, 1, ..., r of them, (r + 1,)"""


@final
class Typicality(BaseEstimator):
    r"""How typical a row is, as a conformal p-value in (0, 1].

    .. math:: \operatorname{support}(x) = \frac{1 + \#\{i : s_{-i}(x_i) \le s_{-i}(x)\}}{1 + n}, \qquad
              s(x) = \log \sum_m w_m \sum_c \pi_c\, p_{mc}(x)

    with s_{-i} from densities that were fitted without the fold of row i (cross-conformal prediction, Vovk 2015). Of
    rows like those of the training set a share of about a has a support of at most a, whatever the densities; the
    better they are, the smaller is the support of other rows. The weights w are those under which the held-out rows are
    most likely.

    A value beyond those of its column costs 20 nats for each doubling of the range that it asks for, lest long tails
    hide it. A column is closed if next to no value occurs once in it (levels, counts, constants); a value that such a
    column has never had counts as less typical than anything a density can say. With more than 100 features the
    densities are of what is seen along 50 random directions, of the length of a row and of its largest deviation. All
    of up to 2,000 rows are held out, in folds; of more, at most 5,000, once, and the densities are fitted to as many
    others.

    Parameters
    ----------
    density : "auto" or ClassDensity
        The judge: a stack of a few Gaussians and kernels, or one density, fitted to standardised features once for each
        fold. It must be a density of x (`normalised`).
    folds : int
    random_state : int, Generator or None
        For the folds.

    Attributes
    ----------
    report_ : dict
        "judges" (weights by name), "folds", "rows" (held out), "log_density" (median of their scores, in nats), "least"
        (the smallest support there is).
    n_features_in_ : int

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> support = Typicality().fit(X, y)
    >>> (support([[5.1, 3.5, 1.4, 0.2], [5.1, 3.5, 1.4, 2.5]]) > 0.05).tolist()
    [True, False]
    >>> support.columns([[5.1, 3.5, 1.4, 2.5]]).argmax(1)  # the column to look at first
    array([3])
    """

    def __init__(self, density: Any = "auto", *, folds: int = 5, random_state: Any = 0) -> None:
        self.density = density
        self.folds = folds
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the densities of the folds, and score what each has not seen.

        Parameters
        ----------
        X : array (n, d)
        y : array (n,)
            Class labels.
        sample_weight : array (n,), optional
            Held-out rows count in proportion; n is their effective number, (sum w)^2 / sum w^2.
        """
        candidates = self._candidates()
        points, index, weight = _read(X, y, sample_weight)
        folds = _cut(index, check_count("folds", self.folds, low=2), as_rng(self.random_state))
        densities = list(candidates.values())
        judges, asked, counts = [], [], []
        for train, valid in folds:
            taken = torch.from_numpy(points[train]), index[train], torch.from_numpy(weight[train])
            judges.append(fit_judge(densities, *taken))
            asked.append(torch.from_numpy(points[valid]))
            counts.append(torch.from_numpy(weight[valid]))
        shares = _shares([judge.evidence(part) for judge, part in zip(judges, asked, strict=True)], counts)
        self._keep(list(candidates), shares, judges, asked, counts)
        return self

    def __call__(self, X: Any) -> NDArray[np.float64]:
        """The support of the rows of `X` (m, d), (m,), each in (0, 1]; 0.05 or less is rare among training rows."""
        points = self._points(X)
        below = np.zeros(len(points))
        for held in self.held_:
            scores = self._scores(held.judge, points)
            below += held.mass[np.searchsorted(held.scores, scores + EQUAL * (1.0 + np.abs(scores)), side="right")]
        share = np.minimum(below / sum(held.mass[-1] for held in self.held_), 1.0)
        return np.asarray((1.0 + self.size_ * share) / (1.0 + self.size_))

    def columns(self, X: Any) -> NDArray[np.float64]:
        """How much more typical each row of `X` (m, d) would be with another value in a column, (m, d), in nats.

        The best of five common values counts. The largest gain of a row names the column to look at first; where two
        columns do not suit each other, both gain.
        """
        points, judge = self._points(X), self.held_[0].judge
        scores, best = self._scores(judge, points), np.full(points.shape, -np.inf)
        for column, values in enumerate(self.common_.T):
            for value in values.tolist():
                mended = points.clone()
                mended[:, column] = value
                best[:, column] = np.maximum(best[:, column], self._scores(judge, mended))
        return best - scores[:, None]

    def _candidates(self) -> dict[str, ClassDensity]:
        if isinstance(self.density, str):
            check_choice("density", self.density, ["auto"], also="a ClassDensity such as GaussianDensity()")
            return default_judges()
        if not isinstance(self.density, ClassDensity) or not self.density.normalised:
            raise ValueError(
                f"density={self.density!r} gives no density of x to judge by; use 'auto' or, say, GaussianDensity()"
            )
        return {type(self.density).__name__: self.density}

    def _keep(
        self, names: list[str], shares: Tensor, judges: list[TypicalityModel], asked: list[Tensor], counts: list[Tensor]
    ) -> None:
        """Set what a fit leaves: the judges of some weight, and what they say of the rows they have not seen."""
        kept = shares.nonzero()[:, 0].tolist()
        self.n_features_in_ = int(asked[0].shape[1])
        self.common_ = np.quantile(torch.cat(asked).numpy(), COMMON, axis=0, method="nearest")
        self.log_share_ = shares[kept].log()
        self.size_ = effective_size(torch.cat(counts))
        self.held_ = []
        for judge, part, count in zip(judges, asked, counts, strict=True):
            scores = self._scores(judge.keeping(kept), part)
            order = np.argsort(scores, kind="stable")
            mass = np.concatenate([[0.0], np.cumsum(count.numpy()[order])])
            self.held_.append(ConformalScores(judge.keeping(kept), scores[order], mass))
        every = np.concatenate([held.scores for held in self.held_])
        self.report_ = {
            "judges": {names[place]: float(shares[place]) for place in kept},
            "folds": len(self.held_),
            "rows": len(every),
            "log_density": float(np.median(every)),
            "least": 1.0 / (1.0 + self.size_),
        }

    def _scores(self, judge: TypicalityModel, points: Tensor) -> NDArray[np.float64]:
        """How typical points (m, d) are to a judge, (m,): first by what is new in closed columns, then by density."""
        log_density = (judge.evidence(points) + self.log_share_[:, None]).logsumexp(0).clamp_min(FARTHEST)
        beyond = log_density - EXCESS * judge.excess(points)
        return (beyond + 2.0 * FARTHEST * judge.novelties(points)).numpy()

    def _points(self, X: Any) -> Tensor:
        check_is_fitted(self, "held_")
        points = as_tensor(X).detach().cpu().double().numpy()
        if points.ndim != 2 or points.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has shape {points.shape}, but Support was fitted with {self.n_features_in_} features; "
                f"pass an array of shape (m, {self.n_features_in_})"
            )
        if not np.isfinite(points).all():
            raise ValueError("X contains NaN or infinity; impute or drop those rows before asking for their support")
        return torch.from_numpy(points)


def _read(X: Any, y: Any, sample_weight: Any) -> tuple[NDArray[np.float64], NDArray[np.intp], NDArray[np.float64]]:
    """Points (n, d), class numbers (n,) and positive weights (n,)."""
    points, labels = as_tensor(X).detach().cpu().double().numpy(), as_numpy(y)
    if points.ndim != 2 or labels.shape != points.shape[:1]:
        raise ValueError(f"X {points.shape} and y {labels.shape} must have shapes (n, d) and (n,)")
    check_points(torch.from_numpy(points))
    weight = np.ones(len(points)) if sample_weight is None else check_weights(sample_weight, len(points))
    if not (weight > 0).all():
        points, labels, weight = points[weight > 0], labels[weight > 0], weight[weight > 0]
    if len(points) < 2:
        raise ValueError(f"X has {len(points)} rows of positive weight; support needs two at least")
    return points, read_classes(labels)[1], weight


def _cut(y: NDArray[np.intp], count: int, rng: np.random.Generator) -> list[Fold]:
    """Folds of few rows; of many, one: a stratified part of all rows to be fitted to, and one to be held out."""
    if len(y) <= FEW:
        number = round_robin_folds(y, min(count, len(y)), rng)
        return [Fold(np.flatnonzero(number != f), np.flatnonzero(number == f)) for f in np.unique(number)]
    number = round_robin_folds(y, max(2, -(-len(y) // MOST)), rng)
    return [Fold(np.flatnonzero(number == 0), np.flatnonzero(number == 1))]


def _shares(evidence: list[Tensor], counts: list[Tensor]) -> Tensor:
    """The weights (M,) of the candidates under which the held-out rows of all folds are most likely."""
    found = torch.cat(evidence, 1)
    return stacking_weights((found - found.amax(0)).clamp_min(WORST), torch.cat(counts))
