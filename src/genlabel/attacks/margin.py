"""Margins: distances to the decision boundary, exact for linear models and by search for all others."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor, nn

from genlabel._arrays import Seed, Values, as_numpy, as_rng, as_tensor, chunks
from genlabel._validation import check_choice, check_count, check_interval
from genlabel.attacks.base import check_class_indices, row_norm, steepest_direction
from genlabel.attacks.gradient import other_classes
from genlabel.attacks.models import (
    MIN_LOG_PROBA,
    NO_CLASS,
    SPACES,
    AttackedModel,
    AttackedNetwork,
    predict,
    wrap_classifier,
)
from genlabel.training.networks import MLP

RANDOM_POINTS = 500
"""Random points in the range of the given ones, and as many around single ones, to which a path may lead."""
DISTANCE_EXPONENTS = (-2.0, 2.0)
"""Smallest and largest power of ten of the distances of points around single ones, in ranges of a feature."""
PROJECTIONS, OVERSHOOT, MAX_REACH = 10, 1.02, 1e6
"""Projections on the boundary to each class: number, overshoot, and largest length in distances of points."""
PATHS = 3
"""Shortest paths of each point that are refined."""
TILTS = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01)
"""Weights of the boundary's normal in a new direction of a path; 1 is the normal itself."""
NOISE_SCALES = (10.0, 1.0, 0.3, 0.1, 0.03, 0.01)
"""Scales of the noise in a new direction of a path; at 10 the direction is almost random."""
PROBES = 30
"""Points around an end whose predictions estimate a gradient where the model has none."""
COARSE_TOLERANCE, MAX_BISECTIONS = 0.005, 60
"""Tolerance of the bisections before the last one, and the largest number of steps of a bisection."""
MAX_SEARCH_VALUES = 1 << 22
"""Largest number of values in the points of one query of the model."""
Floats = NDArray[np.float64]
Classes = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Margins:
    """Result of :func:`margins` for m points; prints as a table."""

    distances: Floats
    """Distance to a misclassified point, (m,): 0 if the point itself is misclassified, infinity if none is found."""
    witnesses: Floats
    """Misclassified points at these distances, (m, d); NaN where none is found."""
    correct: Mask
    """True if a point is classified correctly, (m,)."""
    labels: NDArray[Any]
    """True labels as they were given, (m,)."""
    exact: bool
    """True if the distances are exact and the witnesses lie just beyond; False if they are upper bounds, those of the
    witnesses."""

    @property
    def smallest(self) -> float:
        """Smallest distance over the correct points; NaN if there are none."""
        return float(self.distances[self.correct].min()) if self.correct.any() else np.nan

    @property
    def median(self) -> float:
        """Median over the correct points; NaN if there are none."""
        return float(np.median(self.distances[self.correct])) if self.correct.any() else np.nan

    @property
    def mean(self) -> float:
        """Mean over the correct points; NaN if there are none."""
        return float(self.distances[self.correct].mean()) if self.correct.any() else np.nan

    @property
    def by_class(self) -> dict[Any, float]:
        """Smallest distance over the correct points of each class, by label; NaN if there are none."""
        distances = {c: self.distances[self.correct & (self.labels == c)] for c in np.unique(self.labels).tolist()}
        return {c: float(values.min()) if len(values) else np.nan for c, values in distances.items()}

    def __str__(self) -> str:
        summary = {"smallest": self.smallest, "median": self.median, "mean": self.mean}
        lines = [f"correct   {self.correct.sum()} of {len(self.correct)}"]
        lines += [f"{name:<8}  {value:.3g}" for name, value in summary.items()]
        missing = 0 if self.exact else int(np.isinf(self.distances).sum())
        if missing:
            lines.append(f"no other class was found for {missing} of them; try more points or more steps")
        return "\n".join([*lines, "exact" if self.exact else "by search: upper bounds"])


