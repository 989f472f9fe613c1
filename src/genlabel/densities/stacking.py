"""A weighted stack of densities: one posterior from several, and how they are weighed by points they have not seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, final

import torch
from sklearn.base import clone
from torch import Tensor

from genlabel._arrays import chunks, to_device
from genlabel._standardization import Standardization
from genlabel._validation import check_positive, check_weights, suppress_own_warnings
from genlabel.densities._crossval import stratified_order
from genlabel.densities.base import LEAST_WEIGHT, ClassDensity
from genlabel.densities.posterior import log_posterior
from genlabel.densities.power_transform import log_prob_of_members, share_transform

TEMPERATURES = tuple(2.0 ** (step / 2) for step in range(13))
"""The temperatures that are tried: 1 to 64 in steps of sqrt 2."""
WORST = math.log(1e-15)
"""A log-loss counts no probability below this one, so that a single point does not decide."""
ROUNDS = ((40, 1e-3), (60, 5e-3), (100, 0.0))
"""Steps of EM for the weights, and the weight below which a candidate is left out after them."""
PACE = 1.8
"""Each factor of a step of EM is raised to this power, which gets there in about half the steps."""
SCORES_AT_ONCE = 1 << 18
"""Numbers that are worked on at once."""
MOST = 6
"""So many members are kept: more cost time, and gain nothing on held-out rows."""
FITTED_ROWS = 200_000
"""Members are fitted to no more rows than these: they have few parameters."""
TOP = 60.0
"""A log-ratio above this is as good as infinite."""


@final
class WeightedDensities(ClassDensity):
    r"""Several densities whose posteriors are mixed.

    .. math:: \pi(c \mid x) = \sum_m w_m \operatorname{softmax}_c (\log p_{mc}(x) / T_m + \log \pi_c)

    with the shares of the classes in the training points as priors. :meth:`log_prob` is
    log posterior - log prior + log p(x), with p(x) = sum_m w_m sum_c prior_c p_mc(x): with the priors `class_prior_`,
    Bayes' rule gives back exactly the posterior above.

    Parameters
    ----------
    members : sequence of ClassDensity
    weights : sequence of float
        Not negative; they are divided by their sum. A member of weight 0 is neither fitted nor evaluated.
    temperatures : sequence of float
        Above 1 softens a member's posterior.
    standardize : bool
        Standardise the features before the members see them.

    Members that are :class:`PowerTransformedDensity` share one map. Of more than 200,000 rows they see so many, each
    class in
    its share; the shares of the classes are those of all rows.

    Attributes
    ----------
    members_ : list of ClassDensity
        The fitted members of positive weight.

    Examples
    --------
    >>> from genlabel.densities import GaussianDensity, KernelDensity
    >>> stack = WeightedDensities([GaussianDensity(reg=0.0), KernelDensity()], [0.5, 0.5], [1.0, 2.0])
    >>> stack = stack.fit([[0.0], [2.0], [5.0], [7.0]], [0, 0, 1, 1])
    >>> stack.log_prob([[1.0]]).round(3)
    array([[-1.179, -4.722]])
    """

    def __init__(
        self,
        members: Sequence[ClassDensity],
        weights: Sequence[float],
        temperatures: Sequence[float],
        standardize: bool = False,
    ) -> None:
        self.members = members
        self.weights = weights
        self.temperatures = temperatures
        self.standardize = standardize

    @property
    def default_priors(self) -> str:
        """Those of the training points, with which it is calibrated."""
        return "empirical"

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        self._check()
        kept = [m for m, w in enumerate(self.weights) if w > 0]
        shares = torch.tensor([float(self.weights[m]) for m in kept], dtype=torch.float64)
        self.log_weight_ = (shares / shares.sum()).log()
        self.temperature_ = [float(self.temperatures[m]) for m in kept]
        if len(X) > FITTED_ROWS:
            X, index, weight = (part[stratified_order(index.numpy())[:FITTED_ROWS]] for part in (X, index, weight))
        fitted = Standardization.fit(X, weight, keep_constant=True) if self.standardize else Standardization.identity(X)
        self.standardisation_, x = fitted, fitted(X)
        members, self.warp_ = share_transform([clone(self.members[m]) for m in kept], x, weight)
        labels = self.classes_[index.numpy()]
        with suppress_own_warnings():  # what does not suit a small class has little weight, or it would not be here
            self.members_ = [member.fit(x, labels, weight) for member in members]

    def _check(self) -> None:
        count = len(self.members)
        if count == 0 or len(self.temperatures) != count:
            raise ValueError(f"{count} members and {len(self.temperatures)} temperatures; give one for each member")
        check_weights(self.weights, count)
        for temperature in self.temperatures:
            check_positive("temperature", temperature, "1 leaves a posterior as it is")

    def _log_prob(self, X: Tensor) -> Tensor:
        log_prior = to_device(torch.from_numpy(self.class_prior_).log(), X)
        log_weight = to_device(self.log_weight_, X)
        values = self._member_log_prob(X)
        posteriors = [log_posterior(v, log_prior, t).log_proba for v, t in zip(values, self.temperature_, strict=True)]
        posterior = mixed_log_posterior(torch.stack(posteriors), log_weight.exp())
        evidence = torch.stack([(value + log_prior).logsumexp(1) for value in values])
        total = (evidence + log_weight[:, None]).logsumexp(0) - self.standardisation_.log_volume
        return (posterior - log_prior + total[:, None]).to(X)

    def _member_log_prob(self, X: Tensor) -> list[Tensor]:
        """Log-densities of each member, (m, k), as float64, from points in the precision of `X`.

        The shared map is asked once.
        """
        x = self.standardisation_(X).to(X)
        return [values.double() for values in log_prob_of_members(self.members_, x, self.warp_)]


class Stacking(NamedTuple):
    """What was chosen for each of M candidates."""

    temperature: Tensor
    """(M,)"""
    weight: Tensor
    """(M,), of sum 1; 0 for those that are left out."""


def mixed_log_posterior(log_posteriors: Tensor, weights: Tensor) -> Tensor:
    """Return log sum_m w_m posterior_m of posteriors (M, ..., k) in log space."""
    shape = (-1,) + (1,) * (log_posteriors.dim() - 1)
    return (log_posteriors + weights.log().view(shape)).logsumexp(0)


def log_posterior_where_known(log_prob: Tensor, log_prior: Tensor, temperature: float) -> Tensor:
    """Log posterior of a candidate's log p_c (..., k), NaN where it gives no number: it is not judged by the prior."""
    return torch.where(
        _known(log_prob)[..., None], log_posterior(log_prob, log_prior, temperature).log_proba, torch.nan
    )


