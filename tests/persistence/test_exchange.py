"""Export as ONNX: another runtime predicts what the model predicts, from the same columns."""

import json
import sys
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genlabel import (
    AdaMixupClassifier,
    GenerativeClassifier,
    GenLabelClassifier,
    MixupClassifier,
    export_onnx,
    load_model,
    save_model,
)
from genlabel.data.tables import table_pipeline
from genlabel.densities import (
    DiscriminantDensity,
    ForestDensity,
    GaussianDensity,
    KernelDensity,
    MixtureDensity,
    PerClassDensity,
    PowerTransformedDensity,
    StackedDensity,
    fixed_gaussians,
)
from genlabel.densities.candidates import default_candidates
from genlabel.persistence import onnx_graph, to_onnx
from genlabel.persistence.compression import compress_classifier
from genlabel.training.networks.staged import log_proba_of

onnxruntime = pytest.importorskip("onnxruntime", reason="needs the packages onnx and onnxruntime")
pytest.importorskip("onnx", reason="needs the packages onnx and onnxruntime")

SHORT: dict[str, Any] = {
    "training__epochs": 2,
    "random_state": 0,
    "training__learning_rate": 0.03,
    "training__weight_decay": 1e-3,
    "search__cv": 3,
}
FEW = [
    KernelDensity(0.4, covariance="shared"),
    PowerTransformedDensity(MixtureDensity(2)),
    PowerTransformedDensity(DiscriminantDensity(0.3, 0.1)),
    ForestDensity(n_estimators=3),
]
"""Members of a small stack."""
MODELS: dict[str, Any] = {
    "ensemble": MixupClassifier().set_params(**SHORT),
    "not calibrated": MixupClassifier(calibrate=False).set_params(**SHORT),
    "one network": MixupClassifier.from_paper("mlp", **SHORT),
    "softmax regression": MixupClassifier("logistic").set_params(search__ensemble=1, **SHORT),
    "not standardized": MixupClassifier().set_params(training__standardize=False, **SHORT),
    "pool without a density": GenLabelClassifier(density="gaussian").set_params(**SHORT),
    "pool with weight 0": GenLabelClassifier(density="gaussian", pool_with_density=(0.6, 0.0)).set_params(**SHORT),
    "pool with a kernel": GenLabelClassifier(density="kernel", pool_with_density=(0.5, 0.4, 0.1)).set_params(**SHORT),
    "pool with weighted classes": GenLabelClassifier(density="mixture", pool_with_density=(1, 1)).set_params(
        class_weight="balanced", **SHORT
    ),
    "latent": GenLabelClassifier(
        (8,), "gaussian", space="latent", pool_with_density=(0.5, 0.5), search="grid"
    ).set_params(**SHORT),
    "adamixup": AdaMixupClassifier().set_params(**SHORT),
    "default": GenLabelClassifier(random_state=0).set_params(training__epochs=2),
    "stack": GenerativeClassifier(StackedDensity(FEW, cv=3)),
    "stack of equal weights": GenerativeClassifier(StackedDensity(FEW[-1:], cv=3)),
    "gaussian": GenerativeClassifier(GaussianDensity(), priors="uniform"),
    "kernel": GenerativeClassifier(KernelDensity("likelihood"), class_weight="balanced"),
    "fixed": GenerativeClassifier(fixed_gaussians(np.arange(9.0).reshape(3, 3) / 9)),
    "few kernels": GenerativeClassifier(KernelDensity(max_points=5)),
    "leaves of several classes": GenerativeClassifier(ForestDensity(n_estimators=2, min_samples_leaf=20)),
}
FAMILIES = {
    name: density
    for name, density in default_candidates().items()
    if any(part in name for part in ("0.3 shrinkage=0.1", "pooling=1 d", "0.25", "mixture 3", "forest"))
}
"""Some of each family of the default candidates."""


