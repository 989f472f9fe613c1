"""Test labelers on any table: labels on the simplex, or a documented error."""

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

TryCall = Callable[[Callable[[], Any]], Any]
LABELERS = [
    LinearLabel(),
    LogisticLabel(0.3),
    GenLabel(GaussianDensity(shrinkage=0.1)),
    GenLabel(KernelDensity(), gamma=0.5, top_k=2, priors="empirical", same_class="keep"),
]


def check_labeler(labeler: Any, try_call: TryCall, table: Any) -> None:
    """Fit, mix and label a table, with clean rows and with a weighted label."""
    fitted = try_call(lambda: clone(labeler).fit(table.X, table.y))
    if fitted is None:
        return
    draw = Mixup().draw(np.shape(table.X)[0], 0)
    x_mix = try_call(lambda: Mixup().mix(table.X, draw))
    clean = np.arange(len(draw.partner)) % 3 == 0
    shared = WeightedLabel([fitted, LinearLabel().fit(table.X, table.y)], [0.5, 0.5])
    for candidate in (fitted, shared) if x_mix is not None else ():
        labels = try_call(partial(candidate.label, x_mix, table.y, draw, BatchInfo(clean=clean)))
        if labels is not None:
            labels = np.asarray(labels)
            assert np.isfinite(labels).all()
            assert (labels >= 0.0).all()
            np.testing.assert_allclose(labels.sum(1), 1.0, atol=1e-6)
            if candidate is fitted and len(labels):
                own = np.asarray(table.y) == fitted.classes_[labels.argmax(1)]
                assert own[clean].all()
                assert (labels[clean].max(1) == 1.0).all()


@pytest.mark.parametrize("number, subject", list(enumerate(LABELERS)), ids=lambda value: repr(value)[:60])
def test_labels_are_on_the_simplex(
    number: int, subject: Any, tables: Any, check_examples: Any, try_call: TryCall
) -> None:
    check_examples(tables(arrays=True), partial(check_labeler, subject, try_call), 30 + number)


def check_intrusion(try_call: TryCall, table: Any) -> None:
    """Check that intrusion returns a boolean for each mixed sample."""
    draw = Mixup().draw(np.shape(table.X)[0], 0)
    x_mix = try_call(lambda: Mixup().mix(table.X, draw))
    result = None if x_mix is None else try_call(lambda: intrudes(x_mix, draw, table.X, table.y))
    if result is not None:
        assert result.shape == draw.partner.shape
        assert result.dtype == bool


def test_intrusion_is_boolean(tables: Any, check_examples: Any, try_call: TryCall) -> None:
    check_examples(tables(arrays=True), partial(check_intrusion, try_call), 35)
