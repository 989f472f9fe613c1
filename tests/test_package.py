"""The names of the package, each loaded on first use."""

import subprocess
import sys

import pytest

import genlabel


def test_every_public_name_is_there_and_others_are_not() -> None:
    assert dir(genlabel) == genlabel.__all__
    for name in genlabel.__all__:
        assert getattr(genlabel, name) is not None
    with pytest.raises(AttributeError, match="nothing"):
        genlabel.nothing  # noqa: B018


def test_importing_the_package_loads_nothing_heavy() -> None:
    script = "import sys, genlabel; print({'torch', 'sklearn', 'pandas', 'matplotlib'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
