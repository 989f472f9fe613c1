"""Measure how near to halfway points of GenMix can be on Moon (figure 15), and how near those of GANDensity are.

python benchmarks/half_way.py [--seeds 100 101 102 103] [--rows 1000] [--known-only] [--json FILE]

"known": half circles and their Laplace noise, whose center, radius, ends and scale are had by maximum likelihood from
the same rows. No method can be expected to pass it. "free": GANDensity without the penalty on a change of the bend.
True curves measure, and no density is told of them; the seeds of the record are 0 and 1.
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
NOISE, NEAR = 0.03, 0.05
PLACES, FINER = 400, 2000
"""Straight pieces of a half circle to which is projected, and places in the integral of its likelihood: with fewer, the
climb is caught at a kink of the Laplace density near where it began."""
BEGIN = ([0.03, -0.03, 1.03, 0.1, np.pi - 0.1], [1.03, 0.47, 1.03, np.pi + 0.1, 2 * np.pi - 0.1])
"""Centre, radius and angles from which the likelihood is climbed: off the true ones by more than they are found."""


def arc(about: Tensor, share: Tensor) -> Tensor:
    """Points (q, 2) of a circle with a center and a radius, between two angles."""
    angle = about[3] + (about[4] - about[3]) * share
    return about[:2] + about[2] * torch.stack([angle.cos(), angle.sin()], 1)


def fit_arc(X: Tensor, begin: list[float]) -> Tensor:
    """The most likely half circle of rows (n, 2) under Laplace noise of each coordinate: PLACES + 1 points of it."""
    about = torch.tensor([*begin, np.log(NOISE)], dtype=torch.float64, requires_grad=True)
    middle = (torch.arange(FINER, dtype=torch.float64) + 0.5) / FINER
    optimizer = torch.optim.LBFGS([about], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        far = (X[:, None] - arc(about, middle)).abs().sum(-1) / about[5].exp()
        unlikely = 2 * about[5] - torch.logsumexp(-far, 1).mean()
        unlikely.backward()
        return unlikely

    optimizer.step(loss)
    return arc(about.detach(), torch.linspace(0, 1, PLACES + 1, dtype=torch.float64))


@final
class KnownArcs(ClassDensity):
    """Minus the distance to the most likely half circles."""

    normalized = False

    def __init__(self, norm: str = "l2") -> None:
        self.norm = norm

    def _fit(self, X: Tensor, index: Tensor, weight: Tensor) -> None:
        self.curves_ = torch.stack([fit_arc(X[index == c], begin) for c, begin in enumerate(BEGIN)])

    def project(self, X: Tensor) -> Tensor:
        """The nearest point of the straight pieces next to the nearest corner of each curve, (m, 2, 2)."""
        begin, along = self.curves_[:, :-1], self.curves_.diff(dim=1)
        nearest = torch.cdist(X, self.curves_, NORMS[self.norm]).argmin(-1)  # (k, m)
        piece = torch.stack([nearest - 1, nearest], -1).clamp(0, PLACES - 1)[..., None]  # (k, m, 2, 1)
        share = torch.linspace(0, 1, 33, dtype=X.dtype)[:, None]
        rows = torch.arange(len(self.curves_))[:, None, None, None]
        tried = (begin[rows, piece] + share * along[rows, piece]).flatten(2, 3)  # (k, m, 66, 2)
        least = self._norm(X[:, None] - tried).argmin(-1)
        return tried.take_along_dim(least[..., None, None], 2)[:, :, 0].transpose(0, 1)

    def _norm(self, gap: Tensor) -> Tensor:
        return torch.linalg.vector_norm(gap, NORMS[self.norm], -1)

    def log_prob_near(self, X: Tensor, points: Tensor) -> Tensor:
        """Minus the distances (m, k) to projections (m, k, d)."""
        return -self._norm(X[:, None] - points)

    def manifolds(self) -> "KnownArcs":
        """Itself: it projects."""
        return self

    def _log_prob(self, X: Tensor) -> Tensor:
        return self.log_prob_near(X, self.project(X))


def measure(density: Any, X: Points, y: Points, seed: int) -> dict[str, Any]:
    """The error of the points of GenMix in each norm: its median, and the share within 5 %, both in %."""
    result: dict[str, Any] = {}
    for norm in NORMS:
        density.set_params(norm=norm)
        sampler = GenMix(density, output="soft", eps=1e-4, prefit=True, random_state=seed)
        points = sampler.fit_resample(X, y)[0][len(X) :]
        error = 100 * equidistance_error(points, "moon", sampler.pair_, norm)
        result[norm] = [float(np.median(error)), float(100 * (error <= 100 * NEAR).mean())]
    return result


def off_ends(density: GANDensity | KnownArcs) -> list[float]:
    """How far from the four true ends the curves' nearest points to places beyond them are."""
    ends = np.concatenate([curve[[0, -1]] for (curve,) in true_curves("moon")])
    beyond = ends + np.array([[0.0, -1], [0, -1], [0, 1], [0, 1]]) * 0.25
    density.set_params(norm="l2")
    result = np.asarray(density.project(torch.from_numpy(beyond)))[np.arange(4), [0, 0, 1, 1]]
    return [float(one) for one in np.linalg.norm(result - ends, axis=1)]


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
        "off_ends": off_ends(density)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="*", default=[100, 101, 102, 103])
    parser.add_argument("--rows", type=int, nargs="*", default=[1000])
    parser.add_argument("--known-only", action="store_true")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    runs = []
    for rows in given.rows:
        for method in ["known"] if given.known_only else ["known", "free", "default"]:
            part = [run(method, seed, rows) for seed in given.seeds]
            runs += part
            words = [f"{norm} {np.mean([one[norm] for one in part], axis=0).round(1).tolist()}" for norm in NORMS]
            ends = f"ends off by {np.mean([one['off_ends'] for one in part]):.4f}"
            spent = f"{np.mean([one['fit_s'] for one in part]):.0f} s"
            print(f"{rows} rows, {method}: median, share:", ", ".join([*words, ends, spent]), flush=True)
    if given.json:
        given.json.write_text(json.dumps({"torch": torch.__version__, "runs": runs}, indent=1) + "\n")


if __name__ == "__main__":
    main()
