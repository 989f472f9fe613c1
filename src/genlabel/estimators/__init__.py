"""scikit-learn classifiers: GenLabel, mixup, AdaMixup, class densities by Bayes' rule, soft labels; typicality."""

from genlabel.estimators.generative import GenerativeClassifier
from genlabel.estimators.genlabel import GenLabelClassifier
from genlabel.estimators.mixup import AdaMixupClassifier, MixupClassifier
from genlabel.estimators.soft_labels import SoftLabelClassifier
from genlabel.estimators.typicality import Typicality

__all__ = [
    "AdaMixupClassifier",
    "GenLabelClassifier",
    "GenerativeClassifier",
    "MixupClassifier",
    "SoftLabelClassifier",
    "Typicality",
]
