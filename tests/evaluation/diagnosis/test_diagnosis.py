"""The diagnosis as a whole: early stop, tables that agree with the data, serialization, figure and progress."""

import json
import re
import warnings
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from sklearn.datasets import load_iris

from genlabel import MixupClassifier, diagnose
from genlabel._progress import LambdaCallback, use_callback
from genlabel.evaluation.diagnosis import Diagnosis
from genlabel.evaluation.diagnosis.diagnose import SENTENCES, decide_verdict
from genlabel.evaluation.diagnosis.paired_experiment import LEARNING_RATES, WEIGHT_DECAYS, train_arms
from genlabel.reporting import plot_diagnosis


def iris() -> tuple[pd.DataFrame, Any]:
    X, y = load_iris(return_X_y=True, as_frame=True)
    return X, y.map(dict(enumerate(["setosa", "versicolor", "virginica"])))


def awkward() -> tuple[pd.DataFrame, Any]:
    """Return a table with text, missing values, a constant, a class of one row and a class of two."""
    rng = np.random.default_rng(0)
    y = np.array(["$a"] * 30 + ["b" * 30] * 30 + ["two"] * 2 + ["one"])
    center = np.select([y == "$a", y == "two", y == "one"], [0.0, 4.0, 8.0], 2.5)
    size = center + rng.normal(size=63)
    size[::9] = np.nan
    color = np.where(rng.random(63) < 0.8, np.where(y == "$a", "red", "blue"), "green")
    return pd.DataFrame({"size": size, "color": color, "constant": 1.0}), y


def permuted() -> tuple[pd.DataFrame, Any]:
    X, y = iris()
    return X, np.random.default_rng(0).permutation(y)


def many() -> tuple[Any, Any]:
    """Return a table of ten classes with long names."""
    index = np.repeat(np.arange(10), 12)
    X = 4.0 * np.stack([np.cos(index), np.sin(2.0 * index)], 1) + np.random.default_rng(0).normal(size=(120, 2))
    return X, np.array([f"a class of the number {c} and no other" for c in range(10)])[index]


TABLES = {"iris": iris, "awkward": awkward, "permuted": permuted, "many": many}


