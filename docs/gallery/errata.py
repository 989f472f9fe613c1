"""
An erratum of the paper: the margin of Example 1
================================================

The paper's proof finds the margin 7/16 for mixup on three points; it is 3/8. The points lie on a line, the middle one
being of another class, and the proof leaves out the factor 2 of one of its three losses. Both margins are computed
here, by closed form and by quadrature: look at where the two curves have their minimum. What the example is to show
holds all the same, and more clearly: without blends that intrude, the margin is 1/2 (all errata are in `theory
<../theory.html>`__).
"""

import numpy as np
from matplotlib.figure import Figure

from genlabel_paper.theory import example1_loss, example1_loss_by_quadrature, example1_margin

for name, printed in {"as defined": False, "as printed": True}.items():
    print(f"mixup, {name}: margin {example1_margin('mixup', as_printed=printed)}")
print("mixup without intruding points: margin", example1_margin("mixup-without-mi"))
gap = max(abs(example1_loss("mixup", t) - example1_loss_by_quadrature("mixup", t)) for t in (0.2, 0.375, 0.6))
print(f"closed form and quadrature differ by {gap:.0e} at the most")

figure = Figure(figsize=(6, 3.2), layout="constrained")
ax = figure.subplots()
theta = np.linspace(0.2, 0.7, 101)
for name, printed, color in (("as defined", False, "#0072B2"), ("as printed", True, "#D55E00")):
    ax.plot(theta, [example1_loss("mixup", t, as_printed=printed) for t in theta], color=color, label=name)
    ax.axvline(example1_margin("mixup", as_printed=printed), color=color, linestyle=":")
ax.set(xlabel="theta; at the minimum it is the margin", ylabel="loss of mixup")
ax.legend()
