"""What the documents show must run: README's blocks, the benchmarks' front door."""

import doctest
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, load_wine

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "README.md").exists(), reason="needs the source tree")


def blocks(*path: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", ROOT.joinpath(*path).read_text(), flags=re.S)


def readme_blocks() -> list[str]:
    return blocks("README.md")


def test_the_block_on_label_models_runs() -> None:
    space: dict[str, Any] = {}
    exec(blocks("docs", "label-models.md")[0], space)
    assert space["model"].report_["log_loss"] < 0.5
    assert space["labeler"].density_.report_["chosen"]


def test_the_blocks_on_genmix_run_one_after_the_other() -> None:
    space: dict[str, Any] = {}
    for block in blocks("docs", "genmix.md"):
        exec(block, space)
    assert space["error"] <= 1e-6
    assert space["more"].shape == (300, 2)
    assert space["boosted"].score(space["X"], space["y"]) > 0.95
    assert space["model"].score(space["X"], space["y"]) > 0.8
    assert float(np.median(space["hidden"].misfit_)) < 0.2


def test_the_blocks_of_the_theory_page_print_what_they_show() -> None:
    text = "\n".join(blocks("docs", "theory.md"))
    assert text.count(">>>") > 60
    page = doctest.DocTestParser().get_doctest(text, {}, "docs/theory.md", None, None)
    said: list[str] = []
    doctest.DocTestRunner().run(page, out=said.append)
    assert not said, "\n".join(said)


def test_the_theory_block_runs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(readme_blocks()[0], {})
    assert "mix > gen >= adv holds" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::genlabel.DensityWarning")
def test_the_scikit_learn_block_runs() -> None:
    space: dict[str, Any] = {}
    exec(readme_blocks()[1], space)
    assert {"learning_rate", "weight_decay", "clean_weight", "average"} <= set(space["model"].best_params_)
    assert 0.9 < space["model"].label_model_.report_["accuracy"] <= 1.0
    assert space["model"].score(space["X"], space["y"]) > 0.97


def test_the_pytorch_block_runs_and_its_loss_reaches_the_network() -> None:
    X, y = load_wine(return_X_y=True)
    X = ((X - X.mean(0)) / X.std(0)).astype(np.float32)
    net = torch.nn.Linear(13, 3)
    batch = torch.from_numpy(X), torch.from_numpy(y)
    space: dict[str, Any] = {"X_train": X, "y_train": y, "loader": [batch], "net": net}
    exec(readme_blocks()[2], space)
    space["loss"].backward()
    assert net.weight.grad is not None
    assert bool(net.weight.grad.abs().sum() > 0)
    torch.testing.assert_close(space["target"].sum(1), torch.ones(178))
    exec(readme_blocks()[3], space)
    found = space["network"](batch[0]).argmax(1)
    assert float((found == batch[1]).float().mean()) > 0.95


@pytest.mark.filterwarnings("ignore::genlabel.GenMixWarning")
def test_the_block_on_points_between_the_classes_runs() -> None:
    X, y = load_wine(return_X_y=True)
    space: dict[str, Any] = {"X": X / X.std(0), "y": y}
    exec(readme_blocks()[4], space)
    assert space["X_more"].shape == (267, 13)
    assert space["boosted"].score(space["X"], y) > 0.95


def test_the_block_on_images_in_a_loop_trains_the_network() -> None:
    x, y = load_digits(return_X_y=True)
    network = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    x, y = torch.from_numpy(x / 16).float(), torch.from_numpy(y)
    loader = list(zip(x.split(64), y.split(64), strict=True)) * 10
    space = {"network": network, "loader": loader, "optimizer": torch.optim.Adam(network.parameters(), 0.01)}
    exec(readme_blocks()[5], space)
    network.eval()
    assert float((network(x).argmax(1) == y).float().mean()) > 0.9


@pytest.mark.parametrize(
    ("word", "code", "told"),
    [("--help", 0, "which of search, kernel, labels, default, two_circle"),
     ("speed", 2, "unknown benchmark 'speed'; choose among search")],
)  # fmt: skip
def test_the_benchmarks_say_what_there_is(
    word: str, code: int, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", word])
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "benchmarks" / "run.py"), run_name="__main__")
    assert ended.value.code == code
    assert told in " ".join("".join(capsys.readouterr()).split())


def test_the_block_on_images_runs(capsys: pytest.CaptureFixture[str]) -> None:
    space: dict[str, Any] = {}
    exec(blocks("docs", "images.md")[0], space)
    assert space["trained"].test.accuracy > 0.9
    assert "best held-out epoch" in capsys.readouterr().out


def test_the_block_on_densities_runs() -> None:
    pytest.importorskip("zuko", reason="flows need the package zuko")
    space: dict[str, Any] = {}
    exec(blocks("docs", "densities.md")[0], space)
    np.testing.assert_allclose(space["mass"], 1.0, atol=0.02)
    assert space["classifier"].score(space["X"], space["y"]) > 0.9
    assert (space["many"].log_prob(space["X"]).argmax(1) == space["y"]).mean() > 0.97


@pytest.mark.filterwarnings("ignore::genlabel.DensityWarning")
def test_the_block_on_support_runs_and_says_what_it_found() -> None:
    space: dict[str, Any] = {}
    exec(blocks("docs", "support.md")[0], space)
    assert (space["support"] <= 0.05).mean() <= 0.12
    assert (space["model"].support(space["odd"]) <= 0.05).all()
    assert space["model"].support_.columns(space["odd"][:3]).argmax(1).tolist() == [9, 9, 9]


@pytest.mark.filterwarnings("ignore::genlabel.DensityWarning")
def test_the_block_on_intervals_runs_and_says_what_it_found() -> None:
    space: dict[str, Any] = {}
    exec(blocks("docs", "intervals.md")[0], space)
    lower, upper, proba = (space[name] for name in ("lower", "upper", "proba"))
    np.testing.assert_allclose([proba[6, 0], lower[6, 0], upper[6, 0]], [0.74, 0.19, 1.0], atol=0.1)
    np.testing.assert_allclose([proba[0, 0], lower[0, 0], upper[0, 0]], [1.0, 0.87, 1.0], atol=0.1)
    assert 0.3 < space["sure"].mean() < 0.55
    assert space["hits"][space["sure"]].mean() > 0.98
    assert space["half"].calibration_.y.shape == (142,)


@pytest.mark.filterwarnings("ignore::genlabel.DensityWarning")
def test_the_blocks_on_keeping_run_and_the_model_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx", reason="the last block needs the package onnx")
    first, refused, exported = blocks("docs", "keeping.md")
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {}
    exec(first, space)
    assert repr(space["again"]) == "<GenLabelClassifier for 14 columns and 3 classes>"
    np.testing.assert_array_equal(space["again"].predict_proba(space["X"]), space["model"].predict_proba(space["X"]))
    code, told = refused.strip().split("\n")
    with pytest.raises(ValueError, match="^" + re.escape(told.removeprefix("# ValueError: ")) + "$"):
        exec(code, space)
    exec(exported, space)
    assert space["path"].stat().st_size > 1000


@pytest.mark.filterwarnings("ignore::genlabel.DensityWarning")
def test_the_blocks_on_estimators_run_one_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    space: dict[str, Any] = {}
    for block in blocks("docs", "estimators.md"):
        exec(block, space)
    assert space["model"].numbers_of(space["rooms"]).shape == (60, 5)
    assert "100%  support" in capsys.readouterr().out
