"""Strategies for odd tables, and the fixtures that check every result for them."""

import linecache
import os
import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st
from scipy import sparse

from genlabel.densities.gan.density import CollapsedGeneratorError

Rng = np.random.Generator


def _replace_some(values: Any, rng: Rng, odd: Any) -> Any:
    """Replace a fifth of the values."""
    return np.where(rng.random(len(values)) < 0.2, odd, values)


def _objects(items: list[Any], n: int) -> np.ndarray:
    """Return an array of objects; numpy would convert lists to more dimensions."""
    result = np.empty(n, dtype=object)
    for i in range(n):
        result[i] = items[i % len(items)]
    return result


def _series(values: Any) -> "pd.Series[Any]":
    """Return a column; without the dtype, pandas would convert objects to strings."""
    return pd.Series(values, dtype=object if values.dtype == object else None)


COLUMNS: dict[str, Callable[[int, Rng], Any]] = {
    "normal": lambda n, rng: rng.normal(size=n),
    "scale 1e-12": lambda n, rng: 1e-12 * rng.normal(size=n),
    "scale 1e12": lambda n, rng: 1e12 * rng.normal(size=n),
    "scale 1e-300": lambda n, rng: 1e-300 * rng.normal(size=n),
    "scale 1e300": lambda n, rng: 1e300 * rng.normal(size=n),
    "the largest numbers": lambda n, rng: rng.choice([-1.0, 1.0], n) * np.finfo(float).max,
    "the smallest numbers": lambda n, rng: rng.integers(0, 5, n) * 5e-324,
    "far from zero": lambda n, rng: 1e8 + 1e-6 * rng.normal(size=n),
    "one outlier": lambda n, rng: np.where(np.arange(n) == 0, 1e200, rng.normal(size=n)),
    "one value differs": lambda n, rng: (np.arange(n) == 0).astype(float),
    "constant": lambda n, rng: np.full(n, 3.0),
    "constant and large": lambda n, rng: np.full(n, 1e300),
    "zeros of both signs": lambda n, rng: rng.choice([0.0, -0.0], n),
    "missing values": lambda n, rng: _replace_some(rng.normal(size=n), rng, np.nan),
    "only missing values": lambda n, rng: np.full(n, np.nan),
    "infinities": lambda n, rng: _replace_some(rng.normal(size=n), rng, rng.choice([-np.inf, np.inf])),
    "integers": lambda n, rng: rng.integers(-5, 5, n),
    "small integers": lambda n, rng: rng.integers(-128, 128, n).astype(np.int8),
    "large integers": lambda n, rng: rng.integers(2**63, 2**64 - 1, n, dtype=np.uint64),
    "single precision": lambda n, rng: rng.normal(size=n).astype(np.float32),
    "half precision": lambda n, rng: (1e4 * rng.normal(size=n)).astype(np.float16),
    "booleans": lambda n, rng: rng.random(n) < 0.5,
    "nullable numbers": lambda n, rng: pd.array(rng.normal(size=n), dtype="Float64"),
    "nullable integers": lambda n, rng: pd.array(_replace_some(rng.integers(0, 9, n), rng, np.nan), dtype="Int64"),
    "nullable booleans": lambda n, rng: pd.array(rng.choice([True, False, None], n), dtype="boolean"),
    "nullable missing values": lambda n, rng: pd.array([pd.NA] * n, dtype="Int64"),
    "text": lambda n, rng: rng.choice(["red", "green", "blue"], n).astype(object),
    "text with missing values": lambda n, rng: rng.choice(np.array(["u", "v", None], dtype=object), n),
    "numbers as text": lambda n, rng: rng.normal(size=n).round(2).astype(str).astype(object),
    "identifiers": lambda n, rng: np.array([f"row {i}" for i in range(n)], dtype=object),
    "odd strings": lambda n, rng: _objects(["", " ", "<b>&", "\x00", "NaN", "\ud800", "Ω" * 300, "1e999"], n),
    "strings": lambda n, rng: pd.array(rng.choice(["p", "q"], n), dtype="string"),
    "categories": lambda n, rng: pd.Categorical(rng.choice(["a", "b"], n), categories=["a", "b", "never"]),
    "ordered categories": lambda n, rng: pd.Categorical.from_codes(rng.integers(-1, 3, n), [3, 1, 2], ordered=True),
    "dates": lambda n, rng: pd.Timestamp("2024-05-31") + pd.to_timedelta(rng.integers(0, 999, n), unit="D"),
    "dates with a zone": lambda n, rng: pd.date_range("2024-05-31", periods=n, tz="Europe/Berlin"),
    "dates with missing values": lambda n, rng: pd.to_datetime(["2024-05-31"] * n).where(rng.random(n) < 0.5),
    "durations": lambda n, rng: pd.to_timedelta(rng.integers(0, 99, n), unit="h"),
    "periods": lambda n, rng: pd.period_range("2024-05", periods=n, freq="M"),
    "intervals": lambda n, rng: pd.cut(rng.random(n), [0.0, 0.5, 1.0]),
    "decimals": lambda n, rng: _objects([Decimal("1.5"), Decimal("-2"), None], n),
    "mixed": lambda n, rng: _objects([1, "one", 2.5, None, True], n),
    "lists": lambda n, rng: _objects([[1, 2], [3], []], n),
    "complex": lambda n, rng: rng.normal(size=n) + 1j,
    "bytes": lambda n, rng: _objects([b"a", b"b"], n),
    "sparse": lambda n, rng: pd.arrays.SparseArray(rng.integers(0, 2, n).astype(float)),
}
NUMBERS = [name for name in COLUMNS if COLUMNS[name](3, np.random.default_rng(0)).dtype.kind in "biuf"][:22]
"""Kinds of columns that a numeric array can hold."""
OVERFLOWING = ("scale 1e300", "the largest numbers", "one outlier", "constant and large", "infinities")
INVALID_UNICODE = ("odd strings",)
NAMES: list[Any] = [
    *(
        "<script>alert(1)</script>",
        "",
        " ",
        "größe",
        "名前",
        "a\nb",
        "__class__",
        "x" * 500,
        "'; --",
        "\x00",
        "y",
        "a,b",
    ),
    *("{0}", "%s", "[bold]", "\ud800", "../../etc", "NaN", 0, 1.5, ("a", "b"), True),
]
LABELS: dict[str, Callable[[int, Rng], Any]] = {
    "two": lambda n, rng: np.arange(n) % 2,
    "three": lambda n, rng: np.arange(n) % 3,
    "random": lambda n, rng: rng.integers(0, 3, n),
    "a class of one row": lambda n, rng: np.where(np.arange(n) == 0, 2, np.arange(n) % 2),
    "rare": lambda n, rng: (np.arange(n) < 2).astype(int),
    "one class": lambda n, rng: np.zeros(n, dtype=int),
    "one class per row": lambda n, rng: np.arange(n),
    "two rows per class": lambda n, rng: np.arange(n) // 2,
    "text": lambda n, rng: rng.choice(["yes", "no"], n),
    "odd strings": lambda n, rng: _objects(["<b>&", "", "\ud800", "\x00", "Ω" * 300], n),
    "booleans": lambda n, rng: rng.random(n) < 0.5,
    "booleans as objects": lambda n, rng: _objects([True, False], n),
    "floating": lambda n, rng: (np.arange(n) % 2).astype(float),
    "continuous": lambda n, rng: rng.normal(size=n),
    "huge": lambda n, rng: np.where(np.arange(n) % 2, 2**62, -(2**62)),
    "missing values": lambda n, rng: _replace_some((np.arange(n) % 2).astype(float), rng, np.nan),
    "infinities": lambda n, rng: np.where(np.arange(n) % 2, np.inf, 0.0),
    "none": lambda n, rng: _objects(["a", None, "b"], n),
    "mixed": lambda n, rng: _objects([1, "a"], n),
    "categories": lambda n, rng: pd.Series(pd.Categorical(rng.choice(["a", "b"], n), categories=["b", "a", "never"])),
    "nullable": lambda n, rng: pd.Series(pd.array((np.arange(n) % 2).tolist(), dtype="Int64")),
    "nullable missing values": lambda n, rng: pd.Series(
        pd.array([i % 2 if i % 5 else None for i in range(n)], dtype="Int64")
    ),
    "strings": lambda n, rng: pd.Series(rng.choice(["a", "b"], n), dtype="string"),
    "dates": lambda n, rng: pd.Series(pd.to_datetime(["2024-05-31", "2024-06-01"] * n)[:n]),
    "bytes": lambda n, rng: _objects([b"a", b"b"], n),
    "complex": lambda n, rng: (np.arange(n) % 2) * 1j,
    "lists": lambda n, rng: _objects([[0], [1]], n),
    "too few": lambda n, rng: np.arange(max(n - 1, 0)) % 2,
    "a column": lambda n, rng: (np.arange(n) % 2)[:, None],
    "one-hot": lambda n, rng: np.eye(2)[np.arange(n) % 2],
    "a scalar": lambda n, rng: 1,
    "nothing": lambda n, rng: None,
}
USUAL = ("two", "three", "random", "text", "a class of one row", "two rows per class")
FORMS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "array": lambda frame: frame.to_numpy(dtype=np.float64),
    "single": lambda frame: np.clip(frame.to_numpy(dtype=np.float64), -3e38, 3e38).astype(np.float32),
    "transposed": lambda frame: np.asfortranarray(frame.to_numpy(dtype=np.float64))[::-1],
    "read only": lambda frame: _read_only(frame.to_numpy(dtype=np.float64)),
    "objects": lambda frame: frame.to_numpy(dtype=object),
    "lists": lambda frame: frame.to_numpy(dtype=np.float64).tolist(),
    "tensor": lambda frame: torch.from_numpy(frame.to_numpy(dtype=np.float64, copy=True)),
    "sparse": lambda frame: sparse.csr_array(frame.to_numpy(dtype=np.float64)),
    "flat": lambda frame: frame.to_numpy(dtype=np.float64).ravel(),
    "deep": lambda frame: frame.to_numpy(dtype=np.float64)[:, :, None],
    "strings of numbers": lambda frame: frame.to_numpy(dtype=np.float64).astype(str),
}
USUAL_FORMS = ("array", "single", "transposed", "read only", "lists")


