"""
Points where two classes meet
=============================

GenMix does not blend: it looks for points at which two classes are as likely as asked and no third one is (arXiv Alg.
4). For Gaussians it is exact; every point lies on the surface where the ratio of the two densities is lambda. Look at
how the points move: at 0.1 they are near one class of each pair, at 0.5 halfway, and for a lambda that is drawn
uniformly they fill what is between. Whether a classifier gains by them is another question: on 104 tables it did not
(`GenMix <../genmix.html>`__).
"""

import numpy as np
from matplotlib.figure import Figure

from genlabel import GenMix
from genlabel.reporting.figures import plot_points

rng = np.random.default_rng(0)
y = np.repeat([0, 1, 2], 60)
X = rng.normal(size=(180, 2)) * 0.6 + np.array([[0.0, 0.0], [4.0, 0.0], [2.0, 3.5]])[y]

figure = Figure(figsize=(9, 3.6), layout="constrained")
axes = figure.subplots(1, 3, sharex=True, sharey=True)
for ax, lam in zip(axes, (0.1, 0.5, "uniform"), strict=True):
    genmix = GenMix("gaussian", n_aug=1.0, lam=lam, output="soft", random_state=0)
    X_more, labels = genmix.fit_resample(X, y)
    between, share = X_more[len(X) :], labels[len(X) :]
    print(f"lambda {lam}: {len(between)} points, the larger label is {share.max(1).mean():.2f} in the mean")
    plot_points(ax, X, y, size=4)
    ax.scatter(*between.T, s=5, color="black")
    ax.set(title=f"lambda = {lam}", aspect="equal")
