"""Figure 6: encoded regions, label conflicts against a nearest-neighbor count, and the figure from records."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from genlabel.data.datasets.synthetic import NINE_CENTERS
from genlabel.evaluation.records import open_store, run_trials
from genlabel_paper.experiments import figure6
from genlabel_paper.runs import plane, table_setting
from genlabel_paper.runs.cells import PAPER_SCHEMA, Cell
from genlabel_paper.runs.data import load_split
from genlabel_paper.runs.plane import PLOT_LIMITS, Regions, predict_regions
from genlabel_paper.runs.table_settings import SHAPES
from genlabel_paper.runs.trials import run_trial

SETS = list(figure6.NAMES)


@pytest.mark.parametrize("dataset", SETS)
def test_encoded_regions_equal_the_predictions(dataset: str) -> None:
    data = load_split(dataset, split=0)
    model = GaussianNB().fit(data.X, data.y)
    regions = predict_regions(model.predict, PLOT_LIMITS[dataset])
    decoded = Regions.decode(regions.encode(), PLOT_LIMITS[dataset])
    np.testing.assert_array_equal(decoded.cells, regions.cells)
    assert len(regions.encode()) < 4000
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (2000, 2)) * PLOT_LIMITS[dataset]
    assert (decoded.predict(points) == model.predict(points)).mean() > 0.98  # all but cells on the boundary
    far = np.array([[1e6, 0.0], [0.0, -1e6]])
    edge = np.clip(far, -np.array(PLOT_LIMITS[dataset]) + 1e-9, np.array(PLOT_LIMITS[dataset]) - 1e-9)
    np.testing.assert_array_equal(decoded.predict(far), decoded.predict(edge))


@pytest.mark.parametrize("dataset", SETS)
def test_conflicts_equal_a_nearest_neighbor_count(dataset: str) -> None:
    mixture = figure6._labeled_mixture(dataset)
    nearest = KNeighborsClassifier(1).fit(mixture.X, mixture.y).predict(mixture.mixed)
    for labels in (mixture.linear, mixture.generative):
        assert mixture.conflicts(labels) == pytest.approx(100.0 * (labels.argmax(axis=1) != nearest).mean())
        np.testing.assert_allclose(labels.sum(axis=1), 1.0)


def test_genlabel_labels_nine_gaussians_by_the_nearest_center() -> None:
    mixture = figure6._labeled_mixture("nine-gaussians")
    distances = np.linalg.norm(mixture.mixed[:, None] - NINE_CENTERS, axis=2)
    np.testing.assert_array_equal(mixture.generative.argmax(axis=1), distances.argmin(axis=1))


@pytest.fixture(scope="module")
def records() -> pd.DataFrame:
    """Return records of networks trained for one epoch, with few margins and coarse regions."""
    with pytest.MonkeyPatch.context() as patch, open_store(None, PAPER_SCHEMA) as store:
        patch.setattr(plane, "MAX_MARGINS", 10)
        patch.setattr(table_setting, "predict_regions", partial(predict_regions, steps=60))
        for name in SETS:
            patch.setitem(SHAPES, name, SHAPES[name] | {"training__epochs": 1})
        run_trials(figure6.EXPERIMENT.cells("smoke"), run_trial, store=store, fingerprint=lambda cell: "test")
        result = store.read()
    assert not result.failures
    return result.frame


def test_figure_is_drawn_from_records(records: pd.DataFrame) -> None:
    rendering = figure6.render(records)
    (figure,) = rendering.figures
    assert len(figure.figure.axes) == 12
    labels = [ax.get_xlabel() for ax in figure.figure.axes]
    for record in records.to_dict("records"):
        assert 0 < record["right_points"] <= 10
        assert any(f"{record['accuracy']:.1f} %\nsmallest of {record['right_points']:.0f} " in text for text in labels)
    assert all(claim.measured for claim in rendering.claims)
    assert rendering.claims[0].holds is None  # one trial
    assert all(value.ours is not None for grid in rendering.grids for _, row in grid.rows for value in row)


def test_missing_regions_give_no_figure(records: pd.DataFrame) -> None:
    incomplete = records.assign(parameters=[{}, *records["parameters"].iloc[1:]])
    assert not figure6.render(incomplete).figures
    assert not figure6.render(records.iloc[1:]).figures
    assert figure6.render(records.iloc[1:]).claims[0].holds is None


def test_only_the_first_split_and_seed_record_regions(records: pd.DataFrame) -> None:
    assert all("regions" in parameters for parameters in records["parameters"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plane, "MAX_MARGINS", 10)
        patch.setitem(SHAPES, "two-circle", SHAPES["two-circle"] | {"training__epochs": 1})
        (other,) = run_trial([Cell("plane", "two-circle", "vanilla", split=0, seed=1)])
    assert "regions" not in other["parameters"]
    assert {"accuracy", "log_loss", "smallest_margin", "median_margin", "right_points"} == set(other["metrics"])
