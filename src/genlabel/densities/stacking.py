"""Choice among candidate densities by cross-validation: held-out log-densities, temperatures and weights of a stack."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor

from genlabel._arrays import chunks
from genlabel._progress import current_fit
from genlabel.data.folds import Fold
from genlabel.densities.base import MIN_STACK_WEIGHT, ClassDensity
from genlabel.densities.posterior import log_posterior
from genlabel.densities.samples import MAX_CHUNK_VALUES, CrossValSample, stratified_order
from genlabel.densities.transformed import PowerTransform, share_transform, split_transform
from genlabel.metrics import accuracy, calibration_error, log_loss

MAX_SEARCH_ROWS, MAX_WEIGHTING_ROWS = 3_000, 12_000
"""Rows on which all candidates are evaluated, and on which those with a weight are weighted again."""
MAX_SEARCH_VALUES, MAX_SEARCH_SCORES, MIN_SEARCH_ROWS = 400_000, 150_000, 500
"""Largest rows x features and rows x classes of the first evaluation, unless that leaves fewer rows than the third."""
TEMPERATURES = tuple(2.0 ** (step / 2) for step in range(13))  # grid of temperatures: 1 to 64 in steps of sqrt 2
MIN_LOG_PROBA = math.log(1e-15)  # bound on log-probabilities in a log-loss, so that a single point does not decide
EM_ROUNDS = ((40, 1e-3), (60, 5e-3), (100, 0.0))
"""Rounds of EM for the weights: number of steps, and fraction of the largest weight below which a candidate goes."""
EM_EXPONENT = 1.8  # exponent of each EM factor (over-relaxation): about half as many steps are needed
MAX_MEMBERS = 6  # members of a stack: more take longer and do not improve held-out log-loss
MAX_LOG_RATIO = 60.0  # bound on log-ratios of densities before exp


class Evaluation(NamedTuple):
    """Candidates that were cross-validated on some rows, and the temperatures and weights that these rows chose."""

    candidates: dict[str, ClassDensity]
    choice: Stacking
    fold_choices: list[Stacking]  # choice for each fold, by the rows of the others
    held_out: Tensor  # out-of-fold log-posterior of the stack, (rows, k); NaN for a row without one
    scores: dict[str, float]  # of the stack
    reports: dict[str, dict[str, Any]]  # scores of each candidate at its best temperature, by name
    rows: NDArray[np.intp] = np.arange(0)  # rows of the sample in the training set


def search(
    candidates: dict[str, ClassDensity],
    X: Tensor,
    index: Tensor,
    weight: Tensor,
    folds: Sequence[Fold],
    log_prior: Tensor,
    method: str,
) -> Evaluation:
    """Evaluate all candidates on a subsample, then those with a weight, in the stack or in a fold, on more rows."""
    (n, d), k = X.shape, len(log_prior)
    order = stratified_order(index.numpy())
    max_rows = max(MIN_SEARCH_ROWS, min(MAX_SEARCH_VALUES // d, MAX_SEARCH_SCORES // k))
    reports: dict[str, dict[str, Any]] = {}
    for bound in (min(MAX_SEARCH_ROWS, max_rows), MAX_WEIGHTING_ROWS):
        rows = np.sort(order[: max(bound, 2 * k)])  # at least a training row and a held-out row of each class
        sample = CrossValSample.of_rows(X, index, weight, folds, rows)
        evaluation = evaluate(candidates, sample, log_prior, method)
        reports |= evaluation.reports
        if len(rows) == n or current_fit().time_left <= 0.0:
            break
        weights = torch.stack([choice.weight for choice in (evaluation.choice, *evaluation.fold_choices)]).amax(0)
        pairs = zip(evaluation.candidates.items(), weights, strict=True)
        candidates = {name: density for (name, density), largest in pairs if largest > 0}
    return evaluation._replace(rows=rows, reports=reports)


def evaluate(candidates: dict[str, ClassDensity], sample: CrossValSample, log_prior: Tensor, method: str) -> Evaluation:
    """Cross-validate the candidates, and weight them on all rows and on the rows outside of each fold."""
    unfitted = [clone(density) for density in candidates.values()]
    # Log p_c (M, n, k) less the largest of each row, in single precision: most of the memory of a search.
    log_prob = sample.X.new_empty(len(unfitted), len(sample.X), len(log_prior), dtype=torch.float32)
    log_proba = sample.X.new_empty(len(TEMPERATURES), len(unfitted), len(sample.X))
    done: list[int] = []  # candidates that were evaluated; the time limit may end the loop
    transform = share_transform(unfitted, sample.X, sample.weight)
    for indices, values in held_out_log_prob(unfitted, transform, sample):
        log_proba[:, indices] = log_proba_of_true_class(values, log_prior, sample.classes)
        largest = values.amax(-1, keepdim=True)
        log_prob[indices] = values.sub_(largest.masked_fill_(~largest.isfinite(), 0.0)).float()
        done += indices
    if len(done) < len(candidates):
        current_fit().truncations.append(f"it chooses among {len(done)} of {len(candidates)} densities")
        done.sort()
        candidates = {name: candidates[name] for index, name in enumerate(candidates) if index in done}
        log_prob, log_proba = log_prob[done], log_proba[:, done]
    mask = sample.out_of_fold
    min_weight = torch.tensor([density.min_stack_weight for density in candidates.values()])
    choice = fit_stacking(log_proba[..., mask], sample.weight[mask], method, min_weight)
    fold_choices = []
    held_out = torch.full_like(log_prob[0], torch.nan, dtype=log_proba.dtype)
    for valid in sample.valid:
        others = mask.clone()
        others[valid] = False
        fold_choice = choice  # that of all rows for a single fold
        if bool(others.any()):
            fold_choice = fit_stacking(log_proba[..., others], sample.weight[others], method, min_weight)
        fold_choices.append(fold_choice)
        held_out[valid] = fold_choice.log_posterior(log_prob[:, valid], log_prior).double()
    held_out[~mask] = torch.nan
    index, weight = sample.classes[mask], sample.weight[mask]
    error = float(calibration_error(held_out[mask].numpy(), index.numpy(), weight.numpy()))
    scores = {**_scores(held_out[mask], index, weight), "calibration_error": error}
    reports = {}
    for name, temperature, values in zip(candidates, choice.temperature.tolist(), log_prob[:, mask], strict=True):
        posterior = log_posterior(values.double(), log_prior, temperature).log_proba
        posterior = torch.where(values.amax(-1, keepdim=True) < torch.inf, posterior, torch.nan)
        own_scores = _scores(posterior, index, weight)
        reports[name] = {"name": name, "temperature": temperature, **own_scores, "rows": len(sample.X)}
    return Evaluation(candidates, choice, fold_choices, held_out, scores, reports)


def _scores(log_proba: Tensor, index: Tensor, weight: Tensor) -> dict[str, float]:
    """Return the log-loss and the accuracy of log-probabilities (n, k)."""
    arrays = (log_proba.clamp_min(MIN_LOG_PROBA).numpy(), index.numpy(), weight.numpy())
    return {"log_loss": float(log_loss(*arrays)), "accuracy": float(accuracy(*arrays))}


@runtime_checkable
class BatchedCrossValidation(Protocol):
    """A density that is cross-validated together with others of its family, which share computations."""

    @property
    def cv_family(self) -> Hashable | None:
        """Densities of equal families are cross-validated together; None is cross-validated alone."""

    def held_out_log_prob(self, sample: CrossValSample, densities: Sequence[Any]) -> Tensor:
        """Return log p_c (M, n, k) of densities of the family, by models fitted without the row; NaN for others."""


def held_out_log_prob(
    candidates: Sequence[ClassDensity], transform: PowerTransform | None, sample: CrossValSample
) -> Iterator[tuple[list[int], Tensor]]:
    """Yield indices of candidates of a family and their log p_c (m, n, k), each row by models fitted without it.

    The time limit of the fit ends the iteration early. Candidates that share `transform` are fitted to its output. Rows
    that are in no validation part are NaN.
    """
    batches: dict[Hashable, list[int]] = defaultdict(list)
    split = [split_transform(candidate, transform) for candidate in candidates]
    for index, (density, is_transformed) in enumerate(split):
        family = density.cv_family if isinstance(density, BatchedCrossValidation) else None
        batches[is_transformed, family, index if family is None else None].append(index)
    transformed_X, log_jacobian = (None, None) if transform is None else transform(sample.X)
    progress = current_fit()
    for done, indices in enumerate(batches.values(), start=1):
        densities = [split[index][0] for index in indices]
        density, is_transformed = split[indices[0]]
        points = sample._replace(X=transformed_X) if transformed_X is not None and is_transformed else sample
        if isinstance(density, BatchedCrossValidation) and density.cv_family is not None:
            log_prob = density.held_out_log_prob(points, densities)
        else:
            log_prob = sample.empty_log_prob(1)
            for train, rows in zip(points.train, points.valid, strict=True):
                fitted = clone(density).fit(points.X[train], points.classes[train].numpy(), points.weight[train])
                log_prob[0, rows] = fitted.log_prob(points.X[rows])
        if log_jacobian is not None and is_transformed:
            log_prob += log_jacobian[:, None]
        yield indices, log_prob
        progress.update(done, len(batches))
        if progress.time_left <= 0.0:
            break


class Stacking(NamedTuple):
    """Temperatures (M,) and weights (M,) of M candidates; the weights sum to 1 and are 0 for those left out."""

    temperature: Tensor
    weight: Tensor

    def log_posterior(self, log_prob: Tensor, log_prior: Tensor) -> Tensor:
        """Return the log-posterior (n, k) of the stack from log p_c (M, n, k) of all candidates."""
        members = self.weight.nonzero()[:, 0]
        temperature = self.temperature[members, None, None]
        return mix_posteriors(log_posterior(log_prob[members], log_prior, temperature).log_proba, self.weight[members])


def fit_stacking(
    log_proba: Tensor, weight: Tensor, method: str, min_weight: Tensor | float = MIN_STACK_WEIGHT
) -> Stacking:
    """Choose the temperature of each candidate by log-loss, then the weights of the candidates.

    `log_proba` (temperatures, M, n) is the result of :func:`log_proba_of_true_class`. The method "stack" is that of
    :func:`stacking_weights`; "select" takes the candidate with the smallest log-loss.
    """
    losses, indices = (-(log_proba @ weight) / weight.sum()).min(0)
    best = log_proba[indices, torch.arange(log_proba.shape[1])]
    weights = torch.eye(len(losses)).to(best)[losses.argmin()]
    if method == "stack":
        weights = stacking_weights(best, weight, min_weight)
    return Stacking(torch.tensor(TEMPERATURES, dtype=best.dtype)[indices], weights)


def stacking_weights(log_proba: Tensor, weight: Tensor, min_weight: Tensor | float = MIN_STACK_WEIGHT) -> Tensor:
    """Return the weights (M,) that maximize the likelihood of the mixed posterior, by EM; at most 6 are not 0.

    `log_proba` (M, n) is the log-posterior of the true class of each point under each candidate. Candidates below
    `min_weight` are left out at the end, unless all weights are small; those that lose nearly all of their weight are
    left out on the way.

    >>> stacking_weights(torch.tensor([[0.9, 0.8], [0.5, 0.5]]).log(), torch.ones(2))
    tensor([1., 0.])
    """
    likelihood, share = log_proba.exp(), weight / weight.sum()
    indices, weights = torch.arange(len(log_proba)), likelihood.new_full((len(log_proba),), 1.0 / len(log_proba))
    floor = torch.as_tensor(min_weight, dtype=weights.dtype).expand(len(log_proba))
    for steps, min_ratio in EM_ROUNDS:
        weights = _em(weights, likelihood, share, steps)
        mask = weights >= min_ratio * weights.max()
        indices, weights, likelihood = indices[mask], weights[mask], likelihood[mask]
    weights = _drop_small(weights, floor[indices])
    mask = weights > 0
    indices = indices[mask]
    weights = _em(weights[mask], likelihood[mask], share, EM_ROUNDS[0][0])  # spreads the weight of dropped candidates
    return torch.zeros_like(log_proba[:, 0]).index_put_((indices,), _drop_small(weights, floor[indices]))


def _em(weights: Tensor, likelihood: Tensor, share: Tensor, steps: int) -> Tensor:
    """Return the weights (M,) after some EM steps, for likelihoods (M, n) of points with shares (n,)."""
    for _ in range(steps):
        weights = weights * (likelihood @ (share / (weights @ likelihood))) ** EM_EXPONENT
        weights = weights / weights.sum()
    return weights


def _drop_small(weights: Tensor, floor: Tensor) -> Tensor:
    """Return weights of sum 1 where those below their floor, and all but the 6 largest, are 0."""
    order = weights.sort(descending=True, stable=True).indices
    large = torch.where(weights < floor.clamp_max(0.2 * float(weights.max())), torch.zeros_like(weights), weights)
    large[order[MAX_MEMBERS:]] = 0.0
    return large / large.sum()


def mix_posteriors(log_posteriors: Tensor, weights: Tensor) -> Tensor:
    """Return log sum_m w_m posterior_m of log-posteriors (M, n, k)."""
    return (log_posteriors + weights.log()[:, None, None]).logsumexp(0)


def log_proba_of_true_class(log_prob: Tensor, log_prior: Tensor, index: Tensor) -> Tensor:
    """Return the log-posterior of each point's class at each temperature, (temperatures, M, n), from log p_c (M, n, k).

    -log sum_c exp((log p_c - log p_y) / T + log pi_c - log pi_y). Where a density is undefined this is the lower bound;
    where all densities of a candidate vanish it is the prior.
    """
    log_proba = log_prob.new_empty(len(TEMPERATURES), *log_prob.shape[:2])
    for rows in chunks(len(index), max(1, MAX_CHUNK_VALUES // max(1, log_prob[:, 0].numel()))):
        values, true = log_prob[:, rows], index[rows, None].expand(len(log_prob), -1, 1)
        largest = values.amax(-1)
        defined, vanishes = largest < torch.inf, largest == -torch.inf  # NaN is neither
        ratio = (values - values.gather(-1, true)).movedim(-1, 0).contiguous()
        offset = (log_prior[:, None] - log_prior[index[rows]])[:, None]
        prior = log_prior[index[rows]].expand_as(defined)
        for t, temperature in enumerate(TEMPERATURES):
            total = ratio.div(temperature).add_(offset).clamp_max_(MAX_LOG_RATIO).exp_().sum(0)
            logs = torch.where(vanishes, prior, total.log_().neg_())
            log_proba[t, :, rows] = logs.clamp_min_(MIN_LOG_PROBA).masked_fill_(~defined, MIN_LOG_PROBA)
    return log_proba
