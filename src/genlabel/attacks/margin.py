"""Margins: how far each point is from the decision boundary, exact for linear models and by search for all others."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import nn

from genlabel._arrays import Seed, Values, as_numpy, as_rng, as_tensor
from genlabel._validation import check_choice, check_count, check_interval
from genlabel.attacks.adapters import ModelView, check_indices, class_indices, view
from genlabel.attacks.base import direction
from genlabel.attacks.min_norm import closest_misclassified
from genlabel.attacks.models import AttackedModel, AttackedNetwork, chosen
from genlabel.attacks.robustness import SPACES
from genlabel.training.networks import MLP

METHODS = ("auto", "search")
Floats = NDArray[np.float64]
Classes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Margins:
    """What :func:`margins` found, for m points; prints as a table."""

    distances: Floats
    """To a point where the model is wrong, (m,): 0 if it is so at the given one, infinity if no such point is found."""
    witnesses: Floats
    """These points, (m, d): where a distance is 0 the point itself, where it is infinity NaN."""
    right: NDArray[np.bool_]
    """Points that the model takes for their own class, (m,)."""
    labels: NDArray[Any]
    """The true classes as they were given, (m,)."""
    exact: bool
    """True: the distances are exact, and the witnesses just beyond. False: they are the witnesses', upper bounds."""

    @property
    def smallest(self) -> float:
        """The smallest distance over the points that are right; NaN if none is."""
        return float(self.distances[self.right].min()) if self.right.any() else np.nan

    @property
    def median(self) -> float:
        """The median over the points that are right; NaN if none is."""
        return float(np.median(self.distances[self.right])) if self.right.any() else np.nan

    @property
    def mean(self) -> float:
        """The mean over the points that are right; NaN if none is."""
        return float(self.distances[self.right].mean()) if self.right.any() else np.nan

    @property
    def by_class(self) -> dict[Any, float]:
        """The smallest distance over the right points of each class, by label; NaN if none is."""
        found = {c: self.distances[self.right & (self.labels == c)] for c in np.unique(self.labels).tolist()}
        return {c: float(distances.min()) if len(distances) else np.nan for c, distances in found.items()}

    def __str__(self) -> str:
        summary = {"smallest": self.smallest, "median": self.median, "mean": self.mean}
        lines = [f"right     {self.right.sum()} of {len(self.right)}"]
        lines += [f"{name:<8}  {value:.3g}" for name, value in summary.items()]
        lost = 0 if self.exact else int(np.isinf(self.distances).sum())
        lines += [f"no other class was found near {lost} of them: try more points, or more steps"] if lost else []
        return "\n".join([*lines, "exact" if self.exact else "by search: upper bounds"])


