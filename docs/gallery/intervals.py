"""
Probabilities with a lower and an upper end
===========================================

`predict_proba_interval` says how far held-out rows bear out a probability. The test rows are in the order of their
probability: the band is narrow at both ends, where many held-out rows have been given such a probability, and wide in
the middle, where few have. Look at the dots far from the line: no row whose lower end is above 0.9 is one of them,
while of the other rows 7 % are wrong. The band is no interval of confidence for a single row (`what it means
<../intervals.html#what-an-interval-means>`__).
"""

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer

from genlabel import GenLabelClassifier

X, y = load_breast_cancer(return_X_y=True)
model = GenLabelClassifier(random_state=0).fit(X[::2], y[::2])
proba = model.predict_proba(X[1::2])[:, 1]
lower, upper = model.predict_proba_interval(X[1::2])
sure = lower.max(axis=1) > 0.9
hit = (proba > 0.5) == y[1::2]
print(f"lower end above 0.9: {sure.mean():.0%} of the rows, of which {hit[sure].mean():.1%} right")
print(f"all other rows: {hit[~sure].mean():.1%} right")
print(f"width of the interval: {np.median(upper - lower):.2f} in the median, {(upper - lower).max():.2f} at the most")

figure = Figure(figsize=(7, 3.4), layout="constrained")
ax = figure.subplots()
order, place = proba.argsort(), np.arange(len(proba))
ax.fill_between(place, lower[order, 1], upper[order, 1], color="#56B4E9", alpha=0.5, linewidth=0, label="interval")
ax.plot(place, proba[order], color="#0072B2", label="probability")
ax.scatter(place, y[1::2][order], s=6, color="#D55E00", label="the class that it is")
ax.set(xlabel="test rows, by probability", ylabel="of class 1, benign")
ax.legend(loc="center left")
