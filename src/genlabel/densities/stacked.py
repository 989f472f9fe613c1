"""Stacked density: class densities that cross-validation chose, tempered and weighted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, final

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from genlabel._arrays import Standardization, as_numpy, as_tensor, like, to_device
from genlabel._validation import check_choice, suppress_own_warnings, warn
from genlabel.data.folds import Fold, fold_numbers, make_folds, training_rows
from genlabel.densities import stacking
from genlabel.densities.base import ClassDensity, CrossFittedDensity, DensityWarning
from genlabel.densities.candidates import affordable_candidates, named_candidates
from genlabel.densities.posterior import log_posterior
from genlabel.densities.samples import stratified_order
from genlabel.densities.transformed import log_prob_of_members, share_transform
from genlabel.registry import DENSITIES

MAX_FIT_ROWS = 200_000  # rows that members are fitted to: they have few parameters


@final
@dataclass(eq=False, repr=False)
class WeightedDensities(ClassDensity):
    r"""Several densities whose posteriors are mixed with given weights.

    .. math:: \pi(c \mid x) = \sum_m w_m \operatorname{softmax}_c (\log p_{mc}(x) / T_m + \log \pi_c)

    with the class frequencies of the training points as priors. :meth:`log_prob` is log posterior - log prior +
    log p(x), with p(x) = sum_m w_m sum_c prior_c p_mc(x): with the priors `class_prior_`, Bayes' rule gives exactly the
    posterior above.

    Weights are divided by their sum; a member of weight 0 is not fitted. Members that are
    :class:`PowerTransformedDensity` share one transform. Above 200,000 rows the members are fitted to a stratified
    subsample of that size; the priors are those of all rows.
    """

    members: Sequence[ClassDensity]
    weights: Sequence[float]
    temperatures: Sequence[float]
    standardize: bool = False

    default_priors = "empirical"

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        used = [m for m, w in enumerate(self.weights) if w > 0]
        weights = torch.tensor([float(self.weights[m]) for m in used], dtype=torch.float64)
        self.log_weight_ = (weights / weights.sum()).log()
        self.temperature_ = [float(self.temperatures[m]) for m in used]
        if len(X) > MAX_FIT_ROWS:
            rows = stratified_order(index.numpy())[:MAX_FIT_ROWS]
            X, index, weight = X[rows], index[rows], weight[rows]
        scaler = Standardization.fit(X, weight, keep_constant=True) if self.standardize else Standardization.identity(X)
        self.scaler_ = scaler
        x = scaler(X)
        members = [clone(self.members[m]) for m in used]
        self.transform_ = share_transform(members, x, weight)
        labels = self.classes_[index.numpy()]
        with suppress_own_warnings():  # a member that does not suit a small class has little weight
            self.members_ = [member.fit(x, labels, weight) for member in members]

    def _log_prob(self, X: Tensor) -> Tensor:
        log_prior = to_device(torch.from_numpy(self.class_prior_).log(), X)
        log_weight = to_device(self.log_weight_, X)
        x = self.scaler_(X).to(X)
        log_prob = [values.double() for values in log_prob_of_members(self.members_, x, self.transform_)]
        tempered = zip(log_prob, self.temperature_, strict=True)
        posteriors = [log_posterior(values, log_prior, temperature).log_proba for values, temperature in tempered]
        posterior = stacking.mix_posteriors(torch.stack(posteriors), log_weight.exp())
        evidence = torch.stack([(values + log_prior).logsumexp(1) for values in log_prob])
        total = (evidence + log_weight[:, None]).logsumexp(0) - self.scaler_.log_volume
        return (posterior - log_prior + total[:, None]).to(X)


@DENSITIES.register("stacked")
@final
@dataclass(eq=False, repr=False)
class StackedDensity(ClassDensity):
    """Densities chosen among many by cross-validation, with temperatures and weights.

    Every candidate is fitted without each fold in turn. Its held-out log-densities choose its temperature (by
    log-loss), then the weights of all candidates (by the likelihood of the mixed posterior). Those with a weight are
    fitted to all points as :class:`WeightedDensities` of standardized features. Standardization and the power transform
    see no labels; in the search they are fitted once, to all rows. Above 3,000 rows (or 400,000 values) candidates are
    evaluated on a stratified subsample of that size, at least 500 rows; those with a weight are weighted again on
    12,000 rows. The chosen ones are fitted to at most 200,000 rows, with a :class:`DensityWarning`.

    Parameters
    ----------
    candidates : "default", sequence or dict of ClassDensity
        "default" is the 48 of :func:`default_candidates`: discriminant analyses, kernels and mixtures on the features
        as given and power-transformed, and a forest.
    cv : int, splitter or iterable of (train, valid)
        Stratified folds, or row numbers or masks. A class with fewer points reduces the number of folds, with a
        warning; a class without training rows in a fold keeps its rows there.
    method : "stack" or "select"
        Weights for several candidates, or the single one with the smallest held-out log-loss.
    cross_fit : bool
        Also fit the stack without each pair of folds, for :meth:`log_prob_of_pairs`.
    random_state : int, Generator or None
        Seed of the folds.

    Attributes
    ----------
    stack_ : WeightedDensities
        Fitted stack that computes the log-densities.
    names_, members_, weights_, temperatures_
        Names, fitted densities, weights and temperatures of the chosen members.
    held_out_ : ndarray (n, k)
        Out-of-fold log-posterior of the stack, with temperatures and weights chosen on the other folds; NaN for rows
        without one: in no fold, needed for training in every fold, or outside of the subsample.
    fold_ : ndarray (n,) or None
        With `cross_fit`, the fold of each row.
    report_ : dict
        "method", "folds", "rows" (of the last evaluation), "fitted_rows", "chosen" and "candidates" (lists of dicts),
        and the "log_loss", "accuracy" and "calibration_error" of `held_out_`.

    Rows of weight 0 count as absent, in row numbers too.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 40)
    >>> X = rng.normal(size=(80, 2)) + 2 * y[:, None]
    >>> density = StackedDensity().fit(X, y)
    >>> len(density.report_["candidates"]), density.held_out_.shape
    (48, (80, 2))
    """

    candidates: str | Sequence[ClassDensity] | Mapping[str, ClassDensity] = "default"
    cv: Any = 6
    method: str = "stack"
    cross_fit: bool = False
    random_state: Any = 0

    default_priors = "empirical"
    supports_latent_space = False  # where the features have seen the labels, no row is held out
    is_calibrated = True

    def resolved_config(self) -> dict[str, Any]:
        """Return the candidates by name and the numbers of rows that choose them: the values behind "default"."""
        bounds = (stacking.MAX_SEARCH_ROWS, stacking.MAX_WEIGHTING_ROWS, stacking.MAX_SEARCH_VALUES)
        rows = (*bounds, stacking.MAX_SEARCH_SCORES, stacking.MIN_SEARCH_ROWS, MAX_FIT_ROWS)
        return {"candidates": named_candidates(self.candidates), "rows": rows, "members": stacking.MAX_MEMBERS}

    @property
    def cross_fitted(self) -> bool:
        """True if the stack was fitted without each pair of folds."""
        return bool(self.pairs_)

    def prepare_for_cv(
        self, X: Any, y: Any, sample_weight: Any, folds: Callable[[], Sequence[Fold]], seed: Any
    ) -> CrossFittedDensity:
        """Return the stack chosen over the folds, and for each the choice of the others; with `cross_fit`, unfitted."""
        if self.cross_fit:
            return super().prepare_for_cv(X, y, sample_weight, folds, seed)
        pairs = list(folds())
        stacked = clone(self).set_params(cv=pairs, random_state=seed).fit(X, y, sample_weight)
        return CrossFittedDensity(stacked.stack_, [stacked.unfitted_stack(f) for f in range(len(pairs))], stacked)

    def unfitted_stack(self, fold: int | None = None) -> WeightedDensities:
        """Return the chosen members, unfitted, with weights and temperatures; with `fold`, the other folds' choice."""
        choice = self.choice_ if fold is None else self.fold_choices_[fold]
        parts = zip(self.candidates_.values(), choice.weight.tolist(), choice.temperature.tolist(), strict=True)
        chosen = [(clone(density), weight, temperature) for density, weight, temperature in parts if weight > 0]
        members, weights, temperatures = map(list, zip(*chosen, strict=True))
        return WeightedDensities(members, weights, temperatures, standardize=True)

    def log_prob_of_pairs(self, X: Any, rows: Any, partner_rows: Any, lam: Any = None, points: Any = None) -> Any:
        """Return log p_c by stacks fitted without the folds of both parents; without `cross_fit`, `log_prob(X)`."""
        if self.fold_ is None:
            return self.log_prob(X)
        x = as_tensor(X)
        first, second = self.fold_[as_numpy(rows)], self.fold_[as_numpy(partner_rows)]
        log_prob = x.new_empty(len(x), len(self.classes_))
        for (low, high), stack in self.pairs_.items():
            mask = (np.minimum(first, second) == low) & (np.maximum(first, second) == high)
            if mask.any():  # the posterior of the stack rests on the class frequencies of its own rows
                shift = torch.from_numpy(np.log(stack.class_prior_) - np.log(self.class_prior_)).to(x)
                indices = torch.from_numpy(np.flatnonzero(mask)).to(x.device)
                log_prob[indices] = stack.log_prob(x[indices]) + shift
        return like(log_prob, X)

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        check_choice("method", self.method, ["stack", "select"])
        (n, d), classes = X.shape, index.numpy()
        candidates = named_candidates(self.candidates)
        if isinstance(self.candidates, str):
            candidates = affordable_candidates(candidates, n, d)
        folds = make_folds(self.cv, classes, self.random_state, classes=self.classes_, X=X.numpy())
        if n > MAX_FIT_ROWS:
            message = f"StackedDensity: X has {n} rows; the members are fitted to {MAX_FIT_ROWS} of them"
            warn("rows", message, DensityWarning)
        labels, log_prior = self.classes_[classes], torch.from_numpy(np.log(self.class_prior_))
        with suppress_own_warnings():
            points = Standardization.fit(X, weight, keep_constant=True)(X)
            evaluation = stacking.search(candidates, points, index, weight, folds, log_prior, self.method)
            self.candidates_, self.choice_ = evaluation.candidates, evaluation.choice
            self.fold_choices_ = evaluation.fold_choices
            # Weights that are all 1 are not passed on: the fit then equals one without weights, to the last digit.
            self.stack_ = self.unfitted_stack().fit(X, labels, None if bool((weight == 1).all()) else weight)
            self.fold_ = fold_numbers(folds, n) if self.cross_fit else None
            self.pairs_: dict[tuple[int, int], WeightedDensities] = {}
            if self.fold_ is not None:
                for low, high in combinations_with_replacement(range(len(folds)), 2):
                    rows = training_rows(np.flatnonzero((self.fold_ != low) & (self.fold_ != high)), classes)
                    self.pairs_[low, high] = self.unfitted_stack().fit(X[rows], labels[rows], weight[rows])
        self.held_out_ = np.full((n, len(log_prior)), np.nan)
        self.held_out_[evaluation.rows] = evaluation.held_out.numpy()
        names = np.array(list(self.candidates_), dtype=object)
        self.names_ = names[self.choice_.weight.numpy() > 0].tolist()
        self.members_ = self.stack_.members_
        self.weights_, self.temperatures_ = np.array(self.stack_.weights), np.array(self.stack_.temperatures)
        members = zip(self.names_, self.stack_.weights, self.stack_.temperatures, strict=True)
        by_weight = sorted(members, key=lambda member: -member[1])
        self.report_ = {
            "method": self.method,
            "chosen": [{"name": name, "weight": weight, "temperature": T} for name, weight, T in by_weight],
            **evaluation.scores,
            "candidates": list(evaluation.reports.values()),
            "folds": len(folds),
            "rows": len(evaluation.rows),
            "fitted_rows": min(n, MAX_FIT_ROWS),
        }

    def _log_prob(self, X: Tensor) -> Tensor:
        return self.stack_.log_prob(X)