def _read_only(values: np.ndarray) -> np.ndarray:
    values.setflags(write=False)
    return values


class DrawnTable:
    """A table and its labels; its repr describes how they were drawn."""

    def __init__(self, X: Any, y: Any, description: str) -> None:
        self.X, self.y, self.description = X, y, description

    def __repr__(self) -> str:
        return self.description


@st.composite
def _frames(draw: st.DrawFn, columns: list[str], rows: int, healthy: bool = False) -> tuple[pd.DataFrame, str]:
    """Draw a frame of columns, some duplicated, with drawn names; its numbers come from a seed."""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    kinds = draw(st.lists(st.sampled_from(columns), min_size=1 if rows > 3 else 0, max_size=5))
    parts = [_series(COLUMNS[kind](rows, rng)) for kind in kinds]
    if parts and draw(st.integers(0, 4)) == 0:
        parts.append(parts[0].copy())
        kinds = [*kinds, "the first again"]
    names: list[Any] = [f"c{i}" for i in range(len(parts))]
    if draw(st.integers(0, 4)) == 0:
        names = draw(st.lists(st.sampled_from(NAMES), min_size=len(parts), max_size=len(parts), unique=healthy))
    frame = pd.concat(parts, axis=1) if parts else pd.DataFrame(index=range(rows))
    frame.columns = pd.Index(names, dtype=object, tupleize_cols=False)
    return frame, f"{rows} rows of {kinds} named {names!a}"


