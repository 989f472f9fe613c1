"""Public names of the package, loaded lazily."""

import subprocess
import sys

import pytest

import genlabel


def test_public_names_exist_and_others_do_not() -> None:
    assert dir(genlabel) == genlabel.__all__
    for name in genlabel.__all__:
        assert getattr(genlabel, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        genlabel.nothing  # noqa: B018


def test_import_loads_no_heavy_package() -> None:
    script = "import sys, genlabel; print({'torch', 'sklearn', 'pandas', 'matplotlib'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"
