"""The diagnosis of a table: a check of the stacked density, mixed samples, a short paired experiment, one verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, isnan
from typing import Any, NamedTuple, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genlabel._arrays import Standardization
from genlabel._progress import track_fit
from genlabel._runtime import one_thread
from genlabel._text import count_of, signed
from genlabel._validation import check_choice, check_count, check_interval, check_positive, deduplicate_warnings
from genlabel.data.folds import make_folds, round_robin_folds, training_rows
from genlabel.densities import StackedDensity
from genlabel.estimators import GenLabelClassifier
from genlabel.estimators.validation import validate_fit_input
from genlabel.evaluation.comparison import describe_gain
from genlabel.evaluation.diagnosis.density_check import DensityCheck, MeanDifference, check_density
from genlabel.evaluation.diagnosis.mixed_samples import (
    AVERAGED,
    MAX_PAIRS,
    MixedSampleStats,
    measure_mixed_samples,
)
from genlabel.evaluation.diagnosis.paired_experiment import (
    COMPARISONS,
    MIXING_ARMS,
    NO_MIXING,
    DecisionRegions,
    PairedExperiment,
    decision_regions,
    run_paired_experiment,
    train_arms,
)
from genlabel.evaluation.prediction_counts import Z_90, PredictionCounts
from genlabel.evaluation.records.schema import plain_values
from genlabel.labeling import GenLabel
from genlabel.model_selection.splits import LabeledData

NEGLIGIBLE_GAIN = 0.002
"""Difference of log-losses, in nats, that counts as none."""
MAX_NEGLIGIBLE = 0.02
"""Difference of log-losses, in nats, that does not matter; the intervals of "negligible" gains lie within it."""
SENTENCES = {
    "GenLabel": "Mixing helps here, if the mixed rows have GenLabel's labels.",
    "mixup": "Mixing helps here, with mixup's own labels.",
    NO_MIXING: "Mixing hurts here: train without it.",
    "not mixup": "Mixing with mixup's labels hurts here.",
    "negligible": f"Mixing does not matter here: it changes the log-loss by less than {MAX_NEGLIGIBLE} either way.",
    "unclear": "There are too few rows to tell whether mixing helps here.",
    "not trusted": "Whether mixing helps here is unclear, and GenLabel's labels cannot be trusted.",
    "not tried": "There are too few rows to hold any out, so mixing was not tried.",
}
"""Sentence of each verdict."""
TITLES = {
    "class_1": "class 1",
    "class_2": "class 2",
    "row_1": "row 1",
    "row_2": "row 2",
    "lam": "lambda",
    "mixup_label": "mixup's label",
    "density_label": "GenLabel's label",
    "total_variation": "label distance",
    "log_loss": "log-loss",
}
"""Titles of columns that are printed."""
MAX_PRINTED = 3
"""Rows of a table that are printed."""
MIN_PARENT_WEIGHT = 0.1
"""Weight of either parent in a printed mixed sample; with less weight it is nearly the other parent."""


class DiagnosisVerdict(NamedTuple):
    """Verdict of a diagnosis."""

    word: str
    """Key of `SENTENCES`."""
    sentence: str
    reasons: list[str]


@final
@dataclass(frozen=True, repr=False)
class Diagnosis:
    """Result of :func:`genlabel.diagnose`: print it, or get tables (`to_frame`) and plain values (`to_dict`)."""

    verdict: DiagnosisVerdict
    density_check: DensityCheck
    n: int
    """Number of rows."""
    d: int
    """Number of features."""
    classes: NDArray[Any]
    settings: dict[str, Any]
    notes: list[str]
    """Sentences about rows and pairs that were left out."""
    mixed: MixedSampleStats | None = None
    """Measurements of mixed samples; None where the stacked density is not trusted."""
    experiment: PairedExperiment | None = None
    """The paired experiment; None where no row can be held out."""
    regions: DecisionRegions | None = None
    """Decision regions, where there are two features and the stacked density is trusted."""

    @property
    def size(self) -> str:
        """Numbers of rows, features and classes in words."""
        return f"{count_of(self.n, 'row')}, {count_of(self.d, 'feature')}, {count_of(len(self.classes), 'class')}"

    @property
    def signals(self) -> dict[str, float]:
        """Numbers from which a rule may decide, by name; NaN for those that were not measured."""
        check, mixed, experiment = self.density_check, self.mixed, self.experiment
        signals = {
            "stacked density over class priors": check.over_prior.mean,
            "stacked density over logistic regression": check.over_logistic.mean,
            **(mixed.means if mixed is not None else dict.fromkeys(AVERAGED, np.nan)),
            "permuted intrusion": mixed.chance if mixed is not None else np.nan,
        }
        for name in (f"{arm} over {rival}" for arm, rival in COMPARISONS):
            mean, _, high = experiment.gains[name] if experiment is not None else (np.nan,) * 3
            signals[name] = mean
            signals[f"{name}, in standard errors"] = 0.0 if high == mean else Z_90 * mean / (high - mean)
        for name in MIXING_ARMS:
            signals[f"affinity, {name}"] = experiment.affinity[name] if experiment is not None else np.nan
            diversity = experiment.diversity[name] if experiment is not None else np.nan
            signals[f"log diversity, {name}"] = float(np.log(diversity))
        return signals

    @property
    def prediction_counts(self) -> dict[str, PredictionCounts]:
        """Counts of the held-out predictions of each arm of the paired experiment, with the names of the classes."""
        names = tuple(str(name) for name in self.classes)
        counts = {} if self.experiment is None else self.experiment.counts
        return {arm: replace(count, classes=names) for arm, count in counts.items()}

    def to_frame(self, what: str = "mixed_samples", n: int | None = 20) -> pd.DataFrame:
        """Return a table.

        Parameters
        ----------
        what : "mixed_samples", "pairs", "lambda" or "experiment"
            The mixed samples whose two labels differ most, with their parents (rows of your table), lambda (the weight
            of the first) and both labels; the pairs of classes, the clearest intrusion first (by the lower end of its
            interval); the distance of the labels by pair and lambda; the three arms of the paired experiment.
        n : int or None
            Number of rows; None returns all of them.
        """
        check_choice("what", what, ("mixed_samples", "pairs", "lambda", "experiment"))
        if what == "experiment" and self.experiment is not None:
            return self.experiment.to_frame()
        if what == "experiment" or self.mixed is None:
            raise ValueError(f"what={what!r} was not measured; diagnosis.verdict says why")
        if what == "mixed_samples":
            frame = self.mixed.to_frame(self.classes)
        elif what == "pairs":
            order = ["low", "intrusion", "total_variation"]
            frame = self.mixed.pairs.sort_values(order, ascending=False, ignore_index=True)
        else:
            frame = self.mixed.lambdas
        return frame if n is None else frame.head(check_count("n", n))

    def to_dict(self) -> dict[str, Any]:
        """Return all results as plain values for JSON; NaN and infinity are None."""
        check = self.density_check._asdict()
        check |= {name: check[name]._asdict() for name in ("over_prior", "over_logistic")}
        table = {"rows": self.n, "features": self.d, "classes": self.classes.tolist()}
        values: dict[str, Any] = {"verdict": self.verdict._asdict(), "table": table, "settings": self.settings}
        values |= {"notes": self.notes, "density_check": check, "signals": self.signals}
        if self.mixed is not None:
            values["overall"] = {**self.mixed.means, "permuted": self.mixed.permuted}
            values["pairs"] = self.to_frame("pairs", None).to_dict("records")
            values["lambda"] = self.mixed.lambdas.to_dict("records")
            values["mixed_samples"] = self.to_frame("mixed_samples").to_dict("records")
        if self.experiment is not None:
            counts = {name: count.to_dict() for name, count in self.prediction_counts.items()}
            gains = {name: gain._asdict() for name, gain in self.experiment.gains.items()}
            values["experiment"] = self.experiment._asdict() | {"counts": counts, "gains": gains}
        return plain_values(values)

    def __repr__(self) -> str:
        return f"<Diagnosis: {self.verdict.word}; {self.size}>"

    def __str__(self) -> str:
        check = self.density_check
        losses = {"stacked density": check.density, "logistic regression": check.logistic, "class priors": check.prior}
        parts = [
            f"Diagnosis of {self.size}\n\n{self.verdict.sentence}",
            "\n".join(f"- {reason}" for reason in self.verdict.reasons),
            f"Log-loss on unseen rows ({count_of(check.rows, 'row')}; lower is better)\n"
            + "\n".join(f"  {name:20} {value:.3f}" for name, value in losses.items()),
        ]
        if self.mixed is not None:
            heading = "Pairs of classes whose mixed rows land among another class (intrude) most clearly"
            parts.append(f"{heading}\n{_pairs_text(self.to_frame('pairs', MAX_PRINTED))}")
            columns = ["row_1", "row_2", "class_1", "class_2", "lam", "mixup_label", "density_label", "total_variation"]
            frame = self.to_frame("mixed_samples", None)
            has_both = frame["lam"].between(MIN_PARENT_WEIGHT, 1.0 - MIN_PARENT_WEIGHT)
            heading = "Mixed rows, with a tenth of either parent at least, whose labels differ most"
            parts.append(f"{heading}\n{_table_text(frame[has_both].head(MAX_PRINTED)[columns])}")
        if self.experiment is not None:
            rows, folds = count_of(self.experiment.rows, "row"), count_of(self.experiment.folds, "fold")
            heading = f"Short experiment: networks alone, {rows} held out in {folds}; gain: fall of log-loss"
            parts.append(f"{heading}\n{_arms_text(self.experiment.to_frame())}")
        if self.notes:
            parts.append("\n".join(f"note: {note}" for note in self.notes))
        return "\n\n".join(parts)


def _pairs_text(pairs: pd.DataFrame) -> str:
    """Return pairs of classes as text, with shares in percent."""
    titles = {"intrusion": "intrude %", "permuted": "random labels %", "atypical": "unlike any row %"}
    shares = {title: (100 * pairs[name]).map("{:.1f}".format) for name, title in titles.items()}
    ends = zip(100 * pairs["low"], 100 * pairs["high"], strict=True)
    shown = pairs.assign(**shares, **{"95 % interval": [f"{low:.0f} to {high:.0f}" for low, high in ends]})
    names = ["class_1", "class_2", "intrude %", "95 % interval", "random labels %", "unlike any row %"]
    return _table_text(shown[[*names, "total_variation"]])


def _arms_text(arms: pd.DataFrame) -> str:
    """Return the arms of the paired experiment as text, with the accuracy in percent."""
    gains, ends = [], []
    for gain, low, high in arms[["gain", "gain_low", "gain_high"]].to_numpy():
        gains.append("" if isnan(gain) else signed(gain))
        ends.append("" if isnan(gain) else f"{signed(low)} to {signed(high)}")
    accuracy = (100 * arms["accuracy"]).map("{:.1f}".format)
    shown = arms.reset_index(names="network").assign(gain=gains, **{"accuracy %": accuracy.to_numpy()})
    shown["90 % interval"] = ends
    return _table_text(shown[["network", "log_loss", "accuracy %", "gain", "90 % interval", "affinity", "diversity"]])


def _table_text(frame: pd.DataFrame) -> str:
    """Return a frame as text, with titles in words; NaN is empty."""
    return frame.rename(columns=TITLES).to_string(index=False, float_format="{:.3f}".format, na_rep="")


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
    n_jobs: int = 1,
) -> Diagnosis:
    """Find out whether mixing helps on a table, with which labels, and why.

    First, the stacked density is checked on held-out rows. If it is better than the class priors, mixed samples of
    every pair of classes are drawn: do they land among another class (compared with permuted labels), are they like any
    row, how far are mixup's labels from those of the stacked density? Last, three networks that differ only in their
    mixed samples are measured on the same held-out rows; their gains give the verdict.

    Parameters
    ----------
    X : array or DataFrame (n, d)
        Features as for a classifier: missing values are imputed by medians, string columns are encoded.
    y : array (n,)
        Class labels.
    groups : array (n,), optional
        Group of each row, such as a person, or a number shared by copies of a row; a group is held out as a whole.
    alpha : float
        Parameter of the mixing weights lam ~ Beta(alpha, alpha); 0.3 is that of the classifiers, 1 that of the paper.
    clean_fraction : float in [0, 0.99]
        Share of the points of a batch that are not mixed in the experiment; 0.75 is that of the classifiers where they
        mix, 0 that of the paper.
    n_mixed : int
        Approximate number of mixed samples, the same for each pair of classes and at least 20.
    cv : int
        Number of folds of the paired experiment.
    max_rows : int
        Larger tables are subsampled to about this number of rows, stratified by class.
    random_state : int
    verbose : int
        Above 0, show the progress on the error stream.
    n_jobs : int
        Number of processes of the paired experiment, one for each fold at most; the result does not depend on it.

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
    check_count("n_jobs", n_jobs)
    with deduplicate_warnings(), one_thread(), track_fit(verbose, "diagnose") as progress:
        data, _ = validate_fit_input(GenLabelClassifier(), X, y, None, None, smallest_class=1, groups=groups)
        n_rows, names = len(data.y), data.classes
        data, notes = _limit_size(data, max_rows, random_state)
        scaler, index = Standardization.fit(data.X), data.y.astype(np.intp)
        points = scaler(data.X)
        in_plane = data.X.shape[1] == points.shape[1] == 2  # two features, neither of them constant
        stages = {"stacked density": 1.0, "mixed samples": 1.0, "paired experiment": 8.0}
        progress.plan(stages | ({"decision regions": 2.5} if in_plane else {}))
        with progress.stage("stacked density"):
            # the default folds, but with groups held out as a whole and the names of the classes in warnings
            folds = make_folds(StackedDensity().cv, index, random_state, classes=names, groups=data.groups)
            density = StackedDensity(cv=folds, random_state=random_state).fit(points, index)
            check = check_density(density, points, index, random_state, data.groups)
        mixed = None
        if check.trusted:
            with progress.stage("mixed samples"):
                mixed = measure_mixed_samples(data, density, points, n_mixed, alpha, random_state)
        arm_settings = (alpha, clean_fraction, random_state)
        with progress.stage("paired experiment"):
            experiment = run_paired_experiment(
                data.X, index, cv, *arm_settings, data.groups, names, lambda done: progress.update(done, 1.0), n_jobs
            )
        regions = None
        if in_plane and mixed is not None and experiment is not None:
            with progress.stage("decision regions"):
                labeler = GenLabel.from_fitted(density)
                arms = train_arms(data.X, names[index], *arm_settings, data.groups)
                models: dict[str, Callable[[Any], Any]] = {arm: arms[arm].predict_log_proba for arm in arms}
                models["stacked density"] = lambda X: labeler.log_posterior(scaler(X))
                regions = decision_regions(data.X, models)
        verdict = decide_verdict(check, mixed, experiment)
        d = data.X.shape[1]
        return Diagnosis(verdict, check, n_rows, d, names, settings, notes, mixed, experiment, regions)


