"""GenLabel: mixup whose labels come from learned class densities (Sohn et al., arXiv 2201.02354).

The public names are loaded when they are first used, so that the command line answers at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genlabel.densities import ClassDensity, DensityWarning, GaussianDensity, KernelDensity, LabelModel
    from genlabel.estimators import AdaMixupClassifier, GenerativeClassifier, GenLabelClassifier, MixupClassifier
    from genlabel.labeling import GenLabel, LinearLabel, LogisticLabel
    from genlabel.mixing import ManifoldMixup, Mixup, intrudes

__version__ = "0.1.0"

__all__ = [
    "AdaMixupClassifier",
    "ClassDensity",
    "DensityWarning",
    "GaussianDensity",
    "GenLabel",
    "GenLabelClassifier",
    "GenerativeClassifier",
    "KernelDensity",
    "LabelModel",
    "LinearLabel",
    "LogisticLabel",
    "ManifoldMixup",
    "Mixup",
    "MixupClassifier",
    "__version__",
    "intrudes",
]

_ROOMS = {
    "densities": ("ClassDensity", "DensityWarning", "GaussianDensity", "KernelDensity", "LabelModel"),
    "estimators": ("AdaMixupClassifier", "GenLabelClassifier", "GenerativeClassifier", "MixupClassifier"),
    "labeling": ("GenLabel", "LinearLabel", "LogisticLabel"),
    "mixing": ("ManifoldMixup", "Mixup", "intrudes"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'genlabel' has no attribute {name!r}")
    return getattr(import_module(f"genlabel.{_ROOM_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
