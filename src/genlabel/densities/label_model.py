"""Class densities that were chosen, tempered and weighed by what they say of points they have not seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor

from genlabel.arrays import as_numpy, as_tensor, like
from genlabel.checks import check_choice, no_warnings, warn
from genlabel.densities.base import ClassDensity, DensityWarning, FoldedDensity
from genlabel.densities.candidates import named_candidates
from genlabel.densities.folded import FoldedSample
from genlabel.densities.held_out import held_out_log_prob
from genlabel.densities.stack import (
    WORST,
    StackDensity,
    log_posterior_of_truth,
    log_posterior_where_known,
    stacked,
    weigh,
)
from genlabel.densities.warped import share_warp
from genlabel.folds import Fold, deal_in_turn, fold_numbers, make_folds, training_rows
from genlabel.metrics import accuracy, calibration_error, log_loss
from genlabel.standardisation import Standardisation

__all__ = ["LabelModel"]


@final
class LabelModel(ClassDensity):
    """A stack of densities, chosen among many by cross-validation.

    Every candidate is fitted without each fold in turn; its held-out log-densities choose its temperature (by
    log-loss) and then the weights of all candidates (by the likelihood of the mixed posterior). Those that keep a
    weight are fitted to all points, as a :class:`StackDensity` of standardised features.

    Standardisation and the Yeo-Johnson map of the warped candidates see no labels; in the search they are fitted once,
    to all rows. The time for kernels grows with the square of the number of rows: beyond 10,000, the default has none;
    nor has it tied mixtures beyond 100 features.

    Parameters
    ----------
    candidates : "default", sequence or dict of ClassDensity
        "default" is the 47 of :func:`default_candidates`: discriminant analyses, kernels and mixtures, on the features
        as they are and warped.
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
    stack_ : StackDensity
        What answers.
    names_, members_, weights_, temperatures_
        Of the chosen members.
    held_out_ : ndarray (n, k)
        Log posterior of the stack for every row, from fits without its fold, tempered and weighed by what was held out
        in the other folds; NaN for a row in no fold, and for one that had to stay in training for its class's sake.
    fold_ : ndarray (n,) or None
        With `cross_fit`, the fold of each row.
    report_ : dict
        "method", "folds", "chosen" and "candidates" (lists of dicts), and the "log_loss", "accuracy" and
        "calibration_error" of `held_out_`. (Those of a candidate are at the temperature that suits it best.)

    Rows of weight 0 count as absent here, in numbering too.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = np.repeat([0, 1], 40)
    >>> X = rng.normal(size=(80, 2)) + 2 * y[:, None]
    >>> model = LabelModel().fit(X, y)
    >>> len(model.report_["candidates"]), model.held_out_.shape
    (47, (80, 2))
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

    def in_full(self) -> dict[str, Any]:
        """Say what the words among the parameters stand for: the candidates, by name.

        >>> len(LabelModel().in_full()["candidates"])
        47
        """
        return {"candidates": named_candidates(self.candidates)}

    @property
    def default_priors(self) -> str:
        """Those of the training points, with which it is calibrated."""
        return "empirical"

    @property
    def cross_fitted(self) -> bool:
        """Whether it has been fitted without each pair of folds."""
        return bool(self.pairs_)

    @property
    def may_be_latent(self) -> bool:
        """No: where the features have seen the labels, no row is held out."""
        return False

    @property
    def averaged_by_default(self) -> bool:
        """Yes: it is calibrated on held-out rows."""
        return True

    def over_folds(
        self, X: Any, y: Any, sample_weight: Any, folds: Callable[[], Sequence[Fold]], seed: Any
    ) -> FoldedDensity:
        """Choose over the folds: each has the stack that the held-out rows of the others chose.

        One that is cross-fitted is fitted whole, with folds of its own, to the rows of each fold.
        """
        if self.cross_fit:
            return super().over_folds(X, y, sample_weight, folds, seed)
        pairs = list(folds())
        chosen = clone(self).set_params(cv=pairs, random_state=seed).fit(X, y, sample_weight)
        return FoldedDensity(chosen.stack_, [chosen.frozen(fold) for fold in range(len(pairs))], chosen)

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        check_choice("method", self.method, ["stack", "select"])
        candidates = self._affordable(named_candidates(self.candidates), *X.shape)
        standardised = Standardisation.fit(X, weight, keep_constant=True)(X)
        pairs = make_folds(self.cv, index.numpy(), self.random_state, deal_in_turn, classes=self.classes_, X=X.numpy())
        train = torch.from_numpy(np.stack([training_rows(fold.train, index.numpy()) for fold in pairs]))
        folds = FoldedSample(standardised, index, weight, train, [torch.from_numpy(fold.valid) for fold in pairs])
        with no_warnings():
            self._choose(candidates, folds)
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
                message = f"LabelModel: {found.reason}; no {found.kind} among the candidates"
                warn(found.kind, message, DensityWarning)
        return {name: density for name, density in candidates.items() if excess[name] is None}

    def _log_prob(self, X: Tensor) -> Tensor:
        return self.stack_.log_prob(X)

    def frozen(self, fold: int | None = None) -> StackDensity:
        """Return the chosen stack, not fitted: the same members, weights and temperatures for other rows.

        With `fold`, as the held-out rows of the other folds chose.
        """
        choice = self.choice_ if fold is None else self.fold_choices_[fold]
        kept = choice.weight.nonzero()[:, 0].tolist()
        members = [clone(list(self.candidates_.values())[m]) for m in kept]
        weights, heats = choice.weight[kept].tolist(), choice.temperature[kept].tolist()
        return StackDensity(members, weights, heats, standardize=True)

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

    def _choose(self, candidates: dict[str, ClassDensity], folds: FoldedSample) -> None:
        """Weigh the candidates by their held-out log-densities: on all rows, and on those outside of each fold."""
        members = [clone(density) for density in candidates.values()]
        log_prob = held_out_log_prob(*share_warp(members, folds.X, folds.weight), folds)
        log_prior = torch.from_numpy(np.log(self.class_prior_))
        seen = folds.honest
        truth = log_posterior_of_truth(log_prob, log_prior, folds.classes)
        self.choice_ = weigh(truth[..., seen], folds.weight[seen], self.method)
        self.fold_choices_, held_out = [], torch.full_like(log_prob[0], torch.nan)
        for rows in folds.valid:
            others = seen.clone()
            others[rows] = False
            usable = bool(others.any())  # a single fold has no others
            choice = weigh(truth[..., others], folds.weight[others], self.method) if usable else self.choice_
            self.fold_choices_.append(choice)
            held_out[rows] = stacked(log_prob[:, rows], log_prior, choice)
        held_out[~seen] = torch.nan
        self.held_out_ = held_out.numpy()
        self.candidates_ = candidates
        kept = self.choice_.weight.nonzero()[:, 0].tolist()
        self.names_ = [list(candidates)[m] for m in kept]
        self.weights_, self.temperatures_ = (part[kept].numpy() for part in self.choice_[::-1])
        self.report_ = self._report(log_prob[:, seen], held_out[seen], folds.classes[seen], folds.weight[seen])

    def _report(self, log_prob: Tensor, held_out: Tensor, index: Tensor, weight: Tensor) -> dict[str, Any]:
        members = zip(self.names_, self.weights_.tolist(), self.temperatures_.tolist(), strict=True)
        chosen = [{"name": name, "weight": share, "temperature": heat} for name, share, heat in members]
        log_prior, heats = torch.from_numpy(np.log(self.class_prior_)), self.choice_.temperature
        everyone = []
        for name, heat, values in zip(self.candidates_, heats.tolist(), log_prob, strict=True):
            logs = log_posterior_where_known(values, log_prior, heat)
            everyone.append({"name": name, "temperature": heat, **_measures(logs, index, weight)})
        return {
            "method": self.method,
            "chosen": sorted(chosen, key=lambda member: -member["weight"]),
            **_measures(held_out, index, weight),
            "calibration_error": float(calibration_error(held_out.numpy(), index.numpy(), weight.numpy())),
            "candidates": everyone,
            "folds": len(self.fold_choices_),
        }

    def _fit_pairs(
        self, fold: NDArray[np.intp], X: Tensor, index: Tensor, weight: Tensor
    ) -> dict[tuple[int, int], StackDensity]:
        """The stack without each fold, and without each two."""
        count = int(fold.max()) + 1
        labels, found = self.classes_[index.numpy()], {}
        for low in range(count):
            for high in range(low, count):
                others = np.flatnonzero((fold != low) & (fold != high))
                rows = training_rows(others, index.numpy())
                found[low, high] = self.frozen().fit(X[rows], labels[rows], weight[rows])
        return found


def _measures(log_posterior: Tensor, index: Tensor, weight: Tensor) -> dict[str, float]:
    scores = (log_posterior.clamp_min(WORST).numpy(), index.numpy(), weight.numpy())
    return {"log_loss": float(log_loss(*scores)), "accuracy": float(accuracy(*scores))}
