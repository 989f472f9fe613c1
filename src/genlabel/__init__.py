"""GenLabel: mixup whose labels come from learned class densities (Sohn et al., arXiv 2201.02354).

The public names are loaded when they are first used, so that the command line answers at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from genlabel._lazy import lazy_getattr

if TYPE_CHECKING:
    from genlabel._progress import Callback, LambdaCallback, ProgressEvent, use_callback
    from genlabel.densities import (
        ClassDensity,
        CollapseWarning,
        DensityWarning,
        FlowDensity,
        ForestDensity,
        GANDensity,
        GaussianDensity,
        KernelDensity,
        MixtureDensity,
        OnlineGaussianDensity,
        StackedDensity,
        VAEDensity,
    )
    from genlabel.estimators import (
        AdaMixupClassifier,
        GenerativeClassifier,
        GenLabelClassifier,
        MixupClassifier,
        SoftLabelClassifier,
        Typicality,
    )
    from genlabel.evaluation.diagnosis import Diagnosis, diagnose
    from genlabel.integrations import GenLabelMixup, mixed_accuracy
    from genlabel.labeling import GenLabel, GenLabelSampler, LinearLabel, LogisticLabel, OnlineGenLabel
    from genlabel.mixing import CutMix, GenMix, GenMixWarning, ManifoldMixup, Mixup, intrudes
    from genlabel.model_selection import GridSearch, HalvingSearch, TrainingOptions
    from genlabel.persistence import LoadedModel, export_onnx, load_model, save_model
    from genlabel.reporting import write_report

__version__ = "0.2.0"

__all__ = [
    "AdaMixupClassifier",
    "Callback",
    "ClassDensity",
    "CollapseWarning",
    "CutMix",
    "DensityWarning",
    "Diagnosis",
    "FlowDensity",
    "ForestDensity",
    "GANDensity",
    "GaussianDensity",
    "GenLabel",
    "GenLabelClassifier",
    "GenLabelMixup",
    "GenLabelSampler",
    "GenMix",
    "GenMixWarning",
    "GenerativeClassifier",
    "GridSearch",
    "HalvingSearch",
    "KernelDensity",
    "LambdaCallback",
    "LinearLabel",
    "LoadedModel",
    "LogisticLabel",
    "ManifoldMixup",
    "MixtureDensity",
    "Mixup",
    "MixupClassifier",
    "OnlineGaussianDensity",
    "OnlineGenLabel",
    "ProgressEvent",
    "SoftLabelClassifier",
    "StackedDensity",
    "TrainingOptions",
    "Typicality",
    "VAEDensity",
    "__version__",
    "diagnose",
    "export_onnx",
    "intrudes",
    "load_model",
    "mixed_accuracy",
    "save_model",
    "use_callback",
    "write_report",
]

_ROOMS = {
    "_progress": ("Callback", "LambdaCallback", "ProgressEvent", "use_callback"),
    "densities": (
        "ClassDensity",
        "CollapseWarning",
        "DensityWarning",
        "FlowDensity",
        "ForestDensity",
        "GANDensity",
        "GaussianDensity",
        "KernelDensity",
        "StackedDensity",
        "MixtureDensity",
        "OnlineGaussianDensity",
        "VAEDensity",
    ),
    "evaluation.diagnosis": ("Diagnosis", "diagnose"),
    "estimators": (
        "AdaMixupClassifier",
        "GenLabelClassifier",
        "GenerativeClassifier",
        "MixupClassifier",
        "SoftLabelClassifier",
        "Typicality",
    ),
    "model_selection": ("GridSearch", "HalvingSearch", "TrainingOptions"),
    "persistence": ("LoadedModel", "export_onnx", "load_model", "save_model"),
    "labeling": ("GenLabel", "GenLabelSampler", "LinearLabel", "LogisticLabel", "OnlineGenLabel"),
    "integrations": ("GenLabelMixup", "mixed_accuracy"),
    "mixing": ("CutMix", "GenMix", "GenMixWarning", "ManifoldMixup", "Mixup", "intrudes"),
    "reporting": ("write_report",),
}
__getattr__ = lazy_getattr(__name__, _ROOMS)


def __dir__() -> list[str]:
    return __all__
