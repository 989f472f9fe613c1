"""Measure what parts of the default contribute: stacked densities without a family, the classifier without a part.

    python benchmarks/studies.py families    # stacked densities alone, with one family of densities left out
    python benchmarks/studies.py parts       # the classifier without mixing, without pooling, ...

Needs the OpenML datasets of a manifest (environment variable GENLABEL_DATA_HOME). An interrupted study continues.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from common import add_data_home, dataset_ids, make_parser
from sklearn.decomposition import FactorAnalysis

from genlabel import GenerativeClassifier, GenLabelClassifier, KernelDensity, Mixup, StackedDensity
from genlabel.data.datasets import load_openml
from genlabel.densities import ClassDensity, PerClassDensity, PowerTransformedDensity
from genlabel.densities.candidates import default_candidates
from genlabel.densities.samples import ClassSample
from genlabel_paper.benchmark import dataset_means, run_benchmark, wilcoxon_holm

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
    """Gaussian with a factor-analytic covariance for each class, which the package does not have."""

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
    """Return the stacked density with all families, without each family, with more, and its single best density."""
    candidates = default_candidates()
    factors: dict[str, ClassDensity] = {f"factors {q}": FactorDensity(q) for q in (1, 2, 4)}
    factors |= {f"warped {name}": PowerTransformedDensity(density) for name, density in factors.items()}
    more = {
        "all": StackedDensity(),
        "the single best": StackedDensity(method="select"),
        "with factor analysis": StackedDensity(candidates | factors),
        "kernel, likelihood": KernelDensity("likelihood"),
    }
    without = {
        f"without {family}": StackedDensity(
            {name: density for name, density in candidates.items() if not is_member(name)}
        )
        for family, is_member in FAMILIES.items()
    }
    return {name: GenerativeClassifier(density) for name, density in (more | without).items()}


def parts(network: str = "mlp") -> dict[str, Any]:
    """Return the default, and the default without one of its parts."""
    return {
        "all": GenLabelClassifier(network),
        "never mixed, averaged": GenLabelClassifier(network, clean_fraction=1.0),
        "a quarter mixed, averaged": GenLabelClassifier(network, clean_fraction=0.75),
        "all mixed, averaged": GenLabelClassifier(network, mixer=Mixup(1.0), clean_fraction=0.0),
        "not averaged": GenLabelClassifier(network, pool_with_density=None),
    }


STUDIES: Mapping[str, Callable[[], dict[str, Any]]] = {"families": families, "parts": parts}


def report(records: pd.DataFrame) -> pd.DataFrame:
    """Return mean accuracy and log-loss, how often "all" has a log-loss lower or higher by 0.002, and p."""
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
    parser = make_parser(__doc__)
    parser.add_argument("study", choices=list(STUDIES))
    add_data_home(parser)
    parser.add_argument("--max-rows", type=int, default=2000)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--records", type=Path, help="default: build/<study>.sqlite")
    args = parser.parse_args()
    result = run_benchmark(
        dataset_ids(args.data_home, max_features=20, min_rows=100, max_rows=args.max_rows),
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