def linear_margins(W: Values, X: Values, y: Values, b: Values | None = None) -> Floats:
    """Return the signed L2 margin of each point under the scores `X @ W.T + b`, exactly.

    It is the smallest ((w_y - w_c) x + b_y - b_c) / |w_y - w_c| over the classes c other than y (arXiv Example 3,
    proof, for two classes and no bias). Above 0 it is the distance to the decision boundary. Below 0 the point is
    wrong: with two classes it is minus the distance to the boundary; with more, minus the distance to the farthest
    half-space in which y beats one of them, which is at most the way to where y wins. A class with the weights of y
    beats it by its bias, everywhere or nowhere: the margin to it is minus infinity or infinity, and 0 at a tie.

    Parameters
    ----------
    W : array (k, d)
        A row for each class, as in the paper's Example 2.
    X : array (m, d)
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
        raise ValueError(
            f"W has shape {weight.shape} and X {points.shape}; give (k, d) and (m, d); the one row w of a "
            "binary scikit-learn model is np.vstack([0 * w, w])"
        )
    bias = np.zeros(len(weight)) if b is None else np.asarray(as_numpy(b), dtype=np.float64)
    if bias.shape != weight.shape[:1]:
        raise ValueError(f"b has shape {bias.shape}; expected ({len(weight)},), one bias a row of W")
    if not all(np.isfinite(values).all() for values in (weight, points, bias)):
        raise ValueError("W, X or b contains NaN or infinity; a margin needs finite numbers")
    index = check_indices(y, len(points), len(weight))
    return _gaps(weight, bias, points, index).min(1, initial=np.inf)


def margins(
    model: Any,
    X: Values,
    y: Values,
    *,
    space: str = "input",
    method: str = "auto",
    steps: int = 20,
    tolerance: float = 1e-4,
    rng: Seed = 0,
) -> Margins:
    """Return the L2 distance from each point to where the model takes it for another class.

    Linear models have a closed form, :func:`linear_margins`. For any other model the distance is that of a witness: a
    point that the model really takes for another class. So it is never below the true distance; that no nearer witness
    exists is not proven. The search has three parts:

    - Ways from the point to another class: projections on the linearised boundary (Moosavi-Dezfooli et al., 2016), and
      the nearest given or random point, for each class. A bisection cuts each way at the boundary.
    - The shortest ways turn, towards the normal of the boundary and a little at random, to where the model is more
      wrong at the same distance, and are cut again.
    - The last bisection ends where a point that is nearer by `tolerance`, on the same way, is right.

    A point that is wrong has the margin 0. The class of the largest probability counts as predicted; where a model
    gives NaN it is wrong, so that the edge of such a region is a boundary, too.

    Parameters
    ----------
    model : classifier, torch module or Target
        Any fitted classifier, as in :func:`robust_accuracy`, a network with scores (m, k), or one model as a target.
        Closed forms are known for networks without hidden layers and, in the space "input", for scikit-learn's
        classifiers with `coef_`. A model that only predicts has no gradient: the search guesses it, and gets closer
        with more `steps`.
    X : array or DataFrame (m, d)
    y : array (m,)
        True labels, as the model was trained with; for a network or target, class indices.
    space : "input" or "standardised"
        Coordinates of distances and witnesses: those of `X`, or those of :func:`robust_accuracy`. A target has its own.
    method : "auto" or "search"
        "search" uses no closed form.
    steps : int
        Turns of each way.
    tolerance : float
        Of the bisection, as a share of the distance.
    rng : generator or seed

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    >>> X, y = load_iris(return_X_y=True)
    >>> print(margins(LinearDiscriminantAnalysis().fit(X, y), X, y))
    right     147 of 150
    smallest  0.0465
    median    0.697
    mean      0.749
    exact
    """
    check_choice("space", space, SPACES)
    check_choice("method", method, METHODS)
    check_count("steps", steps, low=0)
    check_interval("tolerance", tolerance, 1e-12, 0.5, "1e-4 is a ten-thousandth of the distance")
    shown, index = _read(model, X, y, space)
    with np.errstate(divide="ignore"), torch.no_grad():  # a probability of 0 has a logarithm here
        right = shown.right(index)
        linear = _read_linear(model, X, shown, space) if method == "auto" else None
        exact = None if linear is None else _solve(*linear, shown, index, right, tolerance)
        distances, witnesses = exact or closest_misclassified(shown, index, right, steps, tolerance, as_rng(rng))
    return Margins(distances, witnesses, right, as_numpy(y), exact is not None)


def _gaps(W: Floats, b: Floats, X: Floats, y: Classes) -> Floats:
    """Signed distance (m, k) to the boundary between each point's class and every other; infinity for its own."""
    gaps = np.full((len(X), len(W)), np.inf)
    for c in range(len(W)):
        normal = W[y] - W[c]
        gap, norm = (normal * X).sum(1) + b[y] - b[c], np.linalg.norm(normal, axis=1)
        by_bias = np.where(gap == 0, 0.0, np.copysign(np.inf, gap))
        gaps[:, c] = np.where(y == c, np.inf, np.divide(gap, norm, out=by_bias, where=norm > 0))
    return gaps


