"""Measure what a tree of genlabel computes, and compare two trees digit for digit.

    python .ci/same_numbers.py measure OUT.json [--minutes M] [--only TEXT]
    python .ci/same_numbers.py compare OLD.json NEW.json [--partial]

`measure` runs with the genlabel that is installed in the interpreter: cells of the study of the paper (a fixed sample
of all settings), fits of the benchmark, and trainings on digits. It saves OUT.json after each item, so that the same
command continues an interrupted run. Everything runs on one thread of the CPU. `compare` exits with 1 if a value
differs, failed or is missing. Digits depend on the processor and on the versions of packages: measure both trees on one
machine with the same packages; `compare` warns if they differ.

All names of the library's API are in the adapters below. An adapter imports what it needs and returns a function; the
first one of a tuple whose imports work is used. When a name changes, edit the `_new` adapter only.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import subprocess
import sys
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["compare", "main", "measure"]

MIRROR = Path(__file__).resolve().parents[2] / "shared" / "data" / "openml_mirror"
"""Data home if the environment variable GENLABEL_DATA_HOME is not set."""
OLD_NAMES = {"stacked density": "label model"}
"""Methods of the benchmark that had another name in the old tree."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

PERCENT_METRICS = ("equidistance_share", "judged_one", "judged_pair")
"""Metrics in percent in the old tree, besides accuracies; the new tree has shares from 0 to 1."""
SHARE_TOLERANCE = 1e-12
"""Relative difference of a share and a converted percentage that is rounding."""

Values = dict[str, float]
PaperTrial = Callable[[list[dict[str, Any]]], list[Values]]
"""Fields of the cells of one trial (setting, dataset, method, split, seed, alpha) -> numbers of each cell."""
BenchmarkRows = Callable[[int, str, int], list[Values]]
"""OpenML id, method, number of splits -> accuracy and log_loss of each split."""
ImageRun = Callable[[str, int], Values]
"""Method, epochs -> accuracy, log_loss and loss after the last epoch on digits."""


# Adapters: the old tree (commit 97806aa)


def paper_old() -> PaperTrial:
    """Return the function that trains the cells of one trial of the paper."""
    from genlabel_paper.study.cells import Cell
    from genlabel_paper.study.trials import run_trial

    return partial(_paper_trial, Cell, run_trial, "cell")


def benchmark_old() -> BenchmarkRows:
    """Return the function that fits one method of the benchmark on the splits of one dataset."""
    from genlabel.datasets import load_openml
    from genlabel.suite import default_suite, run_suite

    def run(dataset: int, method: str, splits: int) -> list[Values]:
        name = OLD_NAMES.get(method, method)
        load = partial(load_openml, data_home=data_home())
        return _split_scores(run_suite([dataset], {name: default_suite("mlp")[name]}, splits, records=None, load=load))

    return run


def images_old() -> ImageRun:
    """Return the function that trains a network on digits."""
    from genlabel.datasets import load_images
    from genlabel.images import train_images

    return partial(_image_scores, load_images, train_images)


# Adapters: the new tree. Correct the names here as modules move.


def paper_new() -> PaperTrial:
    """Return the function that trains the cells of one trial of the paper."""
    from genlabel_paper.runs.cells import Cell
    from genlabel_paper.runs.trials import run_trial

    return partial(_paper_trial, Cell, run_trial, "key")


def benchmark_new() -> BenchmarkRows:
    """Return the function that fits one method of the benchmark on the splits of one dataset."""
    from genlabel.data.datasets import load_openml
    from genlabel_paper.benchmark import default_methods, run_benchmark

    def run(dataset: int, method: str, splits: int) -> list[Values]:
        known = default_methods("mlp")
        name = method if method in known else OLD_NAMES[method]
        load = partial(load_openml, data_home=data_home())
        return _split_scores(run_benchmark([dataset], {name: known[name]}, splits, records=None, load=load))

    return run


def images_new() -> ImageRun:
    """Return the function that trains a network on digits."""
    from genlabel.data.datasets import load_images
    from genlabel.evaluation.images import train_images

    return partial(_image_scores, load_images, train_images)


ADAPTERS: dict[str, tuple[Callable[[], Callable[..., Any]], ...]] = {
    "paper": (paper_new, paper_old),
    "benchmark": (benchmark_new, benchmark_old),
    "images": (images_new, images_old),
}


