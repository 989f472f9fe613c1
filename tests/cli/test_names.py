"""Test that the choices of options equal the registered names."""

from genlabel.cli.compare import Density
from genlabel.cli.fit import TableMethod
from genlabel.evaluation.table_models import TABLE_METHODS
from genlabel.registry import DENSITIES


def test_density_choices_equal_the_registry() -> None:
    registered = {name for name, cls in DENSITIES.classes().items() if cls.__module__.startswith("genlabel.")}
    assert {density.value for density in Density} == {*registered, "auto"}  # documentation examples register others


def test_method_choices_equal_the_table_methods() -> None:
    assert [method.value for method in TableMethod] == list(TABLE_METHODS)
