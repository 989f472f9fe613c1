"""What a kept model may be made of: the allow-list of classes, by the names that stand in its files.

A file names a class; only these can be named. Nothing else is ever looked up, so that a file cannot choose what runs.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

ALL_PARAMETERS = "parameters"
"""Stands for all parameters of an estimator."""


class Known(NamedTuple):
    """A class that may be kept, and what of it need not be."""

    module: str
    attribute: str
    optional: tuple[str, ...] = ()
    """What is left out where it cannot be written: nothing that is predicted depends on it."""
    without: tuple[str, ...] = ()
    """Parameters that are never kept: they have their defaults after loading."""


_RENAMED = {
    "Judge": "TypicalityModel", "Directions": "RandomProjection",
    "ConvReader": "ConvNetwork", "Axes": "PrincipalAxes", "Centred": "CenteredSample",
    "KnownDensity": "FixedDensity", "StackDensity": "WeightedDensities",
    "Held": "ConformalScores", "ThinGaussians": "LowRankGaussians", "Warp": "PowerTransform",
    "WarpedDensity": "PowerTransformedDensity", "SharedLabel": "WeightedLabel", "Standardisation": "Standardization",
    "Support": "Typicality", "Pooling": "PoolWeights", "LabelModel": "StackedDensity",
}  # fmt: skip
"""Classes by the name in a file, where they are called otherwise today."""
_RESULTS = (ALL_PARAMETERS, "best_params_", "cv_results_", "history_", "density_")
_SEED = ("random_state",)
_CLASSES: dict[str, tuple[str, ...]] = {
    "genlabel.densities.covariance": ("Gaussians", "Whitening"),
    "genlabel.densities.discriminant": ("Axes", "Centred", "DiscriminantDensity", "ThinGaussians"),
    "genlabel.densities.mixture": ("Mixtures", "Terms"),
    "genlabel.densities.gan.generators": ("Charts", "Generators", "Latents"),
    "genlabel.densities.gan.networks": ("ConvReader", "Perceptron"),
    "genlabel.densities.gaussian": ("GaussianDensity",),
    "genlabel.densities.gan.inversion": ("Bank",),
    "genlabel.densities.kernel": ("KernelDensity", "KernelModel"),
    "genlabel.densities.per_class": ("KnownDensity", "SphericalGaussian"),
    "genlabel.densities.latent": ("LatentDensity",),
    "genlabel.densities.stacked": ("StackDensity",),
    "genlabel.densities.stacking": ("Stacking",),
    "genlabel.estimators.typicality": ("Directions", "Held", "Judge"),
    "genlabel.densities.power_transform": ("Warp", "WarpedDensity"),
    "genlabel.estimators.encoding": ("Columns", "Numbers"),
    "genlabel.estimators.intervals": ("Calibration",),
    "genlabel.model_selection.options": ("GridSearch", "HalvingSearch", "TrainingOptions"),
    "genlabel.model_selection.pooling": ("Pooling",),
    "genlabel.labeling.generative": ("GenLabel",),
    "genlabel.labeling.linear": ("LinearLabel", "LogisticLabel", "SharedLabel"),
    "genlabel.mixing.mixup": ("ManifoldMixup", "Mixup"),
    "genlabel.training.networks.ensemble": ("Ensemble",),
    "genlabel.training.networks.staged": ("MLP",),
    "genlabel._standardization": ("Standardisation",),
    "sklearn.compose": ("ColumnTransformer",),
    "sklearn.preprocessing": ("StandardScaler",),
}
KNOWN: dict[str, Known] = {
    **{name: Known(module, _RENAMED.get(name, name)) for module, names in _CLASSES.items() for name in names},
    **{
        name: Known(f"genlabel.densities.{module}", _RENAMED.get(name, name), _SEED)
        for name, module in {
            "FlowDensity": "flow", "ForestDensity": "forest", "GANDensity": "gan", "MixtureDensity": "mixture",
            "VAEDensity": "vae",
        }.items()
    },
    "Support": Known("genlabel.estimators.typicality", "Typicality", _SEED),
    "LabelModel": Known(
        "genlabel.densities.stacked", "StackedDensity", (*_SEED, "candidates", "candidates_"), without=("cv",)
    ),
    "Trees": Known("genlabel.densities.forest", "Trees"),
    "Pipeline": Known("sklearn.pipeline", "Pipeline", without=("memory",)),
    **{
        name: Known(f"genlabel.estimators.{module}", name, _RESULTS)
        for name, module in {
            "AdaMixupClassifier": "adamixup", "GenLabelClassifier": "genlabel", "GenerativeClassifier": "generative",
            "MixupClassifier": "mixup",
        }.items()
    },
}  # fmt: skip
"""By the name in a file. A class that moves to another module keeps its name here."""


@cache
def class_named(name: str) -> type[Any]:
    """Return the class of a name in a file, or raise.

    >>> class_named("KernelModel").__name__
    'KernelModel'
    >>> class_named("os.system")
    Traceback (most recent call last):
    ValueError: it names the class 'os.system', which is none of those that a kept model is made of
    """
    if name not in KNOWN:
        raise ValueError(f"it names the class {name!r}, which is none of those that a kept model is made of")
    known = KNOWN[name]
    found: type[Any] = getattr(import_module(known.module), known.attribute)
    return found


def name_of_class(kind: type[Any]) -> str | None:
    """Return the name under which objects of a class are kept; None if they are not.

    >>> from genlabel.densities import KernelDensity
    >>> name_of_class(KernelDensity), name_of_class(dict)
    ('KernelDensity', None)
    """
    return next((n for n, known in KNOWN.items() if known.attribute == kind.__name__ and class_named(n) is kind), None)
