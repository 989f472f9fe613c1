"""The paired experiment: networks trained plainly, with mixup, and with mixup labeled by the stacked density."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce
from operator import add
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genlabel._arrays import as_rng
from genlabel._progress import LambdaCallback, ProgressEvent, use_callback
from genlabel._validation import suppress_own_warnings
from genlabel.data.folds import make_folds
from genlabel.estimators import GenLabelClassifier
from genlabel.evaluation.diagnosis.density_check import MeanDifference, mean_difference
from genlabel.evaluation.prediction_counts import PredictionCounts
from genlabel.evaluation.records.run import map_in_processes
from genlabel.labeling import GenLabel
from genlabel.metrics import MIN_PROBABILITY, row_losses
from genlabel.mixing import Mixup
from genlabel.mixing.base import blend
from genlabel.model_selection.options import TrainingOptions

NO_MIXING = "no mixing"
MIXING_ARMS = ("mixup labels", "GenLabel labels")
ARMS: dict[str, Callable[[dict[str, Any]], bool]] = {
    NO_MIXING: lambda params: params["clean_fraction"] == 1.0,
    MIXING_ARMS[0]: lambda params: params["clean_fraction"] < 1.0 and params["gamma"] == 0.0,
    MIXING_ARMS[1]: lambda params: params["clean_fraction"] < 1.0 and params["gamma"] == 1.0,
}
"""The arms as subsets of the candidates of one search; they have the same learning rates, weight decays and epochs."""
COMPARISONS = ((MIXING_ARMS[0], NO_MIXING), (MIXING_ARMS[1], NO_MIXING), (MIXING_ARMS[1], MIXING_ARMS[0]))
"""Pairs of arms whose gains are measured; the first of a pair is the one that gains."""
LEARNING_RATES, WEIGHT_DECAYS = (0.03, 0.01), (1e-3, 1e-2)
MIN_MIXED = 400
"""Minimum number of mixed samples of the held-out rows, and of the training rows, in each fold."""
GRID_SIZE, GRID_MARGIN = (88, 64), 0.08
"""Cells of the plane along each feature, and the margin around the rows as a share of their range."""

Rows = NDArray[np.intp]
Values = NDArray[np.float64]


class PairedExperiment(NamedTuple):
    """Results of the three arms on rows that were held out, once each; the `experiment` of a :class:`Diagnosis`."""

    rows: int
    folds: int
    log_loss: dict[str, float]
    """Log-loss by arm, in nats."""
    accuracy: dict[str, float]
    """Accuracy by arm, 0 to 1."""
    gains: dict[str, MeanDifference]
    """Fall of the log-loss from the second arm of `COMPARISONS` to the first, by "first over second", with 90 %
    intervals."""
    affinity: dict[str, float]
    """Accuracy of plain training on mixed samples of held-out rows over its accuracy on the rows themselves
    (Gontijo-Lopes et al., 2020); the true class of a mixed sample is the top class of mixup's label ("mixup labels"),
    or of the stacked density's ("GenLabel labels")."""
    diversity: dict[str, float]
    """Cross-entropy of an arm on new mixed samples of its training rows over that of plain training on the rows."""
    training_loss: dict[str, float]
    """These cross-entropies, in nats: "no mixing" on rows, the others on mixed samples."""
    counts: dict[str, PredictionCounts]
    """Counts of the predictions of each arm on the held-out rows; classes are indices here."""

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each arm: its scores, its gain over plain training with interval, affinity and diversity."""
        gains = [self.gains[f"{arm} over {NO_MIXING}"] for arm in MIXING_ARMS]
        mean, low, high = (dict(zip(MIXING_ARMS, values, strict=True)) for values in zip(*gains, strict=True))
        columns = {"log_loss": self.log_loss, "accuracy": self.accuracy, "gain": mean, "gain_low": low}
        columns |= {"gain_high": high, "affinity": self.affinity, "diversity": self.diversity}
        return pd.DataFrame(columns, index=list(ARMS)).rename_axis("arm")


class DecisionRegions(NamedTuple):
    """Predicted classes over the plane of two features."""

    x: Values
    """Edges of the cells along the first feature, (89,)."""
    y: Values
    """Edges of the cells along the second feature, (65,)."""
    regions: dict[str, Rows]
    """Class indices (64, 88) by the name of the model; the first row is that of the smallest y."""


def train_arms(
    X: Values, y: NDArray[Any], alpha: float, clean_fraction: float, seed: int, groups: Rows | None = None
) -> dict[str, Any]:
    """Return the three arms, fitted to the same rows by one search: networks alone, not pooled with the density.

    Mixing weights are lam ~ Beta(alpha, alpha); `clean_fraction`, below 1, is the share of the points of a batch that
    are not mixed. Each of the groups (n,) is held out as a whole.
    """
    search = GenLabelClassifier(
        gamma=(0.0, 1.0),
        clean_fraction=(clean_fraction, 1.0),
        mixer=Mixup(alpha),
        pool_with_density=None,
        training=TrainingOptions(LEARNING_RATES, WEIGHT_DECAYS),
        random_state=seed,
    )
    return search.fit_subsets(X, y, ARMS, groups=groups)


def run_paired_experiment(
    X: Values,
    index: Rows,
    folds: int,
    alpha: float,
    clean_fraction: float,
    seed: int,
    groups: Rows | None = None,
    classes: NDArray[Any] | None = None,
    on_progress: Callable[[float], None] = lambda done: None,
    n_jobs: int = 1,
) -> PairedExperiment | None:
    """Train the three arms without each fold in turn and measure them on it; None if no row can be held out.

    The only row of a class is trained on and never held out. `classes` (k,) are names for warnings about rare classes;
    `on_progress` receives the share of the work that is done; `n_jobs` is the number of processes, which does not
    change the result. See `train_arms` for the rest.
    """
    tests = [
        np.isin(np.arange(len(index)), fold.valid)
        for fold in make_folds(folds, index, seed, "rare", classes=classes, groups=groups)
    ]
    calls = [(X, index, test, alpha, clean_fraction, seed, number, groups) for number, test in enumerate(tests)]
    results: list[_FoldResult] = []
    if n_jobs == 1:
        for number, arguments in enumerate(calls):

            def report(event: ProgressEvent, number: int = number) -> None:
                on_progress((number + (event.fraction or 0.0)) / folds)

            with use_callback(LambdaCallback(on_progress=report)):
                results.append(_run_fold(*arguments))
    else:
        for result in map_in_processes(_run_fold, calls, n_jobs, return_as="generator"):
            results.append(result)
            on_progress(len(results) / len(calls))
    if not results:
        return None

    def combine(name: str, function: Callable[[list[Any]], Any]) -> dict[str, Any]:
        return {arm: function([result[name][arm] for result in results]) for arm in results[0][name]}

    fold_of_row = np.repeat(np.arange(len(results)), [len(result["loss"][NO_MIXING]) for result in results])
    loss, hit = combine("loss", np.concatenate), combine("hit", np.concatenate)
    accuracy = {arm: float(values.mean()) for arm, values in hit.items()}
    mixed_accuracy = combine("mixed_accuracy", lambda values: float(np.mean(values)))
    training_loss = combine("training_loss", lambda values: float(np.mean(values)))
    return PairedExperiment(
        rows=len(fold_of_row),
        folds=len(results),
        log_loss={arm: float(values.mean()) for arm, values in loss.items()},
        accuracy=accuracy,
        gains={
            f"{arm} over {rival}": mean_difference(loss[rival], loss[arm], fold_of_row) for arm, rival in COMPARISONS
        },
        affinity={
            arm: value / accuracy[NO_MIXING] if accuracy[NO_MIXING] else np.nan for arm, value in mixed_accuracy.items()
        },
        diversity={arm: training_loss[arm] / max(training_loss[NO_MIXING], 1e-12) for arm in MIXING_ARMS},
        training_loss=training_loss,
        counts=combine("counts", partial(reduce, add)),
    )


_FoldResult = dict[str, dict[str, Any]]
"""Measurements of one fold, by name and arm: those of the rows (m,), means over mixed samples, counts."""


def _run_fold(
    X: Values,
    index: Rows,
    test: NDArray[np.bool_],
    alpha: float,
    clean_fraction: float,
    seed: int,
    number: int,
    groups: Rows | None,
) -> _FoldResult:
    """Train the arms without the rows of a mask, and measure them there."""
    train_groups = None if groups is None else groups[~test]
    with suppress_own_warnings():  # of classes rare in a fold
        arms = train_arms(X[~test], index[~test], alpha, clean_fraction, seed + number, train_groups)
    return _measure_fold(arms, X, index, test, alpha, as_rng([seed, number]))


def _measure_fold(
    arms: Mapping[str, Any], X: Values, index: Rows, test: NDArray[np.bool_], alpha: float, rng: np.random.Generator
) -> _FoldResult:
    """Measure the arms on the held-out rows of a fold, on mixed samples of them, and on mixed training rows."""

    mixup_arm, genlabel_arm = MIXING_ARMS
    genlabel = arms[genlabel_arm]

    def log_proba_of(arm: str, points: Values) -> Values:
        return np.maximum(arms[arm].predict_log_proba(points), np.log(MIN_PROBABILITY))

    def density_labels(points: Values) -> Values:
        return np.exp(cast(GenLabel, genlabel.labeler_).log_posterior(genlabel.scaler_(points)))

    y_test = index[test]
    log_proba = {arm: log_proba_of(arm, X[test]) for arm in ARMS}
    mixed, labels = _mix_rows(X[test], y_test, alpha, rng)
    predicted = arms[NO_MIXING].predict_log_proba(mixed).argmax(1)
    mixed_classes = {mixup_arm: labels.argmax(1), genlabel_arm: density_labels(mixed).argmax(1)}
    X_train, y_train = X[~test], index[~test]
    mixed, labels = _mix_rows(X_train, y_train, alpha, rng)
    training = {
        NO_MIXING: (X_train, np.eye(labels.shape[1])[y_train]),
        mixup_arm: (mixed, labels),
        genlabel_arm: (mixed, density_labels(mixed)),
    }
    return {
        "loss": {arm: row_losses(values, y_test) for arm, values in log_proba.items()},
        "hit": {arm: values.argmax(1) == y_test for arm, values in log_proba.items()},
        "mixed_accuracy": {arm: (predicted == classes).mean() for arm, classes in mixed_classes.items()},
        "training_loss": {
            arm: -(targets * log_proba_of(arm, points)).sum(1).mean() for arm, (points, targets) in training.items()
        },
        "counts": {
            arm: PredictionCounts.of(values, y_test, range(values.shape[1])) for arm, values in log_proba.items()
        },
    }


def _mix_rows(X: Values, index: Rows, alpha: float, rng: np.random.Generator) -> tuple[Values, Values]:
    """Return at least `MIN_MIXED` mixed samples of rows (m, d) and mixup's labels (m, k)."""
    n_repeats = -(-MIN_MIXED // len(X))  # rounded up
    rows = np.tile(np.arange(len(X)), n_repeats)
    params = Mixup(alpha).draw(len(rows), rng)
    labels = blend(np.eye(int(index.max()) + 1)[index[rows]], params)
    return blend(X[rows], params), labels


def decision_regions(X: Values, models: Mapping[str, Callable[[Values], Any]]) -> DecisionRegions:
    """Predict the class of every cell of the plane around rows (n, 2); models return log-probabilities (m, k)."""
    edges = []
    for values, cells in zip(X.T, GRID_SIZE, strict=True):
        low, high = float(values.min()), float(values.max())
        margin = GRID_MARGIN * (high - low) or 1.0
        edges.append(np.linspace(low - margin, high + margin, cells + 1))
    centers = [(line[:-1] + line[1:]) / 2 for line in edges]
    points = np.stack(np.meshgrid(*centers), axis=-1).reshape(-1, 2)
    regions = {name: np.asarray(model(points)).argmax(1).reshape(GRID_SIZE[::-1]) for name, model in models.items()}
    return DecisionRegions(edges[0], edges[1], regions)
