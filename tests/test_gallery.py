"""Gallery and notebooks of the site: their form, and the results of the fast ones.

The build runs every example and every notebook and fails on a warning or an error (`make docs`, part of `.ci/run`).
The tests run the fast examples, and the notebooks to check their variables.
"""

import ast
import json
import re
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

DOCS = Path(__file__).parents[1] / "docs"
EXAMPLES = sorted((DOCS / "gallery").glob("*.py"))
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
FAST_EXAMPLES = ["errata", "genmix", "intrusion", "own_density", "soft_labels", "typicality"]
"""Examples that take less than a second together."""
LINK = re.compile(r"\]\(([^()\s#]+)(?:#[^()\s]*)?\)")
pytestmark = pytest.mark.skipif(not (DOCS / "gallery").exists(), reason="needs the source tree")


def stem(path: Path) -> str:
    return path.stem


@pytest.fixture(scope="module")
def variables() -> Callable[[str], dict[str, Any]]:
    """Run an example, once, and return its variables."""

    @cache
    def run(name: str) -> dict[str, Any]:
        space: dict[str, Any] = {"__name__": "__main__"}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            exec((DOCS / "gallery" / f"{name}.py").read_text(encoding="utf-8"), space)
        return space

    return run


def test_gallery_has_a_dozen_examples() -> None:
    assert len(EXAMPLES) >= 12


@pytest.mark.parametrize("path", EXAMPLES, ids=stem)
def test_example_has_a_description_and_a_figure(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    title, line, blank, about = (ast.get_docstring(tree) or "").split("\n", 3)
    about = " ".join(about.split())
    sentences = re.split(r"(?<=[.?])\s(?=[A-Z`])", about)
    assert not title.endswith(".")
    assert line == "=" * len(title)
    assert blank == ""
    assert 3 <= len(sentences) <= 7
    assert "ook at " in about
    assert about.endswith(".")
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    assert "figure" in [getattr(target, "id", "") for target in targets]


@pytest.mark.parametrize(
    "name", [FAST_EXAMPLES[0], *(pytest.param(name, marks=pytest.mark.long) for name in FAST_EXAMPLES[1:])]
)
def test_example_draws_a_figure(variables: Any, capsys: pytest.CaptureFixture[str], name: str) -> None:
    figure = variables(name)["figure"]
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3]
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 20


def test_statements_of_the_fast_examples_hold(variables: Any) -> None:
    intrusion = variables("intrusion")
    top = {name: intrusion[name].argmax(1)[intrusion["intruding"]] for name in ("by_mixup", "by_genlabel")}
    parents = np.stack([intrusion["y"], intrusion["y"][intrusion["draw"].partner]])[:, intrusion["intruding"]]
    assert (parents == top["by_mixup"]).any(0).all()  # by definition
    assert (parents == top["by_genlabel"]).any(0).mean() < 0.2
    odd = variables("typicality")
    assert (odd["odd"] <= 0.05).all()
    assert (odd["fine"] <= 0.05).mean() < 0.15


@pytest.mark.parametrize("path", NOTEBOOKS, ids=stem)
def test_notebook_is_saved_without_outputs(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = notebook["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert 8 <= len(cells) <= 15
    assert [cell["cell_type"] for cell in cells] == ["markdown", "code"] * len(code) + ["markdown"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    text = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert len(LINK.findall(text)) >= 5
    assert [link for link in LINK.findall(text) if not (path.parent / link).exists()] == []


def run_notebook(name: str) -> dict[str, Any]:
    """Run the code of a notebook, and return its variables."""
    import matplotlib

    matplotlib.use("agg")
    cells = json.loads((DOCS / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    space: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), space)
    return space


@pytest.mark.long  # the build runs it too
def test_notebook_of_tables_runs() -> None:
    space = run_notebook("tables")
    assert space["same"] is True
    assert space["scores"].loc["GenLabel", "accuracy"] > 0.9
    assert (space["typicality"][:10] <= 0.05).all()
    assert ((space["lower"] <= space["upper"]) & (space["upper"] <= 1)).all()


@pytest.mark.long  # the build runs it too
def test_notebook_of_images_runs() -> None:
    space = run_notebook("images")
    assert min(result.clean for result in space["found"].values()) > 90
    assert all(result.accuracy < result.clean for result in space["found"].values())
    np.testing.assert_allclose(space["labels"].sum(1), 1.0, atol=1e-5)
    assert float(space["right"]) == pytest.approx(space["whole"].best_test.accuracy)