def _paper_trial(cell_class: Any, run_trial: Any, key: str, fields: list[dict[str, Any]]) -> list[Values]:
    cells = [cell_class(**values) for values in fields]
    records = {record[key].id: record for record in run_trial(cells, data_home())}
    return [plain_numbers(records[cell.id]["metrics"], records[cell.id]["parameters"]) for cell in cells]


def _split_scores(records: Any) -> list[Values]:
    if records.failures:
        raise RuntimeError(f"fits failed: {records.failures}")
    rows = records.frame.sort_values("split").to_dict("records")
    return [{name: float(row[name]) for name in ("accuracy", "log_loss")} for row in rows]


def _image_scores(load_images: Any, train_images: Any, method: str, epochs: int) -> Values:
    trained = train_images(load_images("digits"), method=method, epochs=epochs, seed=0, device="cpu")
    last = {"accuracy": trained.test.accuracy, "log_loss": trained.test.log_loss}
    return last | {"loss": trained.history[-1]["loss"]}


def data_home() -> Path:
    """Return the folder of the OpenML cache."""
    return Path(os.environ.get("GENLABEL_DATA_HOME", MIRROR))


def plain_numbers(metrics: dict[str, Any], parameters: dict[str, Any]) -> Values:
    """Return the numbers of a record: metrics, chosen parameters, and checksums of drawn regions, points and images.

    Seconds and images per second are left out. So are names: they may change.
    """
    numbers: Values = {}
    for name, value in {**parameters, **metrics}.items():
        if "second" in name:
            continue
        if isinstance(value, str):
            if name in ("regions", "points", "images"):
                numbers[f"crc32 of {name}"] = zlib.crc32(value.encode())
        elif isinstance(value, int | float):
            numbers[name] = value
    return numbers


# What is measured. Datasets, splits and seeds were drawn once, among those whose trials are cheap.

