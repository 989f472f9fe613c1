"""GenMix: points between two classes at a given ratio of their densities (arXiv Alg. 4), of rows or of features."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from genlabel._arrays import Standardization, chunks
from genlabel._runtime import eval_mode
from genlabel._text import count_of
from genlabel._validation import check_count, check_positive, warn
from genlabel.densities import DensityWarning
from genlabel.densities.candidates import named_density
from genlabel.densities.transformed import encode_rows
from genlabel.mixing.finders import Finder, ProjectionFinder, QuadricFinder, SegmentFinder, third_is_likelier
from genlabel.mixing.sampler import Sampler, Synthetic, resolve_n_aug
from genlabel.registry import SAMPLERS

MAX_SEARCHES = 1 << 14
"""Searches that run at once."""
MAX_NAMED_PAIRS = 8
"""Pairs of classes that a warning names."""
LAM_MARGIN = 1e-9
"""Distance from 0 and 1 that lam="uniform" keeps: there is no surface at 0 and 1."""
BATCH_SIZE = 512
"""Points encoded or inverted at once."""
Floats = NDArray[np.float64]
Classes = NDArray[np.int64]


@final
@SAMPLERS.register("genmix")
class GenMix(Sampler):
    r"""Add points between every two classes whose likelihoods under learned densities have the ratio lambda.

    .. math:: \left| \frac{p_j(x)}{p_i(x) + p_j(x)} - \lambda \right| \le \epsilon

    (arXiv Alg. 4, Section F.1, Eq. (37)). A point is accepted if i and j are its two most likely classes. Its label is
    p_i / (p_i + p_j) for class i and p_j / (p_i + p_j) for class j. NOTE[PAPER]: arXiv Section 7.2 prints
    p_i / (p_i + p_j) = lambda, the other way round; the appendix counts.

    If the density is one Gaussian per class, the points are roots of quadratics on lines from a draw of class i to a
    draw of class j (GenMix+GM, arXiv Section F.2; exact up to rounding). If it is a distance to manifolds (GenMix+GAN,
    arXiv Section F.3), points move with frozen projections. For any other density they are searched between rows of
    the two classes, and along gradients.

    Parameters
    ----------
    density : str or ClassDensity
        A density or its registered name, such as "gaussian", "kernel" or "stacked". By name, "gaussian" is shrunk by
        Ledoit and Wolf's rule; the paper's GM is `GaussianDensity()`.
    n_aug : float or int
        Number of points: a fraction of the rows (float; 1.0 doubles the table), or a number (int). They are spread over
        all pairs as evenly as possible. Pairs without a point are named in a :class:`genlabel.DensityWarning`; their
        share goes to the other pairs.
    lam : float, (low, high) or "uniform"
        Wanted p_j / (p_i + p_j), above 0 and below 1; from a range, one is drawn per search. "uniform" is (0, 1).
    eps : float
        Largest accepted distance from lambda. A density evaluated in float32, or by an inexact inversion, may need a
        larger one.
    output : "hard", "soft" or "weighted"
        See :meth:`fit_resample`.
    standardize : bool
        If True, the density is fitted to standardized features.
    prefit : bool
        If True, the density is fitted already and used as it is; else a copy is fitted to the rows.
    random_state : int, Generator or None

    Attributes
    ----------
    density_ : ClassDensity
        Density fitted to `scaler_(X)`.
    scaler_ : Standardization
    classes_, is_synthetic_, pair_, lam_, sample_weight_
        See :class:`Sampler`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> genmix = GenMix(n_aug=20, output="soft", random_state=0)
    >>> points, labels = genmix.fit_resample(X[50:], y[50:])
    >>> points.shape, labels[-1].round(3)
    ((120, 4), array([0.5, 0.5]))
    """

    def __init__(
        self,
        density: Any = "gaussian",
        n_aug: float = 1.0,
        lam: Any = 0.5,
        eps: float = 1e-6,
        output: str = "hard",
        *,
        standardize: bool = False,
        prefit: bool = False,
        random_state: Any = None,
    ) -> None:
        self.density = density
        self.n_aug = n_aug
        self.lam = lam
        self.eps = eps
        self.output = output
        self.standardize = standardize
        self.prefit = prefit
        self.random_state = random_state

    def __sklearn_clone__(self) -> GenMix:
        """Return a copy with an unfitted density, or with the same density if prefit."""
        params = self.get_params(deep=False)
        return GenMix(**params if self.prefit else {name: clone(value, safe=False) for name, value in params.items()})

    def _synthesize(self, X: Floats, index: Classes, rng: np.random.Generator) -> Synthetic:
        eps = check_positive("eps", self.eps, "1e-6 is the usual choice")
        lam_range = self._lam_range()
        count = resolve_n_aug(self.n_aug, len(X))
        self.scaler_ = Standardization.fit(X) if self.standardize else Standardization.identity(X)
        points = self.scaler_(X)
        density = named_density(self.density)
        if not self.prefit:
            density = clone(density).fit(points, self.classes_[index])
        elif self.standardize:
            raise ValueError("prefit=True excludes standardize=True: the density is fitted to its own features")
        else:
            check_is_fitted(density, "classes_")
            if not np.array_equal(density.classes_, self.classes_):
                known, classes = density.classes_.tolist(), self.classes_.tolist()
                raise ValueError(f"y has the classes {classes}, but the density was fitted to {known}; fit it again")
        self.density_ = density
        gaussians, manifolds = self.density_.gaussians(), self.density_.manifolds()
        finder: Finder
        if gaussians is not None:
            finder = QuadricFinder(self.density_, gaussians)
        elif manifolds is not None:
            finder = ProjectionFinder(manifolds, points, index, tolerance=0.5 * eps)
        else:
            finder = SegmentFinder(self.density_, points, index, tolerance=1e-3 * eps)
        made, missing, smallest_error = sample_surfaces(finder, len(self.classes_), count, lam_range, eps, rng)
        if len(missing):
            self._warn_about(missing, smallest_error, len(made.points), count)
        return made._replace(points=self.scaler_.inverse(made.points))

    def _lam_range(self) -> tuple[float, float]:
        """Return the smallest and the largest lambda, or raise."""
        lam = self.lam
        if isinstance(lam, str) and lam == "uniform":
            return LAM_MARGIN, 1.0 - LAM_MARGIN
        low, high = lam if isinstance(lam, Sequence | np.ndarray) and len(lam) == 2 else (lam, lam)
        are_numbers = all(isinstance(end, Real) and not isinstance(end, bool) for end in (low, high))
        if not are_numbers or not 0.0 < low <= high < 1.0:
            raise ValueError(f"lam={lam!r} must be a number above 0 and below 1, a range (low, high) or 'uniform'")
        return float(low), float(high)

    def _warn_about(self, missing: Classes, smallest_error: float, made: int, count: int) -> None:
        """Warn that the search gave up pairs of classes (q, 2); raise if it found no point at all."""
        names = [f"{a!r} and {b!r}" for a, b in self.classes_[missing[:MAX_NAMED_PAIRS]].tolist()]
        n_more = len(missing) - len(names)
        between = ", ".join(names) + (f" and {count_of(n_more, 'more pair')}" if n_more > 0 else "")
        reason = "a third class is more likely there, or the two densities never have that ratio"
        if smallest_error < np.inf:
            reason += f"; the nearest miss of lam={self.lam!r} was by {smallest_error:.1g}, eps is {self.eps:g}"
        message = f"GenMix found no point between {between}: {reason}"
        if made == 0:
            raise ValueError(f"{message}; try another density, lam or a larger eps")
        shortfall = f"; {made} of {count_of(count, 'point')} were made" if made < count else ""
        warn(("GenMix", between), f"{message}. Other pairs get more points{shortfall}", DensityWarning)


class _Quotas:
    """For each pair of classes, the number of points that it needs, of those that it has, and of its searches."""

    def __init__(self, wanted: Classes, patience: int) -> None:
        self.wanted, self.patience = wanted, patience
        self.accepted, self.searched = np.zeros_like(wanted), np.zeros_like(wanted)
        self.given_up = np.zeros(len(wanted), dtype=bool)

    def next_searches(self) -> Classes:
        """Return the pairs to search next, sorted; each is repeated as often as its rate of success suggests."""
        lacking = self.wanted - self.accepted
        # A tenth and four more than the expected number, so that fewer rounds are needed.
        needed = np.ceil(1.1 * lacking * (self.searched + 1) / (self.accepted + 1)).astype(np.int64) + 4
        until_given_up = self.patience * (self.accepted + 1) - self.searched
        number = np.where(lacking > 0, np.minimum(needed, until_given_up), 0)
        if number.sum() > MAX_SEARCHES:
            number = -(-number * MAX_SEARCHES // number.sum())
        return np.repeat(np.arange(len(number)), number)

    def accept(self, which: Classes, succeeded: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Count searches of the pairs `which`, sorted, and return the mask of the successes within the quotas."""
        n_successes = np.cumsum(succeeded)
        first = np.searchsorted(which, which)  # the first search of the same pair
        rank_in_pair = n_successes - n_successes[first] + succeeded[first]
        accepted = succeeded & (rank_in_pair <= (self.wanted - self.accepted)[which])
        self.searched += np.bincount(which, minlength=len(self.searched))
        self.accepted += np.bincount(which[accepted], minlength=len(self.accepted))
        return accepted

    def give_up(self, rng: np.random.Generator) -> None:
        """Give up pairs that succeed too rarely, and pass their quotas on to the others."""
        lacking = self.wanted - self.accepted
        hopeless = (lacking > 0) & (self.searched >= self.patience * (self.accepted + 1))
        self.given_up |= hopeless
        others = np.flatnonzero(~self.given_up)
        self.wanted = np.where(hopeless, self.accepted, self.wanted)
        self.wanted[others] += share_out(int(lacking[hopeless].sum()), len(others), rng)