def _limit_size(data: LabeledData, max_rows: int, seed: int) -> tuple[LabeledData, list[str]]:
    """Return a stratified sample of a large table, with a row of each class at least, and notes on what it omits."""
    n, k, notes = len(data.y), len(data.classes), []
    if n > max_rows:
        notes.append(f"{count_of(n, 'row')}; a stratified sample of about {max_rows} was used")
        index = data.y.astype(np.intp)
        sample = np.flatnonzero(round_robin_folds(index, ceil(n / max_rows), seed) == 0)
        data = data.take(np.flatnonzero(training_rows(sample, index)))
    n_pairs = k * (k + 1) // 2
    if n_pairs > MAX_PAIRS:
        notes.append(f"{n_pairs} pairs of classes; the {MAX_PAIRS} that mixup draws most often were used")
    return data, notes


def decide_verdict(
    check: DensityCheck, mixed: MixedSampleStats | None, experiment: PairedExperiment | None
) -> DiagnosisVerdict:
    """Return the verdict, which the gains of the paired experiment decide; all measurements are its reasons."""
    reasons = list(check.reasons)
    if mixed is not None:
        mean, worst = mixed.means, mixed.clearest_pair
        reasons.append(
            f"{100 * mean['intrusion']:.1f} % of mixed rows end up nearest to a class that neither parent has; with "
            f"random labels {100 * mixed.chance:.1f} % would"
        )
        if worst is not None:
            low, high = 100 * worst["low"], 100 * worst["high"]
            pair = f"{worst['class_1']} with {worst['class_2']}"
            reasons[-1] += f"; most of {pair}: {100 * worst['intrusion']:.0f} % ({low:.0f} to {high:.0f} %)"
        reasons += [
            f"{100 * mean['atypical']:.0f} % of mixed rows are unlike any row of the table",
            f"mixup's labels and GenLabel's differ by {mean['total_variation']:.2f} on average (0 same, 1 no class in "
            "common)",
        ]
    if experiment is None:
        return DiagnosisVerdict("not tried", SENTENCES["not tried"], reasons)
    word = choose_verdict(*experiment.gains.values(), trusted=check.trusted)
    return DiagnosisVerdict(word, SENTENCES[word], [*describe_gains(experiment), *reasons])


