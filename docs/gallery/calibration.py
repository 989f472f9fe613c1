"""
Does a probability mean what it says?
=====================================

Of the points to which a model gives 0.8, four in five should be of that class. The same network is trained in three
ways on five draws of 200 points; for the last two every point is a blend, and nothing calibrates it afterwards. Fresh
points are the judge. Look at the side of the diagonal: vanilla training is too sure of itself, and mixup is not sure
enough. GenLabel errs to the side of mixup, by half as much and by as much as vanilla training to the other, and has
the lowest log-loss. It is a toy whose classes a kernel density knows well; the default of the library calibrates
itself on held-out rows (`stacked densities <../stacked-density.html>`__).
"""

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import make_moons

from genlabel import GenLabelClassifier, GridSearch, KernelDensity, Mixup, MixupClassifier, TrainingOptions
from genlabel.metrics import score

training = TrainingOptions(learning_rate=0.01, weight_decay=1e-4, epochs=50)
common = {"search": GridSearch(), "training": training, "random_state": 0}
mixed = common | {"mixer": Mixup(1.0), "clean_fraction": 0.0}
methods = {
    "vanilla": MixupClassifier(mixer=None, calibrate=False, **common),
    "mixup": MixupClassifier(calibrate=False, **mixed),
    "GenLabel": GenLabelClassifier(density=KernelDensity("likelihood"), pool_with_density=None, **mixed),
}
X_test, y_test = make_moons(2000, noise=0.25, random_state=100)
draws = [make_moons(200, noise=0.25, random_state=seed) for seed in range(5)]
edges = np.linspace(0, 1, 11)

figure = Figure(figsize=(9, 3.4), layout="constrained")
for ax, (name, model) in zip(figure.subplots(1, 3, sharey=True), methods.items(), strict=True):
    given, scores = [], []
    for X, y in draws:
        model.fit(X, y)
        given.append(model.predict_proba(X_test)[:, 1])
        scores.append(list(score(model, X_test, y_test).values()))
    accuracy, loss, _, error = np.mean(scores, axis=0)
    print(f"{name:<8}  accuracy {accuracy:.1%}, log-loss {loss:.3f}, calibration error {error:.3f}")
    said, true = np.concatenate(given), np.tile(y_test, len(draws))
    place = np.digitize(said, edges[1:-1])
    mean, share = ([values[place == b].mean() for b in range(10)] for values in (said, true))
    ax.plot([0, 1], [0, 1], color="#888888", linewidth=1)
    ax.plot(mean, share, marker="o", color="#0072B2")
    ax.set(title=f"{name}: error {error:.3f}", xlabel="probability of class 1", aspect="equal")
figure.axes[0].set_ylabel("share that is of class 1")