def share_out(count: int, n: int, rng: np.random.Generator) -> Classes:
    """Split a number into n parts as even as possible, (n,); the remainder goes to random parts."""
    if n == 0:
        return np.zeros(0, dtype=np.int64)
    return count // n + (rng.permutation(n) < count % n)


def sample_surfaces(
    finder: Finder, k: int, count: int, lam_range: tuple[float, float], eps: float, rng: np.random.Generator
) -> tuple[Synthetic, Classes, float]:
    """Return `count` points between k classes, spread over their pairs; fewer if every pair is given up.

    arXiv Alg. 4, with all pairs at once. NOTE[PAPER]: the paper's loop never ends for a pair without a point; here the
    pair is given up. The second result are the pairs given up (q, 2), the third the smallest distance to lambda among
    the rejected points (infinity if there was none).
    """
    pairs = np.stack(np.triu_indices(k, 1), 1)
    quotas = _Quotas(share_out(count, len(pairs), rng), finder.patience)
    parts: list[Synthetic] = []
    smallest_error = np.inf
    while len(which := quotas.next_searches()):
        pair, lam = pairs[which], rng.uniform(*lam_range, len(which))
        points, log_prob = finder.find(pair, logit(lam), rng)
        rows = np.arange(len(pair))
        with np.errstate(invalid="ignore"):  # NaN where nothing was found, or both densities vanish
            ratio = np.asarray(expit(log_prob[rows, pair[:, 1]] - log_prob[rows, pair[:, 0]]))
        error = np.abs(ratio - lam)
        succeeded = (error <= eps) & ~third_is_likelier(log_prob, pair)  # arXiv Alg. 4 and Eq. (37)
        smallest_error = min(smallest_error, float(np.min(error, initial=np.inf, where=error > eps)))
        mask = quotas.accept(which, succeeded)
        labels = np.zeros((int(mask.sum()), k))
        labels[np.arange(len(labels))[:, None], pair[mask]] = np.stack([1.0 - ratio[mask], ratio[mask]], 1)
        parts.append(Synthetic(points[mask], labels, pair[mask], lam[mask]))
        quotas.give_up(rng)
    made = Synthetic.concatenate(parts)
    order = np.lexsort((made.pair[:, 1], made.pair[:, 0]))
    return made.select(order), pairs[quotas.given_up], smallest_error


