"""Test that adapters import other libraries lazily and name the extra that is missing."""

import json
import subprocess
import sys

OTHERS = "pytorch_lightning", "lightning", "lightning.pytorch", "transformers", "accelerate", "timm", "torchvision"
ADAPTERS = {"GenLabelCallback": "genlabel[lightning]", "GenLabelTrainer": "genlabel[transformers]"}
SCRIPT = f"""
import json, sys
import genlabel.integrations
loaded = sorted(set({OTHERS!r}) & set(sys.modules))
sys.modules.update(dict.fromkeys({OTHERS!r}))
errors = {{}}
for name in {list(ADAPTERS)!r}:
    try:
        getattr(genlabel.integrations, name)(mixup=genlabel.integrations.GenLabelMixup(num_classes=2, gamma=0.0))
    except ImportError as error:
        errors[name] = str(error)
print(json.dumps([loaded, errors]))
"""


def test_adapters_import_lazily_and_name_the_missing_extra() -> None:
    process = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    loaded, errors = json.loads(process.stdout)
    assert loaded == []
    assert list(errors) == list(ADAPTERS)
    assert all(extra in errors[name] for name, extra in ADAPTERS.items())
