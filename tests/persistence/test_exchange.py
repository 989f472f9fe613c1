"""Export as ONNX: another runtime predicts what the classifier predicts."""

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

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
MODELS: dict[str, Any] = {
    "ensemble": MixupClassifier().set_params(**SHORT),
    "not calibrated": MixupClassifier(calibrate=False).set_params(**SHORT),
    "one network": MixupClassifier.from_paper("mlp", **SHORT),
    "softmax regression": MixupClassifier("logistic").set_params(search__ensemble=1, **SHORT),
    "not standardized": MixupClassifier().set_params(training__standardize=False, **SHORT),
    "genlabel": GenLabelClassifier(density="gaussian").set_params(**SHORT),
    "drawn to the priors": GenLabelClassifier(density="gaussian", pool_with_density=(0.6, 0.0)).set_params(**SHORT),
    "adamixup": AdaMixupClassifier().set_params(**SHORT),
}


def sample() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(90) % 3)
    X = 10 + 3 * rng.normal(size=(90, 4)) + 4 * y[:, None]
    X[:, 2] = 7.0  # constant: the scaler leaves it out
    return X, np.array(["a", "b", "c"])[y]


def run(path: Path, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    logs, index = session.run(["log_proba", "class_index"], {"features": X})
    return logs, index, {k: json.loads(v) for k, v in session.get_modelmeta().custom_metadata_map.items()}


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("dtype, error", [("float64", 1e-11), ("float32", 1e-3)])
def test_onnxruntime_predicts_the_same(name: str, dtype: str, error: float, tmp_path: Path) -> None:
    X, y = sample()
    model = MODELS[name].fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = export_onnx(model, tmp_path / "m.onnx", dtype=dtype)
    far = np.concatenate([X, 100 * X, -X])
    logs, index, known = run(path, far.astype(dtype))
    assert logs.dtype == dtype
    np.testing.assert_allclose(logs, model.predict_log_proba(far), rtol=error, atol=error)
    np.testing.assert_array_equal(np.array(known["classes"])[index[:90]], model.predict(X))
    assert known["features"] == ["x0", "x1", "x2", "x3"]


def test_a_stacked_density_is_not_exported_with_a_warning(tmp_path: Path) -> None:
    X, y = sample()
    model = GenLabelClassifier(density="kernel", pool_with_density=(0.5, 0.4)).set_params(**SHORT).fit(X, y)
    with pytest.warns(UserWarning, match="stacked density"):
        path = export_onnx(model, tmp_path / "m.onnx")
    logs, _, _ = run(path, X)
    np.testing.assert_allclose(logs, log_proba_of(model.network_, model.scaler_(X)), atol=1e-11)
    assert np.abs(logs - model.predict_log_proba(X)).max() > 1e-3


def test_a_pipeline_and_a_loaded_model_are_exported_without_preprocessing(tmp_path: Path) -> None:
    X, y = sample()
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": np.where(X[:, 3] > 14, "high", "low")})
    pipeline = table_pipeline(frame, MixupClassifier().set_params(**SHORT)).fit(frame, y)
    alone = MixupClassifier().set_params(**SHORT).fit(frame, y)
    for model, names in (
        (pipeline, ["x0", "x1", "x2", "x3"]),
        (alone, ["numbers__a", "numbers__b", "text__c_high", "text__c_low"]),
    ):
        loaded = load_model(save_model(model, tmp_path / "model", overwrite=True))
        for exported in (model, loaded):
            logs, _, known = run(export_onnx(exported, tmp_path / "m.onnx"), loaded.features(frame))
            np.testing.assert_allclose(logs, model.predict_log_proba(frame), atol=1e-11)
            assert known["features"] == names


def test_what_cannot_be_exported_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = GenerativeClassifier().fit(*sample())
    with pytest.raises(ValueError, match="network"):
        export_onnx(model, tmp_path / "m.onnx")
    with pytest.raises(ValueError, match="float16"):
        export_onnx(model, tmp_path / "m.onnx", dtype="float16")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"pip install 'genlabel\[onnx\]'"):
        export_onnx(model, tmp_path / "m.onnx")
