"""Other libraries are loaded when their adapter is used, and named where they are missing."""

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


def test_the_room_loads_none_of_them_and_names_what_is_missing() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded, errors = json.loads(done.stdout)
    assert loaded == []
    assert list(errors) == list(ADAPTERS)
    assert all(extra in errors[name] for name, extra in ADAPTERS.items())
