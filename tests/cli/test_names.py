"""Test that the choices of options and the names in help texts and docstrings equal the registered names."""

from typing import Any

import pytest
import typer

from genlabel import GenerativeClassifier, GenLabelClassifier
from genlabel.cli import app
from genlabel.cli.fit import TableMethod
from genlabel.data.tables import FORMATS
from genlabel.evaluation.comparison import default_methods
from genlabel.evaluation.table_models import TABLE_METHODS
from genlabel.registry import DENSITIES


@pytest.mark.parametrize("documented", [GenLabelClassifier, GenerativeClassifier, default_methods])
def test_docstrings_list_the_registered_densities(documented: Any) -> None:
    ours = [name for name, cls in DENSITIES.classes().items() if cls.__module__.startswith("genlabel.")]
    assert [name for name in ours if f'"{name}"' not in documented.__doc__] == []


@pytest.mark.parametrize(("command", "option"), [("fit", "source"), ("predict", "output")])
def test_help_lists_the_formats_of_tables(command: str, option: str) -> None:
    (parameter,) = [p for p in typer.main.get_command(app).commands[command].params if p.name == option]
    classes = FORMATS.classes()
    names = [name for name, cls in classes.items() if option == "source" or cls.writable]
    words = {"text": "csv", "json": "json"}
    assert names
    assert [name for name in names if words.get(name, name) not in parameter.help.lower()] == []


def test_method_choices_equal_the_table_methods() -> None:
    assert [method.value for method in TableMethod] == list(TABLE_METHODS)
