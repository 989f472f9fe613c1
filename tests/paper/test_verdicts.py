"""Verdicts with noise: draws against the variance of a mean, counts against brute force, and what noise leaves open."""

import numpy as np
import pandas as pd
import pytest

from genlabel_paper.report.layout import count_verdicts, describe_counts
from genlabel_paper.report.results import NOTHING_MEASURED, Claim
from genlabel_paper.report.statements import Check, PairedMeans, above, both, judge
from genlabel_paper.report.verdicts import DRAWS, central_interval, decide, draw_weights, resampled_means
from genlabel_paper.report.win_rates import draw_gains, lead, paired_gains, share_above, win_rate_claim


def make_trials(gains: list[float], noise: float, splits: int = 3, seeds: int = 5, seed: int = 0) -> pd.DataFrame:
    """Return records of methods a and b on as many datasets as there are gains of a over b."""
    rng = np.random.default_rng(seed)
    rows = []
    for dataset, gain in enumerate(gains):
        for split in range(splits):
            shift = noise * rng.normal()
            for trial in range(seeds):
                base = rng.uniform(60, 90)
                rows.append((str(dataset), split, trial, "b", base))
                rows.append((str(dataset), split, trial, "a", base + gain + shift + noise * rng.normal()))
    return pd.DataFrame(rows, columns=["dataset", "split", "seed", "method", "accuracy"])


def names(records: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(records["dataset"]))


@pytest.mark.parametrize("splits", [2, 3, 6])
def test_draws_of_splits_have_the_variance_of_their_mean(splits: int) -> None:
    """One unit fewer than there are gives s^2 / n, the unbiased estimate for a mean of n splits."""
    rng = np.random.default_rng(splits)
    values = rng.normal(size=splits)
    weights = np.concatenate([draw_weights(np.arange(splits), rng) for _ in range(20)])
    assert (weights @ values).mean() == pytest.approx(values.mean(), abs=0.03)
    assert (weights @ values).var() == pytest.approx(values.var(ddof=1) / splits, rel=0.05)


def test_draws_of_seeds_stay_in_their_split() -> None:
    splits = np.array([0, 0, 0, 1, 1])
    weights = draw_weights(splits, np.random.default_rng(0))
    by_split = np.stack([weights[:, splits == split].sum(1) for split in (0, 1)], 1)
    assert set(map(tuple, by_split.round(9).tolist())) == {(1.0, 0.0), (0.0, 1.0)}  # one of two splits is drawn
    one_split = draw_weights(np.zeros(4, dtype=int), np.random.default_rng(0))
    assert one_split.sum(1) == pytest.approx(1.0)
    values = np.array([1.0, 2.0, 4.0, 9.0])
    assert (one_split @ values).var() == pytest.approx(values.var(ddof=1) / 4, rel=0.1)


def test_count_of_draws_equals_brute_force() -> None:
    records = make_trials([0.5, -0.2, 3.0], noise=1.0)
    rule = both(above("a", "b", 0.1), above("a", "b"))
    counts = PairedMeans(records, names(records)).count_draws(rule, names(records))
    expected = np.zeros(DRAWS)
    for _, means in resampled_means(records, "accuracy", rule.needs, names(records)):
        expected += [a > b + 0.1 + 1e-9 for a, b in zip(means["a"], means["b"], strict=True)]
    assert counts.tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("gains", "noise", "holds"),
    [
        ([5.0] * 16, 0.5, True),
        ([5.0] * 14 + [-5.0] * 2, 0.5, False),
        ([5.0] * 2 + [-5.0] * 14, 0.5, False),
        ([5.0] * 15 + [0.0], 0.5, None),
        ([0.0], 1.0, None),
    ],
)
def test_a_statement_about_all_datasets(gains: list[float], noise: float, holds: bool | None) -> None:
    records = make_trials(gains, noise, seed=3)
    assert judge(above("a", "b"), PairedMeans(records, names(records)), names(records))[0] is holds


