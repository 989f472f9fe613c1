"""
How far is the boundary?
========================

Between two circles that are 0.2 apart, the best boundary is 0.1 from either. A network is trained on the points, on
blends with mixup's labels, on blends with GenLabel's, and on points that GenMix puts between the circles; `margins`
measures how far each training point is from where the network takes it for the other class. Look at the smallest of
these distances, the black mark: the titles name that of the draw in the picture, below are the means of three draws.
Mixup, many of whose blends lie on the wrong circle, loses a tenth of the points and nearly all of the margin. GenLabel
and GenMix give back the points and, in the mean, less than half of the margin; the largest one has vanilla training,
on each of the three draws.
"""

import numpy as np
from matplotlib.figure import Figure

from genlabel import (
    GenLabelClassifier,
    GenMix,
    GridSearch,
    KernelDensity,
    Mixup,
    MixupClassifier,
    SoftLabelClassifier,
    TrainingOptions,
)
from genlabel.attacks import margins
from genlabel.data.datasets.synthetic import make_circle
from genlabel.reporting.figures import plot_regions

training = TrainingOptions(learning_rate=0.01, weight_decay=1e-4, epochs=60)
common = {"search": GridSearch(), "training": training, "random_state": 0}
mixed = common | {"mixer": Mixup(1.0), "clean_fraction": 0.0}
kernel = KernelDensity("likelihood")
vanilla = MixupClassifier(mixer=None, calibrate=False, **common)
methods = {
    "vanilla": vanilla,
    "mixup": MixupClassifier(calibrate=False, **mixed),
    "GenLabel": GenLabelClassifier(density=kernel, pool_with_density=None, **mixed),
    "GenMix": SoftLabelClassifier(vanilla, GenMix(kernel, n_aug=1.0, lam="uniform"), random_state=0),
}

figure = Figure(figsize=(9, 2.9), layout="constrained")
for ax, (name, model) in zip(figure.subplots(1, 4, sharey=True), methods.items(), strict=True):
    right, smallest = [], []
    for seed in (2, 1, 0):  # the last one is drawn
        X, y = make_circle(100, random_state=seed)
        found = margins(model.fit(X, y), X, y, steps=10)
        right.append(found.correct.mean())
        smallest.append(found.smallest)
    print(f"{name:<8}  {np.mean(right):.1%} of the points right, smallest margin {np.mean(smallest):.3f} in the mean")
    plot_regions(ax, model.predict, X, y, size=6, steps=120)
    near = np.where(found.correct, found.distances, np.inf).argmin()
    ax.plot(*np.transpose([X[near], found.witnesses[near]]), color="black", marker="o", markersize=3)
    ax.set(title=f"{name}: {found.smallest:.3f}", aspect="equal")
