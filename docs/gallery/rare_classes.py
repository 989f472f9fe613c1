"""
A class of twelve rows
======================

Of the breast cancer table, 12 malignant rows and 180 benign ones are for training, and all others for the test. Look
at the two marks of each colour: `class_weight="balanced"` finds more of the rare class and pays with false alarms,
for the library as for logistic regression. It also pays with its probabilities, which then are those of classes of
equal size: the log-loss at the shares of training is three times as high. The line is what the default finds if one
calls a row malignant from a lower probability on; on this split it is above both balanced models, and its
probabilities stay what they are. Logistic regression, at less than a hundredth of the cost, is not far behind.
"""

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from genlabel import GenLabelClassifier

table = load_breast_cancer()
X, y = table.data[:, :10], np.where(table.target == 0, "malignant", "benign")
rng = np.random.default_rng(0)
few, many = (rng.permutation(np.flatnonzero(y == name)) for name in ("malignant", "benign"))
train, test = np.r_[few[:12], many[:180]], np.r_[few[12:], many[180:]]
rare = y[test] == "malignant"
weight = np.where(rare, 12 / rare.sum(), 180 / (~rare).sum())  # the test rows at the shares of training

figure = Figure(figsize=(6, 3.8), layout="constrained")
ax = figure.subplots()
for name, color in (("GenLabel", "#0072B2"), ("logistic regression", "#D55E00")):
    for class_weight, marker in ((None, "o"), ("balanced", "s")):
        if name == "GenLabel":
            model = GenLabelClassifier(class_weight=class_weight, random_state=0)
        else:
            model = make_pipeline(StandardScaler(), LogisticRegression(class_weight=class_weight))
        proba = model.fit(X[train], y[train]).predict_proba(X[test])
        found, alarm = ((proba[:, 1] > 0.5)[part].mean() for part in (rare, ~rare))
        loss = log_loss(y[test], proba, sample_weight=weight)
        print(f"{name}, {class_weight or 'as it is'}: finds {found:.0%}, false alarms {alarm:.0%}, log-loss {loss:.3f}")
        ax.plot(alarm, found, marker, color=color, markersize=8, label=f"{name}, {class_weight or 'as it is'}")
        if name == "GenLabel" and class_weight is None:
            steps = np.linspace(0.01, 0.5, 50)
            line = [[(proba[:, 1] > step)[part].mean() for step in steps] for part in (~rare, rare)]
            ax.plot(*line, color=color, linewidth=1, label="the first, from a lower probability on")
ax.set(xlabel="false alarms among the benign", ylabel="found of the malignant", xlim=(-0.01, 0.25), ylim=(0.6, 1.01))
ax.legend(fontsize=8, loc="lower right")
