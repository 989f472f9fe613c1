"""Table 7: printed values and settings against the LaTeX source, one trial per method, and a run on digits."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch._dynamo.testing import CompileCounter
from typer.testing import CliRunner

from genlabel.cli import add_commands, app
from genlabel.data.datasets import load_images
from genlabel.evaluation.images import ImageScores, TrainedImages, _TrainingHistory
from genlabel.evaluation.records import open_store
from genlabel.training.image_batches import predict_scores
from genlabel.training.networks import LeNet5, PreActResNet18, ResNet18
from genlabel.training.networks.convolutional import Stages
from genlabel_paper.experiments.table7 import CLEAN, EXPERIMENT, PRINTED, ROBUST, ROWS
from genlabel_paper.exports import export_records, load_records
from genlabel_paper.report.experiment import Experiment, select_cells
from genlabel_paper.report.layout import format_verdict
from genlabel_paper.report.results import Rendering
from genlabel_paper.runs import images
from genlabel_paper.runs.cells import BUDGETS, PAPER_SCHEMA, Cell
from genlabel_paper.runs.images import _robust_accuracy
from genlabel_paper.runs.methods import TITLES
from genlabel_paper.runs.schedules import (
    IMAGE_DATASETS,
    SCHEDULES,
    SEEDS,
    Kind,
    image_methods,
    image_run,
    schedule_of,
)
from genlabel_paper.runs.settings import SETTINGS
from genlabel_paper.runs.trials import _fingerprint, fingerprint_cell, order, run_trial

TEX = Path(__file__).parents[3] / "shared" / "paper" / "genlabel.tex"
needs_source = pytest.mark.skipif(not TEX.exists(), reason=f"the paper's source is not at {TEX}")
KEYS = {
    "Vanilla": "vanilla",
    "AdaMixup": "adamixup",
    "Mixup": "mixup",
    "Mixup+GenLabel": "mixup-genlabel",
    "Manifold mixup": "manifold",
    "Manifold mixup+GenLabel": "manifold-genlabel",
}
SETS = ["mnist", "cifar10", "cifar100", "tinyimagenet"]
NETWORKS = {"LeNet-5": "lenet5", "ResNet-18": "resnet18", "PreAct ResNet-18": "preact-resnet18"}
KINDS: dict[Kind, str] = {"clean": "Table:real_cln_settings", "robust": "Table:real_rob_settings"}


def cells_of_table(label: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the rows of a table of the source that begin with a method: its key and its other cells."""
    text = TEX.read_text()
    end = text.index(r"\end{table}", text.index(rf"\label{{{label}}}"))
    table = text[text.rindex(r"\begin{table}", 0, end) : end]
    plain = re.sub(r"\\gray[lc]|\\textbf|[{}$]", "", table)
    for line in plain.split(r"\\"):
        cells = [cell.strip() for cell in line.split("&")]
        indices = [index for index, cell in enumerate(cells) if cell.split("\n")[-1].strip() in KEYS]
        if indices:
            key = KEYS[cells[indices[0]].split("\n")[-1].strip()]
            yield key, cells[indices[0] + 1 :]


def number(word: str) -> float | None:
    if word == "-":
        return None
    numerator, _, denominator = word.partition("/")
    return float(numerator) / float(denominator or 1)