@st.composite
def _tables(draw: st.DrawFn, arrays: bool = False, form: str | None = None) -> DrawnTable:
    """Draw a table: a frame of any columns, or numbers in any form; most tables can be learned."""
    numeric, healthy = arrays or draw(st.booleans()), draw(st.integers(0, 4)) > 0
    n = draw(st.sampled_from([12, 20, 31, 40, 8] if healthy else [12, 20, 5, 3, 2, 1, 0]))
    frame, columns = draw(_frames(_column_kinds(numeric, arrays, healthy), n, healthy))
    if form is None:
        form = draw(st.sampled_from(["frame", *(USUAL_FORMS if healthy else FORMS)])) if numeric else "frame"
    labels = draw(st.sampled_from(USUAL if healthy else [*LABELS]))
    y = LABELS[labels](n, np.random.default_rng(draw(st.integers(0, 9))))
    return DrawnTable(frame if form == "frame" else FORMS[form](frame), y, f"{columns}, as {form}, labels {labels!r}")


def _column_kinds(numeric: bool, arrays: bool, healthy: bool) -> list[str]:
    """Return the kinds of columns to draw from."""
    if not healthy:
        return NUMBERS if numeric else list(COLUMNS)
    bad = (*OVERFLOWING, *INVALID_UNICODE)
    if arrays:
        bad = (*bad, "missing values", "only missing values")
    return [kind for kind in (NUMBERS if numeric else COLUMNS) if kind not in bad]


