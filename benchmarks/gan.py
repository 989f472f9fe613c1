"""Measure GANDensity: cost of a fit and an inversion, distance of its manifolds to the true curves, covered modes.

python benchmarks/gan.py [--seeds 2] [--sets moon circle two-circle] [--ablation] [--json FILE]

`--ablation` also fits each of these datasets without the critic, without the energy distance, without the refinement
of the curves, and with the other encoders; the datasets of modes also with 32 charts.
"""

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from genlabel.data.datasets.synthetic import make_circle, make_moon, make_two_circle
from genlabel.densities import GANDensity
from genlabel.densities.gan import training as gan_training

Points = NDArray[np.float64]
ANGLES = np.linspace(0, 2 * np.pi, 4001)
HALF = ANGLES / 2
SETS: dict[str, Any] = {"moon": make_moon, "circle": make_circle, "two-circle": make_two_circle}


def ring(radius: float, x: float = 0.0) -> Points:
    return np.c_[x + radius * np.cos(ANGLES), radius * np.sin(ANGLES)]


CURVES: dict[str, list[Points]] = {
    "moon": [np.c_[np.cos(HALF), np.sin(HALF)], np.c_[1 - np.cos(HALF), 0.5 - np.sin(HALF)]],
    "circle": [ring(1.0), ring(0.8)],
    "two-circle": [np.r_[ring(1.0, 1.2), ring(0.8, -1.2)], np.r_[ring(0.8, 1.2), ring(1.0, -1.2)]],
}
"""The classes without their noise."""


def curve_distances(name: str, points: Points) -> Points:
    """Return the true distances from the curves, (m, 2)."""
    tensor = torch.from_numpy(points)
    return np.stack([torch.cdist(tensor, torch.from_numpy(c)).min(1).values.numpy() for c in CURVES[name]], 1)


def equidistant_points(name: str, X: Points, rng: np.random.Generator, n: int = 300) -> Points:
    """Return points in the range of the rows at nearly the same distance from both curves."""
    points = rng.uniform(X.min(0), X.max(0), (20000, 2))
    distance = curve_distances(name, points)
    is_equidistant = np.abs(distance[:, 0] - distance[:, 1]) < 0.02 * distance.sum(1)
    return points[is_equidistant][:n]


class Variant(NamedTuple):
    """Encoder of a density, and weights of its training."""

    encoder: str | None = "regression"
    critic: float = gan_training.CRITIC
    energy: float = gan_training.ENERGY
    refinement_steps: int = gan_training.REFINEMENT_STEPS

    @contextmanager
    def training(self) -> Iterator[None]:
        """Train with these weights in the block."""
        saved = gan_training.CRITIC, gan_training.ENERGY, gan_training.REFINEMENT_STEPS
        gan_training.CRITIC, gan_training.ENERGY, gan_training.REFINEMENT_STEPS = self[1:]
        yield
        gan_training.CRITIC, gan_training.ENERGY, gan_training.REFINEMENT_STEPS = saved


VARIANTS = {
    "default": Variant(),
    "no critic": Variant(critic=0.0),
    "no energy distance": Variant(energy=0.0),
    "no refinement": Variant(refinement_steps=0),
    "bigan": Variant(encoder="bigan"),
    "no encoder": Variant(encoder=None),
}


def measure_curves(name: str, seed: int, variant: str) -> dict[str, Any]:
    """Return costs, accuracy, and errors of the distances of a density that is fitted to noisy curves."""
    X, y = SETS[name](random_state=seed)
    X_test, y_test = SETS[name](random_state=100 + seed)
    start = perf_counter()
    with VARIANTS[variant].training():
        density = GANDensity(encoder=VARIANTS[variant].encoder, min_coverage=0.0, random_state=seed).fit(X, y)
    fit = perf_counter() - start
    queries = X_test[:1000]
    start = perf_counter()
    density.project(queries)
    inversion = perf_counter() - start
    points = equidistant_points(name, X, np.random.default_rng(seed))
    distance = np.linalg.norm(points[:, None] - density.project(points), axis=-1)
    true = curve_distances(name, points)
    unequal = np.abs((distance[:, 0] - distance[:, 1]) - (true[:, 0] - true[:, 1])) / true.sum(1)
    return {
        "set": name,
        "variant": variant,
        "seed": seed,
        "fit_s": fit,
        "inversion_of_1000_s": inversion,
        "accuracy": float(np.mean(density.log_prob(X_test).argmax(1) == y_test)),
        "distance_error_median": float(np.median(np.abs(distance - true) / true)),
        "off_equidistance_median": float(np.median(unequal)),
        "off_equidistance_90": float(np.quantile(unequal, 0.9)),
        "coverage": density.coverage_.tolist(),
    }


def mode_centers(name: str) -> Points:
    if name == "8-ring":
        angle = 2 * np.pi * np.arange(8) / 8
        return 2 * np.c_[np.cos(angle), np.sin(angle)]
    grid = np.arange(-4.0, 5.0, 2.0)
    return np.stack(np.meshgrid(grid, grid), -1).reshape(-1, 2)


def measure_modes(name: str, seed: int, charts: int | None) -> dict[str, Any]:
    """Count modes with a fifth of their share of 2,500 samples, and samples within 4 deviations of a mode."""
    rng, modes, deviation = np.random.default_rng(seed), mode_centers(name), 0.05
    X = modes[rng.integers(len(modes), size=2500)] + rng.normal(0, deviation, (2500, 2))
    start = perf_counter()
    density = GANDensity(charts=charts, min_coverage=0.0, random_state=seed).fit(X, np.zeros(len(X)))
    fit = perf_counter() - start
    points = density.sample(2500, 0, seed)
    distance = np.linalg.norm(points[:, None] - modes, axis=-1)
    near = distance.min(1) < 4 * deviation
    counts = np.bincount(distance.argmin(1)[near], minlength=len(modes))
    return {
        "set": name,
        "seed": seed,
        "charts": charts,
        "fit_s": fit,
        "modes": int((counts >= 0.2 * 2500 / len(modes)).sum()),
        "of": len(modes),
        "near_a_mode": float(near.mean()),
        "coverage": density.coverage_.tolist(),
    }


def runs_of(name: str, seed: int, charts: int | None, ablation: bool) -> Iterator[dict[str, Any]]:
    if name in SETS:
        yield from (measure_curves(name, seed, variant) for variant in (VARIANTS if ablation else ["default"]))
    else:
        yield from (measure_modes(name, seed, number) for number in ([None, 32] if ablation else [charts]))


def format_value(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--sets", nargs="*", default=[*SETS, "8-ring", "25-grid"])
    parser.add_argument("--charts", type=int, default=None, help="charts for the datasets of modes")
    parser.add_argument("--ablation", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    runs = []
    for name in args.sets:
        for seed in range(args.seeds):
            for run in runs_of(name, seed, args.charts, args.ablation):
                print(", ".join(f"{key} {format_value(value)}" for key, value in run.items()), flush=True)
                runs.append(run)
    if args.json:
        args.json.write_text(json.dumps({"torch": torch.__version__, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
