"""Any finite numbers through every mixer: what is mixed lies between its parents; any table: that, or why not."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from genlabel.mixing import CutMix, ManifoldMixup, Mixer, Mixup

MIXERS = [
    (Mixup(), ()),
    (Mixup(0.3), ()),
    (Mixup(2.0, lam_per="batch"), (3,)),
    (ManifoldMixup(depths=(0, 1)), ()),
    (CutMix(), (5, 4)),
]
"""Each with what its points have behind rows and columns."""
FARTHEST = {"float32": float(np.float32(1e38)), "float64": 1e300}


def points(shape: tuple[int, ...]) -> Any:
    """Arrays of single or double precision, nearly up to the largest numbers these have."""

    def of_kind(name: str) -> Any:
        return arrays(name, shape, elements={"min_value": -FARTHEST[name], "max_value": FARTHEST[name]})

    return st.sampled_from(sorted(FARTHEST)).flatmap(of_kind)


@pytest.mark.parametrize("mixer, more", MIXERS, ids=lambda one: repr(one)[:40])
@given(data=st.data(), n=st.integers(1, 8), d=st.integers(1, 3), seed=st.integers(0, 2**32 - 1))
def test_what_is_mixed_lies_between_its_parents(
    mixer: Mixer, more: tuple[int, ...], data: st.DataObject, n: int, d: int, seed: int
) -> None:
    X = data.draw(points((n, d, *more)))
    draw = mixer.draw(n, seed)
    found = np.asarray(mixer.mix(X, draw), dtype=np.float64)
    one, other = X.astype(np.float64), X[draw.partner].astype(np.float64)
    slack = 1e-12 * np.maximum(np.abs(one), np.abs(other)) + 1e-300
    assert found.shape == X.shape
    assert ((found >= np.minimum(one, other) - slack) & (found <= np.maximum(one, other) + slack)).all()
    lam = np.broadcast_to(np.asarray(draw.lam), n)
    assert ((lam >= 0.0) & (lam <= 1.0)).all()
    assert (np.sort(draw.partner) == np.arange(n)).all()


def check_mixer(mixer: Mixer, answer: Callable[[Callable[[], Any]], Any], table: Any) -> None:
    draw = mixer.draw(np.shape(table.X)[0] if np.ndim(table.X) else 3, 0)
    found = answer(lambda: mixer.mix(table.X, draw))
    if found is not None:
        assert np.shape(found) == np.shape(table.X)
        assert np.asarray(found).dtype.kind == "f"


@pytest.mark.parametrize("number", range(len(MIXERS)))
def test_any_table_is_mixed_or_it_says_why_not(number: int, tables: Any, by_machine: Any, answer: Any) -> None:
    by_machine(tables(arrays=True), partial(check_mixer, MIXERS[number][0], answer), 70 + number)