@cache
def sample(k: int = 3, n: int = 90, d: int = 4) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Return skewed features around class means, of which one is constant, and class names."""
    rng = np.random.default_rng(k)
    y = rng.permutation(np.arange(n) % k)
    X = rng.gamma(2.0, size=(n, d)) * rng.choice([1, -3], d) + 2 * y[:, None]
    X[:, 2] = 7.0  # the scaler leaves it out
    return X, np.array(list("abcde"))[y]


def run(path: Path, inputs: dict[str, NDArray[Any]]) -> tuple[NDArray[Any], NDArray[Any], dict[str, Any]]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    log_proba, index = session.run(["log_proba", "class_index"], inputs)
    return log_proba, index, {k: json.loads(v) for k, v in session.get_modelmeta().custom_metadata_map.items()}


def check(model: Any, X: NDArray[Any], path: Path, dtype: str = "float64", error: float = 1e-10) -> None:
    """Check the file of a model of numbers: all rows, each of the first, and none."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        export_onnx(model, path, dtype=dtype)
    for rows in (slice(None), slice(0, 1), slice(1, 2), slice(0, 0)):
        log_proba, index, known = run(path, {"features": X[rows].astype(dtype)})
        assert log_proba.dtype == dtype
        assert log_proba.shape == (len(X[rows]), len(model.classes_))
        if len(X[rows]):
            expected = model.predict_proba(X[rows])
            np.testing.assert_allclose(np.exp(log_proba), expected, rtol=0, atol=error)
            sure = np.sort(expected)[:, -1] - np.sort(expected)[:, -2] > error
            assert (np.array(known["classes"])[index] == model.predict(X[rows]))[sure].all()


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("dtype, error", [("float64", 1e-10), ("float32", 2e-4)])
def test_onnxruntime_predicts_the_same(name: str, dtype: str, error: float, tmp_path: Path) -> None:
    X, y = sample()
    rows = np.concatenate([X, 3 * X, -X])
    rows[::7, 0] = np.nan  # the median takes its place
    check(MODELS[name].fit(X, y), rows.astype(dtype), tmp_path / "m.onnx", dtype, error)


@pytest.mark.parametrize("k", [2, 5])
def test_families_of_the_default_stack_for_two_and_many_classes(k: int, tmp_path: Path) -> None:
    X, y = sample(k, 60)
    for density in FAMILIES.values():
        model = GenerativeClassifier(density).fit(X, y, np.linspace(1, 2, 60))
        check(model, np.concatenate([X, 3 * X, -X]), tmp_path / "m.onnx")


@pytest.mark.parametrize("pooling", [0.0, 1.0])
def test_fewer_rows_than_features(pooling: float, tmp_path: Path) -> None:
    X, y = sample(2, 20, 50)
    model = GenerativeClassifier(DiscriminantDensity(pooling, 0.1)).fit(X, y)
    check(model, np.concatenate([X, 0.99 * X, -X]), tmp_path / "m.onnx", error=1e-8)


def test_points_where_all_densities_vanish_have_the_priors(tmp_path: Path) -> None:
    X, y = sample()
    for density in (FEW[0], FEW[1], StackedDensity(FEW, cv=3)):
        model = GenerativeClassifier(density).fit(X, y)
        check(model, np.array([[1e200, 0, 7, 0], [-1e200, 0, 7, 0]]), tmp_path / "m.onnx")


def test_rows_far_outside(tmp_path: Path) -> None:
    X, y = sample()
    for density in (*FEW, GaussianDensity(), StackedDensity(FEW, cv=3)):
        check(
            GenerativeClassifier(density).fit(X, y),
            np.concatenate([100 * X, -100 * X]),
            tmp_path / "m.onnx",
            error=1e-4,
        )


