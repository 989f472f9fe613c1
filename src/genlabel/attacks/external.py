"""Attacks by other packages: the boundary attack (foolbox), which needs classes only, and AutoAttack (pyautoattack)."""

from __future__ import annotations

import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from logging.handlers import BufferingHandler
from typing import Any, ClassVar, final

import numpy as np
import torch
from torch import Tensor, nn

from genlabel._arrays import chunks, one_hot
from genlabel._validation import check_count, warn
from genlabel.attacks.base import Attack, row_norm
from genlabel.attacks.models import PIXEL_BOUNDS, AttackedModel, AttackedNetwork, predict
from genlabel.registry import ATTACKS

WALK_STEPS = {"spherical_step": 0.3, "source_step": 0.03, "update_stats_every_k": 1}
"""Initial step sizes of the walk, which adapt. Those of foolbox are for images, which have far more features."""


@ATTACKS.register("boundary")
@final
@dataclass(frozen=True, repr=False)
class Boundary(Attack):
    """Decision-based attack of Brendel et al. (arXiv Section 6), by `foolbox`; in L2.

    The walk to a point starts at the nearest misclassified one among the given points and random ones, moves straight
    to the boundary, and follows it towards the point. The result counts within the radius only; a point without a start
    stays as it is. foolbox takes values in [0, 1]: the bounds, or the range of the points enlarged by the radius, are
    mapped there, all features by the same factor so that distances keep their ratios.

    Needs `pip install 'genlabel[robustness]'`.

    Parameters
    ----------
    eps, bounds
        As in :class:`Attack`.
    steps : int
        Number of steps of the walk; each queries the model once for all points.
    draws : int
        Number of random points among which a start is sought.

    Examples
    --------
    >>> Boundary(0.5, steps=100)
    Boundary(eps=0.5, steps=100)
    """

    norm: str = field(default="l2", init=False)
    steps: int = 1000
    draws: int = 500

    needs_gradient: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("steps", self.steps)
        check_count("draws", self.draws, low=0)

    def run(self, model: AttackedModel, x: Tensor, y: Tensor, rng: np.random.Generator) -> Tensor:
        """Walk to the points that are correct and have a start; return the ends that are in the ball."""
        foolbox = import_attack_package("foolbox")
        flat = x.flatten(0, -2)
        low, high = flat.amin(0) - self.eps, flat.amax(0) + self.eps
        if self.bounds is not None:
            low, high = (flat.new_tensor(bound).expand_as(low) for bound in self.bounds)
        side = (high - low).amax()

        def encode(points: Tensor) -> Tensor:
            return ((points - low) / side).clamp(0.0, 1.0)

        def decode(u: Tensor) -> Tensor:
            return self.clip(low + side * u)

        random = decode(torch.from_numpy(rng.random((self.draws, x.shape[-1]))).to(x))  # the same for every model
        starts, mask = _nearest_starts(model, x, y, random.expand(*x.shape[:-2], *random.shape))
        correct = x
        for _ in range(20):  # bisections between a start and the point
            middle = (correct + starts) / 2
            missed = model.misclassifies(middle, y)[..., None]
            correct, starts = torch.where(missed, correct, middle), torch.where(missed, middle, starts)
        starts = encode(starts)
        mask = mask & model.misclassifies(decode(starts), y)
        if not bool(mask.any()):
            return x

        def scores(u: Tensor) -> Tensor:
            """Return the prediction at the masked points as one-hot scores, of which foolbox takes the largest."""
            points = x.clone()
            points[mask] = decode(u)
            log_proba = model.log_proba(points)[mask]
            # One more column, the last, for NO_CLASS, which is -1.
            return one_hot(predict(log_proba), log_proba.shape[-1] + 1, log_proba.dtype)

        network = foolbox.PyTorchModel(_FunctionModule(scores).eval(), bounds=(0, 1), device=x.device)
        walk = foolbox.attacks.BoundaryAttack(steps=self.steps, **WALK_STEPS)
        with torch.random.fork_rng(devices=[x.device] if x.is_cuda else []):
            torch.manual_seed(int(rng.integers(2**31)))
            ends = walk.run(network, encode(x[mask]), y[mask], starting_points=starts[mask])
        points = x.clone()
        points[mask] = self.clip(decode(ends))
        within = row_norm(points - x, "l2") <= self.eps
        return torch.where(within[..., None], points, x)


def _nearest_starts(model: AttackedModel, x: Tensor, y: Tensor, random: Tensor) -> tuple[Tensor, Tensor]:
    """Return the nearest given or random point of another class, and the mask of correct points that have one."""
    candidates = torch.cat([x, random], -2)
    predicted = predict(model.log_proba(candidates))
    starts, distances = [], []
    for block in chunks(x.shape[-2], 256):
        distance = torch.cdist(x[..., block, :], candidates)
        distance = distance.masked_fill(predicted[..., None, :] == y[..., block, None], torch.inf)
        nearest, index = distance.min(-1)
        starts.append(torch.take_along_dim(candidates, index[..., None], -2))
        distances.append(nearest)
    correct = predicted[..., : x.shape[-2]] == y
    return torch.cat(starts, -2), correct & torch.cat(distances, -1).isfinite()


