"""A weighted stack of densities: one posterior from several, and a density to go with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from sklearn.base import clone
from torch import Tensor

from genlabel.checks import check_positive, check_weights, no_warnings
from genlabel.densities.base import ClassDensity
from genlabel.densities.stacking import mixed_log_posterior
from genlabel.densities.warped import Warp, WarpedDensity, fit_warp
from genlabel.posterior import log_posterior
from genlabel.standardisation import Standardisation

__all__ = ["StackDensity", "share_warp"]


@final
class StackDensity(ClassDensity):
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

    Members that are :class:`WarpedDensity` share one map.

    Attributes
    ----------
    members_ : list of ClassDensity
        The fitted members of positive weight.

    Examples
    --------
    >>> from genlabel.densities import GaussianDensity, KernelDensity
    >>> stack = StackDensity([GaussianDensity(reg=0.0), KernelDensity()], [0.5, 0.5], [1.0, 2.0])
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
        fitted = Standardisation.fit(X, weight, keep_constant=True) if self.standardize else Standardisation.identity(X)
        self.standardisation_, x = fitted, fitted(X)
        members = [clone(self.members[m]) for m in kept]
        self.warp_ = share_warp(members, x, weight)
        labels = self.classes_[index.numpy()]
        with no_warnings():  # what does not suit a small class has little weight, or it would not be here
            self.members_ = [member.fit(x, labels, weight) for member in members]

    def _check(self) -> None:
        count = len(self.members)
        if count == 0 or len(self.temperatures) != count:
            raise ValueError(f"{count} members and {len(self.temperatures)} temperatures; give one for each member")
        check_weights(self.weights, count)
        for temperature in self.temperatures:
            check_positive("temperature", temperature, "1 leaves a posterior as it is")

    def _log_prob(self, X: Tensor) -> Tensor:
        log_prior = torch.from_numpy(self.class_prior_).log().to(X.device)
        log_weight = self.log_weight_.to(X.device)
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
        warped = self.warp_(x) if self.warp_ is not None else None
        if warped is not None:
            warped = (warped[0].to(X), warped[1])
        values = []
        for member in self.members_:
            if warped is not None and isinstance(member, WarpedDensity) and member.warp_ is self.warp_:
                values.append(member.log_prob_of_warped(*warped).double())
            else:
                values.append(member.log_prob(x).double())
        return values


def share_warp(members: Sequence[ClassDensity], X: Tensor, weight: Tensor) -> Warp | None:
    """Give the warped members that would fit a map of their own one that they share; None if there are none."""
    asking = [member for member in members if isinstance(member, WarpedDensity) and member.warp is None]
    if not asking:
        return None
    warp = fit_warp(X, weight)
    for member in asking:
        member.set_params(warp=warp)
    return warp
