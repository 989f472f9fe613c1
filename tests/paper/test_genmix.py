"""GenMix experiments: equal steps for all methods, points halfway between the true curves, figures from records."""

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
from genlabel_paper.runs.genmix import TrainingRows
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
def test_a_split_is_a_draw_of_its_own_and_the_test_rows_are_others(name: str) -> None:
    about = GENMIX_DATASETS[name]
    first, again, other = (about.load(split) for split in (0, 0, 1))
    for one, same in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, same)
    assert not np.array_equal(first.X, other.X)
    assert first.y.max() == first.y_test.max()
    seen = {row.tobytes() for row in first.X}
    assert not any(row.tobytes() in seen for row in first.X_test)


def test_the_digits_are_those_of_the_two_classes_in_unit_range() -> None:
    from sklearn.datasets import load_digits

    images, target = load_digits(return_X_y=True)
    classes = {row.tobytes(): c for row, c in zip(np.rint(images * 255 / 16), target, strict=True)}
    parts = GENMIX_DATASETS["digits-79"].load(0)
    assert np.bincount(parts.y).tolist() == [100, 100]
    for X, y in ((parts.X, parts.y), (parts.X_test, parts.y_test)):
        assert [classes[np.rint(255 * row).tobytes()] for row in X] == np.array([7, 9])[y].tolist()


def test_without_the_file_mnist_says_where_to_put_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="mnist"):
        GENMIX_DATASETS["mnist-79"].load(0, tmp_path)


@pytest.mark.parametrize("limits", [(1.4, 1.4), (5.5, 6.0)])
def test_points_come_back_from_their_text(limits: tuple[float, float]) -> None:
    rng = np.random.default_rng(0)
    points, pair = rng.uniform(-1.1, 1.1, (300, 2)) * limits, rng.integers(0, 4, (300, 2))
    inside = (np.abs(points) <= limits).all(axis=1)
    text = encode_points(points, pair, limits)
    again, same = decode_points(text, limits)
    np.testing.assert_allclose(again, points[inside], atol=2e-5 * max(limits))
    np.testing.assert_array_equal(same, pair[inside])
    assert len(text) < 3000


