"""Shapley values of the columns of a row: exact over all subsets, or estimated over random orders of the columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import comb

from genlabel._arrays import chunks
from genlabel._validation import check_count

MAX_ROWS_AT_ONCE = 20_000
"""Largest number of rows in one prediction."""

Array = NDArray[np.float64]
PredictMixed = Callable[[NDArray[np.bool_], NDArray[np.intp]], Array]
"""Function of masks (e, d) and numbers of background rows (e,); it returns the outputs (e, k) for these background rows
with the values of the explained row in the columns of the mask."""


class ShapleyValues(NamedTuple):
    """Share of each column in the difference between a prediction and the mean over the background rows."""

    values: Array
    """(d, k)"""
    standard_error: Array
    """Standard error of the estimate, (d, k); 0 for exact values."""


def exact_shapley(predict: PredictMixed, d: int, n_background: int) -> ShapleyValues:
    """Return the Shapley values of d columns from the mean output of each of the 2^d subsets of columns.

    A column's value is the mean, over the orders in which columns may join, of the change when it joins (Shapley 1953).

    >>> weights = np.array([1.0, -2.0, 0.5])
    >>> exact_shapley(lambda mask, background: (mask @ weights)[:, None], 3, 1).values.ravel().tolist()
    [1.0, -2.0, 0.5]
    """
    masks = (np.arange(2**d)[:, None] >> np.arange(d) & 1).astype(bool)
    means = []
    for rows in chunks(len(masks), max(1, MAX_ROWS_AT_ONCE // n_background)):
        part = masks[rows]
        background = np.tile(np.arange(n_background), len(part))
        output = predict(np.repeat(part, n_background, axis=0), background)
        means.append(output.reshape(len(part), n_background, -1).mean(1))
    size = masks.sum(1)
    joined, absent = 1.0 / (d * comb(d - 1, np.maximum(size - 1, 0))), 1.0 / (d * np.maximum(comb(d - 1, size), 1.0))
    values = np.where(masks, joined[:, None], -absent[:, None]).T @ np.concatenate(means)
    return ShapleyValues(values, np.zeros_like(values))


def draw_orders(d: int, n_background: int, n_permutations: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return random orders of d columns for each background row, (n_background, n_permutations / 2, 2, d).

    Each order is followed by its reverse, which makes the error of their mean smaller.
    """
    if check_count("n_permutations", n_permutations, low=4) % 2:
        raise ValueError(f"n_permutations={n_permutations} must be even, because each order comes with its reverse")
    orders = rng.permuted(np.tile(np.arange(d), (n_background, n_permutations // 2, 1)), axis=2)
    return np.stack([orders, orders[..., ::-1]], axis=2)


def sampled_shapley(predict: PredictMixed, orders: NDArray[np.intp], start: Array, end: Array) -> ShapleyValues:
    """Return the mean change when a column joins, over the orders of :func:`draw_orders`.

    `start` (n_background, k) are the outputs of the background rows and `end` (k,) that of the explained row. Every
    background row has as many orders as any other, so that the values add up to `end` minus the mean of `start`.

    >>> weights, orders = np.array([1.0, -2.0, 0.5]), draw_orders(3, 1, 4, np.random.default_rng(0))
    >>> predict = lambda mask, background: (mask @ weights)[:, None]
    >>> sampled_shapley(predict, orders, np.zeros((1, 1)), np.array([-0.5])).values.ravel().tolist()
    [1.0, -2.0, 0.5]
    """
    n_background, n_pairs, _, d = orders.shape
    rank = orders.argsort(axis=-1)
    pairs = []
    for rows in chunks(n_background, max(1, MAX_ROWS_AT_ONCE // (2 * n_pairs * (d - 1)))):
        joined = rank[rows][..., None, :] < np.arange(1, d)[:, None]  # (rows, pairs, 2, d - 1, d)
        background = np.repeat(np.arange(n_background)[rows], joined[0].size // d)
        output = predict(joined.reshape(-1, d), background).reshape(*joined.shape[:-1], -1)
        ends = np.broadcast_to(end, (*output.shape[:3], 1, len(end)))
        starts = np.broadcast_to(start[rows][:, None, None, None], ends.shape)
        changes = np.diff(np.concatenate([starts, output, ends], axis=3), axis=3)
        pairs.append(np.take_along_axis(changes, rank[rows][..., None], axis=3).mean(2))
    means = np.concatenate(pairs)  # (n_background, pairs, d, k)
    variance = means.var(axis=1, ddof=1).mean(0) / (n_background * n_pairs)
    return ShapleyValues(means.mean((0, 1)), np.sqrt(variance))
