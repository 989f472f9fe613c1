"""Measure how near to halfway points of GenMix can be on Moon (figure 15), and how near those of GANDensity are.

python benchmarks/halfway.py [--seeds 100 101 102 103] [--rows 1000] [--known-only] [--json FILE]

"known": half circles with Laplace noise, whose center, radius, ends and scale are estimated by maximum likelihood from
the same rows. No method can be expected to be better. "free": GANDensity without the penalty on changes of curvature.
Errors are measured against the true curves, which no density knows; the seeds of the record are 0 and 1.
"""

import argparse
import json
from pathlib import Path
from time import process_time
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel.data.datasets.synthetic import make_moon
from genlabel.densities import ClassDensity, GANDensity
from genlabel.densities.gan import training as gan_training
from genlabel.mixing import GenMix
from genlabel_paper.runs.curves import equidistance_error, true_curves

Points = NDArray[np.float64]
NORMS = {"l1": 1.0, "l2": 2.0, "linf": torch.inf}
NOISE = 0.03
TOLERANCE = 0.05
"""Error up to which a point counts as halfway."""
SEGMENTS = 400
"""Line segments of a half circle, onto which points are projected."""
INTEGRATION_POINTS = 2000
"""Points in the integral of the likelihood: with fewer, the optimizer stops at a kink of the Laplace density."""
INITIAL = ([0.03, -0.03, 1.03, 0.1, np.pi - 0.1], [1.03, 0.47, 1.03, np.pi + 0.1, 2 * np.pi - 0.1])
"""Initial center, radius and angles of the optimization, farther from the true ones than the results are."""


def arc(parameters: Tensor, share: Tensor) -> Tensor:
    """Return points (q, 2) of a circle with a center and a radius, between two angles."""
    angle = parameters[3] + (parameters[4] - parameters[3]) * share
    return parameters[:2] + parameters[2] * torch.stack([angle.cos(), angle.sin()], 1)


def fit_arc(X: Tensor, initial: list[float]) -> Tensor:
    """Return points of the most likely half circle of rows (n, 2) under Laplace noise, (SEGMENTS + 1, 2)."""
    parameters = torch.tensor([*initial, np.log(NOISE)], dtype=torch.float64, requires_grad=True)
    middle = (torch.arange(INTEGRATION_POINTS, dtype=torch.float64) + 0.5) / INTEGRATION_POINTS
    optimizer = torch.optim.LBFGS([parameters], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        distance = (X[:, None] - arc(parameters, middle)).abs().sum(-1) / parameters[5].exp()
        negative_log_likelihood = 2 * parameters[5] - torch.logsumexp(-distance, 1).mean()
        negative_log_likelihood.backward()
        return negative_log_likelihood

    optimizer.step(loss)
    return arc(parameters.detach(), torch.linspace(0, 1, SEGMENTS + 1, dtype=torch.float64))


@final
class KnownArcs(ClassDensity):
    """Density whose log-probabilities are minus the distances from the most likely half circles."""

    normalized = False

    def __init__(self, norm: str = "l2") -> None:
        self.norm = norm

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        self.curves_ = torch.stack([fit_arc(X[index == c], initial) for c, initial in enumerate(INITIAL)])

    def project(self, X: Tensor) -> Tensor:
        """Return the nearest point of the segments at the nearest corner of each curve, (m, 2, 2)."""
        start, direction = self.curves_[:, :-1], self.curves_.diff(dim=1)
        nearest = torch.cdist(X, self.curves_, NORMS[self.norm]).argmin(-1)  # (k, m)
        segment = torch.stack([nearest - 1, nearest], -1).clamp(0, SEGMENTS - 1)[..., None]  # (k, m, 2, 1)
        share = torch.linspace(0, 1, 33, dtype=X.dtype)[:, None]
        rows = torch.arange(len(self.curves_))[:, None, None, None]
        candidates = (start[rows, segment] + share * direction[rows, segment]).flatten(2, 3)  # (k, m, 66, 2)
        least = self._norm(X[:, None] - candidates).argmin(-1)
        return candidates.take_along_dim(least[..., None, None], 2)[:, :, 0].transpose(0, 1)

    def _norm(self, gap: Tensor) -> Tensor:
        return torch.linalg.vector_norm(gap, NORMS[self.norm], -1)

    def log_prob_near(self, X: Tensor, points: Tensor) -> Tensor:
        """Return minus the distances (m, k) from projections (m, k, d)."""
        return -self._norm(X[:, None] - points)

    def manifolds(self) -> "KnownArcs":
        """Return the density itself, which projects."""
        return self

    def _log_prob(self, X: Tensor) -> Tensor:
        return self.log_prob_near(X, self.project(X))


def measure(density: Any, X: Points, y: Points, seed: int) -> dict[str, Any]:
    """Return the median error of the points of GenMix and the share within 5 %, both in %, for each norm."""
    result: dict[str, Any] = {}
    for norm in NORMS:
        density.set_params(norm=norm)
        sampler = GenMix(density, output="soft", eps=1e-4, prefit=True, random_state=seed)
        points = sampler.fit_resample(X, y)[0][len(X) :]
        error = 100 * equidistance_error(points, "moon", sampler.pair_, norm)
        result[norm] = [float(np.median(error)), float(100 * (error <= 100 * TOLERANCE).mean())]
    return result


def end_errors(density: GANDensity | KnownArcs) -> list[float]:
    """Return the distances of the four ends of the fitted curves from the true ones."""
    ends = np.concatenate([curve[[0, -1]] for (curve,) in true_curves("moon")])
    beyond = ends + np.array([[0.0, -1], [0, -1], [0, 1], [0, 1]]) * 0.25
    density.set_params(norm="l2")
    nearest = np.asarray(density.project(torch.from_numpy(beyond)))[np.arange(4), [0, 0, 1, 1]]
    return np.linalg.norm(nearest - ends, axis=1).tolist()


def run(method: str, seed: int, rows: int) -> dict[str, Any]:
    X, y = make_moon(rows, noise=NOISE, random_state=seed)
    density = KnownArcs() if method == "known" else GANDensity(encoder=None, random_state=seed)
    saved = gan_training.SMOOTHNESS
    gan_training.SMOOTHNESS = 0.0 if method == "free" else saved
    start = process_time()
    try:
        density.fit(X, y)
    finally:
        gan_training.SMOOTHNESS = saved
    fit = process_time() - start
    return {"method": method, "rows": rows, "seed": seed, "fit_s": fit, **measure(density, X, y, seed)} | {
        "off_ends": end_errors(density)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="*", default=[100, 101, 102, 103])
    parser.add_argument("--rows", type=int, nargs="*", default=[1000])
    parser.add_argument("--known-only", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    runs = []
    for rows in args.rows:
        for method in ["known"] if args.known_only else ["known", "free", "default"]:
            results = [run(method, seed, rows) for seed in args.seeds]
            runs += results
            words = [
                f"{norm} {np.mean([result[norm] for result in results], axis=0).round(1).tolist()}" for norm in NORMS
            ]
            ends = f"ends off by {np.mean([result['off_ends'] for result in results]):.4f}"
            spent = f"{np.mean([result['fit_s'] for result in results]):.0f} s"
            print(f"{rows} rows, {method}: median, share:", ", ".join([*words, ends, spent]), flush=True)
    if args.json:
        args.json.write_text(json.dumps({"torch": torch.__version__, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