LOGISTIC = (
    "vanilla adamixup mixup mixup@2 mixup-exclude-mi logistic-exclude-mi genlabel-gm genlabel-kde genlabel-cv "
    "genlabel-cv@2 generative-gm generative-kde"
)
ONE_READING = (
    "vanilla adamixup mixup mixup-exclude-mi genlabel-gm genlabel-kde genlabel-cv generative-gm generative-kde"
)
MLP = "vanilla mixup mixup-exclude-mi genlabel-gm generative-gm"
PAPER: list[tuple[str, str, str]] = [
    (
        "logistic",
        "446/1/0 683/2/3 717/1/2 730/0/0 736/1/1 740/0/4 749/1/3 751/0/3 754/2/2 759/0/2 763/0/2 774/1/3 776/0/0 "
        "783/0/1 787/1/4 789/1/3 792/2/4 799/0/2 808/0/3 820/0/4 827/2/1 830/1/4 841/1/3 853/1/3 855/0/1 870/0/2 "
        "892/2/4 893/1/3 900/1/2 911/0/1 912/1/4 916/1/1 925/2/1 945/1/4 955/2/1 988/2/3 1167/2/2 1413/1/0 1499/1/3 "
        "40981/2/1",
        LOGISTIC,
    ),
    (
        "logistic-robust",
        "312/1/3 313/0/0 346/0/0 463/2/3 753/2/0 834/0/3 952/1/4 954/2/2 978/1/4 987/0/1 988/2/3 1045/0/4",
        "vanilla mixup genlabel-gm",
    ),
    ("mlp", "719/2/0 862/1/2 906/2/4 908/0/3 956/0/0 1045/0/1 1055/1/2", MLP),
    ("mlp-robust", "715/2/4 723/1/0 806/0/3 837/0/2 866/0/0 917/2/4", "vanilla mixup genlabel-gm"),
    (
        "synthetic",
        "circle/0/0 circle/2/3 moon/1/4 moon/0/2 two-circle/0/1 cube-2d/0/0 cube-2d/2/4 cube-3d/1/1",
        "vanilla mixup",
    ),
    ("plane", "nine-gaussians/0/0", "vanilla mixup genlabel-gm"),
    ("plane", "two-circle/0/0 two-circle/1/2", "vanilla mixup genlabel-kde"),
    (
        "densities",
        "cube-2d/0/0",
        "vanilla mixup genlabel-gm genlabel-kde genlabel-mixture genlabel-flow genlabel-vae genlabel-gan",
    ),
    ("densities", "moon/0/0", "vanilla genlabel-gm genlabel-mixture genlabel-flow"),
    ("densities", "circle/0/0", "mixup genlabel-kde genlabel-gm"),
    ("densities", "nine-gaussians/0/0", "genlabel-kde genlabel-mixture"),
    ("densities", "cube-3d/0/0", "genlabel-flow genlabel-vae"),
    ("genmix", "four-gaussians/1/1", "vanilla mixup genmix-gaussian"),
    (
        "genmix",
        "circle-2d/2/2",
        "vanilla mixup manifold@2 genmix-gaussian genmix-kernel genmix-mixture genmix-flow genmix-vae",
    ),
    ("genmix", "circle-2d/1/1", "genmix-gan-l1 genmix-gan-linf"),
    ("genmix", "circle-3d/3/3", "mixup genmix-kernel genmix-vae"),
    ("genmix", "v/0/0", "mixup genmix-flow"),
    ("genmix", "moon/0/0", "genmix-kernel genmix-mixture"),
    (
        "genmix",
        "digits-79/0/0",
        "vanilla mixup manifold@2 genmix-gaussian genmix-kernel genmix-mixture genmix-vae genmix-gan",
    ),
    ("genmix-hidden", "digits/0/0", "genmix-hidden"),
    (
        "images-clean-smoke-15",
        "digits/0/0",
        "vanilla adamixup mixup mixup-genlabel manifold@2 manifold-genlabel@2 mixup-sample mixup-genlabel-default",
    ),
    ("images-robust-smoke-15", "digits/0/1", "vanilla mixup-genlabel manifold-genlabel@2"),
    # The multiverse: a trial of every reading of every setting
    ("logistic@alternating", "938/0/0", "adamixup"),
    ("logistic@clean", "48/0/1", "mixup"),
    ("logistic@codes", "938/2/2", ONE_READING.replace(" generative-kde", "")),
    ("logistic@lam", "830/1/0", "mixup mixup-exclude-mi genlabel-gm genlabel-kde genlabel-cv"),
    ("logistic@logistic-0.5", "830/1/0", "mixup-exclude-mi"),
    ("logistic@logistic-1", "830/0/0", "mixup-exclude-mi"),
    ("logistic@min-max", "818/2/2", "vanilla mixup"),
    ("logistic@ours", "778/1/0", ONE_READING),
    ("logistic@pairs", "61/0/1", "mixup mixup-exclude-mi genlabel-gm genlabel-kde genlabel-cv"),
    ("logistic@priors", "721/1/2", "genlabel-gm genlabel-kde genlabel-cv generative-gm"),
    ("logistic@raw", "48/2/1", "vanilla mixup"),
    ("logistic@share", "61/1/1", ONE_READING),
    ("logistic@shrinkage", "925/1/2", "genlabel-gm genlabel-cv generative-gm"),
    ("logistic@together", "925/0/1", ONE_READING),
    ("logistic-robust@clean", "834/2/1", "mixup genlabel-gm"),
    ("logistic-robust@codes", "987/2/1", "vanilla mixup genlabel-gm"),
    ("logistic-robust@lam", "463/2/0", "mixup genlabel-gm"),
    ("logistic-robust@min-max", "1059/1/2", "vanilla mixup genlabel-gm"),
    ("logistic-robust@ours", "952/0/2", "vanilla mixup genlabel-gm"),
    ("logistic-robust@pairs", "1059/2/0", "mixup genlabel-gm"),
    ("logistic-robust@priors", "463/2/0", "genlabel-gm"),
    ("logistic-robust@raw", "463/0/2", "vanilla mixup genlabel-gm"),
    ("logistic-robust@share", "346/1/2", "vanilla mixup genlabel-gm"),
    ("logistic-robust@shrinkage", "1045/0/1", "genlabel-gm"),
    ("logistic-robust@together", "952/1/0", "vanilla mixup genlabel-gm"),
    ("mlp@clean", "804/2/1", "mixup mixup-exclude-mi genlabel-gm"),
    ("mlp@codes", "804/1/2", MLP),
    ("mlp@lam", "1055/0/2", "mixup mixup-exclude-mi genlabel-gm"),
    ("mlp@logistic-0.5", "862/0/1", "mixup-exclude-mi"),
    ("mlp@logistic-1", "818/2/2", "mixup-exclude-mi"),
    ("mlp@min-max", "1075/0/1", MLP),
    ("mlp@ours", "1011/1/2", MLP),
    ("mlp@pairs", "1075/0/0", "mixup mixup-exclude-mi genlabel-gm"),
    ("mlp@priors", "862/0/2", "genlabel-gm generative-gm"),
    ("mlp@raw", "719/1/1", MLP),
    ("mlp@share", "719/2/0", MLP),
    ("mlp@shrinkage", "1075/2/1", "genlabel-gm generative-gm"),
    ("mlp@together", "1055/1/2", MLP),
    ("mlp-robust@clean", "806/2/1", "mixup genlabel-gm"),
    ("mlp-robust@codes", "312/0/1", "vanilla mixup genlabel-gm"),
    ("mlp-robust@lam", "837/0/2", "mixup genlabel-gm"),
    ("mlp-robust@min-max", "909/1/2", "vanilla mixup genlabel-gm"),
    ("mlp-robust@ours", "806/2/2", "vanilla mixup genlabel-gm"),
    ("mlp-robust@pairs", "723/2/2", "mixup genlabel-gm"),
    ("mlp-robust@priors", "723/0/1", "genlabel-gm"),
    ("mlp-robust@raw", "806/0/0", "vanilla mixup genlabel-gm"),
    ("mlp-robust@share", "715/1/2", "vanilla mixup genlabel-gm"),
    ("mlp-robust@shrinkage", "715/1/2", "genlabel-gm"),
    ("mlp-robust@together", "723/2/2", "vanilla mixup genlabel-gm"),
    ("synthetic@clean", "moon/1/1", "mixup"),
    ("synthetic@lam", "circle/1/1", "mixup"),
    ("synthetic@ours", "moon/1/2", "vanilla mixup"),
    ("synthetic@pairs", "circle/2/0", "mixup"),
    ("synthetic@standardised", "cube-2d/1/2", "vanilla mixup"),
]
"""Setting; dataset/split/seed of trials; methods of each trial, @ is the alpha where it is not 1."""
ALONE = ("densities", "genmix", "images")
"""Beginnings of the settings whose trials are one method each."""
DATASETS = (808, 784, 444, 61, 1465, 719, 187, 62, 1500, 338, 464, 820, 53, 952, 40710, 1011, 40700, 10, 1508, 40690)
"""Of the benchmark."""
METHODS = ("default", "mixup", "vanilla", "stacked density")
SPLITS = 2
IMAGE_METHODS = ("vanilla", "mixup", "genlabel", "manifold", "manifold-genlabel", "adamixup")
EPOCHS = 5
LATE = ("genmix-hidden/", "/genlabel-gan", "/genmix-gan", "plane/", "densities/nine-gaussians")
"""Parts of the ids of expensive items, which come last."""


