"""TabPFN v1 (2022): inference of a pretrained transformer, without the package `tabpfn`, now that of later versions.

Hollmann et al., *TabPFN: a transformer that solves small tabular classification problems in a second*, ICLR 2023. The
weights are in the source archive of `pfns` 0.3.0 (Apache-2.0). Preprocessing and ensemble are those of `tabpfn` 0.1.11
(Apache-2.0, University of Freiburg); a test compares the probabilities with that package's.
"""

from __future__ import annotations

import sys
import tarfile
import warnings
from functools import lru_cache
from hashlib import sha256
from io import BytesIO
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Self, final

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import PowerTransformer
from torch import Tensor, nn

from genlabel._atomic_io import atomic_write
from genlabel_paper.benchmark.baselines import TABPFN_V1_WEIGHTS

MAX_ROWS, MAX_FEATURES, MAX_CLASSES = 1000, 100, 10
CHECKPOINT = "pfns-0.3.0/models_diff/prior_diff_real_checkpoint_n_0_epoch_42.cpkt"
CHECKSUM = "3c9aadaeddbf51462af8c0ee4b3ca3c697890f77e92318abbb0821b75261c392"
TEMPERATURE = 0.8
BATCH = 16
"""Ensemble members that are evaluated together."""


@final
class TabPFNv1Classifier(ClassifierMixin, BaseEstimator):
    """Classifier that reads the training rows as context; `fit` keeps them, `predict_proba` does the work.

    Of more than 1,000 training rows a stratified sample of 1,000 is kept, of more than 100 features a random sample of
    100. More than 10 classes are an error. A missing value counts as the mean.

    Parameters
    ----------
    n_estimators : int
        Ensemble members: rotations of classes and features, with and without a power transform. The paper uses 32.
    random_state : int
    device : str

    Attributes
    ----------
    best_params_ : dict
        Number of training rows and features, for the records.
    """

    def __init__(self, n_estimators: int = 32, *, random_state: int = 0, device: str = "cpu") -> None:
        self.n_estimators = n_estimators
        self.random_state = random_state
        self.device = device

    def fit(self, X: Any, y: Any) -> Self:
        """Keep X (n, d) and y (n,)."""
        X, (self.classes_, index) = np.asarray(X, dtype=np.float32), np.unique(np.asarray(y), return_inverse=True)
        if len(self.classes_) > MAX_CLASSES:
            raise ValueError(f"the table has {len(self.classes_)} classes; TabPFN v1 takes at most {MAX_CLASSES}")
        if len(X) > MAX_ROWS:
            options: dict[str, Any] = {"train_size": MAX_ROWS, "stratify": index, "random_state": self.random_state}
            X, _, index, _ = train_test_split(X, index, **options)
        rng, count = np.random.default_rng(self.random_state), min(X.shape[1], MAX_FEATURES)
        self.features_ = np.sort(rng.choice(X.shape[1], count, replace=False))
        self.X_, self.y_ = torch.from_numpy(X[:, self.features_]), torch.from_numpy(index)
        self.best_params_ = {"train_rows": len(X), "features": count}
        return self

    @torch.inference_mode()
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the class probabilities (m, k) of X (m, d)."""
        n, k, d = len(self.X_), len(self.classes_), self.X_.shape[1]
        rows = torch.cat([self.X_, torch.from_numpy(np.asarray(X, dtype=np.float32)[:, self.features_])])
        generator = torch.Generator().manual_seed(self.random_state)
        rotations = torch.randperm(d, generator=generator).tolist()
        shifts = list(product(torch.randperm(k, generator=generator).tolist(), rotations))
        Random(self.random_state).shuffle(shifts)  # the order of the package  # nosec B311
        members = list(product(shifts, (False, True)))[: self.n_estimators]
        prepared = {power: prepare(rows, n, power) for power in dict.fromkeys(power for _, power in members)}
        model, logits = load_model(str(TABPFN_V1_WEIGHTS), self.device), torch.zeros(len(rows) - n, k)
        for start in range(0, len(members), BATCH):
            batch = members[start : start + BATCH]
            rotated = [rotate(prepared[power], rotation) for (_, rotation), power in batch]
            features = [nn.functional.pad(X, (0, MAX_FEATURES - X.shape[1])) for X in rotated]
            labels = torch.stack([(self.y_ + shift) % k for (shift, _), _ in batch]).float()
            output = model(torch.stack(features).to(self.device), labels.to(self.device))[..., :k].cpu() / TEMPERATURE
            for ((shift, _), _), scores in zip(batch, output, strict=True):
                logits += rotate(scores, shift)
        proba = (logits / len(members)).double().softmax(1).numpy()
        return np.asarray(proba, dtype=np.float64)


def prepare(rows: Tensor, n: int, power: bool) -> Tensor:
    """Return rows (m, d) scaled by the first n of them, without constant columns; a missing value is 0, the mean."""
    X = ((rows - rows[:n].nanmean(0)) / (nan_std(rows[:n]) + 1e-6)).clip(-100, 100)
    X = X[:, [len(column.unique()) > 1 for column in X[:n].T]]
    if power:
        X = torch.stack([power_transform(column, n) for column in X.T], 1) if X.shape[1] else X
    for_bounds = X[:n]
    for _ in range(2):  # the second bounds are those of the rows within the first
        width = 4 * nan_std(for_bounds)
        lower, upper = for_bounds.nanmean(0) - width, for_bounds.nanmean(0) + width
        for_bounds = X[:n].where((X[:n] >= lower) & (X[:n] <= upper), torch.nan)
    X = torch.maximum(-torch.log1p(X.abs()) + lower, X)
    X = torch.minimum(torch.log1p(X.abs()) + upper, X)
    return (X * (MAX_FEATURES / max(X.shape[1], 1))).nan_to_num(0.0)


def power_transform(column: Tensor, n: int) -> Tensor:
    """Return a column (m,) after a power transform fitted to its first n values, or as it is where that fails."""
    values = column[:, None].numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return torch.from_numpy(PowerTransformer().fit(values[:n]).transform(values)[:, 0]).float()
        except (ValueError, ArithmeticError, Warning):
            return column


def nan_std(X: Tensor) -> Tensor:
    """Return the standard deviation (d,) of each column without its missing values."""
    count = (~X.isnan()).sum(0)
    return (((X - X.nanmean(0)) ** 2).nansum(0) / (count - 1)).sqrt()


def rotate(X: Tensor, shift: int) -> Tensor:
    """Return X with its first columns moved to the end."""
    return torch.cat([X[..., shift:], X[..., :shift]], -1)


class _Layer(nn.Module):
    """Layer in which all rows attend to the training rows."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.self_attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.linear1, self.linear2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, h: Tensor, n: int) -> Tensor:
        h = self.norm1(h + self.self_attn(h, h[:, :n], h[:, :n], need_weights=False)[0])
        return self.norm2(h + self.linear2(nn.functional.gelu(self.linear1(h))))