def linear_margins(W: Values, X: Values, y: Values, b: Values | None = None) -> Floats:
    """Return the signed L2 margin of each point under the scores `X @ W.T + b`, exactly.

    It is the smallest ((w_y - w_c) x + b_y - b_c) / |w_y - w_c| over the classes c other than y (arXiv Example 3,
    proof, for two classes and no bias). A margin above 0 is the distance to the decision boundary. A margin below 0
    belongs to a misclassified point. With two classes it is minus the distance to the boundary; with more, minus the
    distance to the farthest of the half-spaces in which y beats one other class. A class c with the weights of y
    differs from it by the bias only: the margin to c is plus or minus infinity, or 0 for equal biases.

    Parameters
    ----------
    W : array (k, d)
        Weights, a row for each class, as in the paper's Example 2.
    X : array (m, d)
        Points.
    y : array (m,)
        True classes, as indices.
    b : array (k,) or None

    Examples
    --------
    >>> linear_margins([[3, 4], [0, 0]], [[1, 1], [-1, 0]], [0, 0], b=[0, 2])
    array([ 1., -1.])
    """
    weight, points = (np.asarray(as_numpy(values), dtype=np.float64) for values in (W, X))
    if weight.ndim != 2 or len(weight) < 2 or points.ndim != 2 or weight.shape[1] != points.shape[1]:
        hint = "the one row w of a binary scikit-learn model is np.vstack([0 * w, w])"
        raise ValueError(f"W has shape {weight.shape}, X {points.shape}; pass W (k, d) and X (m, d); {hint}")
    bias = np.zeros(len(weight)) if b is None else np.asarray(as_numpy(b), dtype=np.float64)
    if bias.shape != weight.shape[:1]:
        raise ValueError(f"b has shape {bias.shape}; expected ({len(weight)},), one bias a row of W")
    if not all(np.isfinite(values).all() for values in (weight, points, bias)):
        raise ValueError("W, X or b contains NaN or infinity; a margin needs finite numbers")
    index = check_class_indices(y, len(points), len(weight))
    return _class_margins(weight, bias, points, index).min(1, initial=np.inf)


def margins(
    model: Any,
    X: Values,
    y: Values,
    *,
    space: str = "input",
    method: str = "auto",
    steps: int = 20,
    tolerance: float = 1e-4,
    seed: Seed = 0,
) -> Margins:
    """Return the L2 distance from each point to the nearest point of another predicted class.

    Linear models have a closed form, :func:`linear_margins`. For any other model the distance is that of a witness: a
    point that the model really misclassifies. It is never below the true distance; a nearer witness may still exist.
    The search has three steps:

    - Paths from the point to another class: projections on the linearized boundary (Moosavi-Dezfooli et al., 2016), and
      the nearest given or random point, for each class. A bisection cuts each path at the boundary.
    - The shortest paths are turned, towards the normal of the boundary and a little at random, to where the model is
      more wrong at the same distance, and are cut again.
    - The last bisection ends where a point that is nearer by `tolerance`, on the same path, is correct.

    A misclassified point has the margin 0. The prediction is the class of the largest probability; where a model gives
    NaN, a point is misclassified, so that the edge of such a region is a boundary, too.

    Parameters
    ----------
    model : classifier, torch module or AttackedModel
        Any fitted classifier, as in :func:`robust_accuracy`, a network with scores (m, k), or one attacked model.
        Closed forms are known for networks without hidden layers and, in the space "input", for scikit-learn's
        classifiers with `coef_`. A model that only predicts has no gradient: the search estimates it, and gets closer
        with more `steps`.
    X : array or DataFrame (m, d)
    y : array (m,)
        True labels, as the model was trained with; for a network or an attacked model, class indices.
    space : "input" or "standardized"
        Coordinates of distances and witnesses: those of `X`, or those of :func:`robust_accuracy`. An attacked model has
        its own.
    method : "auto" or "search"
        Whether to use a closed form if there is one.
    steps : int
        Number of turns of each path.
    tolerance : float
        Tolerance of the bisection, as a fraction of the distance.
    seed : int or Generator

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    >>> X, y = load_iris(return_X_y=True)
    >>> print(margins(LinearDiscriminantAnalysis().fit(X, y), X, y))
    correct   147 of 150
    smallest  0.0465
    median    0.697
    mean      0.749
    exact
    """
    check_choice("space", space, SPACES)
    check_choice("method", method, ["auto", "search"])
    check_count("steps", steps, low=0)
    check_interval("tolerance", tolerance, 1e-12, 0.5, "1e-4 is a ten-thousandth of the distance")
    attacked: Any = AttackedNetwork(model) if isinstance(model, nn.Module) else model
    if isinstance(attacked, AttackedModel):
        if attacked.batch_shape:
            raise ValueError(f"model is a batch of {attacked.batch_shape[0]} models; pass one, as an AttackedNetwork")
        points = np.asarray(as_numpy(X), dtype=np.float64)
        if points.ndim != 2 or 0 in points.shape or not np.isfinite(points).all():
            raise ValueError(f"X has shape {points.shape}; margins need finite points (m, d), at least one")
        index = check_class_indices(y, len(points), attacked.log_proba(as_tensor(points[:1])).shape[-1])
    else:
        attacked, points, index = wrap_classifier(model, X, y, space)
    with np.errstate(divide="ignore"), torch.no_grad():  # a probability of 0 has a logarithm here
        correct = attacked.is_correct(as_tensor(points), index)
        linear = _linear_form(model, X, attacked, points, space) if method == "auto" else None
        exact = None if linear is None else _exact_margins(*linear, attacked, points, index, correct, tolerance)
        result = exact or closest_misclassified(attacked, points, index, correct, steps, tolerance, as_rng(seed))
    return Margins(*result, correct, as_numpy(y), exact is not None)


