"""Contract of labelers: `check_labeler` for every labeler of genlabel."""

import numpy as np
import pytest
from torch import Tensor

from genlabel import GaussianDensity, GenLabel, KernelDensity
from genlabel.labeling import Labeler, LogisticLabel
from genlabel.mixing import MixParams
from genlabel.mixing.base import BatchInfo, blend
from genlabel.registry import LABELERS as REGISTRY
from genlabel.testing import check_labeler

LABELERS: list[Labeler] = [
    *(REGISTRY.create(name) for name in REGISTRY.names()),
    LogisticLabel(sigma=0.05),
    GenLabel(GaussianDensity(), gamma=0.4, priors="empirical"),
    GenLabel(KernelDensity(), top_k=2, same_class="keep"),
    GenLabel(KernelDensity(), gamma=0.0),
    GenLabel(GaussianDensity(), priors=[0.2, 0.0, 0.8]),
]


@pytest.mark.parametrize("labeler", LABELERS, ids=repr)
def test_labeler_contract(labeler: Labeler) -> None:
    check_labeler(labeler)


class DoubledLabel(Labeler):
    """A labeler whose rows do not sum to 1."""

    def _label(self, x_mix: Tensor, targets: Tensor, draw: MixParams, info: BatchInfo) -> Tensor:
        return 2.0 * blend(targets, draw)


class RandomLabel(Labeler):
    """A labeler that is not deterministic."""

    def _label(self, x_mix: Tensor, targets: Tensor, draw: MixParams, info: BatchInfo) -> Tensor:
        return targets[np.random.default_rng().permutation(len(targets))]


@pytest.mark.parametrize(("labeler", "match"), [(DoubledLabel(), "sum to 1"), (RandomLabel(), "deterministic")])
def test_broken_labelers_fail_the_check(labeler: Labeler, match: str) -> None:
    with pytest.raises(AssertionError, match=match):
        check_labeler(labeler)