def log_posterior_of_truth(log_prob: Tensor, log_prior: Tensor, index: Tensor) -> Tensor:
    """Log posterior of each point's class at each temperature, (temperatures, M, n), from log p_c (M, n, k).

    Minus log sum_c exp((log p_c - log p_y) / T + log pi_c - log pi_y). Where a candidate gives no number, it is the
    worst that counts; where all of its densities vanish, the prior.
    """
    found = log_prob.new_empty(len(TEMPERATURES), *log_prob.shape[:2])
    for some in chunks(len(index), max(1, SCORES_AT_ONCE // max(1, log_prob[:, 0].numel()))):
        values, truth = log_prob[:, some], index[some, None].expand(len(log_prob), -1, 1)
        known, nil = _known(values), values.amax(-1) == -torch.inf
        ratio = (values - values.gather(-1, truth)).movedim(-1, 0).contiguous()
        offset = (log_prior[:, None] - log_prior[index[some]])[:, None]
        prior = log_prior[index[some]].expand_as(known)
        for place, heat in enumerate(TEMPERATURES):
            total = ratio.div(heat).add_(offset).clamp_max_(TOP).exp_().sum(0)
            logs = torch.where(nil, prior, total.log_().neg_())
            found[place, :, some] = logs.clamp_min_(WORST).masked_fill_(~known, WORST)
    return found


def _known(log_prob: Tensor) -> Tensor:
    """Where log p_c (..., k) are numbers, or densities that vanish, (...)."""
    return log_prob.amax(-1) < torch.inf


def weigh(truth: Tensor, weight: Tensor, method: str, least: Tensor | float = LEAST_WEIGHT) -> Stacking:
    """Choose each candidate's temperature by its log-loss, and then the candidates' weights, on n points.

    `truth` (temperatures, M, n) is that of :func:`log_posterior_of_truth`; `method` is "stack" or "select"; a candidate
    of a weight below `least` (M,) is left out.
    """
    losses, places = (-(truth @ weight) / weight.sum()).min(0)
    best = truth[places, torch.arange(truth.shape[1])]
    shares = (
        stacking_weights(best, weight, least) if method == "stack" else torch.eye(len(losses)).to(best)[losses.argmin()]
    )
    return Stacking(torch.tensor(TEMPERATURES, dtype=best.dtype)[places], shares)


def stacked(log_prob: Tensor, log_prior: Tensor, choice: Stacking) -> Tensor:
    """Log posterior (n, k) of the stack of a choice, from log p_c (M, n, k)."""
    kept = choice.weight.nonzero()[:, 0]
    each = log_posterior(log_prob[kept], log_prior, choice.temperature[kept, None, None]).log_proba
    return mixed_log_posterior(each, choice.weight[kept])


def stacking_weights(truth: Tensor, weight: Tensor, least: Tensor | float = LEAST_WEIGHT) -> Tensor:
    """Return the weights (M,) under which the mixed posterior is most likely, by EM; all but the `MOST` largest are 0.

    `truth` (M, n) is the log posterior of each point's class under each candidate. Candidates that have lost nearly
    all of their weight are left out on the way, and at last those below `least` (M,), unless all weights are small.

    >>> stacking_weights(torch.tensor([[0.9, 0.8], [0.5, 0.5]]).log(), torch.ones(2))
    tensor([1., 0.])
    """
    likelihood, share = truth.exp(), weight / weight.sum()
    alive = torch.arange(len(truth))
    found = likelihood.new_full((len(truth),), 1.0 / len(truth))
    floor = torch.as_tensor(least, dtype=found.dtype).expand(len(truth))
    for steps, share_of_largest in ROUNDS:
        found = _climb(found, likelihood, share, steps)
        kept = found >= share_of_largest * found.max()
        alive, found, likelihood = alive[kept], found[kept], likelihood[kept]
    found = _largest(found, floor[alive])
    kept = found > 0  # those that are left share what was taken from the others
    alive = alive[kept]
    final = _climb(found[kept], likelihood[kept], share, ROUNDS[0][0])
    return torch.zeros_like(truth[:, 0]).index_put_((alive,), _largest(final, floor[alive]))


def _climb(weights: Tensor, likelihood: Tensor, share: Tensor, steps: int) -> Tensor:
    """The weights (M,) after some steps of EM, from likelihoods (M, n) of points of given shares."""
    for _ in range(steps):
        weights = weights * (likelihood @ (share / (weights @ likelihood))) ** PACE
        weights = weights / weights.sum()
    return weights


def _largest(weights: Tensor, least: Tensor) -> Tensor:
    """The weights with small ones, and all but the `MOST` largest, set to 0; they sum to 1."""
    order = weights.sort(descending=True, stable=True).indices
    kept = torch.where(weights < least.clamp_max(0.2 * float(weights.max())), torch.zeros_like(weights), weights)
    kept[order[MOST:]] = 0.0
    return kept / kept.sum()
