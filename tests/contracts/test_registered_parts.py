"""A part that another package registers works in constructors, on the command line and in saved models."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from torch.distributions import Independent, StudentT
from typer.testing import CliRunner

from genlabel import GenLabelClassifier, GridSearch, MixupClassifier, TrainingOptions, load_model, save_model
from genlabel.cli import app
from genlabel.densities import PerClassDensity
from genlabel.labeling import Labeler
from genlabel.mixing import KMixup, Mixer, MixParams, RegMixup
from genlabel.mixing.base import blend
from genlabel.registry import DENSITIES, LABELERS, MIXERS
from genlabel.testing import check_density

X, y = load_iris(return_X_y=True)
FAST: dict[str, Any] = {
    "search": GridSearch(cv=2),
    "training": TrainingOptions(0.03, 1e-3, epochs=2),
    "clean_fraction": 0.5,
    "random_state": 0,
}


class StudentTDensity(PerClassDensity):
    """A density in one file, with models of torch."""

    def __init__(self, df: float = 3.0) -> None:
        self.df = df

    def _fit_class(self, sample: Any) -> Any:
        center = sample.X.median(0).values
        scale = (sample.X - center).abs().mean(0).clamp_min(1e-3)
        return Independent(StudentT(self.df, center, scale), 1)


class ShiftMixer(Mixer):
    """A mixer with a parameter that has no default."""

    def __init__(self, shift: int) -> None:
        self.shift = shift

    def draw(self, n: int, rng: Any = None, x: Any = None, y: Any = None) -> MixParams:
        lam = np.random.default_rng(rng).random(n)
        return MixParams(np.roll(np.arange(n), self.shift), lam)


class SharpLabel(Labeler):
    """A labeler of another package."""

    def _label(self, x_mix: Any, targets: Any, draw: MixParams, info: Any) -> Any:
        return (9.0 * blend(targets, draw)).softmax(1)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    DENSITIES.register("student-t", df=4.0)(StudentTDensity)
    MIXERS.register("shift", shift=2)(ShiftMixer)
    LABELERS.register("sharp")(SharpLabel)
    yield
    for registry, name in ((DENSITIES, "student-t"), (MIXERS, "shift"), (LABELERS, "sharp")):
        del registry._factories[name]


@pytest.mark.parametrize(
    "model",
    [
        MixupClassifier(**FAST),
        MixupClassifier(mixer=["shift", "mixup"], labeler="sharp", **FAST),
        MixupClassifier(mixer=KMixup(k=4), **FAST),
        MixupClassifier(mixer=RegMixup(0.7), **FAST),
        MixupClassifier(mixer=ShiftMixer(1), labeler=SharpLabel(), **FAST),
        GenLabelClassifier(density="student-t", mixer="shift", **FAST),
        GenLabelClassifier(density=StudentTDensity(2.0), **FAST),
    ],
    ids=repr,
)
def test_parts_are_fitted_and_saved(model: Any, tmp_path: Path) -> None:
    proba = model.fit(X, y).predict_proba(X)
    again = load_model(save_model(model, tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_proba(X), proba)
    assert repr(again.classifier.get_params()) == repr(model.get_params())


def test_a_registered_density_passes_the_check() -> None:
    check_density(DENSITIES.create("student-t"))


def test_a_model_of_an_unknown_class_is_refused(tmp_path: Path) -> None:
    folder = save_model(GenLabelClassifier(density="student-t", **FAST).fit(X, y), tmp_path / "model")
    del DENSITIES._factories["student-t"]
    with pytest.raises(ValueError, match="StudentTDensity"):
        load_model(folder)
    DENSITIES.register("student-t")(StudentTDensity)


def test_compare_takes_registered_densities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["compare", "iris", "--n-splits", "1", "--epochs", "1", "--jobs", "1", "--density"]
    assert CliRunner().invoke(app, [*words, "student-t"]).exit_code == 0
    refused = CliRunner().invoke(app, [*words, "student"])
    assert refused.exit_code == 2
    assert "student-t" in refused.output
