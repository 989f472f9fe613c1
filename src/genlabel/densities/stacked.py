"""Class densities that were chosen, tempered and weighed by what they say of points they have not seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor

from genlabel._arrays import as_numpy, as_tensor, like
from genlabel._progress import out_of_time, report_truncation
from genlabel._splits import Fold, fold_numbers, make_folds, round_robin_folds, training_rows
from genlabel._standardization import Standardization
from genlabel._validation import check_choice, suppress_own_warnings, warn
from genlabel.densities._crossval import CrossValSample, stratified_order
from genlabel.densities._validation_split import held_out_log_prob
from genlabel.densities.base import ClassDensity, CrossFittedDensity, DensityWarning
from genlabel.densities.candidates import named_candidates
from genlabel.densities.power_transform import share_transform
from genlabel.densities.stacking import (
    FITTED_ROWS,
    MOST,
    TEMPERATURES,
    WORST,
    Stacking,
    WeightedDensities,
    log_posterior_of_truth,
    log_posterior_where_known,
    stacked,
    weigh,
)
from genlabel.metrics import accuracy, calibration_error, log_loss

JUDGED_ROWS, WEIGHED_ROWS = 3_000, 12_000
"""Rows on which all candidates are judged, and on which those that get a weight are weighed again."""
JUDGED_NUMBERS, JUDGED_SCORES, LEAST_JUDGED_ROWS = 400_000, 150_000, 500
"""With many features or classes all candidates are judged on fewer rows: so many numbers, so many log-densities of a
candidate, but not fewer rows than that."""


@final
class StackedDensity(ClassDensity):
    """A stack of densities, chosen among many by cross-validation.

    Every candidate is fitted without each fold in turn; its held-out log-densities choose its temperature (by
    log-loss) and then the weights of all candidates (by the likelihood of the mixed posterior). Those that keep a
    weight are fitted to all points, as a :class:`WeightedDensities` of standardised features.

    Standardization and the Yeo-Johnson map of the warped candidates see no labels; in the search they are fitted once,
    to all rows. Of a table of more than 3,000 rows (or 400,000 numbers, but not fewer than 500 rows), so many judge all
    candidates; those that got a weight are weighed again by 12,000 rows. The chosen ones are fitted to all rows, or to
    200,000 of them, with a :class:`DensityWarning`; a kernel density has at most 1,000 kernels a class. How many rows
    had a say is `report_["rows"]`, and to how many the members were fitted "fitted_rows".

    Parameters
    ----------
    candidates : "default", sequence or dict of ClassDensity
        "default" is the 48 of :func:`default_candidates`: discriminant analyses, kernels and mixtures, on the features
        as they are and warped, and a forest.
    cv : int, splitter or iterable of (train, valid)
        Stratified folds, or row numbers or masks. A class with fewer points means fewer folds, with a warning; a class
        that a fold would take away from training stays there.
    method : "stack" or "select"
        Weights for several candidates, or the single one of the least held-out log-loss.
    cross_fit : bool
        Also fit the stack without each pair of folds, for :meth:`log_prob_of_pairs`.
    random_state : int, Generator or None
        For the folds.

    Attributes
    ----------
    stack_ : WeightedDensities
        What answers.
    names_, members_, weights_, temperatures_
        Of the chosen members.
    held_out_ : ndarray (n, k)
        Log posterior of the stack for every row, from fits without its fold, tempered and weighed by what was held out
        in the other folds; NaN for a row in no fold, for one that had to stay in training for its class's sake, and for
        one beyond those that had a say.
    fold_ : ndarray (n,) or None
        With `cross_fit`, the fold of each row.
    report_ : dict
        "method", "folds", "rows", "chosen" and "candidates" (lists of dicts), and the "log_loss", "accuracy" and
        "calibration_error" of `held_out_`. (Those of a candidate are at the temperature that suits it best, on the
        "rows" that judged it last.)

    Rows of weight 0 count as absent here, in numbering too.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 40)
    >>> X = rng.normal(size=(80, 2)) + 2 * y[:, None]
    >>> model = StackedDensity().fit(X, y)
    >>> len(model.report_["candidates"]), model.held_out_.shape
    (48, (80, 2))
    >>> model.report_["accuracy"] > 0.8
    True
    """

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
        """Say what the words among the parameters stand for: the candidates, by name, and by what rows they are judged.

        >>> len(StackedDensity().resolved_config()["candidates"])
        48
        """
        rows = (JUDGED_ROWS, WEIGHED_ROWS, JUDGED_NUMBERS, JUDGED_SCORES, LEAST_JUDGED_ROWS, FITTED_ROWS)
        return {"candidates": named_candidates(self.candidates), "rows": rows, "members": MOST}

    @property
    def default_priors(self) -> str:
        """Those of the training points, with which it is calibrated."""
        return "empirical"

    @property
    def cross_fitted(self) -> bool:
        """Whether it has been fitted without each pair of folds."""
        return bool(self.pairs_)

    @property
    def supports_latent_space(self) -> bool:
        """No: where the features have seen the labels, no row is held out."""
        return False

    @property
    def is_calibrated(self) -> bool:
        """Yes: it is calibrated on held-out rows."""
        return True

    def prepare_for_cv(
        self, X: Any, y: Any, sample_weight: Any, folds: Callable[[], Sequence[Fold]], seed: Any
    ) -> CrossFittedDensity:
        """Choose over the folds: each has the stack that the held-out rows of the others chose.

        One that is cross-fitted is fitted whole, with folds of its own, to the rows of each fold.
        """
        if self.cross_fit:
            return super().prepare_for_cv(X, y, sample_weight, folds, seed)
        pairs = list(folds())
        chosen = clone(self).set_params(cv=pairs, random_state=seed).fit(X, y, sample_weight)
        return CrossFittedDensity(chosen.stack_, [chosen.frozen(fold) for fold in range(len(pairs))], chosen)

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        check_choice("method", self.method, ["stack", "select"])
        candidates = self._affordable(named_candidates(self.candidates), *X.shape)
        standardised = Standardization.fit(X, weight, keep_constant=True)(X)
        pairs = make_folds(
            self.cv, index.numpy(), self.random_state, round_robin_folds, classes=self.classes_, X=X.numpy()
        )
        if len(X) > FITTED_ROWS:
            warn(
                "rows",
                f"StackedDensity: {len(X)} rows; its members are fitted to {FITTED_ROWS} of them",
                DensityWarning,
            )
        with suppress_own_warnings():
            self._search(candidates, _Sample(standardised, index, weight), pairs)
            # Without weights that say nothing, it is to the last digit the stack that anyone else fits to these points.
            weights = None if bool((weight == 1).all()) else weight
            self.stack_ = self.frozen().fit(X, self.classes_[index.numpy()], weights)
            self.members_ = self.stack_.members_
            self.fold_ = fold_numbers(pairs, len(X)) if self.cross_fit else None
            self.pairs_ = self._fit_pairs(self.fold_, X, index, weight) if self.fold_ is not None else {}

    def _affordable(self, candidates: dict[str, ClassDensity], n: int, d: int) -> dict[str, ClassDensity]:
        """The candidates; those by default have none whose time grows too fast with many rows or features."""
        if not isinstance(self.candidates, str):
            return candidates
        excess = {name: density.excess(n, d) for name, density in candidates.items()}
        for found in dict.fromkeys(excess.values()):
            if found is not None:
                message = f"StackedDensity: {found.reason}; no {found.kind} among the candidates"
                warn(found.kind, message, DensityWarning)
        return {name: density for name, density in candidates.items() if excess[name] is None}

    def _log_prob(self, X: Tensor) -> Tensor:
        return self.stack_.log_prob(X)

    def frozen(self, fold: int | None = None) -> WeightedDensities:
        """Return the chosen stack, not fitted: the same members, weights and temperatures for other rows.

        With `fold`, as the held-out rows of the other folds chose.
        """
        choice = self.choice_ if fold is None else self.fold_choices_[fold]
        kept = choice.weight.nonzero()[:, 0].tolist()
        members = [clone(list(self.candidates_.values())[m]) for m in kept]
        weights, heats = choice.weight[kept].tolist(), choice.temperature[kept].tolist()
        return WeightedDensities(members, weights, heats, standardize=True)

    def log_prob_of_pairs(self, X: Any, rows: Any, partner_rows: Any, lam: Any = None, points: Any = None) -> Any:
        """Return log p_c of mixed points, each by a stack that saw neither the fold of its row nor of its partner's.

        Without `cross_fit`, the same as :meth:`log_prob`. Weights and temperatures are those chosen on all rows.
        """
        if self.fold_ is None:
            return self.log_prob(X)
        x = as_tensor(X)
        first, second = self.fold_[as_numpy(rows)], self.fold_[as_numpy(partner_rows)]
        found = x.new_empty(len(x), len(self.classes_))
        for (low, high), stack in self.pairs_.items():
            of_pair = (np.minimum(first, second) == low) & (np.maximum(first, second) == high)
            if of_pair.any():
                shift = torch.from_numpy(np.log(stack.class_prior_) - np.log(self.class_prior_)).to(x)
                place = torch.from_numpy(np.flatnonzero(of_pair)).to(x.device)
                found[place] = stack.log_prob(x[place]) + shift
        return like(found, X)

    def _search(self, candidates: dict[str, ClassDensity], sample: _Sample, pairs: Sequence[Fold]) -> None:
        """Judge all candidates, on some of the rows where there are many; those with a weight are judged on more."""
        n, d = sample.X.shape
        order = stratified_order(sample.classes.numpy())
        everyone: dict[str, dict[str, Any]] = {}
        k = len(self.classes_)
        few = max(LEAST_JUDGED_ROWS, min(JUDGED_NUMBERS // d, JUDGED_SCORES // k))
        for most, last in ((min(JUDGED_ROWS, few), False), (WEIGHED_ROWS, True)):
            rows = np.sort(order[: max(most, 2 * k)])  # a row of each class to be held out, and one to be trained on
            judged = self._judge(candidates, _folded(sample, pairs, rows))
            candidates = judged.candidates
            everyone |= {row["name"]: row for row in judged.report(list(candidates))}
            kept = judged.kept()
            if len(rows) == n or out_of_time():
                break
            if not last:
                candidates = {name: candidates[name] for name in np.array(list(candidates))[kept].tolist()}
        self._adopt(candidates, judged, rows, n)
        self.report_ = self._report(judged, everyone)

    def _judge(self, candidates: dict[str, ClassDensity], folds: CrossValSample) -> _Judged:
        """Weigh the candidates by their held-out log-densities: on all rows, and on those outside of each fold."""
        log_prior = torch.from_numpy(np.log(self.class_prior_))
        reached, log_prob, truth = _ask([clone(density) for density in candidates.values()], folds, log_prior)
        if len(reached) < len(candidates):
            report_truncation(f"it chooses among {len(reached)} of {len(candidates)} densities")
            candidates = {name: candidates[name] for name in np.array(list(candidates))[reached].tolist()}
            log_prob, truth = log_prob[reached], truth[:, reached]
        seen = folds.honest
        least = torch.tensor([density.min_stack_weight for density in candidates.values()])
        choice = weigh(truth[..., seen], folds.weight[seen], self.method, least)
        choices, held_out = [], torch.full_like(log_prob[0], torch.nan, dtype=truth.dtype)
        for rows in folds.valid:
            others = seen.clone()
            others[rows] = False
            usable = bool(others.any())  # a single fold has no others
            choices.append(weigh(truth[..., others], folds.weight[others], self.method, least) if usable else choice)
            held_out[rows] = stacked(log_prob[:, rows], log_prior, choices[-1]).double()
        held_out[~seen] = torch.nan
        return _Judged(candidates, folds, log_prob, log_prior, choice, choices, held_out)

    def _adopt(self, candidates: dict[str, ClassDensity], judged: _Judged, rows: NDArray[np.intp], n: int) -> None:
        """Keep what was chosen."""
        self.candidates_, self.choice_, self.fold_choices_ = candidates, judged.choice, judged.fold_choices
        self.held_out_ = np.full((n, len(self.classes_)), np.nan)
        self.held_out_[rows] = judged.held_out.numpy()
        kept = self.choice_.weight.nonzero()[:, 0].tolist()
        self.names_ = [list(candidates)[m] for m in kept]
        self.weights_, self.temperatures_ = (part[kept].numpy() for part in self.choice_[::-1])

    def _report(self, judged: _Judged, everyone: dict[str, dict[str, Any]]) -> dict[str, Any]:
        members = zip(self.names_, self.weights_.tolist(), self.temperatures_.tolist(), strict=True)
        chosen = [{"name": name, "weight": share, "temperature": heat} for name, share, heat in members]
        seen = judged.folds.honest
        logs, index, weight = judged.held_out[seen], judged.folds.classes[seen], judged.folds.weight[seen]
        return {
            "method": self.method,
            "chosen": sorted(chosen, key=lambda member: -member["weight"]),
            **_measures(logs, index, weight),
            "calibration_error": float(calibration_error(logs.numpy(), index.numpy(), weight.numpy())),
            "candidates": list(everyone.values()),
            "folds": len(self.fold_choices_),
            "rows": len(judged.folds.X),
            "fitted_rows": min(len(self.held_out_), FITTED_ROWS),
        }

    def _fit_pairs(
        self, fold: NDArray[np.intp], X: Tensor, index: Tensor, weight: Tensor
    ) -> dict[tuple[int, int], WeightedDensities]:
        """The stack without each fold, and without each two."""
        count = int(fold.max()) + 1
        labels, found = self.classes_[index.numpy()], {}
        for low in range(count):
            for high in range(low, count):
                others = np.flatnonzero((fold != low) & (fold != high))
                rows = training_rows(others, index.numpy())
                found[low, high] = self.frozen().fit(X[rows], labels[rows], weight[rows])
        return found


class _Sample(NamedTuple):
    """Standardised points, with the numbers of their classes, and weights."""

    X: Tensor
    classes: Tensor
    weight: Tensor


class _Judged(NamedTuple):
    """What candidates say of rows that they have not seen, and how they were weighed for it."""

    candidates: dict[str, ClassDensity]
    folds: CrossValSample
    log_prob: Tensor
    """(M, n, k), less the largest of each row, in single precision: it is most of the memory of a search."""
    log_prior: Tensor
    """(k,)"""
    choice: Stacking
    fold_choices: list[Stacking]
    """For each fold, by the rows of the others."""
    held_out: Tensor
    """(n, k): log posterior of the stack, NaN for a row that is not held out."""

    def kept(self) -> NDArray[np.intp]:
        """The numbers of the candidates that have a weight, in whichever choice."""
        weights = torch.stack([choice.weight for choice in (self.choice, *self.fold_choices)])
        return np.flatnonzero(weights.amax(0).numpy() > 0)

    def report(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """How well each candidate does, at the temperature that suits it best."""
        seen, found = self.folds.honest, []
        index, weight = self.folds.classes[seen], self.folds.weight[seen]
        for name, heat, values in zip(names, self.choice.temperature.tolist(), self.log_prob, strict=True):
            logs = log_posterior_where_known(values[seen].double(), self.log_prior, heat)
            found.append({"name": name, "temperature": heat, **_measures(logs, index, weight), "rows": len(seen)})
        return found


def _ask(
    candidates: Sequence[ClassDensity], folds: CrossValSample, log_prior: Tensor
) -> tuple[list[int], Tensor, Tensor]:
    """What candidates say of held-out rows (M, n, k), and the log posterior of the rows' classes, at each temperature.

    What a family says is dropped before the next is asked. The numbers are those of the candidates that were asked: all
    of them, if there is time.
    """
    reached: list[int] = []
    log_prob = folds.X.new_empty(len(candidates), len(folds.X), len(log_prior), dtype=torch.float32)
    truth = folds.X.new_empty(len(TEMPERATURES), len(candidates), len(folds.X))
    for numbers, answer in held_out_log_prob(*share_transform(candidates, folds.X, folds.weight), folds):
        truth[:, numbers] = log_posterior_of_truth(answer, log_prior, folds.classes)
        top = answer.amax(-1, keepdim=True)
        log_prob[numbers] = answer.sub_(top.masked_fill_(~top.isfinite(), 0.0)).float()
        reached += numbers
    return sorted(reached), log_prob, truth


def _folded(sample: _Sample, pairs: Sequence[Fold], rows: NDArray[np.intp]) -> CrossValSample:
    """Some rows of a sample, and what the folds are among them; a class that a fold would take away stays."""
    inside = np.full(len(sample.X), -1)
    inside[rows] = np.arange(len(rows))
    index = sample.classes.numpy()[rows]
    masks, valid = [], []
    for fold in pairs:
        here, asked = inside[fold.train], inside[fold.valid]
        masks.append(training_rows(here[here >= 0], index))
        valid.append(torch.from_numpy(asked[asked >= 0]))
    X, classes, weight = (part[rows] for part in sample)
    return CrossValSample(X, classes, weight, torch.from_numpy(np.stack(masks)), valid)


def _measures(log_posterior: Tensor, index: Tensor, weight: Tensor) -> dict[str, float]:
    scores = (log_posterior.clamp_min(WORST).numpy(), index.numpy(), weight.numpy())
    return {"log_loss": float(log_loss(*scores)), "accuracy": float(accuracy(*scores))}
