"""Stacked density: class densities that cross-validation chose, tempered and weighted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from genlabel._arrays import Standardization, as_numpy, as_tensor, like, to_device
from genlabel._progress import current_fit
from genlabel._validation import check_choice, check_positive, check_weights, suppress_own_warnings, warn
from genlabel.data.folds import Fold, fold_numbers, make_folds, training_rows
from genlabel.densities.base import ClassDensity, CrossFittedDensity, DensityWarning
from genlabel.densities.candidates import affordable_candidates, named_candidates
from genlabel.densities.cross_validation import CrossValSample, held_out_log_prob, stratified_order
from genlabel.densities.posterior import log_posterior
from genlabel.densities.power_transform import log_prob_of_members, share_transform
from genlabel.densities.stacking import (
    MAX_MEMBERS,
    MIN_LOG_PROBA,
    TEMPERATURES,
    Stacking,
    fit_stacking,
    is_defined,
    log_proba_of_true_class,
    mix_posteriors,
)
from genlabel.metrics import accuracy, calibration_error, log_loss
from genlabel.registry import DENSITIES

MAX_FIT_ROWS = 200_000  # rows that members are fitted to: they have few parameters
MAX_SEARCH_ROWS, MAX_WEIGHTING_ROWS = 3_000, 12_000
"""Rows on which all candidates are evaluated, and on which those with a weight are weighted again."""
MAX_SEARCH_VALUES, MAX_SEARCH_SCORES, MIN_SEARCH_ROWS = 400_000, 150_000, 500
"""Bounds on rows x features and on rows x classes of the first evaluation, down to a minimum number of rows."""


@final
class WeightedDensities(ClassDensity):
    r"""Several densities whose posteriors are mixed with given weights.

    .. math:: \pi(c \mid x) = \sum_m w_m \operatorname{softmax}_c (\log p_{mc}(x) / T_m + \log \pi_c)

    with the class frequencies of the training points as priors. :meth:`log_prob` is log posterior - log prior +
    log p(x), with p(x) = sum_m w_m sum_c prior_c p_mc(x): with the priors `class_prior_`, Bayes' rule gives exactly the
    posterior above.

    Parameters
    ----------
    members : sequence of ClassDensity
        Members that are :class:`PowerTransformedDensity` share one transform.
    weights : sequence of float
        Non-negative; they are divided by their sum. A member of weight 0 is neither fitted nor evaluated.
    temperatures : sequence of float
        A temperature above 1 softens the posterior of a member.
    standardize : bool
        Standardize the features first.

    Above 200,000 rows the members are fitted to a stratified subsample of that size; the priors are those of all rows.

    Attributes
    ----------
    members_ : list of ClassDensity
        Fitted members of positive weight.

    Examples
    --------
    >>> from genlabel.densities import GaussianDensity, KernelDensity
    >>> density = WeightedDensities([GaussianDensity(reg=0.0), KernelDensity()], [0.5, 0.5], [1.0, 2.0])
    >>> density.fit([[0.0], [2.0], [5.0], [7.0]], [0, 0, 1, 1]).log_prob([[1.0]]).round(3)
    array([[-1.179, -4.722]])
    """

    default_priors = "empirical"

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

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        count = len(self.members)
        if count == 0 or len(self.temperatures) != count:
            raise ValueError(f"{count} members and {len(self.temperatures)} temperatures; give one for each member")
        check_weights(self.weights, count)
        for temperature in self.temperatures:
            check_positive("temperature", temperature, "1 leaves a posterior as it is")
        used = [m for m, w in enumerate(self.weights) if w > 0]
        weights = torch.tensor([float(self.weights[m]) for m in used], dtype=torch.float64)
        self.log_weight_ = (weights / weights.sum()).log()
        self.temperature_ = [float(self.temperatures[m]) for m in used]
        if len(X) > MAX_FIT_ROWS:
            rows = stratified_order(index.numpy())[:MAX_FIT_ROWS]
            X, index, weight = X[rows], index[rows], weight[rows]
        scaler = Standardization.fit(X, weight, keep_constant=True) if self.standardize else Standardization.identity(X)
        self.scaler_, x = scaler, scaler(X)
        members, self.transform_ = share_transform([clone(self.members[m]) for m in used], x, weight)
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
        posterior = mix_posteriors(torch.stack(posteriors), log_weight.exp())
        evidence = torch.stack([(values + log_prior).logsumexp(1) for values in log_prob])
        total = (evidence + log_weight[:, None]).logsumexp(0) - self.scaler_.log_volume
        return (posterior - log_prior + total[:, None]).to(X)


@DENSITIES.register("stacked")
@final
class StackedDensity(ClassDensity):
    """Densities chosen among many by cross-validation, with temperatures and weights.

    Every candidate is fitted without each fold in turn. Its held-out log-densities choose its temperature (by
    log-loss), then the weights of all candidates (by the likelihood of the mixed posterior). Those with a weight are
    fitted to all points as :class:`WeightedDensities` of standardized features.

    Standardization and the power transform of the candidates see no labels; in the search they are fitted once, to all
    rows. Above 3,000 rows (or 400,000 values) candidates are evaluated on a stratified subsample of that size, at least
    500 rows; those with a weight are weighted again on 12,000 rows. The chosen ones are fitted to at most 200,000 rows,
    with a :class:`DensityWarning`; a kernel density has at most 1,000 kernels per class. `report_["rows"]` and
    `report_["fitted_rows"]` are these numbers of rows.

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
        "method", "folds", "rows", "fitted_rows", "chosen" and "candidates" (lists of dicts), and the "log_loss",
        "accuracy" and "calibration_error" of `held_out_`. Each candidate is reported at its best temperature, on the
        "rows" of its last evaluation.

    Rows of weight 0 count as absent, in row numbers too.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 40)
    >>> X = rng.normal(size=(80, 2)) + 2 * y[:, None]
    >>> density = StackedDensity().fit(X, y)
    >>> len(density.report_["candidates"]), density.held_out_.shape
    (48, (80, 2))
    >>> density.report_["accuracy"] > 0.8
    True
    """

    default_priors = "empirical"
    supports_latent_space = False  # where the features have seen the labels, no row is held out
    is_calibrated = True

    def __init__(
        self,
        candidates: str | Sequence[ClassDensity] | Mapping[str, ClassDensity] = "default",
        cv: Any = 6,
        method: str = "stack",
        cross_fit: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.candidates = candidates
        self.cv = cv
        self.method = method
        self.cross_fit = cross_fit
        self.random_state = random_state

    def resolved_config(self) -> dict[str, Any]:
        """Return the candidates by name and the numbers of rows that choose them: the values behind "default".

        >>> len(StackedDensity().resolved_config()["candidates"])
        48
        """
        search = (MAX_SEARCH_ROWS, MAX_WEIGHTING_ROWS, MAX_SEARCH_VALUES, MAX_SEARCH_SCORES, MIN_SEARCH_ROWS)
        rows = (*search, MAX_FIT_ROWS)
        return {"candidates": named_candidates(self.candidates), "rows": rows, "members": MAX_MEMBERS}

    @property
    def cross_fitted(self) -> bool:
        """True if the stack was fitted without each pair of folds."""
        return bool(self.pairs_)

    def prepare_for_cv(
        self, X: Any, y: Any, sample_weight: Any, folds: Callable[[], Sequence[Fold]], seed: Any
    ) -> CrossFittedDensity:
        """Choose over the folds: each fold has the stack that the held-out rows of the others chose.

        A density with `cross_fit` is fitted to the rows of each fold instead, with folds of its own.
        """
        if self.cross_fit:
            return super().prepare_for_cv(X, y, sample_weight, folds, seed)
        pairs = list(folds())
        stacked = clone(self).set_params(cv=pairs, random_state=seed).fit(X, y, sample_weight)
        return CrossFittedDensity(stacked.stack_, [stacked.unfitted_stack(f) for f in range(len(pairs))], stacked)

    def unfitted_stack(self, fold: int | None = None) -> WeightedDensities:
        """Return the chosen members, weights and temperatures, unfitted; with `fold`, as the other folds chose them."""
        choice = self.choice_ if fold is None else self.fold_choices_[fold]
        selected = choice.weight.nonzero()[:, 0].tolist()
        members = [clone(list(self.candidates_.values())[m]) for m in selected]
        weights, temperatures = choice.weight[selected].tolist(), choice.temperature[selected].tolist()
        return WeightedDensities(members, weights, temperatures, standardize=True)

    def log_prob_of_pairs(self, X: Any, rows: Any, partner_rows: Any, lam: Any = None, points: Any = None) -> Any:
        """Return log p_c of mixed points by stacks fitted without the folds of both parents.

        Without `cross_fit`, the same as :meth:`log_prob`. Weights and temperatures are those chosen on all rows.
        """
        if self.fold_ is None:
            return self.log_prob(X)
        x = as_tensor(X)
        first, second = self.fold_[as_numpy(rows)], self.fold_[as_numpy(partner_rows)]
        log_prob = x.new_empty(len(x), len(self.classes_))
        for (low, high), stack in self.pairs_.items():
            mask = (np.minimum(first, second) == low) & (np.maximum(first, second) == high)
            if mask.any():
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
            warn("rows", f"StackedDensity: {n} rows; its members are fitted to {MAX_FIT_ROWS} of them", DensityWarning)
        labels = self.classes_[classes]
        with suppress_own_warnings():
            self._search(candidates, Standardization.fit(X, weight, keep_constant=True)(X), index, weight, folds)
            # Without uniform weights the fit equals, to the last digit, that of `unfitted_stack` to the same points.
            weights = None if bool((weight == 1).all()) else weight
            self.stack_ = self.unfitted_stack().fit(X, labels, weights)
            self.members_ = self.stack_.members_
            self.fold_ = fold_numbers(folds, n) if self.cross_fit else None
            self.pairs_: dict[tuple[int, int], WeightedDensities] = {}
            if self.fold_ is not None:
                for low in range(len(folds)):
                    for high in range(low, len(folds)):
                        others = np.flatnonzero((self.fold_ != low) & (self.fold_ != high))
                        rows = training_rows(others, classes)
                        self.pairs_[low, high] = self.unfitted_stack().fit(X[rows], labels[rows], weight[rows])

    def _log_prob(self, X: Tensor) -> Tensor:
        return self.stack_.log_prob(X)

    def _search(
        self, candidates: dict[str, ClassDensity], X: Tensor, index: Tensor, weight: Tensor, folds: Sequence[Fold]
    ) -> None:
        """Evaluate all candidates, on a subsample of many rows; those with a weight are evaluated on more rows."""
        (n, d), k = X.shape, len(self.classes_)
        order, log_prior = stratified_order(index.numpy()), torch.from_numpy(np.log(self.class_prior_))
        max_rows = max(MIN_SEARCH_ROWS, min(MAX_SEARCH_VALUES // d, MAX_SEARCH_SCORES // k))
        reports: dict[str, dict[str, Any]] = {}
        for bound in (min(MAX_SEARCH_ROWS, max_rows), MAX_WEIGHTING_ROWS):
            rows = np.sort(order[: max(bound, 2 * k)])  # at least a training row and a held-out row of each class
            sample = CrossValSample.of_rows(X, index, weight, folds, rows)
            evaluation = _Evaluation.of(candidates, sample, log_prior, self.method)
            reports |= {report["name"]: report for report in evaluation.reports()}
            candidates = evaluation.candidates
            if len(rows) == n or current_fit().time_left <= 0.0:
                break
            if bound != MAX_WEIGHTING_ROWS:
                candidates = {name: candidates[name] for name in evaluation.selected_names()}
        self.candidates_, self.choice_, self.fold_choices_ = candidates, evaluation.choice, evaluation.fold_choices
        self.held_out_ = np.full((n, k), np.nan)
        self.held_out_[rows] = evaluation.held_out.numpy()
        selected = self.choice_.weight.nonzero()[:, 0].tolist()
        self.names_ = [list(candidates)[m] for m in selected]
        self.weights_ = self.choice_.weight[selected].numpy()
        self.temperatures_ = self.choice_.temperature[selected].numpy()
        members = zip(self.names_, self.weights_.tolist(), self.temperatures_.tolist(), strict=True)
        self.report_ = {
            "method": self.method,
            "chosen": [
                {"name": name, "weight": weight, "temperature": heat}
                for name, weight, heat in sorted(members, key=lambda m: -m[1])
            ],
            **evaluation.scores(),
            "candidates": list(reports.values()),
            "folds": len(folds),
            "rows": len(evaluation.sample.X),
            "fitted_rows": min(n, MAX_FIT_ROWS),
        }


class _Evaluation(NamedTuple):
    """Held-out log-densities of candidates, and the temperatures and weights chosen by them."""

    candidates: dict[str, ClassDensity]
    sample: CrossValSample
    log_prob: Tensor  # (M, n, k), less the largest of each row, in single precision: most of the memory of a search
    log_prior: Tensor  # (k,)
    choice: Stacking
    fold_choices: list[Stacking]  # choices of each fold by the rows of the others
    held_out: Tensor  # out-of-fold log-posterior of the stack, (n, k); NaN for a row without one

    @classmethod
    def of(
        cls, candidates: dict[str, ClassDensity], sample: CrossValSample, log_prior: Tensor, method: str
    ) -> _Evaluation:
        """Cross-validate the candidates, and weight them on all rows and on the rows outside of each fold."""
        unfitted = [clone(density) for density in candidates.values()]
        log_prob = sample.X.new_empty(len(unfitted), len(sample.X), len(log_prior), dtype=torch.float32)
        log_proba = sample.X.new_empty(len(TEMPERATURES), len(unfitted), len(sample.X))
        done: list[int] = []
        shared, transform = share_transform(unfitted, sample.X, sample.weight)
        for indices, values in held_out_log_prob(shared, transform, sample):
            log_proba[:, indices] = log_proba_of_true_class(values, log_prior, sample.classes)
            largest = values.amax(-1, keepdim=True)
            log_prob[indices] = values.sub_(largest.masked_fill_(~largest.isfinite(), 0.0)).float()
            done += indices
        if len(done) < len(candidates):
            current_fit().truncations.append(f"it chooses among {len(done)} of {len(candidates)} densities")
            done = sorted(done)
            candidates = {name: candidates[name] for name in np.array(list(candidates))[done].tolist()}
            log_prob, log_proba = log_prob[done], log_proba[:, done]
        mask = sample.out_of_fold
        min_weight = torch.tensor([density.min_stack_weight for density in candidates.values()])
        choice = fit_stacking(log_proba[..., mask], sample.weight[mask], method, min_weight)
        fold_choices, held_out = [], torch.full_like(log_prob[0], torch.nan, dtype=log_proba.dtype)
        for rows in sample.valid:
            others = mask.clone()
            others[rows] = False
            if bool(others.any()):
                fold_choices.append(fit_stacking(log_proba[..., others], sample.weight[others], method, min_weight))
            else:  # a single fold
                fold_choices.append(choice)
            held_out[rows] = fold_choices[-1].log_posterior(log_prob[:, rows], log_prior).double()
        held_out[~mask] = torch.nan
        return cls(candidates, sample, log_prob, log_prior, choice, fold_choices, held_out)

    def selected_names(self) -> list[str]:
        """Return the names of the candidates with a weight in any of the choices."""
        weights = torch.stack([choice.weight for choice in (self.choice, *self.fold_choices)])
        return [name for name, weight in zip(self.candidates, weights.amax(0), strict=True) if weight > 0]

    def scores(self) -> dict[str, float]:
        """Return the scores of the stack."""
        mask = self.sample.out_of_fold
        log_proba, index, weight = self.held_out[mask], self.sample.classes[mask], self.sample.weight[mask]
        error = float(calibration_error(log_proba.numpy(), index.numpy(), weight.numpy()))
        return {**_scores(log_proba, index, weight), "calibration_error": error}

    def reports(self) -> list[dict[str, Any]]:
        """Return the scores of each candidate at its best temperature."""
        mask, reports = self.sample.out_of_fold, []
        index, weight = self.sample.classes[mask], self.sample.weight[mask]
        for name, heat, log_prob in zip(self.candidates, self.choice.temperature.tolist(), self.log_prob, strict=True):
            values = log_prob[mask].double()
            posterior = log_posterior(values, self.log_prior, heat).log_proba
            log_proba = torch.where(is_defined(values)[..., None], posterior, torch.nan)
            reports.append({"name": name, "temperature": heat, **_scores(log_proba, index, weight), "rows": len(mask)})
        return reports


def _scores(log_proba: Tensor, index: Tensor, weight: Tensor) -> dict[str, float]:
    arrays = (log_proba.clamp_min(MIN_LOG_PROBA).numpy(), index.numpy(), weight.numpy())
    return {"log_loss": float(log_loss(*arrays)), "accuracy": float(accuracy(*arrays))}
