"""Batches of images that live on a device: shuffled, cropped, flipped and drawn there, an epoch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from genlabel._arrays import Seed, to_device
from genlabel._distributed import rank_and_world_size
from genlabel._runtime import eval_mode
from genlabel._validation import check_count
from genlabel.mixing import Mixer, MixParams, identity_params
from genlabel.mixing.base import draw_to_device, stack_draws
from genlabel.training.batching import Batch

PAD = 4
"""Pixels by which an image is padded with zeros before a part of its size is cut out."""


class _Epoch(NamedTuple):
    """All that is random in an epoch of T batches, on the device."""

    rows: Tensor
    """(T, B)"""
    down: Tensor
    """(T, B, h): lines of the padded image that are taken."""
    across: Tensor
    """(T, B, w): its columns, backwards if it is flipped."""
    draw: MixParams


@final
class ImageBatches:
    """An epoch of batches of one size; what remains of the shuffled images is left out of the epoch.

    The pixels stay bytes on the device; a batch is float32 in [0, 1]. What is random is drawn on the host, by numpy,
    for a whole epoch, from the seed and the number of the epoch: it is the same on every device. Among the processes of
    a distributed run each has its part of every batch, drawn and mixed by itself.

    Parameters
    ----------
    x : uint8 array or tensor (N, c, h, w)
    y : array (N,) of class indices
    batch_size : int
        Of all processes together; fewer if there are fewer images.
    mixer : Mixer or None
        Draws; the loop mixes.
    augment : bool
        Cut a part out of the image, padded by 4 pixels, and flip it left to right, each at random.
    seed : int or sequence of int (a whole number or a sequence of them)
    device : torch.device or str

    Examples
    --------
    >>> batches = ImageBatches(np.zeros((10, 1, 8, 8), np.uint8), np.arange(10) % 2, batch_size=4, augment=True, seed=0)
    >>> [tuple(batch.x.shape) for batch in batches]
    [(4, 1, 8, 8), (4, 1, 8, 8)]
    """

    def __init__(
        self,
        x: Any,
        y: Any,
        *,
        batch_size: int = 128,
        mixer: Mixer | None = None,
        augment: bool = False,
        seed: Seed = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        images, labels = torch.as_tensor(x), torch.as_tensor(y)
        if images.ndim != 4 or images.dtype != torch.uint8 or labels.shape != (len(images),) or not len(images):
            raise ValueError(
                f"x has shape {tuple(images.shape)} of {images.dtype}, y {tuple(labels.shape)}; give images "
                "(N, c, h, w) of uint8 and N class indices"
            )
        self.mixer, self.augment, self.device = mixer, augment, torch.device(device)
        self.rank, self.ranks = rank_and_world_size()
        self.size = check_count("batch_size", min(batch_size, len(images))) // self.ranks
        if not self.size:
            raise ValueError(f"batch_size={batch_size} has not an image for each of {self.ranks} processes; enlarge it")
        self._steps = len(images) // (self.size * self.ranks)
        self._seed, self.epoch = _numbers(seed), 0
        self._labels = labels.long().to(device)
        pad = PAD if augment else 0
        self._sides = (images.shape[2], images.shape[3])
        self._cut = torch.compile(_cut, dynamic=False) if self.device.type == "cuda" else _cut
        self._images = torch.nn.functional.pad(images, (pad,) * 4).permute(0, 2, 3, 1).contiguous().to(device)

    def __len__(self) -> int:
        """Batches of an epoch."""
        return self._steps

    def __iter__(self) -> Iterator[Batch]:
        """The batches of the next epoch."""
        epoch = self._draw()
        for t in range(self._steps):
            rows = epoch.rows[t]
            x = self._cut(self._images, rows, epoch.down[t], epoch.across[t])
            yield Batch(x, self._labels[rows], None, epoch.draw.batch(t))

    def state_dict(self) -> dict[str, int]:
        """The number of its epochs, from which all that is random follows."""
        return {"epoch": self.epoch}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Go on after so many epochs."""
        self.epoch = int(state_dict["epoch"])

    def _draw(self) -> _Epoch:
        """Draw an epoch; the processes of a run share the order, and take their parts of each batch."""
        T, B, like = self._steps, self.size, self._images
        shared, own = (np.random.default_rng([*self._seed, self.epoch, part]) for part in (0, 1 + self.rank))
        self.epoch += 1
        order = shared.permutation(len(self._images))
        rows = order[: T * B * self.ranks].reshape(T, self.ranks, B)[:, self.rank]
        down, across = (self._lines(side, own) for side in self._sides)
        if self.augment:
            across = np.where(own.random((T, B, 1)) < 0.5, across[..., ::-1], across)
        draws = [identity_params(B) if self.mixer is None else self.mixer.draw(B, own) for _ in range(T)]
        lines = [to_device(np.ascontiguousarray(values), like) for values in (rows, down, across)]
        return _Epoch(lines[0], lines[1], lines[2], draw_to_device(stack_draws(draws), like))

    def _lines(self, side: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Which lines of each padded image are taken, (T, B, side)."""
        shape = (self._steps, self.size, 1)
        begin = rng.integers(2 * PAD + 1, size=shape) if self.augment else np.zeros(shape, np.int64)
        return begin + np.arange(side)


def _cut(images: Tensor, rows: Tensor, down: Tensor, across: Tensor) -> Tensor:
    """Parts (n, c, h, w) in [0, 1] of padded images (N, H, W, c); the channels lie together in memory."""
    parts = images[rows[:, None, None], down[:, :, None], across[:, None, :]]
    return parts.permute(0, 3, 1, 2).float().div(255.0)


@torch.no_grad()
def predict_scores(network: torch.nn.Module, x: Any, batch_size: int = 1000) -> Tensor:
    """Return the scores (N, k) of images, uint8 or in [0, 1], by the network in evaluation mode; float32, on the CPU.

    >>> from genlabel.training.networks import LeNet5
    >>> predict_scores(LeNet5(seed=0), np.zeros((3, 1, 28, 28), np.uint8)).shape
    torch.Size([3, 10])
    """
    images, like = torch.as_tensor(x), next(network.parameters())
    size = check_count("batch_size", batch_size)
    with eval_mode(network):
        parts = [network(_pixels(part, like)).float() for part in torch.split(images, size)]
    return torch.cat(parts).cpu()


def _pixels(images: Tensor, like: Tensor) -> Tensor:
    """Images in [0, 1], in the dtype and on the device of the network."""
    moved = images.to(like.device)
    return moved.to(like.dtype).div_(255.0) if moved.dtype == torch.uint8 else moved.to(like.dtype)


def _numbers(seed: Seed) -> list[int]:
    """A seed as whole numbers."""
    if isinstance(seed, int | np.integer):
        return [int(seed)]
    if isinstance(seed, list | tuple):
        return [int(part) for part in seed]
    raise ValueError(f"seed={seed!r} must be a whole number, or several: the seed of all processes")