def _class_margins(W: Floats, b: Floats, X: Floats, y: Classes) -> Floats:
    """Return the signed distance (m, k) to the boundary with every other class; infinity for the point's own."""
    margins = np.full((len(X), len(W)), np.inf)
    for c in range(len(W)):
        normal = W[y] - W[c]
        difference = (normal * X).sum(1) + b[y] - b[c]
        norm = np.linalg.norm(normal, axis=1)
        margin = np.where(difference == 0, 0.0, np.copysign(np.inf, difference))  # where the weights are equal
        margin = np.divide(difference, norm, out=margin, where=norm > 0)
        margins[:, c] = np.where(y == c, np.inf, margin)
    return margins


def _exact_margins(
    W: Floats, b: Floats, model: AttackedModel, points: Floats, y: Classes, correct: Mask, tolerance: float
) -> tuple[Floats, Floats] | None:
    """Return exact distances, and witnesses just beyond; None if the model classifies a witness correctly."""
    margins = _class_margins(W, b, points, y)
    distances = np.where(correct, margins.min(1).clip(min=0.0), 0.0)
    witnesses = np.where(np.isfinite(distances)[:, None], points, np.nan)
    normal = as_numpy(steepest_direction(as_tensor(W[y] - W[margins.argmin(1)]), "l2"))
    size = np.linalg.norm(points, axis=1)
    unresolved = correct & np.isfinite(distances)
    for rounding in (0.0, 1e-12, 1e-9, 1e-6, 1e-4):  # ever further beyond the boundary, until the class changes
        if unresolved.any():
            step = (1 + tolerance) * distances + rounding * size
            witnesses[unresolved] = (points - step[:, None] * normal)[unresolved]
            unresolved[unresolved] = model.is_correct(as_tensor(witnesses[unresolved]), y[unresolved])
    return None if unresolved.any() else (distances, witnesses)


def _linear_form(
    model: Any, X: Values, attacked: AttackedModel, points: Floats, space: str
) -> tuple[Floats, Floats] | None:
    """Return weights (k, d) and biases (k,) of a linear model in the coordinates of the margins; None for any other."""
    if isinstance(attacked, AttackedNetwork):
        network = getattr(model, "network_", attacked.module)
        if not (isinstance(network, nn.Linear) or (isinstance(network, MLP) and network.depth == 0)):
            return None
        exact = AttackedNetwork(deepcopy(attacked.module).double())
        zero = torch.zeros(1, points.shape[1], dtype=torch.float64)
        bias = exact.scores(zero)[0]
        with torch.enable_grad():  # the gradient of score c at row c is the row c of the weights
            zeros = zero.repeat(len(bias), 1).requires_grad_()
            (weight,) = torch.autograd.grad(exact.scores(zeros).diagonal().sum(), zeros)
        return as_numpy(weight), as_numpy(bias)
    if space != "input" or not hasattr(model, "coef_") or not hasattr(model, "decision_function"):
        return None
    # A classifier of scikit-learn, provided that its scores are linear and that it predicts the largest (no SVC does).
    dense = model.coef_.toarray() if hasattr(model.coef_, "toarray") else model.coef_
    W, b = np.atleast_2d(np.asarray(dense, dtype=np.float64)), np.atleast_1d(model.intercept_)
    scores = np.asarray(model.decision_function(X))
    if scores.ndim == 1:  # two classes, of which the first has the score 0
        W, b = np.vstack([0 * W, W]), np.append(0, b)
        scores = np.stack([0 * scores, scores], 1)
    linear_scores = points @ W.T + b
    if scores.shape != linear_scores.shape or not np.allclose(linear_scores, scores):
        return None
    predicted = as_numpy(predict(attacked.log_proba(as_tensor(points))))
    return (W, np.broadcast_to(b, len(W))) if np.array_equal(linear_scores.argmax(1), predicted) else None


