"""Compression of a classifier into one network that is trained on the classifier's own probabilities."""

from __future__ import annotations

from typing import final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from genlabel._runtime import one_thread
from genlabel._text import count_of
from genlabel.estimators.classifier import ProbabilityClassifier
from genlabel.labeling import Labeler
from genlabel.mixing import MixParams, Mixup
from genlabel.mixing.base import BatchInfo
from genlabel.training import train_network
from genlabel.training.networks.staged import MLP, log_proba_of

HIDDEN = (128, 128)
MAX_ROWS = 20_000
"""Rows of training; more are left out at random."""
MAX_POINTS, MAX_EPOCHS = 400_000, 200
"""Largest number of points of the whole training, and of epochs."""
VALID_SHARE = 0.2
BATCH_SIZE = 128


@final
class _OwnProbabilities(Labeler):
    """Label of a mixed point by the probabilities that a classifier predicts there."""

    needs_inputs = True

    def __init__(self, classifier: ProbabilityClassifier) -> None:
        self.classifier = classifier

    def _label(self, x_mix: Tensor, targets: Tensor, draw: MixParams, info: BatchInfo) -> Tensor:
        return torch.from_numpy(np.exp(self.classifier.predict_log_proba_scaled(x_mix.numpy())))


def compress_classifier(classifier: ProbabilityClassifier, points: NDArray[np.float64]) -> tuple[MLP, dict[str, float]]:
    """Return a network that imitates a classifier at standardized points (n, d), and its error on a fifth of them.

    The network learns the classifier's probabilities at mixed points (Hinton et al., 2015, "Distilling the knowledge in
    a neural network"). The error is measured on points that it was not trained on: "kl_divergence" is the expected
    increase of the log-loss if the classifier's probabilities are right, "agreement" the share of equal classes, and
    "mean_difference" the mean of the largest difference of a probability.
    """
    rng = np.random.default_rng(0)
    order = rng.permutation(len(points))
    n_valid = max(1, int(VALID_SHARE * len(points)))
    train, valid = points[order[n_valid:][:MAX_ROWS]], points[order[:n_valid]]
    if not len(train):
        raise ValueError(f"compress has {count_of(len(points), 'row')}; pass at least two, such as the training rows")
    with one_thread():
        expected = classifier.predict_log_proba_scaled(valid)
        proba = torch.from_numpy(np.exp(classifier.predict_log_proba_scaled(train)))
        network = MLP(train.shape[1], proba.shape[1], HIDDEN, seed=0, dtype=torch.float64)
        batches = DataLoader(
            TensorDataset(torch.from_numpy(train), proba),
            batch_size=BATCH_SIZE,
            shuffle=True,
            generator=torch.Generator().manual_seed(0),
        )
        train_network(
            network,
            batches,
            mixer=Mixup(),
            labeler=_OwnProbabilities(classifier),
            learning_rate=0.003,
            weight_decay=1e-5,
            epochs=max(1, min(MAX_EPOCHS, MAX_POINTS // len(train))),
            seed=0,
        )
        predicted = log_proba_of(network, valid)
    p = np.exp(expected)
    errors = {
        "kl_divergence": float((p * (np.maximum(expected, -700.0) - predicted)).sum(1).mean()),
        "agreement": float((expected.argmax(1) == predicted.argmax(1)).mean()),
        "mean_difference": float(np.abs(p - np.exp(predicted)).max(1).mean()),
    }
    return network, errors | {"rows": len(train), "held_out_rows": len(valid)}
