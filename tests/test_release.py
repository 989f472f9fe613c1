"""What a release needs: one version, extras that are documented and pinned, workflows that do what `.ci/run` does."""

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


def made() -> set[str]:
    """The targets of the Makefile."""
    text = (ROOT / "Makefile").read_text().replace("$(BIN)", "$(VENV)/bin").replace("$(VENV)", ".venv")
    return set(re.findall(r"^([\w./-]+):(?!=)", text, flags=re.M))


def test_there_is_one_version() -> None:
    about = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    newest = re.findall(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)[0]
    assert (about["version"], str(about["date-released"])) == newest
    assert newest[0] == genlabel.__version__
    assert f"genlabel {genlabel.__version__} |" in (ROOT / "README.md").read_text()


def test_every_extra_is_on_the_page_with_what_it_needs(project: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "installing.md").read_text()
    rows = dict(re.findall(r"^\| `([\w-]+)` \|(.*)$", page, flags=re.M))
    extras = project["project"]["optional-dependencies"]
    assert list(rows) == list(extras)
    for extra, wanted in extras.items():
        names = [Requirement(text).name for text in wanted]
        told = [name for name in names if name in rows[extra]]
        assert told or extra == "dev", extra
        assert told == names or extra in ("test", "dev"), extra


def test_every_requirement_has_its_exact_version(project: dict[str, Any]) -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()[1:]
    pinned = {canonicalize_name(line.split("==")[0]) for line in lines}
    assert lines == sorted(lines, key=str.lower)
    about = project["project"]
    wanted = [*about["dependencies"], *(one for extra in about["optional-dependencies"].values() for one in extra)]
    names = {canonicalize_name(Requirement(text).name) for text in (*wanted, *project["build-system"]["requires"])}
    assert names - {"genlabel"} <= pinned


def test_the_lowest_versions_are_those_that_are_promised(project: dict[str, Any]) -> None:
    """What `make test-lowest` installs: all that the library needs, and what runs its tests."""
    lines = (ROOT / "constraints-lowest.txt").read_text().splitlines()[1:]
    assert lines == sorted(lines, key=str.lower)
    about, extras = project["project"], project["project"]["optional-dependencies"]
    runs = [text for text in extras["test"] if Requirement(text).name in ("pytest", "pytest-xdist", "hypothesis")]
    assert set(lines) == {text.replace(">=", "==") for text in (*about["dependencies"], *runs)}


def test_the_archive_has_all_that_the_repository_has(project: dict[str, Any]) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("needs a clone")
    top = {line.split("/")[0] for line in listed.stdout.splitlines()}
    assert top - {"pyproject.toml"} <= set(project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])
    assert (ROOT / "src" / "genlabel" / "py.typed").exists()
    assert "src/genlabel" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_the_steps_of_a_workflow_are_targets_of_the_makefile(path: Path) -> None:
    commands = [step["run"] for step in steps_of(path.stem) if "run" in step and "name" not in step]
    assert commands
    for command in commands:
        program, *words = command.split()
        assert program == "make"
        assert {word for word in words if not word.startswith("--")} <= made(), command
    for step in steps_of(path.stem):
        assert "run" in step or re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+)", step["uses"]), step


def test_the_gate_is_the_same_here_and_there(project: dict[str, Any]) -> None:
    gate = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line.startswith("make ")]
    assert [step["run"] for step in steps_of("test") if "run" in step] == gate
    pythons = workflow("test")["jobs"]["test"]["strategy"]["matrix"]["python"]
    known = [line.split(" :: ")[-1] for line in project["project"]["classifiers"] if ":: Python :: 3." in line]
    assert pythons == known
    assert project["project"]["requires-python"] == f">={pythons[0]}"


def test_what_is_released_was_built_checked_and_tried() -> None:
    assert "make try-dist" in [step.get("run") for step in steps_of("release")]
    recipe = (ROOT / "Makefile").read_text()
    assert re.search(r"^try-dist: dist\b", recipe, flags=re.M)
    assert "-m build" in recipe
    assert "-m twine check --strict dist/*" in recipe
    assert workflow("release")[True] == {"push": {"tags": ["v*"]}}  # YAML takes "on" for true
    assert workflow("release")["jobs"]["publish"]["permissions"] == {"id-token": "write"}


def test_the_trial_of_a_wheel_asks_what_the_command_line_knows(tmp_path: Path) -> None:
    space = runpy.run_path(str(ROOT / ".ci" / "try_wheel.py"))
    add_commands()
    group: Any = typer.main.get_command(app)
    steps = space["steps"](tmp_path / "genlabel-1-py3-none-any.whl", tmp_path)
    asked = [words[1:] for words in steps.values() if Path(words[0]).name == "genlabel"]
    assert [words[0] for words in asked] == ["--version", "compare", "reproduce"]
    for name, *rest in asked[1:]:
        group.commands[name].make_context(name, rest)
    assert "GenLabelClassifier" in space["table_block"]()
