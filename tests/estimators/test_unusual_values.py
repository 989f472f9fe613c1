"""Unusual values: absurd numbers and unseen categories are named, whatever the density says of the row."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genlabel import GenerativeClassifier, MixupClassifier, load_model, save_model
from genlabel.data.tables import table_pipeline
from genlabel.estimators.typicality import TYPICALITY_THRESHOLD
from genlabel.estimators.unusual_values import MIN_RANGES_OUTSIDE
from genlabel.evaluation.table_models import describe_unusual_rows, predict_table
from genlabel.persistence import LoadedModel

ROOT = Path(__file__).resolve().parents[2]
TEXT = ("purpose", "town")
PLAIN = MixupClassifier(mixer=None, random_state=0).set_params(
    training__epochs=2, training__learning_rate=0.1, training__weight_decay=1e-3, search__cv=2
)


def mixed(n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Return columns of numbers with heavy tails, levels, truth values and gaps, and of text with rare values."""
    frame = pd.DataFrame(
        {
            "amount": 1000.0 * rng.lognormal(size=n),
            "purpose": rng.choice(["car", "radio", "school"], n, p=[0.6, 0.3, 0.1]),
            "level": rng.integers(0, 4, n),
            "town": rng.choice([f"town {i}" for i in range(30)], n),
            "owner": rng.random(n) < 0.5,
            "rate": rng.normal(size=n),
        }
    )
    frame.loc[rng.random(n) < 0.1, ["rate", "purpose"]] = None
    return frame


def numbers(n: int, rng: np.random.Generator) -> pd.DataFrame:
    return pd.DataFrame({"a": rng.normal(size=n), "b": rng.integers(0, 3, n).astype(float), "c": np.ones(n)})


