"""Test targets: classes are unchanged; a continuous target is an error unless it is binned."""

import numpy as np
import pandas as pd
import pytest

from genlabel.data.tables.targets import read_target

RNG = np.random.default_rng(0)
PRICES = RNG.integers(100, 900, 400)


@pytest.mark.parametrize(
    "y",
    [
        pd.Series(PRICES, name="y"),
        pd.Series(PRICES.astype(str), name="y"),
        pd.Series([f"${price:,.2f}" for price in PRICES], name="y"),
        pd.Series(PRICES / 7, name="y"),
        pd.Series([*PRICES.astype(str)[:-5], *["NA"] * 5], name="y"),
        pd.Series([1, 2, 3, 4, 5, 6], name="y"),
        pd.array(PRICES, dtype="Int64"),
    ],
    ids=["integers", "text", "dollars", "fractions", "missing values", "few rows", "nullable"],
)
def test_a_continuous_target_is_an_error(y: pd.Series) -> None:
    y = pd.Series(y, name="y")
    with pytest.raises(ValueError, match="target_is_categorical"):
        read_target(y, "t.csv")
    known = y.replace("NA", np.nan)
    assert read_target(y, "t.csv", target_is_categorical=True).nunique() == known.nunique()
    binned = read_target(y, "t.csv", bins=3)
    assert binned.nunique() == 3
    assert binned.isna().sum() == known.isna().sum()


@pytest.mark.parametrize("bins", [2, 3, 5, 10])
def test_bins_equal_pandas(bins: int) -> None:
    notes: list[str] = []
    y = pd.Series(RNG.normal(size=500), name="y")
    binned = read_target(y, "t.csv", bins=bins, notes=notes)
    expected = pd.qcut(y, bins, labels=False)
    assert pd.crosstab(binned, expected).gt(0).sum().eq(1).all()
    assert binned.value_counts().between(500 // bins - 1, 500 // bins + 1).all()
    assert notes[0].startswith(f"the target 'y' was cut into {bins} classes: 1: up to ")


def test_equal_numbers_share_a_bin() -> None:
    y = pd.Series([1] * 50 + [2] * 30 + [3] * 20, name="y")
    binned = read_target(y, "t.csv", bins=4)
    assert pd.crosstab(y, binned).gt(0).sum(axis=1).eq(1).all()
    with pytest.raises(ValueError, match="bins=2"):
        read_target(pd.Series([1] * 9 + [0.5], name="y"), "t.csv", bins=2)


@pytest.mark.parametrize(
    "values, settings, message",
    [
        (["a", "b"], {"bins": 2}, "bins=2"),
        ([1, 2], {"bins": 1}, "bins=1"),
        ([1, 2], {"bins": 2, "target_is_categorical": True}, "exclude"),
        ([f"2024-{m:02}-{d:02}" for m in range(1, 4) for d in range(1, 10)] * 3, {}, "dates"),
        (["a"] * 5, {}, "class"),
    ],
)
def test_unusable_targets_are_errors(values: list[object], settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_target(pd.Series(values, name="y"), "t.csv", **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "values",
    [["yes", "no"], [True, False], ["007", "008"], list("abc"), [f"kind {i}" for i in range(30)]],
    ids=["words", "booleans", "codes", "letters", "thirty"],
)
def test_labels_are_unchanged(values: list[object]) -> None:
    y = pd.Series(values * 10, name="y")
    assert read_target(y, "t.csv").tolist() == [str(value) for value in values] * 10


def test_spaces_are_stripped_and_capitals_are_noted() -> None:
    notes: list[str] = []
    y = read_target(pd.Series(["no", "No ", " yes", "yes", "  "], name="y"), "t.csv", notes=notes)
    assert y[:4].tolist() == ["no", "No", "yes", "yes"]
    assert y.isna().tolist() == [False] * 4 + [True]
    assert "'No', 'no'" in notes[0]
