"""The short paired run: a network trained plainly, on mixup's blends, and on the same with the stacked density's
labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import add
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from genlabel._arrays import as_rng
from genlabel._progress import Callback, ProgressEvent, use_callback
from genlabel._splits import make_folds, stratified_folds_rare
from genlabel._validation import suppress_own_warnings
from genlabel.estimators import GenLabelClassifier
from genlabel.evaluation.diagnosis.intervals import Gap, mean_gap
from genlabel.evaluation.prediction_counts import PredictionCounts
from genlabel.labeling import GenLabel
from genlabel.metrics import LEAST_PROBABILITY
from genlabel.mixing import MixParams, Mixup, blend
from genlabel.model_selection import TrainingOptions

ARMS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "vanilla": lambda params: params["clean_fraction"] == 1.0,
    "mixup": lambda params: params["clean_fraction"] < 1.0 and params["gamma"] == 0.0,
    "GenLabel": lambda params: params["clean_fraction"] < 1.0 and params["gamma"] == 1.0,
}
"""The three arms, as parts of one search: each chooses among the same learning rates, weight decays and lengths."""
RATES, DECAYS = (0.03, 0.01), (1e-3, 1e-2)
"""Of the short search."""
BLENDS = 400
"""Blends of held-out rows and of training rows, at least, in each fold."""

Rows = NDArray[np.intp]
Values = NDArray[np.float64]


class PairedExperiment(NamedTuple):
    """What the three arms do on rows that were held out, once each; log-losses are in nats.

    It is the `trial` of what `diagnose` returns.
    """

    rows: int
    folds: int
    log_loss: dict[str, float]
    """By arm."""
    accuracy: dict[str, float]
    """By arm, 0 to 1."""
    gains: dict[str, Gap]
    """How much lower the log-loss of the first is: "mixup over vanilla", "GenLabel over vanilla" and "over mixup"."""
    affinity: dict[str, float]
    """Accuracy of the vanilla network on blends of held-out rows over that on the rows themselves (Gontijo-Lopes et
    al., 2020): the right answer is the likeliest class of mixup's label ("mixup"), or of the stacked density's
    ("GenLabel")."""
    diversity: dict[str, float]
    """Cross-entropy of an arm on fresh blends of its training rows, over that of vanilla on the rows themselves."""
    training_loss: dict[str, float]
    """The same cross-entropies, in nats: "vanilla" on rows, "mixup" and "GenLabel" on blends."""
    tallies: dict[str, PredictionCounts]
    """Counts of what each arm says of the held-out rows; classes are numbers here."""


class _Fold(NamedTuple):
    """What a fold says: losses and hits of its held-out rows; hits of blends; losses of training points."""

    loss: dict[str, Values]
    hit: dict[str, Values]
    on_blends: dict[str, float]
    training: dict[str, float]
    tallies: dict[str, PredictionCounts]


def train_arms(
    X: Values, y: NDArray[Any], alpha: float, clean_fraction: float, seed: int, groups: Rows | None = None
) -> dict[str, Any]:
    """Return the three arms, fitted to the same rows by one search; networks alone, without their stacked density.

    Parameters
    ----------
    X, y : arrays (n, d), (n,)
    alpha, clean_fraction : float
        Of the blends, and the share of the points of a batch that are not mixed, below 1.
    seed : int
    groups : array (n,), optional
        Numbers of groups that are held out together.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> list(train_arms(*load_iris(return_X_y=True), alpha=0.3, clean_fraction=0.75, seed=0))
    ['vanilla', 'mixup', 'GenLabel']
    """
    search = GenLabelClassifier(
        gamma=(0.0, 1.0),
        clean_fraction=(clean_fraction, 1.0),
        mixer=Mixup(alpha),
        pool_with_density=None,
        training=TrainingOptions(RATES, DECAYS),
        random_state=seed,
    )
    return search.fit_subsets(X, y, ARMS, groups=groups)


def run_trial(
    X: Values,
    index: Rows,
    folds: int,
    alpha: float,
    clean_fraction: float,
    seed: int,
    groups: Rows | None = None,
    classes: NDArray[Any] | None = None,
    tell: Callable[[float], None] = lambda done: None,
) -> PairedExperiment | None:
    """Train the three arms without each fold in turn, and measure them on it; None if there is nothing to hold out.

    Parameters
    ----------
    X : array (n, d)
        Numbers, not standardised.
    index : array (n,)
        Class numbers. The only row of a class is trained on and never held out.
    folds : int
    alpha, clean_fraction : float
        As of `train_arms`.
    seed : int
    groups : array (n,), optional
        Numbers of groups that are held out together.
    classes : array (k,), optional
        Their names, for warnings of those of few rows.
    tell : callable (share), optional
        Heard of how much is done.
    """
    parts = []
    for fold, rows in enumerate(
        make_folds(folds, index, seed, stratified_folds_rare, fewer=False, classes=classes, groups=groups)
    ):
        asked = np.isin(np.arange(len(index)), rows.valid)
        with (
            use_callback(_FoldProgress(tell, fold, folds)),
            suppress_own_warnings(),
        ):  # of classes that are few in a part
            others = None if groups is None else groups[~asked]
            arms = train_arms(X[~asked], index[~asked], alpha, clean_fraction, seed + fold, others)
        parts.append(_measure(arms, X, index, asked, alpha, as_rng([seed, fold])))
    return _gather(parts) if parts else None


class _FoldProgress(Callback):
    """Callback that reports the progress of one fold as that of all folds."""

    def __init__(self, report: Callable[[float], None], fold: int, folds: int) -> None:
        self.report, self.fold, self.folds = report, fold, folds

    def on_progress(self, event: ProgressEvent) -> None:
        self.report((self.fold + (event.fraction or 0.0)) / self.folds)


def _measure(
    arms: Mapping[str, Any], X: Values, index: Rows, asked: NDArray[np.bool_], alpha: float, rng: np.random.Generator
) -> _Fold:
    """What the arms of a fold say of its held-out rows, and of blends of them and of the others."""
    logs = {name: np.maximum(arm.predict_log_proba(X[asked]), np.log(LEAST_PROBABILITY)) for name, arm in arms.items()}
    truth, place = index[asked], np.arange(asked.sum())
    held = _Mixed.draw(X[asked], truth, alpha, rng)
    found = arms["vanilla"].predict_log_proba(held.points).argmax(1)
    hit = {name: (value.argmax(1) == truth).astype(np.float64) for name, value in logs.items()}
    top = {"mixup": held.top, "GenLabel": _relabel(arms["GenLabel"], held.points).argmax(1)}
    return _Fold(
        {name: -value[place, truth] for name, value in logs.items()},
        hit,
        {name: float((found == likeliest).mean()) for name, likeliest in top.items()},
        _training_loss(arms, X[~asked], index[~asked], alpha, rng),
        {name: PredictionCounts.of(value, truth, range(value.shape[1])) for name, value in logs.items()},
    )


class _Mixed(NamedTuple):
    """Blends of rows."""

    points: Values
    labels: Values
    """Mixup's, (m, k)."""
    top: Rows
    """The likeliest class of each, (m,)."""

    @classmethod
    def draw(cls, X: Values, index: Rows, alpha: float, rng: np.random.Generator) -> _Mixed:
        """Draw some hundreds of blends of rows with the class numbers `index`."""
        rows = np.tile(np.arange(len(X)), -(-BLENDS // len(X)))
        draw: MixParams = Mixup(alpha).draw(len(rows), rng)
        labels = blend(np.eye(int(index.max()) + 1)[index[rows]], draw)
        return cls(blend(X[rows], draw), labels, labels.argmax(1))


def _relabel(arm: Any, points: Values) -> Values:
    """The stacked density's labels of blends, (m, k)."""
    return np.exp(cast(GenLabel, arm.labeler_).log_posterior(arm.scaler_(points)))


def _training_loss(
    arms: Mapping[str, Any], X: Values, index: Rows, alpha: float, rng: np.random.Generator
) -> dict[str, float]:
    """Cross-entropy of each arm on points of the kind that it was trained on."""
    mixed = _Mixed.draw(X, index, alpha, rng)
    targets = {
        "vanilla": (X, np.eye(mixed.labels.shape[1])[index]),
        "mixup": (mixed.points, mixed.labels),
        "GenLabel": (mixed.points, _relabel(arms["GenLabel"], mixed.points)),
    }
    return {
        name: float(-(labels * np.maximum(arms[name].predict_log_proba(at), np.log(LEAST_PROBABILITY))).sum(1).mean())
        for name, (at, labels) in targets.items()
    }


def _gather(parts: list[_Fold]) -> PairedExperiment:
    """The rows of all folds together; what is of blends, in the mean over the folds."""
    fold = np.repeat(np.arange(len(parts)), [len(part.loss["vanilla"]) for part in parts])
    loss = {name: np.concatenate([part.loss[name] for part in parts]) for name in ARMS}
    accuracy = {name: float(np.concatenate([part.hit[name] for part in parts]).mean()) for name in ARMS}
    blended = {name: float(np.mean([part.on_blends[name] for part in parts])) for name in ("mixup", "GenLabel")}
    training = {name: float(np.mean([part.training[name] for part in parts])) for name in ARMS}
    pairs = [("mixup", "vanilla"), ("GenLabel", "vanilla"), ("GenLabel", "mixup")]
    return PairedExperiment(
        rows=len(loss["vanilla"]),
        folds=len(parts),
        log_loss={name: float(values.mean()) for name, values in loss.items()},
        accuracy=accuracy,
        gains={f"{one} over {other}": mean_gap(loss[other], loss[one], fold) for one, other in pairs},
        affinity={
            name: share / accuracy["vanilla"] if accuracy["vanilla"] else np.nan for name, share in blended.items()
        },
        diversity={name: training[name] / max(training["vanilla"], 1e-12) for name in ("mixup", "GenLabel")},
        training_loss=training,
        tallies={name: reduce(add, [part.tallies[name] for part in parts]) for name in ARMS},
    )
