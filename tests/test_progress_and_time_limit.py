"""Progress of a fit, its time limit, and interrupts that leave the estimator unchanged."""

import re
import sys
import time
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.model_selection import StratifiedKFold, cross_val_score

from genlabel import AdaMixupClassifier, FlowDensity, GenLabelClassifier, MixupClassifier, _progress
from genlabel._progress import FitProgress, LambdaCallback, ProgressEvent, track_fit, use_callback
from genlabel.densities import DiscriminantDensity, ForestDensity, KernelDensity, StackedDensity
from genlabel.estimators.validation import validate_fit_input
from genlabel.evaluation.records.fingerprints import describe, fingerprint
from genlabel.model_selection import search_space
from genlabel.model_selection.options import SEARCHES, HalvingSearch
from genlabel.model_selection.search_space import count_epochs, fit_to_time_limit
from genlabel.model_selection.splits import VALUES_PER_SECOND, subsample_for_time_limit

pytestmark = pytest.mark.filterwarnings("ignore::genlabel.DensityWarning")

X, Y = load_iris(return_X_y=True)
SHORT: dict[str, Any] = {"training__epochs": 10, "random_state": 0}
CANDIDATES = [DiscriminantDensity(), KernelDensity(0.6, covariance="shared"), ForestDensity(3)]
MODELS = {
    "default": GenLabelClassifier(density=StackedDensity(CANDIDATES)).set_params(**SHORT),
    "mixup": MixupClassifier().set_params(**SHORT),
    "members": MixupClassifier((6,)).set_params(search__ensemble=2, **SHORT),
    "paper": GenLabelClassifier.from_paper(density="gaussian", gamma=(0.0, 1.0), **SHORT),
    "no choice": GenLabelClassifier((6,), "gaussian", 0.5, pool_with_density=None, clean_fraction=0.0)
    .set_params(training__learning_rate=0.1, search__ensemble=1)
    .set_params(training__weight_decay=1e-4, **SHORT),
    "latent": GenLabelClassifier((6,), "kernel", space="latent").set_params(**SHORT),
    "AdaMixup": AdaMixupClassifier().set_params(
        training__learning_rate=(0.1, 0.01), training__weight_decay=1e-4, search__cv=2, **SHORT
    ),
}
STAGES = {
    "default": ["stacked density", "search", "typicality"],
    "mixup": ["search"],
    "members": ["search", "final fit"],
    "paper": ["search", "final fit", "typicality"],
    "no choice": ["final fit", "typicality"],
    "latent": ["feature networks", "search", "typicality"],
    "AdaMixup": ["search", "final fit"],
}
each_model = pytest.mark.parametrize("name", MODELS)


def events_of(model: Any, epochs: list[int] | None = None) -> tuple[list[ProgressEvent], Any]:
    events: list[ProgressEvent] = []
    epochs = [] if epochs is None else epochs
    with use_callback(LambdaCallback(on_progress=events.append, on_epoch_end=lambda epoch, logs: epochs.append(epoch))):
        fitted = clone(model).fit(X, Y)
    return events, fitted


def stage_of(event: ProgressEvent) -> str:
    return event.stage.split(",")[0]


@each_model
def test_fit_reports_its_stages_and_fraction(name: str) -> None:
    epochs: list[int] = []
    events, _ = events_of(MODELS[name], epochs)
    assert list(dict.fromkeys(stage_of(event) for event in events)) == STAGES[name]
    fractions = [event.fraction for event in events]
    assert fractions[0] == 0.0
    assert (np.diff(fractions) >= 0.0).all()
    assert fractions[-1] == 1.0
    assert events[-1].seconds_left == 0.0
    assert all(event.seconds_left is None or event.seconds_left >= 0.0 for event in events)
    assert events[-1].epochs == len(epochs)
    for stage in STAGES[name]:
        assert any(event.stage_ended for event in events if stage_of(event) == stage)


def test_epochs_are_weighted_by_their_candidates() -> None:
    events, _ = events_of(MODELS["mixup"])
    work = np.cumsum([24 * 1, 8 * (2 - 1), 5 * (5 - 2), 3 * (10 - 5)])
    schedule = HalvingSearch().schedule(10)
    assert [end for end, _ in schedule] == [1, 2, 5, 10]
    assert count_epochs(schedule, 24) == work[-1]
    ends = [event.fraction for event in events if event.stage_ended]
    np.testing.assert_allclose(ends, work / work[-1], atol=1e-8)