def test_failures_differ_by_their_interval() -> None:
    """Best on 14 of 16 is not the same failure as on 2 of 12."""
    words = []
    for gains in ([5.0] * 14 + [-5.0] * 2, [5.0] * 2 + [-5.0] * 10):
        records = make_trials(gains, 0.5)
        words.append(judge(above("a", "b"), PairedMeans(records, names(records)), names(records))[1])
    assert words == ["95 % over splits and seeds: on 14 to 14 of 16", "95 % over splits and seeds: on 2 to 2 of 12"]


@pytest.mark.parametrize("by", [0.0, 4.0])
def test_one_trial_proves_nothing(by: float) -> None:
    records = make_trials([5.0] * 3, 0.0, splits=1, seeds=1)
    check = Check("A is better.", "on all", above("a", "b", by))
    assert check.claim(PairedMeans(records, names(records)), pd.DataFrame()).holds is None
    gain = paired_gains(records, "a", "b", names(records))
    draws = draw_gains(records, "a", "b", names(records))
    assert win_rate_claim("Often.", "50 %", gain, draws, 1.0, lead).holds is None


def test_true_ties_are_seldom_told() -> None:
    """A rule that is as often true as false: few of many repetitions are told either way."""
    told = 0
    for seed in range(60):
        records = make_trials([0.0], 1.0, seed=seed)
        told += judge(above("a", "b"), PairedMeans(records, ["0"]), ["0"])[0] is not None
    assert told < 0.2 * 60


def test_unmeasured_datasets_leave_the_upper_end_open() -> None:
    records = make_trials([5.0, 5.0], 0.1)
    ours = PairedMeans(records, ["0", "1", "2"])
    assert judge(above("a", "b"), ours, ["0", "1", "2"]) == (None, "95 % over splits and seeds: on 2 to 3 of 3")
    assert judge(above("a", "b"), ours, ["0", "1", "2"], at_least=2)[0] is True
    few = Check("A is better.", "on all", above("a", "b")).claim(
        PairedMeans(records, list("0123456789ab")), pd.DataFrame()
    )
    assert not few.measured


@pytest.mark.parametrize(
    ("gains", "margin", "holds"),
    [
        ([2.0] * 30 + [-2.0] * 10, lead, True),
        ([2.0] * 10 + [-2.0] * 30, lead, False),
        ([0.0] * 40, lead, None),
        ([2.0] * 30 + [-2.0] * 10, share_above(62.0), True),
        ([2.0] * 20 + [-2.0] * 20, share_above(62.0), False),
    ],
)
def test_a_statement_about_shares(gains: list[float], margin, holds: bool | None) -> None:
    records = make_trials(gains, 0.5)
    gain = paired_gains(records, "a", "b", names(records))
    draws = draw_gains(records, "a", "b", names(records))
    assert draws.shape == (DRAWS, len(gains))
    claim = win_rate_claim("Often.", "50 %", gain, draws, 1.0, margin)
    assert claim.holds is holds
    partial = win_rate_claim("Often.", "50 %", gain, draws, 0.5, margin)
    assert (partial.holds, partial.complete) == (holds, False)
    assert not win_rate_claim("Often.", "50 %", gain, draws, 0.1, margin).measured


@pytest.mark.parametrize("draws", [np.arange(100.0), np.ones(7), np.array([0.0] * 98 + [1.0] * 2)])
def test_interval_leaves_out_at_most_a_fortieth_on_each_side(draws: np.ndarray) -> None:
    low, high = central_interval(draws)
    assert {low, high} <= set(draws.tolist())
    assert (draws < low).mean() <= 0.025
    assert (draws > high).mean() <= 0.025


@pytest.mark.parametrize("required", range(1, 8))
def test_decision_follows_from_the_interval(required: int) -> None:
    for low in range(8):
        for high in range(low, 8):
            every = {value >= required for value in range(low, high + 1)}
            assert decide((low, high), required, trials=9) is (every.pop() if len(every) == 1 else None)


def test_only_statements_of_the_paper_are_counted() -> None:
    claims = [
        Claim("", "", "", holds, of_paper=of_paper) for holds in (True, False, None) for of_paper in (True, False)
    ]
    counts = count_verdicts([*claims, Claim("", "", NOTHING_MEASURED, None)])
    assert counts == {"holds": 1, "fails": 1, "cannot be told": 1, "not run": 1}
    assert describe_counts(counts) == "1 holds, 1 fails, 1 cannot be told and 1 was not run"
