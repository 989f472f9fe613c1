"""Names that options offer without heavy imports are those that the library knows."""

from genlabel.cli.compare import Density
from genlabel.cli.fit import TableMethod
from genlabel.evaluation.table_models import TABLE_METHODS
from genlabel.registry import DENSITIES


def test_densities_are_those_of_the_registry() -> None:
    ours = {name for name, cls in DENSITIES.classes().items() if cls.__module__.startswith("genlabel.")}
    assert {density.value for density in Density} == {*ours, "auto"}  # examples of pages register others


def test_methods_are_those_of_table_models() -> None:
    assert [method.value for method in TableMethod] == list(TABLE_METHODS)
