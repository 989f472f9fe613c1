"""State of an object of an allowed class as a dictionary, and the object from that dictionary.

A table preparation is saved as what it has learned, medians and categories, and fitted to a table that teaches it the
same: nothing of scikit-learn's inner state is saved, so that a model can be loaded with another version of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from inspect import Parameter, signature
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from torch import nn

from genlabel.data.tables import table_pipeline
from genlabel.persistence.classes import (
    ALL_PARAMETERS,
    NEVER_SAVED,
    OPTIONAL,
    PersistenceError,
    class_by_name,
    saved_name,
)
from genlabel.training.networks import MLP, Ensemble

ATTRIBUTE_NAME = re.compile(r"_?[A-Za-z][A-Za-z0-9_]*")


def get_state(value: Any) -> dict[str, Any]:
    """Return all that an object of an allowed class needs to be built again, by name.

    >>> get_state(MLP(2, 3, seed=0))["sizes"]
    [2, 3]
    """
    if isinstance(value, MLP):
        weights = [cast(nn.Linear, layer).weight for layer in value.layers]
        sizes = [weights[0].shape[1], *(weight.shape[0] for weight in weights)]
        return {"sizes": sizes, "weights": [parameter.detach() for parameter in value.parameters()]}
    if isinstance(value, Ensemble):
        names = [name for name in signature(Ensemble.__init__).parameters if name not in ("self", "networks")]
        return {"networks": list(value.networks), **{name: getattr(value, name) for name in names}}
    if isinstance(value, ColumnTransformer):
        return preprocessing_state(value)
    if isinstance(value, tuple):
        return dict(cast(Any, value)._asdict())
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    omitted = ("_sklearn_version", *NEVER_SAVED.get(cast(str, saved_name(type(value))), ()))
    return {name: item for name, item in value.__getstate__().items() if name not in omitted}


def optional_names(name: str, value: Any) -> set[str]:
    """Return the names of the state of an object that may be omitted if it cannot be written."""
    optional = set(OPTIONAL.get(name, ()))
    return optional | set(value.get_params(deep=False)) if ALL_PARAMETERS in optional else optional


def build_object(name: str, state: Mapping[str, Any]) -> Any:
    """Return the object of the class of that name with that state, or raise.

    >>> build_object("Standardization", {"mean": 0.0, "scale": 1.0, "keep": True})
    Standardization(mean=0.0, scale=1.0, keep=True)
    >>> build_object("Standardization", {"mean": 0.0})
    Traceback (most recent call last):
    ValueError: its Standardization has mean, but this version has mean, scale, keep
    """
    cls = class_by_name(name)
    if cls is MLP:
        return _build_mlp(**state)
    if cls is Ensemble:
        return Ensemble(**state)
    if cls is ColumnTransformer:
        return build_preprocessing(state)
    if issubclass(cls, tuple) or is_dataclass(cls):
        names = cast(Any, cls)._fields if issubclass(cls, tuple) else tuple(field.name for field in fields(cls))
        if set(state) != set(names):
            raise ValueError(f"its {name} has {', '.join(state)}, but this version has {', '.join(names)}")
        return cls(**state)
    return _build_estimator(cls, name, state)


def _build_mlp(sizes: list[int], weights: list[torch.Tensor]) -> MLP:
    shapes = [shape for n_in, n_out in pairwise(sizes) for shape in ((n_out, n_in), (n_out,))]
    if not weights or [tuple(weight.shape) for weight in weights] != shapes:
        raise ValueError(f"its network has layers of sizes {sizes}, but weights of other shapes")
    network = MLP(sizes[0], sizes[-1], sizes[1:-1], seed=0, dtype=weights[0].dtype)
    network.load_state_dict(dict(zip(network.state_dict(), weights, strict=True)))
    return network


def _build_estimator(cls: type[Any], name: str, state: Mapping[str, Any]) -> Any:
    """Set parameters, absent ones to their defaults, and fitted attributes."""
    defaults = {
        parameter.name: parameter.default
        for parameter in signature(cls.__init__).parameters.values()
        if parameter.name != "self" and parameter.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    }
    for attribute in set(state) - set(defaults):
        # A fitted attribute is not a method or property of the class, so a file cannot replace one of these.
        if not ATTRIBUTE_NAME.fullmatch(attribute) or hasattr(cls, attribute):
            raise ValueError(f"its {name} has {attribute!r}, which is not a fitted attribute of this version")
    absent = {parameter for parameter in defaults if parameter not in state}
    if any(defaults[parameter] is Parameter.empty for parameter in absent) or any(
        parameter in state for parameter in NEVER_SAVED.get(name, ())
    ):
        raise ValueError(f"its {name} does not have the parameters of this version")
    result: Any = object.__new__(cls)
    for attribute, value in {**{parameter: defaults[parameter] for parameter in absent}, **state}.items():
        setattr(result, attribute, value)
    return result


def preprocessing_state(columns: ColumnTransformer) -> dict[str, Any]:
    """Return what a fitted preparation of `genlabel.data.tables.table_pipeline` has learned, or raise.

    It is the names of all columns; the median of each column of numbers; and of each column of strings the frequent
    values, which have a column of their own, and the rare ones, which share one.

    >>> X = pd.DataFrame({"size": [1.0, None, 3.0], "color": ["red", "blue", None]})
    >>> preprocessing_state(table_pipeline(X, "passthrough")[:-1].fit(X)[0])
    {'names': ['size', 'color'], 'numbers': {'size': 2.0}, 'text': {'color': [['(missing)', 'blue', 'red'], []]}}
    """
    state: dict[str, Any] = {"names": list(getattr(columns, "feature_names_in_", ())), "numbers": {}, "text": {}}
    if not state["names"]:
        raise PersistenceError("the columns of the table have no names; fit with X.columns = X.columns.astype(str)")
    for kind, part, names in columns.transformers_:
        if kind in ("numbers", "text") and isinstance(part, Pipeline) and len(names):
            learned = _medians(part) if kind == "numbers" else _values(part)
            state[kind] = dict(zip(map(str, names), learned, strict=True))
    copy = build_preprocessing(state)
    if (
        repr(copy.get_params(deep=False)) != repr(columns.get_params(deep=False))
        or copy.get_feature_names_out().tolist() != columns.get_feature_names_out().tolist()
        or _learned(copy) != _learned(columns)
    ):
        raise PersistenceError(
            "the ColumnTransformer is not one of genlabel.data.tables.table_pipeline; others cannot be saved"
        )
    return state


def build_preprocessing(state: Mapping[str, Any]) -> ColumnTransformer:
    """Return a preparation that is fitted to a table with the same medians and categories.

    A column of numbers has its median once; a column of strings its frequent values twice, and the rare ones once.
    """
    strings = {name: [*frequent, *frequent, *rare] for name, (frequent, rare) in state["text"].items()}
    n = max([1, *map(len, strings.values())])
    table: dict[str, Any] = {}
    for name in state["names"]:
        if name in state["numbers"]:
            table[name] = np.r_[float(state["numbers"][name]), np.full(n - 1, np.nan)]
        elif name in strings:
            # Categories are strings, also where they look like numbers or dates.
            table[name] = pd.Categorical([*strings[name], *strings[name][:1] * (n - len(strings[name]))])
        else:
            table[name] = pd.Series(pd.Timestamp(0)).repeat(n).to_numpy()  # a date, which is left out
    frame = pd.DataFrame(table)
    fitted: ColumnTransformer = table_pipeline(frame, "passthrough")[:-1].fit(frame).steps[0][1]
    return fitted


def _medians(pipeline: Pipeline) -> list[float]:
    return [float(median) for median in getattr(pipeline.steps[-1][1], "statistics_", ())]


def _values(pipeline: Pipeline) -> list[list[list[str]]]:
    """Return the frequent and the rare values of each column, in the order of the encoder."""
    encoder = pipeline.steps[-1][1]
    categories = getattr(encoder, "categories_", ())
    rare = getattr(encoder, "infrequent_categories_", [None] * len(categories))
    pairs = [(all_.tolist(), [] if few is None else few.tolist()) for all_, few in zip(categories, rare, strict=True)]
    return [[[value for value in values if value not in set(few)], few] for values, few in pairs]


def _learned(columns: ColumnTransformer) -> list[Any]:
    return [(_medians(part), _values(part)) for _, part, _ in columns.transformers_ if isinstance(part, Pipeline)]