@cache
def diagnose_with_warnings(name: str) -> tuple[Diagnosis, list[str]]:
    """Return a diagnosis and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        diagnosis = diagnose(*TABLES[name](), cv=2, n_mixed=600)
    return diagnosis, [str(warning.message) for warning in caught]


def diagnosis_of(name: str) -> Diagnosis:
    return diagnose_with_warnings(name)[0]


each_table = pytest.mark.parametrize("name", TABLES)


def test_permuted_labels_are_not_trusted() -> None:
    diagnosis = diagnosis_of("permuted")
    assert diagnosis.verdict.word == "not trusted"
    assert not diagnosis.density_check.trusted
    assert diagnosis.mixed is None
    assert diagnosis.experiment is not None
    assert diagnosis.regions is None
    assert "not clearly better than the class priors" in str(diagnosis)
    assert len(plot_diagnosis(diagnosis).axes) == 1
    for frame in ("mixed_samples", "pairs", "lambda"):
        with pytest.raises(ValueError, match="verdict"):
            diagnosis.to_frame(frame)


def test_iris_is_trusted_and_its_outer_classes_intrude_on_the_middle_one() -> None:
    diagnosis = diagnosis_of("iris")
    assert diagnosis.density_check.trusted
    check = diagnosis.density_check
    assert check.density < check.logistic < check.prior
    assert check.prior == pytest.approx(np.log(3), abs=0.01)
    worst = diagnosis.to_frame("pairs").iloc[0]
    assert (worst["class_1"], worst["class_2"]) == ("setosa", "virginica")
    assert diagnosis.mixed is not None
    assert float(np.average(diagnosis.mixed.pairs["intrusion"], weights=diagnosis.mixed.pairs["weight"])) > 0
    assert diagnosis.to_frame("mixed_samples")["density_label"].str.startswith("versicolor").mean() > 0.8


@each_table
def test_diagnosis_round_trips_through_json(name: str) -> None:
    plain = diagnosis_of(name).to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["verdict"]["sentence"] == SENTENCES[plain["verdict"]["word"]]
    check = plain["density_check"]
    assert check["over_prior"]["mean"] == pytest.approx(check["prior"] - check["density"])


@each_table
def test_verdict_is_printed_first_with_all_reasons(name: str) -> None:
    diagnosis = diagnosis_of(name)
    text = str(diagnosis)
    assert text.split("\n\n")[1] == diagnosis.verdict.sentence
    assert all(f"- {reason}" in text for reason in diagnosis.verdict.reasons)
    assert diagnosis.verdict.word in repr(diagnosis)


@pytest.mark.parametrize("name", ["iris", "awkward"])
def test_mixed_samples_name_rows_of_the_table_and_both_labels(name: str) -> None:
    diagnosis, y = diagnosis_of(name), np.asarray(TABLES[name]()[1])
    frame = diagnosis.to_frame("mixed_samples", None)
    np.testing.assert_array_equal(y[frame["row_1"]], frame["class_1"])
    np.testing.assert_array_equal(y[frame["row_2"]], frame["class_2"])
    assert (frame["row_1"] != frame["row_2"]).all()
    assert frame["total_variation"].is_monotonic_decreasing
    same = frame[frame["class_1"] == frame["class_2"]]
    assert (same["mixup_label"] == same["class_1"] + " 1.00").all()
    assert len(diagnosis.to_frame("mixed_samples", 3)) == 3
    assert frame["typicality"].between(0, 1).all()


def test_numeric_classes_keep_their_names() -> None:
    mixed = diagnosis_of("iris").mixed
    assert mixed is not None
    numbers = {"setosa": 0, "versicolor": 1, "virginica": 2}
    names = {name: mixed.pairs[name].map(numbers) for name in ("class_1", "class_2")}
    pairs = mixed.pairs.assign(**names, clear=True)
    verdict = decide_verdict(diagnosis_of("iris").density_check, mixed._replace(pairs=pairs), None)
    assert any(" 0 with 2:" in reason for reason in verdict.reasons)


def test_class_of_one_row_is_mixed_with_others_only() -> None:
    pairs = diagnosis_of("awkward").to_frame("pairs", None)
    assert not ((pairs["class_1"] == "one") & (pairs["class_2"] == "one")).any()
    assert ((pairs["class_1"] == "one") | (pairs["class_2"] == "one")).any()


def test_gains_are_differences_of_losses() -> None:
    experiment = diagnosis_of("iris").experiment
    assert experiment is not None
    assert experiment.rows == 150
    for name, gain in experiment.gains.items():
        first, second = name.split(" over ")
        assert gain.mean == pytest.approx(experiment.log_loss[second] - experiment.log_loss[first])
        assert gain.low < gain.mean < gain.high
    for name in ("mixup labels", "GenLabel labels"):
        assert experiment.diversity[name] == pytest.approx(
            experiment.training_loss[name] / experiment.training_loss["no mixing"]
        )
    frame = diagnosis_of("iris").to_frame("experiment")
    assert list(frame.index) == ["no mixing", "mixup labels", "GenLabel labels"]
    assert frame.loc["mixup labels", "gain"] == pytest.approx(
        frame.loc["no mixing", "log_loss"] - frame.loc["mixup labels", "log_loss"]
    )


def test_arms_equal_the_baseline_classifier() -> None:
    X, y = load_iris(return_X_y=True)
    arms = train_arms(X, y, 0.3, 0.75, seed=0)
    common = {
        "training__learning_rate": LEARNING_RATES,
        "training__weight_decay": WEIGHT_DECAYS,
        "calibrate": False,
        "random_state": 0,
    }
    unmixed = MixupClassifier(mixer=None).set_params(**common).fit(X, y)
    mixup = MixupClassifier(clean_fraction=0.75).set_params(**common).fit(X, y)
    np.testing.assert_allclose(arms["no mixing"].predict_proba(X), unmixed.predict_proba(X), atol=1e-3)
    np.testing.assert_allclose(arms["mixup labels"].predict_proba(X), mixup.predict_proba(X), atol=1e-3)


@each_table
def test_texts_of_the_figure_do_not_overlap(name: str) -> None:
    figure = plot_diagnosis(diagnosis_of(name))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    width, height = canvas.get_width_height()
    for ax in figure.axes:
        boxes = [text.get_window_extent() for text in [*ax.texts, ax.title, ax.xaxis.label] if text.get_text()]
        assert not any(first.overlaps(second) for first, second in combinations(boxes, 2))
        ticks = [label.get_window_extent() for label in ax.get_yticklabels() if label.get_text() and ax.get_visible()]
        assert all(box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height for box in [*boxes, *ticks])


def test_progress_is_reported_and_the_result_is_reproducible() -> None:
    reports: list[Any] = []
    with use_callback(LambdaCallback(on_progress=reports.append)):
        again = diagnose(*iris(), cv=2, n_mixed=600)
    done = [report.fraction for report in reports]
    assert done == sorted(done)
    assert done[-1] == 1.0
    assert again.to_dict() == diagnosis_of("iris").to_dict()


def test_large_tables_are_subsampled_with_a_note() -> None:
    X, y = permuted()
    diagnosis = diagnose(X, y, max_rows=75, cv=2)
    assert diagnosis.n == 150
    assert diagnosis.density_check.rows <= 75
    assert diagnosis.notes == ["150 rows; a stratified sample of about 75 was used"]


@pytest.mark.parametrize(
    "params, keyword",
    [
        ({"alpha": 0}, "alpha=0"),
        ({"clean_fraction": 1.0}, "clean_fraction=1.0"),
        ({"cv": 1}, "cv=1"),
        ({"n_mixed": 0}, "n_mixed=0"),
    ],
    ids=str,
)
def test_invalid_parameters_are_refused(params: dict[str, Any], keyword: str) -> None:
    with pytest.raises(ValueError, match=keyword):
        diagnose(*iris(), **params)


def test_one_class_is_refused() -> None:
    with pytest.raises(ValueError, match="classes"):
        diagnose([[0.0], [1.0]], ["a", "a"])


@pytest.mark.long
def test_grouped_copies_of_rows_are_not_trusted() -> None:
    rng = np.random.default_rng(0)
    group = np.repeat(np.arange(25), 4)
    X, y = rng.normal(size=(25, 2))[group], rng.integers(0, 2, 25)[group]
    assert diagnose(X, y, cv=2, n_mixed=50, groups=group).verdict.word == "not trusted"
    assert diagnose(X, y, cv=2, n_mixed=50).density_check.trusted


def test_warnings_name_small_classes() -> None:
    messages = [text for text in diagnose_with_warnings("awkward")[1] if "class " in text]
    assert any("class 'one'" in text for text in messages)
    assert any("class 'two'" in text for text in messages)
    assert not any(re.search(r"class \d", text) for text in messages)


def test_printed_mixed_samples_are_mixed() -> None:
    diagnosis = diagnosis_of("many")
    printed = str(diagnosis).split("whose labels differ most\n")[1].split("\n\n")[0]
    frame = diagnosis.to_frame("mixed_samples", None)
    mixed = frame[np.minimum(frame["lam"], 1 - frame["lam"]) >= 0.1].head(3)
    assert len(mixed) == 3
    assert printed.count("\n") == 3
    assert all(f"{lam:.3f}" in line for lam, line in zip(mixed["lam"], printed.splitlines()[1:], strict=True))