class Item(NamedTuple):
    """The unit of a run: its id, its group, and the function that returns the values of its cells."""

    id: str
    group: str
    run: Callable[[dict[str, Callable[..., Any]]], dict[str, Values]]


def all_items() -> list[Item]:
    """Return all items in an order that is the same everywhere: shuffled, the expensive ones last."""
    items = [*_paper_items(), *_benchmark_items(), *_image_items()]
    random.Random(0).shuffle(items)
    return sorted(items, key=lambda item: any(part in item.id for part in LATE))


def _paper_items() -> Iterator[Item]:
    for setting, places, methods in PAPER:
        alone = setting.startswith(ALONE)
        for place in places.split():
            for group in methods.split() if alone else [methods]:
                name = f"paper/{setting}/{place}" + (f"/{group}" if alone else "")
                yield Item(name, f"paper {setting}", partial(_run_paper, setting, place, group.split()))


def _run_paper(
    setting: str, place: str, methods: Sequence[str], adapters: dict[str, Callable[..., Any]]
) -> dict[str, Values]:
    dataset, split, seed = place.split("/")
    fields = []
    for method in methods:
        name, _, alpha = method.partition("@")
        cell = {"setting": setting, "dataset": dataset, "method": name, "split": int(split), "seed": int(seed)}
        fields.append({**cell, "alpha": float(alpha or 1)})
    names = [
        f"{setting}/{dataset}/{cell['method']}/alpha={cell['alpha']:g}/split={split}/seed={seed}" for cell in fields
    ]
    return dict(zip(names, adapters["paper"](fields), strict=True))


def _benchmark_items() -> Iterator[Item]:
    for dataset in DATASETS:
        for method in METHODS:
            yield Item(f"benchmark/{dataset}/{method}", "benchmark", partial(_run_benchmark, dataset, method))


