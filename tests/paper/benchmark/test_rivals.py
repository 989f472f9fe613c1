"""Baselines that are compared as we are: native categories, a search by log-loss, a temperature, and TabPFN v1."""

import os
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.fixes import parse_version

from genlabel.data.datasets import load_table
from genlabel.data.tables import Table, table_pipeline
from genlabel.evaluation.records import fingerprint, open_store
from genlabel.evaluation.runner import FitRunner
from genlabel.model_selection.splits import CVData, LabeledData
from genlabel_paper.benchmark import BASELINES, BaselineClassifier, why_unavailable
from genlabel_paper.benchmark import baselines as registry
from genlabel_paper.benchmark import selection as search_module
from genlabel_paper.benchmark.columns import CategoryColumns, make_transformer
from genlabel_paper.benchmark.run import describe_table
from genlabel_paper.benchmark.schema import BENCHMARK
from genlabel_paper.benchmark.selection import (
    TemperatureScaledClassifier,
    fit_temperature,
    search_by_log_loss,
    search_folds,
)
from genlabel_paper.benchmark.tabpfn_v1 import MAX_FEATURES, MAX_ROWS, TabPFNv1Classifier, convert_weights, prepare

REASONS = {name: why_unavailable(name) for name in BASELINES}
SLOW = ("tuned", "realmlp", "tabm", "ebm", "xrfm")
PACKAGE = os.environ.get("GENLABEL_TABPFN_V1_PACKAGE", "")
needs_weights = pytest.mark.skipif(REASONS["tabpfn-v1"] is not None, reason=str(REASONS["tabpfn-v1"]))


def choose(*kinds: str) -> list[Any]:
    """Return the baselines with one of the fields set; those of other packages that take seconds are long tests."""
    names = [name for name, baseline in BASELINES.items() if any(getattr(baseline, kind) for kind in kinds)]
    return [_param(name) for name in names]


def _param(name: str) -> Any:
    reason, ours = REASONS[name], BASELINES[name].package == "scikit-learn"
    marks = [pytest.mark.skipif(reason is not None, reason=f"{name}: {reason}")]
    return pytest.param(name, marks=[*marks, *([] if ours or not any(s in name for s in SLOW) else [pytest.mark.long])])


EQUAL_TERMS = [
    _param(name)
    for name, rival in BASELINES.items()
    if rival.columns != "one-hot" or rival.space or name == "tabpfn-v1"
]


def mixed_table(n: int = 60) -> Table:
    """Return a table of numbers and strings, both with missing values, and a class of three rows."""
    rng = np.random.default_rng(5)
    X = pd.DataFrame(
        {"size": rng.normal(size=n), "color": rng.choice(["red", "green", "blue"], n), "u": rng.normal(size=n)}
    )
    y = pd.Series(np.where(X["size"] + (X["color"] == "red") > 0.4, "yes", "no"))
    y.iloc[[4, 20, 40]] = "rarely"
    X.iloc[3, 0] = X.iloc[7, 1] = None
    return Table("mixed", X, y)


def encode(name: str, table: Table) -> pd.DataFrame:
    """Return the features that the runner gives to a baseline."""
    if get_tags(BaselineClassifier(name)).input_tags.categorical:
        return table.X
    return pd.DataFrame(table_pipeline(table.X, "passthrough").fit_transform(table.X))


