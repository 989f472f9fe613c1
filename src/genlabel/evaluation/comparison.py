"""Comparison of methods on one table: their fits on the same splits, and the differences of pairs of methods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import t as student
from sklearn.base import BaseEstimator
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genlabel._progress import Callback, LambdaCallback, TrialResult, combine_callbacks
from genlabel._text import magnitude
from genlabel.data.tables import Table, make_splits
from genlabel.estimators import GenerativeClassifier, GenLabelClassifier, MixupClassifier
from genlabel.evaluation.records import open_store
from genlabel.evaluation.records.schema import COMPARISON, RecordSet
from genlabel.evaluation.runner import CaughtWarnings, FitRunner
from genlabel.metrics import MIN_PROBABILITY, balanced_accuracy, roc_auc, score_log_proba
from genlabel.model_selection.options import TrainingOptions

SCORES = ("accuracy", "log_loss", "balanced_accuracy", "auc", "brier", "calibration_error")
"""Metrics of each fit."""
COLUMNS = ["method", "split", *SCORES, "seconds", "params", "held_out"]
"""Columns of a comparison."""
PLAIN_TRAINING = "plain training"
"""Name of the method whose network is trained without mixing."""
PRIOR_BASELINE = "class priors"
"""Name of the method that predicts the class priors; its accuracy is that of the most frequent class."""
CONFIDENCE_LEVEL = 0.95
UNITS = {"accuracy": (100, 1, " points"), "balanced_accuracy": (100, 1, " points")}
"""Score -> scale, digits and unit of its differences where they are printed; others have (1, 3, "")."""
HIGHER_IS_BETTER = ("accuracy", "balanced_accuracy", "auc")


def compare(
    table: Table,
    methods: Mapping[str, BaseEstimator] | None = None,
    n_splits: int = 10,
    test_size: float = 0.3,
    seed: int = 0,
    callback: Callback | None = None,
) -> pd.DataFrame:
    """Fit every method on the same splits of a table, and measure it on the held-out rows.

    The splits are those of `genlabel.data.tables.make_splits`. The table is preprocessed by `table_pipeline`, fitted on
    the training rows of each split. Each fit has one thread.

    Parameters
    ----------
    table : Table
    methods : dict of name -> classifier, optional
        `default_methods()` if not given.
    n_splits : int
        Number of splits.
    test_size : float
        Share of the rows held out in each split.
    seed : int
        Seed of the splits; a method whose `random_state` is None trains with `seed + split`.
    callback : Callback, optional
        It receives the start, the progress and the result of each fit.

    Returns
    -------
    DataFrame, one row for each split and method, with columns
        method, split, accuracy, balanced_accuracy, auc, calibration_error (test, 0 to 1), brier (test, 0 to 2),
        log_loss (test, in nats; probabilities clipped at 1e-15), seconds (of the fit), params (hyperparameters that the
        method chose by cross-validation, a dict), held_out (counts of the test predictions, a dict of
        `genlabel.evaluation.prediction_counts.PredictionCounts.to_dict`).

    Examples
    --------
    >>> from genlabel import GenerativeClassifier
    >>> from genlabel.data.datasets import load_table
    >>> compare(load_table("iris"), {"generative": GenerativeClassifier()}, n_splits=2)[["method", "split"]]
           method  split
    0  generative      0
    1  generative      1
    """

    def raise_error(result: TrialResult) -> None:
        if result.error is not None:
            raise RuntimeError(f"{result.trial.method} failed on split {result.trial.split}: {result.error}")

    callbacks = combine_callbacks(LambdaCallback(on_trial_end=raise_error), callback)
    return as_results(run_comparison(table, methods, n_splits, test_size, seed, callback=callbacks).frame)


def run_comparison(
    table: Table,
    methods: Mapping[str, BaseEstimator] | None = None,
    n_splits: int = 10,
    test_size: float = 0.3,
    seed: int = 0,
    *,
    records: str | Path | None = None,
    restart: bool = False,
    n_jobs: int = 1,
    dask: str | None = None,
    callback: Callback | None = None,
) -> RecordSet:
    """Do the fits of `compare` that have no record, and return the records and the failures of all of them.

    Records of another table of the same name, or of other settings, are replaced.

    Parameters
    ----------
    table, methods, n_splits, test_size, seed
        See `compare`.
    records : path, optional
        File of records; without it they are in memory only.
    restart, n_jobs, dask, callback
        See `genlabel.evaluation.records.open_store` and `run_trials`.

    Examples
    --------
    >>> from genlabel import GenerativeClassifier
    >>> from genlabel.data.datasets import load_table
    >>> result = run_comparison(load_table("iris"), {"generative": GenerativeClassifier()}, n_splits=2)
    >>> result.frame["split"].tolist(), result.failures
    ([0, 1], {})
    """
    splits = make_splits(table, n_splits, test_size, seed)
    runner = FitRunner(
        default_methods() if methods is None else methods,
        len(splits),
        test_size,
        seed,
        load=lambda name: table,
        facts=lambda table, caught: {"warnings": count_warnings(caught)},
        score=score_table,
        splits=splits,
        count_predictions=True,
    )
    data = hash_table(table) + (f" {n_splits}" if table.time is not None else "")
    with open_store(records, COMPARISON, restart=restart) as store:
        return runner.run([table.name], store, data=data, n_jobs=n_jobs, dask=dask, callback=callback)


def default_methods(
    network: Any = "mlp",
    density: str = "stacked",
    epochs: Any = "auto",
    paper: bool = False,
    device: Any = "auto",
) -> dict[str, Any]:
    """Return the methods of a comparison; those with a network have the same one.

    Parameters
    ----------
    network : "auto", "logistic", "mlp" or sequence of int
    density : "stacked", "discriminant", "gaussian", "kernel", "mixture", "forest", "flow", "vae", "gan" or "auto"
        "auto" lets GenLabel choose "gaussian" or "kernel" by cross-validation, and adds generative classifiers of both.
    epochs : "auto" or int
    paper : bool
        Add GenLabel and mixup with the setting of the paper, whose grids take about ten times as long.
    device : "auto", "cpu" or "cuda"

    Examples
    --------
    >>> list(default_methods(density="auto"))
    ['plain training', 'mixup', 'GenLabel', 'generative (gaussian)', 'generative (kernel)', 'logistic regression',
     'boosting', 'class priors']
    """
    common = {"network": network, "training": TrainingOptions(epochs=epochs, device=device)}
    methods: dict[str, Any] = {
        PLAIN_TRAINING: MixupClassifier(mixer=None, **common),
        "mixup": MixupClassifier(**common),
    }
    methods["GenLabel"] = GenLabelClassifier(density=density, **common)
    if paper:  # "auto" becomes the network and the epochs of the paper
        settings: dict[str, Any] = {"network": "mlp" if isinstance(network, str) and network == "auto" else network}
        settings["training__device"] = device
        settings["training__epochs"] = 100 if isinstance(epochs, str) and epochs == "auto" else epochs
        methods["mixup (paper)"] = MixupClassifier.from_paper(**settings)
        methods["GenLabel (paper)"] = GenLabelClassifier.from_paper(**settings)
    if density == "auto":
        methods |= {f"generative ({name})": GenerativeClassifier(density=name) for name in ("gaussian", "kernel")}
    else:
        methods["stacked density" if density == "stacked" else "generative"] = GenerativeClassifier(density=density)
    methods["logistic regression"] = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    methods["boosting"] = HistGradientBoostingClassifier()
    methods[PRIOR_BASELINE] = DummyClassifier(strategy="prior")
    return methods


def as_results(records: pd.DataFrame) -> pd.DataFrame:
    """Return the records of a comparison with the columns of `compare`."""
    return records.rename(columns={"parameters": "params"}).reindex(columns=COLUMNS)


def score_table(log_proba: Any, y: Any) -> dict[str, float]:
    """Return the metrics of log-probabilities (m, k) for class indices y (m,); the AUC is NaN if `y` has one class."""
    clipped = np.maximum(log_proba, np.log(MIN_PROBABILITY))
    balanced = float(balanced_accuracy(clipped, y))
    return score_log_proba(log_proba, y) | {"balanced_accuracy": balanced, "auc": roc_auc(clipped, y)}


def count_warnings(caught: CaughtWarnings) -> dict[str, int]:
    """Return how often each warning was issued, without warnings for developers."""
    for_developers = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)
    for_users = [warning for warning in caught if not issubclass(warning.category, for_developers)]
    return dict(Counter(" ".join(str(warning.message).split()) for warning in for_users))


def hash_table(table: Table) -> str:
    """Return a hash of the content of a table: names, types, values, labels, groups and times."""
    digest = sha256()
    columns = {"y": table.y, "groups": table.groups, "time": table.time}
    for part in (table.X, *(values.to_frame(name) for name, values in columns.items() if values is not None)):
        digest.update(repr([(str(name), str(kind)) for name, kind in part.dtypes.items()]).encode())
        digest.update(pd.util.hash_pandas_object(part, index=False).to_numpy().tobytes())
    return digest.hexdigest()[:16]


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
    def result(self) -> str:
        """Result in words, see `describe_result`."""
        if not self.better and not self.worse:
            return "the same"
        return describe_result(self.gain, self.low, self.high) if self.splits > 1 else "unknown"

    def __str__(self) -> str:
        pair = (self.method, self.other)
        if self.result == "the same":
            splits = f"on all {self.splits} splits" if self.splits > 1 else "on the one split"
            return f"{self.method} is the same as {self.other} {splits}"
        if self.result == "unknown":
            text = describe_change(self.gain, self.score, plus=True)
            return f"{self.method} against {self.other} on the one split, which shows no noise: {text}"
        return describe_gain(*pair, self.gain, self.low, self.high, self.score)


def describe_gain(
    method: str,
    other: str,
    gain: float,
    low: float,
    high: float,
    score: str = "log_loss",
    level: str = "95 %",
    negligible: float = 0.0,
) -> str:
    """Return a gain with its interval as a sentence; differences of at most `negligible` do not matter.

    >>> describe_gain("mixup", "plain training", -0.0342, -0.051, -0.0171)
    'mixup against plain training: clearly worse, log-loss 0.034 higher (95 % interval 0.017 to 0.051)'
    >>> describe_gain("a", "b", 0.01, -0.02, 0.04, "accuracy")
    'a against b: no clear difference, accuracy 1.0 points higher (95 % interval from 2.0 points lower to 4.0 points
     higher)'
    """
    result = describe_result(gain, low, high, negligible)
    if low > 0 or high < 0:
        scale, digits, _ = UNITS.get(score, (1, 3, ""))
        near, far = sorted(scale * abs(bound) for bound in (low, high))
        ends = f"{magnitude(near, digits)} to {magnitude(far, digits)}"
    else:
        ends = "from " + " to ".join(describe_change(bound, score, named=False) for bound in (low, high))
    return f"{method} against {other}: {result}, {describe_change(gain, score)} ({level} interval {ends})"


def describe_result(gain: float, low: float, high: float, negligible: float = 0.0) -> str:
    """Return the result of a comparison in words, from a gain and its interval; a page has no other words for it.

    >>> describe_result(0.1, 0.05, 0.15), describe_result(-0.1, -0.3, 0.1), describe_result(0.001, 0.0005, 0.002, 0.002)
    ('clearly better', 'no clear difference', 'a negligible difference')
    """
    if not (low > 0 or high < 0):
        return "no clear difference"
    if abs(gain) <= negligible:
        return "a negligible difference"
    return "clearly better" if gain > 0 else "clearly worse"


def describe_change(gain: float, score: str = "log_loss", named: bool = True, plus: bool = False) -> str:
    """Return a gain as a change of its score, such as "log-loss 0.034 lower"; with `plus`, also which is better.

    >>> describe_change(-0.0342), describe_change(0.0261, "accuracy", named=False)
    ('log-loss 0.034 higher', '2.6 points higher')
    """
    scale, digits, unit = UNITS.get(score, (1, 3, ""))
    word = "higher" if (gain > 0) == (score in HIGHER_IS_BETTER) else "lower"
    change = f"{magnitude(scale * gain, digits)}{unit} {word}" if gain else f"0{unit} different"
    name = {"log_loss": "log-loss", "auc": "AUC"}.get(score, score.replace("_", " "))
    better = f", which is {'better' if gain > 0 else 'worse'}" if plus else ""
    return f"{name} {change}{better}" if named else f"{change}{better}"


def pair_methods(
    results: pd.DataFrame, method: str, other: str, score: str = "log_loss", test_size: float = 0.3
) -> PairedDifference:
    """Compare two methods on the splits that both have; the interval of the gain is that of :func:`interval`.

    `results` are those of `compare`; `test_size` is the share of the rows held out in each split, 0 for splits that
    share none.

    >>> results = pd.DataFrame({"method": ["a", "b"] * 3, "split": [0, 0, 1, 1, 2, 2],
    ...                         "log_loss": [0.3, 0.4, 0.2, 0.5, 0.3, 0.2]})
    >>> print(pair_methods(results, "a", "b"))
    a against b: no clear difference, log-loss 0.100 lower (95 % interval from 0.651 higher to 0.851 lower)
    """
    return pair_scores(
        results.pivot_table(index="split", columns="method", values=score), method, other, score, test_size
    )


def pair_scores(scores: pd.DataFrame, method: str, other: str, score: str, test_size: float) -> PairedDifference:
    """Compare two methods by their values of one score: a row for each split, a column for each method."""
    scores = scores.reindex(columns=[method, other]).dropna()
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
    return results.groupby("method", sort=False)["log_loss"].mean().sort_values(kind="stable").index.tolist()
