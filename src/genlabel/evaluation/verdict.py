"""Verdict of a comparison in words: methods paired on the same splits, and differences that are within noise."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, cast, final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import t as student

from genlabel.evaluation.comparison import PRIOR_BASELINE, SCORES
from genlabel.evaluation.records.schema import plain_values

CONFIDENCE_LEVEL = 0.95
MIN_SPLITS = 5
"""Minimum number of splits whose spread measures the noise."""
SAME_LOSS_TOLERANCE = 1e-9
"""Log-losses (nats) that differ by less are equal."""
UNITS = {"log_loss": (1, "nats"), "accuracy": (100, "points"), "balanced_accuracy": (100, "points")}
"""Score -> scale and unit of its differences where they are printed."""
HIGHER_IS_BETTER = ("accuracy", "balanced_accuracy", "auc")


@final
@dataclass(frozen=True)
class PairedDifference:
    """Difference of two methods on the same splits; `pair_methods` returns it, and it prints as a sentence."""

    method: str
    other: str
    score: str
    better: int
    """Number of splits on which the method is better than the other."""
    worse: int
    splits: int
    gain: float
    """Mean difference over the splits, positive if the method is better."""
    low: float
    """Lower end of the 95 % interval of the gain, corrected for splits that share rows; NaN for a single split."""
    high: float

    @property
    def within_noise(self) -> bool:
        """True if the interval contains zero, or there is none."""
        return not (self.low > 0 or self.high < 0)

    def __str__(self) -> str:
        if not self.better and not self.worse:
            splits = f"on all {self.splits} splits" if self.splits > 1 else "on the one split"
            return f"{self.method} is the same as {self.other} {splits}"
        word, count = ("better", self.better) if self.gain >= 0 else ("worse", self.worse)
        scale, unit = UNITS.get(self.score, (1, ""))
        size = f"{scale * abs(self.gain):.2g} {unit}".strip()
        if self.splits < 2:
            return f"{self.method} is {word} than {self.other} on the one split, by {size}; one split shows no noise"
        start = f"{self.method} is {word} than {self.other} on {count} of {self.splits} splits, by {size}"
        if self.within_noise:
            return f"{start}; the difference is within noise"
        low, high = sorted(scale * abs(bound) for bound in (self.low, self.high))
        return f"{start} (95 % interval {low:.2g} to {high:.2g})"


def pair_methods(
    results: pd.DataFrame, method: str, other: str, score: str = "log_loss", test_size: float = 0.3
) -> PairedDifference:
    """Compare two methods on the splits that both have; the interval of the gain is that of :func:`interval`.

    `results` are those of `compare`; `test_size` is the share of the rows held out in each split, 0 for splits that
    share none.

    >>> results = pd.DataFrame({"method": ["a", "b"] * 3, "split": [0, 0, 1, 1, 2, 2],
    ...                         "log_loss": [0.3, 0.4, 0.2, 0.5, 0.3, 0.2]})
    >>> print(pair_methods(results, "a", "b"))
    a is better than b on 2 of 3 splits, by 0.1 nats; the difference is within noise
    """
    scores = results.pivot_table(index="split", columns="method", values=score)[[method, other]].dropna()
    sign = 1.0 if score in HIGHER_IS_BETTER else -1.0
    gains = sign * (scores[method] - scores[other]).to_numpy(dtype=np.float64)
    if not len(gains):
        raise ValueError(f"{method!r} and {other!r} have no split in common; run both again")
    counts = int((gains > 0).sum()), int((gains < 0).sum()), len(gains)
    low, high = interval(gains, test_size) if len(gains) > 1 else (float("nan"), float("nan"))
    return PairedDifference(method, other, score, *counts, float(gains.mean()), low, high)


def interval(values: ArrayLike, test_size: float = 0.3) -> tuple[float, float]:
    """Return the 95 % confidence interval of the mean score over repeated random splits.

    The splits share most of their training rows, so that their scores (J,) are not independent: the variance of the
    mean is s^2 (1/J + n_test / n_train) instead of s^2 / J (Nadeau and Bengio, 2003), with Student's t.
    """
    scores = np.asarray(values, dtype=np.float64)
    mean, n, half = float(scores.mean()), len(scores), 0.0
    if n > 1:
        error = float(scores.std(ddof=1)) * np.sqrt(1.0 / n + test_size / (1.0 - test_size))
        half = float(student.ppf(0.5 + CONFIDENCE_LEVEL / 2.0, n - 1) * error)
    return mean - half, mean + half


def summarize(results: pd.DataFrame) -> pd.DataFrame:
    """Return mean and standard deviation over the splits, a row for each method in the order of the results."""
    columns = [name for name in (*SCORES, "seconds") if name in results]
    return results.groupby("method", sort=False)[columns].agg(["mean", "std"])


def accuracy_in_percent(results: pd.DataFrame) -> pd.DataFrame:
    """Return results with accuracy and balanced accuracy in percent, for tables and figures."""
    columns = [name for name in ("accuracy", "balanced_accuracy") if name in results]
    return results.assign(**{name: 100.0 * results[name] for name in columns})


def rank_methods(results: pd.DataFrame) -> list[str]:
    """Return the methods by mean log-loss, the lowest first."""
    means = results.groupby("method", sort=False)["log_loss"].mean()
    return [str(name) for name in means.sort_values(kind="stable").index]


def verdict(results: pd.DataFrame, test_size: float = 0.3) -> list[str]:
    """Return the result of a comparison in words: the best method, those within noise of it, whether mixing helps.

    >>> results = pd.DataFrame({"method": ["vanilla", "mixup"] * 3, "split": [0, 0, 1, 1, 2, 2], "accuracy": 0.9,
    ...                         "log_loss": [0.41, 0.30, 0.40, 0.31, 0.42, 0.32]})
    >>> for line in verdict(results): print(line)
    lowest log-loss: mixup; within noise of it: none
    3 splits say little about the noise; --n-splits 10 says more
    mixup is better than vanilla on 3 of 3 splits, by 0.1 nats (95 % interval 0.062 to 0.14)
    """
    best, *others = methods = rank_methods(results)
    close = [other for other in others if pair_methods(results, best, other, "log_loss", test_size).within_noise]
    lines = [f"lowest log-loss: {best}; within noise of it: {', '.join(close) or 'none'}"]
    splits = results["split"].nunique()
    if splits == 1:
        lines = [f"lowest log-loss on the one split: {best}; one split shows no noise, use --n-splits 10"]
    elif splits < MIN_SPLITS:
        lines.append(f"{splits} splits say little about the noise; --n-splits 10 says more")
    elif PRIOR_BASELINE in methods and (best == PRIOR_BASELINE or PRIOR_BASELINE in close):
        lines.append("no method is clearly better than the class priors: the features say little about the classes")
    lines += [str(pair_methods(results, *pair, "log_loss", test_size)) for pair in _pairs_of_interest(methods)]
    return lines + _note_prior_baseline(results, test_size)


def as_plain(results: pd.DataFrame, test_size: float = 0.3) -> dict[str, Any]:
    """Return the summary, the verdict and all pairs as plain dicts and lists, fit for JSON; NaN is None."""

    summary, ranked = summarize(results), rank_methods(results)
    methods = {
        name: {score: row[score].to_dict() for score in summary.columns.unique(0)} for name, row in summary.iterrows()
    }
    names = dict.fromkeys([(ranked[0], other) for other in ranked[1:]] + _pairs_of_interest(ranked))
    pairs = [asdict(pair_methods(results, *pair, "log_loss", test_size)) for pair in names]
    values = {"methods": methods, "ranking": ranked, "pairs": pairs, "verdict": verdict(results, test_size)}
    return cast(dict[str, Any], plain_values(values))


def _pairs_of_interest(methods: list[str]) -> list[tuple[str, str]]:
    """Return the pairs that show whether mixup helps, whether GenLabel does, and GenLabel against its best rival."""
    rivals = [name for name in methods if name not in {"vanilla", "mixup", "GenLabel", PRIOR_BASELINE}]
    pairs = [("mixup", "vanilla"), ("GenLabel", "vanilla"), ("GenLabel", "mixup")]
    pairs += [("GenLabel", rivals[0])] if rivals else []
    return [pair for pair in pairs if set(pair) <= set(methods)]


def _note_prior_baseline(results: pd.DataFrame, test_size: float) -> list[str]:
    """Return lines on methods that predict the class priors, and on accuracies that are not clearly above theirs."""
    losses = results.pivot_table(index="split", columns="method", values="log_loss", sort=False)
    if PRIOR_BASELINE not in losses or len(losses.columns) < 2:
        return []
    differences = losses.drop(columns=PRIOR_BASELINE).sub(losses[PRIOR_BASELINE], axis=0).abs().max()
    reasons = {"boosting": " (its leaves have at least 20 rows, so it does not split small tables)"}
    same = differences.index[differences < SAME_LOSS_TOLERANCE]
    lines = [f"{name} predicts the class priors on every split{reasons.get(name, '')}" for name in same]
    means = results.groupby("method")["accuracy"].mean()
    best = str(means.drop(PRIOR_BASELINE).idxmax())
    has_enough_splits = results["split"].nunique() >= MIN_SPLITS
    if has_enough_splits and not pair_methods(results, best, PRIOR_BASELINE, "accuracy", test_size).low > 0:
        guess = f"always guessing the most frequent class ({100.0 * means[PRIOR_BASELINE]:.1f} %)"
        lines.append(f"no accuracy is clearly above that of {guess}: see the other scores")
    return lines
