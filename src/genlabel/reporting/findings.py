"""Findings about a table: the values of a comparison and of a diagnosis, and the sentences that report them.

The terminal, the page and the JSON file print the sentences of one :class:`Findings`, so that they agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, reduce
from math import isnan
from operator import add
from typing import Any, cast, final

import numpy as np
import pandas as pd

from genlabel._text import count_of
from genlabel.evaluation.comparison import (
    PLAIN_TRAINING,
    PRIOR_BASELINE,
    PairedDifference,
    describe_change,
    interval,
    pair_scores,
    rank_methods,
    summarize,
)
from genlabel.evaluation.diagnosis import Diagnosis
from genlabel.evaluation.diagnosis.diagnose import describe_gains
from genlabel.evaluation.prediction_counts import PredictionCounts
from genlabel.evaluation.records.schema import plain_values
from genlabel.evaluation.table_models import TABLE_METHODS
from genlabel.metrics import rarely_found
from genlabel.reporting.html import capitalize, list_names, name_of, percent

METHOD_HELP = {
    PLAIN_TRAINING: "a neural network without mixing",
    "mixup": "a neural network that mixes rows where its search finds that useful",
    "GenLabel": "a neural network averaged with a model of each class",
    "stacked density": "a model of the rows of each class, without a network",
    "logistic regression": "a linear model",
    "boosting": "gradient-boosted decision trees",
}
FITTED_METHODS = {name: key for key, name in TABLE_METHODS.items()}
"""Names of the methods that `genlabel fit` trains -> their names as an option."""
SKLEARN_CLASSES = {"boosting": "HistGradientBoostingClassifier", "logistic regression": "LogisticRegression"}
"""Classes of the other methods in scikit-learn."""
MIN_SPLITS = 5
"""Minimum number of splits whose spread measures the noise."""
MIN_SPEEDUP = 5.0
"""Ratio of times from which a faster method is named."""
UNBALANCED = 0.8
"""Share of the largest class from which accuracy says little about a method."""
SAME_LOSS_TOLERANCE = 1e-9
"""Log-losses (nats) that differ by less are equal."""
MAX_USELESS_GAIN = 0.05
"""Share of the log-loss of the class priors; columns whose gain is at most this say little about the classes."""
MAX_USELESS_AUC = 0.6
"""AUC up to which this is said; without an AUC it follows from the log-loss alone."""


@final
@dataclass(frozen=True)
class Findings:
    """Values of a comparison, of a diagnosis, or of both, from which all sentences about a table are built.

    >>> results = pd.DataFrame({"method": ["plain training", "mixup"] * 5, "split": np.repeat(range(5), 2),
    ...                         "accuracy": 0.9, "log_loss": [0.41, 0.30, 0.40, 0.31, 0.42, 0.32] + [0.4, 0.3] * 2})
    >>> for line in Findings(results).lines[:2]: print(line)
    Use mixup: right on 90.0 % of unseen rows.
    mixup, a neural network that mixes rows where its search finds that useful, has the lowest log-loss: 0.306 on
    average over 5 splits. Log-loss is the penalty for the probability of the true class; lower is better.
    """

    results: pd.DataFrame | None
    """Results of `genlabel.evaluation.comparison.compare`."""
    diagnosis: Diagnosis | None = None
    test_size: float = 0.3
    """Share of the rows that a split holds out; see `pair_methods`."""
    fit_command: str = ""
    """Command that fits a model to the table, without its method; empty if there is none."""

    @property
    def n_splits(self) -> int:
        """Number of splits of the comparison."""
        return 0 if self.results is None else int(self.results["split"].nunique())

    @cached_property
    def ranking(self) -> list[str]:
        """Methods of the comparison, the lowest log-loss first."""
        return [] if self.results is None else rank_methods(self.results)

    @property
    def arms(self) -> list[str]:
        """Arms of the paired experiment, the lowest log-loss first."""
        experiment = self.diagnosis.experiment if self.diagnosis is not None else None
        return [] if experiment is None else sorted(experiment.log_loss, key=experiment.log_loss.__getitem__)

    @cached_property
    def best(self) -> str:
        """Method of the lowest log-loss, except the prior baseline; without a comparison, the best arm."""
        return next((name for name in [*self.ranking, *self.arms] if name != PRIOR_BASELINE), PRIOR_BASELINE)

    @cached_property
    def recommended(self) -> str:
        """Method to train, of which all advice speaks.

        It is the best one that `genlabel fit` trains, unless another method is clearly better, or surer to beat
        guessing; then it is the best method, and the same without a command to type.
        """
        if not self.fit_command or self.skill_of(self.best) == "none":
            return self.best
        sure = [name for name in self.ranking if self.skill_of(name) == self.skill_of(self.best)]
        return next((name for name in sure if name in FITTED_METHODS and not self.beaten(name)), self.best)

    def beaten(self, method: str) -> bool:
        """Return whether another method of the comparison is clearly better."""
        pairs = [self.pair(method, other) for other in self.ranking]
        return any(pair is not None and pair.high < 0 for pair in pairs)

    @cached_property
    def near(self) -> list[str]:
        """Methods without a clear difference from the recommended one, without the prior baseline."""
        others = [name for name in self.ranking if name not in (self.recommended, PRIOR_BASELINE)]
        pairs = [self.pair(self.recommended, name) for name in others]
        return [pair.other for pair in pairs if pair is not None and not pair.low > 0]

    @cached_property
    def most_accurate(self) -> str:
        """Method of the highest accuracy, except the prior baseline; the best method if it is as accurate."""
        names = [self.best, *(name for name in self.ranking if name != PRIOR_BASELINE)]
        return max(names, key=lambda name: (self.mean(name, "accuracy"), name == self.best))

    @property
    def lowest(self) -> str:
        """Words for the rank of the best method: the lowest log-loss, unless the class priors have a lower one."""
        is_lowest = self.best == next(iter(self.ranking), self.best)
        return "the lowest log-loss" if is_lowest else f"the lowest log-loss but for the {PRIOR_BASELINE}"

    @property
    def fitted_method(self) -> str:
        """The recommended method if `genlabel fit` trains it, else the best that it trains; empty if there is none."""
        return next((name for name in [self.recommended, *self.ranking] if name in FITTED_METHODS), "")

    @property
    def next_command(self) -> str:
        """Command to type next, which trains the recommended method; empty if there is none."""
        if self.fitted_method != self.recommended or self.skill == "none":
            return ""
        return self.command_of(self.recommended)

    def command_of(self, method: str) -> str:
        """Return the command that trains a method; empty if there is none."""
        if not self.fit_command or method not in FITTED_METHODS:
            return ""
        key = FITTED_METHODS[method]
        return self.fit_command + ("" if key == "genlabel" else f" --method {key}")

    @cached_property
    def compared_counts(self) -> dict[str, PredictionCounts]:
        """Counts of the held-out predictions of the comparison, by method; empty if it has none."""
        if self.results is None or "held_out" not in self.results:
            return {}
        counted = self.results[self.results["held_out"].map(lambda value: isinstance(value, Mapping))]
        groups = counted.groupby("method", sort=False)["held_out"]
        return {str(name): reduce(add, map(PredictionCounts.from_dict, group)) for name, group in groups}

    @cached_property
    def counts(self) -> dict[str, PredictionCounts]:
        """Counts of held-out predictions, by method: of the comparison, else of the paired experiment."""
        return self.compared_counts or (self.diagnosis.prediction_counts if self.diagnosis is not None else {})

    @property
    def counted_method(self) -> str:
        """The recommended method, or the best one whose predictions are counted; empty if there is none."""
        order = [self.recommended, *self.ranking] if self.compared_counts else self.arms
        return next((name for name in order if name in self.counts), "")

    @property
    def missed(self) -> list[str]:
        """Classes of which the counted method finds too few unseen rows, see `rarely_found`."""
        counts = self.counts.get(self.counted_method)
        if counts is None:
            return []
        sizes = dict(zip(counts.classes, counts.class_counts.tolist(), strict=True))
        return rarely_found(dict(zip(counts.classes, counts.recall.tolist(), strict=True)), sizes)

    @property
    def repeats_of_a_row(self) -> float:
        """Average number of times that a row is held out, at least 1."""
        return max(1.0, self.n_splits * self.test_size) if self.compared_counts else 1.0

    @cached_property
    def guess(self) -> float:
        """Share of the unseen rows on which guessing the largest class is right; NaN if it is not known."""
        if PRIOR_BASELINE in self.ranking:
            return self.mean(PRIOR_BASELINE, "accuracy")
        counts = self.counts.get(self.counted_method)
        return float("nan") if counts is None else float(counts.class_counts.max() / counts.rows)

    @cached_property
    def skill(self) -> str:
        """Degree of certainty that the recommended method beats the class priors, see `skill_of`."""
        return self.skill_of(self.recommended)

    def skill_of(self, method: str) -> str:
        """Return the degree of certainty that a method beats the class priors.

        "clear"; "ranks", by its AUC alone; "unknown", the rows are too few to tell; "none", the gain is small at most;
        empty if it was not measured.
        """
        gap = self.pair(method, PRIOR_BASELINE)
        if self.results is None or gap is None or isnan(gap.low):
            return ""
        if gap.low > 0:
            return "clear"
        if "auc" in self.results:
            auc = self.results.loc[self.results["method"] == method, "auc"].dropna()
            if len(auc) > 1 and interval(auc, self.test_size)[0] > 0.5:
                return "ranks"
        is_small = gap.high <= MAX_USELESS_GAIN * self.mean(PRIOR_BASELINE, "log_loss")
        ranks = max((self.mean(name, "auc") for name in self.ranking), default=0.5) > MAX_USELESS_AUC
        return "none" if is_small and not ranks else "unknown"

    def mean(self, method: str, score: str) -> float:
        """Return the mean of a score over the splits; NaN where it was not measured."""
        if self.results is None or score not in self.results:
            return float("nan")
        return float(self.means[score].get(method, float("nan")))

    @cached_property
    def means(self) -> pd.DataFrame:
        """Mean scores over the splits: a row for each method."""
        assert self.results is not None
        return self.results.groupby("method").mean(numeric_only=True)

    def pair(self, method: str, other: str, score: str = "log_loss") -> PairedDifference | None:
        """Return the difference in a score of two methods; None unless both were compared on a split."""
        scores = self.scores.get(score)
        if scores is None or method not in scores or other not in scores or method == other:
            return None
        both = scores[[method, other]].notna().all(axis=1).any()
        return pair_scores(scores, method, other, score, self.test_size) if both else None

    @cached_property
    def scores(self) -> dict[str, pd.DataFrame]:
        """Log-losses and accuracies: a row for each split, a column for each method."""
        if self.results is None:
            return {}
        by_split = self.results.set_index(["split", "method"])
        return {score: by_split[score].unstack() for score in ("log_loss", "accuracy") if score in self.results}

    @cached_property
    def pairs(self) -> list[PairedDifference]:
        """The recommended method and each other, whether mixup and GenLabel help, GenLabel against its best rival."""
        rivals = [name for name in self.ranking if name not in {PLAIN_TRAINING, "mixup", "GenLabel", PRIOR_BASELINE}]
        names = [(self.recommended, other) for other in self.ranking if other != self.recommended]
        names += [("mixup", PLAIN_TRAINING), ("GenLabel", PLAIN_TRAINING), ("GenLabel", "mixup")]
        names += [("GenLabel", rivals[0])] if rivals else []
        pairs = [self.pair(*pair) for pair in dict.fromkeys(names)]
        return [pair for pair in pairs if pair is not None]

    @cached_property
    def headline(self) -> list[str]:
        """Sentences that stand first: what is wrong, what to train, how good it is."""
        if self.results is None:
            return [self.diagnosis.verdict.sentence] if self.diagnosis is not None else []
        return [*_missed_lines(self), *_use_lines(self)]

    @cached_property
    def answers(self) -> dict[str, list[str]]:
        """Sentences by question; a question without an answer is left out."""
        answers = {
            "What should I train?": _training_lines(self),
            "Does mixing matter?": _mixing_lines(self),
            "How far can I trust it?": _trust_lines(self),
        }
        return {question: lines for question, lines in answers.items() if lines}

    @property
    def lines(self) -> list[str]:
        """All sentences in their order."""
        return [*self.headline, *(line for lines in self.answers.values() for line in lines)]

    def to_dict(self) -> dict[str, Any]:
        """Return the scores, the pairs and the sentences of the comparison as plain values; NaN is None."""
        if self.results is None:
            return {"verdict": self.lines}
        summary = summarize(self.results)
        scores = summary.columns.unique(0)
        methods = {name: {score: row[score].to_dict() for score in scores} for name, row in summary.iterrows()}
        values = {"methods": methods, "ranking": self.ranking, "pairs": [asdict(pair) for pair in self.pairs]}
        values |= {"verdict": self.lines, "next": self.next_command}
        return cast(dict[str, Any], plain_values(values))


def _missed_lines(findings: Findings) -> list[str]:
    """Return a warning about classes of which the recommended method finds too little, with what to do."""
    missed = findings.missed
    if not missed:
        return []
    method, counts = findings.counted_method, findings.counts[findings.counted_method]
    places = [counts.classes.index(name) for name in missed]
    rows, highest = int(counts.class_counts[places].sum()), float(counts.recall[places].max())
    share = percent(highest, 0) if len(missed) == 1 or not highest else f"at most {percent(highest, 0)}"
    classes = f"class {list_names(missed)}" if len(missed) == 1 else f"the classes {list_names(missed)}"
    remedy = "train with class weights"
    if findings.next_command:
        remedy = "add --class-weight balanced to the command, or --cost balanced, which keeps the probabilities"
    line = f"Caution: {method} finds {share} of {classes}, {percent(rows / counts.rows)} of the unseen rows."
    return [f"{line} If that matters, {remedy}."]


def _use_lines(findings: Findings) -> list[str]:
    """Return what to train and how often it is right, and the most accurate method if it is another one."""
    method, guess, skill = findings.recommended, findings.guess, findings.skill
    if method == PRIOR_BASELINE:
        return ["Only guessing was measured, so there is nothing to recommend."]
    accuracy = findings.mean(method, "accuracy")
    right = f"right on {percent(accuracy)} of unseen rows"
    guessing = "" if isnan(guess) else f"; always guessing the largest class is right on {percent(guess)}"
    if accuracy <= guess:
        guessing = f", no more often than always guessing the largest class ({percent(guess)})"
    auc = findings.mean(method, "auc")
    if skill == "none":
        line = f"Do not train on this table yet: the best method, {method}, is {right}{guessing}."
        return [f"{line} Its columns say little about the classes."]
    if skill == "unknown":
        line = f"Too few rows or splits to tell whether any method beats guessing; {method} is {right}"
    elif skill == "ranks":
        line = f"Use {method} to rank rows (AUC {auc:.3f}; 0.5 is chance); it is {right}"
    elif accuracy <= guess:
        line = f"Use {method} for its probabilities; it is {right}"
    else:
        line = f"Use {'the ' if method == 'stacked density' else ''}{method}: {right}"
    lines = [f"{line}{guessing}."]
    other = findings.most_accurate
    pair = findings.pair(other, method, "accuracy")
    if pair is not None and pair.gain > 0:
        result = "clearly better" if pair.low > 0 else "no clear difference"
        lines.append(f"Most often right: {other}, on {percent(findings.mean(other, 'accuracy'))} ({result}).")
    return lines


def _training_lines(findings: Findings) -> list[str]:
    """Return the recommended method, those that may be as good, what it costs, and how sure the order is."""
    if findings.results is None:
        return ["Only a diagnosis was made; genlabel compare measures what to train."] if findings.diagnosis else []
    method, n_splits = findings.recommended, findings.n_splits
    if method == PRIOR_BASELINE:
        return []
    help_text = f", {METHOD_HELP[method]}," if method in METHOD_HELP else ""
    prior = findings.mean(PRIOR_BASELINE, "log_loss")
    scale = "lower is better"
    if not isnan(prior):
        scale = (
            f"0 is perfect, {prior:.3f} is that of the {PRIOR_BASELINE} (always predicting how frequent each class is)"
        )
    splits = f" on average over {n_splits} splits" if n_splits > 1 else ""
    rank = f"{findings.lowest}:" if method == findings.best else "a log-loss of"
    lines = [
        f"{method}{help_text} has {rank} {findings.mean(method, 'log_loss'):.3f}{splits}. Log-loss is the "
        f"penalty for the probability of the true class; {scale}."
    ]
    if method != findings.best:
        lowest = f"{findings.best} has {findings.lowest}: {findings.mean(findings.best, 'log_loss'):.3f}"
        lines.append(f"{lowest}, no clear difference; genlabel fit does not train it.")
    others = [name for name in findings.ranking if name not in (method, PRIOR_BASELINE)]
    if n_splits == 1:
        lines.append("One split does not show how much is chance; --n-splits 10 does.")
    elif findings.near:
        lines.append(f"No clear difference from {list_names(findings.near)}: by chance another could be first.")
    elif others and all(findings.pair(method, name) is not None for name in others):
        lines.append("Every other method is clearly worse.")
    if 1 < n_splits < MIN_SPLITS:
        lines.append(f"{n_splits} splits show only roughly how much is chance; --n-splits 10 shows it better.")
    return [*lines, *_cost_lines(findings), *_prior_lines(findings), *_next_lines(findings)]


def _cost_lines(findings: Findings) -> list[str]:
    """Return the time of a fit, and a much faster method without a clear difference."""
    method = findings.recommended
    names = [method, *findings.near] if findings.n_splits > 1 else [method]
    seconds = {name: findings.mean(name, "seconds") for name in names}
    fastest = min(seconds, key=lambda name: seconds[name])
    if isnan(seconds[method]):
        return []
    times = {name: f"{time:.2g} s" if time >= 0.01 else "under 0.01 s" for name, time in seconds.items()}
    line = f"A fit of {method} takes {times[method]} on one processor core"
    if seconds[method] >= MIN_SPEEDUP * seconds[fastest]:
        line += f", one of {fastest} {times[fastest]}"
    return [f"{line}."]


def _prior_lines(findings: Findings) -> list[str]:
    """Return a line for each method that learned nothing but the class priors."""
    losses = findings.scores["log_loss"]
    if PRIOR_BASELINE not in losses or len(losses.columns) < 2:
        return []
    differences = losses.drop(columns=PRIOR_BASELINE).sub(losses[PRIOR_BASELINE], axis=0).abs().max()
    reasons = {"boosting": " (its leaves have at least 20 rows, so it does not split small tables)"}
    same = differences.index[differences < SAME_LOSS_TOLERANCE]
    return [f"{name} predicts the {PRIOR_BASELINE} on every split{reasons.get(str(name), '')}." for name in same]


def _next_lines(findings: Findings) -> list[str]:
    """Return where to find the recommended method if `genlabel fit` does not train it, and the best that it trains."""
    method, other = findings.recommended, findings.fitted_method
    if not findings.fit_command or method == other or findings.skill == "none":
        return []
    where = f"; scikit-learn does: {SKLEARN_CLASSES[method]}" if method in SKLEARN_CLASSES else ""
    lines = [f"genlabel fit does not train {method}{where}."]
    pair = findings.pair(method, other)
    if pair is not None:
        change = describe_change(-pair.gain)
        lines.append(f"The best method that it trains is {other}, {change}: {findings.command_of(other)}")
    return lines


def _mixing_lines(findings: Findings) -> list[str]:
    """Return whether mixing helps with default settings, and what the short experiment of the diagnosis says."""
    lines = []
    pair, diagnosis = findings.pair("mixup", PLAIN_TRAINING), findings.diagnosis
    if pair is not None or (diagnosis is not None and diagnosis.experiment is not None):
        lines.append(
            "Mixing means to train on mixed rows too: averages of two rows. mixup labels them with the same average of "
            "both labels, GenLabel by a model of the classes."
        )
    if pair is not None:
        unmixed = _unmixed_splits(findings)
        choice = f" Its search chose not to mix on {unmixed} of {count_of(pair.splits, 'split')}." if unmixed else ""
        if unmixed == pair.splits and (pair.better or pair.worse):
            choice = (
                " Its search never chose to mix, so the difference is one of other settings, such as learning rates."
            )
        lines.append(f"With default settings: {pair}.{choice}")
    averaging = findings.pair("GenLabel", PLAIN_TRAINING)
    if averaging is not None:
        lines.append(f"GenLabel is averaged with a model of the classes, too. With default settings: {averaging}.")
    if diagnosis is not None and diagnosis.experiment is not None:
        share = percent(1.0 - diagnosis.settings["clean_fraction"], 0)
        scope = f"a short experiment, in which networks differ only in whether and how {share} of their rows are mixed"
        if findings.results is None:
            lines.append(f"This is what {scope}, shows: {'; '.join(describe_gains(diagnosis.experiment))}.")
        else:
            lines.append(f"{capitalize(scope)}, says: {diagnosis.verdict.sentence}")
    elif diagnosis is not None:
        reasons = "; ".join(diagnosis.verdict.reasons)
        lines.append(f"{diagnosis.verdict.sentence} {reasons[:1].upper()}{reasons[1:]}.")
    return lines


def _unmixed_splits(findings: Findings) -> int:
    """Return the number of splits on which the search of mixup chose to mix nothing."""
    results = findings.results
    if results is None or "params" not in results:
        return 0
    chosen = results.loc[results["method"] == "mixup", "params"]
    return sum(isinstance(params, Mapping) and params.get("clean_fraction") == 1.0 for params in chosen)


def _trust_lines(findings: Findings) -> list[str]:
    """Return the weakest class, scores that heed unbalanced classes, and how far probabilities are off."""
    if not findings.counted_method:
        return []
    method, counts = findings.counted_method, findings.counts[findings.counted_method]
    lines = []
    if findings.results is None:
        right = percent(float(counts.confusion.diagonal().sum() / counts.rows))
        lines.append(
            f"The network with {method} is right on {right} of the held-out rows; always guessing the largest class on "
            f"{percent(findings.guess)}."
        )
    recall = np.where(np.isnan(counts.recall), np.inf, counts.recall)
    worst = int(recall.argmin())
    lines.append(
        f"The weakest class is {name_of(counts.classes[worst])}: {method} finds {percent(float(recall[worst]), 0)} of "
        "its unseen rows (recall)."
    )
    if findings.compared_counts:
        balanced, auc = findings.mean(method, "balanced_accuracy"), findings.mean(method, "auc")
        if findings.guess >= UNBALANCED and not isnan(balanced) and not isnan(auc):
            lines.append(
                "With classes so unbalanced, the share of right predictions says little. Its mean over the classes "
                f"(balanced accuracy) is {percent(balanced)}, of guessing {percent(1 / len(counts.classes))}; AUC, how "
                f"often a row of a class ranks above one of another, is {auc:.3f}, of guessing 0.500."
            )
    lines.append(f"Its probabilities are off by {counts.calibration_gap:.3f} on average (0 is perfect).")
    return lines
