"""AutoAttack: four attacks on images, none of which has a parameter to tune (Croce and Hein, 2020)."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from genlabel._validation import check_count, warn
from genlabel.attacks.base import Attack
from genlabel.attacks.models import PIXELS, AttackedModel, AttackedNetwork

NAMES = {"linf": "Linf", "l2": "L2"}
"""Norms, as the package calls them."""
FEWEST_CLASSES = 4
"""The targeted DLR loss divides by a difference of the four largest scores."""
TARGETS = 9
"""Classes towards which a targeted attack goes: the standard version's; all others where there are fewer."""
LOGGER = "auto-attack"
"""Where the package writes."""


@final
@dataclass(frozen=True, repr=False)
class AutoAttack(Attack):
    """The standard version of AutoAttack (arXiv Table 7), by `pyautoattack`; on images.

    The attacks run one after the other, each on the images that are still right: APGD on the cross-entropy (100 steps),
    APGD on the targeted DLR loss (100 steps towards each of 9 classes), targeted FAB (the same), and Square (5,000
    queries). No part can be left out or cut short, so that what bears the name can be compared. What the package says
    of a model that it may not suit is given as a `RuntimeWarning`.

    The network takes pixels in [0, 1], so that it normalises them itself, and tells at least 4 classes apart; with 4 to
    9 classes, the targets are all others. Needs `pip install "genlabel[robustness]"`.

    Parameters
    ----------
    radius : float
        There is no default: the paper's are in arXiv Table 14, such as 0.1 on MNIST and 2/255 on CIFAR-10.
    norm : "linf" or "l2"
    bounds : None or (0, 1)
    batch_size : int
        Images at once, for the memory of the device; it changes the random numbers that an image gets.

    Examples
    --------
    >>> AutoAttack(2 / 255, "l2")
    AutoAttack(radius=0.00784313725490196, norm='l2')
    """

    radius: float = field()
    batch_size: int = field(default=500, kw_only=True)

    def __post_init__(self) -> None:
        """Check the bounds, which the package sets, and the count."""
        super().__post_init__()
        check_count("batch_size", self.batch_size)
        if self.bounds not in (None, PIXELS):
            raise ValueError(f"bounds={self.bounds} must be None or (0, 1); AutoAttack moves pixels in [0, 1]")

    def run(self, target: AttackedModel, x: Tensor, y: Tensor, rng: np.random.Generator) -> Tensor:
        """Attack the images that are right."""
        package, network = find_package(), self._read(target, x)
        right, seed = ~target.wrong(x, y), int(rng.integers(2**31))
        if not bool(right.any()):
            return x
        images = x[right].float().reshape(-1, *network.shape)
        attack = self._set_up(package, network, seed, x.device)
        with _left_alone(network.target.module), _heard():
            found, _ = attack.run_standard_evaluation(images, y[right], batch_size=self.batch_size)
        points = x.clone()
        points[right] = self.project(found.flatten(1).to(x), x[right])
        return torch.where(points.isfinite().all(-1, keepdim=True), points, x)

    def _read(self, target: AttackedModel, x: Tensor) -> _Scores:
        """The network over images, with its number of classes checked."""
        if not isinstance(target, AttackedNetwork) or target.shape is None:
            raise ValueError("AutoAttack attacks images: give a network that takes them, or use PGD on a table")
        k = target.scores(x[..., :1, :]).shape[-1]
        if k < FEWEST_CLASSES:
            raise ValueError(f"the network has {k} classes, but AutoAttack needs at least {FEWEST_CLASSES}; use PGD")
        return _Scores(target, target.shape, min(TARGETS, k - 1))

    def _set_up(self, package: Any, network: _Scores, seed: int, device: torch.device) -> Any:
        """The package's standard version, with as many targets as there are other classes."""
        attack = package.AutoAttack(
            network, norm=NAMES[self.norm], eps=self.radius, seed=seed, version="standard", device=device
        )
        attack.apgd_targeted.n_target_classes = attack.fab.n_target_classes = network.targets
        return attack


class _Scores(nn.Module):
    """The scores of a target in float32, as a function of images; the package writes into them."""

    def __init__(self, target: AttackedNetwork, shape: tuple[int, int, int], targets: int) -> None:
        super().__init__()
        self.target, self.shape, self.targets = target, shape, targets
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        return self.target.scores(images.flatten(1)).to(torch.float32, copy=True)


@contextmanager
def _left_alone(module: nn.Module) -> Iterator[None]:
    """Keep what the package changes as it was: gradients of the weights, global random streams, a tracer."""
    learned = [weight for weight in module.parameters() if weight.requires_grad]
    tracer = sys.gettrace()
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    try:
        for weight in learned:
            weight.requires_grad_(False)
        with torch.random.fork_rng(devices):
            yield
    finally:
        sys.settrace(tracer)
        for weight in learned:
            weight.requires_grad_(True)


class _Ear(logging.Handler):
    """Keeps the first warning of each kind."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        message = re.sub(r" See \S+ for details\.", "", record.getMessage())
        self.said.setdefault(re.sub(r"[\d.]+", "", message), message)


@contextmanager
def _heard() -> Iterator[None]:
    """Give what the package says in its log as warnings, each kind once."""
    logger, ear = logging.getLogger(LOGGER), _Ear()
    before, logger.propagate = logger.propagate, False
    logger.addHandler(ear)
    try:
        yield
    finally:
        logger.removeHandler(ear)
        logger.propagate = before
    for kind, message in ear.said.items():
        warn(("AutoAttack", kind), f"AutoAttack: {message}", RuntimeWarning)


def find_package() -> Any:
    """Return the library, imported when it is first needed; raise with the way out where it is missing."""
    try:
        return import_module("pyautoattack")
    except ImportError as error:
        raise ImportError("AutoAttack needs pyautoattack: pip install 'genlabel[robustness]'") from error
