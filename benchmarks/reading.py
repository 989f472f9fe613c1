"""Measure how long text files are read, against pandas: numbers in many columns, and mixed columns.

    python benchmarks/reading.py [--megabytes 50] [--rounds 2]

"wide" has 2,000 columns of numbers, "mixed" 24 columns: numbers, amounts such as "$1,234.50", dates, categories. Both
readers take turns on the same files; the fastest of each counts.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import pandas as pd

from genlabel.data.tables import read_table


def make_wide(n: int, rng: np.random.Generator) -> pd.DataFrame:
    return pd.DataFrame(rng.normal(size=(n, 2000)).round(6)).add_prefix("x")


def make_mixed(n: int, rng: np.random.Generator) -> pd.DataFrame:
    columns: dict[str, object] = {}
    for j in range(6):
        columns[f"number{j}"] = rng.normal(size=n).round(6)
        columns[f"amount{j}"] = [f"${value:,.2f}" for value in rng.uniform(1, 1e5, n)]
        columns[f"day{j}"] = (pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 2000, n), "D")).astype(str)
        columns[f"group{j}"] = rng.choice(["red", "green", "blue", "not known yet"], n)
    return pd.DataFrame(columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=50.0)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    for name, make in {"wide": make_wide, "mixed": make_mixed}.items():
        with TemporaryDirectory() as folder:
            path = Path(folder, f"{name}.csv")
            make(200, rng).to_csv(path, index=False)
            n = int(200 * arguments.megabytes * 1e6 / path.stat().st_size)
            make(n, rng).assign(y=rng.integers(0, 2, n)).to_csv(path, index=False)
            seconds: dict[str, list[float]] = {"pandas": [], "genlabel": []}
            for _ in range(arguments.rounds):
                for reader, read in {"pandas": pd.read_csv, "genlabel": lambda file: read_table(file, "y")}.items():
                    begin = perf_counter()
                    read(path)
                    seconds[reader].append(perf_counter() - begin)
            theirs, ours = (min(seconds[reader]) for reader in ("pandas", "genlabel"))
            size = path.stat().st_size / 1e6
            print(
                f"{name}: {size:.0f} MB, {n:,} rows; pandas {theirs:.1f} s, genlabel {ours:.1f} s, {ours / theirs:.1f}x"
            )


if __name__ == "__main__":
    main()