class _Transformer(nn.Module):
    """Transformer from labeled rows and unlabeled ones, (b, m, 100), to logits of the unlabeled, (b, m - n, 10)."""

    def __init__(self, width: int = 512, heads: int = 4, depth: int = 12) -> None:
        super().__init__()
        self.encoder, self.y_encoder = nn.Linear(MAX_FEATURES, width), nn.Linear(1, width)
        self.layers = nn.ModuleList(_Layer(width, heads) for _ in range(depth))
        self.decoder = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, MAX_CLASSES))

    def forward(self, X: Tensor, y: Tensor) -> Tensor:
        n = y.shape[1]
        h = self.encoder(X)
        h = torch.cat([h[:, :n] + self.y_encoder(y[..., None]), h[:, n:]], 1)
        for layer in self.layers:
            h = layer(h, n)
        return self.decoder(h[:, n:])


@lru_cache(maxsize=1)
def load_model(path: str, device: str) -> _Transformer:
    """Return the transformer with the converted weights."""
    model = _Transformer()
    model.load_state_dict(load_file(path))
    return model.to(device).eval()


def convert_weights(archive: Path, path: Path = TABPFN_V1_WEIGHTS) -> None:
    """Write the checkpoint in the source archive of `pfns` 0.3.0 as safetensors; nothing but tensors is unpickled."""
    with tarfile.open(archive) as files:
        member = files.extractfile(CHECKPOINT)
        content = b"" if member is None else member.read()
    if sha256(content).hexdigest() != CHECKSUM:
        raise ValueError(f"{str(archive)!r} does not have the known checkpoint; give pfns-0.3.0.tar.gz")
    state, _, _ = torch.load(BytesIO(content), map_location="cpu", weights_only=True)
    names = {name: name.removeprefix("module.").removeprefix("transformer_encoder.") for name in state}
    atomic_write(path, save({names[name]: state[name] for name in state if "criterion" not in name}))


if __name__ == "__main__":
    convert_weights(Path(sys.argv[1]))
    print(f"wrote {TABPFN_V1_WEIGHTS}")
