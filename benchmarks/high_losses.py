"""Count fits with a log-loss far above that of the class priors, over many splits and seeds of OpenML datasets.

    python benchmarks/high_losses.py --seeds 201 202 203 --jobs 2 --records build/accidents --json build/accidents.json
    python benchmarks/high_losses.py --report results/accidents.json

A seed is that of one random split of each dataset, 30 % held out, and of all that is random in the fits of the default,
mixup, plain training and the stacked density alone. An accident is a log-loss more than 10 % above that of the class
priors. Many splits also show better than two how often the default has the lower log-loss. Needs the OpenML datasets of
a manifest (environment variable GENLABEL_DATA_HOME). An interrupted run continues.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import add_data_home, dataset_ids, make_parser

from genlabel.data.datasets import load_openml
from genlabel.data.datasets.catalog import find_home
from genlabel.evaluation.prediction_counts import wilson_interval
from genlabel_paper.benchmark import default_methods, run_benchmark

METHODS = ("default", "vanilla", "mixup", "stacked density")
ACCIDENT_FACTOR = 1.1
"""An accident has a log-loss of more than so many times that of the class priors."""
NEGLIGIBLE = 0.002
"""Difference, in nats, up to which two means count as equal."""


def run(seed: int, folder: Path, data_home: Path | None, jobs: int) -> pd.DataFrame:
    """Return the records of one seed; those that are missing are fitted now."""
    methods = default_methods("mlp", "auto")
    return run_benchmark(
        dataset_ids(data_home, max_features=20, min_rows=100, max_rows=2000),
        {name: methods[name] for name in METHODS},
        n_splits=1,
        test_size=0.3,
        seed=seed,
        records=folder / f"{seed}.sqlite",
        settings={"network": "mlp", "epochs": "auto"},
        n_jobs=jobs,
        load=partial(load_openml, data_home=find_home(data_home).resolve()),
    ).frame


def to_plain(frames: dict[int, pd.DataFrame]) -> dict[str, Any]:
    """Return the log-losses of all datasets, methods and seeds, and of the class priors, as JSON values."""
    frame = pd.concat([frame.assign(seed=seed) for seed, frame in frames.items()])
    datasets = {}
    for number, group in frame.groupby("dataset"):
        losses = group.pivot(index="seed", columns="method", values="log_loss").loc[list(frames)]
        priors = group[group["method"] == METHODS[0]].set_index("seed")["shares_log_loss"].loc[list(frames)]
        first = group.iloc[0]
        datasets[str(number)] = {
            "name": first["name"],
            **{size: int(first[size]) for size in ("n", "d", "k")},
            "shares": _round(priors),
            **{method: _round(losses[method]) for method in METHODS},
        }
    return {"seeds": list(frames), "devices": sorted(set(frame["device"])), "sets": datasets}


def _round(values: "pd.Series[float]") -> list[float]:
    return [float(f"{value:.5g}") for value in values]


def report(result: dict[str, Any]) -> str:
    """Return accidents by method, the datasets that have them, and how often the default has the lower log-loss."""
    datasets = result["sets"]
    losses = {method: np.array([dataset[method] for dataset in datasets.values()]) for method in METHODS}
    priors = np.array([dataset["shares"] for dataset in datasets.values()])
    lines = [f"{len(datasets)} datasets, {len(result['seeds'])} splits and seeds of each: {priors.size} fits a method"]
    for method, values in losses.items():
        is_accident = values > ACCIDENT_FACTOR * priors
        low, high = wilson_interval(float(is_accident.mean()), priors.size)
        counts = {datasets[number]["name"]: count for number, count in zip(datasets, is_accident.sum(1), strict=True)}
        names = ", ".join(f"{name} {n}" for name, n in sorted(counts.items(), key=lambda pair: -pair[1]) if n)
        rate = f"{100 * is_accident.mean():.2f} % (interval {100 * low:.2f} to {100 * high:.2f})"
        lines.append(f"  {method:12} mean {values.mean():.4f}; accidents {is_accident.sum()}, {rate}: {names}")
    default = losses["default"].mean(1)
    for method in METHODS[1:]:
        difference = default - losses[method].mean(1)
        cases = difference < -NEGLIGIBLE, np.abs(difference) <= NEGLIGIBLE, difference > NEGLIGIBLE
        lower, equal, higher = (f"{100 * case.mean():.0f} %" for case in cases)
        text = f"lower on {lower} of the datasets, within {NEGLIGIBLE} on {equal}, higher on {higher}"
        lines.append(f"default against {method}: {text}; below it at all on {100 * (difference < 0).mean():.0f} %")
    return "\n".join(lines)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(201, 216)))
    add_data_home(parser)
    parser.add_argument("--records", type=Path, default=Path("build", "accidents"), help="folder of a file per seed")
    parser.add_argument("--jobs", type=int, default=1, help="fits at the same time")
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
    result = to_plain(frames)
    if args.json:
        lines = ",\n".join(f"{json.dumps(number)}: {json.dumps(dataset)}" for number, dataset in result["sets"].items())
        head = json.dumps({"seeds": result["seeds"], "devices": result["devices"]})[:-1]
        args.json.write_text(f'{head}, "sets": {{\n{lines}\n}}}}\n')
    print(report(result))


if __name__ == "__main__":
    main()