@pytest.mark.parametrize("name", ["default", "mixup", "paper"])
def test_reported_loss_is_that_of_the_best_candidate(name: str) -> None:
    events, fitted = events_of(MODELS[name])
    results = fitted.cv_results_
    pooled = not fitted.predicts_by_network
    losses = results["mean_test_pooled_log_loss" if pooled else "mean_test_log_loss"]
    reported = [event.best_loss for event in events if event.best_loss is not None]
    assert (np.diff(reported) <= 0.0).all()
    if name == "mixup":
        assert reported[-1] == pytest.approx(losses.min(), rel=1e-6)  # iris makes six folds of one size
    elif name == "paper":
        assert reported[-1] == pytest.approx(losses[results["rank_test_score"].argmin()], rel=1e-6)
    else:
        assert reported[-1] == pytest.approx(losses.min(), rel=0.05)  # a rung has its own pooling weights


def test_time_left_extrapolates_the_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(_progress, "monotonic", clock)
    events: list[ProgressEvent] = []
    fit = FitProgress(LambdaCallback(on_progress=events.append))
    fit.plan({"stacked density": 1.0, "search": 3.0})
    with fit.stage("stacked density"):
        clock.now += 10.0
        fit.update(1, 2)
        assert events[-1].seconds_left == pytest.approx(70.0)  # an eighth took 10 s
        clock.now += 10.0
    with fit.stage("search"):
        assert events[-1].seconds_left == pytest.approx(60.0)
        with fit.step("rung 1 of 2", work=30.0):
            fit.epoch_weight = 10.0
            clock.now += 4.0
            for epoch in range(2):
                fit.on_epoch_end(epoch, {})
            assert events[-1].seconds_left == pytest.approx(2.0)  # 20 of 30 took 4 s
        with fit.step("rung 2 of 2", work=5.0):  # fewer candidates are left than planned
            fit.epoch_weight = 1.0
            clock.now += 4.0
            fit.on_epoch_end(2, {})
            assert events[-1].fraction == pytest.approx(1.0 - 0.75 * 4 / 15)


