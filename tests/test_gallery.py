"""The gallery and the notebooks of the site: what each file must have, that they run, and what the site shows of them.

The build runs every example and every notebook, and refuses one that warns, fails or takes more than 20 s of a
processor (`make docs`, part of `.ci/run`). Here run the cheap examples, and the notebooks for what they leave behind.
"""

import ast
import doctest
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

DOCS = Path(__file__).parents[1] / "docs"
EXAMPLES = sorted((DOCS / "gallery").glob("*.py"))
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
CHEAP = ["errata", "genmix", "intrusion", "soft_labels", "support"]
"""Of less than half a second together; `own_density` runs in test_site."""
LINK = re.compile(r"\]\(([^()\s#]+)(?:#[^()\s]*)?\)")
pytestmark = pytest.mark.skipif(not (DOCS / "making").exists(), reason="needs the source tree")


def stem(path: Path) -> str:
    return path.stem


@pytest.fixture(scope="module")
def making() -> Iterator[Callable[[str], Any]]:
    """A module of the site's own code, by name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS))
        yield lambda name: import_module(f"making.{name}")


@pytest.fixture(scope="module")
def ran(making: Any) -> Callable[[str], Any]:
    """An example that was run, once, by name."""
    return cache(lambda name: making("gallery").run_example(DOCS / "gallery" / f"{name}.py"))


def test_every_example_is_in_one_group(making: Any) -> None:
    names = [name for group in making("gallery").GROUPS.values() for name in group]
    assert sorted(names) == [path.stem for path in EXAMPLES]
    assert len(names) >= 12


@pytest.mark.parametrize("path", EXAMPLES, ids=stem)
def test_an_example_says_what_to_look_at_and_draws(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    title, blank, about = (ast.get_docstring(tree) or "").split("\n", 2)
    about = " ".join(about.split())
    sentences = re.split(r"(?<=[.?])\s(?=[A-Z`])", about)
    assert not title.endswith(".")
    assert blank == ""
    assert 3 <= len(sentences) <= 7
    assert "ook at " in about
    assert about.endswith(".")
    targets = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets]
    assert "figure" in [getattr(target, "id", "") for target in targets]
    assert [link for link in LINK.findall(about) if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("name", [CHEAP[0], *(pytest.param(one, marks=pytest.mark.long) for one in CHEAP[1:])])
def test_an_example_runs_prints_and_draws(ran: Any, name: str) -> None:
    example = ran(name)
    assert len(example.printed.splitlines()) >= 2
    assert example.seconds < 20
    canvas = FigureCanvasAgg(example.space["figure"])
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3]
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 20


def test_what_the_cheap_examples_say_is_so(ran: Any) -> None:
    intrusion = ran("intrusion").space
    top = {name: intrusion[name].argmax(1)[intrusion["intruding"]] for name in ("by_mixup", "by_genlabel")}
    parents = np.stack([intrusion["y"], intrusion["y"][intrusion["draw"].partner]])[:, intrusion["intruding"]]
    assert (parents == top["by_mixup"]).any(0).all()  # by definition
    assert (parents == top["by_genlabel"]).any(0).mean() < 0.2
    odd = ran("support").space
    assert (odd["odd"] <= 0.05).all()
    assert (odd["fine"] <= 0.05).mean() < 0.15


TINY = '''"""Is a < b?

A line of `code`, arXiv Alg. 4, and a [link](../choosing.md). Look at nothing. It is all.
"""

from matplotlib.figure import Figure

print("printed <b>")
figure = Figure(figsize=(2, 1))
figure.subplots().plot([0, 1], [1, 0])
'''


def test_what_the_site_shows_of_an_example(making: Any, tmp_path: Path) -> None:
    path = tmp_path / "tiny.py"
    path.write_text(TINY)
    page, card = making("gallery").show_example(path)
    assert page.startswith("# Is a < b?\n\nA line of `code`")
    order = ["[link](../choosing.md)", "<figure>", "less than 1 s", "printed <b>", "`docs/gallery/tiny.py`", "print("]
    assert sorted(order, key=page.index) == order
    assert card.startswith('<a href="tiny.html">')
    assert "<strong>Is a &lt; b?</strong><span>A line of code, arXiv Alg. 4, and a link.</span>" in card
    ids = [set(re.findall(r'\bid="([^"]+)"', part)) for part in (page, card)]
    assert not ids[0] & ids[1]


@pytest.mark.parametrize("code", ["import warnings; warnings.warn('careful')", "1 / 0", "figure = 1; exit()"])
def test_an_example_that_warns_fails_or_leaves_is_refused(making: Any, tmp_path: Path, code: str) -> None:
    path = tmp_path / "bad.py"
    path.write_text(f'"""Bad\n\nIt is bad.\n"""\n\n{code}\n')
    with pytest.raises((UserWarning, ZeroDivisionError, SystemExit)):
        making("gallery").run_example(path)


def test_what_takes_too_long_is_refused(making: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    apart = making("apart")
    monkeypatch.setattr(apart, "LONGEST", 0.0)
    with pytest.raises(RuntimeError, match=r"slow.py took 0 s of a processor, and may take 0: make it smaller"):
        apart.timed(lambda: sum(range(10_000)), Path("slow.py"))


APART = """
import sys
from pathlib import Path
from making.apart import HEAVY, hide, run_apart

