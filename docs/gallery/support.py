"""
Rows that are like nothing seen before
======================================

The support of a row says how typical it is of the training rows: 0.05 or less means that few of them are as odd. A
classifier answers for any row, also where it should not. Here the colour of some wines has lost its decimal point.
Look at the left end: every slipped row is there, and 7 % of the others, where 5 % are promised in the mean over
tables. It also names the column to look at first (`support <../typicality.html>`__).
"""

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_wine

from genlabel import Typicality

X, y = load_wine(return_X_y=True)
support = Typicality(random_state=0).fit(X[::2], y[::2])
new = X[1::2]
slipped = new.copy()
slipped[:, 9] *= 10  # colour_intensity
fine, odd = support(new), support(slipped)
print(f"support of at most 0.05: {np.mean(fine <= 0.05):.0%} of new rows, {np.mean(odd <= 0.05):.0%} of slipped ones")
print("column to look at first:", load_wine().feature_names[support.columns(slipped[:1]).argmax()])

figure = Figure(figsize=(6, 3), layout="constrained")
ax = figure.subplots()
ax.hist([fine, odd], bins=np.linspace(0, 1, 21), label=["new rows", "slipped by a factor of 10"])
ax.axvline(0.05, color="black", linestyle="--", linewidth=1)
ax.set(xlabel="support", ylabel="rows")
ax.legend()