class Clock:
    """Clock with a time set by the test."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


LINE = re.compile(r"(\w+): ([^:]+): (\d+ % done|\d+ epochs)(, \d+ (s|min) left)?(, best held-out log-loss [\d.]+)?")


@each_model
def test_log_has_a_line_for_every_stage_on_stderr(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    clone(MODELS[name]).set_params(search__verbose=1).fit(X, Y)
    out, err = capsys.readouterr()
    assert out == ""
    lines = [LINE.fullmatch(line) for line in err.splitlines()]
    assert all(lines)
    assert {line[1] for line in lines if line} == {type(MODELS[name]).__name__}
    assert list(dict.fromkeys(line[2].split(",")[0] for line in lines if line)) == STAGES[name]
    clone(MODELS[name]).fit(X, Y)
    assert capsys.readouterr() == ("", "")


def test_log_lines_are_seconds_apart(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    monkeypatch.setattr(_progress, "monotonic", clock)
    with track_fit(1, "fit") as fit:
        fit.plan({"search": 1.0})
        with fit.stage("search"):
            for done in range(2200):
                clock.now += 0.01
                fit.update(done, 2200)
    assert len(capsys.readouterr().err.splitlines()) == 22.0 // _progress.MIN_SECONDS_BETWEEN_LINES + 1


def test_terminal_has_a_progress_bar_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    density = FlowDensity(epochs=2, hidden=(4,), verbose=1)  # shows no progress bar inside another fit
    GenLabelClassifier((6,), density, 1.0).set_params(training__learning_rate=0.1, search__verbose=1, **SHORT).fit(X, Y)
    out, err = capsys.readouterr()
    assert out == ""
    shown = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", err)
    assert re.search(
        r"GenLabelClassifier: typicality .*100 % done, 0 s left, best held-out log-loss [\d.]+ elapsed", shown
    )
    assert "FlowDensity" not in shown
    density.fit(X, Y)
    assert "FlowDensity: training" in capsys.readouterr().err


# A time limit


@pytest.fixture
def thread_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[], float]:
    """Measure the time of the thread in a fit and its test, to be independent of the load of the machine."""
    monkeypatch.setattr(_progress, "monotonic", time.thread_time)
    monkeypatch.setattr(search_space, "monotonic", time.thread_time)
    return time.thread_time


LIMITED = {
    name: model for name, model in MODELS.items() if "search__time_limit" in model.get_params() and name != "AdaMixup"
}
each_limited = pytest.mark.parametrize("name", LIMITED)


@each_limited
def test_long_time_limit_changes_nothing(name: str) -> None:
    free, bound = clone(LIMITED[name]).fit(X, Y), clone(LIMITED[name]).set_params(search__time_limit=600.0).fit(X, Y)
    assert bound.best_params_ == free.best_params_
    assert bound.n_iter_ == free.n_iter_
    np.testing.assert_allclose(bound.predict_proba(X), free.predict_proba(X), rtol=1e-5, atol=1e-9)


LARGE_X, LARGE_Y = make_classification(12_000, 20, n_informative=6, random_state=0)
TIME_LIMITED = [
    GenLabelClassifier(random_state=0).set_params(search__time_limit=0.6),
    MixupClassifier(random_state=0).set_params(search__time_limit=0.6),
    MixupClassifier(mixer=None, random_state=0).set_params(search__ensemble=2, search__time_limit=0.6),
    MixupClassifier((16,), "manifold", calibrate=False)
    .set_params(training__learning_rate=0.01, training__weight_decay=1e-4, search__ensemble=1)
    .set_params(clean_fraction=0.0, search__time_limit=0.6, training__epochs=10_000, random_state=0),
    GenLabelClassifier.from_paper("mlp", search__time_limit=0.6, random_state=0),
    GenLabelClassifier(density="kernel", space="latent", random_state=0).set_params(search__time_limit=0.6),
]


@pytest.mark.parametrize("model", TIME_LIMITED, ids=repr)
def test_fit_keeps_its_time_limit_and_warns(model: Any, thread_clock: Callable[[], float]) -> None:
    fitted, begin = clone(model), thread_clock()
    with pytest.warns(UserWarning, match="time_limit=0.6"):
        fitted.fit(LARGE_X, LARGE_Y)
    assert thread_clock() - begin < 1.2 * 0.6 + 1.0
    assert np.isfinite(fitted.predict_log_proba(LARGE_X)).all()
    assert fitted.score(LARGE_X, LARGE_Y) > 0.75
    losses = len(fitted.history_["loss"])  # those after the best epoch count, too
    assert 1 <= fitted.n_iter_ <= losses
    assert fitted.n_iter_ == losses or getattr(fitted.search, "restore_best", False)


def test_short_time_limit_subsamples_rows_and_keeps_classes(thread_clock: Callable[[], float]) -> None:
    rng = np.random.default_rng(0)
    y = np.where(np.arange(30_000) < 3, "rare", np.where(rng.random(30_000) < 0.2, "some", "many"))
    points = rng.normal(size=(30_000, 5)) + (y == "many")[:, None]
    sample, _ = validate_fit_input(MixupClassifier(), points, y, None, None, smallest_class=1)
    progress = FitProgress(time_limit=1.0)
    subset = subsample_for_time_limit(sample, progress)
    assert len(subset.X) == pytest.approx(VALUES_PER_SECOND / 8, rel=0.01)
    np.testing.assert_array_equal(subset.X, points[subset.rows])
    np.testing.assert_allclose(np.bincount(subset.y)[:2] / len(subset.y), np.bincount(sample.y)[:2] / 30_000, atol=0.01)
    assert (subset.y == 1).sum() == 3
    assert progress.truncations == [f"it is fitted to {len(subset.X):,} of 30,000 rows"]
    assert subsample_for_time_limit(sample, FitProgress()) is sample
    assert subsample_for_time_limit(sample, FitProgress(time_limit=10.0)) is sample
    model = MixupClassifier((4,), random_state=0).set_params(search__time_limit=0.2)
    with pytest.warns(UserWarning, match="rows"):
        model.fit(points, y)
    assert model.classes_.tolist() == ["many", "rare", "some"]


def test_given_folds_are_not_subsampled(thread_clock: Callable[[], float]) -> None:
    pairs = [(np.arange(2000, 12_000), np.arange(2000)), (np.arange(10_000), np.arange(10_000, 12_000))]
    with pytest.warns(UserWarning, match="time_limit") as caught:
        model = (
            MixupClassifier((4,), random_state=0)
            .set_params(search__cv=pairs, search__time_limit=0.2)
            .fit(LARGE_X, LARGE_Y)
        )
    assert "rows" not in str(caught[0].message)
    assert model.score(LARGE_X, LARGE_Y) > 0.75


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize("name", ["default", "mixup", "paper"])
def test_candidates_and_epochs_fit_the_time_limit(name: str, search: str) -> None:
    model = LIMITED[name]
    space, schedule = model.search_space(model.plain_space()), SEARCHES[search]().schedule
    all_entries = [list(space.configurations)]
    seconds_of = {m: 0.01 * (m + 1) for m in range(len(space.mixing))}
    before = (0, 0)
    for seconds in np.geomspace(0.01, 100.0, 60):
        progress = SimpleNamespace(time_left=seconds, truncations=[])
        ((entries,), epochs) = fit_to_time_limit(space, all_entries, 40, schedule, seconds_of, progress)
        slowest = max(seconds_of[m] for m, _ in entries)
        assert epochs == 1 or count_epochs(schedule(epochs), len(entries)) * slowest <= seconds
        assert set(entries) <= set(all_entries[0])
        assert len(entries) >= before[0]
        assert len(entries) > before[0] or epochs >= before[1]
        before = len(entries), epochs
    assert before == (len(all_entries[0]), 40)


@pytest.mark.parametrize("bad", [0, -1.0, "5", True, np.nan, np.inf])
def test_invalid_time_limit_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match=r"time_limit=.*"):
        MixupClassifier().set_params(search__time_limit=bad).fit(X, Y)


def test_time_limit_is_part_of_the_fingerprint() -> None:
    assert "time_limit" not in describe(GenLabelClassifier())
    prints = {
        fingerprint(estimator=GenLabelClassifier().set_params(search__time_limit=seconds))
        for seconds in (None, 5.0, 6.0)
    }
    assert len(prints) == 3


# Interrupts


def interrupt_cases() -> list[Any]:
    """Return every stage of a fitted model and the last of a fresh one; the others are in the long profile."""
    cases = []
    for name, stages in STAGES.items():
        for stage in stages:
            marks = [] if stage == stages[-1] else [pytest.mark.long]
            cases.append(pytest.param(name, stage, True, id=f"{name}-{stage}-fitted"))
            cases.append(pytest.param(name, stage, False, id=f"{name}-{stage}-fresh", marks=marks))
    return cases


@pytest.mark.parametrize("name, stage, fitted", interrupt_cases())
def test_interrupt_leaves_the_estimator_unchanged(name: str, stage: str, fitted: bool) -> None:
    model = clone(MODELS[name])
    if fitted:
        model.fit(X[:, :3], Y > 0)
    before = dict(vars(model))
    threads = torch.get_num_threads()
    torch.set_num_threads(3)

    def stop(event: ProgressEvent) -> None:
        if stage_of(event) == stage:
            raise KeyboardInterrupt

    try:
        with use_callback(LambdaCallback(on_progress=stop)), pytest.raises(KeyboardInterrupt):
            model.fit(X, Y)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(threads)
    assert _progress._fit.get() is None
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[key] is value for key, value in before.items())
    if fitted:
        assert model.predict(X[:, :3]).dtype == bool


@each_model
def test_interrupt_between_epochs_leaves_the_estimator_unchanged(name: str) -> None:
    model = clone(MODELS[name]).set_params(search__verbose=1)
    before = dict(vars(model))
    epochs_seen: list[int] = []

    def stop(epoch: int, logs: Any) -> None:
        epochs_seen.append(epoch)
        if len(epochs_seen) > 3:
            raise KeyboardInterrupt

    with use_callback(LambdaCallback(on_epoch_end=stop)), pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert vars(model) == before


# Classes of one row or two


RARE = np.array(["a", "b", "c"], dtype=object)[Y]
RARE[[3, 60, 61]] = ["one", "two", "two"]


@pytest.mark.parametrize("name", ["default", "mixup", "members"])
def test_rare_class_warns_and_cross_validation_succeeds(name: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", message="The least populated class in y has only 1 member")  # scikit-learn's
        scores = cross_val_score(MODELS[name], X, RARE, cv=StratifiedKFold(3), error_score="raise")
    assert np.isfinite(scores).all()
    assert 0.7 < scores.mean() < 1.0
    assert any("single" in str(warning.message) for warning in caught)


@pytest.mark.parametrize("name", ["default", "mixup"])
def test_class_of_two_rows_warns(name: str) -> None:
    rows = np.arange(150) != 3
    with pytest.warns(UserWarning, match="two") as caught:
        model = clone(MODELS[name]).fit(X[rows], RARE[rows])
    assert len(caught) == 1
    assert "split5_test_score" in model.cv_results_
    assert model.classes_.tolist() == ["a", "b", "c", "two"]