@final
class HiddenGenMix(Sampler):
    r"""GenMix on the features z = f(x) of a network; a point is inverted to :math:`\arg\min_x \lVert z - f(x) \rVert`.

    arXiv Section F.4. Features of an adversarially trained network can be inverted (Engstrom et al., 2019; see
    :func:`genlabel.attacks.train_robust`); those of other networks give points that look like noise. The label is that
    of the point between the features.

    Parameters
    ----------
    network : nn.Module with encode(x, depth)
        Trained network, such as a :class:`genlabel.training.networks.StagedNetwork`.
    depth : int or None
        Number of stages that compute the features; None is all but the last layer.
    genmix : GenMix or None
        Sampler of points between the features; None is `GenMix()`.
    shape : (c, h, w) or None
        Shape to which each row of `X` is reshaped for the network; None leaves rows.
    bounds : (low, high) or None
        Range of the inverted points; (0, 1) for pixels.
    steps, learning_rate : int, float
        Steps and rate of Adam, which starts from the row of the pair's first class with the nearest features.
    output : "hard", "soft" or "weighted"
        See :meth:`fit_resample`.
    random_state : int, Generator or None

    Attributes
    ----------
    genmix_ : GenMix
        Sampler fitted to the features.
    features_ : ndarray (s, q)
        Points between the features.
    misfit_ : ndarray (s,)
        Relative distance of the inverted points' features from them, |f(x) - z| / |z|.
    classes_, is_synthetic_, pair_, lam_, sample_weight_
        See :class:`Sampler`.

    Examples
    --------
    >>> from genlabel.training.networks import MLP
    >>> X = np.random.default_rng(0).normal(size=(40, 2)) + [[0.0, 0.0], [4.0, 0.0]] * 20
    >>> hidden = HiddenGenMix(MLP(2, 2, hidden=(8,), seed=0), genmix=GenMix(n_aug=5), random_state=0)
    >>> points, labels = hidden.fit_resample(X, [0, 1] * 20)
    >>> points.shape, hidden.misfit_.shape
    ((45, 2), (5,))
    """

    def __init__(
        self,
        network: Any,
        depth: int | None = None,
        genmix: GenMix | None = None,
        *,
        shape: tuple[int, ...] | None = None,
        bounds: tuple[float, float] | None = None,
        steps: int = 200,
        learning_rate: float = 0.05,
        output: str = "hard",
        random_state: Any = None,
    ) -> None:
        self.network = network
        self.depth = depth
        self.genmix = genmix
        self.shape = shape
        self.bounds = bounds
        self.steps = steps
        self.learning_rate = learning_rate
        self.output = output
        self.random_state = random_state

    def __sklearn_clone__(self) -> HiddenGenMix:
        """Return a copy that shares the network, weights included."""
        params = self.get_params(deep=False)
        return HiddenGenMix(**{**params, "genmix": None if self.genmix is None else clone(self.genmix)})

    def _synthesize(self, X: Floats, index: Classes, rng: np.random.Generator) -> Synthetic:
        check_count("steps", self.steps)
        check_positive("learning_rate", self.learning_rate, "0.05 is the usual choice")
        inputs = torch.from_numpy(X.copy()).to(next(iter(self.network.parameters())))
        inputs = inputs if self.shape is None else inputs.reshape(len(X), *self.shape)
        depth = self.network.depth if self.depth is None else self.depth
        with eval_mode(self.network), torch.no_grad():
            batches = [inputs[rows] for rows in chunks(len(X), BATCH_SIZE)]
            encoded = torch.cat([encode_rows(self.network, batch, depth).flatten(1) for batch in batches])
        features = encoded.double().cpu().numpy()
        self.genmix_ = clone(GenMix() if self.genmix is None else self.genmix)
        self.genmix_.set_params(output="soft", random_state=rng)
        resampled, labels = self.genmix_.fit_resample(features, self.classes_[index])
        between, labels = resampled[len(X) :], labels[len(X) :]
        first_class = self.genmix_.pair_[:, 0]
        nearest = np.empty(len(between), dtype=np.int64)
        for c in np.unique(first_class):
            rows, queries = np.flatnonzero(index == c), np.flatnonzero(first_class == c)
            distance = torch.cdist(torch.from_numpy(between[queries]), torch.from_numpy(features[rows]))
            nearest[queries] = rows[distance.argmin(1).numpy()]
        start = inputs[torch.from_numpy(nearest).to(inputs.device)]
        inverted, self.misfit_ = invert_features(
            self.network, depth, between, start, self.bounds, self.steps, self.learning_rate
        )
        self.features_ = between
        points = inverted.flatten(1).double().cpu().numpy()
        return Synthetic(points, labels, self.genmix_.pair_, self.genmix_.lam_)


