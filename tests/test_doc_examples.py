"""Code blocks of README and of the pages: Python runs in the order of the page, commands exist with their options.

A Python block that cannot run here has a comment before it, `<!-- not run: the reason -->`. A new page needs no entry
here, unless its blocks use objects that its readers have (`SETUP`), or the results have a check (`CHECKS`).
"""

import doctest
import re
import shlex
import tomllib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch
import typer
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from typer.testing import CliRunner

from genlabel.cli import add_commands, app
from genlabel_paper.registry import find

ROOT = Path(__file__).parents[1]
PAGES = [
    path.relative_to(ROOT).as_posix()
    for path in (*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("results/*.md")), *sorted(ROOT.glob("docs/*.md")))
]
pytestmark = pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="needs the source tree")

SILENT = {"text", "bibtex", "math"}
"""Languages that are not run; neither are those in braces, which Sphinx reads."""
MAX_SKIPPED = 1
"""Maximum number of Python blocks without a run, on all pages together."""
SAME = {"docs/index.md": "README.md"}
"""Pages with the same Python blocks as another page, which is run."""

FENCE = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n+)?^```(?P<language>\S*)[^\n]*\n(?P<code>.*?)^```$", flags=re.S | re.M
)
RAISED = re.compile(r"^# (\w+Error): (.*)\n\Z", flags=re.M)
"""The last line of a block that shows an error."""


class Block(NamedTuple):
    """A block of a page: language, code, heading above it, line, and the reason why it is not run."""

    language: str
    code: str
    heading: str
    line: int
    reason: str | None


