"""Objects of a saved model: the allow-list of their classes, the state of an object, and the object of a state.

A file names a class; only names that are listed here or registered are looked up, so a file cannot choose what runs.
Of a fitted table preparation, the medians and categories are saved; it is built again by a fit to a table with the same
ones. No inner state of scikit-learn is saved, so that a model can be loaded with another version of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from inspect import Parameter, signature
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from torch import nn
from torch.distributions import Distribution

from genlabel.data.tables import table_pipeline
from genlabel.registry import ATTACKS, DENSITIES, LABELERS, MIXERS
from genlabel.training.networks.staged import MLP, Ensemble

CLASSES: dict[str, tuple[str, ...]] = {
    "genlabel._arrays": ("Standardization",),
    "genlabel.densities.base": ("FixedDensity", "SphericalGaussian"),
    "genlabel.densities.covariance": ("Gaussians", "LowRankGaussians", "PrincipalAxes", "Whitening"),
    "genlabel.densities.forest": ("Trees",),
    "genlabel.densities.gan.generators": (
        "Bank", "Charts", "ConvNetwork", "Generators", "Latents", "Perceptron",
    ),
    "genlabel.densities.kernel": ("KernelModel",),
    "genlabel.densities.mixture": ("Mixtures", "Terms"),
    "genlabel.densities.stacked": ("WeightedDensities",),
    "genlabel.densities.stacking": ("Stacking",),
    "genlabel.densities.transformed": ("LatentDensity", "PowerTransform", "PowerTransformedDensity"),
    "genlabel.estimators.classifier": ("Calibration",),
    "genlabel.estimators.generative": ("GenerativeClassifier",),
    "genlabel.estimators.genlabel": ("GenLabelClassifier",),
    "genlabel.estimators.mixup": ("AdaMixupClassifier", "MixupClassifier"),
    "genlabel.estimators.typicality": ("ConformalScores", "RandomProjection", "Typicality", "TypicalityModel"),
    "genlabel.estimators.validation": ("FrameEncoder", "NumericEncoder"),
    "genlabel.labeling.base": ("WeightedLabel",),
    "genlabel.model_selection.options": ("GridSearch", "HalvingSearch", "TrainingOptions"),
    "genlabel.model_selection.scoring": ("PoolWeights",),
    "genlabel.training.networks.staged": ("Ensemble", "MLP"),
    "genlabel.training.optimizers": ("Adam", "SGD"),
    "sklearn.compose": ("ColumnTransformer",),
    "sklearn.pipeline": ("Pipeline",),
    "sklearn.preprocessing": ("StandardScaler",),
}  # fmt: skip
"""Classes by module, besides the registered ones."""
REGISTRIES = (DENSITIES, MIXERS, LABELERS, ATTACKS)
"""Registries whose classes are allowed, also those of other packages once they are imported."""
DISTRIBUTIONS: dict[str, type[Any]] = {
    f"torch.distributions.{name}": part
    for name, part in vars(torch.distributions).items()
    if isinstance(part, type) and issubclass(part, Distribution)
}
"""Distributions, which a density may have for its classes, by their names in a file."""
ALL_PARAMETERS = "parameters"
"""Stands for all constructor parameters in `OPTIONAL`."""
_RESULTS = (ALL_PARAMETERS, "best_params_", "cv_results_", "history_")
OPTIONAL: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("AdaMixupClassifier", "GenerativeClassifier", "MixupClassifier"), _RESULTS),
    "GenLabelClassifier": (*_RESULTS, "density_"),
    **dict.fromkeys(("GridSearch", "HalvingSearch", "TrainingOptions"), (ALL_PARAMETERS,)),
    "StackedDensity": ("candidates", "candidates_"),
}
"""State of a class that is left out if it cannot be encoded, as is `random_state`; no prediction depends on it."""
NEVER_SAVED: dict[str, tuple[str, ...]] = {"Pipeline": ("memory",), "StackedDensity": ("cv",)}
"""Parameters that are never saved; they have their defaults after loading."""
_MODULES = {name: module for module, names in CLASSES.items() for name in names}
ATTRIBUTE_NAME = re.compile(r"_?[A-Za-z][A-Za-z0-9_]*")


class PersistenceError(ValueError):
    """Error for a model with a part that cannot be saved without pickle."""


def class_by_name(name: str) -> type[Any]:
    """Return the class of a name in a file, or raise.

    >>> class_by_name("os.system")
    Traceback (most recent call last):
    ValueError: the class 'os.system' is not allowed in a saved model; import the package that registers it, if any
    """
    if (cls := _allowed_class(name)) is None:
        hint = "import the package that registers it, if any"
        raise ValueError(f"the class {name!r} is not allowed in a saved model; {hint}")
    return cls


def _allowed_class(name: str) -> type[Any] | None:
    if name in _MODULES:
        return cast(type[Any], getattr(import_module(_MODULES[name]), name))
    # Of two registered classes of the same name the first, which is ours, is the last here.
    registered = {cls.__name__: cls for registry in REGISTRIES for cls in reversed(registry.classes().values())}
    return registered.get(name, DISTRIBUTIONS.get(name))


def saved_name(cls: Callable[..., Any]) -> str | None:
    """Return the name under which objects of a class are saved; None if they cannot be."""
    names = (cls.__name__, f"torch.distributions.{cls.__name__}")
    return next((name for name in names if _allowed_class(name) is cls), None)


def get_state(name: str, value: Any) -> tuple[dict[str, Any], set[str]]:
    """Return the state from which `build_object` builds an object again, and the names that may be left out.

    >>> get_state("MLP", MLP(2, 3, seed=0))[0]["sizes"]
    [2, 3]
    """
    if isinstance(value, MLP):
        weights = [cast(nn.Linear, layer).weight for layer in value.layers]
        sizes = [weights[0].shape[1], *(weight.shape[0] for weight in weights)]
        return {"sizes": sizes, "weights": [parameter.detach() for parameter in value.parameters()]}, set()
    if isinstance(value, Ensemble):
        state = {name: getattr(value, name) for name in signature(Ensemble).parameters}
        return state | {"networks": list(value.networks)}, set()
    if isinstance(value, ColumnTransformer):
        return preprocessing_state(value), set()
    if isinstance(value, Distribution):
        return dict(vars(value)), set()
    if isinstance(value, tuple):
        return dict(cast(Any, value)._asdict()), set()
    optional = {"random_state", *OPTIONAL.get(name, ())}
    if ALL_PARAMETERS in optional:
        optional |= set(value.get_params(deep=False))
    if is_dataclass(value) and not isinstance(value, BaseEstimator):
        return {field.name: getattr(value, field.name) for field in fields(value)}, optional
    omitted = ("_sklearn_version", *NEVER_SAVED.get(name, ()))
    return {key: item for key, item in value.__getstate__().items() if key not in omitted}, optional


def build_object(name: str, state: Mapping[str, Any]) -> Any:
    """Return an object of the class `name` with the given state, or raise.

    >>> build_object("Standardization", {"mean": 0.0, "scale": 1.0, "mask": True})
    Standardization(mean=0.0, scale=1.0, mask=True)
    >>> build_object("Standardization", {"mean": 0.0})
    Traceback (most recent call last):
    ValueError: Standardization has mean, but this version expects mean, scale, mask
    """
    cls = class_by_name(name)
    if cls is MLP:
        sizes, weights = state["sizes"], state["weights"]
        shapes = [shape for n_in, n_out in pairwise(sizes) for shape in ((n_out, n_in), (n_out,))]
        if not weights or [tuple(weight.shape) for weight in weights] != shapes:
            raise ValueError(f"the network has layers of sizes {sizes}, but weights of other shapes")
        network = MLP(sizes[0], sizes[-1], sizes[1:-1], seed=0, dtype=weights[0].dtype)
        network.load_state_dict(dict(zip(network.state_dict(), weights, strict=True)))
        return network
    if cls is Ensemble:
        return Ensemble(**state)
    if cls is ColumnTransformer:
        return build_preprocessing(state)
    if issubclass(cls, Distribution):
        distribution: Any = object.__new__(cls)
        vars(distribution).update({key: torch.Size(v) if isinstance(v, tuple) else v for key, v in state.items()})
        return distribution
    if issubclass(cls, tuple) or (is_dataclass(cls) and not issubclass(cls, BaseEstimator)):
        names = tuple(signature(cls).parameters)
        if set(state) != set(names):
            raise ValueError(f"{name} has {', '.join(state)}, but this version expects {', '.join(names)}")
        return cls(**state)
    # The state of an estimator is its parameters, where absent ones have their defaults, and its fitted attributes.
    by_name = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    defaults = {p.name: p.default for p in signature(cls).parameters.values() if p.kind in by_name}
    for attribute in set(state) - set(defaults):
        # A file must not replace a method or property of the class.
        if not ATTRIBUTE_NAME.fullmatch(attribute) or hasattr(cls, attribute):
            raise ValueError(f"{name} has {attribute!r}, which is not a fitted attribute of this version")
    absent = {parameter: default for parameter, default in defaults.items() if parameter not in state}
    if Parameter.empty in absent.values() or not state.keys().isdisjoint(NEVER_SAVED.get(name, ())):
        raise ValueError(f"{name} does not have the parameters of this version")
    result: Any = object.__new__(cls)
    for attribute, value in {**absent, **state}.items():
        setattr(result, attribute, value)
    return result


def preprocessing_state(columns: ColumnTransformer) -> dict[str, Any]:
    """Return the state of a fitted preparation of `genlabel.data.tables.table_pipeline`, or raise.

    It has the names of all columns, the median of each column of numbers, and for each column of strings two lists, the
    frequent values, which have a column of their own, and the rare ones, which share one, and the share of new rows
    that are expected to have another value.

    >>> X = pd.DataFrame({"size": [1.0, None, 3.0], "color": ["red", "blue", None]})
    >>> preprocessing_state(table_pipeline(X, "passthrough")[:-1].fit(X)[0])
    {'names': ['size', 'color'], 'numbers': {'size': 2.0}, 'text': {'color': [['(missing)', 'blue', 'red'], []]},
     'new_shares': {'color': 1.0}}
    """
    names = list(getattr(columns, "feature_names_in_", ()))
    if not names:
        raise PersistenceError("the columns of the table have no names; fit with X.columns = X.columns.astype(str)")
    state = {"names": names, **_learned(columns)}
    copy = build_preprocessing(state)
    if (
        repr(copy.get_params(deep=False)) != repr(columns.get_params(deep=False))
        or copy.get_feature_names_out().tolist() != columns.get_feature_names_out().tolist()
        or _learned(copy) != _learned(columns)
    ):
        raise PersistenceError("this ColumnTransformer cannot be saved; use one of genlabel.data.tables.table_pipeline")
    return state


def build_preprocessing(state: Mapping[str, Any]) -> ColumnTransformer:
    """Return the preparation with a state, fitted to a table with the same medians and categories.

    In this table a column of numbers has its median once; a column of strings has its frequent values twice, and the
    rare ones once.
    """
    strings = {name: [*frequent, *frequent, *rare] for name, (frequent, rare) in state["text"].items()}
    n = max([1, *map(len, strings.values())])
    table: dict[str, Any] = {}
    for name in state["names"]:
        if name in state["numbers"]:
            table[name] = np.r_[float(state["numbers"][name]), np.full(n - 1, np.nan)]
        elif name in strings:
            values = strings[name]
            padding = values[:1] * (n - len(values))
            table[name] = pd.Categorical([*values, *padding])  # even if they look like numbers or dates
        else:
            table[name] = pd.Series(pd.Timestamp(0)).repeat(n).to_numpy()  # a date, which is left out
    frame = pd.DataFrame(table)
    fitted: ColumnTransformer = table_pipeline(frame, "passthrough")[:-1].fit(frame).steps[0][1]
    for kind, part, names in fitted.transformers_:
        if kind == "text":
            part.steps[-1][1].new_shares_ = [float(state.get("new_shares", {}).get(name, 0.0)) for name in names]
    return fitted


def _learned(columns: ColumnTransformer) -> dict[str, Any]:
    """Return the medians of columns of numbers, and the values and the shares of new values of those of strings."""
    result: dict[str, Any] = {"numbers": {}, "text": {}, "new_shares": {}}
    for kind, part, names in columns.transformers_:
        if kind not in result or not isinstance(part, Pipeline) or not len(names):
            continue
        last: Any = part.steps[-1][1]
        if kind == "numbers":
            learned: list[Any] = [float(median) for median in getattr(last, "statistics_", ())]
        else:
            categories = [values.tolist() for values in getattr(last, "categories_", ())]
            infrequent = getattr(last, "infrequent_categories_", [None] * len(categories))
            rare = [[] if values is None else values.tolist() for values in infrequent]
            pairs = zip(categories, rare, strict=True)
            learned = [[[value for value in values if value not in few], few] for values, few in pairs]
            result["new_shares"] = dict(zip(map(str, names), getattr(last, "new_shares_", ()), strict=False))
        result[kind] = dict(zip(map(str, names), learned, strict=True))
    return result
