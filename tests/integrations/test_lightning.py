"""Test the Lightning callback with the real package: training batches are mixed, and checkpoints hold its state."""

import csv
import doctest
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

from genlabel import GaussianDensity, GenLabelMixup, ManifoldMixup, Mixup
from genlabel.integrations.batches import MixedBatch

pytestmark = [
    pytest.mark.usefixtures("their_own_advice"),
    pytest.mark.skipif(find_spec("pytorch_lightning") is None, reason="needs the extra lightning"),
]


@cache
def on_lightning(kind: type) -> type:
    """Return a class derived from LightningModule; the import is late because every worker collects the tests."""
    return type(kind.__name__, (kind, import_module("pytorch_lightning").LightningModule), {})


class PlainModule:
    """A plain module that records the targets of its batches."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))
        self.targets: dict[str, list[Tensor]] = {"train": [], "valid": []}
        self.losses: list[float] = []

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)

    def training_step(self, batch: Any, index: int) -> Tensor:
        x, y = batch
        self.targets["train"].append(y)
        loss = cross_entropy(self(x), y)
        self.losses.append(float(loss.detach()))
        return loss

    def validation_step(self, batch: Any, index: int) -> Tensor:
        self.targets["valid"].append(batch[1])
        return cross_entropy(self(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class MixingModule(PlainModule):
    """A module that mixes in its training step, without the callback."""

    def __init__(self) -> None:
        super().__init__()
        self.mixup = GenLabelMixup(
            self.net, num_classes=10, mixer=ManifoldMixup(depths=(0, 1)), mix_layers=("", "2"), gamma=0.3
        )  # fmt: skip

    def training_step(self, batch: Any, index: int) -> Tensor:
        mixed = self.mixup.mix(*batch)
        scores = self(mixed.x)
        self.targets["train"].append(mixed.target(scores))
        loss = mixed.loss(scores)
        self.losses.append(float(loss.detach()))
        return loss


def fit(module: Any, digits: tuple[Tensor, Tensor], folder: Path, *callbacks: Any, epochs: int = 2, **more: Any) -> Any:
    loader = DataLoader(TensorDataset(*digits), batch_size=20)
    trainer = import_module("pytorch_lightning").Trainer(
        max_epochs=epochs, accelerator="cpu", devices=1, logger=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=list(callbacks), default_root_dir=folder, enable_checkpointing=False,
    )  # fmt: skip
    trainer.fit(module, loader, loader, **more)
    return trainer


def make(digits: tuple[Tensor, Tensor], module: Any, kind: str) -> GenLabelMixup:
    if kind == "density":
        density = GaussianDensity(shrinkage=0.5).fit(digits[0].flatten(1), digits[1])
        return GenLabelMixup(num_classes=10, density=density, gamma=0.5)
    if kind == "average":
        return GenLabelMixup(module.net, num_classes=10, teacher="ema", gamma=0.1)
    return GenLabelMixup(num_classes=10, gamma=0.0, mixer=Mixup(lam_per="batch"))


@pytest.mark.parametrize("kind", ["density", "average", "mixup"])
def test_training_is_mixed_and_validation_is_not(kind: str, digits: tuple[Tensor, Tensor], tmp_path: Path) -> None:
    from genlabel.integrations import GenLabelCallback

    module = on_lightning(PlainModule)()
    mixup = make(digits, module, kind)
    fit(module, digits, tmp_path, GenLabelCallback(mixup))
    assert len(module.targets["train"]) == 8
    for target in module.targets["train"]:
        assert target.dtype == torch.float32
        assert target.shape[1] == 10
        torch.testing.assert_close(target.sum(1), torch.ones(len(target)))
    assert int((torch.cat(module.targets["train"]).max(1).values < 0.95).sum()) > 64
    for y in module.targets["valid"]:
        assert y.dtype == torch.int64
    if kind == "average":
        assert float(mixup.teacher.updates) == 8.0
        assert float(mixup.density.steps) == 8.0


class ListLoader:
    """The same batches in every epoch."""

    def __init__(self, batches: list[list[Tensor]]) -> None:
        self.batches = batches

    def __iter__(self) -> Iterator[list[Tensor]]:
        return iter(self.batches)

    def __len__(self) -> int:
        return len(self.batches)


def test_reused_batches_are_not_mixed_twice(digits: tuple[Tensor, Tensor], tmp_path: Path) -> None:
    from genlabel.integrations import GenLabelCallback

    batches = [[digits[0][:32], digits[1][:32]], [digits[0][32:], digits[1][32:]]]
    module = on_lightning(PlainModule)()
    trainer = import_module("pytorch_lightning").Trainer(
        max_epochs=2, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
        callbacks=[GenLabelCallback(make(digits, module, "mixup"))], default_root_dir=tmp_path,
        enable_checkpointing=False,
    )  # fmt: skip
    trainer.fit(module, ListLoader(batches))
    assert batches[0][1].dtype == torch.int64
    assert torch.equal(batches[1][0], digits[0][32:])


def test_mixing_in_the_training_step_is_saved_in_the_checkpoint(digits: tuple[Tensor, Tensor], tmp_path: Path) -> None:
    module = on_lightning(MixingModule)()
    trainer = fit(module, digits, tmp_path)
    assert float(module.mixup.density.steps) == 8.0
    assert module.losses[-1] < module.losses[0]
    trainer.save_checkpoint(tmp_path / "run.ckpt")
    whole, resumed = on_lightning(MixingModule)(), on_lightning(MixingModule)()
    fit(whole, digits, tmp_path, epochs=3)
    fit(resumed, digits, tmp_path, epochs=3, ckpt_path=str(tmp_path / "run.ckpt"))
    assert resumed.losses == pytest.approx(whole.losses[8:], abs=1e-6)


def test_the_checkpoint_holds_the_state_of_the_callback(digits: tuple[Tensor, Tensor], tmp_path: Path) -> None:
    from genlabel.integrations import GenLabelCallback

    runs = []
    for _ in range(2):
        module = on_lightning(PlainModule)()
        runs.append((module, GenLabelCallback(make(digits, module, "average"))))
    trainer = fit(runs[0][0], digits, tmp_path, runs[0][1])
    trainer.save_checkpoint(tmp_path / "run.ckpt")
    trainer.fit_loop.max_epochs = 2
    fit(runs[1][0], digits, tmp_path, runs[1][1], epochs=2, ckpt_path=str(tmp_path / "run.ckpt"))
    for name, value in runs[0][1].state_dict().items():
        torch.testing.assert_close(runs[1][1].state_dict()[name], value)


def test_labels_from_the_forward_pass_and_tuples_raise(digits: tuple[Tensor, Tensor], tmp_path: Path) -> None:
    from genlabel.integrations import GenLabelCallback

    module = on_lightning(PlainModule)()
    with pytest.raises(ValueError, match="gamma=0"):
        GenLabelCallback(GenLabelMixup(module.net, num_classes=10))
    callback = GenLabelCallback(make(digits, module, "mixup"))
    with pytest.raises(TypeError, match="tuple"):
        callback.on_train_batch_start(None, module, digits, 0)


def test_the_example_of_the_callback_runs() -> None:
    result = doctest.testmod(import_module("genlabel.integrations.lightning"))
    assert result.attempted > 5
    assert result.failed == 0


def test_the_teacher_counts_steps_of_the_optimizer(digits: tuple[Tensor, Tensor], tmp_path: Path) -> None:
    from genlabel.integrations import GenLabelCallback

    module = on_lightning(PlainModule)()
    mixup = make(digits, module, "average")
    loader = DataLoader(TensorDataset(*digits), batch_size=16)
    trainer = import_module("pytorch_lightning").Trainer(
        max_epochs=3, accelerator="cpu", devices=1, logger=False, enable_progress_bar=False, callbacks=[
            GenLabelCallback(mixup)], enable_model_summary=False, default_root_dir=tmp_path, accumulate_grad_batches=2,
        enable_checkpointing=False,
    )  # fmt: skip
    trainer.fit(module, loader)
    assert trainer.global_step == 6
    assert float(mixup.teacher.updates) == 6.0
    assert float(mixup.density.steps) == 12.0


def logged_rows(
    digits: tuple[Tensor, Tensor], folder: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> tuple[list[dict[str, str]], list[MixedBatch]]:
    """Return what a logger wrote in two epochs of four batches, and the batches."""
    from genlabel.integrations import GenLabelCallback

    lightning, module = import_module("pytorch_lightning"), on_lightning(PlainModule)()
    mixup, logger, batches = make(digits, module, "average"), lightning.loggers.CSVLogger(folder), []
    mix = mixup.mix_before_pass
    monkeypatch.setattr(mixup, "mix_before_pass", lambda x, y: batches.append(mix(x, y)) or batches[-1])
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", devices=1, logger=logger, enable_progress_bar=False,
        callbacks=[GenLabelCallback(mixup)], enable_model_summary=False, default_root_dir=folder,
        enable_checkpointing=False, **settings,
    )  # fmt: skip
    trainer.fit(module, DataLoader(TensorDataset(*digits), batch_size=16))
    path = Path(logger.log_dir) / "metrics.csv"
    return list(csv.DictReader(path.read_text().splitlines())) if path.exists() else [], batches


def test_loggers_receive_the_metrics_of_the_batch_that_is_logged(
    digits: tuple[Tensor, Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, batches = logged_rows(digits, tmp_path, monkeypatch, log_every_n_steps=3)
    assert [int(row["step"]) for row in rows] == [2, 5]
    for row in rows:
        for name, value in batches[int(row["step"])].metrics().items():
            assert name in ("genlabel/trust", "genlabel/gamma") or float(row[name]) == pytest.approx(float(value))
        assert float(row["genlabel/gamma"]) == pytest.approx(0.1)
        assert 0.0 <= float(row["genlabel/trust"]) <= 1.0


def test_no_metrics_are_logged_where_lightning_logs_nothing(
    digits: tuple[Tensor, Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, batches = logged_rows(digits, tmp_path, monkeypatch, log_every_n_steps=0)
    assert not rows
    assert len(batches) == 8
