"""Every public call has an example in its docstring, and every result names the call that makes it.

The examples run as doctests, those of the adapters in their own tests; this looks for what has none.
"""

import ast
import inspect
import re
import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "docs" / "making").exists(), reason="needs the source tree")

MADE_BY = {
    "attacks.Margins": "margins",
    "attacks.Robustness": "robust_accuracy",
    "comparison.Pair": "pair_methods",
    "diagnosis.Diagnosis": "diagnose",
    "fitting.FittedTable": "fit_table",
    "fitting.HeldOut": "fit_table",
    "images.TrainedImages": "train_images",
    "records.Store": "open_store",
    "tables.Leak": "find_leaks",
    "tables.Writing": "sniff_csv_dialect",
    "theory.TheoremCheck": "check_theorem",
}
"""Classes that nobody constructs: the call named here does, and its example shows them."""
WITHIN = {"fitting.HeldOut": "fitting.FittedTable"}
"""Those that come as a field of another."""
ADAPTERS = {"loops.GenLabelCallback": "lightning", "loops.GenLabelTrainer": "trainer"}
"""Whose packages take half a minute to import; their files are read instead."""
NOT_RUN = {"records.check_dask_scheduler"}
"""Whose example does not run: it waits for a scheduler; `tests/records/test_run.py` starts one."""
EXAMPLE = re.compile(r"^\s*>>> (?!.*\+SKIP)", flags=re.M)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return import_module("making.names")


def public(names: Any) -> Iterator[tuple[str, Any]]:
    """Every public name once, with the room that shows it, and what it is."""
    for room in names.rooms():
        module = import_module(f"genlabel.{room}")
        for name in module.__all__:
            if f"{room}.{name}" not in ADAPTERS and names.owner(room, name) == room:
                yield f"{room}.{name}", getattr(module, name)


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
    return {full for full in map(names.full_name, said) if full is not None}


def words(*annotations: Any) -> set[str]:
    """The names in annotations, which are texts."""
    return set(re.findall(r"\w+", " ".join(map(str, annotations))))


def test_every_call_has_an_example(names: Any) -> None:
    calls = {name: value for name, value in public(names) if is_call(value) and name not in NOT_RUN.union(MADE_BY)}
    assert len(calls) > 200
    assert [name for name, value in calls.items() if not has_example(value)] == []


@pytest.mark.parametrize("name", sorted(ADAPTERS))
def test_what_is_not_imported_here_has_an_example_too(name: str) -> None:
    file = ROOT / "src" / "genlabel" / "loops" / f"{ADAPTERS[name]}.py"
    found = {node.name: node for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)}
    assert EXAMPLE.search(ast.get_docstring(found[name.split(".")[1]]) or "")
    test = (ROOT / "tests" / "loops" / f"test_{ADAPTERS[name]}.py").read_text()
    assert f'doctest.testmod(import_module("genlabel.integrations.{ADAPTERS[name]}")' in test


def test_a_record_names_a_call_that_makes_or_takes_it(names: Any) -> None:
    records = {name: value for name, value in public(names) if is_tuple(value) and not has_example(value)}
    assert len(records) > 25
    own = {name: f"genlabel.{name}" for name in records}
    calls = {name: {one for one in named(names, value) if one != own[name]} for name, value in records.items()}
    assert [name for name, found in calls.items() if not found] == []


@pytest.mark.parametrize("name", sorted(MADE_BY))
def test_what_nobody_constructs_names_the_call_that_returns_it(names: Any, name: str) -> None:
    known = dict(public(names))
    call = names.full_name(MADE_BY[name])
    made = known[call.removeprefix("genlabel.")]
    assert call in named(names, known[name])
    assert has_example(made)
    outer = WITHIN.get(name, name)
    assert outer.split(".")[1] in words(inspect.signature(made).return_annotation)
    fields = words(*(inspect.get_annotations(known[outer]).values()))
    assert outer == name or name.split(".")[1] in fields


def test_the_source_of_every_public_name_is_found(names: Any) -> None:
    """What the links to the code lead to: the lines of classes, functions and constants, without an import."""
    pytest.importorskip("sphinx", reason="needs the extra docs")
    find = import_module("making.reading")._source
    offered = [(room, name) for room in names.rooms() for name in import_module(f"genlabel.{room}").__all__]
    places = {one: names.written_in(f"genlabel.{names.owner(*one)}", one[1]) for one in offered}
    found = {module: find(None, module) for module in set(places.values())}
    code = {module: text.splitlines() for module, (text, _) in found.items()}
    for (_, name), module in places.items():
        first, last = found[module][1][name][1:]
        assert name in "\n".join(code[module][first - 1 : last])
    assert find(None, "numpy") is None
