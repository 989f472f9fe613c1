"""Any table through every labeler: labels on the simplex, or an error that is meant."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from genlabel import GaussianDensity, GenLabel, KernelDensity, LinearLabel
from genlabel.labeling import LogisticLabel
from genlabel.labeling.base import WeightedLabel
from genlabel.mixing import Mixup, intrudes
from genlabel.mixing.base import BatchInfo

Answer = Callable[[Callable[[], Any]], Any]
LABELERS = [
    LinearLabel(),
    LogisticLabel(0.3),
    GenLabel(GaussianDensity(shrinkage=0.1)),
    GenLabel(KernelDensity(), gamma=0.5, top_k=2, priors="empirical", same_class="keep"),
]


def check_labeler(labeler: Any, answer: Answer, table: Any) -> None:
    """Fit, mix and label a table; the rows of a shared label too, and those that are left clean."""
    fitted = answer(lambda: clone(labeler).fit(table.X, table.y))
    if fitted is None:
        return
    draw = Mixup().draw(np.shape(table.X)[0], 0)
    x_mix = answer(lambda: Mixup().mix(table.X, draw))
    clean = np.arange(len(draw.partner)) % 3 == 0
    shared = WeightedLabel([fitted, LinearLabel().fit(table.X, table.y)], [0.5, 0.5])
    for one in (fitted, shared) if x_mix is not None else ():
        found = answer(partial(one.label, x_mix, table.y, draw, BatchInfo(clean=clean)))
        if found is not None:
            found = np.asarray(found)
            assert np.isfinite(found).all()
            assert (found >= 0.0).all()
            np.testing.assert_allclose(found.sum(1), 1.0, atol=1e-6)
            if one is fitted and len(found):
                own = np.asarray(table.y) == fitted.classes_[found.argmax(1)]
                assert own[clean].all()
                assert (found[clean].max(1) == 1.0).all()


@pytest.mark.parametrize("number, subject", list(enumerate(LABELERS)), ids=lambda one: repr(one)[:60])
def test_labels_are_on_the_simplex_or_it_says_why_not(
    number: int, subject: Any, tables: Any, by_machine: Any, answer: Answer
) -> None:
    by_machine(tables(arrays=True), partial(check_labeler, subject, answer), 30 + number)


def check_intrusion(answer: Answer, table: Any) -> None:
    """Which blends lie nearer to a third class: one truth a row."""
    draw = Mixup().draw(np.shape(table.X)[0], 0)
    x_mix = answer(lambda: Mixup().mix(table.X, draw))
    found = None if x_mix is None else answer(lambda: intrudes(x_mix, draw, table.X, table.y))
    if found is not None:
        assert found.shape == draw.partner.shape
        assert found.dtype == bool


def test_intrusion_is_told_row_by_row_or_it_says_why_not(tables: Any, by_machine: Any, answer: Answer) -> None:
    by_machine(tables(arrays=True), partial(check_intrusion, answer), 35)