def describe_gains(experiment: PairedExperiment) -> list[str]:
    """Return the gain of each pair of arms as a sentence."""
    options: dict[str, Any] = {"level": "90 %", "negligible": NEGLIGIBLE_GAIN}
    pairs = zip(COMPARISONS, experiment.gains.values(), strict=True)
    return [describe_gain(arm, rival, *gain, **options) for (arm, rival), gain in pairs]


def choose_verdict(
    mixup: MeanDifference, genlabel: MeanDifference, over_mixup: MeanDifference, *, trusted: bool = True
) -> str:
    """Return the word of the verdict; gains are of mixup and GenLabel over no mixing, and of GenLabel over mixup.

    GenLabel's labels are considered if the stacked density is `trusted`.
    """
    if trusted and _is_better(genlabel) and not _is_worse(over_mixup):
        return "GenLabel"
    if _is_better(mixup):
        return "mixup"
    if trusted and _is_worse(genlabel):
        return NO_MIXING
    if _is_worse(mixup):
        return "not mixup"
    if all(max(-gain.low, gain.high) <= MAX_NEGLIGIBLE for gain in (mixup, genlabel)):
        return "negligible"
    return "unclear" if trusted else "not trusted"


def _is_better(gain: MeanDifference) -> bool:
    return gain.low > 0.0 and gain.mean > NEGLIGIBLE_GAIN


def _is_worse(gain: MeanDifference) -> bool:
    return gain.high < 0.0 and gain.mean < -NEGLIGIBLE_GAIN
