"""The diagnosis of a table: trust first, then the blends, then a short paired run, and one verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genlabel._progress import FitProgress, track_fit
from genlabel._runtime import one_thread
from genlabel._splits import Fold, make_folds, round_robin_folds, training_rows
from genlabel._standardization import Standardization
from genlabel._validation import check_count, check_interval, check_positive, deduplicate_warnings
from genlabel.densities import StackedDensity, Typicality
from genlabel.estimators import GenLabelClassifier
from genlabel.estimators.validation import validate_fit_input
from genlabel.evaluation.diagnosis.density_check import measure_trust
from genlabel.evaluation.diagnosis.mixed_samples import (
    MOST_PAIRS,
    MixedSampleStats,
    evaluate_mixed_samples,
    lambda_frame,
    pair_frame,
    permuted_shares,
)
from genlabel.evaluation.diagnosis.paired_experiment import run_trial, train_arms
from genlabel.evaluation.diagnosis.plane import Plane, decision_regions
from genlabel.evaluation.diagnosis.result import Diagnosis
from genlabel.evaluation.diagnosis.verdict import decide, untrusted_verdict
from genlabel.labeling import GenLabel
from genlabel.model_selection.splits import LabeledData


def diagnose(
    X: Any,
    y: Any,
    *,
    groups: Any = None,
    alpha: float = 0.3,
    clean_fraction: float = 0.75,
    blends: int = 4000,
    folds: int = 4,
    max_rows: int = 2000,
    random_state: int = 0,
    verbose: int = 0,
) -> Diagnosis:
    """Say whether mixing would help on a table, with whose labels, and why.

    First, whether the stacked density knows the classes, on rows that it has not seen; if not, the diagnosis ends
    there.
    Then blends of every pair of classes: whether they land among another class (beside the same with permuted labels),
    whether they are like any row, and how far mixup's labels are from the stacked density's. At last three networks
    that
    differ in their blends alone, on the same held-out rows: their gains are the verdict.

    Parameters
    ----------
    X : array or DataFrame (n, d)
        As for a classifier: missing numbers are medians, text and categories are columns.
    y : array (n,)
        Class labels.
    groups : array (n,), optional
        Rows of a group (of a person, copies of a row) are held out together.
    alpha : float
        Of lam ~ Beta(alpha, alpha); 0.3 is what the classifiers use, 1 the paper's.
    clean_fraction : float in [0, 0.99]
        Share of the points of a batch that the paired run leaves as they are; 0.75 is what the classifiers use where
        they mix, 0 the paper's.
    blends : int
        Blends to look at, about; as many of each pair of classes, but 20 at least.
    folds : int
        Of the paired run.
    max_rows : int
        Of more rows, so many are looked at, stratified.
    random_state : int
    verbose : int
        Above 0, show the stage on the error stream.

    Returns
    -------
    Diagnosis

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> diagnosis = diagnose(*load_iris(return_X_y=True), folds=2)
    >>> diagnosis.trust.trusted
    True
    >>> list(diagnosis.to_frame("pairs").columns[:3])
    ['class_1', 'class_2', 'weight']
    """
    check_positive("alpha", alpha, "1 draws lam uniformly")
    check_interval("clean_fraction", clean_fraction, 0.0, 0.99, "1 would mix nothing, and there is nothing to compare")
    settings = {
        "alpha": alpha,
        "clean_fraction": clean_fraction,
        "blends": check_count("blends", blends),
        "folds": check_count("folds", folds, low=2),
        "max_rows": check_count("max_rows", max_rows, low=10),
        "random_state": check_count("random_state", random_state, low=0),
    }
    with deduplicate_warnings(), one_thread(), track_fit(verbose, "diagnose") as course:
        sample, _ = validate_fit_input(GenLabelClassifier(), X, y, None, None, smallest_class=1, groups=groups)
        patient = _Patient(_some(sample, max_rows, random_state), settings, _notes(sample, max_rows), course)
        course.plan(
            {"stacked density": 1.0, "blends": 1.0, "paired run": 8.0} | ({"plane": 2.5} if patient.has_plane else {})
        )
        return patient.diagnose(len(sample.y))


@final
class _Patient:
    """The rows that are looked at, and all that is asked of them in turn."""

    def __init__(self, sample: LabeledData, settings: dict[str, Any], notes: list[str], course: FitProgress) -> None:
        self.sample, self.settings, self.notes, self.course = sample, settings, notes, course
        self.seed = int(settings["random_state"])
        self.points: NDArray[np.float64] = Standardization.fit(sample.X)(sample.X)
        self.index = sample.y.astype(np.intp)

    def diagnose(self, n: int) -> Diagnosis:
        """Ask in turn; stop where the stacked density is not trusted."""
        with self.course.stage("stacked density"):
            model = StackedDensity(cv=self._folds(), random_state=self.seed).fit(self.points, self.index)
            trust = measure_trust(model, self.points, self.index, self.seed, self.sample.groups)
        table = (trust, n, self.sample.X.shape[1], self.sample.classes, self.settings, self.notes)
        if not trust.trusted:
            return Diagnosis(untrusted_verdict(trust.reasons), *table)
        with self.course.stage("blends"):
            blends = self._look(model)
        with self.course.stage("paired run"):
            how = (self.settings["folds"], self.settings["alpha"], self.settings["clean_fraction"], self.seed)
            about = (self.sample.groups, self.sample.classes)
            trial = run_trial(self.sample.X, self.index, *how, *about, tell=lambda done: self.course.update(done, 1.0))
        plane = None
        if self.has_plane and trial is not None:
            with self.course.stage("plane"):
                plane = self._look_over(model)
        return Diagnosis(decide(trust, blends, trial), *table, blends, trial, plane)

    @property
    def has_plane(self) -> bool:
        """Whether the table has two features, neither of them constant."""
        return self.sample.X.shape[1] == self.points.shape[1] == 2

    def _look_over(self, model: StackedDensity) -> Plane:
        """The regions of the classes, of the stacked density and of the three networks, trained on all rows."""
        how = (self.settings["alpha"], self.settings["clean_fraction"], self.seed)
        arms = train_arms(self.sample.X, self.sample.classes[self.index], *how, self.sample.groups)
        scaler, labels = Standardization.fit(self.sample.X), GenLabel.from_fitted(model)
        asked: dict[str, Callable[[NDArray[np.float64]], Any]] = {
            name: arm.predict_log_proba for name, arm in arms.items()
        }
        return decision_regions(self.sample.X, asked | {"stacked density": lambda at: labels.log_posterior(scaler(at))})

    def _folds(self) -> list[Fold]:
        """Those that the stacked density would deal itself, but with the names of the classes, and groups together."""
        classes, groups = self.sample.classes, self.sample.groups
        return make_folds(StackedDensity().cv, self.index, self.seed, round_robin_folds, classes=classes, groups=groups)

    def _look(self, model: StackedDensity) -> MixedSampleStats:
        """The blends, the pairs of classes, and the same with permuted labels."""
        how = (self.settings["blends"], self.settings["alpha"], self.seed)
        support = Typicality(random_state=self.seed).fit(self.points, self.index)
        seen = evaluate_mixed_samples(model, support, self.points, self.index, *how)
        by_pair, permuted = permuted_shares(self.points, self.index, *how)
        pairs = self._named(pair_frame(seen, self.index, by_pair))
        lambdas = self._named(lambda_frame(seen, self.index))
        return MixedSampleStats(pairs, lambdas, tuple(permuted), seen, self.sample.rows, self.index, self.sample.X)

    def _named(self, frame: pd.DataFrame) -> pd.DataFrame:
        """A table with the names of the classes instead of their numbers."""
        classes = self.sample.classes
        named = frame.assign(first=classes[frame["first"]], second=classes[frame["second"]])
        return named.rename(columns={"first": "class_1", "second": "class_2"})


def _some(sample: LabeledData, most: int, seed: int) -> LabeledData:
    """A stratified part of many rows; each class keeps a row."""
    parts = -(-len(sample.y) // most)
    if parts == 1:
        return sample
    chosen = np.flatnonzero(round_robin_folds(sample.y.astype(np.intp), parts, seed) == 0)
    return sample.take(np.flatnonzero(training_rows(chosen, sample.y.astype(np.intp))))


def _notes(sample: LabeledData, most: int) -> list[str]:
    """What is left out of a large table."""
    k = len(sample.classes)
    notes = [f"{len(sample.y)} rows; about {most} of them were looked at"] if len(sample.y) > most else []
    if k * (k + 1) // 2 > MOST_PAIRS:
        notes.append(
            f"{k * (k + 1) // 2} pairs of classes; the {MOST_PAIRS} that mixup draws most often were looked at"
        )
    return notes
