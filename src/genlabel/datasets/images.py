"""Images with their classes, from files of the usual kinds or from a folder: a training and a test part."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["ImageSet"]


class ImageSet(NamedTuple):
    """Images and class indices, a training and a test part."""

    x_train: NDArray[np.uint8]
    """(N, C, H, W)"""
    y_train: NDArray[np.int64]
    """(N,), class indices"""
    x_test: NDArray[np.uint8]
    y_test: NDArray[np.int64]
    classes: list[str]
    """The names of the classes, in the order of their indices."""
    name: str
