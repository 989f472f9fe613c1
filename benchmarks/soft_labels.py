"""Measure whether synthetic points with soft labels help other models: GenMix, GenLabel and SMOTE on OpenML datasets.

    python benchmarks/soft_labels.py                      # an interrupted run continues
    python benchmarks/soft_labels.py --report --json build/soft_labels.json

Logistic regression, gradient boosting and a random forest, each alone and on more rows; every sampler with its
defaults. Needs the OpenML datasets of a manifest (environment variable GENLABEL_DATA_HOME) and imbalanced-learn.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from common import add_data_home, dataset_ids, make_parser
from imblearn.over_sampling import SMOTE
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from genlabel import GenLabel, GenLabelSampler, GenMix, LambdaCallback, SoftLabelClassifier
from genlabel.data.datasets import load_openml
from genlabel.densities.candidates import named_densities
from genlabel.evaluation.records import load_records
from genlabel.mixing import Sampler
from genlabel.mixing.sampler import Synthetic
from genlabel_paper.benchmark import complete_datasets, dataset_means, mean_ranks, run_benchmark, wilcoxon_holm, wins
from genlabel_paper.benchmark.schema import BENCHMARK

MODELS: dict[str, Any] = {
    "logistic": LogisticRegression(max_iter=2000),
    "boosting": HistGradientBoostingClassifier(random_state=0),
    "forest": RandomForestClassifier(random_state=0),
}
ACCIDENT = 0.05
"""An accident has a log-loss that is higher than that of the model alone by more than this."""


class SmoteSampler(Sampler):
    """SMOTE's points, labeled by their class or, with a density, by their posterior."""

    def __init__(self, density: str | None = None, output: str = "hard", random_state: Any = None) -> None:
        self.density = density
        self.output = output
        self.random_state = random_state

    def _synthesize(self, X: Any, index: Any, rng: np.random.Generator) -> Synthetic:
        neighbours = min(5, int(np.bincount(index).min()) - 1)
        points, classes = SMOTE(k_neighbors=neighbours, random_state=int(rng.integers(2**31))).fit_resample(X, index)
        points, classes = points[len(X) :], classes[len(X) :]
        labels = np.eye(len(self.classes_))[classes]
        if self.density is not None and len(points):
            labeler = GenLabel(named_densities(self.density)[self.density]).fit(X, index)
            labels = np.exp(labeler.log_posterior(points))
        return Synthetic(points, labels, np.stack([classes, classes], 1), np.zeros(len(points)))


SAMPLERS: dict[str, Any] = {
    "GenMix": GenMix(),
    "GenMix, any lam": GenMix(lam="uniform"),
    "GenLabel": GenLabelSampler(),
    "GenLabel, priors": GenLabelSampler(priors="empirical"),
    "mixup": GenLabelSampler(gamma=0.0),
    "SMOTE": SmoteSampler(),
    "SMOTE, soft": SmoteSampler("gaussian"),
}


def methods(names: list[str]) -> dict[str, Any]:
    """Return pipelines of each model alone and with each sampler."""
    result: dict[str, Any] = {}
    for name in names:
        result[name] = make_pipeline(StandardScaler(), MODELS[name])
        for label, sampler in SAMPLERS.items():
            soft = SoftLabelClassifier(MODELS[name], sampler, random_state=0)
            result[f"{name} + {label}"] = make_pipeline(StandardScaler(), soft)
    return result


def report(records: pd.DataFrame, model: str) -> pd.DataFrame:
    """Compare each sampler with a model alone, on the datasets where all of them have every split."""
    names = [model, *(f"{model} + {label}" for label in SAMPLERS)]
    complete, _ = complete_datasets(records, names)
    losses, accuracies = dataset_means(complete, "log_loss", names), dataset_means(complete, "accuracy", names)
    ranks = {metric: mean_ranks(complete, metric) for metric in ("log_loss", "accuracy")}
    tests = {metric: wilcoxon_holm(complete, model, metric) for metric in ("log_loss", "accuracy")}
    seconds = dataset_means(complete, "seconds", names)
    rows: dict[str, dict[str, Any]] = {}
    for name in names:
        rows[name] = {
            "sets": len(losses),
            "log-loss": round(float(losses[name].mean()), 4),
            "accuracy": round(float(accuracies[name].mean()) / 100, 4),
            "rank (log-loss)": round(float(ranks["log_loss"][name]), 2),
            "rank (accuracy)": round(float(ranks["accuracy"][name]), 2),
            "times the seconds (median)": round(float((seconds[name] / seconds[model]).median()), 2),
        }
        if name != model:
            for metric in ("log_loss", "accuracy"):
                count = wins(complete, name, model, metric)
                rows[name] |= {
                    f"{metric}: better, same, worse": f"{count.better}, {count.tie}, {count.worse}",
                    f"{metric}: p": float(f"{tests[metric].loc[name, 'holm']:.2g}"),
                }
            rows[name]["accidents"] = int((losses[name] - losses[model] > ACCIDENT).sum())
    return pd.DataFrame(rows).T


def main() -> None:
    parser = make_parser(__doc__)
    add_data_home(parser)
    parser.add_argument("--max-rows", type=int, default=500)
    parser.add_argument("--max-features", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--records", type=Path, default=Path("build", "soft_labels.sqlite"))
    parser.add_argument("--report", action="store_true", help="fit nothing, report the records")
    parser.add_argument("--json", type=Path, help="also write the report there")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.report:
        records = load_records(args.records, BENCHMARK)
    else:
        with threadpool_limits(1):
            records = run_benchmark(
                dataset_ids(args.data_home, max_features=args.max_features, min_rows=100, max_rows=args.max_rows),
                methods(args.models),
                args.repeats,
                seed=args.seed,
                records=args.records,
                n_jobs=args.jobs,
                load=partial(load_openml, data_home=args.data_home),
                callback=LambdaCallback(
                    on_trial_end=lambda result: print(result.trial, result.error or "", flush=True)
                ),
            )
    failures = [f"{trial.id}: {error}" for trial, error in records.failures.items()]
    tables = {model: report(records.frame, model) for model in args.models}
    for model, table in tables.items():
        print(f"\n== {model} ==\n{table.fillna('').to_string()}")
    print(f"\n{len(failures)} fits failed", *failures[:20], sep="\n")
    if args.json:
        plain = {model: json.loads(table.T.to_json()) for model, table in tables.items()}
        args.json.write_text(json.dumps({"repeats": args.repeats, "tables": plain, "failures": failures}, indent=1))


if __name__ == "__main__":
    main()