@pytest.fixture
def few_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search over the defaults and one other candidate, with small forests."""
    monkeypatch.setattr(search_module, "N_CANDIDATES", 2)
    settings = BASELINES["forest-tuned"].settings | {"n_estimators": 10}
    monkeypatch.setitem(BASELINES, "forest-tuned", replace(BASELINES["forest-tuned"], settings=settings))


# All rivals


@pytest.mark.filterwarnings("ignore")  # warnings of other packages
@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize("name", EQUAL_TERMS)
def test_probabilities_are_normalized_and_repeatable(name: str) -> None:
    table = mixed_table()
    X = encode(name, table)
    first, second = (
        clone(BaselineClassifier(name, random_state=1)).fit(X[:50], table.y[:50]).predict_proba(X[50:])
        for _ in range(2)
    )
    assert first.shape == (10, 3)
    np.testing.assert_allclose(first.sum(1), 1, atol=1e-5)
    assert (first >= 0).all()
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("name", choose("space", "calibrated"))
def test_settings_of_the_comparison_are_in_the_fingerprint(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, forest = (fingerprint(estimator=BaselineClassifier(each)) for each in (name, "forest"))
    monkeypatch.setattr(registry, "N_CANDIDATES", 3)
    monkeypatch.setattr(registry, "N_CALIBRATION_FOLDS", 5)
    assert fingerprint(estimator=BaselineClassifier(name)) != before
    assert fingerprint(estimator=BaselineClassifier("forest")) == forest


@pytest.mark.filterwarnings("ignore")  # warnings of other packages
@pytest.mark.usefixtures("few_candidates")
@pytest.mark.parametrize("name", choose("space", "calibrated"))
def test_choices_do_not_depend_on_test_rows(name: str) -> None:
    """The same training rows give the same candidate or temperature, whatever stands in the test rows."""
    table, rng = mixed_table(), np.random.default_rng(0)
    train, test = np.arange(44), np.arange(44, 60)
    X, y = table.X.copy(), table.y.copy()
    X.iloc[test], y.iloc[test] = X.iloc[rng.permutation(test)].to_numpy(), y.iloc[rng.permutation(test)].to_numpy()
    other = Table("mixed", X, y)
    chosen = []
    for part in (table, other):
        methods = {name: BaselineClassifier(name)}
        runner = FitRunner(methods, 1, 0.3, 0, {1: part}.__getitem__, describe_table, splits=[(train, test)])
        with open_store(None, BENCHMARK) as store:
            frame = runner.run([1], store).frame
        chosen.append((frame["parameters"][0], frame["log_loss"][0]))
    assert chosen[0][0] == chosen[1][0]
    assert chosen[0][1] != chosen[1][1]


# The search


@pytest.mark.parametrize("n", [60, 700])
def test_folds_are_those_of_the_default(n: int) -> None:
    y = np.random.default_rng(0).integers(0, 3, n)
    data = LabeledData(np.zeros((n, 1)), y, np.arange(3), None, np.arange(n), n, None)
    seed = int(check_random_state(7).randint(2**31 - 1))
    expected = CVData(data, cv="auto", standardize=False, seed=seed, keep_rare=True).folds
    for fold, other in zip(search_folds(y, 7), expected, strict=True):
        np.testing.assert_array_equal(fold.valid, other.valid)
        np.testing.assert_array_equal(fold.train, other.train)


def test_search_takes_the_lowest_log_loss_and_tries_the_defaults_first() -> None:
    table = load_table("wine")
    X, y = MinMaxScaler().fit_transform(table.X), np.unique(table.y, return_inverse=True)[1]
    folds = search_folds(y, 0)
    search = search_by_log_loss(LogisticRegression(), {"C": np.logspace(-3, 3, 15)}, folds, 0).fit(X, y)
    candidates = [{}, *({"C": float(C)} for C in np.logspace(-3, 3, 15))]
    losses = []
    for candidate in candidates:
        model = LogisticRegression(**candidate)
        losses.append(
            np.mean(
                [log_loss(y[valid], model.fit(X[train], y[train]).predict_proba(X[valid])) for train, valid in folds]
            )
        )
    assert search.cv_results_["params"][0] == {}
    assert len(search.cv_results_["params"]) == len(candidates)
    assert -search.best_score_ == pytest.approx(min(losses))
    assert search.best_params_ == candidates[int(np.argmin(losses))]


@pytest.mark.parametrize("name", choose("space"))
def test_search_spaces_hold_parameters_of_the_model(name: str) -> None:
    baseline = BASELINES[name]
    for parameter, values in baseline.space.items():
        for value in values:
            assert baseline.make().set_params(**{parameter: value}).get_params()[parameter] == value


# The temperature


@pytest.mark.skipif(parse_version(sklearn.__version__) < parse_version("1.8"), reason="no temperature in scikit-learn")
@pytest.mark.parametrize("model", [GaussianNB(), LogisticRegression(C=100.0), ExtraTreesClassifier(20, random_state=0)])
@pytest.mark.parametrize("table", ["iris", "wine"])
def test_temperature_equals_scikit_learns(model: Any, table: str) -> None:
    data = load_table(table)
    X, y = MinMaxScaler().fit_transform(data.X), np.unique(data.y, return_inverse=True)[1]
    folds = list(StratifiedKFold(4, shuffle=True, random_state=0).split(X, y))
    expected = CalibratedClassifierCV(model, method="temperature", cv=folds, ensemble=False).fit(X, y)
    ours = TemperatureScaledClassifier(model, folds).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), expected.predict_proba(X), atol=2e-3)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 4.0])
def test_temperature_of_overconfident_probabilities_is_found(temperature: float) -> None:
    """Labels drawn from p, and p^T shown: the fitted temperature is T, up to the noise of 20,000 labels."""
    rng = np.random.default_rng(0)
    log_proba = np.log(rng.dirichlet(np.ones(3), 20_000))
    y = (rng.random((20_000, 1)) > np.exp(log_proba).cumsum(1)[:, :2]).sum(1)
    assert fit_temperature(temperature * log_proba, y) == pytest.approx(temperature, rel=0.05)


@pytest.mark.filterwarnings("ignore")  # warnings of other packages
@pytest.mark.parametrize("name", choose("calibrated"))
def test_temperature_keeps_the_ranking(name: str) -> None:
    table = mixed_table()
    X = encode(name, table)
    model = BaselineClassifier(name, random_state=0).fit(X, table.y)
    raw = np.asarray(model.model_.model_.predict_proba(model.columns_.transform(X)), dtype=np.float64)
    scaled, temperature = model.predict_proba(X), model.best_params_["temperature"]
    assert (scaled.argmax(1) == raw.argmax(1)).all()
    flat = np.maximum(raw, 1e-15) ** (1 / temperature)
    np.testing.assert_allclose(scaled, flat / flat.sum(1, keepdims=True), rtol=1e-5)


def test_class_that_a_fold_does_not_hold_out_is_predicted() -> None:
    table = mixed_table()
    X, y = table.X[["u"]].to_numpy(), np.unique(table.y, return_inverse=True)[1]
    model = TemperatureScaledClassifier(GaussianNB(), search_folds(y, 0, 4))
    assert model.fit(X, y).predict_proba(X).shape == (60, 3)


# Categories


@pytest.mark.parametrize("output", ["native", "imputed"])
def test_categories_of_training_rows_alone_are_known(output: str) -> None:
    table = mixed_table()
    columns = CategoryColumns(["numbers", "text", "numbers"], output).fit(table.X)
    other = table.X.head(3).assign(color=["red", "violet", None], size=[1.0, None, 2.0])
    result = columns.transform(other)
    seen = sorted(table.X["color"].dropna().unique())
    assert [int(code) for code in result["f1"]] == [1 + seen.index("red"), -1, 0]
    assert isinstance(result["f1"].dtype, pd.CategoricalDtype)
    assert result["f0"].isna().tolist() == [False, output != "imputed", False]
    median = float(table.X["size"].median())
    assert result["f0"].tolist()[1] == pytest.approx(median, nan_ok=True) or output != "imputed"


def test_dates_are_left_out_and_numbers_only_stay_numbers() -> None:
    X = pd.DataFrame({"when": pd.to_datetime(["2024-01-01", "2024-01-02"]), "flag": [True, False]})
    assert make_transformer("native", X).fit_transform(X).columns.tolist() == ["f1"]
    numbers = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(make_transformer("one-hot", numbers).fit_transform(numbers), numbers)


def test_runner_gives_columns_of_the_table_to_native_baselines_only() -> None:
    names = ("boosting-tuned", "forest-tuned", "catboost-native", "catboost", "logistic-tuned")
    native = {name: get_tags(BaselineClassifier(name)).input_tags.categorical for name in names}
    assert [name for name in names if native[name]] == ["boosting-tuned", "catboost-native"]


# TabPFN v1


@needs_weights
def test_tabpfn_v1_does_not_depend_on_the_order_of_the_training_rows() -> None:
    data = load_table("wine")
    X, y = data.X.to_numpy(dtype=np.float64), data.y.to_numpy()
    order = np.random.default_rng(0).permutation(60)
    rows = np.arange(0, 120, 2)
    first, second = (TabPFNv1Classifier(2).fit(X[part], y[part]).predict_proba(X[150:]) for part in (rows, rows[order]))
    np.testing.assert_allclose(first, second, atol=1e-5)
    np.testing.assert_allclose(first.sum(1), 1, atol=1e-6)


@needs_weights
def test_tabpfn_v1_predicts_rows_apart_from_each_other() -> None:
    data = load_table("wine")
    X, y = data.X.to_numpy(dtype=np.float64), data.y.to_numpy()
    model = TabPFNv1Classifier(2).fit(X[::3], y[::3])
    np.testing.assert_allclose(model.predict_proba(X[[1, 77]])[1:], model.predict_proba(X[[77]]), atol=1e-5)


def test_tabpfn_v1_keeps_its_limits() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1500, 3)), rng.integers(0, 2, 1500)
    model = TabPFNv1Classifier().fit(X, y)
    assert model.best_params_ == {"train_rows": MAX_ROWS, "features": 3}
    assert float(model.y_.double().mean()) == pytest.approx(y.mean(), abs=1e-3)
    assert TabPFNv1Classifier().fit(rng.normal(size=(20, 101)), y[:20]).best_params_["features"] == MAX_FEATURES
    with pytest.raises(ValueError, match="11 classes"):
        TabPFNv1Classifier().fit(X[:22], np.repeat(np.arange(11), 2))


def test_tabpfn_v1_scales_by_training_rows_only() -> None:
    """Test rows change neither the values of training rows nor which columns are constant."""
    rng = np.random.default_rng(0)
    rows = torch.from_numpy(rng.normal(size=(30, 4)).astype(np.float32))
    rows[:20, 2] = 1.0
    far = rows.clone()
    far[20:] = 1e4
    for power in (False, True):
        first, second = prepare(rows, 20, power), prepare(far, 20, power)
        assert first.shape == (30, 3)
        torch.testing.assert_close(first[:20], second[:20])


def test_unknown_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(b"no weights")
    with tarfile.open(tmp_path / "pfns.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "weights", "pfns-0.3.0/models_diff/prior_diff_real_checkpoint_n_0_epoch_42.cpkt")
    with pytest.raises(ValueError, match="checkpoint"):
        convert_weights(tmp_path / "pfns.tar.gz", tmp_path / "w.safetensors")
    assert not (tmp_path / "w.safetensors").exists()


REFERENCE = """
import sys, typing, warnings
warnings.simplefilter("ignore")
import numpy as np, torch
import sklearn.utils.validation as validation

