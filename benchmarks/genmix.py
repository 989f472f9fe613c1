"""Measure GenMix: points per second and their errors, in closed form for Gaussians and by root finding for kernels.

python benchmarks/genmix.py --json build/genmix.json
"""

import argparse
import json
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from common import seconds

from genlabel import DensityWarning, GaussianDensity, GenMix, KernelDensity
from genlabel.densities import DiscriminantDensity, MixtureDensity
from genlabel.mixing.finders import SegmentFinder
from genlabel.mixing.genmix import sample_surfaces

CASES: list[tuple[str, Any, int, int, int, int]] = [
    ("Gaussians, closed form", GaussianDensity(), 10, 20, 5000, 10_000),
    ("Gaussians, closed form", GaussianDensity(), 100, 20, 10_000, 10_000),
    ("discriminant, closed form", DiscriminantDensity(0.3), 10, 20, 5000, 10_000),
    ("mixture, roots on segments", MixtureDensity(3), 10, 20, 5000, 10_000),
    ("kernels, roots on segments", KernelDensity(), 3, 5, 1500, 2000),
]


def make_classes(k: int, d: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of Gaussian classes with random centers and covariances; a third class is between some pairs."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % k
    roots = np.eye(d) + 0.3 * rng.normal(size=(k, d, d))
    return 1.5 * rng.normal(size=(k, d))[y] + np.einsum("nd,nde->ne", rng.normal(size=(n, d)), roots[y]), y


def measure(density: Any, X: np.ndarray, y: np.ndarray, count: int) -> dict[str, Any]:
    """Return seconds (median of three, fit included), the largest error, intruding points, and pairs with points."""
    genmix = GenMix(density, n_aug=count, output="soft", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DensityWarning)
        times = [seconds(lambda: genmix.fit_resample(X, y)) for _ in range(3)]
        points = genmix.fit_resample(X, y)[0][len(X) :]
    values, rows = genmix.density_.log_prob(points), np.arange(len(points))[:, None]
    inside = values[rows, genmix.pair_]
    others = values.copy()
    others[rows, genmix.pair_] = -np.inf
    k = values.shape[1]
    return {
        "points": len(points),
        "seconds": median(times),
        "largest error": float(np.abs(1 / (1 + np.exp(inside[:, 0] - inside[:, 1])) - genmix.lam_).max()),
        "intruders": int((others.max(1) > inside.min(1)).sum()),
        "pairs": f"{len(np.unique(genmix.pair_, axis=0))} of {k * (k - 1) // 2}",
    }


def compare_with_roots(count: int = 10_000) -> dict[str, Any]:
    """Return seconds of the closed form and of the general search, on the same Gaussians."""
    X, y = make_classes(10, 20, 5000)
    density = GaussianDensity().fit(X, y)
    finder = SegmentFinder(density, X, y, tolerance=1e-9)

    def general() -> None:
        sample_surfaces(finder, 10, count, (0.5, 0.5), 1e-6, np.random.default_rng(0))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DensityWarning)
        closed = GenMix(density, n_aug=count, prefit=True, random_state=0)
        fast, slow = seconds(lambda: closed.fit_resample(X, y)), seconds(general)
    return {"closed form": fast, "roots on segments": slow, "ratio": slow / fast}


def main(path: Path | None = None) -> None:
    result = []
    for name, density, k, d, n, count in CASES:
        row = {"case": name, "classes": k, "d": d, **measure(density, *make_classes(k, d, n), count)}
        result.append(row)
        goal = " (goal: 2 s)" if (k, d) == (10, 20) and "closed" in name else ""
        print(
            f"{name}, {k} classes, d = {d}: {row['points']} points in {row['seconds']:.2f} s{goal}; largest error "
            f"{row['largest error']:.1e} (goal: 1e-6), {row['intruders']} intrude, {row['pairs']} pairs have points"
        )
    ratio = compare_with_roots()
    print(f"the closed form is {ratio['ratio']:.1f} times as fast as the search on segments, on the same Gaussians")
    if path is not None:
        path.write_text(json.dumps({"cases": result, "closed form against roots": ratio}, indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the numbers there")
    torch.set_num_threads(1)
    main(parser.parse_args().json)
