"""What docs/images.md shows of one's own loop must run, in the order of the page."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from genlabel import GenLabelMixup

PAGE = Path(__file__).parents[2] / "docs" / "images.md"
pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="needs the source tree")


def blocks(title: str) -> list[str]:
    """The code under a heading, up to the next of any level."""
    parts = re.split(r"^#+ (.*)$", PAGE.read_text(), flags=re.M)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    return re.findall(r"```python\n(.*?)```", found[title], flags=re.S)


@pytest.fixture
def space(make_network: Callable[[], nn.Module], digits: tuple[Tensor, Tensor]) -> dict[str, Any]:
    network, dataset = make_network(), TensorDataset(*digits)
    return {
        "network": network, "loader": DataLoader(dataset, batch_size=16), "dataset": dataset, "torch": torch,
        "optimizer": torch.optim.SGD(network.parameters(), lr=0.1), "x": digits[0], "y": digits[1],
        "x_train": digits[0], "y_train": digits[1], "GenLabelMixup": GenLabelMixup,
    }  # fmt: skip


def test_the_loop_and_the_mixers_run(space: dict[str, Any]) -> None:
    for block in blocks("In your own loop"):
        exec(block, space)
    assert space["mixup"].layer == "layer2"
    exec(blocks("Manifold mixup and CutMix")[0], space)
    space["loss"].backward()
    assert torch.isfinite(space["loss"])


def test_the_blocks_before_the_network_run(space: dict[str, Any]) -> None:
    from genlabel import CutMix

    space["CutMix"] = CutMix
    for block in blocks("Before the network: the call shape of timm and torchvision"):
        exec(block, space)
        torch.testing.assert_close(space["target"].sum(1), torch.ones(len(space["target"])))
    assert space["target"].shape == (16, 10)


@pytest.mark.usefixtures("their_own_advice")
def test_the_blocks_of_lightning_run(space: dict[str, Any], tmp_path: Path) -> None:
    pl = pytest.importorskip("pytorch_lightning", reason="needs the extra lightning")
    quiet = {
        "logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu",
        "enable_checkpointing": False, "default_root_dir": tmp_path,
    }  # fmt: skip
    space["quiet"] = quiet
    first, second = blocks("Lightning")
    exec(first, space)
    module = space["Classifier"](space["network"])
    pl.Trainer(max_epochs=1, **quiet).fit(module, space["loader"])
    assert float(module.mixup.density.steps) == 4.0
    exec(second, space)
    assert space["trainer"].callbacks[0] is space["callback"]


@pytest.mark.usefixtures("their_own_advice")
def test_the_block_of_transformers_runs(space: dict[str, Any], tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="needs the extra transformers")
    pytest.importorskip("accelerate", reason="needs the extra transformers")
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=8, patch_size=4,
        num_channels=1, num_labels=10,
    )  # fmt: skip
    space["model"] = transformers.ViTForImageClassification(config)
    space["arguments"] = transformers.TrainingArguments(
        str(tmp_path), max_steps=2, use_cpu=True, report_to=[], disable_tqdm=True, save_strategy="no",
        dataloader_pin_memory=False,
    )  # fmt: skip
    space["rows"] = [{"pixel_values": x, "labels": int(y)} for x, y in space["dataset"]]
    exec(blocks("Hugging Face transformers")[0], space)
    assert float(space["trainer"].mixup.density.steps) == 2.0
