"""Explanations: contributions against brute force and a closed form, nearest rows, saved training rows, errors."""

import json
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from scipy.special import logit
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genlabel import GenerativeClassifier, GenLabelClassifier, MixupClassifier, explain, load_model, save_model
from genlabel.data.tables import table_pipeline
from genlabel.densities import DiscriminantDensity, KernelDensity, StackedDensity
from genlabel.persistence import LoadedModel
from genlabel.persistence.files import CARD
from genlabel.persistence.training_rows import MAX_ROWS, TrainingRows

QUICK: dict[str, Any] = {
    "training__epochs": 2,
    "random_state": 0,
    "training__learning_rate": 0.03,
    "training__weight_decay": 1e-3,
    "search__cv": 2,
}
FEW = StackedDensity([DiscriminantDensity(), KernelDensity(0.5, covariance="shared")])
N = 90


def numbers() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(N) % 3)
    X = rng.normal(size=(N, 4)) + 2 * y[:, None] * [1.0, 0.5, 0.0, 0.0]
    X[:, 3] = 5.0  # constant, so the model ignores it
    return X, y


def table() -> tuple[pd.DataFrame, np.ndarray]:
    X, y = numbers()
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(X[:, :2], columns=["width", "height"], index=np.arange(N) + 1000)
    frame["color"] = np.where(X[:, 2] > 0, "red", "blue")
    frame["level"] = pd.Categorical(np.where(y > 0, "high", "low"))
    frame["whole"] = pd.array([None, *rng.integers(0, 9, N - 1)], dtype="Int64")
    frame["flag"] = X[:, 2] > 1
    frame.loc[1003, "color"], frame.loc[1004, "width"] = None, None
    return frame, np.array(["u", "v", "w"])[y]


def with_gaps() -> tuple[np.ndarray, np.ndarray]:
    X, y = numbers()
    X[::7, 0] = np.nan
    return X, y


@cache
def model_and_data(name: str) -> tuple[Any, Any, np.ndarray]:
    network = GenLabelClassifier(density=FEW).set_params(**QUICK)
    models: dict[str, tuple[Any, Any]] = {
        "array": (GenerativeClassifier("kernel"), numbers()),
        "gaps": (network, with_gaps()),
        "table": (network, table()),
        "pipeline": (table_pipeline(table()[0], GenerativeClassifier("mixture")), table()),
        "scaled": (make_pipeline(StandardScaler(), GenerativeClassifier()), numbers()),
    }
    model, (X, y) = models[name]
    return model.fit(X, y), X, y


def rows_to_explain(X: Any) -> Any:
    """Two rows; those of a table have gaps and a category that training did not have."""
    if isinstance(X, np.ndarray):
        return np.concatenate([X[:1] + 0.3, X[7:8]])
    new = X.iloc[[3, 5]].copy()
    new["level"] = ["none", "low"]
    new["height"] = [None, 1.0]
    return new


every_model = pytest.mark.parametrize("name", ["array", "gaps", "table", "pipeline", "scaled"])


@every_model
@pytest.mark.parametrize("scale", ["probability", "log-odds"])
@pytest.mark.parametrize("method", ["exact", "permutation"])
def test_contributions_add_up_to_the_prediction_minus_the_background_mean(name: str, scale: str, method: str) -> None:
    model, X, y = model_and_data(name)
    new = rows_to_explain(X)
    explanation = explain(model, new, X, y, scale=scale, method=method, n_background=7)
    proba = model.predict_proba(new)
    expected, is_inside = (proba, True) if scale == "probability" else (logit(proba), np.abs(explanation.output) < 20)
    np.testing.assert_allclose(explanation.output, np.where(is_inside, expected, explanation.output), rtol=1e-6)
    total = explanation.contributions.sum(axis=1)
    np.testing.assert_allclose(total, explanation.output - explanation.base, atol=1e-10)
    assert explanation.contributions.shape == (2, X.shape[1], 3)
    assert explanation.exact == (method == "exact")
    if scale == "probability":
        np.testing.assert_allclose(explanation.contributions.sum(axis=2), 0.0, atol=1e-10)


