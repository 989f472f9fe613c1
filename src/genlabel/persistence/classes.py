"""Allow-list of the classes that a saved model is made of, by the names in its files.

A file names a class; only these names are ever looked up, so a file cannot choose what runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

CLASSES: dict[str, tuple[str, ...]] = {
    "genlabel._standardization": ("Standardization",),
    "genlabel.densities.covariance": ("Gaussians", "Whitening"),
    "genlabel.densities.discriminant": (
        "CenteredSample", "DiscriminantDensity", "LowRankGaussians", "PrincipalAxes",
    ),
    "genlabel.densities.flow": ("FlowDensity",),
    "genlabel.densities.forest": ("ForestDensity", "Trees"),
    "genlabel.densities.gan.density": ("GANDensity",),
    "genlabel.densities.gan.generators": ("Charts", "Generators", "Latents"),
    "genlabel.densities.gan.inversion": ("Bank",),
    "genlabel.densities.gan.networks": ("ConvNetwork", "Perceptron"),
    "genlabel.densities.gaussian": ("GaussianDensity",),
    "genlabel.densities.kernel": ("KernelDensity", "KernelModel"),
    "genlabel.densities.latent": ("LatentDensity",),
    "genlabel.densities.mixture": ("MixtureDensity", "Mixtures", "Terms"),
    "genlabel.densities.per_class": ("FixedDensity", "SphericalGaussian"),
    "genlabel.densities.power_transform": ("PowerTransform", "PowerTransformedDensity"),
    "genlabel.densities.stacked": ("StackedDensity", "WeightedDensities"),
    "genlabel.densities.stacking": ("Stacking",),
    "genlabel.densities.vae": ("VAEDensity",),
    "genlabel.estimators.adamixup": ("AdaMixupClassifier",),
    "genlabel.estimators.encoding": ("FrameEncoder", "NumericEncoder"),
    "genlabel.estimators.generative": ("GenerativeClassifier",),
    "genlabel.estimators.genlabel": ("GenLabelClassifier",),
    "genlabel.estimators.intervals": ("Calibration",),
    "genlabel.estimators.mixup": ("MixupClassifier",),
    "genlabel.estimators.typicality": ("ConformalScores", "RandomProjection", "Typicality", "TypicalityModel"),
    "genlabel.labeling.generative": ("GenLabel",),
    "genlabel.labeling.linear": ("LinearLabel", "LogisticLabel", "WeightedLabel"),
    "genlabel.mixing.mixup": ("ManifoldMixup", "Mixup"),
    "genlabel.model_selection.options": ("GridSearch", "HalvingSearch", "TrainingOptions"),
    "genlabel.model_selection.pooling": ("PoolWeights",),
    "genlabel.training.networks.ensemble": ("Ensemble",),
    "genlabel.training.networks.staged": ("MLP",),
    "sklearn.compose": ("ColumnTransformer",),
    "sklearn.pipeline": ("Pipeline",),
    "sklearn.preprocessing": ("StandardScaler",),
}  # fmt: skip
"""Classes by module."""
ALL_PARAMETERS = "parameters"
"""Stands for all constructor parameters in `OPTIONAL`."""
_RESULTS = (ALL_PARAMETERS, "best_params_", "cv_results_", "history_")
OPTIONAL: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("AdaMixupClassifier", "GenerativeClassifier", "MixupClassifier"), _RESULTS),
    "GenLabelClassifier": (*_RESULTS, "density_"),
    **dict.fromkeys(("GridSearch", "HalvingSearch", "TrainingOptions"), (ALL_PARAMETERS,)),
    **dict.fromkeys(
        ("FlowDensity", "ForestDensity", "GANDensity", "MixtureDensity", "Typicality", "VAEDensity"), ("random_state",)
    ),
    "StackedDensity": ("random_state", "candidates", "candidates_"),
}
"""State of a class that is omitted where it cannot be written; no prediction depends on it."""
NEVER_SAVED: dict[str, tuple[str, ...]] = {"Pipeline": ("memory",), "StackedDensity": ("cv",)}
"""Parameters that are never saved; they have their defaults after loading."""
_MODULES = {name: module for module, names in CLASSES.items() for name in names}


class PersistenceError(ValueError):
    """Error about a model with a part that cannot be saved without pickle."""


@cache
def class_by_name(name: str) -> type[Any]:
    """Return the class of a name in a file, or raise.

    >>> class_by_name("KernelModel").__name__
    'KernelModel'
    >>> class_by_name("os.system")
    Traceback (most recent call last):
    ValueError: it names the class 'os.system', which is not one of those that a saved model is made of
    """
    if name not in _MODULES:
        raise ValueError(f"it names the class {name!r}, which is not one of those that a saved model is made of")
    found: type[Any] = getattr(import_module(_MODULES[name]), name)
    return found


def saved_name(cls: Callable[..., Any]) -> str | None:
    """Return the name under which objects of a class are saved; None if they cannot be.

    >>> from genlabel.densities import KernelDensity
    >>> saved_name(KernelDensity), saved_name(dict)
    ('KernelDensity', None)
    """
    name = cls.__name__
    return name if name in _MODULES and class_by_name(name) is cls else None
