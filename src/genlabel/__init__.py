"""GenLabel: mixup whose labels come from learned class densities (Sohn et al., arXiv 2201.02354)."""

from genlabel.densities import ClassDensity, DensityWarning, GaussianDensity, KernelDensity
from genlabel.estimators import GenerativeClassifier, GenLabelClassifier, MixupClassifier
from genlabel.labeling import GenLabel, LinearLabel, LogisticLabel
from genlabel.mixing import ManifoldMixup, Mixup, intrudes

__version__ = "0.1.0"

__all__ = [
    "ClassDensity",
    "DensityWarning",
    "GaussianDensity",
    "GenLabel",
    "GenLabelClassifier",
    "GenerativeClassifier",
    "KernelDensity",
    "LinearLabel",
    "LogisticLabel",
    "ManifoldMixup",
    "Mixup",
    "MixupClassifier",
    "__version__",
    "intrudes",
]