@every_model
def test_contributions_equal_brute_force_over_the_columns_of_the_user(name: str) -> None:
    """One-hot columns and gaps are those of the user's table; a group of columns changes as one."""
    model, X, y = model_and_data(name)
    frame, new = pd.DataFrame(X).copy(), pd.DataFrame(rows_to_explain(X)).iloc[:1]
    names = frame.columns.tolist()
    groups = {"pair": [str(names[0]), str(names[2])]} if isinstance(X, pd.DataFrame) else {}
    players = [[0, 2], *([j] for j in range(1, len(names)) if j != 2)] if groups else [[j] for j in range(len(names))]
    rows = TrainingRows.draw(LoadedModel(model).schema, X, y, None, np.random.default_rng(3))
    background = rows.X.index[:2].tolist()
    as_input = (lambda part: part) if isinstance(X, pd.DataFrame) else (lambda part: part.to_numpy())
    explanation = explain(
        model, as_input(new), X, y, groups=groups, n_background=2, random_state=np.random.default_rng(3)
    )
    changes = np.zeros((len(players), 3))
    proba = {}
    for label in background:
        for size in range(2 ** len(players)):
            mixed = frame.loc[[label]].astype(object).copy()
            for player, members in enumerate(players):
                if size >> player & 1:
                    for j in members:
                        mixed.iloc[0, j] = new.iloc[0, j]
            mixed = mixed.astype({n: t for n, t in frame.dtypes.items() if t != "category"})
            proba[label, size] = model.predict_proba(as_input(mixed))[0]
    orders = list(permutations(range(len(players))))
    for label in background:
        for order in orders:
            size = 0
            for player in order:
                changes[player] += proba[label, size | 1 << player] - proba[label, size]
                size |= 1 << player
    expected = changes / (len(orders) * len(background))
    np.testing.assert_allclose(explanation.contributions[0], expected, atol=1e-10)
    assert len(explanation.columns) == len(players)


def test_a_linear_model_has_its_closed_form_in_the_log_odds() -> None:
    X, y = numbers()
    y = (y > 0).astype(int)
    model = GenerativeClassifier(DiscriminantDensity(1.0)).fit(X, y)
    steps = logit(model.predict_proba(np.eye(4))[:, 1]) - logit(model.predict_proba(np.zeros((1, 4)))[:, 1])
    explanation = explain(model, X[:5] + 1.0, X, y, scale="log-odds", n_background=N)
    expected = steps * (X[:5] + 1.0 - X.mean(axis=0))
    np.testing.assert_allclose(explanation.contributions[:, :, 1], expected, atol=1e-8)
    np.testing.assert_allclose(explanation.contributions[:, 3], 0.0, atol=1e-12)
    np.testing.assert_allclose(explanation.mean_absolute, np.abs(expected).mean(axis=0), atol=1e-8)


def test_certain_predictions_have_finite_log_odds() -> None:
    X, y = numbers()
    explanation = explain(GenerativeClassifier().fit(X, y), X[:2] * 1e4, X, y, scale="log-odds")
    assert np.isfinite(explanation.contributions).all()
    assert np.abs(explanation.output).max() == 100.0


def test_a_row_is_explained_alike_among_other_rows() -> None:
    model, X, y = model_and_data("table")
    for method in ("exact", "permutation"):
        together = explain(model, X[:3], X, y, method=method, n_background=5)
        alone = explain(model, X[2:3], X, y, method=method, n_background=5)
        np.testing.assert_allclose(together.contributions[2], alone.contributions[0], atol=1e-12)


@every_model
def test_neighbors_are_the_nearest_rows_of_each_class(name: str) -> None:
    model, X, y = model_and_data(name)
    new = rows_to_explain(X)
    explanation = explain(model, new, X, y, n_background=1, n_neighbors=2)
    loaded = LoadedModel(model)
    scaler = loaded.classifier.scaler_
    distance = cdist(scaler(loaded.features(new)), scaler(loaded.features(X)))
    labels = X.index.to_numpy() if isinstance(X, pd.DataFrame) else np.arange(N)
    for i in range(2):
        near = explanation.neighbors.loc[i]
        assert near["distance"].is_monotonic_increasing
        for c in model.classes_:
            expected = np.sort(distance[i][y == c])[:2]
            actual = near[near["class"] == c]
            np.testing.assert_allclose(actual["distance"], expected, atol=1e-6)
            positions = [labels.tolist().index(label) for label in actual["training_row"]]
            np.testing.assert_allclose(distance[i][positions], expected, atol=1e-6)
    assert len(explanation.neighbor_values) == len(explanation.neighbors) == 2 * 2 * 3