def _run_benchmark(dataset: int, method: str, adapters: dict[str, Callable[..., Any]]) -> dict[str, Values]:
    rows = adapters["benchmark"](dataset, method, SPLITS)
    return {f"{dataset}/{method}/split={split}": row for split, row in enumerate(rows)}


def _image_items() -> Iterator[Item]:
    for method in IMAGE_METHODS:
        yield Item(f"images/digits/{method}", "images", partial(_run_images, method))


def _run_images(method: str, adapters: dict[str, Callable[..., Any]]) -> dict[str, Values]:
    return {f"digits/{method}": adapters["images"](method, EPOCHS)}


# Measuring


def measure(path: Path, minutes: float | None, only: str) -> int:
    """Run the items that the file does not hold yet, and save after each; return how many failed."""
    begin = time.monotonic()
    # Before torch and numpy are imported
    os.environ |= dict.fromkeys(THREADS, "1") | {"CUDA_VISIBLE_DEVICES": ""}
    os.environ.setdefault("GENLABEL_DATA_HOME", str(MIRROR))
    adapters, about = _choose_adapters(), _about()
    measured = json.loads(path.read_text()) if path.exists() else {"about": about, "items": {}}
    previous, current = ("{tree} at {commit}".format(**record) for record in (measured["about"], about))
    if previous != current:
        raise SystemExit(f"{path} holds numbers of {previous}, not of {current}; name another file")
    todo = [item for item in all_items() if only in item.id and "cells" not in measured["items"].get(item.id, {})]
    print(f"{current}: {len(todo)} items to run", flush=True)
    for number, item in enumerate(todo, 1):
        if minutes is not None and time.monotonic() - begin > 60 * minutes:
            print(f"stopped after {minutes:g} minutes; {len(todo) - number + 1} items are left", flush=True)
            break
        measured["items"][item.id] = record = _run(item, adapters)
        path.with_suffix(".part").write_text(json.dumps(measured, indent=1))
        path.with_suffix(".part").replace(path)
        print(f"{number}/{len(todo)} {item.id}: {record.get('error', '')} {record['seconds']:.1f} s", flush=True)
    failed = sum("error" in record for record in measured["items"].values())
    seconds = sum(record["seconds"] for record in measured["items"].values())
    cells = sum(len(record.get("cells", {})) for record in measured["items"].values())
    print(f"{cells} cells of {len(measured['items'])} items in {path}, {seconds / 60:.1f} minutes, {failed} failed")
    return failed


def _choose_adapters() -> dict[str, Callable[..., Any]]:
    """Return the first adapter of each group whose imports work."""
    chosen, errors = {}, []
    for group, adapters in ADAPTERS.items():
        for adapter in adapters:
            try:
                chosen[group] = adapter()
            except ImportError as error:
                errors.append(f"{adapter.__name__}: {error}")
            else:
                break
        else:
            raise SystemExit(f"no adapter of {group!r} can be imported; correct one in {__file__}: {errors}")
    return chosen


def _run(item: Item, adapters: dict[str, Callable[..., Any]]) -> dict[str, Any]:
    begin = time.monotonic()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result: dict[str, Any] = {"group": item.group, "cells": item.run(adapters)}
    except Exception as error:
        result = {"group": item.group, "error": f"{type(error).__name__}: {error}"[:500]}
    return result | {"seconds": time.monotonic() - begin}


def _about() -> dict[str, Any]:
    """Return the tree, the machine and the versions of packages on which digits depend."""
    source = Path(str(import_module("genlabel").__file__)).resolve()
    names = ("torch", "numpy", "scipy", "scikit-learn", "pandas")
    shares = {} if find_spec("genlabel.suite") else {"shares": "accuracies are from 0 to 1"}  # percent in 0.2.0
    return {
        "tree": str(source.parent),
        "commit": _git(source.parent, "rev-parse", "--short", "HEAD"),
        "changed": bool(_git(source.parent, "status", "--porcelain", "--untracked-files=no", ".")),
        "machine": f"{platform.machine()} {_processor()}",
        "versions": {name: metadata.version(name) for name in names} | {"python": platform.python_version()},
        **shares,
    }


def _git(folder: Path, *words: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, check=False
    ).stdout.strip()


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


# Comparing


