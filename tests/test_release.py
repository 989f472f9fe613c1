"""Requirements of a release: one version, documented and pinned extras, workflows that equal `.ci/run`."""

import re
import runpy
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import genlabel
from genlabel.cli import add_commands, app

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
pytestmark = pytest.mark.skipif(not (ROOT / "pyproject.toml").exists(), reason="needs the source tree")


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def workflow(name: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yml").read_text())


def steps_of(name: str) -> Iterator[dict[str, Any]]:
    for job in workflow(name)["jobs"].values():
        yield from job["steps"]


def make_targets() -> set[str]:
    """Return the targets of the Makefile."""
    text = (ROOT / "Makefile").read_text().replace("$(BIN)", "$(VENV)/bin").replace("$(VENV)", ".venv")
    return set(re.findall(r"^([\w./-]+):(?!=)", text, flags=re.M))


def test_version_is_the_same_everywhere() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    newest = re.findall(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)[0]
    assert (citation["version"], str(citation["date-released"])) == newest
    assert newest[0] == genlabel.__version__
    assert f"genlabel {genlabel.__version__} |" in (ROOT / "README.md").read_text()


def test_page_lists_every_extra_with_its_packages(project: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "installing.md").read_text()
    rows = dict(re.findall(r"^\| `([\w-]+)` \|(.*)$", page, flags=re.M))
    extras = project["project"]["optional-dependencies"]
    assert list(rows) == list(extras)
    for extra, requirements in extras.items():
        names = [Requirement(text).name for text in requirements]
        listed = [name for name in names if name in rows[extra]]
        assert listed or extra == "dev", extra
        assert listed == names or extra in ("test", "dev"), extra


def test_every_requirement_is_pinned(project: dict[str, Any]) -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()[1:]
    pinned = {canonicalize_name(line.split("==")[0]) for line in lines}
    assert lines == sorted(lines, key=str.lower)
    metadata = project["project"]
    requirements = [
        *metadata["dependencies"],
        *(text for extra in metadata["optional-dependencies"].values() for text in extra),
    ]
    names = {
        canonicalize_name(Requirement(text).name) for text in (*requirements, *project["build-system"]["requires"])
    }
    assert names - {"genlabel"} <= pinned


def test_lowest_versions_equal_the_declared_bounds(project: dict[str, Any]) -> None:
    """`make test-lowest` installs the lowest versions of the dependencies, and the packages that run the tests."""
    lines = (ROOT / "constraints-lowest.txt").read_text().splitlines()[1:]
    assert lines == sorted(lines, key=str.lower)
    metadata, extras = project["project"], project["project"]["optional-dependencies"]
    test_packages = [
        text for text in extras["test"] if Requirement(text).name in ("pytest", "pytest-xdist", "hypothesis")
    ]
    assert set(lines) == {text.replace(">=", "==") for text in (*metadata["dependencies"], *test_packages)}


def test_archive_has_all_files_of_the_repository(project: dict[str, Any]) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("needs a clone")
    top = {line.split("/")[0] for line in listed.stdout.splitlines()}
    assert top - {"pyproject.toml"} <= set(project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])
    assert (ROOT / "src" / "genlabel" / "py.typed").exists()
    assert "src/genlabel" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_steps_of_a_workflow_are_make_targets(path: Path) -> None:
    commands = [step["run"] for step in steps_of(path.stem) if "run" in step and "name" not in step]
    assert commands
    for command in commands:
        program, *words = command.split()
        assert program == "make"
        assert {word for word in words if not word.startswith("--")} <= make_targets(), command
    for step in steps_of(path.stem):
        assert "run" in step or re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+)", step["uses"]), step


def test_workflow_equals_the_local_checks(project: dict[str, Any]) -> None:
    gate = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line.startswith("make ")]
    assert [step["run"] for step in steps_of("test") if "run" in step] == gate
    pythons = workflow("test")["jobs"]["test"]["strategy"]["matrix"]["python"]
    known = [line.split(" :: ")[-1] for line in project["project"]["classifiers"] if ":: Python :: 3." in line]
    assert pythons == known
    assert project["project"]["requires-python"] == f">={pythons[0]}"


def test_release_is_built_checked_and_tried() -> None:
    assert "make try-dist" in [step.get("run") for step in steps_of("release")]
    recipe = (ROOT / "Makefile").read_text()
    assert re.search(r"^try-dist: dist\b", recipe, flags=re.M)
    assert "-m build" in recipe
    assert "-m twine check --strict dist/*" in recipe
    assert workflow("release")[True] == {"push": {"tags": ["v*"]}}  # YAML takes "on" for true
    assert workflow("release")["jobs"]["publish"]["permissions"] == {"id-token": "write"}


def test_commands_of_the_wheel_trial_are_valid(tmp_path: Path) -> None:
    space = runpy.run_path(str(ROOT / ".ci" / "try_wheel.py"))
    add_commands()
    group: Any = typer.main.get_command(app)
    steps = space["steps"](tmp_path / "genlabel-1-py3-none-any.whl", tmp_path)
    commands = [words[1:] for words in steps.values() if Path(words[0]).name == "genlabel"]
    assert [words[0] for words in commands] == ["--version", "compare", "reproduce"]
    for name, *rest in commands[1:]:
        group.commands[name].make_context(name, rest)
    assert "GenLabelClassifier" in space["table_block"]()
