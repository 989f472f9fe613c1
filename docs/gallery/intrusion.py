"""
Blends that land on another class
=================================

Mixup blends a point of the left column with one of the right, and the blend lies among the points of the middle
column: it intrudes. Here are nine round classes on a grid, and the top label of each blend under mixup and under
GenLabel. Mixup labels a blend with its parents' classes, GenLabel with the class that it lies in. Look at the middle
of the second picture, where several colours lie side by side, and at the third, where each place has its own. That
the Gaussians are right about these classes is given; where a density is wrong, its labels are too.
"""

import numpy as np
from matplotlib.figure import Figure

from genlabel import GaussianDensity, GenLabel, LinearLabel, Mixup
from genlabel.data.datasets.synthetic import make_nine_gaussians
from genlabel.mixing import intrudes
from genlabel.reporting.figures import plot_points

X, y = make_nine_gaussians(60, random_state=0)
mixer = Mixup(alpha=1.0)
draw = mixer.draw(len(X), np.random.default_rng(0))
X_mix = mixer.mix(X, draw)
by_mixup = LinearLabel().fit(X, y).label(X_mix, y, draw)
by_genlabel = GenLabel(GaussianDensity(), gamma=1.0).fit(X, y).label(X_mix, y, draw)

intruding = intrudes(X_mix, draw, X, y)
print(f"{intruding.mean():.0%} of the blends intrude on a third class")
for name, labels in {"mixup": by_mixup, "GenLabel": by_genlabel}.items():
    nearest = np.array([y[((X - point) ** 2).sum(1).argmin()] for point in X_mix])
    print(f"{name}: top label is the class of the nearest point for {(labels.argmax(1) == nearest).mean():.0%}")

figure = Figure(figsize=(9, 3.6), layout="constrained")
axes = figure.subplots(1, 3, sharex=True, sharey=True)
plot_points(axes[0], X, y)
plot_points(axes[1], X_mix, by_mixup)
plot_points(axes[2], X_mix, by_genlabel)
for ax, title in zip(axes, ["the points", "blends, labels of mixup", "blends, labels of GenLabel"], strict=True):
    ax.set(title=title, aspect="equal")