def compare(old_path: Path, new_path: Path, partial_run: bool) -> int:
    """Print how many values agree digit for digit, and each that does not; return 1 if there is one."""
    old, new = (json.loads(path.read_text()) for path in (old_path, new_path))
    for name in ("machine", "versions"):
        if old["about"][name] != new["about"][name]:
            print(f"warning: {name} differs: {old['about'][name]} and {new['about'][name]}")
    counts: dict[str, Counter[str]] = {}
    lines: list[str] = []
    for item in dict.fromkeys([*old["items"], *new["items"]]):
        old_item, new_item = old["items"].get(item), new["items"].get(item)
        if partial_run and new_item is None:
            continue
        group = (old_item or new_item)["group"]
        count = counts.setdefault(group.partition("@")[0] + ("@" if "@" in group else ""), Counter())
        # Before accuracies were shares everywhere, those of images were already.
        converted = "shares" in new["about"] and "shares" not in old["about"] and group != "images"
        _compare_items(item, old_item, new_item, converted, count, lines)
    _print_counts(counts)
    print("\n".join(lines))
    total = sum(counts.values(), Counter[str]())
    n_bad = total["differ"] + total["missing"] + total["only new"] + total["failed"]
    verdict = "same numbers" if not n_bad else "NOT the same numbers"
    print(f"{verdict}: {total['same']} of {total['values']} values of {total['cells']} cells agree digit for digit")
    return int(n_bad > 0 or not total["same"])


def _compare_items(
    item: str,
    old_item: dict[str, Any] | None,
    new_item: dict[str, Any] | None,
    converted: bool,
    count: Counter[str],
    lines: list[str],
) -> None:
    for side, result in (("old", old_item), ("new", new_item)):
        if result is None or "error" in result:
            count["failed" if result else "missing"] += 1
            lines.append(f"{item}: {side}: {result['error'] if result else 'not measured'}")
            return
    assert old_item is not None
    assert new_item is not None
    for cell in dict.fromkeys([*old_item["cells"], *new_item["cells"]]):
        old_values, new_values = old_item["cells"].get(cell, {}), new_item["cells"].get(cell, {})
        count["cells"] += 1
        for name in dict.fromkeys([*old_values, *new_values]):
            count["values"] += 1
            relation = _relation(old_values.get(name), new_values.get(name), converted and _is_percent(name))
            count[relation] += 1
            if relation != "same":
                lines.append(
                    f"{item}: {cell}: {name}: {relation}: {old_values.get(name)!r} and {new_values.get(name)!r}"
                )


def _is_percent(name: str) -> bool:
    """Return whether a metric is in percent in the old tree: accuracies, also those of the multiverse ("last/cv")."""
    return name.endswith("accuracy") or "/" in name or name in PERCENT_METRICS


def _relation(value: float | None, other: float | None, percent: bool = False) -> str:
    """Return how two numbers relate, digit for digit; not-a-number is equal to itself.

    With `percent`, the first one is a percentage and the second one a share, equal up to rounding.
    """
    if value is None or other is None:
        return "only new" if value is None else "missing"
    if percent:
        return "same" if math.isclose(value / 100, other, rel_tol=SHARE_TOLERANCE, abs_tol=0.0) else "differ"
    return "same" if float(value).hex() == float(other).hex() else "differ"


def _print_counts(counts: dict[str, Counter[str]]) -> None:
    columns = ("cells", "values", "same", "differ", "missing", "only new", "failed")
    print(f"{'group':32}" + "".join(f"{name:>10}" for name in columns))
    for group, count in sorted(counts.items()):
        print(f"{group:32}" + "".join(f"{count[name]:>10}" for name in columns))


def main(words: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Measure what a tree of genlabel computes, and compare two trees.")
    commands = parser.add_subparsers(dest="command", required=True)
    measure_parser = commands.add_parser("measure")
    measure_parser.add_argument("out", type=Path)
    measure_parser.add_argument("--minutes", type=float, help="stop after so many; the same command continues")
    measure_parser.add_argument("--only", default="", help="only items whose id contains this text")
    compare_parser = commands.add_parser("compare")
    compare_parser.add_argument("old", type=Path)
    compare_parser.add_argument("new", type=Path)
    compare_parser.add_argument("--partial", action="store_true", help="compare only items that NEW holds")
    arguments = parser.parse_args(words)
    if arguments.command == "measure":
        return int(measure(arguments.out, arguments.minutes, arguments.only) > 0)
    return compare(arguments.old, arguments.new, arguments.partial)


if __name__ == "__main__":
    sys.exit(main())