def _solve(
    W: Floats, b: Floats, shown: ModelView, y: Classes, right: NDArray[np.bool_], tolerance: float
) -> tuple[Floats, Floats] | None:
    """Exact distances, and witnesses just beyond; None if the model says otherwise: then it is not this linear one."""
    gaps = _gaps(W, b, shown.points, y)
    distances = np.where(right, gaps.min(1).clip(min=0.0), 0.0)
    witnesses = np.where(np.isfinite(distances)[:, None], shown.points, np.nan)
    normal = as_numpy(direction(as_tensor(W[y] - W[gaps.argmin(1)]), "l2"))
    rounding = np.linalg.norm(shown.points, axis=1)
    todo = right & np.isfinite(distances)
    for share in (0.0, 1e-12, 1e-9, 1e-6, 1e-4):
        if todo.any():
            step = (1 + tolerance) * distances + share * rounding
            witnesses[todo] = (shown.points - step[:, None] * normal)[todo]
            todo[todo] = shown.right(y[todo], as_tensor(witnesses[todo]))
    return None if todo.any() else (distances, witnesses)


def _read(model: Any, X: Values, y: Values, space: str) -> tuple[ModelView, Classes]:
    """Points and target in the coordinates of the margins, and class indices (m,)."""
    model = AttackedNetwork(model) if isinstance(model, nn.Module) else model
    if not isinstance(model, AttackedModel):
        check_is_fitted(model)
        index = class_indices(model, y, len(model.predict(X)))
        return view(model, X, space), index
    if model.models:
        raise ValueError(f"the target is {model.models[0]} models; give one of them, as AttackedNetwork(network)")
    points = np.asarray(as_numpy(X), dtype=np.float64)
    if points.ndim != 2 or 0 in points.shape or not np.isfinite(points).all():
        raise ValueError(f"X has shape {points.shape}; margins need points (m, d), at least one, all finite")
    k = model.log_proba(as_tensor(points[:1])).shape[-1]
    return ModelView(points, model), check_indices(y, len(points), k)


def _read_linear(model: Any, X: Values, shown: ModelView, space: str) -> tuple[Floats, Floats] | None:
    """Weights (k, d) and biases (k,) of a linear model in the coordinates of the margins; None for any other."""
    if isinstance(shown.target, AttackedNetwork):
        network = getattr(model, "network_", shown.target.module)
        linear = isinstance(network, nn.Linear) or (isinstance(network, MLP) and network.depth == 0)
        return _read_module(shown.target.module, shown.points.shape[1]) if linear else None
    if space == "input" and hasattr(model, "coef_") and hasattr(model, "decision_function"):
        return _read_coefficients(model, X, shown)
    return None


def _read_module(module: nn.Module, d: int) -> tuple[Floats, Floats]:
    """Slopes and values of the scores at 0, in float64."""
    target, zero = AttackedNetwork(deepcopy(module).double()), torch.zeros(1, d, dtype=torch.float64)
    b = target.scores(zero)[0]
    with torch.enable_grad():
        zeros = zero.repeat(len(b), 1).requires_grad_()
        (W,) = torch.autograd.grad(target.scores(zeros).diagonal().sum(), zeros)
    return as_numpy(W), as_numpy(b)


def _read_coefficients(model: Any, X: Values, shown: ModelView) -> tuple[Floats, Floats] | None:
    """Those of a scikit-learn classifier, if its scores are these and the largest decides; not so in an SVC."""
    dense = model.coef_.toarray() if hasattr(model.coef_, "toarray") else model.coef_
    W, b = np.atleast_2d(np.asarray(dense, dtype=np.float64)), np.atleast_1d(model.intercept_)
    given = np.asarray(model.decision_function(X))
    if given.ndim == 1:  # two classes, of which the first has the score 0
        W, b, given = np.vstack([0 * W, W]), np.append(0, b), np.stack([0 * given, given], 1)
    scores = shown.points @ W.T + b
    said = as_numpy(chosen(shown.target.log_proba(as_tensor(shown.points))))
    same = scores.shape == given.shape and np.allclose(scores, given) and np.array_equal(scores.argmax(1), said)
    return (W, np.broadcast_to(b, len(W))) if same else None