def spoil(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return rows of which some values are at most two ranges outside, absurd, or of a new category."""
    frame = frame.astype({"level": float, "owner": float} if "level" in frame else {})
    for i in range(0, len(frame), 2):
        column, factor = rng.choice(frame.columns), rng.choice([0.5, 1.5, 30.0, 1e6, -1e6])
        frame.loc[i, column] = "boat" if column in TEXT else factor * (1.0 + np.nan_to_num(frame.loc[i, column]))
    return frame


def one_by_one(train: pd.DataFrame, new: pd.DataFrame) -> list[tuple[int, str]]:
    """Return the unusual cells of new rows by comparing each cell with all training values."""
    cells = []
    for row in range(len(new)):
        for name in new.columns:
            value, known = new[name].iloc[row], train[name].dropna()
            if pd.isna(value):
                continue
            if name in TEXT:
                unusual = value not in set(known)
            else:
                low, high = float(known.min()), float(known.max())
                outside = max(low - float(value), float(value) - high)
                unusual = outside > 0 and outside >= MIN_RANGES_OUTSIDE * (high - low)
            if unusual:
                cells.append((row, name))
    return cells


def fits(train: pd.DataFrame, y: Any) -> dict[str, Any]:
    """Return models that take the table: alone, behind its preparation, and behind a scaler."""
    models: dict[str, Any] = {
        "classifier": GenerativeClassifier("gaussian").fit(train, y),
        "pipeline": table_pipeline(train, GenerativeClassifier("gaussian")).fit(train, y),
    }
    if "town" not in train:
        models["scaler"] = make_pipeline(StandardScaler(), GenerativeClassifier("gaussian")).fit(train, y)
        models["network"] = PLAIN.fit(train, y)  # it has no typicality
    return models


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("make", [mixed, numbers], ids=lambda make: make.__name__)
def test_unusual_values_are_those_of_a_comparison_of_cells(make: Any, seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    train, y = make(120, rng), rng.integers(0, 2, 120)
    new = spoil(make(40, rng), rng)
    expected = one_by_one(train, new)
    assert len(expected) > 5
    for name, model in fits(train, y).items():
        for loaded in (LoadedModel(model), load_model(save_model(model, tmp_path / name))):
            values = loaded.unusual_values(new)
            assert list(zip(values["row"], values["column"], strict=True)) == expected, name
            for line in values.itertuples():
                given = new[line.column].iloc[line.row]
                if line.column in TEXT:
                    assert line.value == given
                else:
                    limits = [float(number) for number in (given, train[line.column].min(), train[line.column].max())]
                    assert [line.value, line.minimum, line.maximum] == pytest.approx(limits)
            predictions = predict_table(loaded, new)
            assert (predictions["unusual_values"] != "").tolist() == [
                row in {i for i, _ in expected} for row in range(40)
            ]
            assert all(column in predictions["unusual_values"][row] for row, column in expected)


def test_absurd_rows_are_flagged_where_the_training_rows_are_odd_themselves() -> None:
    """Of 100 training rows 1 in 25 has a value of its own in a column: typicality alone ranks those lower."""
    rng = np.random.default_rng(0)
    n = 100
    flags = np.eye(40)[rng.integers(0, 40, n)] * (rng.random((n, 1)) < 0.6)
    frame = pd.DataFrame(flags).add_prefix("flag ").assign(credit_amount=rng.uniform(250, 18_424, n))
    model = LoadedModel(GenerativeClassifier("gaussian").fit(frame, np.arange(n) % 2))
    new = frame[:50].assign(credit_amount=9e8)
    predictions = predict_table(model, new)
    first, *others = describe_unusual_rows(model, new, predictions)
    assert (predictions["typicality"] > TYPICALITY_THRESHOLD).any()
    assert first.startswith("50 of 50 rows ")
    assert [line for line in others if "'credit_amount'" in line and "900000000" in line]
    usual = describe_unusual_rows(model, frame, predict_table(model, frame))
    assert int(usual[0].split(" of ")[0]) <= 10


def test_columns_of_the_table_are_compared_by_name() -> None:
    rng = np.random.default_rng(1)
    train, y = mixed(200, rng), rng.integers(0, 2, 200)
    new = mixed(6, rng).set_axis(list("uvwxyz")).assign(rate=0.0)
    odd = {"amount": 1e9, "purpose": "boat", "level": 9, "rate": 40.0}
    for row, (column, value) in zip(new.index, odd.items(), strict=False):
        new[column] = new[column].astype(object)
        new.loc[row, column] = value
    new = new.astype({"amount": float, "level": int, "rate": float})
    for model in fits(train, y).values():
        loaded = LoadedModel(model)
        gains = loaded.atypical_columns(new[new.columns[::-1]])
        assert sorted(gains.columns) == sorted(train.columns)
        assert gains.index.tolist() == new.index.tolist()
        assert gains.idxmax(axis=1).tolist()[: len(odd)] == list(odd)
        np.testing.assert_allclose(gains[train.columns], loaded.atypical_columns(new)[train.columns])


@pytest.mark.parametrize("kind", [list, np.asarray, pd.DataFrame])
def test_columns_without_names_have_positions(kind: Any) -> None:
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
    model, new = GenerativeClassifier("gaussian").fit(kind(X), y), kind(np.array([[0.0, 0.0, 0.0], [0.0, 1e30, 0.0]]))
    assert model.unusual_values(new)[["row", "column", "value"]].values.tolist() == [[1, 1, 1e30]]
    assert model.atypical_columns(new).idxmax(axis=1).tolist()[1] == 1


def test_rows_of_weight_zero_do_not_widen_a_range() -> None:
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
    X[0] = 1e6
    weight = np.ones(60)
    counted = GenerativeClassifier("gaussian").fit(X, y).unusual_values([[1e6, 0.0]])
    ignored = GenerativeClassifier("gaussian").fit(X, y, np.r_[0.0, weight[1:]]).unusual_values([[1e6, 0.0]])
    assert (len(counted), ignored[["row", "column"]].values.tolist()) == (0, [[0, 0]])


def test_pages_state_the_threshold_of_the_library() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    stated = [
        (page.name, float(number))
        for page in pages
        for line in page.read_text(encoding="utf-8").splitlines()
        if re.search("typicality", line)
        for number in re.findall(r"(0\.\d+) or less|<= (?=0)(0\.\d+)|at most (0\.\d+)", line)
        for number in number
        if number
    ]
    assert len(stated) >= 4
    assert {number for _, number in stated} == {TYPICALITY_THRESHOLD}, stated


@pytest.mark.parametrize("share, names", [(0.0, 6), (0.37, 200), (0.45, 250)])
def test_new_names_are_unusual_only_where_names_recur(share: float, names: int, tmp_path: Path) -> None:
    """Where most names are rare, a new one is usual: rows are not marked, but more new names than usual are told."""
    rng = np.random.default_rng(0)

    def draw(count: int) -> pd.DataFrame:
        text = {"who": [f"name {i}" for i in rng.integers(0, names, count)], "town": rng.choice(list("uvw"), count)}
        return pd.DataFrame({"x": rng.normal(size=count), **text})

    train, usual, y = draw(200), draw(60), rng.integers(0, 2, 200)
    fitted = table_pipeline(train, GenerativeClassifier("gaussian")).fit(train, y)
    (column,) = [column for column in LoadedModel(fitted).table_columns() if column.name == "who"]
    is_new = ~usual["who"].isin(train["who"])
    assert column.new_share == (~train["who"].duplicated(keep=False)).mean() == pytest.approx(share, abs=0.1)
    assert is_new.mean() == pytest.approx(column.new_share, abs=0.15)
    for model in (LoadedModel(fitted), load_model(save_model(fitted, tmp_path / "m"))):
        values = model.unusual_values(usual.assign(town="Rome"))
        assert values["column"].tolist().count("town") == 60
        assert values["column"].tolist().count("who") == (is_new.sum() if share == 0 else 0)
        for new, is_told in ((usual, False), (usual.assign(who=[f"other {i}" for i in range(60)]), True)):
            lines = describe_unusual_rows(model, new, predict_table(model, new))
            assert any("'who'" in line and "60" in line for line in lines) == is_told