@pytest.mark.parametrize("dataset", ["circle-2d", "y", "digits-79"])
def test_all_methods_take_the_same_number_of_steps(dataset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: dict[str, int] = {}

    def count(network: Any, task: Any, candidate: Any, **how: Any) -> None:
        np.testing.assert_allclose(task.targets.sum(axis=1), 1.0)
        taken[key] = how["epochs"] * batches_per_epoch(len(task.X), how["batch_size"])

    monkeypatch.setattr(genmix, "train_task", count)
    monkeypatch.setattr(genmix, "MAX_MARGINS", 5)
    for key in ("vanilla", "manifold", "genmix-gaussian"):
        run_trial([Cell("genmix", dataset, key, 0, 0, GENMIX_METHODS[key].alpha)])
    assert min(taken.values()) > 0.98 * genmix.STEPS
    assert max(taken.values()) < 1.02 * genmix.STEPS


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("key", CHEAP)
def test_a_cell_has_its_points_and_comes_out_the_same_again(key: str) -> None:
    cell = Cell("genmix", "v", key, 0, 0, GENMIX_METHODS[key].alpha)
    (one,), (again,) = run_trial([cell]), run_trial([cell])
    assert one["metrics"] == again["metrics"]
    assert one["parameters"]["regions"] == again["parameters"]["regions"]
    assert one["parameters"]["added"] == (600 if "genmix" in key else 0)
    assert ("points" in one["parameters"]) == ("genmix" in key)
    assert ("equidistance_median" in one["metrics"]) == ("genmix" in key)


@pytest.mark.usefixtures("few_steps")
def test_kernels_find_the_middle_of_v() -> None:
    """An end-to-end check by the true curves: the learned density knows nothing of them."""
    (record,) = run_trial([Cell("genmix", "v", "genmix-kernel", 0, 0)])
    assert record["metrics"]["equidistance_median"] < 0.2
    limits = GENMIX_DATASETS["v"].limits
    points, pair = decode_points(record["parameters"]["points"], limits)
    assert np.abs(np.median(points[:, 0])) < 0.05  # V is symmetric: halfway is x = 0
    assert set(map(tuple, np.sort(pair, axis=1).tolist())) == {(0, 1)}


def test_points_on_the_ring_between_are_halfway_and_others_are_not() -> None:
    t = np.linspace(0, 2 * np.pi, 50)
    middle = 0.9 * np.column_stack([np.cos(t), np.sin(t)])
    pair = np.tile([0, 1], (50, 1))
    rows = TrainingRows(np.vstack([np.zeros((3, 2)), middle]), np.ones((53, 2)), pair, 0.0)
    found = genmix._measure_added(rows, "circle", "l2")
    assert found["equidistance_share"] == 1.0
    assert found["equidistance_median"] < 1e-4
    rows = rows._replace(X=np.vstack([np.zeros((3, 2)), middle * 0.95 / 0.9]))
    assert genmix._measure_added(rows, "circle", "l2") == {
        "equidistance_median": pytest.approx(2 / 3, abs=1e-4),
        "equidistance_share": 0.0,
    }
    assert genmix._measure_added(rows, None, "l2") == {}


@pytest.mark.usefixtures("few_steps")
def test_images_are_trained_by_a_lenet() -> None:
    (record,) = run_trial([Cell("genmix", "digits-79", "genmix-gaussian", 0, 0)])
    assert record["parameters"]["added"] == 200
    assert 0.0 <= record["metrics"]["accuracy"] <= 1.0
    assert "regions" not in record["parameters"]


def test_the_densities_of_a_name_are_seeded_and_part_of_the_fingerprint() -> None:
    for name in ("mixture", "flow", "vae", "gan"):
        assert make_density(name, 3).random_state == 3
    assert make_density("gan", norm="linf").norm == "linf"
    assert make_density("gan", image=(1, 28, 28)).shape == (1, 28, 28)
    keys = [key for key, one in GENMIX_METHODS.items() if one.supports(GENMIX_DATASETS["v"])]
    made = {fingerprint_cell(Cell("genmix", "v", key, 0, 0, GENMIX_METHODS[key].alpha)) for key in keys}
    assert len(made) == len(keys)


@pytest.fixture(scope="module")
def drawn() -> pd.DataFrame:
    """Records of figures 14 and 15, hardly trained, GANs included."""
    cells = [*figure14.cells("smoke"), *figure15.cells("smoke")]
    tiny = {"hidden": (8,), "steps": 30, "min_coverage": 0.0, "penalty": 0.05}
    with pytest.MonkeyPatch.context() as patch, open_store(None, PAPER_SCHEMA) as store:
        patch.setattr(genmix, "STEPS", 8)
        patch.setattr(genmix, "MAX_MARGINS", 5)
        patch.setattr(genmix, "ADDED_PER_ROW", 30)
        gan = genmix_methods.GANDensity
        patch.setattr(genmix_methods, "GANDensity", lambda *args, **known: gan(*args, **known | tiny))
        run_trials(cells, run_trial, store=store, fingerprint=lambda cell: "test")
        kept = store.read()
    assert not kept.failures
    return kept.frame


@pytest.mark.long
def test_records_alone_draw_figures_14_and_15(drawn: pd.DataFrame) -> None:
    for module, panels in ((figure14, 9), (figure15, 3)):
        (picture,) = module.render(drawn).figures
        assert len(picture.figure.axes) == panels
        bare = drawn.assign(parameters=[{}] * len(drawn))
        assert not module.render(bare).figures


def test_no_point_is_added_between_classes_1_and_2_of_the_four_gaussians(drawn: pd.DataFrame) -> None:
    claim = figure14.render(drawn).claims[1]
    assert claim.holds is True
    X, y = make_four_gaussians(random_state=0)
    from genlabel.mixing import GenMix

    sampler = GenMix(make_density("gaussian"), n_aug=60, output="soft", random_state=0)
    with pytest.warns(DensityWarning, match="between 1 and 2"):
        sampler.fit_resample(X, y)
    assert (1, 2) not in set(map(tuple, np.sort(sampler.pair_, axis=1).tolist()))
    assert len(np.unique(np.sort(sampler.pair_, axis=1), axis=0)) > 2


def printed_records() -> pd.DataFrame:
    """Records that are the printed means of table 15."""
    rows = [
        {"dataset": name, "method": row, "accuracy": 100.0 - value.mean, "alpha": GENMIX_METHODS[row].alpha}
        for (row, name), value in table15.PAPER.items()
    ]
    return pd.DataFrame(rows).assign(setting="genmix", split=0, seed=0, parameters=[{}] * len(rows))


def test_the_printed_errors_bear_out_the_statements_and_come_back_as_errors() -> None:
    shown = table15.render(printed_records())
    assert [claim.holds for claim in shown.claims] == [True, True, True]
    for _, row in shown.grids[0].rows[:4]:
        assert all(value.ours.mean == pytest.approx(value.paper.mean) for value in row)


@pytest.mark.skipif(not TEX.exists(), reason=f"the paper's source is not at {TEX}")
def test_the_printed_errors_are_those_of_the_source() -> None:
    text = TEX.read_text()
    table = text[text.index(r"\label{Table:generalization}") :].split(r"\end{tabular}", 1)[0]
    found = re.findall(r"([\d.]+)\}?\s*\$\\pm\$\s*([\d.]+)", table)
    rows = list(dict.fromkeys(row for row, _ in table15.PAPER))
    sets = list(dict.fromkeys(name for _, name in table15.PAPER))
    order = [(row, name) for row in rows for name in sets]
    assert {key: (float(a), float(b)) for key, (a, b) in zip(order, found, strict=True)} == {
        key: (value.mean, value.spread) for key, value in table15.PAPER.items()
    }


def test_a_density_repairs_mixup_where_it_is_near_vanilla_again() -> None:
    level = {"vanilla": 99.0, "mixup": 90.0, "genlabel-kde": 98.8, "genlabel-gm": 91.0}
    rows = [
        {"dataset": name, "method": row, "accuracy": value if name == "circle" else 99.0}
        for name in densities.SETS
        for row, value in level.items()
    ]
    frame = pd.DataFrame(rows).assign(setting="densities", alpha=1.0, split=0, seed=0, seconds=1.0)
    shown = densities.render(frame)
    assert shown.claims[0].holds is True
    assert "kernels: GenLabel repairs mixup on Circle (1 of 1 datasets where it is worse)." in shown.notes
    assert "GM: GenLabel repairs mixup nowhere (0 of 1 datasets where it is worse)." in shown.notes
    broken = frame[frame["method"] != "genlabel-kde"]
    assert densities.render(broken).claims[0].ours == "on 0 of 1 datasets; not on Circle"


def test_every_density_of_the_repair_table_has_a_classifier() -> None:
    known = SETTINGS["densities"].variants("circle")
    assert {(row, 1.0) for row in densities.ROWS} == known
    assert len({fingerprint_cell(Cell("densities", "circle", row, 0, 0)) for row in densities.ROWS}) == len(known)


@pytest.mark.filterwarnings("ignore::genlabel.DensityWarning")
def test_images_between_classes_are_on_record_and_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HIDDEN_DATASETS, "digits", HIDDEN_DATASETS["digits"]._replace(images=600, epochs=2))
    for name, value in (("INVERSION_STEPS", 5), ("ATTACKED_IMAGES", 20), ("POINTS_PER_PAIR", 1)):
        monkeypatch.setattr(genmix_hidden, name, value)
    with open_store(None, PAPER_SCHEMA) as store:
        run_trials(figure16.cells("smoke"), run_trial, store=store, fingerprint=lambda cell: "test")
        kept = store.read()
    assert not kept.failures
    held = kept.frame["parameters"].iloc[0]
    images = genmix_hidden.decode_images(held)
    assert images.shape == (len(held["pairs"]), 1, 8, 8)
    assert images.max() > 0
    shown = figure16.render(in_percent(kept.frame))
    (picture,) = shown.figures
    assert [ax.get_xlabel() for ax in picture.figure.axes][: len(images)] == held["pairs"]
    assert all(value.ours is not None for _, row in shown.grids[0].rows for value in row)


def test_sets_with_a_picture_keep_their_points_inside_it() -> None:
    for about in GENMIX_DATASETS.values():
        if isinstance(about, PointDataset) and about.limits is not None:
            assert (np.abs(about.load(0).X) <= about.limits).all(axis=1).mean() > 0.99
