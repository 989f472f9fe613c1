"""GenMix experiments: equal steps for all methods, points halfway between true curves, figures from records."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from genlabel import DensityWarning
from genlabel.data.datasets.synthetic import make_four_gaussians
from genlabel.evaluation.records import open_store, run_trials
from genlabel.training.batching import batches_per_epoch
from genlabel_paper.experiments import densities, figure14, figure15, figure16, table15
from genlabel_paper.runs import genmix, genmix_hidden, genmix_methods
from genlabel_paper.runs.cells import PAPER_SCHEMA, Cell, in_percent
from genlabel_paper.runs.genmix import AugmentedRows
from genlabel_paper.runs.genmix_datasets import GENMIX_DATASETS, PointDataset
from genlabel_paper.runs.genmix_hidden import HIDDEN_DATASETS
from genlabel_paper.runs.genmix_methods import GENMIX_METHODS, make_density
from genlabel_paper.runs.plane import decode_points, encode_points
from genlabel_paper.runs.settings import SETTINGS
from genlabel_paper.runs.trials import fingerprint_cell, run_trial

TEX = Path(__file__).parents[3] / "shared" / "paper" / "genlabel.tex"
AVAILABLE = [name for name in GENMIX_DATASETS if name != "mnist-79"]
CHEAP = ["vanilla", "mixup", "manifold", "genmix-gaussian", "genmix-kernel", "genmix-mixture"]


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(genmix, "STEPS", 16)
    monkeypatch.setattr(genmix, "MAX_MARGINS", 10)


@pytest.mark.parametrize("name", AVAILABLE)
def test_splits_differ_and_share_no_rows_with_the_test_set(name: str) -> None:
    dataset = GENMIX_DATASETS[name]
    first, repeated, other = (dataset.load(split) for split in (0, 0, 1))
    for one, same in zip(first, repeated, strict=True):
        np.testing.assert_array_equal(one, same)
    assert not np.array_equal(first.X, other.X)
    assert first.y.max() == first.y_test.max()
    train_rows = {row.tobytes() for row in first.X}
    assert not any(row.tobytes() in train_rows for row in first.X_test)


def test_digits_have_two_classes_in_the_unit_range() -> None:
    from sklearn.datasets import load_digits

    images, target = load_digits(return_X_y=True)
    classes = {row.tobytes(): c for row, c in zip(np.rint(images * 255 / 16), target, strict=True)}
    split = GENMIX_DATASETS["digits-79"].load(0)
    assert np.bincount(split.y).tolist() == [100, 100]
    for X, y in ((split.X, split.y), (split.X_test, split.y_test)):
        assert [classes[np.rint(255 * row).tobytes()] for row in X] == np.array([7, 9])[y].tolist()


def test_missing_mnist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="mnist"):
        GENMIX_DATASETS["mnist-79"].load(0, tmp_path)


@pytest.mark.parametrize("limits", [(1.4, 1.4), (5.5, 6.0)])
def test_encoded_points_round_trip(limits: tuple[float, float]) -> None:
    rng = np.random.default_rng(0)
    points, pair = rng.uniform(-1.1, 1.1, (300, 2)) * limits, rng.integers(0, 4, (300, 2))
    inside = (np.abs(points) <= limits).all(axis=1)
    text = encode_points(points, pair, limits)
    decoded, decoded_pair = decode_points(text, limits)
    np.testing.assert_allclose(decoded, points[inside], atol=2e-5 * max(limits))
    np.testing.assert_array_equal(decoded_pair, pair[inside])
    assert len(text) < 3000


@pytest.mark.parametrize("dataset", ["circle-2d", "y", "digits-79"])
def test_all_methods_take_the_same_number_of_steps(dataset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: dict[str, int] = {}

    def count(network: Any, task: Any, candidate: Any, **options: Any) -> None:
        np.testing.assert_allclose(task.targets.sum(axis=1), 1.0)
        steps[key] = options["epochs"] * batches_per_epoch(len(task.X), options["batch_size"])

    monkeypatch.setattr(genmix, "train_task", count)
    monkeypatch.setattr(genmix, "MAX_MARGINS", 5)
    for key in ("vanilla", "manifold", "genmix-gaussian"):
        run_trial([Cell("genmix", dataset, key, 0, 0, GENMIX_METHODS[key].alpha)])
    assert min(steps.values()) > 0.98 * genmix.STEPS
    assert max(steps.values()) < 1.02 * genmix.STEPS


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("key", CHEAP)
def test_trial_is_reproducible_and_records_its_points(key: str) -> None:
    cell = Cell("genmix", "v", key, 0, 0, GENMIX_METHODS[key].alpha)
    (first,), (second,) = run_trial([cell]), run_trial([cell])
    assert first["metrics"] == second["metrics"]
    assert first["parameters"]["regions"] == second["parameters"]["regions"]
    assert first["parameters"]["added"] == (600 if "genmix" in key else 0)
    assert ("points" in first["parameters"]) == ("genmix" in key)
    assert ("equidistance_median" in first["metrics"]) == ("genmix" in key)


@pytest.mark.usefixtures("few_steps")
def test_kernel_density_finds_the_middle_of_v() -> None:
    """Check end to end against the true curves, which the learned density does not know."""
    (record,) = run_trial([Cell("genmix", "v", "genmix-kernel", 0, 0)])
    assert record["metrics"]["equidistance_median"] < 0.2
    limits = GENMIX_DATASETS["v"].limits
    points, pair = decode_points(record["parameters"]["points"], limits)
    assert np.abs(np.median(points[:, 0])) < 0.05  # V is symmetric: halfway is x = 0
    assert set(map(tuple, np.sort(pair, axis=1).tolist())) == {(0, 1)}


def test_equidistance_of_points_on_a_ring() -> None:
    t = np.linspace(0, 2 * np.pi, 50)
    middle = 0.9 * np.column_stack([np.cos(t), np.sin(t)])
    pair = np.tile([0, 1], (50, 1))
    rows = AugmentedRows(np.vstack([np.zeros((3, 2)), middle]), np.ones((53, 2)), pair, 0.0)
    metrics = genmix._measure_added(rows, "circle", "l2")
    assert metrics["equidistance_share"] == 1.0
    assert metrics["equidistance_median"] < 1e-4
    rows = rows._replace(X=np.vstack([np.zeros((3, 2)), middle * 0.95 / 0.9]))
    assert genmix._measure_added(rows, "circle", "l2") == {
        "equidistance_median": pytest.approx(2 / 3, abs=1e-4),
        "equidistance_share": 0.0,
    }
    assert genmix._measure_added(rows, None, "l2") == {}


@pytest.mark.usefixtures("few_steps")
def test_images_are_trained_with_a_lenet() -> None:
    (record,) = run_trial([Cell("genmix", "digits-79", "genmix-gaussian", 0, 0)])
    assert record["parameters"]["added"] == 200
    assert 0.0 <= record["metrics"]["accuracy"] <= 1.0
    assert "regions" not in record["parameters"]


def test_densities_are_seeded_and_part_of_the_fingerprint() -> None:
    for name in ("mixture", "flow", "vae", "gan"):
        assert make_density(name, 3).random_state == 3
    assert make_density("gan", norm="linf").norm == "linf"
    assert make_density("gan", image=(1, 28, 28)).shape == (1, 28, 28)
    keys = [key for key, method in GENMIX_METHODS.items() if method.supports(GENMIX_DATASETS["v"])]
    fingerprints = {fingerprint_cell(Cell("genmix", "v", key, 0, 0, GENMIX_METHODS[key].alpha)) for key in keys}
    assert len(fingerprints) == len(keys)


@pytest.fixture(scope="module")
def figure_records() -> pd.DataFrame:
    """Return records of figures 14 and 15, trained for a few steps, with GANs."""
    cells = [*figure14.cells("smoke"), *figure15.cells("smoke")]
    tiny = {"hidden": (8,), "steps": 30, "min_coverage": 0.0, "penalty": 0.05}
    with pytest.MonkeyPatch.context() as patch, open_store(None, PAPER_SCHEMA) as store:
        patch.setattr(genmix, "STEPS", 8)
        patch.setattr(genmix, "MAX_MARGINS", 5)
        patch.setattr(genmix, "ADDED_PER_ROW", 30)
        gan = genmix_methods.GANDensity
        patch.setattr(genmix_methods, "GANDensity", lambda *args, **options: gan(*args, **options | tiny))
        run_trials(cells, run_trial, store=store, fingerprint=lambda cell: "test")
        result = store.read()
    assert not result.failures
    return result.frame


@pytest.mark.long
def test_figures_14_and_15_are_drawn_from_records(figure_records: pd.DataFrame) -> None:
    for module, panels in ((figure14, 9), (figure15, 3)):
        (figure,) = module.render(figure_records).figures
        assert len(figure.figure.axes) == panels
        without_parameters = figure_records.assign(parameters=[{}] * len(figure_records))
        assert not module.render(without_parameters).figures


def test_no_point_is_added_between_classes_1_and_2(figure_records: pd.DataFrame) -> None:
    claim = figure14.render(figure_records).claims[1]
    assert claim.holds is None  # one trial proves nothing
    assert claim.ours.startswith("0 of ")
    X, y = make_four_gaussians(random_state=0)
    from genlabel.mixing import GenMix

    sampler = GenMix(make_density("gaussian"), n_aug=60, output="soft", random_state=0)
    with pytest.warns(DensityWarning, match="1 and 2"):
        sampler.fit_resample(X, y)
    assert (1, 2) not in set(map(tuple, np.sort(sampler.pair_, axis=1).tolist()))
    assert len(np.unique(np.sort(sampler.pair_, axis=1), axis=0)) > 2


def printed_records() -> pd.DataFrame:
    """Records that are the printed means of table 15."""
    rows = [
        {"dataset": name, "method": row, "accuracy": 100.0 - value.mean, "alpha": GENMIX_METHODS[row].alpha}
        for (row, name), value in table15.PAPER.items()
    ]
    frame = pd.DataFrame(rows).assign(setting="genmix", parameters=[{}] * len(rows))
    return pd.concat([frame.assign(split=trial, seed=trial) for trial in range(3)], ignore_index=True)


def test_printed_errors_support_the_statements() -> None:
    rendering = table15.render(printed_records())
    assert [claim.holds for claim in rendering.claims] == [True, True, True]
    for _, row in rendering.grids[0].rows[:4]:
        assert all(value.ours.mean == pytest.approx(value.paper.mean) for value in row)


@pytest.mark.skipif(not TEX.exists(), reason=f"the paper's source is not at {TEX}")
def test_printed_errors_equal_the_source() -> None:
    text = TEX.read_text()
    table = text[text.index(r"\label{Table:generalization}") :].split(r"\end{tabular}", 1)[0]
    source_pairs = re.findall(r"([\d.]+)\}?\s*\$\\pm\$\s*([\d.]+)", table)
    rows = list(dict.fromkeys(row for row, _ in table15.PAPER))
    sets = list(dict.fromkeys(name for _, name in table15.PAPER))
    order = [(row, name) for row in rows for name in sets]
    assert {key: (float(a), float(b)) for key, (a, b) in zip(order, source_pairs, strict=True)} == {
        key: (value.mean, value.spread) for key, value in table15.PAPER.items()
    }


def test_density_repairs_mixup_where_it_is_near_vanilla() -> None:
    accuracies = {"vanilla": 99.0, "mixup": 90.0, "genlabel-kde": 98.8, "genlabel-gm": 91.0}
    rows = [
        {"dataset": name, "method": row, "accuracy": value if name == "circle" else 99.0}
        for name in densities.SETS
        for row, value in accuracies.items()
    ]
    single = pd.DataFrame(rows).assign(setting="densities", alpha=1.0, split=0, seed=0, seconds=1.0)
    frame = pd.concat([single, single.assign(seed=1)], ignore_index=True)
    rendering = densities.render(frame)
    assert rendering.claims[0].holds is True
    assert densities.render(single).claims[0].holds is None
    assert not rendering.claims[0].of_paper
    assert "kernels: GenLabel repairs mixup on Circle (1 of 1 datasets where it is worse)." in rendering.notes
    assert "GM: GenLabel repairs mixup nowhere (0 of 1 datasets where it is worse)." in rendering.notes
    without_kernel = frame[frame["method"] != "genlabel-kde"]
    assert densities.render(without_kernel).claims[0].ours == "on 0 of 1 datasets; not on Circle"


def test_every_density_of_the_repair_table_has_a_setting() -> None:
    known = SETTINGS["densities"].variants("circle")
    assert {(row, 1.0) for row in densities.ROWS} == known
    assert len({fingerprint_cell(Cell("densities", "circle", row, 0, 0)) for row in densities.ROWS}) == len(known)


@pytest.mark.filterwarnings("ignore::genlabel.DensityWarning")
def test_images_between_classes_are_recorded_and_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HIDDEN_DATASETS, "digits", HIDDEN_DATASETS["digits"]._replace(images=600, epochs=2))
    for name, value in (("INVERSION_STEPS", 5), ("ATTACKED_IMAGES", 20), ("POINTS_PER_PAIR", 1)):
        monkeypatch.setattr(genmix_hidden, name, value)
    with open_store(None, PAPER_SCHEMA) as store:
        run_trials(figure16.cells("smoke"), run_trial, store=store, fingerprint=lambda cell: "test")
        result = store.read()
    assert not result.failures
    params = result.frame["parameters"].iloc[0]
    images = genmix_hidden.decode_images(params)
    assert images.shape == (len(params["pairs"]), 1, 8, 8)
    assert images.max() > 0
    rendering = figure16.render(in_percent(result.frame))
    (figure,) = rendering.figures
    assert [ax.get_xlabel() for ax in figure.figure.axes][: len(images)] == params["pairs"]
    assert all(value.ours is not None for _, row in rendering.grids[0].rows for value in row)


def test_plotted_datasets_are_within_their_limits() -> None:
    for dataset in GENMIX_DATASETS.values():
        if isinstance(dataset, PointDataset) and dataset.limits is not None:
            assert (np.abs(dataset.load(0).X) <= dataset.limits).all(axis=1).mean() > 0.99