torch.nn.modules.transformer.Optional = typing.Optional

def shim(function):
    def call(*arguments, force_all_finite=None, **options):
        finite = {} if force_all_finite is None else {"ensure_all_finite": force_all_finite}
        return function(*arguments, **options, **finite)
    return call

validation.check_X_y, validation.check_array = shim(validation.check_X_y), shim(validation.check_array)
folder, data, output = sys.argv[1:]
sys.path.insert(0, folder)
from pathlib import Path
from tabpfn import TabPFNClassifier
arrays = np.load(data)
model = TabPFNClassifier(base_path=Path(folder), N_ensemble_configurations=7, seed=3)
np.save(output, model.fit(arrays["X"], arrays["y"]).predict_proba(arrays["Z"]))
"""


@needs_weights
@pytest.mark.skipif(not PACKAGE, reason="GENLABEL_TABPFN_V1_PACKAGE names no folder of tabpfn 0.1.11 and models_diff/")
@pytest.mark.parametrize("d, k", [(1, 2), (3, 2), (7, 4), (12, 10)])
def test_tabpfn_v1_repeats_its_package(d: int, k: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(d)
    X, y = rng.normal(size=(80, d)) ** 3, np.arange(80) % k
    X[:, 0] += y
    if d > 2:  # missing values, a column that is constant in training, a column of few values, an outlier
        X[rng.random(80) < 0.2, 0], X[:60, 1], X[:, 2] = np.nan, 1.0, rng.integers(0, 3, 80)
        X[70, 2] = 1e6
    np.savez(tmp_path / "data.npz", X=X[:60], y=y[:60], Z=X[60:])
    arguments = [PACKAGE, str(tmp_path / "data.npz"), str(tmp_path / "proba.npy")]
    subprocess.run([sys.executable, "-c", REFERENCE, *arguments], check=True, capture_output=True)
    proba = TabPFNv1Classifier(7, random_state=3).fit(X[:60], y[:60]).predict_proba(X[60:])
    np.testing.assert_allclose(proba, np.load(tmp_path / "proba.npy"), atol=2e-5)
