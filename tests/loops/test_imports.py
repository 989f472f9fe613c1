"""Other libraries are loaded when their adapter is used, and named where they are missing."""

import subprocess
import sys

import pytest

OTHERS = "pytorch_lightning", "lightning", "lightning.pytorch", "transformers", "accelerate", "timm", "torchvision"


def run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_the_room_loads_none_of_them() -> None:
    assert run(f"import sys, genlabel.loops; print(set({OTHERS!r}) & set(sys.modules))") == "set()"


@pytest.mark.parametrize(
    "name, given, extra",
    [
        ("GenLabelCallback", "GenLabelMixup(n_classes=2, gamma=0.0)", "genlabel[lightning]"),
        ("GenLabelTrainer", "mixup=GenLabelMixup(n_classes=2, gamma=0.0)", "genlabel[transformers]"),
    ],
)
def test_what_is_missing_is_named(name: str, given: str, extra: str) -> None:
    without = f"import sys; sys.modules.update(dict.fromkeys({OTHERS!r}))"
    said = run(f"{without}; from genlabel.loops import {name}, GenLabelMixup; {name}({given})")
    assert said.startswith("ImportError")
    assert extra in said
