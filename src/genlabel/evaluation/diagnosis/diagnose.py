"""The diagnosis of a table: a check of the stacked density, mixed samples, a short paired experiment, one verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genlabel._arrays import Standardization
from genlabel._progress import track_fit
from genlabel._runtime import one_thread
from genlabel._validation import check_count, check_interval, check_positive, deduplicate_warnings
from genlabel.data.folds import make_folds, round_robin_folds, training_rows
from genlabel.densities import StackedDensity
from genlabel.estimators import GenLabelClassifier
from genlabel.estimators.typicality import Typicality
from genlabel.estimators.validation import validate_fit_input
from genlabel.evaluation.diagnosis.density_check import check_density
from genlabel.evaluation.diagnosis.mixed_samples import (
    MAX_PAIRS,
    MixedSampleStats,
    evaluate_mixed_samples,
    lambda_table,
    pair_table,
    permuted_intrusion,
)
from genlabel.evaluation.diagnosis.paired_experiment import (
    DecisionRegions,
    decision_regions,
    run_paired_experiment,
    train_arms,
)
from genlabel.evaluation.diagnosis.result import Diagnosis
from genlabel.evaluation.diagnosis.verdict import decide_verdict, untrusted_verdict
from genlabel.labeling import GenLabel
from genlabel.model_selection.splits import LabeledData

Values = NDArray[np.float64]


def diagnose(
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    alpha: float = 0.3,
    clean_fraction: float = 0.75,
    n_mixed: int = 4000,
    cv: int = 4,
    max_rows: int = 2000,
    random_state: int = 0,
    verbose: int = 0,
) -> Diagnosis:
    """Find out whether mixing helps on a table, with which labels, and why.

    The stacked density is checked on held-out rows first; if it is no better than the class priors, the diagnosis ends.
    Then mixed samples of every pair of classes are drawn: do they land among another class (compared with permuted
    labels), are they like any row, how far are mixup's labels from those of the stacked density? Last, three networks
    that differ in nothing but their mixed samples are measured on the same held-out rows; the verdict is their gains.

    Parameters
    ----------
    X : array or DataFrame (n, d)
        Features as for a classifier: missing values are imputed by medians, string columns are encoded.
    y : array (n,)
        Class labels.
    groups : array (n,), optional
        Group of each row, such as a person, or copies of a row; a group is held out as a whole.
    alpha : float
        Parameter of the mixing weights lam ~ Beta(alpha, alpha); 0.3 is that of the classifiers, 1 that of the paper.
    clean_fraction : float in [0, 0.99]
        Share of the points of a batch that are not mixed in the experiment; 0.75 is that of the classifiers where they
        mix, 0 that of the paper.
    n_mixed : int
        Approximate number of mixed samples, as many for each pair of classes, at least 20.
    cv : int
        Number of folds of the paired experiment.
    max_rows : int
        Larger tables are subsampled to about this number of rows, stratified by class.
    random_state : int
    verbose : int
        Above 0, show the progress on the error stream.

    Returns
    -------
    Diagnosis

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> diagnosis = diagnose(*load_iris(return_X_y=True), cv=2)
    >>> diagnosis.density_check.trusted
    True
    >>> list(diagnosis.to_frame("pairs").columns[:3])
    ['class_1', 'class_2', 'weight']
    """
    check_positive("alpha", alpha, "1 draws lam uniformly")
    check_interval("clean_fraction", clean_fraction, 0.0, 0.99, "1 would mix nothing")
    settings = {
        "alpha": alpha,
        "clean_fraction": clean_fraction,
        "n_mixed": check_count("n_mixed", n_mixed),
        "cv": check_count("cv", cv, low=2),
        "max_rows": check_count("max_rows", max_rows, low=10),
        "random_state": check_count("random_state", random_state, low=0),
    }
    with deduplicate_warnings(), one_thread(), track_fit(verbose, "diagnose") as progress:
        data, _ = validate_fit_input(GenLabelClassifier(), X, y, None, None, smallest_class=1, groups=groups)
        n, notes = len(data.y), _size_notes(data, max_rows)
        data = _subsample(data, max_rows, random_state)
        points, index = Standardization.fit(data.X)(data.X), data.y.astype(np.intp)
        in_plane = data.X.shape[1] == points.shape[1] == 2  # two features, neither of them constant
        stages = {"stacked density": 1.0, "mixed samples": 1.0, "paired experiment": 8.0}
        progress.plan(stages | ({"decision regions": 2.5} if in_plane else {}))
        with progress.stage("stacked density"):
            density = _fit_density(data, points, index, random_state)
            check = check_density(density, points, index, random_state, data.groups)
        about = (check, n, data.X.shape[1], data.classes, settings, notes)
        if not check.trusted:
            return Diagnosis(untrusted_verdict(check.reasons), *about)
        with progress.stage("mixed samples"):
            mixed = _measure_mixed_samples(data, density, points, index, n_mixed, alpha, random_state)
        arm_settings = (alpha, clean_fraction, random_state)
        with progress.stage("paired experiment"):
            experiment = run_paired_experiment(
                data.X, index, cv, *arm_settings, data.groups, data.classes, lambda done: progress.update(done, 1.0)
            )
        regions = None
        if in_plane and experiment is not None:
            with progress.stage("decision regions"):
                arms = train_arms(data.X, data.classes[index], *arm_settings, data.groups)
                regions = _decision_regions(data.X, arms, density)
        return Diagnosis(decide_verdict(check, mixed, experiment), *about, mixed, experiment, regions)


def _size_notes(data: LabeledData, max_rows: int) -> list[str]:
    """Return sentences about rows and pairs of classes that are left out of a large table."""
    k = len(data.classes)
    pairs = k * (k + 1) // 2
    notes = [f"{len(data.y)} rows; a stratified sample of about {max_rows} was used"] if len(data.y) > max_rows else []
    if pairs > MAX_PAIRS:
        notes.append(f"{pairs} pairs of classes; the {MAX_PAIRS} that mixup draws most often were used")
    return notes


def _subsample(data: LabeledData, max_rows: int, seed: int) -> LabeledData:
    """Return a stratified subsample of a large table, with a row of each class at least."""
    parts = -(-len(data.y) // max_rows)
    if parts == 1:
        return data
    index = data.y.astype(np.intp)
    chosen = np.flatnonzero(round_robin_folds(index, parts, seed) == 0)
    return data.take(np.flatnonzero(training_rows(chosen, index)))


def _fit_density(data: LabeledData, points: Values, index: NDArray[np.intp], seed: int) -> StackedDensity:
    """Fit the stacked density on its default folds, but with groups held out as a whole and classes called by name."""
    folds = make_folds(StackedDensity().cv, index, seed, classes=data.classes, groups=data.groups)
    return StackedDensity(cv=folds, random_state=seed).fit(points, index)


def _measure_mixed_samples(
    data: LabeledData,
    density: StackedDensity,
    points: Values,
    index: NDArray[np.intp],
    count: int,
    alpha: float,
    seed: int,
) -> MixedSampleStats:
    """Measure mixed samples, and their intrusion with permuted labels; tables have the names of the classes."""
    typicality = Typicality(random_state=seed).fit(points, index)
    samples = evaluate_mixed_samples(density, typicality, points, index, count, alpha, seed)
    by_pair, permuted = permuted_intrusion(points, index, count, alpha, seed)

    def with_names(frame: pd.DataFrame) -> pd.DataFrame:
        named = frame.assign(first=data.classes[frame["first"]], second=data.classes[frame["second"]])
        return named.rename(columns={"first": "class_1", "second": "class_2"})

    pairs, lambdas = with_names(pair_table(samples, index, by_pair)), with_names(lambda_table(samples, index))
    return MixedSampleStats(pairs, lambdas, tuple(permuted), samples, data.rows, index, data.X)


def _decision_regions(X: Values, arms: dict[str, Any], density: StackedDensity) -> DecisionRegions:
    """Return the decision regions of the three networks, trained on all rows, and of the stacked density."""
    scaler, labeler = Standardization.fit(X), GenLabel.from_fitted(density)
    models: dict[str, Callable[[Values], Any]] = {name: arm.predict_log_proba for name, arm in arms.items()}
    models["stacked density"] = lambda points: labeler.log_posterior(scaler(points))
    return decision_regions(X, models)