@ATTACKS.register("autoattack")
@final
@dataclass(frozen=True, repr=False)
class AutoAttack(Attack):
    """The standard version of AutoAttack (arXiv Table 7), by `pyautoattack`; on images.

    The attacks run one after the other, each on the images that are still correct: APGD on the cross-entropy (100
    steps), APGD on the targeted DLR loss (100 steps towards each of 9 classes), targeted FAB (the same), and Square
    (5,000 queries). No part can be left out or shortened, so that results are comparable. Warnings of the package about
    a model that it may not suit are given as `RuntimeWarning`.

    The network takes pixels in [0, 1], so it normalizes them itself, and has at least 4 classes; with 4 to 9 classes,
    the targets are all others. Needs `pip install "genlabel[robustness]"`.

    Parameters
    ----------
    eps, norm
        As in :class:`Attack`, but the radius has no default: the paper's are in arXiv Table 14, such as 0.1 on MNIST
        and 2/255 on CIFAR-10.
    bounds : None or (0, 1)
        Range of the pixels, which the package sets.
    batch_size : int
        Number of images at once, limited by the memory of the device; it changes the random numbers of an image.

    Examples
    --------
    >>> AutoAttack(2 / 255, "l2")
    AutoAttack(eps=0.00784313725490196, norm='l2')
    """

    eps: float = field()
    batch_size: int = field(default=500, kw_only=True)

    images_only: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_count("batch_size", self.batch_size)
        if self.bounds not in (None, PIXEL_BOUNDS):
            raise ValueError(f"bounds={self.bounds} must be None or (0, 1); AutoAttack moves pixels in [0, 1]")

    def run(self, model: AttackedModel, x: Tensor, y: Tensor, rng: np.random.Generator) -> Tensor:
        """Attack the images that the model classifies correctly."""
        import_attack_package("pyautoattack")
        if not isinstance(model, AttackedNetwork) or model.image_shape is None:
            raise ValueError("AutoAttack attacks images only; pass a network that takes images, or use PGD on a table")
        k = model.scores(x[..., :1, :]).shape[-1]
        if k < 4:  # the targeted DLR loss divides by a difference of the four largest scores
            raise ValueError(f"the network has {k} classes, but AutoAttack needs at least 4; use PGD")
        correct, seed = ~model.misclassifies(x, y), int(rng.integers(2**31))
        if not bool(correct.any()):
            return x
        attack = self.standard_version(model, k, seed, x.device)
        images = x[correct].float().reshape(-1, *model.image_shape)
        with _isolated(model.module):
            moved, _ = attack.run_standard_evaluation(images, y[correct], batch_size=self.batch_size)
        points = x.clone()
        points[correct] = self.project(moved.flatten(1).to(x), x[correct])
        return torch.where(points.isfinite().all(-1, keepdim=True), points, x)

    def standard_version(self, model: AttackedNetwork, num_classes: int, seed: int, device: torch.device) -> Any:
        """Return the standard version of the package, with at most as many targets as there are other classes."""
        norm = {"linf": "Linf", "l2": "L2"}[self.norm]
        # In float32 and in memory that the package may write to.
        network = _FunctionModule(lambda images: model.scores(images.flatten(1)).to(torch.float32, copy=True)).eval()
        attack = import_attack_package("pyautoattack").AutoAttack(
            network, norm=norm, eps=self.eps, seed=seed, version="standard", device=device
        )
        attack.apgd_targeted.n_target_classes = attack.fab.n_target_classes = min(9, num_classes - 1)
        return attack


class _FunctionModule(nn.Module):
    """Module of a function, because both packages take modules only."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.forward = function


@contextmanager
def _isolated(module: nn.Module) -> Iterator[None]:
    """Turn the package's log into warnings, and restore gradients, random streams and the trace function."""
    learned = [weight for weight in module.parameters() if weight.requires_grad]
    trace_function = sys.gettrace()
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    logger = logging.getLogger("auto-attack")
    propagate, logger.propagate = logger.propagate, False
    handler = BufferingHandler(sys.maxsize)
    handler.setLevel(logging.WARNING)
    logger.addHandler(handler)
    try:
        for weight in learned:
            weight.requires_grad_(False)
        with torch.random.fork_rng(devices):
            yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
        sys.settrace(trace_function)
        for weight in learned:
            weight.requires_grad_(True)
    first_of_kind: dict[str, str] = {}  # messages that differ by numbers only are of one kind
    for record in handler.buffer:
        message = re.sub(r" See \S+ for details\.", "", record.getMessage())
        first_of_kind.setdefault(re.sub(r"[\d.]+", "", message), message)
    for kind, message in first_of_kind.items():
        warn(("AutoAttack", kind), f"AutoAttack: {message}", RuntimeWarning)


def import_attack_package(name: str) -> Any:
    """Import a package when it is first needed, and return it; raise with a hint if it is missing."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # foolbox warns of its own dependencies
            return import_module(name)
    except ImportError as error:
        raise ImportError(f"the attack needs {name}: pip install 'genlabel[robustness]'") from error
