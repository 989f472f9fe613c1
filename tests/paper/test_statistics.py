"""Methods over all datasets: ranks and probabilities against independent oracles, and a missing library."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from genlabel_paper.experiments import statistics
from genlabel_paper.experiments.statistics import (
    critical_difference,
    plot_ranks,
    plot_signed_ranks,
    render,
    signed_ranks,
    study_means,
)
from genlabel_paper.runs.manifest import low_dimensional_datasets
from genlabel_paper.runs.methods import TITLES

NAMES = list(statistics.ON_EVERY_SET)


def make_records(sets: int = 30, gain: float = 2.0) -> pd.DataFrame:
    """Return records in which GenLabel (CV) is better than all others by `gain` points."""
    rng = np.random.default_rng(0)
    rows = [
        {
            "dataset": name,
            "method": method,
            "split": 0,
            "seed": seed,
            "accuracy": base + gain * (method == "genlabel-cv"),
        }
        for name in low_dimensional_datasets()[:sets]
        for base in [rng.uniform(60.0, 90.0)]
        for method in NAMES
        for seed in range(2)
    ]
    frame = pd.DataFrame(rows).assign(setting="logistic", alpha=1.0)
    frame["accuracy"] += rng.normal(0.0, 0.2, len(frame))
    return frame


def test_means_are_over_datasets_with_every_method() -> None:
    frame = make_records()
    means = study_means(frame)
    assert list(means) == NAMES
    assert len(means) == 30
    rows = frame[(frame["dataset"] == "36") & (frame["method"] == "mixup")]
    assert means.loc["36", "mixup"] == pytest.approx(rows["accuracy"].mean())
    incomplete = frame[~((frame["dataset"] == "36") & (frame["method"] == "mixup"))]
    assert "36" not in study_means(incomplete).index
    without_most = frame[~((frame["method"] == "adamixup") & frame["dataset"].isin(low_dimensional_datasets()[:15]))]
    assert "adamixup" not in study_means(without_most)
    assert len(study_means(without_most)) == 30
    assert study_means(frame[frame["method"] != "genlabel-cv"]).empty


def test_critical_difference_equals_the_published_table() -> None:
    # Demšar (2006), Table 5: q = 2.569 for four methods; his example has 14 datasets.
    assert critical_difference(14, 4) == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), abs=1e-3)


def test_ranks_equal_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "SAMPLES", 100)
    means = study_means(make_records())
    ranks = stats.rankdata(-means.to_numpy(), axis=1).mean(axis=0)
    rendering = render(make_records())
    grid = rendering.grids[0]
    our_ranks = dict(zip(grid.columns, (value.ours.mean for value in grid.rows[0][1] if value.ours), strict=True))
    assert our_ranks == pytest.approx({TITLES[name]: rank for name, rank in zip(means, ranks, strict=True)})
    assert grid.columns[0] == TITLES["genlabel-cv"]


def test_diagram_names_every_method_with_its_rank() -> None:
    pytest.importorskip("scikit_posthocs")
    means = study_means(make_records())
    (ax,) = plot_ranks(means).axes
    words = " ".join(text.get_text() for text in ax.texts)
    bars = [line.get_xdata() for line in ax.lines if np.ptp(line.get_ydata()) == 0.0]
    assert all((np.diff(x) >= 0.0).all() for x in bars)  # the same order in any process, for a reproducible page
    for name, rank in means.rank(axis=1, ascending=False).mean().items():
        assert TITLES[str(name)] in words
        assert f"({rank:.2f})" in words


@pytest.mark.parametrize("gain, column", [(2.0, "higher"), (0.0, "same"), (-2.0, "lower")])
def test_probabilities_follow_the_gain(gain: float, column: str) -> None:
    pytest.importorskip("baycomp")
    shares = signed_ranks(study_means(make_records(gain=gain)), samples=500)
    assert list(shares.index) == [name for name in NAMES if name != "genlabel-cv"]
    assert shares.sum(axis=1).to_numpy() == pytest.approx(100.0)
    assert (shares[column] > 95.0).all()
    assert len(plot_signed_ranks(shares).axes[0].patches) == 3 * len(shares)


def test_seed_determines_the_draws() -> None:
    pytest.importorskip("baycomp")
    means = study_means(make_records(gain=0.5))
    first, again, other = (signed_ranks(means, samples=300, seed=seed) for seed in (0, 0, 1))
    pd.testing.assert_frame_equal(first, again)
    assert not first.equals(other)


def test_rendering_has_all_grids_and_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("baycomp")
    pytest.importorskip("scikit_posthocs")
    monkeypatch.setattr(statistics, "SAMPLES", 500)
    rendering = render(make_records())
    assert len(rendering.grids) == 2
    assert len(rendering.figures) == 2
    assert rendering.notes[0].startswith("30 datasets have each of the 8 methods.")


def test_missing_library_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(statistics, "import_module", missing)
    rendering = render(make_records())
    assert len(rendering.grids) == 1
    assert not rendering.figures
    left_out = [note for note in rendering.notes if note.startswith("Left out")]
    assert left_out == [
        'Left out: scikit_posthocs is not installed; pip install "genlabel[stats]"',
        'Left out: baycomp is not installed; pip install "genlabel[stats]"',
    ]


def test_few_datasets_are_not_tested() -> None:
    assert render(make_records(sets=5)).notes == ["Fewer than 25 datasets have every method: nothing is tested."]


def test_equal_accuracies_share_a_rank() -> None:
    """Sums in another order differ in the last digits; they are ties, and a tie is half a rank each."""
    frame = make_records(gain=0.0)
    rng = np.random.default_rng(1)
    jitter = frame.assign(accuracy=80.0 + rng.uniform(-1e-12, 1e-12, len(frame)))
    ranks = study_means(jitter).rank(axis=1)
    assert set(ranks.to_numpy().ravel().tolist()) == {(len(ranks.columns) + 1) / 2}