def read_blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a page, in order."""
    blocks = []
    for match in FENCE.finditer(text):
        headings = re.findall(r"^#+ (.*)$", FENCE.sub("", text[: match.start()]), flags=re.M)
        line = text.count("\n", 0, match.start("code"))
        blocks.append(Block(match["language"], match["code"], ["", *headings][-1], line, match["reason"]))
    return blocks


def indented_blocks(text: str) -> list[str]:
    """Return the first lines of blocks that are code by indentation; indented text of lists is no code."""
    lines, in_list = [], False
    for paragraph in re.split(r"\n\n+", FENCE.sub("", text)):
        in_list = bool(re.match(r"- |\d+\. ", paragraph)) or (in_list and paragraph.startswith(" "))
        if paragraph.startswith("    ") and not in_list:
            lines.append(paragraph.split("\n")[0])
    return lines


@cache
def blocks_of(page: str) -> list[Block]:
    return read_blocks((ROOT / page).read_text(encoding="utf-8"))


def python_of(page: str) -> list[Block]:
    return [block for block in blocks_of(page) if block.language == "python"]


def test_blocks_are_parsed() -> None:
    text = "# A\n\n```python\n# no heading\nx = 1\n```\n\n## B\n\n<!-- not run: too slow -->\n\n```sh\nls  # a\n```\n"
    text += "\n    old\n\n- a\n\n    b\n"
    first, second = read_blocks(text)
    assert first == Block("python", "# no heading\nx = 1\n", "A", 3, None)
    assert second == Block("sh", "ls  # a\n", "B", 12, "too slow")
    assert indented_blocks(text) == ["    old"]


@pytest.mark.parametrize("page", PAGES)
def test_every_block_has_a_known_language(page: str) -> None:
    known = {"python", "sh", *SILENT}
    languages = {block.language for block in blocks_of(page) if not block.language.startswith("{")}
    assert languages <= known
    assert indented_blocks((ROOT / page).read_text(encoding="utf-8")) == []


def test_few_blocks_are_skipped_and_each_has_a_reason() -> None:
    skipped = [(page, block.reason) for page in PAGES for block in blocks_of(page) if block.reason is not None]
    assert all(page in PAGES and reason and len(reason.split()) > 3 for page, reason in skipped)
    assert len(skipped) <= MAX_SKIPPED
    assert sum(len(python_of(page)) for page in PAGES) > 50


# Commands


@pytest.fixture(scope="module")
def group() -> Any:
    add_commands()
    return typer.main.get_command(app)


def commands_in(code: str) -> Iterator[list[str]]:
    """Yield the words of each line of a block, without comments and environment variables."""
    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        while words and re.match(r"\w+=", words[0]):
            words.pop(0)
        if words:
            yield words


def command_fault(words: list[str], group: Any) -> str | None:
    """Return the fault of a command of a page, or None."""
    match words:
        case ["genlabel", *rest] | ["torchrun", _, _, "-m", "genlabel", *rest]:
            return _genlabel_fault(rest, group)
        case ["make", *targets]:
            known_targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.M)
            return next((f"no target {target}" for target in targets if target not in known_targets), None)
        case ["pip", "install", *packages]:
            extras = set(re.findall(r"[\w-]+", "".join(re.findall(r"\[(.*?)\]", " ".join(packages)))))
            return f"no extra {extras}" if extras - set(_extras()) else None
        case ["pip", "download", *_]:
            return None
        case ["python", "-m", module, *_]:
            return None if find_spec(module) else f"no module {module}"
        case ["python", script, *options]:
            return _script_fault(script, options)
        case ["dask", *_]:
            return None
    return f"unknown program {words[0]}"


def _genlabel_fault(words: list[str], group: Any) -> str | None:
    command = group.commands.get(words[0])
    if command is None:
        return f"no command {words[0]}"
    try:
        params = command.make_context(words[0], list(words[1:])).params
        if words[0] == "reproduce" and params["ids"]:
            find(params["ids"])
    except Exception as error:  # a reader would meet any exception
        return str(error) or repr(error)
    return None


def _script_fault(script: str, options: list[str]) -> str | None:
    path = ROOT / script
    if not path.is_file():
        return f"no file {script}"
    missing = [word for word in options if word.startswith("--") and f'"{word}"' not in path.read_text()]
    return f"{script} has no {missing}" if missing else None


@cache
def _extras() -> dict[str, list[str]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("genlabel compare a.csv --target y --jobs 2  # words", None),
        ("A=b torchrun --nproc-per-node 2 -m genlabel train-images digits", None),
        ("genlabel compare a.csv --aim y", "--aim"),
        ("genlabel comparison a.csv", "no command comparison"),
        ("genlabel benchmark --jobs many", "integer"),
        ("genlabel predict", "MODEL"),
        ("genlabel reproduce table99", "table99"),
        ("make tests", "no target tests"),
        ("pip install '.[excel,tea]'", "tea"),
        ("python benchmarks/cost.py --tea 1", "--tea"),
        ("python benchmarks/tea.py", "no file"),
        ("python -m genlabel_paper.benchmark.tea", "no module"),
        ("rm -r a", "unknown program"),
    ],
)
def test_invalid_command_is_reported(line: str, fault: str | None, group: Any) -> None:
    (words,) = commands_in(line)
    message = command_fault(words, group)
    assert message is None if fault is None else message is not None and fault.lower() in message.lower(), message


@pytest.mark.parametrize("page", [page for page in PAGES if any(block.language == "sh" for block in blocks_of(page))])
def test_commands_of_a_page_are_valid(page: str, group: Any) -> None:
    shown = [words for block in blocks_of(page) if block.language == "sh" for words in commands_in(block.code)]
    assert shown
    assert [(words, fault) for words in shown if (fault := command_fault(words, group))] == []


def test_commands_of_the_makefile_exist(group: Any) -> None:
    lines = re.findall(r"^\t.*?\$\(BIN\)/((?:genlabel|python) [^;|\n]*)", (ROOT / "Makefile").read_text(), flags=re.M)
    scripts = [words for words in map(shlex.split, lines) if words[0] == "genlabel" or words[1].endswith(".py")]
    assert len(scripts) > 4
    assert [fault for words in scripts if (fault := command_fault(words, group))] == []


@pytest.mark.parametrize("page", PAGES)
def test_options_of_commands_in_sentences_exist(page: str, group: Any) -> None:
    """A command between backticks may be incomplete: check its name and its options."""
    text = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    text = text.split("\n## 0.2.0 ")[0]  # older versions had other commands
    for command in re.findall(r"(?<!`)`(genlabel [^`]+|python benchmarks/[^`]+)`", text):
        words = shlex.split(command)
        if words[0] == "python":
            assert _script_fault(words[1], words[2:]) is None, command
            continue
        known = group.commands[words[1]]
        options = {name for param in known.params for name in (*param.opts, *param.secondary_opts)}
        assert {word.split("=")[0] for word in words[2:] if word.startswith("-") and word != "-"} <= options, command


# Python


def _no_setup(space: dict[str, Any]) -> None:
    """Add no objects: the page defines all that it uses."""


def set_up_loop(space: dict[str, Any]) -> None:
    """Add a network with named stages, and digits to train it."""
    torch.manual_seed(0)
    stages = {"stem": nn.Conv2d(1, 6, 3, padding=1), "layer1": nn.Conv2d(6, 6, 3), "layer2": nn.Conv2d(6, 6, 3)}
    rest = {"relu": nn.ReLU(), "pool": nn.AdaptiveAvgPool2d(1), "flat": nn.Flatten(), "fc": nn.Linear(6, 10)}
    X, y = load_digits(return_X_y=True)
    x, y = torch.from_numpy(X[:64] / 16.0).float().reshape(-1, 1, 8, 8), torch.from_numpy(y[:64])
    network, dataset = nn.Sequential(OrderedDict(stages | rest)), TensorDataset(x, y)
    space |= {"network": network, "dataset": dataset, "loader": DataLoader(dataset, batch_size=16)}
    space |= {"x": x[:16], "y": y[:16], "x_train": x, "y_train": y}
    space["optimizer"] = torch.optim.SGD(network.parameters(), lr=0.1)


def set_up_lightning(space: dict[str, Any]) -> None:
    """Add options that keep Lightning from writing."""
    words = ("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing")
    space["quiet"] = dict.fromkeys(words, False) | {"accelerator": "cpu", "default_root_dir": Path.cwd()}


def set_up_vit(space: dict[str, Any]) -> None:
    """Add a model of transformers, its training arguments and rows."""
    import transformers

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.ViTConfig(image_size=8, patch_size=4, num_channels=1, num_labels=10, **sizes)
    space["model"] = transformers.ViTForImageClassification(config)
    quiet = {"report_to": [], "disable_tqdm": True, "save_strategy": "no", "dataloader_pin_memory": False}
    space["arguments"] = transformers.TrainingArguments(str(Path.cwd()), max_steps=2, use_cpu=True, **quiet)
    space["rows"] = [{"pixel_values": x, "labels": int(y)} for x, y in space["dataset"]]


SETUP: dict[tuple[str, str], Callable[[dict[str, Any]], None]] = {
    ("docs/images.md", "In your own loop"): set_up_loop,
    ("docs/images.md", "Lightning"): set_up_lightning,
    ("docs/images.md", "Hugging Face transformers"): set_up_vit,
}
"""Functions that add the objects which readers of a section already have."""
PACKAGES = {
    ("docs/images.md", "Lightning"): ("pytorch_lightning",),
    ("docs/images.md", "Hugging Face transformers"): ("transformers", "accelerate"),
    ("docs/images.md", "Text: token ids"): ("transformers",),
    ("docs/densities.md", "Densities for every shape of data"): ("zuko",),
    ("docs/deploy.md", "A web service"): ("onnx", "onnxruntime", "fastapi"),
    ("docs/persistence.md", "ONNX"): ("onnx",),
}
"""Packages that the blocks of a section need; without them they are skipped."""
REPLACEMENTS = {
    "docs/commands.md": {'make_classifier("genlabel")': 'make_classifier("stacked")', ", intervals=True": ""},
}
"""Slow parts of blocks and their faster replacements."""
EXTRA_OPTIONS = {
    "genlabel fit data.csv --target churned -o model": [
        "--method",
        "vanilla",
        "--network",
        "logistic",
        "--epochs",
        "2",
    ],
    "genlabel predict model new.csv -o predictions.csv --id customer --intervals": [],
    "genlabel datasets --search glass": [],
    "genlabel reproduce --list": [],
}
"""Commands that are run, each with options that make it fast."""


def run_commands(code: str) -> None:
    for words in commands_in(code):
        if " ".join(words) in EXTRA_OPTIONS:
            result = CliRunner().invoke(app, [*words[1:], *EXTRA_OPTIONS[" ".join(words)]], prog_name="genlabel")
            assert result.exit_code == 0, result.output


def run_python(page: str, block: Block, space: dict[str, Any]) -> None:
    """Run a block; a session must print the shown output, a block that shows an error must raise it."""
    if ">>>" in block.code:
        return _run_session(page, block, space)
    code = block.code
    for text, replacement in REPLACEMENTS.get(page, {}).items():
        code = code.replace(text, replacement)
    program = compile("\n" * block.line + code, str(ROOT / page), "exec")
    if shown_error := RAISED.search(code):
        with pytest.raises(Exception, match="^" + re.escape(shown_error[2]) + "$") as raised:
            exec(program, space)
        assert type(raised.value).__name__ == shown_error[1]
        return None
    return exec(program, space)


def _run_session(page: str, block: Block, space: dict[str, Any]) -> None:
    session = doctest.DocTestParser().get_doctest(block.code, {}, page, str(ROOT / page), block.line)
    session.globs = space
    differences: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    runner.run(session, out=differences.append, clear_globs=False)
    assert not differences, "\n".join(differences)


def run_page(page: str) -> tuple[dict[str, Any], list[str]]:
    """Run a page from its top; return its namespace and the sections skipped because a package is missing."""
    space, skipped, heading = {"__name__": Path(page).stem}, list[str](), ""
    for block in blocks_of(page):
        section = (page, block.heading)
        if missing := [name for name in PACKAGES.get(section, ()) if find_spec(name) is None]:
            skipped.append(f"{block.heading}: {', '.join(missing)}")
        elif block.language == "sh":
            run_commands(block.code)
        elif block.language == "python" and block.reason is None:
            if block.heading != heading:
                SETUP.get(section, _no_setup)(space)
                heading = block.heading
            run_python(page, block, space)
    return space, skipped


SLOW_PAGES = {"docs/diagnosis.md", "docs/images.md", "docs/estimators.md", "docs/intervals.md", "docs/theory.md"}
"""Pages whose blocks train for seconds and repeat other tests: they run in the long profile."""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.long) if page in SLOW_PAGES else page
        for page in PAGES
        if python_of(page) and page not in SAME
    ],
)
@pytest.mark.filterwarnings("ignore::genlabel.DensityWarning")
@pytest.mark.usefixtures("their_own_advice")
def test_python_of_a_page_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    add_commands()
    space, skipped = run_page(page)
    if skipped:
        pytest.skip(f"not installed: {'; '.join(skipped)}")
    CHECKS.get(page, lambda space, printed: None)(space, capsys.readouterr().out)


@pytest.mark.parametrize("page", SAME)
def test_pages_with_the_same_blocks_agree(page: str) -> None:
    assert [block.code for block in python_of(page)] == [block.code for block in python_of(SAME[page])]


def test_declared_pages_and_sections_exist() -> None:
    assert {*CHECKS, *REPLACEMENTS, *SAME} <= set(PAGES)
    for page, heading in (*SETUP, *PACKAGES):
        assert heading in {block.heading for block in python_of(page)}
    shown = {" ".join(w) for page in PAGES for b in blocks_of(page) if b.language == "sh" for w in commands_in(b.code)}
    assert set(EXTRA_OPTIONS) <= shown


# Checks of the results


def check_readme(space: dict[str, Any], printed: str) -> None:
    assert space["model"].score(space["X_test"], space["y_test"]) > 0.9
    assert space["proba"].shape == (54, 3)
    right = space["network"].eval()(space["x"].float() / 16).argmax(1) == space["y"]
    assert float(right.float().mean()) > 0.9


def check_commands(space: dict[str, Any], printed: str) -> None:
    frame = pd.read_csv("predictions.csv")
    assert frame["customer"].tolist() == list(range(240, 300))
    columns = [
        "prediction",
        "probability_no",
        "probability_yes",
        "lower_probability_no",
        "upper_probability_no",
        "lower_probability_yes",
        "upper_probability_yes",
        "typicality",
        "unusual_values",
    ]
    assert frame.columns.tolist()[1:] == columns
    truth = space["customers"]["churned"][240:].to_numpy()
    assert (space["predictions"]["prediction"] == truth).mean() > 0.6
    assert space["fitted"].held_out.rows == 48


def check_densities(space: dict[str, Any], printed: str) -> None:
    np.testing.assert_allclose(space["mass"], 1.0, atol=0.02)
    assert space["classifier"].score(space["X"], space["y"]) > 0.9
    assert (space["many"].log_prob(space["X"]).argmax(1) == space["y"]).mean() > 0.97


def check_diagnosis(space: dict[str, Any], printed: str) -> None:
    from genlabel.evaluation.diagnosis.diagnose import SENTENCES

    text = (ROOT / "docs" / "diagnosis.md").read_text()
    diagnosis = space["diagnosis"]
    assert re.findall(r'verdict\.word  # "(.*)"', text) == [diagnosis.verdict.word]
    assert diagnosis.verdict.sentence in printed
    assert Path("diagnosis.png").stat().st_size > 20_000
    worst = diagnosis.to_frame("mixed_samples", 5)
    assert (set(worst["class_1"]), set(worst["class_2"])) == ({"setosa"}, {"virginica"})
    assert all(label.startswith("versicolor") for label in worst["density_label"])
    assert set(re.findall(r"^\| `([\w ]+)` \|", text, flags=re.M)) == set(SENTENCES)


def check_estimators(space: dict[str, Any], printed: str) -> None:
    wine = space["wine"]
    assert {"learning_rate", "weight_decay", "clean_fraction", "average"} <= set(wine.best_params_)
    assert 0.9 < wine.density_.report_["accuracy"] <= 1.0
    assert wine.score(space["X"], space["y"]) > 0.97
    assert space["robust"].accuracy <= space["robust"].clean
    assert space["scores"].mean() > 0.9
    assert space["model"].encode(space["rooms"]).shape == (60, 5)
    assert "100%  support" in printed


def check_extending(space: dict[str, Any], printed: str) -> None:
    X = space["X"]
    centre = np.median(X[:50], axis=0)
    scale = np.abs(X[:50] - centre).mean(0)
    laplace = (-np.abs(X - centre) / scale - np.log(2 * scale)).sum(1)
    assert np.corrcoef(laplace, space["density"].log_prob(X)[:, 0])[0, 1] > 0.999
    np.testing.assert_allclose(space["X_mix"], (X + X[space["draw"].partner]) / 2)
    assert 0.0 < space["robust"].accuracy <= space["robust"].clean
    assert space["EXPERIMENT"].render(pd.DataFrame()).grids[0].columns == ["61"]
    assert len(space["EXPERIMENT"].cells("smoke")) == 2


def check_genmix(space: dict[str, Any], printed: str) -> None:
    assert space["error"] <= 1e-6
    assert space["more"].shape == (300, 2)
    assert space["boosted"].score(space["X"], space["y"]) > 0.95
    assert space["model"].score(space["X"], space["y"]) > 0.8
    assert float(np.median(space["hidden"].misfit_)) < 0.2


def check_images(space: dict[str, Any], printed: str) -> None:
    assert space["trained"].test.accuracy > 0.9
    assert "best held-out epoch" in printed
    assert space["target"].shape == (16, 10)
    torch.testing.assert_close(space["target"].sum(1), torch.ones(16))
    module = space["Classifier"](space["network"])
    space["pl"].Trainer(max_epochs=1, **space["quiet"]).fit(module, space["loader"])
    assert float(module.mixup.density.steps) == 4.0
    assert float(space["trainer"].mixup.density.steps) == 2.0


def check_intervals(space: dict[str, Any], printed: str) -> None:
    lower, upper, proba = (space[name] for name in ("lower", "upper", "proba"))
    np.testing.assert_allclose([proba[6, 0], lower[6, 0], upper[6, 0]], [0.74, 0.19, 1.0], atol=0.1)
    np.testing.assert_allclose([proba[0, 0], lower[0, 0], upper[0, 0]], [1.0, 0.87, 1.0], atol=0.1)
    assert 0.3 < space["sure"].mean() < 0.55
    assert space["hits"][space["sure"]].mean() > 0.98
    assert space["half"].venn_abers_.y.shape == (142,)


def check_deploy(space: dict[str, Any], printed: str) -> None:
    model, X, client = space["model"], space["X"], space["client"]
    answer = pd.DataFrame(space["answer"])
    assert list(answer) == ["0", "1", "2"]
    np.testing.assert_allclose(answer, model.predict_proba(X.head(8)), atol=1e-10)
    assert [row["class"] for row in space["checked"]] == model.predict(X.head(8)).tolist()
    assert space["refused"].status_code == client.post("/predict", json=[{"alcohol": "red"}]).status_code == 422
    assert client.post("/predict", json=[]).json() == []


def check_persistence(space: dict[str, Any], printed: str) -> None:
    again, X = space["again"], space["X"]
    assert repr(again) == "<GenLabelClassifier for 14 columns and 3 classes>"
    np.testing.assert_array_equal(again.predict_proba(X), space["model"].predict_proba(X))
    assert space["path"].stat().st_size > 4 * space["small"].stat().st_size


def check_stacked_density(space: dict[str, Any], printed: str) -> None:
    assert space["model"].report_["log_loss"] < 0.5
    assert space["labeler"].density_.report_["chosen"]


def check_integrations(space: dict[str, Any], printed: str) -> None:
    torch.testing.assert_close(space["target"].sum(1), torch.ones(len(space["target"])))
    assert bool(space["net"].weight.grad.abs().sum() > 0)
    right = space["network"](torch.from_numpy(space["X_train"])).argmax(1) == torch.from_numpy(space["y_train"])
    assert float(right.float().mean()) > 0.95


def check_report(space: dict[str, Any], printed: str) -> None:
    text = re.sub(r"<[^>]+>|\s+", " ", Path("iris.html").read_text(encoding="utf-8"))
    assert "the program that made it" in " ".join(text.split())
    assert (ROOT / "docs" / "images" / "report.png").stat().st_size < 150_000


def check_typicality(space: dict[str, Any], printed: str) -> None:
    assert (space["typicality"] <= 0.05).mean() <= 0.12
    assert (space["model"].typicality(space["odd"]) <= 0.05).all()
    first = space["model"].unusual_values(space["odd"]).iloc[0].tolist()
    assert first == [0, "color_intensity", pytest.approx(43.8), pytest.approx(1.95), pytest.approx(13.0)]
    gains = space["model"].atypical_columns(space["odd"][:3])
    assert gains.idxmax(axis=1).tolist() == ["color_intensity"] * 3


def check_explain(space: dict[str, Any], printed: str) -> None:
    explanation = space["explanation"]
    assert explanation.contributions.shape == (2, 14, 3)
    total = explanation.contributions.sum(axis=1) + explanation.base
    np.testing.assert_allclose(total, space["model"].predict_proba(space["X"][1:3]), atol=1e-10)


def check_tables(space: dict[str, Any], printed: str) -> None:
    assert space["table"].X.columns.tolist() == ["price"]
    assert any("left out column 'order'" in note for note in space["table"].notes)


def check_theory(space: dict[str, Any], printed: str) -> None:
    assert sum(block.code.count(">>>") for block in python_of("docs/theory.md")) > 60


CHECKS: dict[str, Callable[[dict[str, Any], str], None]] = {
    "README.md": check_readme,
    "docs/commands.md": check_commands,
    "docs/densities.md": check_densities,
    "docs/deploy.md": check_deploy,
    "docs/diagnosis.md": check_diagnosis,
    "docs/estimators.md": check_estimators,
    "docs/explain.md": check_explain,
    "docs/extending.md": check_extending,
    "docs/genmix.md": check_genmix,
    "docs/images.md": check_images,
    "docs/intervals.md": check_intervals,
    "docs/persistence.md": check_persistence,
    "docs/stacked-density.md": check_stacked_density,
    "docs/integrations.md": check_integrations,
    "docs/report.md": check_report,
    "docs/typicality.md": check_typicality,
    "docs/tables.md": check_tables,
    "docs/theory.md": check_theory,
}
"""Checks of the namespace that the blocks of a page leave, and of all printed output."""
