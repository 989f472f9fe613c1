"""Measure a whole search (6 gammas x 4 learning rates x 6 folds, and the final fit) against a naive implementation.

The naive implementation: for each candidate and fold one small PyTorch module with its own optimizer and loop, the
class densities evaluated with scipy on every mixed batch.
"""

from itertools import product
from statistics import median

import numpy as np
import torch
from common import seconds
from numpy.typing import NDArray
from scipy.stats import multivariate_normal
from sklearn.datasets import load_wine, make_classification
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler

from genlabel import GenLabelClassifier, Mixup

GAMMAS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
RATES = (0.1, 0.01, 0.001, 0.0001)
EPOCHS, BATCH = 100, 128


def fit_one(X: NDArray[np.float64], y: NDArray[np.int64], gamma: float, rate: float) -> torch.nn.Module:
    """Train one softmax regression by mixup + GenLabel (arXiv Alg. 1), the naive implementation."""
    k, d = int(y.max()) + 1, X.shape[1]
    densities = [
        multivariate_normal(X[y == c].mean(0), np.cov(X[y == c].T, bias=True) + 1e-4 * np.eye(d)) for c in range(k)
    ]
    points, targets = torch.tensor(X, dtype=torch.float32), torch.nn.functional.one_hot(torch.tensor(y), k).float()
    model = torch.nn.Linear(d, k)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, weight_decay=1e-4)
    for _ in range(EPOCHS):
        for rows in torch.tensor_split(torch.randperm(len(X)), -(-len(X) // BATCH)):
            partner = rows[torch.randperm(len(rows))]
            lam = torch.tensor(np.random.beta(1.0, 1.0, (len(rows), 1)), dtype=torch.float32)  # noqa: NPY002
            x = lam * points[rows] + (1 - lam) * points[partner]
            target = lam * targets[rows] + (1 - lam) * targets[partner]
            if gamma > 0:
                log_prob = np.stack([density.logpdf(x.numpy()) for density in densities], axis=1)
                target = gamma * torch.softmax(torch.from_numpy(log_prob), 1).float() + (1 - gamma) * target
            loss = torch.nn.functional.cross_entropy(model(x), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model


def naive_search(X: NDArray[np.float64], y: NDArray[np.int64]) -> float:
    """Search and fit finally, one model after the other; return the best mean held-out accuracy."""
    scores = {}
    for gamma, rate in product(GAMMAS, RATES):
        hits = []
        for train, valid in StratifiedKFold(6, shuffle=True, random_state=0).split(X, y):
            scaler = StandardScaler().fit(X[train])
            model = fit_one(scaler.transform(X[train]), y[train], gamma, rate)
            predicted = model(torch.tensor(scaler.transform(X[valid]), dtype=torch.float32)).argmax(1).numpy()
            hits.append((predicted == y[valid]).mean())
        scores[gamma, rate] = float(np.mean(hits))
    best = max(scores, key=lambda key: scores[key])
    fit_one(StandardScaler().fit_transform(X), y, *best)
    return scores[best]


def compare(name: str, X: NDArray[np.float64], y: NDArray[np.int64], goal: float) -> None:
    model = GenLabelClassifier.from_paper(
        density="gaussian", mixer=Mixup(1.0), search__restore_best=False, training__device="cpu", random_state=0
    )
    model.fit(X, y)
    before = [seconds(lambda: model.fit(X, y)) for _ in range(3)]
    scores: list[float] = []
    slow = seconds(lambda: scores.append(naive_search(X, y)))
    fast = median(before + [seconds(lambda: model.fit(X, y)) for _ in range(3)])
    print(
        f"{name} (n={len(X)}, d={X.shape[1]}, k={y.max() + 1}): naive implementation {slow:.2f} s, "
        f"GenLabelClassifier {fast:.3f} s: {slow / fast:.0f} times faster (goal: {goal:.0f}); "
        f"best held-out accuracy {scores[0]:.3f} and {model.best_score_:.3f}",
        flush=True,
    )


def main() -> None:
    compare("wine", *load_wine(return_X_y=True), goal=60)
    compare("synthetic", *make_classification(1000, 10, n_informative=6, n_redundant=0, random_state=0), goal=30)


if __name__ == "__main__":
    main()
