"""Security of inputs: no call executes a file, no path leaves its folder, no text becomes HTML unescaped.

The tests read the syntax trees of the sources; each exception is listed here with its reason.
"""

import ast
import json
import re
import runpy
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from PIL import Image

import genlabel
from genlabel.data.datasets.image_files import read_tiny_imagenet
from genlabel.data.tables import write_frame
from genlabel.data.tables.files import read_raw
from genlabel.persistence.files import ARRAYS, CARD, TREE, Files, read_files, write_files
from genlabel.reporting.html import environment

ROOT = Path(__file__).parents[1]
SOURCES = sorted(Path(genlabel.__file__).parents[1].glob("genlabel*/**/*.py"))
SITE = sorted((ROOT / "docs" / "_ext").rglob("*.py"))
TEMPLATES = sorted(Path(genlabel.__file__).parents[1].glob("genlabel*/**/*.j2"))

FORBIDDEN = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "tempfile.mktemp", "yaml.load",
    "yaml.unsafe_load", "joblib.load", "shelve.open", "marshal.loads", "marshal.load", "pickle.load", "pickle.loads",
    "pickle.Unpickler", "cloudpickle.load", "cloudpickle.loads", "dill.load", "dill.loads", "pandas.read_pickle",
    "numpy.lib.format.read_array", "shutil.unpack_archive", "ssl._create_unverified_context",
}  # fmt: skip
MODULES = {"xml", "tarfile", "telnetlib", "ftplib", "marshal", "shelve", "dill", "defusedxml", "lxml", "yaml", "pickle"}
"""Modules that are imported only by the exceptions."""
METHODS = {"extractall", "extract", "to_pickle"}
WORDS = {name.split(".")[-1] for name in FORBIDDEN} | MODULES | METHODS | {"load(", "allow_pickle", "shell", "verify"}
"""Words of which a forbidden use has at least one; modules without them are not parsed."""
EXCEPTIONS = {
    "genlabel/evaluation/records/run.py": {
        "pickle.loads",
        "import pickle",
    },  # a task of Dask, made and read here
    "genlabel/evaluation/records/fingerprints.py": {"import pickle"},  # written for its checksum, never read
    "genlabel/testing/densities.py": {"pickle.loads", "import pickle"},  # a copy that it has just made
    "genlabel/testing/methods.py": {"pickle.loads", "import pickle"},  # a copy that it has just made
    "genlabel/data/datasets/image_files.py": {"numpy.lib.format.read_array"},  # without pickle
    "genlabel/reporting/svg.py": {"import xml"},  # what matplotlib has just written
    "genlabel_paper/benchmark/tabpfn_v1.py": {"import tarfile"},  # one file by name and checksum, nothing is extracted
}
MARKED = {
    "genlabel/reporting/svg.py",  # a tree as ElementTree writes it, which escapes
}


def source_name(path: Path) -> str:
    return path.relative_to(Path(genlabel.__file__).parents[1]).as_posix()


def unsafe_calls(code: str) -> set[str]:
    """Return the unsafe imports and calls of a module by their full names."""
    if not any(keyword in code for keyword in WORDS):
        return set()
    tree = ast.parse(code)
    names = dict(_imported(tree))
    unsafe = {f"import {name.split('.')[0]}" for name in names.values() if name.split(".")[0] in MODULES}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = _dotted(call.func, names)
        options = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        if name in FORBIDDEN or (isinstance(call.func, ast.Attribute) and call.func.attr in METHODS):
            unsafe.add(name)
        if name in ("torch.load", "torch.serialization.load") and options.get("weights_only") != "True":
            unsafe.add("torch.load without weights_only=True")
        if options.get("allow_pickle", "False") != "False":
            unsafe.add(f"{name} with allow_pickle")
        if name == "numpy.load" and "allow_pickle" not in options:
            unsafe.add("numpy.load without allow_pickle=False")
        if options.get("shell", "False") != "False" or options.get("verify") == "False":
            unsafe.add(f"{name} with a shell, or without verifying")
    return unsafe


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the imported names of a module and their full names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (
                (one.asname or one.name.split(".")[0], one.name if one.asname else one.name.split(".")[0])
                for one in node.names
            )
        if isinstance(node, ast.ImportFrom):
            yield from ((one.asname or one.name, f"{node.module}.{one.name}") for one in node.names)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield from ((str(one.value), str(one.value)) for one in node.args[:1] if isinstance(one, ast.Constant))


