"""
Rows that are like nothing seen before
======================================

The typicality of a row is the share of the training rows that are less typical: 0.05 or less means that few of them are
as odd. A classifier answers for any row, also where it should not. Here the color of some wines has lost its decimal
point. Look at the left end: every slipped row is there, and 7 % of the others, where 5 % are promised on average over
tables. `unusual_values` names the value, its column and its range (`typicality <../typicality.html>`__).
"""

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_wine

from genlabel import GenerativeClassifier

X, y = load_wine(return_X_y=True, as_frame=True)
model = GenerativeClassifier("gaussian").fit(X[::2], y[::2])
new = X[1::2]
slipped = new.assign(color_intensity=10 * new["color_intensity"])
fine, odd = model.typicality(new), model.typicality(slipped)
print(f"typicality of 0.05 or less: {np.mean(fine <= 0.05):.0%} of new rows, {np.mean(odd <= 0.05):.0%} of slipped")
print(model.unusual_values(slipped).head())

figure = Figure(figsize=(6, 3), layout="constrained")
ax = figure.subplots()
ax.hist([fine, odd], bins=np.linspace(0, 1, 21), label=["new rows", "slipped by a factor of 10"])
ax.axvline(0.05, color="black", linestyle="--", linewidth=1)
ax.set(xlabel="typicality", ylabel="rows")
ax.legend()