@pytest.mark.parametrize("shift", [0, 10])
def test_integer_classes_stay_integers(shift: int, tmp_path: Path) -> None:
    X, y = sample()
    model = GenerativeClassifier().fit(X, (y == "a") + shift)
    _, index, known = run(export_onnx(model, tmp_path / "m.onnx"), {"features": X})
    assert known["classes"] == [shift, shift + 1]
    assert known["columns"] == {"features": ["x0", "x1", "x2", "x3"]}
    np.testing.assert_array_equal(np.array(known["classes"])[index], model.predict(X))


def table() -> tuple[pd.DataFrame, NDArray[Any]]:
    """Return numbers with gaps, a column of two categories with gaps, and one of 25, of which some are rare."""
    X, y = sample(3, 120)
    names = [f"city {n}" for n in np.random.default_rng(0).integers(0, 25, 120) ** 2 // 25]
    frame = pd.DataFrame({"age": X[:, 0], "sex": np.where(X[:, 3] > 4, "f", "m"), "size": X[:, 1], "city": names})
    frame.loc[::9, "age"] = None
    frame.loc[::11, "sex"] = None
    return frame, y


def as_inputs(frame: pd.DataFrame, columns: dict[str, list[str]]) -> dict[str, NDArray[Any]]:
    """Return the inputs of a graph as a program without genlabel makes them."""
    inputs: dict[str, NDArray[Any]] = {}
    if "numbers" in columns:
        inputs["numbers"] = frame[columns["numbers"]].to_numpy(dtype=np.float64)
    if "text" in columns:
        inputs["text"] = frame[columns["text"]].fillna("(missing)").to_numpy(dtype=str)
    return inputs


@pytest.mark.parametrize("columns", [["age", "sex", "size", "city"], ["sex", "city"], ["age", "size"]])
@pytest.mark.parametrize("with_pipeline", [True, False])
def test_a_table_goes_in_as_it_is(columns: list[str], with_pipeline: bool, tmp_path: Path) -> None:
    frame, y = table()
    frame = frame[columns]
    estimator = GenerativeClassifier("mixture")
    model = (table_pipeline(frame, estimator) if with_pipeline else estimator).fit(frame, y)
    new = frame.copy()
    for name in set(columns) & {"sex", "city"}:
        new.loc[3:5, name] = "not seen"
        new.loc[7, name] = None
    expected = model.predict_proba(new)
    for exported in (model, load_model(save_model(model, tmp_path / "model"))):
        path = export_onnx(exported, tmp_path / "m.onnx")
        metadata = run_metadata(path)
        if "features" in metadata["columns"]:  # a classifier of numbers alone takes them as one array
            inputs = {"features": new.to_numpy(dtype=np.float64)}
        else:
            inputs = as_inputs(new, metadata["columns"])
        assert {name for names in metadata["columns"].values() for name in names} == set(columns)
        for rows in (slice(None), slice(3, 4), slice(0, 0)):
            log_proba, index, _ = run(path, {name: values[rows] for name, values in inputs.items()})
            np.testing.assert_allclose(np.exp(log_proba), expected[rows], rtol=0, atol=1e-10)
        assert len(index) == 0


def run_metadata(path: Path) -> dict[str, Any]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return {k: json.loads(v) for k, v in session.get_modelmeta().custom_metadata_map.items()}


@pytest.mark.parametrize("costs", [{"a": 5.0}, {"a": 0.05}, "balanced"], ids=str)
def test_the_class_index_follows_the_costs_of_the_model(costs: Any, tmp_path: Path) -> None:
    X, y = sample()
    model = GenerativeClassifier("mixture").fit(X, y)
    plain = model.predict(X)
    model.set_costs(costs)
    _, index, known = run(export_onnx(model, tmp_path / "m.onnx"), {"features": X})
    np.testing.assert_array_equal(np.array(known["classes"])[index], model.predict(X))
    assert costs == "balanced" or (model.predict(X) != plain).any()


def test_a_scaler_in_front_is_exported(tmp_path: Path) -> None:
    X, y = sample()
    check(make_pipeline(StandardScaler(), GenerativeClassifier()).fit(X, y), X, tmp_path / "m.onnx")


class Laplace(PerClassDensity):
    """A density of another package, without nodes."""

    def _fit_class(self, sample: Any) -> Any:
        center = sample.X.mean(0)
        return torch.distributions.Independent(torch.distributions.Laplace(center, torch.ones_like(center)), 1)


class KnownLaplace(Laplace):
    """The same density, with nodes."""


@to_onnx.register
def _(part: KnownLaplace, graph: Any, x: str) -> str:
    models: list[Any] = part.models_
    columns = [graph.add("Abs", graph.add("Sub", x, model.mean)) for model in models]
    sums = [graph.add("ReduceSum", column, np.array([1]), keepdims=1) for column in columns]
    return str(graph.add("Neg", graph.add("Concat", *sums, axis=1)))


def test_a_density_of_another_package_registers_its_nodes(tmp_path: Path) -> None:
    X, y = sample()
    check(GenerativeClassifier(KnownLaplace()).fit(X, y), X, tmp_path / "m.onnx")
    for density in (Laplace(), KernelDensity(leave_one_out=True)):
        with pytest.raises(ValueError, match="ONNX"):
            export_onnx(GenerativeClassifier(density).fit(X, y), tmp_path / "none.onnx")
    assert not (tmp_path / "none.onnx").exists()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_compressed_file_imitates_the_model(dtype: str, tmp_path: Path) -> None:
    frame, y = table()
    model = GenerativeClassifier(Laplace()).fit(frame.drop(columns="city"), y)
    train, new = frame[:100], frame[100:]
    path = export_onnx(model, tmp_path / "m.onnx", dtype=dtype, compress=train.drop(columns="city"))
    metadata = run_metadata(path)
    inputs = as_inputs(new, metadata["columns"])
    inputs["numbers"] = inputs["numbers"].astype(dtype)
    log_proba, index, _ = run(path, inputs)
    expected = model.predict_proba(new.drop(columns="city"))
    assert (index == expected.argmax(1)).mean() > 0.8
    assert (expected * (np.log(expected) - log_proba)).sum(1).mean() < 0.1
    assert (expected * np.log(expected / model.class_count_ * y.size)).sum(1).mean() > 0.3  # the priors alone
    errors = metadata["compressed"]
    assert errors["rows"] + errors["held_out_rows"] == 100
    assert 0 <= errors["kl_divergence"] < 0.1
    assert errors["agreement"] > 0.7
    assert 0 < errors["mean_difference"] < 0.2


def test_compression_measures_rows_that_it_does_not_train_on() -> None:
    X, y = sample(n=60)
    model = GenerativeClassifier(KernelDensity(0.05)).fit(X, y)
    network, errors = compress_classifier(model, model.scaler_(X))
    predicted = log_proba_of(network, model.scaler_(X))
    p = model.predict_proba(X)
    all_rows = (p * (np.log(np.maximum(p, 1e-300)) - predicted)).sum(1)
    held_out = np.sort(all_rows)[-12:].mean()
    assert errors["kl_divergence"] > all_rows.mean()  # rows that are learned by heart would hide this
    assert errors["kl_divergence"] <= held_out
    with pytest.raises(ValueError, match="two"):
        compress_classifier(model, model.scaler_(X[:1]))


def test_what_cannot_be_exported_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = GenerativeClassifier().fit(*sample())
    with pytest.raises(ValueError, match="float16"):
        export_onnx(model, tmp_path / "m.onnx", dtype="float16")
    with monkeypatch.context() as patch:
        patch.setattr(onnx_graph, "MAX_BYTES", 100)
        with pytest.raises(ValueError, match="GB"):
            export_onnx(model, tmp_path / "m.onnx")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'genlabel\[onnx\]'"):
        export_onnx(model, tmp_path / "m.onnx")
