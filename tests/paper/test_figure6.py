"""Figure 6: regions come back from their text, labels conflict as a count says, and records alone draw the picture."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from genlabel.data.datasets.synthetic import NINE_CENTERS
from genlabel.evaluation.records import open_store, run_trials
from genlabel_paper.experiments import figure6
from genlabel_paper.runs import plane, tables
from genlabel_paper.runs.cells import STUDY, Cell
from genlabel_paper.runs.data import load_parts
from genlabel_paper.runs.plane import LIMITS, Regions, keep_regions
from genlabel_paper.runs.settings import SHAPES
from genlabel_paper.runs.trials import run_trial

SETS = list(figure6.NAMES)


@pytest.mark.parametrize("dataset", SETS)
def test_regions_are_those_of_the_classifier_and_come_back_from_their_text(dataset: str) -> None:
    parts = load_parts(dataset, split=0)
    model = GaussianNB().fit(parts.X, parts.y)
    kept = keep_regions(model.predict, LIMITS[dataset])
    again = Regions.read(kept.text, LIMITS[dataset])
    np.testing.assert_array_equal(again.cells, kept.cells)
    assert len(kept.text) < 4000
    points = np.random.default_rng(0).uniform(-1.0, 1.0, (2000, 2)) * LIMITS[dataset]
    assert (again.predict(points) == model.predict(points)).mean() > 0.98  # but for the cells on the boundary
    far = np.array([[1e6, 0.0], [0.0, -1e6]])
    edge = np.clip(far, -np.array(LIMITS[dataset]) + 1e-9, np.array(LIMITS[dataset]) - 1e-9)
    np.testing.assert_array_equal(again.predict(far), again.predict(edge))


@pytest.mark.parametrize("dataset", SETS)
def test_conflicts_are_those_of_the_nearest_neighbour(dataset: str) -> None:
    drawn = figure6._drawn(dataset)
    nearest = KNeighborsClassifier(1).fit(drawn.X, drawn.y).predict(drawn.mixed)
    for labels in (drawn.linear, drawn.generative):
        assert drawn.conflicts(labels) == pytest.approx(100.0 * (labels.argmax(axis=1) != nearest).mean())
        np.testing.assert_allclose(labels.sum(axis=1), 1.0)


def test_genlabel_gives_the_nine_classes_the_label_of_the_nearest_centre() -> None:
    drawn = figure6._drawn("nine-gaussians")
    distances = np.linalg.norm(drawn.mixed[:, None] - NINE_CENTERS, axis=2)
    np.testing.assert_array_equal(drawn.generative.argmax(axis=1), distances.argmin(axis=1))


@pytest.fixture(scope="module")
def records() -> pd.DataFrame:
    """Of networks that were hardly trained, with few margins and coarse regions."""
    with pytest.MonkeyPatch.context() as patch, open_store(None, STUDY) as store:
        patch.setattr(plane, "MEASURED", 10)
        patch.setattr(tables, "keep_regions", partial(keep_regions, steps=60))
        for name in SETS:
            patch.setitem(SHAPES, name, SHAPES[name] | {"epochs": 1})
        run_trials(figure6.EXPERIMENT.cells("smoke"), run_trial, store=store, fingerprint=lambda cell: "hardly trained")
        kept = store.read()
    assert not kept.failures
    return kept.frame


def test_records_alone_draw_all_panels(records: pd.DataFrame) -> None:
    shown = figure6.render(records)
    (picture,) = shown.pictures
    assert len(picture.figure.axes) == 12
    words = [ax.get_xlabel() for ax in picture.figure.axes]
    for record in records.to_dict("records"):
        assert 0 < record["right_points"] <= 10
        assert any(f"{record['accuracy']:.1f} %\nsmallest of {record['right_points']:.0f} " in text for text in words)
    assert all(claim.holds is not None for claim in shown.claims)
    assert all(value.ours is not None for grid in shown.grids for _, row in grid.rows for value in row)


def test_without_one_of_the_regions_nothing_is_drawn(records: pd.DataFrame) -> None:
    bare = records.assign(parameters=[{}, *records["parameters"].iloc[1:]])
    assert not figure6.render(bare).pictures
    assert not figure6.render(records.iloc[1:]).pictures
    assert figure6.render(records.iloc[1:]).claims[0].holds is None


def test_the_first_split_and_seed_keep_their_regions(records: pd.DataFrame) -> None:
    assert all("regions" in found for found in records["parameters"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plane, "MEASURED", 10)
        patch.setitem(SHAPES, "two-circle", SHAPES["two-circle"] | {"epochs": 1})
        (other,) = run_trial([Cell("plane", "two-circle", "vanilla", split=0, seed=1)])
    assert "regions" not in other["parameters"]
    assert {"accuracy", "log_loss", "smallest_margin", "median_margin", "right_points"} == set(other["metrics"])
