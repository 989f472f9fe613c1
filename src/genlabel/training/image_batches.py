"""Batches of images stored on a device: shuffled, cropped, flipped and drawn there, one epoch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from genlabel._arrays import Seed, to_device
from genlabel._runtime import eval_mode, rank_and_world_size
from genlabel._validation import check_count
from genlabel.mixing import Mixer
from genlabel.mixing.base import draw_to_device, identity_params, stack_draws
from genlabel.training.batching import Batch

PADDING = 4
"""Pixels of zeros added on each side of an image before it is cropped."""


@final
class ImageBatches:
    """Batches of equal size, an epoch per iteration; the remainder of the shuffled images is left out of an epoch.

    The pixels are stored as bytes on the device; a batch is float32 in [0, 1]. Random numbers are drawn on the host, by
    numpy, for a whole epoch, from the seed and the number of the epoch: they are the same on every device. In a
    distributed run, each process has its part of every batch, drawn and mixed by itself.

    Parameters
    ----------
    x : uint8 array or tensor (N, c, h, w)
    y : array (N,) of class indices
    batch_size : int
        Images per batch over all processes; at most the number of images.
    mixer : Mixer or None
        Mixer that draws; the loop mixes.
    augment : bool
        If True, pad by 4 pixels, crop and flip images left to right, at random.
    seed : int or sequence of int
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
            shapes = f"x has shape {tuple(images.shape)} and dtype {images.dtype}, y has shape {tuple(labels.shape)}"
            raise ValueError(f"{shapes}; pass images (N, c, h, w) of uint8 and N class indices")
        self.mixer, self.augment, self.device = mixer, augment, torch.device(device)
        self.rank, self.world_size = rank_and_world_size()
        self.size = check_count("batch_size", min(batch_size, len(images))) // self.world_size
        if not self.size:
            raise ValueError(f"batch_size={batch_size} is below the {self.world_size} processes; increase it")
        self._steps = len(images) // (self.size * self.world_size)
        values: Sequence[Any] = seed if isinstance(seed, list | tuple) else [seed]
        if not all(isinstance(value, int | np.integer) for value in values):
            raise ValueError(f"seed={seed!r} must be an int or a sequence of ints, because all processes share it")
        self._seed = [int(value) for value in values]
        self.epoch = 0
        self._labels = labels.long().to(device)
        self._sides = (images.shape[2], images.shape[3])
        self._crop = torch.compile(_crop, dynamic=False) if self.device.type == "cuda" else _crop
        padded = torch.nn.functional.pad(images, (PADDING if augment else 0,) * 4)
        self._images = padded.permute(0, 2, 3, 1).contiguous().to(device)

    def __len__(self) -> int:
        """Return the number of batches per epoch."""
        return self._steps

    def __iter__(self) -> Iterator[Batch]:
        """Yield the batches of the next epoch; processes share the order, and each takes its part of every batch."""
        T, B, like = self._steps, self.size, self._images
        shared, own = (np.random.default_rng([*self._seed, self.epoch, stream]) for stream in (0, 1 + self.rank))
        self.epoch += 1
        order = shared.permutation(len(self._images))
        pixels = []  # vertical and horizontal positions of pixels in each padded image, (T, B, side)
        for side in self._sides:
            first = own.integers(2 * PADDING + 1, size=(T, B, 1)) if self.augment else np.zeros((T, B, 1), np.int64)
            pixels.append(first + np.arange(side))
        if self.augment:
            pixels[1] = np.where(own.random((T, B, 1)) < 0.5, pixels[1][..., ::-1], pixels[1])
        mixer, stack = self.mixer, None
        if mixer is None or not mixer.data_dependent:  # no draw needs the images of its batch
            draws = [identity_params(B) if mixer is None else mixer.draw(B, own) for _ in range(T)]
            stack = draw_to_device(stack_draws(draws), like)
        images = order[: T * B * self.world_size].reshape(T, self.world_size, B)[:, self.rank]
        index, vertical, horizontal = (to_device(np.ascontiguousarray(part), like) for part in (images, *pixels))
        for t in range(T):
            x, y = self._crop(self._images, index[t], vertical[t], horizontal[t]), self._labels[index[t]]
            if stack is not None:
                draw = stack.batch(t)
            elif mixer is not None:
                draw = draw_to_device(mixer.draw(B, own, x, y), like)
            yield Batch(x, y, None, draw)

    def state_dict(self) -> dict[str, int]:
        """Return the number of epochs so far, which determines all random numbers."""
        return {"epoch": self.epoch}

    def load_state_dict(self, state_dict: dict[str, int]) -> None:
        """Continue after that number of epochs."""
        self.epoch = int(state_dict["epoch"])


def _crop(images: Tensor, index: Tensor, vertical: Tensor, horizontal: Tensor) -> Tensor:
    """Return crops (n, c, h, w) in [0, 1] of padded images (N, H, W, c), in channels-last format."""
    crops = images[index[:, None, None], vertical[:, :, None], horizontal[:, None, :]]
    return crops.permute(0, 3, 1, 2).float().div(255.0)


@torch.no_grad()
def predict_scores(network: torch.nn.Module, x: Any, batch_size: int = 1000) -> Tensor:
    """Return the scores (N, k) of images, uint8 or in [0, 1], by the network in evaluation mode; float32 on the CPU."""
    images, like = torch.as_tensor(x), next(network.parameters())
    size, scores = check_count("batch_size", batch_size), []
    with eval_mode(network):
        for batch in torch.split(images, size):
            pixels = batch.to(like.device).to(like.dtype)
            scores.append(network(pixels.div_(255.0) if batch.dtype == torch.uint8 else pixels).float())
    return torch.cat(scores).cpu()