def closest_misclassified(
    model: AttackedModel, points: Floats, y: Classes, correct: Mask, steps: int, tolerance: float, rng: Generator
) -> tuple[Floats, Floats]:
    """Return the distance to the nearest misclassified point that the search finds, (m,), and that point, (m, d).

    A point that is not `correct` has the distance 0; one for which none is found has infinity, and NaN. In the helpers
    points x (m, d) are correct, and a path leads from x to its misclassified end (..., m, d); an end at x itself stands
    for no path.
    """
    X, is_correct = as_tensor(points), torch.from_numpy(correct)
    # Random points in three times the range of X, and points around rows of X, from near to far.
    low, high, size = X.amin(0), X.amax(0), X.abs().amax(0)
    side = torch.where(high > low, high - low, torch.where(size > 0, size, 1.0))
    in_range = (low + high) / 2 + 3 * side * torch.from_numpy(rng.random((RANDOM_POINTS, len(side))) - 0.5)
    distance = torch.from_numpy(10.0 ** rng.uniform(*DISTANCE_EXPONENTS, (RANDOM_POINTS, 1))) * side
    center = X[torch.from_numpy(rng.integers(len(X), size=RANDOM_POINTS))]
    destinations = torch.cat([X, in_range, center + distance * _unit_noise(RANDOM_POINTS, X[0], rng)])
    log_proba = model.log_proba(destinations)
    n_classes, d = log_proba.shape[1], X.shape[1]
    values = len(destinations) + d * (2 * n_classes + PATHS * (PROBES + len(TILTS + NOISE_SCALES)))
    ends, indices = X.clone(), is_correct.nonzero()[:, 0]
    for block in chunks(len(indices), MAX_SEARCH_VALUES // values) if len(indices) else []:
        rows = indices[block]
        x, true = X[rows], torch.from_numpy(y)[rows]
        paths = _first_paths(model, x, true, destinations, predict(log_proba))
        for _ in range(steps):
            paths = _bisect(model, x, true, _turn(model, x, true, paths, rng), COARSE_TOLERANCE)
        # The end of the shortest path, a little beyond the boundary: another rounding does not change its class.
        cut = _bisect(model, x, true, paths, tolerance)
        beyond = x + (1 + tolerance) * (cut - x)
        paths = torch.where(model.misclassifies(beyond, true)[..., None], beyond, cut)
        ends[rows] = torch.take_along_dim(paths, _path_length(paths, x).argmin(0)[None, :, None], 0)[0]
    distance = _path_length(ends, X).masked_fill(~is_correct, 0.0)
    return as_numpy(distance), as_numpy(ends.masked_fill(distance.isinf()[:, None], torch.nan))


def _first_paths(model: AttackedModel, x: Tensor, y: Tensor, destinations: Tensor, predicted: Tensor) -> Tensor:
    """Return the shortest of the paths to the nearest destination, and to a projection, of every other class."""
    distance, ends = torch.cdist(x, destinations), []
    reach = MAX_REACH * float(distance.max())
    for c in other_classes(model, x, y):
        is_rival = (predicted == c[:, None]) | (predicted == NO_CLASS)
        nearest, index = distance.masked_fill(~is_rival, torch.inf).min(-1)
        ends.append(torch.where(nearest.isfinite()[:, None], destinations[index], x))
        if model.has_gradient:
            # The nearest of several projections that is misclassified; each linearizes the model at the one before.
            point = end = x
            for _ in range(PROJECTIONS):
                gradient = model.log_odds_gradient(point, y, c)
                logs = model.log_proba(point).clamp(min=MIN_LOG_PROBA)
                log_odds = (logs.gather(-1, c[:, None]) - logs.gather(-1, y[:, None]))[:, 0]
                step = -(log_odds + (gradient * (x - point)).sum(-1)) / gradient.square().sum(-1)
                moved = x + OVERSHOOT * step[:, None] * gradient
                point = torch.where((row_norm(moved - x, "l2") < reach)[:, None], moved, point)
                nearer = model.misclassifies(point, y) & (_path_length(point, x) < _path_length(end, x))
                end = torch.where(nearer[:, None], point, end)
            ends.append(end)
    paths = _bisect(model, x, y, torch.stack(ends), COARSE_TOLERANCE)
    return torch.take_along_dim(paths, _path_length(paths, x).argsort(0)[:PATHS, :, None], 0)


def _turn(model: AttackedModel, x: Tensor, y: Tensor, ends: Tensor, rng: Generator) -> Tensor:
    """Turn each path to the end, at the same distance, at which the model is most wrong of those that are tried."""
    distance, direction = row_norm(ends - x, "l2")[..., None], steepest_direction(ends - x, "l2")
    if model.has_gradient:
        classes = predict(model.log_proba(ends))
        normal = model.log_odds_gradient(ends, y.expand(ends.shape[:-1]), classes.clamp(min=0))
        has_none = classes == NO_CLASS
        if bool(has_none.any()):
            normal = torch.where(has_none[..., None], _probe(model, ends, distance, y, rng), normal)
    else:
        normal = _probe(model, ends, distance, y, rng)
    normal = steepest_direction(normal, "l2")
    directions = [(1 - tilt) * direction + tilt * normal for tilt in TILTS]
    noises = _unit_noise(len(NOISE_SCALES), ends, rng)
    directions += [direction + scale * noise for scale, noise in zip(NOISE_SCALES, noises, strict=True)]
    candidates = torch.stack([*(x + distance * steepest_direction(each, "l2") for each in directions), ends])
    log_proba, true = model.log_proba(candidates), y.expand(candidates.shape[:-1])
    predicted = predict(log_proba)
    # The log-odds of the predicted class against y; 0 if no class is predicted, minus infinity if y is.
    log_odds = log_proba.amax(-1) - log_proba.gather(-1, true[..., None])[..., 0].clamp(min=MIN_LOG_PROBA)
    log_odds = log_odds.masked_fill(predicted == NO_CLASS, 0.0).masked_fill(predicted == true, -torch.inf)
    return torch.take_along_dim(candidates, log_odds.argmax(0)[None, ..., None], 0)[0]


def _probe(model: AttackedModel, ends: Tensor, distance: Tensor, y: Tensor, rng: Generator) -> Tensor:
    """Return the direction in which more points around each end are misclassified."""
    noise = _unit_noise(PROBES, ends, rng)
    missed = model.misclassifies(ends + COARSE_TOLERANCE * distance * noise, y)[..., None].to(noise)
    return ((missed - missed.mean(0)) * noise).mean(0)


def _unit_noise(count: int, ends: Tensor, rng: Generator) -> Tensor:
    """Draw normal vectors of length about 1, (count, *ends.shape)."""
    return torch.from_numpy(rng.normal(size=(count, *ends.shape)) / ends.shape[-1] ** 0.5)


def _bisect(model: AttackedModel, x: Tensor, y: Tensor, ends: Tensor, tolerance: float) -> Tensor:
    """Shorten each path by bisection until its end lies within the fraction `tolerance` of the boundary."""
    low, high = torch.zeros_like(ends[..., :1]), torch.ones_like(ends[..., :1])
    for _ in range(MAX_BISECTIONS):
        if bool((high - low <= tolerance * high).all()):
            break
        middle = (low + high) / 2
        missed = model.misclassifies(x + middle * (ends - x), y)[..., None]
        low, high = torch.where(missed, low, middle), torch.where(missed, middle, high)
    return x + high * (ends - x)


def _path_length(ends: Tensor, x: Tensor) -> Tensor:
    """Return the length of each path; infinity where there is none."""
    distance = row_norm(ends - x, "l2")
    return distance.masked_fill(distance == 0, torch.inf)