@every_model
def test_typicality_names_the_column_of_an_absurd_value(name: str) -> None:
    model, X, y = model_and_data(name)
    new = pd.DataFrame(X).iloc[:2].copy()
    new.iloc[0, 1] = 1e6
    new = new if isinstance(X, pd.DataFrame) else new.to_numpy()
    explanation = explain(model, new, X, y, n_background=1)
    np.testing.assert_array_equal(explanation.typicality, LoadedModel(model).typicality(new))
    assert explanation.typicality is not None
    assert explanation.typicality_gain is not None
    assert explanation.typicality[0] <= 0.05
    assert explanation.columns[explanation.typicality_gain[0].argmax()] == explanation.columns[1]
    assert "1000000" in explanation.unusual_values[0]
    assert explanation.unusual_values[1] == ""
    groups = {"pair": [explanation.columns[0], explanation.columns[1]]}
    grouped = explain(model, new, X, y, n_background=1, groups=groups).typicality_gain
    assert grouped is not None
    np.testing.assert_array_equal(grouped[:, 0], explanation.typicality_gain[:, :2].max(axis=1))


def test_a_model_without_densities_has_no_typicality() -> None:
    X, y = numbers()
    model = MixupClassifier("logistic", mixer=None).set_params(**QUICK).fit(X, y)
    explanation = explain(model, X[:1], X, y, n_background=2)
    assert explanation.typicality is None
    assert explanation.typicality_gain is None
    assert "typicality" not in explanation.to_frame()
    assert explanation.to_dict()["rows"][0]["typicality"] is None


@every_model
def test_a_saved_model_explains_with_the_rows_that_it_has_kept(name: str, tmp_path: Path) -> None:
    model, X, y = model_and_data(name)
    loaded = load_model(save_model(model, tmp_path / "m", training_data=(X, y)))
    rows = loaded.training_rows
    assert rows is not None
    positions = rows.X.index.to_numpy() - (1000 if isinstance(X, pd.DataFrame) else 0)
    assert sorted(positions) == list(range(N))
    assert (rows.y == y[positions]).all()
    stored = rows.X if loaded.schema.named else rows.X.to_numpy()
    np.testing.assert_array_equal(loaded.features(stored), LoadedModel(model).features(X)[positions])
    explanation = explain(loaded, rows_to_explain(X), n_background=10)
    background = X.iloc[positions[:10]] if isinstance(X, pd.DataFrame) else X[positions[:10]]
    np.testing.assert_allclose(explanation.base, model.predict_proba(background).mean(axis=0))
    again = load_model(save_model(loaded, tmp_path / "again"))
    other = explain(again, rows_to_explain(X), n_background=10)
    np.testing.assert_array_equal(other.contributions, explanation.contributions)
    assert str(N) in (tmp_path / "again" / CARD).read_text().split("## Files")[1]


def test_kept_rows_are_limited_and_have_all_classes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.array([0] * 1200 + [1] * 3 + [2] * 20)
    X = rng.normal(size=(len(y), 2)) + y[:, None]
    rows = TrainingRows.draw(LoadedModel(GenerativeClassifier().fit(X, y)).schema, X, y)
    count = np.bincount(rows.y)
    assert count.sum() <= MAX_ROWS + 10
    assert count[0] <= MAX_ROWS
    assert (count[1:] >= [3, 5]).all()
    assert rows.X.index.is_unique


