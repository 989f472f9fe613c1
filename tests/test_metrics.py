"""Accuracy and log-loss against scikit-learn."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

from genlabel.metrics import accuracy, log_loss


@given(seed=st.integers(0, 10**6), k=st.integers(2, 5), weighted=st.booleans())
def test_equal_scikit_learn_for_one_model_and_for_many(seed: int, k: int, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.ones(k), size=(3, 20))
    y = rng.integers(0, k, 20)
    weight = rng.uniform(0.1, 1, 20) if weighted else None
    hits, losses = accuracy(np.log(proba), y, weight), log_loss(np.log(proba), y, weight)
    for model in range(3):
        expected = sk.accuracy_score(y, proba[model].argmax(1), sample_weight=weight)
        np.testing.assert_allclose(hits[model], expected)
        loss = sk.log_loss(y, proba[model], labels=range(k), sample_weight=weight)
        np.testing.assert_allclose(losses[model], loss, rtol=1e-9)
        assert accuracy(np.log(proba[model]), y, weight) == hits[model]


def test_a_model_without_numbers_is_the_worst() -> None:
    broken = np.full((4, 2), np.nan)
    assert accuracy(broken, [0, 0, 0, 0]) == 0
    assert log_loss(broken, [0, 0, 0, 0]) == np.inf