@pytest.fixture(scope="session")
def tables() -> Callable[..., st.SearchStrategy[DrawnTable]]:
    """Return the strategy of tables."""
    return _tables


DEFAULT_EXAMPLES = 24
"""Examples of a test unless GENLABEL_EXAMPLES gives another number."""
EXAMPLES = int(os.environ.get("GENLABEL_EXAMPLES", DEFAULT_EXAMPLES))


@pytest.fixture(scope="session")
def check_examples() -> Callable[..., None]:
    """Return a function that checks a property on drawn values: the same few by default, new ones if there are more."""

    def run(values: st.SearchStrategy[Any], check: Callable[[Any], None], number: int, share: float = 1.0) -> None:
        count = EXAMPLES if EXAMPLES > DEFAULT_EXAMPLES else EXAMPLES // 6
        seeded = seed(number) if EXAMPLES <= DEFAULT_EXAMPLES else lambda test: test

        @seeded
        @settings(max_examples=max(2, round(share * count)), database=None, phases=[Phase.generate])
        @given(values)
        def holds(value: Any) -> None:
            check(value)

        holds()

    return run


GENLABEL_PATH, SKLEARN_CHECKS = f"{os.sep}genlabel{os.sep}", f"sklearn{os.sep}utils{os.sep}"
DOCUMENTED_ERRORS = (ValueError, TypeError, CollapsedGeneratorError)


def _is_documented(error: Exception) -> bool:
    """Return whether an error was raised by a `raise` of genlabel or by the input validation of scikit-learn."""
    if type(error) not in DOCUMENTED_ERRORS or not str(error).strip():
        return False
    frames, trace = [], error.__traceback__
    while trace is not None:
        frames.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    if any(SKLEARN_CHECKS in file for file, _ in frames):
        return True
    file, number = frames[-1]
    source = "".join(linecache.getline(file, line) for line in range(number - 1, number + 1))
    return GENLABEL_PATH in file and "raise " in source


def _result_or_none(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or None after a documented error; other errors and foreign warnings fail."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call()
        except Exception as error:
            if not _is_documented(error):
                raise
            result = None
    foreign = [str(warning) for warning in caught if _foreign(warning)]
    assert not foreign, foreign
    return result


def _foreign(warning: warnings.WarningMessage) -> bool:
    """Return whether a warning is not addressed to a user of genlabel."""
    of_torch = f"{os.sep}torch{os.sep}" in warning.filename or "torch" in str(warning.message)
    return not issubclass(warning.category, UserWarning) or of_torch


@pytest.fixture(scope="session")
def try_call() -> Callable[[Callable[[], Any]], Any]:
    """Return a function that returns the result of a call, or None after a documented error."""
    return _result_or_none