def _dotted(node: ast.AST, names: dict[str, str]) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value, names)}.{node.attr}"
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        return str(node.args[0].value)  # import_module("cloudpickle").loads
    return names.get(node.id, node.id) if isinstance(node, ast.Name) else "?"


@pytest.mark.parametrize("code, expected", [
    ("import pickle\npickle.loads(b)", {"import pickle", "pickle.loads"}),
    ("from pickle import loads as read\nread(b)", {"import pickle", "pickle.loads"}),
    ("import_module('cloudpickle').loads(b)", {"cloudpickle.loads"}),
    ("import torch\ntorch.load(f)", {"torch.load without weights_only=True"}),
    ("import torch as t\nt.load(f, weights_only=False)", {"torch.load without weights_only=True"}),
    ("import torch\ntorch.load(f, weights_only=True)", set()),
    ("import numpy as np\nnp.load(f)", {"numpy.load without allow_pickle=False"}),
    ("import numpy as np\nnp.load(f, allow_pickle=True)", {"numpy.load with allow_pickle"}),
    ("import numpy as np\nnp.load(f, allow_pickle=False)", set()),
    ("import joblib\njoblib.load(f)", {"joblib.load"}),
    ("from subprocess import run\nrun('ls', shell=True)", {"subprocess.run with a shell, or without verifying"}),
    ("from zipfile import ZipFile\nZipFile(f).extractall()", {"?.extractall"}),
    ("import xml.etree.ElementTree as ET", {"import xml"}),
    ("eval('1')", {"eval"}),
    ("import tempfile\ntempfile.mktemp()", {"tempfile.mktemp"}),
    ("import re\nre.compile('a')\nnetwork.eval()", set()),
])  # fmt: skip
def test_unsafe_calls_are_found(code: str, expected: set[str]) -> None:
    assert unsafe_calls(code) == expected


def test_no_source_has_unsafe_calls() -> None:
    assert {
        source_name(path): unsafe for path in SOURCES if (unsafe := unsafe_calls(path.read_text(encoding="utf-8")))
    } == EXCEPTIONS


def test_markup_is_used_in_one_place() -> None:
    """A call of `Markup` with an argument marks text that is not escaped again."""
    assert {source_name(path) for path in SOURCES if _uses_markup(path)} == MARKED
    if SITE:
        assert {path.name for path in SITE if _uses_markup(path)} == set()


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_templates_escape_everything(template: Path) -> None:
    text = template.read_text(encoding="utf-8")
    assert not re.search(r"\|\s*(safe|tojson|xmlattr|forceescape)\b|autoescape", text)


def test_environments_always_escape() -> None:
    for package in ("genlabel.reporting", "genlabel_paper.report"):
        env = environment(package)
        assert env.autoescape is True
        assert env.from_string("{{ '<' }}{{ x }}").render(x="<b>") == "&lt;&lt;b&gt;"


def _uses_markup(path: Path) -> bool:
    text = path.read_text(encoding="utf-8")
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)) if "Markup(" in text else ()
    return any(isinstance(call.func, ast.Name) and call.func.id == "Markup" and call.args for call in calls)


@pytest.fixture
def model() -> Files:
    return Files({"about": {}}, {"a": np.arange(3.0)})


