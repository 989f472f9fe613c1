"""The Trainer of transformers, with the real package and a small vision transformer."""

import doctest
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from genlabel import CutMix, GenLabelMixup, ManifoldMixup, Mixup
from genlabel.densities.online import CollapseWarning
from genlabel.mixing import Mixer

transformers = pytest.importorskip("transformers", reason="needs the extra transformers")
pytest.importorskip("accelerate", reason="needs the extra transformers")

pytestmark = pytest.mark.usefixtures("their_own_advice")
LAYERS = ("", "vit.layers.0")


def make_model() -> Any:
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=8, patch_size=2,
        num_channels=1, num_labels=10, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return transformers.ViTForImageClassification(config)


class PlainModule(nn.Module):
    """A plain module, which the Trainer also accepts."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU()), nn.Linear(8, 10)

    def forward(self, pixel_values: Tensor, labels: Tensor | None = None) -> dict[str, Tensor]:
        return {"logits": self.head(self.body(pixel_values))}


class Rows(torch.utils.data.Dataset):  # type: ignore[type-arg]
    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {"pixel_values": self.x[row], "labels": int(self.y[row])}


def make_trainer(digits: tuple[Tensor, Tensor], folder: Path, mixup: Any = None, model: Any = None, **more: Any) -> Any:
    from genlabel.integrations import GenLabelTrainer

    model = make_model() if model is None else model
    settings = {
        "output_dir": str(folder), "per_device_train_batch_size": 16, "max_steps": 4, "report_to": [], "use_cpu": True,
        "learning_rate": 3e-3, "disable_tqdm": True, "logging_strategy": "no", "save_strategy": "no", "seed": 3,
        "dataloader_pin_memory": False,
    } | more  # fmt: skip
    return GenLabelTrainer(
        model=model,
        args=transformers.TrainingArguments(**settings),
        train_dataset=Rows(*digits),
        eval_dataset=Rows(*digits),
        compute_metrics=lambda output: {"accuracy": float((output.predictions.argmax(1) == output.label_ids).mean())},
        mixup=GenLabelMixup(model, num_classes=10, gamma=0.3) if mixup is None else mixup(model),
    )


@pytest.mark.parametrize(
    "mixer", [Mixup(), pytest.param(CutMix(), marks=pytest.mark.long), ManifoldMixup(depths=(0, 1))], ids=repr
)
def test_training_learns_and_evaluation_is_plain(mixer: Mixer, digits: tuple[Tensor, Tensor], tmp_path: Path) -> None:
    trainer = make_trainer(
        digits, tmp_path, lambda model: GenLabelMixup(model, num_classes=10, mixer=mixer, mix_layers=LAYERS),
        max_steps=60,
    )  # fmt: skip
    before = trainer.evaluate()
    assert trainer.mixup.density.steps == 0.0
    trainer.train()
    after = trainer.evaluate()
    assert float(trainer.mixup.density.steps) == 60.0
    assert after["eval_loss"] < before["eval_loss"]
    model = trainer.model.eval()
    scores = model(digits[0]).logits.detach()
    assert after["eval_loss"] == pytest.approx(float(nn.functional.cross_entropy(scores, digits[1])), abs=1e-4)
    assert after["eval_accuracy"] == pytest.approx(float((scores.argmax(1) == digits[1]).float().mean()))


def test_the_loss_is_the_cross_entropy_of_soft_labels(
    digits: tuple[Tensor, Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer(digits, tmp_path)
    trainer.model.train()
    batches, mix = [], trainer.mixup.mix
    monkeypatch.setattr(trainer.mixup, "mix", lambda x, y: batches.append(mix(x, y)) or batches[-1])
    inputs = {"pixel_values": digits[0], "labels": digits[1]}
    loss, outputs = trainer.compute_loss(trainer.model, inputs, return_outputs=True)
    target = batches[0].target()
    expected = -(target * outputs.logits.log_softmax(1)).sum(1).mean()
    torch.testing.assert_close(loss, expected)
    theirs = trainer.model(digits[0], labels=target).loss  # what a model does with soft labels
    assert not torch.allclose(theirs, expected)


def test_accumulated_batches_are_averaged(digits: tuple[Tensor, Tensor], tmp_path: Path) -> None:
    """Two batches of one step: the gradient is the mean of the gradients of both batches."""
    steps = []
    for size, accumulation in ((64, 1), (32, 2)):
        trainer = make_trainer(
            digits, tmp_path, lambda model: GenLabelMixup(model, num_classes=10, gamma=0.0, mixer=Mixup(alpha=1e-3)),
            per_device_train_batch_size=size, gradient_accumulation_steps=accumulation, max_steps=1, optim="sgd",
            max_grad_norm=0.0, learning_rate=1.0,
        )  # fmt: skip
        start = [p.detach().clone() for p in trainer.model.parameters()]
        trainer.train()
        changes = [(p.detach() - q).flatten() for p, q in zip(trainer.model.parameters(), start, strict=True)]
        steps.append(float(torch.cat(changes).norm()))
    assert steps[1] == pytest.approx(steps[0], rel=0.25)  # not twice as large: other pairs, same scale


def test_a_resumed_run_restores_the_density(digits: tuple[Tensor, Tensor], tmp_path: Path) -> None:
    whole = make_trainer(digits, tmp_path / "whole", model=PlainModule(), max_steps=6)
    whole.train()
    half = make_trainer(digits, tmp_path / "run", model=PlainModule(), max_steps=6, save_strategy="steps", save_steps=4)
    half.train()
    resumed = make_trainer(digits, tmp_path / "run", model=PlainModule(), max_steps=6)
    resumed.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-4"))
    assert float(resumed.mixup.density.steps) == 6.0
    for name, value in whole.mixup.state_dict().items():
        torch.testing.assert_close(resumed.mixup.state_dict()[name], value, msg=name)


def test_collapsed_labels_warn(digits: tuple[Tensor, Tensor], tmp_path: Path) -> None:
    trainer = make_trainer(digits, tmp_path)
    trainer.mixup.density.mean_label[0] = torch.eye(10)[4]
    with pytest.warns(CollapseWarning, match="4"):
        trainer.evaluate()


def test_an_ema_teacher_is_updated(digits: tuple[Tensor, Tensor], tmp_path: Path) -> None:
    trainer = make_trainer(digits, tmp_path, lambda model: GenLabelMixup(model, num_classes=10, teacher="ema"))
    trainer.train()
    assert float(trainer.mixup.teacher.updates) == 4.0


def test_the_example_of_the_trainer_runs() -> None:
    result = doctest.testmod(import_module("genlabel.integrations.trainer"), optionflags=doctest.ELLIPSIS)
    assert result.attempted > 5
    assert result.failed == 0


def test_the_teacher_counts_steps_of_the_optimizer(digits: tuple[Tensor, Tensor], tmp_path: Path) -> None:
    trainer = make_trainer(
        digits, tmp_path, lambda model: GenLabelMixup(model, num_classes=10, teacher="ema"),
        gradient_accumulation_steps=3, max_steps=2,
    )  # fmt: skip
    trainer.train()
    assert float(trainer.mixup.teacher.updates) == 2.0


def test_the_logged_metrics_are_those_of_the_last_batch(
    digits: tuple[Tensor, Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = make_trainer(
        digits, tmp_path, model=PlainModule(), max_steps=7, logging_strategy="steps", logging_steps=3
    )
    batches, mix = [], trainer.mixup.mix
    monkeypatch.setattr(trainer.mixup, "mix", lambda x, y: batches.append(mix(x, y)) or batches[-1])
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert [entry["step"] for entry in logged] == [3, 6]
    for entry in logged:
        metrics = batches[entry["step"] - 1].metrics()
        for name in ("genlabel/label_entropy", "genlabel/outside_parents", "genlabel/gamma"):
            assert entry[name] == pytest.approx(float(metrics[name]))


def test_label_smoothing_and_class_weights_are_in_the_loss(digits: tuple[Tensor, Tensor], tmp_path: Path) -> None:
    from genlabel.integrations import GenLabelTrainer

    model, weight = make_model().train(), torch.linspace(0.2, 3.0, 10)
    trainer = GenLabelTrainer(
        model=model,
        args=transformers.TrainingArguments(str(tmp_path), report_to=[], use_cpu=True, label_smoothing_factor=0.3),
        train_dataset=Rows(*digits),
        mixup=GenLabelMixup(model, num_classes=10, gamma=0.0, prob=0.0),
        weight=weight,
    )
    loss = trainer.compute_loss(model, {"pixel_values": digits[0], "labels": digits[1]})
    scores = model(digits[0]).logits
    torch.testing.assert_close(loss, nn.functional.cross_entropy(scores, digits[1], weight, label_smoothing=0.3))


def test_misuse_of_the_trainer_raises(digits: tuple[Tensor, Tensor], tmp_path: Path) -> None:
    from genlabel.integrations import GenLabelTrainer

    trainer = make_trainer(digits, tmp_path, model=PlainModule())
    trainer.model.train()
    for inputs in ({"image": digits[0], "labels": digits[1]}, {"pixel_values": digits[0]}):
        with pytest.raises(ValueError, match="input_name"):
            trainer.compute_loss(trainer.model, inputs)
    with pytest.raises(ValueError, match="compute_loss_func"):
        GenLabelTrainer(model=PlainModule(), mixup=trainer.mixup, compute_loss_func=lambda *args, **kwargs: 0.0)


def test_labels_before_the_network_train_a_model(digits: tuple[Tensor, Tensor], tmp_path: Path) -> None:
    trainer = make_trainer(digits, tmp_path, lambda model: GenLabelMixup(num_classes=10, gamma=0.0), max_steps=40)
    before = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < before
