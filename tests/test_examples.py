"""Every public call has an example in its docstring, and every result names the call that makes it.

The examples run as doctests, those of the adapters in their own tests; this looks for what has none.
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
"""Classes without a public constructor: the call named here returns them, and its example shows them."""
WITHIN = {"HoldoutScores": "FittedTable"}
"""Classes that are a field of another."""
ADAPTERS = {"GenLabelCallback": "lightning", "GenLabelTrainer": "trainer"}
"""Classes whose packages take half a minute to import; their files are read instead."""
NOT_RUN = {"check_dask_scheduler"}
"""Calls whose example does not run: it waits for a scheduler; `tests/records/test_run.py` starts one."""
EXAMPLE = re.compile(r"^\s*>>> (?!.*\+SKIP)", flags=re.M)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the site that knows the public names."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return import_module("_ext.names")


def public(names: Any) -> dict[str, Any]:
    """All public names with their values, except the adapters."""
    return {
        name: getattr(import_module(package), name)
        for package in names.packages()
        for name in names.public_names(package)
        if name not in ADAPTERS
    }


def is_tuple(value: Any) -> bool:
    """Whether it is a plain record: a named tuple, or a dictionary of a known form."""
    named = inspect.isclass(value) and issubclass(value, tuple) and hasattr(value, "_fields")
    return named or typing.is_typeddict(value)


def is_call(value: Any) -> bool:
    """Whether somebody calls it: a function, or a class that is neither abstract nor a record nor an error."""
    if not inspect.isclass(value):
        return callable(value) and inspect.isfunction(inspect.unwrap(value))
    abstract = inspect.isabstract(value) or getattr(value, "_is_protocol", False)
    return not (abstract or is_tuple(value) or issubclass(value, BaseException))


def has_example(value: Any) -> bool:
    return EXAMPLE.search(value.__doc__ or "") is not None


def named(names: Any, value: Any) -> set[str]:
    """The public names between backticks in a docstring."""
    said = re.findall(r"`([\w.]+)`", value.__doc__ or "")
    return {full for full in map(names.public_name, said) if full is not None}


def words(*annotations: Any) -> set[str]:
    """The names in annotations, which are texts."""
    return set(re.findall(r"\w+", " ".join(map(str, annotations))))


def test_every_call_has_an_example(names: Any) -> None:
    calls = {
        name: value for name, value in public(names).items() if is_call(value) and name not in NOT_RUN.union(MADE_BY)
    }
    assert len(calls) > 80
    assert [name for name, value in calls.items() if not has_example(value)] == []


@pytest.mark.parametrize("name", sorted(ADAPTERS))
def test_what_is_not_imported_here_has_an_example_too(name: str) -> None:
    file = ROOT / "src" / "genlabel" / "integrations" / f"{ADAPTERS[name]}.py"
    found = {node.name: node for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)}
    assert EXAMPLE.search(ast.get_docstring(found[name]) or "")
    test = (ROOT / "tests" / "integrations" / f"test_{ADAPTERS[name]}.py").read_text()
    assert f'doctest.testmod(import_module("genlabel.integrations.{ADAPTERS[name]}")' in test


def test_a_record_names_a_call_that_makes_or_takes_it(names: Any) -> None:
    records = {name: value for name, value in public(names).items() if is_tuple(value) and not has_example(value)}
    assert len(records) > 3
    calls = {name: named(names, value) - {names.public_name(name)} for name, value in records.items()}
    assert [name for name, found in calls.items() if not found] == []


@pytest.mark.parametrize("name", sorted(MADE_BY))
def test_what_nobody_constructs_names_the_call_that_returns_it(names: Any, name: str) -> None:
    known = public(names)
    made = known[MADE_BY[name]]
    assert names.public_name(MADE_BY[name]) in named(names, known[name])
    assert has_example(made)
    outer = WITHIN.get(name, name)
    assert outer in words(inspect.signature(made).return_annotation)
    fields = words(*(inspect.get_annotations(known[outer]).values()))
    assert outer == name or name in fields
