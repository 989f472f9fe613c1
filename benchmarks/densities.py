"""Measure densities on Moon and Two-circle: generative accuracy, held-out likelihood, mass on a grid, and cost.

The truth stands beside them: both datasets are curves under Laplace noise, whose density is known.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from genlabel.data.datasets.synthetic import make_moon, make_two_circle
from genlabel.densities import ClassDensity, FlowDensity, GaussianDensity, KernelDensity, MixtureDensity, VAEDensity
from genlabel.densities.candidates import named_densities

Arrays = tuple[NDArray[np.float64], NDArray[np.int64]]


class Table(NamedTuple):
    """A dataset whose density is known, and the grid on which densities of it are summed."""

    make: Callable[..., Arrays]
    noise: float
    box: tuple[float, float, float, float]
    """Lower and upper ends of the two axes of the grid."""
    step: float


TABLES = {
    "moon": Table(make_moon, 0.1, (-3.0, 4.0, -3.0, 3.5), 0.02),
    "two-circle": Table(make_two_circle, 0.01, (-4.0, 4.0, -3.0, 3.0), 0.0125),
}
SETTINGS: dict[str, Callable[[], ClassDensity]] = {
    "gaussian": GaussianDensity,
    "kernel": KernelDensity,
    "kernel-likelihood": lambda: KernelDensity("likelihood"),
    "mixture": MixtureDensity,
    "mixture-32": lambda: MixtureDensity(32, "diagonal", reg=1e-3),
    "flow": FlowDensity,
    "maf": lambda: FlowDensity("maf", transforms=5),
    "vae": VAEDensity,
}
"""Densities by name; `named_densities` knows further names."""
TRUTH_SAMPLES = 2048
"""Importance samples with which a bound is taken for the truth."""
BOUND_DRAWS = 8
"""Draws over which the bound is averaged."""


def make_density(name: str, seed: int) -> ClassDensity:
    density = SETTINGS[name]() if name in SETTINGS else next(iter(named_densities(name).values()))
    return density.set_params(random_state=seed) if "random_state" in density.get_params() else density


def true_log_prob(table: Table, X: NDArray[np.float64], n_curve: int = 4000) -> NDArray[np.float64]:
    """Return the log-density of each class at `X`, (m, 2): the mean of Laplace densities along its curve."""
    curve, classes = table.make(n_curve, noise=0.0)
    result = np.empty((len(X), 2))
    for c in range(2):
        distance = np.abs(X[:, None] - curve[classes == c]).sum(2) / table.noise
        nearest = distance.min(1)
        result[:, c] = np.log(np.exp(nearest[:, None] - distance).mean(1)) - nearest - 2 * np.log(2 * table.noise)
    return result


def mass_on_grid(density: ClassDensity, table: Table) -> list[float]:
    """Return the integral of exp(log_prob) of each class."""
    a, b, c, d = table.box
    axes = np.arange(a, b, table.step), np.arange(c, d, table.step)
    points = np.stack(np.meshgrid(*axes), -1).reshape(-1, 2)
    return (np.exp(density.log_prob(points)).sum(0) * table.step**2).tolist()


def measure(name: str, table: Table, seed: int) -> dict[str, Any]:
    """Return the measurements of a density that is fitted to the paper's number of rows, on as many new ones."""
    (X, y), (X_test, y_test) = (table.make(random_state=s) for s in (seed, 1000 + seed))
    density = make_density(name, seed)
    start = perf_counter()
    density.fit(X, y)
    middle = perf_counter()
    values = density.log_prob(X_test)
    end = perf_counter()
    result = {"fit_seconds": middle - start, "query_us": 1e6 * (end - middle) / len(X_test), **score(values, y_test)}
    if seed == 0 and (density.normalized or isinstance(density, VAEDensity)):
        result["mass"] = mass_on_grid(density, table)
    if seed == 0 and isinstance(density, VAEDensity):
        result["bound_gap"] = bound_gap(density, X_test, y_test)
    if not density.normalized and not isinstance(density, VAEDensity):
        del result["log_likelihood"]
    return result


def bound_gap(density: VAEDensity, X: NDArray[np.float64], y: NDArray[np.int64]) -> float:
    """Return the mean distance of the bound from the truth, in nats, over test rows and draws of a query."""
    bounds = []
    for seed in range(BOUND_DRAWS):
        density.query_seed_ = seed
        bounds.append(score(density.log_prob(X), y)["log_likelihood"])
    truth = density.set_params(n_samples=TRUTH_SAMPLES).log_prob(X)
    return score(truth, y)["log_likelihood"] - float(np.mean(bounds))


def score(values: NDArray[np.float64], y: NDArray[np.int64]) -> dict[str, float]:
    own = values[np.arange(len(y)), y]
    return {"accuracy": float((values.argmax(1) == y).mean()), "log_likelihood": float(own.mean())}


def mean(rows: Sequence[dict[str, Any]], key: str) -> float:
    return float(np.mean([row[key] for row in rows if key in row])) if any(key in row for row in rows) else np.nan


def line(name: str, rows: Sequence[dict[str, Any]]) -> str:
    masses = [mass for row in rows for mass in row.get("mass", [])]
    spread = 100 * float(np.std([row["accuracy"] for row in rows]))
    mass = f"{min(masses):.3f} to {max(masses):.3f}" if masses else ""
    gap = f"{mean(rows, 'bound_gap'):.3f}" if any("bound_gap" in row for row in rows) else ""
    return (
        f"{name:>18} {100 * mean(rows, 'accuracy'):7.2f} +- {spread:4.2f} {mean(rows, 'log_likelihood'):8.2f} "
        f"{mass:>15} {gap:>6} {mean(rows, 'fit_seconds'):9.2f} {mean(rows, 'query_us'):9.1f}"
    )


def run(names: Sequence[str], seeds: range) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Measure, and print a line for each density as soon as it is measured."""
    result: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for title, table in TABLES.items():
        print(f"\n{title}, {len(seeds)} seeds")
        print(f"{'':>18} {'accuracy %':>15} {'log p':>8} {'mass':>15} {'gap':>6} {'fit s':>9} {'us a row':>9}")
        tests = [table.make(random_state=1000 + seed) for seed in seeds]
        truth = [score(true_log_prob(table, X), y) for X, y in tests]
        result[title] = {"truth": truth}
        print(line("truth", [{**row, "fit_seconds": np.nan, "query_us": np.nan} for row in truth]), flush=True)
        for name in names:
            result[title][name] = [measure(name, table, seed) for seed in seeds]
            print(line(name, result[title][name]), flush=True)
    return result


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    known = ", ".join([*SETTINGS, "gan", "stacked"])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which of {known}; all but the last two by default")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--json", type=Path, help="also write the numbers of every fit to this file")
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    result = run(args.names or list(SETTINGS), range(args.first, args.first + args.seeds))
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