def invert_features(
    network: Any,
    depth: int,
    features: Floats,
    start: Tensor,
    bounds: tuple[float, float] | None,
    steps: int,
    learning_rate: float,
) -> tuple[Tensor, Floats]:
    """Return inputs (m, ...) with features near the given ones (m, q), and their misfit |f(x) - z| / |z|, (m,).

    Adam minimizes the misfit of the network's features at `depth`, from `start` (m, ...); the best step counts.
    """
    points, misfits = [], []
    wanted = torch.from_numpy(features).to(start)
    with eval_mode(network):
        for rows in chunks(len(start), BATCH_SIZE):
            x = start[rows].detach().clone().requires_grad_()
            size = wanted[rows].norm(dim=1).clamp_min(torch.finfo(wanted.dtype).tiny)
            best, least = x.detach().clone(), torch.full_like(size, torch.inf)
            adam = torch.optim.Adam([x], lr=learning_rate)
            for _ in range(steps + 1):
                with torch.enable_grad():
                    misfit = (network.encode(x, depth).flatten(1) - wanted[rows]).norm(dim=1) / size
                    x.grad = torch.autograd.grad(misfit.square().sum(), x)[0]
                better = misfit.detach() < least
                best[better], least[better] = x.detach()[better], misfit.detach()[better]
                adam.step()
                if bounds is not None:
                    x.data.clamp_(*bounds)
            points.append(best)
            misfits.append(least.double().cpu().numpy())
    return torch.cat(points), np.concatenate(misfits)