@needs_source
def test_printed_values_equal_the_source() -> None:
    expected = {"robust": {}, "clean": {}}
    for key, cells in cells_of_table("Table:GenLabel_real_datasets"):
        for column, cell in enumerate(cells):
            if cell != "-":
                mean, spread = map(float, re.split(r"\\pm", cell))
                expected[("robust", "clean")[column % 2]][key, SETS[column // 2]] = (mean, spread)
    for kind, values in PRINTED.items():
        assert {key: (value.mean, value.spread) for key, value in values.items()} == expected[kind]
    assert (len(CLEAN), len(ROBUST)) == (22, 20)


@needs_source
@pytest.mark.parametrize("kind", KINDS)
def test_settings_equal_the_source(kind: Kind) -> None:
    rows = list(cells_of_table(KINDS[kind]))
    assert len(rows) == 22
    index = -1
    for key, (network, rate, radius, gamma, beta) in rows:
        index += key == "vanilla"
        run, method = image_run(kind, SETS[index]), image_methods(SETS[index])[key]
        assert (run.network, run.learning_rate, run.radius) == (NETWORKS[network], number(rate), number(radius))
        training = SETTINGS[schedule_of("full", kind, SETS[index]).name].describe(SETS[index], method.variant)[
            "training"
        ]
        assert (training.get("gamma"), training.get("beta")) == (number(gamma), number(beta))
        assert (training["network"], training["learning_rate"]) == (NETWORKS[network], number(rate))


PRINTED_SETTINGS = [
    ("clean", "mnist", "lenet5", 0.1, None, (0.15, 0.95), (0.15, 0.99)),
    ("clean", "cifar10", "resnet18", 0.1, None, (0.1, 0.95), (0.1, 0.95)),
    ("clean", "cifar100", "preact-resnet18", 0.1, None, (0.1, 0.97), (0.1, 0.97)),
    ("clean", "tinyimagenet", "preact-resnet18", 0.1, None, (0.05, 0.995), (0.05, 0.995)),
    ("robust", "mnist", "lenet5", 0.001, 0.1, (0.15, 0.97), (0.15, 0.97)),
    ("robust", "cifar10", "resnet18", 0.001, 2 / 255, (0.15, 0.9), (0.15, 0.9)),
    ("robust", "cifar100", "preact-resnet18", 0.001, 1 / 255, (0.15, 0.97), (0.15, 0.97)),
    ("robust", "tinyimagenet", "preact-resnet18", 0.002, 1 / 255, (0.15, 0.995), (0.15, 0.995)),
]


@pytest.mark.parametrize(
    "kind, dataset, network, rate, radius, mixup, manifold",
    PRINTED_SETTINGS,
    ids=[f"{row[0]}-{row[1]}" for row in PRINTED_SETTINGS],
)
def test_training_settings_equal_tables_13_and_14(
    kind: Kind, dataset: str, network: str, rate: float, radius: float | None, mixup: Any, manifold: Any
) -> None:
    schedule = schedule_of("full", kind, dataset)
    setting, methods = SETTINGS[schedule.name], image_methods(dataset)
    assert (schedule.name, schedule.paper) == (f"images-{kind}-{200 if kind == 'clean' else 50}", True)
    for key, method in methods.items():
        description = setting.describe(dataset, method.variant)
        training = description["training"]
        assert (training["network"], training["learning_rate"]) == (network, rate)
        assert (training["epochs"], training["weight_decay"], training["batch_size"]) == (schedule.epochs, 1e-4, 128)
        assert training["optimizer"].momentum == 0.9
        assert (description["attack"] or {}).get("radius") == radius
        expected = {
            "mixup-genlabel": mixup,
            "mixup-genlabel-default": mixup,
            "mixup-genlabel-auto": ("auto", mixup[1]),
            "manifold-genlabel": manifold,
        }.get(key)
        assert (training.get("gamma"), training.get("beta")) == (expected or (None, None))
        assert training.get("alpha") == (2.0 if "manifold" in key else 1.0 if "mixup" in key[:5] else None)
        per_sample = ("mixup-sample", "mixup-genlabel-default", "mixup-genlabel-auto")
        assert training.get("lam_per", "batch") == ("sample" if key in per_sample else "batch")
        statistics = dict.fromkeys(("mixup-genlabel", "manifold-genlabel"), "clean")
        statistics |= dict.fromkeys(("mixup-genlabel-default", "mixup-genlabel-auto"), "near")
        assert training.get("statistics") == statistics.get(key)
    assert ("adamixup" in methods) == (dataset in ("mnist", "cifar10"))


def test_trial_has_one_method_on_images_and_all_methods_on_tables() -> None:
    one, other = (Cell("images-clean-30", "mnist", method, 0, 1) for method in ("mixup", "vanilla"))
    assert one.trial != other.trial
    assert one.trial.method == "mixup"
    first, second = (Cell("logistic", "61", method, 0, 1) for method in ("mixup", "vanilla"))
    assert first.trial == second.trial == ("logistic", "61", 0, 1, "")


@pytest.mark.parametrize("budget", BUDGETS)
def test_cells_of_different_schedules_differ(budget: str) -> None:
    cells = [*EXPERIMENT.cells(budget), *EXPERIMENT.further(budget)]
    assert len(set(cells)) == len(cells)
    assert {cell.seed for cell in cells} == set(range(SEEDS[budget]))
    others = [cell for name in BUDGETS if name != budget for cell in EXPERIMENT.cells(name)]
    for cell in set(cells) & set(others):
        assert schedule_of(budget, SCHEDULES[cell.setting].kind, cell.dataset) == SCHEDULES[cell.setting]
    assert all(SCHEDULES[cell.setting].paper for cell in EXPERIMENT.cells("full"))
    ordered = [trial.dataset for trial in sorted((cell.trial for cell in cells if cell.seed == 0), key=order)]
    assert ordered[0] not in ("mnist", "digits")
    assert ordered[-1] in ("mnist", "digits")


@pytest.mark.parametrize("change", [{"epochs": 7}, {"attacked": 10}, {"images": 100}, {"tests": 10}], ids=str)
def test_edited_schedule_has_another_fingerprint(monkeypatch: pytest.MonkeyPatch, change: dict[str, int]) -> None:
    cell = Cell("images-robust-10", "cifar10", "mixup", 0, 0)
    before = fingerprint_cell(cell)
    setting = SETTINGS[cell.setting]
    monkeypatch.setitem(images.SETTINGS, cell.setting, replace(setting, schedule=replace(setting.schedule, **change)))
    _fingerprint.cache_clear()
    after = fingerprint_cell(cell)
    _fingerprint.cache_clear()
    assert after != before


def records_of(values: dict[str, dict[tuple[str, str], float]]) -> pd.DataFrame:
    """Return records by setting, method and dataset."""
    rows = []
    for setting, scores in values.items():
        metric = "robust_accuracy" if SCHEDULES[setting].kind == "robust" else "accuracy"
        parameters = {"attacked": 50} if SCHEDULES[setting].kind == "robust" else {}
        for (method, dataset), value in scores.items():
            alpha = image_methods(dataset)[method].variant[1]
            row = {"setting": setting, "dataset": dataset, "method": method, "alpha": alpha, "split": 0, "seed": 0}
            rows.append(row | {metric: value, "parameters": parameters, "best_accuracy": 12.34})
    frame = pd.DataFrame(rows)
    return pd.concat([frame, frame.assign(seed=1)], ignore_index=True)


def printed(kind: str, *datasets: str) -> dict[tuple[str, str], float]:
    return {key: value.mean for key, value in PRINTED[kind].items() if key[1] in (datasets or SETS)}


def test_printed_values_support_all_statements() -> None:
    rendering = EXPERIMENT.render(
        records_of({"images-clean-200": printed("clean"), "images-robust-50": printed("robust")})
    )
    assert [claim.holds for claim in rendering.claims] == [True] * 5
    assert [format_verdict(claim)[1] for claim in rendering.claims] == ["holds so far"] * 5
    assert {claim.full for claim in rendering.claims} == {5}
    assert "on 4 of 4 datasets; differences from +0.09 to +0.41 points" in rendering.claims[0].ours


def test_each_schedule_has_its_own_table(
    as_text: Callable[[Experiment, Rendering, int], str],
) -> None:
    worse = {("mixup", "mnist"): 90.0, ("mixup-genlabel", "mnist"): 89.0}
    digits = {(method, "digits"): 50.0 for method in ROWS}
    records = records_of(
        {"images-clean-200": printed("clean", "cifar10"), "images-clean-40": worse, "images-clean-smoke-15": digits}
    )
    rendering = EXPERIMENT.render(records)
    titles = {grid.title: grid for grid in rendering.grids}
    assert list(titles["Clean accuracy, 200 epochs"].columns) == ["cifar10", "cifar100", "tinyimagenet"]
    assert list(titles["Clean accuracy, 40 epochs"].columns) == ["mnist"]
    assert list(titles["Clean accuracy, 15 epochs of at most 2,000 images"].columns) == ["digits"]
    assert list(titles["Robust accuracy (AutoAttack), 50 epochs"].columns) == SETS
    best = titles["Clean accuracy of the epoch that is best on held-out images, 40 epochs"]
    assert all(value.paper is None for _, row in best.rows for value in row)
    by_text = {claim.text: claim for claim in rendering.claims}
    assert (
        by_text["Mixup + GenLabel has a higher clean accuracy than mixup on every dataset, after 40 epochs."].holds
        is False
    )
    assert sum("digits" in claim.ours for claim in rendering.claims) == 0
    text = as_text(EXPERIMENT, rendering, 120)
    assert "12.34" in text
    assert "A schedule shorter than the paper's" in " ".join(text.split())
    assert not any("shorter" in note for note in EXPERIMENT.render(pd.DataFrame()).notes)


def test_cells_are_selected_by_dataset() -> None:
    assert {cell.dataset for cell in select_cells([EXPERIMENT], "quick")} == set(SETS)
    assert {cell.dataset for cell in select_cells([EXPERIMENT], "quick", ["digits", "mnist"])} == {"digits", "mnist"}
    with pytest.raises(ValueError, match="'cifar'"):
        select_cells([EXPERIMENT], "full", ["cifar"])
    assert {name for name, about in IMAGE_DATASETS.items() if about.printed} == set(SETS)


def run(*words: str | Path) -> tuple[int, str]:
    add_commands()
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.output


FEW_METHODS = ["vanilla", "adamixup", "mixup-genlabel"]
"""A method of each training loop: plain training, AdaMixup, GenLabel."""


@pytest.mark.long
@pytest.mark.parametrize("rows", [FEW_METHODS, ROWS], ids=["few", "all"])
def test_table7_on_digits_end_to_end(rows: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Train clean and attack with AutoAttack; MNIST, which is missing, fails alone and is named."""
    pytest.importorskip("pyautoattack", reason="AutoAttack needs pyautoattack")
    chosen = {name: method for name, method in image_methods("digits").items() if name in rows}
    monkeypatch.setattr("genlabel_paper.experiments.table7.image_methods", lambda _: chosen)
    count = 2 * len(rows)
    store, page, exports = tmp_path / "records.sqlite", tmp_path / "page.html", tmp_path / "results"
    words = ("reproduce", "table7", "--budget", "smoke", "--jobs", "1", "--records", store, "--data-home", tmp_path)
    code, text = run(*words, "--dataset", "digits", "--dataset", "mnist")
    assert code == 1, text
    assert "mnist" in text
    assert f"failed: {count} of the trials" in text
    records = load_records(store, PAPER_SCHEMA).frame
    assert len(records) == count
    for kind in ("clean", "robust"):
        part = records[records["setting"] == f"images-{kind}-smoke-15"]
        assert set(part["method"]) == set(rows)
        assert part[["accuracy", "log_loss", "best_accuracy"]].notna().all(axis=None)
        assert all(TITLES[method] in text for method in part["method"])
    untrained = 1 / 10
    assert (records.loc[records["method"] == "vanilla", "accuracy"] > 5 * untrained).all()
    assert (records["accuracy"] > 2 * untrained).all()
    robust = records[records["setting"] == "images-robust-smoke-15"]
    assert robust["robust_accuracy"].between(0.0, 0.5).all()
    assert {(params["epochs"], params["train_rows"]) for params in records["parameters"]} == {(15, 1438)}
    assert all(0 < params["attacked"] <= 50 for params in robust["parameters"])
    assert records.loc[records["setting"] == "images-clean-smoke-15", "robust_accuracy"].isna().all()

    code, text = run(*words, "--dataset", "digits")
    assert code == 0
    assert f"cells recorded: {count}; to do: 0" in text
    code, text = run("reproduce", "table7", "--report-only", "--report", page, "--records", store, "--export", exports)
    assert code == 0, text
    assert f"{100 * records['best_accuracy'].iloc[0]:.2f}" in page.read_text()
    assert f"Trials that failed: {count}" in page.read_text()
    assert sorted(path.name for path in exports.iterdir()) == [
        "images-clean-smoke-15.json",
        "images-robust-smoke-15.json",
    ]
    assert json.loads((exports / "images-clean-smoke-15.json").read_text())["lines"]
    assert load_records(exports, PAPER_SCHEMA).frame["id"].tolist() == records["id"].tolist()


def test_an_interrupted_training_continues_to_the_same_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell("images-clean-smoke-15", "digits", "mixup-genlabel", 0, 0, 1.0)
    (whole,) = run_trial([cell])
    epochs = []

    def stop_at_nine(history: Any, epoch: int, logs: Any) -> None:
        on_epoch_end(history, epoch, logs)
        epochs.append(epoch)
        if len(epochs) == 9:
            raise KeyboardInterrupt

    on_epoch_end = _TrainingHistory.on_epoch_end
    monkeypatch.setattr(_TrainingHistory, "on_epoch_end", stop_at_nine)
    with pytest.raises(KeyboardInterrupt):
        run_trial([cell], None, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2  # the checkpoint and its history
    (resumed,) = run_trial([cell], None, tmp_path)
    assert epochs == [*range(9), *range(8, 15)]  # the state of 8 epochs was saved
    assert resumed["metrics"] == whole["metrics"]
    assert resumed["parameters"]["best_epoch"] == whole["parameters"]["best_epoch"]
    assert not list(tmp_path.iterdir())


def test_the_best_epoch_under_attack_is_chosen_on_held_out_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack is replaced by one whose success is known; the epoch of its least success is kept."""
    accuracy = {5: 0.2, 10: 0.6, 15: 0.6}
    network, digits = LeNet5(size=8, seed=0), load_images("digits")
    snapshots = {
        epoch: {name: torch.full_like(value, epoch) for name, value in network.state_dict().items()}
        for epoch in accuracy
    }
    held_out = np.arange(100, 300)
    last = (ImageScores(0.0, 0.0), None, None, None, 0.0)
    trained = TrainedImages(network, ("", {}), digits.classes, [], *last, held_out, snapshots)
    attacked = []

    def attack(model: Any, x: Any, y: Any, *_: Any, **__: Any) -> Any:
        attacked.append({tuple(image.ravel()) for image in x})
        return SimpleNamespace(accuracy=accuracy[int(next(model.parameters()).detach().mean())])

    monkeypatch.setattr(images, "robust_accuracy", attack)
    assert images._load_best_under_attack(trained, digits, 500, 0.1) == 15
    assert float(next(network.parameters()).detach().mean()) == 15.0
    assert all(
        len(one) == 100 and one <= {tuple(image.ravel()) for image in digits.x_train[held_out]} for one in attacked
    )


def test_cells_are_selected_by_method_seed_and_setting() -> None:
    chosen = select_cells([EXPERIMENT], "full", ["cifar10"], ["mixup", "vanilla"], [2], ["images-clean-200"])
    assert {cell.method for cell in chosen} == {"mixup", "vanilla"}
    assert {(cell.setting, cell.dataset, cell.seed) for cell in chosen} == {("images-clean-200", "cifar10", 2)}
    for wrong in ({"methods": ["mixupp"]}, {"seeds": [9]}, {"settings": ["images"]}):
        with pytest.raises(ValueError, match="choose"):
            select_cells([EXPERIMENT], "full", **wrong)


def test_no_trial_starts_that_the_minutes_cannot_hold(tmp_path: Path) -> None:
    """A record of 90 s leaves room for one of the two short trials, in one minute for none; then a run goes on."""
    store = tmp_path / "records.sqlite"
    words = ("reproduce", "table7", "--budget", "smoke", "--jobs", "1", "--dataset", "digits", "--records", store)
    words += ("--setting", "images-clean-smoke-15", "--method", "vanilla")
    slow = Cell("images-clean-smoke-15", "digits", "mixup", 0, 0, 1.0)
    exports = tmp_path / "exports"
    with open_store(tmp_path / "other.sqlite", PAPER_SCHEMA) as other:
        record = {"key": slow, "parameters": {}, "metrics": {"accuracy": 0.5}, "seconds": 90.0, "versions": {}}
        other.write([record], {slow.id: fingerprint_cell(slow)})
        exports.mkdir()
        export_records(other.read().frame, exports / "images-clean-smoke-15.json", PAPER_SCHEMA)
    code, text = run(*words, "--minutes", "1", "--start-from", exports)
    assert code == 0, text
    assert "about 1.5 minutes" in text
    assert "left for a later run: 1 trial" in text
    assert load_records(store, PAPER_SCHEMA).frame["method"].tolist() == ["mixup"]
    code, text = run(*words, "--minutes", "3", "--start-from", exports)
    assert code == 0, text
    assert sorted(load_records(store, PAPER_SCHEMA).frame["method"]) == ["mixup", "vanilla"]
    checkpoints = tmp_path / "records.checkpoints"
    assert not list(checkpoints.iterdir())
    (checkpoints / "of another run.pt").touch()
    assert run(*words, "--minutes", "3", "--restart")[0] == 0
    assert not list(checkpoints.iterdir())
    assert run(*words, "--minutes", "0")[0] == 2


@pytest.mark.parametrize("kind", [ResNet18, PreActResNet18], ids=lambda kind: kind.__name__)
def test_attack_compiles_nothing(kind: type[Stages]) -> None:
    """A network that was compiled for training runs uncompiled under attack."""
    pytest.importorskip("pyautoattack")
    digits, network = load_images("digits"), kind(in_channels=1, width=1, seed=0).eval()
    counter = CompileCounter()
    for region in network.regions:
        region.compile(backend=counter, dynamic=False)
    x = digits.x_test[:20]
    wrong = np.asarray(predict_scores(network, x).argmin(1))  # every label is wrong: no image is attacked, only scored
    trained = TrainedImages(network, ("", {}), digits.classes, [], ImageScores(0.0, 0.0), None, None, None, 0.0)
    assert _robust_accuracy(trained, digits._replace(x_test=x, y_test=wrong), 20, 0.1) == 0.0
    assert counter.frame_count == 0
    with torch.no_grad():
        network(torch.from_numpy(x) / 255)
    assert counter.frame_count > 0
