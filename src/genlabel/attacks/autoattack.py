"""AutoAttack: four attacks on images, none of which has a parameter to tune (Croce and Hein, 2020)."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, final

import numpy as np
import torch
from torch import Tensor, nn

from genlabel._validation import check_count, warn
from genlabel.attacks.base import Attack
from genlabel.attacks.models import PIXEL_BOUNDS, AttackedModel, AttackedNetwork
from genlabel.registry import ATTACKS


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
    eps : float
        Radius of the ball. There is no default: the paper's are in arXiv Table 14, such as 0.1 on MNIST and 2/255 on
        CIFAR-10.
    norm : "linf" or "l2"
        Norm of the ball.
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
        """Check the bounds, which the package sets, and the count."""
        super().__post_init__()
        check_count("batch_size", self.batch_size)
        if self.bounds not in (None, PIXEL_BOUNDS):
            raise ValueError(f"bounds={self.bounds} must be None or (0, 1); AutoAttack moves pixels in [0, 1]")

    def run(self, model: AttackedModel, x: Tensor, y: Tensor, rng: np.random.Generator) -> Tensor:
        """Attack the images that are correct."""
        import_pyautoattack()
        if not isinstance(model, AttackedNetwork) or model.image_shape is None:
            raise ValueError("AutoAttack attacks images: give a network that takes them, or use PGD on a table")
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
        network, norm = _Float32Scores(model), {"linf": "Linf", "l2": "L2"}[self.norm]
        attack = import_pyautoattack().AutoAttack(
            network, norm=norm, eps=self.eps, seed=seed, version="standard", device=device
        )
        attack.apgd_targeted.n_target_classes = attack.fab.n_target_classes = min(9, num_classes - 1)
        return attack


class _Float32Scores(nn.Module):
    """Scores of a network over images, in float32 and in memory that the package may write to."""

    def __init__(self, model: AttackedNetwork) -> None:
        super().__init__()
        self.model = model
        self.eval()

    def forward(self, images: Tensor) -> Tensor:
        return self.model.scores(images.flatten(1)).to(torch.float32, copy=True)


class _FirstOfEachKind(logging.Handler):
    """Handler that keeps the first warning of each kind; kinds differ by more than numbers."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        message = re.sub(r" See \S+ for details\.", "", record.getMessage())
        self.messages.setdefault(re.sub(r"[\d.]+", "", message), message)


@contextmanager
def _isolated(module: nn.Module) -> Iterator[None]:
    """Give the package's log as warnings, each kind once, and restore what it changes.

    These are gradients of the weights, global random streams and the trace function.
    """
    learned, tracer = [weight for weight in module.parameters() if weight.requires_grad], sys.gettrace()
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    logger, handler = logging.getLogger("auto-attack"), _FirstOfEachKind()
    before, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        for weight in learned:
            weight.requires_grad_(False)
        with torch.random.fork_rng(devices):
            yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before
        sys.settrace(tracer)
        for weight in learned:
            weight.requires_grad_(True)
    for kind, message in handler.messages.items():
        warn(("AutoAttack", kind), f"AutoAttack: {message}", RuntimeWarning)


def import_pyautoattack() -> Any:
    """Return the package, which is imported when it is first needed; raise with a hint where it is missing."""
    try:
        return import_module("pyautoattack")
    except ImportError as error:
        raise ImportError("AutoAttack needs pyautoattack: pip install 'genlabel[robustness]'") from error
