"""Count fits with a log-loss far above that of the class priors, over many splits and seeds of OpenML datasets.

    python benchmarks/accidents.py --seeds 201 202 203 --jobs 2 --records build/accidents --json build/accidents.json
    python benchmarks/accidents.py --report results/accidents.json

Each seed is of one random split of each dataset, 30 % held out, and of all that is random in the fits of the default,
mixup, vanilla training and the stacked density alone. An accident is a log-loss more than 10 % above that of the class
shares. Many splits also tell better than two how often the default has the lower log-loss. Needs the OpenML datasets
of a manifest (environment variable GENLABEL_DATA_HOME). A run that was stopped continues.
"""

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from genlabel.data.datasets import load_openml
from genlabel.data.datasets.catalog import find_home, openml_manifest
from genlabel.evaluation.prediction_counts import wilson_interval
from genlabel_paper.benchmark import default_methods, run_benchmark
from genlabel_paper.benchmark.command import manifest_ids

METHODS = ("default", "vanilla", "mixup", "stacked density")
FAR, SAME = 1.1, 0.002
"""Times the loss of the class priors that is an accident; nats within which two means are the same."""


def run(seed: int, folder: Path, home: Path | None, jobs: int) -> pd.DataFrame:
    """The records of one seed: those that are there, and the others, fitted now."""
    manifest = openml_manifest(home)
    if manifest is None:
        raise SystemExit("there is no manifest.csv; name its folder with --data-home or GENLABEL_DATA_HOME")
    known = default_methods("mlp", "auto")
    return run_benchmark(
        manifest_ids(manifest, 20, min_rows=100, max_rows=2000),
        {name: known[name] for name in METHODS},
        repeats=1,
        test_size=0.3,
        seed=seed,
        records=folder / f"{seed}.sqlite",
        settings={"network": "mlp", "epochs": "auto"},
        n_jobs=jobs,
        load=partial(load_openml, data_home=find_home(home).resolve()),
    ).frame


def as_plain(frames: dict[int, pd.DataFrame]) -> dict[str, Any]:
    """The log-losses of all datasets, methods and seeds, and of the class priors."""
    every = pd.concat([frame.assign(seed=seed) for seed, frame in frames.items()])
    sets = {}
    for number, group in every.groupby("dataset"):
        losses = group.pivot(index="seed", columns="method", values="log_loss").loc[list(frames)]
        shares = group[group["method"] == METHODS[0]].set_index("seed")["shares_log_loss"].loc[list(frames)]
        first = group.iloc[0]
        sets[str(number)] = {
            "name": first["name"],
            **{size: int(first[size]) for size in ("n", "d", "k")},
            "shares": _short(shares),
            **{method: _short(losses[method]) for method in METHODS},
        }
    return {"seeds": list(frames), "devices": sorted(set(every["device"])), "sets": sets}


def _short(values: "pd.Series[float]") -> list[float]:
    return [float(f"{value:.5g}") for value in values]


def report(result: dict[str, Any]) -> str:
    """Accidents by method, the datasets that have them, and how often the default has the lower log-loss."""
    sets = result["sets"]
    losses = {method: np.array([one[method] for one in sets.values()]) for method in METHODS}
    shares = np.array([one["shares"] for one in sets.values()])
    fits = shares.size
    lines = [f"{len(sets)} datasets, {len(result['seeds'])} splits and seeds of each: {fits} fits a method"]
    for method, values in losses.items():
        bad = values > FAR * shares
        low, high = wilson_interval(float(bad.mean()), fits)
        where = {str(sets[number]["name"]): int(count) for number, count in zip(sets, bad.sum(1), strict=True) if count}
        named = ", ".join(f"{name} {count}" for name, count in sorted(where.items(), key=lambda pair: -pair[1]))
        rate = f"{100 * bad.mean():.2f} % (interval {100 * low:.2f} to {100 * high:.2f})"
        lines.append(f"  {method:12} mean {values.mean():.4f}; accidents {bad.sum()}, {rate}: {named}")
    ours = losses["default"].mean(1)
    for method in METHODS[1:]:
        apart = ours - losses[method].mean(1)
        blocks = [float((apart < -SAME).mean()), float((np.abs(apart) <= SAME).mean()), float((apart > SAME).mean())]
        lower, same, higher = (f"{100 * part:.0f} %" for part in blocks)
        told = f"lower on {lower} of the datasets, within {SAME} on {same}, higher on {higher}"
        lines.append(f"default against {method}: {told}; below it at all on {100 * (apart < 0).mean():.0f} %")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(201, 216)))
    parser.add_argument("--data-home", type=Path, help="the folder of the manifest; default: GENLABEL_DATA_HOME")
    parser.add_argument("--records", type=Path, default=Path("build", "accidents"), help="a file for each seed there")
    parser.add_argument("--jobs", type=int, default=1, help="fits at once")
    parser.add_argument("--json", type=Path, help="write the log-losses there")
    parser.add_argument("--report", type=Path, help="fit nothing, report these log-losses")
    args = parser.parse_args()
    if args.report:
        print(report(json.loads(args.report.read_text())))
        return
    frames = {}
    for seed in args.seeds:
        frames[seed] = run(seed, args.records, args.data_home, args.jobs)
        print(f"seed {seed}: {len(frames[seed])} fits on record", flush=True)
    result = as_plain(frames)
    if args.json:
        lines = ",\n".join(f"{json.dumps(number)}: {json.dumps(one)}" for number, one in result["sets"].items())
        head = json.dumps({"seeds": result["seeds"], "devices": result["devices"]})[:-1]
        args.json.write_text(f'{head}, "sets": {{\n{lines}\n}}}}\n')
    print(report(result))


if __name__ == "__main__":
    main()
