"""Parts of a diagnosis against closed forms: intervals, mixed samples on a line, permuted labels, the verdict rule."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.spatial import cKDTree

from genlabel import GaussianDensity, Mixup, StackedDensity, Typicality
from genlabel.evaluation.diagnosis.density_check import MeanDifference, check_density, mean_difference
from genlabel.evaluation.diagnosis.diagnose import SENTENCES, choose_verdict
from genlabel.evaluation.diagnosis.mixed_samples import (
    MAX_PAIRS,
    MixedSamples,
    effective_size,
    evaluate_mixed_samples,
    lambda_table,
    pair_table,
    permuted_intrusion,
)
from genlabel.evaluation.prediction_counts import wilson_interval
from genlabel.mixing import intrudes
from genlabel.mixing.base import blend

NARROW = 0.01


def clusters(centers: Any, size: int = 40, spread: float = NARROW, seed: int = 0) -> tuple[Any, Any]:
    """Return the same cloud around each center, so that the boundary of two classes is halfway."""
    centers = np.asarray(centers, dtype=float)
    index = np.repeat(np.arange(len(centers)), size)
    cloud = spread * np.random.default_rng(seed).normal(size=(size, centers.shape[1]))
    return centers[index] + np.tile(cloud - cloud.mean(0), (len(centers), 1)), index


LINE = [[-1.0], [0.0], [1.0]]
FAR = [[-1.0, 0.0], [1.0, 0.0]]


@cache
def mixed_samples_of(name: str, alpha: float) -> tuple[MixedSamples, NDArray[Any], NDArray[Any]]:
    X, index = clusters({"line": LINE, "far": FAR}[name])
    model = StackedDensity([GaussianDensity()]).fit(X, index)
    return evaluate_mixed_samples(model, Typicality().fit(X, index), X, index, 3000, alpha, seed=0), X, index


def frame_of(name: str, alpha: float) -> Any:
    samples, X, index = mixed_samples_of(name, alpha)
    pairs = pair_table(samples, index, permuted_intrusion(X, index, 3000, alpha, 0)[0])
    return pairs.set_index(["first", "second"])


def clear_pairs(X: Any, y: Any, seed: int) -> list[tuple[int, int]]:
    samples = evaluate_mixed_samples(
        StackedDensity([GaussianDensity()]).fit(X, y), Typicality().fit(X, y), X, y, 600, 0.3, seed
    )
    pairs = pair_table(samples, y, permuted_intrusion(X, y, 600, 0.3, seed)[0])
    return [tuple(pair) for pair in pairs.loc[pairs["clear"], ["first", "second"]].to_numpy().tolist()]


def test_pairs_of_classes_are_clear_only_with_evidence() -> None:
    n_clear = 0
    for seed in range(12):
        rng, k = np.random.default_rng(seed), 2 + seed % 5
        n_clear += bool(clear_pairs(rng.normal(size=(90, 3)), np.arange(90) % k, seed))
    assert n_clear <= 2  # every table has a pair of the highest intrusion
    assert clear_pairs(*clusters(LINE), 0) == [(0, 2)]


@pytest.mark.parametrize("share, size", [(0.0, 10), (0.3, 10), (0.5, 1000), (1.0, 7)])
def test_interval_equals_wilson(share: float, size: int) -> None:
    oracle = stats.binomtest(round(share * size), size).proportion_ci(method="wilson")
    np.testing.assert_allclose(wilson_interval(share, size), [oracle.low, oracle.high], atol=2e-5)


@pytest.mark.parametrize("first, second, same", [(10, 60, False), (60, 10, False), (30, 30, True)])
def test_interval_covers_with_shared_parents(first: int, second: int, same: bool) -> None:
    rng, share, count, covered = np.random.default_rng(0), 0.3, 200, []
    for _ in range(300):
        intrudes_by_row = rng.random(first) < share  # intrusion depends on the first parent alone
        estimate = float(intrudes_by_row[rng.integers(0, first, count)].mean())
        low, high = wilson_interval(estimate, effective_size(count, first, second, same))
        covered.append(low <= share <= high)
    assert np.mean(covered) >= 0.93


def test_interval_of_a_gain_covers_and_is_antisymmetric() -> None:
    rng, fold, covered = np.random.default_rng(0), np.arange(120) % 4, []
    for _ in range(300):
        first, second = rng.normal(0.1, 1.0, 120), rng.normal(0.0, 1.0, 120)
        difference, reversed_difference = mean_difference(first, second, fold), mean_difference(second, first, fold)
        np.testing.assert_allclose(
            difference, [-reversed_difference.mean, -reversed_difference.high, -reversed_difference.low]
        )
        covered.append(difference.low <= 0.1 <= difference.high)
    assert np.mean(covered) >= 0.95
    assert mean_difference(first, second, np.zeros(120, dtype=np.intp)).high == np.inf


def test_interval_without_folds_equals_a_paired_t_test() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(0.3, 1.0, 5000), rng.normal(size=5000)
    oracle = stats.ttest_rel(first, second).confidence_interval(0.95)
    np.testing.assert_allclose(mean_difference(first, second)[1:], oracle, atol=1e-4)
    assert mean_difference(first[:1], second[:1]).high == np.inf


def test_differing_folds_widen_the_interval() -> None:
    rng, fold = np.random.default_rng(0), np.arange(120) % 4
    loss = rng.normal(size=120)
    similar, different = (
        mean_difference(loss, np.zeros(120), fold),
        mean_difference(loss + np.array([-3.0, 3.0, -3.0, 3.0])[fold], np.zeros(120), fold),
    )
    assert different.high - different.mean > 2.0 * (similar.high - similar.mean)


@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_intrusion_on_a_line_equals_the_closed_form(alpha: float) -> None:
    pairs, inside = frame_of("line", alpha), float(np.diff(stats.beta.cdf([0.25, 0.75], alpha, alpha))[0])
    assert pairs.loc[(0, 2), "intrusion"] == pytest.approx(inside, abs=0.02)
    assert pairs.loc[(0, 2), "low"] < inside < pairs.loc[(0, 2), "high"]
    assert (pairs["intrusion"].drop((0, 2)) == 0.0).all()


def test_label_distance_on_a_line_equals_the_integral_of_lam() -> None:
    pairs = frame_of("line", 1.0)["total_variation"]
    assert pairs[0, 2] == pytest.approx(0.5 + 2 * 0.25**2 / 2, abs=0.02)  # 1 in the middle half, min(lam, 1 - lam) else
    assert pairs[0, 1] == pytest.approx(0.25, abs=0.02)  # the mean of min(lam, 1 - lam)
    assert pairs[1, 1] == pytest.approx(0.0, abs=1e-6)
    samples, _, index = mixed_samples_of("line", 1.0)
    cells = lambda_table(samples, index).set_index(["first", "second", "lam_low"])["total_variation"]
    assert cells[0, 2, 0.4] == pytest.approx(1.0, abs=1e-6)
    assert cells[0, 1, 0.0] == pytest.approx(0.1, abs=0.02)


def test_two_far_classes_have_no_intrusion_and_atypical_mixed_samples() -> None:
    pairs = frame_of("far", 1.0)
    assert (pairs["intrusion"] == 0.0).all()
    assert pairs.loc[(0, 1), "atypical"] > 0.9
    assert pairs["atypical"].drop((0, 1)).max() < 0.2
    assert pairs.loc[(0, 1), "total_variation"] == pytest.approx(0.25, abs=0.02)


def test_permuted_intrusion_equals_the_class_frequencies() -> None:
    rng = np.random.default_rng(0)
    X, index = rng.normal(size=(300, 2)), np.repeat([0, 1, 2], [150, 100, 50])
    first, second, lam = rng.integers(0, 300, 20000), rng.integers(0, 300, 20000), rng.random(20000)
    mixed = lam[:, None] * X[first] + (1.0 - lam[:, None]) * X[second]
    nearest = cKDTree(X).query(mixed)[1]
    others = float(((nearest != first) & (nearest != second))[first != second].mean())
    table, each = permuted_intrusion(X, index, 20000, 1.0, 0)
    shares = table.set_index(["first", "second"])["permuted"]
    for first_class, second_class, third in [(0, 1, 50), (0, 2, 100), (1, 2, 150), (0, 0, 150), (1, 1, 200)]:
        assert shares[first_class, second_class] == pytest.approx(others * third / 298, abs=0.05)
    assert np.mean(each) == pytest.approx(np.average(shares, weights=[149 * 150, 2 * 150 * 100, 2 * 150 * 50, 99 * 100,
                                                                         2 * 100 * 50, 49 * 50]), abs=1e-9)  # fmt: skip
    assert frame_of("far", 1.0).loc[(0, 1), "permuted"] == 0.0  # two classes have no third one


def test_weighted_intrusion_equals_that_of_mixup() -> None:
    rng = np.random.default_rng(0)
    index = rng.choice(4, size=200, p=[0.5, 0.3, 0.15, 0.05])
    X = rng.normal(size=(200, 2)) + 1.5 * np.stack([np.cos(index), np.sin(2 * index)], 1)
    model = StackedDensity([GaussianDensity()]).fit(X, index)
    samples = evaluate_mixed_samples(model, Typicality().fit(X, index), X, index, 8000, 0.7, seed=0)
    pairs = pair_table(samples, index, permuted_intrusion(X, index, 100, 0.7, 0)[0])
    rates = []
    for seed in range(60):
        draw = Mixup(0.7).draw(200, seed)
        cross = draw.partner != np.arange(200)
        rates.append(intrudes(blend(X, draw), draw, X, index)[cross].mean())
    assert np.average(pairs["intrusion"], weights=pairs["weight"]) == pytest.approx(np.mean(rates), abs=0.02)
    assert pairs["weight"].sum() == pytest.approx(1.0)


def test_mixed_samples_have_distinct_parents_and_beta_weights() -> None:
    samples, _, index = mixed_samples_of("line", 0.3)
    first, second, lam = samples.pairs
    assert (index[first] <= index[second]).all()
    assert (first != second).all()
    assert np.ptp(np.bincount(first)) <= 3 * 1 + np.ptp([np.sum(first // 40 == c) for c in range(3)])
    assert stats.kstest(lam[(index[first] == 0) & (index[second] == 2)], "beta", args=(0.3, 0.3)).pvalue > 0.05
    np.testing.assert_allclose(samples.linear_labels.sum(1), 1.0)
    np.testing.assert_allclose(
        samples.linear_labels[np.arange(len(lam)), index[first]][index[first] != index[second]],
        lam[index[first] != index[second]],
    )


def test_most_frequent_pairs_are_used() -> None:
    rng = np.random.default_rng(0)
    index = np.concatenate([np.zeros(100, dtype=np.intp), np.repeat(np.arange(1, 31), 3)])
    X = rng.normal(size=(len(index), 2))
    table, overall = permuted_intrusion(X, index, 500, 1.0, 0)
    assert len(table) <= MAX_PAIRS + 30
    assert ((table["first"] == 0) & (table["second"] == 0)).any()
    assert all(0.0 <= share <= 1.0 for share in overall)


@pytest.mark.parametrize("seed", range(3))
def test_density_of_permuted_labels_is_not_trusted(seed: int) -> None:
    X, index = clusters(LINE, spread=0.3)
    X, shuffled = np.column_stack([X, X**2]), np.random.default_rng(seed).permutation(index)
    candidates = [GaussianDensity(), GaussianDensity(1.0)]
    assert check_density(StackedDensity(candidates).fit(X, index), X, index, 0).trusted
    check = check_density(StackedDensity(candidates).fit(X, shuffled), X, shuffled, 0)
    assert not check.trusted
    assert "priors" in check.reasons[0]
    assert check.prior == pytest.approx(np.log(3), abs=0.02)


def test_density_far_behind_logistic_regression_is_not_trusted() -> None:
    rng, index = np.random.default_rng(0), np.repeat([0, 1], 200)
    common = rng.normal(size=400)
    X = np.column_stack([common, common + 0.2 * (index - 0.5), rng.normal(size=400) + 1.5 * index])
    X = (X - X.mean(0)) / X.std(0)
    poor = check_density(StackedDensity([GaussianDensity(1.0)]).fit(X, index), X, index, 0)
    assert poor.over_prior.low > 0
    assert not poor.trusted
    assert "logistic" in poor.reasons[0]
    assert check_density(StackedDensity([GaussianDensity()]).fit(X, index), X, index, 0).trusted


BETTER, SAME, WORSE = (
    MeanDifference(0.05, 0.01, 0.09),
    MeanDifference(0.0, -0.02, 0.02),
    MeanDifference(-0.05, -0.09, -0.01),
)
UNCLEAR = MeanDifference(0.0, -0.03, 0.01)
TINY = MeanDifference(0.001, 0.0005, 0.0015)


@pytest.mark.parametrize(
    "mixup, genlabel, difference, word",
    [
        (SAME, BETTER, BETTER, "GenLabel"),
        (BETTER, BETTER, SAME, "GenLabel"),
        (BETTER, BETTER, WORSE, "mixup"),
        (BETTER, SAME, SAME, "mixup"),
        (WORSE, WORSE, SAME, "no mixing"),
        (SAME, WORSE, SAME, "no mixing"),
        (WORSE, SAME, BETTER, "not mixup"),
        (SAME, SAME, SAME, "negligible"),
        (TINY, TINY, SAME, "negligible"),
        (UNCLEAR, SAME, SAME, "unclear"),
    ],
)
def test_verdict_follows_from_the_gains(
    mixup: MeanDifference, genlabel: MeanDifference, difference: MeanDifference, word: str
) -> None:
    assert choose_verdict(mixup, genlabel, difference) == word
    assert word in SENTENCES


@pytest.mark.parametrize(
    "mixup, genlabel, word",
    [(SAME, BETTER, "not trusted"), (BETTER, WORSE, "mixup"), (WORSE, BETTER, "not mixup"), (SAME, SAME, "negligible")],
)
def test_labels_of_an_untrusted_density_are_never_recommended(
    mixup: MeanDifference, genlabel: MeanDifference, word: str
) -> None:
    assert choose_verdict(mixup, genlabel, SAME, trusted=False) == word