def look(path):
    sys.modules["left"] = sys
    return [name in sys.modules for name in HEAVY]

hide()
assert run_apart(look, Path()) == [False] * len(HEAVY)
assert all(sys.modules[name] is None for name in HEAVY) and "left" not in sys.modules
try:
    run_apart(lambda path: path, Path())
except Exception as error:
    print(type(error).__name__)
"""


def test_a_process_apart_has_what_is_hidden_and_leaves_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", APART], cwd=DOCS, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "PicklingError"), done.stderr


def test_what_was_run_is_kept_until_something_changes(
    making: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart, path, calls = making("apart"), tmp_path / "a.py", []
    monkeypatch.setattr(apart, "run_apart", lambda work, path: calls.append(path.read_text()) or work(path))

    def made() -> list[str]:
        return apart.remember(lambda path: [path.read_text(), "card"], path, tmp_path / "runs")

    for text, library in (("1", "a"), ("1", "a"), ("2", "a"), ("2", "a"), ("2", "b")):
        path.write_text(text)
        monkeypatch.setattr(apart, "_surroundings", lambda library=library: library)
        assert made() == [text, "card"]
    assert calls == ["1", "2", "2"]
    assert [kept.name for kept in (tmp_path / "runs").iterdir()] == ["a.py.json"]


@pytest.mark.parametrize("name", ["apart", "gallery"])
def test_the_examples_in_the_code_hold(making: Any, name: str) -> None:
    found = doctest.testmod(making(name))
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize("path", NOTEBOOKS, ids=stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    kept = json.loads(path.read_text(encoding="utf-8"))
    cells = kept["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert (kept["nbformat"], kept["nbformat_minor"]) == (4, 5)
    assert 8 <= len(cells) <= 15
    assert [cell["cell_type"] for cell in cells] == ["markdown", "code"] * len(code) + ["markdown"]
    assert len({cell["id"] for cell in cells}) == len(cells)
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    words = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert len(LINK.findall(words)) >= 5
    assert [link for link in LINK.findall(words) if not (path.parent / link).exists()] == []


def test_a_notebook_shows_what_jupyter_would(making: Any, tmp_path: Path) -> None:
    cells = [
        ("markdown", "# A notebook\n\nSee [the other](images.ipynb)."),
        ("code", "import pandas as pd\nfrom matplotlib import pyplot as plt\na = 1"),
        ("code", "plt.plot([1, a])\nprint('printed')\n[a, 'value']"),
        ("code", "pd.DataFrame({'column': [a]})"),
        ("code", ""),
    ]
    path = tmp_path / "small.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": kind, "source": [text]} for kind, text in cells]}))
    (page,) = making("notebooks").show_notebook(path)
    order = [
        "# A notebook", "(images.md)", "`docs/notebooks/small.ipynb`", "plt.plot", "```text\nprinted\n```",
        "```text\n[1, 'value']\n```", "<svg", "pd.DataFrame", "<th>column</th>",
    ]  # fmt: skip
    assert sorted(order, key=page.index) == order
    assert page.count("<svg") == 1
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": ["a = 1\n", "1 / (a - 1)"]}]}))
    with pytest.raises(ZeroDivisionError) as caught:
        making("notebooks").run_notebook(path)
    assert caught.traceback[-1].path == "small.ipynb:0"


@pytest.mark.long  # the build runs it too
def test_the_notebook_of_tables_runs_in_order(making: Any) -> None:
    space = making("notebooks").run_notebook(DOCS / "notebooks" / "tables.ipynb").space
    assert space["same"] is True
    assert space["scores"].loc["GenLabel", "accuracy"] > 90
    assert (space["support"][:10] <= 0.05).all()
    assert ((space["lower"] <= space["upper"]) & (space["upper"] <= 1)).all()


@pytest.mark.long  # the build runs it too
def test_the_notebook_of_images_runs_in_order(making: Any) -> None:
    space = making("notebooks").run_notebook(DOCS / "notebooks" / "images.ipynb").space
    assert min(one.clean for one in space["found"].values()) > 90
    assert all(one.accuracy < one.clean for one in space["found"].values())
    np.testing.assert_allclose(space["labels"].sum(1), 1.0, atol=1e-5)
    assert float(space["right"]) == pytest.approx(space["whole"].best_test.accuracy)
