"""What each part of the default earns: stacked densities without a family, and the classifier without a part of it.

    python benchmarks/studies.py families    # stacked densities alone, with one family of densities left out
    python benchmarks/studies.py parts       # the classifier without mixing, without the average, ...

Needs the OpenML datasets of a manifest (environment variable GENLABEL_DATA_HOME). A study that was stopped continues.
"""

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.decomposition import FactorAnalysis

from genlabel import ClassDensity, GenerativeClassifier, GenLabelClassifier, KernelDensity, Mixup, StackedDensity
from genlabel.data.datasets import load_openml
from genlabel.data.datasets.catalog import openml_manifest
from genlabel.densities import PerClassDensity, PowerTransformedDensity
from genlabel.densities.candidates import default_candidates
from genlabel.densities.samples import ClassSample
from genlabel_paper.benchmark import dataset_means, run_benchmark, wilcoxon_holm
from genlabel_paper.benchmark.command import manifest_ids

FAMILIES: dict[str, Callable[[str], bool]] = {
    "discriminants toward a sphere": lambda name: "shrinkage=" in name,
    "discriminants toward a diagonal": lambda name: "discriminant" in name and "diagonal" in name,
    "kernels, shared covariance": lambda name: "kernel" in name and "shared" in name,
    "kernels, class covariance": lambda name: "kernel" in name and "shrunk" in name,
    "all kernels": lambda name: "kernel" in name,
    "mixtures, tied": lambda name: "mixture" in name and "tied" in name,
    "mixtures, diagonal": lambda name: "mixture" in name and "diagonal" in name,
    "all mixtures": lambda name: "mixture" in name,
    "warped features": lambda name: name.startswith("warped"),
    "plain features": lambda name: not name.startswith("warped"),
}


class FactorDensity(PerClassDensity):
    """A Gaussian with a factor-analytic covariance for each class: tried, and not in the package."""

    def __init__(self, factors: int = 2) -> None:
        self.factors = factors

    def _fit_class(self, sample: ClassSample) -> Any:
        points = sample.X.numpy()
        model = FactorAnalysis(min(self.factors, len(points), points.shape[1])).fit(points)
        return _Scores(model)


class _Scores:
    def __init__(self, model: FactorAnalysis) -> None:
        self.model = model

    def log_prob(self, x: Any) -> Any:
        return x.new_tensor(self.model.score_samples(x.cpu().numpy()))


def families() -> dict[str, Any]:
    """The stacked density by itself, and without each family; with more; and the single best instead of a stack."""
    every = default_candidates()
    factors: dict[str, ClassDensity] = {f"factors {q}": FactorDensity(q) for q in (1, 2, 4)}
    factors |= {f"warped {name}": PowerTransformedDensity(density) for name, density in factors.items()}
    more = {
        "all": StackedDensity(),
        "the single best": StackedDensity(method="select"),
        "with factor analysis": StackedDensity(every | factors),
        "kernel, likelihood": KernelDensity("likelihood"),
    }
    without = {
        f"without {family}": StackedDensity({name: density for name, density in every.items() if not member(name)})
        for family, member in FAMILIES.items()
    }
    return {name: GenerativeClassifier(density) for name, density in (more | without).items()}


def blocks(network: str = "mlp") -> dict[str, Any]:
    """The default, and what is left of it without one of its parts."""
    return {
        "all": GenLabelClassifier(network),
        "never mixed, averaged": GenLabelClassifier(network, clean_fraction=1.0),
        "a quarter mixed, averaged": GenLabelClassifier(network, clean_fraction=0.75),
        "all mixed, averaged": GenLabelClassifier(network, mixer=Mixup(1.0), clean_fraction=0.0),
        "not averaged": GenLabelClassifier(network, pool_with_density=None),
    }


STUDIES: Mapping[str, Callable[[], dict[str, Any]]] = {"families": families, "parts": blocks}


def report(records: pd.DataFrame) -> pd.DataFrame:
    """Mean accuracy and log-loss, datasets on which "all" has the lower log-loss (by 0.002) and the higher, and p."""
    table = dataset_means(records, "log_loss")
    tests = wilcoxon_holm(records, "all", "log_loss")
    rows = []
    for name in records["method"].unique():
        gap = table["all"] - table[name]
        rows.append(
            {
                "": name,
                "accuracy (%)": round(dataset_means(records, "accuracy")[name].mean(), 2),
                "log-loss": round(table[name].mean(), 4),
                "all is better": f"{(gap < -0.002).mean():.0%}",
                "all is worse": f"{(gap > 0.002).mean():.0%}",
                "p (Holm)": "" if name == "all" else f"{float(tests.loc[name, 'holm']):.2g}",
            }
        )
    return pd.DataFrame(rows).set_index("")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", choices=list(STUDIES))
    parser.add_argument("--data-home", type=Path, help="the folder of the manifest; default: GENLABEL_DATA_HOME")
    parser.add_argument("--max-rows", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--records", type=Path, help="default: build/<study>.sqlite")
    args = parser.parse_args()
    manifest = openml_manifest(args.data_home)
    if manifest is None:
        parser.error("there is no manifest.csv; name its folder with --data-home or GENLABEL_DATA_HOME")
    result = run_benchmark(
        manifest_ids(manifest, max_features=20, min_rows=100, max_rows=args.max_rows),
        STUDIES[args.study](),
        args.repeats,
        seed=args.seed,
        records=args.records or Path("build", f"{args.study}.sqlite"),
        n_jobs=args.jobs,
        load=partial(load_openml, data_home=args.data_home),
    ).frame
    print(f"{result['dataset'].nunique()} datasets of 100 to {args.max_rows} rows, splits of each: {args.repeats}")
    print(report(result).to_string())


if __name__ == "__main__":
    main()
