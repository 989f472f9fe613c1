"""The scikit-learn door: classifiers that take any table and check it."""

from genlabel.estimators.adamixup import AdaMixupClassifier
from genlabel.estimators.generative import GenerativeClassifier
from genlabel.estimators.genlabel import GenLabelClassifier
from genlabel.estimators.mixup import MixupClassifier
from genlabel.estimators.soft_labels import SoftLabelClassifier

__all__ = ["AdaMixupClassifier", "GenLabelClassifier", "GenerativeClassifier", "MixupClassifier", "SoftLabelClassifier"]
