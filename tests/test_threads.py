"""Threads of torch: one within a fit, restored afterwards, also with concurrent fits."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, clone

from genlabel import GenerativeClassifier, GenLabelClassifier, MixupClassifier
from genlabel._progress import LambdaCallback, use_callback
from genlabel._runtime import one_thread

FITS = [
    GenLabelClassifier().set_params(training__epochs=2),
    MixupClassifier().set_params(training__epochs=2),
    GenerativeClassifier("gaussian"),
]


@pytest.fixture
def three_threads() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("model", FITS, ids=lambda model: type(model).__name__)
def test_fit_uses_one_thread_and_restores_the_number(model: BaseEstimator) -> None:
    X, y = np.random.default_rng(0).normal(size=(40, 2)), [0, 1] * 20
    seen: list[int] = []
    with use_callback(LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(torch.get_num_threads()))):
        clone(model).fit(X, y)
        with pytest.raises(ValueError, match="infinity"):
            clone(model).fit(np.full((40, 2), np.inf), y)
    assert set(seen) <= {1}
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
def test_last_context_restores_the_number_of_threads() -> None:
    barrier = Barrier(4)

    def enter(index: int) -> int:
        with one_thread(), one_thread():
            barrier.wait()
            return torch.get_num_threads()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(enter, range(4))) == [1] * 4
    assert torch.get_num_threads() == 3