@pytest.mark.parametrize("name", [TREE, ARRAYS, CARD])
def test_link_in_a_model_folder_is_replaced_not_followed(name: str, model: Files, tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "model"
    outside.write_text("precious")
    folder.mkdir()
    (folder / name).symlink_to(outside)
    write_files(folder, model, "card")
    assert outside.read_text() == "precious"
    assert sorted(path.name for path in folder.iterdir()) == sorted([TREE, ARRAYS, CARD])
    assert read_files(folder).arrays["a"].tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("name", ["../../secret.png", "{outside}/secret.png", "a/../../secret.png", "."])
def test_image_list_cannot_leave_its_folder(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    for images in (folder / "train" / "n0" / "images", folder / "val" / "images"):
        images.mkdir(parents=True)
        Image.new("L", (4, 4)).save(images / "a.png")
    Image.new("L", (4, 4)).save(tmp_path / "secret.png")
    notes = folder / "val" / "val_annotations.txt"
    notes.write_text("a.png\tn0\n")
    assert [len(split.y) for split in read_tiny_imagenet(folder)] == [1, 1]
    notes.write_text(f"{name.format(outside=tmp_path)}\tn0\n")
    with pytest.raises(ValueError, match="'images'"):
        read_tiny_imagenet(folder)


def test_formula_like_cells_are_written_unchanged(tmp_path: Path) -> None:
    """As SECURITY.md states, a value that a spreadsheet takes for a formula stays a value."""
    frame = pd.DataFrame({"id": ["=1+1", "@x", "+1", "-1", "'", '"', "a\nb"]})
    write_frame(frame, tmp_path / "out.csv")
    pd.testing.assert_frame_equal(read_raw(tmp_path / "out.csv"), frame)


def test_all_requirements_of_the_extras_are_pinned() -> None:
    """Requirements of installed requirements are pinned too."""
    pinned = {
        canonicalize_name(line.split("==")[0]) for line in (ROOT / "constraints.txt").read_text().splitlines()[1:]
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    queue = [
        Requirement(text)
        for group in (project["dependencies"], *project["optional-dependencies"].values())
        for text in group
    ]
    seen: set[str] = {"genlabel"}
    while queue:
        requirement = queue.pop()
        name = canonicalize_name(requirement.name)
        try:
            dependencies = [] if name in seen else [Requirement(text) for text in requires(name) or []]
        except PackageNotFoundError:
            continue
        seen.add(name)
        extras = [*requirement.extras, ""]
        queue += [
            dependency
            for dependency in dependencies
            if dependency.marker is None or any(dependency.marker.evaluate({"extra": e}) for e in extras)
        ]
    assert seen - {"genlabel", "setuptools", "pip"} - pinned == set()


def test_audit_distinguishes_clean_faulty_and_unreachable() -> None:
    judge: Any = runpy.run_path(str(ROOT / ".ci" / "audit.py"))["judge"]
    fault = {"id": "X-1", "fix_versions": ["2"]}
    packages = [{"name": "a", "version": "1", "vulns": [fault]}, {"name": "b", "version": "1", "vulns": []}]
    skipped = [{"name": name, "skip_reason": "not found"} for name in "cd"]
    assert judge(json.dumps({"dependencies": packages[1:]})) == (
        True,
        ["pip-audit: 1 packages looked up, 0 with known faults"],
    )
    clean, lines = judge(json.dumps({"dependencies": packages + skipped}))
    assert not clean
    assert lines[1:] == ["a 1: X-1, mended in 2", "not looked up: c, d"]
    for output in (json.dumps({"dependencies": skipped}), "", "no JSON", "{}"):
        clean, lines = judge(output)
        assert clean
        assert "nothing was looked up" in lines[0]


def test_each_nosec_has_a_reason() -> None:
    for path in SOURCES:
        for line in path.read_text(encoding="utf-8").splitlines():
            assert "nosec" not in line or re.search(r"  # \S+ \S+.*  # nosec B\d{3}$", line), (path, line)
