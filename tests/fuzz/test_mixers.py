"""Test mixers: finite points mix to points between their parents; any table is mixed or a documented error."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from genlabel.mixing import (
    CutMix,
    FeatMix,
    KMixup,
    LocalMixup,
    ManifoldMixup,
    Mixer,
    Mixup,
    RandomChoice,
    RegMixup,
    SameClassMixup,
    SimilarityMixup,
)

MIXERS = [
    (Mixup(), ()),
    (Mixup(0.3), ()),
    (Mixup(2.0, lam_per="batch"), (3,)),
    (ManifoldMixup(depths=(0, 1)), ()),
    (CutMix(), (5, 4)),
    (RandomChoice(), (5, 4)),
    (RegMixup(), ()),
    (KMixup(k=3), (2,)),
    (SimilarityMixup(), ()),
    (LocalMixup(), ()),
    (SameClassMixup(), ()),
    (FeatMix(), ()),
]
"""Mixers and the trailing shape of their points."""
FARTHEST = {"float32": float(np.float32(1e38)), "float64": 1e300}


def points(shape: tuple[int, ...]) -> Any:
    """Arrays of float32 or float64 with values almost as large as the type can hold."""

    def of_kind(name: str) -> Any:
        return arrays(name, shape, elements={"min_value": -FARTHEST[name], "max_value": FARTHEST[name]})

    return st.sampled_from(sorted(FARTHEST)).flatmap(of_kind)


@pytest.mark.parametrize("mixer, point_shape", MIXERS, ids=lambda first: repr(first)[:40])
@given(data=st.data(), n=st.integers(1, 8), d=st.integers(1, 3), seed=st.integers(0, 2**32 - 1))
def test_mixed_samples_lie_between_their_parents(
    mixer: Mixer, point_shape: tuple[int, ...], data: st.DataObject, n: int, d: int, seed: int
) -> None:
    X = data.draw(points((n, d, *point_shape)))
    draw = mixer.draw(n, seed, X, np.arange(n) % 2)
    mixed = np.asarray(mixer.mix(X, draw), dtype=np.float64)
    first, second = X.astype(np.float64), X[draw.partner].astype(np.float64)
    slack = 1e-12 * np.maximum(np.abs(first), np.abs(second)) + 1e-300
    assert mixed.shape == X.shape
    assert ((mixed >= np.minimum(first, second) - slack) & (mixed <= np.maximum(first, second) + slack)).all()
    lam = np.broadcast_to(np.asarray(draw.lam), n)
    assert ((lam >= 0.0) & (lam <= 1.0)).all()
    if not isinstance(mixer, RegMixup):  # whose clean rows are their own partners
        assert (np.sort(draw.partner) == np.arange(n)).all()


def check_mixer(mixer: Mixer, try_call: Callable[[Callable[[], Any]], Any], table: Any) -> None:
    n = np.shape(table.X)[0] if np.ndim(table.X) else 3
    draw = try_call(lambda: mixer.draw(n, 0, table.X, np.arange(n) % 2))
    mixed = None if draw is None else try_call(lambda: mixer.mix(table.X, draw))
    if mixed is not None:
        assert np.shape(mixed) == np.shape(table.X)
        assert np.asarray(mixed).dtype.kind == "f"


@pytest.mark.parametrize("number", range(len(MIXERS)))
def test_any_table_is_mixed_or_raises(number: int, tables: Any, check_examples: Any, try_call: Any) -> None:
    check_examples(tables(arrays=True), partial(check_mixer, MIXERS[number][0], try_call), 70 + number)
