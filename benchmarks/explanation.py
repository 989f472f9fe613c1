"""Compare sampled contributions with exact ones: their error, its stated standard error, and the rows predicted.

    python benchmarks/explanation.py iris openml:37 wine

needs the OpenML datasets in the folder that GENLABEL_DATA_HOME names.
"""

import argparse

import numpy as np
import pandas as pd

from genlabel import GenLabelClassifier, explain
from genlabel.data.datasets import load_table
from genlabel.data.tables import table_pipeline

DATASETS = ("iris", "openml:48", "openml:37", "openml:307", "wine")
N_ROWS, N_BACKGROUND = 3, 100


def compare(name: str, n_permutations: int) -> dict[str, object]:
    """Return the errors of sampled contributions for rows that the default classifier was not fitted to."""
    table = load_table(name)
    order = np.random.default_rng(0).permutation(len(table.y))
    train, new = order[N_ROWS:], table.X.iloc[order[:N_ROWS]]
    X, y = table.X.iloc[train], table.y.iloc[train]
    model = table_pipeline(X, GenLabelClassifier(random_state=0)).fit(X, y)
    options = {"n_background": N_BACKGROUND, "random_state": 0}
    exact = explain(model, new, X, y, method="exact", **options)
    sampled = explain(model, new, X, y, method="permutation", n_permutations=n_permutations, **options)
    d, error = len(exact.columns), sampled.contributions - exact.contributions
    return {
        "dataset": name,
        "columns": d,
        "exact: predictions": N_BACKGROUND * 2**d,
        "sampled: predictions": N_BACKGROUND * n_permutations * (d - 1),
        "largest contribution": np.abs(exact.contributions).max(axis=(1, 2)).mean(),
        "RMS error": np.sqrt(np.square(error).mean()),
        "RMS standard error": np.sqrt(np.square(sampled.standard_error).mean()),
        "largest error": np.abs(error).max(),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", default=DATASETS)
    parser.add_argument("--n-permutations", type=int, default=10)
    arguments = parser.parse_args()
    rows = [compare(name, arguments.n_permutations) for name in arguments.datasets]
    print(pd.DataFrame(rows).round(4).to_string(index=False))
