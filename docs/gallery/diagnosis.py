"""
Would mixing help on this table?
================================

`diagnose` looks at a table and says whether mixing would help there, and why. On iris, the stacked density can be
trusted (top left), and a quarter of the mixed rows of the first and the last species land among the second one (top
right), where mixup's labels and the stacked density's have nothing in common (bottom left). Look at the short trial
(bottom right), which counts: three networks that differ in their mixed rows alone, on rows that they have not
seen. Mixup's labels make it clearly worse there; the stacked density's do no harm, and no good that can be seen in 150
rows. With two folds instead of four the answer is "unclear", as it is on most tables (`how often it is right
<../diagnosis.html#how-often-it-is-right>`__).
"""

from sklearn.datasets import load_iris

from genlabel import diagnose
from genlabel.reporting import plot_diagnosis

X, y = load_iris(return_X_y=True, as_frame=True)
diagnosis = diagnose(X, y.map(dict(enumerate(["setosa", "versicolor", "virginica"]))))
print(diagnosis.verdict.word)
print(diagnosis.to_frame("experiment")[["log_loss", "accuracy", "gain"]].round(3))
print(diagnosis.to_frame("pairs")[["class_1", "class_2", "intrusion"]].round(2).head(2).to_string(index=False))

figure = plot_diagnosis(diagnosis)
