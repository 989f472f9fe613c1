"""Every public callable has an example in its docstring, and every result names the function that returns it.

The examples run as doctests, those of the adapters in their own tests.
"""

import ast
import inspect
import re
import typing
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "docs" / "_ext").exists(), reason="needs the source tree")

MADE_BY = {
    "Diagnosis": "diagnose",
    "FittedTable": "fit_table",
    "HoldoutScores": "fit_table",
    "TrainedImages": "train_images",
    "RecordStore": "open_store",
    "TheoremCheck": "check_theorem",
}
"""Classes without a public constructor and the function that returns them and shows them in its example."""
WITHIN = {"HoldoutScores": "FittedTable"}
"""Classes that are a field of another class."""
ADAPTERS = {"GenLabelCallback": "lightning", "GenLabelTrainer": "trainer"}
"""Classes whose packages take half a minute to import; the tests read their files instead."""
NOT_RUN = {"check_dask_scheduler"}
"""Functions whose example does not run: it needs a scheduler; `tests/evaluation/records/test_run.py` starts one."""
EXAMPLE = re.compile(r"^\s*>>> (?!.*\+SKIP)", flags=re.M)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import the extension of the site that lists the public names."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return import_module("_ext.names")


def public(names: Any) -> dict[str, Any]:
    """Return all public names with their values, except the adapters."""
    return {
        name: getattr(import_module(package), name)
        for package in names.packages()
        for name in names.public_names(package)
        if name not in ADAPTERS
    }


def is_tuple(value: Any) -> bool:
    """Return True for a named tuple or a typed dictionary."""
    named = inspect.isclass(value) and issubclass(value, tuple) and hasattr(value, "_fields")
    return named or typing.is_typeddict(value)


def is_call(value: Any) -> bool:
    """Return True for a function, or a class that is neither abstract nor a record nor an error."""
    if not inspect.isclass(value):
        return callable(value) and inspect.isfunction(inspect.unwrap(value))
    abstract = inspect.isabstract(value) or getattr(value, "_is_protocol", False)
    return not (abstract or is_tuple(value) or issubclass(value, BaseException))


def has_example(value: Any) -> bool:
    return EXAMPLE.search(value.__doc__ or "") is not None


def named(names: Any, value: Any) -> set[str]:
    """Return the public names between backticks in a docstring."""
    quoted = re.findall(r"`([\w.]+)`", value.__doc__ or "")
    return {full for full in map(names.public_name, quoted) if full is not None}


def words(*annotations: Any) -> set[str]:
    """Return the names in annotations, which are strings."""
    return set(re.findall(r"\w+", " ".join(map(str, annotations))))


def test_every_callable_has_an_example(names: Any) -> None:
    calls = {
        name: value for name, value in public(names).items() if is_call(value) and name not in NOT_RUN.union(MADE_BY)
    }
    assert len(calls) > 80
    assert [name for name, value in calls.items() if not has_example(value)] == []


@pytest.mark.parametrize("name", sorted(ADAPTERS))
def test_adapters_have_an_example(name: str) -> None:
    file = ROOT / "src" / "genlabel" / "integrations" / f"{ADAPTERS[name]}.py"
    classes = {node.name: node for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)}
    assert EXAMPLE.search(ast.get_docstring(classes[name]) or "")
    test = (ROOT / "tests" / "integrations" / f"test_{ADAPTERS[name]}.py").read_text()
    assert f'doctest.testmod(import_module("genlabel.integrations.{ADAPTERS[name]}")' in test


def test_records_name_a_related_function(names: Any) -> None:
    records = {name: value for name, value in public(names).items() if is_tuple(value) and not has_example(value)}
    assert len(records) > 3
    calls = {name: named(names, value) - {names.public_name(name)} for name, value in records.items()}
    assert [name for name, mentioned in calls.items() if not mentioned] == []


@pytest.mark.parametrize("name", sorted(MADE_BY))
def test_results_name_the_function_that_returns_them(names: Any, name: str) -> None:
    values = public(names)
    maker = values[MADE_BY[name]]
    assert names.public_name(MADE_BY[name]) in named(names, values[name])
    assert has_example(maker)
    outer = WITHIN.get(name, name)
    assert outer in words(inspect.signature(maker).return_annotation)
    fields = words(*(inspect.get_annotations(values[outer]).values()))
    assert outer == name or name in fields
