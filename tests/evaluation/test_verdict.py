"""Pairs of methods of a comparison against closed forms, their sentences, and the verdict in plain values."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from genlabel.evaluation.comparison import PRIOR_BASELINE, interval, pair_methods, rank_methods
from genlabel.reporting.findings import Findings


def results(splits: int = 10, seed: int = 0, **means: float) -> pd.DataFrame:
    """Return losses of methods around their means; the difficulty of a split is common to all methods."""
    rng = np.random.default_rng(seed)
    hard = rng.normal(0, 0.05, splits)
    frames = [
        pd.DataFrame(
            {
                "method": name.replace("_", " "),
                "split": range(splits),
                "log_loss": mean + hard + rng.normal(0, 0.004, splits),
                "accuracy": np.exp(-mean) + rng.normal(0, 0.005, splits),
                "seconds": 1.0,
            }
        )
        for name, mean in means.items()
    ]
    return pd.concat(frames, ignore_index=True)


def test_interval_equals_the_corrected_t_interval() -> None:
    scores = np.random.default_rng(0).normal(90.0, 3.0, size=12)
    error = np.sqrt(scores.var(ddof=1) * (1 / 12 + 0.25 / 0.75))
    expected = stats.t.interval(0.95, 11, loc=scores.mean(), scale=error)
    np.testing.assert_allclose(interval(scores, test_size=0.25), expected)
    assert interval([90.0]) == (90.0, 90.0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("score, sign", [("log_loss", -1), ("accuracy", 1)])
def test_pair_without_shared_rows_equals_a_paired_t_test(seed: int, score: str, sign: int) -> None:
    frame = results(seed=seed, a=0.40, b=0.402)
    pair = pair_methods(frame, "a", "b", score, test_size=0.0)
    a, b = (frame.loc[frame["method"] == name, score].to_numpy() for name in "ab")
    test = stats.ttest_rel(sign * a, sign * b)
    low, high = test.confidence_interval(0.95)
    assert (pair.low, pair.high) == pytest.approx((low, high))
    assert (pair.result == "no clear difference") == (test.pvalue > 0.05)
    assert (pair.better, pair.worse) == ((sign * (a - b) > 0).sum(), (sign * (a - b) < 0).sum())
    shared = pair_methods(frame, "a", "b", score, test_size=0.3)
    assert (shared.high - shared.low) / (high - low) == pytest.approx(np.sqrt(1 + 10 * 0.3 / 0.7))


def test_pairs_are_antisymmetric() -> None:
    frame = results(a=0.4, b=0.45)
    pair, reversed_pair = pair_methods(frame, "a", "b"), pair_methods(frame, "b", "a")
    assert (pair.better, pair.worse, pair.gain) == (
        reversed_pair.worse,
        reversed_pair.better,
        pytest.approx(-reversed_pair.gain),
    )
    assert (pair.low, pair.high) == pytest.approx((-reversed_pair.high, -reversed_pair.low))
    assert str(pair).startswith("a against b: clearly better, log-loss 0.0")
    assert str(reversed_pair).startswith("b against a: clearly worse, log-loss 0.0")
    assert str(pair).split("(")[1] == str(reversed_pair).split("(")[1]


def test_equal_methods_differ_in_five_percent_of_comparisons() -> None:
    differs = [
        "clearly" in pair_methods(results(seed=seed, a=0.4, b=0.4), "a", "b", test_size=0.0).result
        for seed in range(400)
    ]
    assert 0.02 < np.mean(differs) < 0.08


def test_lines_name_the_best_and_methods_that_may_be_as_good() -> None:
    findings = Findings(
        results(GenLabel=0.30, mixup=0.3005, plain_training=0.40, logistic_regression=0.35, class_priors=0.69)
    )
    assert (findings.best, findings.near, findings.skill) == ("GenLabel", ["mixup"], "clear")
    assert any(line.startswith("No clear difference from mixup:") for line in findings.lines)
    assert any("mixup against plain training: clearly better, log-loss 0." in line for line in findings.lines)


def test_uninformative_features_are_noted() -> None:
    frame = results(GenLabel=0.69, mixup=0.69, plain_training=0.69, class_priors=0.69)
    findings = Findings(frame, fit_command="genlabel fit t.csv")
    rate = frame.loc[frame["method"] == PRIOR_BASELINE, "accuracy"].mean()
    assert findings.skill == "none"
    assert f"{100 * rate:.1f} %" in findings.headline[0]
    assert not findings.next_command


@pytest.mark.parametrize("splits", [1, 2, 4])
def test_few_splits_are_noted(splits: int) -> None:
    findings = Findings(results(splits, GenLabel=0.2, mixup=0.2, plain_training=0.2, class_priors=0.2))
    assert any("--n-splits 10" in line for line in findings.lines)
    assert bool(findings.skill) == (splits > 1)


def test_method_that_predicts_the_priors_is_noted() -> None:
    frame = results(boosting=0.3, plain_training=0.2, class_priors=0.69)
    assert not any("predicts the class priors" in line for line in Findings(frame).lines)
    shares = frame.loc[frame["method"] == PRIOR_BASELINE, "log_loss"].to_numpy()
    frame.loc[frame["method"] == "boosting", "log_loss"] = shares
    messages = [line for line in Findings(frame).lines if "predicts the class priors" in line]
    assert [line.split()[0] for line in messages] == ["boosting"]


def test_plain_values_are_json_with_the_verdict() -> None:
    findings = Findings(frame := results(GenLabel=0.3, mixup=0.31, plain_training=0.32))
    plain = json.loads(json.dumps(findings.to_dict(), allow_nan=False))
    assert plain["verdict"] == findings.lines
    assert plain["ranking"] == rank_methods(frame) == ["GenLabel", "mixup", "plain training"]
    losses = frame.loc[frame["method"] == "mixup", "log_loss"]
    assert plain["methods"]["mixup"]["log_loss"] == pytest.approx({"mean": losses.mean(), "std": losses.std()})
    assert {(pair["method"], pair["other"]) for pair in plain["pairs"]} >= {
        ("GenLabel", "plain training"),
        ("mixup", "plain training"),
    }
    single = Findings(results(1, a=0.3, b=0.4)).to_dict()
    assert single["pairs"][0]["low"] is None


def test_identical_methods_are_reported_as_the_same() -> None:
    single = results(a=0.3)
    frame = pd.concat([single, single.assign(method="b")])
    assert str(pair_methods(frame, "a", "b")) == "a is the same as b on all 10 splits"


def test_methods_without_a_common_split_are_refused() -> None:
    frame = pd.DataFrame({"method": ["a", "b"], "split": [0, 1], "log_loss": [0.1, 0.2]})
    with pytest.raises(ValueError, match="split"):
        pair_methods(frame, "a", "b")
    with pytest.raises(ValueError, match="split"):  # a score that one method lacks on all splits
        pair_methods(results(a=0.3, b=0.4).assign(auc=[0.5] * 10 + [np.nan] * 10), "a", "b", "auc")


def test_failed_fits_leave_a_verdict_on_the_other_pairs() -> None:
    frame = results(6, plain_training=0.3, mixup=0.31, GenLabel=0.35, class_priors=0.69)
    odd = frame["split"] % 2 == 1
    frame = frame[odd == (frame["method"] == "plain training")]  # it has no split in common with the others
    findings = Findings(frame)
    assert findings.lines
    pairs = {(pair["method"], pair["other"]) for pair in findings.to_dict()["pairs"]}
    assert pairs == {("GenLabel", "mixup")}
