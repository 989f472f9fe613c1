from ._progress import Callback, LambdaCallback, use_callback
from .densities import (
    DensityWarning,
    FlowDensity,
    ForestDensity,
    GANDensity,
    GaussianDensity,
    KernelDensity,
    MixtureDensity,
    StackedDensity,
    VAEDensity,
)
from .estimators import (
    AdaMixupClassifier,
    GenerativeClassifier,
    GenLabelClassifier,
    MixupClassifier,
    SoftLabelClassifier,
    Typicality,
)
from .evaluation.diagnosis import diagnose
from .evaluation.explanation import explain
from .integrations import GenLabelMixup
from .labeling import GenLabel, GenLabelSampler, LinearLabel, OnlineGenLabel
from .mixing import CutMix, GenMix, ManifoldMixup, Mixup, RandomChoice
from .model_selection.options import GridSearch, HalvingSearch, TrainingOptions
from .persistence import export_onnx, load_model, save_model
from .reporting import write_report

__version__: str

__all__ = [
    "AdaMixupClassifier",
    "Callback",
    "CutMix",
    "DensityWarning",
    "FlowDensity",
    "ForestDensity",
    "GANDensity",
    "GaussianDensity",
    "GenLabel",
    "GenLabelClassifier",
    "GenLabelMixup",
    "GenLabelSampler",
    "GenMix",
    "GenerativeClassifier",
    "GridSearch",
    "HalvingSearch",
    "KernelDensity",
    "LambdaCallback",
    "LinearLabel",
    "ManifoldMixup",
    "MixtureDensity",
    "Mixup",
    "MixupClassifier",
    "OnlineGenLabel",
    "RandomChoice",
    "SoftLabelClassifier",
    "StackedDensity",
    "TrainingOptions",
    "Typicality",
    "VAEDensity",
    "diagnose",
    "explain",
    "export_onnx",
    "load_model",
    "save_model",
    "use_callback",
    "write_report",
]