def test_plain_values_and_lines_have_all_contributions() -> None:
    model, X, y = model_and_data("table")
    new = rows_to_explain(X)
    explanation = explain(model, new, X, y, n_background=3)
    plain = json.loads(json.dumps(explanation.to_dict(), allow_nan=False))
    assert [row["row"] for row in plain["rows"]] == new.index.tolist()
    for i, row in enumerate(plain["rows"]):
        values = [[column["contributions"][name] for name in "uvw"] for column in row["columns"]]
        np.testing.assert_array_equal(values, explanation.contributions[i])
        assert len(row["nearest_training_rows"]) == 9
    lines = explanation.to_frame()
    predicted = model.classes_[explanation.predicted]
    assert lines["class"].tolist() == np.repeat(predicted, 6).tolist()
    chosen = explanation.to_frame("w")
    np.testing.assert_array_equal(chosen["contribution"], explanation.contributions[:, :, 2].ravel())
    with pytest.raises(ValueError, match="'x'"):
        explanation.to_frame("x")


X, Y = numbers()
FRAME, LABELS = table()


@pytest.mark.parametrize(
    ("arguments", "options", "keyword"),
    [
        ((FRAME.drop(columns="width"), FRAME, LABELS), {}, "width"),
        ((FRAME, FRAME.drop(columns="width"), LABELS), {}, "width"),
        ((FRAME.assign(width="wide"), FRAME, LABELS), {}, "width"),
        ((FRAME[:0], FRAME, LABELS), {}, "rows"),
        ((FRAME, FRAME, LABELS[1:]), {}, "shape"),
        ((FRAME, FRAME, np.arange(N)), {}, "'u'"),
        ((FRAME, FRAME), {}, "y_train"),
        ((FRAME,), {}, "X_train"),
        ((FRAME, FRAME, LABELS), {"groups": {"size": ["width", "depth"]}}, "depth"),
        ((FRAME, FRAME, LABELS), {"groups": {"color": ["width", "height"]}}, "twice"),
        ((FRAME, FRAME, LABELS), {"groups": {"a": ["width"], "b": ["width", "height"]}}, "twice"),
        ((FRAME, FRAME, LABELS), {"scale": "odds"}, "odds"),
        ((FRAME, FRAME, LABELS), {"method": "all"}, "all"),
        ((FRAME, FRAME, LABELS), {"n_permutations": 5, "method": "permutation"}, "even"),
        ((FRAME, FRAME, LABELS), {"n_background": 0}, "n_background"),
    ],
)
def test_bad_input_is_named(arguments: tuple[Any, ...], options: dict[str, Any], keyword: str) -> None:
    model = model_and_data("table")[0]
    with pytest.raises(ValueError, match=keyword):
        explain(model, *arguments, **options)


def test_values_of_a_group_are_all_shown() -> None:
    model = model_and_data("table")[0]
    explanation = explain(model, FRAME[:1], FRAME, LABELS, n_background=1, groups={"size": ["width", "height"]})
    assert explanation.values["size"].tolist() == [f"{FRAME['width'].iloc[0]}, {FRAME['height'].iloc[0]}"]


@pytest.mark.parametrize(("n_rows", "n_classes"), [(2, 3), (3, 2)])
def test_changed_training_rows_of_a_file_are_refused(n_rows: int, n_classes: int) -> None:
    plain = {"X": {"a": np.zeros(3)}, "index": np.arange(n_rows), "y": np.zeros(n_classes)}
    with pytest.raises(ValueError, match=r"\d"):
        TrainingRows.from_plain(plain)


def test_other_models_are_refused() -> None:
    with pytest.raises(ValueError, match="LogisticRegression"):
        explain(LogisticRegression().fit(X, Y), X, X, Y)
    with pytest.raises(NotFittedError):
        explain(GenerativeClassifier(), X, X, Y)
    with pytest.raises(ValueError, match="shape"):
        explain(GenerativeClassifier().fit(X, Y), X[:, :3], X, Y)
    wide = np.random.default_rng(0).normal(size=(N, 17))
    model = GenerativeClassifier().fit(wide, Y)
    with pytest.raises(ValueError, match="permutation"):
        explain(model, wide, wide, Y, method="exact")
    assert not explain(model, wide[:1], wide, Y, n_background=2).exact
